"""A server whose models know no tools: it reads what its prompt tells of them and writes its calls as text.

It does so in the manner of the Hermes models, without toolglot's help, and speaks OpenAI's Chat Completions, as the
servers of such models do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from zlib import crc32

from tests.e2e.wires import WIRES, Event, Schema, Turn

NATIVE = ("tools", "tool_choice", "functions", "function_call", "parallel_tool_calls")
_CHAT = WIRES["openai_chat"]
_TOOLS = re.compile(r"<tools>\n(.*?)\n</tools>", re.DOTALL)
_RESULT = re.compile(r"<tool_response>\n(.*?)\n</tool_response>", re.DOTALL)


def _said(body: Any, *roles: str) -> Iterator[str]:
    for message in body["messages"]:
        content = message["content"]
        if message["role"] in roles:
            yield content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _tools(body: Any) -> dict[str, Schema]:
    assert not body.keys() & {*NATIVE}, "this model has no native tools"
    assert not any(message.keys() & {"tool_calls", "tool_call_id"} for message in body["messages"])
    lists = [lines for text in _said(body, "system", "developer") for lines in _TOOLS.findall(text)]
    functions = [json.loads(line)["function"] for lines in lists for line in lines.split("\n")]
    return {function["name"]: function["parameters"] for function in functions}


def _results(body: Any) -> list[str]:
    return [result for text in _said(body, "user") for result in _RESULT.findall(text)]


def _as_text(turn: Turn) -> Turn:
    calls = [json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=False) for call in turn.calls]
    return Turn("\n".join([turn.text, *(f"<tool_call>\n{call}\n</tool_call>" for call in calls)]))


def _identity(turn: Turn) -> Event:
    """Another one for each answer: Claude Code takes answers of one id for one."""
    return {"id": f"chatcmpl-{crc32(repr(turn).encode())}"}


def _whole(turn: Turn) -> Event:
    return _CHAT.whole(_as_text(turn)) | _identity(turn)


def _events(turn: Turn) -> Iterator[Event]:
    """The text in pieces that cut its marks."""
    for each in _CHAT.events(_as_text(turn)):
        event = each | _identity(turn)
        deltas = [choice["delta"] for choice in event["choices"]]
        text = "".join(delta.get("content") or "" for delta in deltas)
        for start in range(0, max(len(text), 1), 5):
            yield _with_content(event, text[start : start + 5]) if text else event


def _with_content(event: Event, text: str) -> Event:
    (choice,) = event["choices"]
    return {**event, "choices": [{**choice, "delta": {"content": text}}]}


HERMES = replace(_CHAT, tools=_tools, results=_results, whole=_whole, events=_events)
