"""Answers that end before their usage, and answers without any: nobody is told a number that nobody measured, but for
an estimate where the client's dialect requires one, and the receipt tells it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.exchanges import NAMES
from tests.lint.streams import SOUND
from tests.server.client_errors import good_end
from tests.server.gateway import CLIENTS, at, gateway
from tests.upstream.bad_server import BadServer, Script, expect, reply, reset, send, stream
from toolglot.api import translate_response
from toolglot.dialects import DIALECTS
from toolglot.errors import ENDED_EARLY, ApiError
from toolglot.lint import lint
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS)

FINISHED = SOUND["openai_chat"][: SOUND["openai_chat"].index(b"\n\n", SOUND["openai_chat"].index(b'"tool_calls"}')) + 2]
"""A stream that has said why it stops, and neither its usage nor its end."""
WHOLE = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello there"}, "finish_reason": "stop"}],
}
RESET = ApiError(kind="server", status=502, code="upstream_reset", message="reset")


def usages(value: Any) -> list[Any]:
    """Whatever is told as usage, anywhere."""
    if isinstance(value, list):
        return [found for item in value for found in usages(item)]
    if not isinstance(value, dict):
        return []
    own = [value[key] for key in ("usage", "usageMetadata") if value.get(key) is not None]
    return own + [
        found for key, item in value.items() if key not in ("usage", "usageMetadata") for found in usages(item)
    ]


def told(body: bytes) -> list[Any]:
    """The usage in each event."""
    lines = [line[6:] for line in body.splitlines() if line.startswith(b"data: ") and line != b"data: [DONE]"]
    return [usage for line in lines for usage in usages(json.loads(line))]


def is_honest(client: str, body: bytes, *, knows_request: bool) -> None:
    counts = told(body)
    if client != "anthropic":
        assert counts == []
        return
    first, last = counts
    assert first["output_tokens"] == 0  # before the first token
    assert last["output_tokens"] == 4  # "Hello" and two calls with 11 characters of names and arguments
    assert (last["input_tokens"] or 0) > 0 if knows_request else last["input_tokens"] is None


@EVERY_CLIENT
@pytest.mark.parametrize("size", [1, 7, len(FINISHED)])
def test_a_stream_that_ends_before_its_usage_is_whole_and_says_so(client: str, size: int) -> None:
    exchange = ExchangeCore(client, "openai_chat")
    translation = exchange.stream()
    written = b"".join(translation.feed(FINISHED[at : at + size]) for at in range(0, len(FINISHED), size))
    written += translation.close()
    assert lint(client, [written]) == []
    assert (translation.fault, translation.usage) == (None, None)
    is_honest(client, written, knows_request=False)
    lines = [(line.severity, line.where, line.what) for line in exchange.receipt]
    assert ("note", "stream", "no [DONE]") in lines
    assert (("note", "usage.output_tokens", "an estimate") in lines) == (client == "anthropic")
    assert exchange.receipt.loss_count == 0


def test_long_text_is_estimated_alike_however_it_comes() -> None:
    text = 'Grüße\\n \\"x\\" ' * 50
    frame = SOUND["openai_chat"].split(b"\n\n")[1].replace(b'"Hello"', f'"{text}"'.encode()) + b"\n\n"
    assert text.encode() in frame
    first = SOUND["openai_chat"].partition(b"\n\n")[0] + b"\n\n"
    body = first + frame * 3 + FINISHED[FINISHED.rindex(b"data: ") :].replace(b'"tool_calls"}', b'"stop"}')
    written = []
    for size in (1, 1000, len(body)):
        translation = ExchangeCore("anthropic", "openai_chat").stream()
        pieces = [translation.feed(body[at : at + size]) for at in range(0, len(body), size)]
        written.append(told(b"".join(pieces) + translation.close())[-1]["output_tokens"])
    assert written == [-(-3 * len(json.loads(f'"{text}"')) // 4)] * 3


def _settles_early(upstream: str) -> bool:
    """Does something follow the reason for the end, so that a connection may break in between?"""
    decoder = DIALECTS[upstream].stream_decoder(Receipt())
    decoder.feed(SOUND[upstream].removesuffix(DIALECTS[upstream].stream.last_event))
    return decoder.settled


@pytest.mark.parametrize("upstream", [name for name in NAMES if _settles_early(name)])
@pytest.mark.parametrize("client", NAMES)
def test_a_connection_that_breaks_behind_the_reason_for_the_end_is_told_in_the_receipt(
    client: str, upstream: str
) -> None:
    sound, mark = SOUND[upstream], DIALECTS[upstream].stream.last_event
    exchange = ExchangeCore(client, upstream, can_cut=True)
    translation = exchange.stream()
    translation.feed(sound.removesuffix(mark))
    translation.break_off(RESET)
    assert (translation.fault, translation.is_cut) == (None, False)
    assert [line.severity for line in exchange.receipt if line.why == ENDED_EARLY] == ["note"]


@pytest.mark.parametrize("upstream", NAMES)
@pytest.mark.parametrize("client", NAMES)
def test_a_stream_with_its_end_has_no_such_line(client: str, upstream: str) -> None:
    exchange = ExchangeCore(client, upstream)
    translation = exchange.stream()
    translation.feed(SOUND[upstream])
    translation.close()
    assert [line for line in exchange.receipt if line.why == ENDED_EARLY or "estimate" in line.what] == []


def test_a_whole_answer_without_usage_has_an_estimate_where_a_number_is_required() -> None:
    answers = {name: translate_response(WHOLE, "openai_chat", name) for name in CLIENTS}
    assert [name for name in CLIENTS if usages(answers[name].json())] == ["anthropic"]
    assert answers["anthropic"].json()["usage"]["output_tokens"] == 3
    lines = [(line.severity, line.where, line.what) for line in answers["anthropic"].receipt]
    assert lines == [
        ("note", "usage.output_tokens", "an estimate"),
        ("note", "usage.input_tokens", "0 for an unknown number"),
    ]


@EVERY_CLIENT
@pytest.mark.parametrize("end", [[send(b"0\r\n\r\n")], [reset()]], ids=["ended", "reset"])
def test_the_gateway_counts_nothing_that_nobody_measured(client: str, end: Script) -> None:
    script = [expect(), stream(FINISHED, complete=False), *end]
    with BadServer(script) as server, gateway(at("openai_chat", server.url)) as running:
        answer = running.ask(client, stream=True)
        good_end(client, answer)
        is_honest(client, answer.body, knows_request=True)
        record = running.record()
        assert (record.usage, record.error, record.cut) == (None, None, False)
        receipt = running.call("GET", f"/debug/receipts/{record.id}").json()
        assert ("stream", "no [DONE]") in [(line["where"], line["what"]) for line in receipt["lines"]]


def test_a_whole_answer_of_the_gateway_estimates_the_input_too() -> None:
    with BadServer([expect(), reply(WHOLE)]) as server, gateway(at("openai_chat", server.url)) as running:
        usage = running.ask("anthropic").json()["usage"]
        record = running.record()
        assert (usage["output_tokens"], usage["input_tokens"] > 0, record.usage) == (3, True, None)


CALL = {"id": "a", "type": "function", "function": {"name": "a_rather_long_name", "arguments": '{"city":"Paris"}'}}
MESSAGES: dict[str, dict[str, Any]] = {
    "nothing": {"content": ""},
    "text": {"content": "Grüße, wie geht es?"},
    "a call": {"content": None, "tool_calls": [CALL]},
    "all": {"reasoning_content": "Hm, let me see.", "content": "One moment", "tool_calls": [CALL, {**CALL, "id": "b"}]},
}


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_an_answer_has_the_same_estimate_whole_and_streamed(message: dict[str, Any]) -> None:
    request = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "How are you?"}]}
    stop = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": stop}
    whole = ExchangeCore("anthropic", "openai_chat")
    whole.request(request)
    usage = json.loads(whole.response({**WHOLE, "choices": [choice]}))["usage"]

    calls = [{**call, "index": index} for index, call in enumerate(message.get("tool_calls", ()))]
    delta = {"role": "assistant", **message, **({"tool_calls": calls} if calls else {})}
    chunks = [{"index": 0, "delta": delta, "finish_reason": None}, {"index": 0, "delta": {}, "finish_reason": stop}]
    frames = [{**WHOLE, "object": "chat.completion.chunk", "choices": [chunk]} for chunk in chunks]
    streamed = ExchangeCore("anthropic", "openai_chat")
    streamed.request({**request, "stream": True})
    translation = streamed.stream()
    written = translation.feed(b"".join([b"data: %b\n\n" % json.dumps(frame).encode() for frame in frames]))
    first, last = told(written + translation.feed(b"data: [DONE]\n\n") + translation.close())
    assert [last[name] for name in ("input_tokens", "output_tokens")] == [
        usage[name] for name in ("input_tokens", "output_tokens")
    ]
    assert (first["input_tokens"], usage["input_tokens"] > 0) == (0, True)
    for exchange in (whole, streamed):
        lines = [line.where for line in exchange.receipt if line.what == "an estimate"]
        assert lines == ["usage.output_tokens", "usage.input_tokens"]
