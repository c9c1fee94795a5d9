"""`toolglot export`: files in, files out, the receipt, and the ways to refuse."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.run import run
from toolglot.cli import export as module

CASES = Path(__file__).parent.parent / "cases"
SAMPLES = Path(__file__).parent.parent / "recordings" / "samples"
CHAT = CASES / "openai_chat" / "tool_round_trip" / "request.json"
FULL = CASES / "anthropic" / "full" / "request.json"


def test_markdown_is_what_one_gets_without_asking() -> None:
    done = run("export", str(CHAT))
    assert done.exit_code == 0
    assert done.stdout.startswith("**")
    assert "[Tool Use: " in done.stdout
    assert done.stdout == run("export", data=CHAT.read_bytes()).stdout


@pytest.mark.parametrize(("name", "begins"), [("a.md", "**"), ("a.html", "<!doctype html>"), ("a.jsonl", "{")])
def test_the_name_of_the_output_tells_the_format(tmp_path: Path, name: str, begins: str) -> None:
    done = run("export", str(CHAT), "-o", str(tmp_path / name))
    assert (done.exit_code, done.stdout) == (0, "")
    assert (tmp_path / name).read_text().startswith(begins)
    assert [file.name for file in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("dialect", ["openai-chat", "openai_responses", "anthropic", "gemini", "warp"])
def test_lines_of_any_dialect_can_be_exported_again(tmp_path: Path, dialect: str) -> None:
    lines = tmp_path / "there.jsonl"
    assert run("export", str(CHAT), "--dialect", dialect, "-o", str(lines)).exit_code == 0
    back = run("export", str(lines), "--format", "jsonl", "--dialect", "openai_chat")
    assert back.exit_code == 0
    found = [json.loads(line) for line in back.stdout.splitlines()]
    wanted = json.loads(CHAT.read_bytes())["messages"]

    def ids(messages: list[dict[str, Any]]) -> list[tuple[str, ...]]:
        called = [tuple(call["id"] for call in message.get("tool_calls", ())) for message in messages]
        return called + [(message["tool_call_id"],) for message in messages if "tool_call_id" in message]

    assert list(filter(None, ids(found))) == list(filter(None, ids(wanted)))


def test_the_output_may_take_the_place_of_the_input(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"role":"user","content":"Hi"}\n{"role":"assistant","content":"Hello"}\n')
    assert run("export", str(file), "--dialect", "gemini", "-o", str(file)).exit_code == 0
    assert [json.loads(line)["role"] for line in file.read_text().splitlines()] == ["user", "model"]


def test_the_receipt_goes_to_standard_error_and_strict_refuses_to_lose(tmp_path: Path) -> None:
    done = run("export", str(FULL), "--format", "jsonl", "--dialect", "openai_chat")
    assert done.exit_code == 0
    assert "loss: messages[" in done.stderr
    out = tmp_path / "a.jsonl"
    out.write_text("before")
    for output in ([], ["-o", str(out)]):
        strict = run("export", str(FULL), "--format", "jsonl", "--dialect", "openai_chat", "--strict", *output)
        assert (strict.exit_code, strict.stdout) == (3, "")
        assert "refused (--strict): " in strict.stderr
    assert out.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == ["a.jsonl"]
    whole = run("export", str(CHAT), "--format", "jsonl", "--strict")
    assert (whole.exit_code, whole.stderr) == (0, "")
    assert len(whole.stdout.splitlines()) == len(json.loads(CHAT.read_bytes())["messages"])


def test_a_receipt_without_end_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TOLD", 1)
    told = run("export", str(FULL)).stderr.splitlines()
    assert len(told) == 2
    assert told[1].startswith("… and ")


def test_a_folder_of_recordings_is_one_conversation(tmp_path: Path) -> None:
    for name in ("streamed_tool_calls", "whole"):
        data = (SAMPLES / f"{name}.exchange.jsonl").read_bytes()
        (tmp_path / f"{name}.exchange.jsonl{'.partial' if name == 'whole' else ''}").write_bytes(data)
    done = run("export", str(tmp_path))
    assert done.exit_code == 0
    assert "[Tool Use: get_time]" in done.stdout
    told = "2 conversations in it; this is the one that ends with streamed_tool_calls.exchange.jsonl."
    assert done.stderr.splitlines() == [
        f"toolglot: {tmp_path}: {told} --conversation N writes another:",
        "  2  whole.exchange.jsonl.partial",
    ]
    strict = run("export", str(tmp_path), "--strict")
    assert (strict.exit_code, strict.stdout) == (0, done.stdout)
    files = [str(SAMPLES / f"{name}.exchange.jsonl") for name in ("whole", "streamed_tool_calls")]
    assert run("export", *files).stdout == done.stdout


@pytest.mark.parametrize("wanted", ["2", "whole.exchange.jsonl", "{folder}/deep/whole.exchange.jsonl"])
def test_another_conversation_is_chosen_by_its_number_or_by_its_recording(tmp_path: Path, wanted: str) -> None:
    (tmp_path / "deep").mkdir()
    other = (SAMPLES / "whole.exchange.jsonl").read_bytes()
    (tmp_path / "deep" / "whole.exchange.jsonl").write_bytes(other)
    longest = (SAMPLES / "streamed_tool_calls.exchange.jsonl").read_bytes()
    (tmp_path / "streamed.exchange.jsonl").write_bytes(longest)
    done = run("export", str(tmp_path), "--conversation", wanted.format(folder=tmp_path))
    assert done.exit_code == 0
    assert done.stdout == run("export", data=other).stdout
    assert done.stderr.splitlines()[1:] == ["  1  streamed.exchange.jsonl"]


def test_many_other_conversations_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LISTED", 1)
    data = (SAMPLES / "whole.exchange.jsonl").read_text()
    for number in range(3):
        (tmp_path / f"{number}.exchange.jsonl").write_text(data.replace("Say hello.", f"Say {number}."))
    told = run("export", str(tmp_path)).stderr.splitlines()
    assert told[1:] == ["  1  0.exchange.jsonl", "  … and 1 other"]


@pytest.mark.parametrize(
    ("mode", "mask", "wanted"), [(0o600, 0o022, 0o600), (0o644, 0o022, 0o644), (0o666, 0o027, 0o640)]
)
def test_nobody_may_read_an_export_who_may_not_read_its_source(
    tmp_path: Path, mode: int, mask: int, wanted: int
) -> None:
    source = tmp_path / "private.json"
    source.write_bytes(CHAT.read_bytes())
    source.chmod(mode)
    before = os.umask(mask)
    try:
        assert run("export", str(source), "-o", str(tmp_path / "a.md")).exit_code == 0
        assert run("export", "-o", str(tmp_path / "b.md"), data=CHAT.read_bytes()).exit_code == 0
    finally:
        os.umask(before)
    assert (tmp_path / "a.md").stat().st_mode & 0o777 == wanted
    assert (tmp_path / "b.md").stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_name_that_tells_no_format_needs_one(tmp_path: Path) -> None:
    out = tmp_path / "a.pdf"
    done = run("export", str(CHAT), "-o", str(out))
    assert (done.exit_code, out.exists()) == (2, False)
    assert "the name a.pdf tells no format (.md," in done.stderr
    assert run("export", str(CHAT), "--format", "html", "-o", str(out)).exit_code == 0
    assert out.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "data", "told"),
    [
        (["--dialect", "gemini"], b"[]", "--dialect has no meaning with --format markdown"),
        (["--title", "x"], b"[]", "--title has no meaning with --format markdown"),
        (["--from", "klingon"], b"[]", "there is no dialect 'klingon'"),
        ([], b"", "toolglot: <stdin>: $: there is nothing in it"),
        ([], b'{"role":"user","content":"a"}\n{"role":1}', "toolglot: <stdin>: line 2: $.role: "),
        (["nowhere.json"], b"", "toolglot: nowhere.json: No such file or directory"),
        (["-o", "no/such/folder/a.md"], b"[]", "toolglot: no/such/folder/a.md: No such file or directory"),
        ([str(CASES)], b"", "there is no recorded exchange in it"),
        ([str(SAMPLES), "--conversation", "99"], b"", "there is no 99: there are"),
        ([str(SAMPLES), "--conversation", "nothing"], b"", "nothing: it is none of the recordings, and no number"),
        ([str(CHAT), "--conversation", "1"], b"", "--conversation has no meaning here"),
        ([str(CHAT), str(CHAT)], b"", "of several files each is a recorded exchange"),
    ],
)
def test_what_cannot_be_done_is_told(arguments: list[str], data: bytes, told: str) -> None:
    done = run("export", *arguments, data=data)
    assert done.exit_code == 2
    assert told in " ".join(done.stderr.split())
