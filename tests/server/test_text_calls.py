"""Models whose calls are text, behind a gateway: the client sees native ones, whatever it speaks."""

from __future__ import annotations

import json
from pathlib import Path
from time import monotonic, time
from typing import Any, Literal

import pytest

from tests.exchanges import written
from tests.lint.streams import SOUND
from tests.server.client_errors import error_told, fault_told, good_end
from tests.server.gateway import CLIENTS, Answer, Running, at, gateway, request
from tests.store.turns import using
from tests.upstream.bad_server import BadServer, Gate, Script, expect, gone, never, pause, reply, reset, stream
from toolglot.config.schema import BreakerConfig, Limits, ModelConfig, Retries, UpstreamConfig
from toolglot.dialects import find
from toolglot.events import Fold
from toolglot.ir import Response, Text, Thinking, ToolCall
from toolglot.receipt import Receipt
from toolglot.store import ToolVerdict
from toolglot.store.sqlite import SqliteStore
from toolglot.upstream.transport import Timeouts

EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS)
BOTH = pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
OLLAMA = "registry.ollama.ai/library/tiny:latest does not support tools"
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def call(name: str, arguments: str = '{"a": 1}') -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


def refusal(status: int, message: str) -> Script:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return [expect(), reply({"error": error}, status)]


def whole(text: str) -> Script:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    answer = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": USAGE}
    return [expect(), reply(answer)]


def chunks(*texts: str) -> list[bytes]:
    base: dict[str, Any] = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, *({"content": text} for text in texts)]
    choices: list[list[dict[str, Any]]] = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
    choices.append([{"index": 0, "delta": {}, "finish_reason": "stop"}])
    frames: list[dict[str, Any]] = [{**base, "choices": choice} for choice in choices]
    frames.append({**base, "choices": [], "usage": USAGE})
    return [*(b"data: %b\n\n" % json.dumps(frame).encode() for frame in frames), b"data: [DONE]\n\n"]


def says(text: str, *, streams: bool) -> Script:
    pieces = (text[start : start + 7] for start in range(0, len(text), 7))
    return [expect(), stream(*chunks(*pieces))] if streams else whole(text)


def read(client: str, answer: Answer, *, streams: bool) -> Response:
    """What the client was told."""
    assert answer.status == 200, answer.body
    dialect = find(client)
    if not streams:
        return dialect.decode_response(answer.body)
    good_end(client, answer)
    decoder, fold = dialect.stream_decoder(Receipt()), Fold()
    for event in (*decoder.feed(answer.body), *decoder.close()):
        fold.add(event)
    assert fold.fault is None
    return fold.response()


def calls_of(response: Response) -> list[tuple[str, Any]]:
    return [(block.name, json.loads(block.arguments)) for block in response.content if isinstance(block, ToolCall)]


def text_of(response: Response) -> str:
    return "".join(block.text for block in response.content if isinstance(block, Text))


def notes_of(running: Running, answer: Answer) -> str:
    told = running.receipt(answer)
    return "\n".join(f"{line['where']}: {line['what']}: {line['why']}" for line in told["lines"])


def one(**fields: Any) -> dict[str, ModelConfig]:
    return {"m": ModelConfig(upstream="up", **fields)}


# The configuration says it


@EVERY_CLIENT
@BOTH
def test_a_model_that_is_configured_for_text_gets_no_native_tools(client: str, streams: bool) -> None:
    with (
        BadServer(says("Let me see. " + call("f") + "\n" + call("g", "{}"), streams=streams)) as server,
        gateway(at("openai_chat", server.url), models=one(tools="hermes_json")) as running,
    ):
        response = read(client, running.ask(client, stream=streams), streams=streams)
        assert calls_of(response) == [("f", {"a": 1}), ("g", {})]
        assert response.stop.reason in ("tool_calls", "end" if client == "gemini" else "tool_calls")
        sent = server.requests[0].json()
        assert "tools" not in sent
        assert '"name": "f"' in sent["messages"][0]["content"] or '"name":"f"' in sent["messages"][0]["content"]


def test_a_model_whose_calls_are_text_is_asked_for_one_candidate() -> None:
    """The calls in a further answer would reach the client as text."""
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    body = {"messages": [{"role": "user", "content": "Hi"}], "n": 2, "tools": tools}
    with (
        BadServer(whole(call("f"))) as server,
        gateway(at("openai_chat", server.url), models=one(tools="hermes_json")) as running,
    ):
        answer = running.ask("openai_chat", body=body)
        assert calls_of(read("openai_chat", answer, streams=False)) == [("f", {"a": 1})]
        assert "n" not in server.requests[0].json()
        assert "candidates: candidates 2: calls as text are read in one answer" in notes_of(running, answer)


@BOTH
def test_an_answer_that_begins_inside_its_reasoning_is_read_so_where_the_model_is_said_to(streams: bool) -> None:
    text = f"Perhaps {call('g')}? No.</think>{call('f')}"
    models = one(tools="hermes_json", starts_in_reasoning=True)
    with (
        BadServer(says(text, streams=streams)) as server,
        gateway(at("openai_chat", server.url), models=models) as running,
    ):
        response = read("anthropic", running.ask("anthropic", stream=streams), streams=streams)
        assert calls_of(response) == [("f", {"a": 1})]
        thoughts = [block.text for block in response.content if isinstance(block, Thinking)]
        assert thoughts == [f"Perhaps {call('g')}? No."]


@EVERY_CLIENT
@BOTH
@pytest.mark.parametrize("dialect", CLIENTS)
def test_the_demo_without_tools_completes_a_loop_for_every_client(client: str, streams: bool, dialect: str) -> None:
    wish = "Call f and g with a = 3"
    body = {**json.loads(request(client)[1]), **written(client, wish)}
    body.pop("model", None)
    with gateway({"demo": UpstreamConfig(dialect=dialect)}) as running:
        answer = running.ask(client, stream=streams, model="demo-text", body=body)
        response = read(client, answer, streams=streams)
        assert [name for name, _ in calls_of(response)] == ["f", "g"]
        record = running.record()
        assert (record.error, record.stop) == (None, "tool_calls")
        assert "written as text, in the format hermes_json" in notes_of(running, answer)


def test_a_native_model_is_sent_what_it_was_always_sent() -> None:
    with (
        BadServer([expect(), stream(SOUND["openai_chat"])]) as server,
        gateway(at("openai_chat", server.url)) as running,
    ):
        answer = running.ask("openai_chat", stream=True)
        assert answer.body == SOUND["openai_chat"]
        assert [tool["function"]["name"] for tool in server.requests[0].json()["tools"]] == ["f", "g"]


@BOTH
def test_a_call_that_a_native_model_leaks_into_its_text_is_rescued(streams: bool) -> None:
    with (
        BadServer(says("Sure.\n" + call("f"), streams=streams)) as server,
        gateway(at("openai_chat", server.url), models=one(rescue="hermes_json")) as running,
    ):
        response = read("openai_chat", running.ask("openai_chat", stream=streams), streams=streams)
        assert (calls_of(response), text_of(response).strip()) == ([("f", {"a": 1})], "Sure.")
        assert "tools" in server.requests[0].json()


def test_calls_of_old_clients_in_the_past_become_native() -> None:
    body = {
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": call("f")},
            {"role": "user", "content": "<tool_response>\nfine\n</tool_response>"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    }
    with (
        BadServer(whole("ok")) as server,
        gateway(at("openai_chat", server.url), models=one(history="hermes_json")) as running,
    ):
        assert running.ask("openai_chat", body=body).status == 200
        [_, assistant, result] = server.requests[0].json()["messages"]
        assert assistant["tool_calls"][0]["function"]["name"] == "f"
        assert (result["role"], result["content"]) == ("tool", "fine")


# The upstream says it


@EVERY_CLIENT
@BOTH
@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, OLLAMA),
        (500, "tools param requires --jinja flag"),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
    ],
    ids=["ollama", "llamacpp", "vllm"],
)
def test_a_request_that_is_refused_for_its_tools_is_sent_again_as_text(
    client: str, streams: bool, status: int, message: str
) -> None:
    good = says(call("f"), streams=streams)
    with (
        BadServer(refusal(status, message), good, good) as server,
        gateway(at("openai_chat", server.url, retries=Retries(attempts=3, first_wait=0))) as running,
    ):
        answer = running.ask(client, stream=streams)
        assert calls_of(read(client, answer, streams=streams)) == [("f", {"a": 1})]
        record = running.record()
        assert (record.mended, record.attempts, record.error) == (1, 2, None)
        assert f"the upstream does not accept them: {message}" in notes_of(running, answer)
        running.record()  # of the question for the receipt
        # The next one goes as text at once.
        assert calls_of(read(client, running.ask(client, stream=streams), streams=streams)) == [("f", {"a": 1})]
        assert running.record().attempts == 1
        assert ["tools" in request.json() for request in server.requests] == [True, False, False]


def test_a_request_without_tools_is_no_reason_to_write_text() -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}]}
    with (
        BadServer(refusal(400, OLLAMA)) as server,
        gateway(at("openai_chat", server.url)) as running,
    ):
        assert running.ask("openai_chat", body=body).status == 400
        assert len(server.requests) == 1


@pytest.mark.parametrize("tools", ["native", "hermes_json"])
def test_where_the_configuration_has_said_how_a_refusal_is_the_clients(tools: str) -> None:
    with (
        BadServer(refusal(400, OLLAMA)) as server,
        gateway(at("openai_chat", server.url), models=one(tools=tools)) as running,
    ):
        answer = running.ask("openai_chat")
        assert (answer.status, error_told("openai_chat", answer).message) == (400, OLLAMA)
        assert len(server.requests) == 1


def test_a_model_that_refuses_text_too_is_not_remembered() -> None:
    with (
        BadServer(refusal(400, OLLAMA), refusal(400, "something else"), refusal(400, OLLAMA), whole("Hi")) as server,
        gateway(at("openai_chat", server.url)) as running,
    ):
        assert error_told("openai_chat", running.ask("openai_chat")).message == "something else"
        assert running.ask("openai_chat").status == 200
        assert ["tools" in request.json() for request in server.requests] == [True, False, True, False]


def test_strict_mode_tells_what_text_cannot_hold() -> None:
    with (
        BadServer(refusal(400, OLLAMA), whole(call("f"))) as server,
        gateway(at("openai_chat", server.url), strict=True) as running,
    ):
        body = {
            "messages": [{"role": "user", "content": "Hi"}],
            "tools": [{"type": "function", "function": {"name": "f", "strict": True, "parameters": {}}}],
        }
        answer = running.ask("openai_chat", body=body)
        assert answer.status == 400
        assert "strict" in error_told("openai_chat", answer).message
        assert len(server.requests) == 1


# The store says it


def remembered(path: Path, url: str) -> str | None:
    verdict = using(path, lambda store: store.verdict(url, "m"))
    return None if verdict is None else verdict.tools


def test_a_refusal_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite3"
    with BadServer(refusal(400, OLLAMA), whole(call("f"))) as server:
        for asked in (2, 3):
            store = SqliteStore(path)
            with gateway(at("openai_chat", server.url), store=store) as running:
                assert running.ask("openai_chat").status == 200
                assert len(server.requests) == asked
            assert remembered(path, server.url) == "text"
        assert ["tools" in request.json() for request in server.requests] == [True, False, False]


@pytest.mark.parametrize(("tools", "native"), [("text", False), ("native", True)])
def test_what_a_probe_has_found_is_used(tmp_path: Path, tools: Literal["text", "native"], native: bool) -> None:
    path, now = tmp_path / "store.sqlite3", time()
    with BadServer(whole("Hi")) as server:
        verdict = ToolVerdict(upstream=server.url, model="m", tools=tools, found=now, until=now + 1000)
        using(path, lambda store: store.remember(verdict))
        with gateway(at("openai_chat", server.url), store=SqliteStore(path)) as running:
            assert running.ask("openai_chat").status == 200
        assert ("tools" in server.requests[0].json()) == native


# A call that cannot be run


@EVERY_CLIENT
@BOTH
def test_the_model_is_asked_once_more_and_the_client_sees_the_second_try(client: str, streams: bool) -> None:
    first, second = (says(f"Let me see.\n{call(name)}", streams=streams) for name in ("h", "f"))
    with (
        BadServer(first, second) as server,
        gateway(at("openai_chat", server.url), models=one(tools="hermes_json", bad_calls="ask")) as running,
    ):
        answer = running.ask(client, stream=streams)
        response = read(client, answer, streams=streams)
        assert calls_of(response) == [("f", {"a": 1})]
        assert '"h"' not in answer.body.decode()
        record = running.record()
        assert (record.asked_again, record.attempts, record.error) == (1, 2, None)
        assert record.usage is not None
        assert (record.usage.input_tokens, record.usage.output_tokens) == (20, 10)
        if response.usage is not None and (client != "openai_chat" or not streams):
            assert (response.usage.input_tokens, response.usage.output_tokens) == (20, 10)
        assert "the model was asked again" in notes_of(running, answer)
        assert b'toolglot_asked_again_total{upstream="up"} 1' in running.call("GET", "/metrics").body
        told = server.requests[1].json()["messages"][-2:]
        assert [message["role"] for message in told] == ["assistant", "user"]
        assert "h" in told[1]["content"]


@BOTH
def test_a_second_bad_call_goes_to_the_client(streams: bool) -> None:
    with (
        BadServer(says(call("h"), streams=streams)) as server,
        gateway(at("openai_chat", server.url), models=one(tools="hermes_json", bad_calls="ask")) as running,
    ):
        response = read("openai_chat", running.ask("openai_chat", stream=streams), streams=streams)
        assert calls_of(response) == [("h", {"a": 1})]
        assert len(server.requests) == 2


@EVERY_CLIENT
@BOTH
def test_a_bad_call_may_be_an_error_that_is_no_fault_of_the_server(client: str, streams: bool) -> None:
    retries, breaker = Retries(attempts=3, first_wait=0), BreakerConfig(failures=1, rest=60)
    with (
        BadServer(says(call("h"), streams=streams), says(call("f"), streams=streams)) as server,
        gateway(
            at("openai_chat", server.url, retries=retries, breaker=breaker),
            models=one(tools="hermes_json", bad_calls="fail"),
        ) as running,
    ):
        answer = running.ask(client, stream=streams)
        assert (answer.status == 200) == streams
        told = fault_told(client, answer) if streams else error_told(client, answer)
        assert "a call of h that cannot be run" in told.message
        assert len(server.requests) == 1
        assert calls_of(read(client, running.ask(client, stream=streams), streams=streams)) == [("f", {"a": 1})]


UNREADABLE = '<tool_call>\n{"name": "f", "arguments": {"a": one and}}\n</tool_call>'


@EVERY_CLIENT
@BOTH
@pytest.mark.parametrize("before", ["", "Let me see.\n"], ids=["at once", "behind text"])
def test_a_call_that_cannot_be_read_is_no_reason_to_ask_anybody_again(client: str, streams: bool, before: str) -> None:
    retries = Retries(attempts=3, first_wait=0)
    text = before + UNREADABLE
    first = [expect(), stream(b"".join(chunks(text)))] if streams else whole(text)
    with (
        BadServer(first) as server,
        BadServer(whole("Hello")) as other,
        gateway(
            {"up": at("openai_chat", server.url, retries=retries), "other": at("openai_chat", other.url)},
            models=one(tools="hermes_json", fallbacks=("other/m",)),
        ) as running,
    ):
        answer = running.ask(client, stream=streams)
        assert answer.status == 200
        if streams:
            told = fault_told(client, answer).message
        else:
            response = read(client, answer, streams=False)
            told, reason = text_of(response), response.stop.reason
            assert (calls_of(response), reason) == ([], "end")
        assert "call of f" in told
        assert "cannot be read" in told
        assert "one and" in told
        assert (len(server.requests), len(other.requests)) == (1, 0)
        assert running.record().attempts == 1


@BOTH
def test_a_bad_call_that_fails_does_not_go_to_the_fallback(streams: bool) -> None:
    with (
        BadServer(says(call("h"), streams=streams)) as server,
        BadServer(whole("Hello")) as other,
        gateway(
            {"up": at("openai_chat", server.url), "other": at("openai_chat", other.url)},
            models=one(tools="hermes_json", bad_calls="fail", fallbacks=("other/m",)),
        ) as running,
    ):
        answer = running.ask("openai_chat", stream=streams)
        assert answer.status == (200 if streams else 502)
        assert (len(server.requests), len(other.requests)) == (1, 0)


def test_tokens_are_counted_of_what_the_model_gets() -> None:
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"name": "f", "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}],
    }
    counted: list[int] = []
    with BadServer(whole("Hi")) as server:
        for tools in ("native", "hermes_json"):
            with gateway(at("openai_chat", server.url), models=one(tools=tools)) as running:
                answer = running.call("POST", "/v1/messages/count_tokens", json.dumps(body).encode())
                assert answer.headers["x-toolglot-count"] == "estimate"
                counted.append(answer.json()["input_tokens"])
    native, text = counted
    assert text > native + 50


@BOTH
@pytest.mark.parametrize("fault", ["status", "reset"])
def test_the_second_question_is_repeated_like_any_other(streams: bool, fault: str) -> None:
    failing = refusal(503, "busy") if fault == "status" else [expect(), reset()]
    with (
        BadServer(says(call("h"), streams=streams), failing, says(call("f"), streams=streams)) as server,
        gateway(
            at("openai_chat", server.url, retries=Retries(attempts=2, first_wait=0)),
            models=one(tools="hermes_json", bad_calls="ask"),
        ) as running,
    ):
        response = read("anthropic", running.ask("anthropic", stream=streams), streams=streams)
        assert calls_of(response) == [("f", {"a": 1})]
        assert (running.record().asked_again, len(server.requests)) == (1, 3)
        assert server.requests[1].body == server.requests[2].body


@EVERY_CLIENT
def test_a_second_question_that_fails_is_told_in_the_stream(client: str) -> None:
    first = says(f"Let me see.\n{call('h')}", streams=True)
    with (
        BadServer(first, refusal(503, "busy")) as server,
        gateway(
            at("openai_chat", server.url, breaker=BreakerConfig(failures=1, rest=60)),
            models=one(tools="hermes_json", bad_calls="ask"),
        ) as running,
    ):
        answer = running.ask(client, stream=True)
        assert fault_told(client, answer).message == "busy"
        assert running.record().error == "overloaded"
        # It counts for the breaker, like any failure.
        assert "gets no requests" in error_told(client, running.ask(client)).message
        assert len(server.requests) == 2


def test_a_second_question_that_fails_as_a_whole_goes_to_the_fallback() -> None:
    with (
        BadServer(whole(call("h")), refusal(503, "busy")) as server,
        BadServer(whole("Hello")) as other,
        gateway(
            {"up": at("openai_chat", server.url), "other": at("openai_chat", other.url)},
            models=one(tools="hermes_json", bad_calls="ask", fallbacks=("other/m",)),
        ) as running,
    ):
        assert text_of(read("openai_chat", running.ask("openai_chat"), streams=False)) == "Hello"


@EVERY_CLIENT
@BOTH
def test_a_client_that_goes_during_the_second_question_ends_the_upstreams_work(client: str, streams: bool) -> None:
    asked, left = Gate(), Gate()
    with (
        BadServer(says(call("h"), streams=streams), [expect(seen=asked), gone(left)]) as server,
        gateway(at("openai_chat", server.url), models=one(tools="hermes_json", bad_calls="ask")) as running,
    ):
        talk = running.begin(client, stream=streams)
        asked.wait_blocking()
        began = monotonic()
        talk.leave()
        left.wait_blocking()
        assert running.record().cancelled
        assert monotonic() - began < 10.0
        assert (running.service.in_flight, len(server.requests)) == (0, 2)


def test_a_stream_is_kept_alive_while_the_second_answer_is_waited_for() -> None:
    asked, answered = Gate(), Gate()
    second = [expect(seen=asked), pause(answered), stream(*chunks(call("f")))]
    with (
        BadServer(says("Let me see.\n" + call("h"), streams=True), second) as server,
        gateway(
            at("openai_chat", server.url),
            models=one(tools="hermes_json", bad_calls="ask"),
            limits=Limits(keepalive=0.05, drain=10),
        ) as running,
    ):
        talk = running.begin("anthropic", stream=True)
        asked.wait_blocking()
        talk.until(b"event: ping")
        answered.open()
        assert calls_of(read("anthropic", talk.rest(), streams=True)) == [("f", {"a": 1})]


def test_a_second_answer_that_does_not_come_times_out_in_the_stream() -> None:
    with (
        BadServer(says(call("h"), streams=True), [expect(), never()]) as server,
        gateway(
            at("openai_chat", server.url, timeouts=Timeouts(first_byte=0.2)),
            models=one(tools="hermes_json", bad_calls="ask"),
        ) as running,
    ):
        assert fault_told("anthropic", running.ask("anthropic", stream=True)).code == "upstream_timeout"
