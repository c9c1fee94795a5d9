"""Plain Messages requests, read and written without the IR (see `toolglot.direct`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import astuple

from toolglot.dialects.anthropic.direct_answers import read_answer, write_answer
from toolglot.dialects.anthropic.native import LIFETIMES
from toolglot.direct.plain import (
    Direct,
    PlainCall,
    PlainRequest,
    Thought,
    Turn,
    Way,
    Words,
    is_blank,
    object_text,
    spliced,
    texts_of,
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

    @property
    def seconds(self) -> int | None:
        return None if self.ttl is UNSET else LIFETIMES[self.ttl]


class _Text(Struct, tag="text", tag_field="type", forbid_unknown_fields=True, gc=False):
    """Clients return the `citations` of an answer as they came: null, where there were none."""

    text: str
    cache_control: _Breakpoint | UnsetType = UNSET
    citations: UnsetType | None = UNSET


class _Instruction(Struct, forbid_unknown_fields=True, gc=False):
    """A text where there is nothing else. (A tag would not be missed there.)"""

    type: Literal["text"]
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


class _Caller(Struct, tag="direct", tag_field="type", forbid_unknown_fields=True, gc=False):
    """The model itself."""


class _Use(Struct, tag="tool_use", tag_field="type", forbid_unknown_fields=True, gc=False):
    id: str
    name: str
    input: Raw
    cache_control: _Breakpoint | UnsetType = UNSET
    caller: _Caller | UnsetType = UNSET


class _Result(Struct, tag="tool_result", tag_field="type", forbid_unknown_fields=True, gc=False):
    tool_use_id: str
    content: str | list[_Text | _Image | _Document | _Reference] | UnsetType = UNSET
    is_error: bool | UnsetType = UNSET
    cache_control: _Breakpoint | UnsetType = UNSET


class _Message(Struct, forbid_unknown_fields=True, gc=False):
    role: Literal["user", "assistant", "system"]
    content: str | list[_Text | _Use | _Result | _Thinking | _Redacted | _Image | _Document]
    output_config: Raw | UnsetType = UNSET


class _Body(Struct, forbid_unknown_fields=True, gc=False):
    model: str
    messages: list[_Message]
    system: str | list[_Instruction] | UnsetType = UNSET
    stream: bool | UnsetType = UNSET


_requests = msgspec.json.Decoder(with_settings(_Body, _SETTINGS))
_settings = slice(len(_Body.__struct_fields__), None)
_encode = msgspec.json.Encoder().encode


def read_request(data: bytes) -> PlainRequest | None:
    body: Any = texts_of(_requests.decode, data)
    if body is None:
        return None
    system: list[Turn] = []
    if body.system is not UNSET:
        words, breakpoints = _words(body.system)
        if is_blank(words):
            return None
        system.append(Turn("system", words, 0, (), None, breakpoints))
    return _read(body.messages, PlainRequest(body.model, body.stream, astuple(body)[_settings], [], system))


_messages = msgspec.json.Decoder(list[_Message])


def read_messages(data: bytes, like: PlainRequest) -> PlainRequest | None:
    messages = texts_of(_messages.decode, data)
    return None if messages is None else _read(messages, like)


def _read(messages: list[_Message], like: PlainRequest) -> PlainRequest | None:
    turns: list[Turn] = []
    reading = _Reading(turns)
    for number, message in enumerate(messages, len(like.system)):
        content: Any = message.content
        if type(content) is str:
            if not content or content.isspace():
                return None
            turns.append(Turn(message.role, content, number))
        elif not _BLOCKS[message.role](reading, content, number):
            return None
        if message.output_config is not UNSET and not reading.configuration(message.output_config):
            return None
    return PlainRequest(like.model, like.stream, like.settings, turns, like.system, reading.own)


def _words(content: str | Sequence[_Text | _Instruction]) -> tuple[Words, dict[int, int | None] | None]:
    """Texts, and their breakpoints."""
    if isinstance(content, str):
        return content, None
    if len(content) == 1 and content[0].cache_control is UNSET:
        return content[0].text, None
    texts = [block.text for block in content]
    found = {index: block.cache_control for index, block in enumerate(content)}
    breakpoints = {index: control.seconds for index, control in found.items() if control is not UNSET}
    return texts[0] if len(texts) == 1 else texts, breakpoints or None


class _Reading(Struct, gc=False):
    """The turns of a request's messages while they are read; `own` as in `PlainRequest`."""

    turns: list[Turn]
    own: bool = False

    def configuration(self, raw: Raw) -> bool:
        """Settings beside the latest message."""
        turn = self.turns[-1]
        if turn.role == "system" and bytes(raw) != b"{}":
            turn.configured = True
        else:
            self.own = True
        return object_text(raw) is not None

    def media(self, block: Any) -> bool:
        """What only this dialect can have here."""
        self.own = True
        kind = type(block)
        if kind is _Reference:
            return True
        return (kind is _Image or kind is _Document) and object_text(block.source) is not None

    def instruction(self, content: list[Any], number: int) -> bool:
        if any(type(block) is not _Text for block in content):
            return False
        words, breakpoints = _words(content)
        self.turns.append(Turn("system", words, number, (), None, breakpoints))
        return not is_blank(words)

    def heard(self, content: list[Any], number: int) -> bool:
        """A user's message: the results first, and behind them the text."""
        texts: list[str] = []
        breakpoints: dict[int, int | None] = {}
        for index, block in enumerate(content):
            kind = type(block)
            if kind is _Result:
                inner = block.content
                words = inner if type(inner) is str else self.told(inner)
                if words is None or texts:
                    return False
                failed, cached = block.is_error is True, block.cache_control is not UNSET
                self.turns.append(Turn("tool", words, number, (), None, None, block.tool_use_id, index, failed, cached))
            elif kind is _Text:
                text = block.text
                if not text or text.isspace():
                    return False
                if block.cache_control is not UNSET:
                    breakpoints[len(texts)] = block.cache_control.seconds
                texts.append(text)
            elif self.media(block):
                texts.append("medium")
            else:
                return False
        if texts:
            said = texts[0] if len(texts) == 1 else texts
            self.turns.append(Turn("user", said, number, (), None, breakpoints or None))
        return bool(content)

    def told(self, content: Any) -> Words | None:
        """What a result says, in blocks or not at all."""
        if content is UNSET:
            return ""
        if len(content) == 1 and type(content[0]) is _Text and content[0].cache_control is UNSET:
            text: str = content[0].text
            return text
        texts = [part for part in content if type(part) is _Text]
        if not all(self.media(part) for part in content if type(part) is not _Text):
            return None
        words, breakpoints = _words(texts) if texts else ("", None)
        if breakpoints is not None:
            self.own = True
        return words if type(words) is str or self.own or not is_blank(words) else None

    def spoken(self, content: list[Any], number: int) -> bool:
        """An assistant's message: what it thought, what it said, and the calls."""
        texts: list[str] = []
        calls: list[PlainCall] = []
        thought: Thought | None = None
        for block in content:
            kind = type(block)
            if kind is _Use:
                arguments = object_text(block.input)
                if arguments is None:
                    return False
                calls.append(PlainCall(block.id, block.name, arguments))
                if block.cache_control is not UNSET:
                    self.own = True
            elif kind is _Text:
                text = block.text
                if calls or not text or text.isspace():
                    return False
                if block.cache_control is not UNSET:
                    self.own = True
                texts.append(text)
            elif thought is not None or texts or calls:
                return False
            elif kind is _Thinking:
                thought = Thought(block.thinking, block.signature)
            elif kind is _Redacted:
                thought = Thought("", block.data)
                self.own = True
            else:
                return False
        words: Words = (texts[0] if len(texts) == 1 else texts) if texts else ""
        self.turns.append(Turn("assistant", words, number, calls, thought))
        return bool(texts or calls)


_BLOCKS = {"user": _Reading.heard, "assistant": _Reading.spoken, "system": _Reading.instruction}

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
    leading = _content(system[0]) if len(system) == 1 else [text for turn in system for text in _texts(turn)]
    return b'"system":' + _encode(leading), written


def _result(turn: Turn) -> _Result:
    words = turn.words
    content: Any = UNSET if is_blank(words) else words if type(words) is str else _texts(turn)
    cached = _Breakpoint("ephemeral") if turn.cached else UNSET
    return _Result(turn.call_id, content, turn.failed or UNSET, cached)


def _content(turn: Turn) -> str | list[Any]:
    return turn.words if isinstance(turn.words, str) and turn.breakpoints is None else _texts(turn)


def _texts(turn: Turn) -> list[Any]:
    words, breakpoints = turn.words, turn.breakpoints
    if isinstance(words, str):
        words = [words]
    if breakpoints is None:
        return list(map(_Text, words))
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
    content: list[Any] = [] if thought is None else [_Thinking(thought.text, thought.signature)]
    if turn.words:
        content += _texts(turn)
    content += [_Use(call.id, call.name, spliced(call.arguments)) for call in turn.calls]
    return content


DIRECT = Direct(
    settings=_SETTINGS,
    read_request=read_request,
    read_messages=read_messages,
    write_conversation=write_conversation,
    as_client=Way(reasoning=_SIGNED),
    read_answer=read_answer,
    write_answer=write_answer,
)
