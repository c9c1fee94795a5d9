"""Contexts of flows that run in this process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import lru_cache
from math import inf
from random import random
from time import time

from msgspec import Struct

from toolglot.config.schema import Limits
from toolglot.dialect import StreamEncoder
from toolglot.errors import ApiError
from toolglot.events import Fault, Start
from toolglot.gateway.flow import Environment, FlowContext
from toolglot.gateway.received import ReceivedRequest, start_of_failure
from toolglot.gateway.request_record import RequestRecord
from toolglot.ir import replace
from toolglot.receipt import Receipt
from toolglot.server import error_replies
from toolglot.server.logs import printable

log = logging.getLogger("toolglot.server")


def new_context(record: RequestRecord, *, is_streaming: bool) -> FlowContext:
    """Create the context of an answer that does not go to a client's connection."""
    environment = _environment(asyncio.get_running_loop())
    return FlowContext(
        record=record,
        environment=environment,
        is_streaming=is_streaming,
        keepalive_seconds=inf,
        on_failure=log_failure,
    )


@lru_cache(1)
def _environment(loop: asyncio.AbstractEventLoop) -> Environment:
    return Environment(loop.time, random, time)


def shared_context(record: RequestRecord, limits: Limits, hide: Callable[[ApiError], ApiError]) -> FlowContext:
    """Return the base context of one client's requests: each request gets a copy."""
    return FlowContext(
        record=record,
        environment=_environment(asyncio.get_running_loop()),
        keepalive_seconds=limits.keepalive,
        describe_failure=error_replies.describe_failure,
        hide=hide,
        on_failure=log_failure,
    )


def copy_context(shared: FlowContext, record: RequestRecord, received: ReceivedRequest) -> FlowContext:
    context: FlowContext = shared.__copy__()  # type: ignore[attr-defined]
    faults = FaultEncoder(received)
    context.record = record
    context.is_streaming = received.request.stream
    context.encode_keepalive = faults.encode_keepalive
    context.encode_fault = faults.encode
    context.cuts = received.can_cut and received.client.stream.broken == "cut"
    return context


def log_failure(record: RequestRecord, name: str, error: ApiError) -> None:
    log.warning("request %s: %s (%s): %s", record.id, name, error.kind, printable(error.message))


def encode_early_failure(received: ReceivedRequest, start: Start, error: ApiError) -> bytes:
    """Encode a stream that consists of an error only, for clients that ignore the status."""
    request = replace(received.request, store=False)  # failures are not stored
    encoder = received.client.stream_encoder(request, Receipt())
    return encoder.feed(start) + encoder.feed(Fault(error))


class FaultEncoder(Struct, eq=False):
    """Writes keep-alives, and errors into a stream that has only keep-alives so far."""

    _received: ReceivedRequest
    _made: StreamEncoder | None = None

    @property
    def _encoder(self) -> StreamEncoder:
        if self._made is None:
            self._made = self._received.client.stream_encoder(self._received.request, Receipt())
        return self._made

    def encode_keepalive(self) -> bytes:
        return self._encoder.keepalive()

    def encode(self, context: FlowContext, error: ApiError) -> bytes:
        start = b""
        if self._received.client.stream.early_failures:
            start = self._encoder.feed(start_of_failure(self._received, context.record, context.exchange))
        return start + self._encoder.feed(Fault(error))
