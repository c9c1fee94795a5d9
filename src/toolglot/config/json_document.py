"""Parse JSON to plain values with their positions. Comments and trailing commas are allowed, because editors allow them
in such files."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

from toolglot.config.problems import ConfigError, Path, Problem, field_name

MAX_DEPTH = 64
_BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,300})(?:\.[0-9]{1,300})?(?:[eE][+-]?[0-9]{1,3})?")
_WORD = re.compile(r"true|false|null")

_BLANK_5 = re.compile(r"(?:[\s\ufeff]|//[^\n\r\u2028\u2029]*+|/\*(?:[^*]|\*(?!/)|(?!))*+\*/|(?!))*+")
_STRING_5 = re.compile(r'"(?:[^"\\\n\r]|\\(?:\r\n|[\s\S])|(?!))*+"|\'(?:[^\'\\\n\r]|\\(?:\r\n|[\s\S])|(?!))*+\'')
_NUMBER_5 = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F]{1,64}|(?:(?:0|[1-9][0-9]{0,300})(?:\.[0-9]{0,300})?|\.[0-9]{1,300})(?:[eE][+-]?[0-9]{1,3})?)"
)
_NAME_5 = re.compile(r"[^\W\d][\w$]*+|\$[\w$]*+")
_ESCAPE_5 = re.compile(r"\\(u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|\r\n|[\s\S])")
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_LINE_ENDS = frozenset({"\n", "\r", "\r\n", "\u2028", "\u2029"})


def parse(text: str, file: str) -> tuple[Any, Mapping[Path, tuple[int, int]]]:
    """Parse the text.

    Raises:
        ConfigError: it is not JSON.
    """
    return _JsonParser(text, file).document()


def parse_json5(text: str, file: str) -> tuple[Any, Mapping[Path, tuple[int, int]]]:
    """Parse JSON5, which also has names without quotes, quotes of either kind and more forms of numbers.

    Raises:
        ConfigError: it is not JSON5.
    """
    return _Json5Parser(text, file).document()


class _JsonParser:
    blank, string, number, name = _BLANK, _STRING, _NUMBER, _STRING

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.at = 0
        self.places: dict[Path, tuple[int, int]] = {}
        self._lines = [0, *(match.end() for match in re.finditer("\n", text))]

    def document(self) -> tuple[Any, Mapping[Path, tuple[int, int]]]:
        if not self._next():
            raise self._error("not JSON: it is empty")
        value = self._value(())
        if self._next():
            raise self._error("not JSON: extra text after the end")
        return value, self.places

    def _next(self) -> str:
        """Return the next character that is neither blank nor comment; empty at the end."""
        blank = self.blank.match(self.text, self.at)
        assert blank is not None
        self.at = blank.end()
        return self.text[self.at : self.at + 1]

    def _place(self) -> tuple[int, int]:
        line = bisect_right(self._lines, self.at)
        return line, self.at - self._lines[line - 1] + 1

    def _error(self, message: str, path: Path = ()) -> ConfigError:
        line, column = self._place()
        return ConfigError([Problem(file=self.file, line=line, column=column, field=field_name(path), message=message)])

    def _value(self, path: Path) -> Any:
        if len(path) > MAX_DEPTH:
            raise self._error("nested too deeply")
        self.places.setdefault(path, self._place())
        first = self._next()
        if first == "{":
            return self._object(path)
        if first == "[":
            return self._array(path)
        for pattern in (self.string, self.number, _WORD):
            if match := pattern.match(self.text, self.at):
                value = self._decode(match[0])
                self.at = match.end()
                return value
        raise self._error("not JSON: a value is expected")

    def _decode(self, token: str) -> Any:
        return json.loads(token)

    def _decode_name(self, token: str) -> str:
        return str(self._decode(token))

    def _object(self, path: Path) -> dict[str, Any]:
        made: dict[str, Any] = {}
        self.at += 1
        while (first := self._next()) != "}":
            match = (self.string if first in ('"', "'") else self.name).match(self.text, self.at)
            if match is None:
                raise self._error('not JSON: a name in `"` is expected', path)
            name = self._decode_name(match[0])
            inside = (*path, name)
            if name in made:
                raise self._error("duplicate field", inside)
            self.places[inside] = self._place()
            self.at = match.end()
            if self._next() != ":":
                raise self._error("not JSON: a `:` is expected", inside)
            self.at += 1
            self._next()
            made[name] = self._value(inside)
            self._comma("}", path)
        self.at += 1
        return made

    def _array(self, path: Path) -> list[Any]:
        made: list[Any] = []
        self.at += 1
        while self._next() != "]":
            made.append(self._value((*path, len(made))))
            self._comma("]", path)
        self.at += 1
        return made

    def _comma(self, end: str, path: Path) -> None:
        found = self._next()
        if found == ",":
            self.at += 1
        elif found != end:
            raise self._error(f"not JSON: `,` or `{end}` is expected", path)


class _Json5Parser(_JsonParser):
    blank, string, number, name = _BLANK_5, _STRING_5, _NUMBER_5, _NAME_5

    def _decode(self, token: str) -> Any:
        if token[0] in "\"'":
            return self._text(token[1:-1])
        if token in ("true", "false", "null"):
            return json.loads(token)
        digits = token.lstrip("+-").lower()
        number = (
            int(digits, 16) if digits.startswith("0x") else float(digits) if re.search(r"[.e]", digits) else int(digits)
        )
        return -number if token.startswith("-") else number

    def _decode_name(self, token: str) -> str:
        return str(self._decode(token)) if token[0] in "\"'" else token

    def _text(self, inner: str) -> str:
        def decoded(match: re.Match[str]) -> str:
            escape = match[1]
            if len(escape) > 2:
                return chr(int(escape[1:], 16))
            return "" if escape in _LINE_ENDS else _ESCAPED.get(escape, escape)

        try:
            return _ESCAPE_5.sub(decoded, inner).encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise self._error("not JSON: half of a surrogate pair") from None
