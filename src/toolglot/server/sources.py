"""Where the bytes of an answer come from: a model's one answer, or the answer of a loop that runs tools in between."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import cached_property
from typing import Protocol

from toolglot.dialect import StreamEncoder
from toolglot.errors import ApiError
from toolglot.events import Fault
from toolglot.ir import used_by_both
from toolglot.receipt import Receipt
from toolglot.routing import Target
from toolglot.server import headers
from toolglot.server.attempts import Asked, Attempts, start_of_failure
from toolglot.server.beginning import Answer
from toolglot.server.pieces import drain, pieces
from toolglot.server.record import Record
from toolglot.translate import Exchange


class Source(Protocol):
    """One answer. Whatever ends it, `close` is called."""

    @property
    def encoder(self) -> StreamEncoder:
        """For what is said before there is an answer: keep-alives, an error."""
        ...

    @property
    def exchange(self) -> Exchange | None:
        """The exchange that answers, or the last one that was tried."""
        ...

    @property
    def waiting(self) -> bool:
        """Nobody is at work: the time until the next attempt is running."""
        ...

    @property
    def is_cut(self) -> bool:
        """The stream ends where its upstream broke off: the client's connection is to be cut."""
        ...

    async def whole(self) -> bytes:
        """All of the answer. Raises what `Attempts.answer` raises, as `stream` does."""
        ...

    def stream(self) -> AsyncGenerator[bytes, None]:
        """The answer as it comes. `headers` are known with the first piece."""
        ...

    def headers(self) -> Mapping[str, str]:
        """What the answer is sent with."""
        ...

    def fail(self, error: ApiError) -> bytes:
        """The end of a stream that has begun and cannot go on."""
        ...

    async def settle(self) -> None:
        """The client has the whole stream: tidy up behind it."""
        ...

    def note(self) -> None:
        """Put what is known of the answer into its record and its receipt."""
        ...

    def close(self) -> None: ...


class Plain:
    """The answer of a model."""

    def __init__(self, asked: Asked, attempts: Attempts, targets: tuple[Target, ...], record: Record) -> None:
        self._asked = asked
        self._attempts = attempts
        self._targets = targets
        self._record = record
        self._answer: Answer | None = None

    @cached_property
    def encoder(self) -> StreamEncoder:
        return self._asked.client.stream_encoder(self._asked.request, Receipt())

    @property
    def exchange(self) -> Exchange | None:
        return self._attempts.exchange

    @property
    def waiting(self) -> bool:
        return self._attempts.waiting

    @property
    def is_cut(self) -> bool:
        return self._answer is not None and self._answer.translation is not None and self._answer.translation.is_cut

    async def whole(self) -> bytes:
        self._answer = answer = await self._attempts.answer(self._targets)
        assert answer.whole is not None
        if (answered := answer.exchange.answered) is not None:
            self._record.usage = used_by_both(self._attempts.spent, answered.usage)
            self._record.stop = answered.stop.reason
        return answer.whole

    async def stream(self) -> AsyncGenerator[bytes, None]:
        self._answer = await self._attempts.answer(self._targets)
        async with aclosing(pieces(self._answer, self._attempts, self._record)) as parts:
            async for data in parts:
                yield data

    def headers(self) -> Mapping[str, str]:
        assert self._answer is not None
        return headers.of_exchange(self._answer.exchange, self._answer.headers, self._record)

    def fail(self, error: ApiError) -> bytes:
        translation = None if self._answer is None else self._answer.translation
        if translation is not None:
            return translation.fail(error)
        start = b""
        if self._asked.client.stream.early_failures:
            start = self.encoder.feed(start_of_failure(self._asked, self._record, self.exchange))
        return start + self.encoder.feed(Fault(error))

    async def settle(self) -> None:
        assert self._answer is not None
        await drain(self._answer)

    def note(self) -> None:
        if self._answer is not None and (translation := self._answer.translation) is not None:
            self._record.usage = translation.usage
            self._record.stop = None if translation.stop is None else translation.stop.reason

    def close(self) -> None:
        if self._answer is not None and self._answer.translation is not None:
            self._answer.reply.close()
