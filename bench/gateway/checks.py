"""Whether a gateway's answers say what the upstream said: one plain and one streamed, read as a client would."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from bench.gateway.answers import ARGUMENTS, INPUT_TOKENS, OUTPUT_TOKENS, TEXT_CHUNKS, TOOL, Dialect
from bench.gateway.cases import Route
from bench.gateway.peers.record import HEADERS
from bench.gateway.requests import NUMBER, body, model_name
from bench.gateway.running import Gateway

ASKED = 42
MARK = re.compile(r"T\d{19}N(\d{10})")
PATIENCE = 30.0


class Answer(NamedTuple):
    """What a client understands of an answer."""

    text: str
    calls: list[tuple[str, str]]
    """Names and arguments."""
    stop: str | None
    usage: tuple[int | None, int | None]
    others: Sequence[str] = ()
    """Kinds of parts that were not in the upstream's answer."""


STOPS: dict[Dialect, str] = {
    "anthropic": "tool_use",
    "openai_chat": "tool_calls",
    "openai_responses": "completed",
    "gemini": "STOP",
}


class UselessError(Exception):
    """There is no answer that could be measured."""


def faults(gateway: Gateway, route: Route) -> list[str]:
    """What is wrong with its answers; nothing, if all is well."""
    found: list[str] = []
    for streamed in (False, True):
        kind = "stream" if streamed else "plain"
        try:
            found += [f"{kind}: {fault}" for fault in _faults_of_answer(gateway, route, streamed=streamed)]
        except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError, AttributeError) as problem:
            raise UselessError(f"{kind}: cannot be read: {problem!r}") from problem
    return found


def _faults_of_answer(gateway: Gateway, route: Route, *, streamed: bool) -> list[str]:
    client = gateway.peer.client(route)
    status, content = ask(gateway, route, streamed=streamed)
    if status != 200:
        raise UselessError(f"status {status}: {content[:300].decode('utf-8', 'replace')}")
    answer = STREAM_READERS[client](list(events(content))) if streamed else READERS[client](json.loads(content))
    return list(differences(answer, client, route.upstream, streamed=streamed))


def ask(gateway: Gateway, route: Route, *, streamed: bool) -> tuple[int, bytes]:
    peer, place = gateway.peer, gateway.place
    client = peer.client(route)
    model = peer.model(route, model_name(route.upstream))
    request = body(client, "small", model=model, streamed=streamed).replace(NUMBER.encode(), b"N%010d" % ASKED)
    headers = {"content-type": "application/json", **HEADERS[client], **peer.headers(route, place)}
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=PATIENCE)
    try:
        connection.request("POST", peer.path(client, model, streamed=streamed), request, headers)
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def differences(answer: Answer, client: Dialect, upstream: Dialect, *, streamed: bool) -> Iterator[str]:
    numbers = [int(number) for number in MARK.findall(answer.text)]
    wanted = TEXT_CHUNKS if streamed else 1
    if numbers != [ASKED] * wanted:
        yield f"{numbers.count(ASKED)} pieces of text instead of {wanted}"
    if [name for name, _ in answer.calls] != [TOOL] or json.loads(answer.calls[0][1] or "null") != ARGUMENTS:
        yield f"calls {answer.calls!r}"
    if answer.stop != STOPS[client]:
        yield f"ends with {answer.stop!r} instead of {STOPS[client]!r}"
    if answer.usage != (INPUT_TOKENS[upstream], OUTPUT_TOKENS):
        asked = next((name for name, count in INPUT_TOKENS.items() if count == answer.usage[0]), None)
        yield f"usage {answer.usage}" + (f": it asked by {asked}" if asked not in (None, upstream) else "")
    if answer.others:
        yield f"parts that the upstream did not send: {', '.join(sorted(set(answer.others)))}"


def _usage(value: dict[str, Any] | None, names: tuple[str, str]) -> tuple[int | None, int | None]:
    known = value or {}
    return known.get(names[0]), known.get(names[1])


_TOKENS = ("input_tokens", "output_tokens")
_CHAT_TOKENS = ("prompt_tokens", "completion_tokens")
_GEMINI_TOKENS = ("promptTokenCount", "candidatesTokenCount")


def _read_anthropic(answer: dict[str, Any]) -> Answer:
    parts = answer["content"]
    return Answer(
        "".join(part["text"] for part in parts if part["type"] == "text"),
        [(part["name"], json.dumps(part["input"])) for part in parts if part["type"] == "tool_use"],
        answer["stop_reason"],
        _usage(answer.get("usage"), _TOKENS),
        [part["type"] for part in parts if part["type"] not in ("text", "tool_use")],
    )


def _read_chat(answer: dict[str, Any]) -> Answer:
    choice = answer["choices"][0]
    calls = [call["function"] for call in choice["message"].get("tool_calls") or ()]
    return Answer(
        choice["message"].get("content") or "",
        [(call["name"], call["arguments"]) for call in calls],
        choice["finish_reason"],
        _usage(answer.get("usage"), _CHAT_TOKENS),
    )


def _read_responses(answer: dict[str, Any]) -> Answer:
    items = answer["output"]
    texts = [part["text"] for item in items if item["type"] == "message" for part in item["content"]]
    return Answer(
        "".join(texts),
        [(item["name"], item["arguments"]) for item in items if item["type"] == "function_call"],
        answer["status"],
        _usage(answer.get("usage"), _TOKENS),
        [item["type"] for item in items if item["type"] not in ("message", "function_call")],
    )


def _read_gemini(answer: dict[str, Any]) -> Answer:
    return _stream_gemini([answer])


READERS: dict[Dialect, Callable[[dict[str, Any]], Answer]] = {
    "anthropic": _read_anthropic,
    "openai_chat": _read_chat,
    "openai_responses": _read_responses,
    "gemini": _read_gemini,
}


def events(content: bytes) -> Iterator[dict[str, Any]]:
    for line in content.decode().splitlines():
        if line.startswith("data:") and (payload := line[5:].strip()) != "[DONE]":
            yield json.loads(payload)


def _stream_anthropic(events: list[dict[str, Any]]) -> Answer:
    blocks: dict[int, dict[str, Any]] = {}
    said: dict[int, str] = {}
    usage: dict[str, Any] = {}
    stop = None
    for event in events:
        delta = event.get("delta", {})
        usage |= event.get("message", event).get("usage") or {}
        if event["type"] == "content_block_start":
            blocks[event["index"]] = event["content_block"]
        elif event["type"] == "content_block_delta":
            piece = delta.get("text", "") + delta.get("partial_json", "")
            said[event["index"]] = said.get(event["index"], "") + piece
        elif event["type"] == "message_delta":
            stop = delta.get("stop_reason", stop)
    kinds = {index: block["type"] for index, block in blocks.items()}
    return Answer(
        "".join(said.get(index, "") for index, kind in kinds.items() if kind == "text"),
        [(blocks[index]["name"], said.get(index, "")) for index, kind in kinds.items() if kind == "tool_use"],
        stop,
        _usage(usage, _TOKENS),
        [kind for kind in kinds.values() if kind not in ("text", "tool_use")],
    )


def _stream_chat(events: list[dict[str, Any]]) -> Answer:
    text, stop, usage = "", None, None
    calls: dict[int, list[str]] = {}
    for event in events:
        usage = event.get("usage") or usage
        for choice in event.get("choices", ()):
            delta = choice.get("delta") or {}
            text += delta.get("content") or ""
            stop = choice.get("finish_reason") or stop
            for call in delta.get("tool_calls") or ():
                known = calls.setdefault(call["index"], ["", ""])
                known[0] = call["function"].get("name") or known[0]
                known[1] += call["function"].get("arguments") or ""
    return Answer(text, [(name, given) for name, given in calls.values()], stop, _usage(usage, _CHAT_TOKENS))


def _stream_responses(events: list[dict[str, Any]]) -> Answer:
    *_, last = (event["response"] for event in events if event["type"] == "response.completed")
    text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    return _read_responses(last)._replace(text=text)


def _stream_gemini(events: list[dict[str, Any]]) -> Answer:
    candidates = [candidate for event in events for candidate in event.get("candidates", ())]
    parts = [part for candidate in candidates for part in candidate.get("content", {}).get("parts", ())]
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    usages = [event["usageMetadata"] for event in events if event.get("usageMetadata")]
    return Answer(
        "".join(part.get("text", "") for part in parts),
        [(call["name"], json.dumps(call["args"])) for call in calls],
        next((candidate["finishReason"] for candidate in candidates if candidate.get("finishReason")), None),
        _usage(usages[-1] if usages else None, _GEMINI_TOKENS),
        [name for part in parts for name in part if name not in ("text", "functionCall", "thoughtSignature")],
    )


STREAM_READERS: dict[Dialect, Callable[[list[dict[str, Any]]], Answer]] = {
    "anthropic": _stream_anthropic,
    "openai_chat": _stream_chat,
    "openai_responses": _stream_responses,
    "gemini": _stream_gemini,
}
