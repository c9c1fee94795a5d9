"""The small parts: whole numbers, masks, errors, lists of models, frames, loading."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given

from tests.dialects.warp.conversations import WARP, assistant, call, encode_request, make_request, result, user
from tests.dialects.warp.raw import only, texts
from tests.strategies import json_values
from tests.warp_server.scripts import REFUSALS
from toolglot.dialects import DIALECTS
from toolglot.dialects.warp.blocks import decode_block, encode_block, parse_arguments
from toolglot.dialects.warp.descriptors import Struct, new, parse
from toolglot.dialects.warp.frames import decode_frame_data
from toolglot.dialects.warp.integers import restore_integers
from toolglot.dialects.warp.masks import update_field
from toolglot.dialects.warp.models import MODEL_IDS
from toolglot.dialects.warp.results import to_dict
from toolglot.dialects.warp.schema import ENUMS, MESSAGES, WELL_KNOWN
from toolglot.dialects.warp.values import read_struct, write_struct
from toolglot.errors import ApiError, DecodeError
from toolglot.ir import Text, Tool, ToolCall, replace, with_native
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore
from toolglot.wire.json import encode_text

INTEGER = {"type": "integer"}


@pytest.mark.parametrize(
    ("value", "schema", "expected"),
    [
        (5.0, None, "5"),
        (5.0, INTEGER, "5"),
        (5.0, {"type": ["integer", "null"]}, "5"),
        (5.0, {"type": "number"}, "5.0"),
        (5.0, {"type": ["number", "integer"]}, "5"),
        (5.5, INTEGER, "5.5"),
        (1e20, INTEGER, "100000000000000000000"),
        (1e20, None, "1e20"),
        (-3.0, {"anyOf": [{"type": "null"}, INTEGER]}, "-3"),
        (
            {"a": 1.0, "b": 1.0},
            {"properties": {"a": {"type": "number"}}, "additionalProperties": INTEGER},
            '{"a":1.0,"b":1}',
        ),
        ([1.0, 2.0], {"items": {"type": "number"}}, "[1.0,2.0]"),
        ({"a": [1.0]}, {"allOf": [{"properties": {"a": {"items": INTEGER}}}]}, '{"a":[1]}'),
        ("5.0", INTEGER, '"5.0"'),
        (True, INTEGER, "true"),
        ({"a": 1.0}, {"$ref": "#/x"}, '{"a":1}'),
        (2.0, {"type": {"not": "a type"}}, "2"),
    ],
)
def test_whole_numbers_by_schema(value: Any, schema: Any, expected: str) -> None:
    assert encode_text(restore_integers(value, schema)) == expected


@given(value=json_values)
def test_json_comes_back_from_a_struct_as_it_was(value: Any) -> None:
    struct = Struct()
    exact = write_struct({"value": value}, struct, "$")
    again = restore_integers(read_struct(struct))["value"]
    assert again == value or not exact


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize("levels", [30, 40, 200])
def test_a_schema_that_is_nested_too_deeply_for_protobuf_is_left_out_and_told(levels: int) -> None:
    receipt = Receipt()
    data = encode_request(
        replace(make_request(user("hi")), tools=(Tool(name="f", parameters=nested(levels)),)), receipt
    )
    (tool,) = WARP.decode_request(data).tools
    assert isinstance(tool, Tool)
    assert tool.parameters == {"type": "object", "properties": {}}
    (line,) = receipt.losses
    assert (line.where, line.what) == ("tools[0]", "parameters")
    assert "nested deeper than 28 levels" in line.why


@pytest.mark.parametrize(("levels", "raw"), [(29, False), (30, True), (200, True)])
def test_arguments_that_are_nested_too_deeply_for_protobuf_are_sent_as_text_and_told(levels: int, raw: bool) -> None:
    receipt = Receipt()
    arguments = encode_text(nested(levels))
    messages = (user("hi"), assistant(call("x", arguments)), result("x", Text(text="ok")))
    made = WARP.decode_request(encode_request(make_request(*messages), receipt)).messages[1].content[0]
    assert isinstance(made, ToolCall)
    assert made.arguments == (encode_text({"_raw": arguments}) if raw else arguments)
    assert [(line.where, line.what) for line in receipt.losses] == (
        [("messages[1].content[0]", "arguments")] if raw else []
    )


def test_a_number_that_a_double_cannot_hold_is_told() -> None:
    receipt = Receipt()
    tool = Tool(name="f", parameters={"type": "object", "const": 2**53 + 1})
    encode_request(replace(make_request(user("hi")), tools=(tool,)), receipt)
    assert [line.what for line in receipt.losses] == ["a large whole number"]


def message(**fields: Any) -> Any:
    built = new("Message")
    for path, value in fields.items():
        *way, last = path.split("__")
        target = built
        for name in way:
            target = getattr(target, name)
        setattr(target, last, value)
    return built


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("agent_output.text", {"id": "1", "agent_output__text": "new"}),
        ("server_message_data", {"id": "1", "agent_output__text": "old", "server_message_data": "s"}),
        ("agent_output", {"id": "1", "agent_output__text": "new"}),
        ("task_id", {"id": "1", "agent_output__text": "old"}),
        ("novel.field", {"id": "1", "agent_output__text": "old"}),
    ],
)
def test_an_update_sets_the_masked_field_and_no_other(path: str, expected: dict[str, Any]) -> None:
    target = message(id="1", agent_output__text="old")
    update_field(target, message(id="2", agent_output__text="new", server_message_data="s"), path)
    assert target == message(**expected)


@pytest.mark.parametrize("path", ["id.x", "tool_call.call_mcp_tool.args.fields.city"])
def test_a_mask_that_leads_through_what_has_no_fields_is_an_error(path: str) -> None:
    """In Warp's client, too, a path through a map is one: only names that nobody knows do nothing."""
    target = message(tool_call__call_mcp_tool__name="f")
    with pytest.raises(DecodeError, match="has no fields"):
        update_field(target, target, path)


def test_an_update_through_a_repeated_field_goes_element_by_element() -> None:
    target, patch = new("UpdateTodos"), new("UpdateTodos")
    for title in ("a", "b"):
        target.create_todo_list.initial_todos.add(id=title, title=title)
        patch.create_todo_list.initial_todos.add(title=title.upper())
    update_field(target, patch, "create_todo_list.initial_todos.title")
    assert [(todo.id, todo.title) for todo in target.create_todo_list.initial_todos] == [("a", "A"), ("b", "B")]
    patch.create_todo_list.initial_todos.add()
    with pytest.raises(DecodeError):
        update_field(target, patch, "create_todo_list.initial_todos.title")


@pytest.mark.parametrize("name", REFUSALS)
def test_an_error_over_http_has_its_kind(name: str) -> None:
    refused = REFUSALS[name]
    error = WARP.decode_error(refused.status, refused.headers, refused.body)
    assert error.kind == ("billing" if name == "out of credits" else refused.error)
    again = WARP.encode_error(error)
    assert again.status == refused.status
    assert WARP.decode_error(again.status, again.headers, again.body).kind == error.kind


def test_the_message_for_users_comes_first() -> None:
    refused = REFUSALS["out of credits"]
    error = WARP.decode_error(refused.status, refused.headers, refused.body)
    assert error.message == "No credits are left."
    assert not error.retryable
    assert json.loads(WARP.encode_error(error).body) == json.loads(refused.body)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (ApiError(kind="billing", message="m"), 429, "OUT_OF_CREDITS"),
        (ApiError(kind="rate_limit", message="m", retry_after=3), 429, None),
        (ApiError(kind="authentication", message="m"), 401, None),
    ],
)
def test_other_apis_errors_as_a_client_of_warps_gets_them(error: ApiError, status: int, code: str | None) -> None:
    written_error = WARP.encode_error(error)
    assert (written_error.status, written_error.headers.get("x-warp-error-code")) == (status, code)
    assert json.loads(written_error.body)["error"] == "m"


def test_lists_of_models_are_read_in_both_forms() -> None:
    choices = [
        {"id": "auto", "displayName": "Auto", "visionSupported": True, "contextWindow": 200000},
        {"id": "off", "disableReason": "UPGRADE"},
        {"name": "no id"},
    ]
    workspaces = [{"featureModelChoice": {"agentMode": {"defaultId": "auto", "choices": choices}, "coding": {}}}]
    found = WARP.listing.decode_models(json.dumps({"data": {"user": {"user": {"workspaces": workspaces}}}}).encode())
    assert [(model.name, model.title, model.context_window) for model in found] == [("auto", "Auto", 200_000)]
    assert [model.name for model in WARP.listing.decode_models(b'{"data":[{"id":"auto"}]}')] == ["auto"]


def test_the_documented_models_are_each_there_once() -> None:
    assert len(set(MODEL_IDS)) == len(MODEL_IDS)
    assert {"auto", "gpt-5-5-xhigh", "claude-4-7-opus-max"} <= set(MODEL_IDS)


def test_a_model_that_nobody_has_heard_of_is_passed_on() -> None:
    assert texts(encode_request(replace(make_request(user("hi")), model="tomorrow-1")), 3, 1, 1) == ["tomorrow-1"]


@pytest.mark.parametrize("text", [b"CgA=", b"CgA", b'"CgA="', b" Cg\nA= ", b'"CgA"'])
def test_base_64_is_read_however_it_is_written(text: bytes) -> None:
    assert decode_frame_data(text) == b"\n\x00"


@pytest.mark.parametrize("text", [b"!!!", b"C", "CgÄ=".encode()])
def test_what_is_no_base_64_is_refused(text: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_frame_data(text)


def test_settings_that_are_given_take_the_place_of_the_usual_ones() -> None:
    request = with_native(
        make_request(user("hi")), "warp", settings={"supported_tools": [2, 9], "web_search_enabled": True}
    )
    data = encode_request(request)
    assert only(data, 3, 9) == b"\x02\x09"
    assert only(data, 3, 21) == 1
    assert only(data, 3, 17) == 1


def test_every_type_in_the_tables_is_known_and_every_number_is_there_once() -> None:
    scalars = {"string", "bytes", "bool", "int32", "uint32", "float"}
    for name, table in MESSAGES.items():
        entries = [entry.partition("@")[0].split() for entry in table.split(",") if entry]
        assert len({entry[0] for entry in entries}) == len(entries), name
        for _, _, kind in entries:
            plain = kind.strip("{}").removesuffix("[]")
            assert plain in scalars or plain in MESSAGES or plain in ENUMS or plain in WELL_KNOWN, (name, kind)


def test_values_of_enums_have_their_plain_names() -> None:
    assert to_dict(parse("RunShellCommand", bytes.fromhex("0a026c733801"))) == {
        "command": "ls",
        "risk_category": "READ_ONLY",
    }


def test_a_call_that_json_cannot_say_is_not_complete_and_goes_back_as_it_came() -> None:
    """Warp's own calls may hold a Struct, and a Struct may hold what is no number."""
    call = new("Message")
    call.id = "1"
    task = call.tool_call.suggest_plan.proposed_tasks.add(id="t")
    args = task.messages.add().tool_call.call_mcp_tool.args
    args.fields["x"].number_value = float("nan")
    block = decode_block(call)
    assert isinstance(block, ToolCall)
    assert (block.name, block.complete, parse_arguments(block.arguments)) == ("suggest_plan", False, None)
    again = new("Message")
    encode_block(block, again, "content[0]", Receipt())
    assert again.SerializeToString(deterministic=True) == call.SerializeToString(deterministic=True)


def test_an_enum_value_of_tomorrow_is_kept() -> None:
    request = parse("Request", bytes.fromhex("1a044a02ac02"))
    assert list(request.settings.supported_tools) == [300]


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_the_package_does_not_load_protobuf() -> None:
    code = "import sys, toolglot, toolglot.cli.app; print([name for name in sys.modules if name.startswith('google')])"
    assert run(code) == "[]"


HIDDEN = "import sys; sys.modules['google.protobuf'] = None\n"


@pytest.mark.parametrize(
    "use",
    [
        "toolglot.Exchange('warp', 'gemini')",
        "toolglot.DIALECTS['warp'].decode_request(b'')",
        "toolglot.DIALECTS['warp'].stream_decoder(toolglot.Receipt())",
    ],
)
def test_without_protobuf_the_error_names_the_extra(use: str) -> None:
    code = f"import toolglot\ntry:\n    {use}\nexcept toolglot.errors.MissingExtraError as error:\n    print(error)"
    assert run(HIDDEN + code) == (
        "the dialect warp needs the package protobuf, which comes with the extra `warp`: "
        "in a clone of toolglot, pip install '.[warp]'"
    )


def test_without_protobuf_the_other_dialects_work_and_all_can_be_described() -> None:
    code = (
        "import toolglot, toolglot.cli.dialects\n"
        "print(len(toolglot.DIALECTS), toolglot.DIALECTS['warp'].can.calls.arguments, "
        "toolglot.Exchange('openai_chat', 'gemini').client.name)"
    )
    assert run(HIDDEN + code) == f"{len(DIALECTS)} object openai_chat"


def test_a_request_goes_where_warp_expects_it() -> None:
    exchange = ExchangeCore("openai_chat", "warp")
    exchange.request({"model": "auto", "messages": [{"role": "user", "content": "hi"}]})
    assert exchange.path == "/ai/multi-agent"
    assert WARP.headers.sent["content-type"] == "application/x-protobuf"
