"""The event stream of the Responses API: every way in which servers send it, and the one way in which it is written."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.dialects.openai_responses.dialect import OPENAI_RESPONSES
from toolglot.errors import ApiError, ErrorKind
from toolglot.events import Checker, Close, Delta, Event, Fault, Finish, Open, Start, fold, unfold
from toolglot.ir import (
    Block,
    Citation,
    Media,
    Opaque,
    Refusal,
    Response,
    Source,
    Stop,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from toolglot.receipt import Receipt
from toolglot.wire import stream_budget

NAME = "openai_responses"
ENVELOPE: dict[str, Any] = {"id": "resp_1", "object": "response", "created_at": 7, "model": "gpt-5"}
USAGE = {
    "input_tokens": 5,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 3,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 8,
}


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **fields}


def created() -> dict[str, Any]:
    return event("created", response={**ENVELOPE, "status": "in_progress", "output": [], "usage": None})


def completed(*output: dict[str, Any], **fields: Any) -> dict[str, Any]:
    response = {**ENVELOPE, "status": "completed", "output": list(output), "usage": USAGE, **fields}
    return event("completed", response=response)


def added(place: int, item: dict[str, Any]) -> dict[str, Any]:
    return event("output_item.added", output_index=place, item=item)


def done(place: int, item: dict[str, Any]) -> dict[str, Any]:
    return event("output_item.done", output_index=place, item=item)


def message(*parts: dict[str, Any], status: str = "completed", **fields: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": status,
        "content": list(parts),
        **fields,
    }


def text_part(text: str, *annotations: dict[str, Any]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": list(annotations), "logprobs": []}


def call(arguments: str, status: str = "completed", name: str = "f", number: int = 1) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{number}",
        "call_id": f"call_{number}",
        "name": name,
        "arguments": arguments,
        "status": status,
    }


def custom(text: str) -> dict[str, Any]:
    return {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_9", "name": "exec", "input": text}


def on_the_wire(*events: dict[str, Any]) -> bytes:
    return b"".join(b"event: %b\ndata: %b\n\n" % (e["type"].encode(), json.dumps(e).encode()) for e in events)


def read_bytes(chunks: Iterable[bytes], receipt: Receipt | None = None) -> list[Event]:
    decoder = OPENAI_RESPONSES.stream_decoder(receipt if receipt is not None else Receipt())
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    events += decoder.close()
    checker = Checker()
    for one in events:
        checker.add(one)
    checker.close()
    return events


def read(*events: dict[str, Any]) -> list[Event]:
    receipt = Receipt()
    result = read_bytes([on_the_wire(*events)], receipt)
    assert not receipt, str(receipt)
    return result


def blocks(*events: dict[str, Any]) -> tuple[Block, ...]:
    return fold(read(created(), *events)).content


def said(events: Iterable[Event]) -> list[tuple[int, str]]:
    return [(one.index, one.text) for one in events if isinstance(one, Delta)]


def fault(events: list[Event]) -> ApiError:
    assert isinstance(events[-1], Fault)
    return events[-1].error


# A stream of everything, with the response it adds up to

ANNOTATION = {"type": "url_citation", "url": "https://a", "title": "A", "start_index": 0, "end_index": 2}
REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}],
    "encrypted_content": "c2VjcmV0",
}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
ANSWER = message(
    text_part("日本🌍", ANNOTATION), {"type": "refusal", "refusal": "no"}, {"type": "novel"}, phase="commentary"
)
OUTPUT = (REASONING, SEARCH, ANSWER, call('{"a": 1}'), custom("text()"))
FULL = (
    created(),
    event("in_progress", response=ENVELOPE),
    added(0, {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2Vj"}),
    event("reasoning_summary_part.added", output_index=0, item_id="rs_1", summary_index=0, part={}),
    event("reasoning_summary_text.delta", output_index=0, item_id="rs_1", summary_index=0, delta="on"),
    event("reasoning_summary_text.delta", output_index=0, item_id="rs_1", summary_index=0, delta="e"),
    event("reasoning_summary_text.done", output_index=0, item_id="rs_1", summary_index=0, text="one"),
    event("reasoning_summary_part.done", output_index=0, item_id="rs_1", summary_index=0, part={}),
    event("reasoning_summary_text.delta", output_index=0, item_id="rs_1", summary_index=1, delta="two"),
    done(0, REASONING),
    added(1, {"type": "web_search_call", "id": "ws_1", "status": "in_progress"}),
    event("web_search_call.searching", output_index=1, item_id="ws_1"),
    done(1, SEARCH),
    added(2, message(status="in_progress", phase="commentary")),
    event("content_part.added", output_index=2, item_id="msg_1", content_index=0, part=text_part("")),
    event("output_text.delta", output_index=2, item_id="msg_1", content_index=0, delta="日", logprobs=[]),
    event("output_text.delta", output_index=2, item_id="msg_1", content_index=0, delta="本🌍", obfuscation="x"),
    event("output_text.annotation.added", output_index=2, content_index=0, annotation_index=0, annotation=ANNOTATION),
    event("output_text.done", output_index=2, item_id="msg_1", content_index=0, text="日本🌍"),
    event("content_part.done", output_index=2, item_id="msg_1", content_index=0, part=text_part("日本🌍", ANNOTATION)),
    event("content_part.added", output_index=2, content_index=1, part={"type": "refusal", "refusal": ""}),
    event("refusal.delta", output_index=2, item_id="msg_1", content_index=1, delta="no"),
    event("refusal.done", output_index=2, item_id="msg_1", content_index=1, refusal="no"),
    event("content_part.added", output_index=2, content_index=2, part={"type": "novel"}),
    event("content_part.done", output_index=2, content_index=2, part={"type": "novel"}),
    done(2, ANSWER),
    added(3, call("", status="in_progress")),
    event("function_call_arguments.delta", output_index=3, item_id="fc_1", delta='{"a":'),
    event("function_call_arguments.delta", output_index=3, item_id="fc_1", delta=" 1}"),
    event("function_call_arguments.done", output_index=3, item_id="fc_1", arguments='{"a": 1}'),
    done(3, call('{"a": 1}')),
    added(4, custom("")),
    event("custom_tool_call_input.delta", output_index=4, item_id="ctc_1", delta="text()"),
    event("custom_tool_call_input.done", output_index=4, item_id="ctc_1", input="text()"),
    done(4, custom("text()")),
    completed(*OUTPUT),
)


def test_a_stream_adds_up_to_its_response() -> None:
    whole = OPENAI_RESPONSES.decode_response(json.dumps(FULL[-1]["response"]).encode())
    assert fold(read(*FULL)) == whole
    assert whole.stop == Stop("tool_calls", "completed")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_where_the_bytes_are_cut_changes_nothing(size: int) -> None:
    data = on_the_wire(*FULL)
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    assert read_bytes(chunks) == read(*FULL)


@pytest.mark.parametrize(
    "dressed",
    [
        on_the_wire(*FULL).replace(b"\n", b"\r\n"),
        on_the_wire(*FULL).replace(b"data: ", b"data:"),
        b": hello\n\n" + on_the_wire(*FULL).replace(b"\n\n", b"\n\n: keepalive\n\n"),
        b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in FULL),
        on_the_wire(*FULL) + b"data: [DONE]\n\n",
        on_the_wire(*FULL).rstrip(b"\n"),
        on_the_wire(*FULL[:5]) + b"event: keepalive\ndata: {}\n\nevent: ping\ndata:\n\n" + on_the_wire(*FULL[5:]),
        on_the_wire(FULL[0], *FULL),
    ],
    ids=["CRLF", "no space", "comments", "no event lines", "[DONE]", "no last blank line", "pings", "created twice"],
)
def test_how_the_events_are_dressed_changes_nothing(dressed: bytes) -> None:
    assert read_bytes([dressed]) == read(*FULL)


def test_an_event_without_a_type_has_the_name_of_its_frame() -> None:
    data = b"".join(
        b"event: %b\ndata: %b\n\n"
        % (one["type"].encode(), json.dumps({key: one[key] for key in one if key != "type"}).encode())
        for one in FULL
    )
    assert read_bytes([data]) == read(*FULL)


# Text that comes in deltas, or later, or last of all


@pytest.mark.parametrize(
    "events",
    [
        (added(0, call("")), event("function_call_arguments.done", output_index=0, arguments='{"a":1}')),
        (added(0, call("")), done(0, call('{"a":1}'))),
        (done(0, call('{"a":1}')),),
        (added(0, call("")),),
        (),
        (
            added(0, call("")),
            event("function_call_arguments.delta", output_index=0, delta='{"a":'),
            event("function_call_arguments.done", output_index=0, arguments='{"a":1}'),
        ),
        (
            added(0, call("")),
            event("function_call_arguments.delta", output_index=0, delta='{"a"'),
            event("function_call_arguments.delta", output_index=0, delta=":1}"),
            done(0, call('{"a":1}')),
        ),
        (event("function_call_arguments.delta", output_index=0, delta='{"a":1}'), done(0, call('{"a":1}'))),
        (event("function_call_arguments.done", output_index=0, arguments='{"a":1}'),),
        (
            added(0, {"type": "function_call", "id": "fc_1", "arguments": ""}),
            event("function_call_arguments.delta", output_index=0, delta='{"a":'),
            event("function_call_arguments.delta", output_index=0, delta="1}"),
            event("function_call_arguments.done", output_index=0, arguments='{"a":1}'),
            done(0, call('{"a":1}')),
        ),
        (added(0, call("")), added(0, call("")), done(0, call('{"a":1}')), done(0, call('{"a":1}'))),
        (
            added(0, call('{"a"')),
            event("function_call_arguments.delta", output_index=0, delta=":1}"),
            done(0, call('{"a":1}')),
        ),
        (
            added(0, call('{"a":')),
            event("function_call_arguments.delta", output_index=0, delta="1"),
            event("function_call_arguments.delta", output_index=0, delta="}"),
        ),
        (
            added(0, call('{"a":1}')),
            event("function_call_arguments.delta", output_index=0, delta='{"a":1}'),
            done(0, call('{"a":1}')),
        ),
        (
            added(0, call("{}")),
            event("function_call_arguments.delta", output_index=0, delta='{"a":1}'),
            done(0, call('{"a":1}')),
        ),
        (added(0, call('{"a":1}')), done(0, call(""))),
        (added(0, call('{"a":1}')), event("function_call_arguments.done", output_index=0, arguments='{"a":1}')),
    ],
    ids=[
        "arguments.done only",
        "item.done only",
        "item never added",
        "completed only",
        "nothing but completed",
        "the rest in done",
        "deltas and item.done",
        "deltas of an unannounced item",
        "done of an unannounced item",
        "the name comes last",
        "everything told twice",
        "announced start, rest in deltas",
        "announced start, never done",
        "announced and in deltas",
        "announced placeholder",
        "announced, empty at the end",
        "announced and in arguments.done",
    ],
)
def test_arguments_are_written_exactly_once(events: tuple[dict[str, Any], ...]) -> None:
    result = read(created(), *events, completed(call('{"a":1}')))
    assert "".join(text for _, text in said(result)) == '{"a":1}'
    (block,) = fold(result).content
    assert isinstance(block, ToolCall)
    assert (block.id, block.name, block.arguments, block.complete) == ("call_1", "f", '{"a":1}', True)


@pytest.mark.parametrize(
    "events",
    [
        (event("custom_tool_call_input.done", output_index=0, input="x = 1"),),
        (event("custom_tool_call_input.delta", output_index=0, delta="x = "),),
        (),
    ],
)
def test_the_input_of_a_custom_tool_is_written_exactly_once(events: tuple[dict[str, Any], ...]) -> None:
    result = read(created(), added(0, custom("")), *events, done(0, custom("x = 1")), completed(custom("x = 1")))
    assert "".join(text for _, text in said(result)) == "x = 1"


@pytest.mark.parametrize(
    "events",
    [
        (event("output_text.done", output_index=0, content_index=0, text="hello"),),
        (event("content_part.done", output_index=0, content_index=0, part=text_part("hello")),),
        (event("output_text.delta", output_index=0, content_index=0, delta="hel"),),
        (),
    ],
)
def test_text_is_written_exactly_once(events: tuple[dict[str, Any], ...]) -> None:
    for last in ((done(0, message(text_part("hello"))),), ()):
        result = read(created(), added(0, message()), *events, *last, completed(message(text_part("hello"))))
        assert "".join(text for _, text in said(result)) == "hello"


def test_arguments_that_a_server_writes_anew_at_the_end_are_not_mixed() -> None:
    receipt = Receipt()
    events = read_bytes(
        [
            on_the_wire(
                created(),
                added(0, call("")),
                event("function_call_arguments.delta", output_index=0, delta='{"a":1}'),
                event("function_call_arguments.done", output_index=0, arguments='{"a": 1}'),
                done(0, call('{"a": 1}')),
                completed(call('{"a": 1}')),
            )
        ],
        receipt,
    )
    assert said(events) == [(0, '{"a":1}')]
    assert not receipt.losses
    assert len(receipt.notes) == 1


@pytest.mark.parametrize("end", ['{"a":2}', '{"a":', "junk"])
def test_a_call_whose_end_contradicts_its_deltas_is_incomplete(end: str) -> None:
    receipt = Receipt()
    delta = event("function_call_arguments.delta", output_index=0, delta='{"a":1}')
    stream = on_the_wire(created(), added(0, call("")), delta, done(0, call(end)), completed(call(end)))
    (block,) = fold(read_bytes([stream], receipt)).content
    assert isinstance(block, ToolCall)
    assert (block.arguments, block.complete) == ('{"a":1}', False)
    assert [line.what for line in receipt.losses] == ["deltas and their end differ"]


def test_an_end_that_differs_from_an_earlier_end_is_noticed_too() -> None:
    receipt = Receipt()
    first = event("function_call_arguments.done", output_index=0, arguments='{"a":1}')
    stream = on_the_wire(created(), added(0, call("")), first, done(0, call('{"a":1,"b":2}')), completed())
    (block,) = fold(read_bytes([stream], receipt)).content
    assert isinstance(block, ToolCall)
    assert (block.arguments, block.complete) == ('{"a":1}', False)


def test_a_character_that_was_cut_in_two_is_put_together() -> None:
    delta = event("output_text.delta", output_index=0, content_index=0)
    stream = on_the_wire(created(), {**delta, "delta": "a\ud83d"}, {**delta, "delta": "\ude00b"}, completed())
    receipt = Receipt()
    assert "".join(text for _, text in said(read_bytes([stream], receipt))) == "a\U0001f600b"
    assert not receipt
    half = on_the_wire(created(), {**delta, "delta": "a\ud83d"}, {**delta, "delta": "b"}, completed())
    assert "".join(text for _, text in said(read_bytes([half], receipt))) == "ab"
    assert [line.what for line in receipt.losses] == ["half a character"]


def test_buffered_text_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_budget, "MAX_HELD_CHARACTERS", 100)
    monkeypatch.setattr(stream_budget, "MAX_BLOCKS", 10)
    nameless = added(0, {"type": "function_call", "id": "fc_1"})
    piece = event("function_call_arguments.delta", output_index=0, delta="x" * 10)
    assert fault(read_bytes([on_the_wire(created(), nameless, *[piece] * 11)])).code == "upstream_unreadable"
    many = [added(place, {**call("{}", number=place), "type": "novel"}) for place in range(11)]
    assert fault(read_bytes([on_the_wire(created(), *many)])).code == "upstream_unreadable"


def test_a_response_that_is_no_answer_is_a_fault() -> None:
    for last in (
        event("cancelled", response={**ENVELOPE, "status": "cancelled", "output": []}),
        completed(status="cancelled"),
        completed(status="queued"),
        completed(status="in_progress"),
    ):
        error = fault(read_bytes([on_the_wire(created(), last)]))
        assert (error.kind, error.message) == ("server", f"The response is {last['response']['status']}")


def test_empty_deltas_are_not_passed_on() -> None:
    events = read(
        created(),
        added(0, message()),
        event("output_text.delta", output_index=0, content_index=0, delta=""),
        event("output_text.delta", output_index=0, content_index=0, delta=None),
        done(0, message(text_part(""))),
        completed(message(text_part(""))),
    )
    assert said(events) == []


# Items


def test_interleaved_items_keep_their_arguments_apart() -> None:
    first, second = call('{"a":1}', number=1), call('{"b":2}', number=2)
    content = blocks(
        added(0, call("", number=1)),
        added(1, call("", number=2)),
        event("function_call_arguments.delta", output_index=0, item_id="fc_1", delta='{"a"'),
        event("function_call_arguments.delta", output_index=1, item_id="fc_2", delta='{"b"'),
        event("function_call_arguments.delta", output_index=0, item_id="fc_1", delta=":1}"),
        event("function_call_arguments.delta", output_index=1, item_id="fc_2", delta=":2}"),
        done(1, second),
        done(0, first),
        completed(first, second),
    )
    assert [(block.id, block.arguments) for block in content if isinstance(block, ToolCall)] == [
        ("call_1", '{"a":1}'),
        ("call_2", '{"b":2}'),
    ]


def test_items_without_an_index_are_distinguished_by_their_ids() -> None:
    content = blocks(
        event("output_item.added", item=call("", number=1)),
        event("output_item.added", item=call("", number=2)),
        event("function_call_arguments.delta", item_id="fc_2", delta='{"b":2}'),
        event("function_call_arguments.delta", item_id="fc_1", delta='{"a":1}'),
        event("output_item.done", item=call('{"a":1}', number=1)),
        event("output_item.done", item=call('{"b":2}', number=2)),
        completed(),
    )
    assert [block.arguments for block in content if isinstance(block, ToolCall)] == ['{"a":1}', '{"b":2}']


def test_a_server_that_always_sends_index_0_does_not_lose_items() -> None:
    first, second = call('{"a":1}', number=1), call('{"b":2}', number=2)
    content = blocks(added(0, first), done(0, first), added(0, second), done(0, second), completed(first, second))
    assert [block.id for block in content if isinstance(block, ToolCall)] == ["call_1", "call_2"]


def test_items_that_are_all_at_index_0_are_distinguished_by_their_ids() -> None:
    first, second, said = call('{"a":1}', number=1), call('{"b":2}', number=2), message(text_part("hi"))
    content = blocks(
        added(0, message()),
        event("output_text.delta", output_index=0, item_id="msg_1", content_index=0, delta="hi"),
        added(0, call("", number=1)),
        event("function_call_arguments.delta", output_index=0, item_id="fc_1", delta='{"a":'),
        added(0, call("", number=2)),
        event("function_call_arguments.delta", output_index=0, item_id="fc_2", delta='{"b":2}'),
        event("function_call_arguments.delta", output_index=0, item_id="fc_1", delta="1}"),
        done(0, said),
        done(0, first),
        done(0, second),
        completed(said, first, second),
    )
    assert [block.text for block in content if isinstance(block, Text)] == ["hi"]
    assert [(block.id, block.arguments, block.complete) for block in content if isinstance(block, ToolCall)] == [
        ("call_1", '{"a":1}', True),
        ("call_2", '{"b":2}', True),
    ]


@pytest.mark.parametrize("is_listed", [True, False])
def test_calls_of_llama_cpp_have_no_index_and_are_named_by_their_call_ids(*, is_listed: bool) -> None:
    first, second = ({**call(text), "call_id": f"fc_{text}"} for text in ('{"a":1}', '{"b":2}'))
    for item in (first, second):
        del item["id"]
    content = blocks(
        event("output_item.added", item={**first, "arguments": ""}),
        event("function_call_arguments.delta", item_id=first["call_id"], delta='{"a":'),
        event("function_call_arguments.delta", item_id=first["call_id"], delta="1}"),
        event("output_item.added", item={**second, "arguments": ""}),
        event("function_call_arguments.delta", item_id=second["call_id"], delta='{"b":2}'),
        event("output_item.done", item=first),
        event("output_item.done", item=second),
        completed(*[first, second] if is_listed else []),
    )
    assert [(block.id, block.arguments, block.complete) for block in content if isinstance(block, ToolCall)] == [
        (first["call_id"], '{"a":1}', True),
        (second["call_id"], '{"b":2}', True),
    ]


def test_a_delta_at_a_place_where_nothing_is_belongs_to_the_item_that_it_names() -> None:
    whole = call('{"a":1}', number=1)
    content = blocks(
        added(1, call("", number=1)),
        event("function_call_arguments.delta", output_index=0, item_id="fc_1", delta='{"a":1}'),
        done(1, whole),
        completed(whole),
    )
    assert [block.arguments for block in content if isinstance(block, ToolCall)] == ['{"a":1}']


@pytest.mark.parametrize("is_done", [True, False])
def test_events_without_any_id_or_place_speak_of_the_latest_item(*, is_done: bool) -> None:
    said, whole = message(text_part("hello")), call('{"a":1}')
    del said["id"], whole["id"]
    content = blocks(
        event("output_text.delta", delta="hel"),
        event("output_text.delta", delta="lo"),
        *([event("output_item.done", item=said)] if is_done else []),
        event("output_item.added", item={**whole, "arguments": ""}),
        event("function_call_arguments.delta", delta='{"a":1}'),
        *([event("output_item.done", item=whole)] if is_done else []),
        completed(said, whole),
    )
    assert [block.text for block in content if isinstance(block, Text)] == ["hello"]
    assert [block.arguments for block in content if isinstance(block, ToolCall)] == ['{"a":1}']


def test_an_output_with_other_ids_at_other_places_is_what_was_streamed() -> None:
    streamed = [call(text, number=number) for number, text in ((1, '{"a":1}'), (2, '{"a":2}'))]
    listed = [{**item, "id": f"fc_{place}x", "call_id": f"call_{place}x"} for place, item in enumerate(streamed)]
    content = blocks(
        event("output_text.delta", output_index=0, item_id="msg_1", content_index=0, delta="hello"),
        *(one for place, item in enumerate(streamed, 1) for one in (added(place, item), done(place, item))),
        completed(
            {"type": "reasoning", "id": "rs_9", "summary": []}, message(text_part("hello")) | {"id": "x"}, *listed
        ),
    )
    assert [block.text for block in content if isinstance(block, Text)] == ["hello"]
    assert [(block.id, block.arguments) for block in content if isinstance(block, ToolCall)] == [
        ("call_1", '{"a":1}'),
        ("call_2", '{"a":2}'),
    ]


def test_an_equal_call_that_is_only_in_the_output_is_another_call() -> None:
    first, second = call('{"a":1}', number=1), call('{"a":1}', number=2)
    content = blocks(added(0, first), done(0, first), completed(first, second))
    assert [block.id for block in content if isinstance(block, ToolCall)] == ["call_1", "call_2"]


def test_reasoning_in_the_words_of_openrouter() -> None:
    receipt = Receipt()
    events = read_bytes(
        [
            on_the_wire(
                created(),
                added(0, {"type": "reasoning", "id": "rs_1", "summary": []}),
                event("reasoning.delta", output_index=0, item_id="rs_1", content_index=0, delta="hm"),
                event("reasoning.done", output_index=0, item_id="rs_1", content_index=0, text="hm"),
                completed(),
            )
        ],
        receipt,
    )
    assert [one.text for one in events if isinstance(one, Delta)] == ["hm"]
    assert not receipt


NAMELESS = [{key: value for key, value in call(text).items() if key != "id"} for text in ("", '{"a":1}', '{"b":2}')]


@pytest.mark.parametrize(
    ("events", "arguments"),
    [
        ((added(0, call("")), added(0, call("")), done(0, call('{"a":1}'))), ['{"a":1}']),
        (
            (added(0, call("")), added(0, call('{"b":2}', number=2)), done(0, call('{"b":2}', number=2))),
            ["", '{"b":2}'],
        ),
        ((added(0, NAMELESS[0]), added(0, NAMELESS[0]), done(0, NAMELESS[1])), ['{"a":1}']),
        (
            (added(0, NAMELESS[0]), done(0, NAMELESS[1]), added(0, NAMELESS[0]), done(0, NAMELESS[2])),
            ['{"a":1}', '{"b":2}'],
        ),
    ],
    ids=["the same id", "another id", "no id", "no id, but the first is done"],
)
def test_an_item_is_a_repetition_only_if_it_is_not_done_and_has_the_same_id(
    events: tuple[dict[str, Any], ...], arguments: list[str]
) -> None:
    assert [block.arguments for block in blocks(*events, completed()) if isinstance(block, ToolCall)] == arguments


def test_an_item_without_an_index_may_be_announced_twice() -> None:
    announced = event("output_item.added", item=call(""))
    content = blocks(announced, announced, event("output_item.done", item=call('{"a":1}')), completed())
    assert [block.arguments for block in content if isinstance(block, ToolCall)] == ['{"a":1}']


def test_a_call_whose_place_another_takes_is_closed_as_it_is() -> None:
    events = read_bytes(
        [
            on_the_wire(
                created(),
                added(0, call("", number=1)),
                event("function_call_arguments.delta", output_index=0, item_id="fc_1", delta='{"a":1}'),
                added(0, call("", number=2)),
                event("incomplete", response={**completed()["response"], "status": "incomplete"}),
            )
        ]
    )
    assert [type(one) for one in events] == [Start, Open, Delta, Open, Close, Close, Finish]
    assert [one.complete for one in events if isinstance(one, Close)] == [True, False]


def test_an_item_of_the_final_output_is_known_by_its_id_where_its_place_is_another() -> None:
    content = blocks(
        added(0, {"type": "reasoning", "id": "rs_1", "summary": []}),
        added(1, message()),
        event("output_text.delta", output_index=1, item_id="msg_1", content_index=0, delta="h"),
        completed(message(text_part("hi"))),
    )
    assert [block.text for block in content if isinstance(block, Text)] == ["hi"]


def test_a_delta_with_the_index_of_another_item_is_known_by_its_id() -> None:
    answer = message(text_part("hi"))
    content = blocks(
        added(0, call("")),
        added(1, message()),
        event("output_text.delta", output_index=0, item_id="msg_1", content_index=0, delta="hi"),
        done(0, call("{}")),
        done(1, answer),
        completed(call("{}"), answer),
    )
    assert [block.text for block in content if isinstance(block, Text)] == ["hi"]


def test_an_item_that_is_only_in_the_final_output_replaces_no_other() -> None:
    def plain(item: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in item.items() if key != "id"}

    hi = plain(message(text_part("hi")))
    told = blocks(
        added(1, plain(message())),
        event("output_text.delta", output_index=1, content_index=0, delta="hi"),
        completed(plain(SEARCH), hi),
    )
    assert [block.text for block in told if isinstance(block, Text)] == ["hi"]


def test_a_message_that_contradicts_its_stream_is_a_message_of_its_own() -> None:
    first, other = message(text_part("a")), {**message(text_part("b")), "id": "msg_2"}
    announced = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "arguments": ""}
    events = [created(), added(0, message()), done(0, first), added(0, announced), completed(other)]
    response = fold(read_bytes([on_the_wire(*events)]))
    places = [block.native[NAME]["$output"] for block in response.content]
    assert places == [0, 2]


def test_arguments_that_came_before_the_name_of_their_call_are_written() -> None:
    nameless = {key: value for key, value in call("").items() if key != "name"}
    content = blocks(
        added(0, nameless),
        event("function_call_arguments.delta", output_index=0, item_id="fc_1", delta='{"a":'),
        event("function_call_arguments.delta", output_index=0, item_id="fc_1", delta="1}"),
        done(0, call("")),
        completed(),
    )
    assert [(block.name, block.arguments) for block in content if isinstance(block, ToolCall)] == [("f", '{"a":1}')]


@pytest.mark.parametrize("kind", ["completed", "incomplete"])
def test_a_stream_is_settled_by_its_last_event(kind: str) -> None:
    decoder = OPENAI_RESPONSES.stream_decoder(Receipt())
    decoder.feed(on_the_wire(created(), added(0, message()), done(0, message(text_part("hi")))))
    assert decoder.settled is False
    decoder.feed(on_the_wire({**completed(), "type": f"response.{kind}"}))
    assert decoder.settled is True


def test_a_server_that_changes_item_ids_does_not_double_items() -> None:
    changed = {**message(text_part("hi")), "id": "msg_other"}
    assert len(blocks(added(0, message()), done(0, message(text_part("hi"))), completed(changed))) == 1


def test_parts_of_one_message_are_several_blocks() -> None:
    answer = message(text_part("a"), text_part("b"))
    content = blocks(
        added(0, message()),
        event("output_text.delta", output_index=0, content_index=0, delta="a"),
        event("output_text.delta", output_index=0, content_index=1, delta="b"),
        done(0, answer),
        completed(answer),
    )
    assert [block.text for block in content if isinstance(block, Text)] == ["a", "b"]


def test_a_message_without_parts_is_still_there() -> None:
    response = fold(read(created(), added(0, message()), done(0, message()), completed(message())))
    assert json.loads(OPENAI_RESPONSES.encode_response(response, None, Receipt()))["output"] == [message()]


def test_unknown_items_come_whole_when_they_are_done() -> None:
    result = read(created(), added(0, {**SEARCH, "status": "in_progress"}), done(0, SEARCH), completed(SEARCH))
    assert result[1:3] == [Open(0, Opaque(NAME, SEARCH)), Close(index=0)]


def test_annotations_come_at_the_end_of_their_text() -> None:
    answer = message(text_part("ab", ANNOTATION))
    result = read(created(), added(0, message()), done(0, answer), completed(answer))
    (close,) = [one for one in result if isinstance(one, Close)]
    assert [(citation.url, citation.title) for citation in close.citations] == [("https://a", "A")]


def test_annotations_that_come_on_their_own_are_kept() -> None:
    (block,) = blocks(
        added(0, message()),
        event("output_text.delta", output_index=0, content_index=0, delta="ab"),
        event("output_text.annotation.added", output_index=0, content_index=0, annotation=ANNOTATION),
        done(0, message({"type": "output_text", "text": "ab"})),
        completed(),
    )
    assert isinstance(block, Text)
    assert [citation.url for citation in block.citations] == ["https://a"]


# Reasoning


def test_parts_of_a_summary_are_one_block_with_a_blank_line_between() -> None:
    events = read(*FULL)
    assert [text for index, text in said(events) if index == 0] == ["on", "e", "\n\ntwo"]
    close = next(one for one in events if isinstance(one, Close))
    assert close.native[NAME]["encrypted_content"] == "c2VjcmV0"
    assert close.native[NAME]["summary"] == REASONING["summary"]


@pytest.mark.parametrize(
    "events",
    [
        (
            event("reasoning_summary_text.done", output_index=0, summary_index=0, text="one"),
            event("reasoning_summary_text.done", output_index=0, summary_index=1, text="two"),
        ),
        (event("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="one"),),
        (),
    ],
)
def test_reasoning_is_written_exactly_once(events: tuple[dict[str, Any], ...]) -> None:
    begun = {"type": "reasoning", "id": "rs_1", "summary": []}
    result = read(created(), added(0, begun), *events, done(0, REASONING), completed(REASONING))
    assert "".join(text for _, text in said(result)) == "one\n\ntwo"


def test_reasoning_text_of_open_models_is_thinking_too() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
    part = {"type": "reasoning_text", "text": ""}
    result = read(
        created(),
        added(0, {"type": "reasoning", "id": "rs_1", "summary": []}),
        event("content_part.added", output_index=0, item_id="rs_1", content_index=0, part=part),
        event("reasoning_text.delta", output_index=0, item_id="rs_1", content_index=0, delta="hm"),
        event("reasoning_text.done", output_index=0, item_id="rs_1", content_index=0, text="hm"),
        done(0, item),
        completed(item),
    )
    assert (
        fold(result).content
        == OPENAI_RESPONSES.decode_response(json.dumps(completed(item)["response"]).encode()).content
    )


def test_reasoning_without_words_keeps_its_state() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    (block,) = blocks(added(0, {**item, "encrypted_content": "partial"}), done(0, item), completed(item))
    assert isinstance(block, Thinking)
    assert block.text == ""
    assert block.native[NAME]["encrypted_content"] == "x"


def test_state_that_comes_after_the_end_of_its_item_is_reported() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": []}
    receipt = Receipt()
    read_bytes([on_the_wire(created(), done(0, item), completed({**item, "encrypted_content": "x"}))], receipt)
    assert [line.where for line in receipt.losses] == ["$.response.output[0].encrypted_content"]


# Ends


@pytest.mark.parametrize(
    ("details", "reason"),
    [
        ({"reason": "max_output_tokens"}, "length"),
        ({"reason": "length"}, "length"),
        ({"reason": "content_filter"}, "filtered"),
        ({"reason": "steered"}, "other"),
        (None, "length"),
    ],
)
def test_an_incomplete_response_says_why(details: Any, reason: StopReason) -> None:
    response = {**ENVELOPE, "status": "incomplete", "incomplete_details": details, "output": [], "usage": USAGE}
    finish = read(created(), event("incomplete", response=response))[-1]
    assert isinstance(finish, Finish)
    assert finish.stop.reason == reason


def test_a_call_that_the_limit_cut_is_not_complete() -> None:
    cut = call('{"a', status="incomplete")
    end = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "usage": USAGE}
    begin = (
        created(),
        added(0, call("")),
        event("function_call_arguments.delta", output_index=0, item_id="fc_1", delta='{"a'),
    )
    for last in (
        (done(0, cut), event("incomplete", response={**ENVELOPE, **end, "output": [cut]})),
        (event("incomplete", response={**ENVELOPE, **end, "output": []}),),
    ):
        (block,) = fold(read(*begin, *last)).content
        assert isinstance(block, ToolCall)
        assert (block.arguments, block.complete) == ('{"a', False)


def test_usage_comes_at_the_end() -> None:
    finish = read(*FULL)[-1]
    assert isinstance(finish, Finish)
    assert finish.usage is not None
    assert (finish.usage.input_tokens, finish.usage.output_tokens) == (5, 3)


@pytest.mark.parametrize("kind", ["completed", "done"])
def test_an_empty_output_at_the_end_takes_nothing_back(kind: str) -> None:
    last = {**completed(), "type": f"response.{kind}"}
    response = fold(read(created(), added(0, call("")), done(0, call("{}")), last))
    assert response.stop.reason == "tool_calls"
    assert len(response.content) == 1


@pytest.mark.parametrize(
    ("frame", "kind", "message"),
    [
        (
            event(
                "failed", response={**ENVELOPE, "status": "failed", "error": {"code": "server_error", "message": "x"}}
            ),
            "server",
            "x",
        ),
        (event("failed", response={"error": {"code": "rate_limit_exceeded", "message": "x"}}), "rate_limit", "x"),
        (completed(status="failed", error={"code": "server_is_overloaded", "message": "x"}), "overloaded", "x"),
        ({"type": "error", "code": "insufficient_quota", "message": "x", "param": None}, "billing", "x"),
        ({"type": "error", "error": {"type": "invalid_request_error", "message": "x"}}, "bad_request", "x"),
        ({"type": "error", "error": {"message": "x"}, "status": 503}, "overloaded", "x"),
        ({"type": "", "object": "error", "message": "x", "code": 400}, "bad_request", "x"),
        ({"type": "", "detail": "x"}, "server", "x"),
        ({"type": "", "error": {"message": "x", "type": "server_error"}}, "server", "x"),
    ],
)
def test_errors_inside_a_stream_end_it(frame: dict[str, Any], kind: ErrorKind, message: str) -> None:
    for before in ((), (created(), added(0, call("")))):
        error = fault(read_bytes([on_the_wire(*before, frame, completed())]))
        assert (error.kind, error.message) == (kind, message)


@given(st.integers(0, len(on_the_wire(*FULL)) - 3))
def test_a_stream_cut_anywhere_ends_in_a_fault(place: int) -> None:
    error = fault(read_bytes([on_the_wire(*FULL)[:place]]))
    assert error.code == "upstream_truncated"


def test_nothing_follows_the_end() -> None:
    assert read_bytes([on_the_wire(*FULL), on_the_wire(*FULL)]) == read(*FULL)


@pytest.mark.parametrize(
    "data",
    [
        b"data: {\n\n",
        b"data: [1]\n\n",
        b'data: {"type": 5}\n\n',
        b'data: {"type": "response.created"}\n\n',
        b'data: {"type": "response.created", "response": []}\n\n',
        b'data: {"type": "response.output_item.added", "output_index": "0", "item": {}}\n\n',
        b'data: {"type": "response.output_item.done", "output_index": 0, "item": {"type": "function_call"}}\n\n',
        b'data: {"type": "response.output_text.delta", "delta": "\xff"}\n\n',
    ],
)
def test_what_cannot_be_read_is_a_fault_and_not_an_exception(data: bytes) -> None:
    assert fault(read_bytes([data, on_the_wire(*FULL)])).code == "upstream_unreadable"


def test_unknown_events_are_reported_once() -> None:
    receipt = Receipt()
    novel = event("novelty", output_index=0)
    read_bytes([on_the_wire(FULL[0], novel, novel, *FULL[1:])], receipt)
    assert [line.what for line in receipt.losses] == ["event response.novelty"]


def test_a_delta_in_an_item_of_another_type_is_reported() -> None:
    receipt = Receipt()
    stray = event("output_text.delta", output_index=0, content_index=0, delta="x")
    events = read_bytes([on_the_wire(created(), added(0, call("")), stray, completed(call("{}")))], receipt)
    assert said(events) == [(0, "{}")]
    assert len(receipt.losses) == 1


def test_a_call_that_never_gets_a_name_is_reported() -> None:
    receipt = Receipt()
    nameless = added(0, {"type": "function_call", "id": "fc_1"})
    assert fold(read_bytes([on_the_wire(created(), nameless, completed())], receipt)).content == ()
    assert [line.what for line in receipt.losses] == ["a function_call without a name"]


@given(st.lists(st.sampled_from(FULL), max_size=12), st.booleans())
def test_events_in_any_order_are_grammatical(events: list[dict[str, Any]], whole: bool) -> None:
    read_bytes([on_the_wire(*events, *FULL[-1:] * whole)])


@given(st.integers(0, len(on_the_wire(*FULL)) - 1), st.integers(0, 255))
def test_a_damaged_byte_is_read_or_a_fault(place: int, byte: int) -> None:
    data = bytearray(on_the_wire(*FULL))
    data[place] = byte
    read_bytes([bytes(data)])


# Writing


def write(*events: Event, receipt: Receipt | None = None) -> list[dict[str, Any]]:
    encoder = OPENAI_RESPONSES.stream_encoder(None, receipt if receipt is not None else Receipt())
    return parsed(b"".join(encoder.feed(one) for one in events))


def parsed(data: bytes) -> list[dict[str, Any]]:
    """The events on the wire; each frame must name the type of its data, and count."""
    assert data.endswith(b"\n\n")
    result = []
    for number, frame in enumerate(data.decode().removesuffix("\n\n").split("\n\n")):
        name, line = frame.split("\n")
        value: dict[str, Any] = json.loads(line.removeprefix("data: "))
        assert name == f"event: {value['type']}"
        assert value.pop("sequence_number") == number
        result.append(value)
    return result


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [one["type"].removeprefix("response.") for one in events]


START = Start(id="chatcmpl-1", model="m", created=7)
TEXT_EVENTS = [
    "output_item.added",
    "content_part.added",
    "output_text.delta",
    "output_text.done",
    "content_part.done",
    "output_item.done",
]


def test_a_text_and_a_call_are_written_event_by_event() -> None:
    events = write(
        START,
        Open(0, Text(text="")),
        Delta(0, 'a"'),
        Delta(0, "本"),
        Close(index=0, citations=(Citation(url="https://a", title="A", start=0, end=1),)),
        Open(1, ToolCall(id="call_1", name="f", namespace="ns")),
        Delta(1, "{}"),
        Close(index=1),
        Finish(stop=Stop("tool_calls"), usage=Usage(input_tokens=5, output_tokens=3)),
    )
    at = {"item_id": "msg_chatcmpl-1_0", "output_index": 0, "content_index": 0}
    annotation = {"type": "url_citation", "url": "https://a", "title": "A", "start_index": 0, "end_index": 1}
    head = {"id": "msg_chatcmpl-1_0", "type": "message", "role": "assistant"}
    part = text_part('a"本', annotation)
    fc = {"id": "fc_chatcmpl-1_1", "type": "function_call", "call_id": "call_1", "name": "f", "namespace": "ns"}
    items: list[dict[str, Any]] = [
        {**head, "status": "completed", "content": [part]},
        {**fc, "status": "completed", "arguments": "{}"},
    ]
    assert events[2:-1] == [
        added(0, {**head, "status": "in_progress", "content": []}),
        event("content_part.added", **at, part=text_part("")),
        event("output_text.delta", **at, delta='a"', logprobs=[]),
        event("output_text.delta", **at, delta="本", logprobs=[]),
        event("output_text.annotation.added", **at, annotation_index=0, annotation=annotation),
        event("output_text.done", **at, text='a"本', logprobs=[]),
        event("content_part.done", **at, part=part),
        done(0, items[0]),
        added(1, {**fc, "status": "in_progress", "arguments": ""}),
        event("function_call_arguments.delta", item_id=fc["id"], output_index=1, delta="{}"),
        event("function_call_arguments.done", item_id=fc["id"], output_index=1, arguments="{}"),
        done(1, items[1]),
    ]
    first, second, last = events[0], events[1], events[-1]
    assert kinds([first, second, last]) == ["created", "in_progress", "completed"]
    assert first["response"] == second["response"]
    assert (first["response"]["id"], first["response"]["status"]) == ("chatcmpl-1", "in_progress")
    assert (first["response"]["output"], first["response"]["usage"]) == ([], None)
    assert last["response"]["output"] == items
    assert last["response"]["usage"] == USAGE


RESPONSE = Response(
    id="resp_1",
    model="m",
    created=7,
    content=(
        Thinking(text="hm"),
        Text(text="hi"),
        Text(text="again"),
        Refusal(text="no"),
        ToolCall(id="a", name="f", arguments='{"a": 1}'),
        ToolCall(id="b", name="exec", kind="custom", arguments="x"),
        Media(kind="image", source=Source("base64", "aGk=", "image/png")),
        Opaque(NAME, SEARCH),
    ),
    stop=Stop("tool_calls"),
    usage=Usage(input_tokens=5, output_tokens=3),
)


def test_the_last_event_is_the_response_that_is_not_streamed() -> None:
    events = write(*unfold(RESPONSE))
    whole = json.loads(OPENAI_RESPONSES.encode_response(RESPONSE, None, Receipt()))
    assert events[-1]["response"] == whole
    assert [one["item"] for one in events if one["type"].endswith("output_item.done")] == whole["output"]


def test_ids_of_items_are_the_same_in_all_their_events() -> None:
    ids: dict[int, set[str]] = {}
    for one in write(*unfold(RESPONSE)):
        if "output_index" in one:
            ids.setdefault(one["output_index"], set()).add(one.get("item_id") or one["item"]["id"])
    assert list(ids) == list(range(8))
    assert all(len(names) == 1 for names in ids.values())
    assert len(set.union(*ids.values())) == 8


def test_every_kind_of_block_has_its_events() -> None:
    def events_of(block: Block) -> list[str]:
        return kinds(write(*unfold(Response(content=(block,)))))[2:-1]

    assert events_of(Text(text="a")) == TEXT_EVENTS
    assert events_of(Refusal(text="a")) == [kind.replace("output_text", "refusal") for kind in TEXT_EVENTS]
    assert events_of(Thinking(text="a")) == [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
    ]
    assert events_of(Thinking()) == ["output_item.added", "output_item.done"]
    assert events_of(ToolCall(id="a", name="f", kind="custom", arguments="x")) == [
        "output_item.added",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.done",
        "output_item.done",
    ]


def test_a_call_without_arguments_is_given_the_empty_object_in_a_delta_too() -> None:
    events = write(*unfold(Response(content=(ToolCall(id="a", name="f"),))))
    assert events[3]["delta"] == "{}"
    assert events[4]["arguments"] == "{}"
    assert events[5]["item"]["arguments"] == "{}"


@pytest.mark.parametrize(
    ("stop", "kind"),
    [
        (Stop("end"), "completed"),
        (Stop("length"), "incomplete"),
        (Stop("filtered"), "incomplete"),
        (Stop("refusal"), "incomplete"),
        (Stop("malformed_call"), "incomplete"),
    ],
)
def test_the_last_event_has_the_outcome(stop: Stop, kind: str) -> None:
    last = write(START, Finish(stop=stop))[-1]
    assert (last["type"], last["response"]["status"]) == (f"response.{kind}", kind)


def test_a_refusal_in_words_completes_the_stream() -> None:
    refused = Response(content=(Refusal(text="no"),), stop=Stop("refusal"))
    assert kinds(write(*unfold(refused)))[-1] == "completed"


def test_a_cut_call_is_incomplete() -> None:
    cut = ToolCall(id="a", name="f", arguments='{"a', complete=False)
    events = write(*unfold(Response(content=(cut,), stop=Stop("length"))))
    assert events[-2]["item"]["status"] == "incomplete"
    assert events[-2]["item"]["arguments"] == '{"a'
    assert events[-1]["response"]["output"] == [events[-2]["item"]]


def test_a_call_that_was_cut_before_its_arguments_is_given_none() -> None:
    cut = ToolCall(id="a", name="f", complete=False)
    events = write(*unfold(Response(content=(cut,), stop=Stop("length"))))
    assert (events[-2]["item"]["status"], events[-2]["item"]["arguments"]) == ("incomplete", "")
    assert not [one for one in events if one["type"].endswith("arguments.delta")]


@pytest.mark.parametrize(
    ("reason", "status"), [("length", "incomplete"), ("filtered", "incomplete"), ("end", "completed")]
)
def test_a_message_that_was_cut_is_incomplete(reason: StopReason, status: str) -> None:
    events = write(*unfold(Response(content=(Text(text="a"), Text(text="b")), stop=Stop(reason))))
    items = [one["item"] for one in events if one["type"].endswith("output_item.done")]
    assert [item["status"] for item in items] == ["completed", status]
    assert events[-1]["response"]["output"] == items


def test_a_message_that_has_ended_is_written_before_a_fault() -> None:
    error = ApiError(kind="server", message="no")
    events = write(START, Open(0, Text(text="")), Delta(0, "a"), Close(index=0), Fault(error))
    assert kinds(events)[2:] == [*TEXT_EVENTS, "failed"]


def test_a_fault_fails_the_response_and_leaves_open_items_open() -> None:
    error = ApiError(kind="rate_limit", message="slow down")
    events = write(START, Open(0, Text(text="")), Delta(0, "a"), Fault(error))
    assert kinds(events)[2:] == ["output_item.added", "content_part.added", "output_text.delta", "failed"]
    response = events[-1]["response"]
    assert (response["id"], response["status"]) == ("chatcmpl-1", "failed")
    assert response["error"] == {"code": "rate_limit_exceeded", "message": "slow down"}


def test_a_fault_before_the_start_still_begins_with_created() -> None:
    events = write(Fault(ApiError(kind="server", message="down")))
    assert kinds(events) == ["created", "in_progress", "failed"]
    assert len({one["response"]["id"] for one in events}) == 1


def test_nothing_is_written_after_the_end() -> None:
    encoder = OPENAI_RESPONSES.stream_encoder(None, Receipt())
    encoder.feed(START)
    encoder.feed(Finish(stop=Stop("end")))
    assert encoder.feed(Fault(ApiError(kind="server", message="late"))) == b""


def test_keepalives_are_comments() -> None:
    assert OPENAI_RESPONSES.stream_encoder(None, Receipt()).keepalive() == b": keepalive\n\n"


def test_a_stream_of_this_api_keeps_ids_phases_and_parts() -> None:
    sequenced = unfold(fold(read(*FULL)))
    items = [one["item"] for one in write(*sequenced) if one["type"].endswith("output_item.done")]
    assert items[0] == REASONING
    assert items[1] == SEARCH
    assert items[2]["id"] == "msg_1"
    assert items[2]["phase"] == "commentary"
    assert items[-2:] == [call('{"a": 1}'), custom("text()")]


@pytest.mark.parametrize("fields", [{}, {"phase": "commentary"}], ids=["no phase", "a phase"])
def test_a_message_is_announced_with_its_phase(fields: dict[str, Any]) -> None:
    answer = message(text_part("hi"), **fields)
    written = write(*read(created(), added(0, message(**fields)), done(0, answer), completed(answer)))
    (announced,) = [one["item"] for one in written if one["type"] == "response.output_item.added"]
    assert announced == {**message(status="in_progress"), **fields}


def test_reasoning_text_goes_out_as_it_came() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
    response = OPENAI_RESPONSES.decode_response(json.dumps(completed(item)["response"]).encode())
    events = write(*unfold(response))
    assert kinds(events)[2:-1] == [
        "output_item.added",
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
    ]
    assert events[-1]["response"]["output"] == [item]


def test_what_has_no_item_takes_no_place() -> None:
    receipt = Receipt()
    content = (ToolResult(call_id="a"), Opaque("gemini", {"executableCode": {}}), Text(text="hi"))
    events = write(*unfold(Response(content=content)), receipt=receipt)
    assert [one["output_index"] for one in events if one["type"].endswith("item.done")] == [0]
    assert [line.where for line in receipt.losses] == ["content[0]", "content[1]"]


def test_the_request_is_repeated_in_the_response() -> None:
    request = OPENAI_RESPONSES.decode_request(b'{"model": "m", "input": "hi", "instructions": "be brief"}')
    encoder = OPENAI_RESPONSES.stream_encoder(request, Receipt())
    for one in parsed(encoder.feed(START) + encoder.feed(Finish(stop=Stop("end")))):
        assert one["response"]["instructions"] == "be brief"


words = st.text('ab"\\\n\r\u2028é日🌍', min_size=1, max_size=8)
written_blocks: st.SearchStrategy[Block] = st.one_of(
    st.builds(Text, text=words),
    st.builds(Thinking, text=words),
    st.builds(Refusal, text=words),
    st.builds(ToolCall, id=words, name=words, arguments=words),
    st.builds(ToolCall, id=words, name=words, arguments=words, kind=st.just("custom")),
)


@given(st.lists(written_blocks, max_size=5, unique_by=lambda block: getattr(block, "id", id(block))))
def test_an_encoded_stream_is_read_back(content: list[Block]) -> None:
    response = Response(id="resp_1", content=tuple(content))
    encoder = OPENAI_RESPONSES.stream_encoder(None, Receipt())
    again = fold(read_bytes([encoder.feed(one) for one in unfold(response)]))

    def essence(block: Block) -> tuple[Any, ...]:
        if isinstance(block, ToolCall):
            return block.kind, block.id, block.name, block.arguments or "{}"
        return type(block), getattr(block, "text", None)

    assert [essence(block) for block in again.content] == [essence(block) for block in content]


def test_a_call_that_was_only_announced_before_the_limit_is_an_incomplete_call() -> None:
    response = {**ENVELOPE, "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": []}
    announced = added(0, call("", status="in_progress"))
    events = read_bytes([on_the_wire(created(), announced, event("incomplete", response=response))])
    (block,) = fold(events).content
    assert isinstance(block, ToolCall)
    assert (block.id, block.name, block.arguments, block.complete) == ("call_1", "f", "", False)


def test_a_stream_with_only_an_end_still_starts_and_has_all_content() -> None:
    events = read_bytes([on_the_wire(completed(message(text_part("Hi")), call('{"x":1}')))])
    response = fold(events)
    assert (response.id, response.model, response.created) == ("resp_1", "gpt-5", 7)
    assert [type(block) for block in response.content] == [Text, ToolCall]


def test_a_call_in_the_end_is_the_one_that_streamed_also_when_its_item_id_is_another() -> None:
    streamed, ended = call('{"x":1}'), {**call('{"x":1}'), "id": "fc_other"}
    delta = event("function_call_arguments.delta", output_index=3, item_id="fc_1", delta='{"x":1}')
    events = read_bytes([on_the_wire(created(), added(3, {**streamed, "arguments": ""}), delta, completed(ended))])
    assert len(fold(events).content) == 1


@pytest.mark.parametrize("kind", ["reasoning_text", "reasoning_summary_text"])
def test_reasoning_streams_while_it_is_written(kind: str) -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": []}
    place = {"output_index": 0, "item_id": "rs_1", "content_index": 0, "summary_index": 0}
    decoder = OPENAI_RESPONSES.stream_decoder(Receipt())
    decoder.feed(on_the_wire(created(), added(0, item)))
    deltas = [decoder.feed(on_the_wire(event(f"{kind}.delta", delta=text, **place))) for text in ("so ", "then")]
    assert [one.text for events in deltas for one in events if isinstance(one, Delta)] == ["so ", "then"]
