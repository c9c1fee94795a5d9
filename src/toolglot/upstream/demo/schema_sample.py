"""Construct a value for a JSON Schema: from the wish if it fits, otherwise the simplest allowed value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from toolglot.upstream.demo.hints import Hints, value_kind
from toolglot.upstream.demo.regex_sample import matching_text
from toolglot.upstream.demo.schema_check import (
    MIN_STEP,
    TYPE_CHECKS,
    as_list,
    is_number,
    is_same_value,
    matches_number,
    matches_schema,
    numeric_limit,
    resolve_reference,
    schema_types,
)

SIMPLE_FROM_DEPTH = 4
"""Depth from which the simplest value is used: null, an empty list, a plain value."""
MAX_DEPTH = 24
MAX_NODES = 3000
"""Maximum number of values; the rest is null. References can make a small schema infinite."""
MAX_TRIES = 12

FORMATS = {
    "date": "2025-01-01",
    "date-time": "2025-01-01T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "email": "demo@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "url": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}

_IMPLIED_TYPES = (
    ("object", ("properties", "required", "additionalProperties", "minProperties")),
    ("array", ("items", "prefixItems", "minItems", "uniqueItems")),
    ("number", ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
)
"""Types that keywords imply if a schema has no type; a string if they imply none."""


def sample_value(schema: Any, hints: Hints) -> Any:
    """Return a value that the schema allows."""
    return Sampler(schema, hints).value(schema, "", 0, 0)


class Sampler:
    """One schema being filled: its root, for references, and the number of values written."""

    def __init__(self, root: Any, hints: Hints) -> None:
        self._root = root
        self._hints = hints
        self._nodes = 0
        self._numbers: dict[str, int] = {}  # index of the wish's number for each parameter
        self._writers: dict[str, Callable[[dict[str, Any], str, int, int], Any]] = {
            "string": self._string,
            "integer": self._number,
            "number": self._number,
            "boolean": lambda schema, name, nth, depth: bool(nth),
            "null": lambda schema, name, nth, depth: None,
            "array": self._array,
            "object": self._object,
        }

    def value(self, schema: Any, name: str, nth: int, depth: int) -> Any:
        """Return a value for the parameter `name`; `nth` makes the items of a list differ."""
        self._nodes += 1
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            return None
        found: list[Any] = []
        for flat in islice(self._variants(schema, depth, 0), MAX_TRIES):
            value = self._plain(flat, name, nth, depth)
            if matches_schema(value, schema, self._root):
                return value
            found.append(value)
        return found[0] if found else None

    def _variants(self, schema: Any, depth: int, hops: int) -> Iterator[dict[str, Any]]:
        """Yield the schema without references and choices, once per combination of choices."""
        if not isinstance(schema, dict):
            yield {}
            return
        if hops > MAX_DEPTH:
            return
        plain = {key: value for key, value in schema.items() if key not in ("$ref", "allOf", "anyOf", "oneOf")}
        groups = [[resolve_reference(schema["$ref"], self._root)]] if "$ref" in schema else []
        groups += [[part] for part in as_list(schema.get("allOf"))]
        groups += [
            self._order_branches(branches, depth)
            for key in ("anyOf", "oneOf")
            if (branches := as_list(schema.get(key)))
        ]
        yield from self._combine_branches(plain, groups, depth, hops)

    def _combine_branches(
        self, plain: dict[str, Any], groups: list[list[Any]], depth: int, hops: int
    ) -> Iterator[dict[str, Any]]:
        if not groups:
            yield plain
            return
        for branch in groups[0]:
            for way in self._variants(branch, depth, hops + 1):
                if (merged := merge_schemas(plain, way)) is not None:
                    yield from self._combine_branches(merged, groups[1:], depth, hops + 1)

    def _order_branches(self, branches: list[Any], depth: int) -> list[Any]:
        """Order branches with null last. At depth, simple ones come first, so that a recursive schema ends."""

        def cost(branch: Any) -> int:
            kinds = schema_types(branch) if isinstance(branch, dict) else []
            if kinds == ["null"]:
                return 0 if depth >= SIMPLE_FROM_DEPTH else 2
            return int(depth >= SIMPLE_FROM_DEPTH and (not kinds or "object" in kinds or "array" in kinds))

        return sorted(branches, key=cost)

    def _plain(self, schema: dict[str, Any], name: str, nth: int, depth: int) -> Any:
        if "const" in schema:
            return schema["const"]
        if options := as_list(schema.get("enum")):
            return self._option(schema, options, nth)
        kinds = schema_types(schema) or [self._likely_type(schema)]
        if depth >= SIMPLE_FROM_DEPTH and "null" in kinds:
            return None
        wanted = [kind for kind in kinds if kind in self._writers and kind != "null"] or ["null"]
        has_default = nth == 0 and "default" in schema and matches_schema(schema["default"], schema, self._root)
        told = (
            "string" in wanted
            and bool(self._hints.candidates(name))
            and value_kind(name) not in (None, "prose", "folder")
        )
        if has_default and not told:
            return schema["default"]
        value = self._writers[wanted[0]](schema, name, nth, depth)
        if "null" in kinds and nth == 0 and isinstance(value, str) and not self._hints.candidates(name):
            return None
        return value

    def _option(self, schema: dict[str, Any], options: list[Any], nth: int) -> Any:
        """Return an option of an enumeration: the one that the wish names, otherwise the default or the first one."""
        rest = {key: value for key, value in schema.items() if key != "enum"}
        allowed = [option for option in options if matches_schema(option, rest, self._root)] or options
        named = [option for option in allowed if isinstance(option, str) and self._hints.mentions(option)]
        ranked = [*named, *(option for option in allowed if option == schema.get("default")), *allowed]
        return ranked[0] if nth == 0 else allowed[nth % len(allowed)]

    def _likely_type(self, schema: dict[str, Any]) -> str:
        return next((kind for kind, keys in _IMPLIED_TYPES if any(key in schema for key in keys)), "string")

    def _string(self, schema: dict[str, Any], name: str, nth: int, depth: int) -> str:
        least, most = int(numeric_limit(schema, "minLength") or 0), numeric_limit(schema, "maxLength")
        if isinstance(pattern := schema.get("pattern"), str) and (text := matching_text(pattern, least)) is not None:
            return text
        found = self._hints.candidates(name)
        if (form := schema.get("format")) in FORMATS:
            keep = value_kind(name) in ("url", "date") and form in ("uri", "url", "date") and nth < len(found)
            return found[nth] if keep else FORMATS[form]
        text = found[nth] if nth < len(found) else self._hints.fallback(name) + (f" {nth + 1}" if nth else "")
        if most is not None and len(text) > most:
            text = text[: int(most)] if not nth else f"{nth + 1}".ljust(int(most), "x")[: int(most)]
        return text.ljust(min(least, 100_000), ".")

    def _number(self, schema: dict[str, Any], name: str, nth: int, depth: int) -> int | float:
        place = self._numbers.setdefault(f"{name}/{nth}", len(self._numbers))
        told = self._hints.number(place)
        wanted = float(nth + 1) if told is None else told
        whole = schema_types(schema)[:1] == ["integer"]
        return _nearest_number(wanted, schema, whole=whole, nth=0 if told is not None else nth)

    def _array(self, schema: dict[str, Any], name: str, nth: int, depth: int) -> list[Any]:
        least, most = int(numeric_limit(schema, "minItems") or 0), numeric_limit(schema, "maxItems")
        first, rest = as_list(schema.get("prefixItems")), schema.get("items", True)
        is_text = isinstance(rest, dict) and schema_types(rest) == ["string"] and "enum" not in rest
        found = self._hints.candidates(name) if is_text else ()
        if found and value_kind(name) == "command" and not self._is_restricted(schema, rest):
            return ["bash", "-lc", found[0]]
        usual = 0 if depth >= SIMPLE_FROM_DEPTH or rest is False else max(1, len(found))
        count = max(least, len(first), usual if most is None else min(usual, int(most)))
        return [
            self.value(first[at] if at < len(first) else rest, name, at, depth + 1) for at in range(min(count, 1000))
        ]

    def _is_restricted(self, schema: dict[str, Any], items: Any) -> bool:
        """Return whether a list of words has constraints that a shell and its command might violate."""
        return bool(items.keys() - {"type", "description", "title"} or schema.keys() & {"maxItems", "prefixItems"})

    def _object(self, schema: dict[str, Any], name: str, nth: int, depth: int) -> dict[str, Any]:
        properties = schema.get("properties")
        known: dict[str, Any] = properties if isinstance(properties, dict) else {}
        required = [key for key in as_list(schema.get("required")) if isinstance(key, str)]
        other = schema.get("additionalProperties", True)
        names = [key for key in known if key in required or (depth == 0 and self._is_wanted(key, known[key], required))]
        names += [key for key in required if key not in known]
        least = int(numeric_limit(schema, "minProperties") or 0)
        spare = [key for key in known if key not in names] + [f"key{number + 1}" for number in range(min(least, 100))]
        names += spare[: max(0, least - len(names))]
        # Items of a list must differ if the schema requires it; one differing member is enough.
        return {key: self.value(known.get(key, other), key, nth, depth + 1) for key in names}

    def _is_wanted(self, name: str, schema: Any, required: list[str]) -> bool:
        """Return whether to set an optional parameter: only if the wish clearly has a value for it."""
        if not isinstance(schema, dict):
            return False
        if options := as_list(schema.get("enum")):
            return any(isinstance(option, str) and self._hints.mentions(option) for option in options)
        kind = value_kind(name)
        if required or schema_types(schema)[:1] != ["string"]:
            return False
        return kind in ("command", "path", "place", "url") and bool(self._hints.candidates(name))


def _nearest_number(wanted: float, schema: dict[str, Any], *, whole: bool, nth: int) -> int | float:
    """Return the allowed number nearest to the wanted one, within a few tries; an integer if possible."""
    low = [edge for key in ("minimum", "exclusiveMinimum") if (edge := numeric_limit(schema, key)) is not None]
    high = [edge for key in ("maximum", "exclusiveMaximum") if (edge := numeric_limit(schema, key)) is not None]
    step = abs(numeric_limit(schema, "multipleOf") or 0)
    tries: list[int | float] = [wanted]
    for edge in (max(low, default=None), min(high, default=None)):
        if edge is not None:
            tries += [edge + nth, edge - nth, math.floor(edge) + 1 + nth, math.ceil(edge) - 1 - nth]
    if low and high and not whole:
        tries += [(max(low) + min(high)) / 2, max(low) + (min(high) - max(low)) / (nth + 3)]
    if step >= MIN_STEP:
        tries = [multiple * step for value in tries for multiple in (math.ceil(value / step), math.floor(value / step))]
        tries.append(0)
    if whole:
        tries = [number for value in tries for number in (math.ceil(value), math.floor(value))]
    allowed = [value for value in tries if matches_number(value, schema)]
    chosen = min(allowed, key=lambda value: abs(value - wanted), default=tries[0])
    return int(chosen) if TYPE_CHECKS["integer"](chosen) and abs(chosen) < 2**53 else chosen


_LOWER_BOUNDS = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER_BOUNDS = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")


def merge_schemas(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any] | None:
    """Return the merged schema; None if the types contradict each other."""
    merged = {**one, **other}
    for key in one.keys() & other.keys():
        if joined := _KEYWORD_MERGES.get(key):
            merged[key] = joined(one[key], other[key])
    if schema_types(one) and schema_types(other):
        kinds = [common for kind in schema_types(one) if (common := _common_type(kind, schema_types(other)))]
        if not kinds:
            return None
        merged["type"] = kinds
        merged.pop("nullable", None)
    return merged


def _common_type(kind: str, others: list[str]) -> str | None:
    """Return the narrower of two types: every integer is a number."""
    if kind in others:
        return kind
    return "integer" if {kind, *others} >= {"integer", "number"} and kind in ("integer", "number") else None


def _greater(one: Any, other: Any) -> Any:
    return max(one, other) if is_number(one) and is_number(other) else other


def _smaller(one: Any, other: Any) -> Any:
    return min(one, other) if is_number(one) and is_number(other) else other


def _merge_properties(one: Any, other: Any) -> Any:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return other
    return {**one, **{key: {"allOf": [one[key], value]} if key in one else value for key, value in other.items()}}


def _merge_required(one: Any, other: Any) -> Any:
    return [*one, *other] if isinstance(one, list) and isinstance(other, list) else other


def _merge_options(one: Any, other: Any) -> Any:
    if not isinstance(one, list) or not isinstance(other, list):
        return other
    return [value for value in one if any(is_same_value(value, option) for option in other)]


def _merge_all_of(one: Any, other: Any) -> Any:
    return {"allOf": [one, other]}


_KEYWORD_MERGES: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(_LOWER_BOUNDS, _greater),
    **dict.fromkeys(_UPPER_BOUNDS, _smaller),
    "properties": _merge_properties,
    "required": _merge_required,
    "enum": _merge_options,
    "items": _merge_all_of,
    "additionalProperties": _merge_all_of,
}
"""Keywords that are merged if both schemas have them; of any other the second one counts."""
