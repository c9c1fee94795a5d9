"""MCP tools that the gateway runs: how clients of the Responses API request them, see them, and send them back."""

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
from toolglot.dialects.openai_responses.dialect import OPENAI_RESPONSES
from toolglot.dialects.openai_responses.served import SERVED
from toolglot.errors import DecodeError
from toolglot.events import Close, Open
from toolglot.ir import Media, Message, Opaque, Request, Source, Text, Tool, ToolCall, ToolChoice, ToolResult, replace
from toolglot.receipt import Receipt
from toolglot.tools.served import AskedServer, RestoredHistory, ServedCall, ServedRequest, ToolSelection

NAME = "openai_responses"
USER = {"role": "user", "content": "Hi"}


def decoded(**fields: Any) -> Request:
    return OPENAI_RESPONSES.decode_request(json.dumps({"model": "m", "input": "Hi", **fields}).encode())


def asked(**fields: Any) -> ServedRequest:
    return SERVED.read_servers(decoded(**fields))


def server(**fields: Any) -> dict[str, Any]:
    return {"type": "mcp", "server_label": "files", **fields}


# ── What a request asks for ──────────────────────────────────────────────────────────────────────────────────────────

ALL = ToolSelection()
SERVERS: list[tuple[str, dict[str, Any], AskedServer]] = [
    ("nothing is said: every call is asked about", {}, AskedServer(label="files", where="tools[0]", asks=ALL)),
    (
        "a URL and credentials",
        {"server_url": "https://x/mcp", "authorization": "secret", "require_approval": "never"},
        AskedServer(label="files", where="tools[0]", url="https://x/mcp", never_asks=ALL, credentials=True),
    ),
    (
        "headers are credentials too",
        {"headers": {"x-key": "secret"}, "require_approval": "always"},
        AskedServer(label="files", where="tools[0]", asks=ALL, credentials=True),
    ),
    (
        "some tools by name",
        {"allowed_tools": ["a", "b"]},
        AskedServer(label="files", where="tools[0]", allowed=ToolSelection(names=("a", "b")), asks=ALL),
    ),
    (
        "no tools at all",
        {"allowed_tools": []},
        AskedServer(label="files", where="tools[0]", allowed=ToolSelection(names=()), asks=ALL),
    ),
    (
        "a filter of tools",
        {"allowed_tools": {"tool_names": ["a"], "read_only": True}},
        AskedServer(label="files", where="tools[0]", allowed=ToolSelection(names=("a",), read_only=True), asks=ALL),
    ),
    (
        "some ask, and nothing is said of the others",
        {"require_approval": {"always": {"tool_names": ["a"]}}},
        AskedServer(label="files", where="tools[0]", asks=ToolSelection(names=("a",))),
    ),
    (
        "some never ask, so the others do",
        {"require_approval": {"never": {"read_only": True}}},
        AskedServer(label="files", where="tools[0]", never_asks=ToolSelection(read_only=True), others_ask=True),
    ),
    (
        "both are named",
        {"require_approval": {"always": {"tool_names": ["a"]}, "never": {"tool_names": ["b"]}}},
        AskedServer(
            label="files",
            where="tools[0]",
            asks=ToolSelection(names=("a",)),
            never_asks=ToolSelection(names=("b",)),
            others_ask=True,
        ),
    ),
    ("an empty filter says nothing", {"require_approval": {}}, AskedServer(label="files", where="tools[0]", asks=ALL)),
    (
        "filters that are null say nothing",
        {"require_approval": {"always": None, "never": None}},
        AskedServer(label="files", where="tools[0]", asks=ALL),
    ),
]


@pytest.mark.parametrize(("fields", "expected"), [case[1:] for case in SERVERS], ids=[case[0] for case in SERVERS])
def test_a_server_is_read(fields: dict[str, Any], expected: AskedServer) -> None:
    request = decoded(tools=[server(**fields)])
    before = repr(request)
    found = SERVED.read_servers(request)
    assert (found.servers, found.request.tools, found.chosen) == ((expected,), (), ())
    assert repr(request) == before


def test_other_tools_stay() -> None:
    found = asked(tools=[{"type": "function", "name": "f", "parameters": {}}, server(), {"type": "web_search"}])
    assert [each.where for each in found.servers] == ["tools[1]"]
    assert [tool.name if isinstance(tool, Tool) else tool.value["type"] for tool in found.request.tools] == [
        "f",
        "web_search",
    ]


def test_a_request_without_servers_stays_the_same() -> None:
    request = decoded(tools=[{"type": "web_search"}], tool_choice="required")
    assert SERVED.read_servers(request).request is request


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("no label", {"tools": [{"type": "mcp"}]}, "$.tools[0].server_label"),
    ("an empty label", {"tools": [server(server_label="")]}, "$.tools[0].server_label"),
    ("two of one label", {"tools": [server(), server()]}, "$.tools[1].server_label"),
    ("a URL that is none", {"tools": [server(server_url=1)]}, "$.tools[0].server_url"),
    ("tools that are no list", {"tools": [server(allowed_tools="a")]}, "$.tools[0].allowed_tools"),
    ("a tool without a name", {"tools": [server(allowed_tools=["a", 1])]}, "$.tools[0].allowed_tools[1]"),
    (
        "a filter's tool without a name",
        {"tools": [server(require_approval={"never": {"tool_names": [None]}})]},
        "$.tools[0].require_approval.never.tool_names[0]",
    ),
    ("an unknown approval", {"tools": [server(require_approval="often")]}, "$.tools[0].require_approval"),
    (
        "an unknown filter",
        {"tools": [server(require_approval={"sometimes": {}})]},
        "$.tools[0].require_approval.sometimes",
    ),
    (
        "a filter that is none",
        {"tools": [server(require_approval={"never": "a"})]},
        "$.tools[0].require_approval.never",
    ),
    (
        "a choice of a server that is not there",
        {"tools": [server()], "tool_choice": {"type": "mcp", "server_label": "other"}},
        "$.tool_choice.server_label",
    ),
    (
        "an allowed server that is not there",
        {
            "tools": [server()],
            "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp", "server_label": "x"}]},
        },
        "$.tool_choice.tools[0].server_label",
    ),
]


@pytest.mark.parametrize(("fields", "where"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_what_makes_no_sense_is_refused_with_its_place(fields: dict[str, Any], where: str) -> None:
    with pytest.raises(DecodeError) as refused:
        asked(**fields)
    assert refused.value.where == where


def allowed(mode: str, *tools: dict[str, Any]) -> dict[str, Any]:
    return {"type": "allowed_tools", "mode": mode, "tools": list(tools)}


FUNCTION = {"type": "function", "name": "f"}
FILES = {"type": "mcp", "server_label": "files"}
CHOICES: list[tuple[str, Any, ToolChoice, tuple[tuple[str, str | None], ...]]] = [
    ("a server", FILES, ToolChoice(mode="required"), (("files", None),)),
    ("a server's tool", {**FILES, "name": "read"}, ToolChoice(mode="required"), (("files", "read"),)),
    ("an allowed server", allowed("auto", FILES), ToolChoice(mode="auto"), (("files", None),)),
    (
        "an allowed server beside a function",
        allowed("required", FUNCTION, {**FILES, "name": "read"}),
        ToolChoice(mode="required", names=("f",)),
        (("files", "read"),),
    ),
    (
        "an allowed server beside a hosted tool",
        allowed("auto", FUNCTION, FILES, {"type": "web_search"}),
        ToolChoice(mode="auto", names=("f",), native={NAME: {"tools": [{"type": "web_search"}]}}),
        (("files", None),),
    ),
]


@pytest.mark.parametrize(
    ("wire", "choice", "chosen"), [case[1:] for case in CHOICES], ids=[case[0] for case in CHOICES]
)
def test_a_choice_of_a_servers_tools_is_taken_apart(
    wire: Any, choice: ToolChoice, chosen: tuple[tuple[str, str | None], ...]
) -> None:
    found = asked(tools=[server(), FUNCTION | {"parameters": {}}], tool_choice=wire)
    assert (found.request.tool_choice, found.chosen) == (choice, chosen)


@pytest.mark.parametrize("wire", ["auto", FUNCTION, {"type": "web_search"}, allowed("auto", FUNCTION)])
def test_a_choice_of_other_tools_stays(wire: Any) -> None:
    request = decoded(tools=[server()], tool_choice=wire)
    found = SERVED.read_servers(request)
    assert (found.request.tool_choice, found.chosen) == (request.tool_choice, ())


# ── What a client sees ───────────────────────────────────────────────────────────────────────────────────────────────

CALL = ServedCall(id="call_1", server="files", name="read", arguments='{"path":"a"}')
OTHER = ServedCall(id="call_2", server="files", name="list", arguments="")
GOOD = ToolResult(call_id="call_1", content=(Text(text="one"), Text(text="two")), is_error=False)
BAD = ToolResult(call_id="call_2", content=(Text(text="no such folder"),), is_error=True)


def test_a_call_is_open_while_it_runs_and_the_next_one_after_it() -> None:
    teller = SERVED.new_reporter()
    (first,) = teller.begin([CALL, OTHER])
    assert isinstance(first, Open)
    assert teller.progress(CALL, "half") == []
    closed, second = teller.done(GOOD)
    assert isinstance(closed, Close)
    assert isinstance(second, Open)
    assert (first.index, closed.index, second.index) == (0, 0, 1)
    assert teller.done(BAD) == [
        Close(
            index=1,
            native={
                NAME: {
                    "status": "failed",
                    "error": {
                        "type": "mcp_tool_execution_error",
                        "content": [{"type": "text", "text": "no such folder"}],
                    },
                }
            },
        )
    ]


def test_calls_behind_other_blocks_of_their_round_go_on_with_its_indices_and_marks() -> None:
    teller = SERVED.new_reporter()
    (first,) = teller.begin([replace(CALL, followed=True)])
    teller.done(GOOD)
    (second,) = teller.begin([OTHER])
    assert isinstance(first, Open)
    assert isinstance(first.block, Opaque)
    assert isinstance(second, Open)
    assert isinstance(second.block, Opaque)
    assert (first.index, first.block.value["id"]) == (0, "mcp_with_call_1")
    assert (second.index, second.block.value["id"]) == (1, "mcp_and_call_2")


ITEM = {
    "id": "mcp_call_1",
    "type": "mcp_call",
    "status": "completed",
    "approval_request_id": None,
    "arguments": '{"path":"a"}',
    "error": None,
    "name": "read",
    "output": "one\ntwo",
    "server_label": "files",
}


def test_an_answer_in_one_piece_has_the_calls_with_their_results() -> None:
    output = written(OPENAI_RESPONSES, answer(SERVED, [Round("", (CALL, OTHER), (GOOD, BAD))]))["output"]
    assert [item["type"] for item in output] == ["mcp_call", "mcp_call", "message"]
    assert output[0] == ITEM
    assert (output[1]["status"], output[1]["output"], output[1]["arguments"]) == ("failed", None, "{}")
    assert output[1]["error"]["content"][0]["text"] == "no such folder"


def test_a_stream_shows_a_call_before_its_result() -> None:
    frames = stream_frames(OPENAI_RESPONSES, answer(SERVED, [Round("", (CALL, OTHER), (GOOD, BAD))], last=""))
    assert [frame["sequence_number"] for frame in frames] == list(range(len(frames)))
    assert [frame["type"].removeprefix("response.") for frame in frames] == [
        *("created", "in_progress"),
        *("output_item.added", "mcp_call.in_progress", "mcp_call_arguments.delta", "mcp_call_arguments.done"),
        *("mcp_call.completed", "output_item.done"),
        *("output_item.added", "mcp_call.in_progress", "mcp_call_arguments.delta", "mcp_call_arguments.done"),
        *("mcp_call.failed", "output_item.done"),
        "completed",
    ]
    assert frames[2]["item"] == {**ITEM, "status": "in_progress", "arguments": "", "output": None}
    assert {frame["item_id"] for frame in frames if "item_id" in frame} == {"mcp_call_1", "mcp_and_call_2"}
    assert [frame["output_index"] for frame in frames if "output_index" in frame] == [0] * 6 + [1] * 6
    assert (frames[4]["delta"], frames[5]["arguments"]) == (ITEM["arguments"], ITEM["arguments"])
    assert frames[7]["item"] == ITEM
    assert frames[-1]["response"]["output"] == [frames[7]["item"], frames[13]["item"]]


def test_nothing_of_a_result_is_sent_before_it_has_come() -> None:
    encoder = OPENAI_RESPONSES.stream_encoder(None, Receipt())
    events = answer(SERVED, [Round("", (CALL,), (GOOD,))], last="")
    before = b"".join(encoder.feed(event) for event in events[:2])
    assert b"mcp_call_arguments.done" in before
    assert b"two" not in before
    assert b"mcp_call.completed" in encoder.feed(events[2])


TOOL = Tool(
    name="read",
    description="Reads.",
    parameters={"type": "object", "properties": {}},
    native={"mcp": {"annotations": {"readOnlyHint": True}, "title": "Read"}},
)


def test_a_list_of_tools_is_an_item_with_events_of_its_own() -> None:
    block = SERVED.encode_tool_list("files", [TOOL, Tool(name="bare")])
    assert isinstance(block, Opaque)
    assert block.value["id"].startswith("mcpl_")
    assert block.value["tools"] == [
        {
            "annotations": {"readOnlyHint": True},
            "description": "Reads.",
            "input_schema": {"type": "object", "properties": {}},
            "name": "read",
        },
        {"annotations": None, "description": None, "input_schema": {"type": "object"}, "name": "bare"},
    ]
    events = answer(SERVED, [], last="")
    frames = stream_frames(OPENAI_RESPONSES, [events[0], Open(0, block), Close(index=0), events[-1]])
    assert [frame["type"].removeprefix("response.") for frame in frames[2:]] == [
        *("output_item.added", "mcp_list_tools.in_progress", "mcp_list_tools.completed", "output_item.done"),
        "completed",
    ]
    assert frames[2]["item"]["tools"] == []
    assert frames[5]["item"] == block.value


def test_a_request_for_a_yes_is_an_item() -> None:
    assert SERVED.encode_approval_request is not None
    block = SERVED.encode_approval_request(CALL)
    assert isinstance(block, Opaque)
    assert block.value == {
        "id": "mcpr_call_1",
        "type": "mcp_approval_request",
        "arguments": '{"path":"a"}',
        "name": "read",
        "server_label": "files",
    }


def test_output_that_is_no_text_becomes_text() -> None:
    content = (
        Text(text=""),
        Media(kind="image", source=Source("base64", "AAAA", "image/png")),
        Media(kind="document", source=Source("text", "inside")),
        Opaque("mcp", {"type": "new", "x": 1}),
    )
    pieces = told(SERVED, [CALL], [ToolResult(call_id="call_1", content=content)])
    assert isinstance(pieces[-1], Close)
    assert pieces[-1].native[NAME]["output"] == '[image: image/png]\ninside\n{"type":"new","x":1}'


@pytest.mark.parametrize("call_id", ["functions.Bash:0", "i" * 100, "ид"])
def test_an_id_that_does_not_fit_is_replaced_by_one_that_does_and_is_always_the_same(call_id: str) -> None:
    ids = set()
    for _ in range(2):
        first = SERVED.new_reporter().begin([ServedCall(id=call_id, server="s", name="n", arguments="{}")])[0]
        assert isinstance(first, Open)
        assert isinstance(first.block, Opaque)
        ids.add(first.block.value["id"])
    (item_id,) = ids
    assert item_id.isascii()
    assert item_id.startswith("mcp_")
    assert len(item_id) <= 64


# ── What a client sends back ─────────────────────────────────────────────────────────────────────────────────────────


def called(number: int, **fields: Any) -> dict[str, Any]:
    return {**ITEM, "id": f"mcp_c{number}", "name": f"t{number}", "output": f"r{number}", **fields}


def wanted(number: int, prefix: str = "mcpr_") -> dict[str, Any]:
    request = {"id": f"{prefix}c{number}", "type": "mcp_approval_request", "name": f"t{number}"}
    return {**request, "server_label": "files", "arguments": "{}"}


def says(number: int, approve: bool, prefix: str = "mcpr_", **fields: Any) -> dict[str, Any]:
    response = {"type": "mcp_approval_response", "approval_request_id": f"{prefix}c{number}"}
    return {**response, "approve": approve, **fields}


def function(number: int) -> dict[str, Any]:
    return {"type": "function_call", "call_id": f"f{number}", "name": f"own{number}", "arguments": "{}"}


def output(number: int) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": f"f{number}", "output": f"out{number}"}


def spoken(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": text}


def restored(*items: dict[str, Any]) -> RestoredHistory:
    return SERVED.restore_history(decoded(input=list(items)), known_as)


def shown(messages: tuple[Message, ...]) -> list[str]:
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
                assert isinstance(block, Text)
                blocks.append(block.text)
        lines.append(f"{message.role}: {' '.join(blocks)}")
    return lines


NO = "The user did not allow this tool call"
LOST = "The tool call was interrupted; its outcome is unknown."
HISTORIES: list[tuple[str, list[dict[str, Any]], list[str]]] = [
    (
        "a call with its result",
        [USER, called(1), spoken("so")],
        ["user: Hi", "assistant: c1", "tool: c1=r1", "assistant: so"],
    ),
    (
        "calls one after the other",
        [called(1), called(2)],
        ["assistant: c1", "tool: c1=r1", "assistant: c2", "tool: c2=r2"],
    ),
    (
        "calls in one breath",
        [called(1), called(2, id="mcp_and_c2"), called(3)],
        ["assistant: c1 c2", "tool: c1=r1", "tool: c2=r2", "assistant: c3", "tool: c3=r3"],
    ),
    (
        "lists of tools are nothing to a model",
        [{"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "files", "tools": []}, called(1)],
        ["assistant: c1", "tool: c1=r1"],
    ),
    (
        "an error as older versions write it",
        [called(1, output=None, error="no")],
        ["assistant: c1", "tool: c1!no"],
    ),
    (
        "an error of the protocol",
        [called(1, output=None, error={"type": "mcp_protocol_error", "code": -32000, "message": "no"})],
        ["assistant: c1", "tool: c1!no"],
    ),
    (
        "an error of the tool",
        [
            called(
                1, output=None, error={"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "no"}]}
            )
        ],
        ["assistant: c1", "tool: c1!no"],
    ),
    (
        "an error of another kind",
        [called(1, output=None, error={"type": "new", "content": [7]})],
        ["assistant: c1", "tool: c1!7"],
    ),
    (
        "a call that was never finished",
        [called(1, output=None, status="in_progress")],
        ["assistant: c1", f"tool: c1!{LOST}"],
    ),
    ("a call without output", [called(1, output=None)], ["assistant: c1", "tool: c1="]),
    (
        "a denied call",
        [wanted(1), says(1, False), USER],
        ["assistant: c1", f"tool: c1!{NO}.", "user: Hi"],
    ),
    (
        "a call denied with a reason",
        [wanted(1), says(1, False, reason="too risky")],
        ["assistant: c1", f"tool: c1!{NO}: too risky"],
    ),
    ("nobody has answered", [USER, wanted(1), USER], ["user: Hi", "user: Hi"]),
    ("an approved call", [USER, wanted(1), says(1, True)], ["user: Hi", "assistant: c1"]),
    (
        "an approved call that has been run since",
        [USER, wanted(1), says(1, True), called(9, approval_request_id="mcpr_c1"), spoken("so")],
        ["user: Hi", "assistant: c1", "tool: c1=r9", "assistant: so"],
    ),
    (
        "an approved call of which nothing more was told",
        [wanted(1), says(1, True), spoken("so")],
        ["assistant: c1", f"tool: c1!{LOST}", "assistant: so"],
    ),
    (
        "one answer of three",
        [wanted(1), wanted(2), wanted(3), says(3, False), says(1, True)],
        ["assistant: c1 c3", f"tool: c3!{NO}."],
    ),
    (
        "a call that ran beside one that waits",
        [called(1), wanted(2, "mcpr_and_"), says(2, True, "mcpr_and_")],
        ["assistant: c1 c2", "tool: c1=r1"],
    ),
    (
        "a call that waits in the round after",
        [called(1), wanted(2), says(2, True)],
        ["assistant: c1", "tool: c1=r1", "assistant: c2"],
    ),
    (
        "the client's own call beside a served one",
        [function(1), called(1), output(1)],
        ["assistant: f1", "assistant: c1", "tool: c1=r1", "tool: f1=out1"],
    ),
    (
        "a served call between two of the client's own",
        [function(1), called(1), function(2), output(1), output(2)],
        ["assistant: f1", "assistant: c1", "assistant: f2", "tool: c1=r1", "tool: f1=out1", "tool: f2=out2"],
    ),
    (
        "the client's own call in the round after",
        [called(1), function(1), output(1)],
        ["assistant: c1", "tool: c1=r1", "assistant: f1", "tool: f1=out1"],
    ),
    (
        "the client's own call beside one that waits",
        [wanted(1), function(1), output(1), says(1, True)],
        ["assistant: c1", "assistant: f1", "tool: f1=out1"],
    ),
    (
        "the client's own call behind a served one",
        [called(1, id="mcp_with_c1"), function(1), output(1)],
        ["assistant: c1", "assistant: f1", "tool: c1=r1", "tool: f1=out1"],
    ),
    (
        "words between a served call and the client's own",
        [called(1, id="mcp_with_c1"), called(2, id="mcp_and_c2"), spoken("well"), function(1), output(1), spoken("so")],
        [
            *("assistant: c1 c2", "assistant: well", "assistant: f1", "tool: c1=r1", "tool: c2=r2", "tool: f1=out1"),
            "assistant: so",
        ],
    ),
    (
        "words between calls in one breath",
        [called(1), spoken("well"), spoken("and"), called(2, id="mcp_and_c2"), spoken("so"), called(3)],
        [
            *("assistant: c1", "assistant: well", "assistant: and", "assistant: c2", "tool: c1=r1", "tool: c2=r2"),
            *("assistant: so", "assistant: c3", "tool: c3=r3"),
        ],
    ),
    (
        "nobody has answered, and the call beside it was run in a round of its own",
        [called(1), wanted(2), called(3, id="mcp_and_c3"), function(1), output(1)],
        ["assistant: c1", "tool: c1=r1", "assistant: c3", "assistant: f1", "tool: c3=r3", "tool: f1=out1"],
    ),
    (
        "ids that come again",
        [called(1), USER, called(1, output="again"), USER, called(1, output="once more")],
        [
            *("assistant: c1", "tool: c1=r1", "user: Hi", "assistant: c1_2", "tool: c1_2=again", "user: Hi"),
            *("assistant: c1_3", "tool: c1_3=once more"),
        ],
    ),
    (
        "requests whose ids come again",
        [wanted(1), says(1, False), USER, wanted(1), says(1, True)],
        ["assistant: c1", f"tool: c1!{NO}.", "user: Hi", "assistant: c1_2"],
    ),
]


@pytest.mark.parametrize(("items", "expected"), [case[1:] for case in HISTORIES], ids=[case[0] for case in HISTORIES])
def test_a_history_is_calls_and_results_again(items: list[dict[str, Any]], expected: list[str]) -> None:
    assert shown(restored(*items).request.messages) == expected


def test_an_approved_call_has_everything_needed_to_run_it() -> None:
    found = restored(USER, wanted(1), says(1, True))
    assert found.approved == (ServedCall(id="c1", server="files", name="t1", arguments="{}", approval="mcpr_c1"),)
    (piece,) = SERVED.new_reporter().begin(found.approved)
    assert isinstance(piece, Open)
    assert isinstance(piece.block, Opaque)
    assert (piece.block.value["id"], piece.block.value["approval_request_id"]) == ("mcp_c1", "mcpr_c1")


def test_what_was_approved_earlier_is_not_run_again() -> None:
    ran = called(1, approval_request_id="mcpr_c1")
    assert restored(wanted(1), says(1, True), ran, spoken("so"), USER).approved == ()
    assert restored(wanted(1), says(1, True), spoken("so"), USER).approved == ()


def test_servers_with_listed_tools_are_returned() -> None:
    listing = {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "files", "tools": []}
    assert restored(listing, USER, listing, {**listing, "server_label": "web"}).listed == ("files", "web")


def test_a_history_without_served_calls_stays_the_same() -> None:
    request = decoded(input=[USER, function(1), output(1), {"type": "compaction", "encrypted_content": "x"}])
    assert SERVED.restore_history(request, known_as).request is request


BROKEN: list[tuple[str, list[dict[str, Any]], str]] = [
    ("an answer to no request", [USER, says(1, True)], "$.input[1].approval_request_id"),
    ("an answer before its request", [says(1, True), wanted(1)], "$.input[0].approval_request_id"),
    ("an answer that says nothing", [wanted(1), {**says(1, True), "approve": None}], "$.input[1].approve"),
    ("an answer that is no boolean", [wanted(1), {**says(1, True), "approve": "yes"}], "$.input[1].approve"),
    ("a request without an id", [{**wanted(1), "id": None}], "$.input[0].id"),
    ("a call without a name", [{**called(1), "name": None}], "$.input[0].name"),
    ("a call without a server", [USER, {**called(1), "server_label": 1}], "$.input[1].server_label"),
    ("arguments that are no text", [{**called(1), "arguments": {}}], "$.input[0].arguments"),
]


@pytest.mark.parametrize("instructions", [None, "Be brief."])
@pytest.mark.parametrize(("items", "where"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_history_that_makes_no_sense_is_refused_with_its_place(
    items: list[dict[str, Any]], where: str, instructions: str | None
) -> None:
    request = decoded(input=items, **({"instructions": instructions} if instructions else {}))
    with pytest.raises(DecodeError) as refused:
        SERVED.restore_history(request, known_as)
    assert refused.value.where == where


# ── Laws ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(rounds())
def test_what_a_client_sends_back_is_what_happened(happened: list[Round]) -> None:
    body = {"model": "m", "input": [USER, *written(OPENAI_RESPONSES, answer(SERVED, happened))["output"], USER]}
    assert turns(model_request(OPENAI_RESPONSES, body).messages) == expected_turns(happened)


@given(rounds())
def test_what_a_client_sends_back_of_a_stream_is_what_happened(happened: list[Round]) -> None:
    frames = stream_frames(OPENAI_RESPONSES, answer(SERVED, happened))
    items = [frame["item"] for frame in frames if frame["type"] == "response.output_item.done"]
    assert items == frames[-1]["response"]["output"]
    body = {"model": "m", "input": [USER, *items, USER]}
    assert turns(model_request(OPENAI_RESPONSES, body).messages) == expected_turns(happened)


@given(rounds())
def test_a_stream_equals_a_whole_answer(happened: list[Round]) -> None:
    events = answer(SERVED, happened)
    streamed = stream_frames(OPENAI_RESPONSES, events)[-1]["response"]["output"]
    assert streamed == written(OPENAI_RESPONSES, events)["output"]


@given(rounds())
def test_another_turn_leaves_the_ids_of_earlier_calls_as_they_were(happened: list[Round]) -> None:
    items = written(OPENAI_RESPONSES, answer(SERVED, happened))["output"]
    first = model_request(OPENAI_RESPONSES, {"model": "m", "input": [USER, *items, USER]}).messages
    longer = model_request(OPENAI_RESPONSES, {"model": "m", "input": [USER, *items, USER, *items, USER]}).messages
    assert longer[: len(first)] == first
