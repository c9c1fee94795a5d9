"""The JSON Schema of the configuration, generated from the records, so that both always agree.

Descriptions are the docstrings after the fields. A number or a boolean may also be a reference to the environment.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from toolglot.capabilities import RECORDS, Capabilities
from toolglot.config import schema
from toolglot.config.load import SCHEMA_KEY
from toolglot.config.mcp_import import OWN_ROOTS
from toolglot.dialects import DIALECTS
from toolglot.routing import AUTO, NATIVE
from toolglot.textcalls import ALIASES, FORMATS
from toolglot.upstream.transport import Timeouts
from toolglot.upstream.vendors import VENDORS

DRAFT = "https://json-schema.org/draft/2020-12/schema"
REFERENCE = {"type": "string", "pattern": r"\$\{"}
_FOREIGN = "MCP servers in the format of other programs. They are treated like those under `mcp.servers`."
_SCALARS = ("integer", "number", "boolean")

_RECORDS: dict[str, type[Struct]] = {
    name: value
    for name, value in {**vars(schema), "Timeouts": Timeouts}.items()
    if isinstance(value, type) and issubclass(value, Struct) and value is not Struct
}


def json_schema() -> dict[str, Any]:
    """Return the schema, as plain values."""
    (root,), definitions = msgspec.json.schema_components((schema.Config,), ref_template="#/$defs/{name}")
    for name, definition in definitions.items():
        _add_descriptions(definition, _RECORDS[name])
    definitions["Capabilities"] = _quirks()
    for name in ("UpstreamConfig", "ModelConfig"):
        of_record = definitions[name]["properties"]
        quirks = of_record["quirks"]
        of_record["quirks"] = {"$ref": "#/$defs/Capabilities", "description": quirks["description"], "default": {}}
    definitions = _with_references(definitions)
    upstream = definitions["UpstreamConfig"]["properties"]
    _choices(upstream["vendor"], sorted(VENDORS))
    _choices(upstream["dialect"], sorted({*DIALECTS, *(name.replace("_", "-") for name in DIALECTS)}))
    model = definitions["ModelConfig"]["properties"]
    definitions["TextFormat"] = {"title": "TextFormat", "enum": sorted({*FORMATS, *ALIASES})}
    text_format = {"$ref": "#/$defs/TextFormat"}
    _instead(model["tools"], {"enum": [AUTO, NATIVE]}, text_format, REFERENCE)
    _instead(model["rescue"], {"type": "boolean"}, {"const": AUTO}, text_format, REFERENCE)
    _instead(
        model["history"], {"const": AUTO}, text_format, REFERENCE, {"$ref": "#/$defs/HistoryPolicy"}, {"type": "null"}
    )
    _instead(
        definitions["HistoryPolicy"]["properties"]["calls"], {"const": AUTO}, text_format, REFERENCE, {"type": "null"}
    )
    properties = definitions["Config"]["properties"]
    properties[SCHEMA_KEY] = {"type": "string"}
    for name in OWN_ROOTS:
        properties[name] = {"type": "object", "description": _FOREIGN, "additionalProperties": {"type": "object"}}
    return {"$schema": DRAFT, "title": "toolglot", **root, "$defs": definitions}


def text() -> str:
    """Return the published form of the schema."""
    return msgspec.json.format(msgspec.json.encode(json_schema()), indent=2).decode() + "\n"


def _add_descriptions(definition: dict[str, Any], record: type[Struct]) -> None:
    names = dict(zip(record.__struct_fields__, record.__struct_encode_fields__, strict=True))
    for field, description in docstrings(record):
        definition["properties"][names[field]].setdefault("description", description)


def docstrings(record: type[Struct]) -> Iterator[tuple[str, str]]:
    """Yield the fields, each with the docstring after it."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(record))).body
    assert isinstance(body, ast.ClassDef)
    for statement, following in zip(body.body, body.body[1:], strict=False):
        match statement, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                yield name, " ".join(said.split())


def _quirks() -> dict[str, Any]:
    """Return all capabilities by their public names. None has a default, because a missing quirk changes nothing."""
    properties: dict[str, Any] = {}
    for record in RECORDS.values():
        _, components = msgspec.json.schema_components((record,))
        definition = components[record.__name__]
        _add_descriptions(definition, record)
        properties |= definition["properties"]
    for property_schema in properties.values():
        property_schema.pop("default", None)
    return {
        "title": "Capabilities",
        "description": Capabilities.__doc__,
        "type": "object",
        "properties": properties,
        "required": [],
        "additionalProperties": False,
    }


def _choices(property_schema: dict[str, Any], names: list[str]) -> None:
    _instead(property_schema, {"enum": names}, REFERENCE, {"type": "null"})


def _instead(property_schema: dict[str, Any], *schemas: dict[str, Any]) -> None:
    """Allow one of these in place of the field's type."""
    around = {name: value for name, value in property_schema.items() if name in ("description", "default")}
    if "anyOf" not in property_schema:
        property_schema.clear()
    property_schema.update(anyOf=list(schemas), **around)


def _with_references(value: Any) -> Any:
    """Allow a reference for everything that is not text."""
    if isinstance(value, list):
        return [_with_references(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    made = {name: _with_references(inner) for name, inner in value.items()}
    if made.get("type") in _SCALARS or "enum" in made:
        around = {name: made.pop(name) for name in ("description", "default") if name in made}
        return {"anyOf": [made, REFERENCE], **around}
    return made
