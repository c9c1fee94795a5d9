"""`native` of a node: members that only this dialect understands. Decoders keep them, encoders restore them.

Notes on the shape of a node begin with `$`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType

from toolglot.dialects.anthropic.wire import CacheControl
from toolglot.ir import Cache, Native, Node, Opaque, native_of
from toolglot.wire.native import make_native, native_members

NAME = "anthropic"

LIFETIMES = {"5m": 300, "1h": 3600}
_LIFETIME_NAMES = {seconds: name for name, seconds in LIFETIMES.items()}
_CACHES: dict[str | UnsetType, Cache] = {UNSET: Cache(), **{name: Cache(age) for name, age in LIFETIMES.items()}}

T = TypeVar("T")


def read_note(notes: Mapping[str, Any], key: str, kind: type[T]) -> T | None:
    """Return the note under this key, if it has this type. A client may have changed the notes that it sends back."""
    value = notes.get(key)
    return value if isinstance(value, kind) else None


def is_missing(node: Node | Opaque, key: str) -> bool:
    """Return whether this member was absent in the document that the node was decoded from."""
    return key in (read_note(native_of(node, NAME), "$missing", list) or ())


def keep(fields: dict[str, Any], **shape: Any) -> Native:
    """Make `native` of a node from members that only this dialect understands and notes on the shape (prefix `$`)."""
    return make_native(NAME, fields, **shape)


def take_empty(fields: dict[str, Any], *keys: str) -> dict[str, Any] | None:
    """Remove empty strings, arrays and objects under these keys, and return them: the encoder restores them."""
    return {key: fields.pop(key) for key in keys if fields.get(key) in ("", [], {})} or None


def without_missing(wire: dict[str, Any], node: Node) -> dict[str, Any]:
    """Remove empty members that were absent in the document that the node was decoded from."""
    for key in read_note(native_of(node, NAME), "$missing", list) or ():
        if isinstance(key, str) and not wire.get(key):
            wire.pop(key, None)
    return wire


def restore_members(wire: dict[str, Any], node: Node) -> dict[str, Any]:
    """Add the kept members to the wire form. Members that the IR has set take precedence over kept ones."""
    notes = native_of(node, NAME)
    if notes:
        for key, value in {**kept_fields(notes), **(read_note(notes, "$empty", dict) or {})}.items():
            wire.setdefault(key, value)
    return wire


def kept_fields(notes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the kept members, without the notes on shape."""
    if "$dollar" in notes and not isinstance(notes["$dollar"], dict):
        notes = {key: value for key, value in notes.items() if key != "$dollar"}
    return native_members(notes)


def decode_cache(mark: CacheControl | UnsetType) -> Cache | None:
    return None if mark is UNSET else _CACHES[mark.ttl]


def write_cache(wire: dict[str, Any], cache: Cache | None) -> dict[str, Any]:
    """Add `cache_control` if there is a breakpoint, with the nearest of the two lifetimes."""
    if cache is not None:
        control = {"type": "ephemeral"}
        if cache.seconds is not None:
            control["ttl"] = _LIFETIME_NAMES.get(cache.seconds) or ("5m" if cache.seconds < 1800 else "1h")
        wire["cache_control"] = control
    return wire


# fmt: off
SIDE_MEMBERS = frozenset(
    {
        "id", "model", "type", "role", "usage", "stop_sequence", "stop_details", "container", "context_management",
        "service_tier", "citations", "citation", "caller", "signature",
    }
)
# fmt: on
"""Members that are not essential to an answer. A member of a wrong type is omitted and reported."""
