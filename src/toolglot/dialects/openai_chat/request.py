"""`POST /v1/chat/completions`: the request body <-> `Request`.

One wire message is one `Message`. The vendors' field for reasoning (`reasoning_content`, or `reasoning` on newer
vLLM) is read as a `Thinking` block and written back under the name it came with.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from msgspec import UNSET, Raw

from toolglot.dialects.openai_chat.blocks import (
    control_of,
    take,
    take_control,
)
from toolglot.dialects.openai_chat.messages import decode_message, encode_message, encode_usual
from toolglot.dialects.openai_chat.native import NAME
from toolglot.dialects.openai_chat.reasoning import (
    REASONING_MEMBERS,
    REASONING_WISHES,
    encode_reasoning,
    take_reasoning_wish,
)
from toolglot.dialects.openai_chat.tools import (
    decode_functions,
    decode_tools,
    encode_choice,
    encode_tools,
    take_choice,
)
from toolglot.dialects.openai_chat.wire import (
    REQUESTS,
    Body,
    JsonFormat,
    SchemaFormat,
    TextFormat,
)
from toolglot.errors import DecodeError, expected
from toolglot.ir import (
    Opaque,
    Request,
    ResponseFormat,
    Tool,
    native_of,
    replace,
)
from toolglot.receipt import Receipt
from toolglot.tools.declared import DECLARED
from toolglot.tools.known_requests import decode_known
from toolglot.wire import json
from toolglot.wire.known_settings import KnownSettings
from toolglot.wire.large import emptied
from toolglot.wire.native import keep_members, kept
from toolglot.wire.openai_fields import (
    PROMPT_CACHE,
    identifier,
    service_tier,
    strictness,
    take_prompt_cache,
    write_prompt_cache,
)
from toolglot.wire.structs import as_json, field_reader, members_without

TIERS = {"on_demand": "default", "performance": "priority"}
"""Groq's words for service tiers, and what the IR calls them."""

# OpenAI's reasoning models refuse `max_tokens`; many compatible servers know nothing else.
_COMPLETION_LIMIT = re.compile(r"^(openai/)?(gpt-[5-9]|gpt-\d\d|o\d|chatgpt|codex)")


def path(request: Request) -> str:
    return "/v1/chat/completions"


_SETTINGS = {
    "parallel_tool_calls": "parallel_tool_calls",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "n": "candidates",
    "top_logprobs": "top_logprobs",
    "verbosity": "verbosity",
    "store": "store",
    "stream": "stream",
}
"""Members that the IR has as they are, and its names for them."""
_KNOWN = KnownSettings[Request]("messages")


def decode_request(data: bytes) -> Request:
    known = decode_known(_KNOWN, REQUESTS, data, _with_history)
    if known is not None:
        return known
    body = REQUESTS.read(data)
    messages = tuple([decode_message(message) for message in emptied(body.messages)])
    settings = _decode_settings(body, data)
    _KNOWN.keep(data, lambda: settings)
    return replace(settings, messages=messages)


def _with_history(settings: Request, messages: list[Any], data: bytes) -> Request:
    return replace(settings, messages=tuple([decode_message(message) for message in emptied(messages)]))


def _decode_settings(body: Body, data: bytes) -> Request:
    rest = members_without(body, "messages", "tools", "functions", "response_format")
    shape: dict[str, Any] = {}
    fields: dict[str, Any] = {"tools": _read_tools(body, rest, shape, data)}
    for member in [member for member in rest if member in _SETTINGS]:
        if (value := take(rest, member)) is not None:
            fields[_SETTINGS[member]] = value
    fields["model"] = _take_model(rest, shape)
    # Also True: that this dialect has spoken is how the encoder knows whether to ask for usage on its own.
    shape["stream"] = fields.get("stream")
    if body.response_format is not UNSET:
        fields["response_format"] = _decode_format(body.response_format, rest)
    for taking in dict.fromkeys([_ODD_SETTINGS[member] for member in rest if member in _ODD_SETTINGS]):
        taking(rest, fields, shape)
    if body.functions and "parallel_tool_calls" not in fields:
        # An answer in the deprecated form has room for one call.
        fields["parallel_tool_calls"], shape["no_parallel"] = False, True
    return Request(native=keep_members(NAME, rest, **shape), **fields)


def _take_model(rest: dict[str, Any], shape: dict[str, Any]) -> str:
    model = take(rest, "model") or ""
    if not model:
        shape["no_model"] = True
    return model


# Settings that are more than a value of the IR under its name. What cannot be read of them stays in `rest`.


def _take_limit(rest: dict[str, Any], fields: dict[str, Any], shape: dict[str, Any]) -> None:
    shape["max"] = "max_tokens" if rest.get("max_completion_tokens") is None else "max_completion_tokens"
    fields["max_output_tokens"] = take(rest, shape["max"])
    if fields["max_output_tokens"] is None:
        del shape["max"]


def _take_user(rest: dict[str, Any], fields: dict[str, Any], shape: dict[str, Any]) -> None:
    shape["user"] = "user" if rest.get("safety_identifier") is None else "safety_identifier"
    fields["user"] = take(rest, shape["user"])
    if fields["user"] is None:
        del shape["user"]
    fields["legacy_user"] = take(rest, "user") if "user" in rest else None


def _take_moderation(rest: dict[str, Any], fields: dict[str, Any], shape: dict[str, Any]) -> None:
    if isinstance(rest["moderation"], dict):
        fields["moderation"] = rest.pop("moderation")


def _take_stop(rest: dict[str, Any], fields: dict[str, Any], shape: dict[str, Any]) -> None:
    value = rest["stop"]
    if value is None:
        return
    if isinstance(value, str):
        del rest["stop"]
        fields["stop"], shape["stop"] = (value,), True
        return
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise expected("$.stop", "a string or an array of strings", value)
    if value:  # an empty list stays with the rest
        fields["stop"] = tuple(rest.pop("stop"))


def _take_tier(rest: dict[str, Any], fields: dict[str, Any], shape: dict[str, Any]) -> None:
    if (tier := take(rest, "service_tier")) is not None:
        fields["service_tier"] = TIERS.get(tier, tier)
        shape["tier"] = tier if tier in TIERS else None


def _take_logprobs(rest: dict[str, Any], fields: dict[str, Any], shape: dict[str, Any]) -> None:
    if type(rest["logprobs"]) is bool:
        fields["logprobs"] = rest.pop("logprobs")


def _take_metadata(rest: dict[str, Any], fields: dict[str, Any], shape: dict[str, Any]) -> None:
    value = rest["metadata"]
    if isinstance(value, dict) and all(isinstance(item, str) for item in value.values()):
        fields["metadata"] = rest.pop("metadata")


def _take_cache(rest: dict[str, Any], fields: dict[str, Any], shape: dict[str, Any]) -> None:
    fields["cache"], shape["cache_control"] = take_control(rest)


_Taking: TypeAlias = Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], None]


def _taking(field: str, read: Callable[[dict[str, Any]], Any]) -> _Taking:
    def take_into(rest: dict[str, Any], fields: dict[str, Any], shape: dict[str, Any]) -> None:
        fields[field] = read(rest)

    return take_into


_ODD_SETTINGS: dict[str, _Taking] = {
    "stop": _take_stop,
    "service_tier": _take_tier,
    "logprobs": _take_logprobs,
    "metadata": _take_metadata,
    "moderation": _take_moderation,
    "cache_control": _take_cache,
    **dict.fromkeys(("max_tokens", "max_completion_tokens"), _take_limit),
    **dict.fromkeys(("user", "safety_identifier"), _take_user),
    **dict.fromkeys(("tool_choice", "function_call"), _taking("tool_choice", take_choice)),
    **dict.fromkeys(REASONING_WISHES, _taking("reasoning", take_reasoning_wish)),
    **dict.fromkeys(PROMPT_CACHE.values(), _taking("prompt_cache", take_prompt_cache)),
}
"""By the members that they stand in."""


def _read_tools(body: Body, rest: dict[str, Any], shape: dict[str, Any], data: bytes) -> tuple[Tool | Opaque, ...]:
    tools: tuple[Tool | Opaque, ...] = ()
    if (raw := body.tools) is not UNSET:
        if bytes(memoryview(raw)[:1]) == b"n":
            rest["tools"] = None
        elif not (tools := _declared_tools(raw, data)):
            shape["no_tools"] = True
    if body.functions is None:
        rest["functions"] = None
    return (*tools, *decode_functions(body.functions)) if body.functions else tools


def _declared_tools(raw: Raw, data: bytes) -> tuple[Tool | Opaque, ...]:
    try:
        return DECLARED.read(NAME, raw, decode_tools, tuple)
    except DecodeError:
        json.decode(data)  # tells where the document is no JSON to rely on
        raise


def is_legacy(request: Request) -> bool:
    """Did the client ask with the deprecated `functions`? Then it is answered with `function_call`."""
    return bool([tool for tool in request.tools if tool.native and native_of(tool, NAME).get("$legacy")])


def _decode_format(wanted: SchemaFormat | TextFormat | JsonFormat, rest: dict[str, Any]) -> ResponseFormat | None:
    match wanted:
        case SchemaFormat(json_schema=schema):
            inner = members_without(schema)
            strict = take(inner, "strict")
            return ResponseFormat(
                kind="json_schema",
                name=take(inner, "name"),
                description=take(inner, "description"),
                schema=take(inner, "schema"),
                strict=bool(strict),  # what is not said is not strict here
                native=keep_members(NAME, inner, lax=True if strict is None else None),
            )
        case TextFormat() | JsonFormat():
            if wanted.rest is UNSET:
                return ResponseFormat(kind="json" if isinstance(wanted, JsonFormat) else "text")
            rest["response_format"] = as_json(wanted)
    return None


def encode_request(request: Request, receipt: Receipt) -> bytes:
    return json.encode_document(request_fields(request, receipt), used_up="messages")


def request_fields(request: Request, receipt: Receipt) -> dict[str, Any]:
    notes = native_of(request, NAME)
    rest = kept(notes)
    messages: list[dict[str, Any]] = []
    for index, message in enumerate(request.messages):
        if NAME not in message.native and (usual := encode_usual(message.role, message.content)) is not None:
            messages.append(usual)
        else:
            messages += encode_message(message, f"messages[{index}]", receipt)
    fields: dict[str, Any] = {"model": request.model, "messages": messages}
    if not request.model and notes.get("$no_model"):
        del fields["model"]
    if request.tools or notes:
        encode_tools(fields, request, receipt)
    for name, value in _settings_of(request):
        if name == "max_output_tokens":
            fields[notes.get("$max") or _limit_name(request.model)] = value
        elif name in _WRITERS:
            fields |= _WRITERS[name](request, rest, receipt)
        else:
            fields[name] = value
    _add_stream(fields, request, notes)
    if not rest:
        return fields
    return {**fields, **rest, **{name: fields[name] for name in rest.keys() & REASONING_MEMBERS & fields.keys()}}


_Writer: TypeAlias = Callable[[Request, dict[str, Any], Receipt], dict[str, Any]]
_WRITERS: dict[str, _Writer] = {
    "tool_choice": lambda request, rest, receipt: encode_choice(request, receipt),
    "parallel_tool_calls": lambda request, rest, receipt: _encode_parallel(request),
    "candidates": lambda request, rest, receipt: {"n": request.candidates},
    "stop": lambda request, rest, receipt: {"stop": _encode_stop(request)},
    "response_format": lambda request, rest, receipt: {
        "response_format": _encode_format(request.response_format, receipt)
    },
    "reasoning": lambda request, rest, receipt: encode_reasoning(request.reasoning, rest, receipt),
    "user": lambda request, rest, receipt: _encode_user(request, receipt),
    "service_tier": lambda request, rest, receipt: _encode_tier(request, receipt),
    "cache": lambda request, rest, receipt: control_of(request),
    "prompt_cache": lambda request, rest, receipt: write_prompt_cache(request.prompt_cache),
}
"""The members of settings that are not written as they are. `rest` are the members that nobody understood."""
_settings_of = field_reader(
    "tool_choice",
    "parallel_tool_calls",
    "max_output_tokens",
    "temperature",
    "top_p",
    "top_k",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "candidates",
    "logprobs",
    "top_logprobs",
    "stop",
    "response_format",
    "reasoning",
    "verbosity",
    "user",
    "moderation",
    "metadata",
    "service_tier",
    "cache",
    "prompt_cache",
    "store",
)


def _encode_parallel(request: Request) -> dict[str, Any]:
    is_ours = native_of(request, NAME).get("$no_parallel")
    return {} if is_ours else {"parallel_tool_calls": request.parallel_tool_calls}


def _add_stream(fields: dict[str, Any], request: Request, notes: Mapping[str, Any]) -> None:
    if request.stream:
        fields["stream"] = True
        if NAME not in request.native:  # a stream without usage at its end would leave the client's side without any
            fields["stream_options"] = {"include_usage": True}
    elif (stream := notes.get("$stream")) is not None:
        fields["stream"] = stream


def _encode_tier(request: Request, receipt: Receipt) -> dict[str, Any]:
    """The tier in the word that it came in, while it still is the same."""
    came_as, tier = native_of(request, NAME).get("$tier"), request.service_tier
    if came_as is not None and TIERS.get(came_as) == tier:
        tier = str(came_as)
    elif NAME not in request.native:
        tier = service_tier(tier, receipt)
    return {} if tier is None else {"service_tier": tier}


@lru_cache(maxsize=256)  # clients choose the names of models
def _limit_name(model: str) -> str:
    return "max_completion_tokens" if _COMPLETION_LIMIT.match(model) else "max_tokens"


def _encode_stop(request: Request) -> list[str] | str | None:
    if native_of(request, NAME).get("$stop") and len(request.stop) == 1:
        return request.stop[0]
    return list(request.stop) or None


def _encode_user(request: Request, receipt: Receipt) -> dict[str, Any]:
    user, legacy, own = request.user or "", request.legacy_user, native_of(request, NAME).get("$user")
    if legacy is not None:
        return {"safety_identifier": user if own else identifier(user, receipt), "user": legacy}
    return {own: user} if own else {"user": identifier(user, receipt)}


def _encode_format(wanted: ResponseFormat | None, receipt: Receipt) -> dict[str, Any] | None:
    if wanted is None:
        return None
    if wanted.kind != "json_schema":
        return {"type": "json_object" if wanted.kind == "json" else "text"}
    notes = native_of(wanted, NAME)
    strict = None if notes.get("$lax") else wanted.strict
    if wanted.strict is None:
        strict = strictness(wanted.schema, receipt)
    inner = {
        "name": wanted.name or ("response" if NAME not in wanted.native else None),
        "description": wanted.description,
        "schema": wanted.schema,
        "strict": strict,
    }
    present = {key: value for key, value in inner.items() if value is not None}
    return {"type": "json_schema", "json_schema": {**present, **kept(notes)}}
