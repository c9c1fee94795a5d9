"""The styles of tool lists in prompts. All contain the name, the description and the parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from toolglot.ir import Tool
from toolglot.textcalls.prompts import typescript
from toolglot.textcalls.prompts.records import Calls, ListingStyle, ToolListing
from toolglot.textcalls.prompts.values import braces_value, json_text

NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}


def write_tool_list(listing: ToolListing, tools: Sequence[Tool], calls: Calls) -> str:
    """Write the tools in order, each independently, so that the same tool is always the same text."""
    return _STYLES[listing.style](tools, listing, calls)


def _flat_definition(tool: Tool) -> dict[str, Any]:
    described = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **described, "parameters": _parameters(tool)}


def _openai_definition(tool: Tool) -> dict[str, Any]:
    return {"type": "function", "function": _flat_definition(tool)}


def _parameters(tool: Tool) -> Any:
    return NO_PARAMETERS if tool.parameters is None else tool.parameters


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")


def _between(listing: ToolListing, lines: Iterator[str], separator: str = "\n") -> str:
    return f"{listing.before}{separator.join(lines)}{listing.after}"


def _openai_lines(tools: Sequence[Tool], listing: ToolListing, calls: Calls) -> str:
    return _between(listing, (json_text(_openai_definition(tool)) for tool in tools))


def _flat_lines(tools: Sequence[Tool], listing: ToolListing, calls: Calls) -> str:
    return _between(listing, (json_text(_flat_definition(tool)) for tool in tools))


def _openai_array(tools: Sequence[Tool], listing: ToolListing, calls: Calls) -> str:
    return f"{listing.before}{json_text([_openai_definition(tool) for tool in tools])}{listing.after}"


def _flat_array(tools: Sequence[Tool], listing: ToolListing, calls: Calls) -> str:
    return f"{listing.before}{json_text([_flat_definition(tool) for tool in tools])}{listing.after}"


def _wrapped_json(tools: Sequence[Tool], listing: ToolListing, calls: Calls) -> str:
    """Write one element per tool, named after the list: `<functions>` contains `<function>`, `<tools>` contains
    `<tool>`."""
    tag = listing.before.strip().strip("<>").removesuffix("s")
    return _between(listing, (f"<{tag}>{json_text(_flat_definition(tool))}</{tag}>" for tool in tools))


def _xml_attributes(tools: Sequence[Tool], listing: ToolListing, calls: Calls) -> str:
    return _between(
        listing,
        (
            f'<tool name="{_attribute(tool.name)}" description="{_attribute(tool.description or "")}">\n'
            f"<parameters>{json_text(_parameters(tool))}</parameters>\n</tool>"
            for tool in tools
        ),
    )


def _xml_elements(tools: Sequence[Tool], listing: ToolListing, calls: Calls) -> str:
    return _between(
        listing,
        (
            f"<tool>\n  <name>{tool.name}</name>\n  <description>{tool.description or ''}</description>\n"
            f"  <arguments>{json_text(_parameters(tool))}</arguments>\n</tool>"
            for tool in tools
        ),
    )


def _legacy_xml(tools: Sequence[Tool], listing: ToolListing, calls: Calls) -> str:
    return _between(
        listing,
        (
            f"<tool_description>\n<tool_name>{tool.name}</tool_name>\n<description>{tool.description or ''}"
            f"</description>\n<parameters>{json_text(_parameters(tool))}</parameters>\n</tool_description>"
            for tool in tools
        ),
    )


def _headings(tools: Sequence[Tool], listing: ToolListing, calls: Calls) -> str:
    return _between(
        listing,
        (f"### {tool.name}\n{_sentence(tool.description)}Parameters: {json_text(_parameters(tool))}" for tool in tools),
        "\n\n",
    )


def _sentences(tools: Sequence[Tool], listing: ToolListing, calls: Calls) -> str:
    return _between(
        listing,
        (
            " ".join(
                (f"{tool.name}:", *(tool.description or "").split(), f"Parameters: {json_text(_parameters(tool))}")
            )
            for tool in tools
        ),
        "\n\n",
    )


def _sentence(description: str | None) -> str:
    return f"Description: {description}\n" if description else ""


def _typescript(tools: Sequence[Tool], listing: ToolListing, calls: Calls) -> str:
    lines = ["namespace functions {", ""]
    for tool in tools:
        lines.extend(typescript.comment_lines(tool.description))
        parameters = _parameters(tool)
        told = typescript.object_type(parameters) if isinstance(parameters, Mapping) else "any"
        if _has_definitions(parameters):
            lines.extend(typescript.comment_lines(f"schema: {json_text(parameters)}"))
        lines.extend((f"type {tool.name} = ({'' if told == 'object' else f'_: {told}'}) => any;", ""))
    lines.append("} // namespace functions")
    return _between(listing, iter(lines))


def _has_definitions(schema: Any) -> bool:
    """Return whether the schema has definitions that its parts refer to, which types alone do not express."""
    return isinstance(schema, Mapping) and any(key in schema for key in ("$defs", "definitions", "$ref", "allOf"))


def _properties(tool: Tool) -> Iterator[tuple[str, Any, bool]]:
    """Yield key, schema, required."""
    parameters = _parameters(tool)
    properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
    required = parameters.get("required") if isinstance(parameters, Mapping) else None
    needed = required if isinstance(required, list) else ()
    if isinstance(properties, Mapping):
        for key, schema in properties.items():
            yield key, schema, key in needed


def _describe_parameter(schema: Any) -> tuple[str, str]:
    """Return the description of a parameter, and the rest of its schema as JSON."""
    if not isinstance(schema, Mapping):
        return "", json_text(schema)
    rest = {key: value for key, value in schema.items() if key != "description"}
    kind = rest.get("type")
    told = kind if isinstance(kind, str) and len(rest) == 1 else json_text(rest)
    return " ".join(str(schema.get("description") or "").split()), told


def _shared_definitions(tool: Tool) -> str:
    """Return the definitions that parameters may refer to, which a list of parameters does not contain."""
    parameters = _parameters(tool)
    return f"\nSchema: {json_text(parameters)}" if _has_definitions(parameters) else ""


def _cline(tools: Sequence[Tool], listing: ToolListing, calls: Calls) -> str:
    return _between(listing, (_cline_tool(tool, calls) for tool in tools), "\n\n")


def _cline_tool(tool: Tool, calls: Calls) -> str:
    lines = [f"## {tool.name}", f"Description: {tool.description or 'none'}", "Parameters:"]
    usage = [f"<{tool.name}>"]
    for key, schema, needed in _properties(tool):
        description, told = _describe_parameter(schema)
        lines.append(f"- {key} ({'required' if needed else 'optional'}, {told}) {description}".rstrip())
        usage.append(f"<{key}>\n…\n</{key}>" if key in calls.block_keys else f"<{key}>…</{key}>")
    if len(lines) == 3:
        lines[2] = "Parameters: none"
    return "\n".join((*lines, "Usage:", *usage, f"</{tool.name}>")) + _shared_definitions(tool)


def _codeblocks(tools: Sequence[Tool], listing: ToolListing, calls: Calls) -> str:
    return _between(listing, (_codeblock(tool) for tool in tools), "\n\n")


def _codeblock(tool: Tool) -> str:
    lines = ["```tool_definition", f"TOOL_NAME: {tool.name}"]
    if tool.description:
        lines.extend(("TOOL_DESCRIPTION:", tool.description))
    for key, schema, needed in _properties(tool):
        description, told = _describe_parameter(schema)
        lines.append(f"TOOL_ARG: {key} ({told}, {'required' if needed else 'optional'})")
        if description:
            lines.append(description)
        lines.append("END_ARG")
    return "\n".join((*lines, "```")) + _shared_definitions(tool)


def _braces(tools: Sequence[Tool], listing: ToolListing, calls: Calls) -> str:
    """Write one declaration per tool, each between the marks of the listing."""
    return "".join(
        f"{listing.before}declaration:{tool.name}"
        f"{braces_value({'description': tool.description or '', 'parameters': _parameters(tool)}, calls.quote)}"
        f"{listing.after}"
        for tool in tools
    )


_STYLES: dict[ListingStyle, Callable[[Sequence[Tool], ToolListing, Calls], str]] = {
    "openai_lines": _openai_lines,
    "flat_lines": _flat_lines,
    "openai_array": _openai_array,
    "flat_array": _flat_array,
    "wrapped_json": _wrapped_json,
    "xml_attributes": _xml_attributes,
    "xml_elements": _xml_elements,
    "legacy_xml": _legacy_xml,
    "headings": _headings,
    "sentences": _sentences,
    "typescript": _typescript,
    "cline": _cline,
    "codeblocks": _codeblocks,
    "braces": _braces,
}
