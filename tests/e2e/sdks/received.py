"""What an upstream was told of calls and results, read from its own wire form without toolglot's help."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Called:
    id: str | None
    name: str
    arguments: Any


@dataclass(frozen=True)
class Result:
    """`failed` is None where the dialect cannot say it."""

    call_id: str | None
    text: str
    pictures: list[str] = field(default_factory=list)
    failed: bool | None = None
    name: str | None = None


@dataclass
class Received:
    """The calls and results of a request in their order; pictures that stand in no result, as `type;data`."""

    tools: list[str] = field(default_factory=list)
    calls: list[Called] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    order: str = ""
    """What comes after what: `c` is a call, `r` a result, `.` anything else."""


def _picture_of_url(url: str) -> str:
    head, _, data = url.partition(",")
    return f"{head.removeprefix('data:').removesuffix(';base64')};{data}"


def _parts(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [{"type": "text", "text": content or ""}]


def _joined(parts: list[Any]) -> str:
    return "".join(part.get("text") or "" for part in parts)


def chat(body: Any) -> Received:
    seen = Received(tools=[tool["function"]["name"] for tool in body.get("tools", ())])
    for message in body["messages"]:
        parts = _parts(message.get("content"))
        calls = message.get("tool_calls") or ()
        seen.order += {"tool": "r"}.get(message["role"], "c" * len(calls) or ".")
        if message["role"] == "assistant":
            for call in calls:
                function = call["function"]
                seen.calls.append(Called(call["id"], function["name"], json.loads(function["arguments"] or "{}")))
        elif message["role"] == "tool":
            assert all(part["type"] == "text" for part in parts), "a tool message can hold text alone"
            seen.results.append(Result(message["tool_call_id"], _joined(parts)))
        else:
            seen.pictures += [
                _picture_of_url(part["image_url"]["url"]) for part in parts if part["type"] == "image_url"
            ]
    return seen


def responses(body: Any) -> Received:
    seen = Received(tools=[tool["name"] for tool in body.get("tools", ())])
    for item in body["input"] if isinstance(body["input"], list) else ():
        kind = item.get("type", "message")
        if kind == "function_call":
            seen.calls.append(Called(item["call_id"], item["name"], json.loads(item["arguments"] or "{}")))
        elif kind == "function_call_output":
            parts = _parts(item["output"])
            pictures = [_picture_of_url(part["image_url"]) for part in parts if part["type"] == "input_image"]
            seen.results.append(Result(item["call_id"], _joined(parts), pictures))
        elif kind == "message":
            parts = _parts(item["content"])
            seen.pictures += [_picture_of_url(part["image_url"]) for part in parts if part["type"] == "input_image"]
        seen.order += {"function_call": "c", "function_call_output": "r"}.get(kind, ".")
    return seen


def _block_picture(block: Any) -> str:
    return f"{block['source']['media_type']};{block['source']['data']}"


def messages(body: Any) -> Received:
    seen = Received(tools=[tool["name"] for tool in body.get("tools", ())])
    for message in body["messages"]:
        for block in _parts(message["content"]):
            match block["type"]:
                case "tool_use":
                    seen.calls.append(Called(block["id"], block["name"], block["input"]))
                case "tool_result":
                    parts = _parts(block.get("content"))
                    pictures = [_block_picture(part) for part in parts if part["type"] == "image"]
                    failed = bool(block.get("is_error"))
                    seen.results.append(Result(block["tool_use_id"], _joined(parts), pictures, failed))
                case "image":
                    seen.pictures.append(_block_picture(block))
                case _:
                    pass
            seen.order += {"tool_use": "c", "tool_result": "r"}.get(block["type"], ".")
    return seen


def _inline(part: Any) -> list[str]:
    """Google's own Python SDK writes both spellings, and the Base64 of URLs."""
    data = part.get("inlineData", part.get("inline_data"))
    if data is None:
        return []
    standard = data["data"].replace("-", "+").replace("_", "/")
    return [f"{data.get('mimeType', data.get('mime_type'))};{standard}"]


def gemini(body: Any) -> Received:
    declared = [one for tool in body.get("tools", ()) for one in tool.get("functionDeclarations", ())]
    seen = Received(tools=[one["name"] for one in declared])
    for content in body["contents"]:
        for part in content.get("parts", ()):
            if call := part.get("functionCall"):
                seen.calls.append(Called(call.get("id"), call["name"], call.get("args", {})))
            elif result := part.get("functionResponse"):
                response = result["response"]
                (key, value), *_ = response.items()
                pictures = [picture for one in result.get("parts", ()) for picture in _inline(one)]
                seen.results.append(Result(result.get("id"), value, pictures, key == "error", result["name"]))
            else:
                seen.pictures += _inline(part)
            seen.order += "c" if "functionCall" in part else "r" if "functionResponse" in part else "."
    return seen


READERS: dict[str, Callable[[Any], Received]] = {
    "openai_chat": chat,
    "openai_responses": responses,
    "anthropic": messages,
    "gemini": gemini,
}
