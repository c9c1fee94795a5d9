"""Receipt lines for unknown fields in Warp's messages, and for overwritten values.

Newer clients and servers send fields that the tables do not have. Warp's own side gets them back; other APIs cannot
carry them. This module lists them from the bytes of whole messages: one line for each kind of position, with its path
and the field number. A field with a known number and another wire type counts as unknown too, and so does a map entry
with an unknown field.

A singular field, a oneof and a map key may occur several times. Protobuf then takes the last value, or merges the
messages. Warp's own server does the same, so the line is a note.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from toolglot.dialects.warp.wire_fields import LEN, MESSAGE, WireField, read_fields
from toolglot.receipt import Loss, Note, ReceiptLine, Severity, receipt_line

MAX_LINES = 40
"""The limit for lines. Further kinds of positions are counted together."""
MAX_FIELDS = 50_000
"""The limit for inspected fields in one request or answer: some tenths of a second. Later fields are not listed."""
MAX_PATH = 300

UNKNOWN_MEANING = "its meaning is unknown"
LAST_COUNTS = "protobuf takes the last one, as Warp's own server does"
JOINED = "protobuf joins them, and takes the last value of each field, as Warp's own server does"
NOTED: Mapping[str, str] = {
    **dict.fromkeys(("init", "finished"), "it describes the stream, not the answer"),
    **dict.fromkeys(("metadata", "server_event", "server", "timestamp"), "only Warp's server reads it"),
    **dict.fromkeys(("settings", "mode"), "it describes what Warp's client can do"),
    **dict.fromkeys(
        (
            "update_task_status",
            "update_task_summary",
            "update_task_description",
            "update_task_server_data",
            "begin_transaction",
            "commit_transaction",
            "rollback_transaction",
        ),
        "it describes what Warp keeps of a task, not the answer",
    ),
}
"""Fields that concern only Warp, with the reason: an unknown field inside one is a note, not a loss."""


class _MessageSpan(NamedTuple):
    """A message to inspect: its bytes, its path with list indices (`path`) and without (`kind`), and the reason if its
    unknown fields are only notes (`noted`)."""

    descriptor: Any
    start: int
    end: int
    path: str
    kind: str
    noted: str


class _FoundFields:
    """The unknown fields of one kind of position. The path is that of the first one."""

    __slots__ = ("count", "field", "noted", "path", "size")

    def __init__(self, path: str, field: str, noted: str) -> None:
        self.path = path
        self.field = field
        self.noted = noted
        self.count = 0
        self.size = 0

    def line(self) -> ReceiptLine:
        if self.noted in (LAST_COUNTS, JOINED):
            return Note(self.path[:MAX_PATH], f"{self.count + 1} values for {self.field}", self.noted)
        times = f"{self.count} times, " if self.count > 1 else ""
        severity: Severity = "note" if self.noted else "loss"
        return receipt_line(
            severity, self.path[:MAX_PATH], f"{self.field} ({times}{self.size} bytes)", self.noted or UNKNOWN_MEANING
        )


def has_unknown(message: Any) -> bool:
    """Return whether this message has an unknown field at any depth. Runs no Python code for each field.

    Protobuf checks at most 64 levels. Only JSON in a `Struct` is deeper, and `values.py` reads all of it.
    """
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    return bool(known.ByteSize() != message.ByteSize())


class UnknownFields:
    """Collects the unknown fields of a request, or of all events of an answer."""

    __slots__ = ("_events", "_found", "_left", "_more")

    def __init__(self) -> None:
        self._found: dict[str, _FoundFields] = {}
        self._left = MAX_FIELDS
        self._more = 0
        self._events = 0

    def add_event(self, message: Any, data: bytes) -> bool:
        """Inspect the next event of an answer. Returns whether it has unknown fields."""
        found = self.add(message, data, f"events[{self._events}]")
        self._events += 1
        return found

    def add(self, message: Any, data: bytes, path: str = "") -> bool:
        """Inspect a message and the bytes that it was read from. Returns whether it has unknown fields."""
        is_unknown = has_unknown(message)
        # A message with overwritten values is shorter when it is serialized again.
        if is_unknown or message.ByteSize() != len(data):
            pending = [_MessageSpan(message.DESCRIPTOR, 0, len(data), path, "", "")]
            while pending and self._left > 0:
                pending += reversed(self._inspect(pending.pop(), data))
        return is_unknown

    def _inspect(self, message: _MessageSpan, data: bytes) -> list[_MessageSpan]:
        """List the unknown fields of one message. Returns the messages inside it."""
        inner: list[_MessageSpan] = []
        places: dict[int, int] = {}
        seen: dict[str, int] = {}
        for field in read_fields(message.descriptor, data, message.start, message.end):
            self._left -= 1
            if self._left <= 0:
                break
            if not field.is_read:
                self._list_unknown(message, field)
                continue
            if (slot := _slot(field, data)) is not None:
                if slot in seen:
                    is_joined = field.known.type == MESSAGE and seen[slot] == field.number and not _is_map(field.known)
                    self._list_overwritten(message, field, slot, JOINED if is_joined else LAST_COUNTS)
                seen[slot] = field.number
            if field.known.type == MESSAGE and field.wire_type == LEN:
                place = places[field.number] = places.get(field.number, -1) + 1
                inner.append(_message_at(message, field, place))
        return inner

    def _list_unknown(self, message: _MessageSpan, field: WireField) -> None:
        is_entry = message.descriptor.GetOptions().map_entry
        named = f"unknown field {field.number}" if field.known is None else f"field {field.number} in another form"
        kind = f"{message.kind}.{field.number}"
        if kind not in self._found:
            if len(self._found) >= MAX_LINES:
                self._more += 1
                return
            path = message.path if is_entry else _join_path(message.path, str(field.number))
            what = f"an entry with {named}" if is_entry else named
            self._found[kind] = _FoundFields(path, what, message.noted)
        found = self._found[kind]
        found.count += 1
        found.size += message.end - message.start if is_entry else max(field.end - field.start, 0)

    def _list_overwritten(self, message: _MessageSpan, field: WireField, slot: str, why: str) -> None:
        kind = f"{message.kind}.{slot}"
        if kind not in self._found:
            if len(self._found) >= MAX_LINES:
                self._more += 1
                return
            known = field.known
            oneof = known.containing_oneof
            what = "one key" if _is_map(known) else f"oneof {oneof.name}" if oneof is not None else "one field"
            self._found[kind] = _FoundFields(_join_path(message.path, known.name), what, why)
        self._found[kind].count += 1

    def lines(self) -> tuple[ReceiptLine, ...]:
        """Return the receipt lines."""
        lines = [found.line() for found in self._found.values()]
        if self._more or self._left <= 0:
            what = f"{self._more or 'further'} unknown fields"
            why = UNKNOWN_MEANING if self._left > 0 else f"{UNKNOWN_MEANING}; only the first {MAX_FIELDS} are listed"
            lines.append(Loss("$", what, why))
        return tuple(lines)


def _is_map(known: Any) -> bool:
    return bool(known.type == MESSAGE and known.message_type.GetOptions().map_entry)


def _slot(field: WireField, data: bytes) -> str | None:
    """Return the slot that has one value: the field, its oneof, or a map key. None for a repeated field."""
    known = field.known
    if _is_map(known):
        entry = read_fields(known.message_type, data, field.start, field.end)
        keys = [f"{inner.value}:{data[inner.start : inner.end].hex()}" for inner in entry if inner.number == 1]
        return f"{known.name}[{keys[-1] if keys else ''}]"
    if known.is_repeated:
        return None
    oneof = known.containing_oneof
    return known.name if oneof is None else f"oneof {oneof.name}"


def _message_at(outer: _MessageSpan, field: WireField, place: int) -> _MessageSpan:
    known = field.known
    name = known.name
    if outer.descriptor.GetOptions().map_entry:
        path = outer.path
    else:
        path = _join_path(outer.path, f"{name}[{place}]" if known.is_repeated else name)
    noted = outer.noted or NOTED.get(name, "")
    return _MessageSpan(known.message_type, field.start, field.end, path[:MAX_PATH], f"{outer.kind}.{name}", noted)


def _join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
