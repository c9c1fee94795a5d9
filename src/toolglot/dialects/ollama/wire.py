"""The JSON of Ollama's API as types. `/api/chat` and `/api/generate` share one type for requests and one for answers.
Only `/api/chat` has `messages` in a request and `message` in an answer."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, UnsetType

from toolglot.wire.structs import Wire
from toolglot.wire.typed import TypedReader, ValueReader


class OllamaFunction(Wire, kw_only=True):
    name: str
    arguments: Raw | UnsetType = UNSET
    index: Any = UNSET


class OllamaCall(Wire, kw_only=True):
    function: OllamaFunction
    id: str | UnsetType = UNSET


class OllamaChatMessage(Wire, kw_only=True):
    role: str
    content: str | UnsetType = UNSET
    thinking: str | UnsetType = UNSET
    images: list[str] | UnsetType = UNSET
    tool_calls: list[OllamaCall] | UnsetType = UNSET
    tool_name: str | UnsetType = UNSET
    tool_call_id: str | UnsetType = UNSET


class OllamaOptions(Wire, kw_only=True):
    """The options that other APIs have too. Other options concern the engine: context size, threads, GPUs."""

    num_predict: int | UnsetType = UNSET
    temperature: int | float | UnsetType = UNSET
    top_p: int | float | UnsetType = UNSET
    top_k: int | UnsetType = UNSET
    seed: int | UnsetType = UNSET
    presence_penalty: int | float | UnsetType = UNSET
    frequency_penalty: int | float | UnsetType = UNSET
    stop: list[str] | UnsetType = UNSET


class OllamaRequestBody(Wire, kw_only=True):
    """A request. `prompt`, `system` and `images` belong to `/api/generate`, `messages` and `tools` to `/api/chat`."""

    model: str | UnsetType = UNSET
    messages: list[OllamaChatMessage] | UnsetType = UNSET
    tools: Raw | UnsetType = UNSET
    prompt: str | UnsetType = UNSET
    system: str | UnsetType = UNSET
    images: list[str] | UnsetType = UNSET
    stream: bool | UnsetType = UNSET
    format: Any = UNSET
    options: OllamaOptions | UnsetType = UNSET
    think: bool | str | UnsetType = UNSET
    logprobs: bool | UnsetType = UNSET
    top_logprobs: int | UnsetType = UNSET
    keep_alive: Any = UNSET


class OllamaFunctionDeclaration(Wire, kw_only=True):
    name: str
    description: str | UnsetType = UNSET
    parameters: Any = UNSET


class OllamaToolEntry(Wire, kw_only=True):
    function: OllamaFunctionDeclaration
    type: str | UnsetType = UNSET


class OllamaTools(Wire, kw_only=True):
    """A request with only the member `tools`."""

    tools: list[OllamaToolEntry]


class OllamaMessage(Wire, kw_only=True):
    """The message of an answer. Servers that imitate Ollama omit its role."""

    role: str | UnsetType = UNSET
    content: str | UnsetType = UNSET
    thinking: str | UnsetType = UNSET
    images: list[str] | UnsetType = UNSET
    tool_calls: list[OllamaCall] | UnsetType = UNSET


class OllamaAnswer(Wire, kw_only=True):
    """A whole answer, or a line of a streamed one."""

    model: str | UnsetType = UNSET
    created_at: Any = UNSET
    message: OllamaMessage | UnsetType = UNSET
    response: str | UnsetType = UNSET
    thinking: str | UnsetType = UNSET
    tool_calls: list[OllamaCall] | UnsetType = UNSET
    done: bool | UnsetType = UNSET
    done_reason: str | UnsetType = UNSET
    prompt_eval_count: Any = UNSET
    eval_count: Any = UNSET
    logprobs: Any = UNSET


class OllamaModelList(Wire, kw_only=True):
    """The answer of `/api/tags`. The list is null if there are no models."""

    models: list[Any] | UnsetType | None = UNSET


class ShowRequest(Wire, kw_only=True):
    """The request of `/api/show`. Older clients send `name`."""

    model: str | UnsetType = UNSET
    name: str | UnsetType = UNSET


REQUESTS = TypedReader(OllamaRequestBody, "messages")
TOOLS = TypedReader(OllamaTools, "tools")
ANSWERS = TypedReader(OllamaAnswer, "tool_calls")
MODEL_LISTS = ValueReader(OllamaModelList)
SHOW_REQUESTS = ValueReader(ShowRequest)
