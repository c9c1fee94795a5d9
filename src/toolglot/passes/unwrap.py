"""Extract the text of `{"input": "free text"}` while it streams.

A custom tool that is offered as a function gets its text in the only property, `input`. The text is unescaped piece by
piece, so that a client sees it grow as with a model that has custom tools.
"""

from __future__ import annotations

import re

from toolglot.errors import DecodeError
from toolglot.wire import json

_HEAD = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_HEAD_SO_FAR = re.compile(r'\s*(\{\s*("(i(n(p(u(t("(\s*(:\s*("?))?)?)?)?)?)?)?)?)?)?\Z')
# An incomplete escape, or a lone first surrogate, at the end of a piece: it waits for the next piece.
_CUT_ESCAPE = re.compile(r"(\\u[dD][89abAB][0-9a-fA-F]{2})?\\(u[0-9a-fA-F]{0,3})?\Z|\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
_STRING_END = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+(?=")', re.DOTALL)


class InputUnwrapper:
    """Unwraps one input. `exact`: the wrapping is as expected. `readable`: it is at least a JSON object with an `input`
    text."""

    __slots__ = ("_held", "_pieces", "_state", "exact", "readable", "tool")

    def __init__(self, tool: str = "") -> None:
        self.tool = tool
        self._state = "head"
        self._held = ""
        self._pieces: list[str] = []
        self.exact = True
        self.readable = True

    def feed(self, piece: str) -> str:
        """Return the free text that this piece completes."""
        if self._state != "text":
            self._pieces.append(piece)
        if self._state in ("whole", "tail"):
            return ""
        self._held += piece
        if self._state == "head" and not self._read_head():
            return ""
        return self._read_text()

    def _read_head(self) -> bool:
        """Return whether the text has begun. Until then the raw pieces are kept, in case it never does."""
        match = _HEAD.match(self._held)
        if match:
            self._held = self._held[match.end() :]
            self._pieces.clear()
            self._state = "text"
            return True
        if _HEAD_SO_FAR.match(self._held):
            # Whitespace is insignificant here. Without this, a growing head would be scanned again and again.
            self._held = "".join(self._held.split())
        else:
            # Other members come first: collect the object and parse it when it is complete.
            self._state = "whole"
            self._held = ""
        return False

    def _read_text(self) -> str:
        end = _STRING_END.match(self._held)
        if end:
            text, rest = end[0], self._held[end.end() + 1 :]
            self._held = ""
            self._pieces.append(rest)
            self._state = "tail"
        else:
            cut = _CUT_ESCAPE.search(self._held)
            if cut and self._is_escape(cut.start()):
                text, self._held = self._held[: cut.start()], self._held[cut.start() :]
            else:
                text, self._held = self._held, ""
        return self._unescape(text)

    def _is_escape(self, position: int) -> bool:
        """Return whether the backslash at this position begins an escape, and is not itself the second half of one."""
        backslashes = 0
        while position - backslashes > 0 and self._held[position - backslashes - 1] == "\\":
            backslashes += 1
        return backslashes % 2 == 0

    def _unescape(self, text: str) -> str:
        if "\\" not in text:
            return text
        try:
            return str(json.decode_frame(f'"{text}"'.encode("utf-8", "surrogatepass")))
        except DecodeError:
            self.exact = self.readable = False
            return text

    def close(self) -> str:
        """Return the remaining text at the end of the arguments."""
        if self._state == "tail":
            self.exact = self.exact and "".join(self._pieces).strip() == "}"
            return ""
        self.exact = False
        raw = self._held if self._state == "text" else "".join(self._pieces)
        if self._state == "text" or not raw.strip():
            self.readable = False
            return raw
        try:
            value = json.decode_frame(raw.encode("utf-8", "surrogatepass"))
        except DecodeError:
            value = None
        if isinstance(value, dict) and isinstance(value.get("input"), str):
            self.exact = value.keys() == {"input"}
            return str(value["input"])
        self.readable = False
        return raw
