"""The client's side of a translated stream: it encodes events to bytes and records how the stream ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolglot.errors import ApiError, LossError
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start
from toolglot.ir import Stop, Usage
from toolglot.missing_usage import characters_at_start, finish_with_usage

if TYPE_CHECKING:
    from toolglot.dialect import StreamEncoder
    from toolglot.translate import ExchangeCore


class ClientStream:
    """Encodes events for the client, notifies the exchange's listener, and records the end of the stream.

    - `broken`: the upstream's connection failed, or its stream ended in the middle of an answer.
    - `is_cut`: the caller must cut the client's connection to signal this: the client gets no error event, and its
      stream has no end.
    - `ended`: nothing follows. Then `fault` is set, or `stop` and maybe `usage`.
    """

    __slots__ = (
        "_cuts",
        "_exchange",
        "_head",
        "_listener",
        "_waits",
        "broken",
        "characters",
        "encoder",
        "ended",
        "fault",
        "is_cut",
        "service_tier",
        "stop",
        "usage",
        "usage_at_start",
    )

    def __init__(self, exchange: ExchangeCore, encoder: StreamEncoder) -> None:
        self._exchange = exchange
        self.encoder = encoder
        self._listener = None if exchange.new_listener is None else exchange.new_listener()
        self.characters = 0  # of the answer, to estimate usage if it is missing at the end
        self.usage_at_start: Usage | None = None  # of the `Start` event
        self._cuts = exchange.options.can_cut and exchange.client.stream.broken == "cut"
        self._waits = exchange.options.holds_head  # only the head of an answer has come so far
        self._head = b""
        self.broken = self.is_cut = self.ended = False
        self.usage: Usage | None = None
        self.stop: Stop | None = None
        self.fault: ApiError | None = None
        self.service_tier: str | None = None

    def encode(self, event: Event) -> bytes:
        """Encode an event. Returns nothing if the stream has ended, or if the client sees a broken stream as a cut."""
        if self.ended:
            return b""
        if self._listener is not None:
            self._listener(event)
        if self._waits and type(event) is not Start:
            self._waits = False
        if self.broken and self.cuts_at(event):
            return b""
        if type(event) is Delta:
            self.characters += len(event.text)
            return self.encoder.feed(event)
        if type(event) is Open:
            self.characters += characters_at_start(event.block)
        needs_usage = type(event) is Finish and (self.usage_at_start is None or _lacks_output(event.usage))
        encoded = self.encoder.feed(self._with_usage(event) if needs_usage else event)
        receipt = self._exchange.receipt
        if self._exchange.strict and receipt.losses and not isinstance(event, Fault):
            error = ApiError(kind="bad_request", code="would_lose", message=str(LossError(receipt)))
            event = Fault(self._exchange.hide(error))
            encoded = self.encoder.feed(event)
        self.notice(event)
        return encoded

    def listen(self, events: Sequence[Event]) -> None:
        """Pass events on to the listener, and note whether they are more than the head of the answer."""
        for event in events:
            if self._listener is not None:
                self._listener(event)
            if self._waits and type(event) is not Start:
                self._waits = False

    def add_forwarded(self, events: Sequence[Event]) -> None:
        """Account for events whose bytes were forwarded."""
        for event in events:
            if type(event) is Delta:
                self.characters += len(event.text)
            elif type(event) is Open:
                self.characters += characters_at_start(event.block)
        self.listen(events)

    def add_written(self, delta: Delta, events: Sequence[Event]) -> None:
        """Account for text whose bytes were written without an event."""
        self.characters += len(delta.text)
        if self._listener is not None:
            self.listen(events)

    def cuts_at(self, event: Event) -> bool:
        """Return whether the client's connection is cut instead of sending this event: the upstream broke off, and the
        event is the error, or the end of a truncated call, which clients must not treat as complete."""
        shows_break = isinstance(event, Fault) or (isinstance(event, Close) and not event.complete)
        if not (self.broken and self._cuts and shows_break):
            return False
        self.notice(event)
        self.is_cut = self.ended
        return True

    def notice(self, event: Event) -> None:
        """Record the end of the stream, if the event is its end, and the service tier of its start or end."""
        if isinstance(event, Finish):
            self.usage, self.stop = event.usage, event.stop
            self.service_tier = event.service_tier or self.service_tier
            self.ended = True
        elif type(event) is Start:
            self.service_tier, self.usage_at_start = event.service_tier, event.usage
        elif isinstance(event, Fault):
            self.fault = self._exchange.hide(event.error)
            self.ended = True

    def hold_head(self, written: bytes) -> bytes:
        """Prepend the held-back head. Returns nothing until more than the head has arrived."""
        if self._waits:
            self._head += written
            return b""
        if self._head:
            written, self._head = self._head + written, b""
        return written

    def _with_usage(self, finish: Event) -> Event:
        assert isinstance(finish, Finish)
        exchange = self._exchange
        return finish_with_usage(finish, self.characters, exchange.asked, exchange.client, exchange.receipt)


def _lacks_output(usage: Usage | None) -> bool:
    return usage is not None and usage.output_tokens is None
