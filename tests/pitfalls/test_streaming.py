"""Pitfalls of streamed tool calls: what real gateways have lost between a Chat upstream and an Anthropic client."""

from __future__ import annotations

import json

import pytest

from tests.exchanges import JSON_NAMES, NAMES, calls_of, folded, read_events, relay, through
from tests.pitfalls.wires import (
    added,
    anthropic,
    anthropic_blocks,
    anthropic_calls,
    call,
    calls,
    chat,
    chat_calls,
    closed,
    frames,
    gemini,
    opened,
    responses,
    to,
)
from toolglot.ir import ToolCall
from toolglot.translate import ExchangeCore

PARIS, ROME = '{"city":"Paris"}', '{"city":"Rome"}'
BOTH = [("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"})]


def whole(index: int, call_id: str, arguments: str) -> dict[str, object]:
    return call(index, arguments, id=call_id, type="function", name="get_weather")


def test_two_whole_calls_in_one_chunk_are_two_blocks() -> None:
    """litellm #15307: only the first opened a block, and the arguments of both were glued together."""
    got = to("anthropic", "openai_chat", chat(calls(whole(0, "a", PARIS), whole(1, "b", ROME))))
    assert anthropic_calls(got) == BOTH


def test_interleaved_argument_deltas_stay_with_their_calls() -> None:
    """praxis-proxy/ai #266: deltas of index 0, 1, 0, 1 were filed under the newest block."""
    stream = chat(
        calls(whole(0, "a", "")),
        calls(whole(1, "b", "")),
        calls(call(0, PARIS[:8])),
        calls(call(1, ROME[:8])),
        calls(call(0, PARIS[8:])),
        calls(call(1, ROME[8:])),
    )
    assert anthropic_calls(to("anthropic", "openai_chat", stream)) == BOTH
    assert [entry["arguments"] for entry in chat_calls(to("openai_chat", "anthropic", _interleaved_anthropic()))] == [
        PARIS,
        ROME,
    ]


def _interleaved_anthropic() -> bytes:
    return anthropic(
        opened(0, type="tool_use", id="a", name="get_weather", input={}),
        opened(1, type="tool_use", id="b", name="get_weather", input={}),
        added(0, type="input_json_delta", partial_json=PARIS[:5]),
        added(1, type="input_json_delta", partial_json=ROME[:5]),
        added(0, type="input_json_delta", partial_json=PARIS[5:]),
        added(1, type="input_json_delta", partial_json=ROME[5:]),
        closed(1),
        closed(0),
    )


def test_blocks_never_overlap() -> None:
    """Switchyard PR #760, CLIProxyAPI #5581: the official JavaScript SDK reports the last block on every stop."""
    stream = chat(
        calls(whole(0, "a", '{"city":')),
        calls(whole(1, "b", '{"city":')),
        calls(call(0, '"Paris"}')),
        calls(call(1, '"Rome"}')),
    )
    blocks = anthropic_blocks(to("anthropic", "openai_chat", stream))  # asserts one open block at a time
    assert [block["id"] for block in blocks] == ["a", "b"]


def test_text_between_argument_deltas_does_not_split_the_call() -> None:
    """CLIProxyAPI #5581: some upstreams put text between the deltas of one call's arguments."""
    stream = chat(calls(whole(0, "a", PARIS[:5])), {"content": "Hold on."}, calls(call(0, PARIS[5:])))
    blocks = anthropic_blocks(to("anthropic", "openai_chat", stream))
    assert sorted(block["type"] for block in blocks) == ["text", "tool_use"]
    assert ["".join(block["pieces"]) for block in blocks if block["type"] == "tool_use"] == [PARIS]
    assert ["".join(block["pieces"]) for block in blocks if block["type"] == "text"] == ["Hold on."]


@pytest.mark.parametrize(
    "deltas",
    [
        [call(0, "", id="a", type="function", name=""), call(0, "", name="get_weather"), call(0, PARIS)],
        [call(0, "", id="a", type="function", name=None), call(0, PARIS), call(0, "", name="get_weather")],
        [call(0, "", type="function", name="get_weather"), call(0, PARIS), call(0, "", id="a")],
        [call(0, ""), call(0, PARIS[:4]), call(0, PARIS[4:], id="a", name="get_weather")],
    ],
    ids=["name late", "name last", "id late", "both late"],
)
def test_a_late_name_or_id_loses_no_call(deltas: list[dict[str, object]]) -> None:
    """CLIProxyAPI #3748: the block was never started, so the tool was lost and the model looped."""
    got = to("anthropic", "openai_chat", chat(*map(calls, deltas)))
    assert anthropic_calls(got) == BOTH[:1]
    assert anthropic_blocks(got)[0]["id"] == "a"


def test_arguments_in_the_first_delta_are_kept() -> None:
    """litellm #25321: xAI and Gemini send id, name and all arguments at once, and the arguments were dropped."""
    assert anthropic_calls(to("anthropic", "openai_chat", chat(calls(whole(0, "a", PARIS))))) == BOTH[:1]


ITEM = {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "get_weather", "status": "completed"}
ADDED = {"type": "response.output_item.added", "output_index": 0, "item": {**ITEM, "arguments": ""}}
ARGUMENTS_DONE = {
    "type": "response.function_call_arguments.done",
    "item_id": "fc_1",
    "output_index": 0,
    "arguments": PARIS,
}
ITEM_DONE = {"type": "response.output_item.done", "output_index": 0, "item": {**ITEM, "arguments": PARIS}}


@pytest.mark.parametrize(
    "events",
    [[ADDED, ARGUMENTS_DONE], [ADDED, ITEM_DONE], [ITEM_DONE], [ADDED, ARGUMENTS_DONE, ITEM_DONE], []],
    ids=["arguments.done only", "item.done only", "item.done without added", "both", "completed only"],
)
def test_arguments_that_come_only_at_the_end_are_written_once(events: list[dict[str, object]]) -> None:
    """litellm #25321 (a comment): LM Studio sends `function_call_arguments.done` and no delta."""
    stream = responses(*events, output=[{**ITEM, "arguments": PARIS}])
    assert anthropic_calls(to("anthropic", "openai_responses", stream)) == BOTH[:1]


def test_an_id_and_name_in_every_delta_are_one_call() -> None:
    """9router, any-llm and litellm made a new call of every chunk."""
    stream = chat(*(calls(whole(0, "a", piece)) for piece in (PARIS[:4], PARIS[4:9], PARIS[9:])))
    assert anthropic_calls(to("anthropic", "openai_chat", stream)) == BOTH[:1]


def test_one_index_with_different_ids_is_two_calls() -> None:
    """llm-rosetta, any-llm and llms merged the calls of servers that give every call the index 0."""
    stream = chat(calls(whole(0, "a", PARIS)), calls(whole(0, "b", ROME)))
    assert anthropic_calls(to("anthropic", "openai_chat", stream)) == BOTH


def test_calls_without_an_index_are_told_apart_by_their_ids() -> None:
    """Some servers leave `index` out; clients that read it find no call at all."""
    stream = chat(
        calls(call(None, PARIS, id="a", name="get_weather")), calls(call(None, ROME, id="b", name="get_weather"))
    )
    assert anthropic_calls(to("anthropic", "openai_chat", stream)) == BOTH


def test_the_index_of_a_chat_call_counts_calls_and_not_blocks() -> None:
    """bifrost #1961, litellm #5231: every chunk said `index: 0`, and clients glued names and arguments."""
    stream = anthropic(
        opened(0, type="text", text=""),
        added(0, type="text_delta", text="Well."),
        closed(0),
        opened(1, type="tool_use", id="a", name="get_weather", input={}),
        added(1, type="input_json_delta", partial_json=PARIS),
        closed(1),
        opened(2, type="tool_use", id="b", name="get_weather", input={}),
        added(2, type="input_json_delta", partial_json=ROME),
        closed(2),
    )
    got = chat_calls(to("openai_chat", "anthropic", stream))  # asserts that indices are dense
    assert got == [
        {"id": "a", "name": "get_weather", "arguments": PARIS},
        {"id": "b", "name": "get_weather", "arguments": ROME},
    ]


def test_empty_content_beside_a_call_opens_no_block() -> None:
    """agentgateway's golden `stream_tool_empty_content`: DeepSeek sends `content: ""` beside tool fragments."""
    stream = chat(
        {"role": "assistant", "content": "", **calls(whole(0, "a", PARIS[:3]))},
        {"content": "", **calls(call(0, PARIS[3:]))},
    )
    assert [block["type"] for block in anthropic_blocks(to("anthropic", "openai_chat", stream))] == ["tool_use"]


@pytest.mark.parametrize("client", NAMES)
@pytest.mark.parametrize("arguments", ["", None, "  "], ids=["empty", "missing", "blank"])
def test_a_call_without_arguments_has_the_empty_object(client: str, arguments: str | None) -> None:
    """vscode-copilot-release #8040: a tool without arguments comes with no delta, `""` or null."""
    entry = call(0, arguments, id="a", type="function", name="now")
    got = relay(client, "openai_chat", [chat(calls(entry))])
    if client == "openai_chat":
        return  # one dialect on both sides: the bytes are the upstream's
    found = calls_of(folded(read_events(client, [got])).content)
    assert [(call.name, call.arguments.strip() or "{}") for call in found] == [("now", "{}")]


def test_no_arguments_are_an_empty_object_on_the_wire_of_chat() -> None:
    """The Anthropic fixture `anthropic-tool-no-args` of vercel/ai: start and stop, and no delta between."""
    stream = anthropic(opened(0, type="tool_use", id="a", name="now", input={}), closed(0))
    assert chat_calls(to("openai_chat", "anthropic", stream))[0]["arguments"] == "{}"
    done = [frame for frame in to("openai_responses", "anthropic", stream) if frame["type"].endswith("arguments.done")]
    assert done[0]["arguments"] == "{}"
    part = to("gemini", "anthropic", stream)[0]["candidates"][0]["content"]["parts"][0]
    assert part["functionCall"]["args"] == {}


def test_a_chunk_with_reasoning_text_and_a_call_is_split_in_order() -> None:
    """litellm 1018d18 and 2f7574d: a mixed chunk; a stream that began with reasoning opened as text."""
    stream = chat({"reasoning_content": "Hm.", "content": "Well.", **calls(whole(0, "a", PARIS))})
    blocks = anthropic_blocks(to("anthropic", "openai_chat", stream))
    kinds = [block["type"] for block in blocks]
    assert kinds == ["thinking", "text", "tool_use"]


def test_empty_reasoning_and_text_deltas_write_nothing() -> None:
    """litellm 53a206a, 0f9d593: an empty text delta inside a thinking block crashes the strict SDK."""
    stream = chat(
        {"role": "assistant", "content": "", "reasoning_content": ""},
        {"reasoning_content": "Hm.", "content": ""},
        {"reasoning_content": "", "content": "Well."},
        {"reasoning_content": None, "content": ""},
        finish="stop",
    )
    blocks = anthropic_blocks(to("anthropic", "openai_chat", stream))  # asserts that no delta is empty
    assert [block["type"] for block in blocks] == ["thinking", "text"]


@pytest.mark.parametrize("client", NAMES)
def test_a_second_message_start_is_no_second_beginning(client: str) -> None:
    """litellm #33793, bifrost #4556: an upstream that restarts in the middle made two messages of one."""
    start = anthropic(stop=None)
    stream = start + anthropic(
        opened(0, type="text", text=""), added(0, type="text_delta", text="Hi."), closed(0), stop="end_turn"
    )
    if client == "anthropic":
        return
    written = relay(client, "anthropic", [stream])
    response = folded(read_events(client, [written]))
    assert [getattr(block, "text", None) for block in response.content] == ["Hi."]
    beginnings = {"openai_chat": b'"role":"assistant"', "openai_responses": b"event: response.created"}
    if client in beginnings:
        assert written.count(beginnings[client]) == 1


def test_an_argument_delta_is_passed_on_as_soon_as_it_comes() -> None:
    """litellm #38926: with `include_usage`, streamed arguments came in one burst at the end."""
    translation = ExchangeCore("anthropic", "openai_chat").stream()
    stream = chat(calls(whole(0, "a", "")), calls(call(0, '{"city":')), calls(call(0, '"Paris"}')))
    seen = [translation.feed(frame + b"\n\n") for frame in stream.split(b"\n\n")]
    assert b'{\\"city\\":' in seen[1]
    assert b'\\"Paris\\"}' in seen[2]


def test_gemini_calls_without_ids_get_different_ids() -> None:
    """Gemini's calls have no id of their own; two calls of one tool must not become one."""
    part = {"functionCall": {"name": "get_weather", "args": {"city": "Paris"}}}
    got = chat_calls(frames(relay("openai_chat", "gemini", [gemini([part, part])])))
    assert len({entry["id"] for entry in got}) == 2
    assert all(entry["id"] for entry in got)


def spliced_anthropic() -> bytes:
    """A call that is whole, then the same answer from its beginning."""
    one = (
        opened(0, type="tool_use", id="a", name="get_weather", input={}),
        added(0, type="input_json_delta", partial_json=PARIS),
        closed(0),
    )
    return anthropic(*one, stop=None) + anthropic(*one).replace(b"msg_1", b"msg_2")


def spliced_responses() -> bytes:
    item = {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "get_weather", "arguments": PARIS}
    one = responses({"type": "response.output_item.done", "output_index": 0, "item": item}, output=[item])
    cut = one[: one.index(b"event: response.completed")]
    return cut + one.replace(b"resp_1", b"resp_2")


@pytest.mark.parametrize(
    ("upstream", "stream"), [("anthropic", spliced_anthropic()), ("openai_responses", spliced_responses())]
)
@pytest.mark.parametrize("client", JSON_NAMES)
def test_two_answers_in_one_stream_are_not_one_answer(client: str, upstream: str, stream: bytes) -> None:
    """vercel/ai #18331: a proxy that lost its upstream wrote its second attempt behind the first one."""
    assert b"another answer begins in the same stream" in relay(client, upstream, [stream])


def test_a_second_answer_in_a_chat_stream_is_reported() -> None:
    """Some proxies let the second model continue the text (litellm falls back so): it may be no repetition."""
    first = chat({"role": "assistant", "content": ""}, {"content": "Hel"}, {"content": "lo"}, finish=None, done=False)
    again = first.replace(b"chatcmpl-1", b"chatcmpl-2")
    exchange = ExchangeCore("anthropic", "openai_chat")
    through(exchange, [first + again + chat(finish="stop").replace(b"chatcmpl-1", b"chatcmpl-2")])
    assert [line.what for line in exchange.receipt.losses] == ["another answer in the same stream"]


@pytest.mark.parametrize("has_role", [False, True])
def test_chunks_with_ids_of_their_own_are_one_answer(has_role: bool) -> None:
    """Microsoft's Foundry Local and GigaChat give each chunk another id, the first one with a role in each."""
    role = {"role": "assistant"} if has_role else {}
    pieces = [chat({**role, "content": text}, finish=None, done=False) for text in "Hello"]
    stream = b"".join(piece.replace(b"chatcmpl-1", b"chatcmpl-%d" % n) for n, piece in enumerate(pieces))
    exchange = ExchangeCore("anthropic", "openai_chat")
    through(exchange, [stream + chat(finish="stop")])
    assert exchange.receipt.losses == ()


@pytest.mark.parametrize("pieces", [[" "], [" ", "{}"], [" ", PARIS], ["\n", PARIS[:5], PARIS[5:]]])
@pytest.mark.parametrize("client", ["openai_chat", "openai_responses"])
def test_blank_arguments_are_those_of_a_call_without_any(client: str, pieces: list[str]) -> None:
    """Clients parse the text as JSON: a space is none."""
    other = {"openai_chat": "openai_responses", "openai_responses": "openai_chat"}[client]
    item = {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "get_weather", "arguments": ""}
    delta = {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc_1"}
    streams = {
        "openai_chat": chat(calls(whole(0, "a", "")), *(calls(call(0, piece)) for piece in pieces)),
        "openai_responses": responses(
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            *({**delta, "delta": piece} for piece in pieces),
            {"type": "response.output_item.done", "output_index": 0, "item": {**item, "arguments": "".join(pieces)}},
        ),
    }
    got = folded(read_events(client, [relay(client, other, [streams[other]])]))
    wanted = json.loads("".join(pieces)) if "".join(pieces).strip() else {}
    (block,) = got.content
    assert isinstance(block, ToolCall)
    if client == "openai_responses" and not "".join(pieces).strip():  # the end of the item has the whole arguments
        assert b'"arguments":"{}"' in relay(client, other, [streams[other]])
    else:
        assert json.loads(block.arguments) == wanted


@pytest.mark.parametrize("client", NAMES)
def test_null_for_arguments_is_reported_to_clients_that_read_them_as_text(client: str) -> None:
    exchange = ExchangeCore(client, "anthropic")
    block = (
        opened(0, type="tool_use", id="a", name="f", input={}),
        added(0, type="input_json_delta", partial_json="null"),
    )
    through(exchange, [anthropic(*block, closed(0))])
    noted = [line.what for line in exchange.receipt if line.where == "content[0].arguments"]
    assert noted == (["null"] if client in ("openai_chat", "openai_responses") else [])
