"""Streams whose calls are started twice, never ended, or share an index or an id: none of them becomes a whole call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.exchanges import NAMES, calls_of, folded, read_events, through
from tests.lint.streams import ANTHROPIC, block, chat, chunk, sse
from toolglot.capabilities import CallCapabilities, Capabilities
from toolglot.errors import UpstreamError
from toolglot.events import Fault, Finish
from toolglot.passes.settle import Settler
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

Fields = dict[str, Any]
Call = tuple[str, str, bool]
"""Name, arguments, and whether it is complete."""


def use(name: str, call_id: str = "") -> Fields:
    return {"type": "tool_use", "id": call_id or f"toolu_{name}", "name": name, "input": {}}


def json_delta(text: str) -> Fields:
    return {"type": "input_json_delta", "partial_json": text}


def anthropic(*events: Fields) -> bytes:
    end = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}}
    return sse([ANTHROPIC[0], *events, end, {"type": "message_stop"}], named=True)


F, G = block(0, use("f"), json_delta('{"a":1}')), block(0, use("g"), json_delta('{"b":2}'))


def item(name: str, arguments: str = "", number: int = 1, **fields: Any) -> Fields:
    call = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": name}
    return {**call, "arguments": arguments, "status": "completed" if arguments else "in_progress", **fields}


def added(place: int, fields: Fields) -> Fields:
    return {"type": "response.output_item.added", "output_index": place, "item": fields}


def done(place: int, fields: Fields) -> Fields:
    return {"type": "response.output_item.done", "output_index": place, "item": fields}


def arguments(place: int, item_id: str, text: str) -> Fields:
    kind = "response.function_call_arguments.delta"
    return {"type": kind, "output_index": place, "item_id": item_id, "delta": text}


def responses(*events: Fields, output: tuple[Fields, ...] = ()) -> bytes:
    response = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": list(output)}
    end = {"type": "response.completed", "response": {**response, "status": "completed"}}
    return sse([{"type": "response.created", "response": {**response, "output": []}}, *events, end], named=True)


def custom(text: str = "", number: int = 1) -> Fields:
    return {"type": "custom_tool_call", "id": f"ct_{number}", "call_id": f"call_{number}", "name": "c", "input": text}


def input_delta(text: str) -> Fields:
    return {"type": "response.custom_tool_call_input.delta", "output_index": 0, "item_id": "ct_1", "delta": text}


def gemini(*calls: Fields) -> bytes:
    frames = [{"candidates": [{"content": {"role": "model", "parts": [{"functionCall": each}]}}]} for each in calls]
    end = {"candidates": [{"content": {"role": "model", "parts": []}, "finishReason": "STOP"}]}
    return b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in [*frames, end])


def piece(name: str, path: str, value: str, **fields: Any) -> Fields:
    call = {"name": name, "partialArgs": [{"jsonPath": path, "stringValue": value}], "willContinue": True}
    return {**call, **fields}


WHOLE_F: Call = ("f", '{"a":1}', True)
WHOLE_G: Call = ("g", '{"b":2}', True)
CUT_F: Call = ("f", "", False)

BROKEN: dict[str, tuple[str, bytes, list[Call]]] = {
    "Anthropic: another start of an index whose call was never stopped": (
        "anthropic",
        anthropic(F[0], *G),
        [CUT_F, WHOLE_G],
    ),
    "Anthropic: a call that was never stopped, without arguments": ("anthropic", anthropic(F[0]), [CUT_F]),
    "Anthropic: the same, and another block follows": (
        "anthropic",
        anthropic(F[0], *block(1, use("g"), json_delta('{"b":2}'))),
        [CUT_F, WHOLE_G],
    ),
    "Anthropic: half of a call that was never stopped": (
        "anthropic",
        anthropic(F[0], {**F[1], "delta": json_delta('{"a":')}, *G),
        [("f", '{"a":', False), WHOLE_G],
    ),
    "Anthropic: a start that comes again after arguments": (
        "anthropic",
        anthropic(F[0], {**F[1], "delta": json_delta('{"a":')}, *F),
        [("f", '{"a":', False), WHOLE_F],
    ),
    "Responses: another item takes the place of a call that was never done": (
        "openai_responses",
        responses(added(0, item("f")), added(0, item("g", number=2)), done(0, item("g", '{"b":2}', 2))),
        [CUT_F, WHOLE_G],
    ),
    "Responses: a call that was never done, without arguments": (
        "openai_responses",
        responses(added(0, item("f"))),
        [CUT_F],
    ),
    "Responses: a custom call that was never done": (
        "openai_responses",
        responses(added(0, custom()), input_delta("rm -rf /tmp")),
        [("c", "rm -rf /tmp", False)],
    ),
    "Responses: the end of another call at the place of one": (
        "openai_responses",
        responses(added(0, item("f")), done(0, item("g", '{"b":2}', 2))),
        [CUT_F, WHOLE_G],
    ),
    "Responses: an item id that comes again with another name": (
        "openai_responses",
        responses(added(0, item("f")), added(0, item("g", call_id="call_2")), done(0, item("g", '{"b":2}'))),
        [CUT_F, WHOLE_G],
    ),
    "Responses: the final output has another call at the place of one": (
        "openai_responses",
        responses(added(0, item("f")), output=(item("g", '{"b":2}', 2),)),
        [CUT_F, WHOLE_G],
    ),
    "Gemini: an id that comes again with another name": (
        "gemini",
        gemini(piece("f", "$.a", "1", id="x"), {"id": "x", "name": "g", "args": {"b": 2}}),
        [("f", '{"a":"1"', False), ("g", '{"b": 2}', True)],
    ),
    "Gemini: whole arguments after pieces": (
        "gemini",
        gemini(piece("f", "$.a", "1", id="x"), {"id": "x", "name": "f", "args": {"b": 2}}),
        [("f", '{"a":"1"', False)],
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_call_that_was_never_ended_is_not_complete(case: str) -> None:
    dialect, data, expected = BROKEN[case]
    settler = Settler(
        Receipt(),
        client=Capabilities(
            calls=CallCapabilities(broken="shown"),
        ),
    )
    events = [out for event in read_events(dialect, [data]) for out in settler.feed(event)]
    assert [(call.name, call.arguments, call.complete) for call in calls_of(folded(events).content)] == expected


@pytest.mark.parametrize("client", NAMES)
@pytest.mark.parametrize("case", BROKEN)
def test_no_client_gets_a_broken_call_as_a_whole_one(client: str, case: str) -> None:
    dialect, data, expected = BROKEN[case]
    exchange = ExchangeCore(client, dialect, verbatim=False)
    events = read_events(client, [through(exchange, [data])])
    broken = {name for name, _, complete in expected if not complete}
    assert exchange.receipt.losses or isinstance(events[-1], Fault)
    if not isinstance(events[-1], Fault):
        assert not any(
            call.complete and call.name in broken and call.arguments in ("", "{}")
            for call in calls_of(folded(events).content)
        )


WHOLE: dict[str, tuple[str, bytes, list[Call]]] = {
    "Anthropic: a start that comes twice": ("anthropic", anthropic(F[0], *F), [WHOLE_F]),
    "Anthropic: whole arguments that were never stopped": ("anthropic", anthropic(*F[:2]), [WHOLE_F]),
    "Anthropic: one index for all calls": ("anthropic", anthropic(*F, *G), [WHOLE_F, WHOLE_G]),
    "Responses: whole arguments of an item that was never done": (
        "openai_responses",
        responses(added(0, item("f")), arguments(0, "fc_1", '{"a":1}')),
        [WHOLE_F],
    ),
    "Responses: one index for all deltas": (
        "openai_responses",
        responses(
            added(0, item("f")),
            added(1, item("g", number=2)),
            arguments(0, "fc_2", '{"b":2}'),
            arguments(0, "fc_1", '{"a":1}'),
        ),
        [WHOLE_F, WHOLE_G],
    ),
    "Responses: one id for all items": (
        "openai_responses",
        responses(
            added(0, item("f", id="fc")),
            added(1, item("g", number=2, id="fc")),
            arguments(0, "fc", '{"a":1}'),
            arguments(1, "fc", '{"b":2}'),
        ),
        [WHOLE_F, WHOLE_G],
    ),
}


@pytest.mark.parametrize("case", WHOLE)
def test_a_call_that_shows_that_it_is_whole_is_complete(case: str) -> None:
    dialect, data, expected = WHOLE[case]
    content = folded(read_events(dialect, [data])).content
    assert [(call.name, call.arguments, call.complete) for call in calls_of(content)] == expected


def test_a_start_that_comes_twice_is_noted() -> None:
    receipt = Receipt()
    read_events("anthropic", [anthropic(F[0], *F)], receipt)
    assert [(line.severity, line.what) for line in receipt] == [("note", "a second start of block 0")]


UNREASONED: dict[str, tuple[str, bytes, str]] = {
    "Chat": ("openai_chat", chat([chunk({"content": "Hi"})]), "no finish_reason"),
    "Anthropic": ("anthropic", sse([*ANTHROPIC[:-2], ANTHROPIC[-1]], named=True), "no stop_reason"),
}


@pytest.mark.parametrize("case", UNREASONED)
def test_a_stream_that_ends_in_due_form_without_a_reason_is_noted(case: str) -> None:
    dialect, data, what = UNREASONED[case]
    receipt = Receipt()
    assert isinstance(read_events(dialect, [data], receipt)[-1], Finish)
    assert [(line.severity, line.where, line.what) for line in receipt] == [("note", "stream", what)]


@pytest.mark.parametrize("case", UNREASONED)
def test_a_forwarded_stream_without_a_reason_is_noted_too(case: str) -> None:
    dialect, data, what = UNREASONED[case]
    exchange = ExchangeCore(dialect, dialect)
    through(exchange, [data])
    assert exchange.verbatim
    assert [(line.severity, line.where, line.what) for line in exchange.receipt] == [("note", "stream", what)]


def test_a_call_without_arguments_is_not_complete_in_a_chat_stream_that_does_not_say_why_it_ends() -> None:
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}
    content = folded(read_events("openai_chat", [chat([chunk({"tool_calls": [call]})])])).content
    assert [(call.name, call.complete) for call in calls_of(content)] == [("f", False)]
    whole = {**call, "function": {"name": "f", "arguments": '{"a":1}'}}
    content = folded(read_events("openai_chat", [chat([chunk({"tool_calls": [whole]})])])).content
    assert [(call.name, call.complete) for call in calls_of(content)] == [("f", True)]


STOPPED_SHORT: dict[str, tuple[str, bytes]] = {
    "Responses: [DONE] without response.completed": ("openai_responses", responses(added(0, item("f")))),
    "Anthropic: [DONE] without message_delta": ("anthropic", sse(ANTHROPIC[:-2], named=True)),
    "Gemini: no finishReason": ("gemini", gemini({"name": "f", "args": {}})),
}


@pytest.mark.parametrize("mark", [b"", b"data: [DONE]\n\n"], ids=["closed", "DONE"])
@pytest.mark.parametrize("case", STOPPED_SHORT)
def test_a_stream_without_the_end_of_its_own_dialect_is_truncated(case: str, mark: bytes) -> None:
    dialect, data = STOPPED_SHORT[case]
    if dialect != "anthropic":
        data = b"".join(frame + b"\n\n" for frame in data.split(b"\n\n")[:-2])
    last = read_events(dialect, [data + mark])[-1]
    assert isinstance(last, Fault)
    assert last.error.code == "upstream_truncated"


STRAY: dict[str, tuple[str, bytes]] = {
    "Anthropic: arguments in a text": (
        "anthropic",
        anthropic(*block(0, {"type": "text", "text": ""}, json_delta('{"a":1}'))),
    ),
    "Chat: another name after the arguments have begun": (
        "openai_chat",
        chat(
            [
                chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"a":'}}]}),
                chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "g", "arguments": "1}"}}]}),
                chunk({}, "tool_calls"),
            ]
        ),
    ),
}


@pytest.mark.parametrize("case", STRAY)
def test_arguments_that_may_belong_to_another_call_end_the_stream_with_an_error(case: str) -> None:
    dialect, data = STRAY[case]
    last = read_events(dialect, [data])[-1]
    assert isinstance(last, Fault)
    assert last.error.code == "upstream_unreadable"


NULL: dict[str, tuple[str, bytes]] = {
    "Chat": (
        "openai_chat",
        chat(
            [
                chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "null"}}]}),
                chunk({}, "tool_calls"),
            ]
        ),
    ),
    "Responses": ("openai_responses", responses(added(0, item("f", "null")), done(0, item("f", "null")))),
    "Anthropic": ("anthropic", anthropic(*block(0, use("f"), json_delta("null")))),
    "Gemini": ("gemini", gemini({"name": "f", "args": None})),
    "Ollama": (
        "ollama",
        b'{"model": "m", "message": {"role": "assistant", "content": "", '
        b'"tool_calls": [{"function": {"name": "f", "arguments": null}}]}, "done": true, "done_reason": "stop"}\n',
    ),
}


@pytest.mark.parametrize("client", NAMES)
@pytest.mark.parametrize("case", NULL)
def test_null_for_arguments_is_a_call_without_any(client: str, case: str) -> None:
    """Where a client's API has an object its SDK takes nothing else."""
    dialect, data = NULL[case]
    sent = through(ExchangeCore(client, dialect, verbatim=False), [data])
    assert b'"arguments":null' not in sent or client == dialect
    (call,) = calls_of(folded(read_events(client, [sent])).content)
    assert (call.name, call.arguments in ("", "{}", "null"), call.complete) == ("f", True, True)


NAMELESS: dict[str, tuple[str, bytes, Fields]] = {
    "Anthropic": (
        "anthropic",
        anthropic(*block(0, {"type": "tool_use", "id": "x", "input": {}}, json_delta('{"a":1}'))),
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [
                {"type": "text", "text": "so"},
                {"type": "tool_use", "id": "x", "name": None, "input": {"a": 1}},
            ],
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 1, "output_tokens": 1},
        },
    ),
    "Gemini": (
        "gemini",
        gemini({"args": {"a": 1}}),
        {"candidates": [{"content": {"parts": [{"functionCall": {"args": {"a": 1}}}]}, "finishReason": "STOP"}]},
    ),
}


@pytest.mark.parametrize("client", NAMES)
@pytest.mark.parametrize("case", NAMELESS)
def test_an_answer_whose_call_has_no_name_is_an_error(client: str, case: str) -> None:
    """It was taken for a part of a kind that is not known, and an agent ended its task as if the model had."""
    dialect, stream, whole = NAMELESS[case]
    exchange = ExchangeCore(client, dialect, verbatim=False)
    assert isinstance(read_events(client, [through(exchange, [stream])])[-1], Fault)
    with pytest.raises(UpstreamError, match="a call without a name"):
        ExchangeCore(client, dialect, verbatim=False).response(json.dumps(whole))


@pytest.mark.parametrize("client", [name for name in NAMES if name != "warp"])
@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("arguments", ["raw", '{"a":1}'])
def test_a_custom_call_of_a_function_is_judged_by_its_arguments(client: str, streams: bool, arguments: str) -> None:
    """It reaches the client as a call of the function, and must not look whole where that one would not."""
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    chat_request = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": tools, "stream": streams}

    def outcome(call: Fields) -> tuple[bytes, list[str]]:
        asked = chat_request if client == "openai_chat" else ExchangeCore("openai_chat", client).request(chat_request)
        exchange = ExchangeCore(client, "openai_chat", created=1, answer_id="a", verbatim=False)
        exchange.request(asked, model="m", stream=streams)
        if streams:
            stream = exchange.stream()
            chunks = [chunk({"tool_calls": [{"index": 0, "id": "c", **call}]}), chunk({}, "tool_calls")]
            written = stream.feed(chat(chunks)) + stream.close()
        else:
            message = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", **call}]}
            choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
            written = exchange.response({"id": "c", "object": "chat.completion", "choices": [choice]})
        return written, [f"{line.severity} {line.where} {line.what}" for line in exchange.receipt]

    custom = outcome({"type": "custom", "custom": {"name": "f", "input": arguments}})
    assert custom == outcome({"type": "function", "function": {"name": "f", "arguments": arguments}})
    assert ("loss content[0] call of f" in custom[1]) == (arguments == "raw")
