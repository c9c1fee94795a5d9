"""What is right and wrong on this machine, before anybody serves on it: findings, each with what to do about it.

`machine.py` looks at the machine itself, `upstreams.py` asks each upstream whether it is there and lets us in,
`mcp_servers.py` starts each MCP server, and `probes.py` finds out what a model can do, which costs tokens. `examine.py`
puts them together.
"""
