"""Plain Chat Completions requests, read and written without the IR (see `toolglot.direct`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, product, starmap
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import astuple

from toolglot.dialects.openai_chat.blocks import nearest_lifetime
from toolglot.dialects.openai_chat.direct_answers import Call, Function, read_answer, write_answer
from toolglot.direct.plain import (
    Direct,
    PlainCall,
    PlainRequest,
    Thought,
    Turn,
    Way,
    Words,
    is_blank,
    is_object,
    marked,
    texts_of,
    with_settings,
)

_SETTINGS = (
    "tool_choice",
    "parallel_tool_calls",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "stop",
    "response_format",
    "reasoning_effort",
    "verbosity",
    "user",
    "metadata",
    "store",
    "service_tier",
    "stream_options",
    "prompt_cache_key",
    "tools",
)


class _Part(Struct, forbid_unknown_fields=True, gc=False):
    """(A tag would not be missed, as there are no other parts here.)"""

    type: Literal["text"]
    text: str


class _System(Struct, tag="system", tag_field="role", forbid_unknown_fields=True, gc=False):
    content: str | list[_Part]


class _Developer(Struct, tag="developer", tag_field="role", forbid_unknown_fields=True, gc=False):
    content: str | list[_Part]


class _User(Struct, tag="user", tag_field="role", forbid_unknown_fields=True, gc=False):
    content: str | list[_Part]


class _Assistant(Struct, tag="assistant", tag_field="role", forbid_unknown_fields=True, gc=False):
    """What is None here are the fields that the SDKs of OpenAI bring along, which say nothing."""

    content: str | list[_Part] | UnsetType | None = UNSET
    tool_calls: list[Call] | UnsetType | None = UNSET
    reasoning_content: str | UnsetType | None = UNSET
    refusal: UnsetType | None = UNSET
    function_call: UnsetType | None = UNSET
    audio: UnsetType | None = UNSET
    parsed: UnsetType | None = UNSET
    annotations: list[None] | UnsetType | None = UNSET


class _Tool(Struct, tag="tool", tag_field="role", forbid_unknown_fields=True, gc=False):
    tool_call_id: str
    content: str | list[_Part]


_Message: TypeAlias = _System | _Developer | _User | _Assistant | _Tool


class _Body(Struct, forbid_unknown_fields=True, gc=False):
    model: str
    messages: list[_Message]
    stream: bool | UnsetType = UNSET


_requests = msgspec.json.Decoder(with_settings(_Body, _SETTINGS))
_settings = slice(len(_Body.__struct_fields__), None)
_encode = msgspec.json.Encoder().encode


def read_request(data: bytes) -> PlainRequest | None:
    body: Any = texts_of(_requests.decode, data)
    if body is None:
        return None
    return _read(body.messages, PlainRequest(body.model, body.stream, astuple(body)[_settings], [], []))


_messages = msgspec.json.Decoder(list[_Message])


def read_messages(data: bytes, like: PlainRequest) -> PlainRequest | None:
    messages = texts_of(_messages.decode, data)
    return None if messages is None else _read(messages, like)


def _read(messages: list[_Message], like: PlainRequest) -> PlainRequest | None:
    turns: list[Turn] = []
    message: Any
    for number, message in enumerate(messages):
        kind = type(message)
        if kind is _Assistant:
            turn = _read_spoken(message, number)
            if turn is None:
                return None
        else:
            content = message.content
            words = content if type(content) is str else _words(content)
            if kind is _Tool:
                turn = Turn("tool", words, number, (), None, None, message.tool_call_id)
            else:
                turn = Turn(_ROLES[kind], words, number)
            if is_blank(words) and (kind is not _Tool or type(words) is not str):
                return None
        turns.append(turn)
    leading = 0
    while leading < len(turns) and turns[leading].role in _INSTRUCTIONS:
        leading += 1
    return PlainRequest(like.model, like.stream, like.settings, turns[leading:], turns[:leading])


_INSTRUCTIONS = {"system": _System, "developer": _Developer}
_ROLES: dict[Any, str] = {_User: "user", _System: "system", _Developer: "developer"}


def _words(parts: list[_Part]) -> Words:
    if len(parts) < 2:
        return parts[0].text if parts else ""
    return [part.text for part in parts]


def _read_spoken(message: _Assistant, number: int) -> Turn | None:
    content, thought, calls = message.content, None, list[PlainCall]()
    words: Words = ""
    if content:
        words = content if isinstance(content, str) else _words(content)
        if is_blank(words):
            return None
    reasoning = message.reasoning_content
    if isinstance(reasoning, str):
        if not reasoning:
            return None
        thought = Thought(reasoning, "")
    for call in message.tool_calls or ():
        function = call.function
        if not is_object(function.arguments):
            return None
        calls.append(PlainCall(call.id, function.name, function.arguments))
    return None if message.annotations else Turn("assistant", words, number, calls, thought)


class _Spoken(Struct, tag="assistant", tag_field="role", omit_defaults=True, gc=False):
    """An assistant's message as it is written."""

    reasoning: str | UnsetType
    reasoning_content: str | UnsetType
    content: str | list[_Part] | None
    tool_calls: list[Call] | UnsetType = UNSET


class _SpokenOfNothing(Struct, tag="assistant", tag_field="role", gc=False):
    content: str | list[_Part] | None
    tool_calls: list[Call]
    reasoning_content: str


def write_conversation(system: Sequence[Turn], turns: Sequence[Turn], way: Way) -> tuple[bytes, ...]:
    messages: list[Any] = []
    for turn in chain(system, turns):
        role, content = turn.role, turn.words
        if turn.failed:
            content = marked(content)
        if type(content) is not str or turn.breakpoints is not None:
            content = _parts(turn, content, way)
        if role == "tool":
            messages.append(_Tool(turn.call_id, content))
        elif role == "user":
            messages.append(_User(content))
        elif role == "assistant":
            messages.append(_spoken(turn, content or None, way))
        else:
            messages.append(_INSTRUCTIONS[role if way.developer else "system"](content))
    return (b'"messages":' + _encode(messages),)


class _Breakpoint(Struct, gc=False):
    mode: str
    ttl: str | UnsetType = UNSET


class _CachedPart(Struct, tag="text", tag_field="type", gc=False):
    text: str
    prompt_cache_breakpoint: _Breakpoint


def _parts(turn: Turn, words: Words, way: Way) -> Any:
    if turn.breakpoints and way.cached:
        texts = [words] if isinstance(words, str) else words
        return [_part(text, turn.breakpoints, index) for index, text in enumerate(texts)]
    return words if isinstance(words, str) else [_Part("text", text) for text in words]


def _part(text: str, breakpoints: Mapping[int, int | None], index: int) -> _Part | _CachedPart:
    if index not in breakpoints:
        return _Part("text", text)
    seconds = breakpoints[index]
    return _CachedPart(text, _Breakpoint("explicit", UNSET if seconds is None else nearest_lifetime(seconds)))


_GIVEN, _ALWAYS = "given", "always"


def _spoken(turn: Turn, content: Any, way: Way) -> Any:
    calls: Any = UNSET
    if turn.calls:
        calls = [Call(call.id, "function", Function(call.name, call.arguments)) for call in turn.calls]
    thought = turn.thought if way.reasoning else None
    if thought is None:
        if turn.calls and way.reasoning == _ALWAYS:
            return _SpokenOfNothing(content, calls, "")
        return _Spoken(UNSET, UNSET, content, calls)
    if (thought.state or {}).get("$field") == "reasoning":
        return _Spoken(thought.text, UNSET, content, calls)
    return _Spoken(UNSET, thought.text, content, calls)


DIRECT = Direct(
    settings=_SETTINGS,
    read_request=read_request,
    read_messages=read_messages,
    write_conversation=write_conversation,
    ways=tuple(starmap(Way, product(("", _GIVEN, _ALWAYS), (False, True), (False, True)))),
    as_client=Way(_GIVEN, developer=True),
    read_answer=read_answer,
    write_answer=write_answer,
)
