"""What a conversation says, as a hash of its beginning up to each answer: the same for the same words.

A client sends back an answer in its own words: other ids, blocks in another order, numbers spelt otherwise, reasoning
or none. What counts is who said which text, called which tool with what, and what came of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

from msgspec import Struct

from toolglot.ir import Block, Media, Message, Refusal, Text, ToolCall, ToolResult
from toolglot.wire import json

_NUMBER_LIMIT = 2**53
_SYSTEM = ("system", "developer")

MARKED = 64
"""Calls, the last ones, that are kept in mind of a conversation: two that say the same differ from some call on."""
_DIGITS = 16


class Beginning(Struct, frozen=True):
    """The first `covered` messages of a conversation, the last of which is an answer."""

    covered: int
    hash: str


class Transcript:
    """Adds up messages. Calls are known by their place, not by their ids."""

    def __init__(self) -> None:
        self._hash = sha256(b"toolglot transcript 3").digest()
        self._calls: dict[str, int] = {}
        self._unnamed = 0
        self._turn: list[Any] = []
        self._with_turn: bytes | None = None
        self._role = ""
        self._count = 0

    def add(self, message: Message) -> None:
        if message.role in _SYSTEM:
            # It is told anew in every turn, and may change, as with today's date in it.
            self._count += 1
            return
        if message.role != self._role:
            self._settle()
            self._role = message.role
        self._turn.extend(message.content)
        self._with_turn = None
        self._count += 1

    @property
    def hash(self) -> str:
        """Of everything so far."""
        return self._settled().hex()

    @property
    def beginning(self) -> Beginning:
        return Beginning(self._count, self.hash)

    def _settle(self) -> None:
        self._hash = self._settled()
        self._turn = []

    def _settled(self) -> bytes:
        if not self._turn:
            return self._hash
        if self._with_turn is None:
            loosely = self._role == "assistant"
            said = ascii([self._role, self._said(self._turn, loosely)])  # text of any kind, spelt alike everywhere
            self._with_turn = sha256(self._hash + said.encode("ascii")).digest()
        return self._with_turn

    def _said(self, content: Iterable[Block], loosely: bool = False) -> list[Any]:
        """Text in one piece, then media, calls and results in their order. `loosely` is without white space, which
        clients put between the blocks of an answer that they send back, and cut off at its ends."""
        text: list[str] = []
        others: list[Any] = []
        for block in content:
            match block:
                case Text(text=words) | Refusal(text=words):
                    text.append(words)
                case Media(source=source):
                    others.append(["media", source.kind, source.data])
                case ToolCall():
                    others.append(["call", self._number(block.id), block.name, arguments_said(block.arguments)])
                case ToolResult():
                    number = self._calls.get(block.call_id, -1)
                    others.append(["result", number, bool(block.is_error), self._said(block.content)])
        whole = "".join(text)
        return ["".join(whole.split()) if loosely else whole.strip(), *others]

    def _number(self, call_id: str) -> int:
        """Which call of the conversation it is. Some clients drop ids, so one without an id counts like any other."""
        if not call_id:
            self._unnamed += 1
            return len(self._calls) + self._unnamed - 1
        return self._calls.setdefault(call_id, len(self._calls) + self._unnamed)


def arguments_said(arguments: str) -> Any:
    """Arguments by their meaning: keys in order, whole numbers as integers; what is no JSON says itself."""
    raw = json.object_of(arguments)
    return arguments if raw is None else _ordered(json.decode_frame(bytes(raw)))


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_ordered(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= _NUMBER_LIMIT:
        return int(value)
    return value


def beginnings(messages: Sequence[Message]) -> list[Beginning]:
    """Every beginning that ends with an answer and has something behind it; the longest first."""
    transcript = Transcript()
    found: list[Beginning] = []
    for number, message in enumerate(messages):
        if number and messages[number - 1].role == "assistant" and message.role != "assistant":
            found.append(transcript.beginning)
        transcript.add(message)
    return found[::-1]


def marks(messages: Iterable[Message]) -> list[str]:
    """What tells a conversation from another one that says the same: its calls' ids, oldest first, each as a hash. They
    are to be the client's own ids on both sides: those that it sends, and those that it was given."""
    ids = [block.id for message in messages for block in message.content if isinstance(block, ToolCall) and block.id]
    return [sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS] for name in dict.fromkeys(ids)]


def answered(messages: Sequence[Message], answer: Sequence[Block]) -> Beginning:
    """The conversation with this answer behind it, which is one message then."""
    transcript = Transcript()
    for message in (*messages, Message(role="assistant", content=tuple(answer))):
        transcript.add(message)
    return transcript.beginning
