"""`toolglot export`: files in, files out, the receipt, and the ways to refuse."""

from __future__ import annotations

import json
import os
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.cli.run import on_terminal, run
from toolglot.cli import export as module

CASES = Path(__file__).parent.parent / "cases"
SAMPLES = Path(__file__).parent.parent / "recordings" / "samples"
CHAT = CASES / "openai_chat" / "tool_round_trip" / "request.json"
PLAIN = SAMPLES / "whole.exchange.jsonl"
"""Nothing of it is lost."""
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


LINES = '{"role":"user","content":"Hi"}\n{"role":"assistant","content":"Hello"}\n'


@pytest.mark.parametrize("form", ["its name", "a link", "another name of the same file"])
def test_the_output_never_takes_the_place_of_the_input(tmp_path: Path, form: str) -> None:
    file, other = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    file.write_text(LINES)
    if form == "a link":
        other.symlink_to(file)
    elif form != "its name":
        other.hardlink_to(file)
    out = file if form == "its name" else other
    done = run("export", str(file), "--dialect", "gemini", "-o", str(out))
    assert (done.exit_code, file.read_text()) == (2, LINES)
    assert done.stderr == f"toolglot: {out}: this would overwrite the input: choose another file\n"


@pytest.mark.parametrize("input_is", ["a folder", "another file"])
def test_a_recording_is_never_written_over(tmp_path: Path, input_is: str) -> None:
    out = tmp_path / "b.exchange.jsonl"
    out.write_bytes((SAMPLES / "whole.exchange.jsonl").read_bytes())
    done = run("export", str(tmp_path if input_is == "a folder" else CHAT), "--format", "jsonl", "-o", str(out))
    assert done.exit_code == 2
    assert "choose another file" in done.stderr
    assert out.read_bytes() == (SAMPLES / "whole.exchange.jsonl").read_bytes()


@pytest.mark.parametrize("strict", [(), ("--strict",)])
def test_a_link_is_followed_and_stays(tmp_path: Path, strict: tuple[str, ...]) -> None:
    target, link, dangling = tmp_path / "target", tmp_path / "link", tmp_path / "dangling.md"
    target.write_text("old")
    link.symlink_to("target")
    dangling.symlink_to("new")
    for out in (link, dangling):
        assert run("export", str(PLAIN), "--format", "markdown", "-o", str(out), *strict).exit_code == 0
        assert out.is_symlink()
    assert target.read_text() == (tmp_path / "new").read_text() == run("export", str(PLAIN)).stdout


@pytest.mark.parametrize("strict", [(), ("--strict",)])
def test_a_pipe_is_written_into_and_stays(tmp_path: Path, strict: tuple[str, ...]) -> None:
    pipe, link, got = tmp_path / "pipe", tmp_path / "link", []
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for out in (pipe, link):
        reader = Thread(target=lambda: got.append(pipe.read_text()))
        reader.start()
        assert run("export", str(PLAIN), "--format", "markdown", "-o", str(out), *strict).exit_code == 0
        reader.join()
    assert pipe.is_fifo()
    assert got == [run("export", str(PLAIN)).stdout] * 2
    reader = Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    assert run("export", str(CHAT), "--format", "markdown", "-o", str(pipe), "--strict").exit_code == 3
    reader.join()
    assert got[2] == ""


def test_an_open_handle_is_added_to(tmp_path: Path) -> None:
    shown = on_terminal(
        f"echo before > out; toolglot export {PLAIN} -o /dev/stdout --format markdown >> out; cat out", tmp_path
    )
    assert shown.output == "before\n" + run("export", str(PLAIN)).stdout


def test_damaged_recordings_of_a_folder_are_left_out_and_told(tmp_path: Path) -> None:
    whole = (SAMPLES / "whole.exchange.jsonl").read_bytes()
    (tmp_path / "a.exchange.jsonl").write_bytes(whole)
    (tmp_path / "b.exchange.jsonl.partial").write_bytes(b"")
    (tmp_path / "c.exchange.jsonl.partial").write_bytes(whole[:100])
    os.mkfifo(tmp_path / "d.exchange.jsonl")
    done = run("export", str(tmp_path), "--conversation", "1")
    assert (done.exit_code, done.stdout) == (0, run("export", data=whole).stdout)
    told = done.stderr.splitlines()
    assert [line.partition(": skipped: not a recorded exchange: ")[0] for line in told] == [
        f"toolglot: {tmp_path / name}" for name in ("b.exchange.jsonl.partial", "c.exchange.jsonl.partial")
    ]
    (tmp_path / "a.exchange.jsonl").unlink()
    none = run("export", str(tmp_path))
    assert none.exit_code == 2
    assert none.stderr.endswith(f"toolglot: {tmp_path}: it contains no recorded exchange\n")


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
    monkeypatch.setattr(module, "MAX_RECEIPT_LINES", 1)
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
    told = "2 conversations found; writing the one that ends with streamed_tool_calls.exchange.jsonl."
    assert done.stderr.splitlines() == [
        f"toolglot: {tmp_path}: {told} Use --conversation N for another:",
        "  2  whole.exchange.jsonl.partial",
        "     demo, 2 messages: Say hello.",
    ]
    strict = run("export", str(tmp_path), "--strict")
    assert (strict.exit_code, strict.stdout) == (0, done.stdout)
    files = [str(SAMPLES / f"{name}.exchange.jsonl") for name in ("whole", "streamed_tool_calls")]
    assert run("export", *files).stdout == done.stdout


@pytest.mark.parametrize("wanted", ["2", "whole.exchange.jsonl", "{folder}/deep/whole.exchange.jsonl"])
def test_another_conversation_is_chosen_by_its_number_or_by_its_recording(
    tmp_path: Path, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "deep").mkdir()
    other = (SAMPLES / "whole.exchange.jsonl").read_bytes()
    (tmp_path / "deep" / "whole.exchange.jsonl").write_bytes(other)
    longest = (SAMPLES / "streamed_tool_calls.exchange.jsonl").read_bytes()
    (tmp_path / "streamed.exchange.jsonl").write_bytes(longest)
    done = run("export", str(tmp_path), "--conversation", wanted.format(folder=tmp_path))
    assert done.exit_code == 0
    assert done.stdout == run("export", data=other).stdout
    assert done.stderr.splitlines()[1:] == [
        "  1  streamed.exchange.jsonl",
        "     demo, 2 messages: What is the weather in Paris, and what time is it in Par…",
    ]


def test_many_other_conversations_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LISTED", 1)
    data = (SAMPLES / "whole.exchange.jsonl").read_text()
    for number in range(3):
        (tmp_path / f"{number}.exchange.jsonl").write_text(data.replace("Say hello.", f"Say {number}."))
    told = run("export", str(tmp_path)).stderr.splitlines()
    assert told[1:] == ["  1  0.exchange.jsonl", "     demo, 2 messages: Say 0.", "  … and 1 other"]


def test_the_first_words_of_a_conversation_fit_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    data = (SAMPLES / "whole.exchange.jsonl").read_text()
    for number in range(2):
        said = f"{number} 漢字 " + r"of\\n\\u001b[31m many words " * 1000
        (tmp_path / f"{number}.exchange.jsonl").write_text(data.replace("Say hello.", said))
    told = run("export", str(tmp_path)).stderr.splitlines()
    assert told[1:3] == ["  1  0.exchange.jsonl", r"     demo, 2 messages: 0 漢字 of \x1b[3…"]


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
    assert "a.pdf has no known extension (.md," in done.stderr
    assert run("export", str(CHAT), "--format", "html", "-o", str(out)).exit_code == 0
    assert out.read_text().startswith("<!doctype html>")


NO_CONVERSATION = "this is not a conversation in any known dialect"


@pytest.mark.parametrize(
    ("arguments", "data", "told"),
    [
        (["--dialect", "gemini"], b"[]", "--dialect cannot be combined with --format markdown"),
        (["--title", "x"], b"[]", "--title cannot be combined with --format markdown"),
        (["--from", "klingon"], b"[]", "there is no dialect 'klingon'"),
        ([], b"", "toolglot: <stdin>: it is empty"),
        ([], b'{"role":"user","content":"a"}\n{"role":1}', "toolglot: <stdin>: line 2: $.role: "),
        (
            [],
            b"# A page\n\nof text\n",
            "toolglot: <stdin>: this is not a JSON object or array; a request's body, an array",
        ),
        ([], b'{"a":1}', f"toolglot: <stdin>: {NO_CONVERSATION}; a request's body, an array"),
        ([], b'{"a":1}\n{"role":"user","content":"a"}', f"toolglot: <stdin>: {NO_CONVERSATION};"),
        ([], b'[{"a":1}]', f"toolglot: <stdin>: {NO_CONVERSATION};"),
        ([], b"[1]", f"toolglot: <stdin>: {NO_CONVERSATION};"),
        ([], b"SQLite format 3\0\x10", "toolglot: <stdin>: this is neither JSON nor a request of Warp"),
        (["nowhere.json"], b"", "toolglot: nowhere.json: No such file or directory"),
        (["-o", "no/such/folder/a.md"], b"[]", "toolglot: no/such/folder/a.md: No such file or directory"),
        ([str(CASES)], b"", "it contains no recorded exchange"),
        ([str(SAMPLES), "--conversation", "99"], b"", "99 does not exist: there are"),
        ([str(SAMPLES), "--conversation", "nothing"], b"", "nothing: it is neither one of the recordings nor a number"),
        ([str(CHAT), "--conversation", "1"], b"", "--conversation applies only to several files or a directory"),
        ([str(CHAT), str(CHAT)], b"", "several files must all be recorded exchanges"),
    ],
)
def test_what_cannot_be_done_is_told(arguments: list[str], data: bytes, told: str) -> None:
    done = run("export", *arguments, data=data)
    assert done.exit_code == 2
    assert told in " ".join(done.stderr.split())


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o755])
@pytest.mark.parametrize("source_mode", [0o600, 0o644])
def test_a_file_that_is_there_already_keeps_its_mode(tmp_path: Path, mode: int, source_mode: int) -> None:
    source, output = tmp_path / "source.json", tmp_path / "a.md"
    source.write_bytes(CHAT.read_bytes())
    source.chmod(source_mode)
    output.write_text("old")
    output.chmod(mode)
    assert run("export", str(source), "-o", str(output)).exit_code == 0
    assert output.read_text() != "old"
    assert output.stat().st_mode & 0o777 == mode


@pytest.mark.skipif(os.getuid() != 0, reason="needs somebody who may give files away")
def test_a_file_that_is_there_already_keeps_its_owner(tmp_path: Path) -> None:
    output = tmp_path / "a.md"
    output.write_text("old")
    os.chown(output, 1234, 1234)
    assert run("export", str(CHAT), "-o", str(output)).exit_code == 0
    assert (output.stat().st_uid, output.stat().st_gid) == (1234, 1234)
