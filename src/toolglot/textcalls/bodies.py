"""The readers of each kind of body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from toolglot.textcalls.arguments import lacks_required
from toolglot.textcalls.body import BodyState, CallBody, OpenedCall
from toolglot.textcalls.braces_body import BracesBody
from toolglot.textcalls.envelope_body import EnvelopeBody
from toolglot.textcalls.grammar import BodyKind
from toolglot.textcalls.json_body import JsonBody
from toolglot.textcalls.python_body import PythonBody
from toolglot.textcalls.tagged_body import TaggedBody


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


BODIES: Final[dict[BodyKind, Callable[[OpenedCall], CallBody]]] = {
    "envelope": EnvelopeBody,
    "json": JsonBody,
    "tagged": TaggedBody,
    "python": PythonBody,
    "braces": BracesBody,
    "empty": EmptyBody,
}
