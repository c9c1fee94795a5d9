"""Queries on JSON Schemas for parsing tool calls.

A schema node alone cannot resolve `$ref`: `Located` keeps the document with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

TYPE_ALIASES = {
    "str": "string",
    "text": "string",
    "string": "string",
    "varchar": "string",
    "char": "string",
    "enum": "string",
    "int": "integer",
    "int32": "integer",
    "int64": "integer",
    "uint": "integer",
    "long": "integer",
    "short": "integer",
    "integer": "integer",
    "float": "number",
    "float32": "number",
    "float64": "number",
    "double": "number",
    "decimal": "number",
    "num": "number",
    "number": "number",
    "bool": "boolean",
    "boolean": "boolean",
    "binary": "boolean",
    "dict": "object",
    "map": "object",
    "object": "object",
    "list": "array",
    "arr": "array",
    "tuple": "array",
    "array": "array",
    "none": "null",
    "null": "null",
}
_REFERENCES = 32
_BRANCHES = 64
_NESTED = 2


class Located(Struct, frozen=True):
    """A schema node and the document that its references point into."""

    node: Any
    root: Any

    def child(self, node: Any) -> Located:
        return Located(node, self.root)


def locate(schema: Any) -> Located:
    """Return the schema with its document, unless it is located already."""
    return schema if isinstance(schema, Located) else Located(schema, schema)


def resolve_ref(schema: Any) -> Located:
    """Return the node that `$ref` points to; an unresolved or circular reference allows everything."""
    here = locate(schema)
    for _ in range(_REFERENCES):
        node = here.node
        if not isinstance(node, dict):
            return here
        reference = node.get("$ref") or node.get("$dynamicRef")
        if not isinstance(reference, str):
            return here
        siblings = {key: value for key, value in node.items() if key not in ("$ref", "$dynamicRef")}
        target = _follow_pointer(here.root, reference)
        if isinstance(target, dict) and any(key in siblings for key in ("properties", "type", "enum", "const")):
            target = {**target, **siblings}
        here = here.child(target)
    return here.child(None)


def _follow_pointer(root: Any, reference: str) -> Any:
    if not reference.startswith("#"):
        return None
    node = root
    for part in reference[1:].split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict):
            node = node.get(name)
        elif isinstance(node, list) and name.isdigit() and int(name) < len(node):
            node = node[int(name)]
        else:
            return None
    return node


def alternatives(schema: Any) -> list[Located]:
    """Return the nodes; the value must match one of them: the branches of anyOf and oneOf, flattened; otherwise the
    node alone."""
    found: list[Located] = []
    waiting = [resolve_ref(schema)]
    if not _choices(waiting[0].node):
        return waiting
    for _ in range(_BRANCHES):
        if not waiting:
            return found
        here = waiting.pop(0)
        branches = _choices(here.node)
        if branches:
            waiting[:0] = [resolve_ref(here.child(branch)) for branch in branches]
        else:
            found.append(here)
    # Too many branches, or recursive ones: anything is allowed.
    return [locate(schema).child(None)]


def _choices(node: Any) -> list[Any]:
    branches = (node.get("anyOf") or node.get("oneOf")) if isinstance(node, dict) else None
    return branches if isinstance(branches, list) else []


def all_of_parts(schema: Any) -> Iterator[Located]:
    """Yield the node and, flattened, the members of its allOf: the value must match all of them."""
    waiting = [resolve_ref(schema)]
    for _ in range(_BRANCHES):
        if not waiting:
            return
        here = waiting.pop()
        yield here
        members = here.node.get("allOf") if isinstance(here.node, dict) else None
        if isinstance(members, list):
            waiting.extend(resolve_ref(here.child(member)) for member in members)


def allowed_types(schema: Any) -> tuple[str, ...]:
    """Return the JSON types that the value may have, in the schema's order; empty if unspecified. Aliases that JSON
    Schema does not have (`str`, `dict`) count as what they mean. If `type` is missing, enum and const members, and
    keywords that apply to one type only, determine it."""
    return _find_types(schema, 0)


def _find_types(schema: Any, depth: int) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for branch in alternatives(schema):
        told = _branch_types(branch, depth)
        if not told:
            return _node_types(resolve_ref(schema).node) if _choices(resolve_ref(schema).node) else ()
        found.update(dict.fromkeys(told))
    return tuple(found)


def _branch_types(branch: Located, depth: int) -> tuple[str, ...]:
    allowed: tuple[str, ...] = ()
    for part in all_of_parts(branch):
        nested = part.node is not branch.node and bool(_choices(part.node))
        told = (_find_types(part, depth + 1) if depth < _NESTED else ()) if nested else _node_types(part.node)
        if told:
            allowed = tuple(name for name in allowed if name in told) if allowed else told
    return allowed


_TYPE_KEYWORDS = {"properties": "object", "required": "object", "patternProperties": "object", "items": "array"}
_TYPE_KEYWORDS |= {"prefixItems": "array", "minLength": "string", "maxLength": "string", "pattern": "string"}


def _node_types(node: Any) -> tuple[str, ...]:
    if not isinstance(node, dict):
        return ()
    declared = node.get("type")
    names = declared if isinstance(declared, list) else [declared]
    known = [_type_alias(name) for name in names if isinstance(name, str)]
    if known:
        told = tuple(name for name in known if name)
        if len(told) < len(known):
            return ()
        return (*told, "null") if node.get("nullable") is True and "null" not in told else told
    if "const" in node:
        return (type_name(node["const"]),)
    if isinstance(node.get("enum"), list) and node["enum"]:
        return tuple(dict.fromkeys(type_name(member) for member in node["enum"]))
    return tuple({name: None for key, name in _TYPE_KEYWORDS.items() if key in node})


def _type_alias(name: str) -> str:
    """`VARCHAR(20)`, `list[int]`, `Optional` and the like: the first word determines the type; otherwise the type is
    unknown.
    """
    return TYPE_ALIASES.get(re.split(r"[^a-z0-9]", name.strip().lower(), maxsplit=1)[0], "")


def type_name(value: Any) -> str:
    """Return the JSON type of a value; integers are distinguished from numbers."""
    if value is None:
        return "null"
    for kind, name in _TYPE_NAMES:
        if isinstance(value, kind):
            return name
    return "string"


_TYPE_NAMES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (dict, "object"),
    (list, "array"),
)


def value_schema(schema: Any, key: str) -> Any:
    """Return the schema of a property, with its definitions; None if unspecified."""
    for branch in alternatives(schema):
        for part in all_of_parts(branch):
            node = part.node
            if not isinstance(node, dict):
                continue
            properties = node.get("properties")
            if isinstance(properties, dict) and key in properties:
                return part.child(properties[key])
    return _other_schema(schema, key)


def _other_schema(schema: Any, key: str) -> Any:
    for branch in alternatives(schema):
        for part in all_of_parts(branch):
            node = part.node if isinstance(part.node, dict) else {}
            patterns = node.get("patternProperties")
            for pattern, member in patterns.items() if isinstance(patterns, dict) else ():
                if _matches(pattern, key):
                    return part.child(member)
            if isinstance(node.get("additionalProperties"), dict):
                return part.child(node["additionalProperties"])
    return None


# A schema's pattern runs against a key that a model wrote. Patterns with a repeated group can take exponential time, so
# they are skipped; then further properties are unspecified.
_REPEATED_GROUP = re.compile(r"\)[*+{?]|\\[0-9]")


def _matches(pattern: Any, key: str) -> bool:
    if not isinstance(pattern, str) or len(key) > 200 or _REPEATED_GROUP.search(pattern):
        return False
    try:
        return re.search(pattern, key) is not None
    except re.error:
        return False


def item_schema(schema: Any, index: int) -> Any:
    """Return the schema of an array's element; None if unspecified."""
    for branch in alternatives(schema):
        for part in all_of_parts(branch):
            node = part.node if isinstance(part.node, dict) else {}
            first = node.get("prefixItems")
            items = node.get("items")
            tuple_items = first if isinstance(first, list) else items if isinstance(items, list) else []
            if index < len(tuple_items):
                return part.child(tuple_items[index])
            if isinstance(items, dict):
                return part.child(items)
    return None


def known_keys(schema: Any) -> frozenset[str] | None:
    """Return the names of the properties if the schema lists any; otherwise None."""
    keys: set[str] = set()
    for branch in alternatives(schema):
        for part in all_of_parts(branch):
            properties = part.node.get("properties") if isinstance(part.node, dict) else None
            if isinstance(properties, dict):
                keys.update(properties)
    return frozenset(keys) or None
