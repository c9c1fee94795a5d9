"""The four dialects as an upstream speaks them, written without toolglot's help."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

CREATED = 1763164800

Schema = dict[str, Any]
CUSTOM: Schema = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
"""The schema of a tool that takes no JSON but any text. Where a dialect has such tools, calls must be of that kind."""


@dataclass(frozen=True)
class Call:
    """`name` is `namespace/name` for a tool in a namespace."""

    id: str
    name: str
    arguments: dict[str, Any]
    custom: bool = False

    @property
    def text(self) -> str:
        return str(self.arguments["input"]) if self.custom else json.dumps(self.arguments, ensure_ascii=False)

    @property
    def pieces(self) -> list[str]:
        """The arguments as they are streamed: cut where no client expects it."""
        return [self.text[:3], self.text[3:]]


@dataclass(frozen=True)
class Turn:
    text: str
    calls: tuple[Call, ...] = ()


Event = dict[str, Any]


@dataclass(frozen=True)
class Wire:
    """A dialect as an upstream speaks it."""

    tools: Callable[[Any], dict[str, Schema]]
    results: Callable[[Any], list[str]]
    wanted: tuple[str, ...]
    """Where in a request the schema of the answer stands."""
    whole: Callable[[Turn], Event]
    events: Callable[[Turn], Iterator[Event]]
    named_events: bool = False
    """Whether each event's type stands in an `event:` line too."""


def _text(content: Any) -> str:
    """The text of a result, which is a string, a list of parts, or anything else that is JSON."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        return "".join(part.get("text", "") for part in content)
    return json.dumps(content, ensure_ascii=False)


# ── OpenAI Chat Completions ──────────────────────────────────────────────────────────────────────────────────────────


def _chat_tools(body: Any) -> dict[str, Schema]:
    tools = body.get("tools", ())
    functions = {
        tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in tools if "function" in tool
    }
    return functions | {tool["custom"]["name"]: CUSTOM for tool in tools if "custom" in tool}


def _chat_results(body: Any) -> list[str]:
    return [_text(message["content"]) for message in body["messages"] if message["role"] == "tool"]


def _chat_call(call: Call, text: str) -> Event:
    if call.custom:
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": text}}
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": text}}


def _chat_piece(call: Call, piece: str) -> Event:
    return {"custom": {"input": piece}} if call.custom else {"function": {"arguments": piece}}


CHAT_USAGE = {"prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19}


def _chat_whole(turn: Turn) -> Event:
    calls = [_chat_call(call, call.text) for call in turn.calls]
    message = {"role": "assistant", "content": turn.text, **({"tool_calls": calls} if calls else {})}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if turn.calls else "stop"}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": CREATED, "model": "scripted"}
    return {**head, "choices": [choice], "usage": CHAT_USAGE}


def _chat_events(turn: Turn) -> Iterator[Event]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": CREATED, "model": "scripted"}

    def chunk(delta: Event, finish_reason: str | None = None) -> Event:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}

    yield chunk({"role": "assistant", "content": ""})
    yield chunk({"content": turn.text})
    for index, call in enumerate(turn.calls):
        yield chunk({"tool_calls": [{"index": index, **_chat_call(call, "")}]})
        for piece in call.pieces:
            yield chunk({"tool_calls": [{"index": index, **_chat_piece(call, piece)}]})
    yield chunk({}, "tool_calls" if turn.calls else "stop")
    yield {**head, "choices": [], "usage": CHAT_USAGE}


# ── OpenAI Responses ─────────────────────────────────────────────────────────────────────────────────────────────────


def _responses_tools(body: Any) -> dict[str, Schema]:
    """Tools stand at the top of a request, in items of the input, and in namespaces."""
    added = [tool for item in _input(body) if item.get("type") == "additional_tools" for tool in item["tools"]]
    return dict(_declared([*body.get("tools", ()), *added]))


def _declared(tools: list[Any], namespace: str = "") -> Iterator[tuple[str, Schema]]:
    for tool in tools:
        if tool["type"] == "namespace":
            yield from _declared(tool["tools"], f"{tool['name']}/")
        elif tool["type"] in ("function", "custom"):
            yield namespace + tool["name"], CUSTOM if tool["type"] == "custom" else tool.get("parameters", {})


def _input(body: Any) -> list[Any]:
    return body["input"] if isinstance(body["input"], list) else []


def _responses_results(body: Any) -> list[str]:
    outputs = ("function_call_output", "custom_tool_call_output")
    return [_text(item["output"]) for item in _input(body) if item.get("type") in outputs]


def _responses_items(turn: Turn) -> list[Event]:
    part = {"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    return [message, *(_responses_call(call, call.text) for call in turn.calls)]


def _responses_call(call: Call, text: str) -> Event:
    namespace, _, name = call.name.rpartition("/")
    kind = {"type": "custom_tool_call", "input": text} if call.custom else {"type": "function_call", "arguments": text}
    place = {"namespace": namespace} if namespace else {}
    return {"id": f"fc_{call.id}", "status": "completed", "call_id": call.id, "name": name, **place, **kind}


def _responses_whole(turn: Turn) -> Event:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": CREATED,
        "model": "scripted",
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "output": _responses_items(turn),
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": 12,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 19,
        },
    }


def _responses_events(turn: Turn) -> Iterator[Event]:
    response = _responses_whole(turn)
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    message, *calls = response["output"]
    events: list[Event] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
        *_message_events(message),
    ]
    for index, (item, call) in enumerate(zip(calls, turn.calls, strict=True), start=1):
        events += _call_events(index, item, call)
    events.append({"type": "response.completed", "response": response})
    for number, event in enumerate(events):
        yield {**event, "sequence_number": number}


def _message_events(item: Event) -> list[Event]:
    part = item["content"][0]
    place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    return [
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**item, "status": "in_progress", "content": []},
        },
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        {"type": "response.output_text.delta", **place, "delta": part["text"], "logprobs": []},
        {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
    ]


def _call_events(index: int, item: Event, call: Call) -> list[Event]:
    place = {"item_id": item["id"], "output_index": index}
    opened = {**_responses_call(call, ""), "status": "in_progress"}
    event = "response.custom_tool_call_input" if call.custom else "response.function_call_arguments"
    return [
        {"type": "response.output_item.added", "output_index": index, "item": opened},
        *({"type": f"{event}.delta", **place, "delta": piece} for piece in call.pieces),
        {"type": f"{event}.done", **place, "input" if call.custom else "arguments": call.text},
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


# ── Anthropic Messages ───────────────────────────────────────────────────────────────────────────────────────────────


def _messages_tools(body: Any) -> dict[str, Schema]:
    return {tool["name"]: tool["input_schema"] for tool in body.get("tools", ()) if "input_schema" in tool}


def _messages_results(body: Any) -> list[str]:
    contents = (message["content"] for message in body["messages"] if isinstance(message["content"], list))
    blocks = (block for content in contents for block in content)
    return [_text(block.get("content", "")) for block in blocks if block["type"] == "tool_result"]


def _messages_whole(turn: Turn) -> Event:
    calls = [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in turn.calls]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [{"type": "text", "text": turn.text}, *calls],
        "stop_reason": "tool_use" if turn.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 12, "output_tokens": 7},
    }


def _messages_events(turn: Turn) -> Iterator[Event]:
    message = _messages_whole(turn)
    begun = {**message, "content": [], "stop_reason": None, "usage": {"input_tokens": 12, "output_tokens": 1}}
    yield {"type": "message_start", "message": begun}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": turn.text}}
    yield {"type": "content_block_stop", "index": 0}
    for index, call in enumerate(turn.calls, start=1):
        block = {**message["content"][index], "input": {}}
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for piece in call.pieces:
            delta = {"type": "input_json_delta", "partial_json": piece}
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 7}}
    yield {"type": "message_stop"}


# ── Gemini ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _gemini_tools(body: Any) -> dict[str, Schema]:
    declared = [one for tool in body.get("tools", ()) for one in tool.get("functionDeclarations", ())]
    return {one["name"]: one.get("parametersJsonSchema", one.get("parameters", {})) for one in declared}


def _gemini_results(body: Any) -> list[str]:
    parts = [part for content in body["contents"] for part in content.get("parts", ())]
    return [_gemini_result(part["functionResponse"]["response"]) for part in parts if "functionResponse" in part]


def _gemini_result(response: dict[str, Any]) -> str:
    """A result has the key `output`, or whatever its client likes."""
    return _text(response.get("output", response))


def _gemini_candidate(parts: list[Event], **end: str) -> Event:
    candidate = {"content": {"role": "model", "parts": parts}, "index": 0, **end}
    usage = {"promptTokenCount": 12, "candidatesTokenCount": 7, "totalTokenCount": 19}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted", "responseId": "r1"}


def _gemini_parts(turn: Turn) -> list[Event]:
    calls = [{"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}} for call in turn.calls]
    return [{"text": turn.text}, *calls]


def _gemini_whole(turn: Turn) -> Event:
    return _gemini_candidate(_gemini_parts(turn), finishReason="STOP")


def _gemini_events(turn: Turn) -> Iterator[Event]:
    *parts, last = _gemini_parts(turn)
    for part in parts:
        yield _gemini_candidate([part])
    yield _gemini_candidate([last], finishReason="STOP")


# ── Ollama ───────────────────────────────────────────────────────────────────────────────────────────────────────────

OLLAMA_USAGE = {"prompt_eval_count": 12, "eval_count": 7}


def _ollama_line(message: Event, **end: Any) -> Event:
    head = {"model": "scripted", "created_at": "2025-11-15T00:00:00Z"}
    return {**head, "message": {"role": "assistant", "content": "", **message}, "done": bool(end), **end}


def _ollama_calls(turn: Turn) -> Event:
    calls = [
        {"id": call.id, "function": {"index": index, "name": call.name, "arguments": call.arguments}}
        for index, call in enumerate(turn.calls)
    ]
    return {"tool_calls": calls} if calls else {}


def _ollama_whole(turn: Turn) -> Event:
    return _ollama_line({"content": turn.text, **_ollama_calls(turn)}, done_reason="stop", **OLLAMA_USAGE)


def _ollama_events(turn: Turn) -> Iterator[Event]:
    if turn.text:
        yield _ollama_line({"content": turn.text})
    if turn.calls:
        yield _ollama_line(_ollama_calls(turn))
    yield _ollama_line({}, done_reason="stop", **OLLAMA_USAGE)


OLLAMA = Wire(_chat_tools, _chat_results, ("format",), _ollama_whole, _ollama_events)

WIRES = {
    "openai_chat": Wire(
        _chat_tools,
        _chat_results,
        ("response_format", "json_schema", "schema"),
        _chat_whole,
        _chat_events,
    ),
    "openai_responses": Wire(
        _responses_tools,
        _responses_results,
        ("text", "format", "schema"),
        _responses_whole,
        _responses_events,
        named_events=True,
    ),
    "anthropic": Wire(
        _messages_tools,
        _messages_results,
        ("output_config", "format", "schema"),
        _messages_whole,
        _messages_events,
        named_events=True,
    ),
    "gemini": Wire(
        _gemini_tools,
        _gemini_results,
        ("generationConfig", "responseJsonSchema"),
        _gemini_whole,
        _gemini_events,
    ),
}
