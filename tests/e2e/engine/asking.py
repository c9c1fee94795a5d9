"""One question with tools in each dialect, as plain JSON over HTTP, and the calls of the answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.request import Request, urlopen

from tests.e2e.answers import Call, parsed
from tests.waiting import FAILSAFE

from .bigram_model import NUMBER, WORD

QUESTION = "How will the weather be?"
FORECAST = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 1},
        "wind": {"type": "string", "enum": ["km/h", "m/s"]},
        "hours": {"type": "array", "items": {"type": "number"}, "minItems": 1},
        "detail": {"type": "object", "properties": {"rain": {"type": "boolean"}}, "required": ["rain"]},
        "note": {"type": "string"},
    },
    "required": ["city", "days", "wind", "hours", "detail"],
}
FORECAST_ARGUMENTS = {"city": WORD, "days": NUMBER, "wind": "km/h", "hours": [NUMBER], "detail": {"rain": True}}
"""What the model writes under a grammar that knows the whole schema, at temperature 0."""
NAME, DESCRIPTION = "forecast", "The weather of the next days."


@dataclass(frozen=True)
class Asking:
    """How a dialect asks and answers. The paths take a model; `required` is its way to demand a call."""

    path: str
    stream_path: str
    body: dict[str, Any]
    required: dict[str, Any]
    temperature: Callable[[float], dict[str, Any]]
    calls: Callable[[Any], Iterator[Call]]
    piece: Callable[[Any], str]
    """The piece of a call's arguments in one event of a stream."""


def _post(url: str, body: dict[str, Any]) -> Any:
    request = Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    return urlopen(request, timeout=FAILSAFE)


def ask(base_url: str, dialect: str, more: dict[str, Any]) -> list[Call]:
    """The calls of an answer in one piece."""
    asking = ASKING[dialect]
    with _post(base_url + asking.path, asking.body | more) as answer:
        return list(asking.calls(json.load(answer)))


def ask_streamed(base_url: str, dialect: str, more: dict[str, Any]) -> list[str]:
    """The pieces in which the arguments of the calls came."""
    asking = ASKING[dialect]
    stream = {} if dialect == "gemini" else {"stream": True}
    with _post(base_url + asking.stream_path, asking.body | more | stream) as answer:
        lines = [line.removeprefix(b"data: ") for line in answer if line.startswith(b"data: {")]
    pieces = [asking.piece(json.loads(line)) for line in lines]
    return [piece for piece in pieces if piece]


def arguments(pieces: list[str]) -> list[Any]:
    """The arguments of calls that came one after the other."""
    text, found = "".join(pieces), []
    while text:
        value, end = json.JSONDecoder().raw_decode(text)
        found.append(value)
        text = text[end:]
    return found


# ── OpenAI Chat Completions ──────────────────────────────────────────────────────────────────────────────────────────


def _chat_calls(answer: Any) -> Iterator[Call]:
    for call in answer["choices"][0]["message"]["tool_calls"]:
        yield Call(call["id"], call["function"]["name"], parsed(call["function"]["arguments"]))


def _chat_piece(event: Any) -> str:
    deltas = [choice["delta"] for choice in event["choices"]]
    calls = [call for delta in deltas for call in delta.get("tool_calls") or ()]
    return "".join(call["function"].get("arguments", "") for call in calls)


# ── OpenAI Responses ─────────────────────────────────────────────────────────────────────────────────────────────────


def _responses_calls(answer: Any) -> Iterator[Call]:
    for item in answer["output"]:
        if item["type"] == "function_call":
            yield Call(item["call_id"], item["name"], parsed(item["arguments"]))


def _responses_piece(event: Any) -> str:
    return str(event["delta"]) if event["type"] == "response.function_call_arguments.delta" else ""


# ── Anthropic Messages ───────────────────────────────────────────────────────────────────────────────────────────────


def _messages_calls(answer: Any) -> Iterator[Call]:
    for block in answer["content"]:
        if block["type"] == "tool_use":
            yield Call(block["id"], block["name"], block["input"])


def _messages_piece(event: Any) -> str:
    return str(event["delta"].get("partial_json", "")) if event["type"] == "content_block_delta" else ""


# ── Gemini ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _gemini_calls(answer: Any) -> Iterator[Call]:
    for part in answer["candidates"][0].get("content", {}).get("parts", ()):
        if "functionCall" in part:
            yield Call(part["functionCall"].get("id"), part["functionCall"]["name"], part["functionCall"]["args"])


def _gemini_piece(event: Any) -> str:
    """Gemini streams a call in one piece."""
    return "".join(json.dumps(call.arguments) for call in _gemini_calls(event))


ASKING = {
    "openai_chat": Asking(
        path="/v1/chat/completions",
        stream_path="/v1/chat/completions",
        body={
            "model": "bigrams",
            "messages": [{"role": "user", "content": QUESTION}],
            "tools": [
                {"type": "function", "function": {"name": NAME, "description": DESCRIPTION, "parameters": FORECAST}}
            ],
        },
        required={"tool_choice": "required"},
        temperature=lambda value: {"temperature": value},
        calls=_chat_calls,
        piece=_chat_piece,
    ),
    "openai_responses": Asking(
        path="/v1/responses",
        stream_path="/v1/responses",
        body={
            "model": "bigrams",
            "input": [{"role": "user", "content": QUESTION}],
            "tools": [
                {
                    "type": "function",
                    "name": NAME,
                    "description": DESCRIPTION,
                    "parameters": FORECAST,
                    "strict": False,
                }
            ],
        },
        required={"tool_choice": "required"},
        temperature=lambda value: {"temperature": value},
        calls=_responses_calls,
        piece=_responses_piece,
    ),
    "anthropic": Asking(
        path="/v1/messages",
        stream_path="/v1/messages",
        body={
            "model": "bigrams",
            "max_tokens": 1000,
            "messages": [{"role": "user", "content": QUESTION}],
            "tools": [{"name": NAME, "description": DESCRIPTION, "input_schema": FORECAST}],
        },
        required={"tool_choice": {"type": "any"}},
        temperature=lambda value: {"temperature": value},
        calls=_messages_calls,
        piece=_messages_piece,
    ),
    "gemini": Asking(
        path="/v1beta/models/bigrams:generateContent",
        stream_path="/v1beta/models/bigrams:streamGenerateContent?alt=sse",
        body={
            "contents": [{"role": "user", "parts": [{"text": QUESTION}]}],
            "tools": [
                {"functionDeclarations": [{"name": NAME, "description": DESCRIPTION, "parametersJsonSchema": FORECAST}]}
            ],
        },
        required={"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
        temperature=lambda value: {"generationConfig": {"temperature": value}},
        calls=_gemini_calls,
        piece=_gemini_piece,
    ),
}
