"""A body of kind `empty`: the header is the whole call, which has no arguments."""

from __future__ import annotations

from toolglot.textcalls.arguments import lacks_required
from toolglot.textcalls.body import BodyState, OpenedCall


class EmptyBody:
    """Ends the call where it began. A call of a tool that requires arguments is not written this way."""

    __slots__ = ("_opened", "state")

    def __init__(self, opened: OpenedCall) -> None:
        self._opened = opened
        self.state: BodyState = "open"

    def read(self, text: str, at: int) -> int:
        if lacks_required(self._opened.tools.get(self._opened.name), ()):
            self.state = "refused"
            return at
        sink = self._opened.sink
        index = sink.start(self._opened.name, self._opened.id)
        sink.arguments(index, "{}")
        sink.end(index)
        self.state = "done"
        return at

    def finish(self, text: str, at: int, *, cut: bool) -> int:
        return self.read(text, at)
