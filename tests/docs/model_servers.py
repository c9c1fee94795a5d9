"""Model servers that the commands of a page find: they answer as Ollama and vLLM do, on free ports."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.cli.scripted_upstream import Asked, Said, said, scripted

_COMMENT = re.compile(r"^<!-- server: (\w+) at ([\d.]+:\d+) with (\S+), (\d+) tokens -->$", re.MULTILINE)


class ModelServers(NamedTuple):
    places: Mapping[str, str]
    """The address of each server on the page, and its address in this run."""
    environment: Mapping[str, str]

    def actual(self, script: str) -> str:
        for shown, actual in self.places.items():
            script = script.replace(shown, actual)
        return script

    def shown(self, output: str) -> str:
        for shown, actual in self.places.items():
            output = output.replace(actual, shown)
        return output


@contextmanager
def model_servers(page: Path) -> Iterator[ModelServers]:
    """The servers that the comments of a page declare."""
    places: dict[str, str] = {}
    environment: dict[str, str] = {}
    with ExitStack() as servers:
        for vendor, address, model, window in _COMMENT.findall(page.read_text()):
            server = servers.enter_context(scripted(_VENDORS[vendor](model, int(window))))
            places[address] = server.url.removeprefix("http://")
            if vendor == "ollama":
                environment["OLLAMA_HOST"] = places[address]
        yield ModelServers(places, environment)


def _ollama(model: str, window: int) -> dict[str, Any]:
    return {
        "/v1/models": _list(model, owned_by="library"),
        "/api/version": {"version": "0.13.0"},
        "/api/tags": {"models": [{"name": model, "model": model, "details": {"family": "qwen3"}}]},
        "/api/show": {
            "parameters": 'stop    "<|im_end|>"',
            "capabilities": ["completion", "tools"],
            "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 262144},
        },
        "/api/ps": {"models": [{"name": model, "model": model, "context_length": window}]},
    }


def _vllm(model: str, window: int) -> dict[str, Any]:
    return {"/v1/models": _list(model, owned_by="vllm", max_model_len=window)}


def _list(model: str, **members: object) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": model, "object": "model", "created": 1, **members}]}


def _serving(documents: Mapping[str, Any], model: str) -> Callable[[Asked], Said]:
    def answer(asked: Asked) -> Said:
        if asked.path == "/v1/chat/completions":
            return said(_completion(asked.document, model))
        if asked.path == "/api/chat":
            return said(_ollama_answer(asked.document, model))
        document = documents.get(asked.path)
        return Said(404, b"404 page not found", "text/plain") if document is None else said(document)

    return answer


def _completion(request: Mapping[str, Any], model: str) -> dict[str, Any]:
    """A call of the first tool, or a text if there is no tool."""
    message: dict[str, Any] = {"role": "assistant", "content": f"Hello from {model}."}
    if request.get("tools"):
        function = {"name": request["tools"][0]["function"]["name"], "arguments": '{"city": "Paris"}'}
        message |= {"content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": function}]}
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14},
    }


def _ollama_answer(request: Mapping[str, Any], model: str) -> dict[str, Any]:
    """The same answer in Ollama's own API."""
    message: dict[str, Any] = {"role": "assistant", "content": f"Hello from {model}."}
    if request.get("tools"):
        function = {"name": request["tools"][0]["function"]["name"], "arguments": {"city": "Paris"}}
        message |= {"content": "", "tool_calls": [{"id": "call_1", "function": function}]}
    return {
        "model": model,
        "created_at": "2026-01-01T00:00:00Z",
        "message": message,
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": 9,
        "eval_count": 5,
    }


_VENDORS: Mapping[str, Callable[[str, int], Callable[[Asked], Said]]] = {
    "ollama": lambda model, window: _serving(_ollama(model, window), model),
    "vllm": lambda model, window: _serving(_vllm(model, window), model),
}
