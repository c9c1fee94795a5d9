"""The contract of a body: what reads a call, or several, behind their header.

The engine hands a body the text from where it stopped; the body reads as far as it can be sure and returns where it
stopped. What it leaves is handed to it again with more text behind it, so it must leave little: text that it has to
keep it keeps itself, in pieces. It never looks behind `at`.

`state` is `open` while the body wants more, `done` when it is over (also when a call was cut), and `refused` when this
is no call after all, which is possible only before its first `sink.start`: the engine then treats everything since the
opener as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from msgspec import Struct

from toolglot.textcalls.events import Sink
from toolglot.textcalls.grammar import Call

BodyState = Literal["open", "done", "refused"]


class Body(Protocol):
    state: BodyState

    def read(self, text: str, at: int) -> int:
        """Read on from `at`; where reading stopped."""
        ...

    def finish(self, text: str, at: int, *, cut: bool) -> int:
        """Nothing follows `text`. `cut`: the upstream stopped because of a limit, so that what has no end of its own
        is not whole. The state is `done` or `refused` afterwards."""
        ...


class Opened(Struct, frozen=True):
    """How a call was opened, and what a body needs to read it.

    `tools` maps the declared tools' names to their schemas (None: any arguments). `followers` are marks that may stand
    behind the body: further openers and the ends of sections. `name` is empty where the body tells it.
    """

    call: Call
    sink: Sink
    tools: Mapping[str, Any]
    name: str = ""
    id: str = ""
    followers: tuple[str, ...] = ()
