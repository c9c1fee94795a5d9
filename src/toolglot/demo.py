"""A worked translation in the terminal: `make demo`, or `python -m toolglot.demo`. It needs no network and no key."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.syntax import Syntax
from rich.text import Text

from toolglot.api import translate_request, translate_stream
from toolglot.lint import lint
from toolglot.receipt import Receipt

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
    _show_wire(console, "Chat stream", chat_stream())
    _show_stream(console, "anthropic", "Anthropic events")
    _show_stream(console, "gemini", "Gemini chunks")
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


def _show_stream(console: Console, target: str, title: str) -> None:
    recording = chat_stream()
    _say(console, f"The same stream as {title}, one call after the other:")
    written = list(translate_stream(recording, "openai_chat", target))
    _show_wire(console, title, written)
    breaches = lint(target, written)
    found = f"{len(breaches)} breaches" if breaches else "no breach"
    console.print(f"[green]lint-stream {target}: {found}[/]; {len(recording)} chunks in, {len(written)} out")


def _show_wire(console: Console, title: str, chunks: list[bytes]) -> None:
    lines = [line for line in b"".join(chunks).decode().splitlines() if line.startswith("data: ")]
    body = Text("\n".join(lines), overflow="ellipsis", no_wrap=True)
    console.print(Panel(body, title=title, title_align="left"))


def _show_json(console: Console, title: str, value: Any) -> None:
    lines = [f" {json.dumps(key)}: {_member(member)}" for key, member in value.items()]
    text = "{\n" + ",\n".join(lines) + "\n}"
    syntax = Syntax(text, "json", background_color="default", word_wrap=True)
    console.print(Panel(syntax, title=title, title_align="left"))


def _member(value: Any) -> str:
    """A member on one line; a list of objects with a line for each."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(f"  {json.dumps(item)}" for item in value) + "\n ]"
    return json.dumps(value)


def _show_receipt(console: Console, receipt: Receipt) -> None:
    for line in receipt:
        style = "yellow" if line.severity == "loss" else "green"
        console.print(Text.assemble((f"{line.severity:5}", style), f" {line.where}: {line.what}: {line.why}"))


def _show_next(console: Console) -> None:
    _say(console, "Next, with your own data (the command is in .venv/bin):")
    for command in (
        "toolglot translate --from openai_chat --to gemini --kind request chat.json",
        "toolglot translate --from mcp --to anthropic --kind tools tools.json",
        "toolglot dialects",
    ):
        console.print(f"  [bold]{command}[/]")


if __name__ == "__main__":
    main()
