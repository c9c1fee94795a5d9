"""What must not stand in a recording, taken out of it: known secrets, whatever stands where keys stand, and patterns.

Secrets are found as they are, as JSON escapes them (also JSON inside JSON), as URLs have them, and inside base64, where
Warp's messages are. What is found becomes `[redacted]`, so that JSON stays JSON: an escape is never torn, quotes stay,
digits alone become nines. Where the length counts, in base64 and in what is not text, it stays the same.

A body comes in pieces that may be cut anywhere. A line is held back until it is whole; one of more than 64 KB goes on
without its last part, which might be the beginning of something.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from itertools import islice
from typing import NamedTuple, TypeAlias
from urllib.parse import SplitResult, urlsplit

from toolglot.recordings.base64_runs import BASE64, decoded, gone_of
from toolglot.recordings.replacing import NUMBER, Found, Piece, filler, merged, pieces, replaced
from toolglot.recordings.replacing import REDACTED as REDACTED
from toolglot.recordings.shortened import Beginnings
from toolglot.recordings.structure import MOST_NAMES, Names, Place, after, begins_document, kept_in
from toolglot.recordings.views import View, may_hide, views
from toolglot.wire.large import joined

SHORTEST = 4
"""Characters. Hiding shorter secrets would make text unreadable and keep nothing secret."""
LONG_LINE = 16
"""Characters of a line that counts by itself where it is one of a secret's."""
HELD = 64 * 1024
"""Bytes of a line that are held back until it is whole."""
HELD_OF_BODY = 1024 * 1024
"""The same of one that is whole, and in memory anyway: documents inside of its strings are mostly shorter."""
MOST_NUMBERS = 10_000
"""Redacted numbers of a body whose places are told."""
OVERLAP = 8 * 1024
"""Characters at the end of a longer line that are looked at once more with what follows."""


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
_COUNTED = ("-max-token", "-max-tokens")
"""Their names speak of tokens, but of those that are counted; as do those of rate limits."""

_SHOWN = re.compile(
    r"(?:\bbearer(?:[ +]|%20)+|[?&]key=|\bx-(?:goog-)?api-key(?:\\{0,4}[\"'])?\s{0,4}[:=,]\s{0,4}b?(?:\\{0,4}[\"'])?)"
    r"([A-Za-z0-9._~+/=%-]{8,65536})",
    re.IGNORECASE,
)
"""Where a key stands in a text, and what it looks like: `the bearer of this letter` shows none."""
_SHOWN_HINTS = ("bearer", "key=", "api-key")

_SHORTENED = ("…", "\\u2026")

_QUERY = re.compile(r"([?&])([^=&#?]*)=([^&#]*)")
_USER = re.compile(r"(?<=//)[^/?#@]*@")
SEAL = "toolglot\0"
"""What an envelope with reasoning state begins with, inside its base64. A secret that is a part of it is not looked for
in base64: without its seal no envelope could be opened any more."""


class Redacted(NamedTuple):
    """A body without what must not stand in it."""

    data: bytes
    numbers: list[int]
    """Where in it, as text, numbers have become nines: where each begins, and its length, one after the other."""


class Redactor:
    """For one exchange. `hide` adds secrets that become known on the way."""

    def __init__(self, secrets: Iterable[str] = (), finders: Iterable[Finder] = ()) -> None:
        self.names = Names()
        self._patterns = tuple(finders)
        self._known: dict[str, tuple[_Form, ...]] = {}
        self._forms: tuple[_Form, ...] = ()
        self._beginnings: Beginnings | None = None
        self.overlap = OVERLAP
        self.hide(secrets)

    def hide(self, secrets: Iterable[str]) -> None:
        told = [part for secret in secrets for part in (secret, *_lines(secret))]
        new = {secret: _forms(secret) for secret in told if len(secret) >= SHORTEST and secret not in REDACTED}
        if new.keys() <= self._known.keys():
            return
        self._known |= new
        self._beginnings = None
        self._forms = tuple(form for secret in sorted(self._known, key=len) for form in self._known[secret])
        # A secret is longer where it is escaped: six characters for one at the most, mostly none.
        self.overlap = max(OVERLAP, 3 * max(map(len, self._known)))
        self.keep(())

    def keep(self, tools: Iterable[str]) -> None:
        """Names of tools that patterns leave alone; but a secret goes also where it is one of them."""
        known = self.names.tools.union(islice(tools, MOST_NAMES))
        self.names.tools = frozenset(tool for tool in known if not self._told(_Seen(tool)))

    def find(self, text: str, *, gone: int | None = 0) -> list[Found]:
        """Everything that is to be redacted, in order; what overlaps is one. `gone` is for the rest of a line: how many
        characters of base64 have gone before that belong to the first ones here; None if nobody knows."""
        seen = _Seen(text)
        found = self._told(seen) + self._matched(seen)
        if self._patterns:
            found += self._inside(seen, gone)
        return merged(found) if found else found

    def known(self, seen: _Seen) -> list[Found]:
        """The secrets that were told, also where they are cut off, in any order."""
        text, hides = seen.text, may_hide(seen.text)
        found = [each for form in self._forms if hides or form.hint in text for each in form.find(seen, hides)]
        for mark in _SHORTENED:
            if mark in text:
                self._beginnings = self._beginnings or Beginnings(self._known)
                found += (Found(start, end, start) for start, end in self._beginnings.before(text, mark))
        return found

    def _told(self, seen: _Seen) -> list[Found]:
        """Known secrets, and what stands where keys stand."""
        found = self.known(seen)
        lower = seen.text.lower()
        if any(hint in lower for hint in _SHOWN_HINTS):
            found += (Found(match.start(1), match.end(1), match.start()) for match in _SHOWN.finditer(seen.text))
        return found

    def _matched(self, seen: _Seen) -> list[Found]:
        if not self._patterns:
            return []
        return [_original(view, each) for view in seen.views for finder in self._patterns for each in finder(view.text)]

    def _inside(self, seen: _Seen, gone: int | None) -> Iterator[Found]:
        """What patterns find inside of base64."""
        done: set[tuple[int, int]] = set()
        for view in seen.views:
            for run in BASE64.finditer(view.text):
                span = view.origin(run.start()), view.origin(run.end())
                if span in done or NUMBER.fullmatch(run[0]):
                    continue
                done.add(span)
                for offset in (0,) if run.start() else range(4) if gone is None else (-gone % 4,):
                    for each in self._encoded(run[0][offset:]):
                        yield _original(view, each, run.start() + offset)

    def _encoded(self, encoded: str) -> Iterator[Found]:
        whole = decoded(encoded).decode("latin-1")
        seal = SEAL if whole.startswith(SEAL) else ""
        plain = whole[len(seal) :]
        seen = _Seen(plain)
        matched = self._matched(seen)
        if not matched:
            return
        found = merged(matched + self._told(seen))
        hidden = b64encode((seal + replaced(plain, found, None)).encode("latin-1")).decode().rstrip("=")
        if "-" in encoded or "_" in encoded:
            hidden = hidden.replace("+", "-").replace("/", "_")
        # Three bytes are four characters: where two finds have one of them in common, they are one.
        fours = [((len(seal) + each.start) // 3 * 4, -(-(len(seal) + each.end) // 3) * 4) for each in found]
        for each in merged([Found(start, min(end, len(hidden)), start) for start, end in fours]):
            yield each._replace(instead=hidden[each.start : each.end])

    def text(self, text: str) -> str:
        return replaced(text, self.find(text), REDACTED)

    def tool(self, name: str) -> str:
        return name if name in self.names.tools else self.text(name)

    def url(self, url: str) -> str:
        """An address, or a path with its query."""

        def value(match: re.Match[str]) -> str:
            hidden = REDACTED if TELLING.search(match[2]) else match[3]
            return f"{match[1]}{match[2]}={hidden}"

        address, question, query = url.partition("?")
        return self.text(_USER.sub(f"{REDACTED}@", address) + _QUERY.sub(value, question + query))

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Names stay: a secret is never a name, but a short one may be a part of it."""
        return {name: self._header(name.lower(), value) for name, value in headers.items()}

    def _header(self, name: str, value: str) -> str:
        counted = name.endswith(_COUNTED) or "token" in name.partition("ratelimit")[2]
        tells = TELLING.search(name) and name not in _EXCEPTIONS and not counted
        return REDACTED if tells or not _HARMLESS.fullmatch(name) else self.text(value)

    def body(self, data: bytes, *, binary: bool = False) -> bytes:
        """All of a body at once. `binary`: its length counts, also where it looks like text."""
        return self.redacted(data, binary=binary).data

    def redacted(self, data: bytes, *, binary: bool = False) -> Redacted:
        """The same, and which of its numbers were redacted."""
        stream = Stream(self, binary=binary, held=HELD_OF_BODY)
        clean = [piece for start in range(0, len(data), HELD) for piece in stream.feed(data[start : start + HELD])]
        return Redacted(joined(*clean, *stream.close()), stream.numbers)

    def stream(self, *, binary: bool = False) -> Stream:
        return Stream(self, binary=binary)


def split_address(url: str) -> SplitResult:
    """The parts of a recorded address. What is redacted in it has brackets, in which a host is a number elsewhere."""
    return urlsplit(url.replace(REDACTED, REDACTED.strip("[]")))


def without(text: str, secrets: Iterable[str], instead: str) -> str:
    """A text with this in the place of these secrets, in whatever form they stand there; everything else stays."""
    found = _redactor(tuple(secrets)).known(_Seen(text))
    parts: list[str] = []
    done = 0
    for each in merged(found) if found else ():
        parts += (text[done : each.start], instead)
        done = each.end
    return "".join((*parts, text[done:])) if parts else text


@lru_cache(maxsize=16)
def _redactor(secrets: tuple[str, ...]) -> Redactor:
    return Redactor(secrets)


class Stream:
    """A body in pieces. What `feed` and `close` give is, put together, the body without what is redacted."""

    def __init__(self, redactor: Redactor, *, binary: bool = False, held: int = HELD) -> None:
        self.numbers: list[int] = []
        """As of a `Redacted` body."""
        self._redactor = redactor
        self._binary = binary
        self._most = held
        self._given = 0  # characters
        self._held: list[bytes] = []
        self._size = 0
        self._gone: int | None = 0
        """Characters of the base64 that goes on in what is held, modulo four; None if nobody knows."""
        self._place = Place()
        self._begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        cut = data.rfind(b"\n") + 1
        if cut:
            yield self._clean(b"".join([*self._held, data[:cut]]))
            self._start_line()
        if cut < len(data):
            self._held.append(data[cut:])
            self._size += len(data) - cut
        if self._size > max(self._most, 2 * self._redactor.overlap):
            yield from self._overlong(b"".join(self._held))

    def close(self) -> Iterator[bytes]:
        if self._held:
            yield self._clean(joined(*self._held))
        self._start_line()

    def _start_line(self) -> None:
        self._held, self._size, self._gone = [], 0, 0
        if not self._place.line:
            self._place = Place(document=self._place.document)

    def _clean(self, data: bytes) -> bytes:
        text, encoding = self._decoded(data)
        found = self._redactor.find(text, gone=self._gone)
        return self._replaced(text, found, encoding)

    def _replaced(self, text: str, found: list[Found], encoding: str) -> bytes:
        if not self._begun and (document := begins_document(text)) is not None:
            self._begun, self._place = True, self._place._replace(document=document)
        if self._binary or encoding != "utf-8":
            return replaced(text, found, None).encode(encoding)
        kept = kept_in(text, found, self._place, self._redactor.names)
        return "".join(map(self._counted, pieces(text, kept, REDACTED))).encode(encoding)

    def _counted(self, piece: Piece) -> str:
        if piece.is_number and len(self.numbers) < 2 * MOST_NUMBERS:
            self.numbers += (self._given, len(piece.text))
        self._given += len(piece.text)
        return piece.text

    def _decoded(self, data: bytes) -> tuple[str, str]:
        try:
            return data.decode("utf-8"), "utf-8"
        except UnicodeDecodeError:
            return data.decode("latin-1"), "latin-1"

    def _overlong(self, data: bytes) -> Iterator[bytes]:
        """Give all but the end of a line that is too long to be held back."""
        whole = _whole_characters(data)
        text, encoding = self._decoded(data[:whole])
        found = self._redactor.find(text, gone=self._gone)
        cut = _cut(text, found, len(text) - self._redactor.overlap)
        done = self._replaced(text[:cut], [each for each in found if each.end <= cut], encoding)
        rest = text[cut:].encode(encoding) + data[whole:]
        self._held, self._size, self._gone = [rest], len(rest), gone_of(text[:cut], self._gone)
        self._place = after(text[:cut], self._place)
        yield done


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
    # Two backslashes are one escape: a run of them is read in pairs from where it begins.
    near -= max(0, near - len(text[: max(0, near)].rstrip("\\"))) % 2
    return near if near > 0 and not any(each.start < near < each.end for each in found) else cut


def _lines(secret: str) -> list[str]:
    """Those of a secret that has several: a text is searched line by line."""
    return [line for line in secret.splitlines() if len(line) >= LONG_LINE] if "\n" in secret else []


class _Seen:
    """A text, and its views once somebody asks for them."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def views(self) -> list[View]:
        return list(views(self.text))


def _original(view: View, found: Found, offset: int = 0) -> Found:
    """What was found in a view, behind so many characters of it, where it stands in the text itself."""
    start, end, context = (view.origin(offset + place) for place in found[:3])
    return Found(start, end, context, found.instead)


class _Form(NamedTuple):
    """A form in which a secret may stand. `hint` are those of its characters that are escaped by nobody who has nothing
    to hide: no other text without them is searched."""

    hint: str
    text: str
    instead: str | None = None

    def find(self, seen: _Seen, hides: bool) -> Iterator[Found]:
        if self.hint == self.text and not hides:
            yield from self._find(seen.text)
            return
        for view in seen.views:
            for found in self._find(view.text):
                yield _original(view, found)

    def _find(self, text: str) -> Iterator[Found]:
        start = text.find(self.text)
        while start >= 0:
            end = start + len(self.text)
            yield Found(start, end, start, self.instead)
            start = text.find(self.text, end)


@lru_cache(maxsize=1024)
def _forms(secret: str) -> tuple[_Form, ...]:
    made = [_form(secret)]
    data = secret.encode("utf-8", "surrogatepass")
    if secret in SEAL:
        return tuple(made)
    covered = filler(len(data)).encode()
    for offset in range(3):
        # Of the characters of base64 those at the ends also have bits of what stands before and behind it.
        before, end = -(-8 * offset // 6), 8 * (offset + len(data)) // 6
        core, instead = (b64encode(b"\0" * offset + each + b"\0\0").decode()[before:end] for each in (data, covered))
        made.append(_form(core, instead))
        if "+" in core or "/" in core:
            made.append(_form(core.replace("+", "-").replace("/", "_"), instead))
    return tuple(made)


def _form(text: str, instead: str | None = None) -> _Form:
    return _Form(max(re.findall(r"[A-Za-z0-9]*", text), key=len), text, instead)
