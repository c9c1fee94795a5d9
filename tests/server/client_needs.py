"""What each dialect's clients need of a stream, read from its bytes without toolglot's help.

Each need is a row of what real clients do when something is left out: whoever leaves it out breaks at least one of
them. `needs(dialect, body)` asserts them all and returns the calls, by name, with their arguments.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Event = dict[str, Any]
Calls = list[tuple[str, Any]]


def frames(body: bytes) -> list[tuple[str, str]]:
    """(event, data) of every frame. Comments, which some clients choke on, are taken for a fault."""
    assert b"\r" not in body
    assert body.endswith(b"\n\n")
    found = []
    for frame in body.decode().removesuffix("\n\n").split("\n\n"):
        event, data = "", ""
        for line in frame.split("\n"):
            name, _, value = line.partition(": ")
            assert name in ("event", "data"), line
            event, data = (value, data) if name == "event" else (event, value)
        found.append((event, data))
    return found


def anthropic(body: bytes) -> Calls:
    events: list[Event] = []
    for name, data in frames(body):
        event = json.loads(data)
        assert event["type"] == name  # noevent: the official SDKs dispatch on the `event:` line
        events.append(event)
    start, *between, delta, stop = [event for event in events if event["type"] != "ping"]
    # nomsgstart, nousage
    assert start["type"] == "message_start"
    message = start["message"]
    assert {key: message[key] for key in ("type", "role", "content")} == {
        "type": "message",
        "role": "assistant",
        "content": [],
    }
    assert message["id"]
    assert message["model"]
    assert isinstance(message["usage"]["input_tokens"], int)
    assert isinstance(message["usage"]["output_tokens"], int)
    # nomsgdelta, nodeltausage
    assert delta["type"] == "message_delta"
    assert delta["delta"]["stop_reason"] in ("end_turn", "tool_use")
    assert isinstance(delta["usage"]["output_tokens"], int)
    assert stop == {"type": "message_stop"}  # nomsgstop
    calls = [_anthropic_call(block) for block in _anthropic_blocks(between) if _block(block)["type"] == "tool_use"]
    assert (delta["delta"]["stop_reason"] == "tool_use") == bool(calls)
    return calls


def _anthropic_blocks(events: list[Event]) -> list[list[Event]]:
    """The events of each block, one block after the other, each of them closed (noblockstop)."""
    blocks: list[list[Event]] = []
    for event in events:
        if event["type"] == "content_block_start":
            assert not blocks or blocks[-1][-1]["type"] == "content_block_stop"
            blocks.append([])
        assert event["index"] == len(blocks) - 1
        blocks[-1].append(event)
    assert all(block[-1]["type"] == "content_block_stop" for block in blocks)
    return blocks


def _block(block: list[Event]) -> Event:
    content: Event = block[0]["content_block"]
    return content


def _anthropic_call(block: list[Event]) -> tuple[str, Any]:
    content, deltas = _block(block), [event["delta"] for event in block[1:-1]]
    assert content["id"]
    assert content["input"] == {}  # inputatstart: arguments that stand here are lost on Claude Code
    assert all(delta["type"] == "input_json_delta" for delta in deltas)
    assert deltas
    return content["name"], json.loads("".join(delta["partial_json"] for delta in deltas) or "{}")


def openai_chat(body: bytes) -> Calls:
    found = frames(body)
    assert {event for event, _ in found} == {""}
    assert found[-1][1] == "[DONE]"
    chunks = [json.loads(data) for _, data in found[:-1]]
    for chunk in chunks:
        assert chunk["object"] == "chat.completion.chunk"
        assert (chunk["id"], chunk["created"], chunk["model"]) == tuple(chunks[0][key] for key in _SAME)
        assert isinstance(chunk["created"], int)
        assert chunk["id"]
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    assert choices[0]["delta"]["role"] == "assistant"  # norole
    finishes = [choice["finish_reason"] for choice in choices if choice["finish_reason"] is not None]
    assert len(finishes) == 1  # nofinish
    calls: dict[int, tuple[str, list[str]]] = {}
    for choice in choices:
        assert choice["index"] == 0
        for delta in choice["delta"].get("tool_calls", ()):
            index = delta["index"]  # noindex
            if index not in calls:
                assert index == len(calls)
                assert delta["id"]  # nocallid
                assert delta["type"] == "function"  # notype
                calls[index] = (delta["function"]["name"], [])
            calls[index][1].append(delta["function"].get("arguments", ""))
    assert finishes == ["tool_calls" if calls else "stop"]
    return [(name, json.loads("".join(arguments))) for name, arguments in calls.values()]


_SAME = ("id", "created", "model")


def openai_responses(body: bytes) -> Calls:
    events: list[Event] = []
    for number, (name, data) in enumerate(frames(body)):
        event = json.loads(data)
        assert event["type"] == name
        assert event["sequence_number"] == number
        events.append(event)
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]  # nocreated
    last = events[-1]
    assert last["type"] == "response.completed"  # nocompleted
    for event in (events[0], last):  # minimal_resp
        response = event["response"]
        assert response["id"] == last["response"]["id"]
        assert response["object"] == "response"
        assert isinstance(response["created_at"], int)
        assert response["model"]
    output = last["response"]["output"]
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == output  # noitemdone, completed_empty
    for index, item in enumerate(output):
        _responses_item(item, [event for event in events if event.get("output_index") == index])
    return [(item["name"], json.loads(item["arguments"])) for item in output if item["type"] == "function_call"]


def _responses_item(item: Event, events: list[Event]) -> None:
    added, *between, done = events
    assert added["type"] == "response.output_item.added"  # noadded
    assert done["type"] == "response.output_item.done"
    assert item["id"]  # noitemid
    assert added["item"]["id"] == item["id"]
    assert all(event["item_id"] == item["id"] for event in between)
    if item["type"] == "function_call":
        kind, text = "response.function_call_arguments", item["arguments"]
        assert item["call_id"]
        assert (added["item"]["call_id"], added["item"]["name"]) == (item["call_id"], item["name"])
        assert added["item"]["arguments"] == ""
    else:
        kind, text = "response.output_text", item["content"][0]["text"]
    assert "".join(event["delta"] for event in between if event["type"] == f"{kind}.delta") == text  # nodeltas
    assert any(event["type"] == f"{kind}.done" for event in between)


def gemini(body: bytes) -> Calls:
    assert all(line == b"" or line.startswith(b"data: {") for line in body.split(b"\n"))  # comments, nospace
    documents = [json.loads(data) for _, data in frames(body)]
    candidates = [candidate for document in documents for candidate in document["candidates"]]
    assert [candidate["finishReason"] for candidate in candidates if "finishReason" in candidate] == ["STOP"]
    assert "finishReason" in candidates[-1]  # nofinish
    assert documents[-1].get("usageMetadata", {}).get("totalTokenCount", 0) >= 0  # clients do without
    assert all(document["modelVersion"] for document in documents)
    parts = [part for candidate in candidates for part in candidate["content"]["parts"]]
    assert all(candidate["content"]["parts"] for candidate in candidates)
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    return [(call["name"], call.get("args", {})) for call in calls]


def ollama(body: bytes) -> Calls:
    lines = [json.loads(line) for line in body.split(b"\n")[:-1]]
    assert body.endswith(b"\n")
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert lines[-1]["done_reason"] == "stop"
    assert all(line["model"] and line["created_at"] for line in lines)
    return [call for line in lines for call in _ollama_calls(line)]


def _ollama_calls(line: Event) -> Calls:
    message = line["message"]
    assert (message["role"], isinstance(message["content"], str)) == ("assistant", True)
    calls = message.get("tool_calls", [])
    return [(call["function"]["name"], call["function"]["arguments"]) for call in calls]


NEEDS: dict[str, Callable[[bytes], Calls]] = {
    "anthropic": anthropic,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "gemini": gemini,
    "ollama": ollama,
}


def needs(dialect: str, body: bytes) -> Calls:
    return NEEDS[dialect](body)


# Whole answers.


def _whole_anthropic(answer: Event) -> Calls:
    assert (answer["type"], answer["role"]) == ("message", "assistant")
    assert answer["id"]
    assert answer["model"]
    assert isinstance(answer["usage"]["input_tokens"], int)
    assert isinstance(answer["usage"]["output_tokens"], int)
    calls = [block for block in answer["content"] if block["type"] == "tool_use"]
    assert answer["stop_reason"] == ("tool_use" if calls else "end_turn")
    assert "stop_sequence" in answer
    assert len({call["id"] for call in calls}) == len(calls)
    return [(call["name"], call["input"]) for call in calls]


def _whole_chat(answer: Event) -> Calls:
    assert answer["object"] == "chat.completion"
    assert answer["id"]
    assert answer["model"]
    assert isinstance(answer["created"], int)
    (choice,) = answer["choices"]
    message = choice["message"]
    assert (choice["index"], message["role"]) == (0, "assistant")
    assert "content" in message
    calls = message.get("tool_calls") or []
    assert choice["finish_reason"] == ("tool_calls" if calls else "stop")
    assert all(call["type"] == "function" for call in calls)
    assert len({call["id"] for call in calls}) == len(calls)
    return [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]


def _whole_responses(answer: Event) -> Calls:
    assert (answer["object"], answer["status"]) == ("response", "completed")
    assert answer["id"]
    assert answer["model"]
    assert isinstance(answer["created_at"], int)
    assert all(item["id"] for item in answer["output"])
    calls = [item for item in answer["output"] if item["type"] == "function_call"]
    assert len({call["call_id"] for call in calls}) == len(calls)
    return [(call["name"], json.loads(call["arguments"])) for call in calls]


def _whole_gemini(answer: Event) -> Calls:
    (candidate,) = answer["candidates"]
    assert candidate["finishReason"] == "STOP"
    assert candidate["content"]["role"] == "model"
    assert answer["modelVersion"]
    calls = [part["functionCall"] for part in candidate["content"]["parts"] if "functionCall" in part]
    return [(call["name"], call.get("args", {})) for call in calls]


def _whole_ollama(answer: Event) -> Calls:
    assert (answer["done"], answer["done_reason"]) == (True, "stop")
    assert answer["model"]
    assert answer["created_at"]
    return _ollama_calls(answer)


WHOLE_NEEDS: dict[str, Callable[[Event], Calls]] = {
    "anthropic": _whole_anthropic,
    "openai_chat": _whole_chat,
    "openai_responses": _whole_responses,
    "gemini": _whole_gemini,
    "ollama": _whole_ollama,
}


def whole_needs(dialect: str, answer: Event) -> Calls:
    return WHOLE_NEEDS[dialect](answer)
