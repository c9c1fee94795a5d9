"""A text as programs read it that undo its escapes, and where each of its characters stands in the text itself.

What is to be redacted is searched for in every view, with plain search: an expression that knows all ways to write each
character would try them all, which a text that somebody else chose can drag out for years.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

LEVELS = 4
"""Of JSON in JSON, or of what is percent-encoded once more."""

_JSON_ESCAPES = (
    r"\\u[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}"
    r"|\\[^A-Za-z0-9]|\\[bfnrt]"
)
"""Also those that are none in JSON, but in other languages: `\\'`."""
_PERCENT_ESCAPES = (
    r"%[0-7][0-9A-Fa-f]|%[C-Dc-d][0-9A-Fa-f]%[89ABab][0-9A-Fa-f]|%[Ee][0-9A-Fa-f](?:%[89ABab][0-9A-Fa-f]){2}"
    r"|%[Ff][0-7](?:%[89ABab][0-9A-Fa-f]){3}|%[0-9A-Fa-f]{2}"
)
_JSON = re.compile(_JSON_ESCAPES)
_PERCENT = re.compile(_PERCENT_ESCAPES)
_BOTH = re.compile(f"{_JSON_ESCAPES}|{_PERCENT_ESCAPES}")
_UTF8 = re.compile("[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
"""A character in what is read as if each byte were one."""
_FORM = re.compile(r"=[\w.%*-]+\+")
"""A space in a form that is sent, or in an address."""
_BASE64 = "[A-Za-z0-9+/_-]"
_INDENT = f"[ \t]{{0,32}}(?={_BASE64})"
_WRAP = re.compile(rf"\n(?<={_BASE64}{{16}}\n){_INDENT}|\r\n(?<={_BASE64}{{16}}\r\n){_INDENT}")
"""Where a line of base64 goes on in the next one, as in mail."""
_ESCAPED_WRAPS = {
    "\\n": re.compile(rf"\\n(?<={_BASE64}{{16}}\\n)"),
    "\\r\\n": re.compile(rf"\\r\\n(?<={_BASE64}{{16}}\\r\\n)"),
    "\\\\n": re.compile(rf"\\(?<={_BASE64}{{16}}\\)\\{{1,7}}(?:r\\{{1,8}})?n"),
}
"""The same as JSON escapes it, and JSON in JSON; by what must stand in a text, which is seen sooner."""
_LETTER = "(?:3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa]|25|5[Cc])"
_HIDDEN = {"\\u00": re.compile(rf"\\u00{_LETTER}"), "%": re.compile(rf"%{_LETTER}")}
"""Escapes of letters and digits, and of what escapes begin with. No program writes them: somebody hides something."""
_SIGNS = (*_HIDDEN.items(), *_ESCAPED_WRAPS.items())
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class View:
    """`places` are those where the view goes on at another place of the text it was made from: at `origins`."""

    __slots__ = ("_origins", "_parent", "_places", "text")

    def __init__(
        self, text: str, parent: View | None = None, places: Sequence[int] = (0,), origins: Sequence[int] = (0,)
    ) -> None:
        self.text = text
        self._parent = parent
        self._places = places
        self._origins = origins

    def origin(self, place: int) -> int:
        """Where the character at this place begins in the text itself, which is where the one before it ends."""
        view: View | None = self
        while view is not None and view._parent is not None:
            at = bisect_right(view._places, place) - 1
            place += view._origins[at] - view._places[at]
            view = view._parent
        return place


class Step(NamedTuple):
    escapes: re.Pattern[str]
    read: Callable[[str], str]
    """The character that an escape stands for."""


def _escaped(escape: str) -> str:
    return _percent(escape) if escape[0] == "%" else _json(escape)


@lru_cache(maxsize=1024)
def _json(escape: str) -> str:
    if len(escape) == 2:
        return _SHORT.get(escape[1], escape[1])
    unit = int(escape[2:6], 16)
    return chr(unit) if len(escape) == 6 else chr(0x10000 + (unit - 0xD800 << 10) + int(escape[8:], 16) - 0xDC00)


@lru_cache(maxsize=1024)
def _percent(escape: str) -> str:
    data = bytes.fromhex(escape.replace("%", ""))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _character(data: str) -> str:
    try:
        return data.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return data


def _nothing(wrap: str) -> str:
    return ""


def _undone(view: View, step: Step) -> View | None:
    """The view with these escapes undone, once; None if it has none."""
    text, parts = view.text, [""]
    places, origins = [0], [0]
    done = size = 0
    for match in step.escapes.finditer(text):
        start, end = match.span()
        character = step.read(match[0])
        parts += (text[done:start], character)
        places += (size + start - done, size + start - done + len(character))
        origins += (start, end)
        size, done = places[-1], end
    return View("".join([*parts, text[done:]]), view, places, origins) if done else None


def unescaped(view: View, start: int, end: int) -> View:
    """What stands inside of a string of JSON, as whoever reads it gets it."""
    inside = View(view.text[start:end], view, (0,), (start,))
    return _undone(inside, Step(_JSON, _json)) or inside


def _deeper(view: View, step: Step) -> Iterator[View]:
    for _ in range(LEVELS):
        inner = _undone(view, step)
        if inner is None:
            return
        yield inner
        view = inner


def may_hide(text: str) -> bool:
    """May a run of letters and digits stand in a view of this text that does not stand in itself?"""
    for mark, hidden in _SIGNS:
        if mark in text and hidden.search(text):
            return True
    return "\n" in text[:-2] and _WRAP.search(text) is not None


def views(text: str) -> Iterator[View]:
    """The text as it is, and then all others that there are of it."""
    for view in _unescaped(text):
        yield view
        if "\n" in view.text and (unwrapped := _undone(view, Step(_WRAP, _nothing))) is not None:
            yield unwrapped


def _unescaped(text: str) -> Iterator[View]:
    first = View(text)
    yield first
    if not text.isascii() and (read := _undone(first, Step(_UTF8, _character))) is not None:
        first = read
        yield read
    yield from _deeper(first, Step(_JSON, _json))
    has_percent = "\\u0025" in text or _PERCENT.search(text) is not None
    decoded = list(_deeper(first, Step(_BOTH, _escaped))) if has_percent else []
    yield from decoded
    if _FORM.search(text):
        form = decoded[0] if decoded else first
        # What is decoded has a plus of its own where one was encoded; here it is a space too.
        yield View(form.text.replace("+", " "), form)
