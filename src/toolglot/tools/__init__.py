"""Tools as others define them: MCP definitions and results <-> the IR."""
