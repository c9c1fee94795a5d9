"""A value for a JSON Schema: what the wish has to say where it fits, else the plainest thing that is allowed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from toolglot.upstream.demo.fitting import FINEST_STEP, IS, fits, fits_number, limit, listed, resolve, types_of
from toolglot.upstream.demo.hints import Hints, kind_of
from toolglot.upstream.demo.merging import merge
from toolglot.upstream.demo.patterns import matching

DEEP = 4
"""From this depth on the shortest way out is taken: null, an empty list, a plain value."""
MAX_DEPTH = 24
MAX_NODES = 3000
"""References can make a small schema endless; past this many values the rest is null."""
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

_HINTS_OF_TYPE = (
    ("object", ("properties", "required", "additionalProperties", "minProperties")),
    ("array", ("items", "prefixItems", "minItems", "uniqueItems")),
    ("number", ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
)
"""What the keywords of a schema without a type say about it; a string where they say nothing."""


def sample(schema: Any, hints: Hints) -> Any:
    """A value that the schema allows."""
    return Sampler(schema, hints).value(schema, "", 0, 0)


class Sampler:
    """One schema being filled: its root, for references, and how much has been written."""

    def __init__(self, root: Any, hints: Hints) -> None:
        self._root = root
        self._hints = hints
        self._nodes = 0
        self._numbers: dict[str, int] = {}  # which number of the wish goes to which parameter
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
        """A value for the parameter `name`; `nth` makes the items of a list differ."""
        self._nodes += 1
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            return None
        found: list[Any] = []
        for flat in islice(self._ways(schema, depth, 0), MAX_TRIES):
            value = self._plain(flat, name, nth, depth)
            if fits(value, schema, self._root):
                return value
            found.append(value)
        return found[0] if found else None

    def _ways(self, schema: Any, depth: int, hops: int) -> Iterator[dict[str, Any]]:
        """The schema without references and choices, once for each way to choose."""
        if not isinstance(schema, dict):
            yield {}
            return
        if hops > MAX_DEPTH:
            return
        plain = {key: value for key, value in schema.items() if key not in ("$ref", "allOf", "anyOf", "oneOf")}
        groups = [[resolve(schema["$ref"], self._root)]] if "$ref" in schema else []
        groups += [[part] for part in listed(schema.get("allOf"))]
        groups += [
            self._ordered(branches, depth) for key in ("anyOf", "oneOf") if (branches := listed(schema.get(key)))
        ]
        yield from self._combined(plain, groups, depth, hops)

    def _combined(
        self, plain: dict[str, Any], groups: list[list[Any]], depth: int, hops: int
    ) -> Iterator[dict[str, Any]]:
        if not groups:
            yield plain
            return
        for branch in groups[0]:
            for way in self._ways(branch, depth, hops + 1):
                if (merged := merge(plain, way)) is not None:
                    yield from self._combined(merged, groups[1:], depth, hops + 1)

    def _ordered(self, branches: list[Any], depth: int) -> list[Any]:
        """Null last; deep down the plain ones first, so that a list of itself comes to an end."""

        def cost(branch: Any) -> int:
            kinds = types_of(branch) if isinstance(branch, dict) else []
            if kinds == ["null"]:
                return 0 if depth >= DEEP else 2
            return int(depth >= DEEP and (not kinds or "object" in kinds or "array" in kinds))

        return sorted(branches, key=cost)

    def _plain(self, schema: dict[str, Any], name: str, nth: int, depth: int) -> Any:
        if "const" in schema:
            return schema["const"]
        if options := listed(schema.get("enum")):
            return self._option(schema, options, nth)
        kinds = types_of(schema) or [self._likely_type(schema)]
        if depth >= DEEP and "null" in kinds:
            return None
        wanted = [kind for kind in kinds if kind in self._writers and kind != "null"] or ["null"]
        has_default = nth == 0 and "default" in schema and fits(schema["default"], schema, self._root)
        told = "string" in wanted and bool(self._hints.found(name)) and kind_of(name) not in (None, "prose", "folder")
        if has_default and not told:
            return schema["default"]
        value = self._writers[wanted[0]](schema, name, nth, depth)
        if "null" in kinds and nth == 0 and isinstance(value, str) and not self._hints.found(name):
            return None
        return value

    def _option(self, schema: dict[str, Any], options: list[Any], nth: int) -> Any:
        """One of an enumeration: what the wish names, else the default, else the first."""
        rest = {key: value for key, value in schema.items() if key != "enum"}
        allowed = [option for option in options if fits(option, rest, self._root)] or options
        named = [option for option in allowed if isinstance(option, str) and self._hints.mentions(option)]
        ranked = [*named, *(option for option in allowed if option == schema.get("default")), *allowed]
        return ranked[0] if nth == 0 else allowed[nth % len(allowed)]

    def _likely_type(self, schema: dict[str, Any]) -> str:
        return next((kind for kind, keys in _HINTS_OF_TYPE if any(key in schema for key in keys)), "string")

    def _string(self, schema: dict[str, Any], name: str, nth: int, depth: int) -> str:
        least, most = int(limit(schema, "minLength") or 0), limit(schema, "maxLength")
        if isinstance(pattern := schema.get("pattern"), str) and (text := matching(pattern, least)) is not None:
            return text
        found = self._hints.found(name)
        if (form := schema.get("format")) in FORMATS:
            keep = kind_of(name) in ("url", "date") and form in ("uri", "url", "date") and nth < len(found)
            return found[nth] if keep else FORMATS[form]
        text = found[nth] if nth < len(found) else self._hints.fallback(name) + (f" {nth + 1}" if nth else "")
        if most is not None and len(text) > most:
            text = text[: int(most)] if not nth else f"{nth + 1}".ljust(int(most), "x")[: int(most)]
        return text.ljust(min(least, 100_000), ".")

    def _number(self, schema: dict[str, Any], name: str, nth: int, depth: int) -> int | float:
        place = self._numbers.setdefault(f"{name}/{nth}", len(self._numbers))
        told = self._hints.number(place)
        wanted = float(nth + 1) if told is None else told
        whole = types_of(schema)[:1] == ["integer"]
        return _nearest(wanted, schema, whole=whole, nth=0 if told is not None else nth)

    def _array(self, schema: dict[str, Any], name: str, nth: int, depth: int) -> list[Any]:
        least, most = int(limit(schema, "minItems") or 0), limit(schema, "maxItems")
        first, rest = listed(schema.get("prefixItems")), schema.get("items", True)
        is_text = isinstance(rest, dict) and types_of(rest) == ["string"] and "enum" not in rest
        found = self._hints.found(name) if is_text else ()
        if found and kind_of(name) == "command" and not self._is_bound(schema, rest):
            return ["bash", "-lc", found[0]]
        usual = 0 if depth >= DEEP or rest is False else max(1, len(found))
        count = max(least, len(first), usual if most is None else min(usual, int(most)))
        return [
            self.value(first[at] if at < len(first) else rest, name, at, depth + 1) for at in range(min(count, 1000))
        ]

    def _is_bound(self, schema: dict[str, Any], items: Any) -> bool:
        """Whether a list of words has rules that a shell and its command might break."""
        return bool(items.keys() - {"type", "description", "title"} or schema.keys() & {"maxItems", "prefixItems"})

    def _object(self, schema: dict[str, Any], name: str, nth: int, depth: int) -> dict[str, Any]:
        properties = schema.get("properties")
        known: dict[str, Any] = properties if isinstance(properties, dict) else {}
        required = [key for key in listed(schema.get("required")) if isinstance(key, str)]
        other = schema.get("additionalProperties", True)
        names = [key for key in known if key in required or (depth == 0 and self._is_told(key, known[key], required))]
        names += [key for key in required if key not in known]
        least = int(limit(schema, "minProperties") or 0)
        spare = [key for key in known if key not in names] + [f"key{number + 1}" for number in range(min(least, 100))]
        names += spare[: max(0, least - len(names))]
        # The items of a list must differ when it says so; one member that differs is enough.
        return {key: self.value(known.get(key, other), key, nth, depth + 1) for key in names}

    def _is_told(self, name: str, schema: Any, required: list[str]) -> bool:
        """An optional parameter is given when the wish clearly has a value for it."""
        if not isinstance(schema, dict):
            return False
        if options := listed(schema.get("enum")):
            return any(isinstance(option, str) and self._hints.mentions(option) for option in options)
        kind = kind_of(name)
        if required or types_of(schema)[:1] != ["string"]:
            return False
        return kind in ("command", "path", "place", "url") and bool(self._hints.found(name))


def _nearest(wanted: float, schema: dict[str, Any], *, whole: bool, nth: int) -> int | float:
    """The allowed number nearest to the wanted one, as far as a few tries tell; whole where that is possible."""
    low = [edge for key in ("minimum", "exclusiveMinimum") if (edge := limit(schema, key)) is not None]
    high = [edge for key in ("maximum", "exclusiveMaximum") if (edge := limit(schema, key)) is not None]
    step = abs(limit(schema, "multipleOf") or 0)
    tries: list[int | float] = [wanted]
    for edge in (max(low, default=None), min(high, default=None)):
        if edge is not None:
            tries += [edge + nth, edge - nth, math.floor(edge) + 1 + nth, math.ceil(edge) - 1 - nth]
    if low and high and not whole:
        tries += [(max(low) + min(high)) / 2, max(low) + (min(high) - max(low)) / (nth + 3)]
    if step >= FINEST_STEP:
        tries = [multiple * step for value in tries for multiple in (math.ceil(value / step), math.floor(value / step))]
        tries.append(0)
    if whole:
        tries = [number for value in tries for number in (math.ceil(value), math.floor(value))]
    allowed = [value for value in tries if fits_number(value, schema)]
    chosen = min(allowed, key=lambda value: abs(value - wanted), default=tries[0])
    return int(chosen) if IS["integer"](chosen) and abs(chosen) < 2**53 else chosen
