"""What clients require is in every stream, also when the upstream leaves it out; what they tolerate is not leaned on.

Each row of the tables is something that a real server has been seen to leave out or to write otherwise, while its
stream still says everything. Of each the client must get a stream with everything in it that its dialect's clients
need, whatever the upstream's dialect is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.server.client_errors import break_told
from tests.server.client_needs import Event, needs, whole_needs
from tests.server.stage import DIALECTS, FOREIGN, Call, Stage, Turn, events_of, frames_of, stage, whole_of
from tests.upstream.bad_server import chunk, head, reply, send, stream
from toolglot.dialects.anthropic.dialect import ANTHROPIC
from toolglot.lint import lint

CALLS = Turn("Both at once.", (Call("call_1", "f", {"a": 1}), Call("call_2", "g", {"a": 2})))
NOTHING = Turn("One.", (Call("call_1", "f", {}),))
TEXT = Turn("Only words.")
TURNS = {"calls": CALLS, "no arguments": NOTHING, "text": TEXT}

Events = list[Event]
Leave = Callable[[Events], Events]


@pytest.fixture(scope="module")
def scene() -> Iterator[Stage]:
    with stage() as running:
        yield running


# Ways to leave something out.


def without(*types: str) -> Leave:
    return lambda events: [event for event in events if event.get("type") not in types]


def without_keys(*keys: str) -> Leave:
    """Without these members, wherever they stand."""

    def clean(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: clean(member) for key, member in value.items() if key not in keys}
        return [clean(member) for member in value] if isinstance(value, list) else value

    return lambda events: [clean(event) for event in events]


def whole_calls(events: Events) -> Events:
    """Chat: the whole of a call in its first delta."""
    calls: dict[int, Event] = {}
    for event in events:
        for delta in (choice["delta"] for choice in event["choices"]):
            for call in delta.get("tool_calls", ()):
                known = calls.setdefault(call["index"], call)
                if known is not call:
                    known["function"]["arguments"] += call["function"]["arguments"]
                    event["choices"] = []
    return [event for event in events if event["choices"] or "usage" in event]


def finish_stop(events: Events) -> Events:
    for event in events:
        for choice in event["choices"]:
            choice["finish_reason"] = choice["finish_reason"] and "stop"
    return events


def role_in_each(events: Events) -> Events:
    for event in events:
        for choice in event["choices"]:
            choice["delta"]["role"] = "assistant"
    return events


def usage_in_each(events: Events) -> Events:
    usage = events[-1]["usage"]
    return [{**event, "usage": usage} for event in events[:-1]]


def repeated_ids(events: Events) -> Events:
    ids: dict[int, str] = {}
    for event in events:
        for choice in event["choices"]:
            for call in choice["delta"].get("tool_calls", ()):
                call["id"] = ids.setdefault(call["index"], call.get("id", ""))
    return events


def input_at_start(events: Events) -> Events:
    """Anthropic: the whole input in the block's first event."""
    whole: dict[int, str] = {}
    for event in events:
        if event.get("delta", {}).get("type") == "input_json_delta":
            whole[event["index"]] = whole.get(event["index"], "") + event["delta"]["partial_json"]
    for event in events:
        if event["type"] == "content_block_start" and event["index"] in whole:
            event["content_block"]["input"] = json.loads(whole[event["index"]])
    return [event for event in events if event.get("delta", {}).get("type") != "input_json_delta"]


def end_turn(events: Events) -> Events:
    for event in events:
        if event["type"] == "message_delta":
            event["delta"]["stop_reason"] = "end_turn"
    return events


def empty_completed(events: Events) -> Events:
    events[-1]["response"]["output"] = []
    return events


def minimal_responses(events: Events) -> Events:
    kept = ("id", "object", "status", "output", "usage")
    for event in events:
        if "response" in event:
            event["response"] = {key: event["response"][key] for key in kept}
    return events


def text_apart(events: Events) -> Events:
    """Gemini: an empty frame at the end, as it sends one itself."""
    events[-1]["candidates"][0].pop("finishReason")
    content = {"role": "model", "parts": [{"text": ""}]}
    return [*events, {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}]}]


def without_last_content(events: Events) -> Events:
    *events, last = text_apart(events)
    last["candidates"][0].pop("content")
    return [*events, last]


OMISSIONS: dict[str, dict[str, Leave]] = {
    "openai_chat": {
        "nousage": lambda events: [event for event in events if event["choices"]],
        "norole": without_keys("role"),
        "noindex": without_keys("index"),
        "notype": without_keys("type"),
        "noid_resp": lambda events: [{key: event[key] for key in event if key != "id"} for event in events],
        "nocreated": without_keys("created"),
        "nomodel": without_keys("model"),
        "noobject": without_keys("object"),
        "argsfirst": whole_calls,
        "argsfirst, nocallid": lambda events: without_keys("id")(whole_calls(events)),
        "finish_stop": finish_stop,
        "role in each": role_in_each,
        "usage in each": usage_in_each,
        "repeatid": repeated_ids,
        "nothing but the delta": lambda events: without_keys("id", "created", "model", "object", "usage")(events[:-1]),
    },
    "openai_responses": {
        "nocreated": without("response.created", "response.in_progress"),
        "noadded": without("response.output_item.added", "response.content_part.added"),
        "nodeltas": without("response.output_text.delta", "response.function_call_arguments.delta"),
        "noitemdone": without("response.output_item.done"),
        "nodone": without("response.output_text.done", "response.function_call_arguments.done"),
        "completed_empty": empty_completed,
        "noitemid": without_keys("item_id"),
        "minimal_resp": minimal_responses,
        "nousage": without_keys("usage"),
        "noseq": without_keys("sequence_number"),
        "nostatus": without_keys("status"),
    },
    "anthropic": {
        "nousage": without_keys("usage"),
        "nodeltausage": lambda events: [*events[:-2], without_keys("usage")(events[-2:-1])[0], events[-1]],
        "nomsgstop": without("message_stop"),
        "inputatstart": input_at_start,
        "noinput": without_keys("input"),
        "stop_end_turn": end_turn,
        "nothing but the kind": without_keys("id", "model", "stop_sequence"),
    },
    "gemini": {
        "norole": without_keys("role"),
        "noindex": without_keys("index"),
        "nousage": without_keys("usageMetadata"),
        "noids": without_keys("id", "responseId"),
        "minimal_resp": without_keys("usageMetadata", "modelVersion", "responseId", "index", "role", "id"),
        "emptylast": text_apart,
        "nocontent": without_last_content,
    },
    "ollama": {
        "norole": without_keys("role"),
        "nousage": without_keys("prompt_eval_count", "eval_count"),
        "noids": without_keys("id"),
        "minimal_resp": without_keys("model", "created_at", "prompt_eval_count", "eval_count", "role", "id"),
        "noreason": without_keys("done_reason"),
        "nodone": lambda events: [*without_keys("done")(events[:-1]), events[-1]],
    },
}
ROWS = [(upstream, fault) for upstream, faults in OMISSIONS.items() for fault in faults]
EACH = [(client, upstream, fault) for client in DIALECTS for upstream, fault in ROWS if client != upstream]


def expected(turn: Turn) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in turn.calls]


def check(scene: Stage, client: str, upstream: str, turn: Turn) -> None:
    answer = scene.ask(client, upstream, stream=True)
    assert answer.status == 200, answer.body
    assert answer.complete
    assert needs(client, answer.body) == expected(turn), answer.body
    assert turn.text.encode() in answer.body
    assert lint(client, [answer.body]) == []


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize(("client", "upstream"), FOREIGN)
def test_everything_that_clients_need_is_there(scene: Stage, client: str, upstream: str, turn: str) -> None:
    scene.play(upstream, TURNS[turn])
    check(scene, client, upstream, TURNS[turn])


@pytest.mark.parametrize(("client", "upstream", "fault"), EACH)
def test_what_the_upstream_leaves_out_is_there_all_the_same(
    scene: Stage, client: str, upstream: str, fault: str
) -> None:
    for turn in TURNS.values():
        events = OMISSIONS[upstream][fault](events_of(upstream, turn))
        scene.steps(streamed=stream(*frames_of(upstream, events)))
        check(scene, client, upstream, turn)


# The same events on the wire, written in other ways than the usual.

Write = Callable[[list[bytes]], list[bytes]]
STREAMED = {"content-type": "text/event-stream", "transfer-encoding": "chunked", "connection": "close"}

WRITINGS: dict[str, Write] = {
    "crlf": lambda frames: [frame.replace(b"\n", b"\r\n") for frame in frames],
    "nospace": lambda frames: [frame.replace(b"data: ", b"data:").replace(b"event: ", b"event:") for frame in frames],
    "comments": lambda frames: [b": keepalive\n\n" + frame for frame in frames],
    "blank lines": lambda frames: [b"\n\n" + frame for frame in frames],
    "other fields": lambda frames: [b"id: 1\nretry: 3\n" + frame for frame in frames],
    "onechunk": lambda frames: [b"".join(frames)],
    "noevent": lambda frames: [frame[frame.index(b"data: ") :] for frame in frames],
    "no last blank line": lambda frames: [*frames[:-1], frames[-1].rstrip(b"\n")],
}


OF_EVENTS = {"nospace", "comments", "other fields", "noevent"}
"""The writings that lines of JSON cannot have."""


@pytest.mark.parametrize(
    ("client", "upstream", "writing"),
    [(*pair, writing) for pair in FOREIGN for writing in WRITINGS if pair[1] != "ollama" or writing not in OF_EVENTS],
)
def test_however_the_upstream_writes_its_events_the_client_gets_them_in_the_one_right_way(
    scene: Stage, client: str, upstream: str, writing: str
) -> None:
    scene.steps(streamed=stream(*WRITINGS[writing](frames_of(upstream, events_of(upstream, CALLS)))))
    check(scene, client, upstream, CALLS)


@pytest.mark.parametrize(("client", "upstream"), FOREIGN)
def test_bytes_that_come_in_splinters_say_the_same(scene: Stage, client: str, upstream: str) -> None:
    data = b"".join(frames_of(upstream, events_of(upstream, CALLS)))
    pieces = [chunk(data[start : start + 7]) for start in range(0, len(data), 7)]
    scene.steps(streamed=send(head(200, STREAMED), *pieces, b"0\r\n\r\n"))
    check(scene, client, upstream, CALLS)


@pytest.mark.parametrize(("client", "upstream"), FOREIGN)
def test_a_whole_answer_where_a_stream_was_asked_for_is_streamed(scene: Stage, client: str, upstream: str) -> None:
    """Some servers ignore `stream` when tools are in the request."""
    scene.steps(streamed=reply(whole_of(upstream, CALLS)))
    check(scene, client, upstream, CALLS)


def test_anthropics_pings_and_unheard_of_events_disturb_nobody(scene: Stage) -> None:
    events = [event for each in events_of("anthropic", CALLS) for event in (each, {"type": "ping"}, {"type": "news"})]
    for client in ("openai_chat", "openai_responses", "gemini"):
        scene.steps(streamed=stream(*frames_of("anthropic", events[:-2])))
        check(scene, client, "anthropic", CALLS)


# Streams that do not say that they are over.

UNSAID: dict[tuple[str, str], Leave] = {
    ("openai_chat", "nofinish"): lambda events: [
        {**event, "choices": [{**choice, "finish_reason": None} for choice in event["choices"]]} for event in events
    ],
    ("anthropic", "nomsgdelta"): without("message_delta"),
    ("anthropic", "noblockstop"): without("content_block_stop"),
    ("anthropic", "nomsgstart"): without("message_start"),
}
"""The end is there, but not all that belongs to it: the client gets the rest from us."""

ENDLESS: dict[str, Leave] = {
    "openai_chat": lambda events: events[:-2],
    "openai_responses": without("response.completed"),
    "anthropic": without("message_delta", "message_stop"),
    "gemini": without_keys("finishReason"),
    "ollama": lambda events: events[:-1],
}
"""No end at all: the model was cut off, and nothing may look as if it was not."""


@pytest.mark.parametrize(
    ("client", "upstream", "fault"),
    [(client, *row) for client in DIALECTS for row in UNSAID if client != row[0]],
)
def test_an_end_that_says_too_little_says_enough_to_the_client(
    scene: Stage, client: str, upstream: str, fault: str
) -> None:
    for turn in TURNS.values():
        events = UNSAID[upstream, fault](events_of(upstream, turn))
        scene.steps(streamed=stream(*frames_of(upstream, events)))
        check(scene, client, upstream, turn)


@pytest.mark.parametrize("turn", ["calls", "text"])
@pytest.mark.parametrize("upstream", ENDLESS)
@pytest.mark.parametrize("client", DIALECTS)
def test_a_stream_without_an_end_is_told_as_one_that_broke_off(
    scene: Stage, client: str, upstream: str, turn: str
) -> None:
    frames = frames_of(upstream, ENDLESS[upstream](events_of(upstream, TURNS[turn])))
    data = [frame for frame in frames if b"[DONE]" not in frame]
    scene.steps(streamed=stream(*data))
    answer = scene.ask(client, upstream, stream=True)
    assert answer.status == 200
    break_told(client, answer)
    assert b"[DONE]" not in answer.body
    assert b"message_stop" not in answer.body
    assert b"response.completed" not in answer.body
    assert b'"finishReason"' not in answer.body


# One dialect on both sides.


@pytest.mark.parametrize("turn", TURNS)
def test_a_chat_stream_never_ends_without_its_reason(scene: Stage, turn: str) -> None:
    """Without one opencode asks again for ever, and others fail: this and a last event are all that is ever added."""
    events = events_of("openai_chat", TURNS[turn])
    reason = next(event for event in events if event["choices"][0]["finish_reason"])
    frames = frames_of("openai_chat", [event for event in events if event is not reason])
    scene.steps(streamed=stream(*frames))
    answer = scene.ask("openai_chat", "openai_chat", stream=True)
    assert answer.body.startswith(b"".join(frames[:-1]))
    assert needs("openai_chat", answer.body) == expected(TURNS[turn])


@pytest.mark.parametrize("upstream", DIALECTS)
def test_between_two_of_one_dialect_what_is_there_goes_through_as_it_is(scene: Stage, upstream: str) -> None:
    for leave in OMISSIONS[upstream].values():
        frames = frames_of(upstream, leave(events_of(upstream, CALLS)))
        scene.steps(streamed=stream(*frames))
        answer = scene.ask(upstream, upstream, stream=True)
        ended = upstream != "anthropic" or b"event: message_stop" in frames[-1]
        assert answer.body == b"".join(frames) + (b"" if ended else ANTHROPIC.stream.last_event)


@pytest.fixture(scope="module")
def anew() -> Iterator[Stage]:
    """Upstreams whose answers are read and written anew, also for clients of the same dialect."""
    with stage(verbatim=False) as running:
        yield running


@pytest.mark.parametrize(("upstream", "fault"), [*ROWS, *UNSAID])
def test_an_upstream_that_leaves_things_out_can_be_written_anew(anew: Stage, upstream: str, fault: str) -> None:
    leave = OMISSIONS[upstream].get(fault) or UNSAID[upstream, fault]
    for turn in TURNS.values():
        anew.steps(streamed=stream(*frames_of(upstream, leave(events_of(upstream, turn)))))
        check(anew, upstream, upstream, turn)


# Whole answers.

WHOLE_OMISSIONS: dict[str, dict[str, Leave]] = {
    "openai_chat": {
        "nothing": lambda answers: answers,
        "nousage": without_keys("usage"),
        "noid": without_keys("id"),
        "nocreated, nomodel, noobject": without_keys("created", "model", "object"),
        "norole, noindex, notype": without_keys("role", "index", "type"),
    },
    "openai_responses": {
        "nothing": lambda answers: answers,
        "minimal_resp": lambda answers: [{key: answers[0][key] for key in ("id", "object", "status", "output")}],
        "nousage": without_keys("usage"),
    },
    "anthropic": {
        "nothing": lambda answers: answers,
        "nousage": without_keys("usage"),
        "nomodel, nosequence": without_keys("model", "stop_sequence"),
        "end_turn": lambda answers: [{**answers[0], "stop_reason": "end_turn"}],
    },
    "gemini": {
        "nothing": lambda answers: answers,
        "minimal_resp": without_keys("usageMetadata", "modelVersion", "responseId", "index", "role", "id"),
    },
    "ollama": {
        "nothing": lambda answers: answers,
        "minimal_resp": without_keys("model", "created_at", "prompt_eval_count", "eval_count", "role", "id"),
        "noreason": without_keys("done_reason"),
    },
}


@pytest.mark.parametrize(
    ("client", "upstream", "fault"),
    [
        (client, upstream, fault)
        for client in DIALECTS
        for upstream, faults in WHOLE_OMISSIONS.items()
        for fault in faults
        if client != upstream
    ],
)
def test_a_whole_answer_has_everything_that_clients_need(scene: Stage, client: str, upstream: str, fault: str) -> None:
    for turn in TURNS.values():
        (answer,) = WHOLE_OMISSIONS[upstream][fault]([whole_of(upstream, turn)])
        scene.steps(whole=reply(answer))
        told = scene.ask(client, upstream)
        assert told.status == 200, told.body
        assert whole_needs(client, told.json()) == expected(turn)
        assert turn.text in told.body.decode()
