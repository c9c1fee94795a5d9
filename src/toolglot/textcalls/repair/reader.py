"""A tolerant reader of JSON objects and arrays: one pass, an explicit stack, no recursion.

It accepts text with only one meaning and raises `RepairError` for everything else. `damages` lists the repairs.
"""

from __future__ import annotations

import re
from typing import Any

from toolglot.textcalls.events import WorkBudget
from toolglot.textcalls.repair.errors import RepairError
from toolglot.textcalls.repair.lookahead import QUOTES, SPACE, Lookahead, OpenContainer
from toolglot.textcalls.repair.strings import decode_string, has_undoubled_backslash
from toolglot.textcalls.schemas import item_schema, value_schema

# json and msgspec, which recurse, could not write deeper values.
MAX_DEPTH = 500
# Text with more open brackets than this was cut off.
MAX_MISSING_BRACKETS = 3

_WORD = re.compile(r"[^\s,:\[\]{}\"'\u201c\u201d\u2018\u2019<>()]+")
_NUMBER = re.compile(r"[+-]?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_KEY = re.compile(r"[^\W\d][\w$.-]*|\$[\w$.-]+|\d+")
_PYTHON = re.compile(r"[{\[][\s\[{]*+'")
_CONTROL = re.compile(r"[\x00-\x1f]")
_COMMENT = re.compile(r"//|#|/\*")
_LITERALS = {"true": True, "false": False, "null": None, "none": None}
_STRICT = ("true", "false", "null")

# Repairs that allow another reading; a schema must confirm them.
AMBIGUOUS_REPAIRS = frozenset(
    {"unescaped quotes", "missing end quote", "missing brackets", "stray brackets", "text around", "triple quotes"}
)

_NEVER_TOGETHER = (
    ("missing end quote", "missing commas"),
    ("missing end quote", "unescaped quotes"),
    ("missing end quote", "missing brackets"),
    ("triple quotes", "unescaped quotes"),
)

ReadResult = tuple[Any, int]


class TolerantReader:
    def __init__(self, text: str, schema: Any = None, work: WorkBudget | None = None) -> None:
        self.text = text
        self._work = WorkBudget() if work is None else work
        self.damages: dict[str, None] = {}
        self.stack: list[OpenContainer] = []
        self.look = Lookahead(text, self.stack)
        self._schema = schema
        self._undoubled = False
        self._python = False
        self._repeated = False
        self._damaged_strings = 0
        self._odd_strings = 0
        self._value: Any = None

    def read(self, at: int) -> ReadResult:
        """Return the object or array that begins at `at`, and its end."""
        self._python = _PYTHON.match(self.text, at) is not None
        self._undoubled = has_undoubled_backslash(self.text, python=self._python)
        self._open(self.text[at], self._schema)
        at += 1
        while self.stack:
            at = self._skip(at)
            if at >= len(self.text):
                self._missing_brackets()
                break
            self._count()
            frame = self.stack[-1]
            at = _STEPS[frame.state](self, frame, at)
        if self._odd_strings and self._damaged_strings > 1:
            raise RepairError("several strings hold quotes that are not escaped")
        if any(first in self.damages and second in self.damages for first, second in _NEVER_TOGETHER):
            raise RepairError("the text is broken in several ways")
        if self._repeated and not AMBIGUOUS_REPAIRS.isdisjoint(self.damages):
            raise RepairError("a key is repeated: a bracket may be missing before it")
        return self._value, at

    def _count(self) -> None:
        if not self._work.take_value():
            raise RepairError("there is too much to repair in one answer")

    def damage(self, name: str) -> None:
        if name:
            self.damages[name] = None

    def _skip(self, at: int) -> int:
        match = SPACE.match(self.text, at)
        end = match.end() if match else at
        if end > at and _COMMENT.search(self.text, at, end):
            self.damage("comments")
            last = self.text.rfind("\n", at, end) + 1
            if end >= len(self.text) and re.search(r"[\"'{}\[\]]", self.text[max(last, at) : end]):
                raise RepairError("a comment runs to the end of the text and may hide a part of it")
        return end

    def _open(self, bracket: str, schema: Any) -> None:
        if len(self.stack) >= MAX_DEPTH:
            raise RepairError(f"nested deeper than {MAX_DEPTH} levels")
        self.stack.append(OpenContainer({} if bracket == "{" else [], schema))

    def _add(self, value: Any) -> None:
        """Add a complete value to the innermost container, or make it the result."""
        if not self.stack:
            self._value = value
            return
        frame = self.stack[-1]
        if isinstance(frame.value, dict):
            self._repeated |= frame.key in frame.value
            frame.value[frame.key] = value
        else:
            frame.value.append(value)
        frame.state = "after"

    def _close(self) -> None:
        frame = self.stack.pop()
        self._add(frame.value)

    def _missing_brackets(self) -> None:
        if len(self.stack) > MAX_MISSING_BRACKETS:
            raise RepairError(f"the text ends with {len(self.stack)} brackets open")
        for index, frame in enumerate(reversed(self.stack)):
            fresh = index == 0 and len(self.stack) > 1 and frame.state == "member" and not (frame.value or frame.comma)
            inner = index > 0 and frame.state in ("value", "member")
            if not (frame.state == "after" or fresh or inner):
                raise RepairError("the text ends inside a member")
        self.damage("missing brackets")
        while self.stack:
            self._close()

    def _closer(self, at: int) -> int:
        bracket = self.text[at]
        frame = self.stack[-1]
        if bracket == frame.closer:
            if frame.comma:
                self.damage("extra commas")
            self._close()
            return at + 1
        if frame.comma or not any(outer.closer == bracket for outer in self.stack):
            raise RepairError(f"'{bracket}' at character {at} closes nothing that is open")
        self.damage("missing brackets")
        while self.stack[-1].closer != bracket:
            self._close()
        self._close()
        return at + 1

    def _member(self, frame: OpenContainer, at: int) -> int:
        character = self.text[at]
        if character in "}]":
            return self._closer(at)
        if character == ",":
            gap = isinstance(frame.value, list) and self.text[at - 1].isspace()
            if gap or not frame.value:
                raise RepairError(f"an element may be missing before the comma at character {at}")
            self.damage("extra commas")
            frame.comma = True
            return at + 1
        frame.comma = False
        if isinstance(frame.value, list):
            return self._read_value(frame, at)
        return self._key(frame, at)

    def _after(self, frame: OpenContainer, at: int) -> int:
        character = self.text[at]
        if character == ",":
            frame.state = "member"
            frame.comma = True
            return at + 1
        if character in "}]":
            return self._closer(at)
        if not self.look.member(frame, at):
            raise RepairError(f"no comma and no bracket at character {at}")
        self.damage("missing commas")
        frame.state = "member"
        return at

    def _key(self, frame: OpenContainer, at: int) -> int:
        character = self.text[at]
        if character in QUOTES:
            end = self._key_end(character, at)
            key, how = decode_string(
                self.text[at + 1 : end], python=self._python or character == "'", undoubled=self._undoubled
            )
            self.damage(how)
            self._quote_damage(character)
            end += 1
        else:
            match = _KEY.match(self.text, at)
            if match is None:
                raise RepairError(f"no key at character {at}")
            key, end = match.group(), match.end()
            character = ""
            self.damage("unquoted keys")
        colon = self._skip(end)
        if colon >= len(self.text) or self.text[colon] != ":":
            raise RepairError(f"no colon after the key at character {at}")
        frame.key, frame.style, frame.state = key, character, "value"
        return colon + 1

    def _key_end(self, quote: str, at: int) -> int:
        for match in QUOTES[quote].scan.finditer(self.text, at + 1):
            if match.group()[0] != "\\":
                return match.start()
        raise RepairError(f"the key at character {at} has no end")

    def _quote_damage(self, quote: str) -> None:
        self.damage(QUOTES[quote].damage)

    def _read_value(self, frame: OpenContainer, at: int) -> int:
        character = self.text[at]
        if character in "{[":
            self._open(character, _inner_schema(frame))
            return at + 1
        if character in QUOTES:
            return self._string(character, at)
        match = _WORD.match(self.text, at)
        if match is None:
            raise RepairError(f"no value at character {at}")
        word = match.group()
        lower = word.lower()
        if lower in _LITERALS:
            if word not in _STRICT:
                self.damage("Python's literals")
            self._add(_LITERALS[lower])
        elif _NUMBER.fullmatch(word) and len(word) <= 4000:
            self._add(self._number(word))
        else:
            raise RepairError(f"'{word[:20]}' at character {at} is not a JSON value")
        return match.end()

    def _number(self, word: str) -> int | float:
        if word.startswith("+"):
            self.damage("numbers")
        if word.lstrip("+-").isdigit():
            return int(word)
        value = float(word)
        if value in (float("inf"), float("-inf")):
            raise RepairError(f"the number {word[:20]} is too large")
        return value

    def _string(self, quote: str, at: int) -> int:
        if self.text.startswith(quote * 3, at) and quote in "\"'" and self.text[at + 3 : at + 4] != quote:
            return self._triple(quote, at)
        end, behind = self._string_end(quote, at)
        if _CONTROL.search(self.text, at, end):
            self.damage("control characters")
        value, how = decode_string(
            self.text[at + 1 : end], python=self._python or quote == "'", undoubled=self._undoubled
        )
        self.damage(how)
        self._quote_damage(quote)
        self._add(value)
        return behind

    def _triple(self, quote: str, at: int) -> int:
        end = self.text.find(quote * 3, at + 3)
        if end < 0 or not self.look.closes(self.stack[-1], end + 2, damaged=True):
            raise RepairError(f"the quotes at character {at} have no end")
        self.damage("triple quotes")
        value, how = decode_string(self.text[at + 3 : end], python=True, undoubled=self._undoubled)
        self.damage(how)
        self._add(value)
        return end + 3

    def _string_end(self, quote: str, at: int) -> tuple[int, int]:
        """Return the end of the string and the position to continue: at the first quote after which the document
        continues.
        """
        frame = self.stack[-1]
        kind = QUOTES[quote]
        inner = 0
        brackets = 0
        behind = at + 1
        for match in kind.scan.finditer(self.text, at + 1):
            if match.group()[0] == "\\":
                continue
            self._count()
            place = match.start()
            if inner:
                brackets += self.look.brackets(behind, place)
                behind = place
            if brackets <= 0 and self.look.closes(frame, place, damaged=inner > 0):
                self._check_inner(at, place, inner)
                return place, place + 1
            # A pair of backslashes before an inner quote: one belongs to the quote, the other was not doubled.
            self._undoubled |= self.text[place - 1] == "\\"
            if not inner and not self.look.opens(place):
                raise RepairError(f"the quote at character {place} may be the end of a string")
            if not inner:
                brackets = self.look.brackets(at + 1, place)
                behind = place
            inner += not self.look.in_word(place)
            inner = max(inner, 1)
        if inner:
            raise RepairError(f"the string at character {at} holds quotes and has no end")
        return self._missing_quote(at)

    def _check_inner(self, at: int, end: int, inner: int) -> None:
        if not inner:
            return
        self.damage("unescaped quotes")
        self._damaged_strings += 1
        self._odd_strings += inner % 2
        if isinstance(self.stack[-1].value, list) and inner % 2:
            raise RepairError(f"the string at character {at} holds a quote that is not escaped")
        if self.look.key_inside(self.stack[-1], at + 1, end):
            raise RepairError(f"the string at character {at} may be several members")

    def _missing_quote(self, at: int) -> tuple[int, int]:
        """Handle a string that runs to the end of the text, whose last characters are the brackets after it."""
        start = at + 1
        end = len(self.text.rstrip())
        for frame in self.stack:
            while end > start and self.text[end - 1].isspace():
                end -= 1
            if end <= start or self.text[end - 1] != frame.closer:
                raise RepairError(f"the string at character {at} has no end")
            end -= 1
        behind = end
        while end > start and self.text[end - 1].isspace():
            end -= 1
        if "\n" in self.text[end:behind] and not re.match(r"[{\[][ \t]*\r?\n", self.text):
            raise RepairError(f"the string at character {at} has no end")
        if "\n" not in self.text[end:behind]:
            end = behind
        if self._is_doubtful(start, end):
            raise RepairError(f"the string at character {at} has no end")
        self.damage("missing end quote")
        return end, behind

    def _is_doubtful(self, start: int, end: int) -> bool:
        """Return whether a string without an end quote may have ended before `end`, or continue after it."""
        content = self.text[start:end]
        # An escaped quote at the end closes an inner one, or else is the end quote itself.
        if content.endswith('\\"') and content.count('\\"') % 2:
            return True
        # Too many or too few brackets may have been left to the string.
        balance = self.look.brackets(start, end)
        if balance > 0 or (balance < 0 and content[-1] in "}]") or re.search(r",[ \t]*\r?\n", content):
            return True
        frame = self.stack[-1]
        if isinstance(frame.value, list):
            return not content or "," in content
        return not frame.style and re.search(r",\s*+\w++\s*+:", content) is not None


def _inner_schema(frame: OpenContainer) -> Any:
    if frame.schema is None:
        return None
    if isinstance(frame.value, list):
        return item_schema(frame.schema, len(frame.value))
    return value_schema(frame.schema, frame.key)


_STEPS = {"member": TolerantReader._member, "value": TolerantReader._read_value, "after": TolerantReader._after}
