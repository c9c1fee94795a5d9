"""Chat Completions streams: the many forms in which servers send them, and the one form in which we write them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from toolglot.dialects.openai_chat.call_matching import ChatOpenCall
from toolglot.dialects.openai_chat.dialect import OPENAI_CHAT
from toolglot.errors import ApiError
from toolglot.events import Checker, Close, Delta, Event, Fault, Finish, Open, Start, fold, unfold
from toolglot.ir import Block, Citation, Refusal, Request, Response, Stop, Text, Thinking, ToolCall, Usage
from toolglot.receipt import Receipt
from toolglot.wire import stream_budget


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
    "with another id in every chunk": (
        calls(call(0, None, "f", "a")),
        calls(call(0, '{"x"', None, "a2")),
        calls(call(0, ":1}", None, "a3")),
        calls(call(1, None, "g", "b")),
        calls(call(1, '{"y":2}', None, "b2")),
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


def test_text_after_a_call_without_an_id_stays_after_it() -> None:
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


@pytest.mark.parametrize("begun", [{}, {"arguments": ""}, {"arguments": '{"a"'}])
def test_an_id_that_comes_again_with_another_name_is_refused_at_once(begun: dict[str, str]) -> None:
    """Put together, the names would be that of a third tool."""
    decoder = OPENAI_CHAT.stream_decoder(Receipt())
    decoder.feed(calls(call(0, begun.get("arguments"), "f", "c1")))
    last = decoder.feed(calls(call(0, "", "g", "c1")))[-1]
    assert isinstance(last, Fault)
    assert last.error.message.endswith("another name in one call")


def test_a_name_that_grows_beside_its_id_is_the_last_one() -> None:
    response = fold(
        decode(calls(call(0, "", "get_", "c1")), calls(call(0, "{}", "get_it", "c1")), chunk(finish="tool_calls"), DONE)
    )
    assert called(response) == [("c1", "get_it", "{}")]


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


def test_a_stream_is_settled_by_its_finish_reason() -> None:
    decoder = OPENAI_CHAT.stream_decoder(Receipt())
    decoder.feed(chunk({"content": "x"}))
    assert decoder.settled is False
    decoder.feed(chunk(finish="stop"))
    assert decoder.settled is True


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


def test_a_stream_that_its_server_broke_off_ends_in_a_fault() -> None:
    events = decode(chunk({"content": "a"}), chunk({}, "network_error"), DONE)
    broken = events[-1]
    assert isinstance(broken, Fault)
    assert (broken.error.kind, broken.error.code) == ("server", "network_error")


def test_other_candidates_are_reported() -> None:
    receipt = Receipt()
    other = {"index": 1, "delta": {"content": "y"}, "finish_reason": None}
    decode(chunk({"content": "x"}), chunk(choices=[other]), chunk(finish="stop"), DONE, receipt=receipt)
    assert [line.where for line in receipt] == ["choices[1]"]


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [("length", "stop", "length"), ("content_filter", "stop", "filtered"), ("stop", "length", "length")],
)
def test_a_plain_end_does_not_hide_that_the_answer_was_cut(first: str, second: str, reason: str) -> None:
    response = fold(decode(chunk({"content": "x"}), chunk(finish=first), chunk(finish=second), DONE))
    assert response.stop.reason == reason


def test_the_only_candidate_is_read_whatever_its_index() -> None:
    receipt = Receipt()
    parts: list[dict[str, Any]] = [
        {"index": 1, "delta": {"content": "x"}},
        {"index": 1, "delta": {"tool_calls": [call(0, "{}", "f", "a")]}},
        {"index": 1, "delta": {}, "finish_reason": "tool_calls"},
    ]
    response = fold(decode(*(chunk(choices=[part]) for part in parts), DONE, receipt=receipt))
    assert response.content == (Text(text="x"), ToolCall(id="a", name="f", arguments="{}"))
    assert response.stop.reason == "tool_calls"
    assert not receipt


def strange(*chunks: bytes) -> list[str]:
    receipt = Receipt()
    assert isinstance(decode(*chunks, chunk(finish="stop"), DONE, receipt=receipt)[-1], Finish)
    return [line.where for line in receipt.losses]


@pytest.mark.parametrize(
    ("odd", "where"),
    [
        (chunk({"content": "x", "audio": {"id": "a"}}), "choices[0].delta.audio"),
        (chunk({"images": [{"type": "image_url"}]}), "choices[0].delta.images"),
        (chunk({"reasoning_details": ["reasoning.encrypted"]}), "choices[0].delta.reasoning_details"),
        (chunk({"provider_specific_fields": {"a": 1}}), "choices[0].delta.provider_specific_fields"),
        (chunk({"reasoning": {"content": "hm"}}), "choices[0].delta.reasoning"),
        (chunk({"content": "x"}, citations=["https://x"]), "citations"),
        (chunk(choices=[{"index": 0, "delta": {}, "native_finish_reason": "stop"}]), "choices[0].native_finish_reason"),
        (calls({**call(0, "{}", "f", "a"), "novel": 1}), "choices[0].delta.tool_calls[].novel"),
        (
            calls(call(0, "{}", "f", "a") | {"function": {"name": "f", "x": 1}}),
            "choices[0].delta.tool_calls[].function.x",
        ),
        (chunk({"function_call": {"name": "f", "x": 1}}), "choices[0].delta.function_call.x"),
    ],
)
def test_an_unknown_member_of_chunks_is_reported_once(odd: bytes, where: str) -> None:
    assert strange(chunk({"content": "x"}), odd, odd) == [where]


def test_empty_fields_are_not_reported() -> None:
    quiet: dict[str, Any] = {
        "obfuscation": "x",
        "system_fingerprint": "fp",
        "service_tier": "default",
        "provider": None,
        "beta": False,
    }
    assert strange(chunk({"content": "x", "audio": None, "images": []}, **quiet)) == []


def test_a_chunk_with_strange_fields_is_read_all_the_same() -> None:
    odd = chunk({"content": "x", "mood": 1, "tool_calls": [{**call(0, "{}", "f", "a"), "novel": 1}]}, provider="p")
    response = fold(decode(odd, *END))
    assert [type(block) for block in response.content] == [Text, ToolCall]
    broken = decode(chunk({"content": 5, "mood": 1}), DONE)[-1]
    assert isinstance(broken, Fault)
    assert "choices[0].delta.content" in broken.error.message


def test_a_message_where_a_delta_should_be_is_read_as_one() -> None:
    def choice(message: dict[str, Any], finish: str | None = None) -> bytes:
        return chunk(choices=[{"index": 0, "message": message, "finish_reason": finish}])

    response = fold(decode(choice({"role": "assistant", "content": "a"}), choice({"content": "b"}, "stop"), DONE))
    assert response.content == (Text(text="ab"),)
    repeated = fold(decode(chunk({"content": "ab"}), choice({"role": "assistant", "content": "ab"}, "stop"), DONE))
    assert repeated.content == (Text(text="ab"),)
    empty = chunk({"role": "assistant", "content": ""})
    assert fold(decode(empty, choice({"content": "ab"}, "stop"), DONE)).content == (Text(text="ab"),)


def test_a_stream_that_the_context_window_cut_leaves_no_whole_call() -> None:
    events = decode(calls(call(0, '{"x"', "f", "a")), chunk({}, "model_length"), DONE)
    response = fold(events)
    assert response.stop.reason == "context_full"
    assert isinstance(response.content[0], ToolCall)
    assert not response.content[0].complete


SIGNED = {"google": {"thought_signature": "c2ln"}}


@pytest.mark.parametrize("late", [False, True])
def test_what_a_server_puts_beside_a_call_stays_with_it(late: bool) -> None:
    first, second = call(0, "{", "f", "a"), call(0, "}")
    signed = (first, {**second, "extra_content": SIGNED}) if late else ({**first, "extra_content": SIGNED}, second)
    events = decode(calls(signed[0]), calls(signed[1]), *END)
    (block,) = fold(events).content
    assert block.native == {"openai_chat": {"extra_content": SIGNED}}
    written = encode(events)
    entries = [entry for frame in written[:-1] for entry in frame["choices"][0]["delta"].get("tool_calls", ())]
    assert [entry["extra_content"] for entry in entries if "extra_content" in entry] == [SIGNED]


@pytest.mark.parametrize("finish", ["length", "content_filter"])
@pytest.mark.parametrize(("arguments", "complete"), [(None, False), ('{"a":', False), ('{"a":1}', True)])
def test_a_call_that_was_cut_is_not_complete(finish: str, arguments: str | None, complete: bool) -> None:
    (block,) = fold(decode(calls(call(0, arguments, "f", "a")), chunk(finish=finish), DONE)).content
    assert isinstance(block, ToolCall)
    assert block.complete is complete


def test_a_call_that_was_cut_before_its_arguments_is_given_none() -> None:
    def arguments(close: Close) -> list[str]:
        events: list[Event] = [Start(), Open(0, ToolCall(id="a", name="f")), close, Finish(stop=Stop("length"))]
        deltas = [frame["choices"][0]["delta"] for frame in encode(events)[:-1]]
        return [entry["function"]["arguments"] for delta in deltas for entry in delta.get("tool_calls", ())]

    assert arguments(Close(index=0, complete=False)) == [""]
    assert arguments(Close(index=0)) == ["", "{}"]


def test_a_character_that_was_cut_in_two_is_put_together() -> None:
    events = decode(chunk({"content": "a\ud83d"}), chunk({"content": "\ude00b"}), chunk(finish="stop"), DONE)
    assert fold(events).content == (Text(text="a\U0001f600b"),)
    pieces = (call(0, '{"a":"\\\ud83d', "f", "a"), call(0, "\ude00\ud83d"), call(0, '\ude01"}'))
    assert called(fold(decode(*(calls(piece) for piece in pieces), *END))) == [
        ("a", "f", '{"a":"\\\U0001f600\U0001f601"}')
    ]


@pytest.mark.parametrize(("text", "left"), [("a\ud83d", "a"), ("\ude00a", "\ufffda"), ("a\ud83da", "a\ufffda")])
def test_half_a_character_without_the_other_is_reported(text: str, left: str) -> None:
    receipt = Receipt()
    events = decode(chunk({"content": text}), chunk({"content": "b"}), DONE, receipt=receipt)
    assert fold(events).content == (Text(text=left + "b"),)
    assert [line.what for line in receipt.losses] == ["half a character"]


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ([chunk({"content": "Hi"})], []),
        ([chunk({"content": "Hi"}), calls(call(0, "{}", "f", "a"))], ["choices[0].delta.annotations"]),
        ([chunk({"content": "Hi"}), chunk({"reasoning_content": "Hm"})], ["choices[0].delta.annotations"]),
        ([calls(call(0, "{}", "f", "a"))], ["choices[0].delta.annotations"]),
        ([calls(call(0, "{}", "f", "a")), chunk({"content": "Hi"})], []),
    ],
)
def test_annotations_are_on_a_text_or_in_the_receipt(before: list[bytes], told: list[str]) -> None:
    cited = {"type": "url_citation", "url_citation": {"url": "https://u", "title": "t"}}
    receipt = Receipt()
    events = decode(*before, chunk({"annotations": [cited]}), chunk(finish="stop"), DONE, receipt=receipt)
    on_texts = [block.citations for block in fold(events).content if isinstance(block, Text) and block.citations]
    assert len(on_texts) == 1 - len(told)
    assert [line.where for line in receipt.losses] == told


def test_buffered_text_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_budget, "MAX_HELD_CHARACTERS", 100)
    monkeypatch.setattr(stream_budget, "MAX_BLOCKS", 10)
    nameless = decode(calls(call(0, None, None, "a")), *[calls(call(0, "x" * 10))] * 11, *END)[-1]
    many = decode(*(calls(call(index, "{", "f", f"{index}")) for index in range(11)), *END)[-1]
    for last in (nameless, many):
        assert isinstance(last, Fault)
        assert last.error.code == "upstream_unreadable"
    named = decode(calls(call(0, "", "f", "a")), *[calls(call(0, "x" * 10))] * 11, *END)[-1]
    assert isinstance(named, Finish)


def test_the_work_for_many_open_calls_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    look = ChatOpenCall.is_whole

    def counted(self: ChatOpenCall) -> bool:
        nonlocal looks
        looks += 1
        return look(self)

    monkeypatch.setattr(ChatOpenCall, "is_whole", counted)
    decode(*(calls(call(index, '{"a":', "f", f"{index}")) for index in range(300)), *END)
    assert looks <= 600


def test_thinking_in_parts_is_thinking() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "so"}]
    response = fold(decode(chunk({"content": parts}), chunk(finish="stop"), DONE))
    assert [getattr(block, "text", None) for block in response.content] == ["hm", "so"]


def encode(events: Iterable[Event], request: Request | None = None, receipt: Receipt | None = None) -> list[Any]:
    encoder = OPENAI_CHAT.stream_encoder(request, Receipt() if receipt is None else receipt)
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
                    "url_citation": {"start_index": 0, "end_index": 12, "url": "https://x", "title": "X"},
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


def said(receipt: Receipt, *blocks: Block) -> str:
    frames = encode(unfold(Response(content=blocks, stop=Stop("end"))), receipt=receipt)
    return "".join(frame["choices"][0]["delta"].get("content", "") for frame in frames[:-1])


CALL = ToolCall(id="a", name="f")


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ((Text(text="pre"), CALL, Text(text="mid"), Thinking(text="hm"), Text(text="post")), "pre\n\nmid\n\npost"),
        ((Text(text="pre"), Text(text="mid")), "premid"),
        ((Text(text="pre"), CALL, Text(text=""), Text(text="mid")), "pre\n\nmid"),
        ((CALL, Text(text="mid")), "mid"),
        ((Text(text="pre\n"), CALL, Text(text="mid")), "pre\nmid"),
        ((Text(text="pre"), CALL, Text(text="\nmid")), "pre\nmid"),
    ],
)
def test_texts_that_another_block_kept_apart_do_not_grow_together(blocks: tuple[Block, ...], expected: str) -> None:
    receipts = Receipt(), Receipt()
    assert said(receipts[0], *blocks) == expected
    whole = json.loads(OPENAI_CHAT.encode_response(Response(content=blocks, stop=Stop("end")), None, receipts[1]))
    assert whole["choices"][0]["message"]["content"] == expected
    for receipt in receipts:
        assert bool(receipt.notes) is ("\n\n" in expected)


def test_custom_calls_in_a_stream_are_noted() -> None:
    receipt = Receipt()
    said(receipt, ToolCall(id="a", name="exec", kind="custom", arguments="x"))
    assert [line.what for line in receipt.notes] == ["custom call exec"]


def test_a_fault_ends_the_stream_with_an_error_and_without_done() -> None:
    frames = encode([Start(), Fault(ApiError(kind="overloaded", message="busy"))])
    assert frames[-1] == {"error": {"message": "busy", "type": "server_error", "param": None, "code": "overloaded"}}


def test_an_encoded_stream_decodes_to_the_same_events() -> None:
    encoder = OPENAI_CHAT.stream_encoder(None, Receipt())
    response = fold(decode(*(encoder.feed(event) for event in EVENTS)))
    original = fold(EVENTS)
    assert called(response) == [("a", "f", '{"x":1}'), ("b", "g", "{}")]
    assert response.stop.reason == original.stop.reason
