"""Whole answers, each with what a client must make of it: the text, the reasoning, the calls, and how it ends.

An answer that ends in an error has its kind in `error`, as `toolglot.errors.ApiError` names kinds, and `end` is None.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.warp_server import frames, story
from tests.warp_server.messages import Tree


class Called(NamedTuple):
    id: str
    name: str
    arguments: Any


class Script(NamedTuple):
    body: bytes
    text: str = ""
    thinking: str = ""
    calls: tuple[Called, ...] = ()
    end: str | None = "end"
    error: str | None = None


def _script(*events: Tree, writing: frames.Writing = frames.padded, **expected: Any) -> Script:
    return Script(frames.stream([*story.opening(), *events], writing), **expected)


def _failed(reason: str, kind: str, **more: Any) -> Script:
    return _script(story.finished(reason, usage=(), **more), end=None, error=kind)


SPOKEN = story.spoken("Let me ", "check", ".")
CITY = Called("call-a", "get_weather", {"city": "Paris"})
RICH: dict[str, Any] = {
    "count": 5,
    "ratio": 2.5,
    "whole": 3.0,
    "big": 2**53,
    "below": -7,
    "none": None,
    "yes": True,
    "text": 'Zürich ☂ "x"\n',
    "nested": {"list": [1, 2.5, {"deep": []}, "5"], "empty": {}},
    "": "a key of nothing",
}


def _calls(*calls: Called) -> list[Tree]:
    return [
        story.add(story.called(number, call.id, call.name, call.arguments, server_message_data=story.OPAQUE))
        for number, call in enumerate(calls, start=10)
    ]


THREE = (CITY, Called("call-b", "get_time", {"tz": "CET"}), Called("call-c", "get_weather", {"city": "Rom"}))

CALLS = {
    "one call": _script(
        *SPOKEN, *_calls(CITY), story.finished(), text="Let me check.", calls=(CITY,), end="tool_calls"
    ),
    "three parallel calls": _script(*_calls(*THREE), story.finished(), calls=THREE, end="tool_calls"),
    "three parallel calls in one action": _script(
        story.add(*(story.called(number, *call) for number, call in enumerate(THREE, start=10))),
        story.finished(),
        calls=THREE,
        end="tool_calls",
    ),
    "numbers of every kind, and nested": _script(
        *_calls(Called("call-a", "count", RICH)),
        story.finished(),
        calls=(Called("call-a", "count", RICH),),
        end="tool_calls",
    ),
    "empty arguments": _script(
        *_calls(Called("call-a", "refresh", {})),
        story.finished(),
        calls=(Called("call-a", "refresh", {}),),
        end="tool_calls",
    ),
    "no arguments at all": _script(
        story.add(story.called(10, "call-a", "refresh")),
        story.finished(),
        calls=(Called("call-a", "refresh", {}),),
        end="tool_calls",
    ),
    "a call that comes by update": _script(
        story.update(story.called(10, *CITY), "tool_call"), story.finished(), calls=(CITY,), end="tool_calls"
    ),
}

_FIRST = story.said(3, "Let me check.")
CHANGES = {
    "text": _script(*SPOKEN, story.finished(), text="Let me check."),
    "text without a reason to end": _script(*SPOKEN, story.finished(None), text="Let me check."),
    "an update that says the text once more": _script(
        *SPOKEN, story.update(_FIRST, "agent_output.text"), story.finished(), text="Let me check."
    ),
    "an update that says more": _script(
        story.add(story.said(3, "Let me")),
        story.update(_FIRST, "agent_output.text"),
        story.finished(),
        text="Let me check.",
    ),
    "an update that adds the message": _script(
        story.update(_FIRST, "agent_output.text"), story.finished(), text="Let me check."
    ),
    "an update of a field that nobody knows": _script(
        *SPOKEN, story.update({"id": "m-3"}, "novel.field"), story.finished(), text="Let me check."
    ),
    "an update of opaque data": _script(
        *SPOKEN,
        story.update({"id": "m-3", "server_message_data": story.OPAQUE}, "server_message_data"),
        story.finished(),
        text="Let me check.",
    ),
    "a transaction": _script(story.begin(), *SPOKEN, story.commit(), story.finished(), text="Let me check."),
    "a transaction that is rolled back": _script(
        story.begin(),
        *story.spoken("Never ", "mind", number="x"),
        story.rollback(),
        *SPOKEN,
        story.finished(),
        text="Let me check.",
    ),
    "a call that is rolled back": _script(
        story.begin(), *_calls(CITY), story.rollback(), *SPOKEN, story.finished(), text="Let me check."
    ),
}

KINDS = {
    "reasoning": _script(
        *story.reasoned("Two places, ", "two tools."),
        story.update(
            {"id": "m-r", "agent_reasoning": {"finished_duration": {"seconds": 2}}}, "agent_reasoning.finished_duration"
        ),
        *SPOKEN,
        story.finished(),
        text="Let me check.",
        thinking="Two places, two tools.",
    ),
    "a subtask": _script(
        story.create_task("task-sub", story.ROOT),
        *story.spoken("Only ", "inside", number="s", task="task-sub"),
        *SPOKEN,
        story.finished(),
        text="Let me check.",
    ),
    "a call inside a subtask": _script(
        story.create_task("task-sub", story.ROOT, story.called("s", "call-s", "get_weather", {"city": "Bern"})),
        *SPOKEN,
        story.finished(),
        text="Let me check.",
    ),
    "a tool of the server's own": _script(
        *SPOKEN,
        story.add(story.message(9, "tool_call", {"tool_call_id": "srv-9", "server": {"payload": "CAE="}})),
        story.add(
            story.message("9b", "tool_call_result", {"tool_call_id": "srv-9", "server": {"serialized_result": "b2s="}})
        ),
        story.finished(),
        text="Let me check.",
    ),
    "a built-in tool that nobody declared": _script(
        *SPOKEN,
        story.add(story.message(9, "tool_call", {"tool_call_id": "b-9", "grep": {"queries": ["x"], "path": "."}})),
        story.finished(),
        text="Let me check.",
    ),
    "todos, searches and the model's name": _script(
        story.add(
            story.message("a", "update_todos", {"create_todo_list": {"initial_todos": [{"id": "1", "title": "A"}]}})
        ),
        story.add(story.message("b", "web_search", {"status": {"searching": {"query": "x"}}})),
        story.add(story.message("c", "model_used", {"model_id": "auto", "model_display_name": "Auto"})),
        story.add(story.message("d", "debug_output", {"text": "never shown"})),
        story.add({"id": "m-e"}),
        *SPOKEN,
        story.finished(),
        text="Let me check.",
    ),
    "descriptions, summaries and server data": _script(
        *SPOKEN,
        story.actions(
            {"update_task_description": {"task_id": story.ROOT, "description": "Weather"}},
            {"update_task_summary": {"task_id": story.ROOT, "summary": "They asked."}},
            {"update_task_server_data": {"task_id": story.ROOT, "server_data": "b3BhcXVl"}},
        ),
        story.finished(),
        text="Let me check.",
    ),
    "fields that nobody knows": _script(
        {**story.add(story.said(3, "Let me check.", x_new={"a": 1})), "experimental": [1]},
        {**story.finished(), "x_new": "late"},
        text="Let me check.",
    ),
    "an action that nobody knows": _script(
        *SPOKEN, story.actions({"#77": [[2, "CgNhYmM="]]}), story.finished(), text="Let me check."
    ),
    "an event that nobody knows": _script(*SPOKEN, {"#9": [[0, 1]]}, story.finished(), text="Let me check."),
    "a message kind that nobody knows": _script(
        story.add({"id": "m-n", "#99": [[2, "CgNhYmM="]]}), *SPOKEN, story.finished(), text="Let me check."
    ),
}

_WHOLE = frames.stream([*story.opening(), *SPOKEN, story.finished()])
_CUT = frames.stream([*story.opening(), *SPOKEN])
FAILURES = {
    "the quota is used up": _failed("quota_limit", "billing"),
    "the context window is full": _failed("context_window_exceeded", "bad_request"),
    "no model can be reached": _failed("llm_unavailable", "overloaded"),
    "the server failed": _failed("internal_error", "server", why={"message": "boom"}),
    "the server failed after some text": _script(
        *SPOKEN, story.finished("internal_error", why={"message": "boom"}), end=None, error="server"
    ),
    "something else": _failed("other", "server"),
    "a key that is not valid": _failed("invalid_api_key", "authentication", why={"provider": 1, "model_name": "m"}),
    "too many tokens and no text": _failed("max_token_limit", "bad_request"),
    "an end without finish": Script(_CUT, end=None, error="server"),
    "an end inside a frame": Script(_WHOLE[:-40], end=None, error="server"),
    "base64 that is none": Script(_CUT + b"event:data\ndata:!!!\n\n", end=None, error="server"),
    "a frame that is no event": Script(_CUT + frames.frame_of(b"\x0a\xff"), end=None, error="server"),
    "nothing at all": Script(b"", end=None, error="server"),
}


def _in_two_lines(frame: bytes) -> bytes:
    head, mark, payload = frame.rpartition(b"data:")
    return head + mark + payload[:6] + b"\n" + mark + payload[6:]


LIMITS = {
    "too many tokens after some text": _script(
        *SPOKEN, story.finished("max_token_limit"), text="Let me check.", end="length"
    ),
}

WRITINGS = {
    f"base64 that is {writing.__name__}": _script(*SPOKEN, story.finished(), writing=writing, text="Let me check.")
    for writing in frames.WRITINGS
} | {
    "data in two lines": Script(_CUT + _in_two_lines(frames.frame(story.finished())), text="Let me check."),
}

SCRIPTS: dict[str, Script] = {**CALLS, **CHANGES, **KINDS, **FAILURES, **LIMITS, **WRITINGS}
"""Every answer by what is special about it."""


class Refused(NamedTuple):
    """An answer that is no stream."""

    status: int
    headers: dict[str, str]
    body: bytes
    error: str


REFUSALS = {
    "out of credits": Refused(
        429,
        {"x-warp-error-code": "OUT_OF_CREDITS", "content-type": "application/json"},
        b'{"error":"quota","userDisplayMessage":"No credits are left."}',
        "billing",
    ),
    "overloaded": Refused(429, {"content-type": "text/plain"}, b"slow down", "rate_limit"),
    "not authorized": Refused(
        401, {"content-type": "application/json"}, b'{"error":"invalid token"}', "authentication"
    ),
    "internal error": Refused(500, {"content-type": "application/json"}, b'{"error":"boom"}', "server"),
    "a gateway's page": Refused(502, {"content-type": "text/html"}, b"<html>Bad Gateway</html>", "server"),
}

ODD_FIELDS: Tree = {"#4001": [[0, 7]], "#4002": [[2, "AP8="]], "#27": [[2, ""]], "#4003": [[5, "AAAAPw=="]]}
"""Fields with numbers that no table has."""
