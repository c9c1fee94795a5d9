"""A program of a user of the library, as mypy sees it in strict mode. An unused `type: ignore` is an error, so each one
here states that type checkers reject its line."""

from __future__ import annotations

from typing import assert_type

import httpx
import httpx2

import toolglot
from toolglot import DialectName, Exchange, Loss, Note, Receipt, ReceiptLine, StreamTranslation
from toolglot.ir import Request, Response, Stop, Usage
from toolglot.textcalls import CallCut, CallStart, TextPart, parser

CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 10, "seed": 7}
ANSWER = b'{"id": "c", "model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}}]}'
FRAME = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}


def translate(target: DialectName) -> list[str]:
    """Translate one request, and list what it lost."""
    translated = toolglot.translate_request(CHAT, "openai_chat", target)
    assert_type(translated.receipt.losses, tuple[Loss, ...])
    assert_type(translated.receipt.notes, tuple[Note, ...])
    assert_type(list(translated.receipt), list[ReceiptLine])
    return [loss.where for loss in translated.receipt.losses]


def exchange_one() -> bytes:
    """Translate a request and its answer."""
    exchange = Exchange("anthropic", "openai_chat", model="gpt-4.1")
    exchange.request({**CHAT, "max_tokens": 9})
    assert_type(exchange.asked, Request | None)
    answer = exchange.response(ANSWER)
    assert_type(exchange.answered, Response | None)
    assert_type(exchange.receipt, Receipt)
    assert_type(exchange.stream(), StreamTranslation)
    exchange.rewrite  # type: ignore[attr-defined]  # noqa: B018 - it works, and is not part of the interface
    return answer


def stream_one() -> tuple[Usage | None, Stop | None]:
    """Translate a stream of parsed events."""
    stream = toolglot.translate_stream([FRAME], "openai_chat", "anthropic")
    for chunk in stream:
        assert_type(chunk, bytes)
    return stream.usage, stream.stop


def make_clients(transport: toolglot.httpx_transport) -> tuple[httpx.Client, httpx2.Client]:
    """Clients of both HTTP libraries with one transport."""
    httpx.AsyncClient(transport=transport)
    httpx2.AsyncClient(transport=transport)
    return httpx.Client(transport=transport), httpx2.Client(transport=transport)


def read_calls(text: str) -> list[str]:
    """Find the calls in a text, with those that were cut."""
    reader, found = parser("hermes_json", [{"name": "weather"}]), list[str]()
    for event in [*reader.feed(text), *reader.finish()]:
        match event:
            case CallStart(name=name):
                assert_type(name, str)
                found.append(name)
            case CallCut(call=call):
                assert_type(call, int)
                found.append(f"cut {call}")
            case TextPart(text=said):
                assert_type(said, str)
    return found


def refuse() -> None:
    """What type checkers reject."""
    toolglot.translate_request(7, "openai_chat", "gemini")  # type: ignore[arg-type]
    toolglot.translate_request(CHAT, 7, "gemini")  # type: ignore[arg-type]
    translate("morse")  # type: ignore[arg-type]
