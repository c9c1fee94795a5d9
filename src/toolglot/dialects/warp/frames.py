"""Frames: server-sent events whose data is the base64 of one `ResponseEvent`.

The server writes the URL-safe alphabet with padding. Warp's client accepts quotes around it. This reader also accepts
the standard alphabet, missing padding, and data in several lines.
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from typing import Any

from toolglot.dialects.warp.descriptors import new, parse, serialize
from toolglot.errors import DecodeError

_STANDARD = bytes.maketrans(b"-_", b"+/")


def decode_frame_data(data: bytes) -> bytes:
    """Decode the base64 of a frame's data.

    Raises:
        DecodeError: the data is not base64.
    """
    text = b"".join(data.split()).strip(b'"').translate(_STANDARD).rstrip(b"=")
    try:
        return b64decode(text + b"=" * (-len(text) % 4), validate=True)
    except (Base64Error, ValueError) as error:
        raise DecodeError("$", f"the data of an event is not base64: {error}") from None


def read_event(data: bytes) -> Any:
    """Parse the `ResponseEvent` in a frame's data."""
    return parse("ResponseEvent", decode_frame_data(data))


def write_event(event: Any) -> bytes:
    """Write the frame of a `ResponseEvent` in the server's form."""
    return b"event:data\ndata:%b\n\n" % urlsafe_b64encode(serialize(event))


def write_actions(*actions: Any) -> bytes:
    event = new("ResponseEvent")
    event.client_actions.actions.extend(actions)
    return write_event(event)
