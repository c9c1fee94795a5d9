"""A field that no table knows reaches Warp's own side, and stands in the receipt for every other: wherever it is."""

from __future__ import annotations

import base64
import math
from typing import Any

import pytest

from tests.dialects.warp.unknown_places import NEEDLE, NUMBER, UNKNOWN, Path, describe_path, paths, write_message
from tests.exchanges import NAMES, calls_of, folded, read_events, through
from tests.warp_server import frames, story
from tests.warp_server.messages import encode
from tests.warp_server.wire import bytes_field, double_field, number_field
from toolglot.dialects.warp.descriptors import parse
from toolglot.dialects.warp.json_form import from_json, to_json
from toolglot.dialects.warp.unknown_fields import MAX_LINES
from toolglot.errors import LossError, UpstreamError
from toolglot.translate import ExchangeCore
from toolglot.wire import json

OTHERS = tuple(name for name in NAMES if name != "warp")
BASE = encode(
    "Request",
    {
        "input": {"user_inputs": {"inputs": [{"user_query": {"query": "Go on"}}]}},
        "settings": {"model_config": {"base": "m"}},
    },
)
TRANSACTIONS = ("begin_transaction", "commit_transaction", "rollback_transaction")
"""They are gone from an answer that is read as a whole."""


def type_of(path: Path) -> str:
    return path[-1].message_type.full_name if path else ""


def one_of_each_type(root: str) -> list[Path]:
    return list({type_of(path): path for path in reversed(paths(root))}.values())


def is_reported(exchange: ExchangeCore) -> bool:
    return any(str(NUMBER) in line.what for line in exchange.receipt)


# Requests


def test_a_request_keeps_an_unknown_field_in_any_message_for_warp() -> None:
    for path in paths("Request"):
        exchange = ExchangeCore("warp", "warp")
        assert NEEDLE in exchange.request(BASE + write_message("Request", path)), describe_path(path)
        assert not exchange.receipt, describe_path(path)


def test_an_unknown_field_in_any_message_of_a_request_is_told_to_others() -> None:
    for path in paths("Request"):
        exchange = ExchangeCore("warp", "openai_chat")
        exchange.request(BASE + write_message("Request", path))
        assert is_reported(exchange), describe_path(path)


@pytest.mark.parametrize("upstream", OTHERS)
def test_an_unknown_field_in_any_type_of_message_of_a_request_is_told_to_each_dialect(upstream: str) -> None:
    for path in one_of_each_type("Request"):
        exchange = ExchangeCore("warp", upstream)
        exchange.request(BASE + write_message("Request", path))
        assert is_reported(exchange), describe_path(path)


# Answers


def stream_with(path: Path) -> bytes:
    event = frames.frame_of(write_message("ResponseEvent", path))
    events = [*story.opening(), *story.spoken("Hel", "lo")]
    kind = path[0].name if path else ""
    if kind == "init":
        return event + frames.stream([*events[1:], story.finished()])
    if kind == "finished":
        return frames.stream(events) + event
    if path and path[-1].name in TRANSACTIONS[1:]:
        events += [story.begin(), *story.spoken("Well", number=4)]
    return frames.stream(events) + event + frames.stream([story.finished()])


def make_exchange(client: str) -> ExchangeCore:
    exchange = ExchangeCore(client, "warp")
    if client == "warp":
        exchange.request(BASE)
    return exchange


def has_needle(stream: bytes) -> bool:
    return any(NEEDLE in payload for payload in frames.payloads(stream))


def test_a_stream_keeps_an_unknown_field_in_any_message_for_warp() -> None:
    for path in paths("ResponseEvent"):
        exchange = make_exchange("warp")
        assert has_needle(through(exchange, [stream_with(path)])), describe_path(path)
        assert not exchange.receipt, describe_path(path)


def test_a_whole_answer_keeps_an_unknown_field_in_any_message_for_warp() -> None:
    for path in paths("ResponseEvent"):
        exchange = make_exchange("warp")
        try:
            answer = exchange.response(stream_with(path))
        except UpstreamError:
            assert path[0].name == "finished", describe_path(path)  # it tells that the answer failed
            continue
        assert has_needle(answer) or path[-1].name in TRANSACTIONS, describe_path(path)
        assert not exchange.receipt, describe_path(path)


FAILING = ("finished.", ".args", ".rollback_transaction")
"""What may end an answer with an error, which tells the client enough."""


def assert_reported(client: str, path: Path) -> None:
    exchange = make_exchange(client)
    stream = through(exchange, [stream_with(path)])
    failed = b"error" in stream and any(name in describe_path(path) for name in FAILING)
    assert failed or is_reported(exchange), describe_path(path)


def test_an_unknown_field_in_any_message_of_an_answer_is_told_to_others() -> None:
    for path in paths("ResponseEvent"):
        assert_reported("openai_chat", path)


@pytest.mark.parametrize("client", OTHERS)
def test_an_unknown_field_in_any_type_of_message_of_an_answer_is_told_to_each_dialect(client: str) -> None:
    for path in one_of_each_type("ResponseEvent"):
        assert_reported(client, path)


# What the lines say


def lines_of(raw: bytes) -> list[str]:
    exchange = ExchangeCore("warp", "openai_chat")
    exchange.request(BASE + raw)
    return [str(line) for line in exchange.receipt]


def test_the_line_names_the_place_and_the_size() -> None:
    said = bytes_field(3, bytes_field(1, b"Hi") + UNKNOWN)
    lines = lines_of(bytes_field(1, bytes_field(1, bytes_field(5, b"") + bytes_field(5, said))))
    where = "task_context.tasks[0].messages[1].agent_output.777"
    assert f"loss: {where}: unknown field 777 (6 bytes): its meaning is unknown" in lines


def test_the_same_field_in_many_places_has_one_line() -> None:
    said = bytes_field(5, bytes_field(3, bytes_field(1, b"Hi") + UNKNOWN))
    lines = [line for line in lines_of(bytes_field(1, bytes_field(1, said * 50))) if "777" in line]
    where = "task_context.tasks[0].messages[0].agent_output.777"
    assert lines == [f"loss: {where}: unknown field 777 (50 times, 300 bytes): its meaning is unknown"]


def test_many_different_fields_are_counted_behind_a_limit() -> None:
    lines = lines_of(b"".join(number_field(1000 + number, 1) for number in range(500)))
    assert len(lines) == MAX_LINES + 1
    assert lines[-1] == f"loss: $: {500 - MAX_LINES} unknown fields: its meaning is unknown"


def test_fields_behind_the_limit_of_what_is_looked_at_are_told_without_their_places() -> None:
    lines = lines_of(number_field(1000, 1) * 60_000)
    assert lines[-1].startswith("loss: $: further unknown fields: its meaning is unknown; only the first")


def test_a_known_field_of_another_wire_type_is_told() -> None:
    assert "loss: 3: field 3 in another form (1 bytes): its meaning is unknown" in lines_of(number_field(3, 1))


def test_what_only_warps_own_client_and_server_read_is_a_note() -> None:
    _, line = lines_of(bytes_field(3, UNKNOWN))
    assert line == "note: settings.777: unknown field 777 (6 bytes): it describes what Warp's client can do"


def test_strict_mode_refuses_an_unknown_field() -> None:
    with pytest.raises(LossError, match="unknown field 777"):
        ExchangeCore("warp", "openai_chat", strict=True).request(BASE + UNKNOWN)


def test_a_member_that_is_called_like_the_list_of_a_decoder_does_no_harm() -> None:
    for said in (5, ["x"], [["a", "b", "c", "loss"]], {"a": 1}):
        exchange = ExchangeCore("openai_chat", "anthropic")
        exchange.request({"model": "m", "messages": [{"role": "user", "content": "Hi"}], "$unread": said})


def test_a_long_run_of_messages_is_read_in_time_that_grows_with_it() -> None:
    """Each message was once added to a copy of those before it: 400 kB took more than a minute."""
    exchange = ExchangeCore("warp", "warp")
    exchange.request(BASE + bytes_field(1, bytes_field(1, bytes_field(5, b"\x0a\0") * 30_000)))
    assert exchange.asked is not None
    assert [len(message.content) for message in exchange.asked.messages] == [30_000, 1]


# Arguments


TEXT = bytes_field(3, b"v")
UNREADABLE_ARGS = {
    "an unknown field": bytes_field(1, bytes_field(1, b"k") + bytes_field(2, TEXT)) + UNKNOWN,
    "an entry with an unknown field": bytes_field(1, bytes_field(1, b"k") + bytes_field(2, TEXT) + UNKNOWN),
    "a value with an unknown field": bytes_field(1, bytes_field(1, b"k") + bytes_field(2, TEXT + UNKNOWN)),
    "a value of an unknown kind": bytes_field(1, bytes_field(1, b"k") + bytes_field(2, UNKNOWN)),
    "a value of no kind": bytes_field(1, bytes_field(1, b"k") + bytes_field(2, b"")),
    "a value of no kind in a list": bytes_field(
        1, bytes_field(1, b"k") + bytes_field(2, bytes_field(6, bytes_field(1, b"")))
    ),
    "a list with an unknown field": bytes_field(1, bytes_field(1, b"k") + bytes_field(2, bytes_field(6, UNKNOWN))),
    "an object with an unknown field": bytes_field(1, bytes_field(1, b"k") + bytes_field(2, bytes_field(5, UNKNOWN))),
    "a text that is a number": bytes_field(1, bytes_field(1, b"k") + bytes_field(2, number_field(3, 1))),
    "no number": bytes_field(1, bytes_field(1, b"k") + bytes_field(2, double_field(2, math.nan))),
    "no finite number": bytes_field(1, bytes_field(1, b"k") + bytes_field(2, double_field(2, math.inf))),
}
each_args = pytest.mark.parametrize("args", UNREADABLE_ARGS.values(), ids=UNREADABLE_ARGS)


def call(args: bytes) -> bytes:
    """A message that calls a tool."""
    body = bytes_field(1, b"c1") + bytes_field(12, bytes_field(1, b"f") + bytes_field(2, args))
    return bytes_field(1, b"m-9") + bytes_field(4, body) + bytes_field(11, story.ROOT.encode())


def answer(args: bytes) -> bytes:
    added = bytes_field(3, bytes_field(1, story.ROOT.encode()) + bytes_field(2, call(args)))
    event = frames.frame_of(bytes_field(2, bytes_field(1, added)))
    return frames.stream([*story.opening(), *story.spoken("Hi")]) + event + frames.stream([story.finished()])


def runnable(dialect: str, stream: bytes) -> list[Any]:
    """The calls of a stream that its client would run."""
    events = read_events(dialect, [stream])
    if b"error" in stream:
        return []
    return [each for each in calls_of(folded(events).content) if each.complete and json.object_of(each.arguments)]


@each_args
@pytest.mark.parametrize("client", OTHERS)
def test_a_call_with_arguments_that_json_cannot_say_is_not_run(client: str, args: bytes) -> None:
    exchange = make_exchange(client)
    stream = through(exchange, [answer(args)])
    assert runnable(client, stream) == [], stream
    assert any("call of f" in line.what for line in exchange.receipt.losses), str(exchange.receipt)


@each_args
@pytest.mark.parametrize("client", OTHERS)
def test_the_same_in_a_whole_answer(client: str, args: bytes) -> None:
    exchange = make_exchange(client)
    exchange.response(answer(args))
    assert exchange.answered is not None
    assert [each.complete for each in calls_of(exchange.answered.content)] == [False]
    assert any("call of f" in line.what for line in exchange.receipt.losses), str(exchange.receipt)


@each_args
def test_warps_client_gets_the_arguments_as_they_came(args: bytes) -> None:
    exchange = make_exchange("warp")
    assert any(bytes_field(2, args) in payload for payload in frames.payloads(through(exchange, [answer(args)])))
    whole = make_exchange("warp")
    assert any(bytes_field(2, args) in payload for payload in frames.payloads(whole.response(answer(args))))
    assert not exchange.receipt
    assert not whole.receipt


@each_args
def test_such_a_call_in_a_history_is_told_and_kept(args: bytes) -> None:
    raw = BASE + bytes_field(1, bytes_field(1, bytes_field(5, call(args))))
    for upstream in OTHERS:
        exchange = ExchangeCore("warp", upstream)
        sent = exchange.request(raw)
        assert exchange.asked is not None
        assert not calls_of(exchange.asked.messages[0].content)[0].complete
        lines = (*exchange.receipt.losses, *exchange.receipt.notes)
        told = any(line.where.startswith("messages[0].content[0]") for line in lines)
        assert told or b'"status":"incomplete"' in sent, str(exchange.receipt)
    own = ExchangeCore("warp", "warp")
    assert bytes_field(2, args) in own.request(raw)
    assert not own.receipt


@each_args
def test_the_json_form_keeps_them(args: bytes) -> None:
    request = bytes_field(1, bytes_field(1, bytes_field(5, call(args))))
    said = to_json(parse("Request", request))
    shown = said["task_context"]["tasks"][0]["messages"][0]["tool_call"]["call_mcp_tool"]["args"]
    assert shown == {"$protobuf": base64.b64encode(args).decode()}
    assert from_json("Request", said).SerializeToString(deterministic=True) == request


@pytest.mark.parametrize("said", [{"$protobuf": "x"}, {"a": {"$protobuf": "x"}}])
def test_json_that_looks_like_the_form_for_bytes_stays_what_it_is(said: Any) -> None:
    tool = from_json("MCPTool", {"input_schema": {"a": 1}})
    tool.input_schema.Clear()
    tool.input_schema.update(said)
    assert from_json("MCPTool", to_json(tool)) == tool


def test_a_built_in_call_of_which_nothing_is_known_is_not_run() -> None:
    """`use_computer` has fields that no table has; a client that declares a tool of this name would get `{}`."""
    body = bytes_field(1, b"c1") + bytes_field(24, bytes_field(1, b"click"))
    added = bytes_field(3, bytes_field(1, story.ROOT.encode()) + bytes_field(2, bytes_field(4, body)))
    stream = (
        frames.stream(story.opening())
        + frames.frame_of(bytes_field(2, bytes_field(1, added)))
        + frames.stream([story.finished()])
    )
    exchange = ExchangeCore("openai_chat", "warp")
    tool = {"type": "function", "function": {"name": "use_computer", "parameters": {"type": "object"}}}
    exchange.request({"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": [tool]})
    assert runnable("openai_chat", through(exchange, [stream])) == []
    assert any("call of use_computer" in line.what for line in exchange.receipt.losses)


# Schemas


def test_a_value_of_a_schema_that_is_no_json_is_left_out_and_told() -> None:
    entries = {"type": bytes_field(3, b"object"), "x": b"", "y": double_field(2, math.inf)}
    fields = [bytes_field(1, bytes_field(1, key.encode()) + bytes_field(2, each)) for key, each in entries.items()]
    tool = bytes_field(1, b"f") + bytes_field(3, b"".join(fields))
    raw = BASE + bytes_field(6, bytes_field(2, tool))
    exchange = ExchangeCore("warp", "openai_chat")
    sent = exchange.request(raw)
    assert b"null" not in sent
    assert b"Infinity" not in sent
    wheres = [line.where for line in exchange.receipt.losses]
    assert wheres == ["tools[0].input_schema.x", "tools[0].input_schema.y"]
    own = ExchangeCore("warp", "warp")
    assert tool in own.request(raw)
    assert not own.receipt
