"""The JSON of the Messages API as types: requests and answers.

Members of type `Any` are kept unchanged: other APIs do not understand them. They are declared so that a document that
has them is read in one typed decode.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Raw, UnsetType

from toolglot.wire.structs import (
    OR_UNKNOWN,
    UNLESS_EMPTY,
    UNLESS_INEXACT,
    UNLESS_OTHER_TYPE,
    UNLESS_UNKNOWN,
    Unknown,
    Wire,
)
from toolglot.wire.typed import TypedReader, part_reader

JsonValue: TypeAlias = dict[str, Any] | list[Any] | str | int | float | bool
"""Anything but null."""


class CacheControl(Wire):
    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | UnsetType = UNSET


CacheMark: TypeAlias = Annotated[CacheControl, UNLESS_INEXACT] | UnsetType


# Citations


class WebSearchLocation(Wire, tag="web_search_result_location", tag_field="type"):
    cited_text: str | UnsetType = UNSET
    url: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    encrypted_index: Any = UNSET


class SearchResultLocation(Wire, tag="search_result_location", tag_field="type"):
    cited_text: str | UnsetType = UNSET
    source: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    search_result_index: Any = UNSET
    start_block_index: Any = UNSET
    end_block_index: Any = UNSET


class DocumentLocation(Wire, tag_field="type"):
    cited_text: str | UnsetType = UNSET
    document_index: Any = UNSET
    document_title: str | UnsetType = UNSET
    file_id: Any = UNSET


class CharLocation(DocumentLocation, tag="char_location"):
    start_char_index: Any = UNSET
    end_char_index: Any = UNSET


class PageLocation(DocumentLocation, tag="page_location"):
    start_page_number: Any = UNSET
    end_page_number: Any = UNSET


class ContentBlockLocation(DocumentLocation, tag="content_block_location"):
    start_block_index: Any = UNSET
    end_block_index: Any = UNSET


CitationLocation: TypeAlias = (
    WebSearchLocation | SearchResultLocation | CharLocation | PageLocation | ContentBlockLocation
)


# Sources of images and documents


class Base64Source(Wire, tag="base64", tag_field="type"):
    data: str
    media_type: str | UnsetType = UNSET


class UrlSource(Wire, tag="url", tag_field="type"):
    url: str
    media_type: str | UnsetType = UNSET


class FileSource(Wire, tag="file", tag_field="type"):
    file_id: str
    media_type: str | UnsetType = UNSET


class TextSource(Wire, tag="text", tag_field="type"):
    data: str
    media_type: str | UnsetType = UNSET


MediaSource: TypeAlias = Base64Source | UrlSource | FileSource | TextSource


# Blocks


class TextBlock(Wire, tag="text", tag_field="type"):
    text: str
    citations: Annotated[list[CitationLocation | Unknown], UNLESS_EMPTY] | UnsetType | None = UNSET
    cache_control: CacheMark = UNSET


class ImageBlock(Wire, tag="image", tag_field="type"):
    source: Annotated[Base64Source | UrlSource | FileSource, UNLESS_UNKNOWN]
    cache_control: CacheMark = UNSET


class DocumentBlock(Wire, tag="document", tag_field="type"):
    source: Annotated[MediaSource, UNLESS_UNKNOWN]
    title: str | UnsetType = UNSET
    context: str | UnsetType = UNSET
    citations: Any = UNSET
    cache_control: CacheMark = UNSET


class ToolReferenceBlock(Wire, tag="tool_reference", tag_field="type"):
    tool_name: Annotated[str, OR_UNKNOWN]


class ThinkingBlock(Wire, tag="thinking", tag_field="type"):
    thinking: str
    signature: Any = UNSET


class RedactedThinkingBlock(Wire, tag="redacted_thinking", tag_field="type"):
    data: Any = UNSET


class DirectCaller(Wire):
    """The caller of a tool that the model calls itself, not through code that it runs."""

    type: Literal["direct"]


class ToolUseBlock(Wire, tag="tool_use", tag_field="type"):
    name: str
    id: str | UnsetType = UNSET
    input: Raw | UnsetType = UNSET
    caller: Annotated[DirectCaller, UNLESS_INEXACT] | UnsetType = UNSET
    cache_control: CacheMark = UNSET


ResultPart: TypeAlias = TextBlock | ImageBlock | DocumentBlock | ToolReferenceBlock | Unknown


class ToolResultBlock(Wire, tag="tool_result", tag_field="type"):
    tool_use_id: str
    content: str | list[ResultPart] | UnsetType = UNSET
    is_error: bool | UnsetType = UNSET
    cache_control: CacheMark = UNSET


ContentBlock: TypeAlias = (
    TextBlock
    | ImageBlock
    | DocumentBlock
    | ThinkingBlock
    | RedactedThinkingBlock
    | ToolUseBlock
    | ToolResultBlock
    | Unknown
)
AnyBlock: TypeAlias = ContentBlock | ToolReferenceBlock


class ReadableBlock(Wire, kw_only=True):
    """A block that only this dialect has (`readable.py`)."""

    type: Any = UNSET
    cache_control: CacheMark = UNSET


class SearchResultBlock(ReadableBlock, kw_only=True):
    content: Any = UNSET
    title: str | UnsetType = UNSET
    source: str | UnsetType = UNSET


class ContentSource(Wire):
    """The source of a document that is made of blocks."""

    type: Literal["content"]
    content: str | list[TextBlock | ImageBlock | Unknown] | UnsetType = UNSET


class CompositeDocument(ReadableBlock, kw_only=True):
    source: ContentSource
    title: str | UnsetType = UNSET
    context: str | UnsetType = UNSET


class HostedToolUse(ReadableBlock, kw_only=True):
    name: str | UnsetType = UNSET
    server_name: str | UnsetType = UNSET
    id: Any = UNSET
    input: Any = UNSET


class HostedToolResult(ReadableBlock, kw_only=True):
    tool_use_id: Any = UNSET
    content: Any = UNSET


class BrowserState(ReadableBlock, kw_only=True):
    tabs: Any = UNSET
    state_changes: Any = UNSET


# Requests


class RequestMessage(Wire):
    role: str
    content: str | list[ContentBlock] | UnsetType = UNSET
    output_config: Any = UNSET


class ToolDefinition(Wire):
    """A tool that the client runs. Other tools have another `type`, or no name."""

    name: str
    type: Literal["custom"] | UnsetType = UNSET
    description: str | UnsetType = UNSET
    input_schema: JsonValue | UnsetType = UNSET
    strict: bool | UnsetType = UNSET
    defer_loading: bool | UnsetType = UNSET
    cache_control: CacheMark = UNSET


# MCP servers whose tools the gateway runs (`served.py`)


class McpToolConfiguration(Wire):
    enabled: bool | UnsetType = UNSET
    allowed_tools: list[str] | UnsetType = UNSET


class McpServer(Wire):
    type: Literal["url"]
    name: str
    url: str
    authorization_token: Any = UNSET
    tool_configuration: McpToolConfiguration | UnsetType = UNSET


class McpToolConfig(Wire):
    enabled: bool | UnsetType = UNSET
    defer_loading: Any = UNSET


class McpToolset(Wire, tag="mcp_toolset", tag_field="type"):
    mcp_server_name: str
    default_config: McpToolConfig | UnsetType = UNSET
    configs: dict[str, Any] | UnsetType = UNSET
    cache_control: Any = UNSET


class McpToolUse(Wire, tag="mcp_tool_use", tag_field="type"):
    id: str
    server_name: str
    name: str
    input: dict[str, Any] | UnsetType = UNSET
    cache_control: CacheMark = UNSET


class McpToolResult(Wire, tag="mcp_tool_result", tag_field="type"):
    tool_use_id: str
    content: str | list[TextBlock | Unknown] | UnsetType = UNSET
    is_error: bool | UnsetType = UNSET
    cache_control: CacheMark = UNSET


class AutoChoice(Wire, tag="auto", tag_field="type"):
    disable_parallel_tool_use: bool | UnsetType = UNSET


class AnyChoice(Wire, tag="any", tag_field="type"):
    disable_parallel_tool_use: bool | UnsetType = UNSET


class NoChoice(Wire, tag="none", tag_field="type"):
    disable_parallel_tool_use: bool | UnsetType = UNSET


class NamedChoice(Wire, tag="tool", tag_field="type"):
    name: str
    disable_parallel_tool_use: bool | UnsetType = UNSET


ToolChoiceObject: TypeAlias = AutoChoice | AnyChoice | NoChoice | NamedChoice


class ThinkingConfig(Wire):
    type: Literal["enabled", "adaptive", "disabled"]
    budget_tokens: int | UnsetType = UNSET
    display: Annotated[Literal["summarized", "omitted"], UNLESS_OTHER_TYPE] | UnsetType = UNSET


class OutputFormat(Wire):
    type: Literal["json_schema"]
    schema: JsonValue


class OutputConfig(Wire):
    effort: str | UnsetType = UNSET
    format: Annotated[OutputFormat, UNLESS_OTHER_TYPE] | UnsetType = UNSET


class AnthropicMetadata(Wire):
    user_id: str | UnsetType = UNSET


class RequestBody(Wire):
    messages: list[RequestMessage]
    model: str | UnsetType = UNSET
    max_tokens: int | UnsetType = UNSET
    system: str | list[ContentBlock] | UnsetType = UNSET
    tools: Raw | UnsetType = UNSET
    tool_choice: Annotated[ToolChoiceObject, UNLESS_OTHER_TYPE] | UnsetType = UNSET
    thinking: Annotated[ThinkingConfig, UNLESS_OTHER_TYPE] | UnsetType = UNSET
    output_config: Annotated[OutputConfig, UNLESS_EMPTY] | UnsetType = UNSET
    output_format: Annotated[OutputFormat, UNLESS_OTHER_TYPE] | UnsetType = UNSET
    metadata: Annotated[AnthropicMetadata, UNLESS_EMPTY] | UnsetType = UNSET
    temperature: int | float | UnsetType = UNSET
    top_p: int | float | UnsetType = UNSET
    top_k: int | UnsetType = UNSET
    stop_sequences: Annotated[list[str], UNLESS_EMPTY] | UnsetType = UNSET
    service_tier: str | UnsetType = UNSET
    speed: Annotated[Literal["fast", "standard"], UNLESS_OTHER_TYPE] | UnsetType = UNSET
    stream: bool | UnsetType = UNSET
    cache_control: CacheMark = UNSET
    context_management: Any = UNSET
    mcp_servers: Any = UNSET
    container: Any = UNSET
    thread: Any = UNSET


REQUESTS = TypedReader(RequestBody, "messages")
read_tool = part_reader(ToolDefinition)
read_block = part_reader(ContentBlock)


# Answers


class AnswerEnvelope(Wire):
    id: str | UnsetType = UNSET
    type: Annotated[Literal["message"], UNLESS_OTHER_TYPE] | UnsetType = UNSET
    role: Annotated[Literal["assistant"], UNLESS_OTHER_TYPE] | UnsetType = UNSET
    model: str | UnsetType = UNSET
    stop_reason: Any = UNSET
    stop_sequence: Any = UNSET
    stop_details: Any = UNSET
    usage: Any = UNSET
    container: Any = UNSET


class AnthropicMessage(AnswerEnvelope):
    content: list[ContentBlock] | UnsetType = UNSET


class StartedMessage(AnswerEnvelope):
    """The message of `message_start`. The decoder reads its blocks one by one."""

    content: list[Raw] | UnsetType = UNSET


class AnthropicMessageDelta(Wire, tag="message_delta", tag_field="type"):
    delta: dict[str, Any] | UnsetType = UNSET
    usage: dict[str, Any] | UnsetType = UNSET


ANSWERS = TypedReader(AnthropicMessage, "content")
read_started_message = part_reader(StartedMessage)
read_message_delta = part_reader(AnthropicMessageDelta)
read_citation = part_reader(CitationLocation | Unknown)
