"""Which headers cross the gateway. A table of what may pass, never a list of what may not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice

from toolglot import __version__
from toolglot.dialect import Dialect
from toolglot.errors import ApiError, header_value
from toolglot.gateway.request_record import RequestRecord
from toolglot.receipt import Receipt
from toolglot.translate import Exchange
from toolglot.upstream.replay.labels import RECORDING, recording_header
from toolglot.upstream.upstream import Upstream
from toolglot.wire.framing import EVENTS, Framing


def stream_headers(framing: Framing = EVENTS) -> dict[str, str]:
    """What every stream in this framing is sent with."""
    return {
        "content-type": framing.media_type if framing.is_bare else f"{framing.media_type}; charset=utf-8",
        "cache-control": "no-cache",
        # nginx and its kin would hold a stream back until their buffer is full.
        "x-accel-buffering": "no",
    }


STREAM_HEADERS = stream_headers()

_MAX_LOSSES = 5

VERSION = {"x-toolglot-version": __version__}

HOPS = "x-toolglot-hops"
STRICT = "x-toolglot-strict"
MCP_SERVERS = "x-toolglot-mcp"
CLIENT_SETTINGS = (HOPS, STRICT, MCP_SERVERS)
"""What a client can tell this gateway in headers."""
MAX_HOPS = 8
"""Gateways in a row. More are a circle, in which a request would go round until nothing is left."""


def encode_lines(fields: Mapping[str, str]) -> bytes:
    """Headers as they stand on the wire."""
    return "".join([f"{name}: {value}\r\n" for name, value in fields.items()]).encode("latin-1")


def count_hops(headers: Mapping[str, str]) -> int:
    """How many gateways of ours a request has come through."""
    told = headers.get(HOPS, "0")
    return int(told) if told.isdecimal() and len(told) < 4 else 0


def select_for_upstream(
    client: Dialect, upstream: Dialect, headers: Mapping[str, str], *, stream: bool
) -> dict[str, str]:
    """A client's headers that an upstream should see."""
    passed = {HOPS: str(count_hops(headers) + 1)}
    if "accept" not in upstream.headers.sent:
        passed["accept"] = upstream.stream.framing.media_type if stream else "application/json"
    if client.name == upstream.name:
        passed |= {name: headers[name] for name in upstream.headers.of_requests if header_value(headers.get(name))}
    if (trace := header_value(headers.get("traceparent"))) is not None:
        passed["traceparent"] = trace
    return passed


def add_query(path: str, client: Dialect, upstream: Dialect, query: Mapping[str, str]) -> str:
    """An upstream's path with the client's query parameters that belong to it."""
    if client.name != upstream.name:
        return path
    told = [f"{name}={query[name]}" for name in client.headers.query if query.get(name, "").isalnum()]
    return path + ("&" if "?" in path else "?") + "&".join(told) if told else path


def select_for_client(client: Dialect, upstream: Dialect, headers: Mapping[str, str]) -> dict[str, str]:
    """An upstream's headers that a client should see: its own dialect's as they are, rate limits in its own words."""
    if client.name == upstream.name:
        return client.headers.select_answer_headers(headers)
    if not any("ratelimit" in name for name in headers):
        return {}
    # A rate limit is read and written by the errors of a dialect: they are where one usually stands.
    limits = upstream.decode_error(200, headers, b"").limits
    if not limits:
        return {}
    written = client.encode_error(ApiError(kind="rate_limit", message="", limits=limits)).headers
    return {name: value for name, value in written.items() if "ratelimit" in name}


def describe_receipt(receipt: Receipt) -> dict[str, str]:
    """The receipt in one short header: how much was lost and changed, and where the first losses are."""
    counts = f"losses={receipt.loss_count}; notes={receipt.note_count}"
    if not receipt.loss_count:
        return {"x-toolglot-receipt": counts}
    return {"x-toolglot-receipt": _printable(f"{counts}; lost={','.join(dict.fromkeys(first_losses(receipt)))}")}


def first_losses(receipt: Receipt) -> tuple[str, ...]:
    """Where the first losses are."""
    if not receipt.loss_count:
        return ()
    return tuple(islice([line.where for line in receipt if line.severity == "loss"], _MAX_LOSSES))


_UNPRINTABLE = re.compile("[^ -~]")


def _printable(text: str) -> str:
    """What may stand in a header, whoever wrote the names in it."""
    return _UNPRINTABLE.sub("?", text[:500])


def describe_exchange(
    exchange: Exchange, upstream: Upstream, upstream_headers: Mapping[str, str], record: RequestRecord
) -> dict[str, str]:
    """What every answer of a model is sent with."""
    passed = _select_passed(exchange, upstream, upstream_headers)
    if not passed:
        return {**describe_receipt(exchange.receipt), **describe_target(record.upstream, record.upstream_model)}
    recording = recording_header(exchange.receipt, passed)
    return {
        **select_for_client(exchange.client, exchange.upstream, passed),
        **{name: _printable(value) for name, value in recording.items()},
        **describe_receipt(exchange.receipt),
        **describe_target(record.upstream, record.upstream_model),
    }


def has_none_for_client(exchange: Exchange, upstream_headers: Mapping[str, str]) -> bool:
    """Whether no header of the upstream's concerns the client."""
    if exchange.client.name == exchange.upstream.name or RECORDING in upstream_headers:
        return False
    return "ratelimit" not in " ".join(upstream_headers)


def _select_passed(exchange: Exchange, upstream: Upstream, upstream_headers: Mapping[str, str]) -> Mapping[str, str]:
    """The upstream's headers that concern the client, unless they repeat the upstream's credential."""
    if exchange.client.name == exchange.upstream.name:
        own = exchange.client.headers.of_answers
        passed = {name: value for name, value in upstream_headers.items() if name.startswith(own) or name == RECORDING}
    elif RECORDING in upstream_headers or "ratelimit" in " ".join(upstream_headers):
        passed = {name: value for name, value in upstream_headers.items() if "ratelimit" in name or name == RECORDING}
    else:
        return {}
    return upstream.safe_headers(passed) if passed else passed


@lru_cache(1024)
def _target(upstream: str | None, model: str | None) -> str:
    return _printable(f"{upstream}/{model}")


def describe_target(upstream: str | None, model: str | None) -> dict[str, str]:
    """Who answers, in one header."""
    return {"x-toolglot-upstream": _target(upstream, model)}
