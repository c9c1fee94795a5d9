"""`POST /api/chat` and `/api/generate`: the request body <-> `Request`.

A request of `/api/generate` is a conversation of one message; a note on its shape lets it go out as it came.
Models without a tag and with `:latest` are the same to Ollama, and some clients add the tag: it is a note, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from toolglot.dialects.ollama.blocks import MessageWriter, decode_calls, decode_images
from toolglot.dialects.ollama.native import NAME
from toolglot.dialects.ollama.tools import decode_tools, encode_tools
from toolglot.dialects.ollama.wire import REQUESTS, Body, ChatMessage
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
)
from toolglot.receipt import Receipt
from toolglot.tools.declared import DECLARED
from toolglot.wire import json
from toolglot.wire.large import emptied
from toolglot.wire.native import keep_members, kept
from toolglot.wire.structs import members_without

LATEST = ":latest"
_OPTIONS = ("temperature", "top_p", "top_k", "seed", "presence_penalty", "frequency_penalty")
"""Options that the IR has under the same names."""
_TAKEN = ("model", "messages", "tools", "prompt", "system", "images", "stream", "options", "think", "format")


def path(request: Request) -> str:
    return "/api/generate" if is_generate(request) else "/api/chat"


def is_generate(request: Request | None) -> bool:
    """Is it one of `/api/generate` that still says no more than such a request can?"""
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
    """The answer to a request that says nothing: clients send it to load a model, and with `keep_alive: 0` to unload it
    (`ollama run` begins with the former)."""
    if any(message.content for message in request.messages if message.role != "system"):
        return None
    if request.messages and not is_generate(request):
        return None
    unloads = native_of(request, NAME).get("keep_alive") in (0, "0", "0s")
    return Response(model=request.model, stop=Stop("end", "unload" if unloads else "load"), native={NAME: {}})


# Reading


def decode_request(data: bytes) -> Request:
    body = REQUESTS.read(data)
    rest = members_without(body, *_TAKEN)
    shape: dict[str, Any] = {"generate": True if body.messages is UNSET else None}
    fields: dict[str, Any] = {"model": _decode_model(body, shape), "tools": _read_tools(body, rest, shape, data)}
    fields["stream"] = body.stream is UNSET or body.stream
    shape["stream"] = "absent" if body.stream is UNSET else None
    messages = _prompt(body, shape) if body.messages is UNSET else _decode_messages(body.messages)
    _decode_options(body, rest, fields, shape)
    _decode_think(body, fields)
    _decode_format(body, rest, fields)
    for name in ("logprobs", "top_logprobs"):
        if rest.get(name) is not None:
            fields[name] = rest.pop(name)
    return Request(messages=tuple(messages), native=keep_members(NAME, rest, **shape), **fields)


def _decode_model(body: Body, shape: dict[str, Any]) -> str:
    model = body.model or ""
    shape["no_model"] = True if body.model is UNSET else None
    if model.endswith(LATEST) and model != LATEST:
        shape["latest"] = True
        return model.removesuffix(LATEST)
    return model


def _read_tools(body: Body, rest: dict[str, Any], shape: dict[str, Any], data: bytes) -> tuple[Tool | Opaque, ...]:
    raw = body.tools
    if raw is UNSET:
        return ()
    if bytes(raw) == b"null":
        rest["tools"] = None
        return ()
    try:
        tools: tuple[Tool | Opaque, ...] = DECLARED.read(NAME, raw, decode_tools, tuple)
    except DecodeError:
        json.decode(data)  # tells where the document is no JSON to rely on
        raise
    shape["no_tools"] = None if tools else True
    return tools


def _prompt(body: Body, shape: dict[str, Any]) -> list[Message]:
    """The conversation of a request of `/api/generate`."""
    absent = [name for name in ("prompt", "system") if getattr(body, name) is UNSET]
    shape["absent"] = absent or None
    shape["no_images"] = True if body.images == [] else None
    system = [Message(role="system", content=(Text(text=body.system),))] if body.system else []
    text = (Text(text=body.prompt),) if body.prompt else ()
    return [*system, Message(role="user", content=(*text, *decode_images(body.images)))]


def _decode_messages(messages: list[ChatMessage]) -> Iterator[Message]:
    for index, message in enumerate(emptied(messages)):
        yield _decode_message(message, f"$.messages[{index}]")


def _decode_message(message: ChatMessage, where: str) -> Message:
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
    content += decode_calls(message.tool_calls, f"{where}.tool_calls")
    for name in ("tool_name", "tool_call_id"):
        if (value := getattr(message, name)) is not UNSET:
            rest[name] = value
    return Message(role=message.role, content=tuple(content), native=keep_members(NAME, rest, **shape))


def _decode_result(message: ChatMessage, rest: dict[str, Any], shape: dict[str, Any]) -> Message:
    """A message with the result of one tool. What other roles have in it rides along."""
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
    return Message(role="tool", content=(result,), native=keep_members(NAME, rest, **shape))


def _decode_options(body: Body, rest: dict[str, Any], fields: dict[str, Any], shape: dict[str, Any]) -> None:
    options = body.options
    if options is UNSET:
        if body.rest is not UNSET and "options" in body.rest:
            rest["options"] = body.rest["options"]
        return
    left = members_without(options)
    for name in _OPTIONS:
        if left.get(name) is not None:
            fields[name] = left.pop(name)
    # -1 is no limit, -2 fills the context.
    if (limit := left.get("num_predict")) is not None and limit > 0:
        fields["max_output_tokens"] = left.pop("num_predict")
    if left.get("stop"):
        fields["stop"] = tuple(left.pop("stop"))
    if left:
        rest["options"] = left
    shape["options"] = True


def _decode_think(body: Body, fields: dict[str, Any]) -> None:
    think = body.think
    if think is UNSET:
        return
    if isinstance(think, bool):
        fields["reasoning"] = Reasoning(mode="on" if think else "off")
    else:
        fields["reasoning"] = Reasoning(mode="on", effort=think)


def _decode_format(body: Body, rest: dict[str, Any], fields: dict[str, Any]) -> None:
    match body.format:
        case "json":
            fields["response_format"] = ResponseFormat(kind="json")
        case dict() as schema:
            fields["response_format"] = ResponseFormat(kind="json_schema", schema=schema)
        case None | "":
            rest["format"] = body.format
        case value if value is not UNSET:
            raise expected("$.format", '"json" or an object with a schema', value)


# Writing


def encode_request(request: Request, receipt: Receipt) -> bytes:
    return json.encode_document(_request_fields(request, receipt), used_up="messages")


def _request_fields(request: Request, receipt: Receipt) -> dict[str, Any]:
    notes = native_of(request, NAME)
    rest = kept(notes)
    fields: dict[str, Any] = {
        "model": _encode_model(request),
        **(_encode_prompt(request, receipt) if is_generate(request) else _encode_messages(request, receipt)),
        "tools": encode_tools(request, receipt),
        # Ollama streams unless it is told otherwise.
        "stream": None if request.stream and notes.get("$stream") == "absent" else request.stream,
        "format": _encode_format(request.response_format, receipt),
        "options": _encode_options(request, rest.pop("options") if rest.get("options") else {}),
        "think": _encode_think(request.reasoning),
        "logprobs": request.logprobs,
        "top_logprobs": request.top_logprobs,
    }
    present = {key: value for key, value in fields.items() if value is not None}
    return {**rest, **present} if rest.get("options", 0) is None else {**present, **rest}


def _encode_model(request: Request) -> str | None:
    notes = native_of(request, NAME)
    if not request.model and notes.get("$no_model"):
        return None
    return request.model + LATEST if notes.get("$latest") else request.model


def _encode_prompt(request: Request, receipt: Receipt) -> dict[str, Any]:
    notes = native_of(request, NAME)
    absent = notes.get("$absent", ())
    *system, user = request.messages or (Message(role="user"),)
    writer = MessageWriter(receipt, of_request=True)
    for index, block in enumerate(user.content):
        writer.add(block, f"messages[{len(system)}].content[{index}]")
    said = "".join(block.text for message in system for block in message.content if isinstance(block, Text))
    members: dict[str, Any] = {}
    if writer.content or "prompt" not in absent:
        members["prompt"] = writer.content
    if said or "system" not in absent:
        members["system"] = said
    if writer.images or notes.get("$no_images"):
        members["images"] = writer.images
    return members


def _encode_messages(request: Request, receipt: Receipt) -> dict[str, Any]:
    names: dict[str, str] = {}
    messages: list[dict[str, Any]] = []
    for index, message in enumerate(request.messages):
        for block in message.content:
            if isinstance(block, ToolCall):
                names[block.id] = block.name
        messages += _encode_message(message, f"messages[{index}]", names, receipt)
    return {"messages": messages}


def _encode_message(message: Message, where: str, names: dict[str, str], receipt: Receipt) -> list[dict[str, Any]]:
    """The messages on the wire for one of the IR: results have one each, and stand before what was said with them."""
    results = [
        (block, f"{where}.content[{index}]")
        for index, block in enumerate(message.content)
        if isinstance(block, ToolResult)
    ]
    alone = len(message.content) == 1 and bool(results)
    encoded = [_encode_result(block, message if alone else None, place, names, receipt) for block, place in results]
    if alone:
        return encoded
    writer = MessageWriter(receipt, of_request=True)
    for index, block in enumerate(message.content):
        if not isinstance(block, ToolResult):
            writer.add(block, f"{where}.content[{index}]")
    if results and not (writer.texts or writer.members()):
        return encoded
    notes = native_of(message, NAME)
    content = {} if notes.get("$content") == "absent" and not writer.content else {"content": writer.content}
    return [*encoded, {"role": message.role, **content, **writer.members(), **_empty_members(notes), **kept(notes)}]


_EMPTY = {"$no_calls": ("tool_calls", []), "$no_images": ("images", []), "$no_thinking": ("thinking", "")}


def _empty_members(notes: Any) -> dict[str, Any]:
    return {name: value for note, (name, value) in _EMPTY.items() if notes.get(note)}


def _encode_result(
    result: ToolResult, message: Message | None, where: str, names: dict[str, str], receipt: Receipt
) -> dict[str, Any]:
    notes = native_of(message, NAME) if message is not None else {}
    writer = MessageWriter(receipt, of_request=True)
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
    return {"role": "tool", **content, **identity, **writer.members(), **_empty_members(notes), **kept(notes)}


def _encode_options(request: Request, rest: dict[str, Any]) -> dict[str, Any] | None:
    options: dict[str, Any] = {name: getattr(request, name) for name in _OPTIONS}
    options |= {"num_predict": request.max_output_tokens, "stop": list(request.stop) or None}
    present = {name: value for name, value in options.items() if value is not None}
    return {**present, **rest} or ({} if native_of(request, NAME).get("$options") else None)


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
            receipt.note(f"response_format.{what}", f"{what} of the format", "Ollama takes the schema alone")
    if wanted.strict is False:
        receipt.note("response_format.strict", "a schema that is not strict", "Ollama always keeps to it")
    return "json" if wanted.kind == "json" or wanted.schema is None else wanted.schema
