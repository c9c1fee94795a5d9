"""Tasks inside the conversation: what is said in them is no part of the answer."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.dialects.warp.conversations import WARP, assistant, events_of, fault_of, make_request, user
from tests.dialects.warp.test_stream import stream_of, summarize_response
from tests.dialects.warp.test_stream_changes import TEXT, decode_streamed, decode_whole
from tests.warp_server import frames, story
from tests.warp_server.messages import decode, encode
from tests.warp_server.state import added_up
from toolglot.dialects.warp.fields import from_base64, to_base64
from toolglot.dialects.warp.tasks import Tasks
from toolglot.ir import Request, Text, with_native
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

SUB = "task-sub"


def add_in_subtask(text: str = "inside", number: int = 50) -> Any:
    return story.add(story.said(number, text, task=SUB), task=SUB)


ROOT_TASK = {"id": story.ROOT, "messages": [story.said(1, "Before")]}
SUBTASK = {
    "id": SUB,
    "dependencies": {"parent_task_id": story.ROOT},
    "messages": [story.said(40, "old", task=SUB)],
}
ASKED = {"user_inputs": {"inputs": [{"user_query": {"query": "Hi"}}]}}


def replay_request() -> Request:
    """A request that told the server of a conversation with a task inside."""
    tasks = [to_base64(encode("Task", task)) for task in (ROOT_TASK, SUBTASK)]
    return with_native(make_request(user("Hi")), "warp", tasks=tasks, history="replay", covered=0)


def answer_of(*events: Any, client: str = "openai_chat", whole: bool = False) -> tuple[bytes, Receipt]:
    """What the client gets of these events, which follow that request."""
    exchange = ExchangeCore(client, "warp")
    if client == "warp":
        settings = {"model_config": {"base": "auto"}}
        wire = {"task_context": {"tasks": [ROOT_TASK, SUBTASK]}, "input": ASKED, "settings": settings}
        exchange.request(encode("Request", wire))
    else:
        request = replay_request()
        exchange.asked = request
        exchange.resend(request)
    body = frames.stream([story.init(), *events, *story.spoken("Hi"), story.finished()])
    if whole:
        return exchange.response(body), exchange.receipt
    stream = exchange.stream()
    return stream.feed(body) + stream.close(), exchange.receipt


EARLIER = {
    "text in a task of an earlier turn": (add_in_subtask(), False),
    "a call in it": (story.add(story.called(51, "c", "f", {}, task=SUB), task=SUB), False),
    "a list of things to do in it": (
        story.add(story.message(52, "update_todos", {"mark_todos_completed": {"todo_ids": ["1"]}}, task=SUB), task=SUB),
        False,
    ),
    "more text for a message in it": (story.append(story.said(40, "more", task=SUB), TEXT, SUB), False),
    "another text for a message in it": (story.update(story.said(40, "more", task=SUB), TEXT, task=SUB), False),
    "more text for an earlier answer": (story.append(story.said(1, ", and more"), TEXT), True),
    "another text for an earlier answer": (story.update(story.said(1, "Anew"), TEXT), True),
    "opaque data for an earlier answer": (
        story.update(story.said(1, "Before", server_message_data="x"), "server_message_data"),
        False,
    ),
    "more opaque data for an earlier answer": (
        story.append({"id": "m-1", "server_message_data": "x"}, "server_message_data"),
        False,
    ),
}


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("name", EARLIER)
def test_what_becomes_of_earlier_turns_is_not_said_again(name: str, whole: bool) -> None:
    event, visible = EARLIER[name]
    body, receipt = answer_of(event, whole=whole)
    assert texts_of(body) == "Hi"
    assert b'"stop"' in body
    assert [line.what for line in receipt.losses] == ["change_of_an_earlier_message"] * visible


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("name", EARLIER)
def test_a_client_of_warps_gets_what_becomes_of_earlier_turns(name: str, whole: bool) -> None:
    event, _ = EARLIER[name]
    body, receipt = answer_of(event, client="warp", whole=whole)
    told = frames.events_of(body)
    assert not receipt
    sent = (ROOT_TASK, SUBTASK)
    assert added_up(told, sent).tasks == added_up([event, *story.spoken("Hi")], sent).tasks


def test_more_for_a_message_that_nobody_knows_is_an_error() -> None:
    for client in ("openai_chat", "warp"):
        body, _ = answer_of(story.append(story.said(99, "?"), TEXT), client=client)
        assert (
            b"m-99" in body if client == "openai_chat" else "internal_error" in frames.events_of(body)[-1]["finished"]
        )


def test_a_message_of_a_history_that_was_made_for_the_server_is_known() -> None:
    request = make_request(user("Hi"), assistant(Text(text="Before")), user("More"))
    sent = decode("Request", WARP.encode_request(request, Receipt()))
    (task,) = sent["task_context"]["tasks"]
    number = next(message["id"] for message in task["messages"] if "agent_output" in message)
    exchange = ExchangeCore("openai_chat", "warp")
    exchange.asked = request
    exchange.resend(request)
    more = story.append({"id": number, "agent_output": {"text": "!"}}, TEXT, task["id"])
    response = exchange.upstream.decode_response(frames.stream([more, *story.spoken("Hi"), story.finished()]))
    assert summarize_response(response)[0] == "Hi"


def move_action(first: str, last: str, **more: Any) -> Any:
    task = {"id": SUB, "dependencies": {"parent_task_id": story.ROOT}}
    ends = {"first_message_id": first, "last_message_id": last}
    return story.actions(
        {"move_messages_to_new_task": {"source_task_id": story.ROOT, "new_task": task, **ends, **more}}
    )


def test_messages_that_wait_are_dropped_when_they_are_moved() -> None:
    events = (
        story.add(story.called(7, "c7", "f", {})),
        story.add(story.called(8, "c8", "f", {})),
        *story.spoken("inside", number=9),
        story.add(story.called(10, "c10", "f", {})),
    )
    body = stream_of(*events, move_action("m-8", "m-9"), story.finished())
    assert decode_whole(body) == ("", [("c7", "f", {}), ("c10", "f", {})])
    at_once = story.actions(*(action for event in (*events, move_action("m-8", "m-9")) for action in actions_of(event)))
    assert decode_streamed(stream_of(at_once, story.finished())) == ("", [("c7", "f", {}), ("c10", "f", {})])
    undone = stream_of(*events, story.begin(), move_action("m-8", "m-9"), story.rollback(), story.finished())
    assert (
        decode_streamed(undone)
        == decode_whole(undone)
        == ("inside", [("c7", "f", {}), ("c8", "f", {}), ("c10", "f", {})])
    )


def test_a_message_that_was_moved_is_not_in_the_conversation_any_more() -> None:
    """An update adds it there once more, and there is nothing to append to, as in Warp's client."""
    gone = (story.add(story.called(8, "c", "f", {})), move_action("m-8", "m-8"))
    again = story.update(story.said(8, "Hi"), TEXT)
    assert decode_streamed(stream_of(*gone, again, story.finished())) == ("Hi", [])
    more = story.append(story.said(8, "Hi"), TEXT)
    assert fault_of(events_of(stream_of(*gone, more, story.finished()))).code == "upstream_unreadable"
    there = story.append(story.said(8, "Hi", task=SUB), "server_message_data", SUB)
    assert decode_streamed(stream_of(*gone, there, story.finished())) == ("", [])


def test_messages_are_moved_from_earlier_turns_on() -> None:
    body, _ = answer_of(story.add(story.called(8, "c", "f", {})), move_action("m-1", "m-8"), whole=True)
    assert texts_of(body) == "Hi"
    assert b'"c"' not in body


def test_text_that_is_moved_after_it_was_passed_on_is_told() -> None:
    events = (*story.spoken("Well. ", number=8), move_action("m-8", "m-8"))
    body, receipt = answer_of(*events)
    assert texts_of(body) == "Well. Hi"
    assert [line.what for line in receipt.losses] == ["text_moved_to_another_task"]
    body, receipt = answer_of(*events, whole=True)
    assert texts_of(body) == "Hi"
    assert not receipt.losses


def test_a_call_that_is_moved_after_it_was_passed_on_ends_the_stream() -> None:
    first = (story.begin(), story.add(story.called(8, "c", "f", {})), story.commit(), *story.spoken("Hi"))
    body = stream_of(*first, move_action("m-8", "m-8"), story.finished())
    assert fault_of(events_of(body)).code == "upstream_rolled_back"


def test_what_takes_the_place_of_moved_messages_is_told() -> None:
    replaced = move_action("m-8", "m-8", replacement_messages=[story.said(60, "In short.")])
    _, receipt = answer_of(story.add(story.called(8, "c", "f", {})), replaced, whole=True)
    assert [line.what for line in receipt.losses] == ["replacement_messages"]


def test_a_call_that_takes_the_place_of_moved_messages_is_to_be_run() -> None:
    call = story.called(60, "c60", "f", {"a": 1})
    later = (move_action("m-2", "m-2", replacement_messages=[{"id": "m-60"}]), story.update(call, "tool_call"))
    for events in ([move_action("m-2", "m-2", replacement_messages=[call])], later):
        body = stream_of(*events, story.finished())
        assert decode_streamed(body) == decode_whole(body) == ("", [("c60", "f", {"a": 1})])
    other = move_action("m-40", "m-40", source_task_id=SUB, replacement_messages=[call])
    assert b"c60" not in answer_of(other)[0]


AGAIN = {
    "the whole task": [story.create_task(story.ROOT, "", story.said(1, "Before"))],
    "the task under another name": [story.create_task("task-anew", "", story.said(1, "Before", task="task-anew"))],
    "the messages": [story.add(story.said(1, "Before"))],
}


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("name", AGAIN)
def test_messages_of_earlier_turns_that_are_told_again_are_no_part_of_the_answer(name: str, whole: bool) -> None:
    body, receipt = answer_of(*AGAIN[name], whole=whole)
    assert texts_of(body) == "Hi"
    assert not receipt.losses


@pytest.mark.parametrize("name", AGAIN)
def test_messages_of_earlier_turns_that_are_told_again_are_kept_once(name: str) -> None:
    request = encode("Request", {"task_context": {"tasks": [ROOT_TASK, SUBTASK]}, "input": ASKED})
    for taken_back in (False, True):
        tasks = Tasks(request)
        end = [story.rollback()] if taken_back else [story.commit()]
        tasks.feed(frames.stream([story.init(), story.begin(), *AGAIN[name], *end, story.finished()]))
        kept = [decode("Task", from_base64(task, "task")) for task in tasks.tasks()]
        root = next(task for task in kept if "dependencies" not in task)
        assert [message["id"] for message in root["messages"]] == ["m-1"]
        assert taken_back is False or kept == [ROOT_TASK, SUBTASK]
        parent = next(task for task in kept if "dependencies" in task)["dependencies"]["parent_task_id"]
        assert parent == root["id"]


def test_messages_of_earlier_turns_that_come_back_changed_are_told() -> None:
    body, receipt = answer_of(story.add(story.said(1, "Before, and more")))
    assert texts_of(body) == "Hi"
    assert [line.what for line in receipt.losses] == ["change_of_an_earlier_message"]
    body, receipt = answer_of(story.add(story.said(1, "Before, and more")), client="warp")
    assert [message["id"] for message in added_up(frames.events_of(body)).root["messages"]] == ["m-1", "m-3"]
    assert not receipt.losses


def test_text_in_the_conversation_that_was_sent_streams_beside_a_new_one() -> None:
    exchange = ExchangeCore("openai_chat", "warp")
    exchange.asked = request = replay_request()
    exchange.resend(request)
    stream = exchange.stream()
    events = [story.init(), story.create_task("task-anew"), *story.spoken("Hi")]
    assert texts_of(b"".join(stream.feed(frames.frame(event)) for event in events)) == "Hi"


FOLLOWED = {
    "what it has seen is rolled back": [story.begin(), *story.spoken("Never ", "mind", number=8), story.rollback()],
    "the end of a text is": [
        *story.spoken("Well", number=8),
        story.begin(),
        story.append({"id": "m-8", "agent_output": {"text": ", no"}}, TEXT),
        story.rollback(),
        story.append({"id": "m-8", "agent_output": {"text": "."}}, TEXT),
    ],
    "a transaction inside another is, behind one that is not": [
        story.begin(),
        *story.spoken("a", number=8),
        story.begin(),
        *story.spoken("b", number=9),
        story.commit(),
        story.rollback(),
    ],
    "a call changes after it was passed on": [
        story.add(story.called(8, "c", "f", {})),
        story.begin(),
        story.update(story.called(8, "c", "f", {"a": 1}), "tool_call"),
        story.commit(),
    ],
    "what was about to be said in a task of its own": [
        story.begin(),
        story.add(story.said(8, "", task=SUB), task=SUB),
        story.rollback(),
    ],
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_client_of_warps_follows_transactions_itself(name: str) -> None:
    body, receipt = answer_of(*FOLLOWED[name], client="warp")
    told, sent = frames.events_of(body), (ROOT_TASK, SUBTASK)
    assert "done" in told[-1]["finished"]
    assert not receipt
    assert added_up(told, sent).tasks == added_up([*FOLLOWED[name], *story.spoken("Hi")], sent).tasks


def many_moves(count: int) -> list[Any]:
    first = [story.add(story.said(number + 8, "x")) for number in range(count)]
    return [*first, *(move_action(f"m-{number + 8}", f"m-{number + 8}") for number in range(count))]


def many_tasks(count: int) -> list[Any]:
    return [story.begin(), *(story.create_task(f"s-{number}", story.ROOT) for number in range(count)), story.commit()]


@pytest.mark.parametrize("many", [many_moves, many_tasks])
def test_keeping_many_tasks_takes_time_in_proportion(many: Callable[[int], list[Any]]) -> None:
    """Four thousand: seconds when each of them looks at all the others."""
    body = stream_of(*many(4_000), story.finished())
    tasks, started = Tasks(b""), time.process_time()
    tasks.feed(body)
    assert tasks.finished
    assert time.process_time() - started < 2


def test_moves_are_undone() -> None:
    summarize_response = [story.add(story.said(number, "x")) for number in range(3, 8)]
    change = [
        move_action("m-4", "m-5", replacement_messages=[story.said(60, "y"), story.said(61, "z")]),
        move_action("m-3", "m-60"),
        move_action("m-7", "m-7"),
        move_action("m-61", "m-3"),
    ]
    there, undone, done = Tasks(b""), Tasks(b""), Tasks(b"")
    there.feed(stream_of(*summarize_response, story.finished()))
    undone.feed(stream_of(*summarize_response, story.begin(), *change, story.rollback(), story.finished()))
    done.feed(stream_of(*summarize_response, *change, story.finished()))
    assert undone.tasks() == there.tasks()
    root, inner = (decode("Task", from_base64(task, "task"))["messages"] for task in done.tasks())
    assert [message["id"] for message in root][-2:] == ["m-61", "m-6"]
    assert [message["id"] for message in inner] == ["m-7"]


def actions_of(event: Any) -> list[Any]:
    return list(event["client_actions"]["actions"])


def texts_of(body: bytes) -> str:
    return b"".join(re.findall(rb'"content":"([^"]*)"', body)).decode()


def test_a_task_to_which_messages_are_moved_does_not_speak_in_the_answer() -> None:
    task = {"id": SUB, "dependencies": {"parent_task_id": story.ROOT}}
    move_action = {"source_task_id": story.ROOT, "new_task": task, "first_message_id": "m-1", "last_message_id": "m-1"}
    body = stream_of(
        story.actions({"move_messages_to_new_task": move_action}),
        add_in_subtask(),
        *story.spoken("Hi"),
        story.finished(),
    )
    assert decode_streamed(body) == decode_whole(body) == ("Hi", [])


def test_a_task_may_be_added_to_before_it_is_created() -> None:
    body = stream_of(add_in_subtask(), story.create_task(SUB, story.ROOT), *story.spoken("Hi"), story.finished())
    assert decode_streamed(body) == decode_whole(body) == ("Hi", [])


def test_a_task_whose_creation_was_taken_back_is_not_remembered() -> None:
    body = stream_of(
        story.begin(), story.create_task(SUB, story.ROOT), story.rollback(), add_in_subtask("Hi"), story.finished()
    )
    assert decode_streamed(body) == decode_whole(body) == ("Hi", [])
