"""Plain Chat Completions requests, read and written without the IR (see `toolglot.direct`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, product, starmap
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from toolglot.dialects.openai_chat.blocks import nearest_lifetime
from toolglot.dialects.openai_chat.direct_answers import Call, Function, read_answer, write_answer
from toolglot.direct.plain import (
    UNREADABLE,
    Direct,
    PlainCall,
    PlainRequest,
    Thought,
    Turn,
    Way,
    Words,
    colons_of,
    is_blank,
    is_object,
    marked,
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


class _Part(Struct, tag="text", tag_field="type", forbid_unknown_fields=True, gc=False):
    text: str


class _System(Struct, tag="system", tag_field="role", forbid_unknown_fields=True):
    content: str | list[_Part]


class _Developer(Struct, tag="developer", tag_field="role", forbid_unknown_fields=True):
    content: str | list[_Part]


class _User(Struct, tag="user", tag_field="role", forbid_unknown_fields=True):
    content: str | list[_Part]


class _Assistant(Struct, tag="assistant", tag_field="role", forbid_unknown_fields=True):
    """What is None here are the fields that the SDKs of OpenAI bring along, which say nothing."""

    content: str | list[_Part] | UnsetType | None = UNSET
    tool_calls: list[Call] | UnsetType | None = UNSET
    reasoning_content: str | UnsetType | None = UNSET
    refusal: UnsetType | None = UNSET
    function_call: UnsetType | None = UNSET
    audio: UnsetType | None = UNSET
    parsed: UnsetType | None = UNSET
    annotations: list[None] | UnsetType | None = UNSET


class _Tool(Struct, tag="tool", tag_field="role", forbid_unknown_fields=True):
    tool_call_id: str
    content: str | list[_Part]


class _Body(Struct, forbid_unknown_fields=True):
    model: str
    messages: list[_System | _Developer | _User | _Assistant | _Tool]
    stream: bool | UnsetType = UNSET


_requests = msgspec.json.Decoder(with_settings(_Body, _SETTINGS))
_settings = attrgetter(*_SETTINGS)


def read_request(data: bytes) -> PlainRequest | None:
    try:
        body: Any = _requests.decode(data)
    except UNREADABLE:
        return None
    keys = 2 + (body.stream is not UNSET) + body.model.count(":")  # model, messages, and stream where it is
    turns: list[Turn] = []
    for number, message in enumerate(body.messages):
        found = _read_message(message, turns, number)
        if found < 0:
            return None
        keys += found
    leading = 0
    while leading < len(turns) and turns[leading].role in _INSTRUCTIONS:
        leading += 1
    system, turns = turns[:leading], turns[leading:]
    return PlainRequest(body.model, body.stream, _settings(body), turns, system, colons_of(data) - keys)


_INSTRUCTIONS = {"system": _System, "developer": _Developer}


def _words(content: str | list[_Part]) -> tuple[Words, int]:
    """Texts, and how many colons they and their members have."""
    if isinstance(content, str):
        return content, content.count(":")
    texts = [part.text for part in content]
    colons = 2 * len(texts) + sum([text.count(":") for text in texts])
    return texts[0] if len(texts) == 1 else texts, colons


def _read_message(message: Any, turns: list[Turn], number: int) -> int:
    """A message's turn, and how many colons it has; below 0 if it is not plain."""
    kind = type(message)
    if kind is _Assistant:
        return _read_answered(message, turns, number)
    words, colons = _words(message.content) if message.content else ("", 0)
    if kind is _Tool:
        turns.append(Turn("tool", words, (), message.tool_call_id, number=number))
        return 3 + colons + message.tool_call_id.count(":") if type(words) is str or not is_blank(words) else -1
    turns.append(Turn(_ROLES[kind], words, number=number))
    return -1 if is_blank(words) else 2 + colons


_ROLES: dict[Any, str] = {_User: "user", _System: "system", _Developer: "developer"}


_EMPTY = ("refusal", "function_call", "audio", "parsed", "annotations")


def _read_answered(message: _Assistant, turns: list[Turn], number: int) -> int:
    colons = 1 + sum([getattr(message, name) is not UNSET for name in _EMPTY])
    words: Words = ""
    if message.content is not UNSET:
        colons += 1
        if message.content:
            words, found = _words(message.content)
            colons += found
            if is_blank(words):
                return -1
    thought = None
    if message.reasoning_content is not UNSET:
        colons += 1
        if message.reasoning_content is not None:
            thought = Thought(message.reasoning_content, "")
            colons += thought.text.count(":")
            if not thought.text:
                return -1
    calls: list[PlainCall] = []
    if message.tool_calls is not UNSET:
        colons += 1
        for call in message.tool_calls or ():
            arguments, name = call.function.arguments, call.function.name
            if not is_object(arguments):
                return -1
            calls.append(PlainCall(call.id, name, arguments))
            colons += 5 + call.id.count(":") + name.count(":") + arguments.count(":")
    turns.append(Turn("assistant", words, calls, thought=thought, number=number))
    return -1 if message.annotations else colons


_encode = msgspec.json.Encoder().encode


class _Spoken(Struct, tag="assistant", tag_field="role", omit_defaults=True):
    """An assistant's message as it is written."""

    reasoning: str | UnsetType
    reasoning_content: str | UnsetType
    content: str | list[_Part] | None
    tool_calls: list[Call] | UnsetType = UNSET


class _SpokenOfNothing(Struct, tag="assistant", tag_field="role"):
    content: str | list[_Part] | None
    tool_calls: list[Call]
    reasoning_content: str


def write_conversation(system: Sequence[Turn], turns: Sequence[Turn], way: Way) -> tuple[bytes, ...]:
    messages: list[Any] = []
    for turn in chain(system, turns):
        role, content = turn.role, turn.words
        if turn.failed:
            content = marked(content)
        parts: Any = content if type(content) is str and turn.breakpoints is None else _parts(turn, content, way)
        if role == "user":
            messages.append(_User(parts))
        elif role == "tool":
            messages.append(_Tool(turn.call_id, parts))
        elif role == "assistant":
            messages.append(_spoken(turn, parts or None, way))
        else:
            messages.append(_INSTRUCTIONS[role if way.developer else "system"](parts))
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
    return words if isinstance(words, str) else [_Part(text) for text in words]


def _part(text: str, breakpoints: Mapping[int, int | None], index: int) -> _Part | _CachedPart:
    if index not in breakpoints:
        return _Part(text)
    seconds = breakpoints[index]
    return _CachedPart(text, _Breakpoint("explicit", UNSET if seconds is None else nearest_lifetime(seconds)))


_GIVEN, _ALWAYS = "given", "always"


def _spoken(turn: Turn, content: Any, way: Way) -> Any:
    calls = [Call(call.id, "function", Function(call.name, call.arguments)) for call in turn.calls]
    thought = turn.thought if way.reasoning else None
    if thought is None:
        if calls and way.reasoning == _ALWAYS:
            return _SpokenOfNothing(content, calls, "")
        return _Spoken(UNSET, UNSET, content, calls or UNSET)
    if (thought.state or {}).get("$field") == "reasoning":
        return _Spoken(thought.text, UNSET, content, calls or UNSET)
    return _Spoken(UNSET, thought.text, content, calls or UNSET)


DIRECT = Direct(
    settings=_SETTINGS,
    read_request=read_request,
    write_conversation=write_conversation,
    ways=tuple(starmap(Way, product(("", _GIVEN, _ALWAYS), (False, True), (False, True)))),
    as_client=Way(_GIVEN, developer=True),
    read_answer=read_answer,
    write_answer=write_answer,
)
