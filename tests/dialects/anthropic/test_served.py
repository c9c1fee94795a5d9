"""MCP tools that are run on the way, as clients of the Messages API ask for them, see them, and send them back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from tests.dialects.served_rounds import (
    Round,
    answer,
    expected_turns,
    known_as,
    model_request,
    rounds,
    stream_frames,
    told,
    turns,
    written,
)
from toolglot.dialects.anthropic.dialect import ANTHROPIC
from toolglot.dialects.anthropic.served import SERVED
from toolglot.errors import DecodeError
from toolglot.events import Open
from toolglot.ir import Cache, Media, Message, Opaque, Request, Source, Text, Thinking, Tool, ToolCall, ToolResult
from toolglot.tools.served import AskedServer, RestoredHistory, ServedCall, ServedRequest, ToolSelection

USER = {"role": "user", "content": "Hi"}


def decode_fields(**fields: Any) -> Request:
    return ANTHROPIC.decode_request(json.dumps({"model": "m", "max_tokens": 1, "messages": [USER], **fields}).encode())


def extract_servers(**fields: Any) -> ServedRequest:
    return SERVED.read_servers(decode_fields(**fields))


def server(**fields: Any) -> dict[str, Any]:
    return {"type": "url", "name": "files", "url": "https://x/mcp", **fields}


def toolset(**fields: Any) -> dict[str, Any]:
    return {"type": "mcp_toolset", "mcp_server_name": "files", **fields}


# ── What a request asks for ──────────────────────────────────────────────────────────────────────────────────────────

OFF, ON = {"enabled": False}, {"enabled": True}
SERVERS: list[tuple[str, dict[str, Any], list[dict[str, Any]], dict[str, Any]]] = [
    ("the older version: no toolset", {}, [], {}),
    ("credentials", {"authorization_token": "secret"}, [], {"credentials": True}),
    ("some tools", {"tool_configuration": {"allowed_tools": ["a"]}}, [], {"allowed": ToolSelection(names=("a",))}),
    ("switched off", {"tool_configuration": OFF | {"allowed_tools": ["a"]}}, [], {"allowed": ToolSelection(names=())}),
    ("all tools", {"tool_configuration": ON}, [], {}),
    ("a toolset", {}, [toolset()], {}),
    ("a toolset with nulls", {"tool_configuration": None}, [toolset(default_config=None, configs=None)], {}),
    (
        "all but one",
        {},
        [toolset(default_config={"defer_loading": True}, configs={"a": OFF, "b": ON, "c": {"defer_loading": True}})],
        {"refused": ("a",)},
    ),
    (
        "none but one",
        {},
        [toolset(default_config=OFF, configs={"a": OFF, "b": ON})],
        {"allowed": ToolSelection(names=("b",))},
    ),
    ("none", {}, [toolset(default_config=OFF)], {"allowed": ToolSelection(names=())}),
    (
        "both versions",
        {"tool_configuration": {"allowed_tools": ["b", "c"]}},
        [toolset(default_config=OFF, configs={"a": ON, "b": ON})],
        {"allowed": ToolSelection(names=("b",))},
    ),
]


@pytest.mark.parametrize(
    ("fields", "toolsets", "expected"), [case[1:] for case in SERVERS], ids=[case[0] for case in SERVERS]
)
def test_a_server_is_read(fields: dict[str, Any], toolsets: list[dict[str, Any]], expected: dict[str, Any]) -> None:
    request = decode_fields(mcp_servers=[server(**fields)], tools=toolsets)
    before = repr(request)
    found = SERVED.read_servers(request)
    whole = AskedServer(label="files", where="mcp_servers[0]", url="https://x/mcp")
    assert found.servers == (
        AskedServer(**{name: getattr(whole, name) for name in whole.__struct_fields__} | expected),
    )
    assert (found.request.tools, found.chosen) == ((), ())
    assert "mcp_servers" not in found.request.native.get("anthropic", {})
    assert repr(request) == before


def test_everything_else_stays() -> None:
    own = {"name": "f", "input_schema": {"type": "object"}}
    search = {"type": "web_search_20250305", "name": "web_search"}
    found = extract_servers(
        mcp_servers=[server()], tools=[own, toolset(), search], container="c", tool_choice={"type": "any"}
    )
    assert [tool.name if isinstance(tool, Tool) else tool.value["name"] for tool in found.request.tools] == [
        "f",
        "web_search",
    ]
    assert found.request.native["anthropic"]["container"] == "c"
    assert found.request.tool_choice is not None


def test_a_request_without_servers_stays_the_same() -> None:
    request = decode_fields(tools=[{"name": "f", "input_schema": {"type": "object"}}])
    assert SERVED.read_servers(request).request is request


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("servers that are no list", {"mcp_servers": {}}, "$.mcp_servers"),
    ("a server that is no object", {"mcp_servers": ["files"]}, "$.mcp_servers[0]"),
    ("no name", {"mcp_servers": [server(name=None)]}, "$.mcp_servers[0].name"),
    ("an empty name", {"mcp_servers": [server(name="")]}, "$.mcp_servers[0].name"),
    ("no URL", {"mcp_servers": [server(url=None)]}, "$.mcp_servers[0].url"),
    ("an unknown type", {"mcp_servers": [server(type="stdio")]}, "$.mcp_servers[0].type"),
    ("two of one name", {"mcp_servers": [server(), server()]}, "$.mcp_servers[1].name"),
    (
        "a tool without a name",
        {"mcp_servers": [server(tool_configuration={"allowed_tools": [1]})]},
        "$.mcp_servers[0].tool_configuration.allowed_tools[0]",
    ),
    (
        "a switch that is none",
        {"mcp_servers": [server()], "tools": [toolset(configs={"a": {"enabled": "no"}})]},
        "$.tools[0].configs.a.enabled",
    ),
    (
        "a configuration that is none",
        {"mcp_servers": [server()], "tools": [toolset(configs={"a": True})]},
        "$.tools[0].configs.a",
    ),
    ("a toolset of no server", {"tools": [toolset()]}, "$.tools[0].mcp_server_name"),
    ("two toolsets", {"mcp_servers": [server()], "tools": [toolset(), toolset()]}, "$.tools[1].mcp_server_name"),
]


@pytest.mark.parametrize(("fields", "where"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_what_makes_no_sense_is_refused_with_its_place(fields: dict[str, Any], where: str) -> None:
    with pytest.raises(DecodeError) as refused:
        extract_servers(**fields)
    assert refused.value.where == where


# ── What a client sees ───────────────────────────────────────────────────────────────────────────────────────────────

CALL = ServedCall(id="call_1", server="files", name="read", arguments='{"path": "a"}')
OTHER = ServedCall(id="call_2", server="files", name="list", arguments="")
GOOD = ToolResult(call_id="call_1", content=(Text(text="one"), Text(text=""), Text(text="two")), is_error=False)
BAD = ToolResult(call_id="call_2", content=(Text(text="no such folder"),), is_error=True)
BLOCKS = [
    {
        "type": "mcp_tool_use",
        "id": "mcptoolu_call_1",
        "name": "read",
        "server_name": "files",
        "input": {"path": "a"},
    },
    {"type": "mcp_tool_use", "id": "mcptoolu_call_2", "name": "list", "server_name": "files", "input": {}},
    {
        "type": "mcp_tool_result",
        "tool_use_id": "mcptoolu_call_1",
        "is_error": False,
        "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
    },
    {
        "type": "mcp_tool_result",
        "tool_use_id": "mcptoolu_call_2",
        "is_error": True,
        "content": [{"type": "text", "text": "no such folder"}],
    },
]


def test_an_answer_in_one_piece_has_the_calls_and_then_their_results() -> None:
    content = written(ANTHROPIC, answer(SERVED, [Round("", (CALL, OTHER), (GOOD, BAD))]))["content"]
    assert content == [*BLOCKS, {"type": "text", "text": "Done.", "citations": None}]


def test_a_stream_has_the_same_blocks_each_whole_in_its_start() -> None:
    frames = stream_frames(ANTHROPIC, answer(SERVED, [Round("", (CALL, OTHER), (GOOD, BAD))], last=""))
    assert [frame["content_block"] for frame in frames if frame["type"] == "content_block_start"] == BLOCKS
    assert [frame["type"] for frame in frames[1:-2]] == ["content_block_start", "content_block_stop"] * 4
    assert [frame["index"] for frame in frames[1:-2]] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_all_calls_are_told_before_the_first_has_ended() -> None:
    teller = SERVED.new_reporter()
    begun = teller.begin([CALL, OTHER])
    assert [piece.block for piece in begun if isinstance(piece, Open)] == [
        Opaque("anthropic", block) for block in BLOCKS[:2]
    ]
    assert teller.progress(CALL, "half") == []
    assert [piece.index for piece in (*begun, *teller.done(GOOD), *teller.done(BAD))] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_arguments_that_are_no_object_are_wrapped_as_they_are() -> None:
    (piece, _) = SERVED.new_reporter().begin([ServedCall(id="c", server="s", name="n", arguments='{"a": ')])
    assert isinstance(piece, Open)
    assert isinstance(piece.block, Opaque)
    assert piece.block.value["input"] == {"_raw": '{"a": '}


def test_what_is_no_text_is_told_as_text() -> None:
    content = (Media(kind="image", source=Source("base64", "AAAA", "image/png")), Opaque("mcp", {"x": 1}))
    pieces = told(SERVED, [CALL], [ToolResult(call_id="call_1", content=content)])
    opened = [piece.block.value for piece in pieces if isinstance(piece, Open) and isinstance(piece.block, Opaque)]
    assert [part["text"] for part in opened[-1]["content"]] == ["[image: image/png]", '{"x":1}']


# ── What a client sends back ─────────────────────────────────────────────────────────────────────────────────────────


def use(number: int, **fields: Any) -> dict[str, Any]:
    named = {"id": f"mcptoolu_c{number}", "name": f"t{number}", "server_name": "files"}
    return {"type": "mcp_tool_use", **named, "input": {}, **fields}


def result(number: int, text: str = "", **fields: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text or f"r{number}"}]
    return {"type": "mcp_tool_result", "tool_use_id": f"mcptoolu_c{number}", "content": content, **fields}


def own(number: int) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"f{number}", "name": f"own{number}", "input": {}}


def own_result(number: int) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": f"f{number}", "content": f"out{number}"}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def restore_messages(*messages: dict[str, Any]) -> RestoredHistory:
    return SERVED.restore_history(decode_fields(messages=list(messages)), known_as)


def describe_messages(messages: tuple[Message, ...]) -> list[str]:
    """Messages in short: a call is `c1`, its result `c1=r1`, a failed one `c1!why`."""
    lines = []
    for message in messages:
        blocks = []
        for block in message.content:
            if isinstance(block, ToolCall):
                blocks.append(block.id)
            elif isinstance(block, ToolResult):
                said = "".join(part.text for part in block.content if isinstance(part, Text))
                blocks.append(f"{block.call_id}{'!' if block.is_error else '='}{said}")
            else:
                assert isinstance(block, Text | Thinking)
                blocks.append(block.text)
        lines.append(f"{message.role}: {' '.join(blocks)}")
    return lines


LOST = "The tool call was interrupted; its outcome is unknown."
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
HISTORIES: list[tuple[str, list[dict[str, Any]], list[str]]] = [
    (
        "a round and what was said after it",
        [USER, assistant(THOUGHT, text("look"), use(1), result(1), text("so")), USER],
        ["user: Hi", "assistant: hm look c1", "user: c1=r1", "assistant: so", "user: Hi"],
    ),
    (
        "calls in one breath",
        [assistant(use(1), use(2), result(2), result(1))],
        ["assistant: c1 c2", "user: c1=r1 c2=r2"],
    ),
    (
        "calls one after the other",
        [assistant(use(1), result(1), use(2), result(2, is_error=True))],
        ["assistant: c1", "user: c1=r1", "assistant: c2", "user: c2!r2"],
    ),
    (
        "a result that is one text, and one that is nothing",
        [assistant(use(1), use(2), result(1, content="r"), result(2, content=None))],
        ["assistant: c1 c2", "user: c1=r c2="],
    ),
    (
        "a list of tools is nothing to a model",
        [assistant({"type": "mcp_tool_listing", "mcp_server_name": "files", "tools": []}, text("so"))],
        ["assistant: so"],
    ),
    (
        "a call without a result",
        [assistant(use(1), use(2), result(2)), USER],
        ["assistant: c1 c2", f"user: c1!{LOST} c2=r2", "user: Hi"],
    ),
    (
        "the client's own call beside a served one",
        [assistant(own(1), use(1), result(1)), user(own_result(1), text("go on"))],
        ["assistant: f1 c1", "user: c1=r1 f1=out1 go on"],
    ),
    (
        "the client's own call behind a served one, with state between them",
        [assistant(use(1), THOUGHT, own(1), result(1)), user(own_result(1))],
        ["assistant: c1 hm f1", "user: c1=r1 f1=out1"],
    ),
    (
        "an answer that the client has split into its blocks",
        [
            *(assistant(use(1)), assistant(own(1)), assistant(THOUGHT), assistant(use(2)), assistant(result(1))),
            *(assistant(result(2)), user(own_result(1))),
        ],
        ["assistant: c1 f1 hm c2", "user: c1=r1 c2=r2 f1=out1"],
    ),
    (
        "the client's own call, and nobody has answered it",
        [assistant(own(1), use(1), result(1))],
        ["assistant: f1 c1", "user: c1=r1"],
    ),
    (
        "the client's own call in the round after",
        [assistant(use(1), result(1), own(1)), user(own_result(1))],
        ["assistant: c1", "user: c1=r1", "assistant: f1", "user: f1=out1"],
    ),
    (
        "a result in the next message of a turn that paused",
        [assistant(use(1)), assistant(result(1), text("so"))],
        ["assistant: c1", "user: c1=r1", "assistant: so"],
    ),
    (
        "a turn that paused and did not go on with the result",
        [assistant(use(1)), assistant(text("so"))],
        ["assistant: c1", f"user: c1!{LOST}", "assistant: so"],
    ),
    (
        "ids that come again",
        [assistant(use(1), result(1)), USER, assistant(use(1), result(1, "again"))],
        ["assistant: c1", "user: c1=r1", "user: Hi", "assistant: c1_2", "user: c1_2=again"],
    ),
]


@pytest.mark.parametrize(
    ("messages", "expected"), [case[1:] for case in HISTORIES], ids=[case[0] for case in HISTORIES]
)
def test_a_history_is_calls_and_results_again(messages: list[dict[str, Any]], expected: list[str]) -> None:
    assert describe_messages(restore_messages(*messages).request.messages) == expected


def test_cache_breakpoints_stay() -> None:
    marked: dict[str, Any] = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    called, answered = restore_messages(assistant(use(1, **marked), result(1, **marked))).request.messages
    for message in (called, answered):
        (block,) = message.content
        assert isinstance(block, ToolCall | ToolResult)
        assert block.cache == Cache(3600)


def test_servers_whose_tools_were_listed_are_told() -> None:
    listing = {"type": "mcp_tool_listing", "mcp_server_name": "files", "tools": []}
    assert restore_messages(assistant(listing, listing), assistant(listing)).listed == ("files",)


def test_a_history_without_served_calls_stays_the_same() -> None:
    request = decode_fields(messages=[assistant(own(1)), user(own_result(1))])
    assert SERVED.restore_history(request, known_as).request is request


BROKEN: list[tuple[str, list[dict[str, Any]], str]] = [
    ("a result of no call", [USER, assistant(text("a"), result(1))], "$.messages[1].content[1].tool_use_id"),
    ("two results", [assistant(use(1), result(1), result(1))], "$.messages[0].content[2].tool_use_id"),
    ("two calls of one id", [assistant(use(1), use(1))], "$.messages[0].content[1].id"),
    ("a call without a name", [assistant(use(1, name=None))], "$.messages[0].content[0].name"),
    ("a call without a server", [assistant(use(1, server_name=None))], "$.messages[0].content[0].server_name"),
    ("input that is no object", [assistant(use(1, input="{}"))], "$.messages[0].content[0].input"),
    ("a result of another shape", [assistant(use(1), result(1, content=1))], "$.messages[0].content[1].content"),
    ("a part that is none", [assistant(use(1), result(1, content=["x"]))], "$.messages[0].content[1].content[0]"),
    (
        "a part without text",
        [assistant(use(1), result(1, content=[{"type": "text"}]))],
        "$.messages[0].content[1].content[0].text",
    ),
]


@pytest.mark.parametrize("system", [None, "Be brief."])
@pytest.mark.parametrize(("messages", "where"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_history_that_makes_no_sense_is_refused_with_its_place(
    messages: list[dict[str, Any]], where: str, system: str | None
) -> None:
    request = decode_fields(messages=messages, **({"system": system} if system else {}))
    with pytest.raises(DecodeError) as refused:
        SERVED.restore_history(request, known_as)
    assert refused.value.where == where


# ── Laws ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def body(content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 1, "messages": [USER, assistant(*content), USER]}


def accumulate_blocks(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The blocks of a stream, put together as a client does it."""
    blocks: list[dict[str, Any]] = []
    for frame in frames:
        if frame["type"] == "content_block_start":
            blocks.append(frame["content_block"])
        elif frame["type"] == "content_block_delta":
            blocks[frame["index"]]["text"] += frame["delta"]["text"]
    return blocks


@given(rounds())
def test_what_a_client_sends_back_is_what_happened(happened: list[Round]) -> None:
    content = written(ANTHROPIC, answer(SERVED, happened))["content"]
    assert turns(model_request(ANTHROPIC, body(content)).messages) == expected_turns(happened)


@given(rounds())
def test_what_a_client_sends_back_of_a_stream_is_what_happened(happened: list[Round]) -> None:
    content = accumulate_blocks(stream_frames(ANTHROPIC, answer(SERVED, happened)))
    assert turns(model_request(ANTHROPIC, body(content)).messages) == expected_turns(happened)


@given(rounds())
def test_a_stream_says_the_same_as_an_answer_in_one_piece(happened: list[Round]) -> None:
    events = answer(SERVED, happened)
    assert accumulate_blocks(stream_frames(ANTHROPIC, events)) == written(ANTHROPIC, events)["content"]
