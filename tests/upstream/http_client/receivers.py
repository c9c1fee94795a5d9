"""Receivers that keep what they are told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.upstream.conformance.clients import CLIENTS
from toolglot.upstream.http_client import Destination, HttpTransport, InFlightRequest, request_head
from toolglot.upstream.transport import Timeouts, TransportError, UpstreamCall

on_both_loops = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)

Told = tuple[str, Any]


class Kept:
    """All that was told, and what is to be done then: `then` is called with each of the things told."""

    def __init__(self, then: Callable[[Told], None] = lambda told: None) -> None:
        self.told: list[Told] = []
        self.then = then
        self.over = asyncio.Event()

    def on_head(self, status: int, headers: dict[str, str]) -> None:
        self._tell("head", (status, headers))

    def on_body(self, data: bytes) -> None:
        self._tell("body", data)

    def on_end(self) -> None:
        self.over.set()
        self._tell("end", None)

    def on_whole(self, headers: dict[str, str], body: bytes) -> None:
        self.on_head(200, headers)
        if body:
            self.on_body(body)
        self.on_end()

    def on_broken(self, error: TransportError) -> None:
        self.over.set()
        self._tell("broken", error)

    def _tell(self, kind: str, value: Any) -> None:
        self.told.append((kind, value))
        self.then((kind, value))

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.told]

    @property
    def body(self) -> bytes:
        return b"".join(value for kind, value in self.told if kind == "body")

    @property
    def failure(self) -> str:
        kind, error = self.told[-1]
        return error.failure if kind == "broken" else ""


def plain(transport: HttpTransport, url: str) -> tuple[Destination, bytes]:
    """Where a call to this address goes, and its head."""
    destination = transport.destination(url)
    return destination, request_head(UpstreamCall(url=f"{url}/v1", headers={"content-type": "text/plain"}), destination)


async def connected(
    transport: HttpTransport, url: str, receiver: Kept, body: bytes = b"{}", **timeouts: float
) -> InFlightRequest:
    return await transport.connect(*plain(transport, url), body, Timeouts(**timeouts), receiver)


def begun(
    transport: HttpTransport, url: str, receiver: Kept, body: bytes = b"{}", **timeouts: float
) -> InFlightRequest | None:
    return transport.begin(*plain(transport, url), body, Timeouts(**timeouts), receiver)


__all__ = ["Kept", "begun", "connected", "on_both_loops", "plain"]
