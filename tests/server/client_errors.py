"""What a client was told, read off its own wire: errors of every dialect, and whether a stream ended well."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from tests.lint.streams import SOUND
from tests.server.gateway import Answer
from tests.warp_server import frames as warp_frames
from tests.warp_server import story
from toolglot.dialects import DIALECTS
from toolglot.lint import lint


class Told(NamedTuple):
    """An error: its type in the dialect's own words, the code that says what happened, the text."""

    type: str
    code: str | None
    message: str


_TYPES = {
    "bad_request": ("invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT"),
    "rate_limit": ("rate_limit_error", "rate_limit_error", "RESOURCE_EXHAUSTED"),
    "server": ("server_error", "api_error", "INTERNAL"),
    "gateway": ("server_error", "api_error", "UNAVAILABLE"),
    "overloaded": ("server_error", "overloaded_error", "UNAVAILABLE"),
    "timeout": ("server_error", "timeout_error", "DEADLINE_EXCEEDED"),
}
"""By kind of error: what OpenAI, Anthropic and Google call it. `gateway`: the upstream cannot be had."""

_COLUMN = {"openai_chat": 0, "openai_responses": 0, "anthropic": 1, "gemini": 2}
"""Where a dialect has no column, its errors have no types."""

_GATEWAY_STATUS = {"gemini": 503}
"""Google's APIs have no 502."""

_GOOD_ENDS: dict[str, tuple[bytes, ...]] = {
    "openai_chat": (b"[DONE]", b'"finish_reason":"'),
    "openai_responses": (b"response.completed", b"response.incomplete"),
    "anthropic": (b"message_stop", b'"stop_reason":"'),
    "gemini": (b"finishReason",),
    "ollama": (b'"done":true',),
}
"""What a client takes for the end of a good answer. None of it may stand in a stream that was cut. Of dialects without
a row the lint knows."""

_CUTS = {
    "openai_chat": b'"arguments":"{\\"a\\":"',
    "openai_responses": b'"type":"response.function_call_arguments.delta"',
    "anthropic": b'"partial_json":"{\\"a\\":"',
    "gemini": b'"text":"Hello"',  # a call comes whole or not at all
    "warp": warp_frames.frame(story.append({"id": "m-3", "agent_output": {"text": "lo"}}, "agent_output.text")).strip(),
}


def type_of(client: str, kind: str) -> str:
    """What a client's dialect calls this kind of error."""
    return _TYPES[kind][_COLUMN[client]] if client in _COLUMN else ""


def gateway_status(client: str) -> int:
    """The status of an upstream that fails, in the numbers that the client's dialect has."""
    return _GATEWAY_STATUS.get(client, 502)


def mid_call(upstream: str) -> bytes:
    """The beginning of a sound stream: it ends between two frames, inside a tool call where the dialect streams one."""
    sound, end = SOUND[upstream], DIALECTS[upstream].stream.framing.end
    return sound[: sound.index(end, sound.index(_CUTS.get(upstream, b'lo"'))) + len(end)]


def frames(body: bytes) -> list[Any]:
    """The documents of a stream, whether they are the data of events or lines."""
    if body.startswith(b"{"):
        return [json.loads(line) for line in body.splitlines()]
    lines = [line[5:].strip() for line in body.split(b"\n") if line.startswith(b"data:")]
    return [json.loads(line) for line in lines if line != b"[DONE]"]


def error_told(client: str, answer: Answer) -> Told:
    """The error that is the whole answer."""
    assert answer.complete
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.headers["x-request-id"].startswith("req_")
    document = answer.json()
    if client == "anthropic":
        assert document["type"] == "error"
        assert document["request_id"] == answer.headers["request-id"]
    if client == "gemini":
        assert document["error"]["code"] == answer.status
    return _told(client, document)


def fault_told(client: str, answer: Answer) -> Told:
    """The error in which a stream ends: well framed, once, at the very end, and nothing that looks like a good end."""
    assert (answer.status, answer.complete) == (200, True)
    assert answer.headers["content-type"].startswith(DIALECTS[client].stream.framing.media_type)
    assert lint(client, [answer.body]) == []
    assert [sign for sign in _GOOD_ENDS.get(client, ()) if sign in answer.body] == []
    events = frames(answer.body)
    assert [_is_error(client, event) for event in events] == [False] * (len(events) - 1) + [True]
    return _told(client, events[-1])


def break_told(client: str, answer: Answer) -> None:
    """How a client is told that its upstream broke off: by a cut connection, or by its dialect's error."""
    if DIALECTS[client].stream.broken == "error":
        assert fault_told(client, answer).code in (
            "upstream_reset",
            "upstream_truncated",
            "upstream_timeout",
            "server_error",
        )
        return
    assert (answer.status, answer.complete) == (200, False)
    assert [sign for sign in _GOOD_ENDS.get(client, ()) if sign in answer.body] == []
    assert not any(_is_error(client, event) for event in frames(answer.body))
    assert answer.body.endswith(DIALECTS[client].stream.framing.end)  # whole events


def good_end(client: str, answer: Answer) -> None:
    """The stream is whole: sound, and it ends once."""
    assert (answer.status, answer.complete) == (200, True)
    assert lint(client, [answer.body]) == []
    assert [sign for sign in _GOOD_ENDS.get(client, ()) if answer.body.count(sign) != _ENDS_NAMED.get(sign, 1)] == []


_ENDS_NAMED = {b"message_stop": 2, b"response.completed": 2, b"response.incomplete": 0}
"""How often a sign stands in one good end, where that is not once: in the event's name and in its data."""


def _is_error(client: str, event: Any) -> bool:
    if client == "openai_responses":
        return bool(event["type"] in ("response.failed", "error"))
    return bool("error" in event and (client != "anthropic" or event["type"] == "error"))


def _told(client: str, document: Any) -> Told:
    if document.get("type") == "response.failed":
        assert document["response"]["status"] == "failed"
        error = document["response"]["error"]
        return Told("", error["code"], error["message"])
    if client not in _COLUMN:
        told = DIALECTS[client].decode_error(500, {}, json.dumps(document).encode())
        return Told("", told.code, told.message)
    error = document if client == "openai_responses" and "code" in document else document["error"]
    if client == "gemini":
        reasons = [detail["reason"] for detail in error.get("details", ()) if "reason" in detail]
        return Told(error["status"], reasons[0] if reasons else None, error["message"])
    if client == "anthropic":
        return Told(error["type"], error.get("details", {}).get("error_code"), error["message"])
    assert {"message", "type", "param", "code"} <= set(error)
    return Told(error["type"], error["code"], error["message"])
