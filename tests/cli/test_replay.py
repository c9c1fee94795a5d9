"""`toolglot replay`: what it says of recordings, and how it ends."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.run import run
from tests.recordings.made import exchange, lines_of
from tests.server.gateway import at, gateway
from toolglot.config.schema import RecordConfig
from toolglot.recordings.format import PARTIAL_SUFFIX, SUFFIX

ASKED: dict[str, Any] = {
    "model": "m",
    "stream": True,
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Hi"}],
}
CHUNK = (
    b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":'
    b'{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}\n\n'
)


def recorded(client: str = "anthropic", upstream: str = "openai_chat") -> bytes:
    return lines_of(exchange(client, upstream, ASKED, [CHUNK, b"data: [DONE]\n\n"]))


@pytest.fixture
def same(tmp_path: Path) -> Path:
    file = tmp_path / f"a{SUFFIX}"
    file.write_bytes(recorded())
    return file


@pytest.fixture
def different(tmp_path: Path) -> Path:
    """Another request was sent then, and the client got another text."""
    file = tmp_path / f"b{SUFFIX}"
    data = recorded().replace(rb"\"max_tokens\":100,\"stream\"", rb"\"max_tokens\":99,\"stream\"")
    file.write_bytes(data.replace(rb"\"text_delta\",\"text\":\"Hi\"", rb"\"text_delta\",\"text\":\"Ho\""))
    return file


def test_a_recording_in_which_nothing_differs_ends_well(same: Path) -> None:
    result = run("replay", str(same))
    assert result.output == f"{same}: the same\n"
    assert result.exit_code == 0


def test_what_differs_is_shown_with_its_place(different: Path) -> None:
    result = run("replay", str(different))
    assert result.exit_code == 1
    assert result.output.splitlines() == [
        f"{different}: 1 difference in the upstream requests, 1 difference in the answer",
        "  request 1 (there, openai_chat)",
        "    ~ max_tokens: 99 -> 100",
        "  answer",
        '    ~ event 3.delta.text: "Ho" -> "Hi"',
    ]


def test_a_folder_is_told_in_lines_and_a_sum(tmp_path: Path, same: Path, different: Path) -> None:
    result = run("replay", str(tmp_path))
    assert result.exit_code == 1
    assert result.output.splitlines() == [
        f"{same}: the same",
        f"{different}: 1 difference in the upstream requests, 1 difference in the answer",
        "2 recordings: 1 the same, 1 different, 0 not run",
        "use --differences, or replay a single file, to see the differences",
    ]
    assert run("replay", str(same), str(different)).output == result.output


def test_differences_of_several_files_are_shown_where_they_are_wanted(same: Path, different: Path) -> None:
    lines = run("replay", str(same), str(different), "--differences").output.splitlines()
    assert lines[0] == f"{same}: the same"
    assert "    ~ max_tokens: 99 -> 100" in lines
    assert lines[-1] == "2 recordings: 1 the same, 1 different, 0 not run"


def test_a_recording_without_its_end_is_not_the_same(tmp_path: Path, same: Path) -> None:
    lines = same.read_bytes().splitlines(keepends=True)
    stopped = tmp_path / f"b{SUFFIX}{PARTIAL_SUFFIX}"
    stopped.write_bytes(b"".join(lines[:-4]))
    result = run("replay", str(stopped))
    why = "the recording has no end: its writer was stopped"
    assert result.output == f"{stopped}: the recorded part is the same; {why}\n"
    assert result.exit_code == 1
    cut = tmp_path / f"c{SUFFIX}"
    cut.write_bytes(b"".join([*lines[:-4], b'{"type":"end","cut":"it is larger than 9 bytes"}\n']))
    assert "the recording has no end: it is larger than 9 bytes" in run("replay", str(cut)).output
    told = run("replay", str(tmp_path))
    assert told.output.splitlines()[-1] == "3 recordings: 1 the same, 0 different, 2 without an end, 0 not run"
    assert told.exit_code == 1
    first, second, third, last = map(json.loads, run("replay", str(tmp_path), "--json").output.splitlines())
    assert [each["result"] for each in (first, second, third)] == ["same", "incomplete", "incomplete"]
    assert last["summary"]["incomplete"] == 2


@pytest.mark.parametrize("limit", [400, 100_000])
def test_a_request_that_is_larger_than_a_recording_is_told_as_cut(tmp_path: Path, limit: int) -> None:
    with gateway(record=RecordConfig(directory=str(tmp_path), max_exchange_bytes=limit)) as running:
        running.ask("openai_chat", body={"messages": [{"role": "user", "content": "long " * 50_000}]})
    (file,) = tmp_path.iterdir()
    result = run("replay", str(file))
    assert "the recording is cut: the request is larger than a recording may be" in result.output
    assert result.exit_code == 2
    explained = run("explain", str(file))
    assert "cut: the request is larger than" in " ".join(explained.output.split())
    assert explained.exit_code == 0
    assert "the recording is cut: the request is larger than" in run("export", str(file)).output


def test_json_tells_everything(tmp_path: Path, same: Path, different: Path) -> None:
    result = run("replay", str(tmp_path), "--json")
    first, second, last = map(json.loads, result.output.splitlines())
    assert (first["result"], second["result"]) == ("same", "different")
    assert second["requests"] == [[{"path": "max_tokens", "kind": "changed", "then": 99, "now": 100}]]
    assert last == {"summary": {"same": 1, "different": 1, "incomplete": 0, "refused": 0, "unreadable": 0}}


def test_another_client_may_ask(same: Path) -> None:
    result = run("replay", str(same), "--client", "gemini", "--show-body")
    assert '"candidates"' in result.output
    assert result.exit_code == 0


def test_the_body_is_told_in_json_too(same: Path) -> None:
    told = json.loads(run("replay", str(same), "--json", "--show-body").output)
    assert told["body"].startswith("event: message_start")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "this is not a recorded exchange"),
        (b"{}\n{}\n", "line 1"),
        (b"not json\n{}\n", "this is not JSON"),
        (
            lines_of(exchange("anthropic", "openai_chat", ASKED, [CHUNK])[:2])
            + b'{"type":"upstream.end","attempt":7}\n',
            "no such request",
        ),
    ],
)
def test_what_cannot_be_read_is_told_and_ends_with_2(tmp_path: Path, data: bytes, why: str) -> None:
    file = tmp_path / f"a{SUFFIX}"
    file.write_bytes(data)
    result = run("replay", str(file))
    assert why in result.output
    assert result.exit_code == 2


def test_what_is_not_there_ends_with_2(tmp_path: Path) -> None:
    assert run("replay", str(tmp_path / "nowhere")).exit_code == 2
    empty = run("replay", str(tmp_path))
    assert "it contains no recording" in empty.output
    assert empty.exit_code == 2


def test_what_is_no_file_is_left_out_of_a_folder_and_told(tmp_path: Path, same: Path) -> None:
    os.mkfifo(tmp_path / f"b{SUFFIX}")
    (tmp_path / f"c{SUFFIX}").symlink_to("/dev/zero")
    (tmp_path / f"d{SUFFIX}").symlink_to("nowhere")
    (tmp_path / f"e{SUFFIX}").mkdir()
    result = run("replay", str(tmp_path))
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, f"{same}: the same")
    left_out = [f"toolglot: {tmp_path / name}{SUFFIX}: skipped: not a file" for name in "bcde"]
    assert result.stderr.splitlines() == left_out


def test_an_empty_file_is_told_by_its_name_alone(tmp_path: Path) -> None:
    (tmp_path / f"a{SUFFIX}").write_bytes(b"")
    assert run("replay", str(tmp_path)).stderr.startswith(
        f"toolglot: {tmp_path}/a{SUFFIX}: this is not a recorded exchange"
    )


def test_there_are_no_other_dialects(same: Path) -> None:
    result = run("replay", str(same), "--client", "klingon")
    assert "there is no dialect 'klingon'" in result.output
    assert result.exit_code == 2


def test_a_recording_in_a_dialect_of_another_version_is_told_and_ends_with_2(tmp_path: Path, same: Path) -> None:
    text = same.read_text()
    client = json.loads(text.splitlines()[0])["client"]
    (tmp_path / f"b{SUFFIX}").write_text(text.replace(f'"client":"{client}"', '"client":"klingon"'))
    result = run("replay", str(tmp_path))
    assert result.exit_code == 2
    assert f"{same}: the same" in result.stdout
    assert "there is no dialect 'klingon'" in result.stderr


@pytest.mark.parametrize("command", [("replay",), ("explain",), ("export",)])
@pytest.mark.parametrize("begins", [b"", b'{"type":"letter"}\n', b"x\n\n"])
def test_a_large_file_of_somebody_else_is_not_read_whole(
    tmp_path: Path, command: tuple[str, ...], begins: bytes
) -> None:
    file = tmp_path / f"a{SUFFIX}"
    with file.open("wb") as made:
        made.write(begins)
        made.truncate(1 << 36)  # more than anybody has room for
    given = tmp_path if command == ("export",) else file
    result = run(*command, str(given))
    assert result.exit_code == 2
    assert "recorded exchange" in result.output or "line 1" in result.output


def test_requests_that_were_refused_at_once_have_nothing_to_replay_and_fail_nothing(tmp_path: Path, same: Path) -> None:
    asked = {"max_tokens": 9, "inference_geo": "eu", "messages": [{"role": "user", "content": "Hi"}]}
    upstreams = {name: at("openai_chat", "demo:", models=(name,)) for name in ("one", "two")}
    with gateway(upstreams, strict=True, record=RecordConfig(directory=str(tmp_path))) as running:
        assert running.ask("anthropic", model="one", body=asked).status == 400
        assert running.ask("openai_chat", model="three").status == 404
        before = {"input": "Hi", "previous_response_id": "resp_1"}
        assert running.ask("openai_responses", model="one", body=before).status == 400
    for client in ((), ("--client", "gemini")):
        result = run("replay", str(tmp_path), *client)
        assert result.output.count(": refused before any upstream was contacted: nothing to replay\n") == 3, (
            result.output
        )
        assert result.output.splitlines()[-1] == (
            "4 recordings: 1 the same, 0 different, 3 with nothing to replay, 0 not run"
        )
        assert result.exit_code == 0


def test_a_recording_may_come_from_standard_input() -> None:
    result = run("replay", "-", data=recorded())
    assert (result.output, result.exit_code) == ("<stdin>: the same\n", 0)
    result = run("replay", "-", data=b"nothing of the kind")
    assert result.exit_code == 2
    assert result.stderr.startswith("toolglot: <stdin>: line 1")


def test_what_a_dialect_needs_is_told_once(tmp_path: Path, same: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f"b{SUFFIX}").write_bytes(same.read_bytes())
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    monkeypatch.delitem(sys.modules, "toolglot.dialects.warp.descriptors", raising=False)
    result = run("replay", str(tmp_path), "--client", "warp")
    assert result.exit_code == 2
    assert result.output.count("the dialect warp needs the package protobuf") == 1
