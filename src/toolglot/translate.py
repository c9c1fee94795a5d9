"""The whole path of an exchange on one page.

    client bytes ─ decode_request ─▶ IR ─ passes ─▶ IR ─ encode_request ─▶ upstream bytes
    client bytes ◀─ encode ─ events ◀─ event passes ◀─ events ◀─ decode ─ upstream bytes

An `ExchangeCore` is one request and its answer. It records the renames of the request passes, so that the answer has
the client's own names, and it holds the receipt. If both sides speak the same dialect and no pass changes anything, the
bytes are forwarded unchanged, except for the model's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from toolglot.capabilities import Capabilities
from toolglot.dialect import StreamEncoder
from toolglot.dialects import AnyDialect, find
from toolglot.errors import (
    NAMELESS,
    ApiError,
    DecodeError,
    HttpError,
    LossError,
    MisuseError,
    RefusedError,
    UpstreamDecodeError,
    UpstreamError,
    api_error,
    malformed_call,
)
from toolglot.events import Event, Fold, Start, unfold
from toolglot.exchange_settings import AnswerLabels, CallerOptions, ExchangeSettings
from toolglot.forwarding import rename_model
from toolglot.ir import Block, Message, Request, Response, Text, ToolCall, replace
from toolglot.missing_usage import with_usage
from toolglot.passes import CacheMarks, Context, RequestPass, StateOwner, find_original, textual
from toolglot.passes.answer_state import issuer_of
from toolglot.passes.carry import Carrier
from toolglot.passes.details import DetailsCarrier
from toolglot.passes.digest import digest
from toolglot.passes.event_passes import EventPass, through
from toolglot.passes.foreign import Reporter
from toolglot.passes.label import Labeller
from toolglot.passes.origins import Origins
from toolglot.passes.restore import Restorer
from toolglot.passes.sequence import Sequencer
from toolglot.passes.settle import Settler, is_nameless
from toolglot.passes.whole_answer import restore_content
from toolglot.plan import run_passes
from toolglot.receipt import Loss, Receipt
from toolglot.streaming import StreamTranslation
from toolglot.wire import json
from toolglot.wire.json import Document
from toolglot.wire.sdk_objects import describe_type
from toolglot.wire.side_members import read_document
from toolglot.wire.sse import BYTE_ORDER_MARK, error_document
from toolglot.wire.surrogates import HALF, NO_OTHER_HALF

if TYPE_CHECKING:
    from toolglot.textcalls.answer import TextAnswerPass
    from toolglot.textcalls.retry_prompt import RetryPrompt
    from toolglot.textcalls.settings import TextCalls


class ExchangeCore:
    """One request and its answer, between a client's dialect and an upstream's. Users have the smaller `Exchange`.

    Args:
        client: the client's dialect.
        upstream: the upstream's dialect.
        strict: refuse (`LossError`, or an error event once a stream has begun) instead of losing anything.
        model: the upstream's name of the model, if it differs from the client's.
        can: the upstream's capabilities, if they differ from those known for the model.
        passes: the request passes, in order, if they differ from the default ones.
        created: timestamp for an answer whose upstream sends none (Unix seconds; the core has no clock).
        answer_id: id for an answer whose upstream sends none. By default, an id is derived from the exchange.
        clock: returns the time (Unix seconds) at which an answer ends, for clients whose answers have it.
        hide: removes data that clients must not see from an error, also inside a stream. Returns the same object if
            there is none.
        verbatim: forward bytes unchanged if both sides speak the same dialect and nothing has to change. False decodes
            and encodes everything, for upstreams that omit data that the dialect's clients need.
        text_calls: how the model writes tool calls as text, if it has no native calls or leaks them as text.
        history_format: the text format of calls in the client's own history, if it has any.
        keeps_state: the caller stores reasoning state that the client has no field for; it listens to the answer.
        issuer: the upstream's server. If set, state that the client carries returns only to the same server and model.
        takes_back: other issuers whose state the upstream also accepts, as named by `issuer_of`.
        can_cut: the caller can cut the client's connection. If the upstream's stream breaks off, the client's stream
            then ends without an error event if its dialect wants that, and `is_cut` of the translation is set.
        holds_head: hold back the head of a streamed answer, which has no content, until more follows. Until then the
            caller can still retry, or answer with an error.
        cache_marks: when to set prompt-cache breakpoints for clients that set none, on models that cache nothing
            without breakpoints: `auto` (in tool loops and for repeated prefixes), `always`, or `never`.
        prefix_repeats: the caller knows that the request's tools and system text were sent recently.
        serves: whether the caller runs the tool of this name itself.
    """

    __slots__ = (
        "_context_made",
        "_origins",
        "_retry_prompt",
        "answered",
        "asked",
        "client",
        "hide",
        "labels",
        "new_listener",
        "options",
        "pending_retry",
        "receipt",
        "restored",
        "sent",
        "settings",
        "strict",
        "upstream",
        "verbatim",
        "withheld",
    )

    settings: ExchangeSettings
    options: CallerOptions
    labels: AnswerLabels
    asked: Request | None
    """The client's decoded request."""
    sent: Request | None
    """The request that is sent to the upstream."""
    verbatim: bool
    """True if the bytes are forwarded unchanged: both sides speak the same dialect, and no pass changed anything."""
    answered: Response | None
    """The decoded non-streamed response of the upstream, with the client's stop reason."""
    restored: Response | None
    """The same response in the client's form, with its own names and ids."""
    withheld: Sequence[Block]
    """Empty texts at the end of the answer that hold the upstream's state and are not sent to the client."""
    pending_retry: RetryPrompt | None
    """Set if the model wrote a call that cannot be run and must be asked again: `encode_retry` creates the request."""
    new_listener: Callable[[], Callable[[Event], None]] | None
    """Creates a listener for each streamed answer. It gets every event that the client gets, before the bytes are
    written. A failed attempt and its retry are two answers, so neither listener sees the other's events."""

    def __init__(
        self,
        client: AnyDialect,
        upstream: AnyDialect,
        *,
        strict: bool = False,
        model: str | None = None,
        can: Capabilities | None = None,
        passes: Sequence[RequestPass] | None = None,
        created: int | None = None,
        answer_id: str = "",
        clock: Callable[[], float | None] | None = None,
        hide: Callable[[ApiError], ApiError] | None = None,
        verbatim: bool = True,
        text_calls: TextCalls | None = None,
        history_format: str | None = None,
        keeps_state: bool = False,
        issuer: str = "",
        takes_back: frozenset[str] = frozenset(),
        can_cut: bool = False,
        holds_head: bool = False,
        cache_marks: CacheMarks = "auto",
        prefix_repeats: bool = False,
        serves: Callable[[str], bool] | None = None,
    ) -> None:
        given: dict[str, Any] = {} if hide is None else {"hide": hide}
        if passes is not None:
            given["passes"] = passes
        settings = ExchangeSettings(
            client=find(client),
            upstream=find(upstream),
            strict=strict,
            model=model,
            can=can,
            verbatim=verbatim,
            clock=clock,
            text_calls=text_calls,
            history_format=history_format,
            issuer=issuer,
            takes_back=takes_back,
            cache_marks=cache_marks,
            **given,
        )
        options = CallerOptions(
            keeps_state=keeps_state,
            can_cut=can_cut,
            holds_head=holds_head,
            prefix_repeats=prefix_repeats,
            serves=serves,
        )
        self._begin(settings, options, AnswerLabels(created, answer_id, clock))

    @classmethod
    def begin(cls, settings: ExchangeSettings, options: CallerOptions, labels: AnswerLabels) -> ExchangeCore:
        """Create an exchange from settings that many exchanges share."""
        exchange = cls.__new__(cls)
        exchange._begin(settings, options, labels)
        return exchange

    def _begin(self, settings: ExchangeSettings, options: CallerOptions, labels: AnswerLabels) -> None:
        self.settings = settings
        self.options = options
        self.labels = labels
        self.client = settings.client
        self.upstream = settings.upstream
        self.strict = settings.strict
        self.hide = settings.hide
        self.verbatim = settings.may_forward
        self.receipt = Receipt()
        self.asked = self.sent = self.answered = self.restored = None
        self.pending_retry = self.new_listener = None
        self.withheld = ()
        self._retry_prompt: RetryPrompt | None = None
        self._context_made: Context | None = None
        self._origins = Origins(())

    @property
    def _context(self) -> Context:
        if self._context_made is None:
            self._context_made = self._new_context(self.settings.model or "")
        return self._context_made

    def _new_context(self, model: str) -> Context:
        asked_model = None if self.asked is None else self.asked.model
        return self.settings.new_context(self.receipt, model, asked_model, prefix_repeats=self.options.prefix_repeats)

    @property
    def can(self) -> Capabilities:
        """Capabilities of the upstream's model."""
        return self._context.can

    @property
    def bound_to(self) -> str:
        """The only issuer whose state the client may return in an envelope; empty if any."""
        return self._context.owner.bound_to

    @property
    def stages(self) -> Iterator[tuple[Message, ...]]:
        """The messages of the request after each pass that changed them, starting with the client's."""
        return self._origins.stages

    @property
    def path(self) -> str:
        """Path of the rewritten request, below the upstream's base URL."""
        if self.sent is None:
            raise MisuseError("the path is known once there is a request")
        return self.upstream.path(self.sent)

    def request(self, data: Document, *, model: str | None = None, stream: bool | None = None) -> bytes:
        """Translate the client's request to the upstream's. `model` and `stream` override the body's values; Gemini has
        them in the URL.

        Raises:
            DecodeError: the data is not a request of the client's dialect.
            RefusedError: it depends on state that only an upstream of the client's own dialect stores.
            LossError: strict, and something would be lost.
        """
        raw = json.to_bytes(data).removeprefix(BYTE_ORDER_MARK)
        asked = self._decode(raw)
        changes: dict[str, Any] = {}
        if model is not None and model != asked.model:
            changes["model"] = model
        if stream is not None and stream != asked.stream:
            changes["stream"] = stream
        if changes and self.client.upstream.forwards and not self.client.request.model_in_path:
            for name, value in changes.items():  # these bytes may be forwarded unchanged
                raw = json.replace_member(raw, name, value)
            asked, changes = self._decode(raw), {}
        return self.request_of(replace(asked, **changes) if changes else asked, raw)

    def _decode(self, raw: bytes) -> Request:
        try:
            return self.client.decode_request(raw)
        except RecursionError:
            raise DecodeError("$", json.TOO_DEEP) from None

    def request_of(self, asked: Request, data: bytes) -> bytes:
        """Translate a request that is already decoded; `data` are its bytes. Raises as `request` does."""
        try:
            encoded = self._request(asked, data)
        except RecursionError:
            raise DecodeError("$", json.TOO_DEEP) from None
        if self.strict:
            self._refuse_losses()
        return encoded

    def _request(self, asked: Request, data: bytes) -> bytes:
        # A conversation that is sent as text must be complete.
        text_calls = self.settings.text_calls
        as_text = text_calls is not None and not text_calls.rescue
        elsewhere = as_text or self.client.name != self.upstream.name
        if elsewhere and (refused := self.client.request.refuse_elsewhere(asked)) is not None:
            raise RefusedError(refused)
        sent = self.rewrite(asked)
        if not sent.model and not self.verbatim:
            self.receipt.loss("model", "no model", "a request needs one; set it in the exchange or the request")
        return self._forward(data, sent) if self.verbatim else self.upstream.encode_request(sent, self.receipt)

    def rewrite(self, asked: Request) -> Request:
        """Run the request passes."""
        self.asked = asked
        settings = self.settings
        model = settings.model
        sent = asked if model is None or model == asked.model else replace(asked, model=model)
        context = self._context_made = self._new_context(sent.model)
        sent, self._origins = run_passes(sent, settings.passes, context)
        self._set_sent(sent)
        is_unchanged = settings.may_forward and replace(sent, model=asked.model) == asked
        self.verbatim = is_unchanged and (context.text is None or context.text.tools is None)
        return sent

    def resend(self, sent: Request) -> bytes:
        """Encode the request again, after its `sent` form was changed to one that the upstream accepts."""
        self._set_sent(sent)
        encoded = self.upstream.encode_request(sent, self.receipt)
        self._refuse_losses()
        return encoded

    def _set_sent(self, sent: Request) -> None:
        self.sent = sent
        self._origins.record_moves(sent.messages)
        if self.upstream.upstream.answering is not None:
            self.upstream = self.upstream.upstream.answering(self.upstream, sent)

    def release_request(self) -> None:
        """Free the sent messages: a stream has begun, which may take long, and the request is not sent again. They stay
        if the model writes its calls as text, because it may have to be asked again."""
        if self.settings.text_calls is None and self.sent is not None:
            self.sent, self._origins = replace(self.sent, messages=()), Origins(())
            self._context.tool_history = self.receipt.asked_at = None

    def label(
        self, created: int | None, answer_id: str, *, renamed: bool = False, completed: int | None = None
    ) -> None:
        """Set the timestamps and the id of an answer, if they are known only after it has begun. `renamed`: another
        model answers, and the answer gets the name of the requested one."""
        self.labels = AnswerLabels(created, answer_id, lambda: completed, renamed)

    def start_of_failure(self) -> Start:
        """Return the `Start` event of an answer that fails before the upstream has begun one."""
        model = self.alias or (self.asked.model if self.asked is not None else "")
        labels = self.labels
        start = Start(id=labels.answer_id, model=model or self.settings.model or "", created=labels.created)
        return start if start.id else replace(start, id=self._derive_id(start))

    def _derive_id(self, start: Start | Response, content: tuple[Block, ...] = ()) -> str:
        """Derive an id in the form of the client's dialect; the same exchange always gets the same id."""
        made = digest(start.model, start.created, self.asked, content)
        return f"{self.client.answer.id_prefix}{made[:24]}"

    def seal_for(self, server: str, model: str) -> None:
        """Bind the state that the client carries to this server and model, which answered instead of the requested
        one."""
        context = self._context
        context.owner = StateOwner(issuer_of(server, self.upstream.name, model), True, context.owner.accepts)

    def encode_retry(self) -> bytes:
        """Create the retry request, with the model's output and its problem. Call `response` with its answer."""
        text_calls = self.settings.text_calls
        if self.pending_retry is None or self.sent is None or text_calls is None:
            raise MisuseError("no retry is needed")
        self._retry_prompt, self.pending_retry = self.pending_retry, None
        retry = self._retry_prompt.retry_request(self.sent, text_calls.format)
        return self.upstream.encode_request(retry, self.receipt)

    @property
    def wants_again(self) -> RetryPrompt | None:
        """The earlier name of `pending_retry`."""
        return self.pending_retry

    def again(self) -> bytes:
        """The earlier name of `encode_retry`."""
        return self.encode_retry()

    @property
    def alias(self) -> str | None:
        """The client's name of the model, if the upstream's name differs."""
        if self.asked is None or self.sent is None:
            return None
        return (self.asked.model or None) if self.labels.is_renamed or self.asked.model != self.sent.model else None

    def _forward(self, data: bytes, sent: Request) -> bytes:
        """Forward the client's bytes, with the upstream's name of the model if the body contains it."""
        if self.asked is None or sent.model == self.asked.model or self.upstream.request.model_in_path:
            return data
        return json.replace_member(data, "model", sent.model)

    def response(self, data: Document, *, encode: bool = True) -> bytes:
        """Translate the upstream's response to the client's. Empty if the model must be asked again (see
        `pending_retry`), or without `encode`, for callers that only need `restored`.

        Raises:
            UpstreamDecodeError: the data is not a response of the upstream's dialect.
            UpstreamError: it is an error instead of a response.
            LossError: strict, and something would be lost.
        """
        try:
            encoded = self._response(data if type(data) is bytes else json.to_bytes(data), encode=encode)
        except DecodeError as error:
            raise UpstreamDecodeError(error.where, error.what) from None
        except RecursionError:
            raise UpstreamDecodeError("$", json.TOO_DEEP) from None
        if self.strict:
            self._refuse_losses()
        return encoded

    def _response(self, data: bytes, *, encode: bool) -> bytes:
        data = data.removeprefix(BYTE_ORDER_MARK)
        is_stream = False
        try:
            response = self.decode_document(data)
        except DecodeError:
            if not self.upstream.stream.framing.is_stream(data):
                raise
            response, is_stream = self._read_stream(data), True
        self.answered = response
        for block in response.content:
            if type(block) is not Text and is_nameless(block):
                raise UpstreamError(malformed_call(NAMELESS))
        if self.verbatim and not is_stream:
            return data if self.alias is None else rename_model(data, self.client.answer.model_places, self.alias)
        self.restored = restored = self.restore(response)
        # If calls are text, the actual stop reason is known only now.
        if restored.stop is not response.stop:
            self.answered = replace(response, stop=restored.stop)
        if self.pending_retry or not encode:
            return b""
        restored = with_usage(restored, self.asked, self.client, self.receipt)
        return self.client.encode_response(restored, self.asked, self.receipt)

    def decode_document(self, data: bytes) -> Response:
        """Decode the upstream's whole response. As in a stream, half a character or a side member of the wrong type
        loses only itself.
        """
        try:
            return self.upstream.decode_response(data)
        except DecodeError:
            mended, halves = json.replace_lone_surrogates(data)
        response, lines = read_document(mended, self.upstream.decode_response, self.upstream.answer.side_members)
        if not self.verbatim:
            self.receipt.add([*([Loss("response", HALF, NO_OTHER_HALF)] if halves else ()), *lines])
        return response

    def _read_stream(self, data: bytes) -> Response:
        """Decode a response that came as a stream. Some servers always stream."""
        self.receipt.note("response", "a stream", "a whole answer was requested: it is read to its end")
        decoder = self.upstream.stream_decoder(self.receipt)
        accumulator = Fold()
        for event in (*decoder.feed(data), *decoder.close()):
            accumulator.add(event)
        if accumulator.fault is not None:
            raise UpstreamError(accumulator.fault)
        return accumulator.response()

    def restore(self, response: Response) -> Response:
        """Run the event passes over a non-streamed response."""
        context, client, upstream = self._context, self.client, self.upstream
        reader = None if context.text is None else self.reader(whole=True)
        if reader is None:
            labeller = self._labeller(response)
            content = restore_content(response, context, client, upstream, partial(labeller.id_of, response))
            if content is not None:
                return labeller.whole(response, content, Reporter(client, upstream, self.receipt).whole(response))
        accumulator = Fold()
        for event in through(self.event_passes(reader, response), tuple(unfold(response))):
            accumulator.add(event)
        if reader is not None and reader.pending_retry is not None:
            self.pending_retry = reader.pending_retry
            return response
        if accumulator.fault is not None:
            raise UpstreamError(accumulator.fault)
        return accumulator.response()

    def stream(self, encoder: StreamEncoder | None = None) -> StreamTranslation:
        """Create a translator for the upstream's byte stream. `encoder` replaces the client's own, for callers that
        want the events themselves. An exchange that forwards bytes produces no events."""
        return StreamTranslation(self, encoder)

    def error(self, status: int, headers: Mapping[str, str], body: Document) -> HttpError:
        """Translate the upstream's error reply to the client's."""
        if not isinstance(status, int):
            raise TypeError(f"expected an HTTP status as int, not {describe_type(status)}")
        document = error_document(json.to_bytes(body))
        return self.encode_error(self.upstream.decode_error(status, headers, document), headers)

    def encode_error(self, error: ApiError, headers: Mapping[str, str]) -> HttpError:
        """Encode the upstream's decoded error for the client; `headers` are those of its reply."""
        encoded = self.client.encode_error(error)
        if self.client.name != self.upstream.name:
            return encoded
        lower = {name.lower(): value for name, value in headers.items()}
        passed = self.client.headers.select_answer_headers(lower)
        return replace(encoded, headers={**passed, **encoded.headers})

    def refusal(self, error: ApiError | DecodeError | LossError | RefusedError | UpstreamError) -> HttpError:
        """Encode an error that this exchange raised, or an error of the caller (for example, no connection)."""
        return self.client.encode_error(error if isinstance(error, ApiError) else api_error(error))

    def reader(self, *, whole: bool = False) -> TextAnswerPass | None:
        """Create the event pass that parses calls in an answer's text; None if the text cannot contain calls."""
        return textual.reader(self._context, self._retry_prompt, whole=whole)

    def event_passes(self, reader: EventPass | None = None, whole: Response | None = None) -> tuple[EventPass, ...]:
        """Create the event passes for one answer, in order. `whole`: the answer, if it is not streamed.

        The reader of text calls comes before the passes that settle and restore calls. It sequences blocks itself.
        """
        reporter = Reporter(self.client, self.upstream, self.receipt)
        restorer = Restorer(self._context, self.client.can, whole=whole is not None)
        # A model that writes its calls as text has no stop reason for calls.
        tells_stops = self.client.name != self.upstream.name and reader is None
        settler = Settler(
            self.receipt,
            whole=whole is not None,
            client=self.client.can,
            tells_stops=tells_stops,
            # For a non-streamed answer, the stop reason shows it too: Anthropic closes the object of a truncated call.
            marks_cuts=(whole is not None or self.upstream.can.calls.incomplete)
            and self.client.name != self.upstream.name,
            is_foreign=self.client.name != self.upstream.name,
            serves=None if self.options.serves is None else self._is_served,
            tools=self._context.tools,
        )
        new_pass = self.upstream.upstream.answer_pass
        own = () if new_pass is None else (new_pass(self.sent, self.client.name, self.receipt),)
        first = (*own, settler, Sequencer()) if reader is None else (reader, *own, settler)
        return self._labeller(whole), *first, reporter, restorer, self._carrier()

    def _labeller(self, whole: Response | None) -> Labeller:
        model = (self.asked.model if self.asked is not None else "") or self.settings.model or ""
        labels = self.labels
        content = () if whole is None else whole.content
        return Labeller(labels.created, self.alias, model, labels.answer_id, labels.clock, self._derive_id, content)

    def rewrites_arguments(self, block: Block) -> bool:
        """Return whether this is a call whose arguments the client gets in another form. Its name is the upstream's."""
        if type(block) is not ToolCall:
            return False
        original = find_original(self._context.tools, block.name)
        return original is not None and original.form is not None

    def _is_served(self, name: str) -> bool:
        """Return whether the caller runs this tool itself. `name` is the upstream's."""
        serves = self.options.serves
        assert serves is not None
        original = find_original(self._context.tools, name)
        if original is None:
            return serves(name)
        return original.namespace is None and serves(original.name)

    def _carrier(self) -> EventPass:
        client, owner, kept = self.client, self.upstream, self.options.keeps_state
        context = self._context
        known = self.sent is not None  # the upstream is known
        if client.state.details_slot is None:
            slots = client.state.slot, owner.name, owner.state.slot
            bound_to = context.owner.bound_to if known else ""
            on_calls = client.state.call_slot
            withheld: list[Block] | None = None
            if not client.state.ends_answers:
                self.withheld = withheld = []
            return Carrier(
                client.name,
                *slots,
                self.receipt,
                issuer=bound_to,
                kept=kept,
                call_slot=on_calls,
                ends_answers=client.state.ends_answers,
                withheld=withheld,
            )
        issuer = context.owner.issuer if known else ""
        return DetailsCarrier(client.name, client.state.details_slot, owner.name, issuer, self.receipt, kept=kept)

    def _refuse_losses(self) -> None:
        if self.strict and self.receipt.loss_count:
            raise LossError(self.receipt)


Exchange = ExchangeCore
"""The earlier name in this module. `toolglot.Exchange` is the public view."""
