"""A call that a stream is still sending."""

from __future__ import annotations

from typing import Any

from toolglot.ir import ToolKind
from toolglot.wire.object_scanner import ObjectScanner

_MAX_UNSCANNED = 256
"""Pieces of arguments that are collected before they are scanned for completeness."""


class ChatOpenCall:
    """A call that is being received. Its block opens once the name and the id are known."""

    __slots__ = ("_scanner", "_unscanned", "closed", "extra", "held", "id", "index", "kind", "legacy", "name")

    def __init__(self, kind: ToolKind, legacy: bool) -> None:
        self.kind = kind
        self.legacy = legacy
        self.id = ""
        self.name = ""
        self.index = -1  # not opened yet
        self.held: list[str] = []  # arguments received before the block was opened
        self.extra: dict[str, Any] = {}  # members next to `function` that no event has carried yet
        self.closed = False
        self._scanner = ObjectScanner()
        self._unscanned: list[str] = []

    def add(self, arguments: str) -> None:
        if self.kind == "function":
            self._unscanned.append(arguments)
            if len(self._unscanned) > _MAX_UNSCANNED:
                self.is_whole()

    def is_whole(self) -> bool:
        """Are the arguments a complete object? Scans only the pieces received since the last call."""
        if self._unscanned:
            self._scanner.feed("".join(self._unscanned))
            self._unscanned.clear()
        return self._scanner.whole
