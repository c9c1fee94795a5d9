"""MCP servers and the loop that runs their tools: model, calls, results, model again, until the answer."""
