"""Pitfalls of the history's shape: orphans, order, grouping, inline system text, images in results, empty content."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.exchanges import NAMES
from tests.pitfalls.wires import ask, asked
from toolglot.api import translate_request
from toolglot.dialects import find
from toolglot.ir import ToolResult

PNG = "iVBORw0KGgo="
TWICE = base64.b64encode(PNG.encode()).decode()
"""Warp has base64 text where its wire has bytes."""


def chat_call(call_id: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def chat_history(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}, *messages], **more}


def spoke(*calls: dict[str, Any], content: Any = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def told(call_id: str, content: Any = "done") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def blocks(encoded: dict[str, Any], kind: str) -> list[Any]:
    """The blocks of one type in an Anthropic request, in order."""
    return [
        block
        for message in encoded["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == kind
    ]


def test_a_call_that_was_interrupted_gets_a_result_that_says_so() -> None:
    """claude-code #6836 (150 reports): every API refuses a call without a result."""
    document = chat_history(spoke(chat_call("a"), chat_call("b")), told("b"), {"role": "user", "content": "Go on"})
    encoded = ask("openai_chat", "anthropic", document)
    results = blocks(encoded, "tool_result")
    assert [result["tool_use_id"] for result in results] == ["a", "b"]
    assert results[0]["is_error"] is True
    assert "unknown" in json.dumps(results[0])


RESULT_MARKS = {
    "openai_responses": '"function_call_output"',
    "anthropic": '"tool_result"',
    "gemini": '"functionResponse"',
    "warp": '"tool_call_result"',
    "ollama": '"role": "tool"',
}
"""What marks a result."""


@pytest.mark.parametrize("target", [name for name in NAMES if name != "openai_chat"])
def test_every_target_gets_a_result_for_every_call(target: str) -> None:
    """cc-switch PR #6044: an orphan call, for each target."""
    document = chat_history(spoke(chat_call("a"), chat_call("b")), told("b"), {"role": "user", "content": "Go on"})
    encoded = json.dumps(ask("openai_chat", target, document))
    if target in RESULT_MARKS:
        assert encoded.count(RESULT_MARKS[target]) == 2
    else:
        read = find(target).decode_request(encoded.encode())
        blocks = [block for message in read.messages for block in message.content]
        assert [block.call_id for block in blocks if isinstance(block, ToolResult)] == ["a", "b"]


@pytest.mark.parametrize("target", [name for name in NAMES if name != "openai_chat"])
def test_a_result_without_its_call_is_text_and_told(target: str) -> None:
    """opencodex PR #1912: clients that cut old turns off leave results whose calls are gone."""
    document = chat_history(told("gone", "18 degrees"), {"role": "user", "content": "Go on"})
    encoded, exchange = asked("openai_chat", target, document)
    text = json.dumps(encoded)
    assert "18 degrees" in text
    assert not any(mark in text for mark in RESULT_MARKS.values())
    assert exchange.receipt.losses


def test_results_stand_in_call_order_right_behind_their_batch() -> None:
    """openclaude PR #745: order = call order, after the whole batch, before anything else."""
    document = chat_history(
        spoke(chat_call("a"), chat_call("b")),
        {"role": "user", "content": "Meanwhile"},
        told("b", "second"),
        told("a", "first"),
    )
    encoded = ask("openai_chat", "anthropic", document)
    answers = encoded["messages"][2]["content"]
    assert [(block["type"], block.get("tool_use_id")) for block in answers[:2]] == [
        ("tool_result", "a"),
        ("tool_result", "b"),
    ]
    assert "Meanwhile" in json.dumps(answers[2:])


def test_gemini_gets_all_responses_of_a_batch_in_one_content() -> None:
    """eino-ext #571, bifrost #1387: as many functionResponse parts as calls, in one Content."""
    document = chat_history(spoke(chat_call("a"), chat_call("b", "g")), told("a", "1"), told("b", "2"))
    contents = ask("openai_chat", "gemini", document)["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user"]
    assert [part["functionResponse"]["name"] for part in contents[2]["parts"]] == ["f", "g"]
    assert [part["functionResponse"]["response"] for part in contents[2]["parts"]] == [{"output": "1"}, {"output": "2"}]


def test_an_image_of_a_result_is_nested_in_gemini_3() -> None:
    """gemini-cli #16135: images beside functionResponse parts are refused; Gemini 3 has `parts` inside."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    document = anthropic_result([{"type": "text", "text": "see"}, image])
    contents = ask("anthropic", "gemini", document, model="gemini-3-pro")["contents"]
    response = contents[2]["parts"][0]["functionResponse"]
    assert response["parts"] == [{"inlineData": {"mimeType": "image/png", "data": PNG}}]


def test_adjacent_function_calls_of_responses_are_one_assistant_message() -> None:
    """litellm PR #21154: parallel `function_call` items became separate assistant messages, which APIs refuse."""
    calls = [{"type": "function_call", "call_id": c, "name": "f", "arguments": "{}"} for c in "ab"]
    outputs = [{"type": "function_call_output", "call_id": c, "output": c} for c in "ab"]
    document = {"model": "m", "max_output_tokens": 100, "input": [{"role": "user", "content": "Hi"}, *calls, *outputs]}
    messages = ask("openai_responses", "openai_chat", document)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool"]
    assert [call["id"] for call in messages[1]["tool_calls"]] == ["a", "b"]
    assert len(ask("openai_responses", "anthropic", document)["messages"]) == 3


def test_text_between_calls_keeps_its_place() -> None:
    """litellm PR #22599: a message between two calls keeps the order."""
    document = {
        "model": "m",
        "max_output_tokens": 100,
        "input": [
            {"role": "user", "content": "Hi"},
            {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
            {"role": "assistant", "content": [{"type": "output_text", "text": "mid"}]},
            {"type": "function_call", "call_id": "b", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "a", "output": "1"},
            {"type": "function_call_output", "call_id": "b", "output": "2"},
        ],
    }
    turn = ask("openai_responses", "anthropic", document)["messages"][1]["content"]
    assert [block["type"] for block in turn] == ["tool_use", "text", "tool_use"]


def test_text_stays_in_front_of_its_calls() -> None:
    """litellm: Messages -> Responses put the assistant's text after its calls."""
    document = {
        "model": "m",
        "max_tokens": 100,
        "messages": [
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "pre"}, {"type": "tool_use", "id": "a", "name": "f", "input": {}}],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "1"}]},
        ],
    }
    items = ask("anthropic", "openai_responses", document)["input"]
    assert [item.get("type", "message") for item in items] == [
        "message",
        "message",
        "function_call",
        "function_call_output",
    ]


@pytest.mark.parametrize("target", [name for name in NAMES if name != "anthropic"])
def test_neighbouring_texts_are_not_glued(target: str) -> None:
    """litellm: `pre` and `mid` became "premid", and Gemini's system parts "SYS-ASYS-B"."""
    document = {
        "model": "m",
        "max_tokens": 100,
        "system": [{"type": "text", "text": "SYS-A"}, {"type": "text", "text": "SYS-B"}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "pre"}, {"type": "text", "text": "mid"}]},
        ],
    }
    encoded = json.dumps(ask("anthropic", target, document))
    assert "premid" not in encoded
    assert "SYS-ASYS-B" not in encoded
    assert encoded.index("SYS-A") < encoded.index("SYS-B")


INLINE = {
    "model": "m",
    "max_tokens": 100,
    "messages": [
        {"role": "system", "content": "lead"},
        {"role": "user", "content": "Hi"},
        {"role": "system", "content": "inline"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "So?"},
    ],
}


def test_inline_system_text_stays_where_it_was() -> None:
    """CLIProxyAPI #3625, nyro #217: hoisting it breaks the prompt cache; dropping it breaks the agent."""
    old = ask("openai_chat", "anthropic", INLINE, model="claude-sonnet-4-5")
    assert old["system"] == "lead"
    assert {message["role"] for message in old["messages"]} == {"user", "assistant"}
    assert "inline" in json.dumps(old["messages"][0])
    gemini = ask("openai_chat", "gemini", INLINE)
    assert json.dumps(gemini["systemInstruction"]).count("inline") == 0
    assert "inline" in json.dumps(gemini["contents"][0])


def test_the_first_message_to_claude_is_the_users() -> None:
    """gproxy #209: a conversation that begins with the assistant is refused."""
    document = {"model": "m", "max_tokens": 9, "messages": [{"role": "assistant", "content": "Hello"}]}
    assert ask("openai_chat", "anthropic", document)["messages"][0]["role"] == "user"


def anthropic_result(content: Any, **more: Any) -> dict[str, Any]:
    return {
        "model": "m",
        "max_tokens": 100,
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", **more, "content": content}]},
        ],
    }


@pytest.mark.parametrize("target", [name for name in NAMES if name != "anthropic"])
def test_an_image_in_a_result_survives_and_is_never_text(target: str) -> None:
    """litellm #23712, llama.cpp PR #22536: dropped, or base64 sent as text until the context overflows."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    encoded = ask("anthropic", target, anthropic_result([{"type": "text", "text": "see"}, image]))
    strings = list(_strings(encoded))
    carriers = [text for text in strings if PNG in text or TWICE in text]
    assert carriers in ([PNG], [f"data:image/png;base64,{PNG}"], [TWICE])


def _strings(value: Any) -> Any:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def test_a_chat_upstream_gets_the_image_right_behind_the_results() -> None:
    """raine PR #59: a tool message of Chat takes text only; the image follows in a user message."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    messages = ask("anthropic", "openai_chat", anthropic_result([image]))["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "user"]
    assert messages[2]["content"]
    assert messages[3]["content"][-1]["image_url"]["url"].endswith(PNG)


@pytest.mark.parametrize("target", [name for name in NAMES if name != "anthropic"])
def test_the_error_of_a_result_is_still_an_error(target: str) -> None:
    """Only Anthropic and Gemini have a field for it; elsewhere the text says so."""
    encoded = json.dumps(ask("anthropic", target, anthropic_result("offline", is_error=True)))
    assert "rror" in encoded
    assert "offline" in encoded


@pytest.mark.parametrize("content", [None, "", []], ids=["null", "empty", "no parts"])
@pytest.mark.parametrize("target", NAMES)
def test_no_content_beside_calls_is_no_content(target: str, content: Any) -> None:
    """Portkey #995: `content: null` beside tool_calls crashed gateways, or became an empty text block."""
    encoded = ask("openai_chat", target, chat_history(spoke(chat_call("a"), content=content), told("a")))
    if target == "anthropic":
        assert [block["type"] for block in encoded["messages"][1]["content"]] == ["tool_use"]
    if target == "gemini":
        assert [next(iter(part)) for part in encoded["contents"][1]["parts"]] == ["functionCall"]


def test_no_empty_text_block_reaches_claude() -> None:
    """hermes #55092: "text content blocks must be non-empty"."""
    document = chat_history(
        {"role": "assistant", "content": ""},
        {"role": "user", "content": [{"type": "text", "text": ""}, {"type": "text", "text": "So?"}]},
    )
    encoded = ask("openai_chat", "anthropic", document)
    assert not [text for text in blocks(encoded, "text") if not text["text"]]
    assert all(message["content"] for message in encoded["messages"])


@pytest.mark.parametrize("target", [name for name in NAMES if name != "anthropic"])
def test_a_result_without_content_is_an_empty_result(target: str) -> None:
    """claude-code #62396: `tool_result` without `content` is legal, and must answer its call all the same."""
    document = anthropic_result(None)
    del document["messages"][2]["content"][0]["content"]
    encoded = json.dumps(ask("anthropic", target, document))
    assert {**RESULT_MARKS, "openai_chat": '"tool_call_id": "a"'}.get(target, '"a"') in encoded


@pytest.mark.parametrize(
    ("target", "place"),
    [("openai_chat", "messages"), ("openai_responses", "input"), ("anthropic", "messages")],
)
def test_the_parts_of_a_streamed_answer_of_gemini_are_one_text(target: str, place: str) -> None:
    """Clients collect the parts of all chunks in one content. Some servers join parts with line breaks."""
    pieces = [
        {"text": "Hel"},
        {"text": "lo "},
        {"text": " "},
        {"text": "you"},
        {"text": "", "thoughtSignature": "c2ln"},
    ]
    contents = [
        {"role": "user", "parts": [{"text": "Hi"}]},
        {"role": "model", "parts": pieces},
        {"role": "user", "parts": [{"text": "Bye"}]},
    ]
    sent = translate_request({"contents": contents}, "gemini", target, model="m", stream=False).json()[place]
    assert [message["content"] for message in sent if message["role"] == "assistant"] == ["Hello  you"]


@pytest.mark.parametrize("target", [name for name in NAMES if name != "gemini"])
def test_all_results_of_a_gemini_call_that_goes_on_reach_the_model(target: str) -> None:
    call = {"functionCall": {"id": "c1", "name": "watch", "args": {}}}
    results = [
        {"functionResponse": {"id": "c1", "name": "watch", "response": {"output": text}, **more}}
        for text, more in (("half of it", {"willContinue": True}), ("the rest", {"willContinue": False}))
    ]
    contents = [
        {"role": "user", "parts": [{"text": "Go"}]},
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": results},
    ]
    sent = json.dumps(ask("gemini", target, {"contents": contents}))
    assert sent.index("half of it") < sent.index("the rest")
    assert sent.count("c1") == 2 or target == "ollama"
