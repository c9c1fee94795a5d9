"""What an upstream's dialect can express, by concept: `can.tools.max_count`, `can.cache.breakpoints`.

Each field also has a flat public name, which configurations (`quirks`), `ModelRule.changes`, recordings and `toolglot
dialects --json` use. It is the field's own name, unless the `rename` of its record gives another one. `PLACES` is the
table of all public names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_type_hints

from msgspec import Struct
from msgspec.structs import astuple, replace

from toolglot.ir import Json, StopReason


def _prefix(prefix: str) -> Callable[[str], str]:
    return lambda field: prefix + field


class ParameterCapabilities(Struct, frozen=True, kw_only=True):
    """Optional fields of a request."""

    fields: frozenset[str] = frozenset()
    """Optional fields of `Request` that its wire format has (`temperature`, `seed`, `stop` …)."""
    fields_without_reasoning: frozenset[str] = frozenset()
    """Additional fields that the model accepts only while it does not reason."""
    response_formats: frozenset[str] = frozenset({"text", "json", "json_schema"})
    format_with_tools: bool = True
    """A response format may be combined with tools."""


class RequestLimits(Struct, frozen=True, kw_only=True, rename={"refused_content": "refuses"}):
    """Limits of a request's values. The limits of tools, names and reasoning budgets are in their own records."""

    max_stop_sequences: int | None = None
    max_temperature: float = 2.0
    min_output_tokens: int = 1
    default_output_tokens: int | None = None
    """Sent if the client set no limit and the wire format requires one."""
    context_window: int | None = None
    """Tokens of context to ask the server for, if the client asks for none."""
    window_member: tuple[str, str] | None = None
    """The object of a request and its member that set the context window; None if the wire format has none."""
    refused_content: frozenset[str] = frozenset()
    """Content that the wire format can express but the API rejects: names in `passes/refused.py`."""


class ToolNameRules(
    Struct,
    frozen=True,
    kw_only=True,
    rename={"pattern": "name_pattern", "start": "name_start", "max_length": "name_length"},
):
    """The form of tool names."""

    pattern: str = r"[A-Za-z0-9_-]+"
    start: str = r"[A-Za-z0-9_-]"
    max_length: int = 64


class CallIdRules(
    Struct,
    frozen=True,
    kw_only=True,
    rename={
        "pattern": "id_pattern",
        "max_length": "id_length",
        "form": "id_form",
        "state_mark": "id_state_mark",
        "numbered_parts": "id_numbered_parts",
        "required": "ids_required",
    },
):
    """The form of call ids."""

    pattern: str = r"[A-Za-z0-9_-]+"
    max_length: int = 64
    form: str = ""
    """The only form of ids, by the tool's name and the call's number in the conversation:
    `functions.{name}:{number}`. Empty if any id that matches the pattern is accepted."""
    state_mark: str = ""
    """Ids that contain this mark carry reasoning state of the server. They stay whole, regardless of their length."""
    numbered_parts: bool = False
    """Clients take the call `a_1` for a part of the call `a`, if a conversation has both."""
    required: bool = True


class ToolCapabilities(
    Struct,
    frozen=True,
    kw_only=True,
    rename={
        "choices": "tool_choices",
        "custom": "custom_tools",
        "strict": "strict_tools",
        "deferred": "deferred_tools",
        "max_count": "max_tools",
    },
):
    """Tool definitions and the tool choice."""

    choices: frozenset[str] = frozenset({"auto", "none", "required", "named", "allowed"})
    """`allowed` is a subset of several tools; the others are the plain modes."""
    allowed_modes: frozenset[str] = frozenset({"auto", "required"})
    """The modes that an allowed subset supports."""
    custom: bool = False
    namespaces: bool = False
    strict: bool = True
    strict_all_required: bool = False
    """Strict tools must require every property and allow no others, as OpenAI demands."""
    deferred: bool = False
    schema: Literal["any", "object", "openapi"] = "object"
    """`object`: the root must be an object, without combinations of schemas. `openapi`: the same, in the OpenAPI subset
    that older Gemini endpoints accept. `any`: no restrictions."""
    parameters_optional: bool = False
    """A tool may also omit its parameters."""
    array_items: bool = False
    """Every array in a tool's schema must have `items`."""
    property_pattern: str = ""
    """Pattern of the names of a tool's parameters; empty if any name is accepted."""
    max_count: int | None = None


class CallCapabilities(
    Struct,
    frozen=True,
    kw_only=True,
    rename={"broken": "broken_calls", "incomplete": "incomplete_calls", "in_one_message": "calls_in_one_message"},
):
    """Tool calls and their results."""

    arguments: Literal["text", "object"] = "text"
    """Wire form of a call's arguments: JSON text, which may be invalid, or an object, which may not."""
    broken: Literal["as_text", "shown", "refused"] = "refused"
    """What a client gets for a streamed call whose arguments are not a JSON object. `as_text`: the arguments unchanged,
    since the wire format has them as text. `shown`: a text instead, since a call is written once it is complete.
    `refused`: an error, since pieces that do not form an object were already sent."""
    incomplete: bool = False
    """A call in an answer can be marked as truncated, regardless of its arguments. So can a call in the history, if
    arguments are text."""
    in_one_message: bool = True
    """All calls of a turn are in one assistant message."""
    results_role: Literal["user", "tool"] = "tool"
    result_errors: bool = False
    """A tool result can be marked as an error."""


class MessageCapabilities(Struct, frozen=True, kw_only=True):
    """Roles, the order of messages, and text content."""

    system: Literal["anywhere", "leading", "first", "after_user"] = "anywhere"
    """`leading`: system text only before the conversation; `first`: the same, in a single message; `after_user`: also
    directly after a user's turn."""
    developer_role: bool = False
    roles_alternate: bool = False
    """Adjacent messages of one role must be merged."""
    starts_with_user: bool = False
    needs_message: bool = False
    """System text alone is not enough: there must be another message."""
    prefill: bool = True
    """The conversation may end with an assistant message that the model continues."""
    empty_text: bool = True
    """Empty text blocks are allowed."""
    citations: bool = False
    refusals: bool = False


class MediaCapabilities(
    Struct,
    frozen=True,
    kw_only=True,
    rename={
        "in_user": "media_in_user",
        "in_result": "media_in_result",
        "in_assistant": "media_in_assistant",
        "context": "media_context",
        "source_kinds_by_media": "media_sources",
    },
):
    """Images, documents, audio and video."""

    in_user: frozenset[str] = frozenset({"image"})
    in_result: frozenset[str] = frozenset()
    in_assistant: frozenset[str] = frozenset()
    source_kinds: frozenset[str] = frozenset({"base64", "url", "file"})
    source_kinds_by_media: Mapping[str, frozenset[str]] = {}
    """Source kinds by media kind, if they differ from `source_kinds`."""
    image_types: frozenset[str] | None = None
    """Accepted media types of images; None if unrestricted or unknown."""
    document_types: frozenset[str] | None = None
    """Accepted media types of documents, `text/*` for all text; None if unrestricted or unknown."""
    context: bool = False
    """A document can have additional text about it."""
    url_schemes: frozenset[str] | None = None
    """Schemes of the URLs that media may have; None if unrestricted or unknown."""
    file_store: str = ""
    """The vendor's store of files. Dialects with the same store know the same file ids; empty if no other has it."""


class CacheCapabilities(Struct, frozen=True, kw_only=True, rename=_prefix("cache_")):
    """The prompt cache."""

    lifetimes: tuple[int, ...] = ()
    """Lifetimes of prompt-cache breakpoints in seconds, the default first; empty if there are no breakpoints."""
    breakpoints: int = 0
    on_parts_only: bool = True
    """Breakpoints are allowed on text and media, not on tools, calls and results."""
    by_control: bool = False
    """Breakpoints are written as `cache_control`, the extension that aggregators have for Claude. They are also allowed
    on texts inside results."""
    by_marks: bool = False
    """Only prefixes that end at a breakpoint are cached."""
    minimum: int = 1024
    """Tokens of the shortest prompt that is cached."""
    settings: frozenset[str] = frozenset()
    """Fields of `PromptCache` that it accepts (`key`, `retention`, `options`), if it caches prompts automatically."""


class ReasoningCapabilities(
    Struct,
    frozen=True,
    kw_only=True,
    rename={
        "in_history": "thinking",
        "on_by_default": "reasons_by_default",
        "can_disable": "reasoning_off",
        "can_hide": "reasoning_shown",
        "budget": "reasoning_budget",
        "needs_budget": "reasons_by_budget",
        "with_tools": "reasoning_with_tools",
        "with_forced_choice": "forced_choice_with_reasoning",
    },
):
    """Reasoning settings of a request, and reasoning in the history."""

    in_history: Literal["owned", "text", "none"] = "none"
    """In the history: `owned` accepts only its own signed reasoning, `text` any reasoning text, `none` nothing."""
    on_by_default: bool = True
    """A reasoning model also reasons if the request has no reasoning settings."""
    efforts: tuple[str, ...] = ()
    """Reasoning efforts from least to most."""
    can_disable: bool = True
    can_hide: bool = True
    """A request can say whether the answer should include readable reasoning."""
    budget: bool = False
    """A request can set a thinking budget in tokens."""
    needs_budget: bool = False
    """It reasons only with a budget, even if it also accepts an effort."""
    min_budget: int | None = None
    """The smallest thinking budget in tokens. The budget must be less than the output limit, or it is rejected."""
    max_budget: int | None = None
    """The largest thinking budget in tokens."""
    with_tools: bool = True
    with_forced_choice: bool = True
    """A request with reasoning may force a tool choice."""


class AnswerCapabilities(Struct, frozen=True, kw_only=True, rename={"tiers": "answer_tiers"}):
    """Answers to clients."""

    tiers: frozenset[str] = frozenset()
    """Service tiers that its answers can name."""
    rough_stops: Mapping[StopReason, str] = {}
    """Stop reasons that its answers do not have -> the nearest one."""
    stop_details: frozenset[StopReason] = frozenset()
    """Stop reasons that its answers can explain."""
    malformed_call_stop: bool = False
    """Answers have a stop reason for a call that the model's server could not parse."""


class ReceiptRules(Struct, frozen=True, kw_only=True):
    """How receipts treat the dialect's native keys that another dialect does not have."""

    cosmetic: Mapping[str, str] = {}
    """Native keys that no other dialect needs, each with the reason. Receipts do not name them."""
    noted: Mapping[str, str] = {}
    """Native keys that no answer depends on, each with the reason. Dropping them is a note, not a loss."""
    assumed: Mapping[str, tuple[Json, ...]] = {}
    """Values of native keys that are the default in every API. Receipts do not name them."""
    informational: frozenset[str] = frozenset()
    """Native keys of answers that describe how an answer was made. Dropping them is a note, even if the same key of a
    request is cosmetic."""
    reasoning_members: frozenset[str] = frozenset()
    """Native keys that hold the text or state of reasoning. The passes that carry reasoning report them."""
    containers: frozenset[str] = frozenset()
    """Native keys that hold the remaining members of a wire object. Receipts name these members."""
    request_paths: Mapping[str, str] = {}
    """Native keys of requests that are not wire names -> the path that receipts show instead; empty if their members
    are siblings of the other members."""
    answer_paths: Mapping[str, str] = {}
    """The same for answers."""
    further_answers: str = ""
    """Native key of the answers after the first one."""


class Capabilities(Struct, frozen=True, kw_only=True):
    """What an upstream's dialect can express. Used by the passes and for the table that users see."""

    parameters: ParameterCapabilities = ParameterCapabilities()
    limits: RequestLimits = RequestLimits()
    names: ToolNameRules = ToolNameRules()
    ids: CallIdRules = CallIdRules()
    tools: ToolCapabilities = ToolCapabilities()
    calls: CallCapabilities = CallCapabilities()
    messages: MessageCapabilities = MessageCapabilities()
    media: MediaCapabilities = MediaCapabilities()
    cache: CacheCapabilities = CacheCapabilities()
    reasoning: ReasoningCapabilities = ReasoningCapabilities()
    answers: AnswerCapabilities = AnswerCapabilities()
    receipt: ReceiptRules = ReceiptRules()


RECORDS: Mapping[str, type[Struct]] = {
    concept: type(record)
    for concept, record in zip(Capabilities.__struct_fields__, astuple(Capabilities()), strict=True)
}
"""Fields of `Capabilities` -> their records."""

PLACES: Mapping[str, tuple[str, str]] = {
    public_name: (concept, field)
    for concept, record in RECORDS.items()
    for public_name, field in zip(record.__struct_encode_fields__, record.__struct_fields__, strict=True)
}
"""Public names -> the record and the field: `max_tools` is `can.tools.max_count`."""


def read_capability(can: Capabilities, public_name: str) -> Any:
    """Return the capability with this public name."""
    concept, field = PLACES[public_name]
    return getattr(getattr(can, concept), field)


def find_capability_type(public_name: str) -> Any:
    """Return the type of the capability with this public name."""
    concept, field = PLACES[public_name]
    return get_type_hints(RECORDS[concept])[field]


def change_capabilities(can: Capabilities, **changes: object) -> Capabilities:
    """Return the capabilities with these changes, by public names. Raises `TypeError` for an unknown name."""
    changed: dict[str, dict[str, object]] = {}
    for public_name, value in changes.items():
        if public_name not in PLACES:
            raise TypeError(f"unknown capability `{public_name}`")
        concept, field = PLACES[public_name]
        changed.setdefault(concept, {})[field] = value
    return replace(can, **{concept: replace(getattr(can, concept), **fields) for concept, fields in changed.items()})
