"""A worked translation in the terminal: `make demo`, or `python -m toolglot.demo`. It needs no network and no key."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.syntax import Syntax
from rich.text import Text

from toolglot.api import translate_request, translate_stream
from toolglot.cli.layout import laid_out
from toolglot.lint import lint
from toolglot.receipt import Receipt
from toolglot.wire.sse import SseReader

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

CHAT_REQUEST: dict[str, Any] = {
    "model": "claude-sonnet-4-5",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Umbrella in Paris?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "Rain until four."},
    ],
    "tools": [
        {"type": "function", "function": {"name": "weather", "description": "Weather now.", "parameters": CITY}},
        {"type": "function", "function": {"name": "local.time", "description": "Local time.", "parameters": CITY}},
    ],
    "parallel_tool_calls": False,
    "seed": 7,
    "stream": True,
}


def _call(index: int, arguments: str, **head: str) -> dict[str, Any]:
    """A delta of a call; the first one has its id and name."""
    if not head:
        return {"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}
    function = {"name": head["name"], "arguments": arguments}
    return {"tool_calls": [{"index": index, "id": head["id"], "type": "function", "function": function}]}


_DELTAS: tuple[dict[str, Any], ...] = (
    {"role": "assistant", "content": ""},
    {"content": "Let me look."},
    _call(0, "", id="call_a", name="weather"),
    _call(0, '{"city": '),
    _call(1, "", id="call_b", name="clock"),
    _call(1, '{"city": "Lima"}'),
    _call(0, '"Paris"}'),
)


def chat_stream() -> list[bytes]:
    """A Chat stream as some servers send it: the arguments of two parallel calls take turns."""
    head: dict[str, Any] = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "demo"}
    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in _DELTAS]
    choices.append({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
    chunks = [{**head, "choices": [choice]} for choice in choices]
    usage = {"prompt_tokens": 40, "completion_tokens": 25, "total_tokens": 65}
    chunks.append({**head, "choices": [], "usage": usage})
    return [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks] + [b"data: [DONE]\n\n"]


def main() -> None:
    console = Console(highlight=False)
    console.rule("[bold]toolglot: one conversation, any API")
    _show_request(console)
    _say(console, "The answer, from a server that speaks Chat: two parallel calls whose arguments take turns.")
    _show_wire(console, "Chat stream", "openai_chat", chat_stream())
    _say(console, "The same stream for a client that speaks Anthropic: one call after the other.")
    _show_stream(console, "Anthropic events", "anthropic")
    _say(console, "And for a client that speaks Gemini: every call whole.")
    _show_stream(console, "Gemini chunks", "gemini")
    _show_next(console)


def _say(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, style="cyan"))


def _show_request(console: Console) -> None:
    _say(console, "A client speaks OpenAI Chat Completions: two tools, and a call with its result.")
    _show_json(console, "Chat request", CHAT_REQUEST)
    translated = translate_request(CHAT_REQUEST, "openai_chat", "anthropic")
    _say(console, "The model behind it speaks Anthropic Messages, so this is what it gets:")
    _show_json(console, "Anthropic request", translated.json())
    _say(console, "And the receipt: what took another form, and what could not come along.")
    _show_receipt(console, translated.receipt)


def _show_stream(console: Console, title: str, target: str) -> None:
    written = list(translate_stream(chat_stream(), "openai_chat", target))
    _show_wire(console, title, target, written)
    breaches = lint(target, written)
    found = f"{len(breaches)} breaches" if breaches else "no breach"
    console.print(f"[green]lint-stream --dialect {target}: {found}[/]")


def _show_wire(console: Console, title: str, dialect: str, chunks: list[bytes]) -> None:
    """What each event of a stream says; the rest of it (ids, the model, indices of choices) is left out."""
    lines = [line for _, data in SseReader().feed(b"".join(chunks)) for line in _ESSENCE[dialect](data)]
    body = Text("\n".join(lines), overflow="ellipsis", no_wrap=True)
    console.print(Panel(body, title=title, title_align="left"))


def _essence_of_chat(data: bytes) -> Iterator[str]:
    if data == b"[DONE]":
        yield "[DONE]"
        return
    chunk = json.loads(data)
    for choice in chunk["choices"]:
        delta = choice["delta"]
        if delta.get("content"):
            yield f"text    {delta['content']}"
        for call in delta.get("tool_calls", ()):
            function = call["function"]
            begun = f"{function['name']} ({call['id']})" if "id" in call else function["arguments"]
            yield f"call {call['index']}  {begun}"
        if choice["finish_reason"]:
            yield f"finish  {choice['finish_reason']}"
    if usage := chunk.get("usage"):
        yield f"usage   {usage['prompt_tokens']} in, {usage['completion_tokens']} out"


def _essence_of_anthropic(data: bytes) -> Iterator[str]:
    event = json.loads(data)
    told = {**event.get("content_block", {}), **event.get("delta", {})}
    said = told.get("name") or told.get("partial_json") or told.get("text") or told.get("stop_reason") or ""
    shown = f"{said} ({told['id']})" if "id" in told else said
    index = f" {event['index']}" if "index" in event else ""
    yield f"{event['type']}{index}".ljust(24) + shown


def _essence_of_gemini(data: bytes) -> Iterator[str]:
    for candidate in json.loads(data)["candidates"]:
        for part in candidate["content"]["parts"]:
            if call := part.get("functionCall"):
                yield f"functionCall  {call['name']} ({call['id']}) {json.dumps(call['args'])}"
            elif part.get("text"):
                yield f"text          {part['text']}"
        if "finishReason" in candidate:
            yield f"finishReason  {candidate['finishReason']}"


_ESSENCE = {"openai_chat": _essence_of_chat, "anthropic": _essence_of_anthropic, "gemini": _essence_of_gemini}


def _show_json(console: Console, title: str, value: Any) -> None:
    text = laid_out(json.dumps(value).encode(), console.width - 4)
    syntax = Syntax(text, "json", background_color="default", word_wrap=True)
    console.print(Panel(syntax, title=title, title_align="left"))


def _show_receipt(console: Console, receipt: Receipt) -> None:
    for line in receipt:
        severity, _, told = str(line).partition(": ")
        style = "yellow" if line.severity == "loss" else "green"
        console.print(Text.assemble((f"{severity:5}", style), f" {told}"))


def _show_next(console: Console) -> None:
    """Commands that work as they stand, in a clone of the repository."""
    program = os.path.relpath(Path(sys.executable).parent / "toolglot")
    _say(console, "Next:")
    for command in (
        "translate --from openai_chat --to gemini --kind request docs/examples/chat-request.json",
        "translate --from mcp --to anthropic --kind tools docs/examples/mcp-tools.json",
        "translate --from openai_chat --to anthropic --kind stream docs/examples/chat-stream.sse",
        "dialects",
    ):
        console.print(Text(f"  {program} {command}", style="bold"), soft_wrap=True)


if __name__ == "__main__":
    main()
