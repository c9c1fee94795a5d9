"""Plain answers of Chat Completions, read and written without the IR (see `toolglot.direct`)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from toolglot.dialects.openai_chat.response import FINISH, FINISH_NAMES, decode_tier
from toolglot.dialects.openai_chat.usage import decode_usage, encode_usage
from toolglot.direct.plain import UNREADABLE, PlainAnswer, PlainCall, has_all, is_object
from toolglot.errors import DecodeError

_encode = msgspec.json.Encoder().encode


class Function(Struct, forbid_unknown_fields=True, gc=False):
    name: str
    arguments: str


class Call(Struct, forbid_unknown_fields=True, gc=False):
    id: str
    type: Literal["function"]
    function: Function


# The members stand in the order in which OpenAI sends them, and whoever does as it does (see `has_all`).


class _Said(Struct, forbid_unknown_fields=True, gc=False):
    """What may be null here are the fields of other servers, which say nothing then."""

    role: Literal["assistant"]
    content: str | UnsetType | None = UNSET
    refusal: UnsetType | None = UNSET
    annotations: list[None] | UnsetType | None = UNSET
    tool_calls: list[Call] | UnsetType | None = UNSET
    function_call: UnsetType | None = UNSET
    audio: UnsetType | None = UNSET
    reasoning: UnsetType | None = UNSET
    reasoning_content: UnsetType | None = UNSET


class _Choice(Struct, forbid_unknown_fields=True, gc=False):
    index: int
    message: _Said
    logprobs: UnsetType | None = UNSET
    finish_reason: str = ""
    stop_reason: UnsetType | None = UNSET
    token_ids: UnsetType | None = UNSET


class _Answer(Struct, forbid_unknown_fields=True, gc=False):
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
        written = _encode(answer)
    except UNREADABLE:
        return None
    if len(answer.choices) != 1 or not has_all(written, data):
        return None
    choice = answer.choices[0]
    said = choice.message
    if said.annotations or choice.index or choice.finish_reason not in _PLAIN_STOPS:
        return None
    calls = []
    for call in said.tool_calls or ():
        if not call.function.name or not is_object(call.function.arguments):
            return None
        calls.append(PlainCall(call.id, call.function.name, call.function.arguments))
    stop = FINISH[choice.finish_reason]
    try:
        usage = decode_usage(answer.usage)
    except DecodeError:
        return None
    tier = decode_tier(answer.service_tier)
    text = said.content or ""
    others = ("system_fingerprint",) if answer.system_fingerprint else ()
    return PlainAnswer(
        answer.id, answer.model, answer.created, text, calls, stop, usage, service_tier=tier, members=others
    )


class _WrittenMessage(Struct, omit_defaults=True, gc=False):
    role: str
    content: str | None
    tool_calls: list[Call] | UnsetType
    refusal: None


class _WrittenChoice(Struct, gc=False):
    index: int
    message: _WrittenMessage
    finish_reason: str
    logprobs: None


class _Written(Struct, gc=False):
    id: str
    object: str
    created: int
    model: str
    choices: list[_WrittenChoice]
    usage: dict[str, Any] | UnsetType
    service_tier: str | UnsetType


def write_answer(answer: PlainAnswer) -> bytes:
    calls = [Call(call.id, "function", Function(call.name, call.arguments)) for call in answer.calls]
    message = _WrittenMessage("assistant", answer.text or None, calls or UNSET, None)
    choice = _WrittenChoice(0, message, FINISH_NAMES[answer.stop], None)
    usage = UNSET if answer.usage is None else encode_usage(answer.usage)
    tier = UNSET if answer.service_tier is None else answer.service_tier
    return _encode(_Written(answer.id, "chat.completion", answer.created or 0, answer.model, [choice], usage, tier))
