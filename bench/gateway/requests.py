"""What the clients of the benchmark ask: a coding agent's request, small or of a usual size, in four dialects.

The last user message holds the number that the load generator changes with every request, so that no two are alike.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from bench.captures import Captured
from bench.gateway.answers import Dialect

Size = Literal["small", "large"]
Asked = Size | Captured
"""A request that is made here, by its size, or one of a real agent."""

NUMBER = "N0000000000"
VOCABULARY = """the quick server reads a file and writes an edit to path config value when tool result has error line
number match pattern"""
WORDS = tuple(VOCABULARY.split())

MODELS: dict[Dialect, str] = {
    "openai_chat": "gpt-4o-mini",
    "openai_responses": "gpt-4.1-mini",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-flash",
}
"""The model of an upstream that speaks this. Each upstream has its own, so that a gateway knows where to send it."""

PACES = (10, 100, 2000)
"""Milliseconds between chunks that a model's name may ask for."""


def model_name(upstream: Dialect, pace: int = 0, *, brief: bool = False) -> str:
    return f"{MODELS[upstream]}{'-brief' if brief else ''}{f'-d{pace}' if pace else ''}"


def model_names(upstream: Dialect) -> list[str]:
    """All that may be asked for."""
    return [model_name(upstream, pace, brief=brief) for pace in (0, *PACES) for brief in (False, True)]


class Amounts(NamedTuple):
    """How much a request has of what; the last three in words."""

    more_tools: int
    turns: int
    system: int
    result: int
    description: int


AMOUNTS: dict[Size, Amounts] = {
    "small": Amounts(more_tools=0, turns=1, system=40, result=60, description=0),
    "large": Amounts(more_tools=14, turns=10, system=1500, result=200, description=250),
}

READ = {
    "name": "Read",
    "description": "Reads a file from the local filesystem.",
    "input_schema": {
        "type": "object",
        "properties": {
            "file_path": {"type": "string", "description": "absolute path"},
            "offset": {"type": "number"},
            "limit": {"type": "number"},
        },
        "required": ["file_path"],
    },
}
BASH = {
    "name": "Bash",
    "description": "Runs a shell command.",
    "input_schema": {
        "type": "object",
        "properties": {"command": {"type": "string"}, "timeout": {"type": "number"}},
        "required": ["command"],
    },
}


class Conversation(NamedTuple):
    """What is asked, before it is written in a dialect."""

    system: str
    tools: list[dict[str, Any]]
    question: str
    turns: list[tuple[str, str, dict[str, Any], str]]
    """What the assistant said, the id and the input of its call of `Read`, and the result."""
    last: str


def conversation(size: Size) -> Conversation:
    """The same for every dialect, in every run."""
    chance = random.Random(7)
    amounts = AMOUNTS[size]

    def words(count: int) -> str:
        return " ".join(chance.choice(WORDS) for _ in range(count))

    def schema() -> dict[str, Any]:
        properties = {
            f"param_{number}": {"type": chance.choice(("string", "number", "boolean")), "description": words(14)}
            for number in range(7)
        }
        return {"type": "object", "properties": properties, "required": ["param_0"], "additionalProperties": False}

    more = [
        {"name": f"Tool{number}", "description": words(amounts.description), "input_schema": schema()}
        for number in range(amounts.more_tools)
    ]
    turns = [
        (words(20), f"toolu_{turn:04}abcdefgh", {"file_path": f"/tmp/f{turn}.txt", "limit": 100}, words(amounts.result))
        for turn in range(amounts.turns)
    ]
    return Conversation(
        f"You are a coding agent. {words(amounts.system)}",
        [READ, BASH, *more],
        "Please read /tmp/some/file_name.txt and tell me what is in it.",
        turns,
        f"Go on with step {NUMBER}.",
    )


def _anthropic(asked: Conversation) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": asked.question}]
    for said, name, given, result in asked.turns:
        use = {"type": "tool_use", "id": name, "name": "Read", "input": given}
        answer = {"type": "tool_result", "tool_use_id": name, "content": [{"type": "text", "text": result}]}
        messages.append({"role": "assistant", "content": [{"type": "text", "text": said}, use]})
        messages.append({"role": "user", "content": [answer]})
    messages[-1]["content"].append({"type": "text", "text": asked.last})
    return {
        "max_tokens": 1024,
        "system": [{"type": "text", "text": asked.system}],
        "messages": messages,
        "tools": asked.tools,
        "tool_choice": {"type": "auto"},
    }


def _function(tool: dict[str, Any]) -> dict[str, Any]:
    return {"name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"]}


def _chat(asked: Conversation) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": asked.system},
        {"role": "user", "content": asked.question},
    ]
    for said, name, given, result in asked.turns:
        call = {"id": name, "type": "function", "function": {"name": "Read", "arguments": json.dumps(given)}}
        messages.append({"role": "assistant", "content": said, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": name, "content": result})
    messages.append({"role": "user", "content": asked.last})
    return {
        "max_tokens": 1024,
        "messages": messages,
        "tools": [{"type": "function", "function": _function(tool)} for tool in asked.tools],
        "tool_choice": "auto",
    }


def _responses(asked: Conversation) -> dict[str, Any]:
    items: list[dict[str, Any]] = [_item("user", "input_text", asked.question)]
    for said, name, given, result in asked.turns:
        items.append(_item("assistant", "output_text", said))
        items.append({"type": "function_call", "call_id": name, "name": "Read", "arguments": json.dumps(given)})
        items.append({"type": "function_call_output", "call_id": name, "output": result})
    items.append(_item("user", "input_text", asked.last))
    return {
        "max_output_tokens": 1024,
        "instructions": asked.system,
        "input": items,
        "tools": [{"type": "function", **_function(tool), "strict": False} for tool in asked.tools],
        "tool_choice": "auto",
        "store": False,
    }


def _item(role: str, kind: str, said: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": said}]}


def _gemini(asked: Conversation) -> dict[str, Any]:
    contents: list[dict[str, Any]] = [_content("user", {"text": asked.question})]
    for said, _, given, result in asked.turns:
        contents.append(_content("model", {"text": said}, {"functionCall": {"name": "Read", "args": given}}))
        response = {"name": "Read", "response": {"result": result}}
        contents.append(_content("user", {"functionResponse": response}))
    contents.append(_content("user", {"text": asked.last}))
    return {
        "systemInstruction": {"parts": [{"text": asked.system}]},
        "contents": contents,
        "tools": [{"functionDeclarations": [_declaration(tool) for tool in asked.tools]}],
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
        "generationConfig": {"maxOutputTokens": 1024},
    }


def _content(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


def _declaration(tool: dict[str, Any]) -> dict[str, Any]:
    return {"name": tool["name"], "description": tool["description"], "parametersJsonSchema": tool["input_schema"]}


WRITERS: dict[Dialect, Callable[[Conversation], dict[str, Any]]] = {
    "anthropic": _anthropic,
    "openai_chat": _chat,
    "openai_responses": _responses,
    "gemini": _gemini,
}


def _with_model(client: Dialect, request: dict[str, Any], model: str, *, streamed: bool) -> dict[str, Any]:
    """The request with its model, and whether it asks for a stream. Gemini has both in the path."""
    if client == "gemini":
        return request
    request = {"model": model} | request | {"model": model, "stream": streamed}
    if client == "openai_chat" and streamed:
        return request | {"stream_options": {"include_usage": True}}
    return {name: value for name, value in request.items() if name != "stream_options"}


def _append(client: Dialect, request: dict[str, Any], said: str) -> None:
    """Adds a text to the end of the conversation."""
    match client:
        case "anthropic":
            last = request["messages"][-1]
            content = last["content"]
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            last["content"] = [*parts, {"type": "text", "text": said}]
        case "openai_chat":
            request["messages"].append({"role": "user", "content": said})
        case "openai_responses" if isinstance(request["input"], str):
            request["input"] += f" {said}"
        case "openai_responses":
            request["input"].append(_item("user", "input_text", said))
        case "gemini":
            request["contents"].append(_content("user", {"text": said}))


def body(client: Dialect, asked: Asked, *, model: str, streamed: bool) -> bytes:
    """A request in the client's dialect. To an agent's, which must be in that dialect, the number is added."""
    if isinstance(asked, Captured):
        request = json.loads(asked.body)
        _append(client, request, f"Go on with step {NUMBER}.")
    else:
        request = WRITERS[client](conversation(asked))
    request = _with_model(client, request, model, streamed=streamed)
    return json.dumps(request, separators=(",", ":")).encode()
