"""Large requests, in the words of several clients, and a long answer of a Chat upstream."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from toolglot.translate import ExchangeCore

MEGABYTE = 1024 * 1024
WORDS = "The server reads a file, and writes what it has found to the end of another one. "
LONG, PACED = "large", "paced-d10"
"""Models: one answers at once, the other with ten milliseconds between its chunks."""


def asked(messages: list[dict[str, Any]], *, model: str = LONG, stream: bool = False, **more: Any) -> bytes:
    return json.dumps({"model": model, "max_tokens": 100, "stream": stream, "messages": messages, **more}).encode()


def said(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def history(turns: int) -> bytes:
    """Turns of an agent, ten kilobytes each: a call, its result, and what the model says of it."""
    messages = said("Find the error.")
    for number in range(turns):
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "read", "input": {"path": f"/src/{number}.py"}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": WORDS * 122}
        text = {"type": "text", "text": WORDS * 3}
        messages += [{"role": "assistant", "content": [text, call]}, {"role": "user", "content": [result]}]
    return asked(messages, tools=[tool(0)])


def tool(number: int) -> dict[str, Any]:
    properties = {f"field_{field}": {"type": "string", "description": WORDS} for field in range(8)}
    schema = {"type": "object", "properties": properties, "required": ["field_0"]}
    return {"name": f"read_{number}" if number else "read", "description": WORDS * 3, "input_schema": schema}


def tools(count: int) -> bytes:
    return asked(said("Find the error."), tools=[tool(number) for number in range(count)])


def arguments(kilobytes: int) -> bytes:
    """One call with a file of so many kilobytes in it."""
    given = {"path": "/src/file.py", "content": WORDS * (kilobytes * 1024 // len(WORDS))}
    call = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": given}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "written"}
    talk = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return asked([*said("Write the file."), *talk], tools=[tool(0)])


def images(megabytes: int) -> bytes:
    """Pictures of four megabytes, as base64."""
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0K" + "AbC/" * MEGABYTE}
    pictures: list[dict[str, Any]] = [{"type": "image", "source": source}] * (megabytes // 4)
    return asked([{"role": "user", "content": [*pictures, {"type": "text", "text": "What is this?"}]}])


def cut_off(megabytes: int) -> bytes:
    """The same without its end."""
    return images(megabytes)[:-9]


def document(megabytes: int) -> bytes:
    """One file of so many megabytes."""
    source = {
        "type": "base64",
        "media_type": "application/pdf",
        "data": "JVBERi0x" + "AbC/" * (megabytes * MEGABYTE // 4),
    }
    return asked([{"role": "user", "content": [{"type": "document", "source": source}, *text_block("What is this?")]}])


def text_block(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}]


def objects(messages: int) -> bytes:
    """Many short messages of several objects each, about a hundred bytes."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"a": 1, "b": [1, 2, 3]}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}
    turn = [
        {"role": "user", "content": text_block("Hello there")},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    return asked(turn * (messages // 3), tools=[tool(0)])


def stream(chunks: int) -> bytes:
    """The number of chunks stands in the model's name, which chooses the upstream."""
    return asked(said("Go on."), model=f"chunks-{chunks}", stream=True)


def large_event(megabytes: int) -> bytes:
    """Asks for a stream with one event of so many megabytes."""
    return asked(said("Go on."), model=f"event-{megabytes}", stream=True, tools=[tool(0)])


def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
    """An event of a Chat upstream's stream."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1763164800, "model": "model"}
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return f"data: {json.dumps({**head, 'choices': choices}, separators=(',', ':'))}\n\n"


def large_call(megabytes: int) -> Iterator[str]:
    """A stream with a call whose arguments come in one event."""
    function = {"name": "read", "arguments": json.dumps({"field_0": WORDS * (megabytes * MEGABYTE // len(WORDS))})}
    yield chunk({"role": "assistant", "content": "I will."})
    yield chunk({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]})
    yield chunk({}, "tool_calls")
    yield "data: [DONE]\n\n"


def long_answer(chunks: int) -> Iterator[str]:
    """The chunks of a Chat upstream's stream."""
    yield chunk({"role": "assistant", "content": ""})
    piece = chunk({"content": WORDS[:16]})
    for _ in range(chunks):
        yield piece
    yield chunk({}, "stop")
    yield "data: [DONE]\n\n"


class Asked(NamedTuple):
    path: str
    body: bytes


class Case(NamedTuple):
    """One kind of work. `half` and `whole` are two sizes of it, one twice the other."""

    name: str
    body: Callable[[int], bytes]
    half: int
    whole: int
    repeat: int = 1
    statuses: tuple[int, ...] = (200,)
    pause: float = 0.0
    """Seconds between pieces of a body that is sent slowly, with no length told."""
    client: str = "anthropic"

    def asked(self, size: int) -> Asked:
        """The request of this size, as its client sends it."""
        body = self.body(size)
        if self.client == "anthropic":
            return Asked("/v1/messages", body)
        exchange = ExchangeCore("anthropic", self.client)
        body = exchange.request(body)
        return Asked(exchange.path, body)


STREAMS = (50_000, 100_000)
EVENTS = (10, 20)
_CLIENTS = {"openai_responses": "Responses", "gemini": "Gemini"}
CASES = (
    Case("history of 200 turns, 2 MB", history, 100, 200, repeat=5),
    Case("500 tools, 0.7 MB", tools, 250, 500, repeat=5),
    Case("a call with 1 MB of arguments", arguments, 512, 1024, repeat=5),
    Case("stream of 100,000 chunks", stream, *STREAMS, repeat=5),
    Case("a call of 20 MB in one event", large_event, *EVENTS, repeat=3),
    Case("pictures, 28 MB", images, 12, 28),
    Case("one file, 30 MB", document, 15, 30),
    Case("80,000 short messages, 8 MB", objects, 40_000, 80_000),
    Case("pictures, 48 MB", images, 24, 48),
    Case("pictures, 48 MB, cut off: refused", cut_off, 24, 48, statuses=(400,)),
    Case("pictures, 72 MB: refused", images, 68, 72, statuses=(413,)),
    Case("history of 2 MB, sent slowly", history, 100, 200, repeat=3, pause=0.02),
    *(
        Case(f"{name}: {what}", make, half, whole, repeat=3, client=client)
        for client, name in _CLIENTS.items()
        for what, make, half, whole in (
            ("history of 200 turns", history, 100, 200),
            ("500 tools", tools, 250, 500),
            ("1 MB of arguments", arguments, 512, 1024),
            ("100,000 chunks", stream, *STREAMS),
            ("a call of 20 MB in one event", large_event, *EVENTS),
        )
    ),
)
