"""A strict reader of one JSON value that arrives in pieces, for arguments that are streamed while they are written.

It returns text as soon as it is certain. Text that may still be the position of an error is held back until the next
token proves it right: a comma (it may be a trailing one), a closing quote (it may be an unescaped inner one), a key, a
number, a literal. So the emitted text can be completed even if the rest has to be repaired. Line breaks and other
control characters inside strings are escaped; anything else that is not JSON is `bad`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import Final

from toolglot.textcalls.marks import MarkSet

MAX_DEPTH: Final = 500
MAX_SCALAR: Final = 400
MAX_KEY: Final = 65536
MAX_SPACE: Final = 64
"""Maximum white space between two tokens that is passed on."""
MIN_BULK: Final = 64
MAX_BULK: Final = 16384
"""Maximum characters that are split into tokens at once."""
MAX_PARTS: Final = 1024
"""Maximum small pieces to keep separately, because each takes more memory than its text."""
CLOSER_PREFIX: Final = 4
MAX_BREAK: Final = 1000
"""Maximum white space in a string, from a line break on, after which a closing mark may follow."""

_SPACE = re.compile(r"[ \t\n\r]*+")
_STRING = r'"(?:[^"\\%s]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|(?!))*+"'
_NUMBER = r"-?(?:0|[1-9][0-9]{0,99}+)(?:\.[0-9]{1,99}+)?(?:[eE][-+]?[0-9]{1,9}+)?"
_GAP = r"[ \t\n\r]{0,64}+"
_SCALAR_TOKEN = rf"(?:{_NUMBER}|true|false|null)"
_TOKENS = rf"{_GAP}(?:[\[\]{{}},]|{_STRING}(?:{_GAP}:|(?={_GAP}[,\]}}]))|{_SCALAR_TOKEN}(?={_GAP}[,\]}}]))"
"""One token with the white space before it, and a key with its colon. A string or a scalar counts only if the next
token has arrived, because it may be a key, or continue.
"""
_TOKEN = {raw: re.compile(_TOKENS % ("" if raw else r"\x00-\x1f")) for raw in (False, True)}
_RUN_OF_TOKENS = {raw: re.compile(f"(?:{token.pattern}|(?!))*+") for raw, token in _TOKEN.items()}
_ANY_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
_SAME_SCALAR = re.compile(r'""++')
_SMALL_VALUES = ("[]", '["]', "{}", '{k"}')
_ROW_OF_VALUES = re.compile(r'\["(?:,")*+\]|(?<!k)"(?:,")++')
_ROUNDS = 8
"""Levels of small nested values that are collapsed to strings; deeper ones are followed one by one."""
_KINDS = {**dict.fromkeys(map(ord, " \t\n\r")), **dict.fromkeys(map(ord, "0123456789+-.Etruefalsn"), '"')}
_RAW_RUN = re.compile(r'(?:[^"\\]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|(?!))*+')
_RUN = re.compile(r'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|(?!))*+')
_PART_OF_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_SCALAR = re.compile(r"[-+.\w]*+")
_WHOLE_SCALAR = re.compile(r"true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?", re.ASCII)
_CONTROLS = re.compile(r"[\x00-\x1f]")
_SPACES = " \t\n\r"
_ESCAPED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_ESCAPES = {code: _ESCAPED.get(chr(code), f"\\u{code:04x}") for code in range(32)}

VALUE, FIRST_ITEM, FIRST_KEY, KEY, COLON, NEXT, STRING, KEY_STRING = range(8)
"""The tokens that may come next. The order matters: first the states that allow a value, then those that allow a
key."""


@lru_cache(maxsize=256)
def _closer_prefix_pattern(closers: MarkSet) -> re.Pattern[str]:
    """Match the first characters of closers: a quick check whether there may be one."""
    patterns = []
    for mark in closers.literals:
        first, *others = map(re.escape, mark[:CLOSER_PREFIX])
        patterns.append(first + "".join(f"(?:{other}" for other in others) + r"|\Z)" * len(others))
    return re.compile("|".join(dict.fromkeys(patterns)))


def _escaped_string(found: re.Match[str]) -> str:
    return found.group().translate(_ESCAPES)


def _token_kinds(tokens: str) -> str:
    """Return one character per token: a bracket, a comma, a quote for a string or a scalar, `k` for a key."""
    kinds = _ANY_STRING.sub('"', tokens).translate(_KINDS)
    return _SAME_SCALAR.sub('"', kinds).replace('":', "k")


def _collapse_small_values(kinds: str) -> str:
    """Replace each small value with a string, if a string is allowed in its place."""
    for _ in range(_ROUNDS):
        before = len(kinds)
        for value in _SMALL_VALUES:
            kinds = kinds.replace(value, '"')
        if len(kinds) == before:
            break
    return _ROW_OF_VALUES.sub('"', kinds)


class JsonScan:
    """Reads one value. `out` collects certain text, and the consumer empties it. `closers`: one of these next to a raw
    line break in a string shows that the string was not closed."""

    __slots__ = (
        "_closers",
        "_expected",
        "_gap",
        "_glimpse",
        "_joined",
        "_kept",
        "_key_size",
        "_stack",
        "bad",
        "done",
        "escaped",
        "out",
    )

    def __init__(self, closers: MarkSet | None = None) -> None:
        self._closers = closers
        self._glimpse = _closer_prefix_pattern(closers).search if closers is not None else _CONTROLS.search
        self.out: list[str] = []
        self.done = False
        self.bad = False
        self.escaped = False  # a raw control character was escaped
        self._kept: list[str] = []
        self._joined = 0  # number of leading parts that were joined
        self._key_size = 0
        self._gap = 0  # characters of white space since the last token
        self._stack: list[str] = []
        self._expected = VALUE

    def take(self) -> str:
        """Return the certain text since the last time."""
        out = self.out
        if not out:
            return ""
        text = out[0] if len(out) == 1 else "".join(out)
        out.clear()
        return text

    @property
    def in_string(self) -> bool:
        return self._expected in (STRING, KEY_STRING)

    def read(self, text: str, at: int) -> int:
        """Read on. Returns where reading stopped: after the value, at an error, or where more text is needed."""
        length = len(text)
        bulk_from, bulk = at, MIN_BULK
        while at < length and not self.done:
            if self._expected >= STRING:
                at, more = self._string(text, at)
                if self.bad or not more:
                    return at
                continue
            if at >= bulk_from and length - at > MIN_BULK and self._stack and not self._gap:
                end = self._read_tokens(text, at, min(length, at + bulk))
                # Text that cannot be read in bulk must not be split again and again.
                whole = 2 * (end - at) >= bulk
                bulk, bulk_from = (min(4 * bulk, MAX_BULK), end) if whole else (MIN_BULK, end + MIN_BULK)
                if end > at:
                    at = end
                    continue
            space = _SPACE.match(text, at)
            end = space.end() if space else at
            if end > at:
                self._hold_back(text[at : min(end, at + max(MAX_SPACE - self._gap, 0))])
                self._gap += end - at
                at = end
                continue
            self._gap = 0
            step = self._token(text, at)
            if step <= 0:
                self.bad = step < 0
                return at
            at += step
        return at

    def finish(self) -> None:
        """End the input, which completes a top-level number."""
        if self._expected == VALUE and not self._stack and _WHOLE_SCALAR.fullmatch("".join(self._kept).strip()):
            self._release_with("")
            self.done = True

    def _read_tokens(self, text: str, at: int, end: int) -> int:
        """Read whole tokens as long as each is allowed, and return where reading stopped. Tokens that may continue
        after `end`, and the one that ends the value, are left to `_token`."""
        raw = self.escaped and self._closer_at(text, at, end) < 0
        found = _RUN_OF_TOKENS[raw].match(text, at, end)
        tokens = found.group() if found else ""
        kinds = _token_kinds(tokens)
        count = self._follow(kinds)
        if count < len(kinds):
            wrong = next(islice(_TOKEN[raw].finditer(text, at), count, None))
            tokens = text[at : wrong.start()]
        stop = at + len(tokens)
        if raw:
            tokens = _ANY_STRING.sub(_escaped_string, tokens)
        # The last of these is never inside a string, whose end would come after it.
        last = max(map(tokens.rfind, '"[]{}:'))
        certain = last if last >= 0 and tokens[last] == '"' else last + 1
        if certain:
            self._release_with(tokens[:certain])
        self._hold_back(tokens[certain:])
        return stop

    def _follow(self, kinds: str) -> int:
        """Return how many tokens of these kinds are allowed in a row, and move to the state after the last one."""
        short = _collapse_small_values(kinds) if len(self._stack) + _ROUNDS + 1 < MAX_DEPTH else kinds
        if len(short) == len(kinds):
            return self._follow_each(kinds)
        expected, stack = self._expected, [*self._stack]
        if self._follow_each(short) == len(short):
            return len(kinds)
        self._expected, self._stack = expected, stack  # only following each token tells which one is wrong
        return self._follow_each(kinds)

    def _follow_each(self, kinds: str) -> int:
        expected, stack, count = self._expected, self._stack, 0
        top, push, pop = stack.pop(), stack.append, stack.pop
        for kind in kinds:
            if kind == "[":
                if expected > FIRST_ITEM or len(stack) >= MAX_DEPTH - 1:
                    break
                push(top)
                top, expected = kind, FIRST_ITEM
            elif kind == "]":
                if (expected != NEXT and expected != FIRST_ITEM) or top != "[" or not stack:
                    break
                top, expected = pop(), NEXT
            elif kind == ",":
                if expected != NEXT:
                    break
                expected = KEY if top == "{" else VALUE
            elif kind == '"':
                if expected > FIRST_ITEM:
                    break
                expected = NEXT
            elif kind == "k":
                if expected != KEY and expected != FIRST_KEY:
                    break
                expected = VALUE
            elif kind == "{":
                if expected > FIRST_ITEM or len(stack) >= MAX_DEPTH - 1:
                    break
                push(top)
                top, expected = kind, FIRST_KEY
            else:
                if (expected != NEXT and expected != FIRST_KEY) or top != "{" or not stack:
                    break
                top, expected = pop(), NEXT
            count += 1
        push(top)
        self._expected = expected
        return count

    def _token(self, text: str, at: int) -> int:
        """Read one token. Returns its length, 0 if more text is needed, -1 if it is not allowed here."""
        character, expected = text[at], self._expected
        if character == '"':
            return self._open_string(expected)
        if character in "{[":
            if expected not in (VALUE, FIRST_ITEM) or len(self._stack) >= MAX_DEPTH:
                return -1
            self._stack.append(character)
            self._expected = FIRST_KEY if character == "{" else FIRST_ITEM
            self._release_with(character)
            return 1
        if character in "}]":
            return self._close(character, expected)
        if character == "," and expected == NEXT:
            self._hold_back(",")
            self._expected = KEY if self._stack[-1] == "{" else VALUE
            return 1
        if character == ":" and expected == COLON:
            self._release_with(":")
            self._expected = VALUE
            return 1
        return self._scalar(text, at) if expected in (VALUE, FIRST_ITEM) else -1

    def _open_string(self, expected: int) -> int:
        if expected in (VALUE, FIRST_ITEM):
            self._release_with('"')
            self._expected = STRING
            return 1
        if expected in (KEY, FIRST_KEY):
            self._hold_back('"')
            self._key_size = 0
            self._expected = KEY_STRING
            return 1
        return -1

    def _close(self, character: str, expected: int) -> int:
        opened = {"}": "{", "]": "["}[character]
        allowed = (NEXT, FIRST_KEY if character == "}" else FIRST_ITEM)
        if expected not in allowed or not self._stack or self._stack[-1] != opened:
            return -1
        self._stack.pop()
        self._release_with(character)
        self._end_value()
        return 1

    def _scalar(self, text: str, at: int) -> int:
        found = _SCALAR.match(text, at)
        end = found.end() if found else at
        if end == at:
            return -1
        if end - at >= MAX_SCALAR:
            return -1
        if end == len(text):
            return 0
        if not _WHOLE_SCALAR.fullmatch(text, at, end):
            return -1
        self._hold_back(text[at:end])
        self._end_value()
        return end - at

    def _end_value(self) -> None:
        """Handle the end of a value."""
        self._expected = NEXT
        if not self._stack:
            self._release_with("")
            self.done = True

    def _string(self, text: str, at: int) -> tuple[int, bool]:
        """Read on inside a string. Returns where reading stopped, and whether there is more to read now."""
        # White space after a line break is read by `_behind_break`, which looks for closers.
        spaced = self._closers is not None and text[at] in _SPACES
        if self.escaped and len(text) - at > MIN_BULK and not spaced:
            lines = self._lines(text, at)
            if lines > at:
                self._emit_certain(text[at:lines].translate(_ESCAPES))
                return lines, not self.bad
        run = _RUN.match(text, at)
        end = run.end() if run else at
        stop = end
        if self._closers is not None and self._glimpse(text, at, end):
            stop = self._closer_in(self._closers, text, at, end)
        if stop > at:
            self._emit_certain(text[at:stop])
        if stop < end or end == len(text):
            return stop, False
        character = text[end]
        if character == '"':
            self._hold_back('"')
            if self._expected == KEY_STRING:
                self._expected = COLON
            else:
                self._end_value()
            return end + 1, True
        if character == "\\":
            # Either an incomplete escape, or one that JSON does not have.
            self.bad = not _PART_OF_ESCAPE.fullmatch(text, end)
            return end, False
        after = end + 1
        if self._closers is not None and character in "\r\n":
            after = self._behind_break(self._closers, text, end)
        if after > end:
            self.escaped = True
            self._emit_certain(text[end:after].translate(_ESCAPES))
        return after, after > end

    def _lines(self, text: str, at: int) -> int:
        """Return the end of raw lines of a string that contain no closer and are followed by text."""
        limit = min(at + MAX_BULK, len(text))
        closer = self._closer_at(text, at, limit)
        run = _RAW_RUN.match(text, at, limit if closer < 0 else closer)
        end = run.end() if run else at
        if self._closers is None:
            return end
        # The end may be the beginning of a closer.
        return at + len(text[at : end if end < limit else end - MIN_BULK].rstrip(_SPACES))

    def _closer_at(self, text: str, at: int, end: int) -> int:
        """Return the start of a closer before `end`; -1 if there is none."""
        found = self._closers.search(text, at, end + self._closers.longest) if self._closers is not None else None
        return found.start() if found else -1

    def _closer_in(self, closers: MarkSet, text: str, at: int, end: int) -> int:
        """Return the offset of a closer followed by a line break, or of a possible one; `end` if there is none."""
        found = closers.search(text, at, end)
        while found is not None:
            if found.end() == len(text):
                return found.start()
            if text[found.end()] in "\r\n":
                self.bad = True
                return found.start()
            found = closers.search(text, found.start() + 1, end)
        return min(closers.hold(text, at), end) if end == len(text) else end

    def _behind_break(self, closers: MarkSet, text: str, at: int) -> int:
        """Return the position after the line break at `at` and the white space after it, if there is no closer;
        otherwise `at`."""
        space = _SPACE.match(text, at, at + MAX_BREAK)
        end = space.end() if space else at
        if end - at == MAX_BREAK:
            return end
        if end == len(text) or closers.begins(text, end):
            return at
        self.bad = bool(closers.match(text, end))
        return at if self.bad else end

    def _emit_certain(self, text: str) -> None:
        if self._expected == STRING:
            self.out.append(text)
            return
        self._key_size += len(text)
        if self._key_size > MAX_KEY:
            self.bad = True
        else:
            self._hold_back(text)

    def _hold_back(self, text: str) -> None:
        kept = self._kept
        kept.append(text)
        if len(kept) - self._joined > MAX_PARTS:
            kept[self._joined :] = ["".join(kept[self._joined :])]
            self._joined += 1

    def _release_with(self, text: str) -> None:
        self.out += self._kept
        self.out.append(text)
        self._kept.clear()
        self._joined = 0
