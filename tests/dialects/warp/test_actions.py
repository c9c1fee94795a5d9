"""Any actions in any order: what the decoder, the encoder and the kept tasks make of them is what a client would."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.dialects.warp.conversations import WARP, events_of
from tests.warp_server import frames, story
from tests.warp_server.messages import decode, encode
from tests.warp_server.state import added_up
from toolglot.dialects.warp.fields import from_base64
from toolglot.dialects.warp.tasks import Tasks
from toolglot.events import Fault
from toolglot.ir import Text, ToolCall
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

SUB = "task-sub"
TEXT, REASONING = "agent_output.text", "agent_reasoning.reasoning"
words = st.text(alphabet="abc", min_size=1, max_size=3)


@st.composite
def stories(draw: st.DrawFn) -> list[Any]:
    """Events that Warp's own client would take, of one or several messages that grow and change."""
    events = [*story.opening(), story.create_task(SUB, story.ROOT)]
    kinds: dict[str, str] = {}
    saved: list[dict[str, str]] = []
    for number in range(draw(st.integers(1, 12))):
        step = draw(st.sampled_from(["add", "add", "append", "append", "update", "data", "begin", "end", "aside"]))
        known = list(kinds)
        if step == "add":
            events.append(story.add(_new(draw, number, kinds)))
        elif step == "append" and known:
            events += _append(draw(st.sampled_from(known)), kinds, draw(words))
        elif step == "update":
            events.append(_update(draw, number, kinds))
        elif step == "data" and known:
            target = draw(st.sampled_from(known))
            events.append(story.update({"id": target, "server_message_data": draw(words)}, "server_message_data"))
        elif step == "begin":
            saved.append(dict(kinds))
            events.append(story.begin())
        elif step == "end" and saved:
            before = saved.pop()
            if draw(st.booleans()):
                kinds.clear()
                kinds.update(before)
                events.append(story.rollback())
            else:
                events.append(story.commit())
        else:
            events += story.spoken("inside", draw(words), number=f"s{number}", task=SUB)
    return [*events, *(story.commit() for _ in saved), story.finished()]


def _new(draw: st.DrawFn, number: int, kinds: dict[str, str]) -> Any:
    kind = draw(st.sampled_from(["text", "thought", "call", "todos", "nothing yet"]))
    kinds[f"m-{number + 10}"] = kind
    match kind:
        case "nothing yet":
            return {"id": f"m-{number + 10}", "task_id": story.ROOT}
        case "text":
            return story.said(number + 10, draw(words | st.just("")))
        case "thought":
            return story.thought(number + 10, draw(words))
        case "call":
            return story.called(number + 10, f"call-{number}", "f", {"n": number})
    return story.message(number + 10, "update_todos", {"mark_todos_completed": {"todo_ids": [draw(words)]}})


def _append(target: str, kinds: dict[str, str], text: str) -> list[Any]:
    if kinds[target] == "text":
        return [story.append({"id": target, "agent_output": {"text": text}}, TEXT)]
    if kinds[target] == "thought":
        return [story.append({"id": target, "agent_reasoning": {"reasoning": text}}, REASONING)]
    return []


def _update(draw: st.DrawFn, number: int, kinds: dict[str, str]) -> Any:
    known = [target for target, kind in kinds.items() if kind in ("text", "call", "nothing yet")]
    if not known or draw(st.booleans()):
        kinds[f"m-{number + 10}"] = "text"
        return story.update(story.said(number + 10, draw(words)), "agent_output")
    target = draw(st.sampled_from(known))
    if kinds[target] == "text":
        return story.update(story.said(target[2:], draw(words)), TEXT)
    kinds[target] = "call"
    return story.update(story.called(target[2:], "call-u", "g", {"u": number}), "tool_call")


def root_of(raw: bytes) -> Any:
    return added_up(frames.events_of(raw)).root


@given(events=stories())
def test_a_whole_answer_says_what_the_root_task_says(events: list[Any]) -> None:
    raw = frames.stream(events)
    response = WARP.decode_response(raw)
    messages = root_of(raw)["messages"]
    texts = [text for message in messages if (text := message.get("agent_output", {}).get("text"))]
    calls = [
        message["tool_call"]["tool_call_id"] for message in messages if "call_mcp_tool" in message.get("tool_call", {})
    ]
    assert [block.text for block in response.content if isinstance(block, Text)] == texts
    assert [block.id for block in response.content if isinstance(block, ToolCall)] == calls


@given(events=stories())
def test_a_whole_answer_written_again_adds_up_to_the_same_tasks(events: list[Any]) -> None:
    raw = frames.stream(events)
    again = WARP.encode_response(WARP.decode_response(raw), None, Receipt())
    assert added_up(frames.events_of(again)).tasks == added_up(frames.events_of(raw)).tasks


@given(events=stories())
def test_a_stream_written_again_adds_up_to_the_same_tasks_or_fails(events: list[Any]) -> None:
    raw = frames.stream(events)
    decoded = events_of(raw)
    if isinstance(decoded[-1], Fault):
        assert decoded[-1].error.code == "upstream_rolled_back"
        taken_back = ("rollback_transaction", "call-u")  # what was passed on, or a call in what was passed on
        assert any(word in str(event) for event in events for word in taken_back)
        return
    encoder = WARP.stream_encoder(None, Receipt())
    again = b"".join(map(encoder.feed, decoded))
    assert added_up(frames.events_of(again)).tasks == added_up(frames.events_of(raw)).tasks


ASKED = {"user_inputs": {"inputs": [{"user_query": {"query": "Hi"}}]}}


@given(events=stories(), together=st.booleans())
def test_a_client_of_warps_follows_whatever_happens(events: list[Any], together: bool) -> None:
    """Rollbacks of what it has seen, and changes of calls, too."""
    exchange = ExchangeCore("warp", "warp")
    exchange.request(encode("Request", {"input": ASKED, "settings": {"model_config": {"base": "auto"}}}))
    if together:
        actions = [action for event in events for action in event.get("client_actions", {}).get("actions", ())]
        events = [events[0], story.actions(*actions), events[-1]]
    stream = exchange.stream()
    again = b"".join(stream.feed(frames.frame(event)) for event in events) + stream.close()
    assert stream.fault is None
    assert added_up(frames.events_of(again)).tasks == added_up(events).tasks


@given(events=stories(), size=st.integers(1, 50))
def test_the_tasks_that_are_kept_are_those_of_the_server(events: list[Any], size: int) -> None:
    raw = frames.stream(events)
    tasks = Tasks(b"")
    for at in range(0, len(raw), size):
        tasks.feed(raw[at : at + size])
    kept = [decode("Task", from_base64(data, "tasks")) for data in tasks.tasks()]
    assert {task["id"]: task for task in kept} == added_up(frames.events_of(raw)).tasks
    assert tasks.finished


@given(events=stories(), at=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_broken_byte_never_is_an_exception(events: list[Any], at: int, byte: int) -> None:
    raw = bytearray(frames.stream(events))
    assume(at < len(raw))
    raw[at] = byte
    events_of(bytes(raw))
