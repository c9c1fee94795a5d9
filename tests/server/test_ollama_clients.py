"""Open WebUI and VS Code's Ollama provider at the gateway: their requests, in their order, over every upstream.

Each client is written down from its source (Open WebUI 0.6: `routers/ollama.py`, `utils/payload.py`,
`utils/response.py`; Copilot Chat of 2026-03: `ollamaProvider.ts`, `openAIEndpoint.ts`): the paths that it calls, the
members that it sends, those that it cannot do without in an answer, and how it puts the calls of a stream together.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest

from tests.e2e.loopback import Answer, Asked, Exchange, Loopback, Reply
from tests.e2e.scripted import Seen, spoken
from tests.e2e.wires import OLLAMA, WIRES, Call, Turn
from tests.exchanges import JSON_NAMES
from tests.server.gateway import Running, at, gateway
from toolglot.config.schema import ModelConfig
from toolglot.dialects import DIALECTS

SCRIPTED = {**WIRES, "ollama": OLLAMA}
CONTEXT_WINDOW = 65_536
TAGGED = "llama3:latest"
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
SYSTEM = {"role": "system", "content": "Use the tools."}
QUESTION = "What is the weather in Paris?"
PICTURE = b64encode(b"\x89PNG\r\n\x1a\n" + bytes(16)).decode()
ASKED: list[dict[str, Any]] = [SYSTEM, {"role": "user", "content": QUESTION, "images": [PICTURE]}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
SETTINGS: dict[str, Any] = {
    "options": {
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 40,
        "seed": 7,
        "num_ctx": 8192,
        "num_predict": 3000,
        "stop": ["<end>"],
    },
    "keep_alive": "5m",
    "format": SCHEMA,
    "think": True,
}
"""The parameters of a model or a chat, as Open WebUI puts them in a request."""
Message = dict[str, Any]


def weather(city: str) -> str:
    return f"17 degrees in {city}"


def script(seen: Seen) -> Turn:
    """Ask for two cities at once, then repeat what the tool said."""
    if seen.results:
        return Turn(" and ".join(seen.results))
    cities = enumerate(("Paris", "Rome"))
    return Turn("Let me see.", tuple(Call(f"call_{n}", "get_weather", {"city": city}) for n, city in cities))


def scripted_upstream(dialect: str) -> Answer:
    answer = spoken(SCRIPTED[dialect], script)
    if dialect != "ollama":
        return answer

    def as_lines(asked: Asked) -> Reply:
        reply = answer(asked)
        lines = reply.body.replace(b"data: ", b"").replace(b"\n\n", b"\n")
        return replace(reply, body=lines, headers={"content-type": "application/x-ndjson"})

    return as_lines


@dataclass
class Stage:
    running: Running
    upstreams: dict[str, Exchange]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """A gateway to a scripted upstream of each dialect, and to the demo where there is no script."""
    server = Loopback()
    with ExitStack() as stack:
        stack.callback(server.close)
        scripted = {name: stack.enter_context(server.serving(scripted_upstream(name))) for name in JSON_NAMES}
        upstreams = {
            name: at(
                name,
                scripted[name].base_url if name in scripted else "demo:",
                models=(f"{name}-model", f"{name}-settings"),
            )
            for name in DIALECTS
        }
        upstreams["tagged"] = at("ollama", scripted["ollama"].base_url, models=(TAGGED,))
        known = ModelConfig(upstream="openai_chat", model="known-model", context_window=CONTEXT_WINDOW)
        running = stack.enter_context(gateway(upstreams, models={"known": known}))
        yield Stage(running, scripted)


# ── the clients ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Heard:
    """An answer as a client puts it together; its calls are OpenAI's form, in the order of their index."""

    text: str = ""
    calls: dict[int, Message] = field(default_factory=dict)
    ended: bool = False

    def add_call(self, call: Message) -> None:
        """Both clients take calls with the same index for parts of one call."""
        known = self.calls.setdefault(call["index"], {"id": "", "type": "function", "function": {}})
        known["id"] = known["id"] or call.get("id") or ""
        for name, part in call["function"].items():
            known["function"][name] = known["function"].get(name, "") + (part or "")


OPEN_WEBUI_HEADERS = {
    "Content-Type": "application/json",
    "Authorization": "Bearer none",
    "X-OpenWebUI-User-Name": "Ada%20Lovelace",
    "X-OpenWebUI-User-Id": "7f",
    "X-OpenWebUI-User-Email": "ada@example.com",
    "X-OpenWebUI-User-Role": "admin",
    "X-OpenWebUI-Chat-Id": "c1",
}


class OpenWebUi:
    """Looks at the version and the lists, then sends `/api/chat`. It forwards its user's name in headers."""

    def __init__(self, running: Running, *, stream: bool = True) -> None:
        self.running = running
        self.stream = stream

    def connect(self) -> dict[str, str]:
        """The models: the name that is shown of each, and the one that is asked for."""
        version = self._get("/api/version")["version"]
        assert [int(part) for part in re.sub(r"^v|-.*", "", version).split(".")]
        self.models = {entry["model"]: entry for entry in self._get("/api/tags")["models"]}
        loaded = {entry["name"]: entry["expires_at"] for entry in self._get("/api/ps")["models"]}
        assert not loaded
        return {entry["name"]: entry["model"] for entry in self.models.values()}

    def describe(self, model: str) -> Message:
        shown = self.running.call("POST", "/api/show", json.dumps({"model": model}).encode(), OPEN_WEBUI_HEADERS)
        assert shown.status == 200, shown.body
        described: Message = shown.json()
        return described

    def body(self, model: str, messages: list[Message]) -> Message:
        return {"model": model, "messages": messages, "stream": self.stream, "tools": [TOOL], **SETTINGS}

    def ask(self, model: str, messages: list[Message]) -> Heard:
        name = model if ":" in model else f"{model}:latest"
        assert name in self.models, f"400: Model '{name}' was not found"
        body = self.body(name, messages)
        answer = self.running.call("POST", "/api/chat", json.dumps(body).encode(), OPEN_WEBUI_HEADERS)
        assert answer.status == 200, answer.body
        expected = "application/x-ndjson" if self.stream else "application/json"
        assert answer.headers["content-type"].startswith(expected)
        heard = Heard()
        for line in answer.body.splitlines():
            self._add_line(heard, json.loads(line))
        return heard

    @staticmethod
    def write(messages: list[Message]) -> list[Message]:
        return messages

    @staticmethod
    def _add_line(heard: Heard, line: Message) -> None:
        heard.text += line["message"].get("content") or ""
        for call in line["message"].get("tool_calls") or ():
            function = call["function"]
            index = call.get("index", function.get("index", 0))
            written = {"name": function["name"], "arguments": json.dumps(function["arguments"])}
            heard.add_call({"index": index, "id": call["id"], "function": written})
        heard.ended = line["done"]
        if heard.ended:
            assert line["prompt_eval_count"] > 0
            assert line["eval_count"] > 0

    @staticmethod
    def remember(heard: Heard, results: dict[str, str]) -> list[Message]:
        """An answer and its results, as the next request has them. A result has its call's id and no name."""
        calls = [
            {
                "index": index,
                "id": call["id"],
                "function": {
                    "name": call["function"]["name"],
                    "arguments": json.loads(call["function"]["arguments"]),
                },
            }
            for index, call in heard.calls.items()
        ]
        said = {"role": "assistant", "tool_calls": calls, "content": ""}
        return [said, *({"role": "tool", "content": text, "tool_call_id": one} for one, text in results.items())]

    def unload(self, model: str) -> Message:
        """It asks for no kind of answer, and reads it only if it is called JSON."""
        body = json.dumps({"model": model, "keep_alive": 0, "prompt": ""}).encode()
        answer = self.running.call("POST", "/api/generate", body, OPEN_WEBUI_HEADERS)
        assert answer.headers["content-type"].startswith("application/json")
        unloaded: Message = answer.json()
        return unloaded

    def _get(self, path: str) -> Any:
        answer = self.running.call("GET", path, headers=OPEN_WEBUI_HEADERS)
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("application/json")
        return answer.json()


def _as_parts(message: Message) -> Message:
    pictures = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{one}"}} for one in message["images"]
    ]
    return {"role": message["role"], "content": [{"type": "text", "text": message["content"]}, *pictures]}


class VsCode:
    """Looks at the version, the list and each of its models, then speaks Chat Completions, without a key."""

    path = "/v1/chat/completions"

    def __init__(self, running: Running) -> None:
        self.running = running

    def connect(self) -> dict[str, str]:
        version = self.running.call("GET", "/api/version").json()["version"]
        assert [int(part) for part in version.split(".")] >= [0, 6, 4]
        models = [entry["model"] for entry in self.running.call("GET", "/api/tags").json()["models"]]
        return {self.describe(model)["model_info"]["general.basename"]: model for model in models}

    def describe(self, model: str) -> Message:
        headers = {"Content-Type": "application/json"}
        shown = self.running.call("POST", "/api/show", json.dumps({"model": model}).encode(), headers)
        assert shown.status == 200, shown.body
        described: Message = shown.json()
        assert "tools" in described["capabilities"]
        assert described["model_info"]["general.architecture"]
        return described

    def ask(self, model: str, messages: list[Message]) -> Heard:
        cached = {**messages[-1], "copilot_cache_control": {"type": "ephemeral"}}
        body = {
            "messages": [*messages[:-1], cached],
            "model": model,
            "temperature": 0.1,
            "top_p": 1,
            "n": 1,
            "stream": True,
            "tools": [TOOL],
            "tool_choice": "auto",
            "stream_options": {"include_usage": True},
        }
        headers = {"Content-Type": "application/json", "Authorization": "Bearer ", "X-Interaction-Type": "agent"}
        answer = self.running.call("POST", self.path, json.dumps(body).encode(), headers)
        assert answer.status == 200, answer.body
        assert answer.headers["content-type"].startswith("text/event-stream")
        heard = Heard()
        *frames, last, rest = answer.body.split(b"\n\n")
        assert (last, rest) == (b"data: [DONE]", b"")
        for frame in frames:
            chunk = json.loads(frame.removeprefix(b"data: "))
            for choice in chunk["choices"]:
                heard.text += choice["delta"].get("content") or ""
                for call in choice["delta"].get("tool_calls") or ():
                    heard.add_call(call)
                heard.ended = heard.ended or choice["finish_reason"] is not None
        return heard

    @staticmethod
    def write(messages: list[Message]) -> list[Message]:
        """A picture is a URL in a part of the message."""
        return [_as_parts(message) if "images" in message else message for message in messages]

    @staticmethod
    def remember(heard: Heard, results: dict[str, str]) -> list[Message]:
        said = {"role": "assistant", "content": heard.text, "tool_calls": list(heard.calls.values())}
        return [said, *({"role": "tool", "tool_call_id": one, "content": text} for one, text in results.items())]


class EarlierVsCode(VsCode):
    """The versions of a few months put no `/v1` behind the address."""

    path = "/chat/completions"


Client = OpenWebUi | VsCode
CLIENTS: dict[str, Callable[[Running], Client]] = {
    "Open WebUI": OpenWebUi,
    "Open WebUI, whole answers": partial(OpenWebUi, stream=False),
    "VS Code": VsCode,
    "an earlier VS Code": EarlierVsCode,
}


# ── what they do ─────────────────────────────────────────────────────────────────────────────────────────────────────


def run_tool_loop(client: Client, model: str) -> tuple[list[Message], str]:
    """The calls of the first answer, and the text of the second."""
    messages = client.write(ASKED)
    first = client.ask(model, messages)
    assert first.ended
    calls = [call for _, call in sorted(first.calls.items())]
    results = {call["id"]: weather(**json.loads(call["function"]["arguments"])) for call in calls}
    assert len(results) == len(calls)
    last = client.ask(model, [*messages, *client.remember(first, results)])
    assert (last.ended, last.calls) == (True, {})
    return calls, last.text


@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("client_name", CLIENTS)
def test_a_client_of_ollama_completes_a_tool_loop(stage: Stage, client_name: str, upstream: str) -> None:
    client = CLIENTS[client_name](stage.running)
    model = client.connect()[f"{upstream}-model"]
    exchange = stage.upstreams.get(upstream)
    calls, text = run_tool_loop(client, model)
    cities = ["Paris", "Rome"] if exchange else ["Paris"]
    assert [call["function"]["name"] for call in calls] == ["get_weather"] * len(cities)
    assert [json.loads(call["function"]["arguments"]) for call in calls] == [{"city": city} for city in cities]
    assert all(weather(city) in text for city in cities)
    if exchange:
        asked = exchange.asked[-1]
        assert SCRIPTED[upstream].results(asked.json()) == [weather("Paris"), weather("Rome")]
        assert f"{upstream}-model" in (asked.json().get("model"), asked.path.split("/")[-1].partition(":")[0])


@pytest.mark.parametrize("client_name", CLIENTS)
def test_a_model_whose_name_has_a_tag_is_listed_shown_and_asked_under_it(stage: Stage, client_name: str) -> None:
    client = CLIENTS[client_name](stage.running)
    assert TAGGED in client.connect().values()
    assert client.describe(TAGGED)["capabilities"] == ["completion", "tools"]
    _, text = run_tool_loop(client, TAGGED)
    assert weather("Rome") in text
    assert stage.upstreams["ollama"].asked[-1].json()["model"] == TAGGED


@pytest.mark.parametrize("client_name", CLIENTS)
def test_a_configured_context_window_is_shown(stage: Stage, client_name: str) -> None:
    client = CLIENTS[client_name](stage.running)
    shown = client.describe(client.connect()["known"])
    assert shown["model_info"]["general.basename"] == "known"
    assert shown["model_info"][f"{shown['model_info']['general.architecture']}.context_length"] == CONTEXT_WINDOW
    assert shown["details"]["family"]


NAMED_SCHEMA = {"name": "response", "schema": SCHEMA}
UPSTREAM_SETTINGS: dict[str, tuple[Message, set[str]]] = {
    "openai_chat": (
        {
            "temperature": 0.7,
            "top_p": 0.9,
            "top_k": 40,
            "seed": 7,
            "max_tokens": 3000,
            "stop": ["<end>"],
            "response_format": {"type": "json_schema", "json_schema": NAMED_SCHEMA},
        },
        {"options.num_ctx", "keep_alive", "reasoning", "response_format.schema"},
    ),
    "openai_responses": (
        {
            "temperature": 0.7,
            "top_p": 0.9,
            "max_output_tokens": 3000,
            "text": {"format": {"type": "json_schema", **NAMED_SCHEMA}},
        },
        {"top_k", "seed", "stop", "options.num_ctx", "keep_alive", "reasoning", "response_format.schema"},
    ),
    "anthropic": (
        {
            "max_tokens": 3000,
            "stop_sequences": ["<end>"],
            "thinking": {"type": "adaptive"},
            "output_config": {"format": {"type": "json_schema", "schema": {**SCHEMA, "additionalProperties": False}}},
        },
        {"temperature", "top_p", "top_k", "seed", "options.num_ctx", "keep_alive", "response_format.schema"},
    ),
    "gemini": (
        {
            "generationConfig": {
                "temperature": 0.7,
                "topP": 0.9,
                "topK": 40,
                "seed": 7,
                "maxOutputTokens": 3000,
                "stopSequences": ["<end>"],
                "responseMimeType": "application/json",
                "responseJsonSchema": SCHEMA,
                "thinkingConfig": {"thinkingBudget": -1},
            }
        },
        {"options.num_ctx", "keep_alive"},
    ),
    "ollama": (SETTINGS, set()),
}
"""For each upstream: the settings in its request, and those that the receipt names."""
NO_SETTINGS = {
    *("model", "messages", "input", "contents", "tools", "system", "instructions", "systemInstruction"),
    *("stream", "stream_options", "store"),
}


@pytest.mark.parametrize("upstream", JSON_NAMES)
def test_each_setting_of_open_webui_is_sent_to_the_upstream_or_named_in_the_receipt(
    stage: Stage, upstream: str
) -> None:
    client = OpenWebUi(stage.running, stream=False)
    model = client.connect()[f"{upstream}-settings"]
    client.ask(model, ASKED)
    sent = stage.upstreams[upstream].asked[-1].json()
    assert PICTURE in json.dumps(sent)
    expected, not_sent = UPSTREAM_SETTINGS[upstream]
    record = next(record for record in iter(stage.running.record, None) if record.model == model)
    _, lines, _ = record.receipt or (0, (), 0)
    assert {name: value for name, value in sent.items() if name not in NO_SETTINGS} == expected
    assert {line.where for line in lines} == not_sent


def test_open_webui_unloads_a_model_without_its_upstream(stage: Stage) -> None:
    client = OpenWebUi(stage.running)
    model = client.connect()["gemini-model"]
    asked = len(stage.upstreams["gemini"].asked)
    assert client.unload(model)["done_reason"] == "unload"
    assert len(stage.upstreams["gemini"].asked) == asked
