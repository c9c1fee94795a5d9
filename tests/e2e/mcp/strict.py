"""What real upstreams refuse: calls without results, results without calls, tools and roles that they do not know.

Each check reads a request in its own wire form, without toolglot's help, and says what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from tests.e2e.wires import WIRES

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ITEMS = ("message", "reasoning", "function_call", "function_call_output")
_BLOCKS = {
    "user": ("text", "image", "document", "tool_result"),
    "assistant": ("text", "thinking", "redacted_thinking", "tool_use"),
}


def _pairs(called: Sequence[str], answered: Sequence[str], where: str) -> Iterator[str]:
    """Of one turn: each call has one result, and nothing else has."""
    if len(set(called)) != len(called):
        yield f"{where}: two calls have one id: {called}"
    if sorted(called) != sorted(answered):
        yield f"{where}: calls {called}, results {answered}"


def _chat(body: Any) -> Iterator[str]:
    called: list[str] | None = None
    answered: list[str] = []
    for number, message in enumerate([*body["messages"], {"role": "end"}]):
        if message["role"] == "tool":
            if called is None:
                yield f"messages[{number}]: a result without a turn of calls before it"
            answered.append(message["tool_call_id"])
            continue
        if called is not None:
            yield from _pairs(called, answered, f"messages[{number - 1}]")
        calls = message.get("tool_calls")
        called, answered = [call["id"] for call in calls] if calls else None, []
        if message["role"] not in ("system", "developer", "user", "assistant", "end"):
            yield f"messages[{number}]: the role {message['role']}"


def _responses(body: Any) -> Iterator[str]:
    """A call may have its result at any place behind it."""
    items = body["input"] if isinstance(body["input"], list) else []
    called: list[str] = []
    answered: list[str] = []
    for number, item in enumerate(items):
        kind = item.get("type", "message")
        if kind not in _ITEMS:
            yield f"input[{number}]: the type {kind}"
        if kind == "function_call":
            called.append(item["call_id"])
        elif kind == "function_call_output":
            answered.append(item["call_id"])
            if item["call_id"] not in called:
                yield f"input[{number}]: a result before its call"
    yield from _pairs(called, answered, "input")


def _messages(body: Any) -> Iterator[str]:
    if not isinstance(body.get("max_tokens"), int):
        yield "max_tokens: missing"
    waiting: list[str] = []
    for number, message in enumerate(body["messages"]):
        where, content = f"messages[{number}]", message["content"]
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        kinds = [block["type"] for block in blocks]
        if message["role"] not in _BLOCKS or not set(kinds) <= set(_BLOCKS[message["role"]]):
            yield f"{where}: {message['role']} says {kinds}"
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if kinds[: len(results)] != ["tool_result"] * len(results):
            yield f"{where}: results stand behind other blocks"
        yield from _pairs(waiting, results, where)
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
    if waiting:
        yield f"calls without results: {waiting}"
    if body["messages"][0]["role"] != "user":
        yield "messages[0]: the first message is not the user's"


def _gemini(body: Any) -> Iterator[str]:
    """A turn of calls is followed at once by a turn of as many results, in the order of the calls. What one side says
    in several contents is one turn."""
    waiting: list[Any] = []
    turns = groupby(body["contents"], lambda content: content.get("role", "user"))
    for number, (role, contents) in enumerate(turns):
        where, parts = f"turn {number}", [part for content in contents for part in content.get("parts", [])]
        if role not in ("user", "model"):
            yield f"{where}: the role {role}"
        results = [_key(part["functionResponse"]) for part in parts if "functionResponse" in part]
        if results != waiting:
            yield f"{where}: calls {waiting}, results {results}"
        waiting = [_key(part["functionCall"]) for part in parts if "functionCall" in part]
    if waiting:
        yield f"calls without results: {waiting}"


def _key(part: Any) -> tuple[str, str | None]:
    return part["name"], part.get("id")


def _names(declared: Iterable[str], called: Iterable[str]) -> Iterator[str]:
    for name in declared:
        if not _NAME.fullmatch(name):
            yield f"tools: the name {name!r}"
    for name in called:
        yield f"a call to {name}, which is none of the tools"


def _called(value: Any) -> Iterator[str]:
    """The names of the calls of a request, whatever its dialect."""
    if isinstance(value, list):
        for item in value:
            yield from _called(item)
    elif isinstance(value, dict):
        kind = value.get("type")
        if kind in ("function_call", "tool_use"):
            yield value["name"]
        for call in value.get("tool_calls") or ():
            yield call["function"]["name"]
        if "functionCall" in value:
            yield value["functionCall"]["name"]
        for key in ("messages", "content", "input", "contents", "parts"):
            yield from _called(value.get(key)) if kind != "tool_use" else ()


_CHECKS: dict[str, Callable[[Any], Iterator[str]]] = {
    "openai_chat": _chat,
    "openai_responses": _responses,
    "anthropic": _messages,
    "gemini": _gemini,
}


def refusals(dialect: str, body: Any, made_up: Collection[str] = ()) -> list[str]:
    """Why an upstream of this dialect would not answer the request. `made_up` are names that it has called itself
    although there was no such tool."""
    declared = WIRES[dialect].tools(body)
    return [*_CHECKS[dialect](body), *_names(declared, {*_called(body)} - {*declared, *made_up})]
