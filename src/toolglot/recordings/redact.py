"""What must not stand in a recording, taken out of it: known secrets, whatever stands where keys stand, and patterns.

Secrets are found as they are, as JSON escapes them (also JSON inside JSON), as URLs have them, and inside base64, where
Warp's messages are. What is found becomes `[redacted]`, so that JSON stays JSON: an escape is never torn, quotes stay,
digits alone become nines. Where the length counts, in base64 and in what is not text, it stays the same.

A body comes in pieces that may be cut anywhere. A line is held back until it is whole; one of more than 64 KB goes on
without its last part, which might be the beginning of something.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple, TypeAlias
from urllib.parse import quote

REDACTED = "[redacted]"
SHORTEST = 4
"""Characters. Hiding shorter secrets would make text unreadable and keep nothing secret."""
LONG_LINE = 16
"""Characters of a line that counts by itself where it is one of a secret's."""
HELD = 64 * 1024
"""Bytes of a line that are held back until it is whole."""
OVERLAP = 8 * 1024
"""Characters at the end of a longer line that are looked at once more with what follows."""


class Found(NamedTuple):
    start: int
    end: int
    context: int
    """Where that begins which tells that this is a secret; never behind `start`."""
    instead: str | None = None
    """What takes its place, when that is not `[redacted]`."""


Finder: TypeAlias = Callable[[str], Iterable[Found]]

TELLING = re.compile(r"key|token|secret|passw|pwd|auth|credential|cookie|session|signature|jwt|sid\b", re.IGNORECASE)
"""Names under which secrets stand, of headers and of what is asked behind a `?`."""
_HARMLESS = re.compile(
    r"accept(-.*)?|access-control-.*|allow|anthropic-.*|cache-control|connection|content-.*|date|expect|host|keep-alive"
    r"|openai-.*|origin|originator|retry-after(-ms)?|server|te|trace(parent|state)|transfer-encoding|user-agent|vary|via"
    r"|version|x-accel-buffering|x-app|x-goog-api-client|(x-)?request-id|x-client-request-id|x-should-retry"
    r"|x-stainless-.*|x-(warp|toolglot|ratelimit)-.*|(x-)?ratelimit-.*"
)
"""The headers whose values are recorded at all. A table of what may pass: anything may be a credential elsewhere."""
_EXCEPTIONS = frozenset({"x-goog-api-client", "access-control-request-headers", "access-control-allow-headers"})
_COUNTED = re.compile(r"[a-z-]*ratelimit[a-z-]*tokens?[a-z-]*|[a-z-]*-max-tokens?")
"""Their names speak of tokens, but of those that are counted."""

_SHOWN = re.compile(
    r"(?:\bbearer(?:[ +]|%20)+|[?&]key=|\bx-(?:goog-)?api-key(?:\\{0,4}[\"'])?\s{0,4}[:=,]\s{0,4}b?(?:\\{0,4}[\"'])?)"
    r"([A-Za-z0-9._~+/=%-]{8,65536})",
    re.IGNORECASE,
)
"""Where a key stands in a text, and what it looks like: `the bearer of this letter` shows none."""
_SHOWN_HINTS = ("bearer", "key=", "api-key")

_SHORTENED = ("…", "\\u2026")
SHORTEST_PART = 6
"""Characters of a secret that was cut off."""
_BASE64 = re.compile(r"(?<![\\A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{16,}={0,2}")
"""Nothing that begins with the rest of an escape."""

_QUERY = re.compile(r"([?&])([^=&#]*)=([^&#]*)")
_USER = re.compile(r"(?<=//)[^/?#@]*@")
_WORDS = re.compile(r"\\(?:u[0-9A-Fa-f]{4}|.)|true|false|null|[^\"{}\[\],:\s\\]+")
"""What of a match is redacted that has a quote in it: it may go over more than one string of a document."""
_NUMBER = re.compile(r"-?[0-9][0-9.eE+-]*")
_LITERALS = ("true", "false", "null")
_HALF = re.compile(r"\\+(?:u[0-9A-Fa-f]{0,3})?\Z")
_SLASHES = re.compile(r"\\+")
_ESCAPED = re.compile(r"u[0-9A-Fa-f]{1,4}|.", re.DOTALL)
LONGEST_RUN = 64
"""Backslashes in a row that are looked at: JSON in JSON in JSON has seven before a quote."""


class Redactor:
    """For one exchange. `hide` adds secrets that become known on the way."""

    def __init__(self, secrets: Iterable[str] = (), finders: Iterable[Finder] = ()) -> None:
        self._patterns = tuple(finders)
        self._known: dict[str, tuple[_Form, ...]] = {}
        self._forms: tuple[_Form, ...] = ()
        self.overlap = OVERLAP
        self.hide(secrets)

    def hide(self, secrets: Iterable[str]) -> None:
        told = [part for secret in secrets for part in (secret, *_lines(secret))]
        new = {secret: _forms(secret) for secret in told if len(secret) >= SHORTEST and secret not in REDACTED}
        if new.keys() <= self._known.keys():
            return
        self._known |= new
        self._forms = tuple(form for secret in sorted(self._known, key=len) for form in self._known[secret])
        # A secret is longer where it is escaped: six characters for one at the most, mostly none.
        self.overlap = max(OVERLAP, 3 * max(map(len, self._known)))

    def find(self, text: str, *, is_cut: bool = False) -> list[Found]:
        """Everything that is to be redacted, in order; what overlaps is one. `is_cut`: the text is a part of a line."""
        found = self._plainly(text)
        if self._patterns:
            found += self._inside(text, is_cut=is_cut)
        return _merged(found) if found else found

    def _plainly(self, text: str) -> list[Found]:
        found: list[Found] = []
        for form in self._forms:
            if form.needle in text:
                found += form.find(text)
        lower = text.lower()
        if any(hint in lower for hint in _SHOWN_HINTS):
            found += (Found(match.start(1), match.end(1), match.start()) for match in _SHOWN.finditer(text))
        for mark in _SHORTENED:
            if mark in text:
                found += self._shortened(text, mark)
        for finder in self._patterns:
            found += finder(text)
        return found

    def _shortened(self, text: str, mark: str) -> Iterator[Found]:
        """The beginning of a secret, where whoever wrote the text has cut it off there."""
        end = text.find(mark)
        while end >= 0:
            for secret in self._known:
                length = min(len(secret) - 1, end)
                while length >= SHORTEST_PART and not text.endswith(secret[:length], 0, end):
                    length -= 1
                if length >= SHORTEST_PART:
                    yield Found(end - length, end, end - length)
            end = text.find(mark, end + 1)

    def _inside(self, text: str, *, is_cut: bool) -> Iterator[Found]:
        """What patterns find inside of base64, where it is whole: nobody knows how to read a part."""
        for run in _BASE64.finditer(text):
            if _NUMBER.fullmatch(run[0]) or (is_cut and (run.start() == 0 or run.end() == len(text))):
                continue
            plain = _decoded(run[0]).decode("latin-1")
            if any(finder(plain) for finder in self._patterns):
                hidden = b64encode(_replaced(plain, _merged(self._plainly(plain)), None).encode("latin-1")).decode()
                if "-" in run[0] or "_" in run[0]:
                    hidden = hidden.replace("+", "-").replace("/", "_")
                yield Found(run.start(), run.end(), run.start(), hidden[: len(run[0])])

    def text(self, text: str) -> str:
        return _replaced(text, self.find(text), REDACTED)

    def url(self, url: str) -> str:
        """An address, or a path with its query."""

        def value(match: re.Match[str]) -> str:
            hidden = REDACTED if TELLING.search(match[2]) else match[3]
            return f"{match[1]}{match[2]}={hidden}"

        address, question, query = url.partition("?")
        return self.text(_USER.sub(f"{REDACTED}@", address) + _QUERY.sub(value, question + query))

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {self.text(name): self._header(name.lower(), value) for name, value in headers.items()}

    def _header(self, name: str, value: str) -> str:
        tells = TELLING.search(name) and name not in _EXCEPTIONS and not _COUNTED.fullmatch(name)
        return REDACTED if tells or not _HARMLESS.fullmatch(name) else self.text(value)

    def body(self, data: bytes, *, binary: bool = False) -> bytes:
        """All of a body at once. `binary`: its length counts, also where it looks like text."""
        stream = self.stream(binary=binary)
        pieces = [piece for start in range(0, len(data), HELD) for piece in stream.feed(data[start : start + HELD])]
        return b"".join([*pieces, *stream.close()])

    def stream(self, *, binary: bool = False) -> Stream:
        return Stream(self, binary=binary)


class Stream:
    """A body in pieces. What `feed` and `close` give is, put together, the body without what is redacted."""

    def __init__(self, redactor: Redactor, *, binary: bool = False) -> None:
        self._redactor = redactor
        self._binary = binary
        self._held: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        cut = data.rfind(b"\n") + 1
        if cut:
            yield self._clean(b"".join([*self._held, data[:cut]]))
            self._held, self._size = [], 0
        if cut < len(data):
            self._held.append(data[cut:])
            self._size += len(data) - cut
        if self._size > max(HELD, 2 * self._redactor.overlap):
            yield from self._overlong(b"".join(self._held))

    def close(self) -> Iterator[bytes]:
        if self._held:
            yield self._clean(b"".join(self._held))
        self._held, self._size = [], 0

    def _clean(self, data: bytes) -> bytes:
        text, encoding = self._decoded(data)
        found = self._redactor.find(text)
        return _replaced(text, found, None if self._binary or encoding != "utf-8" else REDACTED).encode(encoding)

    def _decoded(self, data: bytes) -> tuple[str, str]:
        try:
            return data.decode("utf-8"), "utf-8"
        except UnicodeDecodeError:
            return data.decode("latin-1"), "latin-1"

    def _overlong(self, data: bytes) -> Iterator[bytes]:
        """Give all but the end of a line that is too long to be held back."""
        whole = _whole_characters(data)
        text, encoding = self._decoded(data[:whole])
        found = self._redactor.find(text, is_cut=True)
        cut = _cut(text, found, len(text) - self._redactor.overlap)
        filler = None if self._binary or encoding != "utf-8" else REDACTED
        done = _replaced(text[:cut], [each for each in found if each.end <= cut], filler)
        rest = text[cut:].encode(encoding) + data[whole:]
        self._held, self._size = [rest], len(rest)
        yield done.encode(encoding)


def _decoded(text: str) -> bytes:
    """Base64 of either alphabet, with or without its end."""
    standard = text.rstrip("=").replace("-", "+").replace("_", "/")
    standard = standard[: -1 if len(standard) % 4 == 1 else None]
    return b64decode(standard + "=" * (-len(standard) % 4))


def _whole_characters(data: bytes) -> int:
    """How many of these bytes are whole characters, if they are UTF-8."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if back < needed else len(data)
        if byte < 0x80:
            break
    return len(data)


def _cut(text: str, found: Iterable[Found], cut: int) -> int:
    """The place at or near `cut` where a text may be cut: not inside of what was found, nor of an escape."""
    for each in found:
        if each.context < cut < each.end:
            # What goes up to the end may go on behind it.
            cut = each.end if each.end < len(text) or not each.context else each.context
    near = text.rfind("\\", max(0, cut - 6), cut)
    return near if near > 0 and not any(each.start < near < each.end for each in found) else cut


def _merged(found: list[Found]) -> list[Found]:
    found.sort(key=lambda each: (each.start, -each.end))
    merged = [found[0]]
    for each in found[1:]:
        last = merged[-1]
        if each.start >= last.end:
            merged.append(each)
        elif each.end > last.end:
            merged[-1] = Found(last.start, each.end, last.context)
    return merged


def _replaced(text: str, found: Iterable[Found], instead: str | None) -> str:
    """The text with this in the place of what was found; None keeps its length."""
    parts: list[str] = []
    done = 0
    for each in found:
        start, end = (each.start, each.end) if instead is None or each.instead else _untorn(text, each.start, each.end)
        start = max(start, done)
        if start >= end:
            continue
        parts += [text[done:start], each.instead or _instead(text[start:end], instead)]
        done = end
    return "".join([*parts, text[done:]]) if parts else text


def _instead(secret: str, instead: str | None) -> str:
    if instead is None:
        return filler(len(secret))
    return _WORDS.sub(_word, secret) if '"' in secret else _word(secret)


def _word(found: str | re.Match[str]) -> str:
    word = found if isinstance(found, str) else found[0]
    if word in _LITERALS or (word[0] == "\\" and not isinstance(found, str)):
        return word
    return re.sub(r"[0-9]", "9", word) if _NUMBER.fullmatch(word) else REDACTED


def _untorn(text: str, start: int, end: int) -> tuple[int, int]:
    """With all of a JSON escape that is torn at either side: its other half would make a wrong one with what comes."""
    if (before := _HALF.search(text, max(0, start - LONGEST_RUN), start)) is not None:
        start = before.start()
    if (inside := _HALF.search(text, max(start, end - LONGEST_RUN), end)) is not None:
        slashes = _SLASHES.match(text, inside.start())
        assert slashes is not None
        end = max(end, slashes.end())
        if len(slashes[0]) % 2 and (rest := _ESCAPED.match(text, slashes.end())) is not None:
            end = max(end, rest.end())
    return start, end


def filler(length: int) -> str:
    """What takes the place of so many characters where their number counts."""
    return REDACTED[:length] + "*" * (length - len(REDACTED))


def _lines(secret: str) -> list[str]:
    """Those of a secret that has several: a text is searched line by line."""
    return [line for line in secret.splitlines() if len(line) >= LONG_LINE] if "\n" in secret else []


class _Form(NamedTuple):
    """A form in which a secret may stand. `needle` stands in it whatever is escaped; no text without it is searched."""

    needle: str
    pattern: re.Pattern[str] | None
    instead: str | None = None

    def find(self, text: str) -> Iterator[Found]:
        if self.pattern is not None:
            for match in self.pattern.finditer(text):
                yield Found(match.start(), match.end(), match.start(), self.instead)
            return
        start = text.find(self.needle)
        while start >= 0:
            end = start + len(self.needle)
            yield Found(start, end, start, self.instead)
            start = text.find(self.needle, end)


@lru_cache(maxsize=1024)
def _forms(secret: str) -> tuple[_Form, ...]:
    made = [_form(secret)]
    data = secret.encode("utf-8", "surrogatepass")
    if not secret.isascii():  # what is not UTF-8 is searched as if each byte were a character
        made.append(_Form(data.decode("latin-1"), None))
    covered = filler(len(data)).encode()
    for offset in range(3):
        # Of the characters of base64 those at the ends also have bits of what stands before and behind it.
        before, end = -(-8 * offset // 6), 8 * (offset + len(data)) // 6
        core, instead = (b64encode(b"\0" * offset + each + b"\0\0").decode()[before:end] for each in (data, covered))
        made.append(_form(core, instead))
    return tuple(made)


def _form(text: str, instead: str | None = None) -> _Form:
    if text.isalnum() and text.isascii():
        return _Form(text, None, instead)
    needle = max(re.findall(r"[A-Za-z0-9]*", text), key=len)
    return _Form(needle, re.compile("".join(_escapes(each, instead is not None) for each in text)), instead)


def _escapes(character: str, is_base64: bool) -> str:
    """The forms of one character: as it is, escaped in JSON (in JSON), in a URL."""
    if character.isalnum() and character.isascii():
        return character
    if character == "\\":
        return r"(?:\\{1,16}|%5[Cc])"
    plain = {"+": r"[+-]", "/": r"[/_]"}.get(character) if is_base64 else None
    units = character.encode("utf-16-be", "surrogatepass")
    escaped = "".join(rf"\\{{1,8}}u(?i:{units[at : at + 2].hex()})" for at in range(0, len(units), 2))
    short = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}.get(character)
    forms = [rf"\\{{0,8}}{plain or re.escape(character)}", escaped]
    forms += [rf"\\{{1,8}}{short}"] if short else []
    percent = quote(character.encode("utf-8", "surrogatepass"), safe="")
    forms.append(f"(?i:{percent})" if percent.startswith("%") else f"%{ord(character):02X}")
    forms += [r"\+"] if character == " " else []
    return f"(?:{'|'.join(forms)})"
