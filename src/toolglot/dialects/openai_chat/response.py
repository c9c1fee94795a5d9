"""A `chat.completion` object <-> `Response`. The first choice is the response; others are stored as native members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import UNSET, UnsetType

from toolglot.dialects.openai_chat.annotations import encode_annotations, take_annotations
from toolglot.dialects.openai_chat.blocks import (
    IMAGES,
    arguments_text,
    decode_calls,
    decode_content,
    decode_images,
    encode_call,
    encode_image,
    encode_part,
    encode_repeated_call,
    has_no_call,
    is_call,
    is_thinking_part,
    own_members,
    take_member,
)
from toolglot.dialects.openai_chat.content_filters import ANSWER, PROMPT, take_default
from toolglot.dialects.openai_chat.errors import choice_error
from toolglot.dialects.openai_chat.messages import (
    REASONING_FIELDS,
    present_lists,
    reasoning_field_names,
    take_reasoning,
    take_refusal,
    take_wrapped_reasoning,
)
from toolglot.dialects.openai_chat.native import NAME
from toolglot.dialects.openai_chat.normalize_answer import normalize_answer
from toolglot.dialects.openai_chat.reasoning_details import (
    DETAILS_FIELDS,
    add_details,
    fill_provider_fields,
    take_details,
)
from toolglot.dialects.openai_chat.request import GROQ_TIERS, is_legacy
from toolglot.dialects.openai_chat.usage import decode_usage, encode_usage
from toolglot.dialects.openai_chat.wire import RESPONSES, Choice, Completion, ResponseMessage
from toolglot.errors import ApiError, DecodeError, ErrorKind, UpstreamError
from toolglot.ir import (
    Block,
    Media,
    Opaque,
    Refusal,
    Request,
    Response,
    Stop,
    StopReason,
    Text,
    Thinking,
    TokenLogprob,
    ToolCall,
    native_of,
    replace,
)
from toolglot.receipt import UNREAD, Receipt, ReceiptLine, describe_block, unread_lines
from toolglot.wire import json, openai_error
from toolglot.wire.error_documents import find_error
from toolglot.wire.native import fill_members, make_native, native_members
from toolglot.wire.openai_logprobs import read_logprobs, unread_members, write_logprobs
from toolglot.wire.structs import as_json, member_reader, members_without
from toolglot.wire.text_separator import separator_between

STOP_REASONS: dict[str, StopReason] = {
    "stop": "end",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "filtered",
}
_OTHER_STOP_REASONS: dict[str, StopReason] = {
    **STOP_REASONS,
    "eos": "end",  # Together
    "eos_token": "end",  # Text Generation Inference
    "complete": "end",  # Cohere
    "end_turn": "end",  # servers in front of Claude, as are the next three
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_calls",
    "max_tokens": "length",  # Cohere and Gemini too
    "max_output_tokens": "length",
    "model_length": "context_full",  # Mistral
    "model_context_window_exceeded": "context_full",  # Z.ai
    "sensitive": "filtered",  # Z.ai
    "content_filtered": "filtered",  # Bedrock, as the next one
    "guardrail_intervened": "filtered",
    "safety": "filtered",  # Gemini, as the next ones
    "recitation": "filtered",
    "blocklist": "filtered",
    "prohibited_content": "filtered",
    "spii": "filtered",
}
"""Finish reasons of servers that imitate the API, in lower case and with underscores. Some servers write them in
capitals or with hyphens."""
GAP_WHY = "Chat has one text; a blank line marks where another block or message began"
CUT_REASONS = frozenset({"length", "context_full", "filtered"})
"""Reasons that may leave the last block unfinished."""
FINISH_REASONS: dict[StopReason, str] = {
    "end": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool_calls",
    "length": "length",
    "context_full": "length",
    "refusal": "stop",
    "filtered": "content_filter",
    "pause": "stop",
    "malformed_call": "stop",
    "other": "stop",
}


def decode_response(data: bytes) -> Response:
    body, unread = _read_completion(data)
    if not body.choices:
        raise DecodeError("$.choices", "a response needs at least one choice")
    choice, continued, others = _group_choices(body.choices) if len(body.choices) > 1 else (body.choices[0], (), ())
    if not choice.message:
        raise DecodeError("$.choices[0].message", "this object is required")
    in_body, in_choice = _rest_of_body(body), _rest_of_choice(choice)
    finish: str | None = None if choice.finish_reason is UNSET else choice.finish_reason
    content, in_message = _decode_message(choice.message)
    for part, message in continued:
        finish = part.finish_reason or finish
        more, beside = _decode_message(message)
        content, in_message = (*content, *more), {**beside, **in_message}
        in_choice = {**members_without(part, "message", "finish_reason"), **in_choice}
    if in_choice.get("error"):
        raise UpstreamError(choice_error(in_choice["error"]))
    content, stop = _settle_content(finish, content)
    logprobs, index = None, choice.index
    if choice.logprobs or continued:
        content, logprobs = _take_logprobs(in_choice, content)
        continued_index = take_member(in_choice, "index")
        index = continued_index if index in (None, UNSET) else index
    filters: dict[str, Any] = {}
    if body.prompt_filter_results or choice.content_filter_results:
        filters = {**take_default(in_body, PROMPT), **take_default(in_choice, ANSWER)}
    groq = _take_groq(in_body) if body.x_groq is not UNSET else {}
    usage = body.usage or groq.get("usage", body.usage if type(body.usage) is dict else None)
    in_first = in_choice.pop("usage") if not usage and type(in_choice.get("usage")) is dict else None
    usage = usage if in_first is None else in_first
    notes = in_body
    if body.rest is not UNSET or groq or logprobs:
        index = None if index is UNSET else index
        given = make_native(NAME, in_body, finish_reason=finish, index=index, x_groq=groq or None, logprobs=logprobs)
        notes = given.get(NAME, {})
    else:
        if finish is not None:
            notes["$finish_reason"] = finish
        if type(index) is int:
            notes["$index"] = index
    # Unread members go into a native member. If there are none, a note records that the object was present.
    notes["message" if in_message else "$message"] = in_message
    notes["choice" if in_choice else "$choice"] = in_choice
    annotations = choice.message.annotations
    if annotations and in_message.get("annotations") != annotations:
        notes["$annotations"] = annotations
    if filters:
        notes["$filters"] = filters
    if in_first is not None:
        notes["$usage_in_choice"] = True
    if others:
        notes["choices"] = others
    if unread:
        notes[UNREAD] = unread
    return Response(
        id=body.id or "",
        model=body.model or "",
        content=content,
        stop=stop,
        usage=decode_usage(usage) if usage is not None else None,
        created=None if body.created is UNSET else body.created,
        service_tier=None if body.service_tier is UNSET else decode_tier(body.service_tier),
        native={NAME: notes},
    )


_rest_of_body = member_reader(Completion, "choices", unless_null=("id", "model", "created", "usage"))
_rest_of_choice = member_reader(Choice, "message", unless_null=("finish_reason", "index"))


def _settle_content(finish: str | None, content: tuple[Block, ...]) -> tuple[tuple[Block, ...], Stop]:
    """Remove blank calls, mark a cut last call as incomplete, and determine why the model stopped."""
    reason = STOP_REASONS.get(finish or "stop")
    if reason is None:
        if (failed := finish_failure(finish)) is not None:
            raise UpstreamError(failed)
        reason = decode_finish_reason(finish)
    if reason != "tool_calls":
        kinds = [*map(type, content)]
        if ToolCall in kinds or Opaque in kinds:
            content = tuple([block for block in content if not has_no_call(block)])
        if reason in CUT_REASONS and content:
            content = (*content[:-1], _mark_cut(content[-1]))
        if reason == "end" and Refusal in kinds:
            reason = "refusal"
    return content, Stop(reason, finish)


def _group_choices(choices: list[Choice]) -> tuple[Choice, list[tuple[Choice, ResponseMessage]], list[Any]]:
    """Split choices into the first one, those that continue it (with their messages), and other answers as JSON.

    GitHub Copilot sends the text and the calls of one answer as two choices (HKUDS/nanobot #1555), with one index or
    with two. Other answers have an index of their own. If a first choice stopped for calls but has none, it is not a
    whole answer: the calls are in the next choices.
    """
    first = choices[0]
    lacks_calls = decode_finish_reason(first.finish_reason or None) == "tool_calls" and not _has_calls(first.message)
    continued: list[tuple[Choice, ResponseMessage]] = []
    others: list[Any] = []
    for choice in choices[1:]:
        message = choice.message
        is_same = (choice.index or 0) == (first.index or 0) or (lacks_calls and not continued)
        if message and message.tool_calls and not message.content and is_same:
            continued.append((choice, message))
        else:
            others.append(as_json(choice))
    return first, continued, others


def _has_calls(message: ResponseMessage | UnsetType | None) -> bool:
    return bool(message and (message.tool_calls or message.function_call))


def _read_completion(data: bytes) -> tuple[Completion, tuple[ReceiptLine, ...]]:
    """Read the answer, with notes on members in a nonstandard form."""
    unread: tuple[ReceiptLine, ...] = ()
    try:
        body = RESPONSES.read(data, factor=json.ANSWER_FACTOR)
    except DecodeError:
        _raise_error(data)
        value = json.decode_answer(data)
        unread = normalize_answer(value)
        if not unread:
            raise
        body = RESPONSES.read(json.encode(value), factor=json.ANSWER_FACTOR)
    # Except for `object`, the types have none of the members that errors have.
    if body.rest is not UNSET or body.object == "error":
        _raise_error(data)
    return body, unread


def _raise_error(data: bytes) -> None:
    value = json.decode_answer(data)
    if find_error(value) is not None:
        raise UpstreamError(openai_error.read_error(value, NAME))


_GROQ_MEMBERS = frozenset({"id", "usage"})


def _take_groq(members: dict[str, Any]) -> dict[str, Any]:
    """Take Groq's own member, if it has only the id of the request and the usage."""
    value = members.get("x_groq")
    if (
        not isinstance(value, dict)
        or not value.keys() <= _GROQ_MEMBERS
        or not isinstance(value.get("usage"), dict | None)
    ):
        return {}
    del members["x_groq"]
    return value


def _take_logprobs(
    members: dict[str, Any], content: tuple[Block, ...]
) -> tuple[tuple[Block, ...], dict[str, Any] | None]:
    """Put the log probabilities on the first text. Returns the content and the original object. Unreadable ones, and
    those without a text, stay with the choice."""
    value = members.get("logprobs")
    if not isinstance(value, dict):
        return content, None
    tokens = read_logprobs(value.get("content"))
    at = next((index for index, block in enumerate(content) if isinstance(block, Text)), None)
    if not tokens or at is None:
        return content, None
    rest = {key: other for key, other in value.items() if key != "content" and other}
    if unread := unread_members(value.get("content")):
        rest["content"] = {key: other for entry in unread for key, other in entry.items()}
    if rest:
        members["logprobs"] = rest
    else:
        del members["logprobs"]
    return (*content[:at], replace(content[at], logprobs=tokens), *content[at + 1 :]), value


def encode_logprobs(tokens: Iterable[TokenLogprob]) -> dict[str, Any]:
    return {"content": write_logprobs(tokens), "refusal": None}


def _encode_choice_logprobs(response: Response) -> dict[str, Any]:
    """Return the member `logprobs` of a choice, if there are any."""
    if "$logprobs" in (notes := native_of(response, NAME)):
        return {"logprobs": notes["$logprobs"]}
    tokens = [token for block in response.content if type(block) is Text for token in block.logprobs]
    return {"logprobs": encode_logprobs(tokens)} if tokens else {}


def _decode_message(message: ResponseMessage) -> tuple[tuple[Block, ...], dict[str, Any]]:
    """Return the blocks of a message, and its members that the blocks do not hold."""
    is_assistant, has_calls = message.role == "assistant", message.tool_calls or message.function_call
    if is_assistant and message.content and not has_calls and not message.images:
        rest = _rest_of_text(message)
    else:
        taken = [*(("content",) if message.content else ()), *(("role",) if is_assistant else ())]
        rest = members_without(message, *taken, *present_lists(message))
    blocks = decode_content(message.content)
    if message.annotations:
        blocks = take_annotations(rest, blocks)
    if not _REASONING_MEMBERS.isdisjoint(rest):
        blocks = (*take_details(rest, take_wrapped_reasoning(rest) or take_reasoning(rest)), *blocks)
    if message.images:
        blocks = (*blocks, *decode_images(message))
    if message.refusal:
        blocks = (*blocks, take_refusal(rest))
    return (*blocks, *decode_calls(message)) if has_calls else blocks, rest


_rest_of_text = member_reader(ResponseMessage, "content", "role")
_REASONING_MEMBERS = frozenset({*REASONING_FIELDS, *DETAILS_FIELDS})


def _mark_cut(block: Block) -> Block:
    """Mark the last block of a cut answer. A call is complete only if its arguments are."""
    if not isinstance(block, ToolCall):
        return block
    whole = block.kind == "function" and block.arguments.strip() and json.object_of(block.arguments) is not None
    return block if whole else replace(block, complete=False)


_FAILURE_REASONS = frozenset({"error", "abort", "network_error", "insufficient_system_resource"})
"""Failures of the server, not reasons to stop (Mistral and OpenRouter, vLLM and SGLang, Z.ai, DeepSeek). The content
before them is not an answer."""


def finish_failure(word: str | None) -> ApiError | None:
    if word is None or word.lower() not in _FAILURE_REASONS:
        return None
    kind: ErrorKind = "overloaded" if word == "insufficient_system_resource" else "server"
    status = 503 if kind == "overloaded" else 502
    message = f'The upstream failed in the middle of its answer: it ended with the finish_reason "{word}"'
    return ApiError(kind=kind, status=status, message=message, code=word)


def decode_finish_reason(word: str | None) -> StopReason:
    return STOP_REASONS.get(word or "stop") or _OTHER_STOP_REASONS.get((word or "").lower().replace("-", "_"), "other")


def decode_tier(tier: Any) -> str | None:
    """Return the tier that served the request. It also stays with the native members."""
    return GROQ_TIERS.get(tier, tier) if isinstance(tier, str) else None


def encode_stop(stop: Stop, content: tuple[Block, ...], legacy: bool) -> str:
    """Return the finish reason; the deprecated one for a client that uses the deprecated `functions`."""
    if stop.reason == "tool_calls" and legacy:
        return "function_call"
    if stop.reason == "refusal" and Refusal not in map(type, content):
        return "content_filter"
    return FINISH_REASONS[stop.reason]


def encode_response(response: Response, request: Request | None, receipt: Receipt) -> bytes:
    notes = native_of(response, NAME)
    legacy = request is not None and is_legacy(request)
    report_stop(response.stop, receipt)
    message = (None if legacy else _encode_plain(response.content)) or _encode_message(response, legacy, receipt)
    if not notes:
        return json.encode(_foreign_response(response, message, legacy))
    receipt.add(unread_lines(notes))
    finish = None if legacy else notes.get("$finish_reason")
    choice = {
        "index": notes.get("$index", 0),
        "message": _with_received(message, notes),
        "finish_reason": finish or encode_stop(response.stop, response.content, legacy),
        **notes.get("choice", notes.get("$choice", {"logprobs": None})),
        **_encode_choice_logprobs(response),
    }
    rest = {key: value for key, value in native_members(notes).items() if key not in ("message", "choice")}
    if response.service_tier is not None:
        rest.setdefault("service_tier", response.service_tier)
    if "$x_groq" in notes:
        rest["x_groq"] = notes["$x_groq"]
    for name, verdicts in notes.get("$filters", {}).items():
        (rest if name == PROMPT else choice)[name] = verdicts
    fields: dict[str, Any] = {
        "id": response.id,
        "object": "chat.completion",
        "created": response.created or 0,
        "model": response.model,
        "choices": [choice, *rest.pop("choices", ())],
    }
    if response.usage is not None:
        (choice if "$usage_in_choice" in notes else fields)["usage"] = encode_usage(response.usage)
    return json.encode({**fields, **rest})


def _with_received(message: dict[str, Any], notes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message with the members that only this dialect understands, and with the received empty ones."""
    received = notes.get("message", notes.get("$message", {"refusal": None}))
    whole = fill_members(message, received)
    fill_provider_fields(whole, received)
    if "role" in received:  # another word than `assistant`
        whole["role"] = received["role"]
    if (written := message.get("annotations")) and (original := notes.get("$annotations")):
        others = [one for one in received.get("annotations") or () if one not in written]
        whole["annotations"] = original if all(one in original for one in written) else [*written, *others]
    return whole


def _foreign_response(response: Response, message: dict[str, Any], legacy: bool) -> dict[str, Any]:
    """Encode a response from another API."""
    message.setdefault("refusal", None)
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": encode_stop(response.stop, response.content, legacy),
        "logprobs": None,
        **_encode_choice_logprobs(response),
    }
    fields: dict[str, Any] = {
        "id": response.id,
        "object": "chat.completion",
        "created": response.created or 0,
        "model": response.model,
        "choices": [choice],
    }
    if response.usage is not None:
        fields["usage"] = encode_usage(response.usage)
    if response.service_tier is not None:
        fields["service_tier"] = response.service_tier
    return fields


def _encode_plain(content: tuple[Block, ...]) -> dict[str, Any] | None:
    """Encode an answer of the usual form: at most one text, followed by calls. Returns None for any other form, and if
    a block has native members of this dialect."""
    text: str | None = None
    calls: list[dict[str, Any]] = []
    for block in content:
        if NAME in block.native:
            return None
        if type(block) is ToolCall and block.kind == "function":
            function = {"name": block.name, "arguments": arguments_text(block)}
            calls.append({"id": block.id, "type": "function", "function": function})
        elif type(block) is Text and text is None and not (calls or block.citations or block.new_message):
            text = block.text
        else:
            return None
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = calls
    return message


def _encode_message(response: Response, legacy: bool, receipt: Receipt) -> dict[str, Any]:
    texts: list[str] = []
    said, apart = "", False  # the latest text, and whether another block followed it
    length = 0  # characters of all texts so far
    annotations: list[dict[str, Any]] = []
    refusals: list[str] = []
    calls: list[ToolCall | Opaque] = []
    reasoning: dict[str, list[str]] = {}
    beside: dict[str, Any] = {}
    parts: list[Any] = []
    listed = False
    for index, block in enumerate(response.content):
        where = f"content[{index}]"
        apart = apart or not isinstance(block, Text) or block.new_message
        if is_call(block):
            calls.append(block)
            continue
        match block:
            case Text(text=text):
                if apart and (gap := separator_between(said, text)):
                    receipt.note(where, "text separate from the text before", GAP_WHY)
                    texts.append(gap)
                    length += len(gap)
                apart, said = apart and not text, text or said
                texts.append(text)
                parts.append({"type": "text", "text": text, **own_members(block)})
                annotations += encode_annotations(block.citations, length, len(text), where, receipt)
                length += len(text)
            case Thinking() if is_thinking_part(block):
                listed = True
                parts.append(encode_part(block, where, receipt))
            case Thinking(text=text):
                add_details(beside, block, where, receipt)
                for field in reasoning_field_names(block):
                    reasoning.setdefault(field, []).append(text)
            case Media():
                if (image := encode_image(block, where, receipt)) is not None:
                    beside.setdefault(IMAGES, []).append(image)
            case Refusal(text=text):
                refusals.append(text)
            case Opaque(dialect=dialect, value=value) if dialect == NAME:
                listed = True
                parts.append(value)
            case _:
                receipt.loss(where, describe_block(block), "a Chat response has no place for it")
    # Parts that only this dialect understands need a list; plain text is a string.
    content: Any = "".join(texts) if texts else None
    if listed:
        content = parts
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if refusals:
        message["refusal"] = "".join(refusals)
    message |= {field: "\n\n".join(pieces) for field, pieces in reasoning.items()}
    message |= beside
    if annotations:
        message["annotations"] = annotations
    return message | _encode_calls(calls, legacy, receipt)


def report_stop(stop: Stop, receipt: Receipt) -> None:
    if stop.reason == "pause":
        receipt.loss("stop", "pause", "Chat Completions cannot say that the turn must be sent back to continue")


def _encode_calls(calls: list[ToolCall | Opaque], legacy: bool, receipt: Receipt) -> dict[str, Any]:
    if not calls:
        return {}
    first = calls[0]
    if isinstance(first, Opaque) or not (legacy or native_of(first, NAME).get("$legacy")):
        return {"tool_calls": [encode_call(call) for call in calls], **encode_repeated_call(calls)}
    for call in calls[1:]:
        name = call.name if isinstance(call, ToolCall) else "an unknown kind"
        receipt.loss("content", f"call of {name}", "the deprecated function_call has room for one call")
    return {"function_call": {"name": first.name, "arguments": arguments_text(first)}}
