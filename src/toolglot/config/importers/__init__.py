"""Converts configurations of other gateways to toolglot's format."""
