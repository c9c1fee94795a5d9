"""Ids for calls in text: `call_` and hex digits, derived from the answer's own id and the conversation before it. The
same answer to the same conversation gets the same ids, and any other answer gets other ids. So a client may store data
about a call under its id alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from toolglot.ir import Block, Media, Message, Refusal, Text, Thinking, ToolCall, ToolResult
from toolglot.passes.digest import digest

DIGITS = 24
MEDIA_CHARS = 1000
"""Characters of an image that suffice to identify it."""


class TextCallIds:
    """The ids of one answer's calls. `past` is the conversation before it, read when the first id is needed."""

    __slots__ = ("_answer", "_given", "_past", "_said")

    def __init__(self, past: Sequence[Message]) -> None:
        self._past = past
        self._said: str | None = None
        self._answer = ""
        self._given = 0

    def answer(self, answer_id: str) -> None:
        """Set the upstream's id of the answer, or of the second answer after a retry."""
        self._answer = answer_id

    def new(self, name: str) -> str:
        if self._said is None:
            self._said = _digest_messages(self._past)
        self._given += 1
        return f"call_{digest(self._answer, self._said, self._given, name)[:DIGITS]}"


def _digest_messages(messages: Sequence[Message]) -> str:
    whole = hashlib.sha256()
    for message in messages:
        for part in (message.role, *(text for block in message.content for text in _texts(block))):
            whole.update(b"%d:" % len(part))
            whole.update(part.encode("utf-8", "surrogatepass"))
    return whole.hexdigest()


def _texts(block: Block) -> Iterator[str]:
    match block:
        case Text(text=text) | Thinking(text=text) | Refusal(text=text):
            yield text
        case ToolCall():
            yield from (block.id, block.name, block.arguments)
        case ToolResult():
            yield block.call_id
            for part in block.content:
                yield from _texts(part)
        case Media(source=source):
            yield f"{len(source.data)}:{source.data[:MEDIA_CHARS]}"
