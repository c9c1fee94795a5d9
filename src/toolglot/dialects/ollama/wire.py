"""The JSON of Ollama's API as types. `/api/chat` and `/api/generate` share one type for requests and one for answers:
which of the two it is, `messages` or `message` tells."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, UnsetType

from toolglot.wire.structs import Wire
from toolglot.wire.typed import TypedReader, ValueReader


class Function(Wire, kw_only=True):
    name: str
    arguments: Raw | UnsetType = UNSET
    index: Any = UNSET


class Call(Wire, kw_only=True):
    function: Function
    id: str | UnsetType = UNSET


class ChatMessage(Wire, kw_only=True):
    role: str
    content: str | UnsetType = UNSET
    thinking: str | UnsetType = UNSET
    images: list[str] | UnsetType = UNSET
    tool_calls: list[Call] | UnsetType = UNSET
    tool_name: str | UnsetType = UNSET
    tool_call_id: str | UnsetType = UNSET


class Options(Wire, kw_only=True):
    """The options that other APIs have too. The rest concerns the engine: context size, threads, GPUs."""

    num_predict: int | UnsetType = UNSET
    temperature: int | float | UnsetType = UNSET
    top_p: int | float | UnsetType = UNSET
    top_k: int | UnsetType = UNSET
    seed: int | UnsetType = UNSET
    presence_penalty: int | float | UnsetType = UNSET
    frequency_penalty: int | float | UnsetType = UNSET
    stop: list[str] | UnsetType = UNSET


class Body(Wire, kw_only=True):
    """A request. `prompt`, `system` and `images` belong to `/api/generate`, `messages` and `tools` to `/api/chat`."""

    model: str | UnsetType = UNSET
    messages: list[ChatMessage] | UnsetType = UNSET
    tools: Raw | UnsetType = UNSET
    prompt: str | UnsetType = UNSET
    system: str | UnsetType = UNSET
    images: list[str] | UnsetType = UNSET
    stream: bool | UnsetType = UNSET
    format: Any = UNSET
    options: Options | UnsetType = UNSET
    think: bool | str | UnsetType = UNSET
    logprobs: bool | UnsetType = UNSET
    top_logprobs: int | UnsetType = UNSET
    keep_alive: Any = UNSET


class FunctionDeclaration(Wire, kw_only=True):
    name: str
    description: str | UnsetType = UNSET
    parameters: Any = UNSET


class ToolEntry(Wire, kw_only=True):
    function: FunctionDeclaration
    type: str | UnsetType = UNSET


class Tools(Wire, kw_only=True):
    """The member `tools` of a request, alone."""

    tools: list[ToolEntry]


class AnswerMessage(Wire, kw_only=True):
    """The message of an answer. Servers that imitate Ollama leave out its role."""

    role: str | UnsetType = UNSET
    content: str | UnsetType = UNSET
    thinking: str | UnsetType = UNSET
    images: list[str] | UnsetType = UNSET
    tool_calls: list[Call] | UnsetType = UNSET


class Answer(Wire, kw_only=True):
    """A whole answer, or a line of a streamed one."""

    model: str | UnsetType = UNSET
    created_at: Any = UNSET
    message: AnswerMessage | UnsetType = UNSET
    response: str | UnsetType = UNSET
    thinking: str | UnsetType = UNSET
    tool_calls: list[Call] | UnsetType = UNSET
    done: bool | UnsetType = UNSET
    done_reason: str | UnsetType = UNSET
    prompt_eval_count: Any = UNSET
    eval_count: Any = UNSET
    logprobs: Any = UNSET


class ModelList(Wire, kw_only=True):
    """`/api/tags`. Without models there is a null."""

    models: list[Any] | UnsetType | None = UNSET


class ShowRequest(Wire, kw_only=True):
    """`/api/show`. Older clients say `name`."""

    model: str | UnsetType = UNSET
    name: str | UnsetType = UNSET


REQUESTS = TypedReader(Body, "messages")
TOOLS = TypedReader(Tools, "tools")
ANSWERS = TypedReader(Answer, "tool_calls")
MODEL_LISTS = ValueReader(ModelList)
SHOW_REQUESTS = ValueReader(ShowRequest)
