"""Proxies and certificates from environment variables, read as curl and the vendors' own clients do.

- `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`; lower case first. Loopback addresses never use a proxy. An
  unsupported kind of proxy (SOCKS) is an error, not a reason to connect directly.
- `SSL_CERT_FILE`, `SSL_CERT_DIR` and `REQUESTS_CA_BUNDLE` replace the system's certificates.
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

_PROXY_VARIABLES = {"http": ("http_proxy", "all_proxy"), "https": ("https_proxy", "all_proxy")}


class Proxy(Struct, frozen=True):
    url: Url
    headers: Mapping[str, str] = {}
    """The proxy's credential, if it needs one."""


class ProxySettings:
    def __init__(self, environment: Mapping[str, str]) -> None:
        named = (name.strip().lower() for name in _variable(environment, "no_proxy").split(","))
        # Names below `localhost` are not reliably loopback, but no proxy can resolve them either.
        self._exceptions = ("localhost", *(name for name in named if name))
        self._named = {
            scheme: next(((name, value) for name in names if (value := _variable(environment, name))), None)
            for scheme, names in _PROXY_VARIABLES.items()
        }

    def find(self, url: Url) -> Proxy | None:
        """Return the proxy for this address. Raises `TransportError` if it cannot be used."""
        named, host = self._named[url.scheme], url.host
        if (
            named is None
            or is_loopback(host)
            or any(_matches_no_proxy(name, host, url.port) for name in self._exceptions)
        ):
            return None
        name, value = named
        return _parse_proxy(name, value)


def trusted_context(environment: Mapping[str, str]) -> ssl.SSLContext:
    """Create a TLS context. Raises `TransportError` if a configured certificate cannot be read."""
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


def _variable(environment: Mapping[str, str], name: str) -> str:
    return (environment.get(name) or environment.get(name.upper()) or "").strip()


def _parse_proxy(name: str, value: str) -> Proxy:
    try:
        url = parse(value if "://" in value else f"http://{value}")
    except ValueError:
        raise TransportError("connect", f"the proxy in {name.upper()} is not an HTTP proxy") from None
    return Proxy(url) if url.user is None else Proxy(url, {"proxy-authorization": basic_credential(url)})


def basic_credential(url: Url) -> str:
    """Return the credential of an address as a header value (RFC 7617)."""
    credential = f"{unquote(url.user or '')}:{unquote(url.password or '')}"
    return f"Basic {b64encode(credential.encode()).decode()}"


def _matches_no_proxy(name: str, host: str, port: int) -> bool:
    """Return whether a `NO_PROXY` entry matches this host: `*`, a domain and its subdomains, an address, a network, a
    port."""
    if name == "*" or name == f"{host}:{port}":
        return True
    if "/" in name:
        try:
            return ip_address(host) in ip_network(name, strict=False)
        except ValueError:
            return False
    domain = name.removeprefix("*").removeprefix(".").strip("[]")
    return host == domain or host.endswith(f".{domain}")
