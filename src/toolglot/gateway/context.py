"""Contexts of flows that run in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cached_property, lru_cache
from random import random
from time import time

from toolglot.config.schema import Limits
from toolglot.dialect import StreamEncoder
from toolglot.errors import ApiError
from toolglot.events import Fault, Start
from toolglot.gateway.flow import Environment, FlowContext
from toolglot.gateway.received import ReceivedRequest, start_of_failure
from toolglot.ir import replace
from toolglot.receipt import Receipt
from toolglot.server import failures
from toolglot.server.record import Record


def new_context(record: Record, *, is_streaming: bool) -> FlowContext:
    """The context of an answer that goes to no client's connection."""
    environment = _environment(asyncio.get_running_loop())
    return FlowContext(record=record, environment=environment, is_streaming=is_streaming)


@lru_cache(1)
def _environment(loop: asyncio.AbstractEventLoop) -> Environment:
    return Environment(loop.time, random, time)


def client_context(
    record: Record, received: ReceivedRequest, limits: Limits, hide: Callable[[ApiError], ApiError]
) -> FlowContext:
    """The context of an answer that goes to a client."""
    faults = FaultEncoder(received)
    return FlowContext(
        record=record,
        environment=_environment(asyncio.get_running_loop()),
        is_streaming=received.request.stream,
        encode_keepalive=faults.encode_keepalive,
        keepalive_seconds=limits.keepalive,
        encode_fault=faults.encode,
        describe_failure=failures.told,
        hide=hide,
    )


def encode_early_failure(received: ReceivedRequest, start: Start, error: ApiError) -> bytes:
    """A stream that is only an error, for clients that do not look at the status."""
    request = replace(received.request, store=False)  # failures are not stored
    encoder = received.client.stream_encoder(request, Receipt())
    return encoder.feed(start) + encoder.feed(Fault(error))


class FaultEncoder:
    """Writes keep-alives, and errors into a stream of which only keep-alives were written."""

    def __init__(self, received: ReceivedRequest) -> None:
        self._received = received

    @cached_property
    def encoder(self) -> StreamEncoder:
        return self._received.client.stream_encoder(self._received.request, Receipt())

    def encode_keepalive(self) -> bytes:
        return self.encoder.keepalive()

    def encode(self, context: FlowContext, error: ApiError) -> bytes:
        start = b""
        if self._received.client.stream.early_failures:
            start = self.encoder.feed(start_of_failure(self._received, context.record, context.exchange))
        return start + self.encoder.feed(Fault(error))
