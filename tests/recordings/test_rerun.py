"""Recorded exchanges through the current code: what differs is told, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.recordings.demos import record_demos
from tests.recordings.made import as_recording, exchange
from tests.recordings.rerunning import again, changed, read_all
from tests.server.client_errors import break_told, mid_call
from tests.server.gateway import Body, at, gateway
from tests.upstream.bad_server import LAST_CHUNK, BadServer, Script, Step, expect, reply, reset, send, stream
from toolglot.config.schema import ModelConfig, RecordConfig
from toolglot.dialects import DIALECTS
from toolglot.ir import Request
from toolglot.passes.history_policy import HistoryPolicy
from toolglot.receipt import Receipt
from toolglot.recordings.answer_label import answer_label
from toolglot.recordings.format import (
    AnyLine,
    ClientData,
    RecordingEnd,
    ServedToolLine,
    StoreRead,
    UpstreamData,
    UpstreamRequest,
)
from toolglot.recordings.read import Recording, read_recording
from toolglot.recordings.rerun.run import NothingToRerunError, NotRerunError, rerun
from toolglot.recordings.timeline import make_timeline
from toolglot.store.sqlite import SqliteStore

SAMPLES = sorted((Path(__file__).parent / "samples").glob("*.jsonl"))
ASKED: dict[str, Any] = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
CHUNK = (
    b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":'
    b'{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}\n\n'
)
DONE = b"data: [DONE]\n\n"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[Recording]:
    folder = tmp_path_factory.mktemp("recordings")
    record_demos(folder)
    return read_all(folder)


@pytest.mark.parametrize("file", SAMPLES, ids=lambda file: file.name)
def test_nothing_differs_in_the_samples(file: Path) -> None:
    assert not again(read_recording(file.read_bytes())).differs


def test_nothing_differs_in_what_the_gateway_has_just_recorded(recorded: list[Recording]) -> None:
    for recording in recorded:
        comparison = again(recording)
        assert not comparison.differs, (recording.head, comparison)


def test_explaining_and_running_again_agree_on_what_is_written_today(recorded: list[Recording]) -> None:
    for recording in recorded:
        timeline = make_timeline(recording)
        assert not any("the current code" in line for line in timeline.totals), recording.head


def test_a_stream_that_is_only_an_error_has_the_recorded_id_and_time(tmp_path: Path) -> None:
    overflow = {"error": {"message": "too long", "type": "invalid_request_error", "code": "context_length_exceeded"}}
    with (
        BadServer([expect(), reply(overflow, 400)]) as server,
        gateway(at("openai_chat", server.url), record=RecordConfig(directory=str(tmp_path))) as running,
    ):
        assert b"response.failed" in running.ask("openai_responses", stream=True).body
    (recording,) = read_all(tmp_path)
    assert not again(recording).differs


def test_explaining_a_strict_refusal_tells_each_loss_once(tmp_path: Path) -> None:
    asked = {"max_tokens": 9, "inference_geo": "eu", "messages": [{"role": "user", "content": "Hi"}]}
    with gateway(at("openai_chat", "demo:"), record=RecordConfig(directory=str(tmp_path)), strict=True) as running:
        assert running.ask("anthropic", body=asked).status == 400
    (recording,) = read_all(tmp_path)
    said = make_timeline(recording).totals
    assert "\n".join(said).count("openai_chat has no known equivalent") == 1
    assert said[0].startswith("receipt: loss: inference_geo:")
    assert said[-1] == "error bad_request: refused, because it would lose what the receipt tells"


@pytest.mark.parametrize("client", DIALECTS)
def test_a_client_of_any_dialect_is_told_the_same_and_by_the_rules(recorded: list[Recording], client: str) -> None:
    for recording in recorded:
        if recording.head.stream:
            comparison = again(recording, client)
            assert comparison.breaches == [], recording.head
            assert comparison.answer == [], recording.head
            assert not comparison.differs, "what each API asks in its own way is no difference"


def made(client: str = "anthropic", upstream: str = "openai_chat") -> list[AnyLine]:
    request = {**ASKED, "max_tokens": 100} if client == "anthropic" else ASKED
    return exchange(client, upstream, request, [CHUNK, DONE])


def test_what_the_upstream_was_sent_is_compared_member_by_member() -> None:
    comparison = again(changed(made(), UpstreamRequest, '"Hi"', '"Ho"'))
    assert [[str(each) for each in request] for request in comparison.requests] == [
        ['~ messages[0].content: "Ho" -> "Hi"']
    ]
    assert comparison.answer == []


def test_what_the_client_got_is_compared_event_by_event() -> None:
    comparison = again(changed(made(), ClientData, '"text_delta","text":"Hi"', '"text_delta","text":"Ho"'))
    assert [str(each) for each in comparison.answer] == ['~ event 3.delta.text: "Ho" -> "Hi"']
    assert comparison.requests == [[]]


def test_the_receipt_is_compared_line_by_line() -> None:
    lines = made()
    told = {"severity": "note", "where": "a", "what": "b", "why": "c"}
    recording = as_recording(
        replace(line, lines=[told]) if type(line).__name__ == "ReceiptLines" else line for line in lines
    )
    assert again(recording).receipt[0].then == told


def test_another_client_is_told_another_answer_where_it_differs() -> None:
    comparison = again(changed(made(), ClientData, '"text_delta","text":"Hi"', '"text_delta","text":"Ho"'), "gemini")
    assert [str(each) for each in comparison.answer] == ['~ answer.text: "Ho" -> "Hi"']


@pytest.mark.parametrize("client", ["openai_chat", "anthropic", "ollama"])
def test_keepalives_are_no_difference(client: str) -> None:
    lines = made(client)
    first = next(at for at, line in enumerate(lines) if isinstance(line, ClientData))
    keepalive = DIALECTS[client].stream_encoder(Request(model="m"), Receipt()).keepalive()
    ping = ClientData(text=keepalive.decode())
    assert not again(as_recording([*lines[: first + 1], ping, *lines[first + 1 :]])).differs


def test_of_a_client_that_went_away_only_what_it_got_is_compared() -> None:
    lines = made()
    pieces = [line for line in lines if isinstance(line, ClientData)]
    kept = [line for line in lines if line not in pieces[1:] and not isinstance(line, RecordingEnd)]
    assert not again(as_recording([*kept, RecordingEnd(cancelled=True)])).differs


def test_upstream_bytes_that_today_mean_something_else_are_told() -> None:
    comparison = again(changed(made(), UpstreamData, '"stop"', '"length"'))
    assert any("max_tokens" in str(each) for each in comparison.answer)


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., list[Recording]]:
    """Record what a client gets from a gateway in front of these steps."""

    def recording(client: str, *steps: list[Step], body: Body | None = None, **fields: Any) -> list[Recording]:
        kept = RecordConfig(directory=str(tmp_path))
        with BadServer(*steps) as bad, gateway(at("openai_chat", bad.url), record=kept, **fields) as running:
            running.ask(client, body=body)
        return read_all(tmp_path)

    return recording


def whole(text: str) -> Step:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    return reply({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})


REFUSED = {"error": {"message": "Unsupported parameter: 'temperature' is not supported with this model."}}


def test_a_request_that_was_mended_is_mended_again(record: Callable[..., list[Recording]]) -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9, "temperature": 0.5}
    (recording,) = record("anthropic", [expect(), reply(REFUSED, 400)], [expect(), whole("Yes")], body=body)
    assert len(recording.attempts) == 2
    assert not again(recording).differs


def test_a_refused_request_gets_the_same_error(record: Callable[..., list[Recording]]) -> None:
    (recording,) = record("anthropic", [expect(), reply({"error": {"message": "No."}}, 403)])
    assert not again(recording).differs


def test_the_text_format_of_a_model_without_tools_is_found(record: Callable[..., list[Recording]]) -> None:
    models = {"m": ModelConfig(upstream="up", model="x", tools="llama3_json")}
    (recording,) = record("anthropic", [expect(), whole('{"name": "f", "parameters": {"a": 1}}')], models=models)
    assert b'"tool_use"' in recording.body
    assert not again(recording).differs


def test_a_call_that_was_asked_for_again_is_asked_for_again(record: Callable[..., list[Recording]]) -> None:
    models = {"m": ModelConfig(upstream="up", model="x", tools="hermes_json", bad_calls="ask")}
    broken = whole('<tool_call>\n{"name": "f", "arguments": {"a": \n</tool_call>')
    (recording,) = record("anthropic", [expect(), broken], [expect(), whole("Never mind.")], models=models)
    assert len(recording.attempts) == 2
    assert not again(recording).differs


def test_a_fallback_is_fallen_back_to_again(tmp_path: Path) -> None:
    models = {"m": ModelConfig(upstream="first", model="a", fallbacks=("second/b",))}
    with (
        BadServer([expect(), reply({"error": {"message": "No."}}, 500)], [expect(), whole("Yes")]) as bad,
        gateway(
            {"first": at("openai_chat", bad.url), "second": at("openai_chat", bad.url)},
            models=models,
            record=RecordConfig(directory=str(tmp_path)),
        ) as running,
    ):
        running.ask("openai_responses")
    (recording,) = read_all(tmp_path)
    assert [attempt.request.upstream for attempt in recording.attempts] == ["first", "second"]
    assert not again(recording).differs


def test_the_id_of_a_kept_response_is_no_difference(tmp_path: Path) -> None:
    record = RecordConfig(directory=str(tmp_path))
    with gateway(at("gemini", "demo:"), store=SqliteStore(":memory:"), record=record) as running:
        running.ask("openai_responses", body={"input": "Hi"})
        running.ask("openai_responses", stream=True, body={"input": "Hi"})
    for recording in read_all(tmp_path):
        assert not again(recording).differs


THOUGHT = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 1, "output_tokens": 1},
    "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmF0dXJl"},
        {"type": "tool_use", "id": "toolu_01ABCDEFGHJKLMNPQRST", "name": "f", "input": {"a": 1}},
    ],
}


def test_state_that_was_kept_is_put_back_again(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    turns: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]
    with (
        BadServer([expect(), reply(THOUGHT)], [expect(), reply(THOUGHT)]) as bad,
        gateway(
            at("anthropic", bad.url),
            store=SqliteStore(":memory:"),
            record=RecordConfig(directory=str(tmp_path)),
        ) as running,
    ):
        for _ in range(2):
            body = {"messages": turns, "tools": tools, "reasoning_effort": "low"}
            said = running.ask("openai_chat", body=body).json()["choices"][0]["message"]
            call = {name: said[name] for name in ("role", "tool_calls")}
            turns += [call, {"role": "tool", "tool_call_id": said["tool_calls"][0]["id"], "content": "1"}]
    first, second = read_all(tmp_path)
    assert b"c2lnbmF0dXJl" in second.attempts[0].request.data
    assert not again(first).differs
    assert not again(second).differs
    other = again(changed(second.lines, StoreRead, "c2lnbmF0dXJl", "b3RoZXI="))
    assert "b3RoZXI=" in str(other.requests[0][0])
    timeline = make_timeline(second)
    assert "not made again: stored state was restored" in timeline.requests[1].lines
    assert not any("the current code" in line for line in (*timeline.totals, *timeline.requests[1].lines))
    earlier = as_recording(line for line in second.lines if not isinstance(line, StoreRead))
    with pytest.raises(NotRerunError, match="stored state was restored, which is not in the recording"):
        again(earlier)
    earlier.attempts[0].request = replace(earlier.attempts[0].request, settings=None)
    with pytest.raises(NotRerunError, match="stored state was restored"):
        again(earlier)


def test_state_that_a_client_carries_belongs_to_the_same_address_again(tmp_path: Path) -> None:
    """It is sealed for an upstream, of which the recording has what was asked, and not the configured address."""
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    turns: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]
    with (
        BadServer([expect(), reply(THOUGHT)], [expect(), reply(THOUGHT)]) as bad,
        gateway(at("anthropic", f"{bad.url}/behind/v1"), record=RecordConfig(directory=str(tmp_path))) as running,
    ):
        for _ in range(2):
            body = {"messages": turns, "tools": tools, "reasoning_effort": "low"}
            said = running.ask("openai_chat", body=body).json()["choices"][0]["message"]
            turns += [said, {"role": "tool", "tool_call_id": said["tool_calls"][0]["id"], "content": "1"}]
    first, second = read_all(tmp_path)
    assert b"c2lnbmF0dXJl" in second.attempts[0].request.data
    assert not again(first).differs
    assert not again(second).differs


def test_a_history_policy_is_kept_to_again(record: Callable[..., list[Recording]]) -> None:
    said = [{"role": role, "content": f"number {number}"} for number in range(4) for role in ("user", "assistant")]
    body = {"max_tokens": 9, "messages": [*said, {"role": "user", "content": "Hi"}]}
    policy = HistoryPolicy(max_messages=4, continuation=True)
    models = {"m": ModelConfig(upstream="up", model="x", history=policy, quirks={"developer_role": True})}
    (recording,) = record("anthropic", [expect(), whole("Yes")], models=models, body=body)
    assert b"number 0" not in recording.attempts[0].request.data
    assert not again(recording).differs
    timeline = make_timeline(recording)
    assert not any("the current code" in line for line in (*timeline.totals, *timeline.requests[1].lines))
    recording.attempts[0].request = replace(recording.attempts[0].request, settings=None)
    with pytest.raises(NotRerunError, match="a history policy was applied"):
        again(recording)


def test_limits_that_cut_to_the_brim_do_so_again(tmp_path: Path) -> None:
    said = [{"role": role, "content": f"number {number}"} for number in range(4) for role in ("user", "assistant")]
    upstream = at("openai_chat", "demo:", max_history_messages=5, quirks={"max_tools": 3, "tool_choices": ["auto"]})
    with gateway(upstream, record=RecordConfig(directory=str(tmp_path))) as running:
        running.ask("anthropic", body={"max_tokens": 9, "messages": [*said, {"role": "user", "content": "Hi"}]})
    (recording,) = read_all(tmp_path)
    settings = recording.attempts[0].request.settings
    assert settings is not None
    assert settings.exact == ["max_messages"]
    assert not again(recording).differs


@pytest.mark.parametrize("history", ["replay", "native", "text"])
@pytest.mark.parametrize("disable", [True, False])
def test_warp_is_told_of_the_conversation_as_it_was(history: str, disable: bool, tmp_path: Path) -> None:
    said = [{"role": role, "content": f"number {number}"} for number in range(4) for role in ("user", "assistant")]
    upstream = at("warp", "demo:", warp_history=history, disable_warp_tools=disable)
    with gateway(upstream, record=RecordConfig(directory=str(tmp_path))) as running:
        running.ask("anthropic", body={"max_tokens": 9, "messages": [*said, {"role": "user", "content": "Hi"}]})
    (recording,) = read_all(tmp_path)
    assert not again(recording).differs
    timeline = make_timeline(recording)
    assert not any("the current code" in line for line in (*timeline.totals, *timeline.requests[1].lines))


def test_tools_that_an_earlier_version_has_run_in_between_cannot_be_run_again() -> None:
    lines = made()
    with pytest.raises(NotRerunError, match="tools were run"):
        again(as_recording([*lines[:-1], ServedToolLine(tool="f"), lines[-1]]))


@pytest.mark.parametrize("file", SAMPLES, ids=lambda file: file.name)
def test_a_recording_without_its_end_differs_in_nothing_that_it_tells(file: Path) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    with pytest.raises(NotRerunError, match="before anything was sent"):
        again(read_recording(b"".join(lines[:2])))
    for count in range(3, len(lines)):
        assert not again(read_recording(b"".join(lines[:count]) + lines[count][:20])).differs, count


def test_a_request_that_never_went_further_gets_the_same_error(tmp_path: Path) -> None:
    with gateway(at("gemini", "demo:"), record=RecordConfig(directory=str(tmp_path))) as running:
        running.ask("openai_chat", body={"messages": 7})
    (recording,) = read_all(tmp_path)
    assert not recording.attempts
    assert not again(recording).differs


def test_of_a_model_that_no_upstream_had_there_is_nothing_to_run_again(tmp_path: Path) -> None:
    upstreams = {name: at("gemini", "demo:", models=(name,)) for name in ("one", "two")}
    with gateway(upstreams, record=RecordConfig(directory=str(tmp_path))) as running:
        assert running.ask("openai_chat", model="three").status == 404
    (recording,) = read_all(tmp_path)
    with pytest.raises(NothingToRerunError, match="refused before any upstream was contacted: nothing to replay"):
        again(recording)


@pytest.mark.parametrize(
    ("client", "expected"),
    [("openai_chat", 1), ("anthropic", 1767323045)],
)
def test_the_time_of_an_answer_is_the_one_that_its_client_was_told(client: str, expected: int) -> None:
    label = answer_label(as_recording(made(client)))
    assert (label.created, label.answer_id) == (expected, "resp_1")


@pytest.mark.parametrize("answer", [[CHUNK, DONE], [CHUNK.replace(b"Hi", b"createTime")]])
def test_gemini_s_clients_are_told_the_time_in_words(answer: list[bytes]) -> None:
    asked = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    assert answer_label(as_recording(exchange("gemini", "openai_chat", asked, answer))).created == 1


def test_there_is_nothing_random_in_a_gateway_without_a_store(recorded: list[Recording]) -> None:
    """What is fed in is enough: nothing else has to be left out of a comparison."""
    for recording in recorded[:4]:
        first, second = (asyncio.run(rerun(recording)).outcome for _ in range(2))
        assert first == second


@pytest.mark.parametrize("client", ["anthropic", "openai_chat", "openai_responses"])
@pytest.mark.parametrize("death", [[reset()], [send(LAST_CHUNK)]], ids=["reset", "ended"])
def test_a_stream_that_broke_off_is_the_same_again(tmp_path: Path, client: str, death: Script) -> None:
    script = [expect(), stream(mid_call("openai_chat"), complete=False), *death]
    with (
        BadServer(script) as server,
        gateway(at("openai_chat", server.url), record=RecordConfig(directory=str(tmp_path))) as running,
    ):
        break_told(client, running.ask(client, stream=True))
    (recording,) = read_all(tmp_path)
    assert not again(recording).differs
