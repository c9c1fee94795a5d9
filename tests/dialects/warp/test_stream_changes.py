"""Changes to what a stream has already said: what is passed on is true, or the stream says that it was not."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dialects.warp.conversations import WARP, events_of, fault_of, fold_events
from tests.dialects.warp.test_stream import stream_of, summarize_response
from tests.warp_server import frames, story
from tests.warp_server.messages import decode
from tests.warp_server.state import added_up
from toolglot.dialects.warp.fields import from_base64
from toolglot.dialects.warp.tasks import Tasks
from toolglot.dialects.warp.undo import MAX_NESTED
from toolglot.events import Delta, Finish
from toolglot.receipt import Receipt

TEXT = "agent_output.text"
Said = tuple[str, list[tuple[str, str, Any]]]


def decode_streamed(body: bytes, receipt: Receipt | None = None) -> Said:
    text, _, calls = summarize_response(fold_events(events_of(body, receipt)))
    return text, calls


def decode_whole(body: bytes) -> Said:
    text, _, calls = summarize_response(WARP.decode_response(body))
    return text, calls


def encode_again(body: bytes) -> Any:
    encoder = WARP.stream_encoder(None, Receipt())
    return added_up(frames.events_of(b"".join(map(encoder.feed, events_of(body))))).tasks


def stored_tasks(body: bytes) -> list[Any]:
    tasks = Tasks(b"")
    tasks.feed(body)
    return [decode("Task", from_base64(task, "task")) for task in tasks.tasks()]


def is_lossless(body: bytes) -> bool:
    """Does a client of Warp's that gets this stream through us have the same tasks in the end?"""
    encoder = WARP.stream_encoder(None, Receipt())
    return stored_tasks(b"".join(map(encoder.feed, events_of(body)))) == stored_tasks(body)


def test_a_rollback_of_what_nobody_has_seen_does_not_end_the_stream() -> None:
    body = stream_of(
        story.begin(),
        *story.spoken("Let me see."),
        story.commit(),
        story.begin(),
        story.add(story.called(8, "a", "f", {})),
        story.rollback(),
        story.begin(),
        story.add(story.called(9, "b", "f", {})),
        story.commit(),
        story.finished(),
    )
    assert decode_streamed(body) == decode_whole(body) == ("Let me see.", [("b", "f", {})])


def test_text_may_go_on_when_a_call_behind_it_was_taken_back() -> None:
    body = stream_of(
        *story.spoken("one"),
        story.begin(),
        story.add(story.called(8, "a", "f", {})),
        story.rollback(),
        story.append({"id": "m-3", "agent_output": {"text": " two"}}, TEXT),
        story.finished(),
    )
    assert decode_streamed(body) == decode_whole(body) == ("one two", [])
    assert len(fold_events(events_of(body)).content) == 1


LATE = {
    "a call gets its arguments behind a text": (
        story.add(story.called(8, "c", "get_weather", {})),
        *story.spoken("Hi", number=9),
        story.update(story.called(8, "c", "get_weather", {"city": "Paris"}), "tool_call"),
    ),
    "a message without content becomes a call behind a text": (
        story.add({"id": "m-8"}),
        *story.spoken("Hi", number=9),
        story.update(story.called(8, "c", "get_weather", {"city": "Paris"}), "tool_call"),
    ),
}


@pytest.mark.parametrize("name", LATE)
def test_a_call_that_changes_late_is_passed_on_as_it_became(name: str) -> None:
    body = stream_of(*LATE[name], story.finished())
    assert decode_streamed(body) == decode_whole(body) == ("Hi", [("c", "get_weather", {"city": "Paris"})])


@pytest.mark.parametrize("first", [{"id": "m-8"}, story.said(8, ""), story.thought(8, "")])
def test_what_says_nothing_yet_holds_no_text_back_and_may_follow_it(first: Any) -> None:
    events = (*story.opening(), story.begin(), story.add(first), *story.spoken("two", " three", number=9))
    decoder = WARP.stream_decoder(Receipt())
    told = [event for each in events for event in decoder.feed(frames.frame(each))]
    assert [event.text for event in told if isinstance(event, Delta)] == ["two", " three"]
    for late in (
        story.update(story.said(8, "one"), "agent_output"),
        story.update(story.called(8, "c", "f", {}), "tool_call"),
    ):
        body = frames.stream([*events, story.commit(), late, story.finished()])
        text, calls = decode_whole(body)
        assert decode_streamed(body) == ("two three" + text.removesuffix("two three"), calls)
        assert text != "two three" or calls
        assert is_lossless(body)


def test_text_behind_a_call_streams_once_the_calls_own_transaction_is_over() -> None:
    call = (story.begin(), story.add(story.called(8, "c", "f", {})), story.commit())
    events = (*story.opening(), *call, story.begin(), *story.spoken("a", "b"))
    decoder = WARP.stream_decoder(Receipt())
    told = [event for each in events for event in decoder.feed(frames.frame(each))]
    assert [event.text for event in told if isinstance(event, Delta)] == ["{}", "a", "b"]
    nested = (story.begin(), story.begin(), story.add(story.called(8, "c", "f", {})), story.commit())
    taken_back = stream_of(*nested, *story.spoken("a"), story.rollback(), *story.spoken("b"), story.finished())
    assert decode_streamed(taken_back) == decode_whole(taken_back) == ("b", [])


EMPTY = {
    "an empty text is rolled back": (story.begin(), story.add(story.said(8, "")), story.rollback()),
    "an empty text stays empty": (story.add(story.said(8, "")),),
    "empty reasoning": (story.add(story.thought(8, "")),),
}


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_text_is_nothing_that_was_passed_on(name: str) -> None:
    body = stream_of(*EMPTY[name], *story.spoken("Hi"), story.finished())
    assert decode_streamed(body) == decode_whole(body) == ("Hi", [])
    assert len(fold_events(events_of(body)).content) == 1
    assert is_lossless(body)


BECOMES: dict[str, tuple[Any, Any, Said]] = {
    "a call": (story.said(8, ""), story.update(story.called(8, "c", "f", {}), "tool_call"), ("", [("c", "f", {})])),
    "text": (story.thought(8, ""), story.update(story.said(8, "Hi"), "agent_output"), ("Hi", [])),
    "more text": (story.said(8, ""), story.append({"id": "m-8", "agent_output": {"text": "Hi"}}, TEXT), ("Hi", [])),
}


@pytest.mark.parametrize("name", BECOMES)
def test_an_empty_text_may_become_anything(name: str) -> None:
    first, late, expected = BECOMES[name]
    body = stream_of(story.add(first), late, story.finished())
    assert decode_streamed(body) == decode_whole(body) == expected
    assert is_lossless(body)


def test_what_only_warps_clients_can_show_may_become_a_call_after_it_was_passed_on() -> None:
    shown = story.message(8, "debug_output", {"text": "..."})
    change = {**story.called(8, "c", "f", {"a": 1}), "server_message_data": "x"}
    body = stream_of(
        story.add(shown),
        *story.spoken("Hi"),
        story.update(change, "tool_call", "server_message_data"),
        story.finished(),
    )
    assert decode_streamed(body) == decode_whole(body) == ("Hi", [("c", "f", {"a": 1})])
    assert is_lossless(body)


@pytest.mark.parametrize(
    "late",
    [
        story.update(story.said(8, "two"), "agent_output"),
        story.append({"id": "m-8", "agent_output": {"text": "two"}}, TEXT),
    ],
)
def test_content_that_comes_after_the_transaction_is_not_lost(late: Any) -> None:
    body = stream_of(
        story.begin(), story.add({"id": "m-8"}), story.commit(), *story.spoken("one"), late, story.finished()
    )
    assert decode_streamed(body) == ("onetwo", [])


def test_a_call_that_changes_after_it_was_passed_on_ends_the_stream() -> None:
    first = (story.begin(), story.add(story.called(8, "c", "f", {})), story.commit(), *story.spoken("Hi"))
    body = stream_of(*first, story.update(story.called(8, "c", "f", {"a": 1}), "tool_call"), story.finished())
    assert fault_of(events_of(body)).code == "upstream_rolled_back"
    data = story.update({"id": "m-8", "server_message_data": "x"}, "server_message_data")
    assert decode_streamed(stream_of(*first, data, story.finished())) == ("Hi", [("c", "f", {})])


@pytest.mark.parametrize("mask", [TEXT, "agent_output"])
def test_text_that_an_update_continues_behind_others_is_passed_on(mask: str) -> None:
    body = stream_of(
        *story.spoken("A", number=3),
        *story.spoken("B", number=4),
        story.update(story.said(3, "A, more"), mask),
        story.append({"id": "m-3", "agent_output": {"text": "!"}}, TEXT),
        story.update(story.said(3, "A, more!?"), mask),
        story.finished(),
    )
    receipt = Receipt()
    assert decode_streamed(body, receipt) == ("AB, more!?", [])
    assert not receipt
    assert encode_again(body) == added_up(frames.events_of(body)).tasks


def test_text_behind_others_that_is_written_anew_is_told() -> None:
    body = stream_of(
        *story.spoken("A", number=3),
        *story.spoken("B", number=4),
        story.update(story.said(3, "C"), TEXT),
        story.finished(),
    )
    receipt = Receipt()
    assert decode_streamed(body, receipt) == ("AB", [])
    assert len(receipt.losses) == 1
    assert decode_whole(body) == ("CB", [])
    assert encode_again(body) == added_up(frames.events_of(body)).tasks


def test_opaque_data_for_more_text_that_waits_behind_a_call_is_not_lost() -> None:
    body = stream_of(
        *story.spoken("A", number=3),
        story.add(story.called(8, "c", "f", {})),
        *story.spoken("B", number=4),
        story.append({"id": "m-3", "agent_output": {"text": "!"}}, TEXT),
        story.update({"id": "m-3", "server_message_data": "x"}, "server_message_data"),
        story.finished(),
    )
    assert encode_again(body) == added_up(frames.events_of(body)).tasks


def test_an_action_that_adds_nothing_is_not_lost() -> None:
    body = stream_of(story.add(task="task-other"), *story.spoken("Hi"), story.finished())
    assert encode_again(body) == added_up(frames.events_of(body)).tasks


def test_an_update_of_a_message_that_is_not_there_adds_it_whatever_the_mask_names() -> None:
    body = stream_of(story.update(story.said(8, "Hi"), "server_message_data"), story.finished())
    assert decode_streamed(body) == decode_whole(body) == ("Hi", [])


def test_a_message_that_was_taken_back_may_come_again() -> None:
    again = story.update(story.called(8, "c", "f", {}), "tool_call")
    body = stream_of(story.begin(), story.add(story.called(8, "c", "f", {})), story.rollback(), again, story.finished())
    assert decode_streamed(body) == decode_whole(body) == ("", [("c", "f", {})])


GROWN = (
    *story.spoken("A", number=3),
    story.add(story.called(5, "c5", "f", {})),
    *story.spoken("B", number=4),
    story.append({"id": "m-3", "agent_output": {"text": "+"}}, TEXT),
)


@pytest.mark.parametrize("change", [story.called(3, "c", "f", {}), story.asked(3, "q")])
def test_text_that_grew_behind_others_cannot_become_something_else(change: Any) -> None:
    kind = "tool_call" if "tool_call" in change else "user_query"
    body = stream_of(*GROWN, story.update(change, kind), story.finished())
    assert fault_of(events_of(body, size=100)).code == "upstream_unreadable"


def test_text_that_was_passed_on_does_not_become_a_call_by_an_append() -> None:
    more = story.append({"id": "m-3", "tool_call": {"call_mcp_tool": {"name": "f"}}}, "tool_call.call_mcp_tool.name")
    body = stream_of(*story.spoken("A"), *story.spoken("B", number=4), more, story.finished())
    assert fault_of(events_of(body)).code == "upstream_unreadable"


def test_a_mask_into_a_map_is_an_error_and_not_another_call() -> None:
    """Warp's client refuses it; the arguments must not stay as they were as if nothing had been said."""
    path = "tool_call.call_mcp_tool.args.fields.city"
    update = story.update(story.called(8, "c", "get_weather", {"city": "Rome"}), path)
    body = stream_of(story.add(story.called(8, "c", "get_weather", {"city": "Paris"})), update, story.finished())
    assert fault_of(events_of(body)).code == "upstream_unreadable"


ECHOES: dict[str, tuple[Any, Any, str, Said]] = {
    "an echo of the user's words": (story.asked(8, "q"), story.said(8, "Hi"), "agent_output", ("Hi", [])),
    "an echo, by the path of the text": (story.asked(8, "q"), story.said(8, "Hi"), TEXT, ("Hi", [])),
    "half a call": (
        story.message(8, "tool_call", {"tool_call_id": "c"}),
        story.called(8, "", "f", {}),
        "tool_call.call_mcp_tool",
        ("", [("c", "f", {})]),
    ),
}


@pytest.mark.parametrize("name", ECHOES)
def test_what_is_no_part_of_the_answer_may_become_one(name: str) -> None:
    first, then, path, expected = ECHOES[name]
    data = story.update({"id": "m-8", "server_message_data": "x"}, "server_message_data")
    body = stream_of(story.add(first), data, story.update(then, path), story.finished())
    assert decode_streamed(body) == decode_whole(body) == expected
    assert encode_again(body) == added_up(frames.events_of(body)).tasks
    undone = stream_of(story.add(first), story.begin(), story.update(then, path), story.rollback(), story.finished())
    assert decode_whole(undone) == ("", [])


def test_text_that_an_update_makes_a_call_is_the_call() -> None:
    body = stream_of(
        *story.spoken("one", " two"), story.update(story.called(3, "c", "f", {}), "tool_call"), story.finished()
    )
    assert decode_whole(body) == ("", [("c", "f", {})])


def test_an_append_does_not_make_a_call_another() -> None:
    path = "tool_call.grep.path"
    append = story.append({"id": "m-8", "tool_call": {"grep": {"path": "x"}}}, path)
    added = story.add(story.called(8, "c", "f", {}))
    assert fault_of(events_of(stream_of(added, append, story.finished()))).code == "upstream_unreadable"
    tasks = Tasks(b"")
    tasks.feed(stream_of(added, append, story.finished()))
    (task,) = [decode("Task", from_base64(data, "tasks")) for data in tasks.tasks()]
    assert task["messages"][-1] == story.called(8, "c", "f", {})


def test_text_that_is_appended_in_a_transaction_may_be_taken_back_in_the_whole() -> None:
    more = story.append({"id": "m-3", "agent_output": {"text": " two"}}, TEXT)
    data = story.update({"id": "m-3", "server_message_data": "x"}, "server_message_data")
    body = stream_of(*story.spoken("one"), story.begin(), more, data, more, story.rollback(), more, story.finished())
    assert decode_whole(body) == ("one two", [])


# Time and memory


def test_transactions_do_not_nest_without_end() -> None:
    body = stream_of(*[story.begin()] * (MAX_NESTED + 1), *story.spoken("Hi"), story.finished())
    assert fault_of(events_of(body)).code == "upstream_unreadable"
    tasks = Tasks(b"")
    tasks.feed(body)
    assert not tasks.finished


BIG = {"text": "x" * 2_000_000}
CALL = story.add(story.called(8, "c", "f", BIG))


def test_what_is_kept_for_rollbacks_is_bounded() -> None:
    change = story.update(story.called(8, "c", "f", BIG), "tool_call")
    nested = [event for _ in range(20) for event in (story.begin(), change)]
    assert fault_of(events_of(stream_of(CALL, *nested, story.finished()))).code == "upstream_unreadable"
    body = stream_of(CALL, story.begin(), *[change] * 10, story.commit(), story.finished())
    assert len(decode_streamed(body)[1]) == 1


def test_only_what_changes_is_kept_for_a_rollback() -> None:
    """A thousand copies of a call that waits would take seconds, and forty open transactions 80 MB."""
    change = story.update({"id": "m-8", "server_message_data": "x"}, "server_message_data")
    nested = [event for _ in range(40) for event in (story.begin(), change)]
    again = [story.begin(), change, story.rollback()] * 1_000
    body = stream_of(CALL, *again, *nested, story.finished())
    started = time.process_time()
    assert decode_streamed(body) == ("", [("c", "f", BIG)])
    assert time.process_time() - started < 3


def test_what_is_taken_back_again_and_again_is_bounded() -> None:
    change = story.update(story.called(8, "c", "f", {}), "tool_call")
    body = stream_of(CALL, *[story.begin(), change, story.rollback()] * 1_000, story.finished())
    assert fault_of(events_of(body)).code == "upstream_unreadable"
    body = stream_of(CALL, *[story.begin(), change, story.rollback()] * 10, story.finished())
    assert decode_streamed(body) == decode_whole(body) == ("", [("c", "f", BIG)])


def test_late_updates_take_time_in_proportion() -> None:
    """Text that grew ten thousand times, and as many updates of it: minutes when each of them looks at all of it."""
    count = 10_000
    more = story.append({"id": "m-3", "agent_output": {"text": "z"}}, TEXT)
    grown = [event for number in range(count) for event in (story.add(story.said(number + 8, "x")), more)]
    anew = story.update(story.said(3, "q"), TEXT)
    body = stream_of(*story.spoken("A"), *grown, story.add(story.said(4, "B")), *[anew] * count, story.finished())
    decoder, started = WARP.stream_decoder(Receipt()), time.process_time()
    events = [event for piece in frames.payloads(body) for event in decoder.feed(frames.frame_of(piece))]
    assert isinstance(events[-1], Finish)
    assert time.process_time() - started < 10


PATHS = (
    "tool_call",
    "tool_call.call_mcp_tool.args",
    "tool_call.call_mcp_tool.name",
    "server_message_data",
    "citations",
)
KINDS = ("agent_output", TEXT, "agent_reasoning", "update_todos", "user_query")


@given(data=st.data())
def test_a_rollback_leaves_a_message_that_waits_as_it_was(data: st.DataObject) -> None:
    patch = {
        **story.called(8, "d", "g", {"b": 2}),
        "citations": [{"document_id": "1"}],
        "server_message_data": "y",
    }
    others = {"agent_output": {"text": "t"}, "agent_reasoning": {"reasoning": "r"}, "user_query": {"query": "q"}}
    changes: list[Any] = []
    for path in data.draw(st.lists(st.sampled_from((*PATHS, *KINDS)), min_size=1, max_size=6)):
        kind = path.partition(".")[0]
        given_ = {"id": "m-8", kind: others[kind]} if kind in others and data.draw(st.booleans()) else patch
        changes.append(story.update(given_, path))
        if data.draw(st.booleans()):
            changes.append(story.append({"id": "m-8", "server_message_data": "+"}, "server_message_data"))
    first = story.add(data.draw(st.sampled_from([story.called(8, "c", "f", {"a": 1}), {"id": "m-8"}])))
    body = stream_of(first, story.begin(), *changes, story.rollback(), story.finished())
    again = WARP.encode_response(WARP.decode_response(body), None, Receipt())
    assert added_up(frames.events_of(again)).tasks == added_up(frames.events_of(body)).tasks


def test_many_messages_and_transactions_take_time_in_proportion() -> None:
    """Four thousand calls, each updated, and as many transactions: seconds when every one looks at all the others."""
    count = 4_000
    calls = [story.add(story.called(number + 8, f"c{number}", "f", {})) for number in range(count)]
    data = [
        story.update({"id": f"m-{number + 8}", "server_message_data": "x"}, "server_message_data")
        for number in range(count)
    ]
    body = stream_of(*calls, *data, *[story.begin(), story.rollback()] * count, story.finished())
    started = time.process_time()
    tasks = Tasks(b"")
    tasks.feed(body)
    assert tasks.finished
    assert len(tasks.tasks()) == 1
    deltas = [event for event in events_of(body) if isinstance(event, Delta)]
    assert len(deltas) == count
    assert time.process_time() - started < 5
