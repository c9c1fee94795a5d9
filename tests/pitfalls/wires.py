"""Short ways to write upstream streams by hand and to read what a client gets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.exchanges import relay
from tests.forms import form
from toolglot.translate import ExchangeCore

Json = Any


def chat(
    *deltas: Mapping[str, Json], finish: str | None = "tool_calls", usage: Json = None, done: bool = True
) -> bytes:
    """A Chat Completions stream of these deltas."""
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    chunks = [{**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    if finish is not None:
        chunks.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if usage is not None:
        chunks.append({**base, "choices": [], "usage": usage})
    return b"".join(map(data_frame, chunks)) + (b"data: [DONE]\n\n" if done else b"")


def calls(*entries: Mapping[str, Json]) -> dict[str, Json]:
    return {"tool_calls": list(entries)}


def call(index: int | None, arguments: str | None = None, **fields: Json) -> dict[str, Json]:
    """One entry of `tool_calls` in a delta; `id`, `type` and `name` where they are given."""
    function = {key: fields.pop(key) for key in ("name",) if key in fields}
    if arguments is not None:
        function["arguments"] = arguments
    return {**({} if index is None else {"index": index}), **fields, "function": function}


def data_frame(value: Json) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


def named_frame(body: Mapping[str, Json]) -> bytes:
    return f"event: {body['type']}\n".encode() + data_frame(body)


def anthropic(*events: Mapping[str, Json], stop: str | None = "tool_use") -> bytes:
    """An Anthropic stream of these events between its usual beginning and end."""
    usage = {"input_tokens": 40, "cache_read_input_tokens": 10, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    written = named_frame({"type": "message_start", "message": {**message, "stop_reason": None}})
    written += b"".join(map(named_frame, events))
    if stop is None:
        return written
    end = {
        "type": "message_delta",
        "delta": {"stop_reason": stop, "stop_sequence": None},
        "usage": {"output_tokens": 9},
    }
    return written + named_frame(end) + named_frame({"type": "message_stop"})


def opened(index: int, **block: Json) -> dict[str, Json]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def added(index: int, **delta: Json) -> dict[str, Json]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def closed(index: int) -> dict[str, Json]:
    return {"type": "content_block_stop", "index": index}


def responses(*events: Mapping[str, Json], output: list[Json] | None = None, status: str = "completed") -> bytes:
    """A Responses stream of these events between its usual beginning and end."""
    start = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m"}
    first = {"type": "response.created", "response": {**start, "status": "in_progress", "output": []}}
    last = {"type": f"response.{status}", "response": {**start, "status": status, "output": output or []}}
    return b"".join(map(named_frame, (first, *events, last)))


def gemini(*parts: list[Json], finish: str | None = "STOP", **more: Json) -> bytes:
    """A Gemini stream, one chunk for each list of parts; the last carries the finish reason."""
    chunks: list[dict[str, Json]] = [
        {"candidates": [{"content": {"role": "model", "parts": list(chunk)}, "index": 0}], **more} for chunk in parts
    ]
    if finish is not None:
        chunks[-1]["candidates"][0]["finishReason"] = finish
    return b"".join(map(data_frame, chunks))


def frames(stream: bytes) -> list[Json]:
    """The JSON of every frame that a client gets."""
    payloads = [
        line.removeprefix(b"data: ")
        for block in stream.split(b"\n\n")
        for line in block.split(b"\n")
        if b"data: " in line
    ]
    return [json.loads(payload) for payload in payloads if payload != b"[DONE]"]


def to(client: str, upstream: str, stream: bytes) -> list[Json]:
    """The frames that a client gets for this stream of an upstream."""
    return frames(relay(client, upstream, [stream]))


def anthropic_blocks(got: list[Json]) -> list[Json]:
    """Blocks as a strict Anthropic client assembles them: one open at a time, indices dense, no empty deltas."""
    blocks: list[Json] = []
    is_open = False
    for event in got:
        match event["type"]:
            case "content_block_start":
                assert not is_open, "a block opens inside another"
                assert event["index"] == len(blocks)
                is_open = True
                blocks.append({**event["content_block"], "pieces": []})
            case "content_block_delta":
                assert is_open
                assert event["index"] == len(blocks) - 1
                delta = event["delta"]
                text = next(value for key, value in delta.items() if key != "type")
                assert text != "" or delta["type"] == "input_json_delta", "an empty delta"
                blocks[-1]["pieces"].append(text)
            case "content_block_stop":
                assert is_open
                is_open = False
    assert not is_open
    return blocks


def anthropic_calls(got: list[Json]) -> list[tuple[str, Json]]:
    """Names and inputs of the calls, the inputs parsed: broken JSON raises."""
    return [
        (block["name"], json.loads("".join(block["pieces"]) or "{}"))
        for block in anthropic_blocks(got)
        if block["type"] == "tool_use"
    ]


def anthropic_stop(got: list[Json]) -> str:
    return str(next(event["delta"]["stop_reason"] for event in got if event["type"] == "message_delta"))


def chat_calls(got: list[Json]) -> list[dict[str, str]]:
    """Calls as the strictest Chat client assembles them: id, type and name once, arguments concatenated by index."""
    assembled: list[dict[str, str]] = []
    for chunk in got:
        for choice in chunk.get("choices", ()):
            for entry in choice["delta"].get("tool_calls", ()):
                if entry["index"] == len(assembled):
                    assembled.append({"id": entry["id"], "name": entry["function"]["name"], "arguments": ""})
                else:
                    assert entry["index"] == len(assembled) - 1, "calls come one after the other"
                    assert "id" not in entry
                    assert "name" not in entry["function"]
                assembled[-1]["arguments"] += entry["function"].get("arguments", "")
    return assembled


def ask(client: str, upstream: str, document: Mapping[str, Json], **more: Json) -> Json:
    """The upstream's request for this one of the client."""
    return asked(client, upstream, document, **more)[0]


def asked(client: str, upstream: str, document: Mapping[str, Json], **more: Json) -> tuple[Json, ExchangeCore]:
    exchange = ExchangeCore(client, upstream, **more)
    return form(upstream, "request").read(exchange.request(json.dumps(document).encode())), exchange


def answer(client: str, upstream: str, document: Mapping[str, Json]) -> Json:
    """The client's response for this one of the upstream."""
    return form(client, "response").read(ExchangeCore(client, upstream).response(json.dumps(document).encode()))
