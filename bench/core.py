"""`python -m bench.core [--quick]`: a table of what the core costs, beside plain JSON work on the same bytes.

Each number is the best of several runs in processor time. A ratio compares with msgspec decoding and encoding the
same bytes, which is the least that any translation could cost.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import NamedTuple

import msgspec

from bench import bodies
from toolglot.dialects import DIALECTS
from toolglot.translate import ExchangeCore


class Size(NamedTuple):
    """How much is measured."""

    chunks: int
    request_bytes: int
    tools: int
    deltas: int
    runs: int


FULL = Size(chunks=200, request_bytes=100_000, tools=60, deltas=20_000, runs=15)
QUICK = Size(chunks=20, request_bytes=4_000, tools=3, deltas=200, runs=1)
BYTES_PER_DELTA = 52


def best(work: Callable[[], object], runs: int) -> float:
    """Seconds of the fastest run."""
    times: list[float] = []
    for _ in range(runs):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return max(min(times), 1e-9)


def translate(client: str, upstream: str, chunks: list[bytes]) -> None:
    """A stream through an exchange that may not forward the bytes as they are."""
    exchange = ExchangeCore(client, upstream)
    exchange.verbatim = False
    translation = exchange.stream()
    for chunk in chunks:
        translation.feed(chunk)
    translation.close()


IN_JSON = tuple(name for name in DIALECTS if name != "warp")
"""The dialects that a parser of JSON can be compared with."""


def payloads(chunks: Iterable[bytes]) -> list[bytes]:
    """The JSON in the frames, of events or of lines."""
    lines = [line.removeprefix(b"data: ") for line in b"".join(chunks).split(b"\n")]
    return [line for line in lines if line.startswith(b"{")]


def with_json(documents: list[bytes]) -> None:
    for document in documents:
        json.dumps(json.loads(document))


def with_msgspec(documents: list[bytes]) -> None:
    for document in documents:
        msgspec.json.encode(msgspec.json.decode(document))


def stream_rows(size: Size) -> Iterator[str]:
    yield f"\nStream of {size.chunks} deltas, text and one call: microseconds an upstream event\n"
    yield _head("upstream", "client")
    events = bodies.answer(size.chunks)
    for upstream, client in product(IN_JSON, DIALECTS):
        chunks = bodies.stream(upstream, events)
        documents = payloads(chunks)
        took = best(lambda: translate(client, upstream, chunks), size.runs)  # noqa: B023
        yield _row(upstream, client, took, documents, len(documents), 1e6, size.runs)


def request_rows(size: Size) -> Iterator[str]:
    yield f"\nRequest of {size.request_bytes // 1000} KB with {size.tools} tools: milliseconds\n"
    yield _head("client", "upstream")
    for client, upstream in product(IN_JSON, DIALECTS):
        body = bodies.request(client, size.tools, size.request_bytes)
        took = best(lambda: ExchangeCore(client, upstream).request(body, model="model"), size.runs)  # noqa: B023
        yield _row(client, upstream, took, [body], 1, 1e3, size.runs)


def argument_rows(size: Size) -> Iterator[str]:
    total = size.deltas * BYTES_PER_DELTA / 1e6
    yield f"\n{total:.2f} MB in {size.deltas} deltas of one block: seconds, and how much longer than for half of them\n"
    yield f"{'upstream':18}{'client':18}{'toolglot':>10}{'growth':>10}  of\n"
    runs = max(1, size.runs // 5)
    for upstream, client in product(DIALECTS, DIALECTS):
        kind, whole = bodies.long_stream(upstream, size.deltas, BYTES_PER_DELTA)
        half = bodies.long_stream(upstream, size.deltas // 2, BYTES_PER_DELTA)[1]
        took = best(lambda: translate(client, upstream, whole), runs)  # noqa: B023
        before = best(lambda: translate(client, upstream, half), runs)  # noqa: B023
        yield f"{upstream:18}{client:18}{took:10.3f}{took / before:9.2f}x  {kind}\n"


def _head(first: str, second: str) -> str:
    return f"{first:18}{second:18}{'toolglot':>10}{'json':>10}{'msgspec':>10}{'x json':>9}{'x msgspec':>11}\n"


def _row(first: str, second: str, took: float, documents: list[bytes], count: int, scale: float, runs: int) -> str:
    plain = best(lambda: with_json(documents), runs)
    quick = best(lambda: with_msgspec(documents), runs)
    unit = scale / count
    return (
        f"{first:18}{second:18}{took * unit:10.2f}{plain * unit:10.2f}{quick * unit:10.2f}"
        f"{took / plain:9.1f}{took / quick:11.1f}\n"
    )


def main(arguments: list[str], write: Callable[[str], object] = sys.stdout.write) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="a few of them, to see that it works")
    size = QUICK if options.parse_args(arguments).quick else FULL
    for rows in (stream_rows, request_rows, argument_rows):
        for row in rows(size):
            write(row)


if __name__ == "__main__":
    main(sys.argv[1:])
