"""What the HTTP client keeps to: limits, addresses, and the words for what goes wrong."""

from __future__ import annotations

import os
import ssl

from toolglot.upstream.transport import TransportError
from toolglot.upstream.url import Url, parse

READ_BUFFER = 64 * 1024
"""Bytes of a body that may wait for their reader before the socket is left alone."""
MAX_LINE = 8 * 1024
MAX_FIELD = 32 * 1024
"""Vendors' security headers alone can have ten thousand bytes."""
MAX_FIELDS = 128
WHOLE_BODY = 256 * 1024
"""The largest body that is handed to the socket in one piece."""
MAX_HEADS = 32
"""Of one answer, interim ones (1xx) included."""
KEEP_ALIVE = 15.0
"""Seconds that a connection may be idle."""
USER_AGENT = "toolglot"

NO_ADDRESS = "the upstream's address is no http or https URL"
BAD_HEADER = "the request to {host} cannot be written: a header has characters that none may have"


def url_of(text: str) -> Url:
    """The address. The path was written by its dialect and goes out as it is, escapes and all."""
    if " " in text or not text.isascii() or not text.isprintable():
        raise TransportError("connect", NO_ADDRESS)
    try:
        return parse(text)
    except ValueError:
        raise TransportError("connect", NO_ADDRESS) from None


def reason(error: BaseException) -> str:
    """Why, in the words of the system alone: other texts may repeat what they were given."""
    inner = getattr(error, "os_error", None) or getattr(error, "certificate_error", None) or error
    if isinstance(inner, ssl.SSLCertVerificationError):
        return inner.verify_message or "the certificate is not valid"
    if isinstance(inner, ssl.SSLError):
        return (inner.reason or "the handshake failed").replace("_", " ").lower()
    if isinstance(inner, OSError) and inner.errno is not None and inner.errno > 0:
        return os.strerror(inner.errno)
    return "it was closed"
