"""`make demo`: the gateway on the embedded demo upstream, and one tool loop from each of three clients.

No key, no network, no model. The gateway is a real one, in a process of its own; what is printed is what goes over the
wire. Each client talks to a model behind an API that is not its own.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import textwrap
import urllib.request
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any

from msgspec import Struct

from toolglot.cli.launch import own_gateway
from toolglot.cli.pretty_json import pretty_json
from toolglot.config.problems import field_name
from toolglot.wire.sse import SseReader

QUESTION = "What is the weather in Paris and Oslo?"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
DESCRIPTION = "The weather in a city, now."
WEATHER = {"Paris": "rain until four, 11 degrees", "Oslo": "clear, 2 degrees"}

WIDTH, HEIGHT, INDENT = 92, 20, " " * 4
"""Of a body as it is shown."""

CONFIG = """
discover = false
[upstreams.behind-anthropic]
base_url = "demo:"
dialect = "anthropic"
[upstreams.behind-gemini]
base_url = "demo:"
dialect = "gemini"
[upstreams.behind-responses]
base_url = "demo:"
dialect = "openai_responses"
"""

Json = dict[str, Any]


class Call(Struct, frozen=True):
    id: str
    name: str
    arguments: Json


class Client(Struct, frozen=True, kw_only=True):
    """A client of one API: how it asks, how it reads calls and text, how it gives results back."""

    title: str
    upstream: str
    behind: str
    path: str
    key_header: str
    ask: Callable[[str], Json]
    where: tuple[str | int, ...]
    """Where in an answer the model's message is."""
    calls: Callable[[Json], list[Call]]
    go_on: Callable[[Json, Json, list[tuple[Call, str]]], Json]
    """The request, the answer and the results make the next request."""
    text: Callable[[Json], str]
    """The text in one frame of a stream."""
    stream_path: str | None = None


def _chat_call(call: Json) -> Call:
    return Call(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))


OPENAI = Client(
    title="An OpenAI client",
    upstream="behind-anthropic",
    behind="Anthropic's API",
    path="/v1/chat/completions",
    key_header="authorization",
    ask=lambda model: {
        "model": model,
        "messages": [{"role": "user", "content": QUESTION}],
        "tools": [
            {"type": "function", "function": {"name": "weather", "description": DESCRIPTION, "parameters": SCHEMA}}
        ],
    },
    where=("choices", 0, "message"),
    calls=lambda answer: [_chat_call(call) for call in answer["choices"][0]["message"].get("tool_calls") or ()],
    go_on=lambda request, answer, results: {
        **request,
        "messages": [
            *request["messages"],
            answer["choices"][0]["message"],
            *({"role": "tool", "tool_call_id": call.id, "content": result} for call, result in results),
        ],
    },
    text=lambda frame: "".join(choice["delta"].get("content") or "" for choice in frame.get("choices", ())),
)

ANTHROPIC = Client(
    title="An Anthropic client",
    upstream="behind-gemini",
    behind="Google's Gemini API",
    path="/v1/messages",
    key_header="x-api-key",
    ask=lambda model: {
        "model": model,
        "max_tokens": 500,
        "messages": [{"role": "user", "content": QUESTION}],
        "tools": [{"name": "weather", "description": DESCRIPTION, "input_schema": SCHEMA}],
    },
    where=("content",),
    calls=lambda answer: [
        Call(block["id"], block["name"], block["input"]) for block in answer["content"] if block["type"] == "tool_use"
    ],
    go_on=lambda request, answer, results: {
        **request,
        "messages": [
            *request["messages"],
            {"role": "assistant", "content": answer["content"]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": call.id, "content": result} for call, result in results
                ],
            },
        ],
    },
    text=lambda frame: str(frame.get("delta", {}).get("text", "")),
)

GEMINI = Client(
    title="A Gemini client",
    upstream="behind-responses",
    behind="OpenAI's Responses API",
    path="/v1beta/models/{model}:generateContent",
    stream_path="/v1beta/models/{model}:streamGenerateContent?alt=sse",
    key_header="x-goog-api-key",
    ask=lambda model: {
        "contents": [{"role": "user", "parts": [{"text": QUESTION}]}],
        "tools": [
            {"functionDeclarations": [{"name": "weather", "description": DESCRIPTION, "parametersJsonSchema": SCHEMA}]}
        ],
    },
    where=("candidates", 0, "content"),
    calls=lambda answer: [
        Call(part["functionCall"].get("id", ""), part["functionCall"]["name"], part["functionCall"]["args"])
        for part in answer["candidates"][0]["content"]["parts"]
        if "functionCall" in part
    ],
    go_on=lambda request, answer, results: {
        **request,
        "contents": [
            *request["contents"],
            answer["candidates"][0]["content"],
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": call.id, "name": call.name, "response": {"output": result}}}
                    for call, result in results
                ],
            },
        ],
    },
    text=lambda frame: "".join(
        part.get("text", "")
        for candidate in frame.get("candidates", ())
        for part in candidate.get("content", {}).get("parts", ())
    ),
)

CLIENTS = (OPENAI, ANTHROPIC, GEMINI)


def main() -> None:
    """Three loops, and what to do next."""
    print("toolglot: one gateway, three clients, none of which speaks its model's API.")
    with tempfile.TemporaryDirectory(prefix="toolglot-") as folder:
        config = Path(folder) / "toolglot.toml"
        config.write_text(CONFIG)
        with own_gateway(["--config", str(config), "--store", ":memory:"]) as url:
            print(f"The gateway runs at {url}; its models are the embedded demo: rules, no key, no network.")
            for client in CLIENTS:
                _loop(client, url)
    _advise()


def _loop(client: Client, url: str) -> None:
    """Ask, run the tools, give their results back, and stream the answer."""
    model = f"{client.upstream}/demo"
    _title(f"{client.title} asks a model behind {client.behind}")
    request = client.ask(model)
    path = client.path.replace("{model}", model)
    _show(f"POST {path}", request)
    with _post(f"{url}{path}", client, request) as reply:
        answer = json.load(reply)
        receipt = reply.headers["x-toolglot-receipt"]
    calls = client.calls(answer)
    message = reduce(lambda value, name: value[name], client.where, answer)
    _show(f"200, {len(calls)} calls in parallel (receipt: {receipt}), in its {field_name(client.where)}:", message)
    results = [(call, WEATHER.get(call.arguments["city"], "no idea")) for call in calls]
    for call, result in results:
        print(f"  the client runs {call.name}({json.dumps(call.arguments)}): {result}")
    following = client.go_on(request, answer, results)
    if client.stream_path is None:
        following["stream"] = True
    path = (client.stream_path or client.path).replace("{model}", model)
    print(f"\n  and streams the answer from POST {path}:\n")
    with _post(f"{url}{path}", client, following) as reply:
        for piece in _indented(client.text(frame) for frame in _frames(reply)):
            print(piece, end="", flush=True)
    print()


def _post(url: str, client: Client, body: Json) -> Any:
    key = "Bearer any" if client.key_header == "authorization" else "any"
    headers = {"content-type": "application/json", client.key_header: key}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    # The gateway is on this machine: a proxy has no business with it.
    return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60)


def _frames(reply: Any) -> Iterator[Json]:
    reader = SseReader()
    while data := reply.read1(4096):
        for _, payload in reader.feed(data):
            if payload != b"[DONE]":
                yield json.loads(payload)


def _title(text: str) -> None:
    bold = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() and "NO_COLOR" not in os.environ else ("", "")
    print(f"\n{bold[0]}{text}{bold[1]}\n")


def _show(head: str, body: Any) -> None:
    print(f"  {head}")
    lines = pretty_json(json.dumps(body, ensure_ascii=False).encode(), WIDTH).splitlines()
    shown = lines if len(lines) <= HEIGHT else [*lines[: HEIGHT - 1], "…"]
    print(textwrap.indent("\n".join(shown), INDENT) + "\n")


def _indented(pieces: Iterator[str]) -> Iterator[str]:
    """Text as it comes, each of its lines indented, but for those with nothing in them."""
    begins = True
    for piece in pieces:
        for line in piece.splitlines(keepends=True):
            yield f"{INDENT}{line}" if begins and line.strip("\n") else line
            begins = line.endswith("\n")


def _advise() -> None:
    _title("Now with your own models")
    print("  toolglot serve                        keys in your environment and local servers are found by themselves")
    print("  toolglot serve --upstream openai_chat=http://127.0.0.1:8000/v1")
    print("  toolglot launch claude --model demo   Claude Code, Codex, Gemini CLI … against the gateway")
    print("  toolglot translate --help             one request, response or stream, without a server")


if __name__ == "__main__":
    main()
