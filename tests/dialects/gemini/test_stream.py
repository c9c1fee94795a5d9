"""Streams of streamGenerateContent, read and written."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.dialects.gemini import metadata, partial_arguments
from toolglot.dialects.gemini.dialect import GEMINI
from toolglot.dialects.gemini.native import SIGNED_APART
from toolglot.dialects.gemini.usage import UsageReports
from toolglot.errors import ApiError
from toolglot.events import Checker, Close, Delta, Event, Fault, Finish, Open, Start, fold
from toolglot.ir import (
    Block,
    Citation,
    Media,
    Native,
    Opaque,
    Request,
    Response,
    Source,
    Stop,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

Frame = dict[str, Any]


def parts(*values: Any, **fields: Any) -> Frame:
    return {"candidates": [{"content": {"role": "model", "parts": list(values)}, "index": 0, **fields}]}


END = {**parts({"text": ""}, finishReason="STOP"), "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2}}


def sse(*frames: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(frame).encode() + b"\r\n\r\n" for frame in frames)


def read(data: bytes, size: int = 0, receipt: Receipt | None = None) -> list[Event]:
    """The events of a stream, fed whole or in pieces, checked for their grammar."""
    decoder = GEMINI.stream_decoder(receipt if receipt is not None else Receipt())
    events: list[Event] = []
    for start in range(0, len(data), size or len(data) or 1):
        events += decoder.feed(data[start : start + (size or len(data))])
    events += decoder.close()
    checker = Checker()
    for event in events:
        checker.add(event)
    checker.close()
    assert decoder.feed(b"data: {}\n\n") == decoder.close() == []
    return events


def response(*frames: Any) -> Response:
    return fold(read(sse(*frames)))


def fault(data: bytes) -> ApiError:
    last = read(data)[-1]
    assert isinstance(last, Fault)
    return last.error


# Reading: framing

TEXT_AND_CALLS = [
    {
        **parts({"text": "Let me "}),
        "modelVersion": "gemini-x",
        "responseId": "r1",
        "usageMetadata": {"promptTokenCount": 50},
    },
    {**parts({"text": "check. 日本 🌍"}), "modelVersion": "gemini-x", "responseId": "r1"},
    {
        **parts(
            {
                "functionCall": {"id": "fc-a", "name": "get_weather", "args": {"city": "Paris"}},
                "thoughtSignature": "c2ln",
            },
            {"functionCall": {"id": "fc-b", "name": "now", "args": {}}},
            finishReason="STOP",
        ),
        "usageMetadata": {"promptTokenCount": 50, "candidatesTokenCount": 30, "thoughtsTokenCount": 5},
    },
]
PLAIN = [json.dumps(frame, ensure_ascii=False).encode() for frame in TEXT_AND_CALLS]
FRAMINGS = {
    "events": b"".join(b"data: %b\n\n" % frame for frame in PLAIN),
    "events with CRLF": b"".join(b"data: %b\r\n\r\n" % frame for frame in PLAIN),
    "events without a space": b"\xef\xbb\xbf\n\n" + b"".join(b"data:%b\n\n" % frame for frame in PLAIN),
    "events with everything": b": hello\n\n"
    + b"".join(b"event: message\nid: 1\ndata: %b\n\n" % frame for frame in PLAIN)
    + b"data: [DONE]\n\n",
    "events over several lines": b"".join(
        b"".join(b"data: %b\n" % line for line in json.dumps(frame, indent=1).encode().split(b"\n")) + b"\n"
        for frame in TEXT_AND_CALLS
    ),
    "events, the last one open": b"\n\n".join(b"data: %b" % frame for frame in PLAIN),
    "an array": b"[" + b"\n,\r\n".join(PLAIN) + b"]\n",
    "an array with a byte-order mark": b"\xef\xbb\xbf [" + b",".join(PLAIN) + b"]",
    "one after another": b"\n".join(PLAIN),
    "arrays in events": b"".join(b"data: [%b]\n\n" % frame for frame in PLAIN),
}


@pytest.mark.parametrize("data", FRAMINGS.values(), ids=FRAMINGS.keys())
def test_the_framing_and_the_cuts_make_no_difference(data: bytes) -> None:
    events = read(data)
    for size in (1, 2, 7, 64):
        assert read(data, size) == events
    whole = fold(events)
    assert (whole.id, whole.model, whole.stop) == ("r1", "gemini-x", Stop("tool_calls", "STOP"))
    text, weather, now = whole.content
    assert text == Text(text="Let me check. 日本 🌍")
    assert isinstance(weather, ToolCall)
    assert (weather.id, weather.name) == ("fc-a", "get_weather")
    assert json.loads(weather.arguments) == {"city": "Paris"}
    assert weather.native == {"gemini": {"thoughtSignature": "c2ln"}}
    assert now == ToolCall(id="fc-b", name="now", arguments="{}")
    assert whole.usage is not None
    assert (whole.usage.input_tokens, whole.usage.output_tokens, whole.usage.reasoning_tokens) == (50, 35, 5)


def test_text_comes_as_it_is_written() -> None:
    assert read(sse(parts({"text": "a"}), parts({"text": "b"}), END))[:5] == [
        Start(),
        Open(0, Text(text="")),
        Delta(0, "a"),
        Delta(0, "b"),
        Close(index=0),
    ]


def test_braces_and_escapes_inside_strings_do_not_end_a_document() -> None:
    text = '}{"\\][\n'
    data = b"[" + json.dumps(parts({"text": text})).encode() + b"," + json.dumps(END).encode() + b"]"
    assert fold(read(data)).content == (Text(text=text),)
    assert read(data, 1) == read(data)


def test_snake_case_frames_are_read() -> None:
    whole = response(
        {
            "candidates": [
                {"content": {"parts": [{"function_call": {"name": "f", "args": {"a_b": 1}}}]}, "finish_reason": "STOP"}
            ],
            "usage_metadata": {"prompt_token_count": 9},
            "response_id": "r_1",
        }
    )
    assert whole.id == "r_1"
    assert whole.content == (ToolCall(id="", name="f", arguments='{"a_b": 1}'),)
    assert whole.usage is not None
    assert whole.usage.input_tokens == 9


# Reading: blocks


def test_a_block_ends_when_the_kind_of_text_changes() -> None:
    whole = response(
        parts({"text": "hm", "thought": True}),
        parts({"text": " yes", "thought": True}, {"text": "So"}),
        parts({"text": ": 4", "thought": False}),
        END,
    )
    assert whole.content == (
        Thinking(text="hm yes", native={"gemini": {"thought": True}}),
        Text(text="So: 4"),
    )


def test_a_signature_belongs_to_the_block_it_ends() -> None:
    signed: Native = {"gemini": {"thoughtSignature": "c2ln"}}
    ends = [parts({"text": "!", "thoughtSignature": "c2ln"}), parts({"text": "", "thoughtSignature": "c2ln"})]
    apart: Native = {"gemini": {"thoughtSignature": "c2ln", SIGNED_APART: True}}
    for end, text, native in zip(ends, ("a!", "a"), (signed, apart), strict=True):
        assert response(parts({"text": "a"}), end, parts({"text": "b"}), END).content == (
            Text(text=text, native=native),
            Text(text="b"),
        )


def test_a_signature_without_text_before_it_is_a_block_of_its_own() -> None:
    whole = response(parts({"text": "hm", "thought": True}), parts({"thoughtSignature": "c2ln"}), END)
    assert whole.content[1] == Text(text="", native={"gemini": {"thoughtSignature": "c2ln"}})


def test_empty_text_opens_nothing() -> None:
    assert response(parts({"text": ""}), parts({"text": "", "thought": True}), END).content == ()


def test_media_code_and_unknown_parts_stand_whole() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "1"}}
    whole = response(
        parts({"inlineData": {"mimeType": "image/png", "data": "AA"}}, code),
        parts(
            {"functionResponse": {"name": "f", "response": {"output": "x"}}}, {"text": "a", "partMetadata": {"k": 1}}
        ),
        END,
    )
    assert whole.content == (
        Media(kind="image", source=Source("base64", "AA", "image/png")),
        Opaque("gemini", code),
        ToolResult(call_id="", name="f", content=(Text(text="x"),)),
        Text(text="a", native={"gemini": {"partMetadata": {"k": 1}}}),
    )


def test_arguments_are_the_text_as_it_was_written() -> None:
    frame = b'{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"b" : 1.0, "a": 1e3}}}]},'
    whole = fold(read(b"data: " + frame + b'"finishReason":"STOP"}]}\n\n'))
    assert whole.content == (ToolCall(id="", name="f", arguments='{"b" : 1.0, "a": 1e3}'),)


def test_a_call_without_arguments_has_no_delta() -> None:
    assert response(parts({"functionCall": {"name": "f"}}), END).content == (ToolCall(id="", name="f", arguments=""),)


def test_what_the_candidate_and_the_frame_hold_besides_is_kept() -> None:
    whole = response(
        {**parts({"text": "a"}, safetyRatings=[1]), "createTime": "t"},
        {**parts(finishReason="STOP", groundingMetadata={"x": 1}), "novel": 1},
    )
    assert whole.native == {
        "gemini": {"createTime": "t", "novel": 1, "candidate": {"safetyRatings": [1], "groundingMetadata": {"x": 1}}}
    }


def test_what_earlier_frames_said_of_the_sources_is_kept() -> None:
    def cited(uri: str) -> Frame:
        return parts({"text": "a"}, citationMetadata={"citationSources": [{"uri": uri}]}, safetyRatings=[{"x": uri}])

    def grounded(uri: str, *indices: int) -> Frame:
        support = {"groundingChunkIndices": list(indices)}
        return parts(groundingMetadata={"groundingChunks": [{"web": {"uri": uri}}], "groundingSupports": [support]})

    frames = [cited("u1"), cited("u2"), cited("u2"), grounded("g1", 0), grounded("g2", 0)]
    candidate = response(*frames, END).native["gemini"]["candidate"]
    assert candidate == {
        "citationMetadata": {"citationSources": [{"uri": "u1"}, {"uri": "u2"}, {"uri": "u2"}]},
        "safetyRatings": [{"x": "u2"}],
        "$grounding": {
            "groundingChunks": [{"web": {"uri": "g1"}}, {"web": {"uri": "g2"}}],
            "groundingSupports": [{"groundingChunkIndices": [0]}, {"groundingChunkIndices": [1]}],
        },
    }


def test_metadata_that_every_frame_repeats_is_not_doubled() -> None:
    support = {"groundingChunkIndices": [0]}
    first = {"groundingChunks": [1], "groundingSupports": [support], "webSearchQueries": ["a"]}
    second = {"groundingChunks": [1, 2], "groundingSupports": [support, {"novel": 1}], "novel": 2}
    frames = [parts(groundingMetadata=first), parts(groundingMetadata=second), parts(groundingMetadata=None)]
    candidate = response(*frames, END).native["gemini"]["candidate"]
    assert candidate == {"groundingMetadata": {**first, **second}}


def test_a_member_of_the_candidate_that_is_overwritten_is_a_loss() -> None:
    receipt = Receipt()
    whole = fold(read(sse(parts(novel=1), parts(novel=1), parts(novel=2), END), receipt=receipt))
    assert whole.native["gemini"]["candidate"] == {"novel": 2}
    assert [loss.where for loss in receipt.losses] == ["candidates[0].novel"]


def test_metadata_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "MAX_HELD_BYTES", 1000)
    same = [parts(novel="x" * 500), parts(novel="y" * 500)] * 3
    assert isinstance(read(sse(*same, END))[-1], Finish)
    growing = [parts(citationMetadata={"citationSources": [{"uri": str(number)}]}) for number in range(100)]
    assert fault(sse(*growing, END)).code == "upstream_unreadable"
    assert fault(sse({f"novel{number}": 1 for number in range(10_001)}, END)).code == "upstream_unreadable"


def test_what_stands_beside_the_parts_is_kept_and_written_again() -> None:
    frame = parts({"text": "a"})
    frame["candidates"][0]["content"]["novel"] = 1
    events = read(sse(frame, END))
    assert fold(events).native["gemini"]["candidate"] == {"content": {"novel": 1}}
    assert frames_of(write(*events))[-1]["candidates"][0]["content"] == {
        "parts": [{"text": ""}],
        "role": "model",
        "novel": 1,
    }
    exchange = ExchangeCore("openai_chat", "gemini")
    stream = exchange.stream()
    stream.feed(sse(frame, END))
    stream.close()
    assert any(loss.where.endswith("content.novel") for loss in exchange.receipt.losses)


def test_further_candidates_are_a_loss() -> None:
    receipt = Receipt()
    other = {"candidates": [{"content": {"parts": [{"text": "b"}]}, "index": 1, "finishReason": "STOP"}]}
    events = read(sse(parts({"text": "a"}), other, other, END), receipt=receipt)
    assert fold(events).content == (Text(text="a"),)
    assert len(receipt.losses) == 1


# Reading: streamed arguments


def piece(path: str, more: bool = False, **value: Any) -> dict[str, Any]:
    return {"jsonPath": path, **value, **({"willContinue": True} if more else {})}


def streamed(*batches: Iterable[dict[str, Any]], name: str = "f", **first: Any) -> list[Frame]:
    """The frames of a call whose arguments come in pieces."""
    frames = [parts({"functionCall": {"name": name, "willContinue": True, **first}})]
    frames += [parts({"functionCall": {"partialArgs": list(batch), "willContinue": True}}) for batch in batches]
    return [*frames, parts({"functionCall": {}})]


def arguments_of(*batches: Iterable[dict[str, Any]]) -> str:
    (call,) = response(*streamed(*batches), END).content
    assert isinstance(call, ToolCall)
    assert call.complete
    return call.arguments


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([[piece("$.a", stringValue="x")]], {"a": "x"}),
        ([[piece("$.a", True, stringValue="Pa")], [piece("$.a", stringValue='r"is')]], {"a": 'Par"is'}),
        ([[piece("$.a", True, stringValue="x")], [piece("$.a", stringValue="")]], {"a": "x"}),
        # A string that said it would go on, and did not.
        ([[piece("$.a", True, stringValue="x")], [piece("$.b", numberValue=1)]], {"a": "x", "b": 1}),
        (
            [[piece("$.n", numberValue=1.5), piece("$.t", boolValue=False), piece("$.z", nullValue="NULL_VALUE")]],
            {"n": 1.5, "t": False, "z": None},
        ),
        (
            [
                [piece("$.place.city", stringValue="Paris")],
                [piece("$.place.at.lat", numberValue=1)],
                [piece("$.unit", stringValue="C")],
            ],
            {"place": {"city": "Paris", "at": {"lat": 1}}, "unit": "C"},
        ),
        (
            [
                [piece("$.items[0].name", stringValue="a"), piece("$.items[0].n", numberValue=1)],
                [piece("$.items[1].name", stringValue="b")],
                [
                    piece("$.grid[0][0]", numberValue=1),
                    piece("$.grid[0][1]", numberValue=2),
                    piece("$.grid[1][0]", numberValue=3),
                ],
            ],
            {"items": [{"name": "a", "n": 1}, {"name": "b"}], "grid": [[1, 2], [3]]},
        ),
        (
            [[piece("$['a b']['it\\'s']", numberValue=1), piece('$["a b"]["日"]', numberValue=2)]],
            {"a b": {"it's": 1, "日": 2}},
        ),
    ],
)
def test_pieces_add_up_to_the_arguments(batches: Any, expected: Any) -> None:
    assert json.loads(arguments_of(*batches)) == expected


def test_a_string_is_passed_on_piece_by_piece() -> None:
    pieces = [[piece("$.a", True, stringValue="Pa")], [piece("$.a", True, stringValue="ris")]]
    data = sse(*streamed(*pieces, [piece("$.a", stringValue="")]), END)
    deltas = [event.text for event in read(data) if isinstance(event, Delta)]
    assert deltas == ['{"a":"Pa', "ris", '"', "}"]
    assert read(data, 1) == read(data)


def test_calls_follow_one_another() -> None:
    frames = [*streamed([piece("$.a", numberValue=1)]), *streamed([piece("$.b", numberValue=2)], name="g")]
    whole = response(*frames, parts({"functionCall": {"name": "h", "args": {"c": 3}}}), END)
    assert [(call.name, json.loads(call.arguments)) for call in whole.content if isinstance(call, ToolCall)] == [
        ("f", {"a": 1}),
        ("g", {"b": 2}),
        ("h", {"c": 3}),
    ]


def test_interleaved_calls_are_told_apart_by_their_ids() -> None:
    def part(call_id: str, **fields: Any) -> Frame:
        return parts({"functionCall": {"id": call_id, **fields}})

    whole = response(
        part("1", name="f", willContinue=True),
        part("2", name="f", willContinue=True),
        part("1", name="f", partialArgs=[piece("$.a", numberValue=1)], willContinue=True),
        part("2", partialArgs=[piece("$.a", numberValue=2)]),
        part("1"),
        END,
    )
    assert [(call.id, call.arguments) for call in whole.content if isinstance(call, ToolCall)] == [
        ("1", '{"a":1}'),
        ("2", '{"a":2}'),
    ]


def calls_of(whole: Response) -> list[tuple[str, str, bool]]:
    return [(call.name, call.arguments, call.complete) for call in whole.content if isinstance(call, ToolCall)]


def test_a_call_that_another_one_interrupts_was_cut() -> None:
    first, second = streamed([piece("$.a", numberValue=1)])[:-1], streamed(name="g")
    whole = response(*first, *second, END)
    assert calls_of(whole) == [("f", '{"a":1', False), ("g", "", True)]


def test_a_signature_on_a_later_piece_is_kept() -> None:
    frames = streamed()
    frames[-1]["candidates"][0]["content"]["parts"][0]["thoughtSignature"] = "c2ln"
    assert response(*frames, END).content[0].native == {"gemini": {"thoughtSignature": "c2ln"}}


CUT = [piece("$.path", True, stringValue="/ho")]
REASONS = ["STOP", "MAX_TOKENS", "SAFETY", "NOVEL"]


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize(
    ("parts_of_call", "arguments"),
    [
        ([{"name": "rm", "partialArgs": CUT, "willContinue": True}], '{"path":"/ho'),
        ([{"name": "rm", "partialArgs": CUT}], '{"path":"/ho'),
        ([{"name": "rm", "partialArgs": CUT, "willContinue": True}, {}], '{"path":"/ho'),
        ([{"name": "rm", "partialArgs": [piece("$.a[0].b", numberValue=1)], "willContinue": True}], '{"a":[{"b":1'),
        ([{"name": "rm", "args": {"path": "/ho"}, "willContinue": True}], '{"path": "/ho"}'),
        ([{"name": "rm", "willContinue": True}], ""),
    ],
)
def test_a_call_that_was_cut_stays_as_it_is_and_is_not_complete(
    parts_of_call: list[Any], arguments: str, reason: str
) -> None:
    frames = [parts({"functionCall": call}) for call in parts_of_call]
    assert calls_of(response(*frames, parts(finishReason=reason))) == [("rm", arguments, False)]


@pytest.mark.parametrize("client", ["openai_chat", "openai_responses", "anthropic"])
@pytest.mark.parametrize("reason", ["STOP", "MAX_TOKENS"])
def test_nobody_is_told_to_run_a_call_that_was_cut(client: str, reason: str) -> None:
    stream = ExchangeCore(client, "gemini").stream()
    call = {"name": "rm", "partialArgs": CUT, "willContinue": True}
    written = stream.feed(sse(parts({"functionCall": call}), parts(finishReason=reason))) + stream.close()
    assert b"/ho" in written
    assert b'/ho\\"' not in written


def test_a_placeholder_for_arguments_that_are_to_come_is_none() -> None:
    first = parts({"functionCall": {"name": "f", "args": {}, "willContinue": True}})
    last = parts({"functionCall": {"partialArgs": [piece("$.a", numberValue=1)]}})
    assert calls_of(response(first, last, END)) == [("f", '{"a":1}', True)]


def test_a_piece_for_a_call_that_is_over_does_not_go_to_another_one() -> None:
    frames = [
        parts({"functionCall": {"id": "1", "name": "f", "args": {}}}),
        parts({"functionCall": {"id": "2", "name": "g", "willContinue": True}}),
        parts({"functionCall": {"id": "1", "partialArgs": [piece("$.a", numberValue=1)]}}),
    ]
    assert fault(sse(*frames, END)).code == "upstream_unreadable"


@pytest.mark.parametrize("value", [0, 1, "true", [], {}])
def test_a_call_of_which_nobody_knows_whether_it_goes_on_is_refused(value: Any) -> None:
    call = {"name": "rm", "args": {"path": "/ho"}, "willContinue": value}
    error = fault(sse(parts({"functionCall": call}), END))
    assert "$.candidates[0].content.parts[0].functionCall.willContinue: expected a boolean" in error.message


@pytest.mark.parametrize("index", [0.5, True, "0", []])
def test_an_index_that_is_no_whole_number_is_refused(index: Any) -> None:
    assert (
        "$.candidates[0].index: expected a whole number" in fault(sse(parts({"text": "a"}, index=index), END)).message
    )


def test_many_open_calls_take_linear_time_and_have_a_bound() -> None:
    def begun(number: int) -> Frame:
        return {"functionCall": {"id": str(number), "name": "f", "willContinue": True}}

    many = [begun(number) for number in range(10_000)]
    ended = [{"functionCall": {"id": str(number)}} for number in range(10_000)]
    assert all(complete for _, _, complete in calls_of(response(parts(*many), parts(*ended), END)))
    assert fault(sse(parts(*many, begun(10_000)), END)).code == "upstream_unreadable"


def test_the_names_of_members_that_are_remembered_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial_arguments, "MAX_HELD_NAMES", 1000)
    few = [piece(f"$.list[{number}].a", numberValue=number) for number in range(100)]  # forgotten with each item
    assert len(json.loads(arguments_of(few))["list"]) == 100
    many = [piece(f"$.a{number}", numberValue=number) for number in range(100)]
    assert fault(sse(*streamed(many), END)).code == "upstream_unreadable"


@pytest.mark.parametrize(
    "pieces",
    [
        [piece("$.a.x", numberValue=1), piece("$.b", numberValue=1), piece("$.a.y", numberValue=1)],
        [piece("$.a", numberValue=1), piece("$.a", numberValue=2)],
        [piece("$.a.b", numberValue=1), piece("$.a", numberValue=2)],
        [piece("$.a", numberValue=1), piece("$.a.b", numberValue=2)],
        [piece("$.a[0]", numberValue=1), piece("$.a[2]", numberValue=2)],
        [piece("$.a[1]", numberValue=1)],
        [piece("$.a[0]", numberValue=1), piece("$.a.b", numberValue=2)],
        [piece("$.a", True, stringValue="x"), piece("$.a", numberValue=2)],
        [piece("$", numberValue=1)],
        [piece("$[0]", numberValue=1)],
        [piece("a", numberValue=1)],
        [piece("$.a..b", numberValue=1)],
        [piece("$.a")],
        [{"numberValue": 1}],
    ],
)
def test_pieces_that_make_no_sense_are_refused_not_guessed(pieces: Any) -> None:
    assert fault(sse(*streamed(pieces), END)).code == "upstream_unreadable"


# Reading: the end


def test_a_stream_without_a_finish_reason_is_truncated() -> None:
    for data in (b"", b"\n\n", sse(parts({"text": "a"})), b"<html></html>"):
        assert fault(data).code == "upstream_truncated"


def test_every_cut_ends_in_a_fault_or_in_what_came_whole() -> None:
    for data in (FRAMINGS["events"], FRAMINGS["an array"]):
        for end in range(len(data)):
            last = read(data[:end])[-1]
            assert isinstance(last, Fault) or end > len(data) - 4


def test_usage_may_follow_the_reason() -> None:
    whole = response(parts({"text": "a"}, finishReason="MAX_TOKENS"), {"usageMetadata": {"promptTokenCount": 9}})
    assert whole.stop == Stop("length", "MAX_TOKENS")
    assert whole.usage is not None
    assert whole.usage.input_tokens == 9


def test_counts_that_later_frames_leave_out_are_kept() -> None:
    frames = (
        {**parts({"text": "a"}), "usageMetadata": {"promptTokenCount": 9, "cachedContentTokenCount": 4}},
        {**parts({"text": "b"}), "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 1}},
        {**parts({"text": "c"}), "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 2}},
        {**parts({"text": ""}, finishReason="STOP"), "usageMetadata": {"candidatesTokenCount": 3}},
    )
    usage = response(*frames).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (10, 3, 4)


def test_reports_of_ever_other_members_are_not_all_held() -> None:
    reports = UsageReports()
    for number in range(1000):
        reports.add(json.dumps({"promptTokenCount": number, "x" * number: 1}).encode())
        assert len(reports._by_shape) <= 16
    usage = reports.merged()
    assert usage is not None
    assert usage.input_tokens == 999


def test_a_reason_for_a_broken_call_is_kept_with_its_message() -> None:
    whole = response({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "bad"}]})
    assert whole.stop == Stop("malformed_call", "MALFORMED_FUNCTION_CALL", detail="bad")


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"])
def test_a_broken_call_is_told_also_beside_a_whole_one(reason: str) -> None:
    body = parts({"functionCall": {"name": "f", "args": {}}}, finishReason=reason, finishMessage="bad")
    stop = Stop("malformed_call", reason, detail="bad")
    assert response(body).stop == stop
    assert GEMINI.decode_response(json.dumps(body).encode()).stop == stop


@pytest.mark.parametrize("reason", ["MAX_TOKENS", "SAFETY"])
def test_a_call_that_was_cut_before_its_arguments_is_not_run_without_any(reason: str) -> None:
    stream = ExchangeCore("openai_chat", "gemini").stream()
    written = stream.feed(sse(parts({"functionCall": {"name": "rm"}}, finishReason=reason))) + stream.close()
    assert b'"arguments":"{}"' not in written


def test_a_refused_prompt_is_filtered() -> None:
    whole = response(
        {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 1}}
    )
    assert (whole.stop, whole.content) == (Stop("filtered", "PROHIBITED_CONTENT"), ())
    body = {"promptFeedback": {"block_reason": "OTHER", "block_reason_message": "because"}}
    assert response(body).stop == Stop("filtered", "OTHER", detail="because")
    assert GEMINI.decode_response(json.dumps(body).encode()).stop == Stop("filtered", "OTHER", detail="because")


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"code": 503, "message": "m", "status": "UNAVAILABLE"}},
        {"responseId": "r1", "error": {"code": 503, "message": "m"}},
        [{"error": {"code": 503, "message": "m", "status": "UNAVAILABLE"}}],
        {"code": 503, "message": "m", "status": "UNAVAILABLE"},
    ],
)
def test_an_error_in_the_stream_is_a_fault(body: Any) -> None:
    for data in (sse(parts({"text": "a"}), body, END), sse(body), json.dumps(body, indent=1).encode()):
        error = fault(data)
        assert (error.kind, error.message, error.status) == ("overloaded", "m", 503)


@pytest.mark.parametrize(
    "data",
    [
        b"data: {\n\n",
        b"data: 1\n\n",
        b"data: {}x\n\n",
        b'data: {"candidates":1}\n\n',
        b'data: {"candidates":[{"content":{"parts":[{"text":1}]}}]}\n\n',
        b'data: {"candidates":[{"content":{"parts":[{"functionCall":{"args":{"a":1}}}]}}]}\n\n',
        b'data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":"{}"}}]}}]}\n\n',
        b'data: {"candidates":[{"content":{"parts":[{"text":"\xff"}]}}]}\n\n',
        b'[{"candidates":[]} oops ',
        b"[{}}",
    ],
)
def test_what_cannot_be_read_is_a_fault(data: bytes) -> None:
    assert fault(data).code == "upstream_unreadable"
    assert read(data, 1) == read(data)


PIECES = st.sampled_from(
    [*PLAIN, b"data: ", b"\n\n", b"\r", b"[", b"]", b"{", b"}", b'"', b"\\", b",", b"\xff", b'{"error":1}', b"\xef\xbb"]
)


@given(st.lists(PIECES | st.binary(max_size=8), max_size=8).map(b"".join), st.integers(1, 40))
def test_any_bytes_give_grammatical_events_however_they_are_cut(data: bytes, size: int) -> None:
    assert read(data, size) == read(data)


# Writing


def write(*events: Event, request: Request | None = None, receipt: Receipt | None = None) -> bytes:
    encoder = GEMINI.stream_encoder(request, receipt if receipt is not None else Receipt())
    return b"".join(encoder.feed(event) for event in events)


def frames_of(data: bytes) -> list[Any]:
    """The frames of a stream that holds nothing but `data: {json}` and empty lines."""
    assert data.endswith(b"\n\n")
    lines = data.split(b"\n\n")[:-1]
    assert all(line.startswith(b"data: {") and b"\n" not in line for line in lines)
    return [json.loads(line[6:]) for line in lines]


BEGIN = Start(id="r1", model="gemini-x")
DONE = Finish(stop=Stop("end"), usage=Usage(input_tokens=3, output_tokens=2))


def written_parts(*events: Event, receipt: Receipt | None = None) -> list[Any]:
    frames = frames_of(write(BEGIN, *events, DONE, receipt=receipt))
    assert all(frame["responseId"] == "r1" and frame["modelVersion"] == "gemini-x" for frame in frames)
    return [part for frame in frames[:-1] for part in frame["candidates"][0]["content"]["parts"]]


def test_text_is_written_as_it_comes() -> None:
    assert write(BEGIN, Open(0, Text(text="")), Delta(0, 'a"\n')) == (
        b'data: {"candidates":[{"content":{"parts":[{"text":"a\\"\\n"}],"role":"model"},"index":0}],'
        b'"modelVersion":"gemini-x","responseId":"r1"}\n\n'
    )


def test_the_last_frame_has_the_reason_and_the_usage() -> None:
    assert frames_of(write(BEGIN, DONE)) == [
        {
            "candidates": [
                {"content": {"parts": [{"text": ""}], "role": "model"}, "finishReason": "STOP", "index": 0},
            ],
            "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5},
            "modelVersion": "gemini-x",
            "responseId": "r1",
        }
    ]


def test_thinking_is_written_as_thoughts_and_a_signature_on_its_own_part() -> None:
    signed = Close(index=0, native={"gemini": {"thoughtSignature": "c2ln"}})
    assert written_parts(
        Open(0, Thinking()), Delta(0, "hm"), signed, Open(1, Text(text="")), Delta(1, "a"), Close(index=1)
    ) == [
        {"text": "hm", "thought": True},
        {"text": "", "thoughtSignature": "c2ln", "thought": True},
        {"text": "a"},
    ]


def test_a_call_is_written_whole_when_it_is_closed() -> None:
    call = ToolCall(id="c1", name="f", native={"gemini": {"thoughtSignature": "c2ln"}})
    events: list[Event] = [Open(0, call), Delta(0, '{"a":'), Delta(0, " 1}")]
    assert write(BEGIN, *events) == b""
    assert written_parts(*events, Close(index=0), Open(1, ToolCall(id="", name="g")), Close(index=1)) == [
        {"functionCall": {"id": "c1", "name": "f", "args": {"a": 1}}, "thoughtSignature": "c2ln"},
        {"functionCall": {"name": "g", "args": {}}},
    ]


def test_line_ends_in_arguments_stay_out_of_the_frame() -> None:
    call: list[Event] = [Open(0, ToolCall(id="1", name="f")), Delta(0, '{\n "a": 1,\r\n "b": 2}'), Close(index=0)]
    assert written_parts(*call)[0]["functionCall"]["args"] == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("text", "complete", "shown"),
    [('{"a"}', True, '[tool call f was not valid JSON: {"a"}]'), ('{"a":', False, '[tool call f was cut off: {"a":]')],
)
def test_a_call_that_must_not_run_is_shown_as_text(text: str, complete: bool, shown: str) -> None:
    receipt = Receipt()
    events: list[Event] = [Open(0, ToolCall(id="1", name="f")), Delta(0, text), Close(index=0, complete=complete)]
    assert written_parts(*events, receipt=receipt) == [{"text": shown}]
    assert [loss.where for loss in receipt.losses] == ["content[0]"]


def test_whole_blocks_are_written_when_they_open() -> None:
    receipt = Receipt()
    blocks: list[Block] = [
        Media(kind="image", source=Source("base64", "AA", "image/png")),
        Opaque("gemini", {"executableCode": {"code": "1"}}),
        Opaque("anthropic", {"type": "novel"}),
        Thinking(native={"anthropic": {"data": "x"}}),
    ]
    events: list[Event] = [
        event for index, block in enumerate(blocks) for event in (Open(index, block), Close(index=index))
    ]
    assert written_parts(*events, receipt=receipt) == [
        {"inlineData": {"mimeType": "image/png", "data": "AA"}},
        {"executableCode": {"code": "1"}},
    ]
    assert [loss.where for loss in receipt.losses] == ["content[2]", "content[3]"]


def test_citations_and_metadata_stand_in_the_last_frame() -> None:
    finish = Finish(
        stop=Stop("length", "max_tokens", detail="why"),
        native={"gemini": {"candidate": {"urlContextMetadata": {"x": 1}}, "createTime": "t"}},
    )
    cited = Close(index=0, citations=(Citation(url="https://e.org"),))
    (last,) = frames_of(write(BEGIN, Open(0, Text(text="")), cited, finish))
    assert last["createTime"] == "t"
    assert last["candidates"][0] == {
        "content": {"parts": [{"text": ""}], "role": "model"},
        "finishReason": "MAX_TOKENS",
        "finishMessage": "why",
        "groundingMetadata": {"groundingChunks": [{"web": {"uri": "https://e.org"}}]},
        "index": 0,
        "urlContextMetadata": {"x": 1},
    }


def test_a_fault_is_an_event_for_readers_of_events_and_a_bare_document_for_the_javascript_sdk() -> None:
    document = b'{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}'
    assert write(Fault(ApiError(kind="overloaded", message="m"))) == b"data: %b\n\n%b\n\n" % (document, document)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_an_error_among_events_is_a_bare_document(end: bytes) -> None:
    body = {"error": {"code": 503, "message": "m", "status": "UNAVAILABLE"}}
    bare = json.dumps(body, indent=2).encode()
    data = (sse(parts({"text": "a"})) + bare + b"\n").replace(b"\n", end)
    for size in (1, 2, 7, len(data)):
        decoder = GEMINI.stream_decoder(Receipt())
        pieces = [data[start : start + size] for start in range(0, len(data), size)]
        events = [event for piece in pieces for event in decoder.feed(piece)] + decoder.close()
        assert [event.error.message for event in events if isinstance(event, Fault)] == ["m"]
        assert any(isinstance(event, Delta) and event.text == "a" for event in events)


@pytest.mark.parametrize("is_event", [True, False])
def test_an_error_that_goes_through_is_told_in_both_ways(is_event: bool) -> None:
    document = b'{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}'
    said = b"data: %b\n\n" % document if is_event else document + b"\n"
    exchange = ExchangeCore("gemini", "gemini")
    exchange.request(json.dumps({"contents": [{"parts": [{"text": "hi"}]}]}).encode())
    stream = exchange.stream()
    written = stream.feed(sse(parts({"text": "a"})) + said) + stream.close()
    assert written.endswith(b"data: %b\n\n%b\n\n" % (document, document))


CALLED: tuple[Event, ...] = (
    Start(),
    Open(index=0, block=Text(text="")),
    Delta(index=0, text="I look."),
    Close(index=0),
    Open(index=1, block=ToolCall(id="a", name="f", arguments="{}")),
    Close(index=1),
    Open(index=2, block=ToolCall(id="b", name="g", arguments="{}")),
)


def test_calls_wait_for_the_end_of_the_answer() -> None:
    encoder = GEMINI.stream_encoder(None, Receipt())
    assert b"functionCall" not in b"".join(map(encoder.feed, CALLED))
    assert encoder.feed(Close(index=2)) == b""
    assert encoder.feed(DONE).count(b"functionCall") == 2


def test_a_stream_that_fails_brings_no_call_that_would_be_run_beside_its_repetition() -> None:
    failure = Fault(error=ApiError(kind="server", message="cut"))
    written = write(*CALLED, failure)
    assert b"I look." in written
    assert b"functionCall" not in written
    assert written.endswith(write(failure))


def forwarded(*frames: Frame) -> tuple[bytes, bytes]:
    """What a client of the same dialect gets of the frames, and what it gets at the end."""
    exchange = ExchangeCore("gemini", "gemini")
    exchange.request(json.dumps({"contents": [{"parts": [{"text": "hi"}]}]}).encode())
    stream = exchange.stream()
    return b"".join(stream.feed(sse(frame)) for frame in frames), stream.close()


CALL = parts({"functionCall": {"name": "f", "args": {}}})


def test_calls_that_go_through_wait_for_the_end_too() -> None:
    text, more = parts({"text": "a"}), parts({"text": "b"})
    before, end = forwarded(text, CALL, more, parts({"text": ""}, finishReason="STOP"))
    assert before + end == sse(text, CALL, more, parts({"text": ""}, finishReason="STOP"))
    before, end = forwarded(text, CALL, more)
    assert before == sse(text)
    assert b"functionCall" not in end
    assert b'"error"' in end


def test_a_keepalive_is_nothing_but_empty_lines() -> None:
    assert GEMINI.stream_encoder(None, Receipt()).keepalive() == b"\n\n"


def test_the_requested_model_stands_in_for_an_unknown_one() -> None:
    (frame,) = frames_of(write(Start(), DONE, request=Request(model="gemini-3-pro")))
    assert frame["modelVersion"] == "gemini-3-pro"


def test_a_stream_that_was_written_reads_the_same() -> None:
    events = read(FRAMINGS["events"])
    again = read(write(*events))
    assert fold(again) == fold(events)


@pytest.mark.parametrize(
    ("frames", "settled"),
    [
        ([parts({"text": "a"})], False),
        ([parts({"text": "a"}), parts({"text": "b"}, finishReason="STOP")], True),
        ([parts({"text": "a"}, finishReason="STOP"), parts({"text": "b"}, finishReason="STOP")], False),
        ([{"promptFeedback": {"blockReason": "SAFETY"}}], True),
        ([{"promptFeedback": {"safetyRatings": []}}], False),
    ],
    ids=["no reason", "one reason", "a reason in every frame", "a blocked prompt", "a prompt that is not blocked"],
)
def test_a_stream_is_settled_by_the_one_reason_for_its_end(frames: list[Any], settled: bool) -> None:
    decoder = GEMINI.stream_decoder(Receipt())
    decoder.feed(sse(*frames))
    assert decoder.settled is settled
