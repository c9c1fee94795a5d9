"""The JSON of Chat Completions as types, with the members that compatible servers have introduced.

Members of type `Any` are read if their form allows it, and carried unchanged otherwise.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Raw, UnsetType

from toolglot.wire.structs import OR_UNKNOWN, OTHER_TAG, UNLESS_EMPTY, UNLESS_INEXACT, UNLESS_OTHER_TYPE, Unknown, Wire
from toolglot.wire.typed import TypedReader, ValueReader

# Content parts


class CachedPart(Wire):
    """Members of parts that may have a cache breakpoint."""

    prompt_cache_breakpoint: Any = UNSET
    cache_control: Any = UNSET
    """Anthropic's member; gateways to Claude (OpenRouter, LiteLLM) have adopted it."""


class ChatTextPart(CachedPart, tag="text", tag_field="type", kw_only=True):
    implied_by = "text"

    text: str


class ChatRefusalPart(Wire, tag="refusal", tag_field="type", kw_only=True):
    refusal: str


class ImageUrl(Wire, kw_only=True):
    url: str
    detail: str | UnsetType | None = UNSET


class ImagePart(CachedPart, tag="image_url", tag_field="type", kw_only=True):
    """Some clients write the URL as a plain string; the API itself requires an object."""

    implied_by = "image_url"

    image_url: Annotated[str | ImageUrl, OR_UNKNOWN]


class VideoUrl(Wire, kw_only=True):
    url: str


class VideoPart(CachedPart, tag="video_url", tag_field="type", kw_only=True):
    """A video by URL, as vLLM, OpenRouter, Z.ai and others accept it."""

    implied_by = "video_url"

    video_url: Annotated[str | VideoUrl, OR_UNKNOWN]


class ChatInputAudio(Wire, kw_only=True):
    data: str
    format: str | UnsetType | None = UNSET


class AudioPart(CachedPart, tag="input_audio", tag_field="type", kw_only=True):
    implied_by = "input_audio"

    input_audio: Annotated[ChatInputAudio, OR_UNKNOWN]


class File(Wire, kw_only=True):
    file_data: str | UnsetType | None = UNSET
    file_id: str | UnsetType | None = UNSET
    filename: str | UnsetType | None = UNSET


class FilePart(CachedPart, tag="file", tag_field="type", kw_only=True):
    implied_by = "file"

    file: Annotated[File, OR_UNKNOWN]


class DocumentPart(Wire, tag="document_url", tag_field="type", kw_only=True):
    """Mistral's part: a document by URL."""

    document_url: Annotated[str, OR_UNKNOWN]
    document_name: str | UnsetType | None = UNSET


class ThinkingPart(Wire, tag="thinking", tag_field="type", kw_only=True):
    """Mistral's part: reasoning as a list of texts."""

    thinking: Annotated[list[Any], OR_UNKNOWN]


class ReasoningPart(Wire, tag="reasoning", tag_field="type", kw_only=True):
    """Databricks' part: reasoning with the signatures of the model."""

    summary: Annotated[list[Any], OR_UNKNOWN]


class SourcePart(CachedPart, tag="image", tag_field="type", kw_only=True):
    """An image in the form of the Messages API."""

    source: Annotated[dict[str, Any], OR_UNKNOWN]


PlainPart: TypeAlias = (
    ChatTextPart
    | ChatRefusalPart
    | ImagePart
    | SourcePart
    | VideoPart
    | AudioPart
    | FilePart
    | DocumentPart
    | ThinkingPart
    | ReasoningPart
)
"""The parts that a result part may hold."""


class CallPart(Wire, tag="tool_use", tag_field="type", kw_only=True):
    """A call in the form of the Messages API. Cursor sends it if the model's name contains `claude`."""

    id: Annotated[str, OR_UNKNOWN]
    name: Annotated[str, OR_UNKNOWN]
    input: Annotated[dict[str, Any], OR_UNKNOWN]
    cache_control: Any = UNSET


class ResultPart(Wire, tag="tool_result", tag_field="type", kw_only=True):
    """A result in the form of the Messages API, in a user message."""

    tool_use_id: Annotated[str, OR_UNKNOWN]
    content: Annotated[str | list[PlainPart | Unknown], OR_UNKNOWN] | UnsetType | None = UNSET
    is_error: Annotated[bool, UNLESS_INEXACT] | UnsetType = UNSET
    cache_control: Any = UNSET


ChatPart: TypeAlias = PlainPart | CallPart | ResultPart | Unknown
ChatContent: TypeAlias = str | list[ChatPart] | UnsetType | None


class ImageEntry(CachedPart, kw_only=True):
    """An element of `images`, the field of OpenRouter and LiteLLM for images that the model generated."""

    type: Literal["image_url"] | UnsetType = UNSET
    image_url: str | ImageUrl
    index: Any = UNSET


# Calls


class ChatFunction(Wire):
    """Some servers send the arguments as an object."""

    name: str | UnsetType | None = UNSET
    arguments: str | dict[str, Any] | UnsetType | None = UNSET


class Custom(Wire):
    name: str | UnsetType | None = UNSET
    input: str | UnsetType | None = UNSET


class CallMembers(Wire):
    id: str | UnsetType | None = UNSET
    index: Any = UNSET
    """Only in streams, which number calls."""
    extra_content: Any = UNSET
    """Google's server stores its thought signatures here."""
    provider_specific_fields: Any = UNSET
    """LiteLLM stores Gemini's thought signatures here."""


class ChatFunctionCall(CallMembers, tag="function", tag_field="type", kw_only=True):
    implied_by = "function"
    blank_tag_is_missing = True

    function: Annotated[ChatFunction, OR_UNKNOWN]


class ChatCustomCall(CallMembers, tag="custom", tag_field="type", kw_only=True):
    custom: Annotated[Custom, OR_UNKNOWN]


ChatCall: TypeAlias = ChatFunctionCall | ChatCustomCall | Unknown


class LegacyCall(Wire, kw_only=True):
    """The deprecated `function_call` of a message."""

    name: str
    arguments: str | UnsetType | None = UNSET


# Messages


class ContentMessage(Wire):
    """Members of all messages except tool results."""

    content: ChatContent = UNSET
    name: Any = UNSET
    refusal: Annotated[str, UNLESS_EMPTY] | UnsetType | None = UNSET
    reasoning_content: Any = UNSET
    reasoning: Any = UNSET
    cache_control: Any = UNSET


class SystemMessage(ContentMessage, tag="system", tag_field="role"):
    pass


class DeveloperMessage(ContentMessage, tag="developer", tag_field="role"):
    pass


class UserMessage(ContentMessage, tag="user", tag_field="role"):
    pass


class OtherMessage(ContentMessage, tag=OTHER_TAG, tag_field="role"):
    """A message with a role that the API does not know; `rest` has its `role`."""


class ModelMessage(ContentMessage):
    """Members of the model's messages in requests and responses."""

    annotations: Any = UNSET
    audio: Any = UNSET
    function_call: LegacyCall | UnsetType | None = UNSET
    tool_calls: list[ChatCall] | UnsetType | None = UNSET
    parsed: Any = UNSET
    """OpenAI's Python SDK adds it and sends it back."""
    reasoning_details: Any = UNSET
    thinking_blocks: Any = UNSET
    reasoning_text: Any = UNSET
    """GitHub Copilot's name for reasoning, as the next one for its state."""
    reasoning_opaque: Any = UNSET
    extra_content: Any = UNSET
    provider_specific_fields: Any = UNSET
    images: Annotated[list[ImageEntry], UNLESS_INEXACT] | UnsetType | None = UNSET


class AssistantMessage(ModelMessage, tag="assistant", tag_field="role"):
    pass


class ResultMessage(Wire):
    content: ChatContent = UNSET
    tool_call_id: str | UnsetType | None = UNSET
    name: str | UnsetType | None = UNSET
    tool_name: Annotated[str, UNLESS_INEXACT] | UnsetType | None = UNSET
    """Ollama's name for `name`."""
    cache_control: Any = UNSET


class ToolMessage(ResultMessage, tag="tool", tag_field="role"):
    pass


class FunctionMessage(ResultMessage, tag="function", tag_field="role"):
    """A result in the deprecated form, which refers to the call by name."""


AnyMessage: TypeAlias = (
    UserMessage | AssistantMessage | ToolMessage | SystemMessage | DeveloperMessage | FunctionMessage | OtherMessage
)


# Tools


class ChatFunctionDeclaration(Wire, kw_only=True):
    name: str
    description: str | UnsetType | None = UNSET
    parameters: Any = UNSET
    strict: bool | UnsetType | None = UNSET
    cache_control: Any = UNSET


class FlatFunction(ChatFunctionDeclaration, tag="function", tag_field="type", kw_only=True):
    """A tool in the form of the Responses API."""


class ChatFunctionTool(Wire, tag="function", tag_field="type", kw_only=True):
    implied_by = "function"

    function: Annotated[ChatFunctionDeclaration, OR_UNKNOWN]
    cache_control: Any = UNSET


class CustomDeclaration(Wire, kw_only=True):
    name: str
    description: str | UnsetType | None = UNSET
    format: Any = UNSET


class ChatCustomTool(Wire, tag="custom", tag_field="type", kw_only=True):
    implied_by = "custom"

    custom: Annotated[CustomDeclaration, OR_UNKNOWN]


class ChatToolList(Wire, kw_only=True):
    """The member `tools` of a request alone."""

    tools: list[ChatFunctionTool | ChatCustomTool | Unknown]


class JsonSchema(Wire):
    name: str | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    schema: Any = UNSET
    strict: bool | UnsetType | None = UNSET


class SchemaFormat(Wire, tag="json_schema", tag_field="type", kw_only=True):
    json_schema: Annotated[JsonSchema, OR_UNKNOWN]


class ChatTextFormat(Wire, tag="text", tag_field="type"):
    pass


class JsonFormat(Wire, tag="json_object", tag_field="type"):
    pass


# Requests


class ChatRequestBody(Wire, kw_only=True):
    messages: list[AnyMessage]
    model: str | UnsetType | None = UNSET
    tools: Raw | UnsetType = UNSET
    functions: list[ChatFunctionDeclaration] | UnsetType | None = UNSET
    tool_choice: Any = UNSET
    function_call: Any = UNSET
    parallel_tool_calls: bool | UnsetType | None = UNSET
    max_tokens: int | UnsetType | None = UNSET
    max_completion_tokens: int | UnsetType | None = UNSET
    temperature: int | float | UnsetType | None = UNSET
    top_p: int | float | UnsetType | None = UNSET
    top_k: int | UnsetType | None = UNSET
    seed: int | UnsetType | None = UNSET
    presence_penalty: int | float | UnsetType | None = UNSET
    frequency_penalty: int | float | UnsetType | None = UNSET
    n: int | UnsetType | None = UNSET
    logprobs: Any = UNSET
    top_logprobs: int | UnsetType | None = UNSET
    stop: Any = UNSET
    response_format: Annotated[SchemaFormat | ChatTextFormat | JsonFormat, UNLESS_OTHER_TYPE] | UnsetType = UNSET
    reasoning_effort: str | UnsetType | None = UNSET
    reasoning: Any = UNSET
    thinking: Any = UNSET
    chat_template_kwargs: Any = UNSET
    enable_thinking: Any = UNSET
    thinking_budget: Any = UNSET
    verbosity: str | UnsetType | None = UNSET
    user: str | UnsetType | None = UNSET
    safety_identifier: str | UnsetType | None = UNSET
    moderation: Any = UNSET
    metadata: Any = UNSET
    service_tier: str | UnsetType | None = UNSET
    cache_control: Any = UNSET
    prompt_cache_key: Any = UNSET
    prompt_cache_retention: Any = UNSET
    prompt_cache_options: Any = UNSET
    store: bool | UnsetType | None = UNSET
    stream: bool | UnsetType | None = UNSET
    stream_options: Any = UNSET
    logit_bias: Any = UNSET
    modalities: Any = UNSET
    audio: Any = UNSET
    prediction: Any = UNSET
    web_search_options: Any = UNSET
    min_p: Any = UNSET
    repetition_penalty: Any = UNSET
    provider: Any = UNSET


# Responses


class ResponseMessage(ModelMessage):
    content: Annotated[str | list[ChatPart], UNLESS_EMPTY] | UnsetType | None = UNSET
    role: Any = UNSET


class Choice(Wire):
    index: int | UnsetType | None = UNSET
    message: ResponseMessage | UnsetType | None = UNSET
    finish_reason: str | UnsetType | None = UNSET
    logprobs: Any = UNSET
    error: Any = UNSET
    """OpenRouter's member for an error of its provider."""
    native_finish_reason: Any = UNSET
    stop_reason: Any = UNSET
    content_filter_results: Any = UNSET


class Completion(Wire):
    choices: list[Choice] | UnsetType | None = UNSET
    id: str | UnsetType | None = UNSET
    object: Any = UNSET
    created: int | UnsetType | None = UNSET
    model: str | UnsetType | None = UNSET
    usage: Any = UNSET
    service_tier: Any = UNSET
    system_fingerprint: Any = UNSET
    x_groq: Any = UNSET
    provider: Any = UNSET
    prompt_filter_results: Any = UNSET
    prompt_logprobs: Any = UNSET
    kv_transfer_params: Any = UNSET
    timings: Any = UNSET


# Chunks of a stream. Nulls mean nothing in them, and repeated keys are not detected.


class FunctionDelta(Wire):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None
    input: str | None = None
    provider_specific_fields: Any = None  # older versions of LiteLLM store Gemini's thought signatures here


class CallDelta(Wire):
    index: int | str | None = None
    """Some servers write the number as a string."""
    id: str | None = None
    type: Any = None
    function: FunctionDelta | None = None
    custom: FunctionDelta | None = None
    extra_content: Any = None  # Google's server stores its thought signatures here
    provider_specific_fields: Any = None  # LiteLLM stores Gemini's thought signatures here


class ChatMessageDelta(Wire):
    content: str | list[Any] | None = None
    role: Any = None
    reasoning_content: str | dict[str, Any] | list[Any] | None = None
    reasoning: str | dict[str, Any] | list[Any] | None = None
    reasoning_text: str | dict[str, Any] | list[Any] | None = None
    reasoning_details: Any = None
    thinking_blocks: Any = None
    reasoning_opaque: Any = None
    extra_content: Any = None
    provider_specific_fields: Any = None
    images: Any = None
    refusal: str | None = None
    tool_calls: list[CallDelta] | None = None
    function_call: FunctionDelta | None = None
    annotations: list[Any] | None = None


class ChunkChoice(Wire):
    index: int = 0
    delta: ChatMessageDelta | None = None
    finish_reason: str | None = None
    logprobs: Any = None
    message: ChatMessageDelta | None = None
    usage: dict[str, Any] | None = None  # Moonshot writes it here
    error: Any = None  # OpenRouter's member for an error of its provider


class GroqExtension(Wire):
    """Groq's own member. Its last chunk has the usage here, and nowhere else unless the request asked for it."""

    id: Any = None
    usage: dict[str, Any] | None = None
    error: Any = None


class Chunk(Wire):
    id: str | None = None
    object: str | None = None
    created: int | float | None = None
    model: str | None = None
    choices: list[ChunkChoice] | None = None
    usage: dict[str, Any] | None = None
    service_tier: Any = None
    system_fingerprint: Any = None
    obfuscation: Any = None
    x_groq: GroqExtension | None = None
    error: Any = None
    type: str | None = None


REQUESTS = TypedReader(ChatRequestBody, "messages")
TOOLS = TypedReader(ChatToolList, "tools")
IMAGE_ENTRIES = ValueReader(ImageEntry)
CALLS = ValueReader(ChatFunctionCall | ChatCustomCall)
FLAT_FUNCTIONS = ValueReader(FlatFunction)
RESPONSES = TypedReader(Completion, "choices")
