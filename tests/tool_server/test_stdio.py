"""The server on standard input and output: with the official client, and with a peer who means no good."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client

from tests.tool_server.peers import GENERATIONS, Lines, lines, over_stdio, talk, text_of
from toolglot.tool_server.arguments import MAX_DOCUMENT
from toolglot.tool_server.stdio import HEAD, MAX_MESSAGE
from toolglot.tool_server.stdio import LineReader as Reader

REQUEST = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hi"}], "logprobs": True}


@pytest.mark.parametrize("mode", GENERATIONS)
def test_the_official_client_uses_every_tool_in_both_generations(mode: str, tmp_path: Path) -> None:
    async def conversation(client: Client) -> None:
        assert client.protocol_version == GENERATIONS[mode]
        assert client.server_info is not None
        assert client.server_info.name == "toolglot"
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"translate", "lint_stream", "count_tokens", "list_dialects", "ask_model"}
        for name, tool in tools.items():
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint is (name != "ask_model")
            assert tool.annotations.open_world_hint is (name == "ask_model")
            assert tool.description
            assert tool.output_schema is not None
        assert "demo" in (tools["ask_model"].description or "")

        arguments: dict[str, Any] = {"from": "openai_chat", "to": "anthropic", "kind": "request", "document": REQUEST}
        done = await client.call_tool("translate", arguments)
        assert not done.is_error
        assert done.structured_content is not None
        assert done.structured_content["document"]["max_tokens"] == 8192
        assert "loss: logprobs" in text_of(done)

        refused = await client.call_tool("translate", {**arguments, "from": "openai"})
        assert refused.is_error
        assert "there is no dialect 'openai'; there are openai_chat" in text_of(refused)
        assert (await client.call_tool("translate", {})).is_error

        unknown = await client.call_tool("bake", {})
        assert unknown.is_error
        assert "there is no tool 'bake'; there are translate, " in text_of(unknown)

        counted = await client.call_tool("count_tokens", {"dialect": "openai_chat", "document": REQUEST})
        assert counted.structured_content is not None
        assert counted.structured_content["tokens"] > 0
        linted = await client.call_tool("lint_stream", {"dialect": "anthropic", "recording": "data: 1\n\n"})
        assert linted.structured_content is not None
        assert linted.structured_content["sound"] is False
        assert (await client.call_tool("list_dialects", {})).structured_content

        answer = await client.call_tool("ask_model", {"model": "demo", "prompt": "Hi"})
        assert answer.structured_content is not None
        assert answer.structured_content["text"].startswith("You said: “Hi”.")
        assert answer.structured_content["stop_reason"] == "end"
        assert answer.structured_content["usage"]["output_tokens"] > 0

    talk(over_stdio(tmp_path, "--allow-ask", "--no-discover", mode=mode), conversation)


def initialize(peer: Lines) -> None:
    info = {"name": "hostile", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
    assert "result" in peer.ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
    peer.write({"jsonrpc": "2.0", "method": "notifications/initialized"})


def calling(name: Any, arguments: Any, number: int = 7) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


def test_a_hostile_peer_is_answered_and_the_next_call_is_served(tmp_path: Path) -> None:
    with lines(tmp_path) as peer:
        for garbage in (b"\xff\xfe\x00", b"hello", b"[]", b"42", b"null", b'{"jsonrpc":"1.0"}'):
            answer = peer.ask(garbage)
            assert answer["id"] is None
            assert answer["error"]["code"] in (-32700, -32600)
        peer.write(b"")  # an empty line is nothing
        initialize(peer)

        deep = b'{"jsonrpc":"2.0","id":"deep","method":"tools/call","params":' + b"[" * 10_000 + b"]" * 10_000 + b"}"
        answer = peer.ask(deep)
        assert (answer["id"], answer["error"]["code"]) == ("deep", -32700)
        assert "recursion" in answer["error"]["message"]
        assert peer.ask(b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":')["id"] == 5

        huge = b'{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"a":"' + b"x" * MAX_MESSAGE + b'"}}'
        answer = peer.ask(huge)
        assert answer["id"] == 6
        assert f"more than {MAX_MESSAGE} bytes" in answer["error"]["message"]

        for wrong in (calling("translate", []), calling("translate", "x"), calling(3, {}), calling(None, None)):
            assert "error" in peer.ask(wrong)
        assert peer.ask({"jsonrpc": "2.0", "id": 7, "method": "bake"})["error"]["code"] == -32601
        assert peer.ask(calling("bake", {}))["result"]["isError"] is True
        assert peer.ask(calling("ask_model", {"model": "demo", "prompt": "Hi"}))["result"]["isError"] is True
        wrongs: list[dict[str, Any]] = [
            {"document": {"x": "y" * MAX_DOCUMENT}},
            {"document": "[" * 10_000},
            {"from": {"a": []}},
        ]
        for bad in wrongs:
            right = {"from": "openai_chat", "to": "gemini", "kind": "request", "document": REQUEST}
            result = peer.ask(calling("translate", {**right, **bad}))["result"]
            assert result["isError"] is True
            assert "structuredContent" not in result

        # And a document of full size goes through.
        text = '"' * (MAX_DOCUMENT // 2 - 1000)  # each is two bytes in JSON, and four in a string of JSON
        document = {"model": "m", "messages": [{"role": "user", "content": text}]}
        arguments = {"from": "openai_chat", "to": "gemini", "kind": "request", "document": document}
        result = peer.ask(calling("translate", arguments))["result"]
        assert result["structuredContent"]["document"]["contents"][0]["parts"] == [{"text": text}]
        assert len(result["content"][0]["text"]) < 101_000

        # Who writes his last call and closes the pipe still gets the answer.
        peer.write(calling("list_dialects", {}, 8))
        status, errors, rest = peer.finish()
    assert (status, errors) == (0, "")
    assert json.loads(rest)["id"] == 8


def read_all(data: bytes, limit: int) -> list[tuple[bytes, bool]]:
    source, target = os.pipe()
    os.write(target, data)
    os.close(target)
    reader = Reader(source, limit)
    found = []
    while (line := reader.next()) is not None:
        found.append((line.text, line.whole))
    os.close(source)
    return found


@given(st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")), max_size=8), st.booleans())
def test_lines_come_as_they_were_written(written: list[bytes], ended: bool) -> None:
    data = b"\n".join(written) + (b"\n" if ended and written else b"")
    expected = data.split(b"\n")
    expected = expected[:-1] if expected[-1] == b"" else expected
    assert read_all(data, 1000) == [(line, True) for line in expected]


def test_a_line_that_is_too_long_leaves_its_beginning_and_does_not_hurt_the_next() -> None:
    long = b"a" * 3000
    assert read_all(long + b"\nb\n" + long, 2000) == [(b"a" * HEAD, False), (b"b", True), (b"a" * HEAD, False)]
    assert read_all(b"a" * 2000 + b"\n", 2000) == [(b"a" * 2000, True)]
