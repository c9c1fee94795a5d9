"""`POST /v1/chat/completions`: the request body <-> `Request`.

One wire message is one `Message`. The vendors' field for reasoning (`reasoning_content`, or `reasoning` on newer vLLM)
is decoded as a `Thinking` block and written back under its original name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from msgspec import UNSET, Raw

from toolglot.dialects.openai_chat.blocks import (
    encode_cache_control,
    take_cache_control,
    take_member,
)
from toolglot.dialects.openai_chat.messages import decode_message, encode_message, encode_simple_message
from toolglot.dialects.openai_chat.native import NAME
from toolglot.dialects.openai_chat.reasoning import (
    REASONING_MEMBERS,
    REASONING_SETTINGS,
    encode_reasoning,
    take_reasoning_settings,
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
    AnyMessage,
    ChatRequestBody,
    ChatTextFormat,
    JsonFormat,
    SchemaFormat,
)
from toolglot.errors import DecodeError, expected
from toolglot.ir import (
    Message,
    Opaque,
    Request,
    ResponseFormat,
    Tool,
    native_of,
    replace,
)
from toolglot.receipt import Receipt
from toolglot.tools.cached_settings import decode_with_cached_settings
from toolglot.tools.declared import DECLARED
from toolglot.wire import json
from toolglot.wire.incremental_json import drain
from toolglot.wire.native import make_native, native_members
from toolglot.wire.openai_fields import (
    PROMPT_CACHE,
    encode_identifier,
    encode_service_tier,
    encode_strict,
    take_prompt_cache,
    write_prompt_cache,
)
from toolglot.wire.settings_cache import SettingsCache
from toolglot.wire.structs import as_json, field_reader, members_without

GROQ_TIERS = {"on_demand": "default", "performance": "priority"}
"""Groq's names of service tiers, and those of the IR."""

# OpenAI's reasoning models refuse `max_tokens`; many compatible servers support only that.
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
"""Members that the IR stores unchanged, and its names for them."""
_SETTINGS_CACHE = SettingsCache[Request, Message]("messages")


def decode_request(data: bytes) -> Request:
    known = decode_with_cached_settings(_SETTINGS_CACHE, REQUESTS, data, _decode_messages, _with_history)
    if known is not None:
        return known
    body = REQUESTS.read(data)
    messages = _decode_messages(body.messages, data)
    settings = _decode_settings(body, data)
    _SETTINGS_CACHE.add(data, lambda: settings)
    return _with_history(settings, messages)


def _decode_messages(messages: list[AnyMessage], data: bytes) -> list[Message]:
    return [decode_message(message) for message in drain(messages)]


def _with_history(settings: Request, messages: Sequence[Message]) -> Request:
    return replace(settings, messages=tuple(messages))


def _decode_settings(body: ChatRequestBody, data: bytes) -> Request:
    rest = members_without(body, "messages", "tools", "functions", "response_format")
    shape: dict[str, Any] = {}
    fields: dict[str, Any] = {"tools": _read_tools(body, rest, shape, data)}
    for member in [member for member in rest if member in _SETTINGS]:
        if (value := take_member(rest, member)) is not None:
            fields[_SETTINGS[member]] = value
    fields["model"] = _take_model(rest, shape)
    # Stored for True as well: native members tell the encoder that the request is Chat's own, so it must not ask for
    # usage on its own.
    shape["stream"] = fields.get("stream")
    if body.response_format is not UNSET:
        fields["response_format"] = _decode_format(body.response_format, rest)
    for taking in dict.fromkeys([_SETTING_READERS[member] for member in rest if member in _SETTING_READERS]):
        taking(rest, fields, shape)
    if body.functions and "parallel_tool_calls" not in fields:
        # An answer in the deprecated form has room for one call.
        fields["parallel_tool_calls"], shape["no_parallel"] = False, True
    return Request(native=make_native(NAME, rest, **shape), **fields)


def _take_model(rest: dict[str, Any], shape: dict[str, Any]) -> str:
    model = take_member(rest, "model") or ""
    if not model:
        shape["no_model"] = True
    return model


# Settings that the IR does not store unchanged. Unreadable parts of them stay in `rest`.


def _take_limit(rest: dict[str, Any], fields: dict[str, Any], shape: dict[str, Any]) -> None:
    shape["max"] = "max_tokens" if rest.get("max_completion_tokens") is None else "max_completion_tokens"
    fields["max_output_tokens"] = take_member(rest, shape["max"])
    if fields["max_output_tokens"] is None:
        del shape["max"]


def _take_user(rest: dict[str, Any], fields: dict[str, Any], shape: dict[str, Any]) -> None:
    shape["user"] = "user" if rest.get("safety_identifier") is None else "safety_identifier"
    fields["user"] = take_member(rest, shape["user"])
    if fields["user"] is None:
        del shape["user"]
    fields["legacy_user"] = take_member(rest, "user") if "user" in rest else None


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
    if (tier := take_member(rest, "service_tier")) is not None:
        fields["service_tier"] = GROQ_TIERS.get(tier, tier)
        shape["tier"] = tier if tier in GROQ_TIERS else None


def _take_logprobs(rest: dict[str, Any], fields: dict[str, Any], shape: dict[str, Any]) -> None:
    if type(rest["logprobs"]) is bool:
        fields["logprobs"] = rest.pop("logprobs")


def _take_metadata(rest: dict[str, Any], fields: dict[str, Any], shape: dict[str, Any]) -> None:
    value = rest["metadata"]
    if isinstance(value, dict) and all(isinstance(item, str) for item in value.values()):
        fields["metadata"] = rest.pop("metadata")


def _take_cache(rest: dict[str, Any], fields: dict[str, Any], shape: dict[str, Any]) -> None:
    fields["cache"], shape["cache_control"] = take_cache_control(rest)


_SettingReader: TypeAlias = Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], None]


def _setting_reader(field: str, read: Callable[[dict[str, Any]], Any]) -> _SettingReader:
    def take_into(rest: dict[str, Any], fields: dict[str, Any], shape: dict[str, Any]) -> None:
        fields[field] = read(rest)

    return take_into


_SETTING_READERS: dict[str, _SettingReader] = {
    "stop": _take_stop,
    "service_tier": _take_tier,
    "logprobs": _take_logprobs,
    "metadata": _take_metadata,
    "moderation": _take_moderation,
    "cache_control": _take_cache,
    **dict.fromkeys(("max_tokens", "max_completion_tokens"), _take_limit),
    **dict.fromkeys(("user", "safety_identifier"), _take_user),
    **dict.fromkeys(("tool_choice", "function_call"), _setting_reader("tool_choice", take_choice)),
    **dict.fromkeys(REASONING_SETTINGS, _setting_reader("reasoning", take_reasoning_settings)),
    **dict.fromkeys(PROMPT_CACHE.values(), _setting_reader("prompt_cache", take_prompt_cache)),
}
"""The reader of a setting, by the names of its members."""


def _read_tools(
    body: ChatRequestBody, rest: dict[str, Any], shape: dict[str, Any], data: bytes
) -> tuple[Tool | Opaque, ...]:
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
        json.decode(data)  # raises with the path if the document is unsound JSON
        raise


def is_legacy(request: Request) -> bool:
    """Return whether the client used the deprecated `functions` and so gets `function_call`."""
    return bool([tool for tool in request.tools if tool.native and native_of(tool, NAME).get("$legacy")])


def _decode_format(wanted: SchemaFormat | ChatTextFormat | JsonFormat, rest: dict[str, Any]) -> ResponseFormat | None:
    match wanted:
        case SchemaFormat(json_schema=schema):
            inner = members_without(schema)
            strict = take_member(inner, "strict")
            return ResponseFormat(
                kind="json_schema",
                name=take_member(inner, "name"),
                description=take_member(inner, "description"),
                schema=take_member(inner, "schema"),
                strict=bool(strict),  # the default is not strict
                native=make_native(NAME, inner, lax=True if strict is None else None),
            )
        case ChatTextFormat() | JsonFormat():
            if wanted.rest is UNSET:
                return ResponseFormat(kind="json" if isinstance(wanted, JsonFormat) else "text")
            rest["response_format"] = as_json(wanted)
    return None


def encode_request(request: Request, receipt: Receipt) -> bytes:
    return json.encode_document(request_fields(request, receipt), used_up="messages")


def request_fields(request: Request, receipt: Receipt) -> dict[str, Any]:
    notes = native_of(request, NAME)
    rest = native_members(notes)
    messages: list[dict[str, Any]] = []
    for index, message in enumerate(request.messages):
        if NAME not in message.native and (usual := encode_simple_message(message.role, message.content)) is not None:
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
        elif name in _SETTING_ENCODERS:
            fields |= _SETTING_ENCODERS[name](request, rest, receipt)
        else:
            fields[name] = value
    _add_stream(fields, request, notes)
    if not rest:
        return fields
    return {**fields, **rest, **{name: fields[name] for name in rest.keys() & REASONING_MEMBERS & fields.keys()}}


_SettingEncoder: TypeAlias = Callable[[Request, dict[str, Any], Receipt], dict[str, Any]]
_SETTING_ENCODERS: dict[str, _SettingEncoder] = {
    "tool_choice": lambda request, rest, receipt: encode_choice(request, receipt),
    "parallel_tool_calls": lambda request, rest, receipt: _encode_parallel_tool_calls(request),
    "candidates": lambda request, rest, receipt: {"n": request.candidates},
    "stop": lambda request, rest, receipt: {"stop": _encode_stop(request)},
    "response_format": lambda request, rest, receipt: {
        "response_format": _encode_format(request.response_format, receipt)
    },
    "reasoning": lambda request, rest, receipt: encode_reasoning(request.reasoning, rest, receipt),
    "user": lambda request, rest, receipt: _encode_user(request, receipt),
    "service_tier": lambda request, rest, receipt: _encode_tier(request, receipt),
    "cache": lambda request, rest, receipt: encode_cache_control(request),
    "prompt_cache": lambda request, rest, receipt: write_prompt_cache(request.prompt_cache),
}
"""Encoders of the settings that are not written unchanged. `rest` has the native members of the request."""
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


def _encode_parallel_tool_calls(request: Request) -> dict[str, Any]:
    is_added = native_of(request, NAME).get("$no_parallel")
    return {} if is_added else {"parallel_tool_calls": request.parallel_tool_calls}


def _add_stream(fields: dict[str, Any], request: Request, notes: Mapping[str, Any]) -> None:
    if request.stream:
        fields["stream"] = True
        if NAME not in request.native:  # without this, clients of other dialects would get no usage
            fields["stream_options"] = {"include_usage": True}
    elif (stream := notes.get("$stream")) is not None:
        fields["stream"] = stream


def _encode_tier(request: Request, receipt: Receipt) -> dict[str, Any]:
    """Return the tier under its original name, if it is unchanged."""
    came_as, tier = native_of(request, NAME).get("$tier"), request.service_tier
    if came_as is not None and GROQ_TIERS.get(came_as) == tier:
        tier = str(came_as)
    elif NAME not in request.native:
        tier = encode_service_tier(tier, receipt)
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
        return {"safety_identifier": user if own else encode_identifier(user, receipt), "user": legacy}
    return {own: user} if own else {"user": encode_identifier(user, receipt)}


def _encode_format(wanted: ResponseFormat | None, receipt: Receipt) -> dict[str, Any] | None:
    if wanted is None:
        return None
    if wanted.kind != "json_schema":
        return {"type": "json_object" if wanted.kind == "json" else "text"}
    notes = native_of(wanted, NAME)
    strict = None if notes.get("$lax") else wanted.strict
    if wanted.strict is None:
        strict = encode_strict(wanted.schema, receipt)
    inner = {
        "name": wanted.name or ("response" if NAME not in wanted.native else None),
        "description": wanted.description,
        "schema": wanted.schema,
        "strict": strict,
    }
    present = {key: value for key, value in inner.items() if value is not None}
    return {"type": "json_schema", "json_schema": {**present, **native_members(notes)}}
