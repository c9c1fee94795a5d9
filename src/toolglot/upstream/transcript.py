"""Hash the content of a conversation up to each answer: the same content always gives the same hash.

A client returns an answer in its own form: other ids, another order of blocks, other number formats, with or without
reasoning. The hash covers the author of each text, the name and arguments of each call, and its result.
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

MAX_MARKS = 64
"""Maximum number of last calls whose ids are kept. Two conversations with the same content differ from some call on."""
_DIGITS = 16
_MANY = 2
"""Number of calls from which an answer has more than the first one."""


class ConversationPrefix(Struct, frozen=True):
    """The first `covered` messages of a conversation, up to and including an answer."""

    covered: int
    hash: str
    hash_to_first_call: str
    """The same without the calls after the first one of the answer: a client may send each call of a batch in a message
    of its own."""


class Transcript:
    """Accumulates messages. Calls are identified by position, not by id."""

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
            # System text is sent again in every turn and may change, for example when it contains the date.
            self._count += 1
            return
        if message.role != self._role:
            self._finish_turn()
            self._role = message.role
        self._turn.extend(message.content)
        self._with_turn = None
        self._count += 1

    @property
    def hash(self) -> str:
        """Hash of all messages so far."""
        return self._hash_turn().hex()

    @property
    def prefix(self) -> ConversationPrefix:
        return ConversationPrefix(self._count, self.hash, self._hash_to_first_call())

    def _hash_to_first_call(self) -> str:
        calls = [block for block in self._turn if isinstance(block, ToolCall)]
        whole = self.hash
        if len(calls) < _MANY or not calls[0].id:
            return whole
        content = [block for block in self._turn if block is calls[0] or type(block) is not ToolCall]
        return self._hash_content(content).hex()

    def _finish_turn(self) -> None:
        self._hash = self._hash_turn()
        self._turn = []

    def _hash_turn(self) -> bytes:
        if not self._turn:
            return self._hash
        if self._with_turn is None:
            self._with_turn = self._hash_content(self._turn)
        return self._with_turn

    def _hash_content(self, content: Iterable[Block]) -> bytes:
        """Hash of the messages before this turn and of this content."""
        loosely = self._role == "assistant"
        said = ascii(
            [self._role, self._canonical_content(content, loosely)]
        )  # text of any kind, spelled the same everywhere
        return sha256(self._hash + said.encode("ascii")).digest()

    def _canonical_content(self, content: Iterable[Block], loosely: bool = False) -> list[Any]:
        """Text joined, then media, calls and results in order. `loosely` ignores white space, which clients insert
        between the blocks of an answer that they send back, and strip at its ends."""
        text: list[str] = []
        others: list[Any] = []
        for block in content:
            match block:
                case Text(text=words) | Refusal(text=words):
                    text.append(words)
                case Media(source=source):
                    others.append(["media", source.kind, source.data])
                case ToolCall():
                    others.append(
                        ["call", self._call_number(block.id), block.name, normalize_arguments(block.arguments)]
                    )
                case ToolResult():
                    number = self._calls.get(block.call_id, -1)
                    others.append(["result", number, bool(block.is_error), self._canonical_content(block.content)])
        whole = "".join(text)
        return ["".join(whole.split()) if loosely else whole.strip(), *others]

    def _call_number(self, call_id: str) -> int:
        """Return the position of the call in the conversation. A call without an id counts like any other, because some
        clients drop ids."""
        if not call_id:
            self._unnamed += 1
            return len(self._calls) + self._unnamed - 1
        return self._calls.setdefault(call_id, len(self._calls) + self._unnamed)


def normalize_arguments(arguments: str) -> Any:
    """Normalize arguments: sorted keys, whole numbers as integers. Invalid JSON stays unchanged."""
    value = json.object_value(arguments)
    return arguments if value is None else _normalize(value)


def _normalize(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _normalize(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_normalize(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= _NUMBER_LIMIT:
        return int(value)
    return value


def answered_prefixes(messages: Sequence[Message]) -> list[ConversationPrefix]:
    """Return every prefix that ends with an answer and is followed by more, the longest first."""
    transcript = Transcript()
    found: list[ConversationPrefix] = []
    for number, message in enumerate(messages):
        if number and messages[number - 1].role == "assistant" and message.role != "assistant":
            found.append(transcript.prefix)
        transcript.add(message)
    return found[::-1]


def call_marks(messages: Iterable[Message]) -> list[str]:
    """Hash the call ids, oldest first, to distinguish conversations with the same content. Both sides must use the
    client's own ids: those that it sends, and those that it received.
    """
    ids = [block.id for message in messages for block in message.content if isinstance(block, ToolCall) and block.id]
    return [sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS] for name in dict.fromkeys(ids)]


def prefix_with_answer(messages: Sequence[Message], answer: Sequence[Block]) -> ConversationPrefix:
    """Return the prefix that consists of the conversation and this answer, which counts as one message."""
    transcript = Transcript()
    for message in (*messages, Message(role="assistant", content=tuple(answer))):
        transcript.add(message)
    return transcript.prefix
