"""Receipts report everything that a translation could not carry over exactly. Nothing is dropped silently.

Every pass, encoder and decoder of an exchange gets the same `Receipt` and records its changes. Severity:

- `note`: the form changed, but not the meaning (a name shortened and restored, a default filled in).
- `loss`: something that the sender sent does not reach the receiver, or only approximately. Strict mode refuses these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from toolglot.ir import Block, Json, Media, Opaque, Refusal, Text, Thinking, ToolCall, ToolResult

Severity = Literal["note", "loss"]


_NOUNS: dict[type[Block], str] = {
    Text: "text",
    Thinking: "reasoning",
    Refusal: "a refusal",
    ToolCall: "a tool call",
    ToolResult: "a tool result",
}
_ARTICLES = {"image": "an", "audio": "an"}


def describe_block(block: Block) -> str:
    """Describe a block for a receipt: `a document`, `reasoning`, `web_search_call`."""
    if isinstance(block, Media):
        return f"{_ARTICLES.get(block.kind, 'a')} {block.kind}"
    if not isinstance(block, Opaque):
        return _NOUNS[type(block)]
    value = block.value
    kind = value.get("type") if isinstance(value, dict) else None
    if isinstance(kind, str):
        return kind
    return ", ".join(map(str, value)) if isinstance(value, dict) and value else f"content of {block.dialect}"


def describe_setting(name: str, value: Json) -> str:
    """Describe a setting for a receipt, with its value as in JSON: `store false`, `service_tier flex`."""
    return f"{name} {value if isinstance(value, str) else msgspec.json.encode(value).decode()}"


UNREAD = "$unread"
"""Native key of lines that a decoder recorded. They count only if the other side speaks another dialect, which a
decoder does not know. Their `where` is relative to the node."""


class ReceiptLine(Struct, frozen=True):
    """One line of a receipt: `where` is a path (`tools[2].parameters`), `what` names the data, `why` is the reason."""

    where: str
    what: str
    why: str
    severity: Severity

    def __str__(self) -> str:
        # If the path ends with the field's name, the name is not repeated.
        what = "" if self.where.endswith(self.what) else f" {self.what}:"
        return f"{self.severity}: {self.where}:{what} {self.why}"


class Loss(ReceiptLine, frozen=True):
    """Something that the sender sent does not reach the receiver, or only approximately."""

    severity: Severity = "loss"


class Note(ReceiptLine, frozen=True):
    """Something changed its form, but not its meaning."""

    severity: Severity = "note"


def receipt_line(severity: Severity, where: str, what: str, why: str) -> Loss | Note:
    """Create a line of this severity."""
    return Loss(where, what, why) if severity == "loss" else Note(where, what, why)


def unread_lines(fields: Mapping[str, Json], where: str = "") -> Iterator[ReceiptLine]:
    """Yield the lines that a decoder recorded in the native fields of the node at `where`."""
    lines = fields.get(UNREAD)
    for line in lines if isinstance(lines, tuple) else ():  # a peer may send a member of this name
        if isinstance(line, ReceiptLine):
            yield msgspec.structs.replace(line, where=f"{where}.{line.where}") if where else line


class Receipt:
    """The lines of one exchange, in the order they were written, without duplicates."""

    __slots__ = ("_lines", "asked_at", "loss_count")

    def __init__(self) -> None:
        self._lines: dict[ReceiptLine, None] = {}
        self.loss_count = 0
        self.asked_at: Callable[[str], str] | None = None
        """Maps a current path to the path in the client's request; None if no pass has moved anything."""

    def loss(self, where: str, what: str, why: str) -> None:
        """Record that something was lost, or carried over only approximately."""
        self._write(Loss(self._place(where), what, why))

    def note(self, where: str, what: str, why: str) -> None:
        """Record that something changed its form but not its meaning."""
        self._write(Note(self._place(where), what, why))

    def _place(self, where: str) -> str:
        return where if self.asked_at is None else self.asked_at(where)

    def add(self, lines: Iterable[ReceiptLine]) -> None:
        """Add lines from elsewhere, without mapping their paths."""
        for line in lines:
            # Earlier versions created notes with `Loss(…, severity="note")`.
            is_misnamed = isinstance(line, Loss) and line.severity == "note"
            self._write(Note(line.where, line.what, line.why) if is_misnamed else line)

    def _write(self, line: ReceiptLine) -> None:
        count = len(self._lines)
        self._lines.setdefault(line)
        if len(self._lines) != count:
            self.loss_count += line.severity == "loss"

    def truncate(self, count: int) -> None:
        """Keep only the first lines. The others are about an answer that failed and is not delivered."""
        for line in tuple(self._lines)[count:]:
            del self._lines[line]
            self.loss_count -= line.severity == "loss"

    def revise(self, change: Callable[[ReceiptLine], ReceiptLine | None]) -> None:
        """Replace each line with the result of `change`; None removes the line."""
        lines, self._lines, self.loss_count = self._lines, {}, 0
        self.add(new for line in lines if (new := change(line)) is not None)

    @property
    def note_count(self) -> int:
        """The number of notes."""
        return len(self._lines) - self.loss_count

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The lines that are losses."""
        return tuple(line for line in self._lines if isinstance(line, Loss))

    @property
    def notes(self) -> tuple[Note, ...]:
        """The lines that are notes."""
        return tuple(line for line in self._lines if isinstance(line, Note))

    def __iter__(self) -> Iterator[ReceiptLine]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def __bool__(self) -> bool:
        return bool(self._lines)

    def __str__(self) -> str:
        return "\n".join(map(str, self._lines))

    def __repr__(self) -> str:
        return f"Receipt({list(self._lines)!r})"
