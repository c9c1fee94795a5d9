"""What dialects share that tell of served calls, and read of them again in a client's history.

An id that is told is the call's own with the prefix that clients of the API expect. So it comes back as it was, and the
model is told the same history in every turn, which its prompt cache lives on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256

from toolglot.ir import Block, Media, Opaque, Refusal, Request, Text, Thinking, ToolCall, ToolResult
from toolglot.wire import json

INTERRUPTED = "The tool call was interrupted; its outcome is unknown."

MAX_ID = 64
"""Characters of an id that every API takes."""

_SAFE = re.compile(r"[A-Za-z0-9_-]+")


def told_id(prefix: str, call_id: str) -> str:
    """The id under which a client knows a call. One that would not fit is replaced by a digest of it, never cut."""
    if _SAFE.fullmatch(call_id) and len(prefix) + len(call_id) <= MAX_ID:
        return prefix + call_id
    return prefix + sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class CallIds:
    """Ids for calls that a history tells of: their own again, made unique, since some providers count them anew in
    each answer."""

    def __init__(self, request: Request, prefixes: tuple[str, ...]) -> None:
        """The longer of two prefixes stands first where one begins with the other."""
        self._prefixes = prefixes
        self._counts: dict[str, int] = {}
        self._used = {
            block.id for message in request.messages for block in message.content if isinstance(block, ToolCall)
        }

    def of(self, told: str) -> str:
        prefix = next((prefix for prefix in self._prefixes if told.startswith(prefix) and told != prefix), "")
        wanted = call_id = told.removeprefix(prefix) or "call"
        while call_id in self._used:
            self._counts[wanted] = self._counts.get(wanted, 1) + 1
            call_id = f"{wanted}_{self._counts[wanted]}"
        self._used.add(call_id)
        return call_id


def interrupted(call: ToolCall) -> ToolResult:
    """The result of a call whose own has not been told."""
    return failed(call, INTERRUPTED)


def failed(call: ToolCall, why: str) -> ToolResult:
    return ToolResult(call_id=call.id, name=call.name, content=(Text(text=why),) if why else (), is_error=True)


def texts_of(blocks: Iterable[Block]) -> list[str]:
    """What a result says, as the texts that an API has a place for: of media only that it was there."""
    return [text for text in map(_text_of, blocks) if text]


def _text_of(block: Block) -> str:
    match block:
        case Text(text=text) | Refusal(text=text) | Thinking(text=text):
            return text
        case Media(source=source) if source.kind in ("text", "url"):
            return source.data
        case Media(kind=kind, source=source):
            return f"[{kind}: {source.media_type}]" if source.media_type else f"[{kind}]"
        case Opaque(value=value):
            return json.encode_text(value)
        case _:
            return ""
