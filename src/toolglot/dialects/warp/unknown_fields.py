"""Receipt lines on the fields of Warp's messages that no table knows.

Newer clients and servers send fields that the tables do not have. Warp's own side gets them back; every other API
cannot. This lists them from the bytes of whole messages: once for each kind of place, by its path, with the number of
the field. A field of a known number in another wire type is unknown to a reader too, and so is an entry of a map with
anything unknown in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from toolglot.dialects.warp.native import NAME
from toolglot.dialects.warp.wire_fields import LEN, MESSAGE, WireField, read_fields
from toolglot.receipt import Loss, Severity

MAX_LINES = 40
"""Further kinds of places are counted together."""
MAX_FIELDS = 50_000
"""Fields looked at in one request or answer: some tenths of a second's work. What is behind them is not listed."""
MAX_PATH = 300

ONLY_WARP = f"only {NAME} understands it"
NOTED: Mapping[str, str] = {
    **dict.fromkeys(("init", "finished"), "it tells of the stream, and not of the answer"),
    **dict.fromkeys(("metadata", "server_event", "server", "timestamp"), "only Warp's server reads it"),
    **dict.fromkeys(("settings", "mode"), "it tells what Warp's client itself can do"),
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
        "it tells what Warp keeps of a task, and not of the answer",
    ),
}
"""Fields in which everything is for Warp alone, each with the reason: an unknown field in one is a note and no loss."""


class _Message(NamedTuple):
    """A message to look at: where its bytes are, its path with and without places in lists, and why it is noted."""

    descriptor: Any
    start: int
    end: int
    path: str
    kind: str
    noted: str


class _Found:
    """The unknown fields of one kind of place. The path is the first one's."""

    __slots__ = ("count", "field", "noted", "path", "size")

    def __init__(self, path: str, field: str, noted: str) -> None:
        self.path = path
        self.field = field
        self.noted = noted
        self.count = 0
        self.size = 0

    def line(self) -> Loss:
        times = f"{self.count} times, " if self.count > 1 else ""
        severity: Severity = "note" if self.noted else "loss"
        return Loss(self.path[:MAX_PATH], f"{self.field} ({times}{self.size} bytes)", self.noted or ONLY_WARP, severity)


def has_unknown(message: Any) -> bool:
    """Is there an unknown field anywhere in this message? Takes no Python for each field.

    Protobuf does not look deeper than 64 messages. Only JSON in a `Struct` goes there, and `values.py` reads all of it.
    """
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    return bool(known.ByteSize() != message.ByteSize())


class UnknownFields:
    """The unknown fields of a request, or of all the events of an answer."""

    __slots__ = ("_events", "_found", "_left", "_more")

    def __init__(self) -> None:
        self._found: dict[str, _Found] = {}
        self._left = MAX_FIELDS
        self._more = 0
        self._events = 0

    def add_event(self, message: Any, data: bytes) -> bool:
        """Looks at the next event of an answer; whether it has unknown fields."""
        found = self.add(message, data, f"events[{self._events}]")
        self._events += 1
        return found

    def add(self, message: Any, data: bytes, path: str = "") -> bool:
        """Looks at a message and the bytes that it was read from; whether it has unknown fields."""
        if not has_unknown(message):
            return False
        waiting = [_Message(message.DESCRIPTOR, 0, len(data), path, "", "")]
        while waiting and self._left > 0:
            waiting += reversed(self._look(waiting.pop(), data))
        return True

    def _look(self, message: _Message, data: bytes) -> list[_Message]:
        """Lists the unknown fields of one message; the messages in it."""
        inner: list[_Message] = []
        places: dict[int, int] = {}
        for field in read_fields(message.descriptor, data, message.start, message.end):
            self._left -= 1
            if self._left <= 0:
                break
            if not field.is_read:
                self._list(message, field)
            elif field.known.type == MESSAGE and field.wire_type == LEN:
                place = places[field.number] = places.get(field.number, -1) + 1
                inner.append(_message_at(message, field, place))
        return inner

    def _list(self, message: _Message, field: WireField) -> None:
        is_entry = message.descriptor.GetOptions().map_entry
        named = f"unknown field {field.number}" if field.known is None else f"field {field.number} in another form"
        kind = f"{message.kind}.{field.number}"
        if kind not in self._found:
            if len(self._found) >= MAX_LINES:
                self._more += 1
                return
            path = message.path if is_entry else _joined(message.path, str(field.number))
            what = f"an entry with {named}" if is_entry else named
            self._found[kind] = _Found(path, what, message.noted)
        found = self._found[kind]
        found.count += 1
        found.size += message.end - message.start if is_entry else max(field.end - field.start, 0)

    def lines(self) -> tuple[Loss, ...]:
        """What a receipt says of them."""
        lines = [found.line() for found in self._found.values()]
        if self._more or self._left <= 0:
            what = f"{self._more or 'further'} unknown fields"
            why = ONLY_WARP if self._left > 0 else f"{ONLY_WARP}; what is behind the first {MAX_FIELDS} is not listed"
            lines.append(Loss("$", what, why))
        return tuple(lines)


def _message_at(outer: _Message, field: WireField, place: int) -> _Message:
    known = field.known
    name = known.name
    if outer.descriptor.GetOptions().map_entry:
        path = outer.path
    else:
        path = _joined(outer.path, f"{name}[{place}]" if known.is_repeated else name)
    noted = outer.noted or NOTED.get(name, "")
    return _Message(known.message_type, field.start, field.end, path[:MAX_PATH], f"{outer.kind}.{name}", noted)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
