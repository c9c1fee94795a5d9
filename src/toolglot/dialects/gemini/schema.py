"""Reduce JSON Schema to the OpenAPI subset that older Gemini endpoints accept in `parameters`.

Such an endpoint refuses the whole request for one unknown keyword. Keywords with an equivalent are rewritten. Others
move to the description, where the model still reads them. The receipt reports everything that cannot be kept at all.
Current endpoints accept any schema in `parametersJsonSchema`; this module is not used for them.
"""

from __future__ import annotations

import re
from typing import Any

from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.json_schema import modernize

_MAX_NODES = 4000
"""References are expanded, so a small schema can grow without limit; it is cut after this many nodes."""
_MAX_DEPTH = 60
_TOO_MUCH = "the schema is nested too deeply to be written out"
_MAX_COUNT = 2**63 - 1

_KEPT = ("title", "propertyOrdering", "example", "default")
_PLAIN = ("minimum", "maximum", "pattern")
_COUNTS = ("minItems", "maxItems", "minProperties", "maxProperties", "minLength", "maxLength")

_KEYWORDS_OF_TYPE: dict[str, tuple[str, ...]] = {
    "STRING": ("pattern", "minLength", "maxLength"),
    "NUMBER": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    "INTEGER": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    "BOOLEAN": (),
    "ARRAY": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"),
    "OBJECT": (
        "properties",
        "required",
        "additionalProperties",
        "propertyNames",
        "patternProperties",
        "minProperties",
        "maxProperties",
    ),
}

_FORMATS = {
    "STRING": {"enum", "date-time"},
    "NUMBER": {"float", "double"},
    "INTEGER": {"int32", "int64"},
}

_HINTED = (
    "multipleOf",
    "uniqueItems",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "minContains",
    "maxContains",
    "propertyNames",
    "patternProperties",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "unevaluatedProperties",
    "unevaluatedItems",
    "contentEncoding",
    "contentMediaType",
    "examples",
    "readOnly",
    "writeOnly",
    "deprecated",
)
"""Keywords without an equivalent that are useful in a description."""

_INDEX = re.compile(r"[0-9]{1,9}")
_PROPERTY_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")

_ANYTHING = ("STRING", "NUMBER", "BOOLEAN")
"""The types of an untyped value: these endpoints require a type everywhere, and an object type needs properties."""


def reduce_schema(schema: Any, where: str, receipt: Receipt) -> dict[str, Any]:
    """Reduce a schema to the OpenAPI subset. `where` is its path in the request."""
    return OpenApiReducer(schema, receipt).reduce(schema, where, ())


class OpenApiReducer:
    """Reduces one schema. Keeps its root, for references, and the number of nodes so far."""

    def __init__(self, root: Any, receipt: Receipt) -> None:
        self._root = root
        self._receipt = receipt
        self._nodes = 0

    def reduce(self, schema: Any, where: str, refs: tuple[str, ...], depth: int = 0) -> dict[str, Any]:
        self._nodes += 1
        if not isinstance(schema, dict):
            return _any_value(["nothing is allowed here"] if schema is False else [])
        if depth > _MAX_DEPTH or self._nodes > _MAX_NODES:
            return self._cut(where, _TOO_MUCH)
        hints: list[str] = []
        schema = modernize(schema)
        schema, refs = self._resolve_reference(schema, where, refs, hints)
        schema, refs = self._merge_all_of(schema, where, refs, hints)
        types, nullable = _allowed_types(schema)
        if branches := _find_branches(schema):
            result = self._reduce_branches(schema, branches, where, refs, depth, hints)
        elif len(types) > 1:
            result = {"anyOf": [self._reduce_type(kind, schema, where, refs, depth, hints) for kind in types]}
        elif types:
            result = self._reduce_type(types[0], schema, where, refs, depth, hints)
        else:
            result = _any_value([])
        self._keep_common(schema, result, where, hints)
        if nullable or result.get("nullable"):
            result["nullable"] = True
        return _add_description(result, schema.get("description"), hints)

    # References and combinations

    def _resolve_reference(
        self, schema: dict[str, Any], where: str, refs: tuple[str, ...], hints: list[str]
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Expand the reference of a schema. Keywords next to the reference take precedence."""
        while isinstance(ref := schema.get("$ref"), str):
            beside = {key: value for key, value in schema.items() if key != "$ref"}
            target = self._find_target(ref)
            if ref in refs or not isinstance(target, dict) or len(refs) > _MAX_DEPTH:
                why = "a schema cannot contain itself here" if ref in refs else "the reference cannot be resolved"
                self._receipt.loss(where, f"$ref {ref}", why)
                hints.append(f"the same form as {ref.rpartition('/')[2] or 'the whole'}" if ref in refs else ref)
                return {"type": "object", **beside} if ref in refs else beside, refs
            refs = (*refs, ref)
            schema = {**target, **beside}
        return schema, refs

    def _find_target(self, ref: str) -> Any:
        if not ref.startswith("#"):
            return None
        node = self._root
        for step in ref[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict):
                node = node.get(name)
            elif isinstance(node, list) and _INDEX.fullmatch(name) and int(name) < len(node):
                node = node[int(name)]
            else:
                return None
        return node

    def _merge_all_of(
        self, schema: dict[str, Any], where: str, refs: tuple[str, ...], hints: list[str]
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Merge `allOf` into the schema itself. If two members conflict, the second becomes a hint."""
        members = schema.get("allOf")
        if not isinstance(members, list):
            return schema, refs
        seen = refs
        merged = {key: value for key, value in schema.items() if key != "allOf"}
        for member in members:
            if not isinstance(member, dict):
                continue
            self._nodes += 1
            if self._nodes > _MAX_NODES:
                self._receipt.loss(where, "part of the schema", _TOO_MUCH)
                break
            resolved, inner = self._resolve_reference(member, where, refs, hints)
            if len(inner) <= _MAX_DEPTH:
                resolved, inner = self._merge_all_of(resolved, where, inner, hints)
            seen = (*seen, *(ref for ref in inner if ref not in seen))
            for key, value in resolved.items():
                _merge(merged, key, value, hints)
        return merged, seen

    def _reduce_branches(
        self,
        schema: dict[str, Any],
        branches: list[Any],
        where: str,
        refs: tuple[str, ...],
        depth: int,
        hints: list[str],
    ) -> dict[str, Any]:
        """Reduce `anyOf` and `oneOf`. A branch for null becomes `nullable`, a single branch the schema itself."""
        real = [branch for branch in branches if not _is_null(branch)]
        nullable = len(real) < len(branches)
        beside = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf", "description", "title")}
        if len(real) == 1 and isinstance(real[0], dict):
            result = self.reduce({**beside, **real[0]}, where, refs, depth + 1)
        elif not real:
            result = _any_value([])
        else:
            result = {"anyOf": [self.reduce(branch, f"{where}.anyOf", refs, depth + 1) for branch in real]}
            if isinstance(beside.get("properties"), dict):
                hints.append(f"always with: {json.encode_text(beside['properties'])}")
        if nullable:
            result["nullable"] = True
        return result

    # One type

    def _reduce_type(
        self, kind: str, schema: dict[str, Any], where: str, refs: tuple[str, ...], depth: int, hints: list[str]
    ) -> dict[str, Any]:
        result: dict[str, Any] = {"type": kind}
        if kind == "OBJECT":
            self._reduce_object(schema, result, where, refs, depth, hints)
        elif kind == "ARRAY":
            result["items"] = self._reduce_items(schema, where, refs, depth, hints)
        self._add_bounds(kind, schema, result, hints)
        self._add_enum(kind, schema, result, where, hints)
        form = schema.get("format")
        if isinstance(form, str):
            if form in _FORMATS.get(kind, ()):
                result["format"] = form
            else:
                hints.append(f"format: {form}")
        return result

    def _reduce_object(
        self,
        schema: dict[str, Any],
        result: dict[str, Any],
        where: str,
        refs: tuple[str, ...],
        depth: int,
        hints: list[str],
    ) -> None:
        properties = schema.get("properties")
        if isinstance(properties, dict) and properties:
            for name in properties:
                if not _PROPERTY_NAME.fullmatch(name):
                    self._receipt.loss(f"{where}.{name}", "property name", "older Gemini endpoints may refuse it")
            result["properties"] = {
                name: self.reduce(value, f"{where}.{name}", refs, depth + 1) for name, value in properties.items()
            }
            required = schema.get("required")
            if isinstance(required, list) and (known := [name for name in required if name in properties]):
                result["required"] = known
        extra = schema.get("additionalProperties")
        if isinstance(extra, dict) and extra:
            hints.append(f"additionalProperties: {json.encode_text(extra)}")

    def _reduce_items(
        self, schema: dict[str, Any], where: str, refs: tuple[str, ...], depth: int, hints: list[str]
    ) -> dict[str, Any]:
        items, prefix = schema.get("items"), schema.get("prefixItems")
        if isinstance(prefix, list) and prefix:
            hints.append(f"the items in order: {json.encode_text(prefix)}")
            items = prefix[0] if len(prefix) == 1 else {"anyOf": prefix}
        return self.reduce(items if items is not None else True, f"{where}.items", refs, depth + 1)

    def _add_bounds(self, kind: str, schema: dict[str, Any], result: dict[str, Any], hints: list[str]) -> None:
        for key, bound, step, words in (
            ("exclusiveMinimum", "minimum", 1, "greater than"),
            ("exclusiveMaximum", "maximum", -1, "less than"),
        ):
            value = schema.get(key) if key in _KEYWORDS_OF_TYPE[kind] else None
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                if kind == "INTEGER" and isinstance(value, int):
                    result[bound] = value + step
                else:
                    result[bound] = value
                    hints.append(f"{words} {json.encode_text(value)}")
        for key in _KEYWORDS_OF_TYPE[kind]:
            if key in _PLAIN and key in schema:
                result.setdefault(key, schema[key])
            value = schema.get(key) if key in _COUNTS else None
            if isinstance(value, int) and not isinstance(value, bool):
                if value <= _MAX_COUNT:
                    result[key] = value
                else:
                    hints.append(f"{key}: {value}")

    def _add_enum(
        self, kind: str, schema: dict[str, Any], result: dict[str, Any], where: str, hints: list[str]
    ) -> None:
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if not isinstance(values, list) or not values:
            return
        real = [value for value in values if value is not None]
        if all(isinstance(value, str) for value in real):
            if real:
                result["enum"] = real
        elif kind == "BOOLEAN" or not all(isinstance(value, (str, int, float, bool)) for value in real):
            hints.append(f"one of: {json.encode_text(values)}")
        else:
            # "enum: only allowed for STRING type": the values become text, and the caller gets text back.
            result.clear()
            result.update(type="STRING", enum=[v if isinstance(v, str) else json.encode_text(v) for v in real])
            hints.append(f"the text of one of: {json.encode_text(values)}")
            self._receipt.loss(where, "an enum that is not of strings", "these values come back as text")
        if len(real) < len(values):
            result["nullable"] = True

    # Keywords of every type

    def _keep_common(self, schema: dict[str, Any], result: dict[str, Any], where: str, hints: list[str]) -> None:
        for key in _KEPT:
            if key in schema and key not in result:
                result[key] = schema[key]
        moved = [key for key in _HINTED if key in schema]
        hints.extend(f"{key}: {json.encode_text(schema[key])}" for key in moved)
        if hints:
            self._receipt.note(where, ", ".join(hints)[:200], "said in the description, which older endpoints accept")

    def _cut(self, where: str, why: str) -> dict[str, Any]:
        self._receipt.loss(where, "part of the schema", why)
        return {"type": "OBJECT"}


def _allowed_types(schema: dict[str, Any]) -> tuple[list[str], bool]:
    """Return the types that a schema allows, or else the type that its keywords imply; and whether null is allowed."""
    named = schema.get("type")
    names = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    types = [name.upper() for name in names if isinstance(name, str)]
    nullable = "NULL" in types
    real = [name for name in dict.fromkeys(types) if name in _KEYWORDS_OF_TYPE]
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list) and values and len(real) != 1:  # the values are more precise than several types
        return [_type_of_values([value for value in values if value is not None])], nullable or None in values
    if real or nullable:
        return real, nullable
    for kind in ("OBJECT", "ARRAY"):
        if any(key in schema for key in _KEYWORDS_OF_TYPE[kind]):
            return [kind], False
    return [], False


def _type_of_values(values: list[Any]) -> str:
    if values and all(isinstance(value, bool) for value in values):
        return "BOOLEAN"
    if values and all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return "INTEGER"
    if values and all(isinstance(value, (dict, list)) for value in values):
        return "OBJECT" if isinstance(values[0], dict) else "ARRAY"
    return "STRING"


def _find_branches(schema: dict[str, Any]) -> list[Any]:
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list) and schema[key]:
            return list(schema[key])
    return []


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and (
        schema.get("type") in ("null", "NULL") or schema.get("enum") == [None] or schema.get("const", 0) is None
    )


def _merge(merged: dict[str, Any], key: str, value: Any, hints: list[str]) -> None:
    if key not in merged:
        merged[key] = value
    elif key == "properties" and isinstance(value, dict) and isinstance(merged[key], dict):
        merged[key] = {**value, **merged[key]}
    elif key == "required" and isinstance(value, list) and isinstance(merged[key], list):
        merged[key] = [*merged[key], *(name for name in value if name not in merged[key])]
    elif merged[key] != value:
        hints.append(f"{key}: {json.encode_text(value)}")


def _any_value(hints: list[str]) -> dict[str, Any]:
    return _add_description({"anyOf": [{"type": kind} for kind in _ANYTHING]}, None, hints)


def _add_description(result: dict[str, Any], description: Any, hints: list[str]) -> dict[str, Any]:
    own = description if isinstance(description, str) else result.get("description", "")
    text = " ".join(filter(None, (own, f"({'; '.join(hints)})" if hints else "")))
    if text:
        result["description"] = text
    return result
