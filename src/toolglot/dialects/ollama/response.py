"""An answer of `/api/chat` or `/api/generate` <-> `Response`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import UNSET

from toolglot.dialects.ollama.blocks import OllamaMessageWriter, decode_calls, decode_images
from toolglot.dialects.ollama.errors import read_error
from toolglot.dialects.ollama.native import NAME
from toolglot.dialects.ollama.request import is_generate
from toolglot.dialects.ollama.usage import INPUT, OUTPUT, decode_usage, encode_usage
from toolglot.dialects.ollama.wire import ANSWERS, OllamaAnswer, OllamaMessage
from toolglot.errors import DecodeError, UpstreamError
from toolglot.ir import Block, Request, Response, Stop, StopReason, Text, Thinking, ToolCall, native_of, replace
from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.error_documents import find_error
from toolglot.wire.native import fill_members, make_native, native_members
from toolglot.wire.openai_logprobs import read_logprobs, write_logprobs
from toolglot.wire.structs import as_json, members_without
from toolglot.wire.timestamps import LAST_YEAR, format_utc

DONE_REASONS: dict[str, StopReason] = {"stop": "end", "length": "length", "load": "end", "unload": "end"}
_DONE_REASON: dict[StopReason, str] = {"length": "length", "context_full": "length"}
"""All other reasons become `stop`."""
_INEXPRESSIBLE_STOPS = frozenset({"refusal", "filtered", "pause"})
READ_MEMBERS = (
    "model",
    "created_at",
    "message",
    "response",
    "thinking",
    "tool_calls",
    "done",
    "done_reason",
    INPUT,
    OUTPUT,
    "logprobs",
)
"""Members of an answer or a stream line that the IR has."""
_MESSAGE = ("role", "content", "thinking", "images", "tool_calls")


# Decoding


def decode_response(data: bytes) -> Response:
    """Decode a whole answer.

    Raises:
        DecodeError: the document is not an answer.
        UpstreamError: the document is an error.
    """
    answer = read_answer(data)
    if answer.message is UNSET and answer.response is UNSET:
        raise DecodeError("$.message", "this object is required")
    content, rest, shape = _decode_content(answer)
    others = members_without(answer, *READ_MEMBERS)
    if answer.logprobs is not UNSET:
        content, shape["logprobs"] = _take_logprobs(answer, content)
        if shape["logprobs"] is None:
            others["logprobs"] = answer.logprobs
    if not answer.done:
        shape["no_done" if answer.done is UNSET else "not_done"] = True
    if answer.created_at is not UNSET:
        shape["created_at"] = answer.created_at
    if rest:
        others["message"] = rest
    native = make_native(NAME, others, **shape)
    return Response(
        model=answer.model or "",
        created=parse_created_at(answer.created_at),
        content=content,
        stop=decode_stop(answer, ToolCall in map(type, content)),
        usage=decode_usage(answer),
        native=native,
    )


def read_answer(data: bytes, *, is_line: bool = False) -> OllamaAnswer:
    """Read an answer, or a line of a streamed one. Raises `DecodeError`, or `UpstreamError` for an error."""
    try:
        answer = ANSWERS.read_frame(data) if is_line else ANSWERS.read(data, factor=json.ANSWER_FACTOR)
    except DecodeError:
        _raise_error(json.decode_frame(data) if is_line else json.decode_answer(data))
        raise
    if answer.rest is not UNSET:
        _raise_error(as_json(answer))
    return answer


def _raise_error(value: Any) -> None:
    """Raise `UpstreamError` if the document is an error. The `message` of an answer is an object, not a text."""
    is_answer = isinstance(value, dict) and isinstance(value.get("message"), dict) and not value.get("error")
    if not is_answer and find_error(value) is not None:
        raise UpstreamError(read_error(value))


def _decode_content(answer: OllamaAnswer) -> tuple[tuple[Block, ...], dict[str, Any], dict[str, Any]]:
    """Decode the blocks, the other members of the message, and notes on its shape."""
    message = answer.message
    rest: dict[str, Any] = {}
    shape: dict[str, Any] = {}
    if message is UNSET:
        shape["generate"] = True
        message = OllamaMessage(
            role="assistant", content=answer.response, thinking=answer.thinking, tool_calls=answer.tool_calls
        )
    else:
        rest = members_without(message, *_MESSAGE)
        for name in ("response", "thinking", "tool_calls"):
            if getattr(answer, name) is not UNSET:
                raise DecodeError(f"$.{name}", "an answer with a message does not have this")
    if message.role != "assistant":
        shape |= {"no_role": True} if message.role is UNSET else {"role": message.role}
    if message.content is UNSET:
        shape["content"] = "absent"
    for note, (name, empty) in _EMPTY.items():
        if getattr(message, name) == empty:
            shape[note] = True
    content: list[Block] = [Thinking(text=message.thinking)] if message.thinking else []
    if message.content:
        content.append(Text(text=message.content))
    if message.images:
        content += decode_images(message.images, of_answer=True)
    if message.tool_calls:
        content += decode_calls(message.tool_calls, "$.message.tool_calls", of_answer=True)
    return tuple(content), rest, shape


def _take_logprobs(answer: OllamaAnswer, content: tuple[Block, ...]) -> tuple[tuple[Block, ...], Any]:
    """Add log probabilities to the first text. Returns the content and the member, or None if it is invalid."""
    tokens = read_logprobs(answer.logprobs)
    at = next((index for index, block in enumerate(content) if isinstance(block, Text)), None)
    if not tokens or at is None:
        return content, None
    return (*content[:at], replace(content[at], logprobs=tokens), *content[at + 1 :]), answer.logprobs


def decode_stop(answer: OllamaAnswer, called: bool) -> Stop:
    """Decode the reason why the model stopped. Ollama has no reason for tool calls: the calls themselves imply it."""
    raw = answer.done_reason or None
    reason = DONE_REASONS.get(raw or "stop", "other")
    return Stop("tool_calls" if reason == "end" and called else reason, raw)


def parse_created_at(text: Any) -> int | None:
    """Parse `created_at` to Unix seconds. None if it is invalid, or before 1970: Go's zero time."""
    try:
        seconds = int(datetime.fromisoformat(text).timestamp()) if isinstance(text, str) else -1
    except (ValueError, OverflowError):
        return None
    return seconds if seconds >= 0 else None


# Encoding


def encode_response(response: Response, request: Request | None, receipt: Receipt) -> bytes:
    notes = native_of(response, NAME)
    rest = native_members(notes)
    inside = rest.pop("message", {})
    text, members = _encode_plain(response.content) or _encode_blocks(response.content, receipt)
    generates = bool(notes.get("$generate")) or is_generate(request)
    body: dict[str, Any] = {
        **identity_members(response.model, response.created, notes.get("$created_at")),
        **_encode_content(text, members, notes, inside, generates=generates),
        **({} if notes.get("$no_done") else {"done": not notes.get("$not_done")}),
        **encode_stop(response.stop, receipt, is_own=NAME in response.native),
        **encode_usage(response.usage),
        **_encode_logprobs(response, notes),
    }
    return json.encode(fill_members(body, rest))


def _encode_plain(content: tuple[Block, ...]) -> tuple[str, dict[str, Any]] | None:
    """Encode an answer that has only a plain text and then complete calls with valid arguments. Returns the text and
    the other members.

    This is the fast path for nearly all answers. None if a block is of another form, or needs a line in the receipt.
    """
    text: str | None = None
    calls: list[dict[str, Any]] = []
    for block in content:
        if NAME in block.native:
            return None
        if type(block) is Text and text is None and not (calls or block.citations or block.new_message):
            text = block.text
        elif type(block) is ToolCall and block.complete:
            arguments = json.object_of(block.arguments)
            if arguments is None or json.has_repeated_key(block.arguments):
                return None
            named = {"id": block.id} if block.id else {}
            calls.append({**named, "function": {"index": len(calls), "name": block.name, "arguments": arguments}})
        else:
            return None
    return text or "", {"tool_calls": calls} if calls else {}


def _encode_blocks(content: tuple[Block, ...], receipt: Receipt) -> tuple[str, dict[str, Any]]:
    """Encode any blocks. Returns the text and the other members."""
    writer = OllamaMessageWriter(receipt)
    for index, block in enumerate(content):
        writer.add(block, f"content[{index}]")
    return writer.content, writer.members()


def _encode_content(
    text: str, members: dict[str, Any], notes: Any, inside: dict[str, Any], *, generates: bool
) -> dict[str, Any]:
    if notes:
        for note, (name, value) in _EMPTY.items():
            if notes.get(f"${note}"):
                members.setdefault(name, value)
    absent = notes.get("$content") == "absent" and not text
    if generates:
        return {**({} if absent else {"response": text}), **members}
    content = {} if absent else {"content": text}
    role = {} if notes.get("$no_role") else {"role": notes.get("$role", "assistant")}
    return {"message": fill_members({**role, **content, **members}, inside)}


_EMPTY: dict[str, tuple[str, Any]] = {
    "no_calls": ("tool_calls", []),
    "no_thinking": ("thinking", ""),
    "no_images": ("images", []),
}
"""Notes on members that are present but empty."""


def identity_members(model: str, created: int | None, came: str | None = None) -> dict[str, Any]:
    """Return the first members of every answer and line: model and creation time. `came` is the original time."""
    if came is not None and parse_created_at(came) == created:
        return {"model": model, "created_at": came}
    seconds = created if created is not None and 0 <= created <= LAST_YEAR else 0
    return {"model": model, "created_at": format_utc(seconds)}


def encode_stop(stop: Stop, receipt: Receipt, *, is_own: bool = False) -> dict[str, Any]:
    if is_own:
        return {} if stop.raw is None else {"done_reason": stop.raw}
    if stop.reason in _INEXPRESSIBLE_STOPS:
        receipt.loss("stop", stop.raw or stop.reason, "Ollama has no such reason to stop")
    return {"done_reason": _DONE_REASON.get(stop.reason, "stop")}


def _encode_logprobs(response: Response, notes: Any) -> dict[str, Any]:
    if "$logprobs" in notes:
        return {"logprobs": notes["$logprobs"]}
    tokens = [token for block in response.content if type(block) is Text for token in block.logprobs]
    return {"logprobs": write_logprobs(tokens)} if tokens else {}
