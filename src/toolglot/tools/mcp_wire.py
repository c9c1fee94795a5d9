"""The JSON of MCP as types: tool definitions, and results of `tools/call`. Members for hosts have no types."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import UNSET, UnsetType, field

from toolglot.wire.structs import OR_UNKNOWN, UNLESS_INEXACT, Unknown, Wire
from toolglot.wire.typed import ValueReader


class McpToolDefinition(Wire):
    name: str
    description: str | UnsetType = UNSET
    input_schema: dict[str, Any] | UnsetType = field(default=UNSET, name="inputSchema")


class McpTextContent(Wire, tag="text", tag_field="type"):
    text: Annotated[str, OR_UNKNOWN]


class MediaContent(Wire, tag_field="type"):
    data: Annotated[str, OR_UNKNOWN]
    mime_type: str | UnsetType = field(default=UNSET, name="mimeType")


class ImageContent(MediaContent, tag="image"):
    pass


class AudioContent(MediaContent, tag="audio"):
    pass


class ResourceContents(Wire):
    uri: Any = UNSET
    mime_type: str | UnsetType = field(default=UNSET, name="mimeType")
    text: Annotated[str, UNLESS_INEXACT] | UnsetType = UNSET
    blob: Annotated[str, UNLESS_INEXACT] | UnsetType = UNSET


class EmbeddedResource(Wire, tag="resource", tag_field="type"):
    resource: Annotated[ResourceContents, OR_UNKNOWN]


class ResourceLink(Wire, tag="resource_link", tag_field="type"):
    uri: Annotated[str, OR_UNKNOWN]


ContentBlock: TypeAlias = McpTextContent | ImageContent | AudioContent | EmbeddedResource | ResourceLink | Unknown


class CallResult(Wire):
    content: list[ContentBlock] | UnsetType = UNSET
    is_error: bool | UnsetType = field(default=UNSET, name="isError")
    structured_content: Any = field(default=UNSET, name="structuredContent")
    result_type: Any = field(default=UNSET, name="resultType")


TOOLS = ValueReader(list[McpToolDefinition])
RESULTS = ValueReader(CallResult)
