"""Recordings on disk: whole files, cut ones, and what happens when the disk is full, slow or not there."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.waiting import FAILSAFE
from toolglot.config.schema import RecordConfig
from toolglot.recordings.format import (
    PARTIAL_SUFFIX,
    SUFFIX,
    ClientResponse,
    RecordedClientRequest,
    RecordingEnd,
    RecordingHead,
    UpstreamEnd,
    UpstreamRequest,
    UpstreamResponse,
)
from toolglot.recordings.read import Recording, read_recording
from toolglot.recordings.writing.recorder import Recorder, RecordingOutcome, RecordingWriter

SECRET = "canary-7f3a9c2e51"


class Counts:
    def __init__(self) -> None:
        self.told: Counter[RecordingOutcome] = Counter()

    def __call__(self, outcome: RecordingOutcome) -> None:
        self.told[outcome] += 1


@contextmanager
def recording(path: Path, counts: Counts | None = None, **fields: Any) -> Iterator[Recorder]:
    recorder = Recorder(RecordConfig(directory=str(path), **fields), counts or Counts())
    recorder.start()
    try:
        yield recorder
    finally:
        recorder.close()


def begin(recorder: Recorder, name: str = "req_1", body: bytes = b'{"a":"canary-7f3a9c2e51"}') -> RecordingWriter:
    writing = recorder.begin(name, [SECRET])
    request = RecordedClientRequest(at=0.1, path=f"/v1?key={SECRET}", headers={"x-api-key": SECRET})
    writing.begin(RecordingHead(version=1, id=name, model=f"m {SECRET}"), request, body)
    return writing


def exchange(recorder: Recorder, name: str = "req_1", body: bytes = b"{}", answer: bytes = b"hello\n") -> None:
    writing = begin(recorder, name, body)
    writing.piece(0, 0.5, answer)
    writing.over(0, 0.5)
    writing.end(RecordingEnd(at=0.6))


def files(path: Path) -> list[str]:
    return sorted(os.listdir(path))


def read(path: Path) -> Recording:
    (name,) = files(path)
    return read_recording((path / name).read_bytes())


def test_everything_that_is_handed_over_is_in_the_file_and_no_secret(tmp_path: Path) -> None:
    counts = Counts()
    with recording(tmp_path / "new" / "folder", counts) as recorder:
        writing = begin(recorder)
        writing.line(UpstreamRequest(at=0.2, attempt=1, url="https://x/y"), b"{}")
        writing.line(UpstreamResponse(at=0.3, attempt=1, headers={"content-type": "text/event-stream"}))
        for letter in b"data: canary-7f3a9c2e51\n\n":
            writing.piece(1, 0.4, bytes([letter]))
        writing.piece(1, 0.45, b"no end of a line canary-7f3")
        writing.line(UpstreamEnd(at=0.5, attempt=1))
        writing.line(ClientResponse(at=0.5))
        writing.piece(0, 0.6, b"\xff\xfe")
        writing.end(RecordingEnd(at=0.7, message=f"said {SECRET}", stop="end"))
    told = read(tmp_path / "new" / "folder")
    assert told.whole
    assert told.request.data == b'{"a":"[redacted]"}'
    assert told.request.path == "/v1?key=[redacted]"
    assert told.attempts[0].body == b"data: [redacted]\n\nno end of a line canary-7f3"
    assert [piece.at for piece in told.attempts[0].pieces] == [0.4, 0.4, 0.5]
    assert told.body == b"\xff\xfe"
    assert told.end is not None
    assert told.end.message == "said [redacted]"
    assert counts.told == {"written": 1}


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    before = os.umask(0)
    try:
        with recording(path) as recorder:
            exchange(recorder)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert [stat.S_IMODE((path / name).stat().st_mode) for name in files(path)] == [0o600]


def test_a_recording_that_grows_too_large_is_cut_and_says_so(tmp_path: Path) -> None:
    counts = Counts()
    with recording(tmp_path, counts, max_exchange_bytes=2000) as recorder:
        writing = begin(recorder)
        for _ in range(100):
            writing.piece(0, 0.5, b"x" * 99 + b"\n")
        writing.end(RecordingEnd(at=1.0, stop="end"))
    told = read(tmp_path)
    assert not told.whole
    assert told.end is not None
    assert told.end.cut == "it is larger than 2000 bytes"
    assert told.end.stop == "end"
    assert 5 < len(told.pieces) < 20
    assert counts.told == {"cut": 1}


def test_a_request_larger_than_a_recording_is_kept_by_its_beginning(tmp_path: Path) -> None:
    with recording(tmp_path, max_exchange_bytes=100_000) as recorder:
        exchange(recorder, body=b"[" + b"1," * 100_000 + b"1]")
    told = read(tmp_path)
    assert told.request.data.startswith(b"[1,1,")
    assert len(told.request.data) == 64 * 1024
    assert told.pieces == []
    assert told.end is not None
    assert told.end.cut == "the request is larger than a recording may be"


def test_beyond_a_number_of_files_the_oldest_go(tmp_path: Path) -> None:
    with recording(tmp_path, max_files=3) as recorder:
        for number in range(6):
            exchange(recorder, f"req_{number}")
    assert [name.partition("-")[2] for name in files(tmp_path)] == [f"req_{number}{SUFFIX}" for number in (3, 4, 5)]


def test_beyond_a_number_of_bytes_the_oldest_go_also_those_of_earlier_runs(tmp_path: Path) -> None:
    with recording(tmp_path) as recorder:
        for number in range(3):
            exchange(recorder, f"req_{number}", body=b"x" * 10_000)
    (tmp_path / "20200101T000000.000000Z-req_dead.exchange.jsonl.partial").write_bytes(b"y" * 10_000)
    (tmp_path / "notes.txt").write_text("not a recording")
    with recording(tmp_path, max_bytes=35_000) as recorder:
        exchange(recorder, "req_3", body=b"x" * 10_000)
        exchange(recorder, "req_4", body=b"x" * 10_000)
    left = [name.partition("-")[2] for name in files(tmp_path)]
    assert left == [*(f"req_{number}{SUFFIX}" for number in (2, 3, 4)), ""]
    assert sum((tmp_path / name).stat().st_size for name in files(tmp_path)) < 35_000


def test_a_recording_for_which_there_is_no_room_is_cut(tmp_path: Path) -> None:
    counts = Counts()
    with recording(tmp_path, counts, max_bytes=1500) as recorder:
        first, second = begin(recorder, "req_1", b"x" * 400), begin(recorder, "req_2", b"x" * 400)
        for _ in range(10):
            first.piece(0, 0.5, b"y" * 99 + b"\n")
            second.piece(0, 0.5, b"y" * 99 + b"\n")
        first.end(RecordingEnd(at=1.0))
        second.end(RecordingEnd(at=1.0))
    assert counts.told == {"cut": 2}


def test_what_a_dead_process_left_is_kept_counted_and_readable(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = f"""
import os, signal
from tests.recordings.test_write import *
recorder = Recorder(RecordConfig(directory={str(tmp_path)!r}), Counts())
recorder.start()
writing = begin(recorder)
for number in range(50):
    writing.piece(0, 0.5, b"line %d\\n" % number)
while not any(b"line 49" in path.read_bytes() for path in recorder.folder.path.iterdir()): pass
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parents[2])
    assert done.returncode == -9
    (name,) = files(tmp_path)
    assert name.endswith(SUFFIX + PARTIAL_SUFFIX)
    data = (tmp_path / name).read_bytes()
    told = read_recording(data)
    assert not told.whole
    assert told.body.endswith(b"line 49\n")
    assert read_recording(data[:-20]).body.endswith(b"line 48\n")
    with caplog.at_level("INFO"), recording(tmp_path) as recorder:
        exchange(recorder, "req_2")
    assert "1 recordings" in caplog.text
    assert len(files(tmp_path)) == 2


def test_a_full_disk_is_in_the_log_for_each_exchange_and_recording_goes_on_when_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = Counts()
    full = threading.Event()
    write = os.write

    def limited(file: int, data: memoryview) -> int:
        if full.is_set():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data)

    with recording(tmp_path, counts) as recorder:
        monkeypatch.setattr(os, "write", limited)
        full.set()
        for number in range(3):
            exchange(recorder, f"req_{number}")
        done = threading.Event()
        recorder.enqueue_always(0, done.set)
        assert done.wait(FAILSAFE)
        full.clear()
        exchange(recorder, "req_3")
    assert [record.getMessage() for record in caplog.records] == [
        f"request req_{number}: its recording in {tmp_path} was not written: No space left on device"
        for number in range(3)
    ]
    assert counts.told == {"dropped": 3, "written": 1}
    assert read(tmp_path).head.id == "req_3"


def test_a_disk_that_becomes_full_in_the_middle_leaves_a_part_and_a_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = Counts()
    with recording(tmp_path, counts) as recorder:
        writing = begin(recorder, "req_1")
        done = threading.Event()
        recorder.enqueue_always(0, recorder._write_all)
        recorder.enqueue_always(0, done.set)
        assert done.wait(FAILSAFE)

        def full(file: int, data: memoryview) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "write", full)
        writing.piece(0, 0.5, b"hello\n")
        writing.end(RecordingEnd(at=1.0))
    assert [record.getMessage() for record in caplog.records] == [
        f"request req_1: its recording in {tmp_path} is incomplete: No space left on device"
    ]
    assert counts.told == {"cut": 1}


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(NotADirectoryError), recording(tmp_path / "file" / "folder"):
        pass


def test_a_folder_that_somebody_took_away_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    with recording(path) as recorder:
        done = threading.Event()
        recorder.enqueue_always(0, done.set)
        assert done.wait(FAILSAFE)
        path.rmdir()
        exchange(recorder)
    assert read(path).whole


def test_while_the_disk_is_slow_recordings_are_cut_and_nobody_waits(tmp_path: Path) -> None:
    counts = Counts()
    with recording(tmp_path, counts) as recorder:
        recorder.waiting_limit = 10_000
        go_on = threading.Event()
        writing = begin(recorder)
        recorder.enqueue_always(0, go_on.wait, 10)
        for _ in range(1000):
            writing.piece(0, 0.5, b"x" * 99 + b"\n")
        writing.end(RecordingEnd(at=1.0))
        assert recorder._handed - recorder._done < 15_000
        go_on.set()
    told = read(tmp_path)
    assert told.end is not None
    assert told.end.cut == "the disk was too slow"
    assert 0 < len(told.pieces) < 30
    assert counts.told == {"cut": 1}


def test_many_recordings_at_once_take_few_handles(tmp_path: Path) -> None:
    with recording(tmp_path) as recorder:
        all_of_them = [begin(recorder, f"req_{number:03}") for number in range(200)]
        for writing in all_of_them:
            writing.piece(0, 0.5, b"hello\n")
        for writing in all_of_them:
            writing.end(RecordingEnd(at=1.0))
        done = threading.Event()
        recorder.enqueue_always(0, done.set)
        assert done.wait(FAILSAFE)
        assert len(recorder.folder._handles) == 0
    assert all(read_recording((tmp_path / name).read_bytes()).whole for name in files(tmp_path))
    assert len(files(tmp_path)) == 200


def test_a_folder_that_may_not_be_written_to_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(PermissionError), recording(tmp_path):
        pass


def test_a_recording_that_takes_a_pattern_too_much_work_is_cut_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolglot.recordings.linear_regex.MAX_WORK", 50_000)
    counts = Counts()
    hard = "".join(Random(1).choices("ab", k=60_000)).encode()
    with recording(tmp_path, counts, redact=("(a|b)*a(a|b){150}",)) as recorder:
        for name in ("req_1", "req_2"):
            exchange(recorder, name, b'{"x":"%s"}' % hard)
        writing = begin(recorder, "req_3")
        writing.piece(0, 0.5, hard + b"\n")
        writing.piece(0, 0.5, b"no more\n")
        writing.end(RecordingEnd(at=1.0))
    assert counts.told == {"cut": 3}
    told = [read_recording((tmp_path / name).read_bytes()) for name in files(tmp_path)]
    assert {each.end.cut for each in told if each.end is not None} == {"a pattern of record.redact took too much work"}
    assert [(each.request.data, each.body) for each in told] == [(b"", b""), (b"", b""), (b'{"a":"[redacted]"}', b"")]
    assert len(caplog.records) == 1
    assert "(a|b)*a(a|b){150}" in caplog.text


def test_what_cannot_be_written_before_the_end_of_the_process_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolglot.recordings.writing.recorder.CLOSE_TIMEOUT", 0.01)
    written, go_on = threading.Event(), threading.Event()
    with recording(tmp_path) as recorder:
        exchange(recorder)
        recorder.enqueue_always(0, written.set)
        assert written.wait(60)
        recorder.enqueue_always(0, go_on.wait, 60)
        exchange(recorder)
        exchange(recorder)
    go_on.set()
    recorder.close()
    assert [record.getMessage() for record in caplog.records] == [
        "2 recordings were not finished in 0.01 seconds: the missing parts are lost"
    ]


def test_a_file_that_another_process_is_writing_is_not_removed_to_make_room(tmp_path: Path) -> None:
    script = f"""
from tests.recordings.test_write import *
with recording(Path({str(tmp_path)!r})) as recorder:
    writing = begin(recorder, "req_0")
    while not files(recorder.folder.path): pass
    print(flush=True)
    input()
    writing.end(RecordingEnd(at=1.0))
"""
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdout.readline()
        counts = Counts()
        with recording(tmp_path, counts, max_files=2) as recorder:
            for number in range(1, 5):
                exchange(recorder, f"req_{number}")
        assert counts.told == {"written": 4}
        other.communicate(b"\n")
    ids = [read_recording((tmp_path / name).read_bytes()).head.id for name in files(tmp_path)]
    assert ids == ["req_0", "req_4"]


def test_room_that_others_have_left_is_found(tmp_path: Path) -> None:
    busy = tmp_path / f"20260102T030405.000000Z-req_0{SUFFIX}{PARTIAL_SUFFIX}"
    busy.write_bytes(b"x\n")
    with busy.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        counts = Counts()
        with recording(tmp_path, counts, max_files=1) as recorder:
            exchange(recorder)
            done = threading.Event()
            recorder.enqueue_always(0, done.set)
            assert done.wait(FAILSAFE)
            file.close()
            exchange(recorder)
    assert counts.told == {"dropped": 1, "written": 1}


def _fail(*_: object) -> Any:
    raise RuntimeError("a fault in here")


def test_a_recording_that_failed_is_told_to_be_cut_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    counts = Counts()
    with recording(tmp_path, counts) as recorder:
        writing = begin(recorder)
        for attempt in (1, 2, 3):
            writing.deferred_line(UpstreamRequest(at=0.2, attempt=attempt, url="https://x/y"), 0, _fail)
        writing.piece(0, 0.5, b"hello\n")
        writing.end(RecordingEnd(at=0.6, stop="end"))
    told = read(tmp_path)
    assert told.end is not None
    assert told.end.cut == "an internal error of toolglot (see the log)"
    assert (told.request.data, told.attempts, told.body) == (b'{"a":"[redacted]"}', [], b"")
    assert counts.told == {"cut": 1}
    (said,) = caplog.records
    assert "-req_1.exchange.jsonl failed, and is cut" in said.getMessage()


def test_a_recording_of_which_nothing_is_left_is_dropped_and_others_are_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    counts = Counts()
    with recording(tmp_path, counts, redact=("x",)) as recorder:
        finders, recorder.finders = recorder.finders, (_fail,)
        exchange(recorder, "req_1")
        recorder.finders = finders
        exchange(recorder, "req_2")
    assert counts.told == {"dropped": 1, "written": 1}
    assert len(files(tmp_path)) == len(caplog.records) == 1


def test_a_fault_at_the_end_leaves_what_was_there_and_is_told(tmp_path: Path) -> None:
    counts = Counts()

    def find(text: str) -> Any:
        return _fail() if "at the end" in text else ()

    with recording(tmp_path, counts) as recorder:
        recorder.finders = (find,)
        writing = begin(recorder)
        writing.end(RecordingEnd(at=0.6, message="a secret at the end"))
    assert counts.told == {"cut": 1}
    assert read(tmp_path).end == RecordingEnd(at=0.6, cut="an internal error of toolglot (see the log)")
