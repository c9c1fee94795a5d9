"""The JSON of the Gemini API as types.

The API reads proto-JSON: `functionCall` and `function_call` are the same member, at every level, and real clients mix
the two spellings within one request. The types have camelCase, which nearly all clients send. Members that are only
carried have no types; `ProtoMemberNames` tables list them, so that they get one spelling too.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import UNSET, Raw, UnsetType, field

from toolglot.dialects.gemini.names import ProtoMemberNames, normalize, snake_case
from toolglot.errors import DecodeError
from toolglot.wire.structs import UNLESS_INEXACT, Wire
from toolglot.wire.typed import TypedReader, ValueReader


class ProtoMessage(Wire, rename="camel"):
    """An object of proto-JSON. No member of this API begins with `$`, so none collides with a note in `native`."""

    carried: ClassVar[ProtoMemberNames] = ProtoMemberNames()
    """Known members without a type."""

    @classmethod
    def resolve_name(cls, name: str, where: str) -> str:
        if name.startswith("$"):
            raise DecodeError(f"{where}.{name}", "the API has no such member")
        if "_" not in name:
            return name
        typed = (one for one in cls.__struct_encode_fields__ if snake_case(one) == name)
        return next(typed, None) or cls.carried.spelling.get(name, name)

    @classmethod
    def resolve_rest(cls, name: str, value: Any, where: str) -> Any:
        nested = cls.carried.members.get(name)
        return value if nested is None else normalize(value, nested, where)


# Parts


class Blob(ProtoMessage, kw_only=True):
    data: str
    mime_type: str | UnsetType = UNSET
    display_name: str | UnsetType = UNSET


class FileData(ProtoMessage, kw_only=True):
    file_uri: str
    mime_type: str | UnsetType = UNSET
    display_name: str | UnsetType = UNSET


class MediaPart(ProtoMessage, kw_only=True):
    """A part of a tool's result."""

    inline_data: Blob | UnsetType = UNSET
    file_data: FileData | UnsetType = UNSET


class PartialArg(ProtoMessage, kw_only=True):
    """A piece of streamed arguments."""

    json_path: str | UnsetType = UNSET
    string_value: str | UnsetType = UNSET
    number_value: int | float | UnsetType = UNSET
    bool_value: bool | UnsetType = UNSET
    null_value: Any = UNSET
    will_continue: bool | UnsetType = UNSET


class GeminiFunctionCall(ProtoMessage, kw_only=True):
    id: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    args: Raw | UnsetType = UNSET
    partial_args: Annotated[list[PartialArg], UNLESS_INEXACT] | UnsetType = UNSET
    will_continue: Any = UNSET


class FunctionResponse(ProtoMessage, kw_only=True):
    id: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    response: dict[str, Any] | UnsetType = UNSET
    parts: list[MediaPart] | MediaPart | UnsetType = UNSET
    scheduling: Any = UNSET
    will_continue: Any = UNSET


class Part(MediaPart, kw_only=True):
    """A part: one data member and its modifiers."""

    carried = ProtoMemberNames(
        "partMetadata",
        executableCode=ProtoMemberNames(),
        codeExecutionResult=ProtoMemberNames(),
        toolCall=ProtoMemberNames("toolType"),
        toolResponse=ProtoMemberNames("toolType"),
        videoMetadata=ProtoMemberNames("startOffset endOffset"),
        mediaResolution=ProtoMemberNames("numTokens"),
    )

    function_call: GeminiFunctionCall | UnsetType = UNSET
    function_response: FunctionResponse | UnsetType = UNSET
    text: str | UnsetType = UNSET
    thought: Any = UNSET
    thought_signature: Any = UNSET


class Content(ProtoMessage, kw_only=True):
    role: str | UnsetType = UNSET
    parts: list[Part] | Part | UnsetType = UNSET


class SystemInstruction(Part, kw_only=True):
    """A content. Some clients send a single part instead."""

    role: str | UnsetType = UNSET
    parts: list[Part] | Part | UnsetType = UNSET


# Requests


class GeminiFunctionDeclaration(ProtoMessage, kw_only=True):
    carried = ProtoMemberNames("responseJsonSchema")

    name: str
    description: str | UnsetType = UNSET
    parameters: Any = UNSET
    parameters_json_schema: Any = UNSET


class GeminiToolEntry(ProtoMessage, kw_only=True):
    """Function declarations, hosted tools, or both."""

    carried = ProtoMemberNames(
        "googleSearchRetrieval codeExecution",
        googleSearch=ProtoMemberNames("timeRangeFilter excludeDomains blockingConfidence searchTypes"),
        urlContext=ProtoMemberNames(),
        fileSearch=ProtoMemberNames("fileSearchStoreNames topK metadataFilter"),
        computerUse=ProtoMemberNames("excludedPredefinedFunctions"),
        googleMaps=ProtoMemberNames("enableWidget"),
        mcpServers=ProtoMemberNames(streamableHttpTransport=ProtoMemberNames("sseReadTimeout terminateOnClose")),
    )

    function_declarations: list[GeminiFunctionDeclaration] | GeminiFunctionDeclaration | UnsetType = UNSET


class GeminiTools(ProtoMessage, kw_only=True):
    """A request with only the member `tools`."""

    tools: list[GeminiToolEntry] | GeminiToolEntry | UnsetType = UNSET


class FunctionCallingConfig(ProtoMessage, kw_only=True):
    carried = ProtoMemberNames("streamFunctionCallArguments")

    mode: str | UnsetType = UNSET
    allowed_function_names: list[str] | UnsetType = UNSET


class ToolConfig(ProtoMessage, kw_only=True):
    carried = ProtoMemberNames(
        "includeServerSideToolInvocations", retrievalConfig=ProtoMemberNames("latLng languageCode")
    )

    function_calling_config: FunctionCallingConfig | UnsetType = UNSET


class GenerationConfig(ProtoMessage, kw_only=True):
    carried = ProtoMemberNames(
        "responseModalities mediaResolution enableEnhancedCivicAnswers audioTimestamp routingConfig "
        "modelSelectionConfig speechConfig imageConfig"
    )

    temperature: int | float | UnsetType = UNSET
    top_p: int | float | UnsetType = UNSET
    top_k: int | UnsetType = UNSET
    presence_penalty: int | float | UnsetType = UNSET
    frequency_penalty: int | float | UnsetType = UNSET
    max_output_tokens: int | UnsetType = UNSET
    candidate_count: int | UnsetType = UNSET
    logprobs: int | UnsetType = UNSET
    response_logprobs: bool | UnsetType = UNSET
    seed: int | UnsetType = UNSET
    stop_sequences: list[str] | UnsetType = UNSET
    response_mime_type: Any = UNSET
    response_schema: Any = UNSET
    response_json_schema: Any = UNSET
    response_json_schema_of_old_sdk: Any = field(default=UNSET, name="_responseJsonSchema")
    thinking_config: dict[str, Any] | UnsetType = UNSET
    """Untyped: Google's Python SDK writes its members in snake_case, and all others in camelCase."""


class GeminiRequestBody(ProtoMessage, kw_only=True):
    """A request of `generateContent` and `streamGenerateContent`."""

    carried = ProtoMemberNames("continuationToken")

    contents: list[Content] | Content
    system_instruction: str | list[Part] | SystemInstruction | UnsetType = UNSET
    tools: Raw | UnsetType = UNSET
    tool_config: ToolConfig | UnsetType = UNSET
    generation_config: GenerationConfig | UnsetType = UNSET
    labels: dict[str, Any] | UnsetType = UNSET
    service_tier: Any = UNSET
    store: bool | UnsetType = UNSET
    model: Any = UNSET
    cached_content: Any = UNSET
    safety_settings: list[dict[str, Any]] | dict[str, Any] | UnsetType = UNSET


REQUESTS = TypedReader(GeminiRequestBody, "contents")
TOOLS = TypedReader(GeminiTools, "tools")


# Responses


class Candidate(ProtoMessage, kw_only=True):
    carried = ProtoMemberNames("groundingAttributions continuationToken")

    content: Content | UnsetType = UNSET
    finish_reason: str | UnsetType = UNSET
    finish_message: str | UnsetType = UNSET
    index: Any = UNSET
    logprobs_result: Any = UNSET
    avg_logprobs: Any = UNSET
    safety_ratings: Any = UNSET
    token_count: Any = UNSET
    citation_metadata: Any = UNSET
    grounding_metadata: Any = UNSET
    url_context_metadata: Any = UNSET


class GeminiAnswer(ProtoMessage, kw_only=True):
    """A response, or a frame of a streamed one."""

    carried = ProtoMemberNames(promptFeedback=ProtoMemberNames("blockReason blockReasonMessage safetyRatings"))

    candidates: list[Candidate] | UnsetType = UNSET
    usage_metadata: Any = UNSET
    model_version: str | UnsetType = UNSET
    response_id: str | UnsetType = UNSET
    create_time: Any = UNSET


ANSWERS = TypedReader(GeminiAnswer, "candidates")


# Models


class GeminiModelList(Wire):
    """A page of models. An empty one is an empty object."""

    models: list[Any] | UnsetType = UNSET


MODEL_LISTS = ValueReader(GeminiModelList)
