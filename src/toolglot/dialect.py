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

from toolglot.capabilities import Capabilities, change_capabilities
from toolglot.errors import CONTEXT_OVERFLOW, ApiError, HttpError, header_value
from toolglot.events import Event
from toolglot.ir import COUNTS, Json, Message, Request, Response
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
        """Whether the stop reason has arrived. If nothing follows, not even a proper end, only usage is lost."""
        ...


class StreamEncoder(Protocol):
    """Encodes events to a client's bytes. It may rely on the grammar, with one block open at a time."""

    def feed(self, event: Event) -> bytes:
        """Return the bytes to send now; may be empty."""
        ...

    def keepalive(self) -> bytes:
        """Return the bytes that this dialect's real clients ignore."""
        ...

    @property
    def delta_template(self) -> DeltaTemplate | None:
        """Template for further deltas of the open block; None if a delta needs more work than the template."""
        ...


class AnswerPass(Protocol):
    """Event pass for answers that cannot be decoded without the request."""

    def feed(self, event: Event) -> Sequence[Event]:
        """Return the events that replace this one."""
        ...


class ModelRule(Struct, frozen=True):
    """Changed capabilities of models whose name matches `pattern`."""

    pattern: str
    changes: Mapping[str, object]
    """Public names of capabilities (`toolglot.capabilities.PLACES`) -> the values of these models."""
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
    """True if the API requires a request to name its model."""


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
    """True if the URL, not the body, has the model and whether to stream."""
    needs_model: bool = True
    """True if the API requires a request to name its model."""
    results_name_tools: bool = False
    """True if a result must name its tool."""
    wrap_result: Callable[[Any, Raw], Any] = _keep_raw
    """Wraps a bare result (its value, and its JSON) into an element of the history; returns anything else unchanged."""
    refuse_elsewhere: Callable[[Request], ApiError | None] = _refuse_nothing
    """The error, as clients know it, for a request that depends on state that only an upstream of this dialect
    stores."""
    answer_without_model: Callable[[Request], Response | None] | None = None
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
    request_headers: frozenset[str] = frozenset()
    """Client headers that are forwarded only to an upstream of the same dialect."""
    query: tuple[str, ...] = ()
    """The same for query parameters."""
    answer_prefixes: tuple[str, ...] = ()
    """Prefixes of upstream headers that are forwarded only to a client of the same dialect."""
    request_id: str = ""
    """The header in which its SDKs read the id of a request, unless that is `x-request-id`."""

    def select_answer_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Select the headers of an upstream's reply or error that a client of the same dialect gets unchanged."""
        own = self.answer_prefixes
        return {
            name: value for name, value in headers.items() if name.startswith(own) and header_value(value) is not None
        }


class AnswerShape(Struct, frozen=True, kw_only=True):
    """Form of a dialect's answers, with and without streaming: their members, and what clients require."""

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
    side_members: frozenset[str] = frozenset()
    """Names of members that are not essential to an answer. Values of a wrong type are omitted."""
    names_stop_sequence: bool = False
    """True if answers name the stop sequence that was hit."""
    usage_required: bool = False
    """True if clients need token counts, even if the upstream sends none."""
    required_counts: frozenset[str] = frozenset()
    """Counts of `Usage` that the API's types require in a usage object."""
    overflow_words: re.Pattern[bytes] = _OVERFLOW_CODE
    """Pattern in an error's JSON by which clients recognize a context overflow."""


class StreamShape(Struct, frozen=True, kw_only=True):
    """The form of a stream, and the needs of clients."""

    framing: Framing = EVENTS

    last_event: bytes = b""
    """The final event that clients wait for, and that servers of the same dialect may omit."""
    apart: bytes = b""
    """Prefix of a document that some clients understand only in a separate chunk."""
    holds_calls: bool = False
    """Hold calls, and everything after them, until the end of the stream. Clients keep the calls of a failed stream,
    and run them in addition to the same calls of the retried answer."""
    broken: Literal["error", "cut"] = "error"
    """How to signal a truncated upstream stream to clients: with an error event, or by cutting the connection. The
    choice is the one that makes real clients retry (docs/gateway.md lists what each of them does). An error that the
    upstream itself sends is always an error event."""
    error_codes: frozenset[str] = frozenset()
    """Error codes that streaming clients look for inside a stream, even if nothing came before."""
    early_failures: bool = False
    """True if a client gets an error at the start of an upstream's stream inside its own stream, with the error's code.
    Otherwise the client gets an HTTP status, which clients handle better."""
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
    """The pass. It also gets the messages before the removal of foreign reasoning."""
    triggers: Callable[[Any], int] = _need_no_features
    """The features that it handles (`features.py`), as for `plan.runs_on`."""


NO_DEMAND = HistoryDemand()


class UpstreamRules(Struct, frozen=True, kw_only=True):
    """Special rules for servers of this dialect."""

    forwards: bool = True
    """True if bytes may be forwarded unchanged when both sides speak this dialect."""
    answer_pass: Callable[[Request | None, str, Receipt], AnswerPass] | None = None
    """Creates the first event pass for an answer, from the sent request and the name of the client's dialect."""
    answering: Callable[[Dialect, Request], Dialect] | None = None
    """Creates the dialect that decodes the answer to this request, if decoding depends on the request."""
    demand: HistoryDemand = NO_DEMAND
    other_forms: frozenset[str] = frozenset()
    """Native notes on content in the form of another API: `passes/foreign_forms.py`."""
    default_history: Mapping[str, Any] = {}
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
    """Path of the request, below the base URL. It is the full path of a route in the manifest (`/v1/messages`),
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


_MAX_CACHED = 1024
_cached: dict[tuple[int, int, str], tuple[Capabilities, tuple[ModelRule, ...], Capabilities]] = {}
"""Cache of capabilities by the `id()` of their records and the model. The records are kept, so that their ids are not
reused."""


def capabilities(dialect: Dialect, model: str) -> Capabilities:
    """Return the capabilities of a model in this dialect: every matching rule is applied, in order."""
    key = (id(dialect.can), id(dialect.models), model)
    cached = _cached.get(key)
    if cached is not None:
        return cached[2]
    can = dialect.can
    for rule in dialect.models:
        if re.search(rule.pattern, model, re.IGNORECASE):  # hubs write names as their makers do: Qwen/Qwen3
            can = change_capabilities(can, **rule.changes)
    if len(_cached) >= _MAX_CACHED:  # clients choose the names of models
        _cached.clear()
    _cached[key] = (dialect.can, dialect.models, can)
    return can
