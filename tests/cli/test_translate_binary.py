"""`toolglot translate` with a dialect whose wire is no JSON: not a byte is added, and none is taken for white space."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tests.cli.run import on_terminal, run
from tests.warp_server.messages import encode
from tests.warp_server.scripts import SCRIPTS

ASKED = {"role": "user", "content": "Hi"}
CHAT = json.dumps({"model": "m", "messages": [ASKED]})
TREE = {
    "task_context": {"tasks": [{"id": "t", "messages": [{"id": "m", "user_query": {"query": "Hello"}}]}]},
    "input": {"user_inputs": {"inputs": [{"user_query": {"query": "Hi"}}]}},
}
RAW = encode("Request", TREE)
TO_WARP = ("translate", "--from", "openai_chat", "--to", "warp", "--kind", "request")
FROM_WARP = ("translate", "--from", "warp", "--to", "openai_chat", "--kind", "request", "--model", "m")


def test_a_request_in_protobuf_is_written_as_it_is_and_can_be_decoded() -> None:
    written = run(*TO_WARP, data=CHAT)
    assert written.exit_code == 0
    assert not written.stdout_bytes.endswith(b"\n")
    decoded = run("warp", "decode", data=written.stdout_bytes)
    assert decoded.exit_code == 0
    assert "Hi" in decoded.stdout
    assert json.loads(run(*TO_WARP, "--pretty", data=CHAT).stdout) == json.loads(decoded.stdout)


def test_a_terminal_gets_the_form_that_people_read(tmp_path: Path) -> None:
    (tmp_path / "chat.json").write_text(CHAT)
    shown = on_terminal(f"toolglot {' '.join(TO_WARP)} chat.json 2>/dev/null", tmp_path)
    assert shown.status == 0
    assert "task_context" in json.loads(shown.output) or "input" in json.loads(shown.output)


@pytest.mark.parametrize("data", [RAW, base64.b64encode(RAW), json.dumps(TREE).encode()])
def test_a_request_is_read_in_protobuf_in_base64_and_in_its_json_form(data: bytes) -> None:
    assert RAW.startswith(b"\n")  # what text would take for white space
    done = run(*FROM_WARP, data=data)
    assert (done.exit_code, "toolglot:" in done.stderr) == (0, False)
    assert [message["content"] for message in json.loads(done.stdout)["messages"]] == ["Hello", "Hi"]


def test_there_and_back_is_the_same_conversation() -> None:
    there = run(*TO_WARP, data=CHAT).stdout_bytes
    assert json.loads(run(*FROM_WARP, data=there).stdout)["messages"] == [ASKED]


def test_a_whole_answer_is_a_stream_and_is_read_and_shown_as_one(tmp_path: Path) -> None:
    stream = SCRIPTS["three parallel calls"].body
    (tmp_path / "request.bin").write_bytes(RAW)
    done = run("translate", "--from", "warp", "--to", "openai_chat", "--kind", "response", data=stream)
    assert done.exit_code == 0
    assert len(json.loads(done.stdout)["choices"][0]["message"]["tool_calls"]) == 3
    back = run(
        *("translate", "--from", "openai_chat", "--to", "warp", "--kind", "response", "--pretty"),
        *("--request", str(tmp_path / "request.bin")),
        data=done.stdout,
    )
    assert back.exit_code == 0
    assert back.stdout.startswith("event:")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "the input is empty"),
        (b"\x89PNG\r\n\x1a\n", "neither a request in protobuf nor its JSON form (from `toolglot warp decode`)"),
        (CHAT.encode(), "$"),
        (json.dumps({"contents": []}).encode(), "this looks like gemini, not warp"),
        (json.dumps({"task_context": 1, "input": {}}).encode(), "$.task_context"),
    ],
)
def test_what_is_no_request_is_told(data: bytes, told: str) -> None:
    done = run(*FROM_WARP, data=data)
    assert done.exit_code == 2
    assert f"toolglot: <stdin>: {told}" in done.stderr
