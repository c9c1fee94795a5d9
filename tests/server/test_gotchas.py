"""What real agents and SDKs do that a gateway must be ready for, each through the whole gateway.

A client asks as it does in life, an upstream of another dialect answers, and the test looks at both wires: at what the
upstream was sent and at what the client got.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.server.client_needs import frames, needs
from tests.server.gateway import Body
from tests.server.stage import DIALECTS, FOREIGN, Call, Stage, Turn, model_of, stage

SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}
OK = Turn("ok")
NOT_ANTHROPIC = tuple(name for name in DIALECTS if name != "anthropic")
NOT_RESPONSES = tuple(name for name in DIALECTS if name != "openai_responses")


@pytest.fixture(scope="module")
def scene() -> Iterator[Stage]:
    with stage() as running:
        yield running


def asked(scene: Stage, client: str, upstream: str, body: Body, turn: Turn = OK) -> Any:
    """What the upstream is sent for this request."""
    scene.play(upstream, turn)
    answer = scene.ask(client, upstream, body=body)
    assert answer.status == 200, answer.body
    return scene.sent


def tool_names(sent: Mapping[str, Any]) -> list[str]:
    """The names of the offered tools, in whatever dialect they are offered."""
    declared = [one for tool in sent.get("tools", ()) for one in tool.get("functionDeclarations", [tool])]
    return [one.get("function", one)["name"] for one in declared]


def calls_of(items: list[Any]) -> list[Any]:
    """Of a response's items those that call something."""
    return [item for item in items if item["type"] != "message"]


def said(sent: Any) -> str:
    return json.dumps(sent, ensure_ascii=False)


# 1: Claude Code says `system` in the middle of a conversation.

REMINDED: Body = {
    "max_tokens": 100,
    "system": [{"type": "text", "text": "The prompt.", "cache_control": {"type": "ephemeral"}}],
    "tools": [{"name": "Bash", "input_schema": SCHEMA}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Go on."}]},
        {"role": "system", "content": "The first reminder."},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"q": "a list"}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "a file"}]},
        {"role": "system", "content": [{"type": "text", "text": "The second reminder."}]},
    ],
}


@pytest.mark.parametrize("upstream", NOT_ANTHROPIC)
def test_gotcha_1_system_messages_inside_the_conversation_stay_where_they_are(scene: Stage, upstream: str) -> None:
    sent = asked(scene, "anthropic", upstream, REMINDED)
    text = said(
        [sent[key] for key in ("instructions", "systemInstruction", "messages", "input", "contents") if key in sent]
    )
    order = ["The prompt.", "Go on.", "The first reminder.", "a list", "a file", "The second reminder."]
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    assert all(text.count(words) == 1 for words in order)


def test_gotcha_1_they_are_no_turn_of_the_user_where_the_wire_has_a_role_for_them(scene: Stage) -> None:
    roles = [message["role"] for message in asked(scene, "anthropic", "openai_chat", REMINDED)["messages"]]
    assert roles == ["system", "user", "system", "assistant", "tool", "system"]
    contents = asked(scene, "anthropic", "gemini", REMINDED)["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user"]
    assert contents[0]["parts"][1]["text"].startswith("<system-reminder>")
    # A result must stand first in its turn.
    assert "functionResponse" in contents[2]["parts"][0]


# 2: Claude Code loads tools when it needs them.

DEFERRED = [
    {"name": "ToolSearch", "input_schema": SCHEMA},
    {"name": "mcp__wx__get", "input_schema": SCHEMA, "defer_loading": True},
    {"name": "mcp__wx__set", "input_schema": SCHEMA, "defer_loading": True},
    {"name": "DeferredToolPlaceholder", "input_schema": {"type": "object"}, "defer_loading": True},
]
FOUND = [
    {"role": "user", "content": "How is the weather?"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "ToolSearch", "input": {"q": "wx"}}]},
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "t1",
                "content": [{"type": "tool_reference", "tool_name": "mcp__wx__get"}],
            }
        ],
    },
]


@pytest.mark.parametrize("upstream", NOT_ANTHROPIC)
def test_gotcha_2_a_deferred_tool_is_offered_once_it_was_referred_to(scene: Stage, upstream: str) -> None:
    before = asked(scene, "anthropic", upstream, {"max_tokens": 9, "tools": DEFERRED, "messages": FOUND[:1]})
    assert tool_names(before) == ["ToolSearch"]
    after = asked(scene, "anthropic", upstream, {"max_tokens": 9, "tools": DEFERRED, "messages": FOUND})
    assert tool_names(after) == ["ToolSearch", "mcp__wx__get"]
    assert said(after).count("mcp__wx__get") == 2  # the result says it in words too


def test_gotcha_2_between_two_of_anthropics_dialect_nothing_is_touched(scene: Stage) -> None:
    body = {"max_tokens": 9, "tools": DEFERRED, "messages": FOUND}
    assert asked(scene, "anthropic", "anthropic", body) == {"model": model_of("anthropic"), **body}


# 3: Claude Code's web search is a request of its own.

SEARCH: Body = {
    "max_tokens": 100,
    "tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 8}],
    "tool_choice": {"type": "tool", "name": "web_search"},
    "messages": [{"role": "user", "content": "Perform a web search for the query: toolglot"}],
}


@pytest.mark.parametrize("upstream", NOT_ANTHROPIC)
def test_gotcha_3_a_forced_server_tool_becomes_a_plain_question(scene: Stage, upstream: str) -> None:
    scene.play(upstream, Turn("Nothing was found."))
    answer = scene.ask("anthropic", upstream, body=SEARCH, stream=True)
    assert not {"tools", "tool_choice", "toolConfig"} & scene.sent.keys()
    assert needs("anthropic", answer.body) == []
    assert b"Nothing was found." in answer.body
    assert answer.headers["x-toolglot-receipt"].startswith("losses=1;")
    assert "lost=tools[0]" in answer.headers["x-toolglot-receipt"]


# 5: Anthropic's tool runner keeps its conversation on the server.

THREADS = [{"type": "create"}, {"type": "continue", "previous_message_id": "msg_1"}]


@pytest.mark.parametrize("thread", THREADS)
@pytest.mark.parametrize("upstream", NOT_ANTHROPIC)
def test_gotcha_5_a_thread_is_refused_in_the_words_that_make_the_sdk_go_on_without(
    scene: Stage, upstream: str, thread: Body
) -> None:
    scene.play(upstream, OK)
    body = {"max_tokens": 9, "thread": thread, "messages": [{"role": "user", "content": "Hi"}]}
    for streams in (True, False):
        answer = scene.ask("anthropic", upstream, body=body, stream=streams)
        assert answer.status == 400
        error = answer.json()
        assert (error["type"], error["error"]["type"]) == ("error", "invalid_request_error")
        assert error["error"]["details"] == {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
    assert not scene.upstream.requests


def test_gotcha_5_an_upstream_of_the_same_dialect_gets_its_thread(scene: Stage) -> None:
    body = {"max_tokens": 9, "thread": THREADS[0], "messages": [{"role": "user", "content": "Hi"}]}
    assert asked(scene, "anthropic", "anthropic", body)["thread"] == THREADS[0]


# 7: Codex's newer models bring their tools inside the input.

EXEC = {"type": "custom", "name": "exec", "description": "Runs JavaScript.", "format": {"type": "text"}}
CODEX: Body = {
    "store": False,
    "parallel_tool_calls": False,
    "input": [
        {
            "type": "additional_tools",
            "role": "developer",
            "tools": [EXEC, {"type": "function", "name": "wait", "parameters": SCHEMA, "strict": False}],
        },
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "The prompt."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go."}]},
        {"type": "custom_tool_call", "call_id": "c1", "name": "exec", "input": "tools.read('a')\n"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "a file"}]},
    ],
}
SOURCE = 'await tools.write("b", `${1 + 1}`)\n'


@pytest.mark.parametrize("upstream", NOT_RESPONSES)
def test_gotcha_7_tools_inside_the_input_are_offered_and_a_custom_tool_stays_one(scene: Stage, upstream: str) -> None:
    turn = Turn("", (Call("c2", "exec", {"input": SOURCE}),))
    sent = asked(scene, "openai_responses", upstream, CODEX, turn)
    assert tool_names(sent) == ["exec", "wait"]
    assert "tools.read('a')" in said(sent)
    assert "a file" in said(sent)
    for message in sent.get("messages", sent.get("contents", ())):
        is_said = message.get("content", message.get("parts", "")) != ""
        assert is_said or message.get("tool_calls"), "an empty turn is one that nobody took"
    body = scene.ask("openai_responses", upstream, body=CODEX, stream=True).body
    events = [json.loads(data) for _, data in frames(body)]
    items = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    (done,) = calls_of(items)
    assert {key: done[key] for key in ("type", "name", "call_id", "input")} == {
        "type": "custom_tool_call",
        "name": "exec",
        "call_id": "c2",
        "input": SOURCE,
    }
    deltas = [event["delta"] for event in events if event["type"] == "response.custom_tool_call_input.delta"]
    assert "".join(deltas) == SOURCE
    assert calls_of(events[-1]["response"]["output"]) == [done]


@pytest.mark.parametrize("upstream", NOT_RESPONSES)
def test_gotcha_7_tools_that_a_search_has_found_are_offered(scene: Stage, upstream: str) -> None:
    function = {"type": "function", "name": "get", "parameters": SCHEMA, "defer_loading": True}
    found = {
        "type": "tool_search_output",
        "call_id": "s1",
        "execution": "client",
        "status": "completed",
        "tools": [{"type": "namespace", "name": "mcp__wx", "description": "Weather.", "tools": [function]}],
    }
    body = {
        "store": False,
        "tools": [{"type": "tool_search", "execution": "client", "description": "Find.", "parameters": SCHEMA}],
        "input": [
            {"type": "message", "role": "user", "content": "Go."},
            {"type": "tool_search_call", "call_id": "s1", "execution": "client", "arguments": {"q": "weather"}},
            found,
        ],
    }
    sent = asked(scene, "openai_responses", upstream, body)
    assert "mcp__wx__get" in tool_names(sent)


# 8: Codex's namespaces.

SPACES = [
    {
        "type": "namespace",
        "name": name,
        "description": "A server.",
        "tools": [{"type": "function", "name": "get", "parameters": SCHEMA, "strict": False}],
    }
    for name in ("mcp__wx", "mcp__db")
]


@pytest.mark.parametrize("upstream", NOT_RESPONSES)
def test_gotcha_8_namespaces_are_flattened_and_split_again(scene: Stage, upstream: str) -> None:
    body = {
        "store": False,
        "tools": SPACES,
        "input": [
            {"type": "message", "role": "user", "content": "Go."},
            {"type": "function_call", "call_id": "c1", "namespace": "mcp__db", "name": "get", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "a row"},
        ],
    }
    turn = Turn("", (Call("c2", "mcp__wx__get", {"q": "x"}), Call("c3", "mcp__db__get", {"q": "y"})))
    sent = asked(scene, "openai_responses", upstream, body, turn)
    assert tool_names(sent) == ["mcp__wx__get", "mcp__db__get"]
    assert said(sent).count("mcp__db__get") == 2 + (
        upstream in ("gemini", "ollama")
    )  # there a result names its tool too
    stream_body = scene.ask("openai_responses", upstream, body=body, stream=True).body
    last = json.loads(frames(stream_body)[-1][1])
    whole = scene.ask("openai_responses", upstream, body=body).json()
    for output in (last["response"]["output"], whole["output"]):
        calls = [(item["namespace"], item["name"], item["call_id"]) for item in calls_of(output)]
        assert calls == [("mcp__wx", "get", "c2"), ("mcp__db", "get", "c3")]


# 13: Gemini's clients spell as they like.

SNAKE: Body = {
    "system_instruction": {"parts": [{"text": "The prompt."}]},
    "tools": [{"function_declarations": [{"name": "f", "parameters_json_schema": SCHEMA}]}],
    "tool_config": {"function_calling_config": {"mode": "ANY", "allowed_function_names": ["f"]}},
    "generation_config": {"max_output_tokens": 99, "thinking_config": {"include_thoughts": True}},
    "contents": [
        {"role": "user", "parts": [{"text": "Go."}]},
        {"role": "model", "parts": [{"function_call": {"name": "f", "args": {"q": "x"}}, "thought_signature": "c2ln"}]},
        {"role": "user", "parts": [{"function_response": {"name": "f", "response": {"content": "a file"}}}]},
    ],
}


@pytest.mark.parametrize("version", ["/v1", "/v1beta", ""])
@pytest.mark.parametrize("upstream", ["openai_chat", "openai_responses", "anthropic"])
def test_gotcha_13_snake_case_is_read_at_every_version_of_the_path(scene: Stage, upstream: str, version: str) -> None:
    scene.play(upstream, OK)
    path = f"{version}/models/{model_of(upstream)}:generateContent"
    answer = scene.running.call("POST", path, json.dumps(SNAKE).encode())
    assert answer.status == 200, answer.body
    sent = scene.sent
    assert tool_names(sent) == ["f"]
    assert sent["tool_choice"] in (
        {"type": "function", "function": {"name": "f"}},
        {"type": "function", "name": "f"},
        {"type": "tool", "name": "f"},
    )
    assert 99 in (sent.get("max_tokens"), sent.get("max_output_tokens"), sent.get("max_completion_tokens"))
    text = said(sent)
    assert all(words in text for words in ("The prompt.", "Go.", "a file"))
    ids = [call["id"] for message in sent.get("messages", ()) for call in message.get("tool_calls") or ()]
    for call_id in ids:  # who has sent no ids finds the result with its call all the same
        assert text.count(call_id) == 2


# 14: a client that writes history in its own way.

SPLIT: Body = {
    "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}],
    "messages": [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": "First words."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "toolu_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "toolu_1", "name": "f", "content": "a file"},
    ],
}


def test_gotcha_14_a_turn_that_was_split_in_two_is_one_again_where_it_must_be(scene: Stage) -> None:
    messages = asked(scene, "openai_chat", "anthropic", SPLIT)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert [block["type"] for block in messages[1]["content"]] == ["text", "tool_use"]
    contents = asked(scene, "openai_chat", "gemini", SPLIT)["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user"]


# 17: server tools that nobody asked for.

OFFERS: dict[str, Body] = {
    "anthropic": {
        "max_tokens": 9,
        "tools": [{"name": "f", "input_schema": SCHEMA}, {"type": "web_search_20250305", "name": "web_search"}],
        "messages": [{"role": "user", "content": "Go."}],
    },
    "openai_responses": {
        "store": False,
        "tools": [
            {"type": "function", "name": "f", "parameters": SCHEMA},
            {"type": "web_search", "external_web_access": True},
            {"type": "image_generation"},
        ],
        "input": "Go.",
    },
    "gemini": {
        "tools": [{"functionDeclarations": [{"name": "f", "parameters": SCHEMA}]}, {"googleSearch": {}}],
        "toolConfig": {"includeServerSideToolInvocations": True},
        "contents": [{"role": "user", "parts": [{"text": "Go."}]}],
    },
}


@pytest.mark.parametrize(("client", "upstream"), [pair for pair in FOREIGN if pair[0] in OFFERS])
def test_gotcha_17_a_server_tool_that_the_upstream_has_not_leaves_the_functions_alone(
    scene: Stage, client: str, upstream: str
) -> None:
    scene.play(upstream, OK)
    answer = scene.ask(client, upstream, body=OFFERS[client])
    assert answer.status == 200
    assert tool_names(scene.sent) == ["f"]
    receipt = scene.running.receipt(answer)
    lost = [line["what"] for line in receipt["lines"] if line["severity"] == "loss"]
    assert any("earch" in what for what in lost)
