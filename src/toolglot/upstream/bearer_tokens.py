"""A short-lived bearer token and its refresh token. Kept in memory only.

Each call uses the newest token. The token is refreshed shortly before it expires, and once if the upstream rejects it
(status 401); then the call is repeated. Only one refresh runs at a time, and none for a while after the token service
has refused.
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
from toolglot.upstream.transport import Reply, Timeouts, Transport, TransportError, UpstreamCall, fetch
from toolglot.wire import json

log = logging.getLogger("toolglot.upstream")

REFRESH_MARGIN = 300.0
"""Seconds before expiry at which a token is refreshed; at most half its lifetime, so that a short-lived token is still
used.
"""
REFUSAL_PAUSE = 30.0
"""Seconds after a refusal without another refresh."""
REFRESH_TIMEOUT = 10.0
MAX_ANSWER_BYTES = 64 * 1024
_HEADER = "authorization"


class RefreshingToken:
    """A bearer token that is refreshed with a key. `key` belongs to the service at `url`; `token` is the initial bearer
    token, if any."""

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
        self._until: float | None = None if token else -inf  # time to refresh
        self._rest_until: float | None = None
        self.token = token
        self.origin = (url, key, refresh_token, token)
        """The configured value."""

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(secret for secret in (self.token, self._key, self._refresh_token) if secret)

    @property
    def is_expiring(self) -> bool:
        """Whether there is no token, or it expires soon."""
        return self._until is not None and self._now() >= self._until

    async def renew(self, old: str | None) -> bool:
        """Refresh unless another caller has replaced `old` meanwhile. Returns whether there is another token."""
        async with self._lock:
            if self.token != old:
                return True
            if self._rest_until is not None and self._now() < self._rest_until:
                return False
            try:
                async with asyncio.timeout(REFRESH_TIMEOUT):
                    given = await self._request_token()
            except (TransportError, TimeoutError, DecodeError) as error:
                log.warning("no new token: %s", error or f"no answer within {REFRESH_TIMEOUT:g} seconds")
                self._rest_until = self._now() + REFUSAL_PAUSE
                return False
            self.token = given.token
            self._until = self._now() + given.seconds - min(REFRESH_MARGIN, given.seconds / 2)
            self._refresh_token = given.refresh_token or self._refresh_token
            return True

    async def _request_token(self) -> _GrantedToken:
        form = {"grant_type": "refresh_token", "refresh_token": self._refresh_token}
        call = UpstreamCall(
            url=f"{self._url}?key={quote(self._key, safe='')}",
            headers={"content-type": "application/x-www-form-urlencoded", "accept": "application/json"},
            body=urlencode(form).encode(),
            timeouts=Timeouts(connect=REFRESH_TIMEOUT, first_byte=REFRESH_TIMEOUT, idle=REFRESH_TIMEOUT),
        )
        answer = await fetch(self._transport, call, MAX_ANSWER_BYTES)
        if answer.status != 200:
            raise DecodeError("$", f"the token service answered with status {answer.status}")
        return _parse_grant(json.decode(answer.body))


class _GrantedToken(Struct, frozen=True):
    token: str
    refresh_token: str | None
    seconds: float


def _parse_grant(value: object) -> _GrantedToken:
    fields = value if isinstance(value, dict) else {}
    token = fields.get("id_token") or fields.get("access_token")
    if not isinstance(token, str) or not token.isprintable() or " " in token:
        raise DecodeError("id_token", "the token service returned no token")
    later, seconds = fields.get("refresh_token"), str(fields.get("expires_in", ""))
    return _GrantedToken(
        token,
        later if isinstance(later, str) and later else None,
        float(seconds) if seconds.isdecimal() and len(seconds) < 10 else 3600.0,
    )


class TokenTransport:
    """A transport that sends each call with the newest token."""

    def __init__(self, transport: Transport, tokens: RefreshingToken) -> None:
        self._transport = transport
        self._tokens = tokens

    async def send(self, call: UpstreamCall) -> Reply:
        if self._tokens.is_expiring:
            await self._tokens.renew(self._tokens.token)
        used = self._tokens.token
        reply = await self._transport.send(_with_token(call, used))
        try:
            again = reply.status == 401 and await self._tokens.renew(used)
        except BaseException:
            reply.close()
            raise
        if not again:
            return reply
        reply.close()
        return await self._transport.send(_with_token(call, self._tokens.token))

    async def close(self) -> None:
        await self._transport.close()


def _with_token(call: UpstreamCall, token: str | None) -> UpstreamCall:
    return call if token is None else replace(call, headers={**call.headers, _HEADER: f"Bearer {token}"})


def configured_token(
    config: UpstreamConfig, transport: Transport, before: RefreshingToken | None = None
) -> RefreshingToken | None:
    """Create the refreshing token that the configuration describes; None if the key does not expire. A token from
    `before` a reload is kept unless its settings changed: its refresh token may exist nowhere else."""
    if config.refresh_token is None or config.refresh_key is None:
        return None
    if before is not None and before.origin == (
        config.refresh_url,
        config.refresh_key,
        config.refresh_token,
        config.key,
    ):
        return before
    return RefreshingToken(
        transport,
        url=config.refresh_url,
        key=config.refresh_key,
        refresh_token=config.refresh_token,
        token=config.key,
    )


def with_tokens(transport: Transport, tokens: RefreshingToken | None) -> Transport:
    return transport if tokens is None else TokenTransport(transport, tokens)
