"""The whole path of an exchange on one page.

    client bytes ─ decode_request ─▶ IR ─ passes ─▶ IR ─ encode_request ─▶ upstream bytes
    client bytes ◀─ encode ─ events ◀─ event passes ◀─ events ◀─ decode ─ upstream bytes

An `Exchange` is one request and its answer. It remembers what the request passes renamed, so that the answer comes
back in the client's own words, and it keeps the receipt. Where both sides speak the same dialect and no pass has
anything to change, the bytes go through as they are, but for the model's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from toolglot.dialect import Capabilities, Dialect, capabilities
from toolglot.dialects import find
from toolglot.errors import ApiError, DecodeError, HttpError, LossError, UpstreamDecodeError, UpstreamError, unreadable
from toolglot.events import Delta, Event, Fault, Finish, Fold, Open, Start, unfold
from toolglot.ir import Refusal, Request, Response, Text, Thinking, Usage, replace
from toolglot.passes import Context, RequestPass
from toolglot.passes.carry import Carrier
from toolglot.passes.foreign import Reporter
from toolglot.passes.pipeline import REQUEST_PASSES
from toolglot.passes.restore import Restorer
from toolglot.passes.sequence import Sequencer
from toolglot.passes.settle import Settler
from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.sse import end_of_frames

Document: TypeAlias = bytes | str | Mapping[str, Any]
"""A JSON document: its bytes, its text, or what it says as Python values."""


class EventPass(Protocol):
    def feed(self, event: Event) -> Sequence[Event]:
        """The events that take this one's place."""
        ...


class Exchange:
    """One request and its answer, between a client's dialect and an upstream's.

    Args:
        client: the dialect of whoever asks.
        upstream: the dialect of whoever answers.
        strict: refuse (`LossError`, or an error event once a stream has begun) instead of losing anything.
        model: the upstream's name of the model, when it differs from the client's.
        can: what the upstream can express, when it differs from what is known of the model.
        passes: the request passes, in order.
        created: the time to put on an answer whose upstream does not tell one (Unix seconds; the core has no clock).
    """

    def __init__(
        self,
        client: Dialect | str,
        upstream: Dialect | str,
        *,
        strict: bool = False,
        model: str | None = None,
        can: Capabilities | None = None,
        passes: Sequence[RequestPass] = REQUEST_PASSES,
        created: int | None = None,
    ) -> None:
        client, upstream = find(client), find(upstream)
        self.client = client
        self.upstream = upstream
        self.strict = strict
        self.receipt = Receipt()
        self.asked: Request | None = None
        """The client's request as it was decoded."""
        self.sent: Request | None = None
        """The request as the upstream gets it."""
        self.verbatim = client.name == upstream.name
        """The bytes go through as they are: one dialect on both sides, and no pass had anything to change."""
        self._model = model
        self._can = can
        self._passes = passes
        self._created = created
        self._context = self._new_context(model or "")

    def _new_context(self, model: str) -> Context:
        return Context(
            source=self.client.name,
            target=self.upstream.name,
            can=self._can or capabilities(self.upstream, model),
            receipt=self.receipt,
            cosmetic=self.client.can.cosmetic,
            containers=self.client.can.containers,
            slot=self.client.state_slot,
        )

    @property
    def path(self) -> str:
        """Where the rewritten request is posted, below the upstream's base URL."""
        if self.sent is None:
            raise ValueError("the path is known once there is a request")
        return self.upstream.path(self.sent)

    def request(self, data: Document, *, model: str | None = None, stream: bool | None = None) -> bytes:
        """The upstream's request. `model` and `stream` are for dialects that have them in the URL.

        Raises:
            DecodeError: the data is not a request of the client's dialect.
            LossError: strict, and something would be lost.
        """
        data = json.to_bytes(data)
        asked = self.client.decode_request(data)
        if model is not None:
            asked = replace(asked, model=model)
        if stream is not None:
            asked = replace(asked, stream=stream)
        sent = self.rewrite(asked)
        if not sent.model:
            self.receipt.loss("model", "no model", "a request needs one; tell the exchange or the request which")
        if self.verbatim:
            return self._forward(data, sent)
        encoded = self.upstream.encode_request(sent, self.receipt)
        self._refuse_losses()
        return encoded

    def rewrite(self, asked: Request) -> Request:
        """The request that the passes make of the client's."""
        self.asked = asked
        sent = asked if self._model is None else replace(asked, model=self._model)
        self._context = self._new_context(sent.model)
        for rewrite in self._passes:
            sent = rewrite(sent, self._context)
        self.sent = sent
        self.verbatim = self.client.name == self.upstream.name and replace(sent, model=asked.model) == asked
        return sent

    def _forward(self, data: bytes, sent: Request) -> bytes:
        """The client's bytes, with the upstream's name of the model where the dialect has it in the body."""
        if self.asked is None or sent.model == self.asked.model or self.upstream.model_in_path:
            return data
        return json.replace_member(data, "model", sent.model)

    def response(self, data: Document) -> bytes:
        """The client's response.

        Raises:
            UpstreamDecodeError: the data is not a response of the upstream's dialect.
            UpstreamError: it is an error where a response should be.
            LossError: strict, and something would be lost.
        """
        data = json.to_bytes(data)
        try:
            response = self.upstream.decode_response(data)
        except DecodeError as error:
            raise UpstreamDecodeError(error.where, error.what) from None
        if self.verbatim:
            return data
        encoded = self.client.encode_response(self.restore(response), self.asked, self.receipt)
        self._refuse_losses()
        return encoded

    def restore(self, response: Response) -> Response:
        """The upstream's response in the client's words: the event passes, run over the whole of it."""
        passes = self._event_passes()
        accumulator = Fold()
        for event in _through(passes, tuple(unfold(response))):
            accumulator.add(event)
        if accumulator.fault is not None:
            raise UpstreamError(accumulator.fault)
        restored = accumulator.response()
        return replace(restored, created=restored.created if restored.created is not None else self._created)

    def stream(self) -> StreamTranslation:
        """A translator for the upstream's stream of bytes."""
        return StreamTranslation(self)

    def error(self, status: int, headers: Mapping[str, str], body: Document) -> HttpError:
        """The client's form of an error that the upstream answered with."""
        return self.client.encode_error(self.upstream.decode_error(status, headers, json.to_bytes(body)))

    def refusal(self, error: DecodeError | LossError | UpstreamError) -> HttpError:
        """The client's form of an error that this exchange raised."""
        match error:
            case UpstreamError(error=api_error):
                return self.client.encode_error(api_error)
            case UpstreamDecodeError():
                return self.client.encode_error(unreadable(error))
            case DecodeError(where=where):
                return self.client.encode_error(ApiError(kind="bad_request", message=str(error), param=where))
            case LossError():
                return self.client.encode_error(ApiError(kind="bad_request", code="would_lose", message=str(error)))

    def _event_passes(self) -> tuple[EventPass, ...]:
        carrier = Carrier(
            self.client.name, self.client.state_slot, self.upstream.name, self.upstream.state_slot, self.receipt
        )
        reporter = Reporter(self.client.name, self.upstream.can, self.receipt)
        return Settler(), Sequencer(), reporter, Restorer(self._context, self.client.can), carrier

    def _refuse_losses(self) -> None:
        if self.strict and self.receipt.losses:
            raise LossError(self.receipt)


PLAIN = (Text, Thinking, Refusal)


def _through(passes: Sequence[EventPass], events: Sequence[Event]) -> Sequence[Event]:
    """Events through passes, one after the other."""
    for event_pass in passes:
        events = [out for event in events for out in event_pass.feed(event)]
    return events


class StreamTranslation:
    """Upstream bytes in, client bytes out; both may be cut anywhere. `usage` is known once the stream has ended."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._decoder = exchange.upstream.stream_decoder(exchange.receipt)
        self._encoder = exchange.client.stream_encoder(exchange.asked, exchange.receipt)
        self._passes = exchange._event_passes()
        self._verbatim = exchange.verbatim
        self._plain = -1  # the upstream's index of an open block whose deltas no pass looks at, else -1
        self._plain_as = -1  # the client's index of the same block
        self.usage: Usage | None = None
        self.fault: ApiError | None = None
        self.ended = False
        self._held = bytearray()  # of a forwarded frame whose end has not come
        self._framed = True

    def feed(self, data: bytes) -> bytes:
        """The client's bytes for these bytes of the upstream."""
        if self.ended:
            return b""
        try:
            events = self._decoder.feed(data)
        except DecodeError as error:
            events = [Fault(unreadable(error))]
        return self._forward(data, events) if self._verbatim else self._translate(events)

    def close(self) -> bytes:
        """The upstream has ended: what is left to say to the client."""
        if self.ended:
            return b""
        events = self._decoder.close()
        return self._forward(b"", events, last=True) if self._verbatim else self._translate(events)

    def fail(self, error: ApiError) -> bytes:
        """The upstream has failed in a way that its bytes do not tell (a reset, a timeout)."""
        if self.ended:
            return b""
        return self._encode(Fault(error))

    def keepalive(self) -> bytes:
        """Bytes that keep the connection busy and that the client ignores."""
        return self._encoder.keepalive()

    def _translate(self, events: Iterable[Event]) -> bytes:
        written: list[bytes] = []
        for event in events:
            if type(event) is Delta and event.index == self._plain:
                # Most of a stream is text, and a pass changes text only through its block's index.
                moved = event if self._plain_as == event.index else Delta(self._plain_as, event.text)
                written.append(self._encode(moved))
                continue
            passed = _through(self._passes, (event,))
            self._follow(event, passed)
            written += [self._encode(out) for out in passed]
        return written[0] if len(written) == 1 else b"".join(written)

    def _follow(self, event: Event, passed: Sequence[Event]) -> None:
        """Notice when a block without arguments has just been opened towards the client, and when that is over."""
        if type(event) is not Delta:
            last = passed[-1] if passed else None
            if isinstance(event, Open) and isinstance(last, Open) and isinstance(last.block, PLAIN):
                self._plain, self._plain_as = event.index, last.index
            else:
                self._plain = self._plain_as = -1

    def _encode(self, event: Event) -> bytes:
        if self.ended:
            return b""
        encoded = self._encoder.feed(event)
        if type(event) is Delta:
            return encoded
        if self._exchange.strict and self._exchange.receipt.losses:
            event = Fault(
                ApiError(kind="bad_request", code="would_lose", message=str(LossError(self._exchange.receipt)))
            )
            encoded = self._encoder.feed(event)
        self._notice(event)
        return encoded

    def _forward(self, data: bytes, events: Iterable[Event], *, last: bool = False) -> bytes:
        """The same dialect on both sides: the bytes as they are, and an error of our own if they stop too soon.

        A frame that is not whole yet waits, so that an error never has to follow half of one.
        """
        searched = max(len(self._held) - 3, 0)  # the longest end of a frame is four bytes
        self._held += data
        # Gemini can also stream one JSON array, which has no frames to wait for.
        self._framed = self._framed and not (searched == 0 and self._held.startswith(b"["))
        end = end_of_frames(self._held, searched) if self._framed else len(self._held)
        for event in events:
            self._notice(event)
            if isinstance(event, Start):
                self._encoder.feed(event)  # an error of our own must have the id of the response it ends
            if isinstance(event, Fault) and event.error.code in ("upstream_truncated", "upstream_unreadable"):
                return bytes(self._held[:end]) + self._encoder.feed(event)
        if last or self.ended:
            end = len(self._held)
        whole = bytes(self._held[:end])
        del self._held[:end]
        return whole

    def _notice(self, event: Event) -> None:
        if isinstance(event, Finish):
            self.usage = event.usage
            self.ended = not self._verbatim
        elif isinstance(event, Fault):
            self.fault = event.error
            self.ended = True
