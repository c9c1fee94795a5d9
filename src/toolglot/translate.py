"""The whole path of an exchange on one page.

    client bytes ─ decode_request ─▶ IR ─ passes ─▶ IR ─ encode_request ─▶ upstream bytes
    client bytes ◀─ encode ─ events ◀─ event passes ◀─ events ◀─ decode ─ upstream bytes

An `Exchange` is one request and its answer. It remembers what the request passes renamed, so that the answer comes
back in the client's own words, and it keeps the receipt. Where both sides speak the same dialect and no pass has
anything to change, the bytes go through as they are, but for the model's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from toolglot.dialect import Capabilities, Dialect, StreamEncoder
from toolglot.dialects import find
from toolglot.errors import (
    NAMELESS,
    ApiError,
    DecodeError,
    HttpError,
    LossError,
    RefusedError,
    UpstreamDecodeError,
    UpstreamError,
    api_error,
    malformed_call,
)
from toolglot.events import Event, Fold, Start, unfold
from toolglot.exchange_settings import AnswerLabels, CallerOptions, ExchangeSettings
from toolglot.forwarding import renamed
from toolglot.ir import Block, Message, Request, Response, Text, replace
from toolglot.missing_usage import with_usage
from toolglot.passes import CacheMarks, Context, RequestPass, StateOwner, textual
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
from toolglot.passes.whole_answer import keeps_content
from toolglot.plan import run_passes
from toolglot.receipt import Receipt
from toolglot.streaming import StreamTranslation
from toolglot.wire import json
from toolglot.wire.sse import BYTE_ORDER_MARK, error_document

if TYPE_CHECKING:
    from toolglot.textcalls.answer import TextAnswerPass
    from toolglot.textcalls.retry_prompt import RetryPrompt
    from toolglot.textcalls.settings import TextCalls

Document: TypeAlias = bytes | str | Mapping[str, Any]
"""A JSON document: its bytes, its text, or what it says as Python values."""


class Exchange:
    """One request and its answer, between a client's dialect and an upstream's.

    Args:
        client: the dialect of whoever asks.
        upstream: the dialect of whoever answers.
        strict: refuse (`LossError`, or an error event once a stream has begun) instead of losing anything.
        model: the upstream's name of the model, when it differs from the client's.
        can: what the upstream can express, when it differs from what is known of the model.
        passes: the request passes, in order, when they are not the usual ones.
        created: the time to put on an answer whose upstream does not tell one (Unix seconds; the core has no clock).
        answer_id: the id to put on an answer whose upstream does not tell one; without it, one is derived from the
            exchange.
        clock: tells the time (Unix seconds) at which an answer ends, for clients whose answers have it.
        hide: takes out of an error, inside a stream too, what no client may see; the same error if nothing.
        verbatim: let bytes through as they are where both sides speak one dialect and nothing has to be changed. False
            reads and writes everything, for upstreams that leave out what the dialect's clients need.
        text_calls: how the model writes tool calls as text, when it has no native ones or leaks them.
        history_format: the text format in which calls stand in the client's own history, when they do.
        keeps_state: reasoning state that the client has no field for is kept by the caller, who listens to the answer.
        issuer: the upstream's server, where state that the client carries is to go back to the same one only, and to
            the model that made it.
        takes_back: others whose state goes to the upstream too, as `issuer_of` names them.
        can_cut: the caller can cut the client's connection. A stream that the upstream broke off then ends without an
            error event where the client's dialect wants that, and `is_cut` of its translation says so.
        holds_head: the head of a streamed answer, which says nothing of it, is given out with what follows it. Until
            then the caller can still ask again, or answer with an error.
        cache_marks: when breakpoints of the prompt cache are set for clients that set none, at models that cache
            nothing without: `auto` in tool loops and where prefixes repeat, `always`, or `never`.
        prefix_repeats: the caller knows that the request's tools and system text have come before, a short time ago.
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
        "receipt",
        "restored",
        "sent",
        "settings",
        "strict",
        "upstream",
        "verbatim",
        "wants_again",
        "withheld",
    )

    settings: ExchangeSettings
    options: CallerOptions
    labels: AnswerLabels
    asked: Request | None
    """The client's request as it was decoded."""
    sent: Request | None
    """The request as the upstream gets it."""
    verbatim: bool
    """The bytes go through unchanged: one dialect on both sides, and no pass had anything to change."""
    answered: Response | None
    """A whole response as the upstream sent it, with the stop reason that the client gets."""
    restored: Response | None
    """The same response as the client gets it, with its own names and ids."""
    withheld: Sequence[Block]
    """Empty texts at the end of the answer that hold the upstream's state and that the client does not get."""
    wants_again: RetryPrompt | None
    """The model wrote a call that cannot be run and is to be asked once more: `again` makes the request."""
    new_listener: Callable[[], Callable[[Event], None]] | None
    """Makes a listener for each streamed answer; it gets every event as the client does, before its bytes. An attempt
    that fails and the one that follows are two answers, so neither listener sees the other's events."""

    def __init__(
        self,
        client: Dialect | str,
        upstream: Dialect | str,
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
    def begin(cls, settings: ExchangeSettings, options: CallerOptions, labels: AnswerLabels) -> Exchange:
        """An exchange with settings that many share."""
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
        self.wants_again = self.new_listener = None
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
        """What the upstream's model can be told."""
        return self._context.can

    @property
    def bound_to(self) -> str:
        """Who takes back the state that a client carries in an envelope."""
        return self._context.owner.bound_to

    @property
    def stages(self) -> Iterator[tuple[Message, ...]]:
        """The messages of the request after each pass that has changed them, from the client's on."""
        return self._origins.stages

    @property
    def path(self) -> str:
        """Where the rewritten request is posted, below the upstream's base URL."""
        if self.sent is None:
            raise ValueError("the path is known once there is a request")
        return self.upstream.path(self.sent)

    def request(self, data: Document, *, model: str | None = None, stream: bool | None = None) -> bytes:
        """The upstream's request. `model` and `stream` override what the request says; Gemini has them in the URL.

        Raises:
            DecodeError: the data is not a request of the client's dialect.
            RefusedError: it leans on state that only an upstream of the client's own dialect keeps.
            LossError: strict, and something would be lost.
        """
        raw = json.to_bytes(data)
        asked = self._decode(raw)
        changes: dict[str, Any] = {}
        if model is not None and model != asked.model:
            changes["model"] = model
        if stream is not None and stream != asked.stream:
            changes["stream"] = stream
        if changes and self.client.upstream.forwards and not self.client.request.model_in_path:
            for name, value in changes.items():  # these bytes may go through as they are
                raw = json.replace_member(raw, name, value)
            asked, changes = self._decode(raw), {}
        return self.request_of(replace(asked, **changes) if changes else asked, raw)

    def _decode(self, raw: bytes) -> Request:
        try:
            return self.client.decode_request(raw)
        except RecursionError:
            raise DecodeError("$", json.TOO_DEEP) from None

    def request_of(self, asked: Request, data: bytes) -> bytes:
        """The upstream's request for one that is decoded already; `data` are its bytes. Raises as `request` does."""
        try:
            encoded = self._request(asked, data)
        except RecursionError:
            raise DecodeError("$", json.TOO_DEEP) from None
        self._refuse_losses()
        return encoded

    def _request(self, asked: Request, data: bytes) -> bytes:
        # Told as text, a conversation is told whole.
        text_calls = self.settings.text_calls
        as_text = text_calls is not None and not text_calls.rescue
        elsewhere = as_text or self.client.name != self.upstream.name
        if elsewhere and (refused := self.client.request.refuse_elsewhere(asked)) is not None:
            raise RefusedError(refused)
        sent = self.rewrite(asked)
        if not sent.model and not self.verbatim:
            self.receipt.loss("model", "no model", "a request needs one; tell the exchange or the request which")
        return self._forward(data, sent) if self.verbatim else self.upstream.encode_request(sent, self.receipt)

    def rewrite(self, asked: Request) -> Request:
        """The request that the passes make of the client's."""
        self.asked = asked
        settings = self.settings
        model = settings.model
        sent = asked if model is None or model == asked.model else replace(asked, model=model)
        context = self._context_made = self._new_context(sent.model)
        sent, self._origins = run_passes(sent, settings.passes, context)
        self._remember(sent)
        is_unchanged = settings.may_forward and replace(sent, model=asked.model) == asked
        self.verbatim = is_unchanged and (context.text is None or context.text.tools is None)
        return sent

    def resend(self, sent: Request) -> bytes:
        """The request once more, after its `sent` form was changed to what the upstream accepts."""
        self._remember(sent)
        encoded = self.upstream.encode_request(sent, self.receipt)
        self._refuse_losses()
        return encoded

    def _remember(self, sent: Request) -> None:
        self.sent = sent
        self._origins.moved(sent.messages)
        if self.upstream.upstream.answering is not None:
            self.upstream = self.upstream.upstream.answering(self.upstream, sent)

    def release_request(self) -> None:
        """Drop the messages as they were sent: a stream has begun, which may last, and the request is not sent again.
        A model that writes its calls as text may have to be asked once more."""
        if self.settings.text_calls is None and self.sent is not None:
            self.sent, self._origins = replace(self.sent, messages=()), Origins(())
            self._context.tool_history = self.receipt.asked_at = None

    def label(
        self, created: int | None, answer_id: str, *, renamed: bool = False, completed: int | None = None
    ) -> None:
        """The times and the id to put on an answer after all, where they are known only once it has begun. `renamed`:
        it is another model's, and is to have the name of the one that was asked."""
        self.labels = AnswerLabels(created, answer_id, lambda: completed, renamed)

    def start_of_failure(self) -> Start:
        """The beginning of an answer that fails before its upstream has begun one."""
        model = self.alias or (self.asked.model if self.asked is not None else "")
        labels = self.labels
        start = Start(id=labels.answer_id, model=model or self.settings.model or "", created=labels.created)
        return start if start.id else replace(start, id=self._derive_id(start))

    def _derive_id(self, start: Start | Response, content: tuple[Block, ...] = ()) -> str:
        """An id in the form of the client's dialect for an answer without one, the same for the same exchange."""
        made = digest(start.model, start.created, self.asked, content)
        return f"{self.client.answer.id_prefix}{made[:24]}"

    def seal_for(self, server: str, model: str) -> None:
        """What the client is to carry is for this one, who has answered in the place of the one that was asked."""
        context = self._context
        context.owner = StateOwner(issuer_of(server, self.upstream.name, model), True, context.owner.accepts)

    def again(self) -> bytes:
        """The request once more, with what the model wrote and what was wrong with it; then `response` as before."""
        text_calls = self.settings.text_calls
        if self.wants_again is None or self.sent is None or text_calls is None:
            raise ValueError("nothing has to be asked again")
        self._retry_prompt, self.wants_again = self.wants_again, None
        asked = self._retry_prompt.retry_request(self.sent, text_calls.format)
        return self.upstream.encode_request(asked, self.receipt)

    @property
    def alias(self) -> str | None:
        """The client's name of the model, when the upstream has another one."""
        if self.asked is None or self.sent is None:
            return None
        return (self.asked.model or None) if self.labels.is_renamed or self.asked.model != self.sent.model else None

    def _forward(self, data: bytes, sent: Request) -> bytes:
        """The client's bytes, with the upstream's name of the model where the dialect has it in the body."""
        if self.asked is None or sent.model == self.asked.model or self.upstream.request.model_in_path:
            return data
        return json.replace_member(data, "model", sent.model)

    def response(self, data: Document, *, encode: bool = True) -> bytes:
        """The client's response; empty when the model has to be asked `again`, as `wants_again` tells, and without
        `encode`, for callers that only want `restored`.

        Raises:
            UpstreamDecodeError: the data is not a response of the upstream's dialect.
            UpstreamError: it is an error where a response should be.
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
            response = self.upstream.decode_response(data)
        except DecodeError:
            if not self.upstream.stream.framing.is_stream(data):
                raise
            response, is_stream = self._read_stream(data), True
        self.answered = response
        for block in response.content:
            if type(block) is not Text and is_nameless(block):
                raise UpstreamError(malformed_call(NAMELESS))
        if self.verbatim and not is_stream:
            return data if self.alias is None else renamed(data, self.client.answer.model_places, self.alias)
        self.restored = restored = self.restore(response)
        # Why it stopped is known only now, where calls stand in its text.
        if restored.stop is not response.stop:
            self.answered = replace(response, stop=restored.stop)
        if self.wants_again or not encode:
            return b""
        restored = with_usage(restored, self.asked, self.client, self.receipt)
        return self.client.encode_response(restored, self.asked, self.receipt)

    def _read_stream(self, data: bytes) -> Response:
        """The response that came as a stream, which some servers send whatever they are asked for."""
        self.receipt.note("response", "a stream", "a whole answer was asked for: it is read to its end")
        decoder = self.upstream.stream_decoder(self.receipt)
        accumulator = Fold()
        for event in (*decoder.feed(data), *decoder.close()):
            accumulator.add(event)
        if accumulator.fault is not None:
            raise UpstreamError(accumulator.fault)
        return accumulator.response()

    def restore(self, response: Response) -> Response:
        """The upstream's response in the client's words: the event passes, run over the whole of it."""
        reader = None if self._context.text is None else self.reader(whole=True)
        if reader is None and self._keeps_content(response):
            tier = Reporter(self.client, self.upstream, self.receipt).whole(response)
            return self._labeller(response).whole(response, tier)
        accumulator = Fold()
        for event in through(self.event_passes(reader, response), tuple(unfold(response))):
            accumulator.add(event)
        if reader is not None and reader.wants_again is not None:
            self.wants_again = reader.wants_again
            return response
        if accumulator.fault is not None:
            raise UpstreamError(accumulator.fault)
        return accumulator.response()

    def _keeps_content(self, response: Response) -> bool:
        """Would the event passes leave the blocks and the stop of this answer as they are, and report nothing of them
        but the members that get lost?"""
        upstream = self.upstream
        if upstream.upstream.answer_pass is not None:  # it may find more blocks
            return False
        return keeps_content(response, self._context, self.client, upstream)

    def stream(self, encoder: StreamEncoder | None = None) -> StreamTranslation:
        """A translator for the upstream's stream of bytes. `encoder` takes the place of the client's own, for whoever
        wants the events themselves; an exchange that forwards bytes has none."""
        return StreamTranslation(self, encoder)

    def error(self, status: int, headers: Mapping[str, str], body: Document) -> HttpError:
        """The client's form of an error that the upstream answered with."""
        document = error_document(json.to_bytes(body))
        encoded = self.client.encode_error(self.upstream.decode_error(status, headers, document))
        if self.client.name != self.upstream.name:
            return encoded
        lower = {name.lower(): value for name, value in headers.items()}
        passed = self.client.headers.select_answer_headers(lower)
        return replace(encoded, headers={**passed, **encoded.headers})

    def refusal(self, error: ApiError | DecodeError | LossError | RefusedError | UpstreamError) -> HttpError:
        """The client's form of an error that this exchange raised, or that its caller met (no connection, say)."""
        return self.client.encode_error(error if isinstance(error, ApiError) else api_error(error))

    def reader(self, *, whole: bool = False) -> TextAnswerPass | None:
        """The event pass that reads calls out of an answer's text, new for each answer; None where none may be."""
        return textual.reader(self._context, self._retry_prompt, whole=whole)

    def event_passes(self, reader: EventPass | None = None, whole: Response | None = None) -> tuple[EventPass, ...]:
        """The passes that an answer goes through, in order, new for each answer; `whole`: it is there, and does not
        stream.

        A reader of text calls comes before what settles and names calls. It sequences blocks itself.
        """
        reporter = Reporter(self.client, self.upstream, self.receipt)
        restorer = Restorer(self._context, self.client.can, whole=whole is not None)
        # A model that writes its calls as text knows no other stop than the end of the text.
        tells_stops = self.client.name != self.upstream.name and reader is None
        settler = Settler(
            self.receipt,
            whole=whole is not None,
            client=self.client.can,
            tells_stops=tells_stops,
            # Of a whole answer the stop reason tells as well: Anthropic closes the object of a call that it cut.
            marks_cuts=(whole is not None or self.upstream.can.incomplete_calls)
            and self.client.name != self.upstream.name,
            is_foreign=self.client.name != self.upstream.name,
            serves=None if self.options.serves is None else self._is_served,
            tools=self._context.tools,
        )
        made = self.upstream.upstream.answer_pass
        asked = () if made is None else (made(self.sent, self.client.name, self.receipt),)
        first = (*asked, settler, Sequencer()) if reader is None else (reader, *asked, settler)
        return self._labeller(whole), *first, reporter, restorer, self._carrier()

    def _labeller(self, whole: Response | None) -> Labeller:
        model = (self.asked.model if self.asked is not None else "") or self.settings.model or ""
        labels = self.labels
        content = () if whole is None else whole.content
        return Labeller(labels.created, self.alias, model, labels.answer_id, labels.clock, self._derive_id, content)

    def _is_served(self, name: str) -> bool:
        """Does the caller run this tool itself? `name` is the upstream's."""
        serves = self.options.serves
        assert serves is not None
        original = self._context.tools.get(name)
        if original is None:
            return serves(name)
        return original.namespace is None and serves(original.name)

    def _carrier(self) -> EventPass:
        client, owner, kept = self.client, self.upstream, self.options.keeps_state
        context = self._context
        known = self.sent is not None  # who answers
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
