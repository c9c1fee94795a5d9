"""Blocks that only one dialect has reach the others as what they say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot import Exchange

TARGETS = ("openai_chat", "openai_responses", "gemini")
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aW1hZ2U="}}
SEARCH_RESULT = {
    "type": "search_result",
    "source": "https://example.com/wiki",
    "title": "The wiki",
    "content": [{"type": "text", "text": "FIRST"}, {"type": "text", "text": "SECOND"}],
    "citations": {"enabled": True},
}
DOCUMENT = {
    "type": "document",
    "title": "The manual",
    "context": "ABOUT",
    "source": {"type": "content", "content": [{"type": "text", "text": "FIRST"}, IMAGE]},
}
PLAIN = {
    "type": "document",
    "title": "The manual",
    "context": "ABOUT",
    "source": {"type": "text", "media_type": "text/plain", "data": "FIRST"},
}


def in_user_turn(block: dict[str, Any]) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": [block]}]}


def in_tool_result(block: dict[str, Any]) -> dict[str, Any]:
    call = {"type": "tool_use", "id": "call_1", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "call_1", "content": [block]}
    return {
        "model": "m",
        "max_tokens": 99,
        "messages": [
            {"role": "user", "content": "Look it up."},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ],
        "tools": [{"name": "look", "input_schema": {"type": "object"}}],
    }


def sent(source: str, target: str, body: dict[str, Any]) -> tuple[str, list[str]]:
    """What the upstream is sent, with plain text that travels as Base64 made readable, and the receipt."""
    exchange = Exchange(source, target)
    encoded = exchange.request(body, model="m" if source == "gemini" else None).decode()
    return encoded.replace("RklSU1Q=", "FIRST"), [str(line) for line in exchange.receipt]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("place", [in_user_turn, in_tool_result])
@pytest.mark.parametrize(
    ("block", "words"),
    [
        (SEARCH_RESULT, ("The wiki", "https://example.com/wiki", "FIRST", "SECOND")),
        (DOCUMENT, ("The manual", "ABOUT", "FIRST", "aW1hZ2U=")),
        (PLAIN, ("The manual", "ABOUT", "FIRST")),
    ],
)
def test_the_text_of_a_messages_block_reaches_the_model(
    target: str, place: Any, block: dict[str, Any], words: tuple[str, ...]
) -> None:
    encoded, receipt = sent("anthropic", target, place(block))
    assert [word for word in words if word not in encoded] == []
    assert any(block["type"] in line or "context" in line for line in receipt)


@pytest.mark.parametrize("target", TARGETS)
def test_citations_that_a_search_result_wants_are_reported(target: str) -> None:
    _, receipt = sent("anthropic", target, in_tool_result(SEARCH_RESULT))
    assert f"loss: messages[2].content[0].content[0].citations: {target} has no known equivalent" in receipt


def test_an_unknown_member_in_the_source_of_a_document_is_reported() -> None:
    document = {**DOCUMENT, "source": {**DOCUMENT["source"], "page_range": "1-2"}}  # type: ignore[dict-item]
    _, receipt = sent("anthropic", "openai_chat", in_user_turn(document))
    assert any(line.startswith("note: messages[0].content[0].source: data next to") for line in receipt)


def test_a_fetched_page_without_a_type_is_still_read() -> None:
    page = {key: value for key, value in DOCUMENT.items() if key != "type"}
    fetched = {"type": "web_fetch_result", "url": "https://example.com/page", "content": page}
    block = {"type": "web_fetch_tool_result", "tool_use_id": "s1", "content": fetched}
    encoded, _ = sent("anthropic", "openai_chat", in_user_turn(block))
    assert "ABOUT" in encoded
    assert "FIRST" in encoded


@pytest.mark.parametrize(("item_id", "is_call"), [({"id": 5, "call_id": "c"}, True), ({"id": 5}, False)])
def test_an_item_id_of_another_type_matters_only_where_it_names_the_call(item_id: Any, is_call: bool) -> None:
    item = {"type": "shell_call", "action": {"commands": ["ls"]}, **item_id}
    encoded, _ = sent(
        "openai_responses", "openai_chat", {"model": "m", "input": [{"role": "user", "content": "x"}, item]}
    )
    assert ("tool_calls" in encoded) == is_call


@pytest.mark.parametrize("block", [SEARCH_RESULT, DOCUMENT, PLAIN])
def test_messages_itself_gets_the_block_as_it_is(block: dict[str, Any]) -> None:
    exchange = Exchange("anthropic", "anthropic", verbatim=False)
    written = json.loads(exchange.request(in_tool_result(block)))
    assert written["messages"][2]["content"][0]["content"] == [block]
    assert not exchange.receipt


HOSTED: list[tuple[dict[str, Any], str]] = [
    ({"type": "server_tool_use", "id": "s1", "name": "bash_code_execution", "input": {"command": "ls"}}, "ls"),
    (
        {
            "type": "bash_code_execution_tool_result",
            "tool_use_id": "s1",
            "content": {"type": "bash_code_execution_result", "stdout": "FIRST", "stderr": "", "return_code": 0},
        },
        "FIRST",
    ),
    (
        {
            "type": "web_fetch_tool_result",
            "tool_use_id": "s1",
            "content": {"type": "web_fetch_result", "url": "https://example.com/page", "content": PLAIN},
        },
        "https://example.com/page",
    ),
    ({"type": "mcp_tool_result", "tool_use_id": "s1", "content": [{"type": "text", "text": "FIRST"}]}, "FIRST"),
    ({"type": "compaction", "content": "FIRST"}, "FIRST"),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("block", "word"), HOSTED)
def test_what_a_hosted_tool_said_stays_in_the_assistants_turn(target: str, block: dict[str, Any], word: str) -> None:
    body = {
        "model": "m",
        "max_tokens": 99,
        "messages": [
            {"role": "user", "content": "Go."},
            {"role": "assistant", "content": [block]},
            {"role": "user", "content": "And?"},
        ],
    }
    encoded, receipt = sent("anthropic", target, body)
    assert word in encoded
    assert f"note: messages[1].content[0]: {block['type']}: only anthropic has it; it is sent as text" in receipt


def test_what_a_search_found_is_told_without_its_encrypted_part() -> None:
    found = {"type": "web_search_result", "url": "https://example.com", "title": "T", "encrypted_content": "c2VjcmV0"}
    block = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [found]}
    body = {"model": "m", "max_tokens": 99, "messages": [{"role": "assistant", "content": [block]}]}
    encoded, receipt = sent("anthropic", "openai_chat", body)
    assert "https://example.com" in encoded
    assert "c2VjcmV0" not in encoded
    assert any("encrypted_content" in line and line.startswith("loss") for line in receipt)


CLIENT_RUN: list[tuple[dict[str, Any], dict[str, Any], str, str, str]] = [
    (
        {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls -l"]}, "status": "completed"},
        {
            "type": "shell_call_output",
            "call_id": "c1",
            "output": [{"stdout": "OUT", "stderr": "ERR", "outcome": {"type": "exit", "exit_code": 2}}],
        },
        "shell",
        '{"commands":["ls -l"]}',
        "OUT\nstderr:\nERR\nexit code: 2",
    ),
    (
        {
            "type": "local_shell_call",
            "id": "lsh_1",
            "call_id": "c1",
            "action": {"type": "exec", "command": ["ls"], "env": {}},
            "status": "completed",
        },
        {"type": "local_shell_call_output", "id": "c1", "output": "OUT"},
        "local_shell",
        '{"type":"exec","command":["ls"],"env":{}}',
        "OUT",
    ),
    (
        {
            "type": "local_shell_call",
            "id": "lsh_1",
            "call_id": "c1",
            "action": {"type": "exec", "command": ["ls"], "env": {}},
            "status": "completed",
        },
        {"type": "local_shell_call_output", "id": "lsh_1", "output": "OUT"},
        "local_shell",
        '{"type":"exec","command":["ls"],"env":{}}',
        "OUT",
    ),
    (
        {
            "type": "apply_patch_call",
            "call_id": "c1",
            "status": "completed",
            "operation": {"type": "update_file", "path": "a.py", "diff": "+x"},
        },
        {"type": "apply_patch_call_output", "call_id": "c1", "status": "completed", "output": "OUT"},
        "apply_patch",
        '{"type":"update_file","path":"a.py","diff":"+x"}',
        "OUT",
    ),
]


@pytest.mark.parametrize(("call", "output", "name", "arguments", "text"), CLIENT_RUN)
def test_a_call_that_the_client_ran_is_a_call_with_its_result(
    call: dict[str, Any], output: dict[str, Any], name: str, arguments: str, text: str
) -> None:
    body = {"model": "m", "input": [{"role": "user", "content": "Go."}, call, output]}
    chat, receipt = sent("openai_responses", "openai_chat", body)
    _, assistant, tool = json.loads(chat)["messages"]
    assert assistant["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}
    ]
    assert (tool["tool_call_id"], tool["content"]) == ("c1", text)
    assert f"note: messages[1].content[0]: {call['type']}: only openai_responses has it; it is sent as a tool call" in (
        receipt
    )
    messages = json.loads(sent("openai_responses", "anthropic", body)[0])["messages"]
    use, result = messages[1]["content"][0], messages[2]["content"][0]
    assert (use["type"], use["name"], use["input"]) == ("tool_use", name, json.loads(arguments))
    assert (result["tool_use_id"], result["content"]) == ("c1", text)


def test_a_patch_that_failed_is_an_error() -> None:
    call, output = CLIENT_RUN[2][0], {**CLIENT_RUN[2][1], "status": "failed"}
    body = {"model": "m", "input": [{"role": "user", "content": "Go."}, call, output]}
    encoded, _ = sent("openai_responses", "anthropic", body)
    assert json.loads(encoded)["messages"][2]["content"][0]["is_error"] is True


@pytest.mark.parametrize(
    ("part", "word"),
    [
        ({"executableCode": {"language": "PYTHON", "code": "print(1)"}}, "print(1)"),
        ({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "FIRST"}}, "FIRST"),
    ],
)
@pytest.mark.parametrize("target", ["openai_chat", "openai_responses", "anthropic"])
def test_what_google_ran_is_text(part: dict[str, Any], word: str, target: str) -> None:
    user = {"role": "user", "parts": [{"text": "Go."}]}
    body = {"contents": [user, {"role": "model", "parts": [part]}, user]}
    encoded, receipt = sent("gemini", target, body)
    assert word in encoded
    assert any(next(iter(part)) in line for line in receipt)


def test_a_block_of_another_shape_than_its_type_is_reported_as_a_whole() -> None:
    block = {"type": "search_result", "source": 7, "title": [], "content": [{"type": "text", "text": "FIRST"}]}
    encoded, receipt = sent("anthropic", "openai_chat", in_user_turn(block))
    assert "FIRST" not in encoded
    assert receipt == ["loss: messages[0].content[0]: search_result: it has no known meaning outside anthropic"]
