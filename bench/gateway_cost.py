"""`python -m bench.gateway_cost [FOLDER [NAME …]]`: the processor time of the gateway for one request, without sockets.

First a small request with one tool, for each pair of dialects. Then the captured requests in FOLDER
(`bench/captures.py`), or those whose file names begin with one of the names, for each upstream. Microseconds from the
client's bytes to the upstream's, and from the upstream's whole answer to the client's: HTTP, translation, log record
and metrics. The best of several runs. `--calls` counts function calls instead, which no other load on the machine
changes.

Another checkout that has this script is measured with the same command in its own folder.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.captures import captured
from bench.core import IN_JSON, best
from bench.socketless import Socketless, without_sockets
from toolglot.translate import ExchangeCore

PATHS = {
    "anthropic": "/v1/messages",
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "gemini": "/v1beta/models/m:generateContent",
    "ollama": "/api/chat",
}
HEADERS = {"host": "localhost", "content-type": "application/json", "x-api-key": "k", "anthropic-version": "2023-06-01"}
TEXT = "It is empty."
_REPEATS = 50
_WARM_UP = 10


def small_request(client: str) -> bytes:
    """A request with one tool, one call and its result."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "a"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "It says nothing."}
    body = _compact(
        {
            "model": "m",
            "max_tokens": 100,
            "system": "Be brief.",
            "messages": [
                {"role": "user", "content": "Please read it."},
                {"role": "assistant", "content": [{"type": "text", "text": "I will."}, call]},
                {"role": "user", "content": [result]},
            ],
            "tools": [
                {
                    "name": "Read",
                    "description": "Reads.",
                    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
                }
            ],
            "stream": False,
        }
    )
    return body if client == "anthropic" else ExchangeCore("anthropic", client, model="m").request(body)


def small_answer(upstream: str) -> bytes:
    """A whole answer with one text."""
    message = {"role": "assistant", "content": TEXT, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    fields = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    if upstream == "openai_chat":
        return _compact(fields)
    exchange = ExchangeCore(upstream, "openai_chat", model="m", created=1)
    exchange.request(small_request(upstream))
    return exchange.response(_compact(fields))


def _compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _post(client: str, body: bytes) -> bytes:
    head = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
    return f"POST {PATHS[client]} HTTP/1.1\r\n{head}content-length: {len(body)}\r\n\r\n".encode() + body


def _ok(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def measure(client: str, upstream: str, body: bytes, cost: Callable[[Callable[[], None]], float]) -> float:
    """The cost of one request with this body."""
    request, answer = _post(client, body), _ok(small_answer(upstream))

    async def work(stage: Socketless) -> float:
        connection, written = stage.client()
        other, sent = await stage.upstream()

        def exchange() -> None:
            connection.data_received(request)
            other.data_received(answer)
            sent.written.clear()

        for _ in range(_WARM_UP):
            exchange()
            await asyncio.sleep(0)
        if TEXT.encode() not in (last := written.written[-1]):
            raise RuntimeError(f"{client} -> {upstream}: no answer: {last[-300:]!r}")
        return cost(exchange)

    return without_sockets(work, upstream)


def microseconds(runs: int) -> Callable[[Callable[[], None]], float]:
    """Measure processor time."""

    def cost(exchange: Callable[[], None]) -> float:
        def repeat() -> None:
            for _ in range(_REPEATS):
                exchange()

        gc.collect()
        gc.freeze()
        return 1e6 * best(repeat, runs) / _REPEATS

    return cost


def count_calls(work: Callable[[], None]) -> int:
    """Count the functions that are called, those of C included."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def rows(requests: Iterator[tuple[str, str, bytes]], cost: Callable[[Callable[[], None]], float]) -> Iterator[str]:
    """One line for each request (name, client's dialect, body), with a column for each upstream."""
    for name, client, body in requests:
        cells = (f"{measure(client, upstream, body, cost):18.0f}" for upstream in IN_JSON)
        yield f"{name:32}{len(body):8}" + "".join(cells) + "\n"


def _small_requests() -> Iterator[tuple[str, str, bytes]]:
    for client in IN_JSON:
        yield client, client, small_request(client)


def _captured_requests(folder: Path, names: Sequence[str]) -> Iterator[tuple[str, str, bytes]]:
    for request in captured(folder, names):
        if request.dialect in IN_JSON and len(request.body) <= 200_000:  # larger ones are translated in a thread
            body = json.loads(request.body)
            if "stream" in body:
                body["stream"] = False
            yield request.name, request.dialect, _compact(body)


def main(arguments: Sequence[str], write: Callable[[str], object] = sys.stdout.write) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path, nargs="?")
    options.add_argument("names", nargs="*")
    options.add_argument("--runs", type=int, default=15)
    options.add_argument("--calls", action="store_true")
    wanted = options.parse_args(arguments)
    cost = count_calls if wanted.calls else microseconds(wanted.runs)
    write(f"{'client or request':32}{'bytes':>8}" + "".join(f"{name:>18}" for name in IN_JSON) + "\n")
    for row in rows(_small_requests(), cost):
        write(row)
    if wanted.folder is not None:
        for row in rows(_captured_requests(wanted.folder, wanted.names), cost):
            write(row)


if __name__ == "__main__":
    main(sys.argv[1:])
