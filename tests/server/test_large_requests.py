"""Large requests, and answers that grow: whatever they cost, other clients are served meanwhile."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from tests.server.gateway import LIMITS, Talk, at, gateway, request
from tests.server.stage import Stage, Turn, model_of, stage
from tests.upstream.bad_server import BadServer, expect, reply, stream
from tests.waiting import FAILSAFE
from toolglot.dialect import Dialect
from toolglot.dialects import find
from toolglot.gateway import client_answer
from toolglot.gateway.received import decode_request
from toolglot.server import count_tokens, generate
from toolglot.store.sqlite import MEMORY, SqliteStore
from toolglot.translate import ExchangeCore
from toolglot.upstream.demo.transport import DemoTransport
from toolglot.upstream.offload import LARGE, offload

TEXT = "x" * LARGE
HEALTH = ("GET", "/health")


class Hold:
    """Holds up whoever works on a large body until `released`. Held up on the loop, nobody would be served any more."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.released = threading.Event()

    def around(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def held(*args: Any, **kwargs: Any) -> Any:
            if any(isinstance(one, bytes) and len(one) > LARGE for one in args):
                self.reached.set()
                assert self.released.wait(FAILSAFE / 4), "nobody else was served"
            return work(*args, **kwargs)

        return held


@pytest.fixture
def hold() -> Iterator[Hold]:
    held = Hold()
    yield held
    held.released.set()


@pytest.fixture(scope="module")
def scene() -> Iterator[Stage]:
    store = SqliteStore(MEMORY)
    with stage(store=store) as running:
        yield running
    asyncio.run(store.close())


def others_are_served(scene: Stage, hold: Hold, asked: Talk) -> int:
    """The status of the large request, once another one was answered in the middle of it."""
    assert hold.reached.wait(FAILSAFE)
    assert scene.running.call(*HEALTH).status == 200
    hold.released.set()
    return asked.rest().status


def holding(dialect: Dialect, hold: Hold) -> Dialect:
    counts = dialect.counting and msgspec.structs.replace(
        dialect.counting, decode_request=hold.around(dialect.counting.decode_request)
    )
    return msgspec.structs.replace(dialect, decode_request=hold.around(dialect.decode_request), counting=counts)


def test_a_large_request_is_read_while_others_are_served(
    scene: Stage, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generate, "find", lambda name: holding(find(name), hold))
    scene.play("anthropic", Turn("Hi"))
    body = {"messages": [{"role": "user", "content": TEXT}]}
    asked = scene.running.begin("openai_chat", model=model_of("anthropic"), body=body)
    assert others_are_served(scene, hold, asked) == 200


def test_a_large_request_is_translated_while_others_are_served(
    scene: Stage, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ExchangeCore, "request_of", hold.around(ExchangeCore.request_of))
    scene.play("anthropic", Turn("Hi"))
    body = {"messages": [{"role": "user", "content": TEXT}]}
    asked = scene.running.begin("openai_chat", model=model_of("anthropic"), body=body)
    assert others_are_served(scene, hold, asked) == 200


def test_a_large_history_is_read_while_others_are_served(
    scene: Stage, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.play("anthropic", Turn("Hi"))
    first = scene.ask("openai_responses", "anthropic", body={"input": TEXT}).json()
    monkeypatch.setattr(client_answer, "decode_request", hold.around(decode_request))
    body = {"input": "And?", "previous_response_id": first["id"]}
    asked = scene.running.begin("openai_responses", model=model_of("anthropic"), body=body)
    assert others_are_served(scene, hold, asked) == 200


def test_a_large_request_is_counted_while_others_are_served(
    scene: Stage, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(count_tokens, "find", lambda name: holding(find(name), hold))
    body = {"model": model_of("openai_chat"), "messages": [{"role": "user", "content": TEXT}]}
    asked = Talk(scene.running.port).send("POST", "/v1/messages/count_tokens", {}, json.dumps(body).encode())
    assert others_are_served(scene, hold, asked) == 200


def test_the_demo_upstream_reads_a_large_request_while_others_are_served(
    scene: Stage, hold: Hold, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DemoTransport, "_handle", hold.around(DemoTransport._handle))
    body = {"messages": [{"role": "user", "content": TEXT}]}
    asked = scene.running.begin("openai_chat", model="demo", body=body)
    assert others_are_served(scene, hold, asked) == 200


def test_small_work_is_done_at_once_and_large_work_in_a_thread() -> None:
    async def test() -> None:
        assert await offload(LARGE, threading.get_ident) == threading.get_ident()
        assert await offload(LARGE + 1, threading.get_ident) != threading.get_ident()
        with pytest.raises(ZeroDivisionError):
            await offload(LARGE + 1, divmod, 1, 0)

    asyncio.run(test())


def test_a_large_request_that_would_lose_something_has_its_receipt(scene: Stage) -> None:
    scene.play("openai_chat", Turn("Hi"))
    body = {"max_tokens": 9, "inference_geo": "eu", "messages": [{"role": "user", "content": TEXT}]}
    answer = scene.ask("anthropic", "openai_chat", body=body, headers={"x-toolglot-strict": "1"})
    assert answer.status == 400
    assert "inference_geo" in answer.body.decode()
    assert "inference_geo" in json.dumps(scene.running.receipt(answer))


COMMENTS = b": x\n\n" * 2_000_000


@pytest.mark.parametrize("compressed", [True, False])
def test_comments_without_end_are_bounded_from_the_first_byte(compressed: bool) -> None:
    """Nothing of them is told to the client, so that no other bound would ever hold."""
    limits = msgspec.structs.replace(LIMITS, response=len(COMMENTS) // 10)
    squeezed = reply(gzip.compress(COMMENTS), headers={"content-type": "text/event-stream", "content-encoding": "gzip"})
    script = [expect(), squeezed if compressed else stream(COMMENTS)]
    with BadServer(script) as server, gateway(at("openai_chat", server.url), limits=limits) as running:
        path, body = request("anthropic", stream=True)
        answer = running.call("POST", path, body)
        assert answer.status == 502
        assert "bytes" in answer.json()["error"]["message"]
