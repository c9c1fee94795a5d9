"""`POST /v1/responses`: the request body <-> `Request`.

- `instructions` is a leading system message with the note `$from`. A request from another dialect writes its first
  system message there if it is one plain text; system text of any other form or position is an item.
- `reasoning`: `effort` is carried unchanged, and `none` also means mode `off`. Any `summary` means `show` (its value is
  a note). In the other direction, mode `off` without an effort becomes effort `none`, and `show` asks for an `auto`
  summary.
- `user` is `safety_identifier`, or the deprecated `user` if it is the only one.
- Two defaults of this API differ from all others, so requests from other dialects set them explicitly: `strict: false`
  on functions, and `store: false` (the default is to store). Such a client can only return encrypted reasoning, so that
  is requested too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from msgspec import UNSET, Raw, structs

from toolglot.dialects.openai_responses.blocks import (
    carried_members,
    default_members,
    is_plain_text,
    missing_members,
    none_if_unset,
    own_members,
    without_nulls,
)
from toolglot.dialects.openai_responses.items import decode_input_item, encode_message, opaque_item
from toolglot.dialects.openai_responses.native import NAME
from toolglot.dialects.openai_responses.simple_items import encode_simple_items
from toolglot.dialects.openai_responses.tools import (
    declared_tools,
    decode_choice,
    encode_choice,
    encode_tools,
    merge_tools,
    read_item_tools,
)
from toolglot.dialects.openai_responses.wire import (
    AdditionalTools,
    JsonObjectFormat,
    JsonSchemaFormat,
    ReasoningConfig,
    ResponsesRequestBody,
    ResponsesTextFormat,
    TextConfig,
    ToolSearchOutput,
)
from toolglot.errors import DecodeError
from toolglot.ir import Message, Native, Reasoning, Request, ResponseFormat, Text, Tool, native_of, replace
from toolglot.receipt import Receipt
from toolglot.tools.cached_settings import decode_with_cached_settings
from toolglot.tools.declared import Tools
from toolglot.wire import incremental_json, json
from toolglot.wire.efforts import has_no_amount
from toolglot.wire.native import make_native, native_members
from toolglot.wire.openai_fields import (
    encode_identifier,
    encode_service_tier,
    encode_strict,
    take_prompt_cache,
    write_prompt_cache,
)
from toolglot.wire.settings_cache import SettingsCache
from toolglot.wire.structs import as_json, field_reader, members_without
from toolglot.wire.typed import TypedReader

# Reasoning models; others refuse reasoning settings.
_REASONING_MODELS = re.compile(r"(^|/)(gpt-([5-9]|\d\d)(?!.*-chat)|o[1-9](-|$)|codex-)")

LOGPROBS = "message.output_text.logprobs"
"""The value in `include` that requests log probabilities."""

# With one of these members, the conversation is stored on the server and `input` may be missing.
_SERVER_STATE_MEMBERS = ("previous_response_id", "conversation", "prompt")
_UNSUPPORTED = ("top_k", "seed", "presence_penalty", "frequency_penalty", "stop", "candidates", "cache")
_unsupported_of = field_reader(*_UNSUPPORTED)
_PLAIN_SETTINGS = ("parallel_tool_calls", "max_output_tokens", "temperature", "top_p", "top_logprobs")
"""Settings whose members have the same name."""
_plain_settings_of = field_reader(*_PLAIN_SETTINGS)
_FORMATS = {"text": "text", "json_object": "json", "json_schema": "json_schema"}
_FORMAT_NAMES = {kind: name for name, kind in _FORMATS.items()}


def path(request: Request) -> str:
    return "/v1/responses"


_InputItem: TypeAlias = tuple[Message, tuple[Tool, ...]]
"""An item of `input`, and the tools in it."""

_READER = TypedReader(ResponsesRequestBody, "input")


_SETTINGS_CACHE = SettingsCache[Request, _InputItem]("input")


def decode_request(data: bytes) -> Request:
    known = decode_with_cached_settings(_SETTINGS_CACHE, _READER, data, _decode_items, _with_history)
    if known is not None:
        return known
    body = _READER.read(data)
    listed = None if body.tools is UNSET else _decode_tools(body.tools, data)
    items, shape = _decode_input(body, data)
    settings = _decode_settings(body, listed, shape)
    if shape == "items":
        _SETTINGS_CACHE.add(data, lambda: settings)
    return _with_history(settings, items)


def _with_history(settings: Request, items: Sequence[_InputItem]) -> Request:
    brought = [tool for _, tools in items for tool in tools]
    messages = [message for message, _ in items]
    return replace(settings, messages=(*settings.messages, *messages), tools=merge_tools(settings.tools, brought))


def _decode_settings(body: ResponsesRequestBody, listed: Tools | None, input_shape: str) -> Request:
    """Decode everything except the conversation. `listed` has the tools of the member `tools`, None for null."""
    members = carried_members(body, *_CARRIED_MEMBERS)
    shape: dict[str, Any] = {"absent": missing_members(body, "store") or None, "text": None, "include": None}
    fields: dict[str, Any] = {name: value for name in _TYPED_SETTINGS if (value := getattr(body, name)) is not UNSET}
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
    _decode_untyped_settings(members, fields, shape)
    if body.stream is False:
        shape["stream"] = False
    if body.model == "":
        members["model"] = ""
    return Request(
        model=none_if_unset(body.model) or "",
        messages=_decode_instructions(body),
        tools=listed or (),
        native=make_native(NAME, members, **shape),
        **fields,
    )


_TYPED_SETTINGS = (
    "parallel_tool_calls",
    "max_output_tokens",
    "temperature",
    "top_p",
    "top_logprobs",
    "service_tier",
    "store",
    "stream",
)
_CARRIED_MEMBERS = (
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
"""Members that are carried unchanged, unless `_decode_untyped_settings` understands them."""


def _decode_instructions(body: ResponsesRequestBody) -> tuple[Message, ...]:
    if body.instructions is UNSET:  # a prompt template may put a list of items here: it stays in `rest`
        return ()
    return (Message(role="system", content=(Text(text=body.instructions),), native=_INSTRUCTIONS),)


def _decode_input(body: ResponsesRequestBody, data: bytes) -> tuple[list[_InputItem], str]:
    """Return the items, and the form of `input`."""
    said = body.input
    if said is UNSET:
        if all(getattr(body, key) in (None, UNSET) for key in _SERVER_STATE_MEMBERS):
            raise DecodeError("$.input", "this string or array is required")
        return [], "absent"
    if isinstance(said, str):
        return [(Message(role="user", content=(Text(text=said),)), ())], "string"
    return _decode_items(said, data), "items"


def _decode_items(items: list[Any], data: bytes) -> list[_InputItem]:
    decoded: list[_InputItem] = []
    for index, item in enumerate(incremental_json.drain(items)):
        if isinstance(item, (AdditionalTools, ToolSearchOutput)):
            found = read_item_tools(item, f"$.input[{index}]", data)
            value = as_json(structs.replace(item, tools=UNSET))
            message = opaque_item(value if found.value is UNSET else {**value, "tools": found.value})
            decoded.append((message, found.tools))
        else:
            decoded.append((decode_input_item(item), ()))
    return decoded


_INSTRUCTIONS: Native = {NAME: {"$from": "instructions"}}


def _decode_tools(raw: Raw, data: bytes) -> Tools | None:
    return None if bytes(memoryview(raw)[:1]) == b"n" else declared_tools(raw, data)


def _decode_user(
    body: ResponsesRequestBody, members: dict[str, Any], fields: dict[str, Any], shape: dict[str, Any]
) -> None:
    if body.safety_identifier is not UNSET:
        fields["user"], shape["user"] = body.safety_identifier, "safety_identifier"
        fields["legacy_user"] = none_if_unset(body.user)
    elif body.user is not UNSET:
        fields["user"], shape["user"] = body.user, "user"


def _decode_untyped_settings(members: dict[str, Any], fields: dict[str, Any], shape: dict[str, Any]) -> None:
    """Decode members that are understood in some forms only. Any other form is carried unchanged."""
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
        # A note keeps the whole list; its other values stay.
        fields["logprobs"], shape["include"] = True, members.pop("include")
        if others := [value for value in include if value != LOGPROBS]:
            members["include"] = others


def _decode_reasoning(reasoning: ReasoningConfig) -> Reasoning:
    effort, summary = none_if_unset(reasoning.effort), none_if_unset(reasoning.summary)
    return Reasoning(
        mode="off" if effort == "none" else None,
        effort=effort,
        show=True if summary is not None else None,
        native=make_native(NAME, members_without(reasoning, "effort", "summary"), summary=summary, given=True),
    )


def _encode_reasoning(reasoning: Reasoning, receipt: Receipt) -> dict[str, Any] | None:
    if reasoning.budget_tokens is not None:
        what = f"a budget of {reasoning.budget_tokens} tokens"
        receipt.loss("reasoning.budget_tokens", what, "the Responses API knows efforts only")
    if has_no_amount(reasoning):
        receipt.note("reasoning", "reasoning", "the Responses API has no switch for it: the model decides how much")
    if reasoning.show is False:
        receipt.note("reasoning.show", "hidden reasoning", "no summary is requested, and no other reasoning is visible")
    notes = native_of(reasoning, NAME)
    effort = "none" if reasoning.effort is None and reasoning.mode == "off" else reasoning.effort
    summary = notes.get("$summary", "auto") if reasoning.show else None
    fields = {**without_nulls(effort=effort, summary=summary), **own_members(reasoning)}
    return fields if fields or notes.get("$given") else None


def _decode_text(text: TextConfig, members: dict[str, Any], fields: dict[str, Any], shape: dict[str, Any]) -> None:
    """Decode `text`. Its unknown members stay with the rest."""
    if text.format is not UNSET:
        fields["response_format"] = _decode_format(text.format)
    if text.verbosity is not UNSET:
        fields["verbosity"] = text.verbosity
    if text.rest is not UNSET:
        members["text"] = dict(text.rest)
    elif text.format is text.verbosity is UNSET:
        shape["text"] = True


def _decode_format(wanted: ResponsesTextFormat | JsonObjectFormat | JsonSchemaFormat) -> ResponseFormat:
    if not isinstance(wanted, JsonSchemaFormat):
        native = make_native(NAME, members_without(wanted))
        return ResponseFormat(kind="json" if isinstance(wanted, JsonObjectFormat) else "text", native=native)
    members = members_without(wanted, "name", "description", "strict")
    if wanted.schema is not None:
        members.pop("schema", None)
    shape = {"absent": missing_members(wanted, "name") or None, "lax": True if wanted.strict is UNSET else None}
    return ResponseFormat(
        kind="json_schema",
        name=none_if_unset(wanted.name),
        description=none_if_unset(wanted.description),
        schema=none_if_unset(wanted.schema),
        strict=bool(none_if_unset(wanted.strict)),  # the default is not strict
        native=make_native(NAME, members, **shape),
    )


def _encode_text(request: Request, rest: Any, receipt: Receipt) -> dict[str, Any] | None:
    wanted = request.response_format
    if wanted is None and request.verbosity is None and not isinstance(rest, dict):
        return {} if native_of(request, NAME).get("$text") else None
    fields: dict[str, Any] = {} if request.verbosity is None else {"verbosity": request.verbosity}
    if wanted is not None:
        named = {"name": wanted.name} if wanted.name is not None else default_members(wanted, name="response")
        shape = {
            "type": _FORMAT_NAMES[wanted.kind],
            **(named if wanted.kind == "json_schema" else {}),
            **without_nulls(
                description=wanted.description, schema=wanted.schema, strict=_encode_format_strict(wanted, receipt)
            ),
            **own_members(wanted),
        }
        fields = {"format": shape, **fields}
    if isinstance(rest, dict):
        return {**rest, **fields}
    return fields if fields or native_of(request, NAME).get("$text") else None


def _encode_format_strict(wanted: ResponseFormat, receipt: Receipt) -> bool | None:
    if wanted.kind != "json_schema" or native_of(wanted, NAME).get("$lax"):
        return None
    return wanted.strict if wanted.strict is not None else encode_strict(wanted.schema, receipt)


def encode_request(request: Request, receipt: Receipt) -> bytes:
    return json.encode_document(request_fields(request, receipt), used_up="input")


def request_fields(request: Request, receipt: Receipt) -> dict[str, Any]:
    """Return the request body. Native members come before `input`, so that a longer history extends the bytes."""
    notes = native_of(request, NAME)
    rest = native_members(notes)
    for name, _ in _unsupported_of(request):
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
    fields.update(_plain_settings_of(request))
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
        tier = tier if NAME in request.native else encode_service_tier(tier, receipt)
        if tier is not None:
            fields["service_tier"] = tier
    if request.prompt_cache is not None:
        fields |= write_prompt_cache(request.prompt_cache)
    if (stream := request.stream or notes.get("$stream")) is not None:
        fields["stream"] = stream
    if request.store is not None:
        fields["store"] = request.store
    return _add_native_members(fields, rest, notes, request) | _encode_input(request, start, receipt)


def _add_native_members(
    fields: dict[str, Any], rest: dict[str, Any], notes: Mapping[str, Any], request: Request
) -> dict[str, Any]:
    """Add the native members, and the settings that requests of other dialects need."""
    if not notes:
        fields.setdefault("store", False)
        others = fields
    else:
        others = {**fields, **default_members(request, store=False), **rest, **fields}
    if (include := _encode_include(request, notes.get("$include", rest.get("include")))) is not None:
        others["include"] = include
    elif others.get("include"):
        del others["include"]
    return others


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


@lru_cache(maxsize=256)
def _is_reasoning_model(model: str) -> bool:
    return _REASONING_MODELS.search(model) is not None


def _encode_include(request: Request, own_members: Any) -> Any:
    """`include`: the original values, log probabilities if they are requested now, and encrypted reasoning for clients
    of other dialects, because nothing is stored for them. None if it is empty."""
    if own_members is not None and not isinstance(own_members, list):
        return own_members
    if (
        own_members is None
        and not request.logprobs
        and (NAME in request.native or not _is_reasoning_model(request.model))
    ):
        return None
    wanted = [value for value in _as_list(own_members) if value != LOGPROBS or request.logprobs]
    if NAME not in request.native and _is_reasoning_model(request.model):
        wanted.append("reasoning.encrypted_content")
    if request.logprobs and LOGPROBS not in wanted:
        wanted.append(LOGPROBS)
    return wanted or None


def _encode_user(request: Request, user: str, receipt: Receipt) -> dict[str, str]:
    name, legacy = native_of(request, NAME).get("$user"), without_nulls(user=request.legacy_user)
    if isinstance(name, str):
        return {name: user, **legacy}
    return {"safety_identifier": encode_identifier(user, receipt), **legacy}


def _split_instructions(request: Request) -> tuple[str | None, int]:
    """Return the text for `instructions`, and the index of the first message that goes to `input`."""
    messages = request.messages
    if not messages:
        return None, 0
    first = messages[0]
    marked = native_of(first, NAME).get("$from") == "instructions"
    free = "$input" not in native_of(request, NAME) and first.role == "system"
    if (marked or free) and len(first.content) == 1 and is_plain_text(first.content[0]):
        block = first.content[0]
        assert isinstance(block, Text)
        return block.text, 1
    return None, 0


def original_instructions(request: Request) -> str | None:
    """Return the original text of `instructions`."""
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
        if len(content) == 1 and isinstance(content[0], Text) and is_plain_text(content[0]):
            return {"input": content[0].text}
    foreign = NAME not in request.native
    items: list[dict[str, Any]] = []
    for index in range(start, len(messages)):
        message = messages[index]
        if (plain := encode_simple_items(message)) is not None:
            items += plain
        else:
            items += encode_message(message, f"messages[{index}]", receipt, foreign=foreign)
    return {"input": items}
