"""What only this dialect understands about a node: set aside when reading, put back when writing.

Notes on shape begin with `$`.
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


def note(notes: Mapping[str, Any], key: str, kind: type[T]) -> T | None:
    """A note of this type; None where there is none. What comes back from a client may hold anything."""
    value = notes.get(key)
    return value if isinstance(value, kind) else None


def is_missing(node: Node | Opaque, key: str) -> bool:
    """Was this member not there when the node came?"""
    return key in (note(native_of(node, NAME), "$missing", list) or ())


def keep(fields: dict[str, Any], **shape: Any) -> Native:
    """`native` for a node: members that only this dialect understands, and notes on the shape (`$` is prefixed)."""
    return make_native(NAME, fields, **shape)


def take_empty(fields: dict[str, Any], *keys: str) -> dict[str, Any] | None:
    """Empty strings, arrays and objects under these keys: they say nothing, and come back as they were."""
    return {key: fields.pop(key) for key in keys if fields.get(key) in ("", [], {})} or None


def without_missing(wire: dict[str, Any], node: Node) -> dict[str, Any]:
    """The wire form without the members that were missing when it came and that still say nothing."""
    for key in note(native_of(node, NAME), "$missing", list) or ():
        if isinstance(key, str) and not wire.get(key):
            wire.pop(key, None)
    return wire


def with_kept(wire: dict[str, Any], node: Node) -> dict[str, Any]:
    """The wire form, with what was kept. Where the IR has a say, it wins over what was kept."""
    notes = native_of(node, NAME)
    if notes:
        for key, value in {**kept_fields(notes), **(note(notes, "$empty", dict) or {})}.items():
            wire.setdefault(key, value)
    return wire


def kept_fields(notes: Mapping[str, Any]) -> dict[str, Any]:
    """What was kept, without the notes on shape."""
    if "$dollar" in notes and not isinstance(notes["$dollar"], dict):
        notes = {key: value for key, value in notes.items() if key != "$dollar"}
    return native_members(notes)


def decode_cache(mark: CacheControl | UnsetType) -> Cache | None:
    """The breakpoint of `cache_control`."""
    return None if mark is UNSET else _CACHES[mark.ttl]


def write_cache(wire: dict[str, Any], cache: Cache | None) -> dict[str, Any]:
    """The same object with `cache_control`, if there is a breakpoint: the nearer one of the two lifetimes."""
    if cache is not None:
        control = {"type": "ephemeral"}
        if cache.seconds is not None:
            control["ttl"] = _LIFETIME_NAMES.get(cache.seconds) or ("5m" if cache.seconds < 1800 else "1h")
        wire["cache_control"] = control
    return wire
