"""Check base URLs: whether they are valid, and whether they lead to this machine."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

DEMO_URL = "demo:"
REPLAY = "replay:"
"""Prefix of the address of recordings, before a folder or a file."""


def address_problem(url: str) -> str | None:
    """Return why this cannot be a base URL, without repeating it, because it may contain a secret."""
    if url == DEMO_URL:
        return None
    if is_replay(url):
        return None if recordings_of(url) else "`replay:` must be followed by the directory of the recordings"
    if problem := url_problem(url, "a base URL", "use `key`"):
        return problem
    parts = urlsplit(url)
    return "a base URL must not have a query or a fragment" if parts.query or parts.fragment else None


def is_replay(url: str | None) -> bool:
    """Return whether this address names recordings instead of a server."""
    return url is not None and url.startswith(REPLAY)


def recordings_of(url: str) -> str:
    """Return the folder or file of such an address."""
    return url.removeprefix(REPLAY).strip()


def url_problem(url: str, what: str, place: str) -> str | None:
    """Same, for any address of a server; `place` says where credentials belong."""
    if any(character.isspace() or not character.isprintable() for character in url):
        return "a URL must not contain spaces"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "this is not a URL"
    if parts.scheme not in ("http", "https"):
        return f"{what} must start with http:// or https://"
    if not parts.hostname:
        return "this URL has no host"
    if parts.username is not None or parts.password is not None:
        return f"no credentials in a URL; {place}"
    return "port 0 is invalid" if port == 0 else None


def is_loopback(host: str) -> bool:
    """Return whether a host, in brackets or not, can only be this machine. The only trusted name is `localhost`. Names
    below it should also lead here (RFC 6761, 6.3), but some systems ask name servers for them, which may answer with
    any address."""
    host = host.strip().lower().removesuffix(".")
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def leads_to(url: str, port: int | None) -> bool:
    """Return whether this address is that port of this machine. Names below `localhost` count: at worst, one server is
    not used, whereas a gateway that calls itself loops forever."""
    if is_replay(url):
        return False
    parts = urlsplit(url)
    own, host = parts.port or {"http": 80, "https": 443}.get(parts.scheme), parts.hostname or ""
    return port is not None and own == port and (is_loopback(host) or host.rstrip(".").endswith(".localhost"))
