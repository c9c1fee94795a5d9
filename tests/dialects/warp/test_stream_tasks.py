"""Tasks inside the conversation: what is said in them is no part of the answer."""

from __future__ import annotations

from typing import Any

from tests.dialects.warp.conversations import asked, events_of, folded, user
from tests.dialects.warp.test_stream import said, stream_of
from tests.dialects.warp.test_stream_changes import heard, whole
from tests.warp_server import frames, story
from tests.warp_server.messages import encode
from toolglot.dialects.warp.declared import Declared
from toolglot.dialects.warp.fields import text_of
from toolglot.events import Checker, Event
from toolglot.ir import with_native
from toolglot.receipt import Receipt

SUB = "task-sub"


def inside(text: str = "inside", number: int = 50) -> Any:
    return story.add(story.said(number, text, task=SUB), task=SUB)


def passed(events: list[Event]) -> list[Event]:
    """Events behind the pass that knows the request, which told the server of a conversation with a task inside."""
    root = {"id": story.ROOT, "messages": [story.said(1, "Before")]}
    sub = {"id": SUB, "dependencies": {"parent_task_id": story.ROOT}}
    tasks = [text_of(encode("Task", task)) for task in (root, sub)]
    request = with_native(asked(user("Hi")), "warp", tasks=tasks, history="replay", covered=0)
    answer_pass, checker = Declared(request, "openai_chat", Receipt()), Checker()
    out = [made for event in events for made in answer_pass.feed(event)]
    for event in out:
        checker.add(event)
    return out


def test_a_task_of_an_earlier_turn_does_not_speak_in_the_answer() -> None:
    call = story.add(story.called(51, "c", "f", {}, task=SUB), task=SUB)
    body = frames.stream([story.init(), inside(), *story.spoken("Hi"), inside("more", 52), call, story.finished()])
    response = folded(passed(events_of(body)))
    assert said(response) == ("Hi", "", [])
    assert response.stop.reason == "end"


def test_an_update_of_an_earlier_answer_is_not_said_again() -> None:
    late = story.update(story.said(1, "Before", server_message_data="x"), "server_message_data")
    body = frames.stream([story.init(), late, *story.spoken("Hi"), story.finished()])
    assert said(folded(passed(events_of(body))))[0] == "Hi"


def test_a_task_to_which_messages_are_moved_does_not_speak_in_the_answer() -> None:
    task = {"id": SUB, "dependencies": {"parent_task_id": story.ROOT}}
    moved = {"source_task_id": story.ROOT, "new_task": task, "first_message_id": "m-1", "last_message_id": "m-1"}
    body = stream_of(
        story.actions({"move_messages_to_new_task": moved}), inside(), *story.spoken("Hi"), story.finished()
    )
    assert heard(body) == whole(body) == ("Hi", [])


def test_a_task_may_be_added_to_before_it_is_created() -> None:
    body = stream_of(inside(), story.create_task(SUB, story.ROOT), *story.spoken("Hi"), story.finished())
    assert heard(body) == whole(body) == ("Hi", [])


def test_a_task_whose_creation_was_taken_back_is_not_remembered() -> None:
    body = stream_of(
        story.begin(), story.create_task(SUB, story.ROOT), story.rollback(), inside("Hi"), story.finished()
    )
    assert heard(body) == whole(body) == ("Hi", [])
