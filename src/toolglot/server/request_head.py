"""Checks of a request's head, and the bytes of early error replies. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote_to_bytes

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

_HOST = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~-]+)(?::[0-9]{1,5})?")
_CONTROL = re.compile(rb"[\x00-\x1f\x7f\\]")

_ERROR_TYPES = {408: "timeout_error", 503: "overloaded_error"}


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a connection and of request heads, in bytes, seconds and counts."""

    head_bytes: int = 64 * 1024
    head_fields: int = 200
    head_timeout: float = 10.0
    write_timeout: float = 120.0
    linger: float = 5.0
    drain_bytes: int = 256 * 1024
    """Bytes of a refused request's body that are read and discarded to keep the connection usable."""
    drain_timeout: float = 1.0
    connections: int = 10_000
    spare: int = 32
    """Extra connections beyond `connections`. Only health checks are answered on them."""
    spare_timeout: float = 1.0
    health: frozenset[str] = frozenset({"/health", "/ready"})
    """Paths that are answered even when the server is full."""


class RequestRefusal(Exception):  # noqa: N818
    """Raised inside the parser's callbacks to stop parsing."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@lru_cache(maxsize=256)
def find_target_problem(target: bytes) -> str | None:
    """Describe the problem with a request's target; None if it is valid.

    A proxy in front of the gateway and the routes must read the same path from it.
    """
    if not target.startswith(b"/") or b"#" in target:
        return "The request target must be a path, such as /v1/models"
    path = unquote_to_bytes(target.partition(b"?")[0])
    if b"//" in path:
        return "The path has '//' in it: does the base URL end with an extra slash?"
    if _CONTROL.search(path):
        return "The path has a backslash or a control character in it"
    if not {b".", b".."}.isdisjoint(path.split(b"/")):
        return "The path has '.' or '..' as a segment"
    return None


def find_head_problem(version: str, target: bytes, headers: list[tuple[bytes, bytes]]) -> str | None:
    """Describe the problem with a head that llhttp accepted; None if it is valid. Names are in lower case."""
    hosts, codings = [], []
    for name, value in headers:
        if name == b"host":
            hosts.append(value)
        elif name == b"transfer-encoding":
            codings.append(value.lower())
    if len(hosts) > 1 or (not hosts and version != "1.0"):  # HTTP/1.0 has no virtual hosts
        return f"There must be one Host header, not {len(hosts)}"
    if hosts and not _HOST.fullmatch(hosts[0]):
        return "The Host header is not a host"
    # RFC 9112, section 6.1: HTTP/1.0 has no transfer codings.
    if codings and (codings != [b"chunked"] or version == "1.0"):
        return "Transfer-Encoding may only be chunked, in HTTP/1.1"
    return find_target_problem(target)


def encode_refusal_body(status: int, message: str) -> bytes:
    """Encode an error in a form that most clients read, for requests whose path has no dialect."""
    error = {"message": message, "type": _ERROR_TYPES.get(status, "invalid_request_error")}
    return msgspec.json.encode({"error": error})


def encode_refusal(status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> bytes:
    fields = [
        *headers,
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
        *([(b"retry-after", b"1")] if status == 503 else []),
    ]
    return b"".join([STATUS_LINE[status], *(b"%s: %s\r\n" % field for field in fields), b"\r\n", body])


_response_starts: dict[int, tuple[list[tuple[bytes, bytes]], bytes]] = {}


def encode_response_start(status: int, fields: list[tuple[bytes, bytes]]) -> bytes:
    """Encode the status line and uvicorn's default headers. The bytes are reused while the headers are the same list:
    uvicorn makes a new one each second, for the date."""
    known = _response_starts.get(status)
    if known is not None and known[0] is fields:
        return known[1]
    lines = [b"%b: %b\r\n" % field for field in fields]
    made = b"".join([STATUS_LINE[status], *lines])
    _response_starts[status] = fields, made
    return made


def remove_upgrade(method: bytes, target: bytes, version: str, headers: list[tuple[bytes, bytes]]) -> bytes:
    """Encode a head again without its offer to upgrade, so that llhttp parses the request as ordinary.

    Only the Connection header changes: the routes may still read the Upgrade header.
    """
    kept = {b"close", b"keep-alive"}
    tokens = [token.strip() for name, value in headers if name == b"connection" for token in value.lower().split(b",")]
    connection = b", ".join(token for token in tokens if token in kept)
    fields = [*[field for field in headers if field[0] != b"connection"], (b"connection", connection)]
    line = b"%b %b HTTP/%b\r\n" % (method, target, version.encode())
    return b"".join([line, *[b"%b: %b\r\n" % field for field in fields], b"\r\n"])
