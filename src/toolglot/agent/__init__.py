"""MCP servers and the loop that runs their tools: model, calls, results, and the model again, until the answer."""
