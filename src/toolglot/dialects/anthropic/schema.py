"""JSON Schema reduced to what the Messages API can bind a model to: strict tools, and the format of an answer.

The API refuses the request for one keyword that it cannot enforce. Such a keyword is said in the description instead,
where the model still reads it, as Anthropic's own SDKs do. Every object is closed, alternatives are `anyOf`, and
references stay references, so the work is linear however a schema refers to itself.
"""

from __future__ import annotations

from typing import Any

from toolglot.receipt import Receipt
from toolglot.wire import json

_MAX_DEPTH = 100

_TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")
_ANYTHING = ("string", "number", "boolean", "null")
"""An untyped value: every value needs a type, and an object without properties would be an empty one."""

_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"},
)
_DEFINITIONS = ("$defs", "definitions")
_WITHOUT_MEANING = ("$schema", "$id", "$comment", "$anchor")
_ANNOTATIONS = frozenset(
    {"default", "example", "examples", "deprecated", "readOnly", "writeOnly", "propertyOrdering", "title"}
)
"""Keywords that bind nothing: in prose they are worth as much."""


def reduced_schema(schema: Any, where: str, receipt: Receipt) -> dict[str, Any]:
    """The schema as the API takes it. `where` is its path in the request; what is not enforced any more is a loss."""
    return _Reduction(receipt).reduce(schema, where, 0)


class _Reduction:
    def __init__(self, receipt: Receipt) -> None:
        self._receipt = receipt

    def reduce(self, schema: Any, where: str, depth: int) -> dict[str, Any]:
        if depth > _MAX_DEPTH:
            self._receipt.loss(where, "a part of the schema", "it is nested too deeply")
            return _anything()
        if not isinstance(schema, dict):
            if schema is not True:
                self._receipt.loss(where, "a schema that is no object", "the API needs a type here")
            return _anything()
        left = _inlined({key: value for key, value in schema.items() if key not in _WITHOUT_MEANING})
        result = self._definitions(left, where, depth)
        result |= self._form(left, where, depth)
        return self._described(result, left, where)

    def _definitions(self, left: dict[str, Any], where: str, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key in _DEFINITIONS:
            if isinstance(left.get(key), dict):
                for name, schema in left.pop(key).items():
                    found[name] = self.reduce(schema, f"{where}.{key}.{name}", depth + 1)
        return {"$defs": found} if found else {}

    def _form(self, left: dict[str, Any], where: str, depth: int) -> dict[str, Any]:
        """What kind of value it is. Whatever is understood is taken out of `left`."""
        reference = left.get("$ref")
        if isinstance(reference, str) and reference.startswith("#"):
            return _reference(left)
        if literals := _literals(left):
            return literals
        kinds = _kinds(left)
        plain = "properties" not in left and "items" not in left
        if plain and (branches := self._branches(left, where, depth)):
            return branches
        if len(kinds) == 1:
            return self._typed(kinds[0], left, where, depth)
        if kinds:
            return self._union(kinds, left, where, depth)
        self._receipt.loss(where, "any value", "the API needs a type; any but objects and arrays is allowed")
        return _anything()

    def _branches(self, left: dict[str, Any], where: str, depth: int) -> dict[str, Any]:
        for key in ("anyOf", "oneOf", "allOf"):
            branches = left.get(key)
            if isinstance(branches, list) and branches:
                del left[key]
                left.pop("type", None)  # the branches have theirs
                reduced = [
                    self.reduce(item, f"{where}.{key}[{index}]", depth + 1) for index, item in enumerate(branches)
                ]
                return {"allOf" if key == "allOf" else "anyOf": reduced}
        return {}

    def _union(self, kinds: list[str], left: dict[str, Any], where: str, depth: int) -> dict[str, Any]:
        """One branch for each type of several, with the keywords of that type."""
        return {"anyOf": [self._typed(kind, left, where, depth) for kind in kinds]}

    def _typed(self, kind: str, left: dict[str, Any], where: str, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {"type": kind}
        if kind == "object":
            self._close(left, result, where, depth)
        elif kind == "array":
            if isinstance(left.get("items"), (dict, bool)):
                result["items"] = self.reduce(left.pop("items"), f"{where}.items", depth + 1)
            if type(left.get("minItems")) is int and left["minItems"] in (0, 1):
                result["minItems"] = left.pop("minItems")
        elif kind == "string" and isinstance(left.get("format"), str) and left["format"] in _FORMATS:
            result["format"] = left.pop("format")
        return result

    def _close(self, left: dict[str, Any], result: dict[str, Any], where: str, depth: int) -> None:
        properties = left.pop("properties", None)
        result["properties"] = {
            name: self.reduce(schema, f"{where}.properties.{name}", depth + 1)
            for name, schema in (properties.items() if isinstance(properties, dict) else ())
        }
        required = left.pop("required", None)
        if isinstance(required, list):
            result["required"] = [name for name in required if isinstance(name, str)]
        result["additionalProperties"] = False
        others = left.get("additionalProperties", True)
        if isinstance(others, bool):
            left.pop("additionalProperties", None)
        if others is True:
            self._receipt.note(where, "an open object", "the API allows no other properties than those named")

    def _described(self, result: dict[str, Any], left: dict[str, Any], where: str) -> dict[str, Any]:
        """With its title and description, and with what could not be kept said in the latter."""
        description, title = left.pop("description", None), left.pop("title", None)
        said = [description] if isinstance(description, str) and description else []
        if left:
            said.append("{" + ", ".join(f"{key}: {json.encode_text(value)}" for key, value in left.items()) + "}")
            tell = self._receipt.note if left.keys() <= _ANNOTATIONS else self._receipt.loss
            tell(where, ", ".join(left), "the API cannot enforce it; the description says it")
        labels = {"title": title} if isinstance(title, str) and title else {}
        if said:
            labels["description"] = "\n\n".join(said)
        if labels and "$ref" in result:  # nothing may stand beside a reference
            result["anyOf"] = [{"$ref": result.pop("$ref")}]
        return result | labels


def _anything() -> dict[str, Any]:
    return {"anyOf": [{"type": kind} for kind in _ANYTHING]}


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with an `allOf` of one part, or of plain objects, as part of itself.

    Closed objects contradict one another in an `allOf`, and the API takes no references there.
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


def _reference(left: dict[str, Any]) -> dict[str, Any]:
    reference: str = left.pop("$ref")
    if reference.startswith("#/definitions/"):
        reference = "#/$defs/" + reference.removeprefix("#/definitions/")
    return {"$ref": reference}


def _literals(left: dict[str, Any]) -> dict[str, Any]:
    """`enum` and `const`, where all values are plain: they say the type too."""
    result: dict[str, Any] = {}
    values = left.get("enum")
    if isinstance(values, list) and values and not any(isinstance(value, (dict, list)) for value in values):
        result["enum"] = left.pop("enum")
    if "const" in left and not isinstance(left["const"], (dict, list)):
        result["const"] = left.pop("const")
    if result:
        left.pop("type", None)
    return result


def _kinds(left: dict[str, Any]) -> list[str]:
    """The types that the schema names, or the one that its keywords imply."""
    kind = left.get("type")
    kinds = [name for name in (kind if isinstance(kind, list) else [kind]) if name in _TYPES]
    if kinds:
        left.pop("type")
    elif "properties" in left:
        kinds = ["object"]
    elif "items" in left:
        kinds = ["array"]
    return kinds
