"""The host with servers as people write them, on their pipes and over HTTP, in both generations of the protocol."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.hosting import QUICK, everyday, everyday_over_http, hosting, lives, run, text_of, until, wayward, with_
from toolglot.agent.connection import MAX_PAGES, MAX_TOOLS
from toolglot.agent.host import McpHost
from toolglot.agent.server_records import ToolFailedError
from toolglot.config.schema import McpServerConfig
from toolglot.errors import MissingExtraError
from toolglot.ir import Media, Text
from toolglot.tools import mcp


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with everyday_over_http() as address:
        yield address


def config_of(way: str, address: str) -> McpServerConfig:
    if way == "stdio":
        return everyday()
    return McpServerConfig(url=address, headers={"authorization": "Bearer hush-4711-hush"})


GENERATIONS = {"stateless": "2026-07-28", "handshake": "2025-11-25"}


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_tools_are_listed_and_called(way: str, generation: str, address: str, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    async with hosting(a=with_(config_of(way, address), protocol=generation)) as host:
        await until(lambda: host.state("a").state == "ready")
        assert host.state("a").protocol == GENERATIONS[generation]
        await listed_as_they_are(host)
        await called(host)
        await cancelled(host, mark)
        await grown(host)
        with pytest.raises(ToolFailedError, match=r"Elicitation not supported|no back-channel"):
            await host.call("a", "ask", {})
        assert host.state("a").state == "ready"
    assert host.tools("a") == ()


async def listed_as_they_are(host: McpHost) -> None:
    tools = {tool.name: tool for tool in host.tools("a")}
    add = tools["add"]
    assert (add.server, add.read_only, add.destructive) == ("a", True, False)
    assert (tools["echo"].read_only, tools["echo"].destructive) == (False, False)
    assert (tools["fail"].read_only, tools["fail"].destructive) == (False, True)
    assert add.tool.description == "Adds two numbers."
    assert add.tool.parameters["properties"]["b"]["description"] == "the second number"
    assert add.tool.native["mcp"]["annotations"] == {"readOnlyHint": True, "title": "Adds"}
    assert add.tool.native["mcp"]["outputSchema"]["required"] == ["total"]


async def called(host: McpHost) -> None:
    result = await host.call("a", "add", {"a": 2, "b": 3})
    assert result["structuredContent"] == {"total": 5}
    picture = mcp.read_result(await host.call("a", "picture", {}), "id")
    assert isinstance(picture.content[0], Media)
    assert picture.content[0].source.media_type == "image/png"
    failed = mcp.read_result(await host.call("a", "fail", {}), "id")
    assert failed.is_error
    assert isinstance(failed.content[0], Text)
    both = await asyncio.gather(*(host.call("a", "echo", {"text": str(number)}) for number in range(20)))
    assert [text_of(result) for result in both] == [str(number) for number in range(20)]
    with pytest.raises(ToolFailedError, match="there is no MCP server 'b'"):
        await host.call("b", "add", {})


async def cancelled(host: McpHost, mark: Path) -> None:
    """The server's tool itself sees that nobody waits for it any more."""
    told: list[tuple[float, float | None, str | None]] = []
    begun = asyncio.Event()

    def progress(done: float, total: float | None, message: str | None) -> None:
        told.append((done, total, message))
        begun.set()

    arguments = {"seconds": 60, "mark": str(mark)}
    calling = asyncio.create_task(host.call("a", "slow", arguments, on_progress=progress))
    await begun.wait()
    assert told == [(1.0, 2.0, "half")]
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await until(mark.exists)


async def grown(host: McpHost) -> None:
    """A new tool is there without a restart."""
    before = {tool.name for tool in host.tools("a")}
    await host.call("a", "grow", {"name": f"grown_{len(before)}"})
    await until(lambda: f"grown_{len(before)}" in {tool.name for tool in host.tools("a")})
    assert host.state("a").restarts == 0


def test_a_server_finds_out_its_generation_and_sees_little_of_our_environment(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "hush-4711-hush")

    async def look() -> dict[str, str]:
        async with hosting(a=everyday(env={"GIVEN": "yes"}), b=McpServerConfig(url=address)) as host:
            await until(lambda: all(state.state == "ready" for state in host.states()))
            assert [state.protocol for state in host.states()] == ["2026-07-28"] * 2
            seen: dict[str, str] = (await host.call("a", "whoami", {}))["structuredContent"]
            return seen

    seen = run(look(), "uvloop")
    assert seen["GIVEN"] == "yes"
    assert seen["PATH"] == os.environ["PATH"]
    assert "OPENAI_API_KEY" not in seen
    assert not lives(int(seen["pid"]))


PAGES = {"pages": 5, "endless_pages": MAX_PAGES, "heavy_pages": 2, "many": MAX_TOOLS, "no_tools": 0}


@pytest.mark.parametrize(("behaviour", "tools"), PAGES.items(), ids=PAGES)
async def test_a_list_is_read_to_its_end_and_no_further_than_is_sane(behaviour: str, tools: int) -> None:
    async with hosting(a=wayward(behaviour)) as host:
        assert host.state("a").state == "ready"
        assert host.state("a").tools == len(host.tools("a")) == tools


async def test_an_update_leaves_those_alone_that_have_not_changed() -> None:
    host = McpHost({"same": wayward(), "other": wayward(), "gone": wayward()}, pace=QUICK)
    await host.start()
    await host.ready(["same", "other", "gone", "nobody"])
    pids = {name: text_of(await host.call(name, "pid", {})).split()[0] for name in ("same", "other", "gone")}
    await host.update(
        {"same": wayward(timeout=5.0, policy="auto"), "other": wayward("pages"), "new": wayward(start_timeout=20.0)}
    )
    await host.ready(["same", "other", "new"])
    assert [state.name for state in host.states()] == ["same", "other", "new"]
    assert text_of(await host.call("same", "pid", {})).split()[0] == pids["same"]
    assert text_of(await host.call("other", "pid", {})).split()[0] != pids["other"]
    assert len(host.tools("other")) == 5
    assert not lives(int(pids["gone"]))
    assert not lives(int(pids["other"]))
    await asyncio.gather(host.update({"same": wayward()}), host.update({}))
    assert host.states() == []
    assert host.tools("same") == ()
    assert not lives(int(pids["same"]))
    await host.close()


async def test_a_tool_of_a_server_that_was_replaced_is_not_called_at_the_new_one() -> None:
    async with hosting(a=wayward()) as host:
        before = host.tools("a")[0].generation
        assert text_of(await host.call("a", "pid", {}, generation=before))
        await host.update({"a": wayward(timeout=5.0)})
        assert text_of(await host.call("a", "pid", {}, generation=before))
        await host.update({"a": wayward("pages")})
        await host.ready(["a"])
        assert {tool.generation for tool in host.tools("a")} == {before + 1}
        with pytest.raises(ToolFailedError, match="MCP server a was replaced by another one meanwhile"):
            await host.call("a", "pid", {}, generation=before)
        assert text_of(await host.call("a", "heard", {})).count("tools/call") == 1
        assert text_of(await host.call("a", "pid", {}, generation=before + 1))


async def test_a_server_that_is_gone_from_the_configuration_is_closed() -> None:
    async with hosting(a=wayward()) as host:
        await host.update({})
        assert (host.state("a").state, host.state("a").why) == ("closed", "it is no longer configured")


async def test_without_the_sdk_servers_are_refused_with_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    await McpHost({}).start()
    host = McpHost({"a": wayward()})
    with pytest.raises(MissingExtraError, match="the extra `mcp`"):
        await host.start()
    await host.ready(["a"])
    await host.close()


async def test_an_sdk_that_cannot_be_used_is_told_as_the_reason(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "toolglot.agent.connection", None)
    async with hosting(a=wayward()) as host:
        assert "the package mcp cannot be used" in (host.state("a").why or "")
        with pytest.raises(ToolFailedError, match="is not running"):
            await host.call("a", "pid", {})
    assert "the package mcp cannot be used" in caplog.text


def test_the_host_is_imported_without_the_sdk() -> None:
    code = "import sys, toolglot.agent.host; print({'mcp', 'anyio', 'pydantic', 'httpx2'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
