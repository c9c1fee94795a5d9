"""A gateway is recorded, and another one answers from its recordings: the same bytes for the same requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.agent.hosting import wayward
from tests.recordings.demos import ASKED, WISH, ask, model_of, record_demos, streams
from tests.server.gateway import Answer, Running, at, gateway
from tests.server.stage import Call, Turn, events_of, frames_of
from tests.upstream.bad_server import BadServer, expect, reply, stream
from toolglot.config.schema import McpConfig, ModelConfig, RecordConfig, Retries, UpstreamConfig
from toolglot.dialects import DIALECTS
from toolglot.lint import lint
from toolglot.recordings.format import SUFFIX
from toolglot.recordings.read import read_recording
from toolglot.recordings.rerun.run import rerun
from toolglot.store.sqlite import SqliteStore

EVERY_CLIENT = pytest.mark.parametrize("client", DIALECTS)
EVERY_UPSTREAM = pytest.mark.parametrize("upstream", DIALECTS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recordings")


@pytest.fixture(scope="module")
def recorded(folder: Path) -> dict[tuple[str, str, bool], Answer]:
    return record_demos(folder)


@pytest.fixture(scope="module")
def replaying(folder: Path, recorded: object) -> Iterator[Running]:
    replays = {f"to_{name}": at(name, f"replay:{folder}", models=(model_of(name),)) for name in DIALECTS}
    with gateway(replays) as running:
        yield running


@EVERY_CLIENT
@EVERY_UPSTREAM
def test_a_client_gets_the_recorded_bytes_for_the_recorded_request(
    recorded: dict[tuple[str, str, bool], Answer], replaying: Running, client: str, upstream: str
) -> None:
    for streamed in streams(client):
        then = recorded[client, upstream, streamed]
        now = ask(replaying, client, upstream, streamed)
        assert (then.status, now.status) == (200, 200)
        assert now.body == then.body
        assert now.headers["x-toolglot-receipt"] == then.headers["x-toolglot-receipt"]
        if streamed:
            assert lint(client, [now.body]) == []


@pytest.fixture
def start() -> Iterator[Callable[..., Running]]:
    with ExitStack() as stack:
        yield lambda *args, **fields: stack.enter_context(gateway(*args, **fields))


def test_a_recording_answers_for_another_model_in_the_name_that_was_asked(
    folder: Path, recorded: object, start: Callable[..., Running]
) -> None:
    running = start(at("openai_chat", f"replay:{folder}"))
    body = ASKED["openai_chat"]
    assert running.ask("openai_chat", model="another", body=body).json()["model"] == "another"
    assert b'"model":"another"' in running.ask("openai_chat", stream=True, model="another", body=body).body


UNKNOWN: dict[str, dict[str, Any]] = {
    "openai_chat": {**ASKED["openai_chat"], "messages": [{"role": "user", "content": "Bye"}]},
    "openai_responses": {**ASKED["openai_responses"], "input": "Bye"},
    "anthropic": {**ASKED["anthropic"], "messages": [{"role": "user", "content": "Bye"}]},
    "gemini": {**ASKED["gemini"], "contents": [{"role": "user", "parts": [{"text": "Bye"}]}]},
    "ollama": {**ASKED["ollama"], "messages": [{"role": "user", "content": "Bye"}]},
}


@pytest.mark.parametrize("client", UNKNOWN)
@EVERY_UPSTREAM
def test_a_request_that_was_not_recorded_gets_an_error_that_shows_the_nearest_recording(
    replaying: Running, client: str, upstream: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = replaying.ask(client, model=model_of(upstream), body=UNKNOWN[client])
    assert answer.status == 400
    told = answer.body.decode()
    assert "no_recording" in told
    assert f"{SUFFIX}, call 1" in told
    assert f'is recorded as \\"{WISH}\\", requested as \\"Bye\\"' in told
    assert "There is no recording" not in caplog.text  # for the request's own line says it


@EVERY_UPSTREAM
def test_the_words_of_a_request_that_was_not_recorded_are_no_refusal_of_it(replaying: Running, upstream: str) -> None:
    said = "Unsupported parameter: 'temperature' is not supported with this model. It does not support tools."
    body = {**ASKED["openai_chat"], "temperature": 0.5, "messages": [{"role": "user", "content": said}]}
    answer = replaying.ask("openai_chat", model=model_of(upstream), body=body)
    assert answer.status == 400
    record = replaying.record()
    while record.upstream_model != model_of(upstream) or record.error is None:
        record = replaying.record()
    assert (record.calls, record.mended) == ({f"to_{upstream}": 1}, 0)


def test_errors_and_retries_are_answered_in_their_order(tmp_path: Path, start: Callable[..., Running]) -> None:
    folder = tmp_path / "recordings"
    overloaded = reply({"error": {"message": "later", "type": "server_error"}}, 503, headers={"retry-after": "0"})
    whole = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [_CHOICE]}
    twice = Retries(attempts=2, first_wait=0.0)
    with (
        BadServer([expect(), overloaded], [expect(), reply(whole)], [expect(), reply({"no": "answer"}, 418)]) as bad,
        gateway(at("openai_chat", bad.url, retries=twice), record=RecordConfig(directory=str(folder))) as running,
    ):
        then = [running.ask("openai_chat"), running.ask("openai_chat")]
    assert [answer.status for answer in then] == [200, 418]
    (first, second) = sorted(folder.iterdir())
    assert [len(read_recording(file.read_bytes()).attempts) for file in (first, second)] == [2, 1]
    replaying = start(at("openai_chat", f"replay:{folder}", retries=Retries(attempts=2)))
    now = [replaying.ask("openai_chat") for _ in range(3)]
    assert [answer.status for answer in now] == [200, 418, 418]  # the last one again and again
    assert now[0].body == then[0].body
    assert replaying.record().calls == {"up": 2}


_CHOICE = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Yes"}}


def test_recordings_that_appear_later_are_found(
    folder: Path, recorded: object, tmp_path: Path, start: Callable[..., Running]
) -> None:
    later = tmp_path / "later" / "below"
    running = start(at("openai_chat", f"replay:{later.parent}"))
    assert running.ask("openai_chat", body=ASKED["openai_chat"]).status == 400
    later.mkdir(parents=True)
    assert running.ask("openai_chat", body=ASKED["openai_chat"]).status == 400
    for file in folder.iterdir():
        (later / file.name).write_bytes(file.read_bytes())
    assert running.ask("openai_chat", body=ASKED["openai_chat"]).status == 200


def test_the_models_that_were_asked_are_listed(folder: Path, recorded: object, start: Callable[..., Running]) -> None:
    running = start(at("gemini", f"replay:{folder}"))
    assert "gemini-model" in [each["id"] for each in running.call("GET", "/v1/models").json()["data"]]


def test_a_kept_response_is_replayed_but_for_its_id(tmp_path: Path, start: Callable[..., Running]) -> None:
    folder = tmp_path / "recordings"
    demo, asked = at("anthropic", "demo:"), {"input": "Hi"}
    with gateway(demo, store=SqliteStore(":memory:"), record=RecordConfig(directory=str(folder))) as running:
        then = running.ask("openai_responses", stream=True, body=asked)
    replaying = start(at("anthropic", f"replay:{folder}"), store=SqliteStore(":memory:"))
    now = replaying.ask("openai_responses", stream=True, body=asked)
    ids = [_id(each.body) for each in (then, now)]
    assert ids[0] != ids[1]
    assert now.body.replace(ids[1], ids[0]) == then.body


def _id(body: bytes) -> bytes:
    return b"resp_" + body.partition(b'"id":"resp_')[2].partition(b'"')[0]


def test_an_upstream_that_was_never_reached_is_not_reached_again(tmp_path: Path, start: Callable[..., Running]) -> None:
    folder = tmp_path / "recordings"
    nobody = UpstreamConfig(dialect="openai_chat", base_url="http://127.0.0.1:9", retries=Retries(attempts=1))
    with gateway(nobody, record=RecordConfig(directory=str(folder))) as running:
        then = running.ask("anthropic")
    now = start(at("openai_chat", f"replay:{folder}")).ask("anthropic")
    assert now.status == then.status == 502
    assert now.json()["error"] == then.json()["error"]


def test_a_text_model_is_replayed(tmp_path: Path, start: Callable[..., Running]) -> None:
    folder = tmp_path / "recordings"
    models = {"m": ModelConfig(upstream="up", model="demo-text", tools="hermes_json")}
    with gateway(at("openai_chat", "demo:"), models=models, record=RecordConfig(directory=str(folder))) as running:
        then = running.ask("anthropic", stream=True)
    now = start(at("openai_chat", f"replay:{folder}"), models=models).ask("anthropic", stream=True)
    assert now.body == then.body


def test_the_rounds_of_a_tool_loop_are_answers_of_their_own(tmp_path: Path, start: Callable[..., Running]) -> None:
    """The tool runs anew; the model's answers before and after it are the recorded ones."""
    folder = tmp_path / "recordings"
    mcp = McpConfig(servers={"way": wayward("handshake", policy="auto", tools={"lie": "auto"})})
    models = {"m": ModelConfig(upstream="up", mcp=("way",))}
    calls, says = Turn("", (Call("c1", "way__lie", {}),)), Turn("Done.", ())
    steps = [[expect(), stream(*frames_of("openai_chat", events_of("openai_chat", turn)))] for turn in (calls, says)]
    record = RecordConfig(directory=str(folder))
    with (
        BadServer(*steps) as bad,
        gateway(at("openai_chat", bad.url), models=models, mcp=mcp, record=record) as running,
    ):
        then = running.ask("anthropic", stream=True)
    (file,) = folder.iterdir()
    assert len(read_recording(file.read_bytes()).attempts) == 2
    now = start(at("openai_chat", f"replay:{folder}"), models=models, mcp=mcp).ask("anthropic", stream=True)
    assert b"Done." in now.body
    assert now.body == then.body


def said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("client", ["openai_chat", "anthropic"])
def test_a_request_that_is_the_same_but_for_a_time_is_told_which_recording_answers_it(
    client: str, streamed: bool, tmp_path: Path, start: Callable[..., Running]
) -> None:
    folder = tmp_path / "recordings"
    more = {"max_tokens": 99}
    then, now = ({**said(f"It is {time}. Hello!"), **more} for time in ("10:11:12", "23:24:25"))
    with gateway(at("gemini", "demo:"), record=RecordConfig(directory=str(folder))) as running:
        recorded = running.ask(client, stream=streamed, body=then)
    (file,) = folder.iterdir()
    replaying = start(at("gemini", f"replay:{folder}"))
    same, other = (replaying.ask(client, stream=streamed, body=body) for body in (then, now))
    assert "x-toolglot-recording" not in same.headers
    assert same.headers["x-toolglot-receipt"] == recorded.headers["x-toolglot-receipt"]
    assert (same.body, other.body) == (recorded.body, recorded.body)
    assert other.headers["x-toolglot-recording"] == f"{file.name}; match=changed"
    count = int(same.headers["x-toolglot-receipt"].partition("notes=")[2].partition(";")[0])
    assert f"notes={count + 1}" in other.headers["x-toolglot-receipt"]
    receipt = replaying.call("GET", f"/debug/receipts/{other.headers['x-request-id']}").json()
    assert {
        "severity": "note",
        "where": "model",
        "what": f"answered from {file.name}",
        "why": "the recorded request had other ids, dates or times",
    } in receipt["lines"]


def test_a_request_that_fits_what_was_redacted_is_told_so(tmp_path: Path, start: Callable[..., Running]) -> None:
    folder = tmp_path / "recordings"
    record = RecordConfig(directory=str(folder), redact=("ACME-[0-9]{6}",))
    with gateway(at("openai_chat", "demo:"), record=record) as running:
        running.ask("openai_chat", body=said("Order ACME-123456, please."))
    replaying = start(at("openai_chat", f"replay:{folder}"))
    answer = replaying.ask("openai_chat", body=said("Order ACME-654321, please."))
    assert answer.status == 200
    assert answer.headers["x-toolglot-recording"].endswith("; match=redacted")


def test_a_real_upstream_does_not_say_that_it_is_a_recording(start: Callable[..., Running]) -> None:
    whole = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [_CHOICE]}
    headers = {"x-toolglot-recording": "x; match=changed", "x-toolglot-recorded-id": "y"}
    with BadServer([expect(), reply(whole, headers=headers)]) as bad:
        answer = start(at("openai_chat", bad.url)).ask("openai_chat")
    assert answer.json()["id"] == "c1"
    assert "x-toolglot-recording" not in answer.headers
    assert "notes=0" in answer.headers["x-toolglot-receipt"]


def test_what_was_replayed_and_recorded_is_run_again_with_the_same_receipt(
    tmp_path: Path, start: Callable[..., Running]
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with gateway(at("openai_chat", "demo:"), record=RecordConfig(directory=str(first))) as running:
        running.ask("anthropic", body={**said("It is 10:11:12."), "max_tokens": 9})
    with gateway(at("openai_chat", f"replay:{first}"), record=RecordConfig(directory=str(second))) as running:
        answer = running.ask("anthropic", body={**said("It is 10:11:13."), "max_tokens": 9})
        assert "x-toolglot-recording" in answer.headers
    (file,) = second.iterdir()
    recording = read_recording(file.read_bytes())
    assert any("other ids, dates or times" in line["why"] for line in recording.receipt)
    comparison = asyncio.run(rerun(recording)).comparison
    assert not comparison.differs, comparison
    # And answered from that, by a request that is the same, it is no loose match.
    replaying = start(at("openai_chat", f"replay:{second}"))
    answer = replaying.ask("anthropic", body={**said("It is 10:11:13."), "max_tokens": 9})
    assert answer.status == 200
    assert "x-toolglot-recording" not in answer.headers
