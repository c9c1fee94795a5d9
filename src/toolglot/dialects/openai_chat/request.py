"""`POST /v1/chat/completions`: the request body <-> `Request`.

One wire message is one `Message`. The vendors' field for reasoning (`reasoning_content`, or `reasoning` on newer
vLLM) is read as a `Thinking` block and written back under the name it came with.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias, TypeGuard

from toolglot.dialects.openai_chat.blocks import (
    IMAGES,
    arguments_text,
    control_of,
    decode_calls,
    decode_content,
    encode_call,
    encode_image,
    encode_part,
    is_call,
    is_thinking_part,
    take_control,
    take_images,
)
from toolglot.dialects.openai_chat.details import BLOCKS, add_details, take_details
from toolglot.dialects.openai_chat.native import NAME
from toolglot.dialects.openai_chat.plain import plain_message
from toolglot.dialects.openai_chat.reasoning import decode_reasoning, encode_reasoning
from toolglot.dialects.openai_chat.tools import decode_choice, decode_tools, encode_choice, encode_tools
from toolglot.errors import DecodeError
from toolglot.ir import (
    Block,
    Cache,
    Media,
    Message,
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
from toolglot.wire import json
from toolglot.wire.large import emptied
from toolglot.wire.openai_fields import (
    identifier,
    service_tier,
    strictness,
    take_prompt_cache,
    write_prompt_cache,
)
from toolglot.wire.reader import Reader, document, expected, keep, kept

Placed: TypeAlias = tuple[Block, str]
"""A block and its path."""

_WISHES = frozenset({"reasoning", "thinking", "chat_template_kwargs"})
"""Members that hold a wish for reasoning, and may hold more."""
REASONING_FIELDS = ("reasoning_content", "reasoning")

TIERS = {"on_demand": "default", "performance": "priority"}
"""Groq's words for service tiers, and what the IR calls them."""

# OpenAI's reasoning models refuse `max_tokens`; many compatible servers know nothing else.
_COMPLETION_LIMIT = re.compile(r"^(openai/)?(gpt-[5-9]|gpt-\d\d|o\d|chatgpt|codex)")


def path(request: Request) -> str:
    return "/v1/chat/completions"


def decode_request(data: bytes) -> Request:
    body = document(data)
    if "messages" not in body:
        raise DecodeError(body.at("messages"), "this array is required")
    where = body.at("messages")
    messages = tuple(
        plain_message(item) or _decode_message(Reader(item, f"{where}[{index}]"))
        for index, item in enumerate(emptied(body.array("messages") or []))
    )
    empty_tools = body.peek("tools") == []
    tools, tool_choice = decode_tools(body), decode_choice(body)
    legacy = is_legacy(tools)
    limit_name = "max_completion_tokens" if "max_completion_tokens" in body else "max_tokens"
    limit = body.integer(limit_name)
    user_name = "safety_identifier" if "safety_identifier" in body else "user"
    stop, one_stop = _decode_stop(body)
    reasoning = decode_reasoning(body)
    cache, control = take_control(body)
    parallel, tier = body.flag("parallel_tool_calls"), body.text("service_tier")
    fields: dict[str, Any] = {
        "model": body.text("model") or "",
        "tool_choice": tool_choice,
        # An answer in the deprecated form has room for one call.
        "parallel_tool_calls": False if legacy and parallel is None else parallel,
        "max_output_tokens": limit,
        "temperature": body.number("temperature"),
        "top_p": body.number("top_p"),
        "top_k": body.integer("top_k"),
        "seed": body.integer("seed"),
        "presence_penalty": body.number("presence_penalty"),
        "frequency_penalty": body.number("frequency_penalty"),
        "candidates": body.integer("n"),
        "logprobs": body.flag("logprobs") if type(body.peek("logprobs")) is bool else None,
        "top_logprobs": body.integer("top_logprobs"),
        "response_format": _decode_format(body),
        "reasoning": reasoning,
        "verbosity": body.text("verbosity"),
        "user": body.text(user_name),
        "metadata": _decode_metadata(body),
        "service_tier": TIERS.get(tier, tier) if tier is not None else None,
        "cache": cache,
        "prompt_cache": take_prompt_cache(body),
        "store": body.flag("store"),
        "stream": body.flag("stream"),
    }
    shape = {
        "tier": tier if tier in TIERS else None,
        "max": limit_name if limit is not None else None,
        "user": user_name if fields["user"] is not None else None,
        "stop": one_stop or None,
        # Also True: that this dialect has spoken is how the encoder knows whether to ask for usage on its own.
        "stream": fields["stream"],
        "no_tools": empty_tools or None,
        "no_parallel": True if legacy and parallel is None else None,
        "no_model": True if not fields["model"] else None,
        "cache_control": control,
    }
    fields["stream"] = bool(fields["stream"])
    return Request(messages=messages, tools=tools, stop=stop, native=keep(NAME, body, **shape), **fields)


def is_legacy(tools: tuple[Tool | Opaque, ...]) -> bool:
    """Did the client ask with the deprecated `functions`? Then it is answered with `function_call`."""
    return any(native_of(tool, NAME).get("$legacy") for tool in tools)


def _decode_stop(body: Reader) -> tuple[tuple[str, ...], bool]:
    value = body.peek("stop")
    if value is None:
        return (), False
    if isinstance(value, str):
        body.take("stop")
        return (value,), True
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise expected(body.at("stop"), "a string or an array of strings", value)
    if value:  # an empty list stays with the rest
        body.take("stop")
    return tuple(value), False


def _decode_metadata(body: Reader) -> dict[str, str] | None:
    value = body.peek("metadata")
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        return None
    body.take("metadata")
    return value


def _decode_format(body: Reader) -> ResponseFormat | None:
    value = body.peek("response_format")
    if not isinstance(value, dict):
        return None
    kind, inner = value.get("type"), value.get("json_schema")
    if kind == "json_schema" and isinstance(inner, dict):
        body.take("response_format")
        schema = Reader(inner, body.at("response_format.json_schema"))
        strict = schema.flag("strict")
        return ResponseFormat(
            kind="json_schema",
            name=schema.text("name"),
            description=schema.text("description"),
            schema=schema.take("schema"),
            strict=bool(strict),  # what is not said is not strict here
            native=keep(NAME, schema, lax=True if strict is None else None),
        )
    if value == {"type": "json_object"} or value == {"type": "text"}:
        body.take("response_format")
        return ResponseFormat(kind="json" if kind == "json_object" else "text")
    return None


def _decode_message(message: Reader) -> Message:
    role = message.need_text("role")
    if role in ("tool", "function"):
        return _decode_result(message, role)
    shape, blocks = _take_content(message)
    reasoning = take_reasoning(message)
    if message.peek("refusal"):
        blocks = (*blocks, Refusal(text=message.need_text("refusal"), native={NAME: {"$field": True}}))
    no_calls = True if role == "assistant" and message.peek("tool_calls") == [] else None
    calls: tuple[Block, ...] = ()
    if role == "assistant":
        blocks = (*blocks, *take_images(message))
        reasoning, calls = take_details(message, reasoning), decode_calls(message)
    cache, control = take_control(message)
    content = (*reasoning, *blocks, *calls)
    if cache is not None:
        content = _with_mark(content, cache)
    native = keep(NAME, message, content=shape, no_calls=no_calls, cache_control=control)
    return Message(role=role, content=content, native=native)


def _with_mark(content: tuple[Block, ...], cache: Cache) -> tuple[Block, ...]:
    """The breakpoint of a message stands on its last block."""
    for index in range(len(content) - 1, -1, -1):
        block = content[index]
        if isinstance(block, Text | Media | ToolCall) and block.cache is None:
            marked = with_native(replace(block, cache=cache), NAME, **{"$marked_by_message": True})
            return (*content[:index], marked, *content[index + 1 :])
    return content


def _take_content(message: Reader) -> tuple[str | None, tuple[Block, ...]]:
    """The content, and how it stood there where its blocks do not tell."""
    fields = message.rest()
    if "content" not in fields:
        return "absent", ()
    content = fields.pop("content")
    shape = "null" if content is None else "empty" if content == "" else "parts" if isinstance(content, list) else None
    return shape, decode_content(content, message.at("content"))


def _decode_result(message: Reader, role: str) -> Message:
    shape, content = _take_content(message)
    no_id = "tool_call_id" not in message
    call_id, name, (cache, control) = message.text("tool_call_id"), message.text("name"), take_control(message)
    result = ToolResult(call_id=call_id or "", name=name, content=content, cache=cache)
    notes = {
        "content": shape,
        "named": True if result.name is not None else None,
        "legacy": True if role == "function" else None,
        "no_id": True if no_id else None,
        "cache_control": control,
    }
    return Message(role="tool", content=(result,), native=keep(NAME, message, **notes))


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
    return {**present, **rest, **{name: present[name] for name in rest.keys() & _WISHES & present.keys()}}


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


def take_reasoning(message: Reader) -> list[Thinking]:
    """The reasoning of a message. Newer versions of vLLM say the same in both fields."""
    found = {
        field: text
        for field in REASONING_FIELDS
        if isinstance(message.peek(field), str) and (text := message.text(field))
    }
    if len(found) > 1 and len(set(found.values())) == 1:
        field = REASONING_FIELDS[0]
        return [Thinking(text=found[field], native={NAME: {"$field": field, "$twice": True}})]
    return [Thinking(text=text, native={NAME: {"$field": field}}) for field, text in found.items()]


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
