"""A bearer token that is over after an hour or so, and the one that it is renewed with. In memory, and nowhere else.

A call goes out with the newest token. It is renewed when it is about to be over, and once when the upstream does not
take it (status 401); then the call is made again. Whoever gives tokens is asked by one at a time, and left alone for a
while once it has refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from math import inf
from time import monotonic
from urllib.parse import quote, urlencode

from msgspec import Struct
from msgspec.structs import replace

from toolglot.config.schema import UpstreamConfig
from toolglot.errors import DecodeError
from toolglot.upstream.fetch import fetch
from toolglot.upstream.transport import Call, Reply, Timeouts, Transport, TransportError
from toolglot.wire import json

log = logging.getLogger("toolglot.upstream")

EARLY = 300.0
"""Seconds before its end at which a token is renewed; or half its life, if that is less: it is there to be used."""
REST = 30.0
"""Seconds after a refusal in which nobody asks again."""
PATIENCE = 10.0
LONGEST_ANSWER = 64 * 1024
_HEADER = "authorization"


class Tokens:
    """`key` belongs to the service at `url`; `token` is the bearer token to begin with, if there is one."""

    def __init__(
        self,
        transport: Transport,
        *,
        url: str,
        key: str,
        refresh_token: str,
        token: str | None = None,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._transport = transport
        self._url = url
        self._key = key
        self._refresh_token = refresh_token
        self._now = now
        self._lock = asyncio.Lock()
        self._until: float | None = None if token else -inf  # when it is to be renewed
        self._rest_until: float | None = None
        self.token = token
        self.origin = (url, key, refresh_token, token)
        """What the configuration said."""

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(secret for secret in (self.token, self._key, self._refresh_token) if secret)

    @property
    def is_over(self) -> bool:
        """There is no token, or none that is good for much longer."""
        return self._until is not None and self._now() >= self._until

    async def renew(self, old: str | None) -> bool:
        """Get a token in the place of this one, unless somebody has got one meanwhile; whether there is another."""
        async with self._lock:
            if self.token != old:
                return True
            if self._rest_until is not None and self._now() < self._rest_until:
                return False
            try:
                async with asyncio.timeout(PATIENCE):
                    given = await self._ask()
            except (TransportError, TimeoutError, DecodeError) as error:
                log.warning("no new token: %s", error or f"no answer within {PATIENCE:g} seconds")
                self._rest_until = self._now() + REST
                return False
            self.token = given.token
            self._until = self._now() + given.seconds - min(EARLY, given.seconds / 2)
            self._refresh_token = given.refresh_token or self._refresh_token
            return True

    async def _ask(self) -> _Given:
        form = {"grant_type": "refresh_token", "refresh_token": self._refresh_token}
        call = Call(
            url=f"{self._url}?key={quote(self._key, safe='')}",
            headers={"content-type": "application/x-www-form-urlencoded", "accept": "application/json"},
            body=urlencode(form).encode(),
            timeouts=Timeouts(connect=PATIENCE, first_byte=PATIENCE, idle=PATIENCE),
        )
        answer = await fetch(self._transport, call, LONGEST_ANSWER)
        if answer.status != 200:
            raise DecodeError("$", f"the service that gives tokens answered with status {answer.status}")
        return _given(json.decode(answer.body))


class _Given(Struct, frozen=True):
    token: str
    refresh_token: str | None
    seconds: float


def _given(value: object) -> _Given:
    fields = value if isinstance(value, dict) else {}
    token = fields.get("id_token") or fields.get("access_token")
    if not isinstance(token, str) or not token.isprintable() or " " in token:
        raise DecodeError("id_token", "the service that gives tokens gave none")
    later, seconds = fields.get("refresh_token"), str(fields.get("expires_in", ""))
    return _Given(
        token,
        later if isinstance(later, str) and later else None,
        float(seconds) if seconds.isdecimal() and len(seconds) < 10 else 3600.0,
    )


class TokenTransport:
    """A transport whose calls go out with the newest token."""

    def __init__(self, transport: Transport, tokens: Tokens) -> None:
        self._transport = transport
        self._tokens = tokens

    async def send(self, call: Call) -> Reply:
        if self._tokens.is_over:
            await self._tokens.renew(self._tokens.token)
        used = self._tokens.token
        reply = await self._transport.send(_with(call, used))
        try:
            again = reply.status == 401 and await self._tokens.renew(used)
        except BaseException:
            reply.close()
            raise
        if not again:
            return reply
        reply.close()
        return await self._transport.send(_with(call, self._tokens.token))

    async def close(self) -> None:
        await self._transport.close()


def _with(call: Call, token: str | None) -> Call:
    return call if token is None else replace(call, headers={**call.headers, _HEADER: f"Bearer {token}"})


def tokens_of(config: UpstreamConfig, transport: Transport, before: Tokens | None = None) -> Tokens | None:
    """What the configuration says of an upstream's tokens; None where its key is one that lasts. Those from `before` a
    reload stay, unless it says something else now: what they were renewed with may be known to nobody else."""
    if config.refresh_token is None or config.refresh_key is None:
        return None
    if before is not None and before.origin == (
        config.refresh_url,
        config.refresh_key,
        config.refresh_token,
        config.key,
    ):
        return before
    return Tokens(
        transport,
        url=config.refresh_url,
        key=config.refresh_key,
        refresh_token=config.refresh_token,
        token=config.key,
    )


def with_tokens(transport: Transport, tokens: Tokens | None) -> Transport:
    return transport if tokens is None else TokenTransport(transport, tokens)
