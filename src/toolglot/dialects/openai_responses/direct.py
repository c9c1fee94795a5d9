"""Plain requests to the Responses API and its plain answers, written and read without the IR (see `toolglot.direct`).

Its own clients go the general way: their agents have tools that are no functions, and the gateway remembers for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from toolglot.dialects.openai_responses.items import summary_parts
from toolglot.dialects.openai_responses.models import CAPABILITIES
from toolglot.dialects.openai_responses.response import TOLD
from toolglot.dialects.openai_responses.usage import decode_usage
from toolglot.direct.plain import Direct, PlainAnswer, PlainCall, Turn, Way, Words, is_object, marked
from toolglot.errors import DecodeError
from toolglot.wire import json

_encode = msgspec.json.Encoder().encode


class _Breakpoint(Struct, gc=False):
    mode: str
    ttl: str | UnsetType = UNSET


class _Part(Struct, tag="input_text", tag_field="type", gc=False):
    text: str
    prompt_cache_breakpoint: _Breakpoint | UnsetType = UNSET


class _Message(Struct, tag="message", tag_field="type", gc=False):
    role: str
    content: str | list[_Part]


class _Call(Struct, tag="function_call", tag_field="type", gc=False):
    call_id: str
    name: str
    arguments: str


class _Output(Struct, tag="function_call_output", tag_field="type", gc=False):
    call_id: str
    output: str | list[_Part]


def write_conversation(system: Sequence[Turn], turns: Sequence[Turn], way: Way) -> tuple[bytes, ...]:
    leading: tuple[bytes, ...] = ()
    if system and system[0].role == "system" and type(system[0].words) is str and not _marks(system[0], way):
        leading = (b'"instructions":' + _encode(system[0].words),)
        system = system[1:]
    items: list[Any] = [_Message(turn.role, _parts(turn.words, _marks(turn, way))) for turn in system]
    for turn in turns:
        if turn.role == "tool":
            words = marked(turn.words) if turn.failed else turn.words
            items.append(_Output(turn.call_id, words if isinstance(words, str) else _parts(words, None)))
        elif turn.role == "assistant":
            _add_spoken(items, turn)
        else:
            items.append(_Message(turn.role, _parts(turn.words, _marks(turn, way))))
    return *leading, b'"input":' + _encode(items)


def _marks(turn: Turn, way: Way) -> Mapping[int, int | None] | None:
    return turn.breakpoints if way.cached else None


def _parts(words: Words, breakpoints: Mapping[int, int | None] | None) -> list[_Part]:
    texts = [words] if isinstance(words, str) else words
    if not breakpoints:
        return [_Part(text) for text in texts]
    return [_Part(text, _breakpoint(breakpoints, index)) for index, text in enumerate(texts)]


def _breakpoint(breakpoints: Mapping[int, int | None], index: int) -> _Breakpoint | UnsetType:
    if index not in breakpoints:
        return UNSET
    seconds = breakpoints[index]
    return _Breakpoint("explicit", UNSET if seconds is None else "30m" if seconds <= _HALF_AN_HOUR else "12h")


_HALF_AN_HOUR = 1800


def _add_spoken(items: list[Any], turn: Turn) -> None:
    if turn.thought is not None and turn.thought.state is not None:
        thought = turn.thought
        items.append({"type": "reasoning", "summary": summary_parts(thought.text), **(thought.state or {})})
    words = turn.words
    if words:
        items += [_Message("assistant", text) for text in ([words] if isinstance(words, str) else words)]
    items += [_Call(call.id, call.name, call.arguments) for call in turn.calls]


_KNOWN = TOLD | CAPABILITIES.cosmetic.keys() | {"id", "model", "usage"}
_OF_MESSAGE = frozenset({"id", "type", "status", "role", "content"})
_OF_TEXT = frozenset({"type", "text", "annotations", "logprobs"})
_OF_CALL = frozenset({"id", "type", "status", "call_id", "name", "arguments"})


def read_answer(data: bytes) -> PlainAnswer | None:
    try:
        answer = json.decode(data)
    except DecodeError:
        return None
    if type(answer) is not dict or not _is_whole(answer):
        return None
    texts: list[str] = []
    calls: list[PlainCall] = []
    for item in answer["output"]:
        if not _add_item(item, texts, calls):
            return None
    if len(texts) > 1:
        return None
    stop = "tool_calls" if calls else "end"
    text = texts[0] if texts else ""
    created = answer["created_at"]
    tier = answer.get("service_tier")
    if tier is not None and type(tier) is not str:
        return None
    try:
        usage = decode_usage(answer["usage"])
    except DecodeError:
        return None
    return PlainAnswer(answer["id"], answer["model"], created, text, calls, stop, usage, service_tier=tier)  # type: ignore[arg-type]


_TYPES = {"id": str, "model": str, "created_at": int, "output": list, "usage": dict}


def _is_whole(answer: dict[str, Any]) -> bool:
    """Is this a response that has ended well, with nothing in it that is not known?"""
    return (
        answer.get("object") == "response"
        and answer.get("status") == "completed"
        and answer.get("error") is None
        and answer.get("incomplete_details") is None
        and all(type(answer.get(key)) is kind for key, kind in _TYPES.items())
        and answer.keys() <= _KNOWN
    )


def _add_item(item: Any, texts: list[str], calls: list[PlainCall]) -> bool:
    if type(item) is not dict or item.get("status") != "completed":
        return False
    if item.get("type") == "function_call":
        found: list[Any] = [item.get("call_id"), item.get("name"), item.get("arguments")]
        if any(type(value) is not str for value in found) or not item.keys() <= _OF_CALL or not is_object(found[2]):
            return False
        if not found[1]:
            return False
        calls.append(PlainCall(*found))
        return type(item.get("id")) is str
    content = item.get("content")
    if item.get("type") != "message" or item.get("role") != "assistant" or not item.keys() <= _OF_MESSAGE or calls:
        return False
    if type(content) is not list or len(content) != 1 or type(content[0]) is not dict:
        return False
    part = content[0]
    text = part.get("text")
    if part.get("type") != "output_text" or not part.keys() <= _OF_TEXT or type(text) is not str:
        return False
    texts.append(text)
    return type(item.get("id")) is str and part.get("annotations") == [] and part.get("logprobs", []) == []


DIRECT = Direct(
    settings=(),
    write_conversation=write_conversation,
    ways=(Way(developer=True, cached=True), Way(developer=True)),
    read_answer=read_answer,
)
