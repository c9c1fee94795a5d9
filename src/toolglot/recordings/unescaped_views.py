"""Views of a text with its escapes decoded, and the position of each character in the original text. Secrets are
searched in every view with plain search. A pattern for all ways to write each character would try all of them, and an
untrusted text could make that run for years.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

MAX_LEVELS = 4
"""Maximum levels of JSON in JSON, or of repeated percent-encoding."""

_JSON_ESCAPES = (
    r"\\u[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}"
    r"|\\[^A-Za-z0-9]|\\[bfnrt]"
)
"""Escapes of JSON, and escapes of other languages that JSON does not have: `\'`."""
_PERCENT_ESCAPES = (
    r"%[0-7][0-9A-Fa-f]|%[C-Dc-d][0-9A-Fa-f]%[89ABab][0-9A-Fa-f]|%[Ee][0-9A-Fa-f](?:%[89ABab][0-9A-Fa-f]){2}"
    r"|%[Ff][0-7](?:%[89ABab][0-9A-Fa-f]){3}|%[0-9A-Fa-f]{2}"
)
_JSON = re.compile(_JSON_ESCAPES)
_PERCENT = re.compile(_PERCENT_ESCAPES)
_BOTH = re.compile(f"{_JSON_ESCAPES}|{_PERCENT_ESCAPES}")
_UTF8 = re.compile("[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
"""A character in text that was decoded byte by byte."""
_FORM_SPACE = re.compile(r"=[\w.%*-]+\+")
"""A space in form data, or in an address."""
_BASE64 = "[A-Za-z0-9+/_-]"
_INDENT = f"[ \t]{{0,32}}(?={_BASE64})"
_LINE_WRAP = re.compile(rf"\n(?<={_BASE64}{{16}}\n){_INDENT}|\r\n(?<={_BASE64}{{16}}\r\n){_INDENT}")
"""Line break inside base64, where it continues on the next line, as in mail."""
_ESCAPED_WRAPS = {
    "\\n": re.compile(rf"\\n(?<={_BASE64}{{16}}\\n)"),
    "\\r\\n": re.compile(rf"\\r\\n(?<={_BASE64}{{16}}\\r\\n)"),
    "\\\\n": re.compile(rf"\\(?<={_BASE64}{{16}}\\)\\{{1,7}}(?:r\\{{1,8}})?n"),
}
"""The same as JSON escapes it, and JSON in JSON; keyed by a substring that is faster to search."""
_LETTER = "(?:3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa]|25|5[Cc])"
_UNUSUAL_ESCAPE = {"\\u00": re.compile(rf"\\u00{_LETTER}"), "%": re.compile(rf"%{_LETTER}")}
"""Escapes of letters and digits, and of escape characters. No program writes them, so they may hide a secret."""
_SIGNS = (*_UNUSUAL_ESCAPE.items(), *_ESCAPED_WRAPS.items())
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class TextView:
    """A view of unescaped text. `places` are the positions where the view continues at another position of its source
    text: at `origins`."""

    __slots__ = ("_origins", "_parent", "_places", "text")

    def __init__(
        self, text: str, parent: TextView | None = None, places: Sequence[int] = (0,), origins: Sequence[int] = (0,)
    ) -> None:
        self.text = text
        self._parent = parent
        self._places = places
        self._origins = origins

    def origin(self, place: int) -> int:
        """Return the start of the character at this position in the original text, which is the end of the previous
        one.
        """
        view: TextView | None = self
        while view is not None and view._parent is not None:
            at = bisect_right(view._places, place) - 1
            place += view._origins[at] - view._places[at]
            view = view._parent
        return place


class UnescapeStep(NamedTuple):
    escapes: re.Pattern[str]
    read: Callable[[str], str]
    """Return the character of an escape."""


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


def _remove(wrap: str) -> str:
    return ""


def _unescape_once(view: TextView, step: UnescapeStep) -> TextView | None:
    """Return the view with these escapes decoded once; None if it has none."""
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
    return TextView("".join([*parts, text[done:]]), view, places, origins) if done else None


def unescape_string(view: TextView, start: int, end: int) -> TextView:
    """Return the inside of a JSON string, unescaped."""
    inside = TextView(view.text[start:end], view, (0,), (start,))
    return _unescape_once(inside, UnescapeStep(_JSON, _json)) or inside


def _unescape_repeatedly(view: TextView, step: UnescapeStep) -> Iterator[TextView]:
    for _ in range(MAX_LEVELS):
        inner = _unescape_once(view, step)
        if inner is None:
            return
        yield inner
        view = inner


def may_hide(text: str) -> bool:
    """Return whether a view of this text may contain a run of letters and digits that the text itself does not."""
    for mark, hidden in _SIGNS:
        if mark in text and hidden.search(text):
            return True
    return "\n" in text[:-2] and _LINE_WRAP.search(text) is not None


def all_views(text: str) -> Iterator[TextView]:
    """Yield the text itself, and then all its other views."""
    for view in _unescaped_views(text):
        yield view
        if "\n" in view.text and (unwrapped := _unescape_once(view, UnescapeStep(_LINE_WRAP, _remove))) is not None:
            yield unwrapped


def _unescaped_views(text: str) -> Iterator[TextView]:
    first = TextView(text)
    yield first
    if not text.isascii() and (read := _unescape_once(first, UnescapeStep(_UTF8, _character))) is not None:
        first = read
        yield read
    yield from _unescape_repeatedly(first, UnescapeStep(_JSON, _json))
    has_percent = "\\u0025" in text or _PERCENT.search(text) is not None
    decoded = list(_unescape_repeatedly(first, UnescapeStep(_BOTH, _escaped))) if has_percent else []
    yield from decoded
    if _FORM_SPACE.search(text):
        form = decoded[0] if decoded else first
        # Decoded text has a literal plus where one was encoded; here it also becomes a space.
        yield TextView(form.text.replace("+", " "), form)
