"""`toolglot chat`: a conversation in a terminal, with any configured model and the tools of MCP servers.

Pure functions decide the content and its appearance (`conversation`, `commands`, `markdown`, `render`, `export`);
`session` calls models and runs tools in an event loop; `terminal` has the keyboard and the screen, in another thread.
"""
