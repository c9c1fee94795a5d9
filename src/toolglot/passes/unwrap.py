"""`{"input": "free text"}` -> free text, while it arrives.

A custom tool that had to be offered as a function is called with its text in the one property `input`. The text is
un-escaped piece by piece, so that a client sees it grow as it would from a model that knows custom tools.
"""

from __future__ import annotations

import re

from toolglot.errors import DecodeError
from toolglot.wire import json

_HEAD = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_HEAD_SO_FAR = re.compile(r'\s*(\{\s*("(i(n(p(u(t("(\s*(:\s*("?))?)?)?)?)?)?)?)?)?)?\Z')
# What may stand whole before the end of a piece: everything but an escape that is cut, or the first of two surrogates.
_CUT_ESCAPE = re.compile(r"(\\u[dD][89abAB][0-9a-fA-F]{2})?\\(u[0-9a-fA-F]{0,3})?\Z|\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
_STRING_END = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+(?=")', re.DOTALL)


class InputUnwrapper:
    """`exact`: the wrapping was as expected. `readable`: at least it was a JSON object with an `input` text."""

    __slots__ = ("_held", "_pieces", "_state", "exact", "readable", "tool")

    def __init__(self, tool: str = "") -> None:
        self.tool = tool
        self._state = "head"
        self._held = ""
        self._pieces: list[str] = []
        self.exact = True
        self.readable = True

    def feed(self, piece: str) -> str:
        """The free text that this piece completes."""
        if self._state != "text":
            self._pieces.append(piece)
        if self._state in ("whole", "tail"):
            return ""
        self._held += piece
        if self._state == "head" and not self._read_head():
            return ""
        return self._read_text()

    def _read_head(self) -> bool:
        """Has the text begun? Until then the pieces stay as they came, in case that it never does."""
        match = _HEAD.match(self._held)
        if match:
            self._held = self._held[match.end() :]
            self._pieces.clear()
            self._state = "text"
            return True
        if _HEAD_SO_FAR.match(self._held):
            # Space says nothing here, and a head that grows by it would be looked at again and again.
            self._held = "".join(self._held.split())
        else:
            # Other members stand first: collect the object and look when it is whole.
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
        """Does the backslash here begin an escape, or is it itself the second half of one?"""
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
        """What is left when the arguments have ended."""
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
