"""Limits, address parsing and error messages of the HTTP client."""

from __future__ import annotations

import os
import ssl

from toolglot.upstream.transport import TransportError
from toolglot.upstream.url import Url, parse

READ_BUFFER = 64 * 1024
"""Bytes of a body to buffer before the socket is no longer read."""
MAX_LINE = 8 * 1024
MAX_FIELD = 32 * 1024
"""Security headers of some vendors alone have ten thousand bytes."""
MAX_FIELDS = 128
MAX_SINGLE_WRITE = 256 * 1024
"""Largest body that is written in one piece."""
MAX_HEADS = 32
"""Maximum heads of one answer, interim ones (1xx) included."""
KEEP_ALIVE = 15.0
"""Seconds that a connection may be idle."""
USER_AGENT = "toolglot"

NO_ADDRESS = "the upstream's address is not an http or https URL"
BAD_HEADER = "the request to {host} cannot be written: a header has invalid characters"


def parse_http_url(text: str) -> Url:
    """Parse an address. The dialect wrote the path, which is sent unchanged, with its escapes."""
    if " " in text or not text.isascii() or not text.isprintable():
        raise TransportError("connect", NO_ADDRESS)
    try:
        return parse(text)
    except ValueError:
        raise TransportError("connect", NO_ADDRESS) from None


def error_reason(error: BaseException) -> str:
    """Return the reason in the operating system's wording, because other texts may repeat credentials."""
    inner = getattr(error, "os_error", None) or getattr(error, "certificate_error", None) or error
    if isinstance(inner, ssl.SSLCertVerificationError):
        return inner.verify_message or "the certificate is not valid"
    if isinstance(inner, ssl.SSLError):
        return (inner.reason or "the handshake failed").replace("_", " ").lower()
    if isinstance(inner, OSError) and inner.errno is not None and inner.errno > 0:
        return os.strerror(inner.errno)
    return "it was closed"
