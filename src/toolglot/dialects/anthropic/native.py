"""What only this dialect understands about a node: set aside when reading, put back when writing.

Notes on shape begin with `$`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import Raw

from toolglot.ir import Cache, Node, Opaque, native_of
from toolglot.wire.reader import Reader, kept

NAME = "anthropic"

LIFETIMES = {"5m": 300, "1h": 3600}
_LIFETIME_NAMES = {seconds: name for name, seconds in LIFETIMES.items()}


NO_INPUT = Raw(b"")
"""Stands for an `input` that was not found a second time in the bytes."""

T = TypeVar("T")


def note(notes: Mapping[str, Any], key: str, kind: type[T]) -> T | None:
    """A note of this type; None where there is none. What comes back from a client may hold anything."""
    value = notes.get(key)
    return value if isinstance(value, kind) else None


def is_missing(node: Node | Opaque, key: str) -> bool:
    """Was this member not there when the node came?"""
    return key in (note(native_of(node, NAME), "$missing", list) or ())


def take_empty(reader: Reader, *keys: str) -> dict[str, Any] | None:
    """Empty strings, arrays and objects under these keys: they say nothing, and come back as they were."""
    fields = reader.rest()
    return {key: fields.pop(key) for key in keys if fields.get(key) in ("", [], {})} or None


def missing(reader: Reader, *keys: str) -> list[str] | None:
    """Which of these members are not there, or null: a note, so that writing does not add them."""
    return [key for key in keys if key not in reader] or None


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
    return kept(notes)


def take_cache(reader: Reader) -> Cache | None:
    """`cache_control`, when it is one that can be written again exactly; any other stays with the rest."""
    control = reader.peek("cache_control")
    if not isinstance(control, dict) or control.get("type") != "ephemeral" or not control.keys() <= {"type", "ttl"}:
        return None
    lifetime = control.get("ttl")
    if "ttl" in control and (not isinstance(lifetime, str) or lifetime not in LIFETIMES):
        return None
    reader.take("cache_control")
    return Cache(LIFETIMES[lifetime] if lifetime is not None else None)


def write_cache(wire: dict[str, Any], cache: Cache | None) -> dict[str, Any]:
    """The same object with `cache_control`, if there is a breakpoint: the nearer one of the two lifetimes."""
    if cache is not None:
        control = {"type": "ephemeral"}
        if cache.seconds is not None:
            control["ttl"] = _LIFETIME_NAMES.get(cache.seconds) or ("5m" if cache.seconds < 1800 else "1h")
        wire["cache_control"] = control
    return wire
