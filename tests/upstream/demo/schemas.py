"""JSON Schemas that can be satisfied, made by Hypothesis, and a validator that shares nothing with the demo's own."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

NAMES = ("city", "file_path", "command", "query", "count", "unit", "when", "items", "x", "sourceUrl")
PATTERNS = (r"^[A-Z]{3}-\d{4}$", r"^(?:red|green)$", r"\w+@\w+\.com", r"^[^a-z]+$", r"^a{2,5}$", r"^\d{4}-\d{2}$")

_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}


def problems(value: Any, schema: Any, root: Any, where: str = "$") -> list[str]:
    """What is wrong with the value; nothing when it is valid."""
    if schema is True or schema == {}:
        return []
    if schema is False:
        return [f"{where}: nothing is allowed"]
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].removeprefix("#").split("/")[1:]:
            target = target[part]
        return problems(value, target, root, where)
    found = [problem for check in (_type, _values, _combined) for problem in check(value, schema, root, where)]
    if isinstance(value, str):
        found += _string(value, schema, where)
    if isinstance(value, dict):
        found += _object(value, schema, root, where)
    if isinstance(value, list):
        found += _array(value, schema, root, where)
    if isinstance(value, int | float) and not isinstance(value, bool):
        found += _number(value, schema, where)
    return found


def _type(value: Any, schema: Any, root: Any, where: str) -> list[str]:
    kinds = schema.get("type")
    if kinds is None:
        return []
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        if isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool)):
            return []
    return [f"{where}: {value!r} is no {kinds}"]


def _values(value: Any, schema: Any, root: Any, where: str) -> list[str]:
    found = []
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{where}: {value!r} is none of {schema['enum']}")
    if "const" in schema and value != schema["const"]:
        found.append(f"{where}: {value!r} is not {schema['const']!r}")
    return found


def _combined(value: Any, schema: Any, root: Any, where: str) -> list[str]:
    found = [problem for part in schema.get("allOf", ()) for problem in problems(value, part, root, where)]
    if "anyOf" in schema and all(problems(value, part, root) for part in schema["anyOf"]):
        found.append(f"{where}: {value!r} is in no branch of anyOf")
    if "oneOf" in schema and sum(not problems(value, part, root) for part in schema["oneOf"]) != 1:
        found.append(f"{where}: {value!r} is not in just one branch of oneOf")
    return found


def _string(value: str, schema: Any, where: str) -> list[str]:
    found = (
        [] if schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)) else [f"{where}: length"]
    )
    if "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{where}: {value!r} does not match {schema['pattern']}")
    return found


def _number(value: float, schema: Any, where: str) -> list[str]:
    is_in = (
        schema.get("minimum", value) <= value <= schema.get("maximum", value)
        and schema.get("exclusiveMinimum", value - 1) < value < schema.get("exclusiveMaximum", value + 1)
        and ("multipleOf" not in schema or value % schema["multipleOf"] == 0)
    )
    return [] if is_in else [f"{where}: {value} is out of range"]


def _array(value: list[Any], schema: Any, root: Any, where: str) -> list[str]:
    found = [] if schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)) else [f"{where}: count"]
    if schema.get("uniqueItems") and any(item in value[:at] for at, item in enumerate(value)):
        found.append(f"{where}: an item stands twice in {value}")
    for at, item in enumerate(value):
        found += problems(item, schema.get("items", True), root, f"{where}[{at}]")
    return found


def _object(value: dict[str, Any], schema: Any, root: Any, where: str) -> list[str]:
    known = schema.get("properties", {})
    found = [f"{where}: {name} is missing" for name in schema.get("required", ()) if name not in value]
    for name, member in value.items():
        other = schema.get("additionalProperties", True)
        found += problems(member, known.get(name, other), root, f"{where}.{name}")
    if len(value) < schema.get("minProperties", 0):
        found.append(f"{where}: too few members")
    return found


# Schemas


@st.composite
def _numbers(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["integer", "number"]))
    schema: dict[str, Any] = {"type": kind}
    low = draw(st.integers(-50, 50))
    if draw(st.booleans()):
        schema[draw(st.sampled_from(["minimum", "exclusiveMinimum"]))] = low
    if draw(st.booleans()):
        schema[draw(st.sampled_from(["maximum", "exclusiveMaximum"]))] = low + draw(st.integers(6, 100))
    if draw(st.booleans()):
        schema["multipleOf"] = draw(st.sampled_from([1, 2, 3] if kind == "integer" else [0.5, 1, 2]))
    return schema


@st.composite
def _texts(draw: st.DrawFn) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if draw(st.booleans()):
        return {**schema, "pattern": draw(st.sampled_from(PATTERNS))}
    least = draw(st.integers(0, 30))
    if draw(st.booleans()):
        schema["minLength"] = least
    if draw(st.booleans()):
        schema["maxLength"] = least + draw(st.integers(0, 20))
    if draw(st.booleans()):
        schema["default"] = draw(st.text(max_size=5))
    return schema


_CHOICES: SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.just({}),
    st.lists(
        st.one_of(st.integers(0, 9), st.sampled_from(["celsius", "fahrenheit"]), st.none()), min_size=1, max_size=4
    ).map(lambda values: {"enum": values}),
    st.sampled_from(["x", 7, None, True]).map(lambda value: {"const": value}),
    st.sampled_from([{"type": ["string", "null"]}, {"type": ["integer", "string"]}]),
)
_LEAVES = st.one_of(_numbers(), _texts(), _CHOICES)


@st.composite
def objects(draw: st.DrawFn, parts: SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    properties = draw(st.dictionaries(st.sampled_from(NAMES), parts, max_size=4))
    required = draw(st.frozensets(st.sampled_from(NAMES)))
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    schema["required"] = [name for name in properties if name in required]
    if draw(st.booleans()):
        schema["additionalProperties"] = False
    if len(properties) > 0 and draw(st.booleans()):
        schema["minProperties"] = draw(st.integers(0, len(properties)))
    return schema


@st.composite
def _arrays(draw: st.DrawFn, parts: SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    least = draw(st.integers(0, 3))
    schema: dict[str, Any] = {"type": "array", "items": draw(parts), "minItems": least}
    if draw(st.booleans()):
        schema["maxItems"] = least + draw(st.integers(0, 2))
    return schema


def _branching(parts: SearchStrategy[dict[str, Any]]) -> SearchStrategy[dict[str, Any]]:
    merged = st.tuples(objects(parts), objects(parts)).map(_disjoint)
    either = st.lists(parts, min_size=1, max_size=3)
    # Branches of oneOf that overlap may allow nothing at all: these do not.
    one = st.sampled_from(
        [[{"type": "string"}, {"type": "integer"}], [{"type": "null"}, {"type": "string", "maxLength": 3}]]
    )
    return st.one_of(either.map(lambda found: {"anyOf": found}), one.map(lambda found: {"oneOf": found}), merged)


def _disjoint(pair: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, Any]:
    """Two objects that must both hold, with no member in common and open to the other's."""
    first, second = ({key: value for key, value in part.items() if key == "properties"} for part in pair)
    renamed = {f"other_{name}": schema for name, schema in second["properties"].items()}
    return {
        "allOf": [
            {"type": "object", "properties": first["properties"], "required": pair[0]["required"]},
            {"properties": renamed, "required": list(renamed)},
        ]
    }


schemas: SearchStrategy[dict[str, Any]] = st.recursive(
    _LEAVES,
    lambda parts: st.one_of(objects(parts), _arrays(parts), _branching(parts), st.just({"$ref": "#/$defs/node"})),
    max_leaves=8,
)

NODE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "label": {"type": "string"},
        "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
        "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
    },
    "required": ["label", "next", "children"],
}
"""Something that may hold itself."""
