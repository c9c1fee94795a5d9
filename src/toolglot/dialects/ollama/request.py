"""`POST /api/chat` and `/api/generate`: the request body <-> `Request`.

A request of `/api/generate` becomes a conversation of one message; a note on its shape restores the original form.
Ollama treats a model without a tag like one with `:latest`, and some clients add the tag; a note keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET

from toolglot.dialects.ollama.blocks import (
    OllamaMessageWriter,
    decode_calls,
    decode_images,
    decode_usual_call,
    encode_usual_call,
)
from toolglot.dialects.ollama.native import NAME
from toolglot.dialects.ollama.tools import decode_tools, encode_tools
from toolglot.dialects.ollama.wire import REQUESTS, OllamaChatMessage, OllamaRequestBody
from toolglot.errors import DecodeError, expected
from toolglot.ir import (
    Block,
    Media,
    Message,
    Opaque,
    Reasoning,
    Request,
    Response,
    ResponseFormat,
    Stop,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    native_of,
    replace,
)
from toolglot.models import LATEST
from toolglot.receipt import Receipt
from toolglot.tools.cached_settings import decode_with_cached_settings
from toolglot.tools.declared import DECLARED
from toolglot.wire import json
from toolglot.wire.incremental_json import drain
from toolglot.wire.native import fill_members, make_native, native_members
from toolglot.wire.settings_cache import SettingsCache
from toolglot.wire.structs import count_members, field_reader, members_without

_OPTIONS = ("temperature", "top_p", "top_k", "seed", "presence_penalty", "frequency_penalty")
"""Options with the same name in the IR."""
_options_of = field_reader(*_OPTIONS)
_READ_MEMBERS = ("model", "messages", "tools", "prompt", "system", "images", "stream", "options", "think", "format")


def path(request: Request) -> str:
    return "/api/generate" if is_generate(request) else "/api/chat"


def is_generate(request: Request | None) -> bool:
    """Return whether this is a request of `/api/generate` whose content still fits that form."""
    if request is None or not native_of(request, NAME).get("$generate"):
        return False
    *system, user = request.messages or (Message(role="user"),)
    return (
        not request.tools
        and user.role == "user"
        and all(isinstance(block, (Text, Media)) for block in user.content)
        and len(system) <= 1
        and all(message.role == "system" for message in system)
    )


def answer_without_model(request: Request) -> Response | None:
    """Return the answer to a request without content. Clients send it to load a model (`ollama run` begins with it),
    and with `keep_alive: 0` to unload it. None for other requests.
    """
    if any(message.content for message in request.messages if message.role != "system"):
        return None
    if request.messages and not is_generate(request):
        return None
    unloads = native_of(request, NAME).get("keep_alive") in (0, "0", "0s")
    return Response(model=request.model, stop=Stop("end", "unload" if unloads else "load"), native={NAME: {}})


# Decoding


_SETTINGS_CACHE = SettingsCache[Request, Message]("messages")


def decode_request(data: bytes) -> Request:
    known = decode_with_cached_settings(_SETTINGS_CACHE, REQUESTS, data, _decode_messages, _with_history)
    if known is not None:
        return known
    body = REQUESTS.read(data)
    settings = _decode_settings(body, data)
    if body.messages is UNSET:
        return settings
    messages = _decode_messages(body.messages, data)
    _SETTINGS_CACHE.add(data, lambda: settings)
    return _with_history(settings, messages)


def _with_history(settings: Request, messages: Sequence[Message]) -> Request:
    return replace(settings, messages=tuple(messages))


def _decode_settings(body: OllamaRequestBody, data: bytes) -> Request:
    """Decode everything except the messages of `/api/chat`."""
    rest = members_without(body, *_READ_MEMBERS)
    shape: dict[str, Any] = {"generate": True if body.messages is UNSET else None}
    fields: dict[str, Any] = {"model": _decode_model(body, shape), "tools": _read_tools(body, rest, shape, data)}
    fields["stream"] = body.stream is UNSET or body.stream
    shape["stream"] = "absent" if body.stream is UNSET else None
    messages = _decode_prompt(body, shape) if body.messages is UNSET else ()
    _decode_options(body, rest, fields, shape)
    _decode_think(body, fields)
    _decode_format(body, rest, fields)
    for name in ("logprobs", "top_logprobs"):
        if rest.get(name) is not None:
            fields[name] = rest.pop(name)
    return Request(messages=tuple(messages), native=make_native(NAME, rest, **shape), **fields)


def _decode_model(body: OllamaRequestBody, shape: dict[str, Any]) -> str:
    model = body.model or ""
    shape["no_model"] = True if body.model is UNSET else None
    if model.endswith(LATEST) and model != LATEST:
        shape["latest"] = True
        return model.removesuffix(LATEST)
    return model


def _read_tools(
    body: OllamaRequestBody, rest: dict[str, Any], shape: dict[str, Any], data: bytes
) -> tuple[Tool | Opaque, ...]:
    raw = body.tools
    if raw is UNSET:
        return ()
    if bytes(raw) == b"null":
        rest["tools"] = None
        return ()
    try:
        tools: tuple[Tool | Opaque, ...] = DECLARED.read(NAME, raw, decode_tools, tuple)
    except DecodeError:
        json.decode(data)  # errors of the JSON itself come first
        raise
    shape["no_tools"] = None if tools else True
    return tools


def _decode_prompt(body: OllamaRequestBody, shape: dict[str, Any]) -> list[Message]:
    """Decode the conversation of a request of `/api/generate`."""
    absent = [name for name in ("prompt", "system") if getattr(body, name) is UNSET]
    shape["absent"] = absent or None
    shape["no_images"] = True if body.images == [] else None
    system = [Message(role="system", content=(Text(text=body.system),))] if body.system else []
    text = (Text(text=body.prompt),) if body.prompt else ()
    return [*system, Message(role="user", content=(*text, *decode_images(body.images)))]


def _decode_messages(messages: list[OllamaChatMessage], data: bytes) -> list[Message]:
    return [
        _decode_usual_message(message) or _decode_message(message, index)
        for index, message in enumerate(drain(messages))
    ]


def _decode_usual_message(message: OllamaChatMessage) -> Message | None:
    """Decode a message with only a text, a text and calls, or one result: nearly all messages. None for others."""
    role, text = message.role, message.content
    if not text:
        return None
    count = count_members(message)
    if role == "tool":
        name, call_id = message.tool_name, message.tool_call_id
        if count != 4 or not name or not call_id:
            return None
        return Message(role="tool", content=(ToolResult(call_id=call_id, name=name, content=(Text(text=text),)),))
    if count == 2:
        return Message(role=role, content=(Text(text=text),))
    if count != 3 or not message.tool_calls:
        return None
    calls = [decode_usual_call(call) for call in message.tool_calls]
    return None if None in calls else Message(role=role, content=(Text(text=text), *calls))  # type: ignore[arg-type]


def _decode_message(message: OllamaChatMessage, index: int) -> Message:
    rest = members_without(message, "role", "content", "thinking", "images", "tool_calls", "tool_name", "tool_call_id")
    shape: dict[str, Any] = {
        "content": "absent" if message.content is UNSET else None,
        "no_calls": True if message.tool_calls == [] else None,
        "no_images": True if message.images == [] else None,
        "no_thinking": True if message.thinking == "" else None,
    }
    if message.role == "tool":
        return _decode_result(message, rest, shape)
    content: list[Block] = [Thinking(text=message.thinking)] if message.thinking else []
    content += [Text(text=message.content)] if message.content else []
    content += decode_images(message.images)
    content += decode_calls(message.tool_calls, f"$.messages[{index}].tool_calls", of_answer=False)
    for name in ("tool_name", "tool_call_id"):
        if (value := getattr(message, name)) is not UNSET:
            rest[name] = value
    return Message(role=message.role, content=tuple(content), native=make_native(NAME, rest, **shape))


def _decode_result(message: OllamaChatMessage, rest: dict[str, Any], shape: dict[str, Any]) -> Message:
    """Decode a message with the result of one tool. Members of other roles are kept as native."""
    for name in ("thinking", "tool_calls"):
        if getattr(message, name):
            rest |= members_without(message, *(each for each in message.__struct_encode_fields__ if each != name))
    text = (Text(text=message.content),) if message.content else ()
    tool = message.tool_name or None
    if tool is None and isinstance(rest.get("name"), str):  # older clients
        shape["name"] = tool = rest.pop("name")
    result = ToolResult(
        call_id=message.tool_call_id or "",
        name=tool,
        content=(*text, *decode_images(message.images)),
    )
    shape["no_id"] = True if message.tool_call_id is UNSET else None
    shape["no_name"] = True if message.tool_name is UNSET else None
    return Message(role="tool", content=(result,), native=make_native(NAME, rest, **shape))


def _decode_options(
    body: OllamaRequestBody, rest: dict[str, Any], fields: dict[str, Any], shape: dict[str, Any]
) -> None:
    options = body.options
    if options is UNSET:
        if body.rest is not UNSET and "options" in body.rest:
            rest["options"] = body.rest["options"]
        return
    others = members_without(options)
    for name in _OPTIONS:
        if others.get(name) is not None:
            fields[name] = others.pop(name)
    # -1 means no limit, -2 means to fill the context.
    if (limit := others.get("num_predict")) is not None and limit > 0:
        fields["max_output_tokens"] = others.pop("num_predict")
    if others.get("stop"):
        fields["stop"] = tuple(others.pop("stop"))
    if others:
        rest["options"] = others
    shape["options"] = True


def _decode_think(body: OllamaRequestBody, fields: dict[str, Any]) -> None:
    think = body.think
    if think is UNSET:
        return
    if isinstance(think, bool):
        fields["reasoning"] = Reasoning(mode="on" if think else "off")
    else:
        fields["reasoning"] = Reasoning(mode="on", effort=think)


def _decode_format(body: OllamaRequestBody, rest: dict[str, Any], fields: dict[str, Any]) -> None:
    match body.format:
        case "json":
            fields["response_format"] = ResponseFormat(kind="json")
        case dict() as schema:
            fields["response_format"] = ResponseFormat(kind="json_schema", schema=schema)
        case None | "":
            rest["format"] = body.format
        case value if value is not UNSET:
            raise expected("$.format", '"json" or an object with a schema', value)


# Encoding


def encode_request(request: Request, receipt: Receipt) -> bytes:
    return json.encode_document(_encode_members(request, receipt), used_up="messages")


def _encode_members(request: Request, receipt: Receipt) -> dict[str, Any]:
    notes = native_of(request, NAME)
    rest = native_members(notes)
    fields: dict[str, Any] = {}
    if (model := _encode_model(request.model, notes)) is not None:
        fields["model"] = model
    fields |= _encode_prompt(request, receipt) if is_generate(request) else _encode_messages(request, receipt)
    if (tools := encode_tools(request, receipt)) is not None:
        fields["tools"] = tools
    # Ollama streams by default.
    if not request.stream or notes.get("$stream") != "absent":
        fields["stream"] = request.stream
    if (form := _encode_format(request.response_format, receipt)) is not None:
        fields["format"] = form
    options = _encode_options(request, rest.pop("options") if rest.get("options") else {})
    if options or notes.get("$options"):
        fields["options"] = options
    if (think := _encode_think(request.reasoning)) is not None:
        fields["think"] = think
    if request.logprobs is not None:
        fields["logprobs"] = request.logprobs
    if request.top_logprobs is not None:
        fields["top_logprobs"] = request.top_logprobs
    if not rest:
        return fields
    return {**rest, **fields} if rest.get("options", 0) is None else {**fields, **rest}


def _encode_model(model: str, notes: Mapping[str, Any]) -> str | None:
    if not model and notes.get("$no_model"):
        return None
    return model + LATEST if notes.get("$latest") and ":" not in model else model


def _encode_prompt(request: Request, receipt: Receipt) -> dict[str, Any]:
    notes = native_of(request, NAME)
    absent = notes.get("$absent", ())
    *system, user = request.messages or (Message(role="user"),)
    writer = OllamaMessageWriter(receipt, of_request=True)
    for index, block in enumerate(user.content):
        writer.add(block, f"messages[{len(system)}].content[{index}]")
    text = "".join(block.text for message in system for block in message.content if isinstance(block, Text))
    members: dict[str, Any] = {}
    if writer.content or "prompt" not in absent:
        members["prompt"] = writer.content
    if text or "system" not in absent:
        members["system"] = text
    if writer.images or notes.get("$no_images"):
        members["images"] = writer.images
    return members


def _encode_messages(request: Request, receipt: Receipt) -> dict[str, Any]:
    names: dict[str, str] = {}
    messages: list[dict[str, Any]] = []
    for index, message in enumerate(request.messages):
        for block in message.content:
            if type(block) is ToolCall:
                names[block.id] = block.name
        if (
            NAME not in message.native
            and (usual := _encode_usual_message(message.role, message.content, names)) is not None
        ):
            messages.append(usual)
        else:
            messages += _encode_message(message, f"messages[{index}]", names, receipt)
    return {"messages": messages}


def _encode_usual_message(role: str, content: tuple[Block, ...], names: dict[str, str]) -> dict[str, Any] | None:
    """Encode a message that has only a text and then calls, or one result of one text.

    This is the fast path for nearly all messages. None if a block is of another form, or needs a line in the receipt.
    """
    text, calls = "", list[dict[str, Any]]()
    for block in content:
        if type(block) is Text:
            if text or calls or block.citations:
                return None
            text = block.text
        elif type(block) is ToolCall:
            if (call := encode_usual_call(block)) is None:
                return None
            calls.append(call)
        elif type(block) is ToolResult and len(content) == len(block.content) == 1:
            only = block.content[0]
            if type(only) is not Text or only.citations:
                return None
            wire: dict[str, Any] = {"role": "tool", "content": only.text}
            if name := block.name or names.get(block.call_id):
                wire["tool_name"] = name
            if block.call_id:
                wire["tool_call_id"] = block.call_id
            return wire
        else:
            return None
    return {"role": role, "content": text, "tool_calls": calls} if calls else {"role": role, "content": text}


def _encode_message(message: Message, where: str, names: dict[str, str], receipt: Receipt) -> list[dict[str, Any]]:
    """Encode one message of the IR as one or more messages: each result has its own, before the rest of the message."""
    results = [
        (block, f"{where}.content[{index}]")
        for index, block in enumerate(message.content)
        if isinstance(block, ToolResult)
    ]
    alone = len(message.content) == 1 and bool(results)
    encoded = [_encode_result(block, message if alone else None, place, names, receipt) for block, place in results]
    if alone:
        return encoded
    writer = OllamaMessageWriter(receipt, of_request=True)
    for index, block in enumerate(message.content):
        if not isinstance(block, ToolResult):
            writer.add(block, f"{where}.content[{index}]")
    if results and not (writer.texts or writer.members()):
        return encoded
    notes = native_of(message, NAME)
    content = {} if notes.get("$content") == "absent" and not writer.content else {"content": writer.content}
    written = {"role": message.role, **content, **writer.members()}
    return [*encoded, fill_members(written, {**_empty_members(notes), **native_members(notes)})]


_EMPTY = {"$no_calls": ("tool_calls", []), "$no_images": ("images", []), "$no_thinking": ("thinking", "")}


def _empty_members(notes: Any) -> dict[str, Any]:
    return {name: value for note, (name, value) in _EMPTY.items() if notes.get(note)}


def _encode_result(
    result: ToolResult, message: Message | None, where: str, names: dict[str, str], receipt: Receipt
) -> dict[str, Any]:
    notes = native_of(message, NAME) if message is not None else {}
    writer = OllamaMessageWriter(receipt, of_request=True)
    for index, block in enumerate(result.content):
        writer.add(block, f"{where}.content[{index}]")
    content = {} if notes.get("$content") == "absent" and not writer.content else {"content": writer.content}
    name = result.name or names.get(result.call_id)
    identity: dict[str, Any] = {}
    if name and notes.get("$name") == name:
        identity["name"] = name
    elif name and not notes.get("$no_name"):
        identity["tool_name"] = name
    if result.call_id and not notes.get("$no_id"):
        identity["tool_call_id"] = result.call_id
    written = {"role": "tool", **content, **identity, **writer.members()}
    return fill_members(written, {**_empty_members(notes), **native_members(notes)})


def _encode_options(request: Request, rest: dict[str, Any]) -> dict[str, Any]:
    options = dict(_options_of(request))
    if request.max_output_tokens is not None:
        options["num_predict"] = request.max_output_tokens
    if request.stop:
        options["stop"] = list(request.stop)
    return {**options, **rest} if rest else options


def _encode_think(wanted: Reasoning | None) -> bool | str | None:
    if wanted is None:
        return None
    if wanted.mode == "off" or wanted.effort == "none":
        return False
    return wanted.effort or (True if wanted.mode == "on" else None)


def _encode_format(wanted: ResponseFormat | None, receipt: Receipt) -> Any:
    if wanted is None or wanted.kind == "text":
        return None
    for present, what in ((wanted.name, "name"), (wanted.description, "description")):
        if present is not None:
            receipt.note(f"response_format.{what}", f"{what} of the format", "Ollama accepts only the schema")
    if wanted.strict is False:
        receipt.note("response_format.strict", "a schema that is not strict", "Ollama always keeps to it")
    return "json" if wanted.kind == "json" or wanted.schema is None else wanted.schema
