"""Give tool parameters an object schema at the root, as nearly every API requires.

Only the root changes. Everything below stays as the client wrote it, including keywords that the target does not know:
encoders of restrictive targets reduce schemas to their own subset. Schemas may be recursive (`$ref`) or very deep, so
nothing here recurses: references are followed with a visited set, and trees are traversed with a stack.
"""

from __future__ import annotations

from operator import is_
from typing import Any

from toolglot import features
from toolglot.features import is_object_schema
from toolglot.ir import Json, Opaque, Request, Tool, replace, with_native
from toolglot.passes import Context
from toolglot.plan import runs_on
from toolglot.receipt import Receipt
from toolglot.tools.declared import DECLARED, Tools

DEFINITIONS = ("$defs", "definitions")
COMBINERS = ("allOf", "anyOf", "oneOf")
WRAPPED = "value"
"""Name of the parameter that wraps arguments that are not an object."""

EMPTY: Json = {"type": "object", "properties": {}}


def _triggers(context: Context) -> int:
    if context.source == context.target:
        return 0
    return features.ANY if context.can.schema == "openapi" else features.ODD_SCHEMA | features.STRICT


@runs_on(_triggers)
def fit(request: Request, context: Context) -> Request:
    """Give parameters an object at the root, and keep `strict` only if the target accepts it.

    A client of the target's own dialect knows which schemas it accepts.
    """
    if context.source == context.target:
        return request
    tools = request.tools
    if tools and context.features & (features.ODD_SCHEMA | features.STRICT):

        def fit_tools(lines: Receipt) -> Tools:
            return _fit_tools(tools, replace(context, receipt=lines))

        fitted = DECLARED.rewrite(tools, "schemas", context.can, fit_tools, context.receipt)
        request = request if fitted is tools else replace(request, tools=fitted)
    if context.can.schema == "openapi":
        # The encoder reduces every schema to the target's subset.
        request = with_native(request, context.target, **{"$openapi_schema": True})
    return request


def _fit_tools(tools: Tools, context: Context) -> Tools:
    fitted = tuple(_fit_tool(tool, index, context) for index, tool in enumerate(tools))
    return tools if all(map(is_, fitted, tools)) else fitted


def _fit_tool(tool: Tool | Opaque, index: int, context: Context) -> Tool | Opaque:
    if isinstance(tool, Opaque) or tool.kind == "custom":
        return tool
    absent = tool.parameters is None and context.can.parameters_optional
    if context.can.schema == "object" and not absent and not is_object_schema(tool.parameters):
        tool = replace(tool, parameters=_to_object_schema(tool.parameters, f"tools[{index}].parameters", context))
    if not tool.strict:
        return tool
    where = f"tools[{index}]"
    if not context.can.strict_tools:
        context.receipt.loss(f"{where}.strict", f"strict tool {tool.name}", "the target cannot enforce a tool's schema")
        return replace(tool, strict=None)
    if context.can.strict_all_required and not _is_strict(tool.parameters):
        why = "the target's strict mode wants every property required and no others allowed"
        context.receipt.loss(f"{where}.strict", f"strict tool {tool.name}", why)
        return replace(tool, strict=False)
    return tool


def _to_object_schema(schema: Json, where: str, context: Context) -> Json:
    """Convert a schema to the nearest one with an object at its root."""
    if schema is None or schema is True or schema == {}:
        return EMPTY
    if not isinstance(schema, dict):
        context.receipt.loss(where, "a schema that is no object", "nothing but an empty object can be said")
        return EMPTY
    resolved = _resolve(schema, schema)
    if resolved is None:
        context.receipt.loss(where, "a $ref that leads nowhere", "its parameters are unknown")
        resolved = {key: value for key, value in schema.items() if key != "$ref"}
    for combiner in COMBINERS:
        if combiner in resolved:
            merged = _merge(resolved, combiner, schema, where, context)
            if merged is None:
                return _wrap(schema, where, context)
            resolved = merged
    if not _may_be_object(resolved):
        return _wrap(schema, where, context)
    for keyword in ("not", "enum"):
        if keyword in resolved and context.source != context.target:
            context.receipt.loss(f"{where}.{keyword}", keyword, "it cannot stand at the root of parameters")
            resolved = {key: value for key, value in resolved.items() if key != keyword}
    properties = resolved.get("properties")
    return {**resolved, "type": "object", "properties": properties if isinstance(properties, dict) else {}}


def _may_be_object(schema: dict[str, Any]) -> bool:
    kind = schema.get("type", "object")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _resolve(schema: Json, root: dict[str, Any]) -> dict[str, Any] | None:
    """Follow the reference at the root of a schema. Definitions and siblings of `$ref` stay."""
    visited: set[str] = set()
    while isinstance(schema, dict) and "$ref" in schema:
        reference = schema["$ref"]
        if not isinstance(reference, str) or reference in visited:
            return None
        visited.add(reference)
        found = _follow_pointer(reference, root)
        if not isinstance(found, dict):
            return None
        schema = {**found, **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema if isinstance(schema, dict) else None


def _follow_pointer(reference: str, root: dict[str, Any]) -> Json:
    """Resolve a JSON pointer inside this document; None if there is no such value."""
    if not reference.startswith("#"):
        return None
    found: Json = root
    for part in reference[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            found = found.get(key)
        elif isinstance(found, list) and len(key) < 10 and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        else:
            return None
    return found


def _merge(
    schema: dict[str, Any], combiner: str, root: dict[str, Any], where: str, context: Context
) -> dict[str, Any] | None:
    """Merge a combination of object schemas into one; None if a branch is not an object."""
    branches = schema[combiner]
    if not isinstance(branches, list) or not branches:
        return {key: value for key, value in schema.items() if key != combiner}
    objects: list[dict[str, Any]] = []
    for branch in branches:
        found = _resolve(branch, root)
        if found is None or not _may_be_object(found) or any(key in found for key in COMBINERS):
            return None
        objects.append(found)
    together = combiner == "allOf"
    own = schema.get("properties")
    properties: dict[str, Any] = dict(own) if isinstance(own, dict) else {}
    for branch in objects:
        _add_properties(properties, branch.get("properties"), "allOf" if together else "anyOf")
    required = _required(schema, objects, together)
    merged = {key: value for key, value in schema.items() if key not in (combiner, "required")}
    merged |= {"properties": properties} | ({"required": required} if required else {})
    closed = [branch.get("additionalProperties") is False for branch in objects]
    if "additionalProperties" not in schema and (any(closed) if together else all(closed)):
        merged["additionalProperties"] = False
    if not (together or len(objects) == 1):
        context.receipt.loss(
            f"{where}.{combiner}", combiner, "the alternatives are one object with all their properties"
        )
    elif any(closed) and len(objects) > 1:
        context.receipt.loss(f"{where}.{combiner}", combiner, "the parts are one object, closed as a whole")
    return merged


def _required(schema: dict[str, Any], branches: list[dict[str, Any]], together: bool) -> list[str]:
    """Required properties: those of the schema, and those that all branches require (any branch, for `allOf`)."""
    demanded = [_names(branch) for branch in branches]
    shared = (set.union if together else set.intersection)(*map(set, demanded))
    return list(dict.fromkeys([*_names(schema), *(name for names in demanded for name in names if name in shared)]))


def _names(schema: dict[str, Any]) -> list[str]:
    required = schema.get("required")
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []


def _add_properties(properties: dict[str, Any], more: Json, combiner: str) -> None:
    """Add the properties of a branch. A property with differing definitions gets both."""
    for name, schema in more.items() if isinstance(more, dict) else ():
        if name not in properties:
            properties[name] = schema
        elif not same(properties[name], schema):
            properties[name] = {combiner: [properties[name], schema]}


def _wrap(schema: dict[str, Any], where: str, context: Context) -> Json:
    context.receipt.loss(where, "parameters that are no object", f"they stand inside one, under {WRAPPED!r}")
    inner = {key: value for key, value in schema.items() if key not in DEFINITIONS}
    outer = {key: schema[key] for key in DEFINITIONS if key in schema}
    return {"type": "object", "properties": {WRAPPED: inner}, "required": [WRAPPED], **outer}


def same(first: Json, second: Json) -> bool:
    """Compare two JSON values without recursion."""
    pairs = [(first, second)]
    while pairs:
        left, right = pairs.pop()
        if left is right:
            continue
        if type(left) is not type(right):
            return False
        if isinstance(left, dict):
            if left.keys() != right.keys():
                return False
            pairs.extend((value, right[key]) for key, value in left.items())
        elif isinstance(left, list):
            if len(left) != len(right):
                return False
            pairs.extend(zip(left, right, strict=True))
        elif left != right:
            return False
    return True


_MAPS = ("properties", *DEFINITIONS)
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "not", "additionalProperties")


def _is_strict(schema: Json) -> bool:
    """Whether every object in the schema requires all of its properties and allows no others."""
    waiting: list[Json] = [schema]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict):
            continue
        properties = node.get("properties")
        if (isinstance(properties, dict) or node.get("type") == "object") and (
            node.get("additionalProperties") is not False or set(properties or ()) != set(_names(node))
        ):
            return False
        for key in _MAPS:
            waiting.extend(node[key].values() if isinstance(node.get(key), dict) else ())
        for key in _LISTS:
            waiting.extend(node[key] if isinstance(node.get(key), list) else ())
        waiting.extend(node[key] for key in _SINGLE if key in node)
    return True
