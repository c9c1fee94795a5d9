"""A text model in tests: requests as clients write them, answers as upstreams stream them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.exchanges import check, folded, read_events, through, write_events
from toolglot.dialects import DIALECTS
from toolglot.events import Close, Delta, Event, Finish, Open, Start
from toolglot.ir import Message, Request, Response, Stop, StopReason, Text, Tool, ToolCall, ToolResult, Usage
from toolglot.receipt import Receipt
from toolglot.textcalls.settings import BadCalls, TextCalls
from toolglot.translate import ExchangeCore

MODEL = "some-model"
WEATHER = Tool(
    name="get_weather",
    description="The weather in a city.",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    },
)
CLOCK = Tool(name="get_time", description="The time.", parameters={"type": "object", "properties": {}})
TOOLS = (WEATHER, CLOCK)
USAGE = Usage(input_tokens=30, output_tokens=12)
SEVERAL = ("hermes_json", "anthropic_xml", "cline_xml", "deepchat", "mistral_args", "kimi_k2", "pythonic", "glm45")
"""Formats that differ in everything: JSON and tags, with ids and without, with sections and without."""


def user(text: str) -> Message:
    return Message(role="user", content=(Text(text=text),))


def assistant(*content: Text | ToolCall) -> Message:
    return Message(role="assistant", content=content)


def call(call_id: str, name: str, arguments: str = "{}") -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments)


def result(call_id: str, name: str, text: str, *, is_error: bool | None = None) -> ToolResult:
    return ToolResult(call_id=call_id, name=name, content=(Text(text=text),), is_error=is_error)


def asking(*messages: Message, tools: Sequence[Tool] = TOOLS, stream: bool = True) -> Request:
    return Request(model=MODEL, messages=messages, tools=tuple(tools), stream=stream, max_output_tokens=500)


def exchange_of(client: str, upstream: str, format_name: str, *, bad_calls: BadCalls = "pass") -> ExchangeCore:
    return ExchangeCore(client, upstream, text_calls=TextCalls(format=format_name, bad_calls=bad_calls))


def ask(exchange: ExchangeCore, request: Request) -> bytes:
    """The upstream's request for what a client of the exchange's dialect writes."""
    written = exchange.client.encode_request(request, Receipt())
    return exchange.request(written, model=request.model, stream=request.stream)


def events_of(text: str, reason: StopReason = "end", pieces: int = 1) -> list[Event]:
    """What an upstream says that knows nothing but text."""
    deltas = [Delta(0, text[start : start + pieces]) for start in range(0, len(text), pieces)]
    start, opened = Start(id="r1", model=MODEL), Open(0, Text(text=""))
    return [start, opened, *deltas, Close(index=0), Finish(stop=Stop(reason), usage=USAGE)]


def stream_of(upstream: str, text: str, reason: StopReason = "end", pieces: int = 1) -> bytes:
    return write_events(upstream, events_of(text, reason, pieces))


def document_of(upstream: str, text: str, reason: StopReason = "end") -> bytes:
    whole = Response(id="r1", model=MODEL, content=(Text(text=text),), stop=Stop(reason), usage=USAGE)
    return DIALECTS[upstream].encode_response(whole, None, Receipt())


def heard(exchange: ExchangeCore, chunks: Iterable[bytes]) -> list[Event]:
    """The events that a client reads out of its own bytes."""
    events = read_events(exchange.client.name, [through(exchange, chunks)])
    check(events)
    return events


def answered(exchange: ExchangeCore, chunks: Iterable[bytes]) -> Response:
    return folded(heard(exchange, chunks))
