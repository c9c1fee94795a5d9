"""What differs between two documents, two answers or two receipts: then and now.

Documents are compared as JSON: the order of members does not count, everything else does. Streams are compared event by
event, without keep-alives, which come when nothing else does. Of lists, what is alike at their beginning and at their
end is left alone, so that one message more is one difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from toolglot.errors import DecodeError
from toolglot.lint.report import visible
from toolglot.recordings.holes import fits_text
from toolglot.wire import json
from toolglot.wire.framing import EVENTS, Framing

MOST = 1000
"""Differences of one document or answer that are told."""
SHOWN = 100
"""Characters of a value that are shown."""

Kind = Literal["added", "removed", "changed"]
_SIGNS: Mapping[Kind, str] = {"added": "+", "removed": "-", "changed": "~"}


class Nothing:
    """The value of what is not there."""

    def __repr__(self) -> str:
        return "nothing"


NOTHING = Nothing()


class Difference(Struct, frozen=True):
    """`path` is where, as `messages[2].content`; `then` and `now` are what stands there."""

    path: str
    then: Any = NOTHING
    now: Any = NOTHING
    why: str = ""
    """Said where the values alone do not tell."""

    @property
    def kind(self) -> Kind:
        if self.then is NOTHING:
            return "added"
        return "removed" if self.now is NOTHING else "changed"

    def __str__(self) -> str:
        values = [shown(value) for value in (self.then, self.now) if value is not NOTHING]
        why = f" ({self.why})" if self.why else ""
        return f"{_SIGNS[self.kind]} {visible(self.path)}: {' -> '.join(values)}{why}"

    def told(self) -> dict[str, Any]:
        """As JSON."""
        values = {
            name: value for name, value in (("then", self.then), ("now", self.now)) if not isinstance(value, Nothing)
        }
        return {"path": self.path, "kind": self.kind, **values, **({"why": self.why} if self.why else {})}


def shown(value: Any, length: int = SHOWN) -> str:
    """The beginning and the end of a value, on one line."""
    text = visible(json.encode_text(value))
    if len(text) <= length:
        return text
    head = length * 2 // 3
    return f"{text[:head]}…{text[head - length :]}"


def of_values(then: Any, now: Any, path: str = "") -> list[Difference]:
    """The differences between two JSON values, in the order of the first one; no more than `MOST`."""
    found: list[Difference] = []
    try:
        _compare(then, now, path, found)
    except RecursionError:
        found.append(Difference(path or "$", why=json.TOO_DEEP))
    return found[:MOST]


def _compare(then: Any, now: Any, path: str, found: list[Difference]) -> None:
    if len(found) >= MOST:
        return
    if isinstance(then, dict) and isinstance(now, dict):
        for name in dict.fromkeys((*then, *now)):
            _compare_member(then.get(name, NOTHING), now.get(name, NOTHING), _member(path, name), found)
    elif isinstance(then, list) and isinstance(now, list):
        _compare_lists(then, now, path, found)
    elif not _same(then, now):
        found.append(_narrowed(Difference(path or "$", then, now)))


def _compare_member(then: Any, now: Any, path: str, found: list[Difference]) -> None:
    if then is NOTHING or now is NOTHING:
        found.append(Difference(path, then, now))
    else:
        _compare(then, now, path, found)


def _compare_lists(then: list[Any], now: list[Any], path: str, found: list[Difference]) -> None:
    shorter = min(len(then), len(now))
    first = next((at for at in range(shorter) if not _same(then[at], now[at])), shorter)
    left = shorter - first
    last = next((back for back in range(left) if not _same(then[-1 - back], now[-1 - back])), left)
    for at in range(first, max(len(then), len(now)) - last):
        before = then[at] if at < len(then) - last else NOTHING
        after = now[at] if at < len(now) - last else NOTHING
        _compare_member(before, after, f"{path}[{at}]", found)


def _same(then: Any, now: Any) -> bool:
    """Python takes `True` for 1; JSON does not."""
    if isinstance(then, bool) or isinstance(now, bool):
        return then is now
    if isinstance(then, (dict, list)) or isinstance(now, (dict, list)):
        return type(then) is type(now) and (then is now or json.encode(then) == json.encode(now))
    return bool(then == now)


def _member(path: str, name: str) -> str:
    plain = name.replace("_", "a").replace("-", "a").isalnum()
    return (f"{path}.{name}" if path else name) if plain else f"{path}[{json.encode_text(name)}]"


LONG = 2 * SHOWN
_BESIDE = 20


def _narrowed(difference: Difference) -> Difference:
    """Of two long texts, the part in which they differ and a little beside it."""
    then, now = difference.then, difference.now
    if not isinstance(then, str) or not isinstance(now, str) or max(len(then), len(now)) <= LONG:
        return difference
    at = _common(then, now)
    back = _common(then[at:][::-1], now[at:][::-1])
    start = max(at - _BESIDE, 0)
    parts = [text[start : len(text) - max(back - _BESIDE, 0)] for text in (then, now)]
    return Difference(difference.path, parts[0], parts[1], f"character {at + 1}")


def _common(first: str, second: str) -> int:
    """How many characters two texts begin with in common."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def of_documents(then: bytes, now: bytes) -> list[Difference]:
    """The differences between two JSON documents, or between bytes that are none."""
    if then == now:
        return []
    try:
        values = json.decode_frame(then), json.decode_frame(now)
    except DecodeError:
        return [_narrowed(Difference("$", _text(then), _text(now)))]
    return of_values(*values)


def of_streams(
    then: bytes, now: bytes, keepalive: bytes = b"", *, begun: bool = False, framing: Framing = EVENTS
) -> list[Difference]:
    """The differences between two streams, frame by frame. `begun`: of the first only the beginning is there."""
    if then == now:
        return []
    before, after = frames(then, keepalive, framing), frames(now, keepalive, framing)
    if begun:
        if before and not before[-1].endswith((framing.end, b"\r\n\r\n")):
            before.pop()  # the half of an event
        after = after[: len(before)]
    found: list[Difference] = []
    shorter = min(len(before), len(after))
    first = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    left = shorter - first
    last = next((back for back in range(left) if before[-1 - back] != after[-1 - back]), left)
    for at in range(first, max(len(before), len(after)) - last):
        old = before[at] if at < len(before) - last else None
        new = after[at] if at < len(after) - last else None
        found += _of_frames(old, new, f"event {at + 1}", framing)
        if len(found) >= MOST:
            break
    return found[:MOST]


def frames(stream: bytes, keepalive: bytes = b"", framing: Framing = EVENTS) -> list[bytes]:
    """The frames of a stream, but keep-alives and blank lines."""
    return [frame for frame in framing.split(stream) if frame.strip() and frame != keepalive]


def _of_frames(then: bytes | None, now: bytes | None, place: str, framing: Framing) -> list[Difference]:
    if then == now:
        return []
    if then is None or now is None:
        return [Difference(place, _value(then, framing), _value(now, framing))]
    (event, value), (new_event, new_value) = _read(then, framing), _read(now, framing)
    found = [Difference(f"{place} event", event, new_event)] if event != new_event else []
    found += of_values(value, new_value, place)
    return found or [_narrowed(Difference(place, _text(then), _text(now), why="the same values, written otherwise"))]


def _read(frame: bytes, framing: Framing) -> tuple[str, Any]:
    read = framing.documents(frame)
    event, data = read[0] if read else (b"", frame)
    try:
        return _text(event), json.decode_frame(data)
    except DecodeError:
        return _text(event), _text(data)


def _value(frame: bytes | None, framing: Framing) -> Any:
    return NOTHING if frame is None else _read(frame, framing)[1]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def of_receipts(then: Sequence[Mapping[str, str]], now: Sequence[Mapping[str, str]]) -> list[Difference]:
    """The lines of a receipt that are not in the other. Where a line stands in it does not count, nor what was redacted
    in the first."""
    before, after = ({_line(line): dict(line) for line in lines} for lines in (then, now))
    gone = {key: line for key, line in before.items() if key not in after}
    new = {key: line for key, line in after.items() if key not in before}
    for key in [*gone]:
        if (same := next((other for other in new if fits_text(key, other)), None)) is not None:
            del gone[key], new[same]
    return [
        *(Difference("receipt", line, NOTHING) for line in gone.values()),
        *(Difference("receipt", NOTHING, line) for line in new.values()),
    ][:MOST]


def _line(line: Mapping[str, str]) -> bytes:
    return json.encode(dict(sorted(line.items())))
