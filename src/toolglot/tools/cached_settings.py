"""Decode only the conversation of a request whose settings are cached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from toolglot.errors import DecodeError
from toolglot.ir import Request
from toolglot.tools.declared import DECLARED
from toolglot.wire.settings_cache import SettingsCache
from toolglot.wire.typed import TypedReader, UnsoundError

T = TypeVar("T")


def decode_with_cached_settings(
    known: SettingsCache[Request, T],
    reader: TypedReader[Any],
    data: bytes,
    decode_history: Callable[[list[Any], bytes], list[T]],
    with_history: Callable[[Request, Sequence[T]], Request],
) -> Request | None:
    """Return the request that `with_history` builds from its settings and its decoded history. `decode_history` decodes
    elements of the history, each independent of the others. None if the whole document must be read, for example to
    report an error in it.
    """
    if (found := known.find(data)) is None:
        return None
    settings, history = found
    DECLARED.adopt(settings.tools, len(data))

    def decode(elements: bytes) -> list[T] | None:
        items = reader.read_history(elements)
        return None if items is None else decode_history(items, data)

    try:
        decoded = known.history.read(history, decode)
        return None if decoded is None else with_history(settings, decoded)
    except (DecodeError, UnsoundError):
        return None
