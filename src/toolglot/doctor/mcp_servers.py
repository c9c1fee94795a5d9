"""Check that each configured MCP server starts, and which of its tools the gateway would run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from toolglot.agent.host import McpHost
from toolglot.agent.policy import call_policy
from toolglot.agent.server_records import ServerState, ServerTool
from toolglot.config.schema import McpServerConfig
from toolglot.doctor.finding import Finding, fail, ok, warn
from toolglot.errors import MissingExtraError

CHECK = "mcp"


async def examine_servers(servers: Mapping[str, McpServerConfig]) -> list[Finding]:
    """Start or contact each server, and release it again."""
    if not servers:
        return []
    host = McpHost(servers)
    try:
        await host.start()
        await host.ready(servers)
        return [_finding(config, host.state(name), host.tools(name)) for name, config in servers.items()]
    except MissingExtraError as error:
        return [fail(CHECK, str(error))]
    finally:
        await host.close()


def _finding(config: McpServerConfig, state: ServerState, tools: tuple[ServerTool, ...]) -> Finding:
    if state.state != "ready":
        last = state.log.strip().splitlines()[-1:] or [""]
        advice = f"its last output: {last[0]}" if last[0] else "check its `command` or `url`"
        return fail(CHECK, state.why or "it did not respond in time", advice, state.name)
    counted = Counter(call_policy(config, tool) for tool in tools)
    what = f"{len(tools)} tools, MCP {state.protocol}: {counted['auto']} run automatically"
    if counted["ask"]:
        unasked = f"{what}, {counted['ask']} need approval, which the gateway cannot ask for"
        advice = (
            f'`policy = "auto"` under `mcp.servers.{state.name}`, or `alwaysAllow` in a file of `mcpServers`, lets the '
            "gateway run them"
        )
        return warn(CHECK, unasked, advice, state.name)
    return ok(CHECK, f"{what}, {counted['never']} never" if counted["never"] else what, state.name)
