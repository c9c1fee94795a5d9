"""`POST /v1/chat/completions`: the request body <-> `Request`.

One wire message is one `Message`. The vendors' field for reasoning (`reasoning_content`, or `reasoning` on newer
vLLM) is read as a `Thinking` block and written back under the name it came with.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias, TypeGuard

from msgspec import UNSET, Raw

from toolglot.dialects.openai_chat.blocks import (
    IMAGES,
    arguments_text,
    content_shape,
    control_of,
    decode_call,
    decode_calls,
    decode_content,
    decode_images,
    encode_call,
    encode_image,
    encode_part,
    is_call,
    is_thinking_part,
    take,
    take_control,
)
from toolglot.dialects.openai_chat.details import BLOCKS, add_details, take_details
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
    AnyMessage,
    AssistantMessage,
    Body,
    DeveloperMessage,
    FunctionMessage,
    JsonFormat,
    ModelMessage,
    OtherMessage,
    ResultMessage,
    SchemaFormat,
    SpokenMessage,
    SystemMessage,
    TextFormat,
    ToolMessage,
    UserMessage,
)
from toolglot.errors import DecodeError
from toolglot.ir import (
    Block,
    Cache,
    Media,
    Message,
    Native,
    Opaque,
    Refusal,
    Request,
    ResponseFormat,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    native_of,
    replace,
    with_native,
)
from toolglot.receipt import Receipt
from toolglot.tools.declared import DECLARED
from toolglot.wire import json
from toolglot.wire.large import emptied
from toolglot.wire.openai_fields import (
    PROMPT_CACHE,
    identifier,
    service_tier,
    strictness,
    take_prompt_cache,
    write_prompt_cache,
)
from toolglot.wire.reader import expected, keep_members, kept
from toolglot.wire.typed import as_json, count_members, members_without

Placed: TypeAlias = tuple[Block, str]
"""A block and its path."""

REASONING_FIELDS = ("reasoning_content", "reasoning")
_REASONING = frozenset(REASONING_FIELDS)

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


def decode_request(data: bytes) -> Request:
    body = REQUESTS.read(data)
    messages = tuple([_DECODERS[type(message)](message) for message in emptied(body.messages)])
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
    return Request(messages=messages, native=keep_members(NAME, rest, **shape), **fields)


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


def is_legacy(tools: tuple[Tool | Opaque, ...]) -> bool:
    """Did the client ask with the deprecated `functions`? Then it is answered with `function_call`."""
    return any(native_of(tool, NAME).get("$legacy") for tool in tools)


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


_ROLES: dict[type[SpokenMessage], str] = {
    UserMessage: "user",
    SystemMessage: "system",
    DeveloperMessage: "developer",
    AssistantMessage: "assistant",
}
_NULL: Native = {NAME: {"$content": "null"}}


# Nearly all messages of a long conversation say just what they must. They are read at once.


def _decode_text(message: SpokenMessage) -> Message:
    content = message.content
    if type(content) is str and content and count_members(message) == 1:
        return Message(role=_ROLES[type(message)], content=(Text(text=content),))
    return _decode_spoken(message)


def _decode_assistant(message: AssistantMessage) -> Message:
    content, listed = message.content, message.tool_calls
    if not listed:
        return _decode_text(message)
    if count_members(message) == 2:
        if content is None:
            return Message(role="assistant", content=tuple([decode_call(call) for call in listed]), native=_NULL)
        if type(content) is str and content:
            calls = [decode_call(call) for call in listed]
            return Message(role="assistant", content=(Text(text=content), *calls))
    return _decode_spoken(message)


def _decode_tool(message: ToolMessage) -> Message:
    content, call_id = message.content, message.tool_call_id
    if type(content) is str and content and call_id and count_members(message) == 2:
        return Message(role="tool", content=(ToolResult(call_id=call_id, content=(Text(text=content),)),))
    return _decode_result(message)


def _decode_spoken(message: SpokenMessage) -> Message:
    """A message that has more to it: reasoning, a refusal, deprecated calls, unknown members."""
    model = message if isinstance(message, ModelMessage) else None
    rest = members_without(message, "content", *(named_calls(model) if model else ()))
    role = _ROLES.get(type(message)) or rest.pop("role")
    blocks, reasoning = decode_content(message.content), take_reasoning(rest)
    shape: dict[str, Any] = {"content": content_shape(message.content)}
    if message.refusal:
        blocks = (*blocks, take_refusal(rest))
    if model:
        reasoning = take_details(rest, reasoning)
        blocks = (*blocks, *decode_images(model), *decode_calls(model))
        if model.tool_calls == []:
            del rest["tool_calls"]
            shape["no_calls"] = True
    content = (*reasoning, *blocks)
    if "cache_control" in rest:
        cache, shape["cache_control"] = take_control(rest)
        content = content if cache is None else _with_mark(content, cache)
    return Message(role=role, content=content, native=keep_members(NAME, rest, **shape))


def named_calls(message: ModelMessage) -> list[str]:
    """The names of the members with calls and images that a message has. Nulls and empty lists are not read."""
    return [name for name in _TYPED_LISTS if getattr(message, name)]


_TYPED_LISTS = ("tool_calls", "function_call", "images")


def _with_mark(content: tuple[Block, ...], cache: Cache) -> tuple[Block, ...]:
    """The breakpoint of a message stands on its last block."""
    for index in range(len(content) - 1, -1, -1):
        block = content[index]
        if isinstance(block, Text | Media | ToolCall) and block.cache is None:
            marked = with_native(replace(block, cache=cache), NAME, **{"$marked_by_message": True})
            return (*content[:index], marked, *content[index + 1 :])
    return content


def _decode_result(message: ResultMessage) -> Message:
    content, call_id = message.content, message.tool_call_id
    rest = members_without(message, "content")
    cache, control = take_control(rest)
    name = take(rest, "name")
    result = ToolResult(
        call_id=take(rest, "tool_call_id") or "", name=name, content=decode_content(content), cache=cache
    )
    notes = {
        "content": content_shape(content),
        "named": True if name is not None else None,
        "legacy": True if isinstance(message, FunctionMessage) else None,
        "no_id": True if not isinstance(call_id, str) else None,
        "cache_control": control,
    }
    return Message(role="tool", content=(result,), native=keep_members(NAME, rest, **notes))


_DECODERS: dict[type[AnyMessage], Callable[[Any], Message]] = {
    UserMessage: _decode_text,
    AssistantMessage: _decode_assistant,
    ToolMessage: _decode_tool,
    SystemMessage: _decode_text,
    DeveloperMessage: _decode_text,
    FunctionMessage: _decode_result,
    OtherMessage: _decode_spoken,
}


def encode_request(request: Request, receipt: Receipt) -> bytes:
    return json.encode_document(request_fields(request, receipt), used_up="messages")


def request_fields(request: Request, receipt: Receipt) -> dict[str, Any]:
    notes = native_of(request, NAME)
    rest = kept(notes)
    limit_name = notes.get("$max") or _limit_name(request.model)
    parallel = None if notes.get("$no_parallel") else request.parallel_tool_calls
    fields: dict[str, Any] = {
        "model": request.model if request.model or not notes.get("$no_model") else None,
        "messages": [
            wire
            for index, message in enumerate(request.messages)
            for wire in _encode_message(message, f"messages[{index}]", receipt)
        ],
        **encode_tools(request, receipt),
        **encode_choice(request, receipt),
        "parallel_tool_calls": parallel,
        limit_name: request.max_output_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "top_k": request.top_k,
        "seed": request.seed,
        "presence_penalty": request.presence_penalty,
        "frequency_penalty": request.frequency_penalty,
        "n": request.candidates,
        "logprobs": request.logprobs,
        "top_logprobs": request.top_logprobs,
        "stop": _encode_stop(request),
        "response_format": _encode_format(request.response_format, receipt),
        **encode_reasoning(request.reasoning, rest, receipt),
        "verbosity": request.verbosity,
        **_encode_user(request, receipt),
        "metadata": request.metadata,
        "service_tier": _encode_tier(request, receipt),
        **(control_of(request) if request.cache is not None else {}),
        **write_prompt_cache(request.prompt_cache),
        "store": request.store,
        "stream": True if request.stream else notes.get("$stream"),
        # A stream without usage at its end would leave the client's side without any.
        "stream_options": {"include_usage": True} if request.stream and NAME not in request.native else None,
    }
    present = {key: value for key, value in fields.items() if value is not None}
    return {**present, **rest, **{name: present[name] for name in rest.keys() & REASONING_MEMBERS & present.keys()}}


def _encode_tier(request: Request, receipt: Receipt) -> str | None:
    """The tier in the word that it came in, while it still is the same."""
    tier, came_as = request.service_tier, native_of(request, NAME).get("$tier")
    if came_as is not None and TIERS.get(came_as) == tier:
        return str(came_as)
    return tier if NAME in request.native else service_tier(tier, receipt)


def _limit_name(model: str) -> str:
    return "max_completion_tokens" if _COMPLETION_LIMIT.match(model) else "max_tokens"


def _encode_stop(request: Request) -> list[str] | str | None:
    if native_of(request, NAME).get("$stop") and len(request.stop) == 1:
        return request.stop[0]
    return list(request.stop) or None


def _encode_user(request: Request, receipt: Receipt) -> dict[str, str]:
    own, user = native_of(request, NAME).get("$user"), request.user
    if user is None:
        return {}
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


def _encode_message(message: Message, where: str, receipt: Receipt) -> list[dict[str, Any]]:
    """The wire messages of one message: each tool result is a message of its own and stands first."""
    if NAME not in message.native and len(message.content) == 1 and (plain := _plain(message.role, message.content[0])):
        return [plain]
    results: list[dict[str, Any]] = []
    others: list[Placed] = []
    for index, block in enumerate(message.content):
        place = f"{where}.content[{index}]"
        if isinstance(block, ToolResult):
            results.append(_encode_result(block, message, place, receipt))
        else:
            others.append((block, place))
    if results and not others:
        return results
    role = "user" if message.role == "tool" else message.role
    return [*results, _encode_plain(role, others, message, receipt)]


def _plain(role: str, block: Block) -> dict[str, Any] | None:
    """The wire form of a message that is one text, or one result that is a text, and nothing else."""
    if type(block) is Text and role != "tool":
        return {"role": role, "content": block.text} if _is_bare(block) else None
    if type(block) is ToolResult and len(block.content) == 1 and _is_bare(text := block.content[0]):
        return {"role": "tool", "tool_call_id": block.call_id, "content": text.text}
    return None


def _is_bare(block: Block) -> TypeGuard[Text]:
    """A text that a string says in full."""
    if not isinstance(block, Text):
        return False
    notes = native_of(block, NAME)
    return (block.cache is None and not notes) or notes.keys() == {"$marked_by_message"}


def _encode_plain(role: str, blocks: list[Placed], message: Message, receipt: Receipt) -> dict[str, Any]:
    notes = native_of(message, NAME)
    wire: dict[str, Any] = {"role": role}
    parts: list[Placed] = []
    calls: list[ToolCall | Opaque] = []
    for block, place in blocks:
        if is_call(block):
            calls.append(block)
            continue
        match block:
            case Thinking() if not is_thinking_part(block):
                _add_reasoning(wire, block, place, receipt)
            case Media() if "$entry" in native_of(block, NAME):
                if (image := encode_image(block, place, receipt)) is not None:
                    wire.setdefault(IMAGES, []).append(image)
            case Refusal(text=text) if native_of(block, NAME).get("$field"):
                wire["refusal"] = text
            case _:
                if calls:
                    receipt.note(place, "text after a call", "Chat has the text before the calls")
                parts.append((block, place))
    shape = notes.get("$content")
    if parts or shape != "absent":
        missing = None if calls or "refusal" in wire else ""
        wire["content"] = _encode_content(parts, shape, missing, receipt)
    _add_calls(wire, calls)
    if notes.get("$no_calls") and not calls:
        wire["tool_calls"] = []
    return {**wire, **kept(notes), **control_of(message)}


def _add_reasoning(wire: dict[str, Any], block: Thinking, place: str, receipt: Receipt) -> None:
    if not add_details(wire, block) and not block.text:
        receipt.loss(place, "reasoning without text", "Chat Completions has no place for it")
    for field in reasoning_fields(block):
        wire[field] = f"{wire[field]}\n\n{block.text}" if field in wire else block.text


def take_reasoning(members: dict[str, Any]) -> list[Thinking]:
    """The reasoning of a message. Newer versions of vLLM say the same in both fields."""
    if _REASONING.isdisjoint(members):
        return []
    texts = {field: members.pop(field) for field in REASONING_FIELDS if isinstance(members.get(field), str)}
    found = {field: text for field, text in texts.items() if text}
    if len(found) > 1 and len(set(found.values())) == 1:
        field = REASONING_FIELDS[0]
        return [Thinking(text=found[field], native={NAME: {"$field": field, "$twice": True}})]
    return [Thinking(text=text, native={NAME: {"$field": field}}) for field, text in found.items()]


def take_refusal(members: dict[str, Any]) -> Refusal:
    return Refusal(text=members.pop("refusal"), native={NAME: {"$field": True}})


def reasoning_fields(block: Thinking) -> tuple[str, ...]:
    """The fields that the text of this reasoning goes to."""
    notes = native_of(block, NAME)
    field = notes.get("$field", REASONING_FIELDS[0])
    if not block.text or field == BLOCKS:  # their entries hold it
        return ()
    return REASONING_FIELDS if notes.get("$twice") else (field,)


def _add_calls(wire: dict[str, Any], calls: list[ToolCall | Opaque]) -> None:
    listed: list[dict[str, Any]] = []
    for call in calls:
        notes = native_of(call, NAME)
        if isinstance(call, ToolCall) and notes.get("$legacy"):
            wire["function_call"] = {"name": call.name, "arguments": arguments_text(call), **kept(notes)}
        else:
            listed.append(encode_call(call))
    if listed:
        wire["tool_calls"] = listed


_EMPTY: dict[str | None, Any] = {"empty": "", "parts": [], "null": None}


def _encode_content(parts: list[Placed], shape: str | None, missing: str | None, receipt: Receipt) -> Any:
    """A string for one plain text, else a list of parts; `missing` stands for no content unless its shape is known."""
    if not parts:
        return _EMPTY.get(shape, missing)
    first = parts[0][0]
    if len(parts) == 1 and shape != "parts" and _is_bare(first):
        return first.text
    encoded = [encode_part(part, place, receipt) for part, place in parts]
    return [part for part in encoded if part is not None]


def _encode_result(result: ToolResult, message: Message, where: str, receipt: Receipt) -> dict[str, Any]:
    # What rides on the message belongs to its one result; a message with more came from another wire.
    notes = native_of(message, NAME) if len(message.content) == 1 else {}
    legacy = bool(notes.get("$legacy"))
    identity: dict[str, Any] = {}
    # The deprecated role goes by name alone, also when an id has been derived meanwhile.
    if not notes.get("$no_id") or (result.call_id and not legacy):
        identity["tool_call_id"] = result.call_id
    if (notes.get("$named") or legacy) and result.name is not None:
        identity["name"] = result.name
    role = "function" if legacy else "tool"
    shape = notes.get("$content")
    parts = [(part, f"{where}.content[{index}]") for index, part in enumerate(result.content)]
    content = _encode_content(parts, shape, "", receipt)
    mark = control_of(message) if notes else {}
    return {"role": role, **identity, **({} if shape == "absent" else {"content": content}), **kept(notes), **mark}
