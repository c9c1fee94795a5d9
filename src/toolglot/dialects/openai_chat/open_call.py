"""A call on its way in a stream of chunks."""

from __future__ import annotations

from typing import Any

from toolglot.ir import ToolKind
from toolglot.wire.object_scanner import ObjectScanner

_UNSCANNED = 256
"""Pieces of arguments that may wait for a look at whether they are whole."""


class OpenCall:
    """A call that is being received. It opens towards the reader once its name and id are known."""

    __slots__ = ("_scanner", "_unscanned", "closed", "extra", "held", "id", "index", "kind", "legacy", "name")

    def __init__(self, kind: ToolKind, legacy: bool) -> None:
        self.kind = kind
        self.legacy = legacy
        self.id = ""
        self.name = ""
        self.index = -1  # not opened yet
        self.held: list[str] = []  # arguments that came before it was opened
        self.extra: dict[str, Any] = {}  # fields beside the function that are not told yet
        self.closed = False
        self._scanner = ObjectScanner()
        self._unscanned: list[str] = []

    def add(self, arguments: str) -> None:
        if self.kind == "function":
            self._unscanned.append(arguments)
            if len(self._unscanned) > _UNSCANNED:
                self.is_whole()

    def is_whole(self) -> bool:
        """Are the arguments a whole object, which nothing can continue? Looks only at pieces that came since."""
        if self._unscanned:
            self._scanner.feed("".join(self._unscanned))
            self._unscanned.clear()
        return self._scanner.whole
