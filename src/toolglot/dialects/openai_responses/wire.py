"""The JSON of the Responses API as types: the request body, items, content parts and tools, and the response.

Members of type `Any` are known and carried, but mean nothing to other dialects. The API accepts messages without
`type`; some SDKs leave it out of other items too.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Raw, UnsetType

from toolglot.wire.structs import UNLESS_INEXACT, UNLESS_OTHER_TYPE, Unknown, Wire

# Content parts


class Breakpoint(Wire):
    mode: Literal["explicit"]
    ttl: Literal["30m", "12h"] | UnsetType = UNSET


class UrlCitation(Wire, tag="url_citation", tag_field="type"):
    url: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    start_index: int | UnsetType = UNSET
    end_index: int | UnsetType = UNSET


Annotation: TypeAlias = UrlCitation | Unknown


class InputText(Wire, tag="input_text", tag_field="type"):
    text: str
    prompt_cache_breakpoint: Annotated[Breakpoint, UNLESS_INEXACT] | UnsetType = UNSET


class OutputText(Wire, tag="output_text", tag_field="type"):
    text: str
    annotations: list[Annotation] | UnsetType = UNSET
    logprobs: Any = UNSET
    parsed: Any = UNSET


class PlainText(Wire, tag="text", tag_field="type"):
    """A text that is marked neither as input nor as output."""

    implied_by = "text"

    text: str
    prompt_cache_breakpoint: Annotated[Breakpoint, UNLESS_INEXACT] | UnsetType = UNSET
    annotations: list[Annotation] | UnsetType = UNSET
    logprobs: Any = UNSET
    parsed: Any = UNSET


class ResponsesRefusalPart(Wire, tag="refusal", tag_field="type"):
    refusal: str


class InputImage(Wire, tag="input_image", tag_field="type"):
    image_url: str | UnsetType = UNSET
    file_id: str | UnsetType = UNSET
    detail: str | UnsetType = UNSET
    prompt_cache_breakpoint: Annotated[Breakpoint, UNLESS_INEXACT] | UnsetType = UNSET


class InputFile(Wire, tag="input_file", tag_field="type"):
    filename: str | UnsetType = UNSET
    file_data: str | UnsetType = UNSET
    file_id: str | UnsetType = UNSET
    file_url: str | UnsetType = UNSET
    detail: str | UnsetType = UNSET
    prompt_cache_breakpoint: Annotated[Breakpoint, UNLESS_INEXACT] | UnsetType = UNSET


class Audio(Wire):
    data: str
    format: str


class ResponsesInputAudio(Wire, tag="input_audio", tag_field="type"):
    input_audio: Audio | UnsetType = UNSET
    prompt_cache_breakpoint: Annotated[Breakpoint, UNLESS_INEXACT] | UnsetType = UNSET


ResponsesPart: TypeAlias = (
    InputText | OutputText | PlainText | ResponsesRefusalPart | InputImage | InputFile | ResponsesInputAudio | Unknown
)

# Items


class MessageItem(Wire, tag="message", tag_field="type"):
    implied_by = "role"
    blank_tag_is_missing = True

    role: str
    content: str | list[ResponsesPart] | UnsetType = UNSET
    id: Any = UNSET
    status: Any = UNSET
    phase: Any = UNSET


class OutputMessage(Wire, tag="message", tag_field="type"):
    """A message of the model. Some servers leave out its role."""

    implied_by = "role"
    blank_tag_is_missing = True

    content: str | list[ResponsesPart] | UnsetType = UNSET
    id: Any = UNSET
    status: Any = UNSET
    role: Any = UNSET
    phase: Any = UNSET


class CallItem(Wire, tag="function_call", tag_field="type"):
    implied_by = "arguments"

    name: str
    call_id: str | UnsetType = UNSET
    arguments: str | dict[str, Any] | UnsetType = UNSET
    """Some clients send them back as an object."""
    namespace: str | UnsetType = UNSET
    id: Any = UNSET
    status: Any = UNSET
    parsed_arguments: Any = UNSET


class CustomCallItem(Wire, tag="custom_tool_call", tag_field="type"):
    name: str
    call_id: str | UnsetType = UNSET
    input: str | UnsetType = UNSET
    namespace: str | UnsetType = UNSET
    id: Any = UNSET
    status: Any = UNSET


class ResultItem(Wire, tag="function_call_output", tag_field="type"):
    implied_by = "output"

    call_id: str | UnsetType = UNSET
    output: str | list[ResponsesPart] | UnsetType = UNSET
    name: str | UnsetType = UNSET
    id: Any = UNSET
    status: Any = UNSET


class CustomResultItem(Wire, tag="custom_tool_call_output", tag_field="type"):
    call_id: str | UnsetType = UNSET
    output: str | list[ResponsesPart] | UnsetType = UNSET
    name: str | UnsetType = UNSET
    id: Any = UNSET
    status: Any = UNSET


class ReasoningItem(Wire, tag="reasoning", tag_field="type"):
    id: Any = UNSET
    summary: list[Any] | UnsetType | None = UNSET
    content: list[Any] | UnsetType | None = UNSET
    encrypted_content: Any = UNSET
    status: Any = UNSET


class AdditionalTools(Wire, tag="additional_tools", tag_field="type"):
    id: Any = UNSET
    role: Any = UNSET
    tools: Raw | UnsetType = UNSET


class ToolSearchCall(Wire, tag="tool_search_call", tag_field="type"):
    id: Any = UNSET
    call_id: Any = UNSET
    status: Any = UNSET
    execution: Any = UNSET
    arguments: Any = UNSET


class ToolSearchOutput(Wire, tag="tool_search_output", tag_field="type"):
    id: Any = UNSET
    call_id: Any = UNSET
    status: Any = UNSET
    execution: Any = UNSET
    tools: Raw | UnsetType = UNSET


class ClientToolItem(Wire):
    """A call of one of the API's own tools that the client runs (shell, patches, the computer), or its result."""

    type: str
    call_id: str | UnsetType = UNSET
    id: Any = UNSET
    status: Any = UNSET


class ClientToolCall(ClientToolItem):
    action: Any = UNSET
    actions: Any = UNSET
    operation: Any = UNSET


class TextOutput(ClientToolItem):
    output: str | UnsetType = UNSET


class ShellRun(Wire):
    stdout: str | UnsetType = UNSET
    stderr: str | UnsetType = UNSET
    outcome: dict[str, Any] | UnsetType = UNSET


class ShellOutput(ClientToolItem):
    output: list[ShellRun] | UnsetType = UNSET


class Screenshot(ClientToolItem, kw_only=True):
    output: dict[str, Any]


OutputItem: TypeAlias = OutputMessage | ReasoningItem | CallItem | CustomCallItem | Unknown
ResponsesItem: TypeAlias = (
    MessageItem
    | ReasoningItem
    | CallItem
    | CustomCallItem
    | ResultItem
    | CustomResultItem
    | AdditionalTools
    | ToolSearchCall
    | ToolSearchOutput
    | Unknown
)

# Tools


class ResponsesFunctionTool(Wire, tag="function", tag_field="type"):
    name: str
    description: str | UnsetType = UNSET
    parameters: Any = UNSET
    strict: bool | UnsetType = UNSET
    defer_loading: bool | UnsetType = UNSET


class ResponsesCustomTool(Wire, tag="custom", tag_field="type"):
    name: str
    description: str | UnsetType = UNSET
    format: Any = UNSET
    defer_loading: bool | UnsetType = UNSET


AnyTool: TypeAlias = ResponsesFunctionTool | ResponsesCustomTool | Unknown

# MCP servers whose tools the gateway runs (`served.py`)


class ToolFilter(Wire):
    tool_names: list[str] | UnsetType = UNSET
    read_only: bool | UnsetType = UNSET


class ApprovalFilters(Wire):
    always: ToolFilter | UnsetType = UNSET
    never: ToolFilter | UnsetType = UNSET


class McpTool(Wire, tag="mcp", tag_field="type"):
    server_label: str
    server_url: str | UnsetType = UNSET
    allowed_tools: list[str] | ToolFilter | UnsetType = UNSET
    require_approval: Literal["always", "never"] | ApprovalFilters | UnsetType = UNSET
    authorization: Any = UNSET
    headers: Any = UNSET


class McpChoice(Wire, tag="mcp", tag_field="type"):
    server_label: str
    name: str | UnsetType = UNSET


class McpListing(Wire, tag="mcp_list_tools", tag_field="type"):
    server_label: Any = UNSET
    id: Any = UNSET
    tools: Any = UNSET


class ApprovalRequest(Wire, tag="mcp_approval_request", tag_field="type"):
    id: str
    server_label: str
    name: str
    arguments: str | UnsetType = UNSET


class ApprovalResponse(Wire, tag="mcp_approval_response", tag_field="type"):
    approval_request_id: str
    approve: bool
    reason: str | UnsetType = UNSET


class McpCall(Wire, tag="mcp_call", tag_field="type"):
    id: str
    server_label: str
    name: str
    arguments: str | UnsetType = UNSET
    approval_request_id: str | UnsetType = UNSET
    output: Any = UNSET
    error: Any = UNSET
    status: Any = UNSET


McpItem: TypeAlias = McpListing | ApprovalRequest | ApprovalResponse | McpCall

# The body


class ReasoningConfig(Wire):
    effort: str | UnsetType = UNSET
    summary: str | UnsetType = UNSET
    context: Any = UNSET
    generate_summary: Any = UNSET
    mode: Any = UNSET


class ResponsesTextFormat(Wire, tag="text", tag_field="type"):
    pass


class JsonObjectFormat(Wire, tag="json_object", tag_field="type"):
    pass


class JsonSchemaFormat(Wire, tag="json_schema", tag_field="type"):
    name: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    schema: Any = UNSET
    strict: bool | UnsetType = UNSET


class TextConfig(Wire):
    format: Annotated[ResponsesTextFormat | JsonObjectFormat | JsonSchemaFormat, UNLESS_OTHER_TYPE] | UnsetType = UNSET
    verbosity: str | UnsetType = UNSET


class ResponsesRequestBody(Wire):
    model: str | UnsetType = UNSET
    input: str | list[ResponsesItem] | UnsetType = UNSET
    instructions: Annotated[str, UNLESS_INEXACT] | UnsetType = UNSET
    tools: Raw | UnsetType = UNSET
    tool_choice: Any = UNSET
    parallel_tool_calls: bool | UnsetType = UNSET
    max_output_tokens: int | UnsetType = UNSET
    temperature: int | float | UnsetType = UNSET
    top_p: int | float | UnsetType = UNSET
    top_logprobs: int | UnsetType = UNSET
    reasoning: ReasoningConfig | UnsetType = UNSET
    text: TextConfig | UnsetType = UNSET
    safety_identifier: str | UnsetType = UNSET
    user: str | UnsetType = UNSET
    moderation: Any = UNSET
    metadata: Any = UNSET
    service_tier: str | UnsetType = UNSET
    prompt_cache_key: Any = UNSET
    prompt_cache_retention: Any = UNSET
    prompt_cache_options: Any = UNSET
    stream: bool | UnsetType = UNSET
    store: bool | UnsetType = UNSET
    include: Any = UNSET
    background: Any = UNSET
    client_metadata: Any = UNSET
    context_management: Any = UNSET
    conversation: Any = UNSET
    max_tool_calls: Any = UNSET
    previous_response_id: Any = UNSET
    prompt: Any = UNSET
    stream_options: Any = UNSET
    truncation: Any = UNSET


# The response


class ResponseHead(Wire):
    """The members of a response, except its output, that the IR understands. All others are only carried."""

    id: str | UnsetType = UNSET
    created_at: int | float | UnsetType = UNSET
    model: str | UnsetType = UNSET
    usage: dict[str, Any] | UnsetType = UNSET
