"""What work costs as it grows: twice as much for twice as much, and never all at once."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from threading import Event
from time import process_time
from types import FrameType
from typing import Any

import msgspec
import pytest
from bench.growth.bodies import MEGABYTE, WORDS, arguments, asked, history, long_answer, objects, said, tool, tools

from toolglot.config.schema import Limits
from toolglot.dialects import find
from toolglot.gateway.prefix_reuse import hash_messages
from toolglot.translate import ExchangeCore
from toolglot.upstream import offload as aside_module
from toolglot.upstream.offload import LARGE, offload, release
from toolglot.wire.json import MAX_DOCUMENT_BYTES

CLIENT, UPSTREAM = "anthropic", "openai_chat"


CLIENTS = (CLIENT, UPSTREAM, "openai_responses", "gemini", "ollama")


def translated(body: bytes, client: str = CLIENT) -> bytes:
    return ExchangeCore(client, UPSTREAM, model="model").request(body)


def of_client(client: str, body: bytes) -> bytes:
    """The same request in a client's own words."""
    return body if client == CLIENT else ExchangeCore(CLIENT, client, model="model").request(body)


def calls(work: Callable[[], object]) -> int:
    """How many calls it takes: those of functions in Python and in C."""
    count = 0

    def note(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


REQUESTS: dict[str, tuple[Callable[[int], bytes], int]] = {
    "turns": (history, 40),
    "tools": (tools, 40),
    "arguments": (arguments, 256),
    "messages": (objects, 600),
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("what", REQUESTS)
def test_a_request_of_twice_the_size_takes_twice_the_calls(what: str, client: str) -> None:
    make, half = REQUESTS[what]
    bodies = [of_client(client, make(size)) for size in (half, 2 * half)]
    for body in bodies:
        translated(body, client)  # what is made once is made
    counts = [calls(partial(translated, body, client)) for body in bodies]
    assert counts[1] <= 2.2 * counts[0]


def called(pieces: int) -> Iterator[str]:
    """The stream of a Chat upstream with a call whose arguments come in so many pieces."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1763164800, "model": "model"}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
        return f"data: {json.dumps({**head, 'choices': [{'index': 0, 'delta': delta, 'finish_reason': finish}]})}\n\n"

    def call(arguments: str, **more: Any) -> dict[str, Any]:
        return {"tool_calls": [{"index": 0, "function": {"arguments": arguments}, **more}]}

    first = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"text":"'}}
    yield chunk({"role": "assistant", "tool_calls": [first]})
    yield from [chunk(call(WORDS[:50]))] * pieces
    yield chunk(call('"}'))
    yield chunk({}, "tool_calls")
    yield "data: [DONE]\n\n"


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("answer", [long_answer, called])
def test_a_stream_of_twice_the_chunks_takes_twice_the_calls(
    answer: Callable[[int], Iterator[str]], client: str
) -> None:
    def stream(chunks: int) -> int:
        exchange = ExchangeCore(client, UPSTREAM, model="model")
        exchange.request(of_client(client, asked(said("Go on."), stream=True, tools=[tool(0)])), stream=True)
        pieces = [piece.encode() for piece in answer(chunks)]

        def whole() -> None:
            translation = exchange.stream()
            for piece in pieces:
                translation.feed(piece)
            translation.close()

        return calls(whole)

    stream(10)
    assert stream(4000) <= 2.2 * stream(2000)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_whole_answer_with_twice_the_arguments_takes_no_more_calls(client: str) -> None:
    def whole(kilobytes: int) -> int:
        exchange = ExchangeCore(client, UPSTREAM, model="model")
        exchange.request(of_client(client, asked(said("Go on."), tools=[tool(0)])))
        given = json.dumps({"path": "/src/file.py", "content": WORDS * (kilobytes * 1024 // len(WORDS))})
        call = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": given}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        answer = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "model", "choices": [choice]}
        return calls(partial(exchange.response, json.dumps(answer).encode()))

    whole(1)
    assert whole(1024) <= 1.2 * whole(512)  # large arguments are checked in slices


LONGEST = 0.12
"""Seconds of this process's own processor time, so that a busy machine changes nothing. One pass of the garbage
collector through the objects of this request takes several times as long."""


def test_the_loop_goes_on_while_a_body_of_many_objects_is_translated() -> None:
    body = objects(50_000)

    async def goes_on() -> bool:
        work = asyncio.create_task(offload(len(body), translated, body))
        longest, last, ticks = 0.0, process_time(), 0
        while not work.done():
            await asyncio.sleep(0.001)
            now = process_time()
            longest, last, ticks = max(longest, now - last), now, ticks + 1
        assert json.loads(await work)["messages"]
        return longest < LONGEST and ticks > 50

    # The system may let the loop wait as well while the work goes on, but hardly every time.
    assert any(asyncio.run(goes_on()) for _ in range(5))


@pytest.fixture
def usual(monkeypatch: pytest.MonkeyPatch) -> tuple[int, int, int]:
    """When the collector begins where nothing large is in memory, nor was a moment ago."""
    monkeypatch.setattr(aside_module._paused_full_collections, "_until", 0.0)
    gc.collect()
    return gc.get_threshold()


def test_no_full_collection_is_made_while_there_is_large_work_and_then_again(
    usual: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:

    async def test() -> None:
        both = [offload(LARGE + 1, gc.get_threshold), offload(LARGE + 1, gc.get_threshold)]
        for during in await asyncio.gather(*both):
            assert during[:2] == usual[:2]
            assert during[2] > 1_000_000
        with pytest.raises(ZeroDivisionError):
            await offload(LARGE + 1, divmod, 1, 0)

    monkeypatch.setattr(aside_module, "RELEASE_DELAY", 3600.0)
    asyncio.run(test())
    gc.collect()
    assert gc.get_threshold() != usual  # what was made may be there still
    monkeypatch.setattr(aside_module, "RELEASE_DELAY", 0.0)
    asyncio.run(test())
    gc.collect()
    assert gc.get_threshold() == usual


def test_a_full_collection_is_made_now_and_then_where_there_is_always_large_work(
    usual: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aside_module, "RELEASE_DELAY", 0.0)
    monkeypatch.setattr(aside_module, "MAX_COLLECTION_PAUSE_WORKING", 0.0)

    def after_a_collection() -> tuple[int, int, int]:
        gc.collect()
        return gc.get_threshold()

    assert asyncio.run(offload(LARGE + 1, after_a_collection)) == usual
    gc.collect()
    assert gc.get_threshold() == usual


def test_a_request_is_no_work_for_the_garbage_collector() -> None:
    request = find(CLIENT).decode_request(objects(6))
    assert not any(gc.is_tracked(part) for message in request.messages for part in (message, *message.content))


class Value:
    """Something that can be seen to be gone."""


def test_what_is_large_is_let_go_in_time_and_what_is_small_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aside_module, "RELEASE_DELAY", 0.0)

    async def gone(size: int) -> bool:
        went, values = Event(), tuple(Value() for _ in range(1000))
        weakref.finalize(values[0], went.set)
        release(size, values)
        del values
        at_once = went.is_set()
        assert await asyncio.to_thread(went.wait, 30)
        return at_once

    assert asyncio.run(gone(LARGE))
    assert not asyncio.run(gone(LARGE + 1))


def turn(text: str, mark: bool) -> bytes:
    """A conversation that begins with a long text, with a breakpoint in it or not."""
    block = {"type": "text", "text": text, **({"cache_control": {"type": "ephemeral"}} if mark else {})}
    return json.dumps({"messages": [{"role": "user", "content": [block]}, {"role": "user", "content": "x"}]}).encode()


@pytest.mark.parametrize("size", [100, 3 * MEGABYTE])
def test_a_breakpoint_changes_no_prefix_however_long_it_is(size: int) -> None:
    text = WORDS * (size // len(WORDS) + 1)
    found = [hash_messages(find(CLIENT), "model", turn(text, mark)) for mark in (False, True)]
    assert found[0] is not None
    assert found[1] is not None
    assert list(found[0].ends) == list(found[1].ends)
    other = hash_messages(find(CLIENT), "model", turn(text + ".", mark=True))
    assert other is not None
    assert other.hashes[0] != found[1].hashes[0]


def test_bodies_of_64_megabytes_may_be_allowed_and_no_larger_ones() -> None:
    """Larger documents nobody reads: better to say so when the configuration is read."""
    assert msgspec.convert({"body": MAX_DOCUMENT_BYTES}, Limits).body == 64 * MEGABYTE
    with pytest.raises(msgspec.ValidationError, match="<= 67108864"):
        msgspec.convert({"body": MAX_DOCUMENT_BYTES + 1}, Limits)
