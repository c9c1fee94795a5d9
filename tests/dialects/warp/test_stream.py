"""Streams of Warp's server: every script of the scripted one, whole and in pieces, and what only a stream can show."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.dialects.warp.conversations import WARP, events_of, fault_of, fold_events
from tests.warp_server import frames, story
from tests.warp_server.scripts import SCRIPTS, Script
from toolglot.errors import DecodeError, UpstreamError
from toolglot.events import Close, Delta, Event, Fault, Finish, Open
from toolglot.ir import Opaque, Response, Text, Thinking, ToolCall
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

TAKEN_BACK = "a transaction that is rolled back"
"""Its text has been passed on when it is taken back, so a stream of it ends in an error."""
NOT_TOLD_HERE = "a built-in tool that nobody declared"
"""What was declared, only the exchange knows."""
KINDS = {"the quota is used up": "billing"}
"""Kinds of errors where a script says less: no waiting helps against a used-up quota."""


def stream_of(*events: Any) -> bytes:
    return frames.stream([*story.opening(), *events])


def summarize_response(response: Response) -> tuple[str, str, list[tuple[str, str, Any]]]:
    text = "".join(block.text for block in response.content if isinstance(block, Text))
    thinking = "".join(block.text for block in response.content if isinstance(block, Thinking))
    calls = [
        (block.id, block.name, json.loads(block.arguments)) for block in response.content if isinstance(block, ToolCall)
    ]
    return text, thinking, calls


def expected(script: Script) -> tuple[str, str, list[tuple[str, str, Any]]]:
    return script.text, script.thinking, [tuple(call) for call in script.calls]


def stop_of(response: Response) -> str:
    """The reason, as the exchange settles it: calls are waited for."""
    called = any(isinstance(block, ToolCall) for block in response.content)
    return "tool_calls" if called and response.stop.reason == "end" else response.stop.reason


GOOD = {name: script for name, script in SCRIPTS.items() if script.error is None and name != NOT_TOLD_HERE}
BAD = {name: script for name, script in SCRIPTS.items() if script.error is not None}


@pytest.mark.parametrize("name", GOOD)
def test_a_whole_answer_is_what_its_actions_add_up_to(name: str) -> None:
    response = WARP.decode_response(GOOD[name].body)
    assert summarize_response(response) == expected(GOOD[name])
    assert stop_of(response) == GOOD[name].end


@pytest.mark.parametrize("size", [None, 1, 7])
@pytest.mark.parametrize("name", [name for name in GOOD if name != TAKEN_BACK])
def test_a_stream_says_the_same_however_it_is_cut(name: str, size: int | None) -> None:
    receipt = Receipt()
    response = fold_events(events_of(GOOD[name].body, receipt, size))
    assert summarize_response(response) == expected(GOOD[name])
    assert stop_of(response) == GOOD[name].end
    assert not receipt


@pytest.mark.parametrize("name", BAD)
def test_an_answer_that_fails_ends_in_an_error(name: str) -> None:
    script = BAD[name]
    error = fault_of(events_of(script.body))
    assert error.kind == KINDS.get(name, script.error)
    with pytest.raises((DecodeError, UpstreamError)):
        WARP.decode_response(script.body)


def test_text_is_passed_on_as_it_comes_also_inside_a_transaction() -> None:
    decoder = WARP.stream_decoder(Receipt())
    seen: list[list[Event]] = [
        decoder.feed(frames.frame(event)) for event in [*story.opening(), story.begin(), *story.spoken("a", "b", "c")]
    ]
    assert [[event.text for event in events if isinstance(event, Delta)] for events in seen[-3:]] == [
        ["a"],
        ["b"],
        ["c"],
    ]


def test_text_that_is_taken_back_after_it_was_passed_on_is_an_error() -> None:
    events = events_of(SCRIPTS[TAKEN_BACK].body)
    assert [event.text for event in events if isinstance(event, Delta)] == ["Never ", "mind"]
    assert fault_of(events).code == "upstream_rolled_back"
    assert fault_of(events).retryable


def test_a_call_that_is_taken_back_was_never_there() -> None:
    body = stream_of(
        story.begin(), story.add(story.called(9, "c", "f", {})), story.rollback(), *story.spoken("Hi"), story.finished()
    )
    assert summarize_response(fold_events(events_of(body))) == ("Hi", "", [])


def test_transactions_nest() -> None:
    body = stream_of(
        story.begin(),
        story.add(story.called(8, "a", "f", {})),
        story.begin(),
        story.add(story.called(9, "b", "f", {})),
        story.rollback(),
        story.commit(),
        story.finished(),
    )
    assert [call[0] for call in summarize_response(fold_events(events_of(body)))[2]] == ["a"]
    outer = stream_of(
        story.begin(),
        story.begin(),
        story.add(story.called(9, "b", "f", {})),
        story.commit(),
        story.rollback(),
        story.finished(),
    )
    assert summarize_response(fold_events(events_of(outer)))[2] == []


def test_a_call_may_still_change_until_something_is_said_behind_it() -> None:
    body = stream_of(
        story.add(story.called(9, "c", "f", {"a": 1})),
        story.update(story.called(9, "c", "f", {"a": 2}), "tool_call"),
        story.finished(),
    )
    assert summarize_response(fold_events(events_of(body)))[2] == [("c", "f", {"a": 2})]


def test_text_behind_calls_releases_them_in_order() -> None:
    body = stream_of(story.add(story.called(9, "c", "f", {})), *story.spoken("Hi"), story.finished())
    kinds = [type(event.block) for event in events_of(body) if isinstance(event, Open)]
    assert kinds == [ToolCall, Text]


def test_more_text_for_a_message_that_others_have_followed_is_not_lost() -> None:
    body = stream_of(
        *story.spoken("one", number=3),
        *story.spoken("two", number=4),
        story.append({"id": "m-3", "agent_output": {"text": "three"}}, "agent_output.text"),
        story.finished(),
    )
    assert summarize_response(fold_events(events_of(body)))[0] == "onetwothree"
    assert summarize_response(WARP.decode_response(body))[0] == "onethreetwo"


def test_text_that_is_written_anew_is_told_in_a_stream_and_right_in_the_whole() -> None:
    body = stream_of(*story.spoken("one"), story.update(story.said(3, "two"), "agent_output.text"), story.finished())
    receipt = Receipt()
    assert summarize_response(fold_events(events_of(body, receipt)))[0] == "one"
    assert len(receipt.losses) == 1
    assert summarize_response(WARP.decode_response(body))[0] == "two"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(story.append({"id": "m-x", "agent_output": {"text": "a"}}, "agent_output.text"), id="no message"),
        pytest.param(story.append({"id": "m-3", "citations": []}, "citations"), id="no text"),
        pytest.param(story.append({"id": "m-3"}, "nothing.known"), id="no field"),
        pytest.param(
            story.append({"id": "m-3", "server_event": {"payload": "a"}}, "server_event.payload"), id="another kind"
        ),
    ],
)
def test_what_cannot_be_appended_is_an_error(change: Any) -> None:
    events = events_of(stream_of(*story.spoken("Hi"), change, story.finished()))
    assert fault_of(events).code == "upstream_unreadable"


def test_what_makes_no_sense_is_told_once() -> None:
    more = story.append({"id": "m-x", "agent_output": {"text": "a"}}, "agent_output.text")
    with pytest.raises(DecodeError) as raised:
        WARP.decode_response(stream_of(more, story.finished()))
    assert str(raised.value) == "append_to_message_content: there is no message 'm-x'"


def test_a_message_that_becomes_another_kind_after_it_was_passed_on_is_an_error() -> None:
    body = stream_of(*story.spoken("Hi"), story.update(story.called(3, "c", "f", {}), "tool_call"), story.finished())
    assert fault_of(events_of(body)).code == "upstream_unreadable"


def test_a_placeholder_may_become_text() -> None:
    body = stream_of(
        story.add({"id": "m-3"}),
        story.append({"id": "m-3", "agent_output": {"text": "Hi"}}, "agent_output.text"),
        story.finished(),
    )
    assert summarize_response(fold_events(events_of(body)))[0] == "Hi"


def test_what_only_warps_clients_can_show_is_a_block_of_its_own() -> None:
    todos = story.message("a", "update_todos", {"create_todo_list": {"initial_todos": [{"id": "1", "title": "A"}]}})
    search = story.message("b", "web_search", {"status": {"searching": {"query": "x"}}})
    response = fold_events(
        events_of(stream_of(story.add(todos), story.add(search), *story.spoken("Hi"), story.finished()))
    )
    kinds = [block.value["type"] if isinstance(block, Opaque) else "text" for block in response.content]
    assert kinds == ["update_todos", "web_search", "text"]


@pytest.mark.parametrize("name", ["an action that nobody knows", "a message kind that nobody knows"])
def test_what_nobody_knows_is_told_to_clients_of_other_apis(name: str) -> None:
    exchange = ExchangeCore("anthropic", "warp")
    exchange.request({"model": "auto", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]})
    before = len(exchange.receipt.losses)
    exchange.response(SCRIPTS[name].body)
    (line,) = exchange.receipt.losses[before:]
    assert line.what.startswith("unknown field ")
    own = ExchangeCore("warp", "warp")
    own.response(SCRIPTS[name].body)
    assert not own.receipt


def test_opaque_data_that_comes_late_stands_on_the_end_of_the_block() -> None:
    late = story.update({"id": "m-3", "server_message_data": "late"}, "server_message_data")
    events = events_of(stream_of(*story.spoken("Hi"), late, story.finished()))
    (close,) = [event for event in events if isinstance(event, Close)]
    assert close.native["warp"]["server_message_data"] == "late"


def test_nothing_follows_the_end() -> None:
    events = events_of(stream_of(*story.spoken("Hi"), story.finished(), *story.spoken("more", number=9)))
    assert isinstance(events[-1], Finish)


def test_usage_without_a_split_is_split_by_the_answers_length() -> None:
    told: Any = {"conversation_usage_metadata": {"warp_token_usage": {"auto": {"total_tokens": 100}}}}
    body = stream_of(*story.spoken("x" * 40), story.finished(usage=(), **told))
    usage = fold_events(events_of(body)).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (90, 10)


def test_an_error_document_in_place_of_a_stream_is_that_error() -> None:
    with pytest.raises(UpstreamError) as raised:
        WARP.decode_response(b'{"error":"no such model"}')
    assert raised.value.error.message == "no such model"
    (fault,) = events_of(b'data: {"error":"gone"}\n\n')
    assert isinstance(fault, Fault)
    assert fault.error.message == "gone"


def test_a_long_text_in_many_pieces_takes_time_in_proportion() -> None:
    """Sixty thousand appends: a decoder that joins what it has for each of them would take minutes."""
    piece = frames.frame(story.append({"id": "m-3", "agent_output": {"text": "x" * 20}}, "agent_output.text"))
    body = stream_of(*story.spoken("x")) + piece * 60_000 + frames.frame(story.finished())
    assert len(summarize_response(WARP.decode_response(body))[0]) == 1_200_001
