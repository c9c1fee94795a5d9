"""Tokens are renewed in time, by one at a time, and no more often than it helps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import msgspec
import pytest

from toolglot.config.schema import UpstreamConfig
from toolglot.upstream.bearer_tokens import REFUSAL_PAUSE, RefreshingToken, TokenTransport, configured_token
from toolglot.upstream.transport import Reply, TransportError, UpstreamCall

SERVICE = "https://tokens.example/v1/token"
CALL = UpstreamCall(url="https://warp.example/ai/multi-agent", headers={"authorization": "Bearer first", "x": "y"})


class Said:
    def __init__(self, status: int, body: Any) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {}
        self._body = msgspec.json.encode(body)
        self.closed = False

    async def read(self, limit: int) -> bytes:
        return self._body

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._body

    def close(self) -> None:
        self.closed = True


class Both:
    """The service that gives tokens, numbered ones, and an upstream that takes those that it is told to."""

    def __init__(self, gives: Callable[[int], Any], takes: Callable[[str], bool] = lambda token: True) -> None:
        self._gives = gives
        self._takes = takes
        self.given: list[UpstreamCall] = []
        self.used: list[str] = []

    async def send(self, call: UpstreamCall) -> Reply:
        await asyncio.sleep(0)
        if call.url.startswith(SERVICE):
            self.given.append(call)
            said = self._gives(len(self.given))
            if isinstance(said, Exception):
                raise said
            return Said(*said) if isinstance(said, tuple) else Said(200, said)
        token = call.headers.get("authorization", "none").removeprefix("Bearer ")
        self.used.append(token)
        return Said(200 if self._takes(token) else 401, {})

    async def close(self) -> None:
        pass


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def numbered(number: int) -> dict[str, str]:
    return {"id_token": f"token-{number}", "refresh_token": f"refresh-{number}", "expires_in": "3600"}


def having(both: Both, clock: Clock, token: str | None = "first") -> tuple[TokenTransport, RefreshingToken]:
    tokens = RefreshingToken(both, url=SERVICE, key="k", refresh_token="refresh-0", token=token, now=clock)
    return TokenTransport(both, tokens), tokens


def test_a_token_is_renewed_shortly_before_it_is_over() -> None:
    async def main() -> None:
        both, clock = Both(numbered), Clock()
        transport, _ = having(both, clock, None)
        for seconds in (0, 3299, 2, 3299, 2):
            clock.now += seconds
            await transport.send(CALL)
        assert both.used == ["token-1", "token-1", "token-2", "token-2", "token-3"]
        assert [call.body for call in both.given] == [
            b"grant_type=refresh_token&refresh_token=refresh-%d" % number for number in range(3)
        ]

    asyncio.run(main())


@pytest.mark.parametrize("seconds", [1, 60, 299, 300, 301])
def test_a_token_with_a_short_life_is_used_for_half_of_it(seconds: int) -> None:
    async def main() -> None:
        both, clock = Both(lambda number: {**numbered(number), "expires_in": str(seconds)}), Clock()
        transport, _ = having(both, clock, None)
        for later in (0, 0, seconds * 0.49, seconds * 0.02):
            clock.now += later
            await transport.send(CALL)
        assert both.used == ["token-1", "token-1", "token-1", "token-2"]

    asyncio.run(main())


def test_many_calls_at_once_renew_once() -> None:
    async def main() -> None:
        both = Both(numbered, lambda token: token != "first")
        transport, tokens = having(both, Clock())
        replies = await asyncio.gather(*(transport.send(CALL) for _ in range(20)))
        assert [reply.status for reply in replies] == [200] * 20
        assert len(both.given) == 1
        assert tokens.token == "token-1"
        assert set(tokens.secrets) == {"token-1", "k", "refresh-1"}

    asyncio.run(main())


def test_a_token_that_is_refused_at_once_is_not_renewed_for_ever() -> None:
    async def main() -> None:
        both = Both(numbered, lambda token: False)
        transport, _ = having(both, Clock())
        assert (await transport.send(CALL)).status == 401
        assert both.used == ["first", "token-1"]

    asyncio.run(main())


@pytest.mark.parametrize(
    "says",
    [
        (400, {"error": {"message": "TOKEN_EXPIRED"}}),
        {"token": "x"},
        {"id_token": "a b"},
        {"id_token": ["x"]},
        [],
        TransportError("connect", "it cannot be reached"),
    ],
)
def test_a_service_that_refuses_is_left_alone_for_a_while(says: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        both, clock = Both(lambda number: says, lambda token: False), Clock()
        transport, tokens = having(both, clock)
        for _ in range(3):
            assert (await transport.send(CALL)).status == 401
        assert len(both.given) == 1
        clock.now += REFUSAL_PAUSE
        await transport.send(CALL)
        assert len(both.given) == 2
        assert tokens.token == "first"

    asyncio.run(main())
    assert "refresh-0" not in caplog.text


def test_without_any_token_the_call_goes_as_it_is() -> None:
    async def main() -> None:
        both = Both(lambda number: (500, {}))
        transport, _ = having(both, Clock(), None)
        await transport.send(CALL)
        assert both.used == ["first"]  # what the call had itself

    asyncio.run(main())


def test_both_halves_are_needed() -> None:
    both = Both(numbered)
    assert configured_token(UpstreamConfig(refresh_token="r"), both) is None
    assert configured_token(UpstreamConfig(refresh_key="k"), both) is None
    assert configured_token(UpstreamConfig(refresh_token="r", refresh_key="k"), both) is not None


def test_nothing_secret_is_printed() -> None:
    shown = repr(UpstreamConfig(refresh_token="the-token", refresh_key="the-key"))
    assert "the-token" not in shown
    assert "the-key" not in shown


def test_what_was_renewed_survives_a_reload_of_the_same_configuration() -> None:
    both = Both(numbered)
    config = UpstreamConfig(refresh_token="r", refresh_key="k")
    before = configured_token(config, both)
    assert configured_token(config, both, before) is before
    assert configured_token(UpstreamConfig(refresh_token="other", refresh_key="k"), both, before) is not before
