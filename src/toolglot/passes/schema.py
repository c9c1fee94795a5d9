"""Fit the schemas of tools to the target. A single schema that the vendor refuses would fail the whole request.

- Parameters get an object at the root, as every API requires. Others are wrapped in one, also for tools as text.
- Keywords of older drafts become those of draft 2020-12 (`wire/json_schema.py`), which Anthropic requires. - Arrays get
  `items` if the target requires it, as OpenAI's APIs do.
- Properties whose names the target refuses are renamed. Anthropic checks only those at the root, not those of inner
  objects, items or definitions (accelerated-intelligent-document-processing-on-aws #709 has measured it).

Wrapped and renamed arguments are converted in the calls of the history, and in the answer (`argument_form.py`).

Everything else stays as the client wrote it, including keywords that the target does not know: encoders of restrictive
targets reduce schemas to their own subset. Schemas may be recursive (`$ref`) or very deep, so nothing here recurses:
references are followed with a visited set, and trees are traversed with a stack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from operator import is_
from typing import Any

from toolglot import features
from toolglot.features import is_object_schema
from toolglot.ir import OURS, Block, Json, Opaque, Request, Tool, ToolCall, native_of, replace, with_native
from toolglot.passes import Context, OriginalTool
from toolglot.passes.argument_form import ArgumentForm
from toolglot.passes.blocks import Place, rewrite_blocks
from toolglot.passes.digest import digest
from toolglot.plan import runs_on
from toolglot.receipt import Receipt
from toolglot.tools.declared import DECLARED, Tools
from toolglot.wire.json_schema import is_dated, iterate_schemas, lacks_items, modernize, rewrite_schemas

DEFINITIONS = ("$defs", "definitions")
COMBINERS = ("allOf", "anyOf", "oneOf")
WRAPPED = "value"
"""Name of the parameter that wraps arguments that are not an object."""

EMPTY: Json = {"type": "object", "properties": {}}

_FORM = "$arguments"
"""The mark on a tool whose arguments have another form upstream."""
_SCHEMAS = features.ODD_SCHEMA | features.DATED_SCHEMA | features.BARE_ARRAYS | features.ODD_KEYS | features.STRICT


def _triggers(context: Context) -> int:
    if context.source == context.target:
        return 0
    return features.ANY if context.can.tools.schema == "openapi" else _SCHEMAS


@runs_on(_triggers, in_place=True)
def fit(request: Request, context: Context) -> Request:
    """Fit the schemas of tools, and keep `strict` only if the target accepts it.

    A client of the target's own dialect knows which schemas it accepts.
    """
    if context.source == context.target:
        return request
    tools = request.tools
    if tools and context.features & _SCHEMAS:

        def fit_tools(lines: Receipt) -> Tools:
            return _fit_tools(tools, replace(context, receipt=lines))

        fitted = DECLARED.rewrite(tools, "schemas", context.can, fit_tools, context.receipt)
        if fitted is not tools:
            request = replace(request, tools=fitted)
            if forms := DECLARED.derive(fitted, "forms", None, _argument_forms, fitted):
                request = _convert_calls(request, forms, context)
    if context.can.tools.schema == "openapi":
        # The encoder reduces every schema to the target's subset.
        request = with_native(request, context.target, **{"$openapi_schema": True})
    return request


def wrap_parameters(request: Request, context: Context) -> Request:
    """Wrap parameters that may not be an object, and change nothing else. Text formats accept any other schema."""
    tools = request.tools

    def wrap_tools(lines: Receipt) -> Tools:
        wrapped = tuple(_wrap_tool(tool, index, replace(context, receipt=lines)) for index, tool in enumerate(tools))
        return tools if all(map(is_, wrapped, tools)) else wrapped

    wrapped = DECLARED.rewrite(tools, "wrapped", None, wrap_tools, context.receipt) if tools else tools
    if wrapped is tools:
        return request
    forms = DECLARED.derive(wrapped, "forms", None, _argument_forms, wrapped)
    return _convert_calls(replace(request, tools=wrapped), forms, context)


def _wrap_tool(tool: Tool | Opaque, index: int, context: Context) -> Tool | Opaque:
    if isinstance(tool, Opaque) or tool.kind == "custom" or not isinstance(tool.parameters, dict):
        return tool
    where = f"tools[{index}].parameters"
    if is_object_schema(tool.parameters):
        return tool
    modern = rewrite_schemas(tool.parameters, modernize)
    if _to_object_schema(modern, where, replace(context, receipt=Receipt())) is not None:
        return tool
    wrapped = replace(tool, parameters=_wrap(tool.parameters, where, context.receipt))
    return with_native(wrapped, OURS, **{_FORM: ArgumentForm(wrapped_in=WRAPPED)})


def _argument_forms(tools: Tools) -> dict[str, ArgumentForm]:
    """Return the tools whose arguments have another form upstream, by name."""
    return {
        tool.name: form
        for tool in tools
        if isinstance(tool, Tool) and isinstance(form := native_of(tool, OURS).get(_FORM), ArgumentForm)
    }


def _convert_calls(request: Request, forms: Mapping[str, ArgumentForm], context: Context) -> Request:
    """Convert the calls of the history, and record the forms for the answer."""
    known = context.tools
    context.tools = {
        **known,
        **{name: replace(known.get(name, OriginalTool(name)), form=form) for name, form in forms.items()},
    }
    is_object = context.source_can.calls.arguments == "object"

    def convert(block: Block, place: Place) -> tuple[Block, ...]:
        if isinstance(block, ToolCall) and (form := forms.get(block.name)) is not None:
            arguments = form.to_upstream(block.arguments, is_object=is_object)
            if arguments != block.arguments:
                return (replace(block, arguments=arguments),)
        return (block,)

    return rewrite_blocks(request, convert, ToolCall)


def _fit_tools(tools: Tools, context: Context) -> Tools:
    fitted = tuple(_fit_tool(tool, index, context) for index, tool in enumerate(tools))
    return tools if all(map(is_, fitted, tools)) else fitted


def _fit_tool(tool: Tool | Opaque, index: int, context: Context) -> Tool | Opaque:
    if isinstance(tool, Opaque) or tool.kind == "custom":
        return tool
    where = f"tools[{index}]"
    tool = _fit_parameters(tool, f"{where}.parameters", context)
    if not tool.strict:
        return tool
    if not context.can.tools.strict:
        context.receipt.loss(f"{where}.strict", f"strict tool {tool.name}", "the target cannot enforce a tool's schema")
        return replace(tool, strict=None)
    if context.can.tools.strict_all_required and not _is_strict(tool.parameters):
        why = "the target's strict mode needs every property required and no others allowed"
        context.receipt.loss(f"{where}.strict", f"strict tool {tool.name}", why)
        return replace(tool, strict=False)
    return tool


def _fit_parameters(tool: Tool, where: str, context: Context) -> Tool:
    can, given, form = context.can.tools, tool.parameters, None
    schema: Json = given
    schema = modernize_schema(schema, where, context.receipt)
    absent = schema is None and can.parameters_optional
    if can.schema != "any" and not absent and not is_object_schema(schema):
        found = _to_object_schema(schema, where, context)
        if found is None:
            assert isinstance(schema, dict)
            found, form = _wrap(schema, where, context.receipt), ArgumentForm(wrapped_in=WRAPPED)
        schema = found
    if can.array_items:
        schema = add_items(schema, where, context.receipt)
    if can.property_pattern and (keys := _new_keys(schema, can.property_pattern)):
        form, schema = ArgumentForm(keys=keys), _rename_keys(_separate_root(schema), keys)
        names = ", ".join(f"{old!r} to {new!r}" for old, new in keys.items())
        context.receipt.note(where, "names of parameters", f"the target refuses them; renamed: {names}")
    if schema is not given:
        tool = replace(tool, parameters=schema)
    return tool if form is None else with_native(tool, OURS, **{_FORM: form})


def modernize_schema(schema: Json, where: str, receipt: Receipt) -> Json:
    """Write keywords of older drafts as in draft 2020-12. The same object if there are none."""
    if not any(map(is_dated, iterate_schemas(schema))):
        return schema
    modern = rewrite_schemas(schema, modernize)
    what = "keywords of an older draft, or types in upper case"
    receipt.note(where, what, "they have the form of draft 2020-12")
    return rewrite_schemas(modern, lambda node: _move_reference(node, _TUPLE_ITEMS, r"\1/prefixItems/\2"))


def add_items(schema: Json, where: str, receipt: Receipt) -> Json:
    """Add `items` to arrays without it. The same object if there are none."""
    if not any(map(lacks_items, iterate_schemas(schema))):
        return schema
    receipt.note(where, "arrays without items", "the target requires items: {}, which means the same")
    return rewrite_schemas(schema, lambda node: {**node, "items": {}} if lacks_items(node) else node)


# Names of properties

_IN_PLACE = ("allOf", "anyOf", "oneOf", "if", "then", "else", "not")
"""Keywords with schemas of the same object."""
_BY_PROPERTY = ("properties", "dependentRequired", "dependentSchemas")
_OF_PROPERTIES = ("required", "propertyOrdering")
_KEY_LENGTH = 64
_TUPLE_ITEMS = re.compile(r"(\A#(?:/.*)?)/items/([0-9]+)(?=/|\Z)")
_PROPERTY = re.compile(r"\A(#/properties/)([^/]*)")
_ROOT = re.compile(r"\A#\Z")
_OUTSIDE_DEFINITIONS = re.compile(r"\A#(?!/(?:\$defs|definitions)/)((?:/.*)?)\Z")


def _new_keys(schema: Json, pattern: str) -> dict[str, str]:
    """New names for the properties at the root whose names do not match the pattern."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return {}
    taken = {name for name in properties if re.fullmatch(pattern, name)}
    new: dict[str, str] = {}
    for name in properties:
        if name not in taken and name not in new:
            clean = re.sub(r"[^A-Za-z0-9_.-]", "_", name) or "_"
            if len(clean) > _KEY_LENGTH or clean in taken:
                clean = f"{clean[: _KEY_LENGTH - 9]}_{digest(name)[:8]}"
            new[name] = clean
            taken.add(clean)
    return new


def _separate_root(schema: dict[str, Any]) -> dict[str, Any]:
    """Redirect references to the root to a copy with the original names: only the names of a call's own arguments
    change, not those of objects inside them.
    """
    if not any(node.get("$ref") == "#" for node in iterate_schemas(schema)):
        return schema
    name = f"root_{digest(*schema)[:8]}"
    moved = rewrite_schemas(schema, lambda node: _move_reference(node, _ROOT, f"#/$defs/{name}"))
    assert isinstance(moved, dict)
    copy = {key: value for key, value in moved.items() if key not in DEFINITIONS}
    return {**moved, "$defs": {**moved.get("$defs", {}), name: copy}}


def _rename_keys(schema: dict[str, Any], keys: Mapping[str, str]) -> dict[str, Any]:
    """Rename properties of the root, also in schemas of the same object beside it, and in references."""
    root = dict(schema)
    waiting = [root]
    while waiting:
        node = waiting.pop()
        for key, value in node.items():
            if key in _BY_PROPERTY and isinstance(value, dict):
                node[key] = {keys.get(name, name): _rename_listed(inner, keys) for name, inner in value.items()}
            elif key in _OF_PROPERTIES:
                node[key] = _rename_listed(value, keys)
            elif key in _IN_PLACE:
                beside = [dict(each) if isinstance(each, dict) else each for each in _as_list(value)]
                node[key] = beside if isinstance(value, list) else beside[0]
                waiting.extend(each for each in beside if isinstance(each, dict))
    return rewrite_schemas(root, lambda node: _move_reference(node, _PROPERTY, lambda found: _new_pointer(found, keys)))


def _new_pointer(found: re.Match[str], keys: Mapping[str, str]) -> str:
    name = found[2].replace("~1", "/").replace("~0", "~")
    return found[1] + keys.get(name, found[2])


def _rename_listed(names: Json, keys: Mapping[str, str]) -> Json:
    """Rename the names in a list. Other values stay."""
    if not isinstance(names, list):
        return names
    return [keys.get(name, name) if isinstance(name, str) else name for name in names]


def _as_list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [value]


def _move_reference(
    node: dict[str, Any], pattern: re.Pattern[str], replacement: str | Callable[[re.Match[str]], str]
) -> dict[str, Any]:
    """Change the reference of a schema whose target has moved."""
    reference = node.get("$ref")
    if not isinstance(reference, str) or (moved := pattern.sub(replacement, reference)) == reference:
        return node
    return {**node, "$ref": moved}


def _to_object_schema(schema: Json, where: str, context: Context) -> Json | None:
    """Convert a schema to the nearest one with an object at its root. None if its values may not be objects."""
    if schema is None or schema is True or schema == {}:
        return EMPTY
    if not isinstance(schema, dict):
        context.receipt.loss(where, "a schema that is not an object", "only an empty object is possible")
        return EMPTY
    resolved = _resolve(schema, schema)
    if resolved is None:
        context.receipt.loss(where, "a $ref that cannot be resolved", "its parameters are unknown")
        resolved = {key: value for key, value in schema.items() if key != "$ref"}
    for combiner in COMBINERS:
        if combiner in resolved:
            merged = _merge(resolved, combiner, schema, where, context)
            if merged is None:
                return None
            resolved = merged
    if not _may_be_object(resolved):
        return None
    for keyword in ("not", "enum"):
        if keyword in resolved and context.source != context.target:
            context.receipt.loss(f"{where}.{keyword}", keyword, "it is not allowed at the root of parameters")
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


_MERGED = frozenset({"type", "properties", "required", "additionalProperties", "title", "$schema"})
"""Keywords of a branch that its merged form has."""


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
    required = _required_properties(schema, objects, together)
    merged = {key: value for key, value in schema.items() if key not in (combiner, "required")}
    merged |= {"properties": properties} | ({"required": required} if required else {})
    closed = [branch.get("additionalProperties") is False for branch in objects]
    if "additionalProperties" not in schema and (any(closed) if together else all(closed)):
        merged["additionalProperties"] = False
    if others := sorted({key for branch in objects for key in branch if key not in _MERGED}):
        context.receipt.loss(f"{where}.{combiner}", ", ".join(others), "they do not fit into one object")
    if not (together or len(objects) == 1):
        context.receipt.loss(
            f"{where}.{combiner}", combiner, "the alternatives are one object with all their properties"
        )
    elif any(closed) and len(objects) > 1:
        context.receipt.loss(f"{where}.{combiner}", combiner, "the parts are one object, closed as a whole")
    return merged


def _required_properties(schema: dict[str, Any], branches: list[dict[str, Any]], together: bool) -> list[str]:
    """Return the required properties: those of the schema, and those that all branches require (any branch, for
    `allOf`)."""
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


def _wrap(schema: dict[str, Any], where: str, receipt: Receipt) -> Json:
    receipt.note(where, "parameters that are not an object", f"they are inside one, under {WRAPPED!r}")
    moved = rewrite_schemas(
        schema, lambda node: _move_reference(node, _OUTSIDE_DEFINITIONS, rf"#/properties/{WRAPPED}\1")
    )
    assert isinstance(moved, dict)
    schema = moved
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


def _is_strict(schema: Json) -> bool:
    """Return whether every object in the schema requires all of its properties and allows no others."""
    for node in iterate_schemas(schema):
        properties = node.get("properties")
        if (isinstance(properties, dict) or node.get("type") == "object") and (
            node.get("additionalProperties") is not False or set(properties or ()) != set(_names(node))
        ):
            return False
    return True
