"""`toolglot serve` on a way over the network that `TOOLGLOT_BENCH_TRANSPORT` names."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from toolglot.cli import main
from toolglot.server import run
from toolglot.upstream.opening import open_transport
from toolglot.upstream.transport import Call, Reply, Transport, TransportKind

TRANSPORT = "TOOLGLOT_BENCH_TRANSPORT"


class GeneralWay:
    """The lean transport as any other, by which no express lane leads."""

    def __init__(self, lean: Transport) -> None:
        self._lean = lean

    async def send(self, call: Call) -> Reply:
        return await self._lean.send(call)

    async def close(self) -> None:
        await self._lean.close()


def _express(max_connections: int, environment: Mapping[str, str]) -> Transport:
    return open_transport("lean", max_connections, environment)


def _lean(max_connections: int, environment: Mapping[str, str]) -> Transport:
    return GeneralWay(open_transport("lean", max_connections, environment))


def _aiohttp(max_connections: int, environment: Mapping[str, str]) -> Transport:
    return open_transport("aiohttp", max_connections, environment)


def _pyreqwest(max_connections: int, environment: Mapping[str, str]) -> Transport:
    from bench.transports.pyreqwest_transport import PyreqwestTransport

    return PyreqwestTransport(max_connections, environment)


OPENERS: Mapping[str, Callable[[int, Mapping[str, str]], Transport]] = {
    "express": _express,
    "lean": _lean,
    "aiohttp": _aiohttp,
    "pyreqwest": _pyreqwest,
}


def serve() -> None:
    opener = OPENERS[os.environ[TRANSPORT]]

    def opened(kind: TransportKind, max_connections: int, environment: Mapping[str, str]) -> Transport:
        return opener(max_connections, environment)

    run.open_transport = opened  # type: ignore[attr-defined]
    main()


if __name__ == "__main__":
    serve()
