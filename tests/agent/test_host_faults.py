"""Servers that die, hang, flood and lie: calls end, the server is started again, and nobody else notices."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import signal
import time
from typing import Any

import pytest

from tests.agent.hosting import PATIENT, QUICK, SECRET, children, hosting, lives, run, text_of, until, wayward
from tests.waiting import FAILSAFE
from toolglot.agent.host import McpHost
from toolglot.agent.server_records import HostTimings, ToolFailedError
from toolglot.config.schema import McpServerConfig


async def failure(host: McpHost, tool: str, server: str = "a") -> str:
    with pytest.raises(ToolFailedError) as caught:
        await host.call(server, tool, {})
    return str(caught.value)


async def test_a_server_that_is_killed_is_started_again_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with hosting(a=wayward(), b=wayward()) as host:
        first, other = [int(text_of(await host.call(name, "pid", {})).split()[0]) for name in "ab"]
        hanging = asyncio.create_task(host.call("a", "hang", {}))
        await asyncio.sleep(0)
        os.kill(first, signal.SIGKILL)
        with pytest.raises(ToolFailedError, match="ended before it had answered"):
            await hanging
        await until(lambda: host.state("a").restarts == 1 and host.state("a").state == "ready")
        second = int(text_of(await host.call("a", "pid", {})).split()[0])
        assert second != first
        assert text_of(await host.call("b", "pid", {})).startswith(str(other))
        assert host.state("b").restarts == 0
        assert len(host.tools("a")) == 2
    assert not lives(second)
    assert not lives(other)
    assert "MCP server a: it was ended by SIGKILL; trying again in 0.01 s" in caplog.text


async def test_what_a_server_said_last_is_told_without_secrets_and_escapes(caplog: pytest.LogCaptureFixture) -> None:
    async with hosting(PATIENT, a=wayward()) as host:
        assert "ended before it had answered" in await failure(host, "die")
        await until(lambda: host.state("a").state == "waiting")
        state = host.state("a")
        assert state.why == "it ended with exit code 7"
        assert state.log == "fatal: key [redacted]"
        assert "exit code 7" in await failure(host, "pid")
        assert host.tools("a") == ()
    (record,) = caplog.records
    assert record.name == "toolglot.agent"
    assert record.levelno == logging.WARNING
    assert record.getMessage().endswith("standard error:\nfatal: key [redacted]")
    assert SECRET not in caplog.text


CANNOT_START = {
    "it exits": (wayward("exit"), "it ended with exit code 3"),
    "there is no such program": (McpServerConfig(command="no-such-program-here"), "there is no program"),
    "there is no such file": (McpServerConfig(command="/no/such/program"), "No such file"),
    "there is no such folder": (wayward(cwd="/no/such/folder"), "No such file"),
    "it never answers": (wayward("mute", start_timeout=0.2), "did not answer within 0.2 seconds"),
    "its list is none": (wayward("bad_list"), "it sent invalid MCP:  tools: this array"),
    "a variable has a NUL": (wayward(env={"A": "b\0c"}), "null byte"),
}


@pytest.mark.parametrize(("config", "why"), CANNOT_START.values(), ids=CANNOT_START)
async def test_a_server_that_cannot_be_started_is_tried_again(config: McpServerConfig, why: str) -> None:
    before = children()
    async with hosting(QUICK, a=config, b=wayward()) as host:
        await until(lambda: why in (host.state("a").why or ""))
        await until(lambda: host.state("a").restarts >= 2)
        assert "is not running" in await failure(host, "pid")
        assert text_of(await host.call("b", "pid", {}))
    assert [state.state for state in host.states()] == ["closed", "closed"]
    await until(lambda: children() <= before)  # the event loop reaps what was killed


async def test_the_pause_before_a_restart_doubles_up_to_a_limit_and_begins_anew_after_a_steady_life(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seconds = iter(range(0, 10_000, 1))
    steady = HostTimings(first=0.001, longest=0.004, steady=1e9)
    host = McpHost({"a": McpServerConfig(command="no-such-program")}, pace=steady, clock=lambda: next(seconds))
    await host.start()
    await until(lambda: host.state("a").restarts >= 4)
    await host.close()
    pauses = [record.getMessage().partition("again in ")[2] for record in caplog.records]
    assert pauses[:4] == ["0.001 s", "0.002 s", "0.004 s", "0.004 s"]
    caplog.clear()
    host = McpHost(
        {"a": McpServerConfig(command="no-such-program")},
        pace=HostTimings(first=0.001, steady=1.0),
        clock=lambda: next(seconds),
    )
    await host.start()
    await until(lambda: host.state("a").restarts >= 3)
    await host.close()
    assert {record.getMessage().partition("again in ")[2] for record in caplog.records} == {"0.001 s"}


async def test_a_restart_is_waited_for_only_when_it_comes_soon() -> None:
    """A server that dies again and again has pauses of up to half a minute, and no request waits for those."""
    async with hosting(HostTimings(first=0.2, grace=0.2, settle=0.01), a=wayward()) as host:
        states = []
        for _ in range(2):
            await failure(host, "die")
            await until(lambda: host.state("a").state != "ready")
            await host.ready(["a"])
            states.append(host.state("a").state)
        assert states == ["ready", "waiting"]


async def test_the_escapes_of_a_server_that_cannot_start_reach_no_log(caplog: pytest.LogCaptureFixture) -> None:
    async with hosting(PATIENT, a=wayward("exit")) as host:
        assert host.state("a").log == "cannot start"
    assert "\x1b" not in caplog.text
    assert "\x00" not in caplog.text


FAILURES = {
    "no_result": "the answer is not JSON-RPC",
    "deep": "the answer is not JSON-RPC",
    "deep_last": "the answer is not JSON-RPC",
    "not_mcp": "it sent invalid MCP:  content",
    "error": "no [redacted] xxx",
}


@pytest.mark.parametrize(("tool", "told"), FAILURES.items(), ids=FAILURES)
async def test_an_answer_that_is_none_is_a_failed_call_and_the_server_lives_on(tool: str, told: str) -> None:
    async with hosting(a=wayward()) as host:
        said = await failure(host, tool)
        assert told in said
        assert len(said) <= 500
        assert said.isprintable()
        assert text_of(await host.call("a", "pid", {}))
        assert host.state("a").restarts == 0


@pytest.mark.parametrize("tool", ["hang", "wrong_id", "progress"])
async def test_a_call_without_an_answer_ends_in_time_and_its_server_is_told(tool: str) -> None:
    async with hosting(a=wayward(timeout=0.3)) as host:
        began = time.monotonic()
        with pytest.raises(ToolFailedError, match=r"did not answer within 0\.3 seconds"):
            await host.call("a", tool, {}, on_progress=lambda *_: None)
        assert time.monotonic() - began < FAILSAFE / 2
        if tool != "progress":
            await host.update({"a": wayward()})  # with time enough for a busy machine
            heard = text_of(await host.call("a", "heard", {}))
            assert heard.endswith("notifications/cancelled tools/call")


async def test_a_call_whose_caller_is_cancelled_is_cancelled_at_the_server() -> None:
    async with hosting(a=wayward()) as host:
        calling = asyncio.create_task(host.call("a", "hang", {}))
        await host.call("a", "pid", {})
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert text_of(await host.call("a", "heard", {})).endswith("notifications/cancelled tools/call")


async def test_a_call_that_asks_for_input_fails() -> None:
    async with hosting(a=wayward("stateless")) as host:
        assert host.state("a").protocol == "2026-07-28"
        assert "asks for input, but there is no user to provide it" in await failure(host, "input")


@pytest.mark.parametrize("arguments", [{"text": "\ud800"}, {"\udfff": 1}])
async def test_arguments_that_no_json_can_hold_end_their_call_alone(arguments: dict[str, Any]) -> None:
    async with hosting(a=wayward()) as host:
        hanging = asyncio.create_task(host.call("a", "hang", {}))
        with pytest.raises(ToolFailedError, match="the arguments cannot be written as JSON"):
            await host.call("a", "pid", arguments)
        assert text_of(await host.call("a", "pid", {}))
        assert not hanging.done()
        hanging.cancel()


USABLE = {"good", "empty", "null", "go", "union", "boolean", "tuple", "deep", "output", "no_schema", "last"}


@pytest.mark.parametrize("generation", [(), ("stateless",)], ids=["handshake", "stateless"])
async def test_definitions_that_are_none_are_left_out_and_the_others_are_there(
    generation: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    async with hosting(a=wayward("odd_list", *generation)) as host:
        tools = {tool.name: tool.tool for tool in host.tools("a")}
        assert set(tools) == USABLE
        assert all(tool.parameters["type"] == "object" for tool in tools.values())
        assert tools["go"].parameters == tools["union"].parameters == tools["empty"].parameters == {"type": "object"}
        assert "outputSchema" not in tools["output"].native["mcp"]
        assert text_of(await host.call("a", "empty", {}))
    (record,) = caplog.records
    told = record.getMessage()
    assert told.startswith("MCP server a: tools are left out: string (its inputSchema does not describe an object); ")
    assert "required_text (its schema is wrong at /required: this is not a list of strings)" in told
    assert told.endswith("and 7 more")


async def test_tools_whose_headers_must_not_be_sent_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    async with hosting(a=wayward("headers", "stateless")) as host:
        assert [tool.name for tool in host.tools("a")] == ["fine"]
    assert "tools are left out: wrong (its x-mcp-header is not valid)" in caplog.text


async def test_a_result_with_blocks_that_nobody_knows_comes_as_it_is() -> None:
    async with hosting(a=wayward()) as host:
        result = await host.call("a", "odd", {})
        assert [block["type"] for block in result["content"]] == ["hologram", "image", "text"]
        assert result["content"][0] == {"type": "hologram", "data": 7}
        assert result["structuredContent"] == [1]


CREDENTIALS = {
    "API_KEY": "sk-canary-111111",
    "GITHUB_PAT": "ghp_canary_222222",
    "SHORT_TOKEN": "abc123",
    "SSH_PASSPHRASE": 'canary "phrase" 4',
    "SENTRY_DSN": "https://canary@sentry.example/5",
    "PRIVATE_PEM": "-----BEGIN-----\ncanary+line+number+one\ncanary+line+number+two\n",
    "smtpPass": "canary-66",
}


async def test_neither_results_nor_definitions_show_a_credential_of_the_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ordinary = {"FOLDER": "/somewhere", "GIT_AUTHOR_NAME": "Somebody Known", "AUTH_MODE": "bearer"}
    addresses = {"DATABASE_URL": "postgres://reader:canary%2F33@host/base"}
    async with hosting(a=wayward("telling", env={**CREDENTIALS, **ordinary, **addresses})) as host:
        said = text_of(await host.call("a", "environment", {}))
        seen = json.loads(said)
        assert {name: seen[name] for name in ordinary} == ordinary
        assert seen["DATABASE_URL"] == "postgres://reader:[redacted]@host/base"
        assert {seen[name] for name in CREDENTIALS} == {"[redacted]"}
        echoed = await host.call("a", "pid", {"a": "canary+line+number+two", "b": "canary/33"})
        assert "canary" not in text_of(echoed)
        (tool,) = host.tools("a")
        assert tool.tool.description == "uses [redacted]"
        assert tool.tool.parameters["properties"]["a"]["default"] == "[redacted]"
    (record,) = caplog.records
    assert record.getMessage() == "MCP server a: tools whose names contain one of its credentials are left out"


async def test_a_result_shows_no_credential_of_the_server() -> None:
    async with hosting(a=wayward(env={"API_KEY": SECRET, "FOLDER": "/somewhere", "SECRET": "none"})) as host:
        said = text_of(await host.call("a", "pid", {"a": f"Bearer {SECRET}", SECRET: "/somewhere"}))
        assert said.partition(" ")[2] == "{'a': 'Bearer [redacted]', '[redacted]': '/somewhere'}"


async def test_structured_content_that_does_not_fit_its_schema_is_passed_on_with_unknown_fields() -> None:
    async with hosting(a=wayward()) as host:
        result = await host.call("a", "lie", {})
        assert result == {
            "content": [{"type": "text", "text": "three"}],
            "structuredContent": {"sum": "three"},
            "later": {"a": [None]},
        }


async def test_text_in_another_encoding_is_shown_as_far_as_it_can_be_read() -> None:
    async with hosting(a=wayward()) as host:
        assert text_of(await host.call("a", "latin", {})) == "\ufffd"


async def test_a_server_that_asks_for_a_model_is_told_that_there_is_none() -> None:
    async with hosting(a=wayward()) as host:
        assert "not supported" in text_of(await host.call("a", "ask", {}))


async def test_a_line_without_end_ends_the_server_and_the_call() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with hosting(a=wayward()) as host:
        assert "ended before it had answered" in await failure(host, "long_line")
        await until(lambda: host.state("a").restarts == 1 and host.state("a").state == "ready")
        assert text_of(await host.call("a", "pid", {}))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64_000


FLOODS = ["flood", "change_flood", "request_flood", "babble", "shout"]


@pytest.mark.parametrize(
    ("tool", "loop"), [*((tool, "asyncio") for tool in FLOODS), ("flood", "uvloop"), ("shout", "uvloop")]
)
def test_a_flood_takes_neither_memory_nor_the_event_loop(tool: str, loop: str) -> None:
    async def flooded() -> tuple[float, int]:
        async with hosting(a=wayward(), b=wayward()) as host:
            assert text_of(await host.call("a", tool, {})) == "here it comes"
            await host.call("b", "pid", {})
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            began = time.monotonic()
            for _ in range(15):
                await host.call("b", "pid", {})
                await asyncio.sleep(0.005)
            return time.monotonic() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    seconds, grown = run(flooded(), loop)
    assert seconds < FAILSAFE / 2
    assert grown < 8_000
    assert not children()


async def test_a_server_that_closes_its_output_is_ended_and_started_again() -> None:
    async with hosting(a=wayward()) as host:
        pid = int(text_of(await host.call("a", "pid", {})).split()[0])
        assert "ended before it had answered" in await failure(host, "close")
        await until(lambda: host.state("a").restarts == 1 and host.state("a").state == "ready")
        assert not lives(pid)


@pytest.mark.parametrize("behaviour", ["stubborn", "child"])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_nothing_is_left_of_a_server_that_does_not_want_to_end(behaviour: str, loop: str) -> None:
    async def ended() -> list[int]:
        async with hosting(a=wayward(behaviour)) as host:
            pids = [int(text_of(await host.call("a", "pid", {})).split()[0])]
            if behaviour == "child":
                await until(lambda: "child" in host.state("a").log)
                pids.append(int(host.state("a").log.split()[1]))
            return pids

    for pid in run(ended(), loop):
        assert not lives(pid)


async def test_a_dead_server_whose_child_holds_its_pipes_is_dead_all_the_same() -> None:
    async with hosting(a=wayward("child")) as host:
        pid = int(text_of(await host.call("a", "pid", {})).split()[0])
        await until(lambda: "child" in host.state("a").log)
        child = int(host.state("a").log.split()[1])
        os.kill(pid, signal.SIGKILL)
        await until(lambda: host.state("a").restarts == 1)
        assert not lives(child)


async def test_lines_that_are_no_messages_are_passed_over_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with hosting(a=wayward("banner")) as host:
        assert host.state("a").state == "ready"
    (record,) = caplog.records
    assert record.getMessage() == "MCP server a writes lines that are not MCP to its output, as Welcome!"


async def test_a_server_that_does_not_survive_the_question_for_its_generation_is_not_asked_again() -> None:
    async with hosting(a=wayward("shy")) as host:
        await until(lambda: host.state("a").state == "ready")
        assert host.state("a").protocol == "2025-06-18"
        assert host.state("a").restarts == 1
        await failure(host, "die")
        await until(lambda: host.state("a").restarts == 2 and host.state("a").state == "ready")


async def test_closing_while_servers_start_leaves_nothing() -> None:
    before = children()
    host = McpHost({name: wayward("mute") for name in "abc"}, pace=QUICK)
    await host.start()
    await until(lambda: len(children() - before) == 3)
    await asyncio.gather(host.close(), host.close())
    assert children() <= before
    await host.close()
    await host.start()
    await host.update({"a": wayward()})
    assert {state.state for state in host.states()} == {"closed"}
