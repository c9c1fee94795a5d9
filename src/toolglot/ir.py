"""The intermediate representation: the meaning of a conversation, independent of any vendor's format.

Values only. Nothing here decodes, encodes, validates or does I/O, and nothing is changed in place: a pass builds a
changed value with `replace`.

Rules for all code that reads or writes these values:

1. Content is an ordered tuple of blocks, and the order is significant.
2. `native` holds data that only one dialect understands, keyed by that dialect's name: its unknown fields, its
   signatures, its item ids. An encoder reads only its own key. Inside, a key that starts with `$` is a note on the
   shape of the original ("this content was a plain string"), so that a round trip is exact; it carries no meaning.
3. Unknown content is `Opaque`: sent verbatim to its own dialect, a loss elsewhere.
4. `ToolCall.arguments` is JSON text as received, even if it is invalid. It is parsed only if a wire format needs an
   object, and never "repaired".
5. Reasoning state (signatures, encrypted content) is native data like any other: it returns only to its owner.
6. Token counts: `input_tokens` includes cached and cache-written ones, `output_tokens` includes reasoning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

__all__ = [
    "COUNTS",
    "Block",
    "Cache",
    "Citation",
    "Json",
    "Media",
    "MediaKind",
    "Message",
    "Native",
    "Opaque",
    "PromptCache",
    "Reasoning",
    "Refusal",
    "Request",
    "Response",
    "ResponseFormat",
    "Source",
    "Stop",
    "StopReason",
    "Text",
    "Thinking",
    "TokenLogprob",
    "Tool",
    "ToolCall",
    "ToolChoice",
    "ToolKind",
    "ToolResult",
    "Usage",
    "native_of",
    "replace",
    "with_native",
]

Json: TypeAlias = Any
"""A parsed JSON value."""

Native: TypeAlias = dict[str, dict[str, Any]]
"""Dialect name -> fields of a node that only that dialect understands."""

MediaKind = Literal["image", "document", "audio", "video"]
ToolKind = Literal["function", "custom"]
StopReason = Literal[
    "end",  # the model finished its turn
    "stop_sequence",  # it wrote one of the stop sequences
    "tool_calls",  # it waits for tool results
    "length",  # the output limit cut it
    "context_full",  # the context window cut it
    "refusal",  # the model declined
    "filtered",  # a safety filter cut it
    "pause",  # a server-side tool loop paused; send the turn back to go on
    "malformed_call",  # the model tried a call that its server did not accept
    "other",
]


# Immutable values cannot form reference cycles, so the garbage collector need not track them (`gc=False`). A long
# history has hundreds of thousands of them, and a collection that scans them all would pause the process.
class Node(Struct, frozen=True, kw_only=True, gc=False):
    """Base of all nodes of the tree."""

    native: Native = {}


class Cache(Struct, frozen=True, gc=False):
    """A prompt-cache breakpoint after this node. `seconds` is the requested lifetime; None leaves it to the server.
    `by_control`: Chat Completions writes it as `cache_control`, which servers of several vendors support, and not in
    the form that only OpenAI's newer models support."""

    seconds: int | None = None
    by_control: bool = False


class PromptCache(Struct, frozen=True, gc=False):
    """Settings for automatic prompt caching.

    Requests with the same `key` share a cache. `retention` is how long prefixes may stay (`in_memory`, `24h`).
    `options` are OpenAI's, from GPT-5.6 on (`mode`, `ttl` …).
    """

    key: str | None = None
    retention: str | None = None
    options: Json = None


class Citation(Node, frozen=True, kw_only=True):
    """A source that supports a span of text. Wire formats differ too much for more than this common core."""

    url: str | None = None
    title: str | None = None
    quote: str | None = None
    start: int | None = None
    end: int | None = None


class Source(Struct, frozen=True, gc=False):
    """The source of media. `data` is the base64 text, the URL, the vendor's file id or the plain text."""

    kind: Literal["base64", "url", "file", "text"]
    data: str
    media_type: str | None = None


class TokenLogprob(Struct, frozen=True, kw_only=True, gc=False):
    """A token of an answer and its log probability. `bytes` and `id` are set if the wire format has them; `top` lists
    the most likely tokens at this position."""

    token: str
    logprob: float
    bytes: tuple[int, ...] | None = None
    id: int | None = None
    top: tuple[TokenLogprob, ...] = ()


class Text(Node, frozen=True, tag="text", kw_only=True):
    """Text of a message.

    `new_message`: the text begins another message of the same answer. Adjacent texts without this mark are pieces of
    one text. `logprobs` are the log probabilities of its tokens, if requested.
    """

    text: str
    citations: tuple[Citation, ...] = ()
    cache: Cache | None = None
    new_message: bool = False
    logprobs: tuple[TokenLogprob, ...] = ()


class Media(Node, frozen=True, tag="media", kw_only=True):
    """An image, a document, audio or video. `context` is additional text about a document for the model."""

    kind: MediaKind
    source: Source
    name: str | None = None
    context: str | None = None
    detail: str | None = None
    cache: Cache | None = None


class Thinking(Node, frozen=True, tag="thinking", kw_only=True):
    """Reasoning. `text` may be empty: then all content is the owner's opaque state in `native` (redacted)."""

    text: str = ""
    cache: Cache | None = None


class Refusal(Node, frozen=True, tag="refusal", kw_only=True):
    text: str


class ToolCall(Node, frozen=True, tag="tool_call", kw_only=True):
    """A call of a tool by the model.

    `arguments` is JSON text for a function and free text for a custom tool.

    `complete` is False if the stream or the output limit truncated the call: such a call must not be run. An empty `id`
    means that the wire had none; `passes/ids.py` derives one.
    """

    id: str
    name: str
    arguments: str = ""
    kind: ToolKind = "function"
    namespace: str | None = None
    complete: bool = True
    cache: Cache | None = None


class ToolResult(Node, frozen=True, tag="tool_result", kw_only=True):
    """The result of a tool call. `is_error` is None if the wire format has no such flag. `name` is the tool's name, if
    the wire format has it."""

    call_id: str
    content: tuple[Block, ...] = ()
    name: str | None = None
    kind: ToolKind = "function"
    is_error: bool | None = None
    cache: Cache | None = None


class Opaque(Struct, frozen=True, tag="opaque", gc=False):
    """A block, tool or item that only `dialect` understands, verbatim."""

    dialect: str
    value: Json

    @property
    def native(self) -> Native:
        return {}


Block: TypeAlias = Text | Media | Thinking | Refusal | ToolCall | ToolResult | Opaque


class Message(Node, frozen=True, kw_only=True):
    """A message of a conversation.

    `role` is system, developer, user, assistant or tool; an unknown role is kept.

    Tool results are in messages of role `tool` or `user`, as in the wire format. System text keeps its position: a
    leading run of system messages is the system prompt.
    """

    role: str
    content: tuple[Block, ...] = ()


class Tool(Node, frozen=True, kw_only=True):
    """A tool that the model may call.

    `parameters` is a JSON Schema; None if the wire had none. `format` is a custom tool's text or grammar format.

    `deferred`: the tool is defined, but not offered until something refers to it.
    """

    name: str
    description: str | None = None
    parameters: Json = None
    kind: ToolKind = "function"
    format: Json = None
    strict: bool | None = None
    namespace: str | None = None
    deferred: bool = False
    cache: Cache | None = None


class ToolChoice(Node, frozen=True, kw_only=True):
    """The request's choice of tools.

    `names` narrows the choice: `required` with one name forces that tool, more names are an allowed subset.

    Mode `opaque` is a choice that only one dialect understands (a hosted tool); its wire form is in `native`.
    """

    mode: Literal["auto", "none", "required", "opaque"]
    names: tuple[str, ...] = ()


class ResponseFormat(Node, frozen=True, kw_only=True):
    kind: Literal["text", "json", "json_schema"]
    schema: Json = None
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


class Reasoning(Node, frozen=True, kw_only=True):
    """Settings of reasoning. `mode`: `on` with an optional budget, `off`, or `auto` (the model decides). `show`: the
    client wants readable text."""

    mode: Literal["on", "off", "auto"] | None = None
    effort: str | None = None
    budget_tokens: int | None = None
    show: bool | None = None


class Request(Node, frozen=True, kw_only=True):
    model: str
    messages: tuple[Message, ...] = ()
    tools: tuple[Tool | Opaque, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stop: tuple[str, ...] = ()
    candidates: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    response_format: ResponseFormat | None = None
    reasoning: Reasoning | None = None
    verbosity: str | None = None
    user: str | None = None
    legacy_user: str | None = None
    """OpenAI's deprecated `user`, if the request also has a `safety_identifier`, which becomes `user` here."""
    metadata: dict[str, str] | None = None
    service_tier: str | None = None
    store: bool | None = None
    moderation: dict[str, Json] | None = None
    """Moderation settings, as in OpenAI's APIs."""
    cache: Cache | None = None
    prompt_cache: PromptCache | None = None
    stream: bool = False


class Stop(Struct, frozen=True, gc=False):
    """Why the model stopped: the normalized reason, the wire's value in `raw`, the stop sequence, an explanation."""

    reason: StopReason
    raw: str | None = None
    sequence: str | None = None
    detail: str | None = None


class Usage(Node, frozen=True, kw_only=True):
    """Token counts. None is a count that the upstream did not report, which is not the same as 0.

    `cache_write_long_tokens` is the part of `cache_write_tokens` with the longer of the vendor's two lifetimes, which
    costs more: an hour instead of five minutes (Anthropic), twelve hours instead of thirty minutes (OpenAI)."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_long_tokens: int | None = None
    reasoning_tokens: int | None = None
    is_split_estimated: bool = False
    """True if the upstream reported only the total; the split into input and output is an estimate."""


COUNTS = (
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "cache_write_long_tokens",
    "reasoning_tokens",
)
"""The fields of `Usage` that count tokens."""


def used_by_both(first: Usage | None, second: Usage | None) -> Usage | None:
    """Sum the usage of two answers. The native fields of each are dropped, because they are not sums."""
    if first is None or second is None:
        return first or second
    counts: dict[str, Any] = {name: sum_counts(getattr(first, name), getattr(second, name)) for name in COUNTS}
    return Usage(**counts, is_split_estimated=first.is_split_estimated or second.is_split_estimated)


def usage_after(whole: Usage | None, first: Usage | None) -> Usage | None:
    """Return the usage of the second of two answers, from that of both and that of the first: undoes `used_by_both`."""
    if whole is None or first is None:
        return whole
    counts: dict[str, Any] = {}
    for name in COUNTS:
        total, before = getattr(whole, name), getattr(first, name)
        counts[name] = total if total is None or before is None else total - before
    return Usage(**counts, is_split_estimated=whole.is_split_estimated)


def format_tokens(usage: Usage) -> str:
    """Format input and output counts: `12+7 tokens`."""
    counts = (usage.input_tokens, usage.output_tokens)
    return "+".join("?" if count is None else str(count) for count in counts) + " tokens"


def sum_counts(*counts: int | None) -> int | None:
    """Sum the reported counts; None if none was reported."""
    reported = [count for count in counts if count is not None]
    return sum(reported) if reported else None


class Response(Node, frozen=True, kw_only=True):
    """A whole answer. `created` and `completed` are in Unix seconds. `service_tier` is the tier that served the
    request, with OpenAI's names."""

    id: str = ""
    model: str = ""
    content: tuple[Block, ...] = ()
    stop: Stop = Stop("end")
    usage: Usage | None = None
    created: int | None = None
    completed: int | None = None
    service_tier: str | None = None


_NOTHING: Mapping[str, Any] = {}

N = TypeVar("N", bound=Node)


def native_of(node: Node | Opaque, dialect: str) -> Mapping[str, Any]:
    """Return the native fields of `dialect` on this node; empty if there are none."""
    native = node.native
    return native.get(dialect, _NOTHING) if native else _NOTHING


def with_native(node: N, dialect: str, **fields: Any) -> N:
    """Add native fields of `dialect` to a node."""
    if not fields:
        return node
    merged = {**node.native.get(dialect, {}), **fields}
    return replace(node, native={**node.native, dialect: merged})


OURS = "toolglot"
"""The owner of toolglot's own marks on nodes; no encoder reads it."""
INSTRUCTION: Native = {OURS: {"$instruction": True}}
"""Mark of an instruction that toolglot inserted as user text. The client did not send it, and will not send it back."""


def is_instruction(block: Block) -> bool:
    return "$instruction" in native_of(block, OURS)


CONTINUES: Native = {OURS: {"$continues": True}}
"""Mark of a tool result that another one of the same call follows."""


def continues(result: ToolResult) -> bool:
    return "$continues" in native_of(result, OURS)
