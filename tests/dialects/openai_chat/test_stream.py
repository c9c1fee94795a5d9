"""Chat Completions streams: every untidy way in which servers send them, and the one tidy way in which we do."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from toolglot.dialects.openai_chat import OPENAI_CHAT
from toolglot.errors import ApiError
from toolglot.events import Checker, Close, Delta, Event, Fault, Finish, Open, Start, fold
from toolglot.ir import Citation, Refusal, Request, Response, Stop, Text, Thinking, ToolCall, Usage
from toolglot.receipt import Receipt


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **fields: Any) -> bytes:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **fields}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def call(
    index: int | None, arguments: Any = None, name: str | None = None, call_id: str | None = None
) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    fields = {"index": index, "id": call_id, "type": "function" if call_id else None, "function": function}
    return {key: value for key, value in fields.items() if value is not None}


def calls(*deltas: dict[str, Any]) -> bytes:
    return chunk({"tool_calls": list(deltas)})


DONE = b"data: [DONE]\n\n"


def decode(*chunks: bytes, receipt: Receipt | None = None) -> list[Event]:
    decoder = OPENAI_CHAT.stream_decoder(Receipt() if receipt is None else receipt)
    checker = Checker()
    events = [event for data in chunks for event in decoder.feed(data)] + decoder.close()
    for event in events:
        checker.add(event)
    checker.close()
    return events


def called(response: Response) -> list[tuple[str, str, str]]:
    return [(block.id, block.name, block.arguments) for block in response.content if isinstance(block, ToolCall)]


END = (chunk(finish="tool_calls"), DONE)
TWO = [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')]

# How servers stream the same two calls.
WAYS: dict[str, tuple[bytes, ...]] = {
    "as OpenAI does": (
        calls(call(0, "", "f", "a")),
        calls(call(0, '{"x"')),
        calls(call(0, ":1}")),
        calls(call(1, "", "g", "b")),
        calls(call(1, '{"y":2}')),
    ),
    "both whole in one chunk": (calls(call(0, '{"x":1}', "f", "a"), call(1, '{"y":2}', "g", "b")),),
    "interleaved": (
        calls(call(0, "", "f", "a")),
        calls(call(1, "", "g", "b")),
        calls(call(0, '{"x"')),
        calls(call(1, '{"y"')),
        calls(call(0, ":1}"), call(1, ":2}")),
    ),
    "with id and name repeated in every chunk": (
        calls(call(0, '{"x"', "f", "a")),
        calls(call(0, ":1}", "f", "a")),
        calls(call(1, '{"y"', "g", "b")),
        calls(call(1, ":2}", "g", "b")),
    ),
    "with the index always 0": (
        calls(call(0, '{"x":1}', "f", "a")),
        calls(call(0, '{"y":', "g", "b")),
        calls(call(0, "2}")),
    ),
    "without any index": (
        calls(call(None, '{"x":', "f", "a")),
        calls(call(None, "1}")),
        calls(call(None, '{"y":2}', "g", "b")),
    ),
    "with the name late": (
        calls(call(0, "", "", "a")),
        calls(call(0, '{"x"')),
        calls(call(0, ":1}", "f")),
        calls(call(1, '{"y":2}', "g", "b")),
    ),
    "with the first name after the second call began": (
        calls(call(0, '{"x":1}', None, "a")),
        calls(call(1, '{"y":2}', "g", "b")),
        calls(call(0, None, "f")),
    ),
    "with the id late": (
        calls(call(0, '{"x"', "f")),
        calls(call(0, ":1}", None, "a")),
        calls(call(1, '{"y":2}', "g", "b")),
    ),
    "with arguments as an object": (
        calls(call(0, {"x": 1}, "f", "a")),
        calls(call(1, {"y": 2}, "g", "b")),
    ),
    "with text between the arguments": (
        calls(call(0, '{"x"', "f", "a")),
        chunk({"content": "hm"}),
        calls(call(0, ":1}")),
        calls(call(1, '{"y":2}', "g", "b")),
    ),
    "with empty content beside them": (
        chunk({"role": "assistant", "content": "", "tool_calls": [call(0, '{"x":1}', "f", "a")]}),
        chunk({"content": "", "tool_calls": [call(1, '{"y":2}', "g", "b")]}),
    ),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_two_calls_arrive_whole_however_they_are_streamed(way: tuple[bytes, ...]) -> None:
    assert called(fold(decode(*way, *END))) == TWO


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_cutting_the_bytes_changes_nothing(way: tuple[bytes, ...]) -> None:
    whole = b"".join((*way, *END))
    assert decode(*(whole[i : i + 1] for i in range(len(whole)))) == decode(whole)
    crlf = whole.replace(b"\n", b"\r\n")
    assert decode(*(crlf[i : i + 1] for i in range(len(crlf)))) == decode(whole)


def test_ids_that_never_come_are_left_empty_and_two_calls_at_one_index_stay_two() -> None:
    events = decode(calls(call(0, '{"x":1}', "f")), calls(call(0, '{"y":2}', "g")), *END)
    assert called(fold(events)) == [("", "f", '{"x":1}'), ("", "g", '{"y":2}')]


def test_a_call_whose_id_never_comes_keeps_its_place() -> None:
    events = decode(calls(call(0, '{"x":1}', "f")), calls(call(1, '{"y":2}', "g", "b")), *END)
    assert called(fold(events)) == [("", "f", '{"x":1}'), ("b", "g", '{"y":2}')]


def test_text_after_a_call_whose_id_never_comes_stays_behind_it() -> None:
    response = fold(decode(calls(call(0, "{}", "f")), chunk({"content": "so"}), *END))
    assert [type(block) for block in response.content] == [ToolCall, Text]


def test_two_calls_with_one_id_at_two_indices_are_two_calls() -> None:
    events = decode(calls(call(0, '{"x":1}', "f", "a"), call(1, '{"y":2}', "g", "a")), *END)
    assert called(fold(events)) == [("a", "f", '{"x":1}'), ("a", "g", '{"y":2}')]


def test_a_finished_call_is_closed_before_the_next_one_opens() -> None:
    """So that the second call's arguments stream instead of waiting for the end."""
    events = decode(*WAYS["as OpenAI does"], *END)
    kinds = [(type(event).__name__, event.index) for event in events if isinstance(event, Open | Close)]
    assert kinds == [("Open", 0), ("Close", 0), ("Open", 1), ("Close", 1)]


def test_a_name_in_pieces_is_put_together() -> None:
    events = decode(calls(call(0, None, "get_", "a")), calls(call(0, None, "time")), calls(call(0, "{}")), *END)
    assert called(fold(events)) == [("a", "get_time", "{}")]


def test_a_call_without_arguments_is_a_call() -> None:
    assert called(fold(decode(calls(call(0, None, "f", "a")), *END))) == [("a", "f", "")]


def test_one_chunk_with_reasoning_text_and_a_call_is_three_blocks_in_that_order() -> None:
    delta = {"reasoning_content": "hm", "content": "so", "tool_calls": [call(0, "{}", "f", "a")]}
    response = fold(decode(chunk(delta), *END))
    assert [type(block) for block in response.content] == [Thinking, Text, ToolCall]


def test_empty_content_opens_no_block() -> None:
    assert fold(decode(chunk({"role": "assistant", "content": ""}), chunk(finish="stop"), DONE)).content == ()


def test_usage_may_come_after_the_finish_reason() -> None:
    usage = chunk(usage={"prompt_tokens": 5, "completion_tokens": 2}, choices=[])
    response = fold(decode(chunk({"content": "x"}), chunk(finish="stop"), usage, DONE))
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens) == (5, 2)


def test_a_missing_done_is_forgiven_when_the_finish_reason_came() -> None:
    assert isinstance(decode(chunk({"content": "x"}), chunk(finish="stop"))[-1], Finish)


def test_a_missing_finish_reason_is_forgiven_when_done_came() -> None:
    assert isinstance(decode(chunk({"content": "x"}), DONE)[-1], Finish)


@pytest.mark.parametrize(
    "chunks", [(), (chunk({"content": "x"}),), (calls(call(0, '{"x"', "f", "a")),), (DONE,), (b"data: {",), (b"junk",)]
)
def test_a_stream_that_just_ends_is_a_fault(chunks: tuple[bytes, ...]) -> None:
    last = decode(*chunks)[-1]
    assert isinstance(last, Fault)
    assert last.error.code == "upstream_truncated"


@pytest.mark.parametrize("frame", [b"data: {]\n\n", b"data: 5\n\n", b'data: {"choices":5}\n\n', b'data: "\xff"\n\n'])
def test_an_unreadable_frame_is_a_fault_and_the_end(frame: bytes) -> None:
    events = decode(chunk({"content": "x"}), frame, chunk({"content": "y"}), DONE)
    assert isinstance(events[-1], Fault)
    assert events[-1].error.code == "upstream_unreadable"


def test_arguments_after_a_closed_call_are_a_fault() -> None:
    events = decode(calls(call(0, '{"x":1}', "f", "a")), calls(call(1, "{", "g", "b")), calls(call(0, "oops")), DONE)
    assert isinstance(events[-1], Fault)


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (b'data: {"error":{"message":"m","type":"server_error"}}\n\n', "server"),
        (b'data: {"error":{"message":"m","code":429}}\n\n', "rate_limit"),
        (b'data: {"object":"error","message":"m","code":400}\n\n', "bad_request"),
        (b'data: {"detail":"m"}\n\n', "server"),
        (b'event: error\ndata: {"type":"error","message":"m"}\n\n', "server"),
        (b'data: {"error":"m"}\n\n', "server"),
    ],
)
def test_an_error_inside_the_stream_is_a_fault(frame: bytes, kind: str) -> None:
    last = decode(chunk({"content": "x"}), frame)[-1]
    assert isinstance(last, Fault)
    assert (last.error.kind, last.error.message) == (kind, "m")


def test_other_candidates_are_told_in_the_receipt() -> None:
    receipt = Receipt()
    other = {"index": 1, "delta": {"content": "y"}, "finish_reason": None}
    decode(chunk({"content": "x"}), chunk(choices=[other]), chunk(finish="stop"), DONE, receipt=receipt)
    assert [line.where for line in receipt] == ["choices[1]"]


def test_thinking_in_parts_is_thinking() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "so"}]
    response = fold(decode(chunk({"content": parts}), chunk(finish="stop"), DONE))
    assert [getattr(block, "text", None) for block in response.content] == ["hm", "so"]


def encode(events: Iterable[Event], request: Request | None = None) -> list[Any]:
    encoder = OPENAI_CHAT.stream_encoder(request, Receipt())
    written = b"".join(encoder.feed(event) for event in events)
    assert written.endswith(b"\n\n")
    frames = written[:-2].split(b"\n\n")
    assert all(frame.startswith(b"data: ") for frame in frames)
    return [frame[6:].decode() if frame == b"data: [DONE]" else json.loads(frame[6:]) for frame in frames]


EVENTS: list[Event] = [
    Start(id="r", model="m", created=5),
    Open(0, Thinking()),
    Delta(0, "hm"),
    Close(index=0),
    Open(1, Text(text="")),
    Delta(1, 'He said "hi"'),
    Close(index=1, citations=(Citation(url="https://x", title="X"),)),
    Open(2, ToolCall(id="a", name="f")),
    Delta(2, '{"x":'),
    Delta(2, "1}"),
    Close(index=2),
    Open(3, ToolCall(id="b", name="g")),
    Close(index=3),
    Finish(stop=Stop("tool_calls", "tool_use"), usage=Usage(input_tokens=5, output_tokens=2)),
]


def test_a_stream_is_written_as_the_strictest_client_wants_it() -> None:
    frames = encode(EVENTS)
    assert frames[-1] == "[DONE]"
    assert [frame["choices"][0]["delta"] if frame["choices"] else None for frame in frames[:-1]] == [
        {"role": "assistant", "content": ""},
        {"reasoning_content": "hm"},
        {"content": 'He said "hi"'},
        {"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"x":'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]},
        {"tool_calls": [{"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": ""}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]},
        {
            "annotations": [
                {
                    "type": "url_citation",
                    "url_citation": {"start_index": 0, "end_index": 0, "url": "https://x", "title": "X"},
                }
            ]
        },
        {},
        None,
    ]
    assert [frame["choices"][0]["finish_reason"] for frame in frames[:-2]] == [None] * 9 + ["tool_calls"]
    assert frames[-2]["usage"]["total_tokens"] == 7
    assert all(frame["id"] == "r" and frame["object"] == "chat.completion.chunk" for frame in frames[:-1])


def test_usage_is_sent_only_to_clients_that_asked_for_it() -> None:
    quiet = OPENAI_CHAT.decode_request(b'{"model":"m","messages":[],"stream":true}')
    assert "usage" not in json.dumps(encode(EVENTS, quiet))
    asked = OPENAI_CHAT.decode_request(
        b'{"model":"m","messages":[],"stream":true,"stream_options":{"include_usage":true}}'
    )
    frames = encode(EVENTS, asked)
    assert [frame["usage"] is None for frame in frames[:-1]] == [True] * (len(frames) - 2) + [False]


def test_a_client_of_functions_gets_a_function_call_and_only_one() -> None:
    request = OPENAI_CHAT.decode_request(b'{"model":"m","messages":[],"functions":[{"name":"f"}]}')
    deltas = [frame["choices"][0]["delta"] for frame in encode(EVENTS, request)[:-1] if frame["choices"]]
    assert [delta["function_call"] for delta in deltas if "function_call" in delta] == [
        {"name": "f", "arguments": ""},
        {"arguments": '{"x":'},
        {"arguments": "1}"},
    ]
    assert "tool_calls" not in json.dumps(deltas)


def test_a_refusal_is_streamed_as_one() -> None:
    frames = encode([Start(), Open(0, Refusal(text="")), Delta(0, "No."), Close(index=0), Finish(stop=Stop("refusal"))])
    assert frames[1]["choices"][0]["delta"] == {"refusal": "No."}
    assert frames[-2]["choices"][0]["finish_reason"] == "stop"


def test_a_fault_ends_the_stream_with_an_error_and_without_done() -> None:
    frames = encode([Start(), Fault(ApiError(kind="overloaded", message="busy"))])
    assert frames[-1] == {"error": {"message": "busy", "type": "server_error", "param": None, "code": "overloaded"}}


def test_what_is_written_is_read_as_the_same_events() -> None:
    encoder = OPENAI_CHAT.stream_encoder(None, Receipt())
    response = fold(decode(*(encoder.feed(event) for event in EVENTS)))
    original = fold(EVENTS)
    assert called(response) == [("a", "f", '{"x":1}'), ("b", "g", "{}")]
    assert response.stop.reason == original.stop.reason
