"""Diagnose this machine before serving on it: findings, each with advice.

`machine.py` checks the machine itself, `upstreams.py` checks that each upstream is reachable and accepts the key,
`mcp_servers.py` starts each MCP server, and `probes.py` finds out what a model can do, which costs tokens. `examine.py`
combines them.
"""
