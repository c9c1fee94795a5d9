"""`POST /v1/responses`: the request body <-> `Request`.

- `instructions` is a leading system message with the note `$from`. A request from another dialect writes its first
  system message there if it is one plain text; system text of any other shape, or place, is an item.
- `reasoning`: `effort` is carried as the word it is, and `none` also means mode `off`; a `summary` of any kind means
  `show` (its kind is a note). Written back, mode `off` without an effort is effort `none`, and `show` asks for an
  `auto` summary.
- `user` is `safety_identifier`, or the deprecated `user` where only that came.
- Two defaults of this API differ from all others and are therefore written out for requests from other dialects:
  `strict: false` on functions and `store: false` (what is not said is stored). Encrypted reasoning, which then is all
  that a client can give back, is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec import UNSET, Raw, structs

from toolglot.dialects.openai_responses.blocks import absent, carried, filled, given, is_plain, own, present
from toolglot.dialects.openai_responses.items import decode_input_item, encode_message, opaque_item
from toolglot.dialects.openai_responses.native import NAME
from toolglot.dialects.openai_responses.plain import plain_items
from toolglot.dialects.openai_responses.tools import (
    brought_tools,
    declared_tools,
    decode_choice,
    encode_choice,
    encode_tools,
    offered,
)
from toolglot.dialects.openai_responses.wire import (
    AdditionalTools,
    Body,
    JsonObjectFormat,
    JsonSchemaFormat,
    ReasoningConfig,
    TextConfig,
    TextFormat,
    ToolSearchOutput,
)
from toolglot.errors import DecodeError
from toolglot.ir import Message, Native, Reasoning, Request, ResponseFormat, Text, Tool, native_of, replace
from toolglot.receipt import Receipt
from toolglot.tools.declared import Tools
from toolglot.tools.known_requests import decode_known
from toolglot.wire import json, large
from toolglot.wire.efforts import is_bare_switch
from toolglot.wire.known_settings import KnownSettings
from toolglot.wire.native import keep_members, kept
from toolglot.wire.openai_fields import identifier, service_tier, strictness, take_prompt_cache, write_prompt_cache
from toolglot.wire.structs import as_json, field_reader, members_without
from toolglot.wire.typed import TypedReader

# Models that reason; others refuse to be asked for it.
_REASONS = re.compile(r"(^|/)(gpt-([5-9]|\d\d)(?!.*-chat)|o[1-9](-|$)|codex-)")

LOGPROBS = "message.output_text.logprobs"
"""The word in `include` that asks for log probabilities."""

# Where one of these is, the conversation lies on the server and `input` may be missing.
_HOLDS_INPUT = ("previous_response_id", "conversation", "prompt")
_UNWRITABLE = ("top_k", "seed", "presence_penalty", "frequency_penalty", "stop", "candidates", "cache")
_unwritable_of = field_reader(*_UNWRITABLE)
_WRITTEN = ("parallel_tool_calls", "max_output_tokens", "temperature", "top_p", "top_logprobs")
"""Settings that are members of the same name."""
_written_of = field_reader(*_WRITTEN)
_FORMATS = {"text": "text", "json_object": "json", "json_schema": "json_schema"}
_FORMAT_NAMES = {kind: name for name, kind in _FORMATS.items()}


def path(request: Request) -> str:
    return "/v1/responses"


_READER = TypedReader(Body, "input")


_KNOWN = KnownSettings[Request]("input")


def decode_request(data: bytes) -> Request:
    known = decode_known(_KNOWN, _READER, data, _with_known_history)
    if known is not None:
        return known
    body = _READER.read(data)
    listed = None if body.tools is UNSET else _decode_tools(body.tools, data)
    messages, brought, shape = _decode_input(body, data)
    settings = _decode_settings(body, listed, shape)
    if shape == "items":
        _KNOWN.keep(data, lambda: settings)
    return _with_history(settings, messages, brought)


def _with_known_history(settings: Request, items: list[Any], data: bytes) -> Request:
    return _with_history(settings, *_decode_items(items, data))


def _with_history(settings: Request, messages: list[Message], brought: list[Tool]) -> Request:
    tools = offered(settings.tools, brought)
    return replace(settings, messages=(*settings.messages, *messages), tools=tools)


def _decode_settings(body: Body, listed: Tools | None, input_shape: str) -> Request:
    """All but the conversation. `listed` is what the member `tools` says, None for null."""
    members = carried(body, *_CARRIED)
    shape: dict[str, Any] = {"absent": absent(body, "store") or None, "text": None, "include": None}
    fields: dict[str, Any] = {name: value for name in _TAKEN if (value := getattr(body, name)) is not UNSET}
    if body.tools is not UNSET:
        if listed is None:
            members["tools"] = None
        elif not listed:
            shape["no_tools"] = True
    shape["input"] = input_shape
    _decode_user(body, members, fields, shape)
    if body.reasoning is not UNSET:
        fields["reasoning"] = _decode_reasoning(body.reasoning)
    if body.text is not UNSET:
        _decode_text(body.text, members, fields, shape)
    _decode_loose(members, fields, shape)
    if body.stream is False:
        shape["stream"] = False
    if body.model == "":
        members["model"] = ""
    return Request(
        model=given(body.model) or "",
        messages=_decode_instructions(body),
        tools=listed or (),
        native=keep_members(NAME, members, **shape),
        **fields,
    )


_TAKEN = (
    "parallel_tool_calls",
    "max_output_tokens",
    "temperature",
    "top_p",
    "top_logprobs",
    "service_tier",
    "store",
    "stream",
)
_CARRIED = (
    "tool_choice",
    "metadata",
    "moderation",
    "include",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "background",
    "client_metadata",
    "context_management",
    "conversation",
    "max_tool_calls",
    "previous_response_id",
    "prompt",
    "stream_options",
    "truncation",
)
"""Members that are carried along, unless `_decode_loose` understands them."""


def _decode_instructions(body: Body) -> tuple[Message, ...]:
    if body.instructions is UNSET:  # a prompt template may put a list of items here: it rides along
        return ()
    return (Message(role="system", content=(Text(text=body.instructions),), native=_INSTRUCTIONS),)


def _decode_input(body: Body, data: bytes) -> tuple[list[Message], list[Tool], str]:
    """The messages, the tools that stand among them, and the shape of `input`."""
    said = body.input
    if said is UNSET:
        if all(getattr(body, key) in (None, UNSET) for key in _HOLDS_INPUT):
            raise DecodeError("$.input", "this string or array is required")
        return [], [], "absent"
    if isinstance(said, str):
        return [Message(role="user", content=(Text(text=said),))], [], "string"
    return *_decode_items(said, data), "items"


def _decode_items(items: list[Any], data: bytes) -> tuple[list[Message], list[Tool]]:
    brought: list[Tool] = []
    messages: list[Message] = []
    for index, item in enumerate(large.emptied(items)):
        if isinstance(item, (AdditionalTools, ToolSearchOutput)):
            found = brought_tools(item, f"$.input[{index}]", data)
            brought += found.tools
            value = as_json(structs.replace(item, tools=UNSET))
            messages.append(opaque_item(value if found.value is UNSET else {**value, "tools": found.value}))
        else:
            messages.append(decode_input_item(item))
    return messages, brought


_INSTRUCTIONS: Native = {NAME: {"$from": "instructions"}}


def _decode_tools(raw: Raw, data: bytes) -> Tools | None:
    return None if bytes(memoryview(raw)[:1]) == b"n" else declared_tools(raw, data)


def _decode_user(body: Body, members: dict[str, Any], fields: dict[str, Any], shape: dict[str, Any]) -> None:
    if body.safety_identifier is not UNSET:
        fields["user"], shape["user"] = body.safety_identifier, "safety_identifier"
        fields["legacy_user"] = given(body.user)
    elif body.user is not UNSET:
        fields["user"], shape["user"] = body.user, "user"


def _decode_loose(members: dict[str, Any], fields: dict[str, Any], shape: dict[str, Any]) -> None:
    """Members that are understood in some forms, and carried along in any other."""
    if members.get("tool_choice") is not None:
        fields["tool_choice"] = decode_choice(members.pop("tool_choice"), "$.tool_choice")
    metadata = members.get("metadata")
    if isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values()):
        fields["metadata"] = members.pop("metadata")
    if isinstance(members.get("moderation"), dict):
        fields["moderation"] = members.pop("moderation")
    fields["prompt_cache"] = take_prompt_cache(members)
    include = members.get("include")
    if isinstance(include, list) and LOGPROBS in include:
        # The whole is noted; what else it asks for stays.
        fields["logprobs"], shape["include"] = True, members.pop("include")
        if others := [value for value in include if value != LOGPROBS]:
            members["include"] = others


def _decode_reasoning(reasoning: ReasoningConfig) -> Reasoning:
    effort, summary = given(reasoning.effort), given(reasoning.summary)
    return Reasoning(
        mode="off" if effort == "none" else None,
        effort=effort,
        show=True if summary is not None else None,
        native=keep_members(NAME, members_without(reasoning, "effort", "summary"), summary=summary, given=True),
    )


def _encode_reasoning(reasoning: Reasoning, receipt: Receipt) -> dict[str, Any] | None:
    if reasoning.budget_tokens is not None:
        what = f"a budget of {reasoning.budget_tokens} tokens"
        receipt.loss("reasoning.budget_tokens", what, "the Responses API knows efforts only")
    if is_bare_switch(reasoning):
        receipt.note("reasoning", "reasoning", "the Responses API has no switch for it: the model decides how much")
    if reasoning.show is False:
        receipt.note("reasoning.show", "hidden reasoning", "no summary is asked for, and there is no other to see")
    notes = native_of(reasoning, NAME)
    effort = "none" if reasoning.effort is None and reasoning.mode == "off" else reasoning.effort
    summary = notes.get("$summary", "auto") if reasoning.show else None
    fields = {**present(effort=effort, summary=summary), **own(reasoning)}
    return fields if fields or notes.get("$given") else None


def _decode_text(text: TextConfig, members: dict[str, Any], fields: dict[str, Any], shape: dict[str, Any]) -> None:
    """`text`: what is understood is taken, and the rest stays where it was."""
    if text.format is not UNSET:
        fields["response_format"] = _decode_format(text.format)
    if text.verbosity is not UNSET:
        fields["verbosity"] = text.verbosity
    if text.rest is not UNSET:
        members["text"] = dict(text.rest)
    elif text.format is text.verbosity is UNSET:
        shape["text"] = True


def _decode_format(wanted: TextFormat | JsonObjectFormat | JsonSchemaFormat) -> ResponseFormat:
    if not isinstance(wanted, JsonSchemaFormat):
        native = keep_members(NAME, members_without(wanted))
        return ResponseFormat(kind="json" if isinstance(wanted, JsonObjectFormat) else "text", native=native)
    members = members_without(wanted, "name", "description", "strict")
    if wanted.schema is not None:
        members.pop("schema", None)
    shape = {"absent": absent(wanted, "name") or None, "lax": True if wanted.strict is UNSET else None}
    return ResponseFormat(
        kind="json_schema",
        name=given(wanted.name),
        description=given(wanted.description),
        schema=given(wanted.schema),
        strict=bool(given(wanted.strict)),  # what is not said is not strict here
        native=keep_members(NAME, members, **shape),
    )


def _encode_text(request: Request, rest: Any, receipt: Receipt) -> dict[str, Any] | None:
    wanted = request.response_format
    if wanted is None and request.verbosity is None and not isinstance(rest, dict):
        return {} if native_of(request, NAME).get("$text") else None
    fields: dict[str, Any] = {} if request.verbosity is None else {"verbosity": request.verbosity}
    if wanted is not None:
        named = {"name": wanted.name} if wanted.name is not None else filled(wanted, name="response")
        shape = {
            "type": _FORMAT_NAMES[wanted.kind],
            **(named if wanted.kind == "json_schema" else {}),
            **present(description=wanted.description, schema=wanted.schema, strict=_strict(wanted, receipt)),
            **own(wanted),
        }
        fields = {"format": shape, **fields}
    if isinstance(rest, dict):
        return {**rest, **fields}
    return fields if fields or native_of(request, NAME).get("$text") else None


def _strict(wanted: ResponseFormat, receipt: Receipt) -> bool | None:
    if wanted.kind != "json_schema" or native_of(wanted, NAME).get("$lax"):
        return None
    return wanted.strict if wanted.strict is not None else strictness(wanted.schema, receipt)


def encode_request(request: Request, receipt: Receipt) -> bytes:
    return json.encode_document(request_fields(request, receipt), used_up="input")


def request_fields(request: Request, receipt: Receipt) -> dict[str, Any]:
    """The request body. What only this API knows comes before `input`, so that a longer history extends the bytes."""
    notes = native_of(request, NAME)
    rest = kept(notes)
    for name, _ in _unwritable_of(request):
        receipt.loss(name, name, "the Responses API has no such parameter")
    instructions, start = _split_instructions(request)
    fields: dict[str, Any] = {"model": request.model} if request.model else {}
    if instructions is not None:
        fields["instructions"] = instructions
    if (tools := encode_tools(request, receipt)) is not None:
        fields["tools"] = tools
    elif notes.get("$no_tools"):
        fields["tools"] = []
    if request.tool_choice is not None and (choice := encode_choice(request, receipt)) is not None:
        fields["tool_choice"] = choice
    fields.update(_written_of(request))
    if request.reasoning is not None and (reasoning := _encode_reasoning(request.reasoning, receipt)) is not None:
        fields["reasoning"] = reasoning
    if (text := _encode_text(request, rest.get("text"), receipt)) is not None:
        fields["text"] = text
    if request.user is not None:
        fields |= _encode_user(request, request.user, receipt)
    if request.moderation is not None:
        fields["moderation"] = request.moderation
    if request.metadata is not None:
        fields["metadata"] = request.metadata
    if (tier := request.service_tier) is not None:
        tier = tier if NAME in request.native else service_tier(tier, receipt)
        if tier is not None:
            fields["service_tier"] = tier
    if request.prompt_cache is not None:
        fields |= write_prompt_cache(request.prompt_cache)
    if (stream := request.stream or notes.get("$stream")) is not None:
        fields["stream"] = stream
    if request.store is not None:
        fields["store"] = request.store
    return _with_others(fields, rest, notes, request) | _encode_input(request, start, receipt)


def _with_others(
    fields: dict[str, Any], rest: dict[str, Any], notes: Mapping[str, Any], request: Request
) -> dict[str, Any]:
    """The members with those that only this API knows, and with what is to be said to it for other dialects."""
    if not notes:
        fields.setdefault("store", False)
        others = fields
    else:
        others = {**fields, **filled(request, store=False), **rest, **fields}
    if (include := _encode_include(request, notes.get("$include", rest.get("include")))) is not None:
        others["include"] = include
    elif others.get("include"):
        del others["include"]
    return others


def _included(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


@lru_cache(maxsize=256)
def _reasons(model: str) -> bool:
    return _REASONS.search(model) is not None


def _encode_include(request: Request, own: Any) -> Any:
    """`include`: what came, with or without log probabilities as they are asked for now, and state to carry: nothing is
    stored for another dialect's client, so what it is to carry must be asked for. None when there is nothing to ask."""
    if own is not None and not isinstance(own, list):
        return own
    if own is None and not request.logprobs and (NAME in request.native or not _reasons(request.model)):
        return None
    wanted = [value for value in _included(own) if value != LOGPROBS or request.logprobs]
    if NAME not in request.native and _reasons(request.model):
        wanted.append("reasoning.encrypted_content")
    if request.logprobs and LOGPROBS not in wanted:
        wanted.append(LOGPROBS)
    return wanted or None


def _encode_user(request: Request, user: str, receipt: Receipt) -> dict[str, str]:
    name, legacy = native_of(request, NAME).get("$user"), present(user=request.legacy_user)
    if isinstance(name, str):
        return {name: user, **legacy}
    return {"safety_identifier": identifier(user, receipt), **legacy}


def _split_instructions(request: Request) -> tuple[str | None, int]:
    """The text for `instructions`, and the number of the first message that stands in `input`."""
    messages = request.messages
    if not messages:
        return None, 0
    first = messages[0]
    marked = native_of(first, NAME).get("$from") == "instructions"
    free = "$input" not in native_of(request, NAME) and first.role == "system"
    if (marked or free) and len(first.content) == 1 and is_plain(first.content[0]):
        block = first.content[0]
        assert isinstance(block, Text)
        return block.text, 1
    return None, 0


def instructions_of(request: Request) -> str | None:
    """The text of `instructions` that the request came with."""
    messages = request.messages
    if not messages or native_of(messages[0], NAME).get("$from") != "instructions":
        return None
    return _split_instructions(request)[0]


def _encode_input(request: Request, start: int, receipt: Receipt) -> dict[str, Any]:
    shape, messages = native_of(request, NAME).get("$input"), request.messages
    count = len(messages) - start
    if shape == "absent" and not count:
        return {}
    if shape == "string" and count == 1:
        content = messages[start].content
        if len(content) == 1 and isinstance(content[0], Text) and is_plain(content[0]):
            return {"input": content[0].text}
    foreign = NAME not in request.native
    items: list[dict[str, Any]] = []
    for index in range(start, len(messages)):
        message = messages[index]
        if (plain := plain_items(message)) is not None:
            items += plain
        else:
            items += encode_message(message, f"messages[{index}]", receipt, foreign=foreign)
    return {"input": items}
