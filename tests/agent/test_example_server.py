"""The bundled MCP server, as the host finds it: each of its tools shows something else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from toolglot.agent.host import McpHost
from toolglot.chat.startup import EXAMPLE_SERVER, example_server


@asynccontextmanager
async def a_host() -> AsyncIterator[McpHost]:
    host = McpHost({EXAMPLE_SERVER: example_server()})
    await host.start()
    try:
        await host.ready([EXAMPLE_SERVER])
        yield host
    finally:
        await host.close()


def text_of(result: dict[str, Any]) -> str:
    return "\n".join(block["text"] for block in result["content"])


async def _use(host: McpHost) -> None:
    hints = {tool.name: (tool.read_only, tool.destructive) for tool in host.tools(EXAMPLE_SERVER)}
    assert hints.pop("add_note") == (False, False)
    assert set(hints.values()) == {(True, False)}
    assert text_of(await host.call(EXAMPLE_SERVER, "weather", {"city": " oslo "})).endswith("6 °C, sleet, a fresh wind")
    assert (await host.call(EXAMPLE_SERVER, "weather", {"city": "Atlantis"}))["isError"] is True
    assert "Asia/Tokyo" in text_of(await host.call(EXAMPLE_SERVER, "local_time", {"city": "Tokyo"}))
    rolled = (await host.call(EXAMPLE_SERVER, "roll_dice", {"count": 5, "sides": 3}))["structuredContent"]["result"]
    assert len(rolled) == 5
    assert set(rolled) <= {1, 2, 3}
    assert (await host.call(EXAMPLE_SERVER, "roll_dice", {"count": 10_000}))["isError"] is True
    assert text_of(await host.call(EXAMPLE_SERVER, "list_notes", {})) == "There are no notes."
    assert text_of(await host.call(EXAMPLE_SERVER, "add_note", {"text": "milk"})) == "Note 1 is kept."
    assert text_of(await host.call(EXAMPLE_SERVER, "list_notes", {})) == "1. milk"
    assert (await host.call(EXAMPLE_SERVER, "weigh_parcel", {}))["isError"] is True
    heard: list[tuple[float, float | None, str | None]] = []
    counted = await host.call(
        EXAMPLE_SERVER, "count_down", {"steps": 2, "seconds": 0}, on_progress=lambda *told: heard.append(told)
    )
    assert text_of(counted) == "Counted down from 2."
    assert heard == [(0, 2, "2 to go"), (1, 2, "1 to go")]


def test_its_tools_do_what_they_say() -> None:
    async def run() -> None:
        async with a_host() as host:
            await _use(host)

    asyncio.run(run())
