"""Requests of generateContent, read and written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dialects.gemini.shapes import REQUEST
from toolglot.dialect import capabilities
from toolglot.dialects.gemini.dialect import GEMINI
from toolglot.dialects.gemini.names import normalize
from toolglot.errors import DecodeError
from toolglot.ir import (
    Cache,
    Media,
    Message,
    Opaque,
    Reasoning,
    Refusal,
    Request,
    ResponseFormat,
    Source,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    native_of,
    replace,
)
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

HELLO: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}


def decode(body: Any) -> Request:
    return GEMINI.decode_request(json.dumps(body).encode())


def encode(request: Request, receipt: Receipt | None = None) -> Any:
    return json.loads(GEMINI.encode_request(request, receipt if receipt is not None else Receipt()))


def with_parts(*parts: Any, role: str = "user") -> dict[str, Any]:
    return {"contents": [{"role": role, "parts": list(parts)}]}


def block_of(part: Any, role: str = "user") -> Any:
    (block,) = decode(with_parts(part, role=role)).messages[0].content
    return block


def make_request(*messages: Message, **fields: Any) -> Request:
    return Request(model="gemini-3-pro", messages=messages, **fields)


def user(*blocks: Any) -> Message:
    return Message(role="user", content=blocks)


def first_part(block: Any, receipt: Receipt | None = None) -> Any:
    return encode(make_request(user(block)), receipt)["contents"][0]["parts"][0]


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

# Every one of these comes back exactly, apart from the spelling of known names.
BODIES: dict[str, Any] = {
    "hello": HELLO,
    "no role": {"contents": [{"parts": [{"text": "Hi"}]}]},
    "empty role": {"contents": [{"role": "", "parts": [{"text": "Hi"}]}]},
    "null role": {"contents": [{"role": None, "parts": [{"text": "Hi"}]}]},
    "unknown roles": {"contents": [{"role": "critic", "parts": []}, {"role": "system", "parts": [{"text": "s"}]}]},
    "no parts": {"contents": [{"role": "model"}, {"role": "user", "parts": None}, {"role": "user", "parts": []}]},
    "bare objects": {
        "contents": {"role": "user", "parts": {"text": "Hi"}},
        "systemInstruction": {"parts": {"text": "Be a cat."}},
        "tools": {"functionDeclarations": {"name": "f"}},
    },
    "instruction as string": {**HELLO, "systemInstruction": "Be kind."},
    "instruction as parts": {**HELLO, "systemInstruction": [{"text": "Be kind."}, {"text": "Be brief."}]},
    "instruction as part": {**HELLO, "systemInstruction": {"text": "Be kind."}},
    "instruction with role": {**HELLO, "system_instruction": {"role": "user", "parts": [{"text": "Be kind."}]}},
    "instruction null": {**HELLO, "systemInstruction": None},
    "parts of every kind": with_parts(
        {"text": "a", "novel": 1},
        {"text": "b", "thought": True, "thoughtSignature": "c2ln"},
        {"text": "", "thoughtSignature": "c2ln"},
        {"thoughtSignature": "c2ln"},
        {"thought": True},
        {"text": "c", "thought": False},
        {"text": "d", "functionCall": None},
        {"inline_data": {"mime_type": "image/png", "data": "AAAA", "display_name": "x.png"}},
        {"inlineData": {"data": "AAAA"}, "mediaResolution": {"level": "HIGH"}},
        {"fileData": {"fileUri": "files/abc", "mimeType": "video/mp4"}, "videoMetadata": {"fps": 1}},
        {"executable_code": {"language": "PYTHON", "code": "1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        {"toolCall": {"id": "1", "tool_type": "GOOGLE_SEARCH", "args": {"snake_key": 1}}},
        {"novel": {"x": None}},
        {},
    ),
    "calls": with_parts(
        {"functionCall": {"id": "1", "name": "f", "args": {"snake_key": {"any_of": [1.0, 1e3]}}}},
        {"function_call": {"name": "f", "args": {}}, "thought_signature": "c2ln"},
        {"functionCall": {"name": "f"}},
        {"functionCall": {"name": "f", "args": None, "id": ""}},
        {"functionCall": {"name": "f", "willContinue": True, "partial_args": [{"json_path": "$.a"}]}},
        {"functionCall": {"partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}]}},
        role="model",
    ),
    "labels and tiers": {**HELLO, "labels": {"Not A label": "B!"}, "service_tier": "FLEX", "model": "models/x"},
    "standard tier": {**HELLO, "serviceTier": "standard"},
    "shouted tier": {**HELLO, "serviceTier": "STANDARD"},
    "tier by itself": {**HELLO, "serviceTier": "unspecified"},
    "chunks of a chat": {
        "contents": [
            *HELLO["contents"],
            {"role": "model", "parts": [{"text": "Hel"}]},
            {"role": "model", "parts": [{"text": "lo"}, {"text": "", "thoughtSignature": "c2ln"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
        ]
    },
    "odd tier": {**HELLO, "serviceTier": "auto", "labels": {}},
    "safety": {**HELLO, "safety_settings": [{"category": "A", "threshold": "B"}], "cachedContent": None, "novel": [1]},
    "empty settings": {**HELLO, "generationConfig": {}, "toolConfig": {}, "tools": []},
    "null settings": {**HELLO, "generationConfig": None, "toolConfig": None, "tools": None, "labels": None},
    "settings": {
        **HELLO,
        "generation_config": {
            "temperature": 1,
            "top_p": 0.95,
            "topK": 64,
            "candidateCount": 1,
            "max_output_tokens": 100,
            "stopSequences": ["END"],
            "seed": 7,
            "presencePenalty": 0.5,
            "frequencyPenalty": -0.5,
            "responseModalities": ["TEXT"],
            "responseLogprobs": None,
        },
    },
    "no stop sequences": {**HELLO, "generationConfig": {"stopSequences": [], "temperature": None}},
}

RESPONSES: list[Any] = [
    {"output": "text"},
    {"output": '{"a":1}'},
    {"output": {"a": 1}},
    {"output": None},
    {"output": ""},
    {"error": "boom"},
    {"error": {"code": 1}},
    {"result": "x"},
    {"content": "x"},
    {"name": "f", "content": "x"},
    {"return_value": [1]},
    {"output": "x", "exit_code": 1},
    {"output": "x", "error": None},
    {"schema": {"$ref": "#/$defs/a"}},
    {},
    None,
]

FORMATS: list[dict[str, Any]] = [
    {"responseMimeType": "application/json"},
    {"responseMimeType": "text/plain"},
    {"responseMimeType": "text/x.enum", "responseSchema": {"type": "STRING", "enum": ["a"]}},
    {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA},
    {"response_mime_type": "application/json", "response_json_schema": {"type": "OBJECT"}},
    {"responseMimeType": "application/json", "responseSchema": {"type": "OBJECT", "nullable": True}},
    {"responseMimeType": "application/json", "_responseJsonSchema": SCHEMA},
    {"responseSchema": {"type": "ARRAY", "items": {"type": "STRING"}}},
    {"responseMimeType": "application/json", "responseSchema": {"type": "OBJECT"}, "responseJsonSchema": SCHEMA},
    {"responseMimeType": None, "responseSchema": None},
]

THINKING: list[dict[str, Any]] = [
    {},
    {"includeThoughts": True},
    {"include_thoughts": False, "thinking_budget": 0},
    {"thinkingBudget": -1},
    {"thinkingBudget": 2048},
    {"thinkingBudget": -5},
    {"thinkingLevel": "HIGH"},
    {"thinkingLevel": "low", "thinkingBudget": 100},
    {"thinkingLevel": "THINKING_LEVEL_UNSPECIFIED", "novel": 1},
]

CHOICES: list[dict[str, Any]] = [
    {},
    {"mode": ""},
    {"mode": "AUTO"},
    {"mode": "any"},
    {"mode": "ANY", "allowed_function_names": ["f", "g"]},
    {"mode": "NONE"},
    {"mode": "VALIDATED"},
    {"mode": "VALIDATED", "allowedFunctionNames": ["f"]},
    {"mode": "AUTO", "allowedFunctionNames": ["f"]},
    {"mode": "MODE_UNSPECIFIED"},
    {"mode": "NOVEL", "novel": 1},
    {"mode": "ANY", "allowedFunctionNames": [], "stream_function_call_arguments": True},
]

TOOLS: list[Any] = [
    [{"functionDeclarations": [{"name": "f", "description": "", "parametersJsonSchema": SCHEMA}, {"name": "g"}]}],
    [{"function_declarations": [{"name": "f", "parameters": {"type": "OBJECT", "properties": {}}}]}],
    [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"type": "OBJECT"}, "behavior": "BLOCKING"}]}],
    [{"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT"}, "parametersJsonSchema": SCHEMA}]}],
    [{"functionDeclarations": [{"name": "f", "response_json_schema": {"type": "string"}}]}],
    [{"functionDeclarations": [{"name": "f"}], "googleSearch": {}}],
    [{"functionDeclarations": [{"name": "f"}]}, {"functionDeclarations": [{"name": "g"}]}],
    [{"googleSearch": {}}, {"functionDeclarations": [{"name": "f"}]}, {"codeExecution": {}, "urlContext": {}}],
    [{"functionDeclarations": []}, {}, {"functionDeclarations": None, "google_search": {}}],
    [{"mcp_servers": [{"name": "x", "streamable_http_transport": {"url": "u", "headers": {"x_y": "z"}}}]}],
]

BODIES |= {
    f"response {response}": with_parts({"functionResponse": {"name": "f", "response": response}})
    for response in RESPONSES
}
BODIES["nameless results"] = with_parts(
    {"functionResponse": {"response": {"output": "x"}}}, {"functionResponse": {"id": "c1", "name": None, "parts": []}}
)
BODIES |= {f"format {form}": {**HELLO, "generationConfig": form} for form in FORMATS}
BODIES |= {f"thinking {form}": {**HELLO, "generationConfig": {"thinkingConfig": form}} for form in THINKING}
BODIES |= {f"choice {form}": {**HELLO, "toolConfig": {"functionCallingConfig": form}} for form in CHOICES}
BODIES |= {f"tools {tools}": {**HELLO, "tools": tools} for tools in TOOLS}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_a_request_comes_back_as_it_was(body: Any) -> None:
    receipt = Receipt()
    first = GEMINI.encode_request(decode(body), receipt)
    assert json.loads(first) == normalize(body, REQUEST)
    assert GEMINI.encode_request(GEMINI.decode_request(first), receipt) == first
    assert not receipt


# Names


def test_known_names_are_normalised_and_free_keys_are_not() -> None:
    body = {
        "contents": [{"parts": [{"function_call": {"name": "f", "args": {"function_call": 1, "mime_type": 2}}}]}],
        "labels": {"service_tier": "x"},
        "tools": [{"function_declarations": [{"name": "f", "parameters_json_schema": {"properties": {"top_p": {}}}}]}],
    }
    encoded = encode(decode(body))
    assert encoded["contents"][0]["parts"][0]["functionCall"]["args"] == {"function_call": 1, "mime_type": 2}
    assert encoded["labels"] == {"service_tier": "x"}
    assert encoded["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"] == {"properties": {"top_p": {}}}


def test_a_member_in_both_spellings_is_refused() -> None:
    with pytest.raises(DecodeError, match="both spellings"):
        decode({**HELLO, "toolConfig": {}, "tool_config": {}})


def test_a_member_that_looks_like_a_note_is_refused() -> None:
    with pytest.raises(DecodeError, match="no such member"):
        decode({**HELLO, "$openapi_schema": True})


# The URL


@pytest.mark.parametrize(
    ("model", "stream", "expected"),
    [
        ("gemini-3-pro", False, "/v1beta/models/gemini-3-pro:generateContent"),
        ("gemini-3-pro", True, "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"),
        ("models/gemini-3-pro", False, "/v1beta/models/gemini-3-pro:generateContent"),
        ("tunedModels/mine", False, "/v1beta/tunedModels/mine:generateContent"),
        ("a?b#c", False, "/v1beta/models/a%3Fb%23c:generateContent"),
    ],
)
def test_model_and_streaming_stand_in_the_path(model: str, stream: bool, expected: str) -> None:
    assert GEMINI.path(Request(model=model, stream=stream)) == expected


def test_model_and_streaming_do_not_stand_in_the_body() -> None:
    assert decode(HELLO).model == ""
    assert encode(replace(decode(HELLO), model="gemini-3-pro", stream=True)) == HELLO


def test_contents_are_required() -> None:
    with pytest.raises(DecodeError, match="contents"):
        decode({"tools": []})


# Messages and parts


def test_roles_have_the_names_of_the_ir() -> None:
    roles = ("user", "model", "function", "critic")
    body = {"contents": [*({"role": role, "parts": []} for role in roles), {}]}
    assert [message.role for message in decode(body).messages] == ["user", "assistant", "tool", "critic", "user"]


def test_the_system_instruction_is_a_leading_system_message() -> None:
    request = decode({**HELLO, "systemInstruction": {"parts": [{"text": "A"}, {"text": "B"}]}})
    assert request.messages[0] == Message(role="system", content=(Text(text="A"), Text(text="B")))


def test_leading_system_messages_become_one_instruction() -> None:
    messages = [Message(role=role, content=(Text(text=role),)) for role in ("system", "developer", "user")]
    encoded = encode(make_request(*messages))
    assert encoded["systemInstruction"] == {"parts": [{"text": "system"}, {"text": "developer"}]}
    assert encoded["contents"] == [{"role": "user", "parts": [{"text": "user"}]}]


def test_system_text_inside_the_conversation_becomes_the_users_with_a_loss() -> None:
    receipt = Receipt()
    encoded = encode(make_request(user(Text(text="a")), Message(role="system", content=(Text(text="b"),))), receipt)
    assert encoded["contents"][1] == {"role": "user", "parts": [{"text": "b"}]}
    assert [loss.where for loss in receipt.losses] == ["messages[1]"]


def test_a_thought_is_thinking_that_knows_its_owner() -> None:
    block = block_of({"text": "hm", "thought": True, "thoughtSignature": "c2ln"}, "model")
    assert block == Thinking(text="hm", native={"gemini": {"thought": True, "thoughtSignature": "c2ln"}})


def test_a_signature_stays_on_the_block_of_its_part() -> None:
    call = block_of({"functionCall": {"name": "f", "args": {}}, "thought_signature": "c2ln"}, "model")
    assert native_of(call, "gemini")["thoughtSignature"] == "c2ln"
    assert block_of({"text": "", "thoughtSignature": "c2ln"}) == Text(
        text="", native={"gemini": {"thoughtSignature": "c2ln"}}
    )


def test_foreign_reasoning_is_a_loss_and_not_a_part() -> None:
    receipt = Receipt()
    thinking = Thinking(text="hm", native={"anthropic": {"signature": "x"}})
    encoded = encode(make_request(Message(role="assistant", content=(thinking, Text(text="a")))), receipt)
    assert encoded["contents"] == [{"role": "model", "parts": [{"text": "a"}]}]
    assert [loss.what for loss in receipt.losses] == ["reasoning"]


@pytest.mark.parametrize(
    ("part", "kind", "source"),
    [
        ({"inlineData": {"mimeType": "image/png", "data": "AA"}}, "image", Source("base64", "AA", "image/png")),
        ({"inlineData": {"mimeType": "audio/wav", "data": "AA"}}, "audio", Source("base64", "AA", "audio/wav")),
        ({"inlineData": {"mimeType": "video/mp4", "data": "AA"}}, "video", Source("base64", "AA", "video/mp4")),
        ({"inlineData": {"mimeType": "text/csv", "data": "AA"}}, "document", Source("base64", "AA", "text/csv")),
        ({"fileData": {"fileUri": "files/1"}}, "document", Source("file", "files/1")),
        ({"fileData": {"fileUri": "gs://b/o"}}, "document", Source("file", "gs://b/o")),
        (
            {"fileData": {"fileUri": "https://generativelanguage.googleapis.com/v1beta/files/1"}},
            "document",
            Source("file", "https://generativelanguage.googleapis.com/v1beta/files/1"),
        ),
        (
            {"fileData": {"fileUri": "https://example.com/a.png", "mimeType": "image/png"}},
            "image",
            Source("url", "https://example.com/a.png", "image/png"),
        ),
    ],
)
def test_data_is_media_of_the_kind_that_its_type_tells(part: Any, kind: str, source: Source) -> None:
    block = block_of(part)
    assert (block.kind, block.source) == (kind, source)
    assert first_part(replace(block, native={})) == part


def test_data_in_the_base64_of_urls_is_read_as_the_usual_one() -> None:
    block = block_of({"inlineData": {"mimeType": "image/png", "data": "-_8="}})
    assert block.source == Source("base64", "+/8=", "image/png")


def test_a_document_of_plain_text_is_written_as_data() -> None:
    part = first_part(Media(kind="document", source=Source("text", "Grüße"), name="a.txt"))
    assert part == {"inlineData": {"mimeType": "text/plain", "data": "R3LDvMOfZQ==", "displayName": "a.txt"}}


def test_a_refusal_is_written_as_text() -> None:
    assert first_part(Refusal(text="no")) == {"text": "no"}


def test_what_has_no_place_is_reported() -> None:
    receipt = Receipt()
    encode(
        make_request(
            user(Text(text="a", cache=Cache()), Opaque("anthropic", {"type": "novel"})),
            Message(role="critic", content=(Media(kind="image", source=Source("base64", "A"), detail="low"),)),
            tools=(Opaque("openai_chat", {"type": "novel"}), Tool(name="f", kind="custom", strict=True, deferred=True)),
            tool_choice=ToolChoice(mode="opaque"),
            parallel_tool_calls=False,
            verbosity="low",
            user="u",
            cache=Cache(),
            service_tier="scale",
            metadata={"Session ID": "X"},
        ),
        receipt,
    )
    assert {loss.where for loss in receipt.losses} == {
        "messages[0].content[0]",
        "messages[0].content[1]",
        "messages[1]",
        "messages[1].content[0]",
        "tools[0]",
        "tools[1]",
        "tool_choice",
        "parallel_tool_calls",
        "verbosity",
        "user",
        "cache",
        "service_tier",
        "metadata.Session ID",
    }


# Calls


def test_arguments_are_the_text_as_it_was_written() -> None:
    arguments = b'{"b" : 1.0, "a": 1e3, "c": "\\u00e9"}'
    raw = b'{"contents":[{"parts":[{"text":"x"},{"functionCall":{"name":"f","args":%b}}]}]}' % arguments
    call = GEMINI.decode_request(raw).messages[0].content[1]
    assert isinstance(call, ToolCall)
    assert call.arguments == arguments.decode()
    assert b'"args":' + arguments in GEMINI.encode_request(GEMINI.decode_request(raw), Receipt())


@pytest.mark.parametrize("arguments", ["", "  ", "{}"])
def test_a_call_without_arguments_becomes_an_empty_object(arguments: str) -> None:
    part = first_part(ToolCall(id="c1", name="f", arguments=arguments))
    assert part == {"functionCall": {"id": "c1", "name": "f", "args": {}}}


@pytest.mark.parametrize("arguments", ['{"a":', "[1]", '"x"', "nonsense"])
def test_broken_arguments_stay_visible(arguments: str) -> None:
    receipt = Receipt()
    part = first_part(ToolCall(id="c1", name="f", arguments=arguments), receipt)
    assert part["functionCall"]["args"] == {"_raw": arguments}
    assert [loss.what for loss in receipt.losses] == ["arguments"]


def test_a_call_without_an_id_has_none_on_the_wire() -> None:
    assert first_part(ToolCall(id="", name="f")) == {"functionCall": {"name": "f", "args": {}}}


# Results


@pytest.mark.parametrize(
    ("response", "text", "is_error"),
    [
        ({"output": "fine"}, "fine", None),
        ({"output": [1, 2]}, "[1,2]", None),
        ({"error": "boom"}, "boom", True),
        ({"error": {"code": 5}}, '{"code":5}', True),
        ({"result": "x"}, '{"result":"x"}', None),
        ({"name": "f", "content": "x"}, '{"name":"f","content":"x"}', None),
    ],
)
def test_a_result_is_the_text_that_its_wrapping_holds(response: Any, text: str, is_error: bool | None) -> None:
    result = block_of({"functionResponse": {"id": "c1", "name": "f", "response": response}})
    assert (result.call_id, result.name, result.is_error) == ("c1", "f", is_error)
    assert result.content == (Text(text=text),)


@pytest.mark.parametrize(
    ("content", "is_error", "response"),
    [
        ((Text(text="fine"),), None, {"output": "fine"}),
        ((Text(text="fine"),), False, {"output": "fine"}),
        ((Text(text="a"), Text(text="b")), None, {"output": "a\nb"}),
        ((), None, {"output": ""}),
        ((Text(text="boom"),), True, {"error": "boom"}),
        ((), True, {"error": ""}),
        ((Text(text='{"error":"x"}'),), True, {"error": '{"error":"x"}'}),
        ((Text(text='{"temperature": 20}'),), None, {"temperature": 20}),
        ((Text(text='{"output": 1}'),), None, {"output": '{"output": 1}'}),
        ((Text(text='{"error": null}'),), None, {"output": '{"error": null}'}),
        ((Text(text="[1]"),), None, {"output": "[1]"}),
        ((Text(text="{}"),), None, {"output": "{}"}),
        ((Text(text='{"a":'),), None, {"output": '{"a":'}),
        # An object would change these texts: numbers, repeated keys, escapes, and lines that may be those of a file.
        ((Text(text='{"version": 1.10}'),), None, {"output": '{"version": 1.10}'}),
        ((Text(text='{"a":1,"a":2}'),), None, {"output": '{"a":1,"a":2}'}),
        ((Text(text='{"a":"\\u00e9"}'),), None, {"output": '{"a":"\\u00e9"}'}),
        ((Text(text='{\n  "a": 1\n}\n'),), None, {"output": '{\n  "a": 1\n}\n'}),
        # Gemini takes a key $ref in a response for a reference and refuses the request.
        ((Text(text='{"a":[{"$ref":"#/x"}]}'),), None, {"output": '{"a":[{"$ref":"#/x"}]}'}),
    ],
)
def test_a_result_is_written_as_an_object(content: Any, is_error: bool | None, response: Any) -> None:
    part = first_part(ToolResult(call_id="c1", name="f", content=content, is_error=is_error))
    assert part == {"functionResponse": {"id": "c1", "name": "f", "response": response}}


def test_a_note_on_a_result_does_not_outlive_its_content() -> None:
    result = block_of({"functionResponse": {"name": "f", "response": {"output": {"a": 1}}}})
    assert first_part(replace(result, content=(Text(text="cut off"),)))["functionResponse"]["response"] == {
        "output": "cut off"
    }
    assert first_part(replace(result, is_error=True))["functionResponse"]["response"] == {"error": '{"a":1}'}


def test_media_in_a_result_stands_in_nested_parts() -> None:
    part = {
        "functionResponse": {
            "name": "f",
            "response": {"output": "see"},
            "parts": [{"inlineData": {"mimeType": "image/png", "data": "AA"}}],
        }
    }
    result = block_of(part)
    assert result.content == (
        Text(text="see"),
        Media(kind="image", source=Source("base64", "AA", "image/png")),
    )
    assert first_part(replace(result, native={})) == part


def test_a_result_is_named_after_its_call() -> None:
    call = Message(role="assistant", content=(ToolCall(id="c1", name="get_weather"),))
    result = Message(role="tool", content=(ToolResult(call_id="c1"),))
    receipt = Receipt()
    assert encode(make_request(call, result), receipt)["contents"][1] == {
        "role": "user",
        "parts": [{"functionResponse": {"id": "c1", "name": "get_weather", "response": {"output": ""}}}],
    }
    assert not receipt
    assert encode(make_request(result), receipt)["contents"][0]["parts"][0]["functionResponse"]["name"] == "c1"
    assert [loss.what for loss in receipt.losses] == ["name of the tool"]


def test_what_a_result_cannot_hold_is_reported() -> None:
    receipt = Receipt()
    first_part(ToolResult(call_id="c1", name="f", content=(Thinking(text="x"),)), receipt)
    assert [loss.where for loss in receipt.losses] == ["messages[0].content[0].content[0]"]


# Tools


def test_declarations_are_tools_and_hosted_tools_are_opaque() -> None:
    tools = decode({**HELLO, "tools": [{"functionDeclarations": [{"name": "f"}], "googleSearch": {}}]}).tools
    assert tools == (Tool(name="f"), Opaque("gemini", {"googleSearch": {}}))


def test_an_openapi_schema_is_read_as_json_schema() -> None:
    parameters = {
        "type": "OBJECT",
        "properties": {
            "type": {"type": "STRING", "nullable": True, "enum": ["a"]},
            "any": {"any_of": [{"type": "STRING"}, {"type": "INTEGER"}], "nullable": True},
            "list": {"type": "ARRAY", "items": {"type": "NUMBER"}, "minItems": "1"},
            "self": {"ref": "#/defs/x"},
            "free": {"type": "TYPE_UNSPECIFIED"},
        },
        "defs": {"x": {"type": "BOOLEAN", "nullable": False}},
    }
    (tool,) = decode({**HELLO, "tools": [{"functionDeclarations": [{"name": "f", "parameters": parameters}]}]}).tools
    assert isinstance(tool, Tool)
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "type": {"type": ["string", "null"], "enum": ["a", None]},
            "any": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
            "list": {"type": "array", "items": {"type": "number"}, "minItems": 1},
            "self": {"$ref": "#/$defs/x"},
            "free": {},
        },
        "$defs": {"x": {"type": "boolean"}},
    }
    changed = encode(make_request(user(), tools=(replace(tool, parameters=SCHEMA),)))
    assert changed["tools"] == [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": SCHEMA}]}]


def test_upper_case_types_in_a_json_schema_are_lowered_too() -> None:
    form = {"responseMimeType": "application/json", "responseJsonSchema": {"type": "OBJECT"}}
    request = decode({**HELLO, "generationConfig": form})
    assert request.response_format is not None
    assert request.response_format.schema == {"type": "object"}


def test_a_schema_without_end_is_refused() -> None:
    schema: Any = {"type": "STRING"}
    for _ in range(200):
        schema = {"type": "ARRAY", "items": schema}
    with pytest.raises(DecodeError, match="too deeply"):
        decode({**HELLO, "tools": [{"functionDeclarations": [{"name": "f", "parameters": schema}]}]})


def test_tools_from_elsewhere_share_one_entry_and_keep_their_schema() -> None:
    tools = (Tool(name="f", description="d", parameters=SCHEMA), Opaque("gemini", {"googleSearch": {}}), Tool(name="g"))
    assert encode(make_request(user(), tools=tools))["tools"] == [
        {
            "functionDeclarations": [
                {"name": "f", "description": "d", "parametersJsonSchema": SCHEMA},
                {"name": "g"},
            ]
        },
        {"googleSearch": {}},
    ]


def test_grouping_is_given_up_when_a_tool_has_gone() -> None:
    request = decode(
        {**HELLO, "tools": [{"functionDeclarations": [{"name": "f"}]}, {"functionDeclarations": [{"name": "g"}]}]}
    )
    assert encode(replace(request, tools=request.tools[1:]))["tools"] == [{"functionDeclarations": [{"name": "g"}]}]


def test_an_old_endpoint_gets_the_openapi_subset() -> None:
    request = make_request(
        user(),
        tools=(Tool(name="f", parameters=SCHEMA), Tool(name="g", parameters={"type": "object", "properties": {}})),
        response_format=ResponseFormat(kind="json_schema", schema=SCHEMA),
        native={"gemini": {"$openapi_schema": True}},
    )
    encoded = encode(request)
    reduced = {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}, "required": ["city"]}
    assert encoded["tools"] == [{"functionDeclarations": [{"name": "f", "parameters": reduced}, {"name": "g"}]}]
    assert encoded["generationConfig"]["responseSchema"] == reduced


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        (ToolChoice(mode="auto"), {"mode": "AUTO"}),
        (ToolChoice(mode="none"), {"mode": "NONE"}),
        (ToolChoice(mode="required"), {"mode": "ANY"}),
        (ToolChoice(mode="required", names=("f",)), {"mode": "ANY", "allowedFunctionNames": ["f"]}),
        (ToolChoice(mode="auto", names=("f", "g")), {"mode": "VALIDATED", "allowedFunctionNames": ["f", "g"]}),
    ],
)
def test_a_choice_is_a_mode_and_names(choice: ToolChoice, config: Any) -> None:
    assert encode(make_request(user(), tool_choice=choice))["toolConfig"] == {"functionCallingConfig": config}
    assert decode({**HELLO, "toolConfig": {"functionCallingConfig": config}}).tool_choice == choice


# Settings


@pytest.mark.parametrize(
    ("reasoning", "config"),
    [
        (Reasoning(mode="off"), {"thinkingBudget": 0}),
        (Reasoning(mode="auto"), {"thinkingBudget": -1}),
        (Reasoning(mode="on", budget_tokens=2048, show=True), {"includeThoughts": True, "thinkingBudget": 2048}),
        (Reasoning(mode="on", effort="high"), {"thinkingLevel": "HIGH"}),
        (Reasoning(show=False), {"includeThoughts": False}),
    ],
)
def test_reasoning_is_a_budget_or_a_level(reasoning: Reasoning, config: Any) -> None:
    assert encode(make_request(user(), reasoning=reasoning))["generationConfig"]["thinkingConfig"] == config
    assert decode({**HELLO, "generationConfig": {"thinkingConfig": config}}).reasoning == reasoning


@pytest.mark.parametrize(
    ("reasoning", "config"),
    [
        (Reasoning(mode="on"), {"thinkingBudget": -1}),
        (Reasoning(mode="on", effort="low", budget_tokens=512), {"thinkingBudget": 512}),
        (Reasoning(effort="extreme"), {}),
    ],
)
def test_reasoning_from_elsewhere_is_written_as_near_as_it_goes(reasoning: Reasoning, config: Any) -> None:
    receipt = Receipt()
    assert encode(make_request(user(), reasoning=reasoning), receipt)["generationConfig"]["thinkingConfig"] == config
    assert bool(receipt.losses) == (reasoning.effort is not None)


@pytest.mark.parametrize(
    ("form", "config"),
    [
        (ResponseFormat(kind="text"), {"responseMimeType": "text/plain"}),
        (ResponseFormat(kind="json"), {"responseMimeType": "application/json"}),
        (
            ResponseFormat(kind="json_schema", schema=SCHEMA),
            {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA},
        ),
    ],
)
def test_a_response_format_is_a_type_and_a_schema(form: ResponseFormat, config: Any) -> None:
    assert encode(make_request(user(), response_format=form))["generationConfig"] == config
    assert decode({**HELLO, "generationConfig": config}).response_format == form


def test_settings_have_their_own_names_here() -> None:
    request = make_request(
        user(),
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        seed=7,
        presence_penalty=0.1,
        frequency_penalty=0.2,
        stop=("END",),
        candidates=2,
        max_output_tokens=100,
        metadata={"team": "a"},
        service_tier="default",
    )
    assert encode(request) == {
        "contents": [{"role": "user", "parts": []}],
        "generationConfig": {
            "temperature": 0.5,
            "topP": 0.9,
            "topK": 40,
            "seed": 7,
            "presencePenalty": 0.1,
            "frequencyPenalty": 0.2,
            "stopSequences": ["END"],
            "candidateCount": 2,
            "maxOutputTokens": 100,
        },
        "labels": {"team": "a"},
        "serviceTier": "standard",
    }
    decoded = decode(encode(request))
    assert (decoded.stop, decoded.candidates, decoded.top_k) == (("END",), 2, 40)
    assert (decoded.metadata, decoded.service_tier) == ({"team": "a"}, "default")


@pytest.mark.parametrize(
    ("own", "tier"),
    [
        ("standard", "default"),
        ("STANDARD", "default"),
        ("unspecified", "auto"),
        ("flex", "flex"),
        ("Priority", "priority"),
        ("novel", None),
    ],
)
def test_service_tiers_are_read_in_everybodys_words(own: str, tier: str | None) -> None:
    request = decode({**HELLO, "serviceTier": own})
    assert request.service_tier == tier
    assert encode(request)["serviceTier"] == own


@pytest.mark.parametrize(
    ("tier", "own", "lost"),
    [
        ("default", "standard", False),
        ("auto", None, False),
        ("flex", "flex", False),
        ("priority", "priority", False),
        ("scale", None, True),
    ],
)
def test_service_tiers_of_others_are_written_in_googles_words(tier: str, own: str | None, lost: bool) -> None:
    receipt = Receipt()
    assert encode(make_request(user(), service_tier=tier), receipt).get("serviceTier") == own
    assert [loss.where for loss in receipt.losses] == ["service_tier"] * lost
    # A tier that a pass has changed since does not come back in its old spelling.
    changed = replace(decode({**HELLO, "serviceTier": "FLEX"}), service_tier="default")
    assert encode(changed)["serviceTier"] == "standard"


def test_several_answers_are_asked_for_in_its_own_dialect_only() -> None:
    own = {**HELLO, "generationConfig": {"candidateCount": 2}}
    exchange = ExchangeCore("gemini", "gemini")
    assert json.loads(exchange.request(own, model="m")) == own
    assert not exchange.receipt
    foreign = ExchangeCore("openai_chat", "gemini")
    written = foreign.request({"model": "m", "n": 2, "messages": [{"role": "user", "content": "Hi"}]})
    assert b"candidateCount" not in written
    assert [loss.where for loss in foreign.receipt.losses] == ["candidates"]


# Chunks of a streamed chat


def is_piece(block: Any) -> bool:
    return "$piece" in native_of(block, "gemini")


def test_text_in_neighbouring_contents_of_the_model_is_noted_as_pieces() -> None:
    contents = [
        {"role": "model", "parts": [{"text": "alone"}]},
        {"role": "user", "parts": [{"text": "a"}]},
        {"role": "user", "parts": [{"text": "b"}]},
        {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "Hel"}]},
        {"role": "model", "parts": [{"text": "lo", "thoughtSignature": "c2ln"}, {"text": "x", "novel": 1}]},
        {"role": "model", "parts": [{"text": "hm", "thought": True, "thoughtSignature": "c2ln"}]},
    ]
    request = decode({"contents": contents})
    noted = [[is_piece(block) for block in message.content] for message in request.messages]
    assert noted == [[False], [False], [False], [True, True], [True, False], [False]]


@pytest.mark.parametrize("target", ["openai_chat", "openai_responses", "anthropic"])
def test_chunks_of_a_chat_become_one_text_elsewhere(target: str) -> None:
    chunks = [{"role": "model", "parts": [{"text": text}]} for text in ("Hel", "lo,", " ", "you")]
    body = {"contents": [*HELLO["contents"], *chunks, *HELLO["contents"]]}
    assert b"Hello, you" in ExchangeCore("gemini", target).request(body, model="m")


# What the models can be told


@pytest.mark.parametrize(
    ("model", "efforts", "can_be_off", "media_in_result"),
    [
        ("gemini-2.5-flash", 0, True, False),
        ("models/gemini-2.5-pro", 0, False, False),
        ("gemini-3-pro-preview", 3, False, True),
        ("gemini-3.8-flash", 3, True, True),
        ("gemini-3-flash-preview", 4, True, True),
        ("gemini-3.1-flash-lite", 4, True, True),
        ("novel", 4, True, True),
    ],
)
def test_models_differ(model: str, efforts: int, can_be_off: bool, media_in_result: bool) -> None:
    can = capabilities(GEMINI, model)
    assert (len(can.reasoning.efforts), can.reasoning.can_disable, bool(can.media.in_result)) == (
        efforts,
        can_be_off,
        media_in_result,
    )


@pytest.mark.parametrize(
    ("model", "most"), [("gemini-2.5-flash-lite", 24576), ("models/gemini-2.5-pro", 32768), ("gemini-3-flash", None)]
)
def test_a_budget_has_a_highest_value(model: str, most: int | None) -> None:
    assert capabilities(GEMINI, model).reasoning.max_budget == most


def test_a_call_is_not_the_beginning() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "system", "content": "s"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
    ]
    written = json.loads(ExchangeCore("openai_chat", "gemini").request({"model": "m", "messages": messages}))
    assert [content["role"] for content in written["contents"]] == ["user", "model", "user"]
    own = {"contents": [{"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}]}
    assert json.loads(ExchangeCore("gemini", "gemini").request(own, model="m")) == own


def test_that_calls_keep_to_their_schema_is_told_as_lost() -> None:
    validated = {**HELLO, "toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}}}
    tools = [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": SCHEMA}]}]
    exchange = ExchangeCore("gemini", "openai_chat")
    exchange.request({**validated, "tools": tools}, model="m")
    assert any(line.where == "tool_choice.mode" for line in exchange.receipt)
    changed = replace(decode(validated), tool_choice=replace(decode(validated).tool_choice, mode="none"))  # type: ignore[type-var]
    assert encode(changed)["toolConfig"] == {"functionCallingConfig": {"mode": "NONE"}}


# What cannot be read


@pytest.mark.parametrize("member", ["contents", "tools", "systemInstruction", "safetySettings", "generationConfig"])
def test_a_list_in_a_list_is_refused_however_deep(member: str) -> None:
    for depth in (2, 900):
        body = {**HELLO, member: json.loads("[" * depth + "]" * depth)}
        with pytest.raises(DecodeError):
            decode(body)


@pytest.mark.parametrize("digits", [18, 19, 5000])
def test_a_count_may_be_a_string_as_long_as_it_is_a_number_of_this_world(digits: int) -> None:
    schema = {"type": "STRING", "maxLength": "9" * digits}
    body = {**HELLO, "tools": [{"functionDeclarations": [{"name": "f", "parameters": schema}]}]}
    (tool,) = decode(body).tools
    assert isinstance(tool, Tool)
    assert tool.parameters["maxLength"] == ("9" * digits if digits > 18 else int("9" * 18))
    assert encode(decode(body)) == body


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ([], "$"),
        ({"contents": "Hi"}, "$.contents"),
        ({"contents": [1]}, "$.contents[0]"),
        (with_parts("Hi"), "$.contents[0].parts[0]"),
        (with_parts({"text": 1}), "$.contents[0].parts[0].text"),
        (with_parts({"functionCall": {"name": "f", "args": "{}"}}), "$.contents[0].parts[0].functionCall.args"),
        (with_parts({"functionCall": 1}), "$.contents[0].parts[0].functionCall"),
        (with_parts({"inlineData": {}}), "$.contents[0].parts[0].inlineData.data"),
        (with_parts({"functionResponse": {"response": 1}}), "$.contents[0].parts[0].functionResponse.response"),
        ({**HELLO, "systemInstruction": 1}, "$.systemInstruction"),
        ({**HELLO, "tools": [{"functionDeclarations": [{}]}]}, "$.tools[0].functionDeclarations[0].name"),
        ({**HELLO, "tools": [{"functionDeclarations": [{"name": "f", "parameters": 1}]}]}, "parameters"),
        ({**HELLO, "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [1]}}}, "[0]"),
        ({**HELLO, "generationConfig": {"stopSequences": [1]}}, "stopSequences[0]"),
        ({**HELLO, "generationConfig": {"temperature": "1"}}, "temperature"),
        ({**HELLO, "labels": {"a": 1}}, "$.labels.a"),
    ],
)
def test_a_wrong_type_is_refused_with_its_path(body: Any, where: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(body)
    assert caught.value.where.endswith(where)


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_no_bytes_raise_anything_but_a_decode_error(data: bytes) -> None:
    try:
        GEMINI.decode_request(data)
    except DecodeError:
        pass
    else:
        pytest.fail("this is no request")
