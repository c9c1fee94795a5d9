"""Plain Messages requests, read and written without the IR (see `toolglot.direct`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from toolglot.dialects.anthropic.direct_answers import read_answer, write_answer
from toolglot.dialects.anthropic.native import LIFETIMES
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
    object_text,
    spliced,
    with_settings,
)

_SETTINGS = (
    "max_tokens",
    "tool_choice",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "thinking",
    "metadata",
    "output_config",
    "context_management",
    "service_tier",
    "tools",
)


class _Breakpoint(Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | UnsetType = UNSET


class _Text(Struct, tag="text", tag_field="type", forbid_unknown_fields=True, gc=False):
    text: str
    cache_control: _Breakpoint | UnsetType = UNSET


class _Thinking(Struct, tag="thinking", tag_field="type", forbid_unknown_fields=True, gc=False):
    thinking: str
    signature: str


class _Redacted(Struct, tag="redacted_thinking", tag_field="type", forbid_unknown_fields=True, gc=False):
    data: str


class _Image(Struct, tag="image", tag_field="type", forbid_unknown_fields=True, gc=False):
    source: Raw
    cache_control: _Breakpoint | UnsetType = UNSET


class _Document(_Image, tag="document", tag_field="type", forbid_unknown_fields=True, gc=False):
    pass


class _Reference(Struct, tag="tool_reference", tag_field="type", forbid_unknown_fields=True, gc=False):
    tool_name: str


class _Use(Struct, tag="tool_use", tag_field="type", forbid_unknown_fields=True, gc=False):
    id: str
    name: str
    input: Raw
    cache_control: _Breakpoint | UnsetType = UNSET


class _Result(Struct, tag="tool_result", tag_field="type", forbid_unknown_fields=True):
    tool_use_id: str
    content: str | list[_Text | _Image | _Document | _Reference] | UnsetType = UNSET
    is_error: bool | UnsetType = UNSET
    cache_control: _Breakpoint | UnsetType = UNSET


class _Message(Struct, forbid_unknown_fields=True):
    role: Literal["user", "assistant", "system"]
    content: str | list[_Text | _Use | _Result | _Thinking | _Redacted | _Image | _Document]
    output_config: Raw | UnsetType = UNSET


class _Body(Struct, forbid_unknown_fields=True):
    model: str
    messages: list[_Message]
    system: str | list[_Text] | None = None
    stream: bool | UnsetType = UNSET


_requests = msgspec.json.Decoder(with_settings(_Body, _SETTINGS))
_settings = attrgetter(*_SETTINGS)


def read_request(data: bytes) -> PlainRequest | None:
    try:
        body: Any = _requests.decode(data)
    except UNREADABLE:
        return None
    # model, messages, and system and stream where they are; and two in every message
    colons = 2 + (body.system is not None) + (body.stream is not UNSET) + 2 * len(body.messages)
    reading = _Reading(colons + body.model.count(":"))
    system: list[Turn] = []
    if body.system is not None:
        words, breakpoints = reading.words(body.system)
        system.append(Turn("system", words, breakpoints=breakpoints))
        if is_blank(words):
            return None
    for number, message in enumerate(body.messages, len(system)):
        content = message.content
        if type(content) is str:
            reading.colons += content.count(":")
            if not content or content.isspace():
                return None
            reading.turns.append(Turn(message.role, content, number=number))
        elif not _BLOCKS[message.role](reading, content, number):
            return None
        if message.output_config is not UNSET and not reading.configuration(message.output_config):
            return None
    colons = colons_of(data) - reading.colons
    return PlainRequest(body.model, body.stream, _settings(body), reading.turns, system, colons, reading.own)


class _Reading:
    """The turns of a request's messages while they are read, and the colons that they have."""

    __slots__ = ("colons", "own", "turns")

    def __init__(self, colons: int) -> None:
        self.turns: list[Turn] = []
        self.colons = colons
        self.own = False

    def breakpoint(self, found: _Breakpoint) -> None:
        self.colons += 2 + (found.ttl is not UNSET)

    def object(self, raw: Raw) -> bool:
        """An object that no other dialect knows of. Is it sound?"""
        text = object_text(raw)
        self.own = True
        self.colons += 1 + (text or "").count(":")
        return text is not None

    def configuration(self, raw: Raw) -> bool:
        """Settings beside the latest message."""
        turn, own = self.turns[-1], self.own
        sound = self.object(raw)
        if turn.role == "system" and bytes(raw) != b"{}":
            turn.configured, self.own = True, own
        return sound

    def words(self, content: str | list[_Text]) -> tuple[Words, dict[int, int | None] | None]:
        if isinstance(content, str):
            self.colons += content.count(":")
            return content, None
        if len(content) == 1 and content[0].cache_control is UNSET:
            text = content[0].text
            self.colons += 2 + text.count(":")
            return text, None
        texts = []
        breakpoints = None
        for index, block in enumerate(content):
            text = block.text
            texts.append(text)
            self.colons += 2 + text.count(":")
            if block.cache_control is not UNSET:
                self.breakpoint(block.cache_control)
                breakpoints = breakpoints or {}
                ttl = block.cache_control.ttl
                breakpoints[index] = None if ttl is UNSET else LIFETIMES[ttl]
        return texts[0] if len(texts) == 1 else texts, breakpoints

    def media(self, block: Any) -> bool:
        """What only this dialect can have here."""
        self.own = True
        self.colons += 1
        kind = type(block)
        if kind is _Reference:
            self.colons += 1 + block.tool_name.count(":")
            return True
        if kind is not _Image and kind is not _Document:
            return False
        if block.cache_control is not UNSET:
            self.breakpoint(block.cache_control)
        return self.object(block.source)

    def instruction(self, content: list[Any], number: int) -> bool:
        if any(type(block) is not _Text for block in content):
            return False
        words, breakpoints = self.words(content)
        self.turns.append(Turn("system", words, breakpoints=breakpoints, number=number))
        return not is_blank(words)

    def heard(self, content: list[Any], number: int) -> bool:
        """A user's message: the results first, and behind them the text."""
        texts: list[_Text] = []
        for index, block in enumerate(content):
            kind = type(block)
            if kind is _Text:
                texts.append(block)
            elif kind is not _Result:
                if not self.media(block):
                    return False
                texts.append(_MEDIUM)
                self.colons -= _COLONS_OF_MEDIUM
            elif texts or not self.result(block, number, index):
                return False
        if not texts:
            return bool(content)
        words, breakpoints = self.words(texts)
        self.turns.append(Turn("user", words, breakpoints=breakpoints, number=number))
        return not is_blank(words)

    def result(self, block: _Result, number: int, index: int) -> bool:
        content: Any = block.content
        self.colons += 2 + (content is not UNSET) + (block.is_error is not UNSET)
        if type(content) is list and (len(content) != 1 or type(content[0]) is not _Text):
            others = [part for part in content if type(part) is not _Text]
            if others:
                if not all(self.media(part) for part in others):
                    return False
                content = [part for part in content if type(part) is _Text] or ""
        words, breakpoints = self.words(content) if content is not UNSET and content else ("", None)
        if breakpoints:
            self.own = True
        cached = block.cache_control
        if cached is not UNSET:
            self.breakpoint(cached)
        failed = block.is_error is True
        turn = Turn("tool", words, (), block.tool_use_id, None, failed, None, cached is not UNSET)
        turn.number, turn.block = number, index
        self.turns.append(turn)
        return type(words) is str or self.own or not is_blank(words)

    def spoken(self, content: list[Any], number: int) -> bool:
        """An assistant's message: what it thought, what it said, and the calls."""
        texts: list[_Text] = []
        calls: list[PlainCall] = []
        thought: Thought | None = None
        for block in content:
            kind = type(block)
            if kind is _Use:
                arguments = object_text(block.input)
                if arguments is None:
                    return False
                calls.append(PlainCall(block.id, block.name, arguments))
                self.colons += 4 + arguments.count(":")
                if block.cache_control is not UNSET:
                    self.breakpoint(block.cache_control)
                    self.own = True
            elif kind is _Text:
                if calls:
                    return False
                texts.append(block)
            elif thought is not None or texts or calls:
                return False
            elif kind is _Thinking:
                thought = Thought(block.thinking, block.signature)
                self.colons += 3 + thought.text.count(":") + thought.signature.count(":")
            elif kind is _Redacted:
                thought = Thought("", block.data)
                self.own = True
                self.colons += 2 + block.data.count(":")
            else:
                return False
        words, breakpoints = self.words(texts) if texts else ("", None)
        if breakpoints:
            self.own = True
        self.turns.append(Turn("assistant", words, calls, thought=thought, number=number))
        return not is_blank(words) if texts else bool(calls)


_MEDIUM = _Text("medium")
_COLONS_OF_MEDIUM = 2
_BLOCKS = {"user": _Reading.heard, "assistant": _Reading.spoken, "system": _Reading.instruction}

_encode = msgspec.json.Encoder().encode
_SIGNED = "signed"
_CONFIGURATION = Raw(b'{"effort":"low"}')


def write_conversation(system: Sequence[Turn], turns: Sequence[Turn], way: Way) -> tuple[bytes, ...]:
    messages: list[_Message] = []
    joined: list[Any] = []  # the content of the user's message that others join: results, and words behind them
    for turn in turns:
        role = turn.role
        if role == "tool":
            if not joined:
                messages.append(_Message("user", joined))
            joined.append(_result(turn))
        elif role == "user":
            if joined:
                joined.extend(_texts(turn))
            elif messages and messages[-1].role == "user":
                before = messages[-1].content
                joined = [*([_Text(before)] if isinstance(before, str) else before), *_texts(turn)]
                messages[-1].content = joined
            else:
                messages.append(_Message("user", _content(turn)))
        else:
            joined = []
            content = _spoken(turn, way.reasoning) if role == "assistant" else _content(turn)
            messages.append(_Message(role, content, _CONFIGURATION if turn.configured else UNSET))  # type: ignore[arg-type]
    written = b'"messages":' + _encode(messages)
    if not system:
        return (written,)
    leading = [text for turn in system for text in _texts(turn)]
    return b'"system":' + _encode(_content(system[0]) if len(system) == 1 else leading), written


def _result(turn: Turn) -> _Result:
    words = turn.words
    content: Any = UNSET if is_blank(words) else words if type(words) is str else _texts(turn)
    cached = _Breakpoint("ephemeral") if turn.cached else UNSET
    return _Result(turn.call_id, content, turn.failed or UNSET, cached)


def _content(turn: Turn) -> str | list[Any]:
    return turn.words if isinstance(turn.words, str) and turn.breakpoints is None else _texts(turn)


def _texts(turn: Turn) -> list[Any]:
    words = [turn.words] if isinstance(turn.words, str) else turn.words
    breakpoints = turn.breakpoints
    if breakpoints is None:
        return [_Text(text) for text in words]
    return [_Text(text, _breakpoint(breakpoints, index)) for index, text in enumerate(words)]


def _breakpoint(breakpoints: Mapping[int, int | None], index: int) -> _Breakpoint | UnsetType:
    if index not in breakpoints:
        return UNSET
    seconds = breakpoints[index]
    return _Breakpoint("ephemeral", UNSET if seconds is None else _TTL[seconds])


_TTL: dict[int, Any] = {seconds: name for name, seconds in LIFETIMES.items()}


def _spoken(turn: Turn, reasoning: str) -> str | list[Any]:
    thought = turn.thought if reasoning == _SIGNED else None
    if not turn.calls and thought is None and type(turn.words) is str:
        return turn.words
    before = [_Thinking(thought.text, thought.signature)] if thought is not None else []
    calls = [_Use(call.id, call.name, spliced(call.arguments)) for call in turn.calls]
    return [*before, *(_texts(turn) if turn.words else ()), *calls]


DIRECT = Direct(
    settings=_SETTINGS,
    read_request=read_request,
    write_conversation=write_conversation,
    as_client=Way(reasoning=_SIGNED),
    read_answer=read_answer,
    write_answer=write_answer,
)
