"""What the gateway records: all that both sides said, of every attempt and every round, and nothing unasked."""

from __future__ import annotations

import gzip
import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from tests.agent.hosting import wayward
from tests.server.gateway import CLIENTS, LIMITS, at, gateway, request
from tests.server.process import serving
from tests.server.stage import Call, Turn, events_of, frames_of, whole_of
from tests.upstream.bad_server import BadServer, Gate, close, expect, head, pause, reply, send, stream
from tests.waiting import FAILSAFE
from toolglot.cli.serve import serve
from toolglot.config.schema import McpConfig, ModelConfig, RecordConfig, Retries, ServerConfig
from toolglot.dialects import DIALECTS
from toolglot.recordings.format import SUFFIX, ClientData, UpstreamData
from toolglot.recordings.read import Recording, read_recording

TURN = Turn("Hello there", (Call("c1", "f", {"a": 1}), Call("c2", "g", {"a": 2})))
CASES = [*((client, streams) for client in CLIENTS for streams in (False, True)), ("warp", True)]
"""Warp's clients know nothing but streams."""
AGAIN = Retries(attempts=2, first_wait=0)


def recordings(folder: Path) -> list[Recording]:
    """What was recorded, once the gateway has been left."""
    names = sorted(os.listdir(folder)) if folder.exists() else []
    assert all(name.endswith(SUFFIX) for name in names)
    return [read_recording((folder / name).read_bytes()) for name in names]


def only(folder: Path) -> Recording:
    (recording,) = recordings(folder)
    return recording


@pytest.mark.parametrize(("client", "streams"), CASES)
@pytest.mark.parametrize("upstream", ["openai_chat", "anthropic"])
def test_every_byte_of_both_sides_is_recorded(client: str, upstream: str, streams: bool, tmp_path: Path) -> None:
    frames = frames_of(upstream, events_of(upstream, TURN))
    step = stream(*frames) if streams else reply(whole_of(upstream, TURN))
    with (
        BadServer([expect(), step]) as server,
        gateway(at(upstream, server.url), record=RecordConfig(directory=str(tmp_path))) as running,
    ):
        headers = {"content-type": "application/x-protobuf"} if client == "warp" else {}
        answer = running.ask(client, stream=streams, headers=headers)
        sent = server.requests[0]
    told = only(tmp_path)
    path, body = request(client, stream=streams)
    assert told.whole
    assert (told.head.client, told.head.model, told.head.stream) == (
        client,
        "m" if client != "warp" else told.head.model,
        streams,
    )
    assert (told.request.path, told.request.data) == (path, body)
    (attempt,) = told.attempts
    assert (attempt.request.upstream, attempt.request.dialect, attempt.request.attempt) == ("up", upstream, 1)
    assert attempt.request.url == server.url + sent.target
    assert attempt.request.data == sent.body
    assert attempt.request.stream is streams
    assert attempt.response is not None
    assert attempt.response.status == 200
    assert attempt.body == (
        b"".join(frames) if streams else json.dumps(whole_of(upstream, TURN), separators=(",", ":")).encode()
    )
    assert attempt.end is not None
    assert attempt.end.error is None
    assert told.response is not None
    assert (told.response.status, told.response.headers["x-request-id"]) == (200, answer.headers["x-request-id"])
    assert told.body == answer.body
    assert told.end is not None
    assert told.end.stop == "tool_calls"
    times = [line.at for line in told.lines]
    assert times == sorted(times)


def test_pieces_of_a_stream_are_recorded_as_they_come(tmp_path: Path) -> None:
    gate = Gate()
    frames = frames_of("openai_chat", events_of("openai_chat", TURN))
    halves = [frames[0][:20], frames[0][20:] + frames[1]]
    script = [expect(), stream(*halves, complete=False), pause(gate), send(b""), close()]
    with (
        BadServer(script) as server,
        gateway(at("openai_chat", server.url), record=RecordConfig(directory=str(tmp_path))) as running,
    ):
        talk = running.begin("anthropic", stream=True)
        talk.until(b"message_start")
        so_far = read_recording(_until_there(tmp_path).read_bytes())
        assert so_far.attempts[0].body == b"".join(halves)
        assert so_far.body == talk.seen
        gate.open()
        answer = talk.rest()
    told = only(tmp_path)
    assert told.body == answer.body
    assert told.attempts[0].end is not None
    assert "reset: " in (told.attempts[0].end.error or "")
    assert told.end is not None
    assert told.end.error is not None


def test_retries_and_fallbacks_are_attempts_of_one_recording(tmp_path: Path) -> None:
    refused = {"error": {"message": "too many", "type": "rate_limit"}}
    with (
        BadServer([expect(), reply(refused, 429)], [expect(), close()]) as bad,
        BadServer([expect(), reply(whole_of("anthropic", TURN))]) as good,
        gateway(
            {"first": at("openai_chat", bad.url, retries=AGAIN), "second": at("anthropic", good.url)},
            models={"m": ModelConfig(upstream="first", fallbacks=("second/x",))},
            record=RecordConfig(directory=str(tmp_path)),
        ) as running,
    ):
        answer = running.ask("openai_chat")
    told = only(tmp_path)
    assert [(each.request.attempt, each.request.upstream) for each in told.attempts] == [
        (1, "first"),
        (2, "first"),
        (3, "second"),
    ]
    first, second, third = told.attempts
    assert first.response is not None
    assert (first.response.status, json.loads(first.body)) == (429, refused)
    assert second.response is None
    assert second.end is not None
    assert (second.end.error or "").startswith("reset: ")
    assert third.request.model == "x"
    assert told.body == answer.body
    assert any("answered by second" in line["what"] for line in told.receipt)


def test_an_error_is_recorded_as_the_client_sees_it(tmp_path: Path) -> None:
    with gateway(at("openai_chat", "http://127.0.0.1:9"), record=RecordConfig(directory=str(tmp_path))) as running:
        answer = running.ask("gemini", stream=True)
    told = only(tmp_path)
    assert answer.status == 503
    assert told.response is not None
    assert (told.response.status, told.body) == (answer.status, answer.body)
    assert told.attempts[0].end is not None
    assert (told.attempts[0].end.error or "").startswith("connect: ")
    assert told.end is not None
    assert told.end.error == "server"


def test_a_request_that_cannot_be_read_is_recorded_too(tmp_path: Path) -> None:
    with gateway(record=RecordConfig(directory=str(tmp_path))) as running:
        answer = running.call("POST", "/v1/messages", b'{"model": 7', {"content-type": "application/json"})
    told = only(tmp_path)
    assert answer.status == 400
    assert (told.request.data, told.attempts, told.body) == (b'{"model": 7', [], answer.body)


def test_a_client_that_goes_away_leaves_a_recording(tmp_path: Path) -> None:
    gate = Gate()
    frames = frames_of("openai_chat", events_of("openai_chat", TURN))
    with (
        BadServer([expect(), stream(*frames[:3], complete=False), pause(gate)]) as server,
        gateway(at("openai_chat", server.url), record=RecordConfig(directory=str(tmp_path))) as running,
    ):
        talk = running.begin("openai_chat", stream=True)
        talk.until(b"data: ")
        talk.leave()
        running.record()
        gate.open()
    told = only(tmp_path)
    assert told.end is not None
    assert told.end.cancelled
    assert told.attempts[0].end is not None
    assert told.attempts[0].end.error == "closed before its end"


def test_keepalives_are_client_bytes_like_others(tmp_path: Path) -> None:
    gate = Gate()
    frames = frames_of("openai_chat", events_of("openai_chat", TURN))
    with (
        BadServer([expect(), pause(gate), stream(*frames)]) as server,
        gateway(
            at("openai_chat", server.url),
            limits=replace(LIMITS, keepalive=0.02),
            record=RecordConfig(directory=str(tmp_path)),
        ) as running,
    ):
        talk = running.begin("anthropic", stream=True)
        talk.until(b"event: ping")
        gate.open()
        answer = talk.rest()
    told = only(tmp_path)
    assert told.body == answer.body
    kinds = [type(line) for line in told.lines]
    assert kinds.index(ClientData) < kinds.index(UpstreamData)


def _calls(client: str) -> Iterator[bytes]:
    turn = Turn("", (Call("c1", "way__lie", {}),))
    yield from frames_of(client, events_of(client, turn))


def test_rounds_with_tools_that_run_here_are_all_recorded(tmp_path: Path) -> None:
    last = frames_of("openai_chat", events_of("openai_chat", Turn("Done.", ())))
    server_config = wayward("handshake", policy="auto", tools={"lie": "auto"})
    with (
        BadServer([expect(), stream(*_calls("openai_chat"))], [expect(), stream(*last)]) as server,
        gateway(
            at("openai_chat", server.url),
            models={"m": ModelConfig(upstream="up", mcp=("way",))},
            mcp=McpConfig(servers={"way": server_config}),
            record=RecordConfig(directory=str(tmp_path)),
        ) as running,
    ):
        answer = running.ask("anthropic", stream=True)
        requests = [each.body for each in server.requests]
    told = only(tmp_path)
    assert [attempt.request.data for attempt in told.attempts] == requests
    assert len(requests) == 2
    assert told.body == answer.body
    (served,) = told.served
    assert (served.server, served.tool, served.call) == ("way", "lie", "c1")
    assert any(line["where"] == "mcp.way" for line in told.receipt)


@pytest.mark.parametrize(("pattern", "recorded"), [("claude-*", True), ("gpt-*", False)])
def test_only_the_models_that_are_asked_for_are_recorded(pattern: str, recorded: bool, tmp_path: Path) -> None:
    config = RecordConfig(directory=str(tmp_path), models=("other", pattern))
    with gateway(models={"*": ModelConfig(upstream="demo")}, record=config) as running:
        running.ask("openai_chat", model="claude-x")
        running.call("POST", "/v1/messages", b"{", {"content-type": "application/json"})
    assert len(recordings(tmp_path)) == recorded


def test_only_the_keys_that_are_asked_for_are_recorded(tmp_path: Path) -> None:
    config = RecordConfig(directory=str(tmp_path), keys=("key-2",))
    server = ServerConfig(keys=("first-key-0001", "second-key-0002"))
    with gateway(models={"*": ModelConfig(upstream="demo")}, server=server, record=config) as running:
        for key in server.keys:
            running.ask("openai_chat", headers={"x-api-key": key})
    assert only(tmp_path).head.key == "key-2"


def test_without_a_folder_nothing_is_recorded() -> None:
    with gateway() as running:
        running.ask("openai_chat", model="demo")
        assert running.service.recorder is None
        assert b"toolglot_recordings_total{" not in running.call("GET", "/metrics").body


def test_metrics_count_what_became_of_recordings(tmp_path: Path) -> None:
    with gateway(record=RecordConfig(directory=str(tmp_path), max_exchange_bytes=3000)) as running:
        running.ask("openai_chat", model="demo", body={"messages": [{"role": "user", "content": "Hi"}]})
        running.ask("openai_chat", model="demo", body={"messages": [{"role": "user", "content": "Hi " * 5000}]})
        done = Gate()
        assert running.service.recorder is not None
        assert [running.record().status for _ in range(2)] == [200, 200]  # it is over for the server too
        running.service.recorder.recorder.enqueue_always(0, done.open)
        done.wait_blocking()
        metrics = running.call("GET", "/metrics").body.decode()
    for outcome, count in (("written", 1), ("cut", 1), ("dropped", 0)):
        assert f'toolglot_recordings_total{{outcome="{outcome}"}} {count}\n' in metrics


def test_an_exchange_goes_on_where_nothing_can_be_recorded_and_each_is_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "folder"
    with gateway(record=RecordConfig(directory=str(folder))) as running:
        folder.rmdir()
        folder.write_text("in the way")
        answers = [running.ask(client, model="demo", stream=True) for client in CLIENTS]
    assert [answer.status for answer in answers] == [200] * len(CLIENTS)
    told = [record.getMessage() for record in caplog.records if "its recording" in record.getMessage()]
    ids = [answer.headers["x-request-id"] for answer in answers]
    why = f"its recording in {folder} was not written: Not a directory"
    assert sorted(told) == sorted(f"request {request_id}: {why}" for request_id in ids)


def test_compressed_requests_are_recorded_as_they_read(tmp_path: Path) -> None:
    path, body = request("openai_chat", model="demo")
    with gateway(record=RecordConfig(directory=str(tmp_path))) as running:
        running.call("POST", path, gzip.compress(body), {"content-encoding": "gzip"})
    told = only(tmp_path)
    assert told.request.data == body
    assert "content-encoding" not in told.request.headers


def test_upstreams_that_compress_are_recorded_as_they_read(tmp_path: Path) -> None:
    whole = json.dumps(whole_of("openai_chat", TURN)).encode()
    packed = gzip.compress(whole)
    answer = head(
        200, {"content-type": "application/json", "content-encoding": "gzip", "content-length": str(len(packed))}
    )
    with (
        BadServer([expect(), send(answer + packed)]) as server,
        gateway(at("openai_chat", server.url), record=RecordConfig(directory=str(tmp_path))) as running,
    ):
        running.ask("anthropic")
    (attempt,) = only(tmp_path).attempts
    assert attempt.body == whole
    assert attempt.response is not None
    assert "content-encoding" not in attempt.response.headers


def test_the_flag_records_and_a_killed_process_leaves_what_it_had(tmp_path: Path) -> None:
    gate = Gate()
    frames = frames_of("openai_chat", events_of("openai_chat", TURN))
    folder = tmp_path / "recorded"
    config = '[upstreams.up]\ndialect = "openai_chat"\nbase_url = "%s"\n[record]\nmax_files = 7\n'
    with BadServer([expect(), stream(*frames[:4], complete=False), pause(gate)]) as server:
        with serving(tmp_path, config % server.url, arguments=["--record", str(folder)]) as running:
            assert str(folder) in running.until_logged("recording exchanges in")
            assert running.ask("anthropic", model="demo").status == 200
            talk = running.begin("anthropic", stream=True)
            talk.until(b"message_start")
            partial = _until_there(folder)
            running.signal(signal.SIGKILL)
            assert running.wait() == -9
        gate.open()
    told = read_recording(partial.read_bytes())
    assert not told.whole
    assert told.attempts[0].pieces
    (whole,) = folder.glob(f"*{SUFFIX}")
    assert read_recording(whole.read_bytes()).whole


def _until_there(folder: Path) -> Path:
    """The recording that is being written, once the first piece of an answer is in it."""
    deadline = monotonic() + FAILSAFE
    while monotonic() < deadline:
        for path in folder.glob("*.partial"):
            with suppress(FileNotFoundError):  # it is whole meanwhile, and has another name
                if b"message_start" in path.read_bytes():
                    return path
    raise TimeoutError("there is no such recording")


def test_a_folder_that_cannot_be_used_is_told_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    result = CliRunner().invoke(serve, ["--record", str(tmp_path / "file" / "x"), "--no-discover"])
    assert result.exit_code == 2
    assert "file is not a directory" in result.output


def test_a_folder_that_cannot_be_made_ends_the_start(tmp_path: Path) -> None:
    result = CliRunner().invoke(serve, ["--record", "/proc/nothing/x", "--no-discover", "--port", "0"])
    assert result.exit_code == 2
    assert "--record" in result.output
    assert "recordings cannot be written to /proc/nothing/x: " in result.output
    file = tmp_path / "toolglot.toml"
    file.write_text('discover = false\n[record]\ndirectory = "/proc/nothing/x"\n')
    result = CliRunner().invoke(serve, ["--config", str(file), "--port", "0"])
    assert result.exit_code == 2
    assert f"{file}: recordings cannot be written to /proc/nothing/x: " in result.output


def test_every_dialect_has_a_client_here() -> None:
    assert {*CLIENTS, "warp"} == set(DIALECTS)
