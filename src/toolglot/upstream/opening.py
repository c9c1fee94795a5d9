"""Which of the two ways over the network is taken. Each is imported only where it is: neither comes for nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from toolglot.upstream.transport import Transport, TransportKind


def _lean(max_connections: int, environment: Mapping[str, str]) -> Transport:
    from toolglot.upstream.lean import LeanTransport

    return LeanTransport(max_connections, environment)


def _aiohttp(max_connections: int, environment: Mapping[str, str]) -> Transport:
    from toolglot.upstream.http import HttpTransport

    return HttpTransport(max_connections, environment)


_WAYS: Mapping[TransportKind, Callable[[int, Mapping[str, str]], Transport]] = {"lean": _lean, "aiohttp": _aiohttp}


def open_transport(kind: TransportKind, max_connections: int, environment: Mapping[str, str]) -> Transport:
    """Calls over the network, with at most so many connections in use at once.

    Args:
        environment: where `HTTPS_PROXY`, `NO_PROXY`, `SSL_CERT_FILE` and the like are looked up.
    """
    return _WAYS[kind](max_connections, environment)
