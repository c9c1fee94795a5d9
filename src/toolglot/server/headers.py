"""Headers that pass through the gateway, by allowlist, and headers that it adds."""

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
from toolglot.translate import ExchangeCore
from toolglot.upstream.replay.labels import RECORDING, recording_header
from toolglot.upstream.upstream import Upstream
from toolglot.wire.framing import EVENTS, Framing


def stream_headers(framing: Framing = EVENTS) -> dict[str, str]:
    """Return the headers of a stream in this framing."""
    return {
        "content-type": framing.media_type if framing.is_bare else f"{framing.media_type}; charset=utf-8",
        "cache-control": "no-cache",
        # nginx and similar proxies would buffer the stream otherwise.
        "x-accel-buffering": "no",
    }


STREAM_HEADERS = stream_headers()

_MAX_LOSSES = 5

VERSION = {"x-toolglot-version": __version__}

HOPS = "x-toolglot-hops"
STRICT = "x-toolglot-strict"
MCP_SERVERS = "x-toolglot-mcp"
CLIENT_SETTINGS = (HOPS, STRICT, MCP_SERVERS)
"""Headers with which a client controls this gateway."""
MAX_HOPS = 8
"""Maximum gateways in a chain. More are taken for a loop."""


def encode_lines(fields: Mapping[str, str]) -> bytes:
    """Encode headers for HTTP/1.1."""
    return "".join([f"{name}: {value}\r\n" for name, value in fields.items()]).encode("latin-1")


def count_hops(headers: Mapping[str, str]) -> int:
    """Count the toolglot gateways that a request has passed."""
    value = headers.get(HOPS, "0")
    return int(value) if value.isdecimal() and len(value) < 4 else 0


def select_for_upstream(
    client: Dialect, upstream: Dialect, headers: Mapping[str, str], *, stream: bool
) -> dict[str, str]:
    """Select the headers of a client for an upstream."""
    passed = {HOPS: str(count_hops(headers) + 1)}
    if "accept" not in upstream.headers.sent:
        passed["accept"] = upstream.stream.framing.media_type if stream else "application/json"
    if client.name == upstream.name:
        passed |= {name: headers[name] for name in upstream.headers.request_headers if header_value(headers.get(name))}
    if (trace := header_value(headers.get("traceparent"))) is not None:
        passed["traceparent"] = trace
    return passed


def add_query(path: str, client: Dialect, upstream: Dialect, query: Mapping[str, str]) -> str:
    """Add the client's query parameters to an upstream's path, where both have the same dialect."""
    if client.name != upstream.name:
        return path
    added = [f"{name}={query[name]}" for name in client.headers.query if query.get(name, "").isalnum()]
    return path + ("&" if "?" in path else "?") + "&".join(added) if added else path


def select_for_client(client: Dialect, upstream: Dialect, headers: Mapping[str, str]) -> dict[str, str]:
    """Select the headers of an upstream for a client: those of its own dialect, and rate limits in its dialect."""
    if client.name == upstream.name:
        return client.headers.select_answer_headers(headers)
    if not any("ratelimit" in name for name in headers):
        return {}
    # A dialect's error codec reads and writes rate limits: errors are where they usually appear.
    limits = upstream.decode_error(200, headers, b"").limits
    if not limits:
        return {}
    written = client.encode_error(ApiError(kind="rate_limit", message="", limits=limits)).headers
    return {name: value for name, value in written.items() if "ratelimit" in name}


def describe_receipt(receipt: Receipt) -> dict[str, str]:
    """Describe the receipt in one short header: the number of losses and notes, and where the first losses are."""
    counts = f"losses={receipt.loss_count}; notes={receipt.note_count}"
    if not receipt.loss_count:
        return {"x-toolglot-receipt": counts}
    return {"x-toolglot-receipt": _printable(f"{counts}; lost={','.join(dict.fromkeys(first_losses(receipt)))}")}


def first_losses(receipt: Receipt) -> tuple[str, ...]:
    """Return the locations of the first losses."""
    if not receipt.loss_count:
        return ()
    return tuple(islice([line.where for line in receipt if line.severity == "loss"], _MAX_LOSSES))


_UNPRINTABLE = re.compile("[^ -~]")


def _printable(text: str) -> str:
    """Make text safe for a header. Clients choose the names in it."""
    return _UNPRINTABLE.sub("?", text[:500])


def describe_exchange(
    exchange: ExchangeCore, upstream: Upstream, upstream_headers: Mapping[str, str], record: RequestRecord
) -> dict[str, str]:
    """Return the headers of a model's answer: the receipt, the target, and the upstream's headers for this client."""
    passed = _select_passed(exchange, upstream, upstream_headers)
    if not passed:
        return {**describe_receipt(exchange.receipt), **describe_target(record)}
    recording = recording_header(exchange.receipt, passed)
    return {
        **select_for_client(exchange.client, exchange.upstream, passed),
        **{name: _printable(value) for name, value in recording.items()},
        **describe_receipt(exchange.receipt),
        **describe_target(record),
    }


def describe_cost(record: RequestRecord) -> dict[str, str]:
    """Describe the known cost of the answer in USD, in one header; none if no cost is known."""
    if record.cost is None:
        return {}
    from toolglot.prices import to_decimal  # loaded with the first price

    return {"x-toolglot-cost": to_decimal(record.cost)}


def has_none_for_client(exchange: ExchangeCore, upstream_headers: Mapping[str, str]) -> bool:
    """Return whether the upstream sent no header for the client."""
    if exchange.client.name == exchange.upstream.name or RECORDING in upstream_headers:
        return False
    return "ratelimit" not in " ".join(upstream_headers)


def _select_passed(
    exchange: ExchangeCore, upstream: Upstream, upstream_headers: Mapping[str, str]
) -> Mapping[str, str]:
    """Select the upstream's headers that concern the client, without the upstream's credential."""
    if exchange.client.name == exchange.upstream.name:
        own = exchange.client.headers.answer_prefixes
        passed = {name: value for name, value in upstream_headers.items() if name.startswith(own) or name == RECORDING}
    elif RECORDING in upstream_headers or "ratelimit" in " ".join(upstream_headers):
        passed = {name: value for name, value in upstream_headers.items() if "ratelimit" in name or name == RECORDING}
    else:
        return {}
    return upstream.safe_headers(passed) if passed else passed


@lru_cache(1024)
def _target(upstream: str | None, model: str | None) -> str:
    return _printable(f"{upstream}/{model}")


def describe_target(record: RequestRecord) -> dict[str, str]:
    """Describe the upstream and the model that answer in one header, and the member of a pool in another."""
    target = {"x-toolglot-upstream": _target(record.upstream, record.upstream_model)}
    return target if record.member is None else {**target, "x-toolglot-member": record.member}
