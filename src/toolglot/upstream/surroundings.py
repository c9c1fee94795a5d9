"""Proxies and certificates as the environment names them, the way curl and the vendors' own clients read it.

- `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, in lower case first. Loopback addresses never go through a
  proxy. A proxy of a kind that is not spoken here (SOCKS) is an error and not a reason to go without.
- `SSL_CERT_FILE`, `SSL_CERT_DIR` and `REQUESTS_CA_BUNDLE` take the place of the system's certificates.
"""

from __future__ import annotations

import os
import ssl
from base64 import b64encode
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address, ip_network
from urllib.parse import unquote

from msgspec import Struct

from toolglot.config.addresses import is_loopback
from toolglot.upstream.transport import TransportError
from toolglot.upstream.url import Url, parse

_NAMES = {"http": ("http_proxy", "all_proxy"), "https": ("https_proxy", "all_proxy")}


class Proxy(Struct, frozen=True):
    url: Url
    headers: Mapping[str, str] = {}
    """Its credential, if it wants one."""


class Proxies:
    def __init__(self, environment: Mapping[str, str]) -> None:
        named = (name.strip().lower() for name in _value(environment, "no_proxy").split(","))
        # The names below `localhost` are no loopback that one could rely on, but no proxy can know them either.
        self._exceptions = ("localhost", *(name for name in named if name))
        self._named = {
            scheme: next(((name, value) for name in names if (value := _value(environment, name))), None)
            for scheme, names in _NAMES.items()
        }

    def find(self, url: Url) -> Proxy | None:
        """The proxy on the way to this address. Raises `TransportError` for one that cannot be used."""
        named, host = self._named[url.scheme], url.host
        if named is None or is_loopback(host) or any(_covers(name, host, url.port) for name in self._exceptions):
            return None
        name, value = named
        return _proxy(name, value)


def certificates(environment: Mapping[str, str]) -> ssl.SSLContext:
    """What TLS trusts. Raises `TransportError` when a certificate that was named cannot be read."""
    bundle = environment.get("REQUESTS_CA_BUNDLE") or ""
    file = environment.get("SSL_CERT_FILE") or ("" if os.path.isdir(bundle) else bundle)
    folder = environment.get("SSL_CERT_DIR") or (bundle if os.path.isdir(bundle) else "")
    try:
        return _context(file, folder)
    except (OSError, ssl.SSLError):
        raise TransportError("tls", f"no certificates can be read from {file or folder}") from None


@lru_cache(maxsize=8)
def _context(file: str, folder: str) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=file or None, capath=folder or None)


def _value(environment: Mapping[str, str], name: str) -> str:
    return (environment.get(name) or environment.get(name.upper()) or "").strip()


def _proxy(name: str, value: str) -> Proxy:
    try:
        url = parse(value if "://" in value else f"http://{value}")
    except ValueError:
        raise TransportError("connect", f"the proxy in {name.upper()} is not one that speaks HTTP") from None
    return Proxy(url) if url.user is None else Proxy(url, {"proxy-authorization": basic(url)})


def basic(url: Url) -> str:
    """The credential in an address, as a header tells it (RFC 7617)."""
    credential = f"{unquote(url.user or '')}:{unquote(url.password or '')}"
    return f"Basic {b64encode(credential.encode()).decode()}"


def _covers(name: str, host: str, port: int) -> bool:
    """Does an entry of `NO_PROXY` cover this host? `*`, a domain with all below it, an address, a network, a port."""
    if name == "*" or name == f"{host}:{port}":
        return True
    if "/" in name:
        try:
            return ip_address(host) in ip_network(name, strict=False)
        except ValueError:
            return False
    domain = name.removeprefix("*").removeprefix(".").strip("[]")
    return host == domain or host.endswith(f".{domain}")
