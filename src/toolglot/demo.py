"""`make demo`: three clients on models of other vendors' APIs, with the documents on both wires. It needs no key, no
network and no model. The gateway is a real one, in a separate process, with the built-in demo as its upstreams. It
records its exchanges, and everything printed here comes from the recordings.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import textwrap
import urllib.request
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from toolglot.api import read_stream
from toolglot.cli.launch import own_gateway
from toolglot.cli.pretty_json import pretty_json
from toolglot.config.problems import field_name
from toolglot.events import fold
from toolglot.ir import Text
from toolglot.receipt import Loss
from toolglot.recordings.read import Recording, read_file
from toolglot.wire.sse import SseReader

QUESTION = "What is the weather in Paris and Oslo?"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
DESCRIPTION = "The weather in a city, now."
WEATHER = {"Paris": "rain until four, 11 degrees"}
FAILURE = "the station does not answer"
"""The result for any other city: an error."""

WIDTH = 80
INDENT = " " * 4
LABEL_WIDTH = 19

Json = dict[str, Any]


class Call(Struct, frozen=True):
    id: str
    name: str
    arguments: Json

    @property
    def result(self) -> str:
        return WEATHER.get(self.arguments["city"], FAILURE)

    @property
    def is_error(self) -> bool:
        return self.result == FAILURE


class Api(Struct, frozen=True, kw_only=True):
    """One vendor's API: the requests of its clients, and the places of calls and results in its documents."""

    title: str
    client: str
    path: str
    stream_path: str | None = None
    key_header: str
    ask: Callable[[str], Json]
    message: tuple[str | int, ...]
    """Path of the model's message in an answer."""
    raw_calls: Callable[[Json], list[Json]]
    """The calls in an answer, in wire form."""
    call: Callable[[Json], Call]
    go_on: Callable[[Json, Json, list[Call]], Json]
    """Makes the next request from the request, the answer and its calls."""
    raw_results: Callable[[Json], list[Json]]
    """The tool results in a request, in wire form."""


CHAT = Api(
    title="OpenAI Chat Completions",
    client="An OpenAI client",
    path="/v1/chat/completions",
    key_header="authorization",
    ask=lambda model: {
        "model": model,
        "messages": [{"role": "user", "content": QUESTION}],
        "tools": [
            {"type": "function", "function": {"name": "weather", "description": DESCRIPTION, "parameters": SCHEMA}}
        ],
    },
    message=("choices", 0, "message"),
    raw_calls=lambda answer: answer["choices"][0]["message"].get("tool_calls") or [],
    call=lambda raw: Call(raw["id"], raw["function"]["name"], json.loads(raw["function"]["arguments"])),
    go_on=lambda request, answer, calls: {
        **request,
        "messages": [
            *request["messages"],
            answer["choices"][0]["message"],
            *({"role": "tool", "tool_call_id": call.id, "content": call.result} for call in calls),
        ],
    },
    raw_results=lambda request: [message for message in request["messages"] if message["role"] == "tool"],
)

ANTHROPIC = Api(
    title="Anthropic Messages",
    client="An Anthropic client",
    path="/v1/messages",
    key_header="x-api-key",
    ask=lambda model: {
        "model": model,
        "max_tokens": 500,
        "top_k": 5,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": QUESTION}],
        "tools": [{"name": "weather", "description": DESCRIPTION, "input_schema": SCHEMA}],
    },
    message=("content",),
    raw_calls=lambda answer: [block for block in answer["content"] if block["type"] == "tool_use"],
    call=lambda raw: Call(raw["id"], raw["name"], raw["input"]),
    go_on=lambda request, answer, calls: {
        **request,
        "messages": [
            *request["messages"],
            {"role": "assistant", "content": answer["content"]},
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": call.id,
                        "content": call.result,
                        **({"is_error": True} if call.is_error else {}),
                    }
                    for call in calls
                ],
            },
        ],
    },
    raw_results=lambda request: [
        block
        for message in request["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    ],
)

GEMINI = Api(
    title="Google Gemini",
    client="A Gemini client",
    path="/v1beta/models/{model}:generateContent",
    stream_path="/v1beta/models/{model}:streamGenerateContent?alt=sse",
    key_header="x-goog-api-key",
    ask=lambda model: {
        "contents": [{"role": "user", "parts": [{"text": QUESTION}]}],
        "tools": [
            {"functionDeclarations": [{"name": "weather", "description": DESCRIPTION, "parametersJsonSchema": SCHEMA}]}
        ],
    },
    message=("candidates", 0, "content"),
    raw_calls=lambda answer: [part for part in answer["candidates"][0]["content"]["parts"] if "functionCall" in part],
    call=lambda raw: Call(raw["functionCall"].get("id", ""), raw["functionCall"]["name"], raw["functionCall"]["args"]),
    go_on=lambda request, answer, calls: {
        **request,
        "contents": [
            *request["contents"],
            answer["candidates"][0]["content"],
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": call.id, "name": call.name, "response": {key: call.result}}}
                    for call in calls
                    for key in ("error" if call.is_error else "output",)
                ],
            },
        ],
    },
    raw_results=lambda request: [
        part for content in request["contents"] for part in content["parts"] if "functionResponse" in part
    ],
)

UPSTREAMS = {"chat": ("openai_chat", CHAT), "gemini": ("gemini", GEMINI), "anthropic": ("anthropic", ANTHROPIC)}
"""Dialects and APIs of the upstreams, by name. The demo model answers for each."""
PAIRS = [(ANTHROPIC, "chat"), (CHAT, "gemini"), (GEMINI, "anthropic")]
"""Clients and their upstreams. The first is shown in detail."""

EXPLANATIONS = {
    "loss: top_k": "The upstream's API has no such parameter. It is omitted and reported.",
    "cache breakpoint": "This is a hint for the prompt cache. The answer is the same without it.",
    "result that is an error": "Chat has no flag for failed tools, so the text tells the model.",
    "thought signature": "Gemini signs its calls and refuses unsigned ones that are not marked.",
    "no output limit": "Anthropic requires a limit, and the client sent none.",
}
"""Explanations for the reader, by a part of the receipt line."""


COMMANDS = {
    "a stream, event by event, on both sides": "explain docs/examples/weather.exchange.jsonl",
    "one request, without a server": (
        "translate --from openai_chat --to gemini \\\n    --kind request docs/examples/chat-request.json"
    ),
    "the command that starts an agent; without --show, it runs": "launch claude --model demo --show",
    "the setup of this machine, and the next step": "doctor",
    "the gateway for your keys and local models; Ctrl-C ends it": "serve",
}
"""Next steps in a clone: the purpose and the command of each."""


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="toolglot-") as name:
        folder = Path(name)
        config = folder / "toolglot.toml"
        upstreams = (
            f'[upstreams.{name}]\nbase_url = "demo:"\ndialect = "{dialect}"\n'
            for name, (dialect, _) in UPSTREAMS.items()
        )
        config.write_text("discover = false\n" + "".join(upstreams))
        options = ["--config", str(config), "--store", ":memory:", "--demo-pace", "none"]
        with own_gateway([*options, "--record", str(folder / "recordings")]) as url:
            for client, upstream in PAIRS:
                _run_loop(client, upstream, url)
        # All exist once the gateway has ended. Their names begin with the time.
        recordings = [read_file(file) for file in sorted((folder / "recordings").iterdir())]
    _print_all(recordings)


def _run_loop(client: Api, upstream: str, url: str) -> None:
    """Ask, run the tools, send their results, and stream the answer."""
    model = f"{upstream}/demo"
    request = client.ask(model)
    answer = json.loads(_post(url + client.path.replace("{model}", model), client, request))
    calls = [client.call(raw) for raw in client.raw_calls(answer)]
    following = client.go_on(request, answer, calls)
    if client.stream_path is None:
        following["stream"] = True
    _post(url + (client.stream_path or client.path).replace("{model}", model), client, following)


def _post(url: str, client: Api, body: Json) -> bytes:
    key = "Bearer any" if client.key_header == "authorization" else "any"
    headers = {"content-type": "application/json", client.key_header: key}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    # The gateway is on this machine, so no proxy is used.
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as reply:
        data: bytes = reply.read()
        return data


# ── what is printed ──────────────────────────────────────────────────────────────────────────────────────────────────


class DemoExchange(Struct, frozen=True):
    """One recorded exchange, as both sides saw it."""

    recording: Recording

    @property
    def sent(self) -> Json:
        return _decode_body(self.recording.request.data)

    @property
    def got(self) -> Json:
        return _decode_body(self.recording.attempts[0].request.data)

    @property
    def came_back(self) -> bytes:
        return self.recording.attempts[0].body

    @property
    def saw(self) -> bytes:
        return self.recording.body

    @property
    def receipt(self) -> list[Loss]:
        return [msgspec.convert(line, Loss) for line in self.recording.receipt]

    @property
    def text(self) -> str:
        """The text of a streamed answer."""
        response = fold(read_stream(self.saw, self.recording.head.client))
        return "".join(block.text for block in response.content if isinstance(block, Text))


def _decode_body(data: bytes) -> Json:
    value: Json = json.loads(data)
    return value


def _print_all(recordings: list[Recording]) -> None:
    print(_bold("toolglot: three clients, each on a model with another vendor's API"))
    print("A real gateway ran on this machine with built-in models: no key, no network.")
    exchanges = [DemoExchange(recording) for recording in recordings]
    for number, (client, name) in enumerate(PAIRS):
        upstream = UPSTREAMS[name][1]
        first, second = exchanges[2 * number : 2 * number + 2]
        print()
        print(_bold(f"{number + 1}. {client.client} on a model behind {upstream.title}"))
        (_print_detail if number == 0 else _print_brief)(client, upstream, first, second)
    _print_commands()


def _print_detail(client: Api, upstream: Api, first: DemoExchange, second: DemoExchange) -> None:
    _print_body(f"The client sent (POST {first.recording.request.path}):", first.sent)
    _print_body(f"The upstream got ({upstream.title}):", first.got)
    _print_message("the upstream answered", upstream, first.came_back)
    _print_message("the client got", client, first.saw)
    _print_receipt(first)
    print()
    print("The client ran both tools, one of them failed, and it sent the results:")
    _print_json(client.raw_results(second.sent))
    _print_body("The upstream got:", upstream.raw_results(second.got))
    _print_receipt(second, known=first)
    frames = [sum(1 for _ in SseReader().feed(data)) for data in (second.came_back, second.saw)]
    print()
    print(f"The answer was streamed: the upstream sent {frames[0]} events, and the client got {frames[1]}:")
    _print_text(second)


def _print_message(verb: str, api: Api, body: bytes) -> None:
    message = reduce(lambda value, name: value[name], api.message, json.loads(body))
    _print_body(f"{verb[0].upper()}{verb[1:]} ({field_name(api.message)}):", message)


def _print_brief(client: Api, upstream: Api, first: DemoExchange, second: DemoExchange) -> None:
    answered, seen = json.loads(first.came_back), json.loads(first.saw)
    rows = [
        ("upstream sent", upstream.raw_calls(answered)),
        ("client got", client.raw_calls(seen)),
        ("client sent", client.raw_results(second.sent)),
        ("upstream got", upstream.raw_results(second.got)),
    ]
    print()
    for label, values in rows:
        print(_add_label(label, json.dumps(values[0], ensure_ascii=False)))
    _print_receipt(second)
    print()
    _print_text(second)


def _add_label(label: str, text: str) -> str:
    """Add lines with the label in its own column, and shorten long ids."""
    column = " " * LABEL_WIDTH
    shown = re.sub(r"(call_\w{4})\w+", r"\1…", text)
    wrapped = textwrap.fill(shown, WIDTH, initial_indent=column, subsequent_indent=column, break_on_hyphens=False)
    return INDENT + _dim(label) + wrapped[len(INDENT + label) :]


def _print_body(head: str, body: Any) -> None:
    print(f"\n{_dim(head)}")
    _print_json(body)


def _print_json(body: Any) -> None:
    text = pretty_json(json.dumps(body, ensure_ascii=False).encode(), WIDTH - len(INDENT))
    print(textwrap.indent(text, INDENT))


def _print_receipt(exchange: DemoExchange, known: DemoExchange | None = None) -> None:
    """Print the lines of a receipt that an earlier receipt does not have, each with an explanation."""
    lines = [line for line in exchange.receipt if known is None or line not in known.receipt]
    if not lines:
        print(f"\n{_dim('Receipt:')} no loss and no change of form.")
        return
    print(f"\n{_dim('Receipt:')}")
    for line in lines:
        print(textwrap.indent(_wrap_text(str(line), "  "), INDENT))
        explanation = next(text for part, text in EXPLANATIONS.items() if part in str(line))
        print(_dim(textwrap.indent(_wrap_text(explanation), INDENT + "  ")))


def _wrap_text(text: str, indent: str = "") -> str:
    return textwrap.fill(text, WIDTH - len(INDENT) - 2, subsequent_indent=indent, break_on_hyphens=False)


def _print_text(exchange: DemoExchange) -> None:
    print(textwrap.indent(exchange.text, INDENT))


def _print_commands() -> None:
    toolglot = _command()
    print()
    print(_bold("Try these commands, which run as printed"))
    for comment, command in COMMANDS.items():
        print(f"\n  {_dim(f'# {comment}')}\n  {toolglot} {command}")


def _command() -> str:
    """Return the command of this installation's `toolglot`, relative to the current folder."""
    installed = Path(sys.executable).parent / "toolglot"
    if shutil.which("toolglot") == str(installed):
        return "toolglot"
    return os.path.relpath(installed) if installed.is_relative_to(Path.cwd()) else str(installed)


def _bold(text: str) -> str:
    return _add_style(text, "1")


def _dim(text: str) -> str:
    return _add_style(text, "36")


def _add_style(text: str, code: str) -> str:
    plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain else f"\x1b[{code}m{text}\x1b[0m"


if __name__ == "__main__":
    main()
