"""`POST /v1/messages`: the request body <-> `Request`. The body of `count_tokens` is the same without a limit.

`system` is the leading `Message` of role system; a system message inside the conversation stays where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Raw, Struct, field
from msgspec.json import Decoder

from toolglot.dialects.anthropic.blocks import encode_blocks, take_content, write_content
from toolglot.dialects.anthropic.models import DEFAULT_MAX_TOKENS
from toolglot.dialects.anthropic.native import (
    NAME,
    NO_INPUT,
    is_missing,
    missing,
    note,
    take_cache,
    take_empty,
    with_kept,
    without_missing,
    write_cache,
)
from toolglot.dialects.anthropic.reasoning import decode_format, decode_reasoning, encode_config, encode_thinking
from toolglot.dialects.anthropic.tools import decode_choice, decode_tools, encode_choice, encode_tools
from toolglot.errors import DecodeError
from toolglot.ir import Message, Request, native_of, with_native
from toolglot.receipt import Receipt, describe_setting
from toolglot.wire import json, large
from toolglot.wire.reader import Reader, document, expected, keep

_TIERS = {"auto": "auto", "standard_only": "default"}
_TIER_NAMES = {tier: name for name, tier in _TIERS.items()}
_FAST = "priority"
"""What other APIs call the faster service; `speed` asks for it here."""
_SPEEDS = {"fast": _FAST, "standard": None}

_ROLES = {"tool": "user", "function": "user", "developer": "system"}
_SYSTEM_ROLES = ("system", "developer")

_LEAST_TOP_P = 0.95

# members of `Request` that have no place on this wire
_ELSEWHERE = (
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "candidates",
    "logprobs",
    "top_logprobs",
    "verbosity",
    "metadata",
)


def path(request: Request) -> str:
    return "/v1/messages"


class _Block(Struct):
    input: Raw = NO_INPUT


class _Message(Struct):
    content: list[_Block] | str | None = None


class _Body(Struct):
    messages: list[_Message] = field(default_factory=list)


_inputs = Decoder(_Body)


def verbatim_inputs(data: bytes) -> list[list[Raw]]:
    """The `input` of every block of every message as it stands in the bytes: JSON has more spellings than values."""
    if not large.contains(data, b'"tool_use"'):
        return []
    try:
        messages = json.elements(data, "messages", _Message)
        if messages is None:
            messages = json.typed(data, _inputs).messages
    except DecodeError:  # the first reading tells what is wrong, if anything is
        return []
    contents = (message.content for message in large.emptied(messages))
    return [[block.input for block in content] if isinstance(content, list) else [] for content in contents]


def decode_request(data: bytes) -> Request:
    body = document(data)
    if "messages" not in body:
        raise DecodeError(body.at("messages"), "this array is required")
    absent = missing(body, "model", "max_tokens")
    inputs = large.emptied(verbatim_inputs(data))
    messages = [_decode_message(message, next(inputs, ())) for message in body.each("messages")]
    if messages and messages[0].role in _SYSTEM_ROLES:
        messages[0] = with_native(messages[0], NAME, **{"$inline": True})
    leading = _decode_system(body)
    empty = take_empty(body, "tools", "stop_sequences", "metadata", "output_config")
    config = body.object("output_config") or Reader({})
    metadata = body.object("metadata") or Reader({})
    tool_choice, parallel = decode_choice(body)
    model, tier, stream = body.text("model") or "", body.text("service_tier"), body.flag("stream")
    speed = body.take("speed") if body.peek("speed") in list(_SPEEDS) else None
    fields: dict[str, Any] = {
        "model": model,
        "tools": decode_tools(body),
        "tool_choice": tool_choice,
        "parallel_tool_calls": parallel,
        "max_output_tokens": body.integer("max_tokens"),
        "temperature": body.number("temperature"),
        "top_p": body.number("top_p"),
        "top_k": body.integer("top_k"),
        "stop": _decode_stop(body),
        "response_format": decode_format(body, config),
        "reasoning": decode_reasoning(body, config, model),
        "user": metadata.text("user_id"),
        "service_tier": _decode_tier(tier, speed),
        "cache": take_cache(body),
    }
    shape = {
        "empty": empty,
        "tier": tier,
        "speed": speed,
        "stream": False if stream is False else None,
        "missing": absent,
    }
    native = keep(NAME, body, **shape)
    for name, rest in (("output_config", config.rest()), ("metadata", metadata.rest())):
        if rest:
            native.setdefault(NAME, {})[name] = rest
    return Request(messages=(*leading, *messages), stream=bool(stream), native=native, **fields)


def _decode_system(body: Reader) -> list[Message]:
    content, shape = take_content(body, "system")
    if shape == "absent":
        return []
    return [Message(role="system", content=content, native={NAME: {"$content": shape}} if shape else {})]


def _decode_message(message: Reader, inputs: Sequence[Raw]) -> Message:
    role = message.need_text("role")
    content, shape = take_content(message, inputs=inputs)
    if shape is None and not message.rest() and role not in _ROLES:
        return Message(role=role, content=content)
    return Message(
        role=role, content=content, native=keep(NAME, message, content=shape, role=role if role in _ROLES else None)
    )


def _decode_stop(body: Reader) -> tuple[str, ...]:
    sequences = body.array("stop_sequences") or []
    for index, sequence in enumerate(sequences):
        if not isinstance(sequence, str):
            raise expected(f"{body.at('stop_sequences')}[{index}]", "a string", sequence)
    return tuple(sequences)


def encode_request(request: Request, receipt: Receipt) -> bytes:
    notes = native_of(request, NAME)
    count = _count_leading(request.messages)
    thinking = encode_thinking(request, receipt)
    fields: dict[str, Any] = {
        "model": request.model,
        "max_tokens": _limit(request, receipt),
        "system": _encode_system(request.messages[:count], receipt),
        "tools": encode_tools(request, receipt),
        "tool_choice": encode_choice(request, receipt),
        "thinking": thinking,
        **encode_config(request, receipt),
        "metadata": _encode_metadata(request),
        **_encode_tier(request, receipt),
        **_encode_sampling(request, thinking, receipt),
        "stop_sequences": list(request.stop) or None,
        "stream": request.stream or notes.get("$stream"),
    }
    for name in _ELSEWHERE:
        if getattr(request, name) is not None:
            receipt.loss(name, describe_setting(name, getattr(request, name)), "Messages has no such parameter")
    wire = write_cache({key: value for key, value in fields.items() if value is not None}, request.cache)
    wire = with_kept(wire, request)
    wire.pop("messages", None)
    # The conversation stands last, so that one more turn leaves all the bytes before it as they were.
    wire["messages"] = _encode_messages(request.messages, count, receipt)
    return json.encode_document(with_kept(without_missing(wire, request), request), used_up="messages")


def _count_leading(messages: Sequence[Message]) -> int:
    for index, message in enumerate(messages):
        if message.role not in _SYSTEM_ROLES or native_of(message, NAME).get("$inline"):
            return index
    return len(messages)


def _limit(request: Request, receipt: Receipt) -> int | None:
    if request.max_output_tokens is not None or is_missing(request, "max_tokens"):
        return request.max_output_tokens
    receipt.note("max_output_tokens", "no limit", f"Messages requires one; {DEFAULT_MAX_TOKENS} is sent")
    return DEFAULT_MAX_TOKENS


def _encode_system(leading: Sequence[Message], receipt: Receipt) -> Any:
    if len(leading) == 1:
        return write_content(leading[0].content, _shape(leading[0]), "messages[0].content", receipt)
    blocks: list[dict[str, Any]] = []
    for index, message in enumerate(leading):
        where = f"messages[{index}]"
        blocks += encode_blocks(message.content, f"{where}.content", receipt)
        for key in native_of(message, NAME):
            if not key.startswith("$"):
                receipt.loss(f"{where}.{key}", key, "the system prompt has no place for fields of a message")
    return blocks or None


def _shape(message: Message) -> str | None:
    return note(native_of(message, NAME), "$content", str)


def _encode_messages(messages: Sequence[Message], start: int, receipt: Receipt) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = []
    for index in range(start, len(messages)):
        message = messages[index]
        came_as = native_of(message, NAME).get("$role")
        wire: dict[str, Any] = {"role": came_as if came_as == message.role else _ROLES.get(message.role, message.role)}
        content = write_content(message.content, _shape(message), f"messages[{index}].content", receipt)
        if content == [] and message.content:
            continue  # all of it was lost, and said so; the API refuses a message without content
        if content is not None or _shape(message) != "absent":
            wire["content"] = [] if content is None else content
        written.append(with_kept(wire, message))
    return written


def _encode_metadata(request: Request) -> dict[str, Any] | None:
    user = {"user_id": request.user} if request.user is not None else {}
    rest = note(native_of(request, NAME), "metadata", dict) or {}
    return {**rest, **user} or None


def _decode_tier(tier: str | None, speed: str | None) -> str | None:
    fast = _SPEEDS.get(speed or "")
    return fast or (_TIERS.get(tier, tier) if tier is not None else None)


def _encode_tier(request: Request, receipt: Receipt) -> dict[str, str]:
    notes, tier = native_of(request, NAME), request.service_tier
    came_as, speed = note(notes, "$tier", str), note(notes, "$speed", str)
    given = {"service_tier": came_as, "speed": speed}
    if _decode_tier(came_as, speed) == tier:
        return {key: value for key, value in given.items() if value is not None}
    if tier is None:
        return {}
    if tier in (_FAST, "fast"):
        receipt.note("service_tier", tier, "Messages gives priority by itself where the account has it: auto is sent")
        return {"service_tier": "auto"}
    if tier not in _TIER_NAMES:
        receipt.loss("service_tier", tier, "Messages has the tiers auto and standard_only")
        return {}
    return {"service_tier": _TIER_NAMES[tier]}


def _encode_sampling(request: Request, thinking: dict[str, Any] | None, receipt: Receipt) -> dict[str, Any]:
    """Sampling parameters. While it thinks, the API refuses any `top_k`, a temperature but 1, a `top_p` below 0.95."""
    fields = {"temperature": request.temperature, "top_p": request.top_p, "top_k": request.top_k}
    own = request.reasoning is not None and NAME in request.reasoning.native
    if not own and thinking is not None and thinking["type"] != "disabled":
        for name in ("temperature", "top_k"):
            if fields[name] not in (None, 1):
                receipt.loss(name, describe_setting(name, fields[name]), "the API refuses it while the model thinks")
                fields[name] = None
        if request.top_p is not None and request.top_p < _LEAST_TOP_P:
            receipt.loss("top_p", describe_setting("top_p", request.top_p), "the API refuses it while the model thinks")
            fields["top_p"] = None
    return fields
