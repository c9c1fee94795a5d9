"""Passes: pure rewrites between decoding and encoding.

A request pass takes a `Request` and the `Context` of its exchange. It returns a `Request` that is one step closer to
what the target can express, and it records every change in the receipt. Passes are idempotent: a second run changes
nothing. Event passes do the same for the response stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from toolglot.capabilities import Capabilities
from toolglot.dialect import StateSlots
from toolglot.ir import Json, Message, Request, Text, ToolKind
from toolglot.passes.argument_form import ArgumentForm
from toolglot.readable import ReadableTypes
from toolglot.receipt import Receipt

if TYPE_CHECKING:
    from toolglot.passes.tool_history import ToolHistory
    from toolglot.textcalls.settings import TextCalls
    from toolglot.textcalls.unescape import Escapes


CacheMarks = Literal["auto", "always", "never"]
"""When to set prompt-cache breakpoints for clients that set none. `auto` sets them in tool loops and for prompts whose
prefix repeats."""


_UNKNOWN = Capabilities()


class OriginalTool(Struct, frozen=True):
    """The client's definition of a tool that the upstream sees under another name or in another form."""

    name: str
    namespace: str | None = None
    kind: ToolKind = "function"
    form: ArgumentForm | None = None
    """The form of its arguments upstream, if it differs."""

    @property
    def is_plain(self) -> bool:
        """Whether the tool is a function without a namespace, with arguments in the client's form."""
        return self.kind == "function" and self.namespace is None and self.form is None


def find_original(tools: Mapping[str, OriginalTool], name: str) -> OriginalTool | None:
    """Find the client's tool for a name in an answer: the upstream's name, or that name with parts of the model's own
    call format that its server failed to remove (vllm #32587: `weather<|channel|>commentary`)."""
    return tools.get(name) or (tools.get(_bare_name(name)) if tools else None)


_PREFIXES = ("functions.", "function.", "default_api:", "default_api.")
"""Namespaces that gpt-oss, Kimi and Gemini see before the names of functions."""


def _bare_name(name: str) -> str:
    bare = name.partition("<|")[0].strip()
    for prefix in _PREFIXES:
        bare = bare.removeprefix(prefix)
    before, colon, number = bare.rpartition(":")
    return before if colon and number.isdecimal() else bare


class StateOwner(Struct, frozen=True):
    """The server and model that accept the returned reasoning state."""

    issuer: str = ""
    is_bound: bool = False
    """True if the server is known, so state returns only to it."""
    accepts: frozenset[str] = frozenset()
    """Other issuers whose state it also accepts."""

    @property
    def bound_to(self) -> str:
        """The only issuer whose state the client may return; empty if state of any issuer is accepted."""
        return self.issuer if self.is_bound else ""


class TextCallContext(Struct, kw_only=True):
    """Tool calls as text in one exchange: the settings, and the facts that request passes record for the answer's
    parser."""

    calls: TextCalls | None = None
    """How the model writes calls as text; None if it has native calls."""
    history_format: str | None = None
    """The text format of calls in the client's history."""
    tools: dict[str, Json] | None = None
    """Tools that the answer's text may call, with their schemas; None if the text is not searched for calls."""
    call_count: int = 0
    """The number of calls before the answer."""
    is_in_reasoning: bool = False
    """True if the request ends inside reasoning, which the answer continues."""
    client_messages: tuple[Message, ...] = ()
    """The conversation as the client sent it."""
    escapes: Escapes | None = None
    """Text that was escaped in the request, used to unescape the answer."""
    added_stops: tuple[str, ...] = ()
    """Stop sequences that toolglot added to the client's."""


class Context(Struct, kw_only=True):
    """Data that the passes of one exchange share."""

    source: str
    target: str
    can: Capabilities
    receipt: Receipt
    tools: dict[str, OriginalTool] = {}
    """Maps the upstream's name of a tool to the client's definition, to restore calls in the answer."""
    call_ids: set[str] = set()
    """Call ids that the conversation already uses. A new call gets a different id."""
    source_can: Capabilities = _UNKNOWN
    """Capabilities of the client's dialect, for the keys of its `native` fields (`cosmetic`, `noted`, `containers`)."""
    readable: ReadableTypes = {}
    """Opaque block types of the source that other dialects can carry as text: `passes/opaque.py`."""
    slots: StateSlots = StateSlots()
    """The members in which the client carries reasoning state."""
    owner: StateOwner = StateOwner()
    aliased: bool = False
    """True if the upstream's model differs from the one the client requested: another model, or configured
    capabilities."""
    carried: bool = False
    """True if the history contains turns of other vendors, with the state that the client carried for them."""
    joined_answers: frozenset[int] = frozenset()
    """Numbers of the client's answers that were merged into the previous answer."""
    limit_is_ours: bool = False
    """True if the output limit is a default that the wire format requires; the client set none."""
    text: TextCallContext | None = None
    """Tool calls as text; None if the model and the history have native calls."""
    shortened: dict[int, tuple[Text, str]] = {}
    """Shortened result texts by `id()`, each with its receipt entry. Only texts that are sent are reported."""
    cache_marks: CacheMarks = "auto"
    """When to set prompt-cache breakpoints for clients that set none: `passes/cache_marks.py`."""
    prefix_repeats: bool = False
    """True if the same tools and system text were sent recently."""
    client_marks: bool = False
    """True if the client sets its own cache breakpoints."""
    features: int = -1
    """Features that the request may currently have (`features.py`); all of them unless a plan runs the passes."""
    tool_history: ToolHistory | None = None
    """Calls and results of the most recently scanned messages."""


RequestPass: TypeAlias = Callable[[Request, Context], Request]
