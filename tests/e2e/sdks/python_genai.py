"""The Google Gen AI SDK for Python: a chat whose calls the application runs, and one that runs them by itself."""

from __future__ import annotations

from functools import partial
from typing import Any

from google.genai import types

from tests.e2e.answers import Answer
from tests.e2e.python_loops import SYSTEM, TOOLS
from tests.e2e.python_ways import genai_answer, genai_client

from .clients import Client
from .script import EFFORT_TOKENS, OUTCOMES, PICTURE, PICTURE_TYPE, Wish

DECLARATIONS = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(name=name, description=description, parameters_json_schema=schema)
        for name, description, schema in TOOLS
    ]
)


def _config(base_url: str, tools: list[Any], *, automatic: bool) -> types.GenerateContentConfig:
    return types.GenerateContentConfig(
        http_options=types.HttpOptions(base_url=base_url),
        system_instruction=SYSTEM,
        tools=tools,
        thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_budget=EFFORT_TOKENS),
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=not automatic),
    )


def _response(call: types.FunctionCall) -> types.Part:
    name = call.name or ""
    outcome = OUTCOMES[name]
    response = {"error" if outcome.failed else "output": outcome.text}
    parts = [types.FunctionResponsePart.from_bytes(data=PICTURE, mime_type=PICTURE_TYPE)] if outcome.picture else None
    result = types.FunctionResponse(id=call.id, name=name, response=response, parts=parts)
    return types.Part(function_response=result)


def _sent(chat: Any, streams: bool, message: Any) -> list[types.GenerateContentResponse]:
    return list(chat.send_message_stream(message)) if streams else [chat.send_message(message)]


def chats(streams: bool, base_url: str, wish: Wish) -> list[Answer]:
    config = _config(base_url, [DECLARATIONS], automatic=False)
    chat = genai_client().chats.create(model=wish.model, config=config)
    answers: list[Answer] = []
    message: Any = wish.prompt
    while message:
        chunks = _sent(chat, streams, message)
        answers.append(genai_answer(chunks))
        message = [_response(call) for chunk in chunks for call in chunk.function_calls or ()]
    return answers


def get_weather(city: str, days: int, units: dict[str, str], hours: list[float]) -> str:
    """The weather of a city."""
    return OUTCOMES["get_weather"].text


def get_time(timezone: str) -> str:
    """The time in a zone."""
    raise ValueError(OUTCOMES["get_time"].text)


def refresh() -> str:
    """Refresh the data."""
    return OUTCOMES["refresh"].text


def automatic(streams: bool, base_url: str, wish: Wish) -> list[Answer]:
    """The SDK calls the functions; what the model said in between stands in the history alone."""
    config = _config(base_url, [refresh, get_weather, get_time], automatic=True)
    chat = genai_client().chats.create(model=wish.model, config=config)
    chunks = _sent(chat, streams, wish.prompt)
    turns: list[list[types.Content]] = [[]]
    for content in chat.get_history()[1:]:
        if content.role == "model":
            turns[-1].append(content)
        else:
            turns.append([])
    answers = [genai_answer([_as_response(turn)]) for turn in turns[:-1]]
    calling = [number for number, chunk in enumerate(chunks) if chunk.function_calls]
    return [*answers, genai_answer(chunks[max(calling, default=-1) + 1 :])]


def _as_response(turn: list[types.Content]) -> types.GenerateContentResponse:
    parts = [part for content in turn for part in content.parts or ()]
    candidate = types.Candidate(content=types.Content(role="model", parts=parts), finish_reason=types.FinishReason.STOP)
    usage = types.GenerateContentResponseUsageMetadata()
    return types.GenerateContentResponse(candidates=[candidate], usage_metadata=usage)


GENAI = [
    client
    for streams, manner in ((False, "whole"), (True, "streamed"))
    for client in (
        Client(f"python-chats-{manner}", "gemini", streams, partial(chats, streams), marks_errors=True),
        Client(
            f"python-automatic-{manner}",
            "gemini",
            streams,
            partial(automatic, streams),
            usage=False,
            pictures=False,
            marks_errors=True,
        ),
    )
]
