"""Recorded replies, as whoever calls an upstream gets them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from tests.recordings.made import JSON, exchange, lines_of
from tests.waiting import FAILSAFE
from toolglot.dialects import find
from toolglot.recordings.format import (
    SUFFIX,
    AnyLine,
    RecordingHead,
    UpstreamData,
    UpstreamEnd,
    UpstreamRequest,
    UpstreamResponse,
)
from toolglot.upstream.replay.reply import Speed, parse_failure
from toolglot.upstream.replay.transport import ReplayTransport
from toolglot.upstream.transport import Reply, TransportError, UpstreamCall
from toolglot.wire import json

ASKED: dict[str, Any] = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
CHUNK = (
    b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":'
    b'{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}\n\n'
)
T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    async def within() -> T:
        return await asyncio.wait_for(work, FAILSAFE)

    return asyncio.run(within())


def recorded(**changes: Any) -> list[AnyLine]:
    """A stream of two pieces, a twentieth of a second after one another."""
    lines = exchange("openai_chat", "openai_chat", ASKED, [CHUNK, b"data: [DONE]\n\n"])
    return [line for line in lines if type(line) not in changes.get("without", ())]


def transport(folder: Path, lines: list[AnyLine], speed: Speed = "none") -> ReplayTransport:
    (folder / f"a{SUFFIX}").write_bytes(lines_of(lines))
    return ReplayTransport(find("openai_chat"), folder, speed=speed)


def call(method: str = "POST", url: str = "replay:x/v1/chat/completions") -> UpstreamCall:
    return UpstreamCall(method=method, url=url, headers={}, body=json.encode(ASKED))


async def collected(reply: Reply) -> list[bytes]:
    return [chunk async for chunk in reply.chunks()]


def test_the_pieces_come_as_they_were_recorded(tmp_path: Path) -> None:
    async def ask() -> None:
        reply = await transport(tmp_path, recorded()).send(call())
        assert reply.status == 200
        assert reply.headers["content-type"].startswith("text/event-stream")
        assert await collected(reply) == [CHUNK, b"data: [DONE]\n\n"]

    run(ask())


def test_the_client_may_have_spoken_what_nobody_knows_here(tmp_path: Path) -> None:
    async def ask() -> None:
        head, *rest = recorded()
        assert isinstance(head, RecordingHead)
        reply = await transport(tmp_path, [replace(head, client="klingon"), *rest]).send(call())
        assert await collected(reply) == [CHUNK, b"data: [DONE]\n\n"]

    run(ask())


@pytest.mark.parametrize(("speed", "slow"), [("none", False), ("real", True)])
def test_they_come_at_once_or_as_fast_as_they_did(tmp_path: Path, speed: Speed, slow: bool) -> None:
    async def ask() -> float:
        began = asyncio.get_running_loop().time()
        await collected(await transport(tmp_path, recorded(), speed).send(call()))
        return asyncio.get_running_loop().time() - began

    assert (run(ask()) >= 0.19) is slow  # four steps of 0.05


def test_a_reply_that_is_closed_says_no_more(tmp_path: Path) -> None:
    async def ask() -> None:
        reply = await transport(tmp_path, recorded(), "real").send(call())
        chunks = aiter(reply.chunks())
        await anext(chunks)
        reply.close()
        with pytest.raises(TransportError, match="closed"):
            await anext(chunks)

    run(ask())


def test_what_broke_off_breaks_off_again(tmp_path: Path) -> None:
    lines = [
        UpstreamEnd(at=line.at, error="timeout: silent") if isinstance(line, UpstreamEnd) else line
        for line in recorded()
    ]

    async def ask() -> TransportError:
        reply = await transport(tmp_path, lines).send(call())
        with pytest.raises(TransportError, match="silent") as raised:
            await reply.read(10_000)
        return raised.value

    assert run(ask()).failure == "timeout"


@pytest.mark.parametrize("gone", [(UpstreamEnd,), (UpstreamResponse, UpstreamData, UpstreamEnd)])
def test_what_the_recording_does_not_tell_to_its_end_is_broken_off(tmp_path: Path, gone: tuple[type, ...]) -> None:
    async def ask() -> None:
        reply = await transport(tmp_path, recorded(without=gone)).send(call())
        await reply.read(10_000)

    with pytest.raises(TransportError, match="record"):
        run(ask())


def test_a_reply_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    async def ask() -> None:
        await (await transport(tmp_path, recorded()).send(call())).read(10)

    with pytest.raises(TransportError, match="more than 10 bytes") as raised:
        run(ask())
    assert raised.value.failure == "too_large"


@pytest.mark.parametrize(
    ("error", "failure", "message"),
    [("connect: refused", "connect", "refused"), ("it broke", "reset", "it broke"), ("odd: it", "reset", "odd: it")],
)
def test_a_recorded_failure_is_the_same_failure(error: str, failure: str, message: str) -> None:
    made = parse_failure(error)
    assert (made.failure, str(made)) == (failure, message)


def test_headers_about_bytes_are_not_told_again_and_a_wait_only_where_nobody_came_back(tmp_path: Path) -> None:
    head = {**JSON, "Retry-After": "7", "content-encoding": "gzip", "content-length": "9", "x-id": "1"}
    first = recorded()
    request = next(line for line in first if isinstance(line, UpstreamRequest))
    refused: list[AnyLine] = [UpstreamResponse(status=429, headers=head), UpstreamEnd()]
    again = [type(request)(attempt=2, text=request.text, url=request.url, dialect="openai_chat")]
    rest: list[AnyLine] = [UpstreamResponse(attempt=2, status=429, headers=head), UpstreamEnd(attempt=2)]
    replaying = transport(tmp_path, [*first[:3], *refused, *again, *rest])

    async def ask() -> list[set[str]]:
        return [set((await replaying.send(call())).headers) for _ in range(2)]

    earlier, later = run(ask())
    assert later - earlier == {"retry-after"}
    assert {"content-type", "x-id"} < earlier
    assert not {"content-encoding", "content-length"} & later


def test_only_the_list_of_models_can_be_got(tmp_path: Path) -> None:
    async def ask() -> tuple[Reply, Reply]:
        replaying = transport(tmp_path, recorded())
        return await replaying.send(call("GET", "replay:x/v1/models")), await replaying.send(call("GET", "replay:x/v1"))

    listed, other = run(ask())
    assert (listed.status, other.status) == (200, 404)
    assert b'"m"' in run(listed.read(1000))


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    async def ask() -> bytes:
        reply = await ReplayTransport(find("openai_chat"), tmp_path / "nowhere").send(call())
        assert reply.status == 400
        return await reply.read(10_000)

    assert b"There is no such folder" in run(ask())


@pytest.mark.parametrize(
    ("upstreams", "told"),
    [
        (("openai_chat",), b"There is 1 recorded call, in openai_chat, and none in this dialect."),
        (("anthropic", "openai_chat"), b"There are 2 recorded calls, in anthropic and openai_chat, and none in this"),
        ((), b"There is no recorded call in it."),
    ],
)
def test_recordings_of_other_dialects_alone_are_told_by_their_dialects(
    tmp_path: Path, upstreams: tuple[str, ...], told: bytes
) -> None:
    for upstream in upstreams:
        lines = exchange("openai_chat", upstream, ASKED, [])
        (tmp_path / f"{upstream}{SUFFIX}").write_bytes(lines_of(lines))

    async def ask() -> bytes:
        reply = await ReplayTransport(find("gemini"), tmp_path).send(call())
        return await reply.read(10_000)

    assert told in run(ask())


def test_what_is_redacted_in_recordings_matches_and_is_not_told(tmp_path: Path) -> None:
    said = [{"role": "user", "content": "I am canary-17."}]
    hidden = [{"role": "user", "content": "I am [redacted]."}]
    lines = exchange("openai_chat", "openai_chat", {**ASKED, "messages": hidden}, [CHUNK, b"data: [DONE]\n\n"])
    replaying = transport(tmp_path, lines)
    replaying.redact(["canary-[0-9]+"])

    async def ask(**members: Any) -> tuple[int, bytes]:
        body = json.encode({**ASKED, "messages": said, **members})
        reply = await replaying.send(UpstreamCall(url="replay:x/v1/chat/completions", headers={}, body=body))
        return reply.status, await reply.read(10_000)

    assert run(ask())[0] == 200
    status, told = run(ask(temperature=1))
    assert status == 400
    assert b"canary" not in told


def test_the_real_value_of_what_was_redacted_matches(tmp_path: Path) -> None:
    hidden = [{"role": "user", "content": "I am [redacted], not [redacted]."}, {"role": "user", "content": "Hi"}]
    lines = exchange("openai_chat", "openai_chat", {**ASKED, "messages": hidden}, [CHUNK, b"data: [DONE]\n\n"])
    replaying = transport(tmp_path, lines)

    async def ask(said: str, more: str = "Hi", **members: Any) -> tuple[int, bytes]:
        messages = [{"role": "user", "content": said}, {"role": "user", "content": more}]
        body = json.encode({**ASKED, "messages": messages, **members})
        reply = await replaying.send(UpstreamCall(url="replay:x/v1/chat/completions", headers={}, body=body))
        return reply.status, await reply.read(10_000)

    assert run(ask("I am canary-17, not canary-18."))[0] == 200
    assert run(ask('I am a "quoted\\\\" one, not me.'))[0] == 200
    assert run(ask("I am [redacted], not [redacted]."))[0] == 200
    for said in ("I am , not me.", "I was me, not you.", "I am me, not you", "I am me."):
        assert run(ask(said))[0] == 400, said
    assert run(ask("I am me, not you.", temperature=1))[0] == 400
    status, told = run(ask("I am me, not you.", "Ho"))
    assert status == 400
    assert b"messages[1].content is recorded" in told
    assert b"messages[0]" not in told
