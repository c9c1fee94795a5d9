"""Tests of the prices and of what an answer costs."""
