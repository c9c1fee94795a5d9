"""A configured model, for whoever in this process wants its answers as events: the loop that runs tools, a chat."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from toolglot.dialect import Dialect
from toolglot.events import Event, unfold
from toolglot.ir import Request, replace
from toolglot.receipt import Receipt
from toolglot.routing import Target
from toolglot.server.attempts import Asked, Attempts
from toolglot.server.beginning import Answer
from toolglot.server.calling import Calling
from toolglot.server.gateway import Gateway
from toolglot.server.pieces import drain, pieces
from toolglot.server.record import Record
from toolglot.server.replays import Replays
from toolglot.server.states import States
from toolglot.translate import Exchange


class Heard:
    """Stands where a client's encoder would, and keeps the events. It answers each with a byte, so that whoever waits
    for the first bytes of an answer learns that there is something."""

    text_around: tuple[bytes, bytes] | None = None

    def __init__(self) -> None:
        self._events: list[Event] = []

    def feed(self, event: Event) -> bytes:
        self._events.append(event)
        return b"."

    def keepalive(self) -> bytes:
        return b""

    def take(self) -> Sequence[Event]:
        taken, self._events = self._events, []
        return taken


class GatewayModel:
    """Answers requests one after the other, with the retries, the mending and the fallbacks that every client gets.

    `serves` knows the tools that are run here: a broken call to one of them is marked, and does not end the answer.

    A conversation stays with the upstream that has answered before, and falls back only if that fails.
    """

    def __init__(
        self,
        gateway: Gateway,
        client: Dialect,
        record: Record,
        *,
        calling: Calling | None = None,
        replays: Replays | None = None,
        states: States | None = None,
        asked: Asked | None = None,
        serves: Callable[[str], bool] | None = None,
    ) -> None:
        self._gateway = gateway
        self._record = record
        self._calling = calling
        self._replays = replays
        self._states = states
        self._asked = replace(asked or Asked(client=client, request=Request(model=""), body=b""), serves=serves)
        self._targets: tuple[Target, ...] = ()
        self._attempts: Attempts | None = None
        self.answer: Answer | None = None
        """The last answer that has begun."""
        self.exchange: Exchange | None = None
        """The last exchange, also of one that failed."""

    @property
    def waiting(self) -> bool:
        """No upstream is at work: the time until the next attempt is running."""
        return self._attempts is not None and self._attempts.waiting

    @property
    def receipt(self) -> Receipt:
        return Receipt() if self.exchange is None else self.exchange.receipt

    async def ask(self, request: Request) -> AsyncGenerator[Sequence[Event], None]:
        """One answer in the client's words, as it comes. Raises what `Attempts.answer` raises."""
        heard: list[Heard] = []

        def encoder() -> Heard:
            heard.append(Heard())
            return heard[-1]

        # The receipt is about all rounds: what was lost in one before is in that of the next.
        lines = (*self._asked.lines, *self.receipt)
        # A stream that breaks off is told as an event too: whoever gets the events knows what the client is told.
        asked = replace(self._asked, request=request, encoder=encoder, lines=lines, can_cut=False)
        self._attempts = attempts = Attempts(
            self._gateway, asked, self._record, self._calling, self._replays, self._states
        )
        self._record.rounds += bool(self._targets)
        targets = self._targets or self._gateway.router.resolve(request.model)
        try:
            self.answer = answer = await attempts.answer(targets)
        finally:
            self.exchange = attempts.exchange
        self._targets = targets[self._record.fallbacks :]
        if answer.translation is None:
            assert answer.exchange.restored is not None
            yield tuple(unfold(answer.exchange.restored))
            return
        try:
            async with aclosing(pieces(answer, attempts, self._record)) as parts:
                async for _ in parts:
                    yield heard[-1].take()
            await drain(answer)
        finally:
            answer.reply.close()
