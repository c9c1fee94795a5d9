"""The official Python SDKs: every way in which they parse an answer, each reduced to an `Answer`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from functools import cache
from typing import Any

import anthropic
import openai
from anthropic.types import Message, MessageParam, RawMessageStreamEvent
from google import genai
from google.genai import errors as genai_errors
from google.genai import types
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionUserMessageParam
from openai.types.responses import Response, ResponseStreamEvent

from .answers import Answer, Call, Failure, Way, joined, parsed

MODEL = "some-model"
PROMPT = "What is the weather in Zürich, and what time is it there?"
BROKE_OFF = "RemoteProtocolError"


@cache
def openai_client() -> openai.OpenAI:
    return openai.OpenAI(api_key="test", max_retries=0, base_url="http://127.0.0.1:9")


@cache
def anthropic_client() -> anthropic.Anthropic:
    return anthropic.Anthropic(api_key="test", max_retries=0, base_url="http://127.0.0.1:9")


@cache
def genai_client() -> genai.Client:
    return genai.Client(api_key="test")


def close_clients() -> None:
    """Close the clients that were made, with the connections that they keep open."""
    for made_once in (openai_client, anthropic_client, genai_client):
        if made_once.cache_info().currsize:
            made_once().close()
            made_once.cache_clear()


def _openai(base_url: str) -> openai.OpenAI:
    return openai_client().with_options(base_url=f"{base_url}/v1")


def _anthropic(base_url: str) -> anthropic.Anthropic:
    return anthropic_client().with_options(base_url=base_url)


# ── OpenAI Chat Completions ──────────────────────────────────────────────────────────────────────────────────────────

CHAT_MESSAGES: list[ChatCompletionUserMessageParam] = [{"role": "user", "content": PROMPT}]


def chat_create(base_url: str) -> Answer:
    return chat_answer(_openai(base_url).chat.completions.create(model=MODEL, messages=CHAT_MESSAGES))


def chat_stream(base_url: str) -> Answer:
    with _openai(base_url).chat.completions.stream(model=MODEL, messages=CHAT_MESSAGES) as stream:
        return chat_answer(stream.get_final_completion())


def chat_create_stream(base_url: str) -> Answer:
    options: Any = {"include_usage": True}
    create = _openai(base_url).chat.completions.create
    with create(model=MODEL, messages=CHAT_MESSAGES, stream=True, stream_options=options) as chunks:
        return _chat_chunks(chunks)


def chat_answer(completion: ChatCompletion) -> Answer:
    choice, usage = completion.choices[0], completion.usage
    assert choice.message.role == "assistant"
    details = usage.prompt_tokens_details if usage else None
    legacy = choice.message.function_call
    return Answer(
        text=choice.message.content or "",
        thinking=(choice.message.model_extra or {}).get("reasoning_content") or "",
        calls=[
            Call(call.id, call.function.name, parsed(call.function.arguments))
            for call in choice.message.tool_calls or ()
            if call.type == "function"
        ]
        or ([Call(None, legacy.name, parsed(legacy.arguments))] if legacy else []),
        stop=choice.finish_reason,
        input_tokens=usage.prompt_tokens if usage else 0,
        output_tokens=usage.completion_tokens if usage else 0,
        cached_tokens=(details.cached_tokens or 0) if details else 0,
    )


def _chat_chunks(chunks: Iterable[ChatCompletionChunk]) -> Answer:
    """The loop that most applications write by hand."""
    calls: dict[int, list[str]] = {}
    texts: list[str | None] = []
    thoughts: list[str | None] = []
    stop, usage = "", None
    for chunk in chunks:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts.append(choice.delta.content)
            thoughts.append((choice.delta.model_extra or {}).get("reasoning_content"))
            stop = choice.finish_reason or stop
            for delta in choice.delta.tool_calls or ():
                assert delta.function is not None
                call = calls.setdefault(delta.index, [delta.id or "", delta.function.name or "", ""])
                call[2] += delta.function.arguments or ""
            if choice.delta.function_call is not None:
                call = calls.setdefault(0, ["", choice.delta.function_call.name or "", ""])
                call[2] += choice.delta.function_call.arguments or ""
    assert usage is not None
    details = usage.prompt_tokens_details
    return Answer(
        text=joined(texts),
        thinking=joined(thoughts),
        calls=[Call(call_id, name, parsed(arguments)) for call_id, name, arguments in calls.values()],
        stop=stop,
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        cached_tokens=(details.cached_tokens or 0) if details else 0,
    )


# ── OpenAI Responses ─────────────────────────────────────────────────────────────────────────────────────────────────


def responses_create(base_url: str) -> Answer:
    return responses_answer(_openai(base_url).responses.create(model=MODEL, input=PROMPT))


def responses_stream(base_url: str) -> Answer | Failure:
    with _openai(base_url).responses.stream(model=MODEL, input=PROMPT) as stream:
        try:
            return responses_answer(stream.get_final_response())
        except RuntimeError as error:
            # How this helper says "incomplete" or "failed". Its other complaints are about a malformed stream.
            assert str(error) == "Didn't receive a `response.completed` event."
            return Failure("RuntimeError", None, str(error))


def responses_create_stream(base_url: str) -> Answer | Failure:
    with _openai(base_url).responses.create(model=MODEL, input=PROMPT, stream=True) as events:
        return _response_events(events)


def _response_events(events: Iterable[ResponseStreamEvent]) -> Answer | Failure:
    """The events themselves: what was announced and streamed must be what the last event says."""
    streamed: list[str] = []
    items: dict[int, Any] = {}
    for event in events:
        match event.type:
            case "response.output_text.delta":
                streamed.append(event.delta)
            case "response.output_item.done":
                items[event.output_index] = event.item
            case "response.completed" | "response.incomplete":
                assert event.response.output == [items[index] for index in sorted(items)]
                answer = responses_answer(event.response)
                assert "".join(streamed) == answer.text
                return answer
            case "response.failed":
                error = event.response.error
                assert error is not None
                return Failure("response.failed", None, error.message)
            case "error":
                return Failure("error", None, event.message)
            case _:
                pass
    raise AssertionError("the stream ended without saying how")


def responses_answer(response: Response) -> Answer:
    usage = response.usage
    reason = response.incomplete_details.reason if response.incomplete_details else None
    texts: list[str | None] = []
    thoughts: list[str | None] = []
    calls: list[Call] = []
    for item in response.output:
        match item.type:
            case "message":
                texts.extend(part.text for part in item.content if part.type == "output_text")
            case "reasoning":
                thoughts.extend(part.text for part in item.summary)
                thoughts.extend(part.text for part in item.content or ())
            case "function_call":
                arguments = parsed(item.arguments) if item.status == "completed" else item.arguments
                calls.append(Call(item.call_id, item.name, arguments))
            case "custom_tool_call":
                calls.append(Call(item.call_id, item.name, item.input))
            case _:
                raise AssertionError(f"an item that nobody sent: {item}")
    return Answer(
        text=joined(texts),
        thinking=joined(thoughts),
        calls=calls,
        stop=f"{response.status}:{reason}" if reason else str(response.status),
        input_tokens=usage.input_tokens if usage else 0,
        output_tokens=usage.output_tokens if usage else 0,
        cached_tokens=usage.input_tokens_details.cached_tokens if usage else 0,
    )


# ── Anthropic Messages ───────────────────────────────────────────────────────────────────────────────────────────────

ANTHROPIC_MESSAGES: list[MessageParam] = [{"role": "user", "content": PROMPT}]


def messages_create(base_url: str) -> Answer:
    message = _anthropic(base_url).messages.create(model=MODEL, max_tokens=1024, messages=ANTHROPIC_MESSAGES)
    return message_answer(message)


def messages_stream(base_url: str) -> Answer:
    client = _anthropic(base_url)
    with client.messages.stream(model=MODEL, max_tokens=1024, messages=ANTHROPIC_MESSAGES) as stream:
        return message_answer(stream.get_final_message())


def messages_create_stream(base_url: str) -> Answer:
    create = _anthropic(base_url).messages.create
    with create(model=MODEL, max_tokens=1024, messages=ANTHROPIC_MESSAGES, stream=True) as events:
        return _message_events(events)


def message_answer(message: Message) -> Answer:
    usage = message.usage
    cached, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    texts: list[str | None] = []
    thoughts: list[str | None] = []
    calls: list[Call] = []
    for block in message.content:
        match block.type:
            case "text":
                texts.append(block.text)
            case "thinking":
                thoughts.append(block.thinking)
            case "tool_use":
                calls.append(Call(block.id, block.name, block.input))
            case "redacted_thinking":
                assert block.data
            case _:
                raise AssertionError(f"a block that nobody sent: {block}")
    return Answer(
        text=joined(texts),
        thinking=joined(thoughts),
        calls=calls,
        stop=str(message.stop_reason),
        input_tokens=usage.input_tokens + cached + written,
        output_tokens=usage.output_tokens,
        cached_tokens=cached,
    )


def _message_events(events: Iterable[RawMessageStreamEvent]) -> Answer:
    """The events themselves, one open block at a time, as Claude Code reads them."""
    opened: int | None = None
    texts: list[str | None] = []
    thoughts: list[str | None] = []
    calls: dict[int, list[str]] = {}
    stop, tokens, ended = "", [0, 0, 0], False
    for event in events:
        match event.type:
            case "content_block_start":
                assert opened is None, "a block opens inside another"
                opened = event.index
                if event.content_block.type == "tool_use":
                    calls[event.index] = [event.content_block.id, event.content_block.name, ""]
            case "content_block_delta":
                assert opened == event.index
                if event.delta.type == "text_delta":
                    texts.append(event.delta.text)
                elif event.delta.type == "thinking_delta":
                    thoughts.append(event.delta.thinking)
                elif event.delta.type == "input_json_delta":
                    calls[event.index][2] += event.delta.partial_json
            case "content_block_stop":
                opened = None
            case "message_delta":
                stop = str(event.delta.stop_reason)
                usage = event.usage
                cached = usage.cache_read_input_tokens or 0
                fresh = (usage.input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
                tokens = [fresh + cached, usage.output_tokens, cached]
            case "message_stop":
                ended = True
            case _:
                pass
    assert ended, "the stream ended without message_stop"
    return Answer(
        joined(texts),
        joined(thoughts),
        [Call(call_id, name, parsed(arguments or "{}")) for call_id, name, arguments in calls.values()],
        stop,
        *tokens,
    )


# ── Google Gemini ────────────────────────────────────────────────────────────────────────────────────────────────────


def _genai_config(base_url: str) -> types.GenerateContentConfig:
    return types.GenerateContentConfig(http_options=types.HttpOptions(base_url=base_url))


def generate_content(base_url: str) -> Answer:
    config = _genai_config(base_url)
    return genai_answer([genai_client().models.generate_content(model=MODEL, contents=PROMPT, config=config)])


def generate_content_stream(base_url: str) -> Answer:
    config = _genai_config(base_url)
    stream: Any = genai_client().models.generate_content_stream(model=MODEL, contents=PROMPT, config=config)
    with closing(stream):
        return genai_answer(stream)


def genai_answer(chunks: Iterable[types.GenerateContentResponse]) -> Answer:
    texts: list[str | None] = []
    thoughts: list[str | None] = []
    calls: list[Call] = []
    stop, usage = "", None
    for chunk in chunks:
        usage = chunk.usage_metadata or usage
        for candidate in chunk.candidates or ():
            if candidate.finish_reason is not None:
                stop = candidate.finish_reason.value
            for part in (candidate.content.parts if candidate.content else None) or ():
                if part.text:
                    (thoughts if part.thought else texts).append(part.text)
                if part.function_call is not None:
                    call = part.function_call
                    calls.append(Call(call.id, call.name or "", call.args or {}))
    assert usage is not None
    return Answer(
        text=joined(texts),
        thinking=joined(thoughts),
        calls=calls,
        stop=stop,
        input_tokens=usage.prompt_token_count or 0,
        output_tokens=(usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0),
        cached_tokens=usage.cached_content_token_count or 0,
    )


# ── all of them ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _guarded(ask: Callable[[str], Answer | Failure]) -> Callable[[str], Answer | Failure]:
    """The SDK's own errors as values. Anything else it raises (an assertion, a KeyError) fails the test."""

    def guarded(base_url: str) -> Answer | Failure:
        try:
            return ask(base_url)
        except (openai.APIError, anthropic.APIError) as error:
            response = getattr(error, "response", None)
            return Failure(
                type(error).__name__,
                getattr(error, "status_code", None),
                str(error),
                response.headers.get("retry-after") if response is not None else None,
            )
        except (openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError) as error:
            return Failure(type(error).__name__, None, str(error))
        except genai_errors.APIError as error:
            return Failure(type(error).__name__, error.code, str(error))
        except Exception as error:
            # The HTTP library's own error of a connection that breaks inside a body, which some SDKs let through.
            if type(error).__name__ != BROKE_OFF:
                raise
            return Failure(BROKE_OFF, None, str(error))

    return guarded


PYTHON_WAYS = [
    Way(f"python-{ask.__name__}", dialect, streams, _guarded(ask))
    for dialect, streams, ask in [
        ("openai_chat", False, chat_create),
        ("openai_chat", True, chat_stream),
        ("openai_chat", True, chat_create_stream),
        ("openai_responses", False, responses_create),
        ("openai_responses", True, responses_stream),
        ("openai_responses", True, responses_create_stream),
        ("anthropic", False, messages_create),
        ("anthropic", True, messages_stream),
        ("anthropic", True, messages_create_stream),
        ("gemini", False, generate_content),
        ("gemini", True, generate_content_stream),
    ]
]
