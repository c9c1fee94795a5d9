"""Helpers for dialects that report served calls and read them again from a client's history. A reported id is the
call's own id with the prefix that clients of the API expect. So it comes back unchanged, and the model gets the same
history in every turn, which keeps its prompt cache valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256

from toolglot.ir import Block, Media, Opaque, Refusal, Request, Text, Thinking, ToolCall, ToolResult
from toolglot.wire import json

INTERRUPTED = "The tool call was interrupted; its outcome is unknown."

MAX_ID = 64
"""Maximum characters of an id that every API accepts."""

_SAFE = re.compile(r"[A-Za-z0-9_-]+")


def client_call_id(prefix: str, call_id: str) -> str:
    """Return the client's id of a call. An id that is too long is replaced by a digest, never cut."""
    if _SAFE.fullmatch(call_id) and len(prefix) + len(call_id) <= MAX_ID:
        return prefix + call_id
    return prefix + sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class HistoryCallIds:
    """Restores the ids of calls in a history and makes them unique, because some providers restart numbering in each
    answer.
    """

    def __init__(self, request: Request, prefixes: tuple[str, ...]) -> None:
        """The longer of two prefixes comes first if one begins with the other."""
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


def interrupted_result(call: ToolCall) -> ToolResult:
    """Return a result for a call whose own result was not sent."""
    return failed_result(call, INTERRUPTED)


def failed_result(call: ToolCall, why: str) -> ToolResult:
    return ToolResult(call_id=call.id, name=call.name, content=(Text(text=why),) if why else (), is_error=True)


def result_texts(blocks: Iterable[Block]) -> list[str]:
    """Return a result as texts for an API. Media are replaced by a description."""
    return [text for text in map(_block_text, blocks) if text]


def _block_text(block: Block) -> str:
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
