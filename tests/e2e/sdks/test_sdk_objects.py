"""Objects of the SDKs in, objects of another SDK out: answers, streams, tools and histories, in one call."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from anthropic.types import Message, RawMessageStreamEvent
from google.genai import types
from ollama import ChatResponse
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent

import toolglot
from toolglot.ir import ToolCall

ANSWER_CLASSES: dict[str, Any] = {
    "openai_chat": ChatCompletion,
    "openai_responses": Response,
    "anthropic": Message,
    "gemini": types.GenerateContentResponse,
    "ollama": ChatResponse,
}
EVENT_CLASSES: dict[str, Any] = {
    "openai_chat": ChatCompletionChunk,
    "openai_responses": ResponseStreamEvent,
    "anthropic": RawMessageStreamEvent,
    "gemini": types.GenerateContentResponse,
    "ollama": ChatResponse,
}
MESSAGE = Message.model_validate(
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": [
            {"type": "text", "text": "Let me see."},
            {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Zürich", "days": None}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 7},
    }
)


def calls_of(answer: Any, dialect: str) -> list[tuple[str, Any]]:
    """The calls of an answer, read from the SDK's own fields."""
    readers: dict[str, Callable[[], list[tuple[str, Any]]]] = {
        "openai_chat": lambda: [
            (call.function.name, json.loads(call.function.arguments)) for call in answer.choices[0].message.tool_calls
        ],
        "openai_responses": lambda: [
            (item.name, json.loads(item.arguments)) for item in answer.output if item.type == "function_call"
        ],
        "anthropic": lambda: [(block.name, block.input) for block in answer.content if block.type == "tool_use"],
        "gemini": lambda: [(call.name, call.args) for call in answer.function_calls],
        "ollama": lambda: [(call.function.name, dict(call.function.arguments)) for call in answer.message.tool_calls],
    }
    return readers[dialect]()


@pytest.mark.parametrize("target", ANSWER_CLASSES)
@pytest.mark.parametrize("source", ANSWER_CLASSES)
def test_an_answer_of_one_sdk_becomes_an_answer_of_another(source: str, target: str) -> None:
    first = toolglot.translate_response(MESSAGE, "anthropic", source).as_model(ANSWER_CLASSES[source])
    translated = toolglot.translate_response(first, source, target)
    answer = translated.as_model(ANSWER_CLASSES[target])
    assert calls_of(answer, target) == [("weather", {"city": "Zürich", "days": None})]
    assert not translated.receipt.losses


@pytest.mark.parametrize("target", EVENT_CLASSES)
@pytest.mark.parametrize("source", EVENT_CLASSES)
def test_the_events_of_one_sdk_become_the_events_of_another(source: str, target: str) -> None:
    exchange = toolglot.Exchange(source, "anthropic")
    translation = exchange.stream()
    written = translation.feed(json.dumps(MESSAGE.model_dump(exclude_unset=True))) + translation.close()
    events = [*toolglot.translate_stream(written, source, source).as_models(EVENT_CLASSES[source])]
    stream = toolglot.translate_stream(events, source, target)
    translated = [*stream.as_models(EVENT_CLASSES[target])]
    assert len(translated) > 0
    dumped = [event.model_dump(mode="json", by_alias=True, exclude_unset=True) for event in translated]
    answer = toolglot.fold(toolglot.read_stream(dumped, target))
    (call,) = [block for block in answer.content if isinstance(block, ToolCall)]
    assert (call.name, json.loads(call.arguments)) == ("weather", {"city": "Zürich", "days": None})
    assert stream.stop is not None
    assert stream.stop.reason == "tool_calls"
    assert stream.fault is None
    assert stream.usage is not None
    assert stream.usage.output_tokens == 7


def test_a_history_of_dicts_and_sdk_objects_becomes_another_vendors() -> None:
    history: list[Any] = [
        {"role": "user", "content": "Weather in Zürich?"},
        {"role": "assistant", "content": MESSAGE.content},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "17 degrees"}]},
    ]
    chat = toolglot.translate_messages(history, "anthropic", "openai_chat")
    assert [message["role"] for message in chat.json()] == ["user", "assistant", "tool"]
    assert not chat.receipt.losses
    contents = toolglot.translate_messages(history, "anthropic", "gemini").json()
    parsed = [types.Content.model_validate(content) for content in contents]
    again = toolglot.translate_messages(parsed, "gemini", "anthropic")
    assert again.json()[1]["content"][1]["input"] == {"city": "Zürich", "days": None}


def test_an_answers_message_can_be_appended_as_it_came() -> None:
    completion = toolglot.translate_response(MESSAGE, "anthropic", "openai_chat").as_model(ChatCompletion)
    history = [{"role": "user", "content": "Weather?"}, completion.choices[0].message]
    claude = toolglot.translate_messages(history, "openai_chat", "anthropic").json()
    assert claude[1]["content"][1]["id"] == "toolu_1"


def test_images_of_googles_sdk_keep_their_bytes() -> None:
    picture = types.Part.from_bytes(data=b"\xfb\xff\xfe", mime_type="image/png")
    history = [types.Content(role="user", parts=[types.Part(text="What is it?"), picture])]
    translated = toolglot.translate_messages(history, "gemini", "anthropic")
    assert translated.json()[0]["content"][1]["source"]["data"] == "+//+"
    assert not translated.receipt


def test_tool_definitions_of_googles_sdk_become_those_of_others() -> None:
    city = types.Schema(type=types.Type.STRING)
    parameters = types.Schema(type=types.Type.OBJECT, properties={"city": city})
    tool = types.Tool(function_declarations=[types.FunctionDeclaration(name="weather", parameters=parameters)])
    (claude,) = toolglot.translate_tools([tool], "gemini", "anthropic").json()
    assert claude["input_schema"] == {"type": "object", "properties": {"city": {"type": "string"}}}
    (chat,) = toolglot.translate_tools([claude], "anthropic", "openai_chat").json()
    assert chat["function"]["name"] == "weather"


def test_what_an_sdk_parsed_for_its_caller_is_no_part_of_the_answer() -> None:
    completion = toolglot.translate_response(MESSAGE, "anthropic", "openai_chat").json()
    completion["choices"][0]["message"]["parsed"] = {"city": "Zürich"}
    parsed = ChatCompletion.model_validate(completion)
    assert not toolglot.translate_response(parsed, "openai_chat", "anthropic").receipt.losses
