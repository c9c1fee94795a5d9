"""Find the differences between two documents, answers or receipts: a recorded one and a current one. Documents are
compared as JSON, without regard to the order of members. Streams are compared event by event, without keep-alives. In
lists, a common beginning and end are skipped, so that an added message is one difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from toolglot.errors import DecodeError
from toolglot.lint.report import visible
from toolglot.recordings.redacted_spans import matches_text
from toolglot.wire import json
from toolglot.wire.framing import EVENTS, Framing

MAX_DIFFERENCES = 1000
"""Maximum differences to report for one document or answer."""
MAX_SHOWN_CHARS = 100
"""Maximum characters of a value to show."""

DifferenceKind = Literal["added", "removed", "changed"]
_SIGNS: Mapping[DifferenceKind, str] = {"added": "+", "removed": "-", "changed": "~"}


class Missing:
    """The value of something that does not exist."""

    def __repr__(self) -> str:
        return "nothing"


MISSING = Missing()


class Difference(Struct, frozen=True):
    """A difference between two documents. `path` is the position (`messages[2].content`). `then` and `now` are the
    recorded and the current value."""

    path: str
    then: Any = MISSING
    now: Any = MISSING
    why: str = ""
    """An explanation, if the values alone do not explain it."""

    @property
    def kind(self) -> DifferenceKind:
        if self.then is MISSING:
            return "added"
        return "removed" if self.now is MISSING else "changed"

    def __str__(self) -> str:
        values = [format_value(value) for value in (self.then, self.now) if value is not MISSING]
        why = f" ({self.why})" if self.why else ""
        return f"{_SIGNS[self.kind]} {visible(self.path)}: {' -> '.join(values)}{why}"

    def to_json(self) -> dict[str, Any]:
        values = {
            name: value for name, value in (("then", self.then), ("now", self.now)) if not isinstance(value, Missing)
        }
        return {"path": self.path, "kind": self.kind, **values, **({"why": self.why} if self.why else {})}


def format_value(value: Any, length: int = MAX_SHOWN_CHARS) -> str:
    """Return the beginning and the end of a value, on one line."""
    text = visible(json.encode_text(value))
    if len(text) <= length:
        return text
    head = length * 2 // 3
    return f"{text[:head]}…{text[head - length :]}"


def compare_values(then: Any, now: Any, path: str = "") -> list[Difference]:
    """Return the differences between two JSON values, in the order of the first one; at most `MAX_DIFFERENCES`."""
    found: list[Difference] = []
    try:
        _compare(then, now, path, found)
    except RecursionError:
        found.append(Difference(path or "$", why=json.TOO_DEEP))
    return found[:MAX_DIFFERENCES]


def _compare(then: Any, now: Any, path: str, found: list[Difference]) -> None:
    if len(found) >= MAX_DIFFERENCES:
        return
    if isinstance(then, dict) and isinstance(now, dict):
        for name in dict.fromkeys((*then, *now)):
            _compare_member(then.get(name, MISSING), now.get(name, MISSING), _member(path, name), found)
    elif isinstance(then, list) and isinstance(now, list):
        _compare_lists(then, now, path, found)
    elif not _same(then, now):
        found.append(_narrow_texts(Difference(path or "$", then, now)))


def _compare_member(then: Any, now: Any, path: str, found: list[Difference]) -> None:
    if then is MISSING or now is MISSING:
        found.append(Difference(path, then, now))
    else:
        _compare(then, now, path, found)


def _compare_lists(then: list[Any], now: list[Any], path: str, found: list[Difference]) -> None:
    shorter = min(len(then), len(now))
    first = next((at for at in range(shorter) if not _same(then[at], now[at])), shorter)
    left = shorter - first
    last = next((back for back in range(left) if not _same(then[-1 - back], now[-1 - back])), left)
    for at in range(first, max(len(then), len(now)) - last):
        before = then[at] if at < len(then) - last else MISSING
        after = now[at] if at < len(now) - last else MISSING
        _compare_member(before, after, f"{path}[{at}]", found)


def _same(then: Any, now: Any) -> bool:
    """Compare values as JSON does. Python treats `True` as 1."""
    if isinstance(then, bool) or isinstance(now, bool):
        return then is now
    if isinstance(then, (dict, list)) or isinstance(now, (dict, list)):
        return type(then) is type(now) and (then is now or json.encode(then) == json.encode(now))
    return bool(then == now)


def _member(path: str, name: str) -> str:
    plain = name.replace("_", "a").replace("-", "a").isalnum()
    return (f"{path}.{name}" if path else name) if plain else f"{path}[{json.encode_text(name)}]"


LONG_TEXT = 2 * MAX_SHOWN_CHARS
_CONTEXT_CHARS = 20


def _narrow_texts(difference: Difference) -> Difference:
    """Reduce two long texts to the part in which they differ, with a little context."""
    then, now = difference.then, difference.now
    if not isinstance(then, str) or not isinstance(now, str) or max(len(then), len(now)) <= LONG_TEXT:
        return difference
    at = _common_prefix_length(then, now)
    back = _common_prefix_length(then[at:][::-1], now[at:][::-1])
    start = max(at - _CONTEXT_CHARS, 0)
    parts = [text[start : len(text) - max(back - _CONTEXT_CHARS, 0)] for text in (then, now)]
    return Difference(difference.path, parts[0], parts[1], f"character {at + 1}")


def _common_prefix_length(first: str, second: str) -> int:
    """Return the length of the common prefix of two texts."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def compare_documents(then: bytes, now: bytes) -> list[Difference]:
    """Return the differences between two JSON documents, or between bytes that are not JSON."""
    if then == now:
        return []
    try:
        values = json.decode_frame(then), json.decode_frame(now)
    except DecodeError:
        return [_narrow_texts(Difference("$", _text(then), _text(now)))]
    return compare_values(*values)


def compare_streams(
    then: bytes, now: bytes, keepalive: bytes = b"", *, begun: bool = False, framing: Framing = EVENTS
) -> list[Difference]:
    """Return the differences between two streams, frame by frame. `begun`: only the beginning of the first was
    recorded."""
    if then == now:
        return []
    before, after = frames(then, keepalive, framing), frames(now, keepalive, framing)
    if begun:
        if before and not before[-1].endswith((framing.end, b"\r\n\r\n")):
            before.pop()  # a partial event
        after = after[: len(before)]
    found: list[Difference] = []
    shorter = min(len(before), len(after))
    first = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    left = shorter - first
    last = next((back for back in range(left) if before[-1 - back] != after[-1 - back]), left)
    for at in range(first, max(len(before), len(after)) - last):
        old = before[at] if at < len(before) - last else None
        new = after[at] if at < len(after) - last else None
        found += _compare_frames(old, new, f"event {at + 1}", framing)
        if len(found) >= MAX_DIFFERENCES:
            break
    return found[:MAX_DIFFERENCES]


def frames(stream: bytes, keepalive: bytes = b"", framing: Framing = EVENTS) -> list[bytes]:
    """Return the frames of a stream, except keep-alives and blank lines."""
    return [frame for frame in framing.split(stream) if frame.strip() and frame != keepalive]


def _compare_frames(then: bytes | None, now: bytes | None, place: str, framing: Framing) -> list[Difference]:
    if then == now:
        return []
    if then is None or now is None:
        return [Difference(place, _value(then, framing), _value(now, framing))]
    (event, value), (new_event, new_value) = _read(then, framing), _read(now, framing)
    found = [Difference(f"{place} event", event, new_event)] if event != new_event else []
    found += compare_values(value, new_value, place)
    return found or [
        _narrow_texts(Difference(place, _text(then), _text(now), why="the same values, written differently"))
    ]


def _read(frame: bytes, framing: Framing) -> tuple[str, Any]:
    read = framing.documents(frame)
    event, data = read[0] if read else (b"", frame)
    try:
        return _text(event), json.decode_frame(data)
    except DecodeError:
        return _text(event), _text(data)


def _value(frame: bytes | None, framing: Framing) -> Any:
    return MISSING if frame is None else _read(frame, framing)[1]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def compare_receipts(then: Sequence[Mapping[str, str]], now: Sequence[Mapping[str, str]]) -> list[Difference]:
    """Return the lines of each receipt that are not in the other. Their order and redacted parts of the first are
    ignored.
    """
    before, after = ({_receipt_line_key(line): dict(line) for line in lines} for lines in (then, now))
    gone = {key: line for key, line in before.items() if key not in after}
    new = {key: line for key, line in after.items() if key not in before}
    for key in [*gone]:
        if (same := next((other for other in new if matches_text(key, other)), None)) is not None:
            del gone[key], new[same]
    return [
        *(Difference("receipt", line, MISSING) for line in gone.values()),
        *(Difference("receipt", MISSING, line) for line in new.values()),
    ][:MAX_DIFFERENCES]


def _receipt_line_key(line: Mapping[str, str]) -> bytes:
    return json.encode(dict(sorted(line.items())))
