"""Passes: pure rewrites between decoding and encoding.

A request pass takes a `Request` and the `Context` of its exchange and returns a `Request` that is one step nearer to
what the target can express; whatever it changes it writes into the receipt. Running a pass twice changes nothing more.
Event passes do the same for the stream on its way back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from toolglot.dialect import Capabilities
from toolglot.ir import Json, Message, Request, Text, ToolKind
from toolglot.readable import ReadableTypes
from toolglot.receipt import Receipt

if TYPE_CHECKING:
    from toolglot.passes.tool_history import ToolHistory
    from toolglot.textcalls.settings import TextCalls
    from toolglot.textcalls.unescape import Escapes


CacheMarks = Literal["auto", "always", "never"]
"""When breakpoints of the prompt cache are set for clients that set none: in tool loops and where prefixes repeat,
always, or never."""


_UNKNOWN = Capabilities(fields=frozenset())


class OriginalTool(Struct, frozen=True):
    """What the client calls a tool that the upstream knows under another name or in another form."""

    name: str
    namespace: str | None = None
    kind: ToolKind = "function"

    @property
    def is_plain(self) -> bool:
        """Is it a function outside of any namespace?"""
        return self.kind == "function" and self.namespace is None


class Context(Struct, kw_only=True):
    """What the passes of one exchange share.

    `tools` maps the upstream's name of a tool to the client's, for the way back; `call_ids` are the ids that the
    conversation has used, so that a new call gets another one. `source_can` says which native keys of
    the source mean nothing to anybody else, and which are notes; `slot`, `call_slot` and `details` are the source's
    places for reasoning state, `issuer` is who takes such state back, `is_bound` says that its server is known, and
    `takes_back` are others whose state it takes. `aliased`: the upstream is not the one the client thinks it speaks to:
    another model, or one that is said to differ. `carried`: the history holds turns of other vendors, whose state the
    client carried. `limit_is_ours`: nobody asked for this output limit, the wire wants one.

    `text_calls`: how the model writes calls as text, if it does; `history_format`: how calls stand as text in the
    client's history. `text_tools` are then the tools that text may call, with their schemas (None: the answer's text is
    nothing but text), `text_called` is the number of calls before it, `stops` are stop sequences that nobody asked for.
    `text_thinks`: the request ends inside reasoning, which the answer goes on with. `text_past` is the conversation as
    the client told it, `text_escapes` is what was escaped of it, for the answer to be put back.
    """

    source: str
    target: str
    can: Capabilities
    receipt: Receipt
    tools: dict[str, OriginalTool] = {}
    call_ids: set[str] = set()
    source_can: Capabilities = _UNKNOWN
    readable: ReadableTypes = {}
    """The source's opaque blocks that other dialects can be told: `passes/opaque.py`."""
    slot: str | None = None
    call_slot: str | None = None
    details: str | None = None
    issuer: str = ""
    is_bound: bool = False
    takes_back: frozenset[str] = frozenset()
    aliased: bool = False
    carried: bool = False
    limit_is_ours: bool = False
    text_calls: TextCalls | None = None
    history_format: str | None = None
    text_tools: dict[str, Json] | None = None
    text_called: int = 0
    text_thinks: bool = False
    text_past: tuple[Message, ...] = ()
    text_escapes: Escapes | None = None
    stops: tuple[str, ...] = ()
    shortened: dict[int, tuple[Text, str]] = {}
    """Texts of results that were cut, by their identity, and what the receipt is to say of each that is sent."""
    cache_marks: CacheMarks = "auto"
    """When breakpoints of the prompt cache are set for clients that set none: `passes/cache_marks.py`."""
    prefix_repeats: bool = False
    """Tools and system text have come before, a short time ago."""
    client_marks: bool = False
    """The client says itself what is to be cached."""
    features: int = -1
    """The features that the request may have now (`features.py`); all of them unless a plan runs the passes."""
    tool_history: ToolHistory | None = None
    """The calls and results of the messages that were asked about last."""

    @property
    def bound_to(self) -> str:
        """Who alone takes back what the client carries; empty if anybody does."""
        return self.issuer if self.is_bound else ""


RequestPass: TypeAlias = Callable[[Request, Context], Request]
