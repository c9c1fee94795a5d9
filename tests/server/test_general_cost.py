"""What a request costs that takes no short way, in calls of functions, which are the same on every machine.

As in `test_callback_cost.py`: each bound is what was counted when it was written and a fifth more. The translation
itself is not counted, only what the server does around it. A generator that is resumed counts as called.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from toolglot.config.assemble import assemble
from toolglot.config.schema import Config, UpstreamConfig
from toolglot.dialects.openai_responses.request import decode_request
from toolglot.server.app import App
from toolglot.server.metrics import Metrics
from toolglot.server.service import RecentReceipts, Service
from toolglot.server.startup import build_gateway
from toolglot.store.sqlite import SqliteStore
from toolglot.store.worker import StoreWorker
from toolglot.translate import ExchangeCore
from toolglot.upstream.transport import UpstreamCall

FIFTH = 1.2
REQUEST_CALLS = 708
STORED_CALLS = 1003

TRANSLATION = {function.__code__ for function in (decode_request, ExchangeCore.request_of, ExchangeCore.response)}
HEADERS = {"host": "localhost", "content-type": "application/json", "authorization": "Bearer k"}
ASKED = {
    "model": "m",
    "instructions": "Be brief.",
    "input": [
        {"role": "user", "content": "Please read it."},
        {"type": "function_call", "call_id": "c1", "name": "Read", "arguments": '{"path": "a"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "It says nothing."},
    ],
    "tools": [{"type": "function", "name": "Read", "parameters": {"type": "object", "properties": {"path": {}}}}],
}
ANSWER = json.dumps(
    {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "It is empty."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    }
).encode()


class Answered:
    """A reply that is there at once."""

    status = 200
    headers: Mapping[str, str] = {"content-type": "application/json"}

    async def read(self, limit: int) -> bytes:
        return ANSWER

    def chunks(self) -> AsyncIterator[bytes]:
        raise NotImplementedError

    def close(self) -> None: ...


class Answering:
    """A transport whose upstream answers at once."""

    async def send(self, call: UpstreamCall) -> Answered:
        return Answered()

    async def close(self) -> None: ...


class Client:
    """Asks an app again and again, as an ASGI server does."""

    def __init__(self, opened: SqliteStore, **fields: Any) -> None:
        config = Config(upstreams={"up": UpstreamConfig(dialect="openai_chat", base_url="http://up.test/v1")})
        metrics, gateway = Metrics(), build_gateway(assemble(config, {}).config, Answering())
        service = Service(
            gateway=gateway, receipts=RecentReceipts(), metrics=metrics, store=opened, observers=(metrics.observe,)
        )
        self._app = App(service)
        self._body = json.dumps({**ASKED, **fields}).encode()
        self.said = b""

    async def ask(self) -> None:
        fields = {**HEADERS, "content-length": str(len(self._body))}
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/responses",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in fields.items()],
        }
        messages = [{"type": "http.request", "body": self._body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if not messages:
                await asyncio.get_running_loop().create_future()
            return messages.pop()

        async def send(message: Any) -> None:
            self.said = message.get("body", b"")

        await self._app(scope, receive, send)


def _work(path: Path, work: Callable[[Client], Awaitable[int]], **fields: Any) -> int:
    async def run() -> int:
        opened = SqliteStore(path)
        try:
            client = Client(opened, **fields)
            for _ in range(5):
                await client.ask()
            assert json.loads(client.said)["status"] == "completed"
            return await work(client)
        finally:
            await opened.close()

    return asyncio.run(run())


async def _calls(client: Client) -> int:
    """How many functions were called in this thread for one request, those of C included."""
    count = inside = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count, inside
        count += inside == 0 and event in ("call", "c_call")
        if frame.f_code in TRANSLATION:
            inside += (event == "call") - (event == "return")

    gc.disable()
    sys.setprofile(note)
    try:
        await client.ask()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def test_a_request_of_which_nothing_is_stored_takes_few_calls(tmp_path: Path) -> None:
    assert _work(tmp_path / "store.sqlite3", _calls, store=False) <= REQUEST_CALLS * FIFTH


def test_a_request_whose_answer_is_stored_takes_few_calls(tmp_path: Path) -> None:
    assert _work(tmp_path / "store.sqlite3", _calls) <= STORED_CALLS * FIFTH


@pytest.mark.parametrize(("fields", "waits"), [({"store": False}, 0), ({}, 1)])
def test_the_thread_of_the_store_is_waited_for_only_to_keep_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], waits: int
) -> None:
    async def work(client: Client) -> int:
        waited, call = 0, StoreWorker.call

        def counted(worker: StoreWorker, *args: Any, **named: Any) -> Any:
            nonlocal waited
            waited += 1
            return call(worker, *args, **named)

        with monkeypatch.context() as patched:
            patched.setattr(StoreWorker, "call", counted)
            await client.ask()
        return waited

    assert _work(tmp_path / "store.sqlite3", work, **fields) == waits
