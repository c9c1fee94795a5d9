"""The interface of a body reader, which reads one or several calls after their header.

The engine passes the text from where the body stopped. The body reads as far as it can be certain and returns where it
stopped. The rest is passed again with more text after it, so it must be short: a body buffers text itself, in pieces.
It never looks before `at`.

`state` is `open` while the body needs more text, `done` when it is over (also if a call was cut), and `refused` if this
is no call after all. That is possible only before its first `sink.start`: the engine then treats everything since the
opener as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from msgspec import Struct

from toolglot.textcalls.events import EventSink
from toolglot.textcalls.grammar import CallSyntax

BodyState = Literal["open", "done", "refused"]


class CallBody(Protocol):
    state: BodyState

    def read(self, text: str, at: int) -> int:
        """Read from `at` and return where reading stopped."""
        ...

    def finish(self, text: str, at: int, *, cut: bool) -> int:
        """Nothing follows `text`. `cut`: the upstream stopped because of a limit, so anything without an end is
        incomplete. The state is `done` or `refused` afterwards."""
        ...


class OpenedCall(Struct, frozen=True):
    """How a call was opened, and what a body needs to read it.

    `tools` maps the declared tools' names to their schemas (None: any arguments). `followers` are marks that may follow
    the body: further openers and the ends of sections. `name` is empty if the body contains it.
    """

    call: CallSyntax
    sink: EventSink
    tools: Mapping[str, Any]
    name: str = ""
    id: str = ""
    followers: tuple[str, ...] = ()
