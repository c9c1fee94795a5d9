"""Passes: pure rewrites between decoding and encoding.

A request pass takes a `Request` and the `Context` of its exchange and returns a `Request` that is one step nearer to
what the target can express; whatever it changes it writes into the receipt. Running a pass twice changes nothing more.
Event passes do the same for the stream on its way back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from toolglot.dialect import Capabilities, StateSlots
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


class StateOwner(Struct, frozen=True):
    """The server and model that take reasoning state back."""

    issuer: str = ""
    is_bound: bool = False
    """The server is known, so state goes back to it alone."""
    accepts: frozenset[str] = frozenset()
    """Other issuers whose state it takes too."""

    @property
    def bound_to(self) -> str:
        """The only issuer whose state the client may return; empty if any issuer's is accepted."""
        return self.issuer if self.is_bound else ""


class TextCallContext(Struct, kw_only=True):
    """Tool calls as text in one exchange: the settings, and what the request passes note for the answer's parser."""

    calls: TextCalls | None = None
    """How the model writes calls as text; None if it has native ones."""
    history_format: str | None = None
    """The text format of calls in the client's history."""
    tools: dict[str, Json] | None = None
    """The tools that the answer's text may call, with their schemas. None: the text holds no calls."""
    call_count: int = 0
    """The number of calls before the answer."""
    is_in_reasoning: bool = False
    """The request ends inside reasoning, which the answer continues."""
    client_messages: tuple[Message, ...] = ()
    """The conversation as the client sent it."""
    escapes: Escapes | None = None
    """Text that was escaped in the request. The answer is unescaped by it."""
    added_stops: tuple[str, ...] = ()
    """Stop sequences that the client did not ask for."""


class Context(Struct, kw_only=True):
    """Data that the passes of one exchange share."""

    source: str
    target: str
    can: Capabilities
    receipt: Receipt
    tools: dict[str, OriginalTool] = {}
    """Maps the upstream's name of a tool to the client's, for the answer."""
    call_ids: set[str] = set()
    """The ids that the conversation has used. A new call gets another one."""
    source_can: Capabilities = _UNKNOWN
    """The client's dialect: its native keys that no other dialect needs, and its notes."""
    readable: ReadableTypes = {}
    """The source's opaque blocks that other dialects can carry as text: `passes/opaque.py`."""
    slots: StateSlots = StateSlots()
    """The members in which the client carries reasoning state."""
    owner: StateOwner = StateOwner()
    aliased: bool = False
    """The upstream is not the one that the client names: another model, or one configured to differ."""
    carried: bool = False
    """The history holds turns of other vendors, with the state that the client carried for them."""
    limit_is_ours: bool = False
    """The output limit is a default that the wire requires; the client set none."""
    text: TextCallContext | None = None
    """Tool calls as text; None where the model and the history have native ones."""
    shortened: dict[int, tuple[Text, str]] = {}
    """Texts of results that were cut, by their identity, and what the receipt is to say of each that is sent."""
    cache_marks: CacheMarks = "auto"
    """When breakpoints of the prompt cache are set for clients that set none: `passes/cache_marks.py`."""
    prefix_repeats: bool = False
    """The same tools and system text were sent a short time ago."""
    client_marks: bool = False
    """The client sets its own cache breakpoints."""
    features: int = -1
    """The features that the request may have now (`features.py`); all of them unless a plan runs the passes."""
    tool_history: ToolHistory | None = None
    """The calls and results of the messages that were surveyed last."""


RequestPass: TypeAlias = Callable[[Request, Context], Request]
