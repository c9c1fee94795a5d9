"""A message of the server's that is part of the answer, while it is still growing."""

from __future__ import annotations

from typing import Any

from toolglot.dialects.warp.blocks import REASONING, TEXT, decode_block, is_call
from toolglot.dialects.warp.fields import Taken, kept
from toolglot.dialects.warp.masks import set_text, text_at, update
from toolglot.errors import DecodeError
from toolglot.ir import Block

SPOKEN: dict[str, str] = {"agent_output": "agent_output.text", "agent_reasoning": "agent_reasoning.reasoning"}
"""Messages whose text is passed on as it comes, and where it stands in them."""
_TAKEN: dict[str, Taken] = {"agent_output": TEXT, "agent_reasoning": REASONING}
SHOWN = frozenset(
    {
        "update_todos",
        "web_search",
        "web_fetch",
        "summarization",
        "code_review",
        "update_review_comments",
        "debug_output",
        "artifact_event",
        "invoke_skill",
        "messages_received_from_agents",
        "events_from_agents",
    }
)
"""Messages that a client of Warp's shows, and that have no counterpart elsewhere."""


def kind_of(message: Any) -> str:
    """`agent_output`, `agent_reasoning`, `call`, `shown`, `placeholder`; `aside` for what is no part of the answer."""
    kind = message.WhichOneof("message")
    if kind is None:
        return "placeholder"
    if kind in SPOKEN:
        return str(kind)
    if kind == "tool_call":
        return "call" if is_call(message) else "aside"
    return "shown" if kind in SHOWN else "aside"


class Entry:
    """`pieces` are what the message's texts have grown by: a text is not written anew for each piece."""

    __slots__ = (
        "before",
        "how",
        "index",
        "kind",
        "message",
        "opened",
        "pieces",
        "replaced",
        "sent",
        "task_id",
        "transaction",
    )

    def __init__(self, message: Any, task_id: str, transaction: int, how: str) -> None:
        self.message = message
        self.task_id = task_id
        self.transaction = transaction
        self.how = how
        """The note on a message that was not added: `$upsert` where an update brought it, `$more` for more text."""
        self.kind = kind_of(message)
        self.pieces: dict[str, list[str]] = {}
        self.sent = 0
        """How many pieces of the spoken text have been passed on."""
        self.index = -1
        self.opened: dict[str, Any] = {}
        self.replaced: str | None = None
        self.before: list[str] = []
        self._spoken()

    def _spoken(self) -> None:
        """Moves the spoken text out of the message, so that it can grow in pieces."""
        path = SPOKEN.get(self.kind)
        if path is not None and path not in self.pieces:
            text = text_at(self.message, path) or ""
            self.pieces[path] = [text] if text else []
            if text:
                set_text(self.message, path, "")

    @property
    def speaks(self) -> bool:
        return self.kind in SPOKEN

    def append(self, patch: Any, path: str) -> None:
        """More for the text at this path.

        Raises:
            DecodeError: there is no text.
        """
        text = text_at(patch, path)
        if text is None or not self._holds(path.partition(".")[0]):
            raise DecodeError(f"mask {path}", "only texts can be appended to")
        if text:
            self.pieces.setdefault(path, []).append(text)
        if self.kind == "placeholder":
            self._write_texts()
            self._settle()

    def _holds(self, name: str) -> bool:
        """Is this a field that the message may have, given what else it has?"""
        field = self.message.DESCRIPTOR.fields_by_name[name]
        said = self.message.WhichOneof("message")
        return field.containing_oneof is None or said in (None, name)

    def _settle(self) -> None:
        """Sees what the message has become."""
        kind = kind_of(self.message)
        if kind != self.kind and self.index >= 0:
            raise DecodeError("update_task_message", f"{self.kind} became {kind} after it had been passed on")
        self.kind = kind
        self._spoken()

    def update(self, patch: Any, paths: list[str]) -> None:
        """Sets the masked fields. What was spoken cannot be unsaid: text that goes on is appended, other replaces."""
        spoken = SPOKEN.get(self.kind, "")
        self._write_texts(spoken)
        for path in paths:
            if spoken and (path == spoken or path == self.kind):
                self._replace(text_at(patch, spoken) or "", spoken)
                if path == self.kind:
                    update(self.message, patch, path)
                    set_text(self.message, spoken, "")
            else:
                update(self.message, patch, path)
        self._settle()

    def _replace(self, text: str, path: str) -> None:
        said = "".join(self.pieces[path][: self.sent])
        if not text.startswith(said):
            self.replaced = text
            self.pieces[path], self.sent = [text], 1
            return
        rest = text[len(said) :]
        self.pieces[path] = [*([said] if said else []), *([rest] if rest else [])]
        self.sent = 1 if said else 0

    def _write_texts(self, but: str = "") -> None:
        for path in [path for path in self.pieces if path != but]:
            set_text(self.message, path, (text_at(self.message, path) or "") + "".join(self.pieces.pop(path)))

    def unsent(self) -> list[str]:
        pieces = self.pieces[SPOKEN[self.kind]]
        new, self.sent = pieces[self.sent :], len(pieces)
        return new

    def rest(self) -> dict[str, Any]:
        """What the message says besides the spoken text."""
        self._write_texts(SPOKEN.get(self.kind, ""))
        return kept(self.message, _TAKEN[self.kind])

    def block(self) -> Block:
        """The block, without the text that is spoken."""
        self._write_texts(SPOKEN.get(self.kind, ""))
        return decode_block(self.message)
