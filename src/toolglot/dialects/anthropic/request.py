"""`POST /v1/messages`: the request body <-> `Request`. The body of `count_tokens` is the same without a limit.

`system` is the leading `Message` of role system; a system message inside the conversation stays where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType

from toolglot.dialects.anthropic.blocks import (
    decode_content,
    encode_blocks,
    encode_content,
    encode_usual_content,
)
from toolglot.dialects.anthropic.models import DEFAULT_MAX_TOKENS
from toolglot.dialects.anthropic.native import (
    NAME,
    decode_cache,
    is_missing,
    keep,
    read_note,
    restore_members,
    take_empty,
    without_missing,
    write_cache,
)
from toolglot.dialects.anthropic.reasoning import (
    OLD_FORMAT,
    decode_format,
    decode_reasoning,
    encode_output_config,
    encode_thinking,
)
from toolglot.dialects.anthropic.tools import (
    decode_choice,
    decode_tools,
    encode_choice,
    encode_tools,
    is_array,
    sound_value,
    take_other_choice,
)
from toolglot.dialects.anthropic.wire import REQUESTS, AnthropicMetadata, OutputConfig, RequestBody, RequestMessage
from toolglot.errors import DecodeError
from toolglot.ir import Message, Native, Opaque, Request, Tool, native_of, replace, with_native
from toolglot.receipt import Receipt, describe_setting
from toolglot.tools.cached_settings import decode_with_cached_settings
from toolglot.wire import incremental_json, json
from toolglot.wire.settings_cache import SettingsCache
from toolglot.wire.structs import as_json, field_reader, members_without
from toolglot.wire.typed import UnsoundError

_TIERS = {"auto": "auto", "standard_only": "default"}
_TIER_NAMES = {tier: name for name, tier in _TIERS.items()}
_FAST = "priority"
"""Other APIs' name of the faster service. This API asks for it with `speed`."""
_SPEEDS = {"fast": _FAST, "standard": None}

_ROLES = {"tool": "user", "function": "user", "developer": "system"}
_SYSTEM_ROLES = ("system", "developer")

_LEAST_TOP_P = 0.95

# members of `Request` that this API does not have
_UNSUPPORTED = (
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "candidates",
    "logprobs",
    "top_logprobs",
    "verbosity",
    "metadata",
)
_unsupported_of = field_reader(*_UNSUPPORTED)


def path(request: Request) -> str:
    return "/v1/messages"


_SETTINGS_CACHE = SettingsCache[Request, Message]("messages")


def decode_request(data: bytes) -> Request:
    known = decode_with_cached_settings(_SETTINGS_CACHE, REQUESTS, data, _decode_messages, _with_history)
    if known is not None:
        return known
    body = REQUESTS.read(data)
    try:
        leading, messages = _decode_system(body), _decode_messages(body.messages, data)
        settings = _decode_settings(body, leading)
    except UnsoundError:
        json.decode(data)  # raises an error with the position
        raise DecodeError("$", json.TOO_DEEP) from None
    _SETTINGS_CACHE.add(data, lambda: settings)
    return _with_history(settings, messages)


def _with_history(settings: Request, messages: Sequence[Message]) -> Request:
    if messages and messages[0].role in _SYSTEM_ROLES:
        messages = [with_native(messages[0], NAME, **{"$inline": True}), *messages[1:]]
    return replace(settings, messages=(*settings.messages, *messages))


def _decode_settings(body: RequestBody, leading: list[Message]) -> Request:
    others = _native_members(body)
    tools = _take_tools(body, others)
    tool_choice, parallel = decode_choice(body.tool_choice)
    if others:
        tool_choice = take_other_choice(others) or tool_choice
    config = _NO_CONFIG if body.output_config is UNSET else body.output_config
    model = "" if body.model is UNSET else body.model
    tier, speed = _or_none(body.service_tier), _or_none(body.speed)
    return Request(
        model=model,
        messages=tuple(leading),
        tools=tools,
        tool_choice=tool_choice,
        parallel_tool_calls=parallel,
        max_output_tokens=_or_none(body.max_tokens),
        temperature=_or_none(body.temperature),
        top_p=_or_none(body.top_p),
        top_k=_or_none(body.top_k),
        stop=() if body.stop_sequences is UNSET else tuple(body.stop_sequences),
        response_format=decode_format(config.format, body.output_format),
        reasoning=decode_reasoning(body.thinking, _or_none(config.effort), model),
        user=None if body.metadata is UNSET else _or_none(body.metadata.user_id),
        service_tier=_decode_tier(tier, speed),
        cache=decode_cache(body.cache_control),
        stream=body.stream is True,
        native=_native_of_body(body, others, tier=tier, speed=speed),
    )


_NO_METADATA = AnthropicMetadata()
_NO_CONFIG = OutputConfig()
_CARRIED = ("context_management", "mcp_servers", "container", "thread")
_TYPED = tuple(name for name in RequestBody.__struct_encode_fields__ if name not in _CARRIED)

T = TypeVar("T")


def _or_none(value: T | UnsetType) -> T | None:
    return None if value is UNSET else value


def _native_members(body: RequestBody) -> dict[str, Any]:
    """Members that only this dialect understands, and empty ones."""
    if body.rest is not UNSET:
        others = members_without(body, *_TYPED)
    else:
        others = {name: value for name in _CARRIED if (value := getattr(body, name)) is not UNSET}
    if body.stop_sequences == []:
        others["stop_sequences"] = []
    if body.metadata == _NO_METADATA:
        others["metadata"] = {}
    if body.output_config == _NO_CONFIG:
        others["output_config"] = {}
    return others


def _take_tools(body: RequestBody, others: dict[str, Any]) -> tuple[Tool | Opaque, ...]:
    """Decode the tools. An empty value goes to `others`."""
    if body.tools is UNSET:
        return ()
    if not is_array(body.tools):
        others["tools"] = sound_value(body.tools)
        if others["tools"] in (None, "", {}):
            return ()
    tools = decode_tools(body.tools)
    if not tools:
        others["tools"] = []
    return tools


def _native_of_body(body: RequestBody, others: dict[str, Any], **shape: Any) -> Native:
    empty = take_empty(others, "tools", "stop_sequences", "metadata", "output_config") if others else None
    absent = [name for name in ("model", "max_tokens") if getattr(body, name) is UNSET]
    if body.output_format is not UNSET and body.output_config is not UNSET and body.output_config.format is not UNSET:
        others[OLD_FORMAT] = as_json(body.output_format)
    unstreamed = False if body.stream is False else None
    native = keep(others, empty=empty, **shape, stream=unstreamed, missing=absent or None)
    for name, part in (("output_config", body.output_config), ("metadata", body.metadata)):
        if part is not UNSET and part.rest is not UNSET:
            native.setdefault(NAME, {})[name] = dict(part.rest)
    return native


def _decode_system(body: RequestBody) -> list[Message]:
    content, shape = decode_content(body.system)
    if shape == "absent":
        return []
    return [Message(role="system", content=content, native={NAME: {"$content": shape}} if shape else {})]


def _decode_messages(wire: list[RequestMessage], data: bytes) -> list[Message]:
    return [_decode_message(message) for message in incremental_json.drain(wire)]


def _decode_message(message: RequestMessage) -> Message:
    role = message.role
    content, shape = decode_content(message.content)
    if message.rest is UNSET and message.output_config is UNSET and role not in _ROLES:
        return Message(role=role, content=content, native={} if shape is None else {NAME: {"$content": shape}})
    others = members_without(message, "role", "content")
    return Message(
        role=role, content=content, native=keep(others, content=shape, role=role if role in _ROLES else None)
    )


def encode_request(request: Request, receipt: Receipt) -> bytes:
    messages, notes = request.messages, native_of(request, NAME)
    count = _count_leading(messages)
    thinking = encode_thinking(request, receipt) if request.reasoning is not None else None
    wire: dict[str, Any] = {"model": request.model}
    if (limit := _output_limit(request, receipt)) is not None:
        wire["max_tokens"] = limit
    if count and (system := _encode_system(messages[:count], receipt)) is not None:
        wire["system"] = system
    if (tools := encode_tools(request, receipt)) is not None:
        wire["tools"] = tools
    if (choice := encode_choice(request, receipt)) is not None:
        wire["tool_choice"] = choice
    if thinking is not None:
        wire["thinking"] = thinking
    if notes or request.reasoning is not None or request.response_format is not None:
        wire |= encode_output_config(request, receipt)
    if (notes or request.user is not None) and (metadata := _encode_metadata(request)):
        wire["metadata"] = metadata
    if notes or request.service_tier is not None:
        wire |= _encode_tier(request, receipt)
    _add_sampling(wire, request, thinking, receipt)
    if request.stop:
        wire["stop_sequences"] = list(request.stop)
    if (stream := request.stream or notes.get("$stream")) is not None:
        wire["stream"] = stream
    for name, value in _unsupported_of(request):
        receipt.loss(name, describe_setting(name, value), "Messages has no such parameter")
    wire = restore_members(write_cache(wire, request.cache), request)
    wire.pop("messages", None)
    # The conversation comes last, so that one more turn leaves all bytes before it unchanged.
    wire["messages"] = _encode_messages(messages, count, receipt)
    if notes:
        wire = restore_members(without_missing(wire, request), request)
    return json.encode_document(wire, used_up="messages")


def _count_leading(messages: Sequence[Message]) -> int:
    for index, message in enumerate(messages):
        if message.role not in _SYSTEM_ROLES or (message.native and native_of(message, NAME).get("$inline")):
            return index
    return len(messages)


def _output_limit(request: Request, receipt: Receipt) -> int | None:
    if request.max_output_tokens is not None or is_missing(request, "max_tokens"):
        return request.max_output_tokens
    receipt.note("max_output_tokens", "no limit", f"Messages requires one; {DEFAULT_MAX_TOKENS} is sent")
    return DEFAULT_MAX_TOKENS


def _encode_system(leading: Sequence[Message], receipt: Receipt) -> Any:
    if len(leading) == 1:
        return encode_content(leading[0].content, _content_shape(leading[0]), "messages[0].content", receipt)
    blocks: list[dict[str, Any]] = []
    for index, message in enumerate(leading):
        where = f"messages[{index}]"
        blocks += encode_blocks(message.content, f"{where}.content", receipt)
        for key in native_of(message, NAME):
            if not key.startswith("$"):
                receipt.loss(f"{where}.{key}", key, "the system prompt has no place for fields of a message")
    return blocks or None


def _content_shape(message: Message) -> str | None:
    return read_note(native_of(message, NAME), "$content", str)


def _encode_messages(messages: Sequence[Message], start: int, receipt: Receipt) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = []
    for index in range(start, len(messages)):
        message = messages[index]
        if NAME not in message.native and (content := encode_usual_content(message.content)) is not None:
            written.append({"role": _ROLES.get(message.role, message.role), "content": content})
            continue
        came_as = native_of(message, NAME).get("$role")
        wire: dict[str, Any] = {"role": came_as if came_as == message.role else _ROLES.get(message.role, message.role)}
        content = encode_content(message.content, _content_shape(message), f"messages[{index}].content", receipt)
        if content == [] and message.content:
            continue  # the receipt has all of it as lost; the API refuses a message without content
        if content is not None or _content_shape(message) != "absent":
            wire["content"] = [] if content is None else content
        written.append(restore_members(wire, message))
    return written


def _encode_metadata(request: Request) -> dict[str, Any] | None:
    user = {"user_id": request.user} if request.user is not None else {}
    rest = read_note(native_of(request, NAME), "metadata", dict) or {}
    return {**rest, **user} or None


def _decode_tier(tier: str | None, speed: str | None) -> str | None:
    fast = _SPEEDS.get(speed or "")
    return fast or (_TIERS.get(tier, tier) if tier is not None else None)


def _encode_tier(request: Request, receipt: Receipt) -> dict[str, str]:
    notes, tier = native_of(request, NAME), request.service_tier
    if tier is None and not notes:
        return {}
    came_as, speed = read_note(notes, "$tier", str), read_note(notes, "$speed", str)
    given = {"service_tier": came_as, "speed": speed}
    if _decode_tier(came_as, speed) == tier:
        return {key: value for key, value in given.items() if value is not None}
    if tier is None:
        return {}
    if tier in (_FAST, "fast"):
        receipt.note("service_tier", tier, "Messages gives priority automatically if the account has it: auto is sent")
        return {"service_tier": "auto"}
    if tier not in _TIER_NAMES:
        receipt.loss("service_tier", tier, "Messages has the tiers auto and standard_only")
        return {}
    return {"service_tier": _TIER_NAMES[tier]}


def _add_sampling(wire: dict[str, Any], request: Request, thinking: dict[str, Any] | None, receipt: Receipt) -> None:
    """Add sampling parameters. With thinking, the API refuses `top_k`, temperatures other than 1, `top_p` < 0.95."""
    given = dict(_sampling_of(request))
    own = request.reasoning is not None and NAME in request.reasoning.native
    if given and not own and thinking is not None and thinking["type"] != "disabled":
        for name in ("temperature", "top_k", "top_p"):
            value = given.get(name, 1)
            if value < _LEAST_TOP_P if name == "top_p" else value != 1:
                receipt.loss(name, describe_setting(name, value), "the API refuses it while the model thinks")
                del given[name]
    wire.update(given)


_SAMPLING = ("temperature", "top_p", "top_k")
_sampling_of = field_reader(*_SAMPLING)
