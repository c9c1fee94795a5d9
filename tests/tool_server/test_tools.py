"""What the tools do with good and with bad arguments, without a server around them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped] # it comes with the SDK
from msgspec import Struct

from tests.lint.streams import CHAT, SOUND, chat
from toolglot.api import read_response, translate_request
from toolglot.dialects import DIALECTS
from toolglot.tokens import estimate
from toolglot.tool_server.arguments import MAX_DOCUMENT, AskModel, CallError, read_arguments, record_schema
from toolglot.tool_server.tools import MAX_BREACHES, MAX_TEXT, TOOLS, ToolOutput, cut_text, work_size
from toolglot.tool_server.translate_tool import MAX_LINES

REQUEST = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hi"}], "logprobs": True}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
RESPONSE = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello"}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


def call(tool: str, **arguments: Any) -> ToolOutput:
    """The result of a call, which is what the tool promises."""
    told = TOOLS[tool].run(arguments)
    Draft202012Validator(record_schema(TOOLS[tool].gives)).validate(told.structured)
    return told


def translated(
    document: Any, kind: str, source: str = "openai_chat", target: str = "anthropic", **more: Any
) -> ToolOutput:
    return call("translate", **{"from": source, "to": target, "kind": kind, "document": document, **more})


def refusal(tool: str, arguments: Mapping[str, Any]) -> str:
    with pytest.raises(CallError) as caught:
        TOOLS[tool].run(arguments)
    return str(caught.value)


# ── translate ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("document", [REQUEST, json.dumps(REQUEST)], ids=["as JSON", "as a string"])
def test_a_request_comes_back_with_its_receipt_and_where_it_goes(document: Any) -> None:
    told = translated(document, "request")
    expected = translate_request(json.dumps(REQUEST), "openai_chat", "anthropic")
    assert told.structured["document"] == expected.json()
    assert told.structured["path"] == "/v1/messages"
    losses = [line["where"] for line in told.structured["receipt"] if line["severity"] == "loss"]
    assert losses == ["logprobs"]
    document_text, receipt_text, path_text = told.texts
    assert json.loads(document_text) == expected.json()
    assert "loss: logprobs" in receipt_text
    assert "/v1/messages" in path_text


def test_a_gemini_request_gets_its_model_from_the_arguments() -> None:
    document = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    assert "model: a gemini request does not name its model" in refusal(
        "translate", {"from": "gemini", "to": "openai_chat", "kind": "request", "document": document}
    )
    told = translated(document, "request", "gemini", "openai_chat", model="gpt-5")
    assert told.structured["document"]["model"] == "gpt-5"


def test_a_response_is_translated_and_loses_nothing() -> None:
    told = translated(RESPONSE, "response")
    assert told.structured["document"]["content"] == [{"type": "text", "text": "Hello", "citations": None}]
    assert told.texts[1] == "Receipt: everything was carried over."


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("source", SOUND)
def test_a_stream_is_a_stream_of_the_other_dialect(source: str, target: str) -> None:
    told = translated(SOUND[source].decode(), "stream", source, target)
    recording = told.structured["document"]
    assert call("lint_stream", dialect=target, recording=recording).structured["sound"]


def test_tools_go_to_mcp_and_come_from_it() -> None:
    there = translated([TOOL], "tools", "openai_chat", "mcp").structured["document"]
    assert there[0]["name"] == "f"
    assert "inputSchema" in there[0]
    back = translated(there, "tools", "mcp", "openai-chat").structured["document"]
    assert back[0]["function"]["name"] == "f"


def test_messages_are_translated_without_a_request() -> None:
    told = translated([{"role": "user", "content": "Hi"}], "messages", "openai_chat", "gemini")
    assert told.structured["document"] == [{"role": "user", "parts": [{"text": "Hi"}]}]


def test_tools_become_prose_for_a_model_that_has_no_tool_calls() -> None:
    prose = translated([TOOL], "tools", text_format="hermes-json").structured["document"]
    assert "<tool_call>" in prose
    sent = translated({**REQUEST, "tools": [TOOL]}, "request", text_format="hermes_json").structured["document"]
    assert "tools" not in sent
    assert "<tool_call>" in json.dumps(sent)


def test_what_a_model_leaves_out_may_be_null() -> None:
    assert translated(RESPONSE, "response", model=None, strict=None, text_format=None).structured["document"]


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no arguments": ({}, "missing required field `from`"),
    "a wrong type": ({"strict": "yes"}, "Expected `bool`, got `str` - at `$.strict`"),
    "a wrong kind": ({"kind": "poem"}, "$.kind"),
    "an argument too many": ({"colour": 1}, "unknown field `colour`"),
    "a dialect that is none": ({"from": "openai"}, "from: there is no dialect 'openai'; there are openai_chat, "),
    "another that is none": ({"to": "x"}, "to: there is no dialect 'x'"),
    "mcp without tools": ({"to": "mcp"}, "mcp has only tool definitions"),
    "an empty document": ({"document": " "}, "document: it is empty"),
    "broken JSON": ({"document": '{"model": '}, "document: $.model: Input data was truncated (byte 10)"),
    "a document of another kind": ({"document": {"model": "m"}}, "document: $.messages: "),
    "another dialect": ({"document": {"model": "m", "contents": []}}, "this looks like gemini, not openai_chat"),
    "a stream as a request": ({"document": "data: {}\n\n"}, "kind must be `stream`"),
    "JSON as a stream": ({"kind": "stream", "document": {}}, "a stream is a string of server-sent events"),
    "no stream": ({"kind": "stream", "document": "hello"}, "document: no server-sent event in it"),
    "another's stream": (
        {"kind": "stream", "document": SOUND["anthropic"].decode()},
        "this looks like anthropic, not openai_chat",
    ),
    "half a stream": ({"kind": "stream", "document": chat(CHAT[:2]).decode()[:-40]}, "document: The upstream"),
    "others' tools": ({"kind": "tools", "document": [{"name": "f", "inputSchema": {}}]}, "this looks like mcp"),
    "an error": (
        {"kind": "response", "document": {"error": {"message": "no", "type": "server_error"}}},
        "this is an error and not a response: no",
    ),
    "a loss": ({"strict": True}, "strict: refused, because it would lose: logprobs"),
    "a format that is none": ({"text_format": "morse"}, "text_format: "),
    "a format for reading": ({"text_format": "auto"}, "text_format: "),
    "a format of an answer": ({"kind": "response", "text_format": "react"}, "text_format: it applies only to"),
    "a name without end": ({"model": "m" * 600}, "Expected `str` of length <= 512 - at `$.model`"),
    "a number without end": ({"document": {**REQUEST, "seed": 10**5000}}, "document: "),
    "a document without end": ({"document": "x" * (MAX_DOCUMENT + 1)}, "more than the limit of 8388608"),
    "depth": ({"document": "[" * 10_000}, "document: "),
}


@pytest.mark.parametrize(("changes", "told"), BAD.values(), ids=BAD)
def test_a_call_that_cannot_be_done_is_told_what_is_wrong_and_where(changes: dict[str, Any], told: str) -> None:
    right = {"from": "openai_chat", "to": "anthropic", "kind": "request", "document": REQUEST}
    message = refusal("translate", {**right, **changes} if changes else {})
    assert told in message
    assert len(message) < 3000


def test_a_result_that_no_client_could_read_is_refused() -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(90):
        schema = {"type": "object", "properties": {"a": schema}}
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    assert "nested deeper than 150 levels" in refusal(
        "translate", {"from": "openai_chat", "to": "anthropic", "kind": "tools", "document": json.dumps([tool])}
    )


def test_a_long_text_is_cut_off_with_a_word_and_the_document_is_whole() -> None:
    long = {"model": "m", "messages": [{"role": "user", "content": "x" * MAX_TEXT}]}
    told = translated(long, "request")
    assert told.structured["document"]["messages"][0]["content"] == "x" * MAX_TEXT
    assert "cut off here: 100000 of " in told.texts[0]
    assert cut_text("x" * MAX_TEXT) == "x" * MAX_TEXT


def test_a_stream_that_grows_too_long_is_cut_off_behind_an_event() -> None:
    delta = 'data: {"candidates":[{"content":{"parts":[{"text":"a"}]}}]}\n\n'
    told = translated(delta * 70_000 + SOUND["gemini"].decode(), "stream", "gemini", "openai_responses")
    assert len(told.structured["document"]) <= MAX_DOCUMENT
    assert told.structured["document"].endswith("\n\n")
    assert "bytes; the first" in told.structured["cut_off"]
    assert told.texts[-1].startswith("Cut off: ")


def test_a_long_receipt_is_cut_off_with_a_word() -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "x", "signature": "x"}]},
    ] * (MAX_LINES + 10)
    told = translated({"model": "m", "max_tokens": 1, "messages": messages}, "request", "anthropic", "openai_chat")
    assert len(told.structured["receipt"]) == MAX_LINES
    assert "lines; 1000 are here" in told.structured["cut_off"]


# ── the others ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dialect", SOUND)
def test_a_sound_stream_has_no_breach(dialect: str) -> None:
    told = call("lint_stream", dialect=dialect, recording=SOUND[dialect].decode())
    assert told.structured["sound"] is True
    assert told.structured["breaches"] == []
    assert told.texts == (f"no violations in {told.structured['events']} events",)


def test_a_breach_has_a_place_a_rule_and_an_excerpt() -> None:
    told = call("lint_stream", dialect="anthropic", recording=SOUND["anthropic"].decode() + "nonsense\n\n")
    assert told.structured["sound"] is False
    last = told.structured["breaches"][-1]
    assert last["event"] == told.structured["events"]
    assert last["rule"] == "field"
    assert "nonsense" in last["excerpt"]
    assert f"event {last['event']}: field: " in told.texts[0]


def test_breaches_without_end_are_cut_off_with_a_word() -> None:
    told = call("lint_stream", dialect="openai_chat", recording="data: {}\n\n" + "data: x\n\n" * 1000)
    assert len(told.structured["breaches"]) == MAX_BREACHES
    assert "breaches; the first 200 are here" in told.structured["cut_off"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"dialect": "morse", "recording": "x"}, "dialect: there is no dialect 'morse'"),
        ({"dialect": "anthropic", "recording": ""}, "recording: it is empty"),
        ({"dialect": "anthropic", "recording": "hello"}, "recording: no server-sent event in it"),
        ({"dialect": "anthropic", "recording": {}}, "Expected `str`, got `object` - at `$.recording`"),
        ({"dialect": "anthropic", "recording": SOUND["gemini"].decode()}, "this looks like gemini, not anthropic"),
    ],
)
def test_what_is_no_stream_is_not_linted(arguments: dict[str, Any], told: str) -> None:
    assert told in refusal("lint_stream", arguments)


def test_tokens_are_those_of_the_estimate() -> None:
    told = call("count_tokens", dialect="openai_chat", document=REQUEST)
    request = DIALECTS["openai_chat"].decode_request(json.dumps(REQUEST).encode())
    assert told.structured == {"tokens": estimate(request), "images_as": "openai_responses"}
    assert f"about {told.structured['tokens']} input tokens" in told.texts[0]


def test_a_request_to_count_needs_less_and_the_model_tells_what_images_cost() -> None:
    """Anthropic's endpoint that counts takes no `max_tokens`."""
    messages = [{"role": "user", "content": "Hi"}]
    told = call("count_tokens", dialect="anthropic", document={"messages": messages, "model": "m"}, model="gemini-3")
    assert told.structured["images_as"] == "gemini"


@pytest.mark.parametrize(
    ("document", "told"),
    [("[" * 10_000, "document: "), ({"messages": 1}, "document: $.messages"), (3, "at `$.document`")],
)
def test_what_is_no_request_is_not_counted(document: Any, told: str) -> None:
    assert told in refusal("count_tokens", {"dialect": "openai_chat", "document": document})


def test_the_list_names_what_the_other_tools_take() -> None:
    told = call("list_dialects")
    assert [known["name"] for known in told.structured["dialects"]] == list(DIALECTS)
    for known in told.structured["text_formats"]:
        assert translated([TOOL], "tools", text_format=known["name"]).structured["document"]
    assert "unknown field" in refusal("list_dialects", {"all": True})


# ── schemas ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "form", [*(tool.takes for tool in TOOLS.values()), *(tool.gives for tool in TOOLS.values()), AskModel]
)
def test_a_schema_is_sound_and_all_in_one_piece(form: Any) -> None:
    schema = record_schema(form)
    Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert "$ref" not in json.dumps(schema)


def test_every_argument_is_described() -> None:
    forms: list[type[Struct]] = [*(tool.takes for tool in TOOLS.values()), AskModel]
    for form in forms:
        for name, argument in record_schema(form)["properties"].items():
            assert argument.get("description"), name


def test_the_size_of_a_call_is_that_of_its_document() -> None:
    assert work_size({"document": "x" * 50, "from": "y"}) == 50
    assert work_size({"document": {"a": "x" * 50}}) == 58
    assert work_size({"document": {"a": 10**5000}}) == 0
    assert work_size(None) == 0


def test_a_translated_response_is_readable() -> None:
    document = translated(RESPONSE, "response", target="gemini").structured["document"]
    assert read_response(document, "gemini").content


def test_a_record_without_arguments_is_read_from_nothing() -> None:
    assert read_arguments(None, TOOLS["list_dialects"].takes) == TOOLS["list_dialects"].takes()
