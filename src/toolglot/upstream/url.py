"""Parse network addresses. Their parts are neither escaped nor unescaped."""

from __future__ import annotations

from urllib.parse import urlsplit

from msgspec import Struct

_PORTS = {"http": 80, "https": 443}


class Url(Struct, frozen=True, kw_only=True):
    scheme: str
    host: str
    """Lower case, without brackets."""
    port: int
    target: str
    """Path and query."""
    user: str | None = None
    password: str | None = None

    @property
    def authority(self) -> str:
        """Host, and port if it is not the default: as in a `Host` header and in errors."""
        host = f"[{self.host}]" if ":" in self.host else self.host.rstrip(".")
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        """Omits the credential."""
        return f"{self.scheme}://{self.authority}{self.target}"


def parse(text: str) -> Url:
    """Raises `ValueError` unless the text is an http or https URL with a host."""
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
