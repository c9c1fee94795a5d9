"""Parse the tools that a prompt describes in text, the only source for the demo's models without native tools. There is
one rule for each form of a tool list:

- JSON objects with a name and a schema: alone, in an array, or inside `function`;
- a schema as JSON, with the name before it: in a tag or an attribute, as a heading, or at the start of a line;
- a heading, and a line per parameter (Cline), or the same in a fenced block (Continue);
- TypeScript types, one per tool (gpt-oss);
- declarations in braces, with bare keys and special string delimiters (Gemma).
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from json import JSONDecodeError, JSONDecoder, dumps
from typing import Any

from toolglot.ir import Tool

MAX_FAILURES = 200
"""Braces that turn out not to be JSON, after which the search stops, so that the work stays bounded."""
MAX_NAME_DISTANCE = 20_000
"""Maximum characters before a schema that are searched for its name."""
HEADING = "# Tools\n"
"""Heading of toolglot's own prompts."""

_DECODER = JSONDecoder()
_OPENING = re.compile(r"[{\[]")
_BEFORE_SCHEMA = ("<parameters>", "<arguments>", "Parameters: ")
_SCHEMA_KEYS = frozenset({"type", "properties", "$ref", "anyOf", "oneOf", "allOf"})
_NAMED = re.compile(
    r"<tool name=\"(?P<attribute>[^\"]+)\"(?: description=\"(?P<told>[^\"]*)\")?"
    r"|<(?:tool_)?name>(?P<element>[^<]+)</(?:tool_)?name>"
    r"|^#{2,4} (?P<heading>[\w.-]+)$"
    r"|^(?P<line>[\w.-]+): (?=\S)",
    re.MULTILINE,
)
_DESCRIPTION = re.compile(r"<description>([^<]*)</description>|^Description: (.*)$|^[\w.-]+: (.*?) Parameters: $", re.M)
# A description may look like a heading: only the end of its section identifies the name.
_CLINE = re.compile(r"^Parameters:(?P<rest> none\n|\n(?:- .*\n)*)Usage:\n<(?P<name>[\w.-]+)>", re.MULTILINE)
_BLOCK = re.compile(
    r"^```tool_definition\nTOOL_NAME: (?P<name>[\w.-]+)\n(?P<rest>(?:(?!```tool_definition).*\n?)*)", re.MULTILINE
)
_PARAMETER = re.compile(
    r"^(?:- (?P<key>[\w.-]+) \((?P<needed>required|optional), (?P<kind>.*?)\)(?: (?P<told>.*))?"
    r"|TOOL_ARG: (?P<argument>[\w.-]+) \((?P<type>.*), (?P<wanted>required|optional)\))$",
    re.MULTILINE,
)


# A body never extends into the next one, so that the work stays linear.
_TYPE = re.compile(
    r"^type (?P<name>[\w.-]+) = \((?:_: \{\n(?P<body>(?:(?!\}\)|type ).*\n)*)\})?\) => any;$", re.MULTILINE
)
_MEMBER = re.compile(r"^(?P<key>[\w-]+)(?P<optional>\?)?: (?P<type>.+?),?$", re.MULTILINE)
_BRACED = re.compile(
    r"declaration:(?P<name>[\w.-]+)(?P<body>\{(?:(?!declaration:|<tool\||<end_f).)*\})"
    r"(?:<tool\|>|<end_function_declaration>)",
    re.DOTALL,
)
_QUOTE = re.compile(r"<\|\"\|>|<escape>")
_BARE_KEY = re.compile(r"(?<=[{,])([\w$-]+):")


def parse_prompt_tools(text: str) -> tuple[Tool, ...]:
    """Return the tools that this text describes, each once, in order."""
    found: list[Tool] = []
    text = text[max(text.rfind(HEADING), 0) :]  # text before the heading is the client's own
    for read in (_parse_typescript_tools, _parse_braced_tools, _parse_line_tools, _parse_json_tools):
        if found := list(read(text)):
            break
    return tuple({tool.name: tool for tool in reversed(found)}.values())[::-1]


def _parse_json_tools(text: str) -> Iterator[Tool]:
    end = 0
    for start, stop, value in _json_values(text):
        for each in value if isinstance(value, list) else [value]:
            inner = each.get("function", each) if isinstance(each, dict) else None
            if not isinstance(inner, dict):
                continue
            if isinstance(inner.get("name"), str) and _is_schema(inner.get("parameters")):
                yield Tool(name=inner["name"], description=_description(inner), parameters=inner["parameters"])
            elif each is value and _is_schema(value) and text.endswith(_BEFORE_SCHEMA, 0, start):
                if tool := _tool_from_schema(text[max(end, start - MAX_NAME_DISTANCE) : start], value):
                    yield tool
                end = stop


def _json_values(text: str) -> Iterator[tuple[int, int, Any]]:
    """Yield the JSON objects and arrays in a text, with their start and end."""
    at = failures = 0
    while failures < MAX_FAILURES and (opening := _OPENING.search(text, at)):
        try:
            value, at = _DECODER.raw_decode(text, opening.start())
        except (JSONDecodeError, RecursionError):
            failures += 1
            at = opening.end()
        else:
            yield opening.start(), at, value


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict) and (not value or bool(value.keys() & _SCHEMA_KEYS))


def _tool_from_schema(before: str, schema: dict[str, Any]) -> Tool | None:
    """Return the tool with this schema, by the name before it."""
    names = list(_NAMED.finditer(before))
    # A description may contain lines that look like names: the first one since the last schema counts.
    name = next((match for match in names if match["attribute"] or match["element"]), names[0] if names else None)
    if name is None:
        return None
    told = name["told"] or next((next(filter(None, said.groups()), "") for said in _DESCRIPTION.finditer(before)), "")
    found = name["attribute"] or name["element"] or name["heading"] or name["line"]
    return Tool(name=html.unescape(found), description=html.unescape(told) or None, parameters=schema)


def _description(tool: dict[str, Any]) -> str | None:
    description = tool.get("description")
    return description if isinstance(description, str) else None


def _parse_line_tools(text: str) -> Iterator[Tool]:
    for found in (*_CLINE.finditer(text), *_BLOCK.finditer(text)):
        properties: dict[str, Any] = {}
        required: list[str] = []
        for match in _PARAMETER.finditer(found["rest"]):
            key = match["key"] or match["argument"]
            properties[key] = {**_parameter_schema(match["kind"] or match["type"]), "description": match["told"] or ""}
            required += [key] if "required" in (match["needed"], match["wanted"]) else []
        schema = {"type": "object", "properties": properties, "required": required}
        yield Tool(name=found["name"], description=_first_line(text, found), parameters=schema)


def _first_line(text: str, found: re.Match[str]) -> str | None:
    """Return the first line of a tool's description, before its parameters or among them."""
    start = text.rfind(f"## {found['name']}\nDescription: ", max(found.start() - MAX_NAME_DISTANCE, 0), found.start())
    if start >= 0:
        return text[start : found.start()].partition("Description: ")[2].partition("\n")[0]
    among = re.search(r"^TOOL_DESCRIPTION:\n(.*)$", found["rest"], re.MULTILINE)
    return among[1] if among else None


def _parse_typescript_tools(text: str) -> Iterator[Tool]:
    for found in _TYPE.finditer(text):
        members = list(_MEMBER.finditer(found["body"] or ""))
        schema = {
            "type": "object",
            "properties": {member["key"]: _typescript_schema(member["type"]) for member in members},
            "required": [member["key"] for member in members if not member["optional"]],
        }
        line = text[text.rfind("\n", 0, max(found.start() - 1, 0)) + 1 : found.start()].strip()
        told = line.removeprefix("// ") if line.startswith("// ") else None
        yield Tool(name=found["name"], description=told, parameters=schema)


def _typescript_schema(told: str) -> dict[str, Any]:
    """Return a member's schema: as much of TypeScript as parameters need."""
    if values := re.findall(r'"([^"]*)"', told):
        return {"enum": values}
    if told.endswith("[]"):
        return {"type": "array", "items": _typescript_schema(told.removesuffix("[]"))}
    word = told.partition(" ")[0]
    return {"type": word} if word in ("string", "number", "boolean") else {"type": "object"} if word == "{" else {}


def _parse_braced_tools(text: str) -> Iterator[Tool]:
    for found in _BRACED.finditer(text):
        parts = _QUOTE.split(found["body"])
        # Keys are bare outside of strings, which are every second item.
        written = (dumps(part) if at % 2 else _BARE_KEY.sub(r'"\1":', part) for at, part in enumerate(parts))
        value = _parameter_schema("".join(written))
        if _is_schema(value.get("parameters")):
            yield Tool(name=found["name"], description=_description(value), parameters=value["parameters"])


def _parameter_schema(told: str) -> dict[str, Any]:
    """Return a parameter's schema, which is one word or JSON."""
    try:
        value = _DECODER.decode(told)
    except (JSONDecodeError, RecursionError):
        return {"type": told}
    return value if isinstance(value, dict) else {}
