"""Conversations for the tests of Warp's dialect, and short ways through it."""

from __future__ import annotations

from typing import Any

from toolglot.dialects import DIALECTS
from toolglot.errors import ApiError
from toolglot.events import Checker, Event, Fault, Fold
from toolglot.ir import Message, Request, Response, Text, Tool, ToolCall, ToolResult
from toolglot.receipt import Receipt

WARP = DIALECTS["warp"]
WEATHER = Tool(
    name="get_weather",
    description="Weather",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string", "enum": ["", " Paris "], "default": ""}, "days": {"type": "integer"}},
        "required": ["city"],
    },
)


def system(text: str) -> Message:
    return Message(role="system", content=(Text(text=text),))


def user(text: str, *more: Any) -> Message:
    return Message(role="user", content=(Text(text=text), *more))


def assistant(*content: Any) -> Message:
    return Message(role="assistant", content=content)


def call(call_id: str, arguments: str = "{}", name: str = "get_weather") -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments)


def result(call_id: str, *content: Any, **more: Any) -> Message:
    return Message(role="tool", content=(ToolResult(call_id=call_id, content=content, **more),))


def make_request(*messages: Message, **more: Any) -> Request:
    return Request(model="auto", messages=messages, tools=(WEATHER,), **more)


TWO_CALLS = make_request(
    system("Be brief."),
    user("How is it in Paris and in Rome?"),
    assistant(Text(text="Let me see."), call("call-1", '{"city":"Paris"}'), call("call-2", '{"city":"Rome"}')),
    result("call-1", Text(text="12 C")),
    result("call-2", Text(text="no such city"), is_error=True),
)
"""A conversation whose last turn brings the results of two calls."""


def encode_request(request: Request, receipt: Receipt | None = None) -> bytes:
    return WARP.encode_request(request, receipt if receipt is not None else Receipt())


def events_of(data: bytes, receipt: Receipt | None = None, size: int | None = None) -> list[Event]:
    """The events of a stream, which have to be grammatical; fed in pieces of this size."""
    decoder = WARP.stream_decoder(receipt if receipt is not None else Receipt())
    pieces = [data] if size is None else [data[at : at + size] for at in range(0, len(data), size)]
    events = [event for piece in pieces for event in decoder.feed(piece)]
    events += decoder.close()
    checker = Checker()
    for event in events:
        checker.add(event)
    checker.close()
    return events


def fold_events(events: list[Event]) -> Response:
    accumulator = Fold()
    for event in events:
        accumulator.add(event)
    return accumulator.response()


def fault_of(events: list[Event]) -> ApiError:
    last = events[-1]
    assert isinstance(last, Fault), last
    return last.error
