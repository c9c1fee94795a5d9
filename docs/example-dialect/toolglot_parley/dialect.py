"""Parley's requests, answers, streams and errors, both sides of each.

request   {"model", "turns": [{"by", "text", "calls", "of"}], "tools": [{"name", "about", "takes"}], "stream"}
answer    {"model", "text", "calls": [{"id", "name", "with"}], "why": "end" | "length" | "calls"}
stream    lines: {"text"}, {"call"}, and {"why"} or {"error"} as the last one
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from toolglot.capabilities import CallCapabilities, Capabilities, MediaCapabilities, ToolCapabilities
from toolglot.dialect import Dialect, Listing, RequestShape, StreamShape
from toolglot.errors import ApiError, DecodeError, HttpError, error_status, kind_of_status, truncated, unreadable
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start, closed
from toolglot.ir import Block, Message, Request, Response, Stop, StopReason, Text, Tool, ToolCall, ToolResult, replace
from toolglot.models import ModelInfo
from toolglot.receipt import Receipt, describe_block
from toolglot.wire.framing import LINES

REASONS: dict[str, StopReason] = {"end": "end", "length": "length", "calls": "tool_calls"}
WORDS = {reason: word for word, reason in REASONS.items()}


def read(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError as error:
        raise DecodeError("$", str(error)) from None
    if not isinstance(value, dict):
        raise DecodeError("$", "an object is expected")
    return value


def write(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


# Blocks


def decode_call(call: dict[str, Any]) -> ToolCall:
    return ToolCall(id=call.get("id", ""), name=call["name"], arguments=json.dumps(call.get("with", {})))


def decode_blocks(members: dict[str, Any]) -> tuple[Block, ...]:
    text = (Text(text=members["text"]),) if members.get("text") else ()
    return (*text, *map(decode_call, members.get("calls", ())))


def encode_blocks(content: Sequence[Block], where: str, receipt: Receipt) -> dict[str, Any]:
    """The members `text` and `calls`. Reports what Parley has no place for: nothing is dropped in silence."""
    texts, calls = [], []
    for index, block in enumerate(content):
        if isinstance(block, Text):
            texts.append(block.text)
        elif isinstance(block, ToolCall) and block.complete:
            calls.append({"id": block.id, "name": block.name, "with": json.loads(block.arguments or "{}")})
        else:
            receipt.loss(f"{where}content[{index}]", describe_block(block), "Parley has no place for it")
    return {"text": "".join(texts), **({"calls": calls} if calls else {})}


# Requests


def decode_request(data: bytes) -> Request:
    body = read(data)
    if not isinstance(body.get("turns"), list):
        raise DecodeError("$.turns", "an array is expected")
    tools = [
        Tool(name=one["name"], description=one.get("about"), parameters=one["takes"]) for one in body.get("tools", ())
    ]
    return Request(
        model=body.get("model", ""),
        messages=tuple(map(decode_turn, body["turns"])),
        tools=tuple(tools),
        stream=bool(body.get("stream")),
    )


def decode_turn(turn: dict[str, Any]) -> Message:
    if turn["by"] == "tool":
        return Message(role="tool", content=(ToolResult(call_id=turn["of"], content=decode_blocks(turn)),))
    return Message(role={"model": "assistant"}.get(turn["by"], turn["by"]), content=decode_blocks(turn))


def encode_request(request: Request, receipt: Receipt) -> bytes:
    turns = [
        turn for number, message in enumerate(request.messages) for turn in encode_message(message, number, receipt)
    ]
    tools = [
        {"name": tool.name, "about": tool.description or "", "takes": tool.parameters}
        for tool in request.tools
        if isinstance(tool, Tool)
    ]
    return write({"model": request.model, "turns": turns, "tools": tools, "stream": request.stream})


def encode_message(message: Message, number: int, receipt: Receipt) -> list[dict[str, Any]]:
    where = f"messages[{number}]."
    results = [block for block in message.content if isinstance(block, ToolResult)]
    turns = [{"by": "tool", "of": one.call_id, **encode_blocks(one.content, where, receipt)} for one in results]
    said = [block for block in message.content if not isinstance(block, ToolResult)]
    if said or not results:
        by = "model" if message.role == "assistant" else message.role
        turns.append({"by": by, **encode_blocks(said, where, receipt)})
    return turns


# Answers


def decode_response(data: bytes) -> Response:
    body = read(data)
    stop = Stop(REASONS.get(body.get("why", "end"), "other"), body.get("why"))
    return Response(model=body.get("model", ""), content=decode_blocks(body), stop=stop)


def encode_response(response: Response, request: Request | None, receipt: Receipt) -> bytes:
    said = encode_blocks(response.content, "", receipt)
    return write({"model": response.model, **said, "why": WORDS.get(response.stop.reason, "end")})


class Decoder:
    """A stream's bytes, cut anywhere, to events. It raises nothing: what cannot be read is a `Fault`."""

    settled = False

    def __init__(self, receipt: Receipt) -> None:
        self._held = b""
        self._next = 0
        self._in_text = self._started = self._ended = False

    def feed(self, data: bytes) -> list[Event]:
        *lines, self._held = (self._held + data).split(b"\n")
        return [event for line in lines for event in self._line(line)]

    def close(self) -> list[Event]:
        events = self._line(self._held)
        return events if self._ended else [*events, Fault(truncated())]

    def _line(self, line: bytes) -> list[Event]:
        if self._ended or not line.strip():
            return []
        try:
            body = read(line)
            events = self._events(body)
        except (DecodeError, KeyError, TypeError) as error:
            self._ended = True
            return [Fault(unreadable(DecodeError("$", str(error))))]
        start: list[Event] = [] if self._started else [Start()]
        self._started = True
        return [*start, *events]

    def _events(self, body: dict[str, Any]) -> list[Event]:
        if "error" in body:
            self._ended = True
            return [Fault(ApiError(kind="server", status=500, message=body["error"]))]
        if body.get("text"):
            opened: list[Event] = [] if self._in_text else [self._open(Text(text=""))]
            self._in_text = True
            return [*opened, Delta(self._next - 1, body["text"])]
        closed_text: list[Event] = [Close(index=self._next - 1)] if self._in_text else []
        self._in_text = False
        if "call" in body:
            call = decode_call(body["call"])
            opening = self._open(replace(call, arguments=""))
            return [*closed_text, opening, Delta(self._next - 1, call.arguments), Close(index=self._next - 1)]
        self._ended = True
        return [*closed_text, Finish(stop=Stop(REASONS.get(body["why"], "other"), body["why"]))]

    def _open(self, block: Block) -> Open:
        self._next += 1
        return Open(self._next - 1, block)


class Encoder:
    """Events to a client's bytes. One block is open at a time."""

    delta_template = None

    def __init__(self, request: Request | None, receipt: Receipt) -> None:
        self._receipt = receipt
        self._block: Block | None = None
        self._pieces: list[str] = []

    def keepalive(self) -> bytes:
        return b"\n"

    def feed(self, event: Event) -> bytes:
        match event:
            case Open(block=block):
                self._block, self._pieces = block, []
            case Delta(text=text) if isinstance(self._block, Text):
                return write({"text": text}) + b"\n"
            case Delta(text=text):
                self._pieces.append(text)
            case Close() if self._block is not None and not isinstance(self._block, Text):
                said = encode_blocks([closed(self._block, "".join(self._pieces), event)], "", self._receipt)
                return b"".join(write({"call": call}) + b"\n" for call in said.get("calls", ()))
            case Finish(stop=stop):
                return write({"why": WORDS.get(stop.reason, "end")}) + b"\n"
            case Fault(error=error):
                return write({"error": error.message}) + b"\n"
        return b""


# Errors and models


def decode_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    try:
        message = str(read(body).get("error", ""))
    except DecodeError:
        message = body.decode("utf-8", "replace")[:1000]
    return ApiError(kind=kind_of_status(status), status=status, message=message or f"status {status}")


def encode_error(error: ApiError) -> HttpError:
    return HttpError(error_status(error), {"content-type": "application/json"}, write({"error": error.message}))


LISTING = Listing(
    path="/parley/models",
    encode_models=lambda models, query: write({"models": [model.name for model in models]}),
    encode_model=lambda model: write({"model": model.name}),
    decode_models=lambda data: [ModelInfo(name=name) for name in read(data).get("models", ())],
)

PARLEY = Dialect(
    name="parley",
    title="Parley",
    decode_request=decode_request,
    encode_request=encode_request,
    decode_response=decode_response,
    encode_response=encode_response,
    stream_decoder=Decoder,
    stream_encoder=Encoder,
    decode_error=decode_error,
    encode_error=encode_error,
    path=lambda request: "/parley/talk",
    can=Capabilities(
        tools=ToolCapabilities(
            choices=frozenset({"auto"}),
            strict=False,
        ),
        calls=CallCapabilities(
            arguments="object",
            broken="shown",
        ),
        media=MediaCapabilities(in_user=frozenset()),
    ),
    request=RequestShape(history_key="turns"),
    stream=StreamShape(framing=LINES),
    listing=LISTING,
)
