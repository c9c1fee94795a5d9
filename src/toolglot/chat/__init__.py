"""`toolglot chat`: a conversation in a terminal, with any configured model and the tools of MCP servers.

What is said and how it looks is decided by pure functions (`conversation`, `commands`, `markdown`, `render`, `export`);
`session` asks models and runs tools in an event loop; `terminal` has the keyboard and the screen, in another thread.
"""
