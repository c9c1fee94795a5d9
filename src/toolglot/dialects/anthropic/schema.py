"""Reduce JSON Schema to the subset that the Messages API can enforce, for strict tools and response formats.

The API refuses a request with a keyword that it cannot enforce. Such a keyword moves to the description, where the
model still reads it, as in Anthropic's own SDKs. Every object is closed, and alternatives are `anyOf`. References stay
references, so the work is linear even for recursive schemas.
"""

from __future__ import annotations

from typing import Any

from toolglot.receipt import Receipt
from toolglot.wire import json

_MAX_DEPTH = 100

_TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")
_ANYTHING = ("string", "number", "boolean", "null")
"""The types of an untyped value: every value needs a type, and an object without properties could only be empty."""

_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"},
)
_DEFINITIONS = ("$defs", "definitions")
_WITHOUT_MEANING = ("$schema", "$id", "$comment", "$anchor")
_ANNOTATIONS = frozenset(
    {"default", "example", "examples", "deprecated", "readOnly", "writeOnly", "propertyOrdering", "title"}
)
"""Keywords that constrain nothing: the description carries them as well."""


def reduce_schema(schema: Any, where: str, receipt: Receipt) -> dict[str, Any]:
    """Reduce a schema to the API's subset. `where` is its path in the request. Unenforced keywords are losses."""
    return AnthropicSchemaReducer(receipt).reduce(schema, where, 0)


class AnthropicSchemaReducer:
    def __init__(self, receipt: Receipt) -> None:
        self._receipt = receipt

    def reduce(self, schema: Any, where: str, depth: int) -> dict[str, Any]:
        if depth > _MAX_DEPTH:
            self._receipt.loss(where, "a part of the schema", "it is nested too deeply")
            return _any_value()
        if not isinstance(schema, dict):
            if schema is not True:
                self._receipt.loss(where, "a schema that is not an object", "the API needs a type here")
            return _any_value()
        remaining = _inline_all_of({key: value for key, value in schema.items() if key not in _WITHOUT_MEANING})
        result = self._reduce_definitions(remaining, where, depth)
        result |= self._reduce_value(remaining, where, depth)
        return self._add_description(result, remaining, where)

    def _reduce_definitions(self, remaining: dict[str, Any], where: str, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key in _DEFINITIONS:
            if isinstance(remaining.get(key), dict):
                for name, schema in remaining.pop(key).items():
                    found[name] = self.reduce(schema, f"{where}.{key}.{name}", depth + 1)
        return {"$defs": found} if found else {}

    def _reduce_value(self, remaining: dict[str, Any], where: str, depth: int) -> dict[str, Any]:
        """Reduce the keywords for the type of the value. Handled keywords are removed from `remaining`."""
        reference = remaining.get("$ref")
        if isinstance(reference, str) and reference.startswith("#"):
            return _take_reference(remaining)
        if literals := _take_literals(remaining):
            return literals
        kinds = _take_types(remaining)
        plain = "properties" not in remaining and "items" not in remaining
        if plain and (branches := self._reduce_branches(remaining, where, depth)):
            return branches
        if len(kinds) == 1:
            return self._reduce_type(kinds[0], remaining, where, depth)
        if kinds:
            return self._reduce_union(kinds, remaining, where, depth)
        self._receipt.loss(where, "any value", "the API needs a type; any but objects and arrays is allowed")
        return _any_value()

    def _reduce_branches(self, remaining: dict[str, Any], where: str, depth: int) -> dict[str, Any]:
        for key in ("anyOf", "oneOf", "allOf"):
            branches = remaining.get(key)
            if isinstance(branches, list) and branches:
                del remaining[key]
                remaining.pop("type", None)  # the branches have their own types
                reduced = [
                    self.reduce(item, f"{where}.{key}[{index}]", depth + 1) for index, item in enumerate(branches)
                ]
                return {"allOf" if key == "allOf" else "anyOf": reduced}
        return {}

    def _reduce_union(self, kinds: list[str], remaining: dict[str, Any], where: str, depth: int) -> dict[str, Any]:
        """Make one branch for each type, with the keywords of that type."""
        return {"anyOf": [self._reduce_type(kind, remaining, where, depth) for kind in kinds]}

    def _reduce_type(self, kind: str, remaining: dict[str, Any], where: str, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {"type": kind}
        if kind == "object":
            self._close_object(remaining, result, where, depth)
        elif kind == "array":
            if isinstance(remaining.get("items"), (dict, bool)):
                result["items"] = self.reduce(remaining.pop("items"), f"{where}.items", depth + 1)
            if type(remaining.get("minItems")) is int and remaining["minItems"] in (0, 1):
                result["minItems"] = remaining.pop("minItems")
        elif kind == "string" and isinstance(remaining.get("format"), str) and remaining["format"] in _FORMATS:
            result["format"] = remaining.pop("format")
        return result

    def _close_object(self, remaining: dict[str, Any], result: dict[str, Any], where: str, depth: int) -> None:
        properties = remaining.pop("properties", None)
        result["properties"] = {
            name: self.reduce(schema, f"{where}.properties.{name}", depth + 1)
            for name, schema in (properties.items() if isinstance(properties, dict) else ())
        }
        required = remaining.pop("required", None)
        if isinstance(required, list):
            result["required"] = [name for name in required if isinstance(name, str)]
        result["additionalProperties"] = False
        others = remaining.get("additionalProperties", True)
        if isinstance(others, bool):
            remaining.pop("additionalProperties", None)
        if others is True:
            self._receipt.note(where, "an open object", "the API allows no other properties than those named")

    def _add_description(self, result: dict[str, Any], remaining: dict[str, Any], where: str) -> dict[str, Any]:
        """Add title and description. The description lists the keywords that remain."""
        description, title = remaining.pop("description", None), remaining.pop("title", None)
        texts = [description] if isinstance(description, str) and description else []
        if remaining:
            texts.append("{" + ", ".join(f"{key}: {json.encode_text(value)}" for key, value in remaining.items()) + "}")
            report = self._receipt.note if remaining.keys() <= _ANNOTATIONS else self._receipt.loss
            report(where, ", ".join(remaining), "the API cannot enforce it; the description says it")
        labels = {"title": title} if isinstance(title, str) and title else {}
        if texts:
            labels["description"] = "\n\n".join(texts)
        if labels and "$ref" in result:  # a reference must be the only keyword
            result["anyOf"] = [{"$ref": result.pop("$ref")}]
        return result | labels


def _any_value() -> dict[str, Any]:
    return {"anyOf": [{"type": kind} for kind in _ANYTHING]}


def _inline_all_of(schema: dict[str, Any]) -> dict[str, Any]:
    """Merge an `allOf` of one part, or of plain objects, into the schema.

    Closed objects contradict one another in an `allOf`, and the API accepts no references there.
    """
    parts = schema.get("allOf")
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        return schema
    beside = {key: value for key, value in schema.items() if key != "allOf"}
    if len(parts) == 1:
        return {**parts[0], **beside} if parts[0].keys() & beside.keys() <= _LABELS else schema
    whole: list[dict[str, Any]] = [*parts, beside] if "properties" in beside else parts
    if not whole or not all(_is_plain_object(part) for part in whole):
        return schema
    properties = [item for part in whole for item in part["properties"].items()]
    if len(dict(properties)) < len(properties):  # one property twice
        return schema
    required = [name for part in whole for name in part.get("required", ())]
    return {**beside, "type": "object", "properties": dict(properties), "required": required}


_LABELS = {"type", "title", "description"}
_OF_PLAIN_OBJECTS = _LABELS | {"properties", "required", "additionalProperties", "allOf", *_DEFINITIONS}


def _is_plain_object(schema: dict[str, Any]) -> bool:
    return (
        schema.keys() <= _OF_PLAIN_OBJECTS
        and isinstance(schema.get("properties"), dict)
        and isinstance(schema.get("required", []), list)
    )


def _take_reference(remaining: dict[str, Any]) -> dict[str, Any]:
    reference: str = remaining.pop("$ref")
    if reference.startswith("#/definitions/"):
        reference = "#/$defs/" + reference.removeprefix("#/definitions/")
    return {"$ref": reference}


def _take_literals(remaining: dict[str, Any]) -> dict[str, Any]:
    """Take `enum` and `const` if their values are scalars. They imply the type."""
    result: dict[str, Any] = {}
    values = remaining.get("enum")
    if isinstance(values, list) and values and not any(isinstance(value, (dict, list)) for value in values):
        result["enum"] = remaining.pop("enum")
    if "const" in remaining and not isinstance(remaining["const"], (dict, list)):
        result["const"] = remaining.pop("const")
    if result:
        remaining.pop("type", None)
    return result


def _take_types(remaining: dict[str, Any]) -> list[str]:
    """Take the types that the schema names, or the one that its keywords imply."""
    kind = remaining.get("type")
    kinds = [name for name in (kind if isinstance(kind, list) else [kind]) if name in _TYPES]
    if kinds:
        remaining.pop("type")
    elif "properties" in remaining:
        kinds = ["object"]
    elif "items" in remaining:
        kinds = ["array"]
    return kinds
