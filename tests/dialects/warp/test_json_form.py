"""Messages as JSON and back: nothing is lost, and what cannot be one is refused with its place."""

from __future__ import annotations

from typing import Any

import pytest

from tests.case_files import cases_with
from tests.warp_server import frames, wire
from tests.warp_server.messages import encode as encode_tree
from tests.warp_server.scripts import SCRIPTS
from toolglot.dialects.warp import bridge
from toolglot.dialects.warp.descriptors import parse, serialize
from toolglot.dialects.warp.json_form import from_json, known_message, to_json
from toolglot.errors import DecodeError

REQUESTS = {case.name: case.read("request") for case in cases_with("request", "warp")}
WHOLE = [name for name, script in SCRIPTS.items() if script.error is None]


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_comes_back_as_it_was(name: str) -> None:
    value = to_json(parse("Request", REQUESTS[name]))
    assert serialize(from_json("Request", value)) == serialize(parse("Request", REQUESTS[name]))


@pytest.mark.parametrize("name", WHOLE)
def test_every_event_comes_back_as_it_was(name: str) -> None:
    for payload in frames.payloads(SCRIPTS[name].body):
        message, value, size = bridge.decode(payload, "ResponseEvent")
        assert (message, size) == ("ResponseEvent", len(payload))
        again = bridge.encode(value)
        assert again == ("ResponseEvent", serialize(parse("ResponseEvent", payload)))


@pytest.mark.parametrize("name", [name for name in WHOLE if "nobody knows" not in name])
def test_an_event_is_told_from_a_request(name: str) -> None:
    assert {bridge.detect_message(payload) for payload in frames.payloads(SCRIPTS[name].body)} == {"ResponseEvent"}


def test_unknown_fields_are_kept_at_every_depth() -> None:
    raw = encode_tree("Request", {"settings": {"model_config": {"base": "auto", "#99": [[2, "AP8="]]}}})
    raw += wire.bytes_field(2000, b"new")
    value = to_json(parse("Request", raw))
    assert "$unknown" in value
    assert "$unknown" in value["settings"]["model_config"]
    assert serialize(from_json("Request", value)) == serialize(parse("Request", raw))


def test_it_reads_like_json() -> None:
    value = {
        "input": {"context": {"images": [{"data": "AP8=", "mime_type": "image/png"}]}, "resume_conversation": {}},
        "settings": {"supported_tools": ["CALL_MCP_TOOL", 77], "rules_enabled": False},
        "metadata": {"logging": {"entrypoint": "USER_INITIATED", "n": 5, "half": 0.5, "none": None, "list": [1, {}]}},
        "mcp_context": {"tools": [{"name": "f", "input_schema": {"type": "object", "properties": {}}}]},
    }
    assert to_json(from_json("Request", value)) == value


@pytest.mark.parametrize(
    ("value", "where", "what"),
    [
        ([], "$", "an object is expected, for Request"),
        ({"inputs": {}}, "$.inputs", "Request has no such field"),
        ({"input": 1}, "$.input", "an object is expected, for Input"),
        ({"input": {"user_inputs": {"inputs": {}}}}, "$.input.user_inputs.inputs", "an array is expected"),
        ({"input": {"user_inputs": {"inputs": [{"user_query": {"query": 1}}]}}}, ".query", "text is expected"),
        ({"input": {"user_inputs": {}, "resume_conversation": {}}}, "$.input.resume_conversation", "already"),
        ({"settings": {"rules_enabled": 1}}, "$.settings.rules_enabled", "true or false is expected"),
        ({"settings": {"supported_tools": ["FLY"]}}, "$.settings.supported_tools[0]", "there is no value 'FLY'"),
        ({"settings": {"supported_tools": [True]}}, "$.settings.supported_tools[0]", "a number is expected"),
        ({"settings": {"supported_tools": [1.5]}}, "$.settings.supported_tools[0]", "a whole number"),
        ({"settings": {"supported_tools": [2**40]}}, "$.settings.supported_tools[0]", ""),
        ({"metadata": {"logging": []}}, "$.metadata.logging", "an object is expected"),
        ({"input": {"context": {"images": [{"data": "?"}]}}}, "$.input.context.images[0].data", "base64"),
        ({"$unknown": "?"}, "$.$unknown", "base64 is expected"),
        ({"$unknown": "/////w=="}, "$.$unknown", "these are not protobuf fields"),
    ],
)
def test_what_is_no_message_is_refused_with_its_place(value: Any, where: str, what: str) -> None:
    with pytest.raises(DecodeError) as raised:
        from_json("Request", value)
    assert raised.value.where.endswith(where)
    assert what in raised.value.what


def test_a_schema_that_is_nested_too_deeply_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(200):
        schema = {"properties": schema}
    with pytest.raises(DecodeError, match="nested deeper"):
        from_json("Request", {"mcp_context": {"tools": [{"input_schema": schema}]}})


@pytest.mark.parametrize("number", [1e300, -1e300, 10**400, 3.5e38])
def test_a_number_that_a_field_cannot_hold_is_refused(number: float) -> None:
    with pytest.raises(DecodeError, match="too large for this field") as raised:
        from_json("RequestCost", {"exact": number})
    assert raised.value.where == "$.exact"


@pytest.mark.parametrize("said", [0.5, 3.4028234663852886e38, "Infinity", "-Infinity", "NaN"])
def test_numbers_that_json_does_not_have_are_written_as_text(said: Any) -> None:
    message = from_json("RequestCost", {"exact": said})
    assert to_json(message) == {"exact": said}
    with pytest.raises(DecodeError, match="a number is expected"):
        from_json("RequestCost", {"exact": "many"})


@pytest.mark.parametrize("tail", [b"ev", b"event:data", b"event:data\n", b"data", b"data:", b"event:data\r\ndata:"])
def test_a_stream_that_ends_in_the_middle_of_an_event_is_refused(tail: bytes) -> None:
    with pytest.raises(DecodeError, match="ends in the middle of it") as raised:
        bridge.unwrap(b"data:CgA=\n\n" + tail, "sse")
    assert raised.value.where == "events[1]"


@pytest.mark.parametrize("end", ["", "\n", "\n\n", "\n\n\n", "\n\n: still there", "\n\nid: 5\n", "\n\nretry: 10"])
@pytest.mark.parametrize("line", ["\n", "\r\n", "\r"])
def test_how_a_stream_ends_otherwise_makes_no_difference(end: str, line: str) -> None:
    body = f"event:data\ndata:CgA=\n\ndata:CgA={end}".replace("\n", line).encode()
    assert bridge.unwrap(body, "sse") == [b"\n\0", b"\n\0"]


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_is_told_from_an_event(name: str) -> None:
    assert bridge.detect_message(REQUESTS[name]) == "Request"


def test_wrappings_are_told_apart() -> None:
    body = SCRIPTS["one call"].body
    first = frames.payloads(body)[0]
    assert bridge.detect_wrapping(body) == "sse"
    assert bridge.detect_wrapping(first) == "protobuf"
    for writing in frames.WRITINGS:
        text = writing(first).encode()
        assert bridge.detect_wrapping(text + b"\n") == "base64"
        assert bridge.unwrap(text, "base64") == [first]


def test_names_may_have_a_package_before_them() -> None:
    assert known_message("warp.multi_agent.v1.Request") == "Request"
    with pytest.raises(DecodeError, match="there is no message 'Nothing'"):
        known_message("Nothing")
