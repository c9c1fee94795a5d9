"""The Anthropic SDK for Python: messages in one piece and streamed, and its own tool runner, which keeps a thread."""

from __future__ import annotations

from functools import partial
from typing import Any

from anthropic import Anthropic
from anthropic.lib.tools import BetaFunctionTool, ToolError

from tests.e2e.answers import Answer
from tests.e2e.python_loops import SYSTEM, TOOLS
from tests.e2e.python_ways import anthropic_client, message_answer

from .clients import Client
from .script import EFFORT_TOKENS, OUTCOMES, PICTURE_TEXT, PICTURE_TYPE, Wish

MAX_TOKENS = 4096
THINKING: Any = {"type": "enabled", "budget_tokens": EFFORT_TOKENS}
MESSAGES_TOOLS: Any = [
    {"name": name, "description": description, "input_schema": schema} for name, description, schema in TOOLS
]


def _client(base_url: str) -> Anthropic:
    return anthropic_client().with_options(base_url=base_url)


def _content(name: str) -> Any:
    outcome = OUTCOMES[name]
    if not outcome.picture:
        return outcome.text
    source = {"type": "base64", "media_type": PICTURE_TYPE, "data": PICTURE_TEXT}
    return [{"type": "text", "text": outcome.text}, {"type": "image", "source": source}]


def messages(streams: bool, base_url: str, wish: Wish) -> list[Answer]:
    history: list[Any] = [{"role": "user", "content": wish.prompt}]
    asked: dict[str, Any] = {
        "model": wish.model,
        "max_tokens": MAX_TOKENS,
        "system": SYSTEM,
        "messages": history,
        "tools": MESSAGES_TOOLS,
        "thinking": THINKING,
    }
    answers: list[Answer] = []
    while True:
        message = _message(_client(base_url), streams, asked)
        answers.append(message_answer(message))
        results = [
            {
                "type": "tool_result",
                "tool_use_id": block.id,
                "content": _content(block.name),
                "is_error": OUTCOMES[block.name].failed,
            }
            for block in message.content
            if block.type == "tool_use"
        ]
        if not results:
            return answers
        history += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]


def _message(client: Anthropic, streams: bool, arguments: dict[str, Any]) -> Any:
    if not streams:
        return client.messages.create(**arguments)
    with client.messages.stream(**arguments) as stream:
        return stream.get_final_message()


def _tool(name: str, description: str, schema: Any) -> BetaFunctionTool[Any]:
    def run(**_: Any) -> Any:
        if OUTCOMES[name].failed:
            raise ToolError(_content(name))
        return _content(name)

    return BetaFunctionTool(run, name=name, description=description, input_schema=schema)


def tool_runner(streams: bool, base_url: str, wish: Wish) -> list[Answer]:
    """The SDK's own loop."""
    arguments: dict[str, Any] = {
        "model": wish.model,
        "max_tokens": MAX_TOKENS,
        "system": SYSTEM,
        "messages": [{"role": "user", "content": wish.prompt}],
        "tools": [_tool(*tool) for tool in TOOLS],
        "thinking": THINKING,
        "stream": streams,
    }
    runner = _client(base_url).beta.messages.tool_runner(**arguments)
    return [message_answer(turn.get_final_message() if streams else turn) for turn in runner]


ANTHROPIC = [
    Client(f"python-{run.__name__}-{manner}", "anthropic", streams, partial(run, streams), marks_errors=True)
    for streams, manner in ((False, "whole"), (True, "streamed"))
    for run in (messages, tool_runner)
]
