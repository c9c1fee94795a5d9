"""The dialect record: functions and facts, no base class.

A dialect reads and writes one vendor's wire format and knows no other dialect. It is in `dialects/<name>/`, with the
same file names in every dialect: `dialect.py` has the record, `__init__.py` the manifest, and CONTRIBUTING.md lists the
others. `dialects/__init__.py` is the only registration.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Raw, Struct

from toolglot.errors import CONTEXT_OVERFLOW, ApiError, HttpError, header_value
from toolglot.events import Event
from toolglot.ir import COUNTS, Json, Message, Request, Response, StopReason, replace
from toolglot.models import ModelInfo
from toolglot.readable import ReadableTypes
from toolglot.receipt import Receipt
from toolglot.tokens.media import ImageTokens, tokens_by_area
from toolglot.tools.served import ServedForms
from toolglot.wire.delta_template import DeltaTemplate
from toolglot.wire.framing import EVENTS, Framing


class StreamDecoder(Protocol):
    """Decodes an upstream's bytes to events. The bytes may be split anywhere; the events are the same.

    It never raises on an upstream's data: unreadable data becomes a `Fault`.
    """

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that these bytes complete."""
        ...

    def close(self) -> list[Event]:
        """End the input. Returns the last events, with a `Fault` if the response is incomplete."""
        ...

    @property
    def settled(self) -> bool:
        """Whether the stop reason has come. If nothing follows, not even a proper end, only usage is lost."""
        ...


class StreamEncoder(Protocol):
    """Encodes events to a client's bytes. It may rely on the grammar, with one block open at a time."""

    def feed(self, event: Event) -> bytes:
        """Return the bytes to send now; may be empty."""
        ...

    def keepalive(self) -> bytes:
        """Bytes that this dialect's real clients ignore."""
        ...

    @property
    def text_around(self) -> DeltaTemplate | None:
        """Template for further deltas of the open block; None if a delta needs more work than the template."""
        ...


class AnswerPass(Protocol):
    """Event pass for answers that cannot be decoded without the request."""

    def feed(self, event: Event) -> Sequence[Event]:
        """Return the events that replace this one."""
        ...


class Capabilities(Struct, frozen=True, kw_only=True):
    """What an upstream's dialect can express. Used by the passes and for the table that users see."""

    fields: frozenset[str]
    """Optional fields of `Request` that its wire format has (`temperature`, `seed`, `stop` …)."""
    fields_without_reasoning: frozenset[str] = frozenset()
    """Additional fields that the model accepts only while it does not reason."""
    reasons_by_default: bool = True
    """A reasoning model also reasons if the request has no reasoning settings."""

    name_pattern: str = r"[A-Za-z0-9_-]+"
    name_start: str = r"[A-Za-z0-9_-]"
    name_length: int = 64
    id_pattern: str = r"[A-Za-z0-9_-]+"
    id_length: int = 64
    id_state_mark: str = ""
    """Ids that contain this mark carry reasoning state of the server. They stay whole, whatever their length."""
    ids_required: bool = True

    tool_choices: frozenset[str] = frozenset({"auto", "none", "required", "named", "allowed"})
    """`allowed` is a subset of several tools; the others are the plain modes."""
    allowed_modes: frozenset[str] = frozenset({"auto", "required"})
    """The modes that an allowed subset supports."""
    custom_tools: bool = False
    namespaces: bool = False
    strict_tools: bool = True
    strict_all_required: bool = False
    """Strict tools must require every property and allow no others, as OpenAI demands."""
    deferred_tools: bool = False
    schema: Literal["any", "object", "openapi"] = "object"
    """`any`: parameters may be absent. `object`: a schema with an object at its root is required. `openapi`: only the
    OpenAPI subset that older Gemini endpoints accept."""
    parameters_optional: bool = False
    """With `object`: a tool may also omit its parameters."""
    max_tools: int | None = None

    arguments: Literal["text", "object"] = "text"
    """Wire form of a call's arguments: JSON text, which may be invalid, or an object, which may not."""
    broken_calls: Literal["as_text", "shown", "refused"] = "refused"
    """What a client gets for a streamed call whose arguments are not a JSON object. `as_text`: the arguments unchanged,
    since the wire format has them as text. `shown`: a text instead, since a call is written once it is complete.
    `refused`: an error, since pieces that do not form an object were already sent."""
    incomplete_calls: bool = False
    """A call in an answer can be marked as truncated, regardless of its arguments. So can a call in the history, if
    arguments are text."""
    malformed_call_stop: bool = False
    """Answers have a stop reason for a call that the model's server could not parse."""

    system: Literal["anywhere", "leading", "after_user"] = "anywhere"
    """`leading`: system text only before the conversation; `after_user`: also directly after a user's turn."""
    developer_role: bool = False
    roles_alternate: bool = False
    """Adjacent messages of one role must be merged."""
    calls_in_one_message: bool = True
    """All calls of a turn are in one assistant message."""
    results_role: Literal["user", "tool"] = "tool"
    starts_with_user: bool = False
    needs_message: bool = False
    """System text alone is not enough: there must be another message."""
    prefill: bool = True
    """The conversation may end with an assistant message that the model continues."""
    empty_text: bool = True
    """Empty text blocks are allowed."""

    media_in_user: frozenset[str] = frozenset({"image"})
    media_in_result: frozenset[str] = frozenset()
    media_in_assistant: frozenset[str] = frozenset()
    source_kinds: frozenset[str] = frozenset({"base64", "url", "file"})
    image_types: frozenset[str] | None = None
    """Accepted media types of images; None if unrestricted or unknown."""
    document_types: frozenset[str] | None = None
    """Accepted media types of documents, `text/*` for all text; None if unrestricted or unknown."""
    media_context: bool = False
    """A document can have additional text about it."""
    media_sources: Mapping[str, frozenset[str]] = {}
    """Source kinds by media kind, if they differ from `source_kinds`."""
    result_errors: bool = False
    """A tool result can be marked as an error."""
    citations: bool = False
    thinking: Literal["owned", "text", "none"] = "none"
    """In the history: `owned` accepts only its own signed reasoning, `text` any reasoning text, `none` nothing."""
    refusals: bool = False
    cache_lifetimes: tuple[int, ...] = ()
    """Lifetimes of prompt-cache breakpoints in seconds, the default first; empty if there are no breakpoints."""
    cache_breakpoints: int = 0
    cache_on_parts_only: bool = True
    """Breakpoints are allowed on text and media, not on tools, calls and results."""
    cache_by_control: bool = False
    """Breakpoints are written as `cache_control`, the extension that aggregators have for Claude. They are also allowed
    on texts inside results."""
    cache_by_marks: bool = False
    """Only prefixes that end at a breakpoint are cached."""
    cache_minimum: int = 1024
    """Tokens of the shortest prompt that is cached."""
    cache_settings: frozenset[str] = frozenset()
    """Fields of `PromptCache` that it accepts (`key`, `retention`, `options`), if it caches prompts automatically."""

    efforts: tuple[str, ...] = ()
    """Reasoning efforts from least to most."""
    reasoning_off: bool = True
    reasoning_shown: bool = True
    """A request can say whether the answer should include readable reasoning."""
    reasoning_budget: bool = False
    reasons_by_budget: bool = False
    """It reasons only with a budget, even if it also accepts an effort."""
    min_budget: int | None = None
    """The smallest thinking budget in tokens. The budget must be less than the output limit, or it is rejected."""
    max_budget: int | None = None
    """The largest thinking budget in tokens."""
    reasoning_with_tools: bool = True
    forced_choice_with_reasoning: bool = True
    response_formats: frozenset[str] = frozenset({"text", "json", "json_schema"})
    format_with_tools: bool = True
    """A response format may be combined with tools."""
    max_stop_sequences: int | None = None
    max_temperature: float = 2.0
    min_output_tokens: int = 1
    default_output_tokens: int | None = None
    """Sent if the client set no limit and the wire format requires one."""
    refuses: frozenset[str] = frozenset()
    """Content that the wire format can express but the API rejects: names in `passes/refused.py`."""

    answer_tiers: frozenset[str] = frozenset()
    """Service tiers that its answers can name."""

    rough_stops: Mapping[StopReason, str] = {}
    """Stop reasons that its answers do not have -> the nearest one."""
    stop_details: frozenset[StopReason] = frozenset()
    """Stop reasons that its answers can explain."""
    informational: frozenset[str] = frozenset()
    """Native keys of answers that describe how an answer was made. Dropping them is a note, even if the same key of a
    request is cosmetic."""

    cosmetic: Mapping[str, str] = {}
    """Native keys that no other dialect needs, each with the reason. Receipts do not name them."""
    noted: Mapping[str, str] = {}
    """Native keys that no answer depends on, each with the reason. Dropping them is a note, not a loss."""
    assumed: Mapping[str, tuple[Json, ...]] = {}
    """Values of native keys that are the default in every API. Receipts do not name them."""
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


class ModelRule(Struct, frozen=True):
    """Changed capabilities of models whose name matches `pattern`."""

    pattern: str
    changes: Mapping[str, object]
    why: str


class Counting(Struct, frozen=True, kw_only=True):
    """The endpoint that counts the tokens of a request: client and upstream side."""

    path: Callable[[Request], str]
    """Path of the request, below the base URL."""
    decode_request: Callable[[bytes], Request]
    encode_request: Callable[[Request, Receipt], bytes]
    encode_count: Callable[[int], bytes]
    decode_count: Callable[[bytes], int]
    needs_model: bool = True
    """The API requires a request to name its model."""


def _no_name(body: bytes) -> str:
    return ""


class Listing(Struct, frozen=True, kw_only=True):
    """The endpoint that lists models: client and upstream side."""

    path: str
    """Path of the list, below the base URL; it requests the largest page."""
    encode_models: Callable[[Sequence[ModelInfo], Mapping[str, str]], bytes]
    """Encodes the page that a client's query parameters request."""
    encode_model: Callable[[ModelInfo], bytes]
    decode_models: Callable[[bytes], list[ModelInfo]]
    decode_name: Callable[[bytes], str] = _no_name
    """Reads the model's name from the body of a request for one model, if the name is not in the path."""


class JsonForm(Struct, frozen=True, kw_only=True):
    """JSON form, for people and tools, of a wire format that is not JSON, and the paths of a request's parts in that
    form. `Manifest.json_form` refers to it. The functions raise `DecodeError`."""

    decode_request: Callable[[bytes], Any]
    encode_request: Callable[[Any, list[str] | None], bytes]
    """The list collects the paths of numbers that could not be written exactly."""
    unwrap_request: Callable[[bytes], bytes]
    """Extracts a request from an encoding in which people store it, for example base64."""
    decode_event: Callable[[bytes], Any]
    """Decodes the data of one stream event."""
    noun: str
    """Describes a request on the wire: `a request in protobuf`."""
    command: str
    """The command that prints the JSON form."""
    own_members: frozenset[str]
    """Members of a request that no other dialect has at the same place."""
    tools: tuple[str, ...]
    """Path of the list of tools."""
    results: tuple[str, ...]
    """Path of the list that ends with tool results."""
    before: int
    """Number of elements in that list before a result: the user's message, and the call."""
    history: tuple[str, ...]
    """Members that hold the conversation; the first one is required."""
    wrap_result: Callable[[Any, Raw], Any]
    """Wraps a bare result into an element of that list; returns anything else unchanged."""


def _keep_raw(value: Any, raw: Raw) -> Any:
    return raw


def _refuse_nothing(request: Request) -> ApiError | None:
    return None


def _answer_nothing(request: Request) -> Response | None:
    return None


def _always_false(request: Request) -> bool:
    return False


def _need_nothing() -> None:
    pass


_OVERFLOW_CODE = re.compile(CONTEXT_OVERFLOW.encode())


class RequestShape(Struct, frozen=True, kw_only=True):
    """The members of a request, and its requirements."""

    history_key: str = "messages"
    """The member that holds the conversation."""
    system_key: str | None = None
    """The member that holds system text, if it is separate from the conversation."""
    model_in_path: bool = False
    """The URL, not the body, has the model and whether to stream."""
    needs_model: bool = True
    """The API requires a request to name its model."""
    results_name_tools: bool = False
    """A result must name its tool."""
    wrap_result: Callable[[Any, Raw], Any] = _keep_raw
    """Wraps a bare result (its value, and its JSON) into an element of the history; returns anything else unchanged."""
    refuse_elsewhere: Callable[[Request], ApiError | None] = _refuse_nothing
    """The error, as clients know it, for a request that depends on state that only an upstream of this dialect
    stores."""
    answer_without_model: Callable[[Request], Response | None] = _answer_nothing
    """The answer to a request that concerns only the server, if the model's server speaks another dialect."""
    tool_defaults: Mapping[str, str] = {}
    """Members of a tool that people omit when they write one, each with the value they mean."""
    image_tokens: ImageTokens = tokens_by_area
    """Token cost of an image as the vendor publishes it, for estimates."""


class UnsignedCall(Struct, frozen=True, kw_only=True):
    """An upstream call that must be signed."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    key: str | None
    """The upstream's credential."""


class HeaderRules(Struct, frozen=True, kw_only=True):
    """Headers with a meaning for this dialect's servers and clients. Names are in lower case."""

    key: str = "authorization"
    """The header in which an upstream expects its credential (for `authorization`, with the prefix `Bearer`)."""
    sign: Callable[[UnsignedCall], Mapping[str, str]] | None = None
    """Creates the headers that sign a call, for APIs that require a signature of each request instead of a credential.
    Called for each attempt."""
    sent: Mapping[str, str] = {}
    """Sent to every upstream of this dialect, unless the client overrides them."""
    of_requests: frozenset[str] = frozenset()
    """Client headers that are forwarded only to an upstream of the same dialect."""
    query: tuple[str, ...] = ()
    """The same for query parameters."""
    of_answers: tuple[str, ...] = ()
    """Prefixes of upstream headers that are forwarded only to a client of the same dialect."""

    def select_answer_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Select the headers of an upstream's reply or error that a client of the same dialect gets unchanged."""
        own = self.of_answers
        return {
            name: value for name, value in headers.items() if name.startswith(own) and header_value(value) is not None
        }


class AnswerShape(Struct, frozen=True, kw_only=True):
    """The members of an answer, streamed or not, and what clients need."""

    id_prefix: str = ""
    """Prefix of answer ids."""
    model_places: tuple[tuple[str, ...], ...] = (("model",),)
    """Paths at which a response, or a frame of a stream, names the model."""
    counts: frozenset[str] = frozenset(COUNTS)
    """Counts of `Usage` that clients get."""
    omits_call_ids: Callable[[Request], bool] = _always_false
    """Whether the answer to this request omits call ids."""
    is_call: Callable[[Json], bool] = _always_false
    """Whether a block that was decoded as unknown is a call without a name."""
    tells_stop_sequence: bool = False
    """Answers name the stop sequence that was hit."""
    usage_required: bool = False
    """Clients need token counts, even if the upstream sends none."""
    required_counts: frozenset[str] = frozenset()
    """Counts of `Usage` that the API's types require in a usage object."""
    overflow_words: re.Pattern[bytes] = _OVERFLOW_CODE
    """Pattern in an error's JSON by which clients recognize a context overflow."""


class StreamShape(Struct, frozen=True, kw_only=True):
    """The form of a stream, and what clients need."""

    framing: Framing = EVENTS

    last_event: bytes = b""
    """The final event that clients wait for, and that servers of the same dialect may omit."""
    apart: bytes = b""
    """Prefix of a document that some clients understand only in a separate chunk."""
    calls_wait: bool = False
    """Hold calls, and everything after them, until the end of the stream. Clients keep the calls of a failed stream,
    and run them in addition to the same calls of the retried answer."""
    broken: Literal["error", "cut"] = "error"
    """How to signal a truncated upstream stream to clients: with an error event, or by cutting the connection. The
    choice is the one that makes real clients retry (docs/gateway.md lists what each of them does). An error that the
    upstream itself sends is always an error event."""
    error_codes: frozenset[str] = frozenset()
    """Error codes that streaming clients look for inside a stream, even if nothing came before."""
    early_failures: bool = False
    """If an upstream of this dialect begins its stream with an error, the client also gets it inside its stream, with
    its code. Otherwise the client gets an HTTP status, which clients handle better."""
    note_forwarded: Callable[[StreamEncoder, bytes], None] | None = None
    """Passes a forwarded frame to the encoder, for APIs whose last event repeats earlier content: toolglot may have to
    end the stream with an error of its own."""
    text_of_frame: Callable[[bytes], str | None] | None = None
    """Reads the JSON of a frame that only adds text, reasoning or arguments to a block that already has some; None for
    any other frame."""
    changing_members: tuple[str, ...] = ()
    """Members of such a frame that may change between frames and have no meaning for the decoder."""


class StateSlots(Struct, frozen=True, kw_only=True):
    """Native keys in which clients return opaque reasoning state unchanged."""

    slot: str | None = None
    """The key on a `Thinking` block."""
    call_slot: str | None = None
    """The key on a call, if the vendor's own models put state on calls. Clients that drop reasoning still return it."""
    ends_answers: bool = True
    """Whether an answer may end with a block of state. Claude Code prints the last block if it is a text."""
    details_slot: str | None = None
    """The key of a list of state for the whole answer, with entries in OpenRouter's format (`reasoning_details`)."""


def _keep_request(request: Request, context: object, before: Sequence[Message]) -> Request:
    return request


def _need_no_features(context: Any) -> int:
    return 0


class HistoryDemand(Struct, frozen=True, kw_only=True):
    """Servers' demands on a history whose reasoning is not their own."""

    apply: Callable[[Request, Any, Sequence[Message]], Request] = _keep_request
    """A pass that also gets the messages from before foreign reasoning was removed."""
    triggers: Callable[[Any], int] = _need_no_features
    """The features that it handles (`features.py`), as for `plan.runs_on`."""


NO_DEMAND = HistoryDemand()


class UpstreamRules(Struct, frozen=True, kw_only=True):
    """Special rules for servers of this dialect."""

    forwards: bool = True
    """Bytes may be forwarded unchanged if both sides speak this dialect."""
    answer_pass: Callable[[Request | None, str, Receipt], AnswerPass] | None = None
    """Creates the first event pass for an answer, from the sent request and the name of the client's dialect."""
    answering: Callable[[Dialect, Request], Dialect] | None = None
    """Creates the dialect that decodes the answer to this request, if decoding depends on the request."""
    demand: HistoryDemand = NO_DEMAND
    usual_history: Mapping[str, Any] = {}
    """Default limits of the history: fields of `HistoryPolicy`."""


class Dialect(Struct, frozen=True, kw_only=True):
    """One wire format: client side and upstream side."""

    name: str
    title: str
    decode_request: Callable[[bytes], Request]
    encode_request: Callable[[Request, Receipt], bytes]
    decode_response: Callable[[bytes], Response]
    encode_response: Callable[[Response, Request | None, Receipt], bytes]
    stream_decoder: Callable[[Receipt], StreamDecoder]
    stream_encoder: Callable[[Request | None, Receipt], StreamEncoder]
    decode_error: Callable[[int, Mapping[str, str], bytes], ApiError]
    encode_error: Callable[[ApiError], HttpError]
    path: Callable[[Request], str]
    """Path of the request, below the base URL. It is the full path of a route in the manifest (such as `/v1/messages`),
    so that one gateway can be the upstream of another."""
    can: Capabilities
    models: tuple[ModelRule, ...] = ()
    readable: ReadableTypes = {}
    """Types of `Opaque` blocks whose content can be translated to other dialects."""
    request: RequestShape = RequestShape()
    headers: HeaderRules = HeaderRules()
    answer: AnswerShape = AnswerShape()
    stream: StreamShape = StreamShape()
    state: StateSlots = StateSlots()
    upstream: UpstreamRules = UpstreamRules()
    listing: Listing
    counting: Counting | None = None
    """None if the API has no endpoint that counts tokens."""
    served: ServedForms | None = None
    """Its forms for tools that the gateway runs; None if it has none."""
    ready: Callable[[], None] = _need_nothing
    """Loads the dialect's dependencies. Raises `MissingExtraError` if they are not installed."""

    @property
    def image_tokens(self) -> ImageTokens:
        """Token cost of an image: the documented name of `request.image_tokens`."""
        return self.request.image_tokens


_MOST_KNOWN = 1024
_known: dict[tuple[int, int, str], tuple[Capabilities, tuple[ModelRule, ...], Capabilities]] = {}
"""Cache of capabilities by the `id()` of their records and the model. The records are kept, so that their ids are not
reused."""


def capabilities(dialect: Dialect, model: str) -> Capabilities:
    """Capabilities of a model in this dialect: every matching rule is applied, in order."""
    key = (id(dialect.can), id(dialect.models), model)
    known = _known.get(key)
    if known is not None:
        return known[2]
    can = dialect.can
    for rule in dialect.models:
        if re.search(rule.pattern, model):
            can = replace(can, **rule.changes)
    if len(_known) >= _MOST_KNOWN:  # clients choose the names of models
        _known.clear()
    _known[key] = (dialect.can, dialect.models, can)
    return can
