"""The arguments of one call on their way to the client: strict JSON at once, broken JSON repaired at its end."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Final

from toolglot.textcalls.continuation import continuation
from toolglot.textcalls.events import Sink
from toolglot.textcalls.json_scan import JsonScan
from toolglot.textcalls.repair import RepairError, repair_described

MAX_SIZE: Final = 16 * 1024 * 1024
"""More characters than this are no arguments: the call is cut, so that memory stays bounded."""


class Arguments:
    """Reads the JSON text of a call's arguments. Until the call has begun (its name is known), they are kept.

    After `read`, `done` tells that the JSON is whole; `broken` that it is none, so that whoever reads must find its end
    by other means and hand what follows to `repair`.
    """

    __slots__ = ("_index", "_kept", "_raw", "_scan", "_schema", "_sent", "_sink", "_size")

    def __init__(self, sink: Sink, schema: Any = None) -> None:
        self._sink = sink
        self._schema = schema
        self._scan = JsonScan()
        self._index = -1
        self._raw: list[str] = []
        self._sent: list[str] = []
        self._size = 0

    @property
    def done(self) -> bool:
        return self._scan.done

    @property
    def broken(self) -> bool:
        return self._scan.bad

    def begin(self, index: int, schema: Any) -> None:
        """The call has begun: what was kept may go."""
        self._index = index
        self._schema = schema
        if self._sent:
            self._sink.arguments(index, "".join(self._sent))

    def read(self, text: str, at: int) -> int:
        end = self._scan.read(text, at)
        if end > at:
            self._raw.append(text[at:end])
            self._size += end - at
            if self._size > MAX_SIZE:
                self._scan.bad = True
        certain = self._scan.take()
        if certain:
            self._sent.append(certain)
            if self._index >= 0:
                self._sink.arguments(self._index, certain)
        return end

    def end(self) -> None:
        """The JSON is whole and so is the call."""
        if self._scan.escaped:
            self._sink.repaired(self._index, "".join(self._raw), "control characters inside strings were escaped")
        self._sink.end(self._index)

    def cut(self, why: str) -> None:
        self._sink.cut(self._index, why)

    @property
    def raw(self) -> str:
        return "".join(self._raw)

    def repair(self, rest: str) -> None:
        """End a call whose arguments are broken: exactly repaired, or cut."""
        if self.done:
            self._sink.repaired(self._index, self.raw, "the JSON around the arguments was broken")
            self._sink.end(self._index)
            return
        raw = self.raw + rest
        if self._size + len(rest) > MAX_SIZE:
            self.cut(f"the arguments have more than {MAX_SIZE} characters")
            return
        try:
            value, how = repair_described(raw, self._schema)
        except RepairError as error:
            self.cut(f"the arguments are no JSON and could not be repaired: {error}")
            return
        remainder = continuation("".join(self._sent), value)
        if remainder is None:
            self.cut("the arguments are no JSON, and what was already passed on does not fit their repair")
            return
        self._sink.arguments(self._index, remainder)
        self._sink.repaired(self._index, raw, how)
        self._sink.end(self._index)


def is_balanced(text: str) -> bool:
    """As many brackets close as open: a text that was not cut, as far as broken JSON can tell."""
    return text.count("{") == text.count("}") and text.count("[") == text.count("]")


def takes_nothing(schema: Any) -> bool:
    """A tool that declares no parameters, so that a call of it is whole without any."""
    return isinstance(schema, dict) and not schema.get("properties") and not schema.get("required")


def lacks_required(schema: Any, given: Container[str]) -> bool:
    """Some of the parameters that the tool requires are not among those given."""
    required = schema.get("required") if isinstance(schema, dict) else None
    return isinstance(required, list) and any(key not in given for key in required)
