"""Every row of the tables of the Messages API, on the wire."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot.dialects.anthropic.dialect import ANTHROPIC
from toolglot.dialects.anthropic.errors import read_error
from toolglot.dialects.anthropic.schema import reduce_schema
from toolglot.errors import ErrorKind, UpstreamError
from toolglot.events import fold
from toolglot.ir import (
    Cache,
    Citation,
    Media,
    Message,
    Request,
    Response,
    Source,
    Stop,
    StopReason,
    Text,
    Thinking,
    Usage,
)
from toolglot.receipt import Receipt


def encode_json(response: Response) -> Any:
    return json.loads(ANTHROPIC.encode_response(response, None, Receipt()))


def test_a_response_from_elsewhere_has_every_member_that_clients_demand() -> None:
    assert encode_json(Response(id="i", model="m", content=(Text(text="x"),))) == {
        "id": "i",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "x", "citations": None}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "stop_details": None,
        "usage": {
            "input_tokens": 0,
            "cache_creation_input_tokens": None,
            "cache_read_input_tokens": None,
            "output_tokens": 0,
            "cache_creation": None,
            "inference_geo": None,
            "output_tokens_details": None,
            "server_tool_use": None,
            "service_tier": None,
        },
        "container": None,
    }


WHOLE: dict[str, Any] = {
    "id": "i",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "stop_details": None,
    "usage": {"input_tokens": 1, "output_tokens": 2},
    "container": None,
}


@pytest.mark.parametrize("key", sorted(WHOLE.keys() - {"content"}))
def test_a_member_that_an_imitator_left_out_stays_out(key: str) -> None:
    body = {name: value for name, value in WHOLE.items() if name != key}
    response = ANTHROPIC.decode_response(json.dumps(body).encode())
    assert encode_json(response) == body
    null = {**WHOLE, key: None}
    assert encode_json(ANTHROPIC.decode_response(json.dumps(null).encode())) == null


@pytest.mark.parametrize("key", ["type", "role"])
def test_a_constant_member_that_an_imitator_has_otherwise_comes_back(key: str) -> None:
    body = {**WHOLE, key: "novel"}
    assert encode_json(ANTHROPIC.decode_response(json.dumps(body).encode())) == body


def test_a_member_that_was_left_out_is_written_when_there_is_something_to_say() -> None:
    bare = ANTHROPIC.decode_response(b'{"content":[]}')
    assert encode_json(bare) == {"content": []}
    said = Response(
        id="i",
        model="m",
        stop=Stop("stop_sequence", "stop_sequence", "x"),
        usage=Usage(input_tokens=1),
        native=bare.native,
    )
    assert encode_json(said).keys() == {"id", "model", "content", "stop_reason", "stop_sequence", "usage"}


STOPS: dict[str, StopReason] = {
    "end_turn": "end",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "context_full",
    "refusal": "refusal",
    "pause_turn": "pause",
    "novel": "other",
    # What gateways pass on of OpenAI-compatible servers
    "stop": "end",
    "length": "length",
    "max_output_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "refusal",
}


@pytest.mark.parametrize(("word", "reason"), STOPS.items())
def test_a_stop_reason_is_read_and_comes_back(word: str, reason: StopReason) -> None:
    response = ANTHROPIC.decode_response(json.dumps({**WHOLE, "stop_reason": word}).encode())
    assert response.stop == Stop(reason, word)
    assert encode_json(response)["stop_reason"] == word


@pytest.mark.parametrize(
    ("reason", "word"), [("filtered", "refusal"), ("malformed_call", "tool_use"), ("other", "end_turn")]
)
def test_a_reason_that_only_others_have_gets_the_nearest_word(reason: StopReason, word: str) -> None:
    assert encode_json(Response(stop=Stop(reason, "x")))["stop_reason"] == word


def test_the_explanation_of_a_refusal_stands_in_its_details() -> None:
    shown = encode_json(Response(stop=Stop("refusal", detail="no")))
    assert shown["stop_details"] == {"type": "refusal", "category": None, "explanation": "no"}
    assert encode_json(Response(stop=Stop("end", detail="no")))["stop_details"] is None


# ── errors ──


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("insufficient_quota", "billing"),
        ("rate_limit_exceeded", "rate_limit"),
        ("service_unavailable", "overloaded"),
        ("invalid_api_key", "authentication"),
        ("model_not_found", "not_found"),
    ],
)
@pytest.mark.parametrize("member", ["type", "code"])
def test_an_imitators_word_tells_the_kind_of_an_error_whatever_the_status(
    word: str, kind: ErrorKind, member: str
) -> None:
    body = json.dumps({"error": {member: word, "message": "m"}}).encode()
    assert {ANTHROPIC.decode_error(status, {}, body).kind for status in (418, 504)} == {kind}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"type": "error", "error": {"type": "api_error", "message": "m"}}, "m"),
        ({"error": {"message": "m"}}, "m"),
        ({"error": "m"}, "m"),
        ({"object": "error", "message": "m"}, "m"),
        ({"object": "error", "type": "BadRequestError", "message": "m"}, "m"),
        ({"detail": "m"}, "m"),
        ({"detail": [{"msg": "m"}]}, '[{"msg":"m"}]'),
        ({"message": "m"}, "m"),
    ],
)
def test_an_error_where_a_response_should_be_is_known_in_all_its_shapes(body: Any, message: str) -> None:
    with pytest.raises(UpstreamError) as caught:
        ANTHROPIC.decode_response(json.dumps(body).encode())
    assert caught.value.error.message == message


@pytest.mark.parametrize(
    ("status", "inner", "shown"),
    [
        (418, {"type": "api_error"}, 418),
        (0, {"type": "api_error"}, 500),
        (0, {"type": "overloaded_error"}, 529),
        (0, {"code": 429}, 429),
        (0, {"code": 600}, 500),
        (0, {"code": 399}, 500),
        (400, {"code": 429}, 400),
    ],
)
def test_the_status_is_that_of_the_reply_or_of_the_body_or_of_the_kind(status: int, inner: Any, shown: int) -> None:
    assert read_error({"type": "error", "error": {"message": "m", **inner}}, status).status == shown


# ── schemas ──


def reduce(schema: Any) -> tuple[Any, list[str]]:
    receipt = Receipt()
    written = reduce_schema(schema, "s", receipt)
    return written, [f"{line.severity} {line.where}" for line in receipt]


FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")
ANNOTATIONS = ("default", "example", "examples", "deprecated", "readOnly", "writeOnly", "propertyOrdering")


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_that_the_api_enforces_stays(name: str) -> None:
    assert reduce({"type": "string", "format": name}) == ({"type": "string", "format": name}, [])


@pytest.mark.parametrize("key", ["$schema", "$id", "$comment", "$anchor"])
def test_a_keyword_without_a_meaning_is_left_out(key: str) -> None:
    assert reduce({"type": "string", key: "x"}) == ({"type": "string"}, [])


@pytest.mark.parametrize("key", ANNOTATIONS)
def test_a_keyword_that_binds_nothing_is_prose_and_no_loss(key: str) -> None:
    assert reduce({"type": "string", key: 1}) == ({"type": "string", "description": f"{{{key}: 1}}"}, ["note s"])


def test_a_title_stays_and_one_that_is_no_text_goes() -> None:
    assert reduce({"type": "string", "title": "T"}) == ({"type": "string", "title": "T"}, [])
    assert reduce({"type": "string", "title": 1}) == ({"type": "string"}, [])


@pytest.mark.parametrize("kind", ["object", "array", "string", "integer", "number", "boolean", "null"])
def test_every_type_stays(kind: str) -> None:
    written, _ = reduce({"type": kind})
    assert written["type"] == kind
    both, _ = reduce({"type": [kind, "string"]})
    assert [branch["type"] for branch in both["anyOf"]] == [kind, "string"]


@pytest.mark.parametrize("key", ["$defs", "definitions"])
def test_definitions_stand_under_one_name_and_so_do_references(key: str) -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": f"#/{key}/x"}}, key: {"x": {"type": "string"}}}
    written, _ = reduce({**schema, "additionalProperties": False})
    assert written["$defs"] == {"x": {"type": "string"}}
    assert written["properties"] == {"a": {"$ref": "#/$defs/x"}}
    bare = reduce({key: {"x": True}})[1]
    assert f"loss s.{key}.x" not in bare
    assert f"loss s.{key}.x" in reduce({"type": "string", key: {"x": 5}})[1]


@pytest.mark.parametrize("key", ["properties", "required", "additionalProperties", "type", "title", "description"])
def test_plain_objects_of_an_allof_are_one_object(key: str) -> None:
    extra = {
        "properties": {"c": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
        "type": "object",
        "title": "T",
        "description": "D",
    }
    parts = [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": {"type": "string"}}, **{key: extra[key]}}]
    written, _ = reduce({"allOf": parts, "additionalProperties": False})
    assert written["type"] == "object"
    assert "allOf" not in written


def test_an_object_of_an_allof_may_have_every_keyword_of_plain_objects_at_once() -> None:
    whole = {
        **{"type": "object", "title": "T", "description": "D", "properties": {"a": {"type": "string"}}, "required": []},
        **{"additionalProperties": False, "allOf": [], "$defs": {}, "definitions": {}},
    }
    written, _ = reduce({"allOf": [whole, {"properties": {"b": {"type": "string"}}}]})
    assert "allOf" not in written
    assert list(written["properties"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("count", "written"),
    [
        (0, {"minItems": 0}),
        (1, {"minItems": 1}),
        (2, {"description": "{minItems: 2}"}),
        (True, {"description": "{minItems: true}"}),
    ],
)
def test_only_the_smallest_counts_of_items_are_enforced(count: Any, written: Any) -> None:
    schema = {"type": "array", "items": {"type": "string"}}
    assert reduce({**schema, "minItems": count})[0] == {**schema, **written}


def test_a_schema_may_be_a_hundred_levels_deep() -> None:
    def deep(levels: int) -> Any:
        schema: Any = {"type": "string"}
        for _ in range(levels):
            schema = {"type": "array", "items": schema}
        return schema

    assert reduce(deep(100)) == (deep(100), [])
    assert reduce(deep(101))[1] == [f"loss s{'.items' * 101}"]


# ── citations, media, caches ──


@pytest.mark.parametrize(
    ("wire", "citation"),
    [
        (
            {"type": "web_search_result_location", "cited_text": "q", "url": "u", "title": "t", "encrypted_index": "e"},
            Citation(url="u", title="t", quote="q"),
        ),
        (
            {"type": "search_result_location", "cited_text": "q", "source": "u", "title": "t"},
            Citation(url="u", title="t", quote="q"),
        ),
        ({"type": "char_location", "cited_text": "q", "document_title": "t"}, Citation(title="t", quote="q")),
        ({"type": "page_location", "cited_text": "q", "document_title": "t"}, Citation(title="t", quote="q")),
        ({"type": "content_block_location", "cited_text": "q", "document_title": "t"}, Citation(title="t", quote="q")),
        ({"type": "novel", "cited_text": "q", "title": "t"}, Citation()),
    ],
)
def test_a_citation_is_read_and_comes_back(wire: Any, citation: Citation) -> None:
    body = {**WHOLE, "content": [{"type": "text", "text": "x", "citations": [wire]}]}
    response = ANTHROPIC.decode_response(json.dumps(body).encode())
    block = response.content[0]
    assert isinstance(block, Text)
    found = block.citations[0]
    assert (found.url, found.title, found.quote) == (citation.url, citation.title, citation.quote)
    assert encode_json(response) == body


def encode_user_blocks(*blocks: Any) -> Any:
    request = Request(model="m", messages=(Message(role="user", content=blocks),), max_output_tokens=9)
    return json.loads(ANTHROPIC.encode_request(request, Receipt()))["messages"][0]["content"]


@pytest.mark.parametrize(
    ("media", "source"),
    [
        (
            Media(kind="image", source=Source("base64", "AA==")),
            {"type": "base64", "data": "AA==", "media_type": "image/png"},
        ),
        (Media(kind="image", source=Source("url", "https://x")), {"type": "url", "url": "https://x"}),
        (Media(kind="image", source=Source("file", "f")), {"type": "file", "file_id": "f"}),
        (
            Media(kind="document", source=Source("base64", "AA==")),
            {"type": "base64", "data": "AA==", "media_type": "application/pdf"},
        ),
        (Media(kind="document", source=Source("url", "https://x")), {"type": "url", "url": "https://x"}),
        (Media(kind="document", source=Source("file", "f")), {"type": "file", "file_id": "f"}),
        (Media(kind="document", source=Source("text", "x")), {"type": "text", "data": "x", "media_type": "text/plain"}),
        (
            Media(kind="document", source=Source("base64", "eA==", "text/markdown")),
            {"type": "text", "data": "x", "media_type": "text/plain"},
        ),
    ],
)
def test_media_from_elsewhere_are_written_with_their_source_and_read_again(media: Media, source: Any) -> None:
    block = encode_user_blocks(media)[0]
    assert block == {"type": media.kind, "source": source}
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": [block]}]}
    request = ANTHROPIC.decode_request(json.dumps(body).encode())
    assert isinstance(request.messages[0].content[0], Media)
    assert json.loads(ANTHROPIC.encode_request(request, Receipt())) == body


@pytest.mark.parametrize(
    ("seconds", "ttl"),
    [(None, None), (300, "5m"), (60, "5m"), (1799, "5m"), (1800, "1h"), (3600, "1h"), (86400, "1h")],
)
def test_a_cache_breakpoint_gets_the_nearer_lifetime(seconds: int | None, ttl: str | None) -> None:
    control = encode_user_blocks(Text(text="x", cache=Cache(seconds)))[0]["cache_control"]
    assert control == {"type": "ephemeral", **({"ttl": ttl} if ttl else {})}


@pytest.mark.parametrize(
    ("wire", "mode", "names", "parallel"),
    [
        ({"type": "auto"}, "auto", (), None),
        ({"type": "none"}, "none", (), None),
        ({"type": "any"}, "required", (), None),
        ({"type": "any", "disable_parallel_tool_use": True}, "required", (), False),
        ({"type": "auto", "disable_parallel_tool_use": False}, "auto", (), True),
        ({"type": "none", "disable_parallel_tool_use": True}, "none", (), False),
        ({"type": "tool", "name": "f"}, "required", ("f",), None),
        ({"type": "tool", "name": "f", "novel": 1}, "required", ("f",), None),
        ({"type": "tool"}, "opaque", (), None),
        ({"type": "novel"}, "opaque", (), None),
        ({"type": 5}, "opaque", (), None),
    ],
)
def test_a_tool_choice_is_read_and_comes_back(wire: Any, mode: str, names: Any, parallel: bool | None) -> None:
    body = {"model": "m", "max_tokens": 9, "messages": [], "tool_choice": wire}
    request = ANTHROPIC.decode_request(json.dumps(body).encode())
    assert request.tool_choice is not None
    assert (request.tool_choice.mode, request.tool_choice.names) == (mode, names)
    assert request.parallel_tool_calls is parallel
    assert json.loads(ANTHROPIC.encode_request(request, Receipt())) == body


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "f", "input_schema": {"type": "object"}, "novel": 1},
        {"type": "custom", "name": "f", "input_schema": {"type": "object"}, "description": "d", "strict": True},
        {"name": "f", "input_schema": {"type": "object"}, "defer_loading": True},
        {"name": "f", "input_schema": {"type": "object"}, "defer_loading": False, "strict": False},
        {"name": "f", "input_schema": {}, "cache_control": {"type": "ephemeral", "ttl": "1h"}},
        {"name": "f", "input_schema": {}, "cache_control": {"type": "ephemeral", "ttl": "2h"}},
        {"name": "f", "input_schema": {}, "cache_control": {"type": "novel"}},
        {"name": "f"},
        {"type": "custom"},
        {"type": "web_search_20250305", "name": "web_search"},
    ],
    ids=str,
)
def test_a_tool_comes_back_with_what_nobody_knows_in_it(tool: Any) -> None:
    body = {"model": "m", "max_tokens": 9, "messages": [], "tools": [tool]}
    request = ANTHROPIC.decode_request(json.dumps(body).encode())
    assert json.loads(ANTHROPIC.encode_request(request, Receipt())) == body


EMPTY: list[Any] = ["", [], {}]


@pytest.mark.parametrize("empty", EMPTY, ids=str)
@pytest.mark.parametrize("key", ["tools", "stop_sequences", "metadata", "output_config"])
def test_an_empty_member_says_nothing_and_comes_back(key: str, empty: Any) -> None:
    body = {"model": "m", "max_tokens": 9, "messages": [], key: empty}
    request = ANTHROPIC.decode_request(json.dumps(body).encode())
    assert json.loads(ANTHROPIC.encode_request(request, Receipt())) == body


@pytest.mark.parametrize("empty", EMPTY, ids=str)
def test_empty_citations_say_nothing_and_come_back(empty: Any) -> None:
    body = {**WHOLE, "content": [{"type": "text", "text": "x", "citations": empty}]}
    assert encode_json(ANTHROPIC.decode_response(json.dumps(body).encode())) == body


# ── streams ──


def start(index: int = 0, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(kind: str, index: int = 0, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


TEXT = start(type="text", text="")
MESSAGE = {"type": "message_start", "message": {"id": "m"}}


@pytest.mark.parametrize(
    ("frames", "what"),
    [
        ([{"type": "novel"}], "event novel"),
        ([TEXT, {"type": "content_block_delta", "index": 0}], "content_block_delta"),
        ([TEXT, delta("novel_delta", text="x")], "delta novel_delta"),
        ([delta("signature_delta", signature="x")], "signature_delta of no block"),
        (
            [start(type="tool_use", id="c", name="f", input={}), delta("citations_delta", citation={})],
            "citations_delta in call",
        ),
        ([TEXT, delta("text_delta", text="", novel=1)], "novel of a delta"),
    ],
)
def test_what_a_stream_cannot_carry_is_told(frames: list[Any], what: str) -> None:
    receipt = Receipt()
    decoder = ANTHROPIC.stream_decoder(receipt)
    for frame in frames:
        decoder.feed(f"data: {json.dumps(frame)}\n\n".encode())
    assert [(line.severity, line.where, line.what) for line in receipt] == [("loss", "stream", what)]


NOTHING: list[Any] = [None, "", [], {}, False]


@pytest.mark.parametrize("nothing", NOTHING, ids=str)
def test_a_member_of_a_delta_that_says_nothing_is_not_told(nothing: Any) -> None:
    receipt = Receipt()
    decoder = ANTHROPIC.stream_decoder(receipt)
    for frame in (TEXT, delta("text_delta", text="", novel=nothing, partial_json="", thinking="", signature=None)):
        decoder.feed(f"data: {json.dumps(frame)}\n\n".encode())
    assert not receipt


COUNTED: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "x"}],
    "cache_control": {"type": "ephemeral"},
    "compaction": {},
    "context_management": {"a": 1},
    "mcp_servers": [{"a": 1}],
    "output_config": {"effort": "low"},
    "speed": "fast",
    "system": "s",
    "thinking": {"type": "adaptive"},
    "tool_choice": {"type": "auto"},
    "tools": [{"name": "f", "input_schema": {}}],
}


def test_a_request_to_be_counted_has_what_is_counted_and_nothing_else() -> None:
    counting = ANTHROPIC.counting
    assert counting is not None
    asking = {**COUNTED, "max_tokens": 9, "stream": True, "temperature": 1, "service_tier": "auto", "novel": 1}
    request = counting.decode_request(json.dumps(asking).encode())
    assert json.loads(counting.encode_request(request, Receipt())) == COUNTED


@pytest.mark.parametrize(
    ("block", "fields"),
    [
        ({"type": "text", "text": ""}, {"type": "text_delta", "text": "x"}),
        ({"type": "text", "text": ""}, {"text": "x"}),
        ({"type": "text", "text": ""}, {"type": "citations_delta", "citation": {"type": "char_location"}}),
        ({"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": "x"}),
        ({"type": "thinking", "thinking": ""}, {"type": "signature_delta", "signature": "x"}),
        ({"type": "tool_use", "id": "c", "name": "f", "input": {}}, {"type": "input_json_delta", "partial_json": "{}"}),
        ({"type": "novel"}, {"type": "novel_delta", "novel": "x"}),
    ],
)
def test_a_delta_that_is_understood_is_not_told(block: Any, fields: Any) -> None:
    receipt = Receipt()
    decoder = ANTHROPIC.stream_decoder(receipt)
    every = dict.fromkeys(("text", "partial_json", "thinking", "signature", "citation"))
    for frame in (start(**block), {"type": "content_block_delta", "index": 0, "delta": {**every, **fields}}):
        decoder.feed(f"data: {json.dumps(frame)}\n\n".encode())
    assert not receipt


@pytest.mark.parametrize(
    ("wire", "role"),
    [(None, None), ("tool", "tool"), ("function", "function"), ("developer", "developer"), ("novel", "novel")],
)
def test_a_role_that_the_api_has_not_comes_back_to_an_imitator(wire: str | None, role: str | None) -> None:
    messages = [{"role": "user", "content": "x"}, *([{"role": wire, "content": "y"}] if wire else [])]
    body = {"model": "m", "max_tokens": 9, "messages": messages}
    request = ANTHROPIC.decode_request(json.dumps(body).encode())
    assert json.loads(ANTHROPIC.encode_request(request, Receipt())) == body
    assert role is None or request.messages[1].role == role


@pytest.mark.parametrize(
    ("role", "wire"), [("tool", "user"), ("function", "user"), ("developer", "system"), ("system", "system")]
)
def test_a_role_from_elsewhere_is_one_that_the_api_has(role: str, wire: str) -> None:
    spoken = (Message(role="user", content=(Text(text="x"),)), Message(role=role, content=(Text(text="y"),)))
    body = json.loads(ANTHROPIC.encode_request(Request(model="m", messages=spoken), Receipt()))
    assert [message["role"] for message in body["messages"]] == ["user", wire]


def test_a_breakpoint_on_reasoning_is_told() -> None:
    signed = Thinking(text="hm", cache=Cache(), native={"anthropic": {"signature": "s"}})
    receipt = Receipt()
    request = Request(model="m", messages=(Message(role="assistant", content=(signed,)),), max_output_tokens=9)
    body = json.loads(ANTHROPIC.encode_request(request, receipt))
    assert body["messages"][0]["content"] == [{"type": "thinking", "thinking": "hm", "signature": "s"}]
    assert [line.where for line in receipt.losses] == ["messages[0].content[0].cache"]


def test_starts_without_an_index_count_from_nought() -> None:
    decoder = ANTHROPIC.stream_decoder(Receipt())
    frames = [
        {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
        delta("text_delta", 0, text="a"),
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
        delta("text_delta", 1, text="b"),
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    events = [out for frame in frames for out in decoder.feed(f"data: {json.dumps(frame)}\n\n".encode())]
    assert fold(events).content == (Text(text="a"), Text(text="b"))


@pytest.mark.parametrize(
    ("thinking", "mode", "budget", "show"),
    [
        ({"type": "enabled", "budget_tokens": 2000}, "on", 2000, True),
        ({"type": "adaptive"}, "auto", None, True),
        ({"type": "adaptive", "display": "omitted"}, "auto", None, False),
        ({"type": "adaptive", "display": "summarized"}, "auto", None, True),
        ({"type": "adaptive", "display": "novel"}, "auto", None, None),
        ({"type": "disabled"}, "off", None, None),
    ],
)
def test_thinking_is_read_and_comes_back(thinking: Any, mode: str, budget: int | None, show: bool | None) -> None:
    body = {"model": "m", "max_tokens": 9000, "messages": [], "thinking": thinking}
    request = ANTHROPIC.decode_request(json.dumps(body).encode())
    found = request.reasoning
    assert found is not None
    assert (found.mode, found.budget_tokens, found.show) == (mode, budget, show)
    assert json.loads(ANTHROPIC.encode_request(request, Receipt())) == body
