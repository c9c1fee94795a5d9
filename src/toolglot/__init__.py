"""toolglot: a universal translator for LLM tool calls."""
