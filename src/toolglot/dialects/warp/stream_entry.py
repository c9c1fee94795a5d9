"""Messages of the server's that are part of the answer, while they are still growing, and actions that are not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from toolglot.dialects.warp.blocks import REASONING, TEXT, decode_block, is_call
from toolglot.dialects.warp.descriptors import new, serialize
from toolglot.dialects.warp.emitted_text import EmittedText
from toolglot.dialects.warp.fields import ReadFields, remaining_fields, to_base64
from toolglot.dialects.warp.masks import can_hold, make_restorer, paths_overlap, set_text, text_at, update_field
from toolglot.errors import DecodeError
from toolglot.ir import Block

TEXT_PATHS: dict[str, str] = {"agent_output": "agent_output.text", "agent_reasoning": "agent_reasoning.reasoning"}
"""Messages whose text is passed on as it comes, and where it stands in them."""
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
"""Messages that a client of Warp's shows, and that have no counterpart elsewhere."""


BEFORE = "$before"
"""The actions that rode along in front of an event, as base64, and whole events: `{"event": base64}`."""
EVENT = "event"
AROUND = "$around"
"""The unknown fields of an event beside `init` or `finished`, as base64."""
SILENT_KINDS = frozenset({"placeholder", "aside"})
"""Kinds of messages that say nothing in the answer."""


_DEPTHS = {"begin_transaction": 1, "commit_transaction": -1, "rollback_transaction": -1}


class SideAction:
    """An action that is no part of the answer; or a whole event that is no action, or holds none."""

    __slots__ = ("data", "depth", "is_event", "report", "transaction")

    def __init__(self, message: Any, transaction: int, report: str = "") -> None:
        self.data = serialize(message)
        self.is_event = message.DESCRIPTOR.name == "ResponseEvent"
        self.depth = 0 if self.is_event else _DEPTHS.get(message.WhichOneof("action"), 0)
        """How many transactions more are open behind it."""
        self.transaction = transaction
        self.report = report
        """The name of what only Warp's clients see of it: others are told that there was such a thing."""

    def note(self) -> Any:
        """What `BEFORE` has of it."""
        return {EVENT: to_base64(self.data)} if self.is_event else to_base64(self.data)


_CONTENT = frozenset(field.name for field in new("Message").DESCRIPTOR.oneofs_by_name["message"].fields)


def is_content(path: str) -> bool:
    """Does a mask name what is said in a message, and not what stands beside it?"""
    return path.partition(".")[0] in _CONTENT


def is_visible(path: str) -> bool:
    """Does it name what a client would see?"""
    name = path.partition(".")[0]
    return name in TEXT_PATHS or name in WARP_ONLY or name == "tool_call"


def kind_of(message: Any) -> str:
    """`agent_output`, `agent_reasoning`, `call`, `shown`, `placeholder`; `aside` for what is no part of the answer."""
    kind = message.WhichOneof("message")
    if kind is None:
        return "placeholder"
    if kind in TEXT_PATHS:
        return str(kind)
    if kind == "tool_call":
        return "call" if is_call(message) else "aside"
    return "shown" if kind in WARP_ONLY else "aside"


class AnswerEntry:
    """`pieces` are what the message's texts have grown by: a text is not written anew for each piece."""

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
        """The note on a message that was not added: `$upsert` where an update brought it, `$more` for more text."""
        self.kind = kind_of(message)
        self.pieces: dict[str, list[str]] = {}
        self.changed_in = transaction
        """The last transaction that brought something of it."""
        self.done = False
        """It waits no longer: all of it has been passed on, or put aside."""
        self.moved = False
        """It went to another task before anything of it was passed on."""
        self.emitted = EmittedText()
        """What was passed on of its text before others followed it."""
        self.order = -1
        """Its place among the messages of the stream."""
        self.sent_count = 0
        """How many pieces of the spoken text have been passed on."""
        self.index = -1
        self.opened: dict[str, Any] = {}
        """What it said besides the spoken text when it was opened; of more text for a message, when that came."""
        self.replaced: str | None = None
        self._extract_text()
        if how == "$more" and self.has_text:
            self.opened = self.other_fields()

    def _extract_text(self) -> None:
        """Moves the spoken text out of the message, so that it can grow in pieces."""
        path = TEXT_PATHS.get(self.kind)
        if path is not None and path not in self.pieces:
            text = text_at(self.message, path) or ""
            self.pieces[path] = [text] if text else []
            if text:
                set_text(self.message, path, "")

    def snapshot(self, paths: Sequence[str]) -> tuple[Callable[[], None], int]:
        """What undoes a change under these paths; and how many bytes are kept for it.

        Pieces are only ever added to a list, or the list is left.
        """
        remaining_fields = [make_restorer(self.message, path) for path in (*paths, *self._affected_texts(paths))]
        kind, moved, sent_count = self.kind, self.moved, self.sent_count
        replaced, changed_in = self.replaced, self.changed_in
        pieces = {path: (texts, len(texts)) for path, texts in self.pieces.items()}

        def undo() -> None:
            for restore, _ in reversed(remaining_fields):
                restore()
            self.kind, self.moved, self.sent_count = kind, moved, sent_count
            self.replaced, self.changed_in = replaced, changed_in
            self.pieces = {path: texts for path, (texts, _) in pieces.items()}
            for texts, length in pieces.values():
                del texts[length:]

        return undo, sum(size for _, size in remaining_fields)

    def snapshot_text(self) -> Callable[[], None]:
        """What takes back the text that is spoken from now on."""
        texts, changed_in = self.pieces[self.text_path], self.changed_in
        length = len(texts)

        def undo() -> None:
            del texts[length:]
            self.changed_in = changed_in

        return undo

    def finish(self) -> None:
        """Nothing of it waits any longer."""
        self.done = True
        if self.has_text and self.index >= 0:
            if self.replaced is not None:
                self.emitted.clear()
            self.emitted.add(self.pieces[self.text_path])

    @property
    def has_text(self) -> bool:
        """Is it text? An empty one says nothing yet."""
        return self.kind in TEXT_PATHS and not self.moved and (self.index >= 0 or bool(self.pieces.get(self.text_path)))

    @property
    def is_silent(self) -> bool:
        """Does it say nothing in the answer, so far?"""
        return self.kind in SILENT_KINDS or (
            self.kind in TEXT_PATHS and self.index < 0 and not self.pieces.get(self.text_path)
        )

    @property
    def text_path(self) -> str:
        """Where the spoken text stands; empty when nothing is spoken."""
        return TEXT_PATHS.get(self.kind, "")

    def append(self, patch: Any, paths: Sequence[str]) -> None:
        """More for the texts at these paths.

        Raises:
            DecodeError: there is no text.
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
        """Sees what the message has become."""
        kind = kind_of(self.message)
        if kind != self.kind and (self.index >= 0 or self.how == "$more"):
            raise DecodeError("update_task_message", f"{self.kind} became {kind} after it had been passed on")
        self.kind = kind
        self.pieces = {path: texts for path, texts in self.pieces.items() if can_hold(self.message, path)}
        self._extract_text()

    def update(self, patch: Any, paths: Sequence[str]) -> None:
        """Sets the masked fields. What was spoken cannot be unsaid: text that goes on is appended, other replaces."""
        text_path = self.text_path
        self._write_texts(self._affected_texts(paths))
        for path in paths:
            if path == "id":
                continue  # by which the message was found
            if text_path and (path == text_path or path == self.kind):
                self._replace_text(text_at(patch, text_path) or "", text_path)
                if path == self.kind:
                    update_field(self.message, patch, path)
                    set_text(self.message, text_path, "")
            else:
                update_field(self.message, patch, path)
        self._refresh_kind()

    def _replace_text(self, text: str, path: str) -> None:
        """What goes on from all that has been passed on is said; anything else stands for it, and cannot be."""
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
        """The texts besides the spoken one that changes under these paths meet."""
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
        """What the message says besides the spoken text."""
        self._write_others()
        return remaining_fields(self.message, _READ_FIELDS[self.kind])

    def block(self) -> Block:
        """The block, without the text that is spoken."""
        self._write_others()
        return decode_block(self.message)

    def whole(self) -> Any:
        """The message, spoken text included."""
        self._write_texts(self.pieces)
        if self.text_path:
            self.pieces[self.text_path] = []
        return self.message


def changed_paths(before: dict[str, Any], after: dict[str, Any], path: str = "") -> list[str]:
    """The paths of the fields that differ, as a mask names them."""
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
