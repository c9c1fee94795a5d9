"""Decode only the conversation of a request whose settings are cached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolglot.errors import DecodeError
from toolglot.ir import Request
from toolglot.tools.declared import DECLARED
from toolglot.wire.settings_cache import SettingsCache
from toolglot.wire.typed import TypedReader, UnsoundError


def decode_with_cached_settings(
    known: SettingsCache[Request],
    reader: TypedReader[Any],
    data: bytes,
    with_history: Callable[[Request, list[Any], bytes], Request],
) -> Request | None:
    """Return the request that `with_history` builds from its settings and the wire form of its history. None if the
    whole document must be read, for example to report an error in it.
    """
    if (found := known.find(data)) is None:
        return None
    settings, history = found
    DECLARED.adopt(settings.tools, len(data))
    if (items := reader.read_history(history)) is None:
        return None
    try:
        return with_history(settings, items, data)
    except (DecodeError, UnsoundError):
        return None
