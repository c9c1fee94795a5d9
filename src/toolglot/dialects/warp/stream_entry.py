"""Entries are the server's messages that belong to the answer, while they grow. Side actions are all other actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from toolglot.dialects.warp.blocks import REASONING, TEXT, decode_block, is_call
from toolglot.dialects.warp.descriptors import new, serialize
from toolglot.dialects.warp.fields import ReadFields, remaining_fields, to_base64
from toolglot.dialects.warp.masks import can_hold, make_restorer, paths_overlap, set_text, text_at, update_field
from toolglot.errors import DecodeError
from toolglot.ir import Block

TEXT_PATHS: dict[str, str] = {"agent_output": "agent_output.text", "agent_reasoning": "agent_reasoning.reasoning"}
"""Messages whose text is emitted as it arrives -> the path of the text."""
_READ_FIELDS: dict[str, ReadFields] = {"agent_output": TEXT, "agent_reasoning": REASONING}
WARP_ONLY = frozenset(
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
"""Messages that only Warp's clients show."""


BEFORE = "$before"
"""The note with the side actions before an event, as base64. A whole event is `{"event": base64}`."""
EVENT = "event"
AROUND = "$around"
"""The note with the unknown fields of an event next to `init` or `finished`, as base64."""
SILENT_KINDS = frozenset({"placeholder", "aside"})
"""Kinds of messages that add nothing to the answer."""


_DEPTHS = {"begin_transaction": 1, "commit_transaction": -1, "rollback_transaction": -1}


class SideAction:
    """An action that is not part of the answer, or a whole event without actions."""

    __slots__ = ("data", "depth", "is_event", "report", "transaction")

    def __init__(self, message: Any, transaction: int, report: str = "") -> None:
        self.data = serialize(message)
        self.is_event = message.DESCRIPTOR.name == "ResponseEvent"
        self.depth = 0 if self.is_event else _DEPTHS.get(message.WhichOneof("action"), 0)
        """The change in the number of open transactions: 1, 0 or -1."""
        self.transaction = transaction
        self.report = report
        """The name of the loss to report to other clients; empty if none."""

    def note(self) -> Any:
        """Return the form of this action in the note `BEFORE`."""
        return {EVENT: to_base64(self.data)} if self.is_event else to_base64(self.data)


_CONTENT = frozenset(field.name for field in new("Message").DESCRIPTOR.oneofs_by_name["message"].fields)


def is_content(path: str) -> bool:
    """Return whether this mask path leads to the content of a message, not to its other fields."""
    return path.partition(".")[0] in _CONTENT


def is_visible(path: str) -> bool:
    """Return whether this mask path leads to content that clients see."""
    name = path.partition(".")[0]
    return name in TEXT_PATHS or name in WARP_ONLY or name == "tool_call"


def kind_of(message: Any) -> str:
    """Return `agent_output`, `agent_reasoning`, `call`, `shown` or `placeholder`; `aside` if it is not part of the
    answer.
    """
    kind = message.WhichOneof("message")
    if kind is None:
        return "placeholder"
    if kind in TEXT_PATHS:
        return str(kind)
    if kind == "tool_call":
        return "call" if is_call(message) else "aside"
    return "shown" if kind in WARP_ONLY else "aside"


class AnswerEntry:
    """A message of the answer. `pieces` has the appended text of each path: the message is not rewritten each time."""

    __slots__ = (
        "changed_in",
        "done",
        "emitted",
        "how",
        "index",
        "kind",
        "message",
        "moved",
        "opened",
        "order",
        "pieces",
        "replaced",
        "sent_count",
        "task_id",
        "transaction",
    )

    def __init__(self, message: Any, task_id: str, transaction: int, how: str) -> None:
        self.message = message
        self.task_id = task_id
        self.transaction = transaction
        self.how = how
        """The note on a message that was not added: `$upsert` if an update created it, `$more` if it is only more text
        of an earlier entry."""
        self.kind = kind_of(message)
        self.pieces: dict[str, list[str]] = {}
        self.changed_in = transaction
        """The last transaction that changed it."""
        self.done = False
        """Whether it has left the queue: it was emitted, or became a side action."""
        self.moved = False
        """Whether it moved to another task before it was emitted."""
        self.emitted = EmittedText()
        """The text that was emitted before it left the queue."""
        self.order = -1
        """Its position among the messages of the stream."""
        self.sent_count = 0
        """The number of emitted pieces of the text."""
        self.index = -1
        self.opened: dict[str, Any] = {}
        """Its other fields when its block was opened; for `$more`, when the text arrived."""
        self.replaced: str | None = None
        self._extract_text()
        if how == "$more" and self.has_text:
            self.opened = self.other_fields()

    def _extract_text(self) -> None:
        """Move the text from the message to `pieces`, so that it can grow."""
        path = TEXT_PATHS.get(self.kind)
        if path is not None and path not in self.pieces:
            text = text_at(self.message, path) or ""
            self.pieces[path] = [text] if text else []
            if text:
                set_text(self.message, path, "")

    def snapshot(self, paths: Sequence[str]) -> tuple[Callable[[], None], int]:
        """Make a function that undoes a change at these paths. Also returns the number of bytes that it keeps.

        A list of pieces is only appended to or replaced, so its length suffices to restore it.
        """
        restorers = [make_restorer(self.message, path) for path in (*paths, *self._affected_texts(paths))]
        kind, moved, sent_count = self.kind, self.moved, self.sent_count
        replaced, changed_in = self.replaced, self.changed_in
        pieces = {path: (texts, len(texts)) for path, texts in self.pieces.items()}

        def undo() -> None:
            for restore, _ in reversed(restorers):
                restore()
            self.kind, self.moved, self.sent_count = kind, moved, sent_count
            self.replaced, self.changed_in = replaced, changed_in
            self.pieces = {path: texts for path, (texts, _) in pieces.items()}
            for texts, length in pieces.values():
                del texts[length:]

        return undo, sum(size for _, size in restorers)

    def snapshot_text(self) -> Callable[[], None]:
        """Make a function that removes the text that is appended from now on."""
        texts, changed_in = self.pieces[self.text_path], self.changed_in
        length = len(texts)

        def undo() -> None:
            del texts[length:]
            self.changed_in = changed_in

        return undo

    def finish(self) -> None:
        """Mark the entry as done, and remember its emitted text."""
        self.done = True
        if self.has_text and self.index >= 0:
            if self.replaced is not None:
                self.emitted.clear()
            self.emitted.add(self.pieces[self.text_path])

    @property
    def has_text(self) -> bool:
        """Whether it is a text message that is not empty, or already open."""
        return self.kind in TEXT_PATHS and not self.moved and (self.index >= 0 or bool(self.pieces.get(self.text_path)))

    @property
    def is_silent(self) -> bool:
        """Whether it adds nothing to the answer so far."""
        return self.kind in SILENT_KINDS or (
            self.kind in TEXT_PATHS and self.index < 0 and not self.pieces.get(self.text_path)
        )

    @property
    def text_path(self) -> str:
        """The path of the text. Empty if it is not a text message."""
        return TEXT_PATHS.get(self.kind, "")

    def append(self, patch: Any, paths: Sequence[str]) -> None:
        """Append to the texts at these paths.

        Raises:
            DecodeError: a path does not lead to a text.
        """
        for path in paths:
            self._append(patch, path)

    def _append(self, patch: Any, path: str) -> None:
        text = text_at(patch, path)
        if text is None or not can_hold(self.message, path):
            raise DecodeError(f"mask {path}", "only texts can be appended to")
        if text:
            self.pieces.setdefault(path, []).append(text)
        if self.kind in SILENT_KINDS:
            self._write_texts(self._affected_texts((path,)))
            self._refresh_kind()

    def _refresh_kind(self) -> None:
        """Update the kind after a change of the message."""
        kind = kind_of(self.message)
        if kind != self.kind and (self.index >= 0 or self.how == "$more"):
            raise DecodeError("update_task_message", f"{self.kind} became {kind} after it had been passed on")
        self.kind = kind
        self.pieces = {path: texts for path, texts in self.pieces.items() if can_hold(self.message, path)}
        self._extract_text()

    def update(self, patch: Any, paths: Sequence[str]) -> None:
        """Set the fields at these paths. A text that extends the emitted one is appended, any other replaces it."""
        text_path = self.text_path
        self._write_texts(self._affected_texts(paths))
        for path in paths:
            if path == "id":
                continue  # the message was found by it
            if text_path and (path == text_path or path == self.kind):
                self._replace_text(text_at(patch, text_path) or "", text_path)
                if path == self.kind:
                    update_field(self.message, patch, path)
                    set_text(self.message, text_path, "")
            else:
                update_field(self.message, patch, path)
        self._refresh_kind()

    def _replace_text(self, text: str, path: str) -> None:
        """Replace the text. If the new text extends the emitted one, only the rest is pending. Otherwise the text is
        marked as replaced and is not emitted again."""
        rest = text if self.replaced is not None else self.emitted.remainder_of(text)
        emitted = "".join(self.pieces[path][: self.sent_count])
        if rest is None or not rest.startswith(emitted):
            self.replaced = text
            self.pieces[path], self.sent_count = [text], 1
            return
        rest = rest[len(emitted) :]
        self.pieces[path] = [*([emitted] if emitted else []), *([rest] if rest else [])]
        self.sent_count = 1 if emitted else 0

    def _affected_texts(self, paths: Sequence[str]) -> list[str]:
        """Return the paths of the pieces, other than the main text, that a change at these paths affects."""
        others = [path for path in self.pieces if path != self.text_path]
        return [path for path in others if any(paths_overlap(path, other) for other in paths)]

    def _write_texts(self, paths: Iterable[str]) -> None:
        for path in list(paths):
            set_text(self.message, path, (text_at(self.message, path) or "") + "".join(self.pieces.pop(path)))

    def _write_others(self) -> None:
        self._write_texts([path for path in self.pieces if path != self.text_path])

    def take_unsent(self) -> list[str]:
        pieces = self.pieces[TEXT_PATHS[self.kind]]
        fresh, self.sent_count = pieces[self.sent_count :], len(pieces)
        return fresh

    def other_fields(self) -> dict[str, Any]:
        """Return the fields of the message other than the text."""
        self._write_others()
        return remaining_fields(self.message, _READ_FIELDS[self.kind])

    def block(self) -> Block:
        """Return the block, without its text."""
        self._write_others()
        return decode_block(self.message)

    def whole(self) -> Any:
        """Return the message with all its texts."""
        self._write_texts(self.pieces)
        if self.text_path:
            self.pieces[self.text_path] = []
        return self.message


def changed_paths(before: dict[str, Any], after: dict[str, Any], path: str = "") -> list[str]:
    """Return the mask paths of the fields that differ."""
    paths: list[str] = []
    for name in sorted(before.keys() | after.keys()):
        first, second = before.get(name), after.get(name)
        if first == second or name.startswith("$") or name == "unknown":
            continue
        if isinstance(first or second, dict) and isinstance(second or first, dict):
            paths += changed_paths(first or {}, second or {}, f"{path}{name}.")
        else:
            paths.append(f"{path}{name}")
    return paths


class EmittedText:
    """Keeps the pieces apart, so that a comparison costs no more than the compared text."""

    __slots__ = ("_length", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0

    def add(self, pieces: Iterable[str]) -> None:
        for piece in pieces:
            if piece:
                self._pieces.append(piece)
                self._length += len(piece)

    def clear(self) -> None:
        """Forget all text: the message has been rewritten."""
        self._pieces.clear()
        self._length = 0

    def remainder_of(self, text: str) -> str | None:
        """Return the part of this text after the emitted text. None if it does not begin with the emitted text."""
        if len(text) < self._length:
            return None
        at = 0
        for piece in self._pieces:
            if not text.startswith(piece, at):
                return None
            at += len(piece)
        return text[at:]
