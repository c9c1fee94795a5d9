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
from typing import Any

from toolglot.dialects.openai_responses.blocks import absent, filled, is_plain, own, present
from toolglot.dialects.openai_responses.items import decode_input_item, encode_message
from toolglot.dialects.openai_responses.native import NAME
from toolglot.dialects.openai_responses.plain import plain_item
from toolglot.dialects.openai_responses.tools import (
    decode_choice,
    decode_tools,
    encode_choice,
    encode_tools,
    offered,
    tools_in_items,
)
from toolglot.errors import DecodeError
from toolglot.ir import Message, Reasoning, Request, ResponseFormat, Text, native_of, replace
from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.efforts import is_bare_switch
from toolglot.wire.openai_fields import (
    identifier,
    service_tier,
    strictness,
    take_prompt_cache,
    write_prompt_cache,
)
from toolglot.wire.reader import Reader, document, expected, keep

# Models that reason; others refuse to be asked for it.
_REASONS = re.compile(r"(^|/)(gpt-([5-9]|\d\d)(?!.*-chat)|o[1-9](-|$)|codex-)")

LOGPROBS = "message.output_text.logprobs"
"""The word in `include` that asks for log probabilities."""

# Where one of these is, the conversation lies on the server and `input` may be missing.
_HOLDS_INPUT = ("previous_response_id", "conversation", "prompt")
_UNWRITABLE = ("top_k", "seed", "presence_penalty", "frequency_penalty", "stop", "candidates", "cache")
_FORMATS = {"text": "text", "json_object": "json", "json_schema": "json_schema"}
_FORMAT_NAMES = {kind: name for name, kind in _FORMATS.items()}


def path(request: Request) -> str:
    return "/v1/responses"


def decode_request(data: bytes) -> Request:
    body = document(data)
    shape: dict[str, Any] = {"absent": absent(body, "store"), "text": body.peek("text") == {} or None}
    shape["include"] = _take_logprobs(body)
    no_tools = body.peek("tools") == []
    listed = decode_tools(body.objects("tools"))
    messages, brought, shape["input"] = _decode_input(body)
    if isinstance(body.peek("instructions"), str):  # a prompt template may put a list of items here: it rides along
        text = Text(text=body.need_text("instructions"))
        messages = (Message(role="system", content=(text,), native={NAME: {"$from": "instructions"}}), *messages)
    user_name = "safety_identifier" if "safety_identifier" in body else "user"
    user, stream = body.text(user_name), body.flag("stream")
    shape |= {
        "no_tools": no_tools or None,
        "user": user_name if user is not None else None,
        "stream": False if stream is False else None,
    }
    choice = body.take("tool_choice")
    response_format, verbosity = _decode_text(body)
    fields: dict[str, Any] = {
        "model": body.need_text("model") if body.peek("model") else "",
        "tools": offered(listed, brought),
        "tool_choice": decode_choice(choice, body.at("tool_choice")) if choice is not None else None,
        "parallel_tool_calls": body.flag("parallel_tool_calls"),
        "max_output_tokens": body.integer("max_output_tokens"),
        "temperature": body.number("temperature"),
        "top_p": body.number("top_p"),
        "logprobs": True if shape["include"] is not None else None,
        "top_logprobs": body.integer("top_logprobs"),
        "response_format": response_format,
        "reasoning": _decode_reasoning(body),
        "verbosity": verbosity,
        "user": user,
        "metadata": _decode_metadata(body),
        "service_tier": body.text("service_tier"),
        "prompt_cache": take_prompt_cache(body.rest()),
        "store": body.flag("store"),
        "stream": bool(stream),
    }
    return Request(messages=messages, native=keep(NAME, body, **shape), **fields)


def _decode_input(body: Reader) -> tuple[tuple[Message, ...], list[Any], str]:
    """The messages, the tools that stand among them, and the shape of `input`."""
    value = body.take("input")
    if value is None:
        if not any(key in body for key in _HOLDS_INPUT):
            raise DecodeError(body.at("input"), "this string or array is required")
        return (), [], "absent"
    if isinstance(value, str):
        return (Message(role="user", content=(Text(text=value),)),), [], "string"
    if not isinstance(value, list):
        raise expected(body.at("input"), "a string or an array", value)
    where = body.at("input")
    brought = tools_in_items(value, where)
    return (
        tuple(
            plain_item(item) or decode_input_item(Reader(item, f"{where}[{index}]")) for index, item in enumerate(value)
        ),
        brought,
        "items",
    )


def _decode_reasoning(body: Reader) -> Reasoning | None:
    reasoning = body.object("reasoning")
    if reasoning is None:
        return None
    effort, summary = reasoning.text("effort"), reasoning.text("summary")
    return Reasoning(
        mode="off" if effort == "none" else None,
        effort=effort,
        show=True if summary is not None else None,
        native=keep(NAME, reasoning, summary=summary, given=True),
    )


def _encode_reasoning(reasoning: Reasoning | None, receipt: Receipt) -> dict[str, Any] | None:
    if reasoning is None:
        return None
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


def _decode_text(body: Reader) -> tuple[ResponseFormat | None, str | None]:
    """`text`: what is understood is taken, and the rest stays where it was."""
    text = body.object("text")
    if text is None:
        return None, None
    verbosity = text.text("verbosity")
    wanted: ResponseFormat | None = None
    value = text.peek("format")
    if isinstance(value, dict) and value.get("type") in list(_FORMATS):
        wanted = _decode_format(Reader(text.take("format"), text.at("format")))
    if text.rest():
        body.rest()["text"] = text.rest()
    return wanted, verbosity


def _decode_format(fields: Reader) -> ResponseFormat:
    lacking = absent(fields, "name")
    kind = fields.need_text("type")
    if kind != "json_schema":
        return ResponseFormat(kind="json" if kind == "json_object" else "text", native=keep(NAME, fields))
    strict = fields.flag("strict")
    return ResponseFormat(
        kind="json_schema",
        name=fields.text("name"),
        description=fields.text("description"),
        schema=fields.take("schema"),
        strict=bool(strict),  # what is not said is not strict here
        native=keep(NAME, fields, absent=lacking, lax=True if strict is None else None),
    )


def _encode_text(request: Request, rest: Any, receipt: Receipt) -> dict[str, Any] | None:
    wanted = request.response_format
    fields: dict[str, Any] = {}
    if wanted is not None:
        named = {"name": wanted.name} if wanted.name is not None else filled(wanted, name="response")
        fields["format"] = {
            "type": _FORMAT_NAMES[wanted.kind],
            **(named if wanted.kind == "json_schema" else {}),
            **present(description=wanted.description, schema=wanted.schema, strict=_strict(wanted, receipt)),
            **own(wanted),
        }
    fields |= present(verbosity=request.verbosity)
    if isinstance(rest, dict):
        return {**rest, **fields}
    return fields if fields or native_of(request, NAME).get("$text") else None


def _strict(wanted: ResponseFormat, receipt: Receipt) -> bool | None:
    if wanted.kind != "json_schema" or native_of(wanted, NAME).get("$lax"):
        return None
    return wanted.strict if wanted.strict is not None else strictness(wanted.schema, receipt)


def _decode_metadata(body: Reader) -> dict[str, str] | None:
    value = body.peek("metadata")
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        return None
    body.take("metadata")
    return value


def encode_request(request: Request, receipt: Receipt) -> bytes:
    return json.encode_document(request_fields(request, receipt), used_up="input")


def request_fields(request: Request, receipt: Receipt) -> dict[str, Any]:
    """The request body. What only this API knows comes before `input`, so that a longer history extends the bytes."""
    notes, rest = native_of(request, NAME), own(request)
    for name in _UNWRITABLE:
        if getattr(request, name) not in (None, ()):
            receipt.loss(name, name, "the Responses API has no such parameter")
    instructions, messages = _split_instructions(request)
    tools = encode_tools(request, receipt)
    fields = present(
        model=request.model or None,
        instructions=instructions,
        tools=tools if tools or notes.get("$no_tools") else None,
        tool_choice=encode_choice(request, receipt),
        parallel_tool_calls=request.parallel_tool_calls,
        max_output_tokens=request.max_output_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        top_logprobs=request.top_logprobs,
        reasoning=_encode_reasoning(request.reasoning, receipt),
        text=_encode_text(request, rest.get("text"), receipt),
        **_encode_user(request, receipt),
        metadata=request.metadata,
        service_tier=request.service_tier if NAME in request.native else service_tier(request.service_tier, receipt),
        **write_prompt_cache(request.prompt_cache),
        stream=request.stream or notes.get("$stream"),
        store=request.store,
    )
    others = {**filled(request, store=False), **rest, **fields}
    if (include := _encode_include(request, notes.get("$include", rest.get("include")))) is not None:
        others["include"] = include
    elif others.get("include"):
        del others["include"]
    return {**fields, **others, **_encode_input(request, messages, receipt)}


def _included(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _take_logprobs(body: Reader) -> list[Any] | None:
    """The whole of `include` where it asks for log probabilities; what else it asks for stays where it was."""
    included = _included(body.peek("include"))
    if LOGPROBS not in included:
        return None
    body.take("include")
    if others := [value for value in included if value != LOGPROBS]:
        body.rest()["include"] = others
    return included


def _encode_include(request: Request, own: Any) -> Any:
    """`include`: what came, with or without log probabilities as they are asked for now, and state to carry: nothing is
    stored for another dialect's client, so what it is to carry must be asked for. None when there is nothing to ask."""
    if own is not None and not isinstance(own, list):
        return own
    wanted = [value for value in _included(own) if value != LOGPROBS or request.logprobs]
    if NAME not in request.native and _REASONS.search(request.model):
        wanted.append("reasoning.encrypted_content")
    if request.logprobs and LOGPROBS not in wanted:
        wanted.append(LOGPROBS)
    return wanted or None


def _encode_user(request: Request, receipt: Receipt) -> dict[str, str]:
    user, name = request.user, native_of(request, NAME).get("$user")
    if user is None:
        return {}
    if isinstance(name, str):
        return {name: user}
    return {"safety_identifier": identifier(user, receipt)}


def _split_instructions(request: Request) -> tuple[str | None, list[tuple[int, Message]]]:
    """The text for `instructions`, and the messages that stand in `input`, with their places."""
    messages = list(enumerate(request.messages))
    if not messages:
        return None, []
    first = messages[0][1]
    marked = native_of(first, NAME).get("$from") == "instructions"
    free = "$input" not in native_of(request, NAME) and first.role == "system"
    if (marked or free) and len(first.content) == 1 and is_plain(first.content[0]):
        block = first.content[0]
        assert isinstance(block, Text)
        return block.text, messages[1:]
    return None, messages


def _encode_input(request: Request, messages: list[tuple[int, Message]], receipt: Receipt) -> dict[str, Any]:
    shape = native_of(request, NAME).get("$input")
    if shape == "absent" and not messages:
        return {}
    if shape == "string" and len(messages) == 1:
        content = messages[0][1].content
        if len(content) == 1 and isinstance(content[0], Text) and is_plain(content[0]):
            return {"input": content[0].text}
    foreign = NAME not in request.native
    items = [
        item
        for index, message in messages
        for item in encode_message(message, f"messages[{index}]", receipt, foreign=foreign)
    ]
    return {"input": items}


def without_history(request: Request) -> Request:
    """The same request without its conversation: what a response repeats of it."""
    leading = [message for message in request.messages[:1] if native_of(message, NAME).get("$from") == "instructions"]
    return replace(request, messages=tuple(leading))
