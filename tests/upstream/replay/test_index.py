"""Which recording answers a request."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.recordings.made import exchange, lines_of
from toolglot.recordings.format import PARTIAL_SUFFIX, SUFFIX
from toolglot.upstream.replay.index import MAX_HOLE_CANDIDATES, RecordedCallEntry, RecordingIndex, read_entry
from toolglot.upstream.replay.matching import fingerprint_request, request_parts
from toolglot.upstream.replay.unmatched import no_recording_error
from toolglot.upstream.transport import UpstreamCall

URL = "https://example.com/v1/chat/completions"
ANSWER = (
    b'{"id":"c","object":"chat.completion","created":1,"model":"m","choices":'
    b'[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"%b"}}]}'
)


def body(text: str, **members: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], **members}


def record(folder: Path, name: str, text: str, answer: str, *, time: str = "2026-01-02T03:04:05Z", **more: Any) -> Path:
    file = folder / f"{name}{SUFFIX}"
    lines = exchange("openai_chat", "openai_chat", body(text, **more), ANSWER % answer.encode(), time=time)
    file.write_bytes(lines_of(lines))
    return file


def find(index: RecordingIndex, text: str, **members: Any) -> RecordedCallEntry | None:
    return index.next(fingerprint_request("openai_chat", URL, json.dumps(body(text, **members)).encode()))


def found(index: RecordingIndex, text: str, **members: Any) -> str | None:
    entry = find(index, text, **members)
    return None if entry is None else entry.file.name.removesuffix(SUFFIX)


def test_the_same_request_is_answered_in_the_order_of_recording_and_then_by_the_last_one(tmp_path: Path) -> None:
    record(tmp_path, "a", "Hi", "second", time="2026-01-02T03:04:06Z")
    record(tmp_path, "b", "Hi", "first", time="2026-01-02T03:04:05Z")
    record(tmp_path, "c", "Ho", "another")
    index = RecordingIndex(tmp_path)
    assert [found(index, "Hi") for _ in range(4)] == ["b", "a", "a", "a"]
    assert found(index, "Ho") == "c"
    assert found(index, "He") is None


def test_the_same_in_everything_comes_before_the_same_but_for_what_changes(tmp_path: Path) -> None:
    record(tmp_path, "a", "on 2026-01-01", "one")
    record(tmp_path, "b", "on 2026-01-02", "two")
    index = RecordingIndex(tmp_path)
    assert [found(index, "on 2026-01-02") for _ in range(2)] == ["b", "b"]
    assert [found(index, "on 2026-01-09") for _ in range(3)] == ["a", "b", "b"]


def test_the_same_model_comes_before_another(tmp_path: Path) -> None:
    record(tmp_path, "a", "Hi", "one", model="m")
    record(tmp_path, "b", "Hi", "two", model="n")
    index = RecordingIndex(tmp_path)
    assert found(index, "Hi", model="n") == "b"
    assert [found(index, "Hi", model="o") for _ in range(2)] == ["a", "b"]
    assert index.models("openai_chat") == ["m", "n"]


def test_the_nearest_is_the_one_with_the_most_in_common(tmp_path: Path) -> None:
    record(tmp_path, "a", "Hi", "one", temperature=1)
    record(tmp_path, "b", "Ho", "two", temperature=0.5)
    index = RecordingIndex(tmp_path)
    index.refresh()
    wanted = fingerprint_request("openai_chat", URL, json.dumps(body("He", temperature=0.5)).encode())
    nearest = index.nearest(wanted, "openai_chat")
    assert nearest is not None
    assert nearest.file.name == f"b{SUFFIX}"
    assert index.nearest(wanted, "gemini") is None


def test_one_file_is_enough(tmp_path: Path) -> None:
    file = record(tmp_path, "a", "Hi", "one")
    record(tmp_path, "b", "Ho", "two")
    index = RecordingIndex(file)
    assert (found(index, "Hi"), found(index, "Ho")) == ("a", None)


def test_files_that_are_not_finished_or_no_recordings_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = record(tmp_path, "a", "Hi", "one")
    file.rename(tmp_path / f"a{SUFFIX}{PARTIAL_SUFFIX}")
    (tmp_path / f"b{SUFFIX}").write_bytes(b"\xff\x00 nothing of the kind\n")
    (tmp_path / f"c{SUFFIX}").mkdir()
    index = RecordingIndex(tmp_path)
    assert found(index, "Hi") is None
    assert index.entries == 0
    assert "cannot be replayed" in caplog.text


def test_what_a_file_says_is_read_when_it_is_wanted(tmp_path: Path) -> None:
    file = record(tmp_path, "a", "Hi", "one")
    entry = find(RecordingIndex(tmp_path), "Hi")
    assert entry is not None
    assert b'"one"' in read_entry(entry).attempt.body
    file.unlink()
    with pytest.raises(OSError, match="No such file"):
        read_entry(entry)


def test_no_more_is_known_than_there_is_room_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(4):
        record(tmp_path, str(number), f"Hi {number}", "one")
    index = RecordingIndex(tmp_path, most=2)
    assert [found(index, f"Hi {number}") for number in range(4)] == ["0", "1", None, None]
    assert "the rest is not used" in caplog.text


def test_a_recording_without_holes_comes_before_one_with_them(tmp_path: Path) -> None:
    record(tmp_path, "a", "key [redacted]", "one")
    record(tmp_path, "b", "key abc", "two")
    record(tmp_path, "c", "key [redacted]", "three", time="2026-01-02T03:04:06Z")
    index = RecordingIndex(tmp_path)

    def look(text: str, **members: Any) -> str | None:
        data = json.dumps(body(text, **members)).encode()
        wanted = fingerprint_request("openai_chat", URL, data)
        entry = index.next(wanted) or index.next_redacted(
            wanted, lambda: list(request_parts("openai_chat", json.loads(data)))
        )
        return None if entry is None else entry.file.name.removesuffix(SUFFIX)

    assert look("key abc") == "b"
    assert [look("key def") for _ in range(3)] == ["a", "c", "c"]
    assert look("key def", temperature=1) is None
    assert look("door def") is None


def test_of_several_recordings_with_holes_the_one_with_the_smallest_answers(tmp_path: Path) -> None:
    texts = ("[redacted]", "key [redacted]", "key [redacted], number [redacted digits]", "[redacted], number 7")
    for number, text in enumerate(texts):
        record(tmp_path, str(number), text, "one", model="n" if number == 2 else "m")
    index = RecordingIndex(tmp_path)
    index.refresh()

    def look(text: str) -> str | None:
        data = json.dumps(body(text)).encode()
        wanted = fingerprint_request("openai_chat", URL, data)
        entry = index.next_redacted(wanted, lambda: list(request_parts("openai_chat", json.loads(data))))
        return None if entry is None else entry.file.name.removesuffix(SUFFIX)

    assert [look("key abc, number 8") for _ in range(2)] == ["2", "2"]
    assert look("key abc, number x") == "1"
    assert look("door abc, number 7") == "3"
    assert look("anything") == "0"


def test_an_error_always_tells_a_difference(tmp_path: Path) -> None:
    record(tmp_path, "0", "key [redacted]", "one")
    for number in range(MAX_HOLE_CANDIDATES):
        record(tmp_path, f"1-{number}", f"key {number:02} [redacted]", "one")
    index = RecordingIndex(tmp_path)
    data = json.dumps(body("key of a house")).encode()
    wanted = fingerprint_request("openai_chat", URL, data)
    assert index.next(wanted) is None
    error = no_recording_error(index, wanted, "openai_chat", UpstreamCall(url=URL, headers={}, body=data))
    assert error.message.endswith("It differs: only in what was redacted, or in what changes from run to run")


def test_one_bad_file_does_not_keep_anybody_from_those_beside_it(tmp_path: Path) -> None:
    good = record(tmp_path, "1-good", "Hi", "Hello").read_bytes()
    head, request, *rest = good.splitlines(keepends=True)
    upstream = next(line for line in rest if b'"upstream.request"' in line)

    def changed(name: str, **members: object) -> None:
        line = json.dumps({**json.loads(upstream), **members}).encode() + b"\n"
        (tmp_path / f"{name}.exchange.jsonl").write_bytes(head + request + line)

    changed("0-base64", base64="*", text=None)
    changed("0-url", url="http://[")
    changed("0-dialect", dialect="klingon")
    (tmp_path / "0-deep.exchange.jsonl").write_bytes(head + request + b"[" * 100_000 + b"\n")
    (tmp_path / "0-later.exchange.jsonl").write_bytes(
        head.replace(b'"version":1', b'"version":99') + request + upstream
    )
    os.mkfifo(tmp_path / "0-pipe.exchange.jsonl")
    (tmp_path / "0-zero.exchange.jsonl").symlink_to("/dev/zero")
    index = RecordingIndex(tmp_path)
    index.refresh()
    assert index.entries >= 1
    assert {entry.file.name for group in index._groups.values() for entry in group} == {"1-good.exchange.jsonl"}
