"""`toolglot explain`: recordings and plain streams on a terminal, and as a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.run import on_terminal, run

ROOT = Path(__file__).parent.parent
SAMPLE = ROOT / "recordings" / "samples" / "streamed_tool_calls.exchange.jsonl"
STREAM = ROOT / "cases" / "openai_chat" / "text_and_two_calls" / "stream.sse"


def test_a_recording_is_laid_out_without_colours_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    done = run("explain", str(SAMPLE))
    assert (done.exit_code, done.stderr) == (0, "")
    assert "client got: anthropic" in done.stdout
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert run("explain", data=SAMPLE.read_bytes()).stdout == done.stdout


def test_of_a_client_that_went_away_it_says_what_replay_says(tmp_path: Path) -> None:
    lines = SAMPLE.read_text().splitlines()
    got = [number for number, line in enumerate(lines) if '"type":"client.data"' in line]
    end = next(line for line in lines if '"type":"end"' in line).removesuffix("}")
    left = tmp_path / "left.exchange.jsonl"
    left.write_text("\n".join([*lines[: got[len(got) // 2]], f'{end},"cancelled":true}}', ""]))
    assert run("replay", str(left)).stdout.endswith(": the same\n")
    told = run("explain", str(left)).stdout
    assert "the client disconnected" in told
    assert "the current code" not in told


def test_on_a_terminal_there_are_colours_unless_they_are_not_wanted(tmp_path: Path) -> None:
    shown = on_terminal(f"NO_COLOR= toolglot explain {SAMPLE}; toolglot explain {SAMPLE} --frames 2", tmp_path)
    assert shown.status == 0
    painted, _, plain = shown.output.rpartition("req_53c79")
    assert "\x1b[1m" in painted
    assert "\x1b" not in plain.removesuffix("\x1b[0m")


def test_a_plain_stream_is_laid_out_for_any_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    done = run("explain", str(STREAM), "--from", "openai-chat", "--to", "anthropic")
    assert done.exit_code == 0
    assert '…start[1] "tool_use" name="get_' in done.stdout
    assert (
        "start 1: call get_weather"
        in run("explain", str(STREAM), "--from", "openai_chat", "--to", "gemini", "--full").stdout
    )


@pytest.mark.parametrize(("frames", "rows"), [("2", ["2"]), ("2..3", ["2", "3"]), ("9..", ["9", "10"]), ("..1", ["1"])])
def test_frames_are_chosen_by_number(frames: str, rows: list[str]) -> None:
    shown = run("explain", str(SAMPLE), "--frames", frames).stdout
    numbers = [line[:4].strip() for line in shown.splitlines()]
    assert [number for number in numbers if number.isdecimal()] == rows


def test_a_page_is_one_file_that_needs_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    done = run("explain", str(SAMPLE), "--html", str(out))
    assert (done.exit_code, done.stdout) == (0, "")
    text = out.read_text()
    assert text.startswith("<!doctype html>")
    assert out.stat().st_mode & 0o777 == 0o600
    assert "default-src &#x27;none&#x27;" in text
    assert "<script" not in text
    assert run("explain", str(SAMPLE), "--html", "-").stdout == text


@pytest.mark.parametrize("out", ["a.exchange.jsonl", "b.exchange.jsonl"])
def test_neither_the_input_nor_another_recording_is_written_over(tmp_path: Path, out: str) -> None:
    for name in ("a.exchange.jsonl", "b.exchange.jsonl"):
        (tmp_path / name).write_bytes(SAMPLE.read_bytes())
    done = run("explain", str(tmp_path / "a.exchange.jsonl"), "--html", str(tmp_path / out))
    assert done.exit_code == 2
    assert "choose another file" in done.stderr
    assert (tmp_path / out).read_bytes() == SAMPLE.read_bytes()


def test_a_page_replaces_a_page_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "page").write_text("old")
    (tmp_path / "link").symlink_to("page")
    assert run("explain", str(SAMPLE), "--html", str(tmp_path / "link")).exit_code == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "page").read_text() == run("explain", str(SAMPLE), "--html", "-").stdout


@pytest.mark.parametrize(
    ("arguments", "data", "told"),
    [
        ([], b"", "it is empty"),
        ([], b"{}", "this is not a recorded exchange; a plain stream needs --from and --to"),
        (
            [],
            b'{\n "id": 1,\n "choices": []\n}',
            "this is not a recorded exchange; a plain stream needs --from and --to",
        ),
        ([], b'{"type":"exchange","version":1}', "this is not a recorded exchange: its first lines"),
        ([], b'{"type":"exchange","version":1}\nhello\n{}', "line 2: this is not JSON"),
        ([str(ROOT)], b"", "this is a directory: explain takes a single file"),
        ([str(SAMPLE), "--frames", "50.."], b"", "frame 50 does not exist: there are 10 frames"),
        ([str(STREAM)], b"", "this is a plain stream, not a recorded exchange"),
        (["--from", "gemini"], b"", "needs both --from and --to"),
        (["--frames", "x"], b"", "'x' is not a range of frames"),
        (["--frames", ".."], b"", "'..' is not a range of frames"),
        (["--frames", "6..3"], b"", "'6..3' is an empty range: the last frame comes before the first"),
        (["--html", "-", "--full"], b"", "the page contains everything"),
        ([str(STREAM), "--from", "anthropic", "--to", "gemini"], b"", "this looks like openai_chat, not anthropic"),
        (["--from", "gemini", "--to", "gemini"], b"hello", "no server-sent event in it"),
        (["nowhere"], b"", "toolglot: nowhere: No such file or directory"),
        ([str(SAMPLE), "--html", "no/such/folder/a.html"], b"", "No such file or directory"),
    ],
)
def test_what_cannot_be_done_is_told(arguments: list[str], data: bytes, told: str) -> None:
    done = run("explain", *arguments, data=data)
    assert done.exit_code == 2
    assert told in " ".join(done.stderr.split())
