"""Addresses on the network, taken apart. What stands in them is neither escaped nor unescaped."""

from __future__ import annotations

from urllib.parse import urlsplit

from msgspec import Struct

_PORTS = {"http": 80, "https": 443}


class Url(Struct, frozen=True, kw_only=True):
    scheme: str
    host: str
    """In small letters, without brackets."""
    port: int
    target: str
    """The path and the query."""
    user: str | None = None
    password: str | None = None

    @property
    def authority(self) -> str:
        """The host, and the port if it is not the usual one: what a `Host` header tells, and an error may."""
        host = f"[{self.host}]" if ":" in self.host else self.host.rstrip(".")
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        """Without the credential."""
        return f"{self.scheme}://{self.authority}{self.target}"


def parse(text: str) -> Url:
    """Raises `ValueError` for what is no http or https URL with a host."""
    parts = urlsplit(text)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(text)
    return Url(
        scheme=parts.scheme,
        host=parts.hostname,
        port=_PORTS[parts.scheme] if parts.port is None else parts.port,
        target=f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/",
        user=parts.username or None,
        password=parts.password,
    )
