"""Shorthands of the tests: whole streams through decoders, encoders and exchanges."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

from tests.forms import forwards, is_json
from toolglot.dialects import DIALECTS
from toolglot.errors import ApiError
from toolglot.events import Checker, Event, Fault, Fold
from toolglot.ir import Block, Message, Refusal, Request, Response, Text, Thinking, ToolCall
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore
from toolglot.wire import json

NAMES = tuple(DIALECTS)
JSON_NAMES = tuple(name for name in NAMES if is_json(name))
"""The dialects whose bodies are JSON."""
FORWARDING = tuple(name for name in NAMES if forwards(name))
"""The dialects whose bytes go through as they are where both sides speak them."""
PAIRS = tuple(product(NAMES, NAMES))
"""Every ordered pair of client and upstream, same-dialect pairs included."""
JSON_PAIRS = tuple(product(JSON_NAMES, JSON_NAMES))
FOREIGN_PAIRS = tuple((client, upstream) for client, upstream in PAIRS if client != upstream)


def read_events(dialect: str, chunks: Iterable[bytes], receipt: Receipt | None = None) -> list[Event]:
    decoder = DIALECTS[dialect].stream_decoder(receipt if receipt is not None else Receipt())
    events: list[Event] = []
    for chunk in chunks:
        events += decoder.feed(chunk)
    return events + decoder.close()


def write_events(dialect: str, events: Iterable[Event], request: Request | None = None) -> bytes:
    encoder = DIALECTS[dialect].stream_encoder(request, Receipt())
    return b"".join([encoder.feed(event) for event in events])


def through(exchange: ExchangeCore, chunks: Iterable[bytes]) -> bytes:
    translation = exchange.stream()
    return b"".join([translation.feed(chunk) for chunk in chunks]) + translation.close()


def relay(client: str, upstream: str, chunks: Iterable[bytes]) -> bytes:
    """An upstream's stream as a client that has not said anything special gets it."""
    return through(ExchangeCore(client, upstream), chunks)


def check(events: Iterable[Event], *, sequential: bool = False) -> None:
    checker = Checker(sequential=sequential)
    for event in events:
        checker.add(event)
    checker.close()


def folded(events: Iterable[Event]) -> Response:
    accumulator = Fold()
    for event in events:
        accumulator.add(event)
    return accumulator.response()


def written(dialect: str, text: str, **fields: Any) -> dict[str, Any]:
    """The body of a request that says this, without model and stream; `fields` are those of `Request`."""
    said = Message(role="user", content=(Text(text=text),))
    asked = Request(**{"model": "", "messages": (said,), "max_output_tokens": 100, **fields})
    document: dict[str, Any] = json.decode(DIALECTS[dialect].encode_request(asked, Receipt()))
    return {name: value for name, value in document.items() if name not in ("model", "stream")}


def error_frames(dialect: str, message: str) -> bytes:
    """How a stream of this dialect says that the server failed."""
    return write_events(dialect, [Fault(ApiError(kind="server", message=message))])


def calls_of(content: Iterable[Block]) -> list[ToolCall]:
    return [block for block in content if isinstance(block, ToolCall)]


def meaning(arguments: str) -> Any:
    """What arguments say, whatever whitespace they came with; text that is no JSON says itself."""
    raw = json.object_of(arguments)
    return arguments if raw is None else json.decode_frame(bytes(raw))


def spoken(content: Iterable[Block]) -> dict[str, Any]:
    """What a response says, however its wire has split and ordered it."""
    blocks = list(content)
    return {
        "thinking": "".join(block.text for block in blocks if isinstance(block, Thinking)),
        "text": "".join(block.text for block in blocks if isinstance(block, Text)),
        "refusal": "".join(block.text for block in blocks if isinstance(block, Refusal)),
        "calls": [(call.id, call.name, meaning(call.arguments)) for call in calls_of(blocks)],
    }
