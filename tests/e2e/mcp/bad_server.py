"""The misbehaving server, which here lists what its tools do wrong, so that a model can be offered them."""

from __future__ import annotations

from tests.agent.mcp_servers import wayward

if __name__ == "__main__":
    wayward.tools += ["hang", "not_mcp", "error", "die", "flood"]
    wayward.begin()
    wayward.serve()
