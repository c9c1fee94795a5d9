"""What a dialect is: a record of functions and a record of facts. No base class.

A dialect reads and writes one vendor's wire format and knows no other dialect. It lives in
`dialects/<name>/`, in files of the same names everywhere: `dialect.py` has the record, `__init__.py` the manifest, and
CONTRIBUTING.md lists the others. `dialects/__init__.py` is the only registration.
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
    """An upstream's bytes to events. The bytes may be cut anywhere; the events are the same.

    It never raises on what an upstream sends: what cannot be read becomes a `Fault`.
    """

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes complete."""
        ...

    def close(self) -> list[Event]:
        """The peer has ended, well or badly: the last events, a `Fault` if the response was not whole."""
        ...

    @property
    def settled(self) -> bool:
        """The reason for the end has come. If nothing follows it, not even a sound end of the bytes, nothing is lost
        but usage."""
        ...


class StreamEncoder(Protocol):
    """Events to a client's bytes. It may rely on the grammar, one block open at a time."""

    def feed(self, event: Event) -> bytes:
        """The bytes to send now; empty when there is nothing to say yet."""
        ...

    def keepalive(self) -> bytes:
        """Bytes that this dialect's real clients ignore."""
        ...

    @property
    def text_around(self) -> DeltaTemplate | None:
        """How further deltas of the open block are written, where nothing else depends on them than the template says;
        None where there is more to do."""
        ...


class AnswerPass(Protocol):
    """Events to events, for what an upstream's answer still needs the request for."""

    def feed(self, event: Event) -> Sequence[Event]:
        """The events that take this one's place."""
        ...


class Capabilities(Struct, frozen=True, kw_only=True):
    """What a dialect, as an upstream's, can express. Data for the passes and for the table that users see."""

    fields: frozenset[str]
    """The optional fields of `Request` that have a place on its wire (`temperature`, `seed`, `stop` …)."""
    fields_without_reasoning: frozenset[str] = frozenset()
    """Fields that the model takes as well while it does not reason."""
    reasons_by_default: bool = True
    """A model that reasons does so also when a request says nothing about it."""

    name_pattern: str = r"[A-Za-z0-9_-]+"
    name_start: str = r"[A-Za-z0-9_-]"
    name_length: int = 64
    id_pattern: str = r"[A-Za-z0-9_-]+"
    id_length: int = 64
    ids_required: bool = True

    tool_choices: frozenset[str] = frozenset({"auto", "none", "required", "named", "allowed"})
    """`allowed` is a subset of several tools; the others are the plain modes."""
    allowed_modes: frozenset[str] = frozenset({"auto", "required"})
    """The modes that an allowed subset may have."""
    custom_tools: bool = False
    namespaces: bool = False
    strict_tools: bool = True
    strict_all_required: bool = False
    """Strict tools must require every property and allow no others, as OpenAI demands."""
    deferred_tools: bool = False
    schema: Literal["any", "object", "openapi"] = "object"
    """`any`: parameters may be absent. `object`: a schema whose root is an object is required. `openapi`: only the
    subset of OpenAPI's schemas, which older Gemini endpoints take."""
    parameters_optional: bool = False
    """With `object`: a tool may also have no parameters at all."""
    max_tools: int | None = None

    arguments: Literal["text", "object"] = "text"
    """How a call's arguments stand on the wire: as JSON text, which may be broken, or as an object, which cannot."""
    broken_calls: Literal["as_text", "shown", "refused"] = "refused"
    """What a client gets of a streamed call whose arguments turn out to be no JSON object. `as_text`: the arguments as
    they are, since the wire has them as text. `shown`: a text in its place, since a call is written once it is whole.
    `refused`: an error, since its pieces were sent and add up to no object."""
    incomplete_calls: bool = False
    """A call of an answer can be marked as cut off, whatever its arguments look like; so can one of the history, where
    arguments are text."""
    malformed_call_stop: bool = False
    """An answer can end with a word for a call that the model's server could not read."""

    system: Literal["anywhere", "leading", "after_user"] = "anywhere"
    """`leading`: system text may stand only before the conversation; `after_user`: also right behind a user's turn."""
    developer_role: bool = False
    roles_alternate: bool = False
    """Neighbouring messages of one role must be one message."""
    calls_in_one_message: bool = True
    """All calls of a turn stand in one assistant message."""
    results_role: Literal["user", "tool"] = "tool"
    starts_with_user: bool = False
    needs_message: bool = False
    """System text alone is no conversation: there must be a message beside it."""
    prefill: bool = True
    """The conversation may end with an assistant message that the model goes on writing."""
    empty_text: bool = True
    """Empty text blocks are allowed."""

    media_in_user: frozenset[str] = frozenset({"image"})
    media_in_result: frozenset[str] = frozenset()
    media_in_assistant: frozenset[str] = frozenset()
    source_kinds: frozenset[str] = frozenset({"base64", "url", "file"})
    image_types: frozenset[str] | None = None
    """Media types of images; None when the wire does not say."""
    document_types: frozenset[str] | None = None
    """Media types of documents, `text/*` for all text; None when the wire does not say."""
    media_context: bool = False
    """A document can be accompanied by text about it."""
    media_sources: Mapping[str, frozenset[str]] = {}
    """Source kinds of one kind of media, where they are not `source_kinds`."""
    result_errors: bool = False
    """A tool result can say that it is an error."""
    citations: bool = False
    thinking: Literal["owned", "text", "none"] = "none"
    """In history: `owned` takes only its own signed reasoning back, `text` takes any reasoning text, `none` nothing."""
    refusals: bool = False
    cache_lifetimes: tuple[int, ...] = ()
    """Lifetimes of prompt-cache breakpoints in seconds, the default first; empty when there are no breakpoints."""
    cache_breakpoints: int = 0
    cache_on_parts_only: bool = True
    """Breakpoints may stand on text and media, not on tools, calls and results."""
    cache_by_control: bool = False
    """Breakpoints are written as `cache_control`, the extension that aggregators have for Claude. They may stand on the
    texts inside results too."""
    cache_by_marks: bool = False
    """Nothing is cached but what breakpoints mark."""
    cache_minimum: int = 1024
    """Tokens of the shortest prompt that is cached."""
    cache_settings: frozenset[str] = frozenset()
    """The fields of `PromptCache` that it takes (`key`, `retention`, `options`): it caches prompts by itself."""

    efforts: tuple[str, ...] = ()
    """Reasoning efforts from least to most."""
    reasoning_off: bool = True
    reasoning_shown: bool = True
    """The request can say whether readable reasoning is wanted back."""
    reasoning_budget: bool = False
    reasons_by_budget: bool = False
    """It reasons within a budget alone, also where an effort is taken beside it."""
    min_budget: int | None = None
    """The fewest thinking tokens that may be asked for. Such a budget is less than the output limit, or refused."""
    max_budget: int | None = None
    """The most thinking tokens that may be asked for."""
    reasoning_with_tools: bool = True
    forced_choice_with_reasoning: bool = True
    response_formats: frozenset[str] = frozenset({"text", "json", "json_schema"})
    format_with_tools: bool = True
    """A format of the answer may be asked for beside tools."""
    max_stop_sequences: int | None = None
    max_temperature: float = 2.0
    min_output_tokens: int = 1
    default_output_tokens: int | None = None
    """Sent when the client set no limit and the wire requires one."""
    refuses: frozenset[str] = frozenset()
    """What the wire has a place for and the API refuses all the same: names of `passes/refused.py`."""

    answer_tiers: frozenset[str] = frozenset()
    """The service tiers that its answers can tell."""

    rough_stops: Mapping[StopReason, str] = {}
    """Reasons to stop that its answers have no word for, and the word that comes nearest."""
    stop_details: frozenset[StopReason] = frozenset()
    """The reasons to stop that its answers can explain."""
    informational: frozenset[str] = frozenset()
    """Native keys of answers that tell how an answer was made. Leaving them behind is told as a note, also where the
    same key of a request is cosmetic."""

    cosmetic: Mapping[str, str] = {}
    """Native keys of this dialect that mean nothing to any other, each with the reason: no receipt names them."""
    noted: Mapping[str, str] = {}
    """Native keys that no answer depends on, each with the reason: leaving them behind is a note and no loss."""
    assumed: Mapping[str, tuple[Json, ...]] = {}
    """Values of native keys that say what every API does without being told: no receipt names them."""
    reasoning_members: frozenset[str] = frozenset()
    """Native keys of reasoning that hold its text or its state: the passes that carry reasoning report them."""
    containers: frozenset[str] = frozenset()
    """Native keys that hold what is left of an object of the wire: receipts name what is in them."""
    request_paths: Mapping[str, str] = {}
    """Native keys of requests that are no names of the wire, and the path that receipts name instead; empty if what
    they hold stands beside the other members."""
    answer_paths: Mapping[str, str] = {}
    """The same for answers."""
    further_answers: str = ""
    """The native key of the answers beside the first one."""


class ModelRule(Struct, frozen=True):
    """Models whose name matches `pattern` differ from their dialect in these capabilities."""

    pattern: str
    changes: Mapping[str, object]
    why: str


class Counting(Struct, frozen=True, kw_only=True):
    """The endpoint that counts the tokens of a request, both sides of it."""

    path: Callable[[Request], str]
    """Where the request is posted, below the base URL."""
    decode_request: Callable[[bytes], Request]
    encode_request: Callable[[Request, Receipt], bytes]
    encode_count: Callable[[int], bytes]
    decode_count: Callable[[bytes], int]
    needs_model: bool = True
    """The API requires a request to name its model."""


def _no_name(body: bytes) -> str:
    return ""


class Listing(Struct, frozen=True, kw_only=True):
    """The endpoint that lists models, both sides of it."""

    path: str
    """Where the list is, below the base URL; it asks for the longest page."""
    encode_models: Callable[[Sequence[ModelInfo], Mapping[str, str]], bytes]
    """The page that the parameters of a client's query ask for."""
    encode_model: Callable[[ModelInfo], bytes]
    decode_models: Callable[[bytes], list[ModelInfo]]
    decode_name: Callable[[bytes], str] = _no_name
    """The name of the model in the body of a request for one, where it is not in the path."""


class JsonForm(Struct, frozen=True, kw_only=True):
    """The documents of a wire that is not JSON, as JSON for people and tools, and where a request in that form has its
    parts. `Manifest.json_form` refers to it. The functions raise `DecodeError`."""

    decode_request: Callable[[bytes], Any]
    encode_request: Callable[[Any, list[str] | None], bytes]
    """The list gets the places of numbers that could not be written as they are."""
    unwrap_request: Callable[[bytes], bytes]
    """A request out of what people keep one in, such as base64."""
    decode_event: Callable[[bytes], Any]
    """The data of one event of a stream."""
    noun: str
    """What a request is on the wire: `a request in protobuf`."""
    command: str
    """The command that prints the JSON form."""
    own_members: frozenset[str]
    """Members of a request that no other dialect's request has in their place."""
    tools: tuple[str, ...]
    """The path of the list of tools."""
    results: tuple[str, ...]
    """The path of the list in which results of tools stand, at its end."""
    before: int
    """How many elements of that list are in front of a result: what the user asked, and the call."""
    history: tuple[str, ...]
    """The members that hold the conversation; the first one is needed."""
    wrap_result: Callable[[Any, Raw], Any]
    """The element of that list around a result that stands alone; anything else as it is."""


def _as_it_came(value: Any, raw: Raw) -> Any:
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
    """Where a request has its parts, and what it must have."""

    history_key: str = "messages"
    """The member that holds the conversation."""
    system_key: str | None = None
    """The member that holds system text, where it stands apart from the conversation."""
    model_in_path: bool = False
    """The model and whether to stream stand in the URL, not in the body."""
    needs_model: bool = True
    """The API requires a request to name its model."""
    results_name_tools: bool = False
    """A result must name its tool."""
    wrap_result: Callable[[Any, Raw], Any] = _as_it_came
    """The element of the history around a result that stands alone (its value, and its JSON); anything else as it
    is."""
    refuse_elsewhere: Callable[[Request], ApiError | None] = _refuse_nothing
    """The error for a request that leans on state which only an upstream of this dialect keeps, as clients know it."""
    answer_without_model: Callable[[Request], Response | None] = _answer_nothing
    """The answer to a request that concerns the server alone, where the model's server speaks another dialect."""
    tool_defaults: Mapping[str, str] = {}
    """Members of a tool that people leave out when they write one, each with what they mean."""
    image_tokens: ImageTokens = tokens_by_area
    """What an image costs, as the vendor publishes it: for estimates."""


class UnsignedCall(Struct, frozen=True, kw_only=True):
    """A call to an upstream that needs a signature over what is sent."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    key: str | None
    """The upstream's credential."""


class HeaderRules(Struct, frozen=True, kw_only=True):
    """Headers that this dialect's servers and clients give a meaning. Names in lower case."""

    key: str = "authorization"
    """The header in which an upstream expects its credential (`authorization` with `Bearer` before it)."""
    sign: Callable[[UnsignedCall], Mapping[str, str]] | None = None
    """Makes the headers that sign a call, for APIs that want a signature over each request in place of a credential.
    Called anew for each attempt."""
    sent: Mapping[str, str] = {}
    """Sent to every upstream of this dialect, unless the client says otherwise."""
    of_requests: frozenset[str] = frozenset()
    """A client's headers that mean something to an upstream of the same dialect, and to no other."""
    query: tuple[str, ...] = ()
    """The same for parameters of the query."""
    of_answers: tuple[str, ...] = ()
    """How an upstream's headers begin that mean something to a client of the same dialect."""

    def select_answer_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """The headers of an upstream's reply, be it an error, that a client of the same dialect gets unchanged."""
        own = self.of_answers
        return {
            name: value for name, value in headers.items() if name.startswith(own) and header_value(value) is not None
        }


class AnswerShape(Struct, frozen=True, kw_only=True):
    """What an answer has, whole or streamed, and what its clients need of it."""

    id_prefix: str = ""
    """How the ids of answers begin."""
    model_places: tuple[tuple[str, ...], ...] = (("model",),)
    """Where a response, or a frame of a stream, names the model."""
    counts: frozenset[str] = frozenset(COUNTS)
    """The counts of `Usage` that clients are told."""
    omits_call_ids: Callable[[Request], bool] = _always_false
    """Does the answer to this request leave out the ids of calls?"""
    is_call: Callable[[Json], bool] = _always_false
    """Is what reads as a block of a kind that is not known a call, which lacks its name?"""
    tells_stop_sequence: bool = False
    """It says which stop sequence was written."""
    usage_required: bool = False
    """Clients need the counts of tokens, whether the upstream tells them or not."""
    required_counts: frozenset[str] = frozenset()
    """The counts of `Usage` that the API's types require wherever an answer has a usage object."""
    overflow_words: re.Pattern[bytes] = _OVERFLOW_CODE
    """Finds in an error's JSON what clients know a context overflow by."""


class StreamShape(Struct, frozen=True, kw_only=True):
    """What a stream looks like, and what its clients need of it."""

    framing: Framing = EVENTS

    last_event: bytes = b""
    """The event for which clients wait at the end, where servers of the same dialect may leave it out."""
    apart: bytes = b""
    """What begins a document that some clients understand in a chunk of its own alone."""
    calls_wait: bool = False
    """Calls, and what stands behind them, come with the end: clients remember those of a stream that failed, and run
    them beside the same calls of the answer that they ask for next."""
    broken: Literal["error", "cut"] = "error"
    """How clients are told that the upstream broke off in the middle: by an error event, or by a connection that is
    cut where the upstream's was. Whichever makes the real clients ask again (docs/gateway.md has what each of them
    does). An error that the upstream tells itself is always an error event."""
    error_codes: frozenset[str] = frozenset()
    """Codes of errors that streaming clients look for inside a stream, even when nothing else came before."""
    early_failures: bool = False
    """An error with which an upstream of this dialect begins its stream is told inside the client's stream, too, with
    its code; else by the status, which clients know better what to do with."""
    note_forwarded: Callable[[StreamEncoder, bytes], None] | None = None
    """Tells the encoder of a forwarded frame, for APIs whose last event repeats what was told before: an error of ours
    may have to end the stream."""
    text_of_frame: Callable[[bytes], str | None] | None = None
    """Reads the JSON of a frame that brings more text, reasoning or arguments to a block that has had some before, and
    says nothing else; None for any other frame."""
    changing_members: tuple[str, ...] = ()
    """Members of such a frame that may change from one to the next and mean nothing to the decoder."""


class StateSlots(Struct, frozen=True, kw_only=True):
    """Native keys in which clients return opaque reasoning state as it is."""

    slot: str | None = None
    """The key of a `Thinking` block."""
    call_slot: str | None = None
    """The same on a call. Clients that drop reasoning return it, where the vendor's own models put state on calls."""
    ends_answers: bool = True
    """Whether an answer may end with a block of state. Claude Code prints the last block, if that is a text."""
    details_slot: str | None = None
    """The same where clients return a list of such state beside all the rest of an answer: it holds entries of the form
    that OpenRouter has brought in (`reasoning_details`)."""


def _as_it_is(request: Request, context: object, before: Sequence[Message]) -> Request:
    return request


def _need_no_features(context: Any) -> int:
    return 0


class HistoryDemand(Struct, frozen=True, kw_only=True):
    """What servers demand of a history whose reasoning is not their own."""

    apply: Callable[[Request, Any, Sequence[Message]], Request] = _as_it_is
    """A pass, with the messages as they were before foreign reasoning was left out."""
    triggers: Callable[[Any], int] = _need_no_features
    """The features that give it something to do (`features.py`), as `plan.runs_on` takes them."""


NO_DEMAND = HistoryDemand()


class UpstreamRules(Struct, frozen=True, kw_only=True):
    """What is particular about talking to servers of this dialect."""

    forwards: bool = True
    """Bytes may go through as they are where both sides speak this dialect."""
    answer_pass: Callable[[Request | None, str, Receipt], AnswerPass] | None = None
    """Makes the pass that an upstream's answer goes through first: the request as sent, the client's dialect."""
    answering: Callable[[Dialect, Request], Dialect] | None = None
    """Makes the dialect as it reads the answer to this request, where that takes knowing what was sent."""
    demand: HistoryDemand = NO_DEMAND
    usual_history: Mapping[str, Any] = {}
    """Limits of the history that servers are sent, unless they are configured: fields of `HistoryPolicy`."""


class Dialect(Struct, frozen=True, kw_only=True):
    """Both sides of one wire format: as a client's, and as an upstream's."""

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
    """Where the request is posted, below the base URL. It is the full path of a route in the manifest (such as
    `/v1/messages`), so that one gateway can be the upstream of another."""
    can: Capabilities
    models: tuple[ModelRule, ...] = ()
    readable: ReadableTypes = {}
    """Types of blocks that ride along as `Opaque` and hold something that other dialects can be told."""
    request: RequestShape = RequestShape()
    headers: HeaderRules = HeaderRules()
    answer: AnswerShape = AnswerShape()
    stream: StreamShape = StreamShape()
    state: StateSlots = StateSlots()
    upstream: UpstreamRules = UpstreamRules()
    listing: Listing
    counting: Counting | None = None
    """None where the API has no endpoint that counts tokens."""
    served: ServedForms | None = None
    """Its words for tools that are run on the way; None where it has none."""
    ready: Callable[[], None] = _need_nothing
    """Loads what the dialect needs. Raises `MissingExtraError` where that is not installed."""

    @property
    def image_tokens(self) -> ImageTokens:
        """What an image costs: the documented name of `request.image_tokens`."""
        return self.request.image_tokens


_MOST_KNOWN = 1024
_known: dict[tuple[int, int, str], tuple[Capabilities, tuple[ModelRule, ...], Capabilities]] = {}
"""What was found out, by the records that it was found in, which are kept so that nothing else gets their identity."""


def capabilities(dialect: Dialect, model: str) -> Capabilities:
    """What this model can be told through this dialect: every matching rule applied in order."""
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
