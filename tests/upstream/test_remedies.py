"""Refused requests and what is sent instead, on the wire: the errors are those that real upstreams answer with."""

from __future__ import annotations

from typing import Any

import pytest

from tests.upstream.refusals import (
    BASES,
    CHAT,
    FIELDS,
    FUNCTION,
    GEMINI,
    MESSAGES,
    RESPONSES,
    TOOL,
    USER,
    Json,
    anthropic,
    forbidden,
    google,
    openai,
)
from toolglot.dialects import DIALECTS
from toolglot.errors import ApiError
from toolglot.ir import replace
from toolglot.passes.reasoning import UNSIGNED
from toolglot.passes.refused import BRIDGE
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore
from toolglot.upstream.remedies import GENERAL, VALIDATORS, RemediedRequest, apply_remedies, remedies_of
from toolglot.wire import json


def refused(dialect: str, body: Json, error: Json, status: int = 400) -> RemediedRequest | None:
    spoken = DIALECTS[dialect]
    request = spoken.decode_request(json.encode(body))
    return apply_remedies(request, dialect, spoken.decode_error(status, {}, json.encode(error)))


def again(dialect: str, body: Json, error: Json, status: int = 400) -> Json:
    """The body that is sent the second time."""
    mended = refused(dialect, body, error, status)
    assert mended is not None
    assert mended.lines[-1].where == "request"
    wire: Json = json.decode(DIALECTS[dialect].encode_request(mended.request, Receipt()))
    return wire


NAMES = [f"{dialect} {', '.join(expected)} {number}" for number, (dialect, _, _, expected) in enumerate(FIELDS)]


@pytest.mark.parametrize(("dialect", "fields", "error", "expected"), FIELDS, ids=NAMES)
def test_what_the_upstream_names_is_left_out_and_nothing_else(
    dialect: str, fields: Json, error: Json, expected: Json
) -> None:
    body = {**BASES[dialect], **fields}
    spoken = DIALECTS[dialect]
    unchanged = json.decode(spoken.encode_request(spoken.decode_request(json.encode(body)), Receipt()))
    wanted = {key: value for key, value in {**unchanged, **expected}.items() if value is not None}
    assert again(dialect, body, error) == wanted


# Reasoning in the history

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "forged"}
ASKED = {"role": "assistant", "content": [THOUGHT, {"type": "tool_use", "id": "t1", "name": "look", "input": {}}]}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "seen"}]}


@pytest.mark.parametrize(
    "message",
    [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "messages.1.content.0.thinking.signature: Field required",
        "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different"
        " conversation.",
        "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be"
        " modified.",
    ],
)
def test_thinking_that_is_not_taken_back_is_left_out(message: str) -> None:
    spoken = {"role": "assistant", "content": [THOUGHT, {"type": "text", "text": "hello"}]}
    wire = again("anthropic", {**MESSAGES, "messages": [USER, spoken, USER]}, anthropic(message))
    assert wire["messages"] == [USER, {"role": "assistant", "content": "hello"}, USER]


def test_thinking_is_off_until_the_turn_ends_when_its_own_was_left_out() -> None:
    body = {
        **MESSAGES,
        "model": "claude-sonnet-4-5",
        "messages": [USER, ASKED, RESULT],
        "tools": [TOOL],
        "thinking": {"type": "enabled", "budget_tokens": 2000},
    }
    wire = again("anthropic", body, anthropic("messages.1.content.0: Invalid `signature` in `thinking` block"))
    assert wire["thinking"] == {"type": "disabled"}
    assert [block["type"] for block in wire["messages"][1]["content"]] == ["tool_use"]


def test_a_message_of_nothing_but_thinking_goes_with_it() -> None:
    body = {**MESSAGES, "messages": [USER, {"role": "assistant", "content": [THOUGHT]}, USER]}
    wire = again("anthropic", body, anthropic("messages.1.content.0: Invalid `signature` in `thinking` block"))
    assert wire["messages"] == [USER, USER]


def test_a_turn_that_lost_its_thinking_goes_on_without() -> None:
    asked = {"role": "assistant", "content": ASKED["content"][1:]}
    thinking = {"type": "enabled", "budget_tokens": 2000}
    error = anthropic(
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking`"
        " is enabled, a final `assistant` message must start with a thinking block"
    )
    wire = again("anthropic", {**MESSAGES, "messages": [USER, asked, RESULT], "thinking": thinking}, error)
    assert wire["thinking"] == {"type": "disabled"}


@pytest.mark.parametrize(
    "error",
    [
        openai("The encrypted content gAAA...DQ== could not be verified.", None, "invalid_encrypted_content"),
        openai("Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'."),
        openai("Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.", "input"),
        openai(
            "Reasoning input items can only be provided to a reasoning or computer use model. Remove reasoning items"
            " from your input and try again.",
            "input",
        ),
    ],
)
def test_encrypted_reasoning_that_is_not_taken_back_is_left_out_with_the_ids_that_want_it(error: Json) -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    items = [
        {"role": "user", "content": "hi"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
        {**call, "id": "fc_1"},
        {"type": "function_call_output", "call_id": "c1", "output": "seen"},
    ]
    wire = again("openai_responses", {**RESPONSES, "input": items}, error)
    assert wire["input"] == [items[0], call, items[3]]


@pytest.mark.parametrize(
    "error",
    [
        openai(
            "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property"
            " 'reasoning_content' is unsupported)]"
        ),
        forbidden("body", "messages", 1, "assistant", "reasoning_content"),
    ],
    ids=["groq", "mistral"],
)
def test_reasoning_that_has_no_place_is_left_out(error: Json) -> None:
    spoken = {"role": "assistant", "content": "hello"}
    body = {**CHAT, "messages": [USER, {**spoken, "reasoning_content": "hm"}, USER]}
    assert again("openai_chat", body, error)["messages"] == [USER, spoken, USER]


def test_cache_control_that_a_server_refuses_is_left_out() -> None:
    part: Json = {"type": "text", "text": "hi"}
    body = {**CHAT, "messages": [{"role": "user", "content": [{**part, "cache_control": {"type": "ephemeral"}}]}]}
    error = forbidden("body", "messages", 0, "user", "content", 0, "cache_control")
    assert again("openai_chat", body, error)["messages"] == [{"role": "user", "content": [part]}]


def test_reasoning_that_must_be_passed_back_is_at_least_empty() -> None:
    calls = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
    result: Json = {"role": "tool", "tool_call_id": "c1", "content": ""}
    messages: list[Json] = [USER, {"role": "assistant", "content": None, "tool_calls": calls}, result]
    error = openai("The `reasoning_content` in the thinking mode must be passed back to the API.")
    wire = again("openai_chat", {**CHAT, "messages": messages}, error)
    assert wire["messages"] == [messages[0], {**messages[1], "reasoning_content": ""}, messages[2]]


@pytest.mark.parametrize(
    ("message", "signature"),
    [
        ("Function call is missing a thought_signature in functionCall parts. This is required", None),
        ("Thought signature is not valid.", "Zm9yZ2Vk"),
        ("Corrupted thought signature.", "Zm9yZ2Vk"),
    ],
)
def test_calls_without_a_valid_signature_are_marked(message: str, signature: str | None) -> None:
    signed = {"thoughtSignature": signature} if signature else {}
    calls: list[Json] = [
        {"functionCall": {"name": "look", "args": {}}, **signed},
        {"functionCall": {"name": "look", "args": {}}},
    ]
    results = [{"functionResponse": {"name": "look", "response": {}}}] * 2
    contents = [*GEMINI["contents"], {"role": "model", "parts": calls}, {"role": "user", "parts": results}]
    wire = again("gemini", {"contents": contents}, google(message))
    assert wire["contents"][1]["parts"] == [{**calls[0], "thoughtSignature": UNSIGNED}, calls[1]]


# Tools, thinking and roles


def test_one_call_at_a_time_is_asked_for_in_words_where_it_cannot_be_set() -> None:
    chosen = {"type": "tool", "name": "look"}
    body = {**MESSAGES, "tools": [TOOL], "tool_choice": {**chosen, "disable_parallel_tool_use": True}}
    wire = again("anthropic", body, anthropic("tool_choice.disable_parallel_tool_use: Extra inputs are not permitted"))
    assert wire["tool_choice"] == chosen
    assert "at most one tool at a time" in str(wire["messages"])


def test_a_model_that_always_thinks_is_not_told_not_to() -> None:
    off = json.encode({**GEMINI, "generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}})
    request = replace(DIALECTS["gemini"].decode_request(off), model="gemini-2.5-pro")
    message = "Budget 0 is invalid. This model only works in thinking mode."
    mended = apply_remedies(request, "gemini", ApiError(kind="bad_request", message=message))
    assert mended is not None
    wire = json.decode(DIALECTS["gemini"].encode_request(mended.request, Receipt()))
    assert wire["generationConfig"]["thinkingConfig"].get("thinkingBudget") != 0


@pytest.mark.parametrize(
    "message",
    [
        "deepseek-reasoner does not support this tool_choice",
        "Thinking mode does not support this tool_choice",
        "<400> InternalError.Algo.InvalidParameter: The tool_choice parameter does not support being set to required or"
        " object in thinking mode",
        "tool_choice must either be a named tool, 'auto', or 'none'",
    ],
)
def test_a_call_that_cannot_be_forced_is_asked_for_in_words(message: str) -> None:
    wire = again("openai_chat", {**CHAT, "tools": [FUNCTION], "tool_choice": "required"}, openai(message))
    assert wire["tool_choice"] == "auto"
    assert "call of one of the tools" in str(wire["messages"])


@pytest.mark.parametrize(
    "message",
    [
        "Thinking may not be enabled when tool_choice forces tool use.",
        'tool_choice: type "tool" and "any" are not supported for this model.',
    ],
)
def test_claude_is_asked_in_words_too(message: str) -> None:
    forced = {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "look"}}
    wire = again("anthropic", {**MESSAGES, **forced}, anthropic(message))
    assert wire["tool_choice"] == {"type": "auto"}
    assert "call of one of the tools" in str(wire["messages"])


def test_a_choice_that_says_nothing_is_left_out_where_there_may_be_none() -> None:
    body = {**CHAT, "tools": [FUNCTION], "tool_choice": "auto"}
    assert "tool_choice" not in again(
        "openai_chat", body, openai("deepseek-reasoner does not support this tool_choice")
    )


@pytest.mark.parametrize(
    "message",
    [
        "Failed to deserialize the JSON body into the target type: messages[0].role: unknown variant `developer`,"
        " expected one of `system`, `user`, `assistant`, `tool`, `latest_reminder` at line 1 column 60",
        "Unexpected message role.",
        "Unsupported value: 'messages[0].role' does not support 'developer' with this model.",
    ],
)
def test_developer_messages_become_system_messages(message: str) -> None:
    body = {**CHAT, "messages": [{"role": "developer", "content": "be brief"}, USER]}
    assert again("openai_chat", body, openai(message))["messages"] == [{"role": "system", "content": "be brief"}, USER]


def test_a_model_without_a_system_prompt_hears_it_from_the_user() -> None:
    body = {**CHAT, "messages": [{"role": "system", "content": "be brief"}, USER]}
    error = openai(
        "Unsupported value: 'messages[0].role' does not support 'system' with this model.", "messages[0].role"
    )
    (message,) = again("openai_chat", body, error)["messages"]
    assert (message["role"], [part["text"] for part in message["content"]]) == ("user", ["be brief", "hi"])


def test_system_messages_in_mid_conversation_become_tagged_text() -> None:
    spoken = {"role": "assistant", "content": "hello"}
    body = {**MESSAGES, "messages": [USER, spoken, USER, {"role": "system", "content": "be brief"}]}
    wire = again("anthropic", body, anthropic("role 'system' is not supported on this model"))
    assert [message["role"] for message in wire["messages"]] == ["user", "assistant", "user"]
    assert [part["text"] for part in wire["messages"][2]["content"]] == [
        "hi",
        "<system-reminder>\nbe brief\n</system-reminder>",
    ]


ROLES_AT_FAULT: list[tuple[str, int, Json]] = [
    ("openai_chat", 400, openai("System message must be at the beginning.")),
    (  # llama.cpp
        "openai_chat",
        500,
        {
            "error": {
                "code": 500,
                "message": "Jinja Exception: System message must be at the beginning. at row 189, column 164",
                "type": "server_error",
            }
        },
    ),
    ("ollama", 500, {"error": "system message must be at the beginning"}),
]


@pytest.mark.parametrize(("dialect", "status", "error"), ROLES_AT_FAULT)
def test_a_template_that_wants_one_system_message_gets_one_whatever_its_status(
    dialect: str, status: int, error: Json
) -> None:
    messages = [
        {"role": "system", "content": "A"},
        {"role": "system", "content": "B"},
        USER,
        {"role": "system", "content": "C"},
        {"role": "assistant", "content": "ok"},
        USER,
    ]
    wire = again(dialect, {"model": "m", "messages": messages}, error, status)
    assert [message["role"] for message in wire["messages"]] == ["system", "user", "assistant", "user"]
    assert [word in str(wire["messages"][0]) for word in "AB"] == [True, True]
    assert "<system-reminder>\\nC\\n</system-reminder>" in str(wire["messages"][1])
    again_refused = DIALECTS[dialect].decode_error(status, {}, json.encode(error))
    assert (again_refused.kind, again_refused.retryable, again_refused.status) == ("bad_request", False, 400)


CALLED: Json = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
}
SEEN: Json = {"role": "tool", "tool_call_id": "call_1", "content": "seen"}
BRIDGED: Json = {"role": "assistant", "content": BRIDGE}


@pytest.mark.parametrize("status", [400, 500])
def test_a_user_who_speaks_after_tool_results_is_bridged(status: int) -> None:
    error = {
        "object": "error",
        "message": "Unexpected role 'user' after role 'tool'",
        "type": "invalid_request_message_order",
        "param": None,
        "code": "3230",
    }
    wire = again("openai_chat", {**CHAT, "messages": [USER, CALLED, SEEN, USER]}, error, status)
    assert wire["messages"] == [USER, CALLED, SEEN, BRIDGED, USER]


@pytest.mark.parametrize("member", ["parametersJsonSchema", "parameters_json_schema"])
def test_an_older_gemini_gets_openapi_schemas(member: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    tools = [{"functionDeclarations": [{"name": "look", "parametersJsonSchema": schema}]}]
    error = google(f"Invalid JSON payload received. Unknown name \"{member}\" at 'tools[0]': Cannot find field.")
    (declaration,) = again("gemini", {**GEMINI, "tools": tools}, error)["tools"][0]["functionDeclarations"]
    assert declaration == {
        "name": "look",
        "parameters": {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}},
    }


def test_a_gemini_that_knows_no_call_ids_gets_none() -> None:
    contents = [
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "look", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "look", "response": {"output": "R"}}}]},
    ]
    message = (
        "Invalid JSON payload received. Unknown name \"id\" at 'contents[1].parts[0].function_call': Cannot find field."
    )
    sent = again("gemini", {"contents": contents}, google(message))["contents"]
    assert sent[1]["parts"] == [{"functionCall": {"name": "look", "args": {}}}]
    assert sent[2]["parts"] == [{"functionResponse": {"name": "look", "response": {"output": "R"}}}]


def test_a_limit_of_another_number_is_not_one_of_the_output() -> None:
    body = {**CHAT, "max_tokens": 32000, "top_logprobs": 50, "logprobs": True}
    message = "Invalid 'top_logprobs': integer above maximum value. Expected a value <= 20, but got 50 instead."
    assert refused("openai_chat", body, openai(message, "top_logprobs", "integer_above_max_value")) is None


def test_a_user_who_speaks_beside_tool_results_is_bridged_in_the_messages_api_too() -> None:
    both = {"role": "user", "content": [*RESULT["content"], {"type": "text", "text": "hi"}]}
    asked = {"role": "assistant", "content": ASKED["content"][1:]}
    error = anthropic("Unexpected role 'user' after role 'tool'")
    wire = again("anthropic", {**MESSAGES, "messages": [USER, asked, both]}, error)
    assert wire["messages"][2:] == [RESULT, BRIDGED, USER]


def test_calls_of_other_models_are_marked_for_a_gemini_of_any_name() -> None:
    message = "Function call is missing a thought_signature in functionCall parts. This is required for tools to work."
    error = [{"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}]
    spoken = DIALECTS["openai_chat"]
    request = spoken.decode_request(json.encode({**CHAT, "messages": [USER, CALLED, SEEN]}))
    mended = apply_remedies(request, "openai_chat", spoken.decode_error(400, {}, json.encode(error)))
    assert mended is not None
    wire = json.decode(spoken.encode_request(mended.request, Receipt()))
    placeholder = {"google": {"thought_signature": UNSIGNED}}
    assert wire["messages"][1]["tool_calls"] == [{**CALLED["tool_calls"][0], "extra_content": placeholder}]


def test_signatures_that_gemini_refuses_are_replaced() -> None:
    call = {**CALLED["tool_calls"][0], "extra_content": {"google": {"thought_signature": "forged"}}}
    body = {**CHAT, "messages": [USER, {**CALLED, "tool_calls": [call]}, SEEN]}
    wire = again("openai_chat", body, google("Thought signature is not valid"))
    assert wire["messages"][1]["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": UNSIGNED}}


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "Conversation roles must alternate user/assistant/user/assistant/..."),
        (
            500,
            "After the optional system message, conversation roles must alternate user and assistant roles except for"
            " tool calls and results. at row 189, column 164:",
        ),
    ],
)
def test_turns_alternate_for_a_template_that_wants_it(status: int, message: str) -> None:
    messages = [{"role": "system", "content": "A"}, USER, USER, CALLED, SEEN, USER]
    wire = again("openai_chat", {**CHAT, "messages": messages}, openai(message), status)
    assert [message["role"] for message in wire["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    assert [part["text"] for part in wire["messages"][1]["content"]] == ["hi", "hi"]


def test_an_answer_that_cannot_be_gone_on_with_is_followed_by_a_word() -> None:
    body = {**MESSAGES, "messages": [USER, {"role": "assistant", "content": "{"}]}
    error = "This model does not support assistant message prefill. The conversation must end with a user message."
    wire = again("anthropic", body, anthropic(error))
    assert [message["role"] for message in wire["messages"]] == ["user", "assistant", "user"]


# What is said, and what is not mended


def test_the_receipt_tells_what_was_left_out_and_that_it_was_sent_again() -> None:
    mended = refused("openai_chat", {**CHAT, "seed": 7}, openai("Unknown parameter: 'seed'."))
    assert mended is not None
    assert [(line.where, line.severity) for line in mended.lines] == [("seed", "loss"), ("request", "note")]


def test_a_request_from_another_dialect_keeps_what_is_written_for_it() -> None:
    exchange = ExchangeCore("anthropic", "openai_chat", model="m")
    exchange.request({**MESSAGES, "stream": True})
    assert exchange.sent is not None
    error = DIALECTS["openai_chat"].decode_error(400, {}, json.encode(FIELDS[0][2]))
    mended = apply_remedies(exchange.sent, "openai_chat", error)
    assert mended is not None
    wire = json.decode(DIALECTS["openai_chat"].encode_request(mended.request, exchange.receipt))
    assert wire["max_completion_tokens"] == 9000
    assert "max_tokens" not in wire
    assert wire["stream_options"] == {"include_usage": True}


def test_usage_that_cannot_be_asked_for_is_not() -> None:
    exchange = ExchangeCore("anthropic", "openai_chat", model="m")
    exchange.request({**MESSAGES, "stream": True})
    assert exchange.sent is not None
    error = ApiError(kind="bad_request", message="Unknown parameter: 'stream_options'.", status=400)
    mended = apply_remedies(exchange.sent, "openai_chat", error)
    assert mended is not None
    wire = json.decode(DIALECTS["openai_chat"].encode_request(mended.request, exchange.receipt))
    assert wire["stream"] is True
    assert "stream_options" not in wire


@pytest.mark.parametrize(
    "message",
    [
        "Invalid image: unsupported image type",
        "This model does not support image input",
        "messages: at least one message is required",
        "Invalid schema for function 'look': 'x' is not valid",
        "Unsupported parameter: 'messages' is not supported with this model.",
        "Unknown parameter: 'tools'.",
        "Unknown parameter: 'model'.",
        "Unknown parameter: 'never_sent'.",
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        "prompt is too long: 210000 tokens > 200000 maximum",
        "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (9000 in the messages,"
        " 0 in the completion).",
        "",
    ],
)
def test_what_has_no_clear_remedy_is_for_the_client(message: str) -> None:
    body = {**CHAT, "tools": [FUNCTION], "temperature": 0.5}
    assert refused("openai_chat", body, openai(message)) is None


@pytest.mark.parametrize("kind", ["bad_request", "not_found", "server", "overloaded"])
def test_a_refusal_is_mended_whatever_its_status(kind: Any) -> None:
    request = DIALECTS["openai_chat"].decode_request(json.encode({**CHAT, "seed": 1}))
    mended = apply_remedies(request, "openai_chat", ApiError(kind=kind, message="Unknown parameter: 'seed'."))
    assert mended is not None
    assert mended.request.seed is None


def test_an_error_that_toolglot_found_itself_is_no_refusal() -> None:
    request = DIALECTS["openai_chat"].decode_request(json.encode({**CHAT, "seed": 1}))
    error = ApiError(kind="server", code="upstream_unreadable", message="Unknown parameter: 'seed'.")
    assert apply_remedies(request, "openai_chat", error) is None


@pytest.mark.parametrize("kind", ["authentication", "rate_limit", "permission", "timeout"])
def test_only_refusals_of_the_request_itself_are_mended(kind: Any) -> None:
    request = DIALECTS["openai_chat"].decode_request(json.encode({**CHAT, "seed": 1}))
    assert apply_remedies(request, "openai_chat", ApiError(kind=kind, message="Unknown parameter: 'seed'.")) is None


def test_the_same_refusal_runs_out_of_remedies() -> None:
    for dialect, fields, body, _ in FIELDS:
        spoken = DIALECTS[dialect]
        error = spoken.decode_error(400, {}, json.encode(body))
        request, rounds = spoken.decode_request(json.encode({**BASES[dialect], **fields})), 0
        while (mended := apply_remedies(request, dialect, error)) is not None and rounds < 4:
            request, rounds = mended.request, rounds + 1
        assert rounds in (1, 2, 3), error.message


@pytest.mark.parametrize(
    "text",
    ["tool_choice " * 2000, "effort " * 4000, "'" * 8000, "max_tokens: " * 2000, "[" * 8000, "a" * 8000, "a." * 4000],
)
def test_long_errors_are_read_fast(text: str) -> None:
    request = DIALECTS["openai_chat"].decode_request(json.encode(CHAT))
    own = [remedy for name in DIALECTS for remedy in remedies_of(name).refusals]
    for pattern, _ in (*VALIDATORS, *GENERAL, *own):
        assert sum(1 for _ in pattern.finditer(text[:8000])) < 8000
    apply_remedies(request, "openai_chat", ApiError(kind="bad_request", message=text))


REFUSABLE = [
    ("openai_chat", {name: value})
    for name, value in {
        "temperature": 0.5,
        "top_p": 0.5,
        "seed": 7,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.5,
        "stop": ["x"],
        "logprobs": True,
        "verbosity": "low",
        "user": "u",
        "metadata": {"a": "b"},
        "service_tier": "flex",
        "store": True,
        "prompt_cache_key": "k",
        "prompt_cache_retention": "24h",
        "reasoning_effort": "low",
        "response_format": {"type": "json_object"},
        "parallel_tool_calls": False,
        "anything_new": 1,
    }.items()
]


@pytest.mark.parametrize(("dialect", "fields"), REFUSABLE, ids=[next(iter(fields)) for _, fields in REFUSABLE])
def test_every_optional_field_can_be_done_without(dialect: str, fields: Json) -> None:
    (name,) = fields
    body = {**BASES[dialect], "tools": [FUNCTION], **fields}
    assert name not in again(dialect, body, forbidden("body", name))


# Schemas and media that the upstream refuses from a client of its own dialect

JPEG = "/9j/4AAQSkZJRgABAQAAAQABAAA="


def image(media_type: str) -> Json:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": JPEG}}


MISSING_ITEMS = "Invalid schema for function 'look': In context=('properties', 'a'), array schema missing items."
DRAFT = "tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12 (https://x.test)."


def with_schema(dialect: str, schema: Json) -> Json:
    parameters = {"type": "object", "properties": {"a": schema}}
    if dialect == "anthropic":
        return {"tools": [{"name": "look", "input_schema": parameters}]}
    if dialect == "openai_responses":
        return {"tools": [{"type": "function", "name": "look", "parameters": parameters}]}
    return {"tools": [{"type": "function", "function": {"name": "look", "parameters": parameters}}]}


@pytest.mark.parametrize(
    ("dialect", "error", "given", "sent"),
    [
        ("openai_chat", openai(MISSING_ITEMS), {"type": "array"}, {"type": "array", "items": {}}),
        ("openai_responses", openai(MISSING_ITEMS), {"type": "array"}, {"type": "array", "items": {}}),
        ("anthropic", anthropic(DRAFT), {"minimum": 0, "exclusiveMinimum": True}, {"exclusiveMinimum": 0}),
        ("openai_chat", openai(DRAFT), {"items": [{"type": "string"}]}, {"prefixItems": [{"type": "string"}]}),
    ],
)
def test_a_refused_schema_is_written_in_the_form_that_the_upstream_wants(
    dialect: str, error: Json, given: Json, sent: Json
) -> None:
    assert (
        again(dialect, {**BASES[dialect], **with_schema(dialect, given)}, error)["tools"]
        == (with_schema(dialect, sent)["tools"])
    )
    assert refused(dialect, {**BASES[dialect], **with_schema(dialect, {"type": "string"})}, error) is None


@pytest.mark.parametrize(
    ("media_type", "message"),
    [
        (
            "image/png",
            "messages.0.content.0.image.source.base64: The image was specified using the image/png media type, but the"
            " image appears to be a image/jpeg image",
        ),
        ("image/png", "messages.0.content.0.image.source.base64.data: Image does not match the provided media type"),
        ("image/jpg", "messages.0.content.0.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png'"),
    ],
)
def test_a_refused_image_is_sent_under_the_type_of_its_data(media_type: str, message: str) -> None:
    body = {**MESSAGES, "messages": [{"role": "user", "content": [image(media_type)]}]}
    assert again("anthropic", body, anthropic(message))["messages"][0]["content"] == [image("image/jpeg")]
