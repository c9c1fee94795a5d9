"""toolglot as an MCP server: translation, the linter and the token counter as tools, and, if allowed, its models."""
