"""Streams of Messages: decoding whatever servers send, encoding what the strictest client accepts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.dialects.anthropic.dialect import ANTHROPIC, NAME
from toolglot.errors import ApiError, ErrorKind
from toolglot.events import Checker, Close, Delta, Event, Fault, Finish, Open, Start, fold, unfold
from toolglot.ir import (
    Citation,
    Media,
    Opaque,
    Refusal,
    Response,
    Source,
    Stop,
    Text,
    Thinking,
    ToolCall,
    Usage,
    replace,
)
from toolglot.receipt import Receipt

START: dict[str, Any] = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
        "usage": {
            "input_tokens": 40,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 10,
            "output_tokens": 1,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "inference_geo": None,
            "output_tokens_details": None,
            "server_tool_use": None,
            "service_tier": "standard",
        },
        "container": None,
    },
}
REQUIRED: dict[str, dict[str, Any]] = {"text": {"citations": None}, "tool_use": {"caller": {"type": "direct"}}}
"""Members of blocks that the published schema requires."""
STOP = {"type": "message_stop"}


def whole(block: dict[str, Any]) -> dict[str, Any]:
    return {**block, **{key: value for key, value in REQUIRED.get(block["type"], {}).items() if key not in block}}


def counts(usage: Usage | None) -> Usage | None:
    return replace(usage, native={}) if usage is not None else None


def begin(index: int, block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def more(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def end(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def finish(reason: str | None, **usage: Any) -> dict[str, Any]:
    return {
        "type": "message_delta",
        "delta": {"container": None, "stop_reason": reason, "stop_sequence": None, "stop_details": None},
        "usage": usage or {"output_tokens": 30},
    }


def call(index: int, name: str, *pieces: str) -> list[dict[str, Any]]:
    block = whole({"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": {}})
    return [
        begin(index, block),
        *(more(index, "input_json_delta", partial_json=piece) for piece in pieces),
        end(index),
    ]


def text(index: int, *pieces: str) -> list[dict[str, Any]]:
    return [
        begin(index, whole({"type": "text", "text": ""})),
        *(more(index, "text_delta", text=piece) for piece in pieces),
        end(index),
    ]


def wire(events: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (str(event.get("type")).encode(), json.dumps(event).encode()) for event in events
    )


def decode(data: bytes, receipt: Receipt | None = None) -> list[Event]:
    decoder = ANTHROPIC.stream_decoder(Receipt() if receipt is None else receipt)
    events = decoder.feed(data) + decoder.close()
    checker = Checker()
    for event in events:
        checker.add(event)
    checker.close()
    return events


def decode_bytewise(data: bytes) -> list[Event]:
    decoder = ANTHROPIC.stream_decoder(Receipt())
    pieces = [decoder.feed(data[index : index + 1]) for index in range(len(data))]
    return [event for piece in pieces for event in piece] + decoder.close()


def read(*events: dict[str, Any]) -> Response:
    return fold(decode(wire([START, *events])))


def fault_of(events: list[Event]) -> ApiError:
    last = events[-1]
    assert isinstance(last, Fault)
    return last.error


GOLDEN = [
    START,
    begin(0, whole({"type": "text", "text": ""})),
    {"type": "ping"},
    more(0, "text_delta", text="Let me check, 天気 ☀."),
    end(0),
    *call(1, "get_weather", "", '{"city":', '"Paris"}'),
    *call(2, "get_time", '{"tz":"CET"}'),
    finish("tool_use"),
    STOP,
]


def test_the_golden_stream_is_read() -> None:
    start, *rest, last = decode(wire(GOLDEN))
    assert isinstance(start, Start)
    assert isinstance(last, Finish)
    writes: dict[str, Any] = {"cache_write_tokens": 0, "cache_write_long_tokens": 0}
    usage = Usage(input_tokens=50, cached_tokens=10, output_tokens=1, **writes)
    assert replace(start, usage=counts(start.usage)) == Start(
        id="msg_1", model="claude-x", usage=usage, service_tier="default"
    )
    assert replace(last, usage=counts(last.usage)) == Finish(
        stop=Stop("tool_calls", "tool_use"),
        usage=Usage(input_tokens=50, cached_tokens=10, output_tokens=30, **writes),
        service_tier="default",
    )
    assert rest == [
        Open(0, Text(text="")),
        Delta(0, "Let me check, 天気 ☀."),
        Close(index=0),
        Open(1, ToolCall(id="toolu_get_weather", name="get_weather")),
        Delta(1, '{"city":'),
        Delta(1, '"Paris"}'),
        Close(index=1),
        Open(2, ToolCall(id="toolu_get_time", name="get_time")),
        Delta(2, '{"tz":"CET"}'),
        Close(index=2),
    ]


def test_the_bytes_may_be_cut_anywhere() -> None:
    data = wire(GOLDEN)
    assert decode_bytewise(data) == decode(data)
    crlf = data.replace(b"\n", b"\r\n")
    assert decode_bytewise(crlf) == decode(data)


@pytest.mark.parametrize("size", range(0, len(wire(GOLDEN)), 7))
def test_a_stream_that_is_cut_ends_in_a_fault_unless_its_stop_reason_came(size: int) -> None:
    data = wire(GOLDEN)[:size]
    events = decode(data)
    if b'"output_tokens": 30}}' in data:
        assert isinstance(events[-1], Finish)
    else:
        assert fault_of(events).code == "upstream_truncated"
    assert decode_bytewise(data) == events


def test_a_missing_message_stop_is_forgiven_after_a_stop_reason() -> None:
    assert read(*text(0, "Hi"), finish("end_turn")).stop == Stop("end", "end_turn")
    assert fault_of(decode(wire([START, *text(0, "Hi"), finish(None)]))).code == "upstream_truncated"


@pytest.mark.parametrize(
    ("last", "settled"), [([], False), ([finish(None)], False), ([finish("end_turn")], True)], ids=str
)
def test_a_stream_is_settled_by_its_stop_reason(last: list[dict[str, Any]], settled: bool) -> None:
    decoder = ANTHROPIC.stream_decoder(Receipt())
    decoder.feed(wire([START, *text(0, "Hi"), *last]))
    assert decoder.settled is settled


def test_another_apis_end_mark_ends_the_stream() -> None:
    done = b"data: [DONE]\n\n"
    whole = decode(wire([START, *text(0, "Hi"), finish("end_turn"), STOP]))
    assert decode(wire([START, *text(0, "Hi"), finish("end_turn")]) + done) == whole
    assert decode(wire([START, *text(0, "Hi"), finish("end_turn"), STOP]) + done) == whole
    assert fault_of(decode(wire([START, *text(0, "Hi")]) + done)).code == "upstream_truncated"


def test_a_missing_message_delta_is_an_end() -> None:
    assert read(*text(0, "Hi"), STOP).stop == Stop("end")


WHOLE_IN_START: list[dict[str, Any]] = [
    {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": {"type": "code_execution_result"}},
    {"type": "text", "text": "So far."},
    {"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {"id": 1.0}, "caller": {"type": "direct"}},
    {"type": "tool_use", "id": "toolu_2", "name": "list_all", "input": {}},
]


@pytest.mark.parametrize("size", [1, 50, 10_000])
def test_content_behind_the_end_of_a_message_is_reported(size: int) -> None:
    data = wire(
        [START, *text(0, "a"), finish("end_turn"), STOP, *text(1, "b"), *text(2, "c"), finish("end_turn"), STOP]
    )
    decoder = ANTHROPIC.stream_decoder(receipt := Receipt())
    events = [event for at in range(0, len(data), size) for event in decoder.feed(data[at : at + size])]
    assert [type(event) for event in [*events, *decoder.close()]][-1] is Finish
    assert [(line.severity, line.what) for line in receipt] == [("loss", "content after message_stop")]
    assert decoder.feed(b"data: {oops}\n\n") == []


def start_with(content: list[dict[str, Any]], stop_reason: str | None) -> dict[str, Any]:
    return {**START, "message": {**START["message"], "content": content, "stop_reason": stop_reason}}


def test_blocks_that_stand_in_the_start_of_a_message_are_read() -> None:
    """Programmatic tool calling: the start has the whole message, and nothing but the stop follows."""
    start = start_with(WHOLE_IN_START, "tool_use")
    receipt = Receipt()
    events = decode(wire([start, STOP]), receipt)
    streamed = fold(events)
    whole = ANTHROPIC.decode_response(json.dumps(start["message"]).encode())
    assert streamed.content == whole.content
    assert [block.arguments for block in streamed.content if isinstance(block, ToolCall)] == ['{"id": 1.0}', "{}"]
    assert streamed.stop == whole.stop == Stop("tool_calls", "tool_use")
    assert streamed.usage == whole.usage
    assert not receipt
    assert decode_bytewise(wire([start, STOP])) == events == decode(wire([start]))


def test_a_message_that_has_begun_in_its_start_goes_on_in_blocks() -> None:
    start = start_with(WHOLE_IN_START[:2], "end_turn")
    for index in (0, 2):  # counted anew, or behind what stood in the start
        answer = fold(decode(wire([start, *call(index, "f", '{"a":1}'), finish("tool_use"), STOP])))
        assert [type(block) for block in answer.content] == [Opaque, Text, ToolCall]
        assert answer.stop == Stop("tool_calls", "tool_use")
    # The reason in the start was that of the blocks before: without another one the answer was cut.
    assert fault_of(decode(wire([start, *text(0, "Hi")]))).code == "upstream_truncated"
    assert fault_of(decode(wire([start_with(WHOLE_IN_START, None)]))).code == "upstream_truncated"


def test_a_call_in_the_start_that_the_limit_cut_is_incomplete() -> None:
    answer = fold(decode(wire([start_with(WHOLE_IN_START[2:3], "max_tokens"), STOP])))
    assert [block.complete for block in answer.content if isinstance(block, ToolCall)] == [False]


TWINS: list[tuple[str, list[dict[str, Any]], dict[str, Any]]] = [
    ("text", text(0, "Hel", "lo"), {"type": "text", "text": "Hello"}),
    ("a call", call(0, "f", '{"a":', "1}"), {"type": "tool_use", "id": "toolu_f", "name": "f", "input": {"a": 1}}),
    ("a call without arguments", call(0, "f"), {"type": "tool_use", "id": "toolu_f", "name": "f", "input": {}}),
    (
        "a call with its arguments in the start",
        [begin(0, {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}), end(0)],
        {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
    ),
    (
        "a call with its arguments in the start and again in a delta",
        [
            begin(0, {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}),
            more(0, "input_json_delta", partial_json='{"a":1}'),
            end(0),
        ],
        {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
    ),
    (
        "a call whose start has no input",
        [
            begin(0, {"type": "tool_use", "id": "t", "name": "f"}),
            more(0, "input_json_delta", partial_json='{"a":1}'),
            end(0),
        ],
        {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
    ),
    (
        "a call without arguments whose start has no input",
        [begin(0, {"type": "tool_use", "id": "t", "name": "f"}), end(0)],
        {"type": "tool_use", "id": "t", "name": "f", "input": {}},
    ),
    (
        "a call whose start has its input as text",
        [
            begin(0, {"type": "tool_use", "id": "t", "name": "f", "input": "{}"}),
            more(0, "input_json_delta", partial_json='{"a":1}'),
            end(0),
        ],
        {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
    ),
    (
        "signed thinking",
        [
            begin(0, {"type": "thinking", "thinking": "", "signature": ""}),
            more(0, "thinking_delta", thinking="Hm"),
            more(0, "signature_delta", signature="c2ln"),
            end(0),
        ],
        {"type": "thinking", "thinking": "Hm", "signature": "c2ln"},
    ),
    (
        "omitted thinking",
        [
            begin(0, {"type": "thinking", "thinking": "", "signature": ""}),
            more(0, "signature_delta", signature="c2ln"),
            end(0),
        ],
        {"type": "thinking", "thinking": "", "signature": "c2ln"},
    ),
    (
        "redacted thinking",
        [begin(0, {"type": "redacted_thinking", "data": "ZGF0YQ"}), end(0)],
        {"type": "redacted_thinking", "data": "ZGF0YQ"},
    ),
    (
        "cited text",
        [
            begin(0, {"type": "text", "text": ""}),
            more(0, "text_delta", text="Hi"),
            more(0, "citations_delta", citation={"type": "page_location", "cited_text": "q", "start_page_number": 1}),
            end(0),
        ],
        {
            "type": "text",
            "text": "Hi",
            "citations": [{"type": "page_location", "cited_text": "q", "start_page_number": 1}],
        },
    ),
    (
        "a server's tool",
        [
            begin(0, {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
            more(0, "input_json_delta", partial_json='{"query"'),
            more(0, "input_json_delta", partial_json=':"x"}'),
            end(0),
        ],
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
    ),
    (
        "a server's tool with its input in the start",
        [
            begin(0, {"type": "mcp_tool_use", "id": "s", "name": "f", "server_name": "m", "input": {"a": 1}}),
            more(0, "input_json_delta", partial_json=""),
            end(0),
        ],
        {"type": "mcp_tool_use", "id": "s", "name": "f", "server_name": "m", "input": {"a": 1}},
    ),
    (
        "a result of a server's tool",
        [begin(0, {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}), end(0)],
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
    ),
    (
        "a block that grows in a way that is new",
        [
            begin(0, {"type": "compaction", "content": "a", "n": 1}),
            more(0, "compaction_delta", content="b", n=2),
            more(0, "compaction_delta", content="c"),
            end(0),
        ],
        {"type": "compaction", "content": "abc", "n": 2},
    ),
]


@pytest.mark.parametrize(("name", "events", "block"), TWINS, ids=[twin[0] for twin in TWINS])
def test_a_streamed_block_equals_its_twin_at_rest(
    name: str, events: list[dict[str, Any]], block: dict[str, Any]
) -> None:
    data = wire([START, *events, finish("end_turn"), STOP])
    twin = {**START["message"], "content": [block], "stop_reason": "end_turn"}
    streamed = fold(decode(data)).content
    at_rest = ANTHROPIC.decode_response(json.dumps(twin, separators=(",", ":")).encode()).content
    assert streamed[0] == at_rest[0] or json_of(streamed[0]) == json_of(at_rest[0])
    assert json_of(streamed[0]) == whole(block)
    assert decode_bytewise(data) == decode(data)


def json_of(block: Any) -> Any:
    return json.loads(ANTHROPIC.encode_response(Response(content=(block,)), None, Receipt()))["content"][0]


def test_a_block_that_is_not_understood_waits_for_its_end() -> None:
    decoder = ANTHROPIC.stream_decoder(Receipt())
    start = begin(0, {"type": "server_tool_use", "id": "s", "name": "w", "input": {}})
    assert decoder.feed(wire([START, start]))[1:] == []
    assert decoder.feed(wire([more(0, "input_json_delta", partial_json='{"q":1}')])) == []
    value = {"type": "server_tool_use", "id": "s", "name": "w", "input": {"q": 1}}
    assert decoder.feed(wire([end(0)])) == [Open(0, Opaque(NAME, value)), Close(index=0)]


def test_broken_input_of_a_servers_tool_stays_visible() -> None:
    start = begin(0, {"type": "server_tool_use", "id": "s", "name": "w", "input": {}})
    response = read(start, more(0, "input_json_delta", partial_json='{"q'), end(0), finish("max_tokens"), STOP)
    block = response.content[0]
    assert isinstance(block, Opaque)
    assert block.value["input"] == '{"q'


def test_a_call_that_the_limit_cut_is_not_complete() -> None:
    response = read(*call(0, "f", "{}"), *call(1, "g", '{"a":'), finish("max_tokens"), STOP)
    assert [block.complete for block in response.content if isinstance(block, ToolCall)] == [True, False]
    (unsaid,) = read(*call(0, "f"), finish("max_tokens"), STOP).content
    assert isinstance(unsaid, ToolCall)
    assert (unsaid.arguments, unsaid.complete) == ("", False)
    response = read(*call(0, "f", "{}"), *text(1, "x"), finish("max_tokens"), STOP)
    assert [block.complete for block in response.content if isinstance(block, ToolCall)] == [True]


def test_blocks_that_never_end_are_closed() -> None:
    start = begin(0, {"type": "tool_use", "id": "t", "name": "f", "input": {}})
    piece = more(0, "input_json_delta", partial_json="{}")
    for reason, complete in (("tool_use", True), ("max_tokens", False)):
        block = read(start, piece, finish(reason), STOP).content[0]
        assert isinstance(block, ToolCall)
        assert block.complete is complete
    assert len(read(start, piece, start, piece, end(0), finish("tool_use"), STOP).content) == 2


def test_interleaved_blocks_keep_their_own_deltas() -> None:
    first, second = call(0, "f", '{"a":', "1}"), call(1, "g", '{"b":', "2}")
    mixed = [event for pair in zip(first, second, strict=True) for event in pair]
    content = read(*mixed, finish("tool_use"), STOP).content
    assert [block.arguments for block in content if isinstance(block, ToolCall)] == ['{"a":1}', '{"b":2}']


BLOCK = {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}


@pytest.mark.parametrize(
    ("events", "content"),
    [
        ([START, START, *text(0, "a")], ["a"]),
        ([START, {**START, "message": {**START["message"], "id": "other"}}, *text(0, "a")], ["a"]),
        ([START, *text(0, "a"), START, *text(1, "b")], ["a", "b"]),
        ([start_with([BLOCK], None), start_with([BLOCK], None)], ["f"]),
        ([start_with([], None), start_with([BLOCK], "tool_use")], ["f"]),
    ],
    ids=["before content", "with another id", "after content", "with its content", "with content that is new"],
)
def test_a_message_start_that_a_gateway_repeats_changes_nothing(events: list[Any], content: list[str]) -> None:
    receipt = Receipt()
    decoded = decode(wire([*events, finish("end_turn"), STOP]), receipt)
    assert sum(isinstance(event, Start) for event in decoded) == 1
    blocks = fold(decoded).content
    assert [block.name if isinstance(block, ToolCall) else getattr(block, "text", "") for block in blocks] == content
    assert [(line.severity, line.what) for line in receipt] == [("note", "a second message_start")]


def test_content_of_a_second_start_that_comes_too_late_is_a_loss() -> None:
    receipt = Receipt()
    events = [start_with([], None), *text(0, "a"), start_with([BLOCK], None), finish("end_turn"), STOP]
    assert fold(decode(wire(events), receipt)).content == (Text(text="a"),)
    assert [line.what for line in receipt.losses] == ["content of a second message_start"]


@pytest.mark.parametrize(
    "again",
    [
        [{**START, "message": {**START["message"], "id": "other"}}],
        [START, begin(0, {"type": "text", "text": ""})],
    ],
    ids=["another id", "its blocks begin again"],
)
@pytest.mark.parametrize("first", [text(0, "a"), text(0, "a")[:-1], call(0, "f", '{"a": 1}')[:-1]])
def test_a_second_answer_in_the_same_stream_is_a_fault(first: list[Any], again: list[Any]) -> None:
    """vercel/ai #18331: the thinking and the calls of both would become one answer, which Claude does not take back.
    The JavaScript SDK refuses such a stream, too."""
    error = fault_of(decode(wire([START, *first, *again, *text(0, "b"), finish("end_turn"), STOP])))
    assert error.is_broken_off
    assert error.message.endswith("another answer begins in the same stream")


def test_a_stream_without_a_start_is_read() -> None:
    events = decode(wire([*text(0, "a"), finish("end_turn"), STOP]))
    assert events[0] == Start()
    assert fold(events).content == (Text(text="a"),)


def test_deltas_without_a_start_of_their_block_are_read_where_they_tell_their_kind() -> None:
    receipt = Receipt()
    odd = [
        more(0, "text_delta", text="a"),
        more(1, "thinking_delta", thinking="b"),
        more(2, "citations_delta", citation={}),
        end(7),
    ]
    response = fold(decode(wire([START, *odd, finish("end_turn"), STOP]), receipt))
    assert response.content == (Text(text="a"), Thinking(text="b"))
    assert [line.what for line in receipt.losses] == ["citations_delta of no block"]


def test_arguments_of_a_call_that_never_started_are_a_fault() -> None:
    """Without them a call would be run that the model did not make: one with empty arguments, say."""
    call = begin(0, {"type": "tool_use", "id": "a", "name": "f", "input": {}})
    stray = more(5, "input_json_delta", partial_json="{}")
    assert isinstance(decode(wire([START, call, stray, end(0), finish("tool_use"), STOP]), Receipt())[-1], Fault)


def test_missing_indices_mean_the_latest_block() -> None:
    events = [{key: value for key, value in event.items() if key != "index"} for event in text(0, "a") + text(1, "b")]
    assert read(*events, finish("end_turn"), STOP).content == (Text(text="a"), Text(text="b"))


def test_what_stands_in_a_start_is_not_lost() -> None:
    starts = [
        begin(0, {"type": "text", "text": "He"}),
        more(0, "text_delta", text="y"),
        end(0),
        begin(1, {"type": "text"}),
        more(1, "text_delta", text="x"),
        end(1),
    ]
    assert read(*starts, finish("end_turn"), STOP).content == (Text(text="Hey"), Text(text="x"))


def test_a_delta_that_does_not_fit_is_a_loss() -> None:
    receipt = Receipt()
    odd = [begin(0, {"type": "text", "text": ""}), more(0, "thinking_delta", thinking="x"), end(0)]
    assert fold(decode(wire([START, *odd, finish("end_turn"), STOP]), receipt)).content == (Text(text=""),)
    assert [line.what for line in receipt.losses] == ["thinking_delta in text"]


@pytest.mark.parametrize(
    ("delta", "told"),
    [
        (more(0, "text_delta", text="", style="bold"), "style of a delta"),
        (more(0, "text_delta", text="", style=None), None),
        (more(0, "shiny_delta", text="x"), "delta shiny_delta"),
        (more(0, "citations_delta", citation={"type": "new"}, weight=1), "weight of a delta"),
        ({"type": "content_block_delta", "index": 0, "delta": {"text": "an imitator's"}}, None),
        ({"type": "content_block_delta", "index": 0}, "content_block_delta"),
    ],
)
def test_what_is_new_in_a_delta_is_told(delta: dict[str, Any], told: str | None) -> None:
    receipt = Receipt()
    decode(
        wire([START, begin(0, {"type": "text", "text": ""}), delta, delta, end(0), finish("end_turn"), STOP]), receipt
    )
    assert [line.what for line in receipt.losses] == ([told] if told else [])


def test_a_block_that_is_not_understood_may_have_deltas_of_any_type() -> None:
    receipt = Receipt()
    compaction = [begin(0, {"type": "compaction"}), more(0, "compaction_delta", content="x"), end(0)]
    response = fold(decode(wire([START, *compaction, finish("end_turn"), STOP]), receipt))
    assert response.content == (Opaque(NAME, {"type": "compaction", "content": "x"}),)
    assert not receipt


def test_unknown_events_are_told_once_and_pings_never() -> None:
    receipt = Receipt()
    new = [{"type": "brand_new", "delta": "text", "index": "x"}, {"type": "ping"}, {"type": "brand_new"}]
    fold(decode(wire([START, *new, *text(0, "a"), finish("end_turn"), STOP]), receipt))
    assert [line.what for line in receipt.losses] == ["event brand_new"]


def test_usage_grows_and_is_never_wiped_out_by_a_zero() -> None:
    zeros = {"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 7}
    usage = read(*text(0, "a"), finish("end_turn", **zeros), STOP).usage
    writes: dict[str, Any] = {"cache_write_tokens": 0, "cache_write_long_tokens": 0}
    assert counts(usage) == Usage(input_tokens=50, cached_tokens=10, output_tokens=7, **writes)
    late = {"type": "message_start", "message": {"id": "m"}}
    events = decode(wire([late, finish("end_turn", input_tokens=9, output_tokens=2), STOP]))
    usage = fold(events).usage
    assert usage is not None
    assert usage.input_tokens == 9
    uncounted = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    assert fold(decode(wire([late, uncounted, STOP]))).usage is None


def test_the_first_stop_reason_is_not_erased_by_a_null() -> None:
    assert read(finish("tool_use"), finish(None), STOP).stop == Stop("tool_calls", "tool_use")


def test_what_is_known_at_the_end_is_kept() -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "No."}
    last = {
        "type": "message_delta",
        "delta": {"stop_reason": "refusal", "stop_sequence": None, "stop_details": details, "container": {"id": "c"}},
        "usage": {"output_tokens": 1},
        "context_management": {"applied_edits": []},
    }
    response = read(last, STOP)
    assert response.stop == Stop("refusal", "refusal", None, "No.")
    assert response.native == {
        NAME: {"stop_details": details, "container": {"id": "c"}, "context_management": {"applied_edits": []}}
    }
    assert frames(encode(decode(wire([START, last, STOP]))))[-2][1] == {
        **last,
        "usage": {**START["message"]["usage"], "output_tokens": 1},
    }


ERRORS: list[tuple[bytes, ErrorKind, str]] = [
    (
        b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n',
        "overloaded",
        "busy",
    ),
    (b'data: {"error":{"message":"slow","type":"rate_limit_exceeded"}}\n\n', "rate_limit", "slow"),
    (b'data: {"error":"broke"}\n\n', "server", "broke"),
    (b'data: {"detail":"gone"}\n\n', "server", "gone"),
    (b'data: {"object":"error","message":"vLLM","code":400}\n\n', "bad_request", "vLLM"),
    (b'event: error\ndata: "text"\n\n', "server", "text"),
    (b"event: error\ndata: not even JSON\n\n", "server", "not even JSON"),
]


@pytest.mark.parametrize(("data", "kind", "message"), ERRORS)
def test_errors_in_a_stream_are_faults_in_whatever_shape(data: bytes, kind: ErrorKind, message: str) -> None:
    for before in (b"", wire([START, *text(0, "a")])):
        events = decode(before + data + wire([STOP]))
        error = fault_of(events)
        assert (error.kind, error.message) == (kind, message)


@pytest.mark.parametrize(
    "data",
    [
        b"data: {\n\n",
        b"data: [1]\n\n",
        b"data: 5\n\n",
        b"data: \xff\n\n",
        b'data: {"type":"message_start","message":5}\n\n',
        b'data: {"type":"content_block_start","index":0,"content_block":5}\n\n',
        b'data: {"type":"content_block_delta","index":0,"delta":{"text":5}}\n\n',
        b'data: {"type":"message_delta","delta":{"stop_reason":5}}\n\ndata: {"type":"message_stop"}\n\n',
    ],
)
def test_what_cannot_be_read_is_a_fault(data: bytes) -> None:
    assert fault_of(decode(data)).code == "upstream_unreadable"


@given(st.lists(st.one_of(st.binary(max_size=20), st.sampled_from([wire([event]) for event in GOLDEN]))))
def test_any_bytes_give_a_grammatical_stream(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    assert decode_bytewise(data) == decode(data)


def test_nothing_follows_the_end() -> None:
    decoder = ANTHROPIC.stream_decoder(Receipt())
    decoder.feed(wire(GOLDEN))
    assert decoder.feed(wire(GOLDEN)) == []
    assert decoder.close() == []


# ── encoding ──


def encode(events: Iterable[Event], receipt: Receipt | None = None) -> bytes:
    lines = Receipt() if receipt is None else receipt
    encoder = ANTHROPIC.stream_encoder(None, lines)
    data = b"".join(encoder.feed(event) for event in events)
    if receipt is None:
        assert not lines, str(lines)
    return data


def frames(data: bytes) -> list[tuple[str, Any]]:
    assert data.endswith(b"\n\n")
    read_frames = []
    for block in data.decode().split("\n\n")[:-1]:
        event, payload = block.split("\n")
        assert event.startswith("event: ")
        assert payload.startswith("data: ")
        read_frames.append((event[7:], json.loads(payload[6:])))
    assert all(name == value["type"] for name, value in read_frames)
    return read_frames


def payloads(events: Iterable[Event], receipt: Receipt | None = None) -> list[Any]:
    return [value for _, value in frames(encode(events, receipt))]


def blocks(*content: Any) -> list[Any]:
    """The payloads between the first event and the last two."""
    return payloads(unfold(Response(content=content)))[1:-2]


def test_the_golden_stream_comes_back() -> None:
    written = [value for _, value in frames(encode(decode(wire(GOLDEN))))]
    silent = [event for event in GOLDEN if event["type"] != "ping" and event.get("delta", {}).get("partial_json") != ""]
    silent[-2] = finish("tool_use", **{**START["message"]["usage"], "output_tokens": 30})
    assert written == silent


@pytest.mark.parametrize(("name", "events", "block"), TWINS, ids=[twin[0] for twin in TWINS])
def test_a_block_that_is_written_is_read_back(name: str, events: list[dict[str, Any]], block: dict[str, Any]) -> None:
    first = decode(wire([START, *events, finish("end_turn"), STOP]))
    again = decode(encode(first))
    assert json_of(fold(again).content[0]) == whole(block)


def test_a_stream_from_another_api_is_what_the_sdks_accept() -> None:
    written = payloads(
        [
            Start(id="chatcmpl-1", model="gpt", created=1),
            Open(0, Thinking()),
            Delta(0, "Hm"),
            Close(index=0),
            Open(1, Text(text="")),
            Delta(1, "Hi"),
            Close(index=1),
            Open(2, ToolCall(id="call_1", name="f")),
            Delta(2, '{"a":1}'),
            Close(index=2),
            Finish(stop=Stop("tool_calls", "tool_calls"), usage=Usage(input_tokens=9, output_tokens=5)),
        ]
    )
    message: dict[str, Any] = {
        "id": "chatcmpl-1",
        "type": "message",
        "role": "assistant",
        "model": "gpt",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
        "usage": {
            **START["message"]["usage"],
            "input_tokens": 0,
            **dict.fromkeys(("cache_read_input_tokens", "cache_creation_input_tokens", "cache_creation")),
            "output_tokens": 0,
            "service_tier": None,
        },
        "container": None,
    }
    usage = {
        "input_tokens": 9,
        "cache_creation_input_tokens": None,
        "cache_read_input_tokens": None,
        "output_tokens": 5,
        "output_tokens_details": None,
        "server_tool_use": None,
    }
    assert written == [
        {"type": "message_start", "message": message},
        begin(0, {"type": "thinking", "thinking": "", "signature": ""}),
        more(0, "thinking_delta", thinking="Hm"),
        end(0),
        begin(1, whole({"type": "text", "text": ""})),
        more(1, "text_delta", text="Hi"),
        end(1),
        begin(2, whole({"type": "tool_use", "id": "call_1", "name": "f", "input": {}})),
        more(2, "input_json_delta", partial_json='{"a":1}'),
        end(2),
        finish("tool_use", **usage),
        STOP,
    ]


@pytest.mark.parametrize(("arguments", "pieces"), [("", ["{}"]), (" ", [" ", "{}"]), ("null", ["{}"])])
def test_a_call_without_arguments_becomes_an_empty_object(arguments: str, pieces: list[str]) -> None:
    start = begin(0, whole({"type": "tool_use", "id": "t", "name": "f", "input": {}}))
    deltas = [more(0, "input_json_delta", partial_json=piece) for piece in pieces]
    assert blocks(ToolCall(id="t", name="f", arguments=arguments)) == [start, *deltas, end(0)]


def test_arguments_that_are_null_in_pieces_become_an_empty_object_and_others_come_as_they_are() -> None:
    def pieces(*texts: str, complete: bool = True) -> list[str]:
        opened: list[Event] = [Start(id="m", model="m"), Open(0, ToolCall(id="t", name="f"))]
        stop = Stop("tool_calls" if complete else "length")
        ended = (Close(index=0, complete=complete), Finish(stop=stop))
        sent = payloads([*opened, *(Delta(0, text) for text in texts), *ended])
        return [event["delta"]["partial_json"] for event in sent if event["type"] == "content_block_delta"]

    assert pieces("nu", "ll") == ["{}"]
    assert pieces("nu", "x") == ["nux"]
    assert pieces("nu", complete=False) == ["nu"]


def test_a_call_that_was_cut_gets_no_arguments() -> None:
    cut = ToolCall(id="c", name="f", complete=False)
    events = payloads(unfold(Response(content=(cut,), stop=Stop("length"))))
    assert not [event for event in events if event["type"] == "content_block_delta"]
    assert events[-2]["delta"]["stop_reason"] == "max_tokens"


def test_the_signature_comes_last_and_only_if_there_is_one() -> None:
    signed = Thinking(text="Hm", native={NAME: {"signature": "c2ln"}})
    assert blocks(signed)[1:] == [
        more(0, "thinking_delta", thinking="Hm"),
        more(0, "signature_delta", signature="c2ln"),
        end(0),
    ]
    assert blocks(Thinking(native={NAME: {"signature": "c2ln"}}))[1:] == [
        more(0, "signature_delta", signature="c2ln"),
        end(0),
    ]


def test_blocks_without_a_place_are_losses_and_leave_no_gap() -> None:
    receipt = Receipt()
    content = (
        Thinking(native={"openai_responses": {"encrypted_content": "x"}}),
        Media(kind="image", source=Source("url", "u")),
        Opaque("gemini", {"x": 1}),
        Text(text="Hi", citations=(Citation(title="t"), Citation(url="u"))),
    )
    written = payloads(unfold(Response(content=content)), receipt)[1:-2]
    citation = {"type": "web_search_result_location", "cited_text": "", "url": "u", "encrypted_index": ""}
    assert written == [*text(0, "Hi")[:-1], more(0, "citations_delta", citation=citation), end(0)]
    assert [line.what for line in receipt.losses] == ["an image", "x", "citation"]


def test_blocks_of_this_dialect_stream_as_the_accumulators_want_them() -> None:
    use = {"type": "server_tool_use", "id": "s", "name": "w", "input": {"q": 1}}
    result = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    assert blocks(Opaque(NAME, use), Opaque(NAME, result)) == [
        begin(0, {**use, "input": {}}),
        more(0, "input_json_delta", partial_json='{"q":1}'),
        end(0),
        begin(1, result),
        end(1),
    ]


def test_a_refusal_is_text_and_a_reason() -> None:
    written = payloads(unfold(Response(content=(Refusal(text="No."),), stop=Stop("end", "stop"))))
    assert written[1:-2] == text(0, "No.")
    assert written[-2]["delta"]["stop_reason"] == "refusal"


def test_an_unknown_input_is_null_at_the_end_and_never_zero() -> None:
    def usage_at_end(start: Usage | None, last: Usage | None) -> Any:
        events: list[Event] = [Start(usage=start), Finish(stop=Stop("end"), usage=last)]
        return payloads(events)[-2]["usage"]

    members = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    unknown = dict.fromkeys((*members, "output_tokens_details", "server_tool_use"))
    assert usage_at_end(None, None) == {**unknown, "output_tokens": 0}
    assert usage_at_end(Usage(input_tokens=5, output_tokens=1), None) == {**unknown, "output_tokens": 1}
    assert usage_at_end(None, Usage(output_tokens=3)) == {**unknown, "output_tokens": 3}
    all_cached = usage_at_end(None, Usage(input_tokens=5, cached_tokens=5, output_tokens=3))
    assert (all_cached["input_tokens"], all_cached["cache_read_input_tokens"]) == (0, 5)


@pytest.mark.parametrize(
    ("first", "last", "start", "end"),
    [
        ("priority", "priority", "priority", ()),
        ("priority", None, "priority", ()),
        (None, "priority", None, "priority"),
        ("default", "batch", "standard", "batch"),
    ],
)
def test_a_service_tier_that_is_known_late_stands_in_the_last_usage(
    first: str | None, last: str | None, start: str | None, end: Any
) -> None:
    written = payloads([Start(service_tier=first), Finish(stop=Stop("end"), service_tier=last)])
    assert written[0]["message"]["usage"]["service_tier"] == start
    assert written[-2]["usage"].get("service_tier", ()) == end


def test_a_fault_is_an_error_event_and_no_clean_stop() -> None:
    error = ApiError(kind="overloaded", message="busy")
    events: list[Event] = [Start(), Open(0, Text(text="")), Delta(0, "a"), Fault(error)]
    last = frames(encode(events))[-1]
    assert last == ("error", {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}})


def test_the_keepalive_is_a_ping() -> None:
    encoder = ANTHROPIC.stream_encoder(None, Receipt())
    assert encoder.keepalive() == b'event: ping\ndata: {"type":"ping"}\n\n'
    assert decode(wire([START]) + encoder.keepalive() + wire([finish("end_turn"), STOP]))


def test_a_megabyte_of_arguments_in_many_deltas_arrives_whole() -> None:
    pieces = ['{"text":"', *["0123456789" * 5] * 20_000, '"}']
    block = read(*call(0, "f", *pieces), finish("tool_use"), STOP).content[0]
    assert isinstance(block, ToolCall)
    assert block.arguments == "".join(pieces)


def test_a_text_inside_a_call_does_not_leave_a_call_without_arguments() -> None:
    opened, *_, closed = call(0, "get_weather")
    said = more(0, "text_delta", text='{"city":"Oslo"}')
    error = fault_of(decode(wire([START, opened, said, closed, finish("tool_use"), STOP])))
    assert "$.delta.text" in error.message


def test_a_call_that_another_apis_limit_has_cut_is_incomplete() -> None:
    response = read(START, *call(0, "get_weather", '{"city":'), finish("length"), STOP)
    assert response.stop == Stop("length", "length")
    assert [block.complete for block in response.content if isinstance(block, ToolCall)] == [False]
