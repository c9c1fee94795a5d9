"""Configurations of other gateways, converted to ours."""
