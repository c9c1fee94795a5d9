"""Resolve host names and connect sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address
from itertools import chain, zip_longest

from toolglot.upstream.transport import TransportError

CONNECT_DELAY = 0.25
"""Seconds before the next address of a name is tried in parallel (RFC 8305, 5)."""
CACHE_TTL = 10.0
"""Seconds that resolved addresses are cached."""
MAX_NAMES = 256

Address = tuple[socket.AddressFamily, tuple[object, ...]]


class Resolver:
    """Resolves names and caches the addresses for a short time."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], tuple[float, Sequence[Address]]] = {}

    async def connect(self, host: str, port: int, name: str | None) -> socket.socket:
        """Return a connected socket. Raises `OSError`, or `TransportError` for an unknown name.

        Args:
            name: of the host, for the error; without it an unknown name raises `OSError`.
        """
        try:
            addresses = await self._look_up(host, port)
        except (socket.gaierror, UnicodeError):
            if name is None:
                raise OSError from None
            raise TransportError("connect", f"the name {name} cannot be found") from None
        if len(addresses) == 1:
            return await _connect_one(*addresses[0])
        return await _connect_first(addresses)

    async def _look_up(self, host: str, port: int) -> Sequence[Address]:
        with suppress(ValueError):
            literal = ip_address(host)
            if literal.version == 4:
                return [(socket.AF_INET, (host, port))]
            if "%" not in host:
                return [(socket.AF_INET6, (host, port, 0, 0))]
        loop = asyncio.get_running_loop()
        until, addresses = self._known.get((host, port), (0.0, ()))
        if loop.time() < until:
            return addresses
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = _interleave_families([(family, address) for family, _, _, _, address in found])
        if len(self._known) >= MAX_NAMES:
            self._known.clear()
        self._known[host, port] = loop.time() + CACHE_TTL, addresses
        return addresses


def _interleave_families(addresses: Sequence[Address]) -> list[Address]:
    """Alternate between address families, starting with the one that the system prefers (RFC 8305, 4)."""
    if not addresses:
        raise socket.gaierror
    first = addresses[0][0]
    same = [address for address in addresses if address[0] == first]
    others = [address for address in addresses if address[0] != first]
    return [address for address in chain.from_iterable(zip_longest(same, others)) if address is not None]


async def _connect_one(family: socket.AddressFamily, address: tuple[object, ...]) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setblocking(False)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(opened, address)
    except BaseException:
        opened.close()
        raise
    return opened


async def _connect_first(addresses: Sequence[Address]) -> socket.socket:
    """Try the addresses with a delay between them, and use the first that connects."""
    left = list(reversed(addresses))
    running: set[asyncio.Task[socket.socket]] = set()
    failure: OSError | None = None
    try:
        while left or running:
            if left:
                running.add(asyncio.create_task(_connect_one(*left.pop())))
            done, running = await asyncio.wait(
                running, timeout=CONNECT_DELAY if left else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                error = task.exception()
                if error is None:
                    done.discard(task)
                    _close_all(done)
                    return task.result()
                if not isinstance(error, OSError):
                    raise error
                failure = error
        raise failure or OSError
    finally:
        for task in running:
            task.cancel()
            task.add_done_callback(lambda ended: _close_all({ended}))


def _close_all(tasks: set[asyncio.Task[socket.socket]]) -> None:
    """Close sockets that connected too late."""
    for task in tasks:
        if not task.cancelled() and task.exception() is None:
            task.result().close()
