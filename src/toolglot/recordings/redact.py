"""Remove private data from a recording: known secrets, values in places for keys, and matches of patterns.

Secrets are found verbatim, as JSON escapes them (also JSON inside JSON), as URLs encode them, and inside base64, which
contains Warp's messages. A match becomes `[redacted]`, so that JSON stays JSON: an escape is never split, quotes are
kept, digits alone become nines. If the length matters, in base64 and in binary data, it is preserved.

A body comes in pieces that may be cut anywhere. A line is held back until it is complete. A line of more than 64 KB is
passed on except for its last part, which may be the beginning of a match.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from itertools import islice
from typing import NamedTuple, TypeAlias
from urllib.parse import SplitResult, urlsplit

from toolglot.recordings.json_structure import (
    MAX_NAMES,
    BodyPosition,
    MemberNames,
    begins_document,
    limit_to_values,
    position_after,
)
from toolglot.recordings.replacement import (
    NUMBER_PATTERN,
    FoundSecret,
    ReplacedPiece,
    filler,
    merge_found,
    replace_found,
    replace_in_pieces,
)
from toolglot.recordings.replacement import REDACTED as REDACTED
from toolglot.recordings.unescaped_views import TextView, all_views, may_hide
from toolglot.wire.incremental_json import join_bytes

MIN_SECRET_LENGTH = 4
"""Minimum length of a secret in characters. Redacting shorter secrets would make text unreadable and protect nothing.
"""
MIN_SECRET_LINE = 16
"""Characters of a line of a multi-line secret that is redacted by itself."""
MAX_HELD_LINE = 64 * 1024
"""Maximum bytes of a line that are held back until it is complete."""
MAX_HELD_BODY_LINE = 1024 * 1024
"""Maximum bytes of a line that are held back in a body that is already complete and in memory. Documents inside its
strings are usually shorter."""
MAX_NUMBERS = 10_000
"""Maximum redacted numbers of a body whose positions are recorded."""
OVERLAP = 8 * 1024
"""Characters at the end of a longer line that are searched again with what follows."""


Finder: TypeAlias = Callable[[str], Iterable[FoundSecret]]

SECRET_NAMES = re.compile(
    r"key|token|secret|passw|pwd|auth|credential|cookie|session|signature|jwt|sid\b", re.IGNORECASE
)
"""Names of headers and query parameters that hold secrets."""
_SAFE_HEADERS = re.compile(
    r"accept(-.*)?|access-control-.*|allow|anthropic-.*|cache-control|connection|content-.*|date|expect|host|keep-alive"
    r"|openai-.*|origin|originator|retry-after(-ms)?|server|te|trace(parent|state)|transfer-encoding|user-agent|vary|via"
    r"|version|x-accel-buffering|x-app|x-goog-api-client|(x-)?request-id|x-client-request-id|x-should-retry"
    r"|x-stainless-.*|x-(warp|toolglot|ratelimit)-.*|(x-)?ratelimit-.*"
)
"""The headers whose values are recorded. An allow list, because anything else may be a credential."""
_EXCEPTIONS = frozenset({"x-goog-api-client", "access-control-request-headers", "access-control-allow-headers"})
_TOKEN_COUNTS = ("-max-token", "-max-tokens")
"""Names of token counts and rate limits, which are not secret."""

_KEY_PATTERN = re.compile(
    r"(?:\bbearer(?:[ +]|%20)+|[?&]key=|\bx-(?:goog-)?api-key(?:\\{0,4}[\"'])?\s{0,4}[:=,]\s{0,4}b?(?:\\{0,4}[\"'])?)"
    r"([A-Za-z0-9._~+/=%-]{8,65536})",
    re.IGNORECASE,
)
"""A key in a text, by its position and appearance: `the bearer of this letter` contains none."""
_KEY_HINTS = ("bearer", "key=", "api-key")

_SHORTENED = ("…", "\\u2026")

_QUERY = re.compile(r"([?&])([^=&#?]*)=([^&#]*)")
_URL_USER = re.compile(r"(?<=//)[^/?#@]*@")
STATE_SEAL = "toolglot\0"
"""Beginning of an envelope with reasoning state, inside its base64. A secret that is a part of it is not searched for
in base64: without its seal no envelope could be opened."""


class RedactedBody(NamedTuple):
    """A body after redaction."""

    data: bytes
    numbers: list[int]
    """Positions of numbers that became nines in the text: start and length of each, in one flat list."""


class Redactor:
    """Redacts one exchange. `hide` adds secrets that become known later."""

    def __init__(self, secrets: Iterable[str] = (), finders: Iterable[Finder] = ()) -> None:
        self.names = MemberNames()
        self._patterns = tuple(finders)
        self._known: dict[str, tuple[_SecretForm, ...]] = {}
        self._forms: tuple[_SecretForm, ...] = ()
        self._beginnings: SecretPrefixes | None = None
        self.overlap = OVERLAP
        self.hide(secrets)

    def hide(self, secrets: Iterable[str]) -> None:
        told = [part for secret in secrets for part in (secret, *_secret_lines(secret))]
        new = {
            secret: _secret_forms(secret)
            for secret in told
            if len(secret) >= MIN_SECRET_LENGTH and secret not in REDACTED
        }
        if new.keys() <= self._known.keys():
            return
        self._known |= new
        self._beginnings = None
        self._forms = tuple(form for secret in sorted(self._known, key=len) for form in self._known[secret])
        # Escaping makes a secret longer: at most six characters for one, usually none.
        self.overlap = max(OVERLAP, 3 * max(map(len, self._known)))
        self.keep_tool_names(())

    def keep_tool_names(self, tools: Iterable[str]) -> None:
        """Set tool names that patterns do not redact. A secret is redacted even if it is one of them."""
        known = self.names.tools.union(islice(tools, MAX_NAMES))
        self.names.tools = frozenset(tool for tool in known if not self._find_secrets(_SearchedText(tool)))

    def find(self, text: str, *, gone: int | None = 0) -> list[FoundSecret]:
        """Return everything to redact, in order; overlapping matches are merged. `gone` is for the rest of a line: the
        number of earlier base64 characters that belong to its first group; None if unknown.
        """
        seen = _SearchedText(text)
        found = self._find_secrets(seen) + self._find_patterns(seen)
        if self._patterns:
            found += self._find_in_base64(seen, gone)
        return merge_found(found) if found else found

    def find_known(self, seen: _SearchedText) -> list[FoundSecret]:
        """Find the known secrets, also truncated ones, in any order."""
        text, hides = seen.text, may_hide(seen.text)
        found = [each for form in self._forms if hides or form.hint in text for each in form.find(seen, hides)]
        for mark in _SHORTENED:
            if mark in text:
                self._beginnings = self._beginnings or SecretPrefixes(self._known)
                found += (FoundSecret(start, end, start) for start, end in self._beginnings.before(text, mark))
        return found

    def _find_secrets(self, seen: _SearchedText) -> list[FoundSecret]:
        """Find known secrets, and values where keys are expected."""
        found = self.find_known(seen)
        lower = seen.text.lower()
        if any(hint in lower for hint in _KEY_HINTS):
            found += (
                FoundSecret(match.start(1), match.end(1), match.start()) for match in _KEY_PATTERN.finditer(seen.text)
            )
        return found

    def _find_patterns(self, seen: _SearchedText) -> list[FoundSecret]:
        if not self._patterns:
            return []
        return [
            _map_to_text(view, each) for view in seen.views for finder in self._patterns for each in finder(view.text)
        ]

    def _find_in_base64(self, seen: _SearchedText, gone: int | None) -> Iterator[FoundSecret]:
        """Find matches of patterns inside base64."""
        done: set[tuple[int, int]] = set()
        for view in seen.views:
            for run in BASE64.finditer(view.text):
                span = view.origin(run.start()), view.origin(run.end())
                if span in done or NUMBER_PATTERN.fullmatch(run[0]):
                    continue
                done.add(span)
                for offset in (0,) if run.start() else range(4) if gone is None else (-gone % 4,):
                    for each in self._find_encoded(run[0][offset:]):
                        yield _map_to_text(view, each, run.start() + offset)

    def _find_encoded(self, encoded: str) -> Iterator[FoundSecret]:
        whole = decode_base64(encoded).decode("latin-1")
        seal = STATE_SEAL if whole.startswith(STATE_SEAL) else ""
        plain = whole[len(seal) :]
        seen = _SearchedText(plain)
        matched = self._find_patterns(seen)
        if not matched:
            return
        found = merge_found(matched + self._find_secrets(seen))
        hidden = b64encode((seal + replace_found(plain, found, None)).encode("latin-1")).decode().rstrip("=")
        if "-" in encoded or "_" in encoded:
            hidden = hidden.replace("+", "-").replace("/", "_")
        # Three bytes are four characters: two matches that share one of them are merged.
        fours = [((len(seal) + each.start) // 3 * 4, -(-(len(seal) + each.end) // 3) * 4) for each in found]
        for each in merge_found([FoundSecret(start, min(end, len(hidden)), start) for start, end in fours]):
            yield each._replace(instead=hidden[each.start : each.end])

    def text(self, text: str) -> str:
        return replace_found(text, self.find(text), REDACTED)

    def tool(self, name: str) -> str:
        return name if name in self.names.tools else self.text(name)

    def url(self, url: str) -> str:
        """Redact an address, or a path with its query."""

        def value(match: re.Match[str]) -> str:
            hidden = REDACTED if SECRET_NAMES.search(match[2]) else match[3]
            return f"{match[1]}{match[2]}={hidden}"

        address, question, query = url.partition("?")
        return self.text(_URL_USER.sub(f"{REDACTED}@", address) + _QUERY.sub(value, question + query))

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Redact header values. Names stay: a secret is never a name, but a short one may be part of a name."""
        return {name: self._header(name.lower(), value) for name, value in headers.items()}

    def _header(self, name: str, value: str) -> str:
        counted = name.endswith(_TOKEN_COUNTS) or "token" in name.partition("ratelimit")[2]
        tells = SECRET_NAMES.search(name) and name not in _EXCEPTIONS and not counted
        return REDACTED if tells or not _SAFE_HEADERS.fullmatch(name) else self.text(value)

    def body(self, data: bytes, *, binary: bool = False) -> bytes:
        """Redact a whole body. `binary`: its length matters, even if it looks like text."""
        return self.redact_body(data, binary=binary).data

    def redact_body(self, data: bytes, *, binary: bool = False) -> RedactedBody:
        """Same, and return which of its numbers were redacted."""
        stream = BodyRedactor(self, binary=binary, held=MAX_HELD_BODY_LINE)
        clean = [
            piece
            for start in range(0, len(data), MAX_HELD_LINE)
            for piece in stream.feed(data[start : start + MAX_HELD_LINE])
        ]
        return RedactedBody(join_bytes(*clean, *stream.close()), stream.numbers)

    def stream(self, *, binary: bool = False) -> BodyRedactor:
        return BodyRedactor(self, binary=binary)


def split_address(url: str) -> SplitResult:
    """Split a recorded address. Redactions in it have brackets, which `urlsplit` takes for an IPv6 host."""
    return urlsplit(url.replace(REDACTED, REDACTED.strip("[]")))


def replace_secrets(text: str, secrets: Iterable[str], instead: str) -> str:
    """Replace these secrets in a text, in any encoding. Everything else stays."""
    found = _redactor(tuple(secrets)).find_known(_SearchedText(text))
    parts: list[str] = []
    done = 0
    for each in merge_found(found) if found else ():
        parts += (text[done : each.start], instead)
        done = each.end
    return "".join((*parts, text[done:])) if parts else text


_SHORTEST_PART = 16
"""Length of a part of a secret that counts as the secret. Servers may quote part of a key that they reject."""
_STEP = _SHORTEST_PART // 2


def replace_secret_parts(text: str, secrets: Iterable[str], instead: str) -> str:
    """`replace_secrets`, and every part of a secret that is long."""
    secrets = tuple(secrets)
    text = replace_secrets(text, secrets, instead)
    for secret in secrets:
        # A part of this length contains one of these pieces whole, wherever it begins.
        for at in range(0, len(secret) - _STEP + 1, _STEP):
            text = _replace_around(text, secret, at, instead)
    return text


def _replace_around(text: str, secret: str, at: int, instead: str) -> str:
    """Replace parts of a secret that contain its piece at this offset."""
    piece, found = secret[at : at + _STEP], 0
    while (found := text.find(piece, found)) >= 0:
        start, end = 0, _STEP
        while start < min(at, found) and secret[at - start - 1] == text[found - start - 1]:
            start += 1
        while at + end < len(secret) and secret[at + end : at + end + 1] == text[found + end : found + end + 1]:
            end += 1
        if start + end >= _SHORTEST_PART:
            text = text[: found - start] + instead + text[found + end :]
            found += len(instead) - start
        else:
            found += 1
    return text


@lru_cache(maxsize=16)
def _redactor(secrets: tuple[str, ...]) -> Redactor:
    return Redactor(secrets)


class BodyRedactor:
    """Redacts a body in pieces. The results of `feed` and `close`, joined, are the redacted body."""

    def __init__(self, redactor: Redactor, *, binary: bool = False, held: int = MAX_HELD_LINE) -> None:
        self.numbers: list[int] = []
        """See `RedactedBody`."""
        self._redactor = redactor
        self._binary = binary
        self._most = held
        self._given = 0  # characters
        self._held: list[bytes] = []
        self._size = 0
        self._gone: int | None = 0
        """Number of base64 characters before the held text, modulo four; None if unknown."""
        self._place = BodyPosition()
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
            yield from self._flush_long_line(b"".join(self._held))

    def close(self) -> Iterator[bytes]:
        if self._held:
            yield self._clean(join_bytes(*self._held))
        self._start_line()

    def _start_line(self) -> None:
        self._held, self._size, self._gone = [], 0, 0
        if not self._place.line:
            self._place = BodyPosition(document=self._place.document)

    def _clean(self, data: bytes) -> bytes:
        text, encoding = self._decoded(data)
        found = self._redactor.find(text, gone=self._gone)
        return self._replaced(text, found, encoding)

    def _replaced(self, text: str, found: list[FoundSecret], encoding: str) -> bytes:
        if not self._begun and (document := begins_document(text)) is not None:
            self._begun, self._place = True, self._place._replace(document=document)
        if self._binary or encoding != "utf-8":
            return replace_found(text, found, None).encode(encoding)
        kept = limit_to_values(text, found, self._place, self._redactor.names)
        return "".join(map(self._counted, replace_in_pieces(text, kept, REDACTED))).encode(encoding)

    def _counted(self, piece: ReplacedPiece) -> str:
        if piece.is_number and len(self.numbers) < 2 * MAX_NUMBERS:
            self.numbers += (self._given, len(piece.text))
        self._given += len(piece.text)
        return piece.text

    def _decoded(self, data: bytes) -> tuple[str, str]:
        try:
            return data.decode("utf-8"), "utf-8"
        except UnicodeDecodeError:
            return data.decode("latin-1"), "latin-1"

    def _flush_long_line(self, data: bytes) -> Iterator[bytes]:
        """Pass on all except the end of a line that is too long to hold."""
        whole = _complete_characters(data)
        text, encoding = self._decoded(data[:whole])
        found = self._redactor.find(text, gone=self._gone)
        cut = _safe_cut(text, found, len(text) - self._redactor.overlap)
        done = self._replaced(text[:cut], [each for each in found if each.end <= cut], encoding)
        rest = text[cut:].encode(encoding) + data[whole:]
        self._held, self._size, self._gone = [rest], len(rest), trailing_offset(text[:cut], self._gone)
        self._place = position_after(text[:cut], self._place)
        yield done


def _complete_characters(data: bytes) -> int:
    """Return how many of these bytes are complete UTF-8 characters."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if back < needed else len(data)
        if byte < 0x80:
            break
    return len(data)


def _safe_cut(text: str, found: Iterable[FoundSecret], cut: int) -> int:
    """Return a position at or near `cut` where the text may be cut: not inside a match or an escape."""
    for each in found:
        if each.context < cut < each.end:
            # A match at the end may continue after it.
            cut = each.end if each.end < len(text) or not each.context else each.context
    near = text.rfind("\\", max(0, cut - 6), cut)
    # Two backslashes are one escape: a run of them is read in pairs from its beginning.
    near -= max(0, near - len(text[: max(0, near)].rstrip("\\"))) % 2
    return near if near > 0 and not any(each.start < near < each.end for each in found) else cut


def _secret_lines(secret: str) -> list[str]:
    """Return the lines of a multi-line secret: a text is searched line by line."""
    return [line for line in secret.splitlines() if len(line) >= MIN_SECRET_LINE] if "\n" in secret else []


class _SearchedText:
    """A text, and its views, created on demand."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def views(self) -> list[TextView]:
        return list(all_views(self.text))


def _map_to_text(view: TextView, found: FoundSecret, offset: int = 0) -> FoundSecret:
    """Map a match in a view, after `offset` characters of it, to the text itself."""
    start, end, context = (view.origin(offset + place) for place in found[:3])
    return FoundSecret(start, end, context, found.instead)


class _SecretForm(NamedTuple):
    """A form in which a secret may occur. `hint` has those of its characters that are never escaped except to hide a
    secret. A text without them is not searched.
    """

    hint: str
    text: str
    instead: str | None = None

    def find(self, seen: _SearchedText, hides: bool) -> Iterator[FoundSecret]:
        if self.hint == self.text and not hides:
            yield from self._find(seen.text)
            return
        for view in seen.views:
            for found in self._find(view.text):
                yield _map_to_text(view, found)

    def _find(self, text: str) -> Iterator[FoundSecret]:
        start = text.find(self.text)
        while start >= 0:
            end = start + len(self.text)
            yield FoundSecret(start, end, start, self.instead)
            start = text.find(self.text, end)


@lru_cache(maxsize=1024)
def _secret_forms(secret: str) -> tuple[_SecretForm, ...]:
    made = [_make_form(secret)]
    data = secret.encode("utf-8", "surrogatepass")
    if secret in STATE_SEAL:
        return tuple(made)
    covered = filler(len(data)).encode()
    for offset in range(3):
        # The first and last base64 characters also contain bits of what precedes and follows it.
        before, end = -(-8 * offset // 6), 8 * (offset + len(data)) // 6
        core, instead = (b64encode(b"\0" * offset + each + b"\0\0").decode()[before:end] for each in (data, covered))
        made.append(_make_form(core, instead))
        if "+" in core or "/" in core:
            made.append(_make_form(core.replace("+", "-").replace("/", "_"), instead))
    return tuple(made)


def _make_form(text: str, instead: str | None = None) -> _SecretForm:
    return _SecretForm(max(re.findall(r"[A-Za-z0-9]*", text), key=len), text, instead)


_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
_CHARACTER = "[A-Za-z0-9+/_-]"
BASE64 = re.compile(
    rf"(?<![\\A-Za-z0-9+/_-])(?:{_CHARACTER}{{16,}}={{0,2}}|(?:{_CHARACTER}{{4}}){{1,3}}(?:{_CHARACTER}{{2}}==|{_CHARACTER}{{3}}=)(?!=))"
)
"""Excludes text that begins with the rest of an escape. A short run may be a word, unless it has padding."""


def trailing_offset(text: str, before: int | None) -> int | None:
    """Return the length, modulo four, of the base64 at the end of this text that continues after it."""
    other = text.rstrip(_ALPHABET)
    if not other:
        return None if before is None else (before + len(text)) % 4
    return None if other[-1] in "\\%" else (len(text) - len(other)) % 4


def decode_base64(text: str) -> bytes:
    """Decode base64 of either alphabet, with or without padding."""
    standard = text.rstrip("=").replace("-", "+").replace("_", "/")
    standard = standard[: -1 if len(standard) % 4 == 1 else None]
    return b64decode(standard + "=" * (-len(standard) % 4))


MIN_PREFIX = 6
"""Characters of a truncated secret."""


class SecretPrefixes:
    """Scans each character of a text once, regardless of the number of secrets and marks. It goes backwards from a mark
    as long as every six characters occur in some secret, up to six with which one begins. The result may be slightly
    too long if several secrets share parts, and is never too short."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._first: set[str] = set()
        self._parts: set[str] = set()
        for secret in secrets:
            ends = range(MIN_PREFIX, len(secret))
            self._parts.update(secret[end - MIN_PREFIX : end] for end in ends)
            if ends:
                self._first.add(secret[:MIN_PREFIX])

    def before(self, text: str, mark: str) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each truncated secret before a mark."""
        end = text.find(mark)
        last, last_begins = -1, -1
        while end >= 0:
            place, begins = end - MIN_PREFIX, -1
            while place >= 0 and text[place : place + MIN_PREFIX] in self._parts:
                if text[place : place + MIN_PREFIX] in self._first:
                    begins = place
                if place == last:  # the rest was searched for the previous mark, which is inside a secret
                    begins = last_begins if last_begins >= 0 else begins
                    break
                place -= 1
            if begins >= 0:
                yield begins, end
            last, last_begins = end - MIN_PREFIX, begins
            end = text.find(mark, end + 1)
