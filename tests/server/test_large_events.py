"""One event of megabytes in an upstream's stream: others are served while it is translated, and it arrives whole."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from typing import Any

import pytest

from tests.exchanges import JSON_NAMES
from tests.server.gateway import Running, at, gateway
from tests.server.socketless import ANSWER, chunk
from tests.upstream.bad_server import (
    LAST_CHUNK,
    BadServer,
    Gate,
    Step,
    close,
    expect,
    pause,
    reply,
    send,
    stream,
)
from tests.upstream.bad_server import chunk as http_chunk
from tests.waiting import FAILSAFE
from toolglot.gateway.targets import ExchangeTranslation
from toolglot.streaming import StreamTranslation
from toolglot.upstream.offload import LARGE

TEXT = 'A word, a "quote" and é.\n' * (LARGE // 8)
FIRST = chunk(role="assistant", content="Well: ")
LAST = chunk().replace(b'"finish_reason":null', b'"finish_reason":"stop"') + b"data: [DONE]\n\n"


def framed(event: bytes) -> Step:
    return send(http_chunk(event))


def called(**function: str) -> bytes:
    more = {"id": "call_1", "type": "function"} if "name" in function else {}
    return chunk(tool_calls=[{"index": 0, "function": function, **more}])


CALL = (called(name="Read", arguments=""), called(arguments=json.dumps({"path": TEXT})))
CALLED = chunk().replace(b'"finish_reason":null', b'"finish_reason":"tool_calls"') + b"data: [DONE]\n\n"
EVENTS = {"text": (chunk(content=TEXT), LAST), "arguments": (*CALL, CALLED)}


class Held:
    """Holds up whoever translates the end of a large event, until somebody else was served."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.released = threading.Event(), threading.Event()
        fed: Counter[int] = Counter()
        feed = StreamTranslation.feed

        def held(translation: StreamTranslation, data: bytes) -> bytes:
            fed[id(translation)] += len(data)
            if fed[id(translation)] > LARGE and b"\n" in data and not self.reached.is_set():
                self.reached.set()
                assert self.released.wait(FAILSAFE / 4), "nobody else was served"
            return feed(translation, data)

        monkeypatch.setattr(StreamTranslation, "feed", held)

    def serve_another(self, running: Running) -> None:
        assert self.reached.wait(FAILSAFE)
        assert running.call("GET", "/health").status == 200
        assert running.record().path == "/health"
        self.released.set()


def deltas(body: bytes) -> str:
    """All that an Anthropic client gets of texts and arguments."""
    lines = [line.removeprefix(b"data: ") for line in body.split(b"\n") if line.startswith(b"data: ")]
    events: list[dict[str, Any]] = [json.loads(line) for line in lines]
    assert events[-1]["type"] == "message_stop"
    found = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    return "".join(delta.get("text", "") + delta.get("partial_json", "") for delta in found)


@pytest.mark.parametrize("what", EVENTS)
@pytest.mark.parametrize("first", [(FIRST,), ()], ids=["later", "first"])
def test_a_large_event_is_translated_while_others_are_served(
    what: str, first: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    held, begun = Held(monkeypatch), Gate()
    script = [expect(), stream(*first, complete=False), pause(begun), *map(framed, EVENTS[what]), send(LAST_CHUNK)]
    with BadServer(script) as server, gateway(at("openai_chat", server.url)) as running:
        asked = running.begin("anthropic", stream=True)
        if first:
            asked.until(b"Well: ")
        begun.open()
        held.serve_another(running)
        answer = asked.rest()
        assert running.record().is_simple
    assert answer.status == 200
    said = "Well: " if first else ""
    assert deltas(answer.body) == said + (TEXT if what == "text" else json.dumps({"path": TEXT}))


@pytest.mark.parametrize("client", JSON_NAMES)
def test_what_follows_a_large_event_follows_it(client: str) -> None:
    """The end of the stream is there before the event is translated."""
    words = [chunk(content=f"{number} ") for number in range(50)]
    events = [FIRST, chunk(content=TEXT), *words, chunk(content=TEXT), *words, LAST]
    with BadServer([expect(), stream(b"".join(events))]) as server, gateway(at("openai_chat", server.url)) as running:
        answer = running.ask(client, stream=True)
    numbers = "".join(f"{number} " for number in range(50))
    expected = json.dumps(f"Well: {TEXT}{numbers}{TEXT}{numbers}", ensure_ascii=False)[1:-1]
    if client == "anthropic":
        assert deltas(answer.body) == json.loads(f'"{expected}"')
    said = answer.body.decode()
    assert said.index("Well: ") < said.index("A word") < said.index("49 ") < said.rindex("A word")
    assert answer.status == 200


def test_a_stream_that_breaks_while_its_large_event_is_translated_has_the_event_and_the_break(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held, broken = Held(monkeypatch), Gate()
    script = [expect(), stream(FIRST, chunk(content=TEXT), complete=False), pause(broken), close()]
    with BadServer(script) as server, gateway(at("openai_chat", server.url)) as running:
        asked = running.begin("openai_chat", stream=True)
        assert held.reached.wait(FAILSAFE)
        broken.open()
        held.serve_another(running)
        answer = asked.rest()
    assert answer.body.count(b"A word") == TEXT.count("A word")
    assert not answer.complete or b"error" in answer.body
    assert b"[DONE]" not in answer.body


def test_a_fault_in_the_thread_ends_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = StreamTranslation.feed

    def fail(translation: StreamTranslation, data: bytes) -> bytes:
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # in a thread beside the loop
            raise ValueError("a fault") from None
        return feed(translation, data)

    begun = Gate()
    script = [expect(), stream(FIRST, complete=False), pause(begun), framed(EVENTS["text"][0]), send(LAST_CHUNK)]
    with BadServer(script) as server, gateway(at("openai_chat", server.url)) as running:
        asked = running.begin("anthropic", stream=True)
        asked.until(b"Well: ")
        monkeypatch.setattr(StreamTranslation, "feed", fail)
        begun.open()
        answer = asked.rest()
    assert b'"type":"error"' in answer.body
    assert b"message_stop" not in answer.body


def test_a_client_that_leaves_while_its_large_event_is_translated_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = Held(monkeypatch)
    with (
        BadServer([expect(), stream(FIRST, *EVENTS["text"])]) as server,
        gateway(at("openai_chat", server.url)) as running,
    ):
        asked = running.begin("anthropic", stream=True)
        assert held.reached.wait(FAILSAFE)
        asked.leave()
        assert running.record().cancelled
        held.released.set()
        assert running.call("GET", "/health").status == 200


def test_a_large_whole_answer_is_translated_while_others_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    read = ExchangeTranslation._decode

    def note(translation: ExchangeTranslation, body: bytes) -> bytes:
        threads.append(threading.current_thread().name)
        return read(translation, body)

    monkeypatch.setattr(ExchangeTranslation, "_decode", note)
    document = ANSWER.replace(b"It is empty.", json.dumps(TEXT)[1:-1].encode())
    with BadServer([expect(), reply(document)]) as server, gateway(at("openai_chat", server.url)) as running:
        answer = running.ask("anthropic")
    assert answer.json()["content"][0]["text"] == TEXT
    assert [name.startswith("toolglot-large") for name in threads] == [True]
