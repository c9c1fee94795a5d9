"""Every row of Gemini's tables, on the wire."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.dialects.gemini.shapes import REQUEST, RESPONSE
from toolglot import Exchange
from toolglot.dialects.gemini.dialect import GEMINI
from toolglot.dialects.gemini.names import ProtoMemberNames, normalize
from toolglot.dialects.gemini.openapi import to_json_schema
from toolglot.dialects.gemini.schema import reduce_schema
from toolglot.errors import DecodeError, ErrorKind
from toolglot.events import Fault, Finish, Open, Start
from toolglot.ir import Media, Message, Reasoning, Request, Response, Stop, StopReason, Text, ToolCall
from toolglot.receipt import Receipt
from toolglot.wire import json_sequence

# ── names ──

BLOB: Any = {"mimeType": "m", "data": "d", "displayName": "d"}
FILE: Any = {"mimeType": "m", "fileUri": "f", "displayName": "d"}
PARTS: Any = [
    {"text": "t", "thought": True, "thoughtSignature": "t", "partMetadata": {"some_key": 1}},
    {"inlineData": BLOB, "videoMetadata": {"startOffset": 1, "endOffset": 1, "fps": 1}},
    {"fileData": FILE, "mediaResolution": {"level": 1, "numTokens": 1}},
    {"functionCall": {"id": "i", "name": "n", "args": {"some_key": 1}, "willContinue": True}},
    {"functionCall": {"partialArgs": [{"jsonPath": "j", "stringValue": "s", "numberValue": 1, "boolValue": True}]}},
    {"functionCall": {"partialArgs": [{"nullValue": 1, "willContinue": True}]}},
    {"functionResponse": {"id": "i", "response": {"some_key": 1}, "willContinue": True, "scheduling": 1}},
    {"functionResponse": {"parts": [{"inlineData": BLOB}, {"fileData": FILE}]}},
    {"executableCode": {"id": "i", "language": 1, "code": 1}},
    {"codeExecutionResult": {"id": "i", "outcome": 1, "output": 1}},
    {"toolCall": {"id": "i", "toolType": 1, "args": {"some_key": 1}}},
    {"toolResponse": {"id": "i", "toolType": 1, "response": {"some_key": 1}}},
]
TOOLS: Any = [
    {"googleSearchRetrieval": {"some_key": 1}, "codeExecution": {}, "urlContext": {}},
    {
        "functionDeclarations": [
            {
                "name": "n",
                "parameters": {"any_of": []},
                "parametersJsonSchema": {"some_key": 1},
                "responseJsonSchema": 1,
            }
        ]
    },
    {"googleSearch": {"timeRangeFilter": 1, "excludeDomains": 1, "blockingConfidence": 1, "searchTypes": 1}},
    {"fileSearch": {"fileSearchStoreNames": 1, "topK": 1, "metadataFilter": 1}},
    {"computerUse": {"environment": 1, "excludedPredefinedFunctions": 1}},
    {"googleMaps": {"enableWidget": 1}},
    {
        "mcpServers": [
            {"streamableHttpTransport": {"headers": {"some_key": 1}, "sseReadTimeout": 1, "terminateOnClose": 1}}
        ]
    },
]
A_REQUEST: Any = {
    "model": 1,
    "labels": {"some_key": "x"},
    "cachedContent": 1,
    "serviceTier": 1,
    "continuationToken": 1,
    "contents": [{"role": "r", "parts": PARTS}],
    "systemInstruction": {"role": "r", "parts": PARTS},
    "tools": TOOLS,
    "toolConfig": {
        "includeServerSideToolInvocations": 1,
        "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["n"], "streamFunctionCallArguments": 1},
        "retrievalConfig": {"latLng": 1, "languageCode": 1},
    },
    "safetySettings": [{"category": 1}],
    "generationConfig": {
        **{"temperature": 1, "topP": 1, "topK": 1, "candidateCount": 1, "maxOutputTokens": 1, "stopSequences": ["s"]},
        **{
            "presencePenalty": 1,
            "frequencyPenalty": 1,
            "responseMimeType": "application/json",
            "responseSchema": {"any_of": []},
        },
        **{"responseJsonSchema": {"some_key": 1}, "responseLogprobs": True, "responseModalities": 1},
        **{"mediaResolution": 1, "enableEnhancedCivicAnswers": 1, "audioTimestamp": 1, "routingConfig": 1},
        **{"modelSelectionConfig": 1, "speechConfig": 1, "imageConfig": 1},
        "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 1, "thinkingLevel": 1},
    },
}
A_RESPONSE: Any = {
    "modelVersion": "m",
    "responseId": "r",
    "createTime": "c",
    "candidates": [
        {
            "content": {"role": "r", "parts": PARTS},
            **{"finishReason": "STOP", "finishMessage": "f", "index": 0, "safetyRatings": 1, "citationMetadata": 1},
            **{"groundingMetadata": 1, "groundingAttributions": 1, "urlContextMetadata": 1, "avgLogprobs": 1},
            **{"logprobsResult": 1, "tokenCount": 1, "continuationToken": 1},
        }
    ],
    "promptFeedback": {"blockReason": 1, "blockReasonMessage": 1, "safetyRatings": 1},
    "usageMetadata": {
        **{"promptTokenCount": 1, "cachedContentTokenCount": 1, "candidatesTokenCount": 1, "thoughtsTokenCount": 1},
        **{"toolUsePromptTokenCount": 1, "totalTokenCount": 1, "promptTokensDetails": 1, "cacheTokensDetails": 1},
        **{"candidatesTokensDetails": 1, "toolUsePromptTokensDetails": 1, "trafficType": 1, "serviceTier": 1},
    },
}


def snake(value: Any) -> Any:
    """Every name in the other spelling."""
    if isinstance(value, list):
        return [snake(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", key): snake(item) for key, item in value.items()}


def two_words(value: Any) -> set[str]:
    """The paths of all names of two words, without places in lists."""
    if isinstance(value, list):
        return set().union(*map(two_words, value)) if value else set()
    found: set[str] = set()
    for key, item in value.items() if isinstance(value, dict) else ():
        found |= {f"{key}.{inner}" for inner in two_words(item)} | ({key} if re.search(r"[A-Z]", key) else set())
    return found


def list_names(shape: ProtoMemberNames) -> set[str]:
    found: set[str] = set()
    for name, inner in shape.members.items():
        found |= {name} if re.search(r"[A-Z]", name) else set()
        found |= {f"{name}.{further}" for further in list_names(inner)} if inner is not None else set()
    return found


@pytest.mark.parametrize(("shape", "document"), [(REQUEST, A_REQUEST), (RESPONSE, A_RESPONSE)])
def test_the_documents_have_every_name_of_two_words(shape: ProtoMemberNames, document: Any) -> None:
    assert normalize(snake(document), shape) == document
    assert list_names(shape) == two_words(document)


def mix_spellings(value: Any, keep: bool = True) -> Any:
    """Every other name in the other spelling."""
    if isinstance(value, list):
        return [mix_spellings(item, keep) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        (key if keep == bool(index % 2) else next(iter(snake({key: 1})))): mix_spellings(item, not keep)
        for index, (key, item) in enumerate(value.items())
    }


@pytest.mark.parametrize("spelled", [snake, mix_spellings])
def test_every_name_of_two_words_is_read_in_both_spellings(spelled: Any) -> None:
    request = GEMINI.decode_request(json.dumps(A_REQUEST).encode())
    assert GEMINI.decode_request(json.dumps(spelled(A_REQUEST)).encode()) == request
    assert json.loads(GEMINI.encode_request(request, Receipt())) == A_REQUEST
    response = GEMINI.decode_response(json.dumps(A_RESPONSE).encode())
    assert GEMINI.decode_response(json.dumps(spelled(A_RESPONSE)).encode()) == response
    assert json.loads(GEMINI.encode_response(response, None, Receipt())) == A_RESPONSE


@pytest.mark.parametrize(
    ("document", "where"),
    [
        ({"contents": [{"parts": [{"functionCall": {}, "function_call": {}}]}]}, "$.contents[0].parts[0].functionCall"),
        ({"contents": [{"parts": [[]]}]}, "$.contents[0].parts[0]"),
        ({"contents": [{"$x": 1}]}, "$.contents[0].$x"),
        ({"contents": [], "tools": [{"urlContext": {"$x": 1}}]}, "$.tools[0].urlContext.$x"),
        ({"contents": [], "cachedContent": "a", "cached_content": "b"}, "$.cachedContent"),
        ({"contents": [], "continuationToken": "a", "continuation_token": "b"}, "$.continuationToken"),
    ],
)
def test_what_no_member_can_be_is_refused_with_its_place(document: Any, where: str) -> None:
    with pytest.raises(DecodeError) as caught:
        GEMINI.decode_request(json.dumps(document).encode())
    assert caught.value.where == where


# ── schemas that are read ──

SPELLINGS = {
    "any_of": "anyOf",
    "additional_properties": "additionalProperties",
    "min_items": "minItems",
    "max_items": "maxItems",
    "min_length": "minLength",
    "max_length": "maxLength",
    "min_properties": "minProperties",
    "max_properties": "maxProperties",
    "property_ordering": "propertyOrdering",
    "prefix_items": "prefixItems",
}
COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
ONE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
MANY = ("anyOf", "oneOf", "allOf", "prefixItems")
NAMED = ("properties", "$defs", "definitions", "patternProperties")


@pytest.mark.parametrize(("old", "new"), SPELLINGS.items())
def test_a_keyword_of_a_schema_is_read_in_both_spellings(old: str, new: str) -> None:
    assert to_json_schema({old: ["x"]}, "$") == {new: ["x"]}


@pytest.mark.parametrize("key", COUNTS)
def test_a_count_that_came_as_text_is_a_number(key: str) -> None:
    assert to_json_schema({key: "123456789012345678"}, "$") == {key: 123456789012345678}
    for odd in ("1234567890123456789", "-1", "", "x", "²", 5):
        assert to_json_schema({key: odd}, "$") == {key: odd}
    assert to_json_schema({"minimum": "5"}, "$") == {"minimum": "5"}


@pytest.mark.parametrize(
    ("holder", "inside"),
    [
        *(({key: {"type": "STRING"}}, {key: {"type": "string"}}) for key in ONE),
        *(({key: [{"type": "STRING"}]}, {key: [{"type": "string"}]}) for key in MANY),
        *(({key: {"a": {"type": "STRING"}}}, {key: {"a": {"type": "string"}}}) for key in NAMED),
        ({"defs": {"a": {"type": "STRING"}}}, {"$defs": {"a": {"type": "string"}}}),
        ({"ref": "#/defs/a"}, {"$ref": "#/$defs/a"}),
        ({"default": {"type": "STRING"}}, {"default": {"type": "STRING"}}),
        ({"enum": [{"type": "STRING"}]}, {"enum": [{"type": "STRING"}]}),
        ({"anyOf": {"type": "STRING"}}, {"anyOf": {"type": "STRING"}}),
        ({"properties": [{"type": "STRING"}]}, {"properties": [{"type": "STRING"}]}),
        ({"type": "TYPE_UNSPECIFIED"}, {}),
        ({"type": "type_unspecified"}, {}),
        ({"type": "STRING", "nullable": False}, {"type": "string"}),
        ({"type": "STRING", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "NULL", "nullable": True}, {"type": "null"}),
        ({"nullable": True, "enum": ["a"]}, {"enum": ["a", None]}),
        ({"nullable": True, "enum": ["a", None]}, {"enum": ["a", None]}),
        ({"nullable": True, "anyOf": [{"type": "STRING"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        *(
            ({"type": kind.upper()}, {"type": kind})
            for kind in ("string", "number", "integer", "boolean", "array", "object", "null")
        ),
    ],
    ids=str,
)
def test_types_are_in_lower_case_wherever_a_schema_stands(holder: Any, inside: Any) -> None:
    assert to_json_schema(holder, "$") == inside


def test_a_schema_may_be_a_hundred_and_twenty_levels_deep() -> None:
    def deep(levels: int) -> Any:
        schema: Any = {}
        for _ in range(levels):
            schema = {"items": schema}
        return schema

    assert to_json_schema(deep(120), "$.x") == deep(120)
    with pytest.raises(DecodeError) as caught:
        to_json_schema(deep(121), "$.x")
    assert caught.value.where == "$.x"


# ── schemas that are written for older endpoints ──


def reduce(schema: Any) -> Any:
    return reduce_schema(schema, "s", Receipt())


@pytest.mark.parametrize(
    ("kind", "keyword", "value"),
    [
        *(("string", key, 3) for key in ("minLength", "maxLength")),
        ("string", "pattern", "^x"),
        *(("array", key, 3) for key in ("minItems", "maxItems")),
        *(("object", key, 3) for key in ("minProperties", "maxProperties")),
        *((kind, key, 3) for kind in ("number", "integer") for key in ("minimum", "maximum")),
        *(("string", "format", name) for name in ("enum", "date-time")),
        *(("number", "format", name) for name in ("float", "double")),
        *(("integer", "format", name) for name in ("int32", "int64")),
        *(("string", key, "x") for key in ("title", "propertyOrdering", "example", "default")),
        *(("boolean", key, "x") for key in ("title", "example", "default")),
    ],
)
def test_a_keyword_that_older_endpoints_know_stays(kind: str, keyword: str, value: Any) -> None:
    written = reduce({"type": kind, keyword: value})
    assert written[keyword] == value
    assert written["type"] == kind.upper()
    assert "description" not in written


@pytest.mark.parametrize(
    ("kind", "keyword"),
    [
        ("string", "minimum"),
        ("boolean", "maxLength"),
        ("object", "minItems"),
        ("array", "pattern"),
        ("null", "minimum"),
    ],
)
def test_a_keyword_of_another_type_says_nothing(kind: str, keyword: str) -> None:
    assert keyword not in reduce({"type": kind, keyword: 1})


HINTED = (
    *("multipleOf", "uniqueItems", "not", "if", "then", "else", "contains", "minContains", "maxContains"),
    *("propertyNames", "patternProperties", "dependentRequired", "dependentSchemas", "dependencies"),
    *("unevaluatedProperties", "unevaluatedItems", "contentEncoding", "contentMediaType", "examples", "readOnly"),
    *("writeOnly", "deprecated"),
)


@pytest.mark.parametrize("keyword", HINTED)
def test_a_keyword_without_an_equivalent_is_said_in_the_description(keyword: str) -> None:
    receipt = Receipt()
    written = reduce_schema({"type": "string", keyword: "x"}, "s", receipt)
    assert written == {"type": "STRING", "description": f'({keyword}: "x")'}
    assert [f"{line.severity} {line.where}" for line in receipt] == ["note s"]


@pytest.mark.parametrize(
    ("keyword", "kind"),
    [
        *((key, "ARRAY") for key in ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains")),
        *((key, "OBJECT") for key in ("properties", "required", "additionalProperties", "propertyNames")),
        *((key, "OBJECT") for key in ("patternProperties", "minProperties", "maxProperties")),
    ],
)
def test_a_keyword_tells_the_type_where_none_is_named(keyword: str, kind: str) -> None:
    assert reduce({keyword: {}})["type"] == kind


# ── stop reasons ──

FINISH: dict[str, StopReason] = {
    "STOP": "end",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    **dict.fromkeys(("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"), "filtered"),
    **dict.fromkeys(("MODEL_ARMOR", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"), "filtered"),
    **dict.fromkeys(
        ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE", "TOO_MANY_TOOL_CALLS"),
        "malformed_call",
    ),
    "OTHER": "other",
    "FINISH_REASON_UNSPECIFIED": "other",
}


@pytest.mark.parametrize(("word", "reason"), FINISH.items())
def test_a_finish_reason_is_read_and_comes_back(word: str, reason: StopReason) -> None:
    parts = [{"text": "x"}]
    body = {"candidates": [{"content": {"parts": parts, "role": "model"}, "finishReason": word, "index": 0}]}
    response = GEMINI.decode_response(json.dumps(body).encode())
    assert response.stop == Stop(reason, word)
    assert json.loads(GEMINI.encode_response(response, None, Receipt()))["candidates"] == body["candidates"]


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("end", "STOP"),
        ("stop_sequence", "STOP"),
        ("tool_calls", "STOP"),
        ("length", "MAX_TOKENS"),
        ("context_full", "MAX_TOKENS"),
        ("refusal", "SAFETY"),
        ("filtered", "SAFETY"),
        ("pause", "TOO_MANY_TOOL_CALLS"),
        ("malformed_call", "MALFORMED_FUNCTION_CALL"),
        ("other", "OTHER"),
    ],
)
def test_a_reason_from_elsewhere_is_written_in_googles_word(reason: StopReason, word: str) -> None:
    for raw in (None, "end_turn"):
        written = GEMINI.encode_response(Response(stop=Stop(reason, raw)), None, Receipt())
        assert json.loads(written)["candidates"][0]["finishReason"] == word


# ── errors ──

KINDS: dict[str, ErrorKind] = {
    **dict.fromkeys(("INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE", "UNIMPLEMENTED"), "bad_request"),
    "UNAUTHENTICATED": "authentication",
    "PERMISSION_DENIED": "permission",
    "NOT_FOUND": "not_found",
    **dict.fromkeys(("ABORTED", "ALREADY_EXISTS"), "conflict"),
    "RESOURCE_EXHAUSTED": "rate_limit",
    **dict.fromkeys(("INTERNAL", "UNKNOWN", "DATA_LOSS", "CANCELLED"), "server"),
    "UNAVAILABLE": "overloaded",
    "DEADLINE_EXCEEDED": "timeout",
}


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_the_name_of_an_error_tells_its_kind_unless_it_is_generic_and_the_status_is_not(
    name: str, kind: ErrorKind
) -> None:
    body = json.dumps({"error": {"message": "m", "status": name}}).encode()
    kinds = [GEMINI.decode_error(status, {}, body).kind for status in (418, 500, 429)]
    assert kinds == (["bad_request", "server", "rate_limit"] if kind in ("bad_request", "server") else [kind] * 3)


@pytest.mark.parametrize(
    ("reason", "kind"),
    [("API_KEY_INVALID", "authentication"), ("API_KEY_EXPIRED", "authentication"), ("BILLING_DISABLED", "billing")],
)
def test_a_reason_tells_the_kind_of_an_error(reason: str, kind: ErrorKind) -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}]
    body = {"error": {"message": "m", "status": "INVALID_ARGUMENT", "details": details}}
    assert GEMINI.decode_error(400, {}, json.dumps(body).encode()).kind == kind


# ── request ──


@pytest.mark.parametrize(
    ("wire", "tier"),
    [("standard", "default"), ("unspecified", "auto"), ("flex", "flex"), ("priority", "priority"), ("new", None)],
)
def test_a_service_tier_is_read_and_comes_back(wire: str, tier: str | None) -> None:
    body = json.dumps({"contents": [], "serviceTier": wire}).encode()
    request = GEMINI.decode_request(body)
    assert request.service_tier == tier
    assert json.loads(GEMINI.encode_request(request, Receipt()))["serviceTier"] == wire


@pytest.mark.parametrize(
    ("key", "value", "is_label"),
    [
        ("a", "b", True),
        ("a" * 63, "b" * 63, True),
        ("a_-0", "", True),
        ("a", "B", False),
        ("A", "b", False),
        ("a" * 64, "b", False),
        ("a", "b" * 64, False),
        ("0", "b", False),
    ],
)
def test_labels_are_metadata_that_keeps_to_googles_letters(key: str, value: str, is_label: bool) -> None:
    request = Request(model="m", messages=(Message(role="user", content=(Text(text="x"),)),), metadata={key: value})
    receipt = Receipt()
    body = json.loads(GEMINI.encode_request(request, receipt))
    assert body.get("labels") == ({key: value} if is_label else None)
    assert [line.where for line in receipt] == ([] if is_label else [f"metadata.{key}"])
    own = {"contents": [], "labels": {key: value}}
    again = GEMINI.encode_request(GEMINI.decode_request(json.dumps(own).encode()), Receipt())
    assert json.loads(again)["labels"] == own["labels"]


COSMETIC_OF_CANDIDATE = ("avgLogprobs", "safetyRatings")
CONTAINED = {"groundingMetadata": {"a": 1}, "novel": 1}


def test_what_means_nothing_elsewhere_is_no_loss_and_the_rest_is_named() -> None:
    candidate = {"content": {"parts": [{"text": "x"}], "role": "model"}, "finishReason": "STOP", "index": 0}
    told = {}
    for extra in (dict.fromkeys(COSMETIC_OF_CANDIDATE, 1), CONTAINED):
        exchange = Exchange("openai_chat", "gemini")
        exchange.response(json.dumps({"candidates": [{**candidate, **extra}]}).encode())
        told[tuple(extra)] = sorted(line.where for line in exchange.receipt.losses)
    assert told == {
        COSMETIC_OF_CANDIDATE: [],
        tuple(CONTAINED): ["candidates[0].groundingMetadata.a", "candidates[0].novel"],
    }


# ── streams ──


@pytest.mark.parametrize(
    ("candidates", "where"),
    [
        ([[{"index": 0}, {"index": 1}]], ["candidates"]),
        ([[{}, {}]], ["candidates"]),
        ([[{"novel": 1}], [{"novel": 2}]], ["candidates[0].novel"]),
        ([[{"novel": 1}], [{"novel": 1}]], []),
        ([[{"novel": None}], [{"novel": 1}], [{"novel": None}]], []),
        *(
            ([[{key: 1}], [{key: 2}]], [])
            for key in ("safetyRatings", "avgLogprobs", "tokenCount", "continuationToken")
        ),
        *(
            ([[{key: {"a": [1]}}], [{key: {"a": [2]}}]], [])
            for key in ("citationMetadata", "groundingMetadata", "urlContextMetadata", "logprobsResult")
        ),
        ([[{"content": {"parts": [], "a": 1}}], [{"content": {"parts": [], "a": 2}}]], []),
    ],
)
def test_what_a_stream_cannot_carry_is_told(candidates: list[Any], where: list[str]) -> None:
    receipt = Receipt()
    decoder = GEMINI.stream_decoder(receipt)
    for frame in candidates:
        decoder.feed(f"data: {json.dumps({'candidates': frame})}\n\n".encode())
    assert [line.where for line in receipt.losses] == where


@pytest.mark.parametrize("key", ["citationMetadata", "groundingMetadata", "urlContextMetadata", "logprobsResult"])
def test_metadata_of_an_answer_grows(key: str) -> None:
    decoder = GEMINI.stream_decoder(Receipt())
    for value in ([1], [2], [1, 2, 3]):
        decoder.feed(f"data: {json.dumps({'candidates': [{key: {'a': value}}]})}\n\n".encode())
    events = decoder.feed(b'data: {"candidates": [{"finishReason": "STOP"}]}\n\n') + decoder.close()
    assert isinstance(events[-1], Finish)
    assert events[-1].native["gemini"]["candidate"] == {key: {"a": [1, 2, 3]}}


@pytest.mark.parametrize("key", ["responseSchema", "responseJsonSchema", "_responseJsonSchema"])
@pytest.mark.parametrize("mime", [None, "application/json", "text/plain", "text/x.enum"])
def test_a_schema_of_the_answer_is_read_under_all_its_names_and_comes_back(key: str, mime: str | None) -> None:
    config = {key: {"type": "STRING"}, **({"responseMimeType": mime} if mime else {})}
    request = GEMINI.decode_request(json.dumps({"contents": [], "generationConfig": config}).encode())
    if mime in (None, "application/json"):
        assert request.response_format is not None
        assert request.response_format.kind == "json_schema"
        assert request.response_format.schema == {"type": "string"}
    else:
        assert request.response_format is None
    assert json.loads(GEMINI.encode_request(request, Receipt()))["generationConfig"] == config


@pytest.mark.parametrize(("mime", "kind"), [("application/json", "json"), ("text/plain", "text")])
def test_a_format_without_a_schema_is_read_and_comes_back(mime: str, kind: str) -> None:
    config = {"responseMimeType": mime}
    request = GEMINI.decode_request(json.dumps({"contents": [], "generationConfig": config}).encode())
    assert request.response_format is not None
    assert request.response_format.kind == kind
    assert json.loads(GEMINI.encode_request(request, Receipt()))["generationConfig"] == config


LEVELS = ("minimal", "low", "medium", "high")


@pytest.mark.parametrize(
    ("config", "reasoning"),
    [
        ({"thinkingBudget": 0}, Reasoning(mode="off")),
        ({"thinkingBudget": -1}, Reasoning(mode="auto")),
        ({"thinkingBudget": 1}, Reasoning(mode="on", budget_tokens=1)),
        ({"thinkingBudget": -2}, Reasoning()),
        ({"thinkingBudget": "x"}, Reasoning()),
        ({"includeThoughts": True}, Reasoning(show=True)),
        ({"includeThoughts": False, "thinkingBudget": 5}, Reasoning(mode="on", budget_tokens=5, show=False)),
        *(({"thinkingLevel": level.upper()}, Reasoning(mode="on", effort=level)) for level in LEVELS),
        ({"thinkingLevel": "low"}, Reasoning(mode="on", effort="low")),
        ({"thinkingLevel": "NOVEL"}, Reasoning()),
        ({"thinkingLevel": "LOW", "thinkingBudget": 5}, Reasoning(mode="on", effort="low", budget_tokens=5)),
        ({"thinkingLevel": "LOW", "thinkingBudget": -1}, Reasoning(mode="auto", effort="low")),
        ({"thinkingLevel": "LOW", "thinkingBudget": 0}, Reasoning(mode="off", effort="low")),
        ({"novel": 1}, Reasoning()),
        ({}, Reasoning()),
    ],
)
def test_thinking_is_read_and_comes_back(config: Any, reasoning: Reasoning) -> None:
    request = GEMINI.decode_request(
        json.dumps({"contents": [], "generationConfig": {"thinkingConfig": config}}).encode()
    )
    found = request.reasoning
    assert found is not None
    assert (found.mode, found.effort, found.budget_tokens, found.show) == (
        reasoning.mode,
        reasoning.effort,
        reasoning.budget_tokens,
        reasoning.show,
    )
    assert json.loads(GEMINI.encode_request(request, Receipt()))["generationConfig"] == {"thinkingConfig": config}


def test_a_reference_inside_an_allof_is_remembered_for_what_is_inside_it() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    assert reduce({"allOf": [{"$ref": "#/$defs/node"}], "$defs": {"node": node}}) == {
        "type": "OBJECT",
        "properties": {"next": {"type": "OBJECT", "description": "(the same form as node)"}},
    }


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"generateContentRequest": {}}, "$.generateContentRequest.contents"),
        ({"generate_content_request": {"contents": 5}}, "$.generate_content_request.contents"),
        ({"generateContentRequest": {"contents": []}, "contents": []}, "$.generateContentRequest"),
        ({"generateContentRequest": {}, "generate_content_request": {}}, "$.generateContentRequest"),
        ({}, "$.contents"),
    ],
)
def test_what_is_wrong_in_a_request_to_be_counted_is_named_with_its_place(body: Any, where: str) -> None:
    assert GEMINI.counting is not None
    with pytest.raises(DecodeError) as caught:
        GEMINI.counting.decode_request(json.dumps(body).encode())
    assert caught.value.where == where


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        *((f"{start}x", "file") for start in ("files/", "gs://", "https://generativelanguage.googleapis.com/")),
        *((uri, "url") for uri in ("https://example.com/x", "https://youtube.com/x", "x/files/")),
    ],
)
@pytest.mark.parametrize(
    ("mime", "media"),
    [
        ("image/png", "image"),
        ("audio/wav", "audio"),
        ("video/mp4", "video"),
        ("text/plain", "document"),
        (None, "document"),
    ],
)
def test_what_only_google_can_open_is_a_file(uri: str, kind: str, mime: str | None, media: str) -> None:
    part = {"fileData": {"fileUri": uri, **({"mimeType": mime} if mime else {})}}
    body = {"contents": [{"role": "user", "parts": [part]}]}
    request = GEMINI.decode_request(json.dumps(body).encode())
    block = request.messages[0].content[0]
    assert isinstance(block, Media)
    assert (block.kind, block.source.kind, block.source.data) == (media, kind, uri)
    assert json.loads(GEMINI.encode_request(request, Receipt())) == body


@pytest.mark.parametrize(
    ("wire", "role"), [("model", "assistant"), ("function", "tool"), ("user", "user"), ("", "user"), (None, "user")]
)
def test_a_role_is_read_and_comes_back(wire: str | None, role: str) -> None:
    body = {"contents": [{"parts": [{"text": "x"}], **({"role": wire} if wire is not None else {})}]}
    request = GEMINI.decode_request(json.dumps(body).encode())
    assert request.messages[0].role == role
    assert json.loads(GEMINI.encode_request(request, Receipt())) == body


@pytest.mark.parametrize("spelling", ["functionCall", "function_call"])
@pytest.mark.parametrize("bare", [True, False])
def test_arguments_keep_their_own_text(spelling: str, bare: bool) -> None:
    arguments = '{"a": 1.50, "b": 1e2}'
    part = f'{{"{spelling}": {{"name": "f", "args": {arguments}}}}}'
    parts = part if bare else f"[{part}]"
    asked = f'{{"contents": [{{"role": "model", "parts": {parts}}}]}}'
    answered = f'{{"candidates": [{{"content": {{"parts": {parts}}}, "finishReason": "STOP"}}]}}'
    calls = (
        GEMINI.decode_request(asked.encode()).messages[0].content[0],
        GEMINI.decode_response(answered.encode()).content[0],
    )
    assert [call.arguments for call in calls if isinstance(call, ToolCall)] == [arguments, arguments]


@pytest.mark.parametrize(
    ("calling", "mode", "names"),
    [
        ({"mode": "AUTO"}, "auto", ()),
        ({"mode": "ANY"}, "required", ()),
        ({"mode": "NONE"}, "none", ()),
        ({"mode": "any"}, "required", ()),
        ({"mode": "VALIDATED"}, "auto", ()),
        ({"mode": "MODE_UNSPECIFIED"}, "auto", ()),
        ({"mode": "ANY", "allowedFunctionNames": ["f"]}, "required", ("f",)),
        ({"mode": "VALIDATED", "allowedFunctionNames": ["f", "g"]}, "auto", ("f", "g")),
        ({"mode": "AUTO", "allowedFunctionNames": ["f"], "novel": 1}, "auto", ("f",)),
        ({"mode": ""}, "auto", ()),
        ({"novel": 1}, "auto", ()),
        ({}, "auto", ()),
        ({"mode": "NOVEL", "novel": 1}, "opaque", ()),
    ],
)
def test_a_tool_choice_is_read_and_comes_back(calling: Any, mode: str, names: tuple[str, ...]) -> None:
    body = {"contents": [], "toolConfig": {"functionCallingConfig": calling}}
    request = GEMINI.decode_request(json.dumps(body).encode())
    assert request.tool_choice is not None
    assert (request.tool_choice.mode, request.tool_choice.names) == (mode, names)
    assert json.loads(GEMINI.encode_request(request, Receipt())) == body


def test_what_a_stream_says_besides_its_parts_is_written_where_it_stood() -> None:
    native = {"gemini": {"candidate": {"novel": 1, "content": {"beside": 2}}, "promptFeedback": {"a": 1}, "$note": 1}}
    encoder = GEMINI.stream_encoder(None, Receipt())
    encoder.feed(Start())
    written = json.loads(encoder.feed(Finish(stop=Stop("end"), native=native)).decode().removeprefix("data: "))
    assert written == {
        "candidates": [
            {
                "content": {"parts": [{"text": ""}], "role": "model", "beside": 2},
                "finishReason": "STOP",
                "index": 0,
                "novel": 1,
            }
        ],
        "promptFeedback": {"a": 1},
    }


@pytest.mark.parametrize(
    ("created", "written"),
    [
        (None, None),
        (-1, None),
        (0, "1970-01-01T00:00:00Z"),
        (253_402_300_799, "9999-12-31T23:59:59Z"),
        (253_402_300_800, None),
    ],
)
def test_a_time_that_the_wire_can_write_is_written(created: int | None, written: str | None) -> None:
    body = json.loads(GEMINI.encode_response(Response(created=created), None, Receipt()))
    assert body.get("createTime") == written


def test_something_between_the_documents_of_a_stream_is_a_fault_of_the_whole() -> None:
    for stream in (b'[{"candidates":[]} x {"candidates":[]}]', b'[{"candidates":[]}] x'):
        last = GEMINI.stream_decoder(Receipt()).feed(stream)[-1]
        assert isinstance(last, Fault)
        assert "unreadable: $: " in last.error.message


def test_a_document_of_a_stream_may_be_so_long_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_sequence, "MAX_EVENT_BYTES", 20)
    for length, fails in ((20, False), (21, True)):
        events = GEMINI.stream_decoder(Receipt()).feed(b"[" + b'{"novel":"'.ljust(length, b"x"))
        assert any(isinstance(event, Fault) and "$: " in event.error.message for event in events) is fails


@pytest.mark.parametrize(
    ("signature", "texts"), [({}, 1), ({"thoughtSignature": None}, 1), ({"thoughtSignature": "s"}, 2)]
)
def test_a_signature_ends_a_text_and_a_null_is_none(signature: Any, texts: int) -> None:
    whole = [{"text": "a", **signature}, {"text": "b"}]
    end = {"candidates": [{"content": {"parts": whole}, "finishReason": "STOP"}]}
    events = GEMINI.stream_decoder(Receipt()).feed(f"data: {json.dumps(end)}\n\n".encode())
    assert sum(isinstance(event, Open) for event in events) == texts


@pytest.mark.parametrize(
    ("wrap", "step"),
    [
        (lambda schema: {"type": "object", "properties": {"a": schema}}, ".a"),
        (lambda schema: {"type": "array", "items": schema}, ".items"),
        (lambda schema: {"anyOf": [schema, {"type": "integer"}]}, ".anyOf"),
        (lambda schema: {"anyOf": [schema, {"type": "null"}], "properties": {}}, ""),
    ],
)
def test_a_schema_is_cut_at_the_same_depth_whatever_it_is_nested_in(wrap: Any, step: str) -> None:
    schema: Any = {"type": "string"}
    for levels in range(1, 62):
        schema = wrap(schema)
        receipt = Receipt()
        reduce_schema(schema, "s", receipt)
        assert [line.where for line in receipt.losses] == ([] if levels <= 60 else [f"s{step * 61}"])


def test_the_time_of_a_stream_is_kept_from_frames_of_text_too() -> None:
    frames_of_text = {"candidates": [{"content": {"role": "model", "parts": [{"text": "x"}]}}], "createTime": "t"}
    decoder = GEMINI.stream_decoder(Receipt())
    decoder.feed(f"data: {json.dumps(frames_of_text)}\n\n".encode())
    events = decoder.feed(b'data: {"candidates": [{"finishReason": "STOP"}]}\n\n') + decoder.close()
    assert isinstance(events[-1], Finish)
    assert events[-1].native["gemini"]["createTime"] == "t"
