"""Plain answers of Chat Completions, read and written without the IR (see `toolglot.direct`)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import astuple

from toolglot.dialects.openai_chat.response import FINISH, FINISH_NAMES, encode_usage
from toolglot.direct.plain import UNREADABLE, PlainAnswer, PlainCall, colons_of, has_escapes, is_object
from toolglot.ir import Usage

_encode = msgspec.json.Encoder().encode


class Function(Struct, forbid_unknown_fields=True, gc=False):
    name: str
    arguments: str


class Call(Struct, forbid_unknown_fields=True, gc=False):
    id: str
    type: Literal["function"]
    function: Function


class _Said(Struct, forbid_unknown_fields=True):
    """What may be null here are the fields of other servers, which say nothing then."""

    role: Literal["assistant"]
    content: str | UnsetType | None = UNSET
    tool_calls: list[Call] | UnsetType | None = UNSET
    refusal: UnsetType | None = UNSET
    annotations: list[None] | UnsetType | None = UNSET
    function_call: UnsetType | None = UNSET
    audio: UnsetType | None = UNSET
    reasoning: UnsetType | None = UNSET
    reasoning_content: UnsetType | None = UNSET


class _Choice(Struct, forbid_unknown_fields=True):
    index: int
    message: _Said
    finish_reason: str
    logprobs: UnsetType | None = UNSET
    stop_reason: UnsetType | None = UNSET
    token_ids: UnsetType | None = UNSET


class _Answer(Struct, forbid_unknown_fields=True):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[_Choice]
    usage: dict[str, Any]
    service_tier: str | UnsetType | None = UNSET
    system_fingerprint: str | UnsetType | None = UNSET
    prompt_logprobs: UnsetType | None = UNSET
    prompt_token_ids: UnsetType | None = UNSET
    kv_transfer_params: UnsetType | None = UNSET


_answers = msgspec.json.Decoder(_Answer)
_PLAIN_STOPS = frozenset({"stop", "tool_calls", "length"})


def read_answer(data: bytes) -> PlainAnswer | None:
    try:
        answer = _answers.decode(data)
    except UNREADABLE:
        return None
    if len(answer.choices) != 1:
        return None
    choice = answer.choices[0]
    said = choice.message
    if said.annotations or choice.index or choice.finish_reason not in _PLAIN_STOPS:
        return None
    colons = _present(answer) + _present(choice) + _present(said)
    colons += answer.id.count(":") + answer.model.count(":") + _encode(answer.usage).count(b":")
    colons += (answer.service_tier or "").count(":") + (answer.system_fingerprint or "").count(":")
    calls = []
    for call in said.tool_calls or ():
        name, arguments = call.function.name, call.function.arguments
        if not is_object(arguments):
            return None
        calls.append(PlainCall(call.id, name, arguments))
        colons += 5 + call.id.count(":") + name.count(":") + arguments.count(":")
    text = said.content or ""
    usage, stop = _usage(answer.usage), FINISH[choice.finish_reason]
    if usage is None or colons + text.count(":") != colons_of(data) or has_escapes(data):
        return None
    return PlainAnswer(answer.id, answer.model, answer.created, text, calls, stop, usage, answer.usage)


def _present(record: Struct) -> int:
    """How many of its members were there."""
    return len(record.__struct_fields__) - astuple(record).count(UNSET)


_INTEGERS = [int] * 5


def _usage(counts: dict[str, Any]) -> Usage | None:
    """The counts; None if one is odd."""
    details = counts.get("prompt_tokens_details") or {}, counts.get("completion_tokens_details") or {}
    if type(details[0]) is not dict or type(details[1]) is not dict:
        return None
    found = [
        counts.get("prompt_tokens"),
        counts.get("completion_tokens"),
        details[0].get("cached_tokens", 0),
        details[0].get("cache_write_tokens", 0),
        details[1].get("reasoning_tokens", 0),
    ]
    if [type(count) for count in found] != _INTEGERS:
        return None
    read, written, cached, cache_written, reasoned = found
    return Usage(
        input_tokens=read,
        output_tokens=written,
        cached_tokens=cached,
        cache_write_tokens=cache_written,
        reasoning_tokens=reasoned,
    )


class _WrittenMessage(Struct, omit_defaults=True):
    role: str
    content: str | None
    tool_calls: list[Call] | UnsetType
    refusal: None


class _WrittenChoice(Struct):
    index: int
    message: _WrittenMessage
    finish_reason: str
    logprobs: None


class _Written(Struct):
    id: str
    object: str
    created: int
    model: str
    choices: list[_WrittenChoice]
    usage: dict[str, Any] | UnsetType


def write_answer(answer: PlainAnswer) -> bytes:
    calls = [Call(call.id, "function", Function(call.name, call.arguments)) for call in answer.calls]
    message = _WrittenMessage("assistant", answer.text or None, calls or UNSET, None)
    choice = _WrittenChoice(0, message, FINISH_NAMES[answer.stop], None)
    usage = UNSET if answer.usage is None else encode_usage(answer.usage)
    return _encode(_Written(answer.id, "chat.completion", answer.created or 0, answer.model, [choice], usage))
