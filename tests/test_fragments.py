"""Tool definitions alone and histories alone, between every pair."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_files import Case, cases_with
from tests.exchanges import JSON_NAMES
from tests.forms import is_json
from toolglot import translate_messages, translate_tools
from toolglot.dialects import DIALECTS
from toolglot.errors import DecodeError, LossError, UnknownDialectError

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

TOOLS: dict[str, list[dict[str, Any]]] = {
    "openai_chat": [
        {"type": "function", "function": {"name": "weather", "description": "Weather now.", "parameters": SCHEMA}}
    ],
    "openai_responses": [
        {
            "type": "function",
            "name": "weather",
            "description": "Weather now.",
            "parameters": SCHEMA,
            "strict": False,
        }
    ],
    "anthropic": [{"name": "weather", "description": "Weather now.", "input_schema": SCHEMA}],
    "gemini": [
        {"functionDeclarations": [{"name": "weather", "description": "Weather now.", "parametersJsonSchema": SCHEMA}]}
    ],
    "warp": [{"name": "weather", "description": "Weather now.", "input_schema": SCHEMA}],
    "mcp": [{"name": "weather", "description": "Weather now.", "inputSchema": SCHEMA}],
}

ARGUMENTS = '{"city":"Paris","n":1.0}'

HISTORIES: dict[str, Any] = {
    "openai_chat": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Umbrella?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ARGUMENTS}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "Rain."},
        {"role": "assistant", "content": "Yes."},
    ],
    "openai_responses": {
        "instructions": "Be brief.",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Umbrella?"}]},
            {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": ARGUMENTS},
            {"type": "function_call_output", "call_id": "call_1", "output": "Rain."},
            {"type": "message", "role": "assistant", "content": "Yes."},
        ],
    },
    "anthropic": {
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": "Umbrella?"},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Paris", "n": 1.0}}
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "Rain."}]},
            {"role": "assistant", "content": "Yes."},
        ],
    },
    "gemini": {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Umbrella?"}]},
            {
                "role": "model",
                "parts": [
                    {
                        "functionCall": {"id": "call_1", "name": "weather", "args": {"city": "Paris", "n": 1.0}},
                        "thoughtSignature": "skip_thought_signature_validator",
                    }
                ],
            },
            {
                "role": "user",
                "parts": [{"functionResponse": {"id": "call_1", "name": "weather", "response": {"output": "Rain."}}}],
            },
            {"role": "model", "parts": [{"text": "Yes."}]},
        ],
    },
}


# What Responses alone writes out: that a tool is not strict.
SAID_BY_RESPONSES: tuple[tuple[str, Any], ...] = (("strict", False),)


def plain(value: Any) -> Any:
    """Without what means nothing: the defaults that are written out, and one text as a list of parts."""
    match value:
        case [{"type": "text", "text": text, **rest}] if not rest:
            return text
        case list():
            return [plain(item) for item in value]
        case dict():
            return {key: plain(item) for key, item in value.items() if (key, item) not in SAID_BY_RESPONSES}
    return value


@pytest.mark.parametrize("target", TOOLS)
@pytest.mark.parametrize("source", TOOLS)
def test_a_tool_becomes_the_same_tool_of_every_other_kind(source: str, target: str) -> None:
    translated = translate_tools(TOOLS[source], source, target)
    assert plain(translated.json()) == plain(TOOLS[target])
    assert not translated.receipt


@pytest.mark.parametrize("source", [name for name in TOOLS if name != "warp"])
def test_tools_may_stand_in_an_object(source: str) -> None:
    request = {"model": "m", "tools": TOOLS[source], "temperature": 1}
    assert plain(translate_tools(request, source, "anthropic").json()) == TOOLS["anthropic"]


@pytest.mark.parametrize(
    "given",
    [
        {"tools": TOOLS["warp"]},
        {"servers": [{"name": "s", "tools": TOOLS["warp"]}]},
        {"mcp_context": {"tools": TOOLS["warp"]}, "settings": {"model_config": {"base": "auto"}}},
    ],
)
def test_tools_of_warp_stand_in_its_own_objects(given: Any) -> None:
    assert translate_tools(given, "warp", "anthropic").json() == TOOLS["anthropic"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([{"nam": "x"}], "$[0].nam: MCPTool has no such field"),
        ({"tools": [{"name": 3}]}, "$.tools[0].name: text is expected"),
        ({}, "$.mcp_context: this array of tools is required"),
    ],
)
def test_tools_that_warp_could_not_have_are_refused_with_their_place(given: Any, told: str) -> None:
    with pytest.raises(DecodeError) as caught:
        translate_tools(given, "warp", "mcp")
    assert str(caught.value) == told


def test_a_history_of_warp_is_its_tasks_and_its_input() -> None:
    history = HISTORIES["openai_chat"][1:4]
    written = translate_messages(history, "openai_chat", "warp").json()
    assert set(written) == {"task_context", "input"}
    said = translate_messages(written, "warp", "openai_chat").data
    assert said == json.dumps(history, separators=(",", ":")).replace("1.0", "1").encode()  # its numbers are doubles
    with pytest.raises(DecodeError, match="task_context"):
        translate_messages([], "warp", "openai_chat")


OUTPUT_SCHEMA = {"type": "object", "properties": {"degrees": {"type": "number"}}}


@pytest.mark.parametrize(
    ("target", "place", "losses"),
    [
        ("openai_chat", None, ["tools[0].outputSchema"]),
        ("openai_responses", "output_schema", []),
        ("anthropic", None, ["tools[0].outputSchema"]),
        ("gemini", "responseJsonSchema", []),
        ("warp", None, ["tools[0].outputSchema"]),
    ],
)
def test_the_schema_of_an_output_goes_where_an_api_has_a_place_for_it(
    target: str, place: str | None, losses: list[str]
) -> None:
    tool = {**TOOLS["mcp"][0], "outputSchema": OUTPUT_SCHEMA}
    there = translate_tools([tool], "mcp", target)
    assert [line.where for line in there.receipt.losses] == losses
    (written,) = there.json()
    if place is not None:
        declared = written["functionDeclarations"][0] if target == "gemini" else written
        assert declared[place] == OUTPUT_SCHEMA
    back = translate_tools(there.data, target, "mcp")
    assert back.json() == ([tool] if place is not None else TOOLS["mcp"])
    assert not back.receipt


properties = st.dictionaries(
    st.from_regex(r"[a-z]{1,8}", fullmatch=True),
    st.sampled_from([{"type": "string"}, {"type": "integer", "minimum": 1}, {"type": "array", "items": {}}]),
    min_size=1,
    max_size=3,
)


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "name": st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,40}", fullmatch=True),
                "description": st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
                "inputSchema": properties.map(lambda inner: {"type": "object", "properties": inner}),
            }
        ),
        max_size=3,
        unique_by=lambda tool: str(tool["name"]),
    ),
    st.sampled_from(list(DIALECTS)),
)
def test_tools_of_mcp_go_to_every_dialect_and_back(listed: list[dict[str, Any]], dialect: str) -> None:
    there = translate_tools(listed, "mcp", dialect)
    back = translate_tools(there.data, dialect, "mcp")
    assert (back.json(), there.receipt.losses, back.receipt.losses) == (listed, (), ())


def test_no_tools_are_an_empty_array_everywhere() -> None:
    for source in TOOLS:
        for target in TOOLS:
            assert translate_tools("[]", source, target).data == b"[]", (source, target)


def test_what_mcp_says_of_a_tool_and_others_cannot_is_a_loss() -> None:
    tool = {**TOOLS["mcp"][0], "title": "Weather", "annotations": {"readOnlyHint": True}}
    translated = translate_tools([tool], "mcp", "anthropic")
    assert translated.json() == TOOLS["anthropic"]
    assert [line.where for line in translated.receipt.losses] == ["tools[0].annotations"]
    with pytest.raises(LossError):
        translate_tools([tool], "mcp", "anthropic", strict=True)


@pytest.mark.parametrize("target", JSON_NAMES)
def test_what_people_see_of_an_mcp_tool_is_left_out_with_a_note(target: str) -> None:
    tool = {
        **TOOLS["mcp"][0],
        "title": "Weather",
        "icons": [{"src": "https://example.org/i.png"}],
        "_meta": {"org.example/owner": "me"},
        "execution": {"taskSupport": "optional"},
    }
    translated = translate_tools([{**TOOLS["mcp"][0], "name": "other", "title": None}, tool], "mcp", target)
    assert [str(line) for line in translated.receipt.notes][:4] == [
        "note: tools[1]._meta: a host may need it, a model never does",
        "note: tools[1].execution: a host needs it, a model never does",
        "note: tools[1].icons: people see it, a model never does",
        "note: tools[1].title: people see it, a model never does",
    ]
    assert not translated.receipt.losses


@pytest.mark.parametrize("target", TOOLS)
def test_a_list_of_mcp_tools_that_goes_on_is_a_loss(target: str) -> None:
    listed = {"tools": TOOLS["mcp"], "nextCursor": "page-2"}
    message = {"jsonrpc": "2.0", "id": 1, "result": listed}
    for document in (listed, message):
        assert [line.where for line in translate_tools(document, "mcp", target).receipt.losses] == ["nextCursor"]
    assert not translate_tools({**listed, "nextCursor": None}, "mcp", target).receipt
    with pytest.raises(LossError):
        translate_tools(listed, "mcp", target, strict=True)


def test_from_mcp_to_mcp_nothing_is_touched() -> None:
    tools = [
        {"name": "a name with spaces", "title": "T", "inputSchema": {"type": "string"}, "annotations": {"x": True}},
        {"name": "x" * 300, "inputSchema": {}, "_meta": {"n": 1.0}},
        {"name": "x" * 300, "description": None},
    ]
    translated = translate_tools(tools, "mcp", "mcp")
    assert (translated.json(), bool(translated.receipt)) == (tools, False)


def test_a_custom_tool_becomes_a_function_for_mcp() -> None:
    custom = {"type": "custom", "custom": {"name": "run", "description": "Runs code."}}
    translated = translate_tools([custom], "openai_chat", "mcp")
    (tool,) = translated.json()
    assert tool["name"] == "run"
    assert list(tool["inputSchema"]["properties"]) == ["input"]


def test_a_hosted_tool_is_a_loss_and_the_others_stay() -> None:
    listed = [{"type": "web_search"}, *TOOLS["openai_responses"]]
    translated = translate_tools(listed, "openai_responses", "mcp")
    assert translated.json() == TOOLS["mcp"]
    assert [line.what for line in translated.receipt.losses] == ["web_search"]


def test_a_deferred_tool_is_offered_at_once_where_nothing_is_deferred() -> None:
    deferred = {**TOOLS["anthropic"][0], "defer_loading": True}
    translated = translate_tools([deferred], "anthropic", "openai_chat")
    assert translated.json() == TOOLS["openai_chat"]
    assert [line.where for line in translated.receipt.losses] == ["tools[0]"]


@pytest.mark.parametrize("target", HISTORIES)
@pytest.mark.parametrize("source", HISTORIES)
def test_a_history_becomes_the_same_history_in_every_dialect(source: str, target: str) -> None:
    translated = translate_messages(plain(HISTORIES[source]), source, target)
    assert plain(translated.json()) == plain(HISTORIES[target])
    assert not translated.receipt.losses


def test_arguments_keep_their_spelling() -> None:
    text = '[{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{"n": 1.0, "big": 1e3}}]}]'
    calls = translate_messages(text, "anthropic", "openai_chat").json()[0]["tool_calls"]
    assert calls[0]["function"]["arguments"] == '{"n": 1.0, "big": 1e3}'


def test_a_history_without_system_text_is_an_array() -> None:
    assert (
        translate_messages(HISTORIES["openai_chat"][1:], "openai_chat", "anthropic").json()
        == (HISTORIES["anthropic"]["messages"])
    )


def test_a_whole_request_serves_as_a_history() -> None:
    request = {**HISTORIES["anthropic"], "model": "m", "max_tokens": 5, "tools": TOOLS["anthropic"]}
    assert translate_messages(request, "anthropic", "openai_chat").json() == HISTORIES["openai_chat"]


def test_gemini_may_spell_its_members_either_way() -> None:
    request = {
        "system_instruction": {"parts": [{"text": "S"}]},
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
    }
    assert translate_messages(request, "gemini", "openai_chat").json() == [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "Hi"},
    ]


def test_a_string_of_input_is_a_history() -> None:
    assert translate_messages({"input": "Hi"}, "openai_responses", "anthropic").json() == [
        {"role": "user", "content": "Hi"}
    ]


def test_strict_refuses_a_history_that_would_lose_something() -> None:
    history = [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "QQ==", "format": "wav"}}]}]
    assert translate_messages(history, "openai_chat", "anthropic").receipt.losses
    with pytest.raises(LossError):
        translate_messages(history, "openai_chat", "anthropic", strict=True)


@pytest.mark.parametrize(
    ("data", "where"),
    [
        ('[{"role": 3}]', "$[0].role"),
        ('{"messages": [{"role": 3}]}', "$.messages[0].role"),
        ('{"contents": []}', "$.messages"),
        ("3", "$"),
        ('[{"role"', "$[0]"),
    ],
)
def test_a_history_that_cannot_be_read_is_refused_with_its_own_path(data: str, where: str) -> None:
    with pytest.raises(DecodeError) as caught:
        translate_messages(data, "openai_chat", "anthropic")
    assert caught.value.where == where


@pytest.mark.parametrize(
    ("data", "where"),
    [
        ('[{"type":"function","function":{}}]', "$[0].function.name"),
        ("{}", "$.tools"),
        ('"x"', "$"),
        ('{"tools": 3}', "$.tools"),
    ],
)
def test_tools_that_cannot_be_read_are_refused_with_their_own_path(data: str, where: str) -> None:
    with pytest.raises(DecodeError) as caught:
        translate_tools(data, "openai_chat", "anthropic")
    assert caught.value.where == where


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownDialectError, match=", ".join([*DIALECTS, "mcp"])):
        translate_tools("[]", "cohere", "mcp")


@pytest.mark.parametrize(
    "case",
    [case for case in cases_with("request") if is_json(case.dialect)],
    ids=lambda case: f"{case.dialect}-{case.name}",
)
def test_fragments_of_whole_requests_come_back_to_their_own_dialect_as_they_were(case: Case) -> None:
    request, dialect = case.value("request"), DIALECTS[case.dialect]
    data = case.read("request")
    tools = translate_tools(data, dialect, dialect) if "tools" in request else None
    if tools and not tools.receipt:  # some cases hold names that no API allows
        assert tools.json() == request["tools"]
    messages = translate_messages(data, dialect, dialect)
    if not messages.receipt:
        written = messages.json()
        history = written[dialect.request.history_key] if isinstance(written, dict) else written
        assert history == request[dialect.request.history_key]


def test_a_hyphen_in_a_dialect_is_as_good_as_an_underscore() -> None:
    assert translate_tools(TOOLS["openai_chat"], "openai-chat", "mcp").json() == TOOLS["mcp"]


def test_within_one_dialect_and_for_no_model_in_particular_nothing_is_rewritten_that_some_model_takes() -> None:
    custom = [{"type": "custom", "custom": {"name": "run", "description": "Runs code."}}]
    translated = translate_tools(custom, "openai_chat", "openai_chat")
    assert (translated.json(), bool(translated.receipt)) == (custom, False)
