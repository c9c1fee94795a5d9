"""The lines of a recording, and how they are read: also those of a later version, and those that end too early."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolglot.errors import DecodeError
from toolglot.recordings.format import (
    ClientData,
    RecordingEnd,
    RecordingHead,
    UpstreamData,
    body_members,
    decoder,
    encoder,
)
from toolglot.recordings.read import read_recording

SAMPLES = sorted((Path(__file__).parent / "samples").glob("*.jsonl"))

HEAD = b'{"type":"exchange","version":1,"id":"req_1","client":"anthropic"}\n'
REQUEST = b'{"type":"client.request","text":"{}","path":"/v1/messages"}\n'


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name.partition(".")[0])
def test_a_recording_is_read_whole_and_its_lines_are_written_back_the_same(path: Path) -> None:
    data = path.read_bytes()
    recording = read_recording(data)
    assert recording.whole
    assert b"".join(encoder.encode(line) + b"\n" for line in recording.lines) == data
    assert [line.at for line in recording.lines] == sorted(line.at for line in recording.lines)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name.partition(".")[0])
def test_a_recording_cut_anywhere_behind_the_request_can_be_read(path: Path) -> None:
    data = path.read_bytes()
    first = len(b"".join(data.splitlines(keepends=True)[:2]))
    for cut in range(first, len(data) - 1, 97):
        recording = read_recording(data[:cut])
        assert not recording.whole
        assert recording.request.path == "/v1/messages"


@pytest.mark.parametrize("data", [b"plain", "Grüße 漢字".encode(), b"\xff\xfe\x00", b"", b'{"a":"b"}\n'])
def test_bytes_of_any_kind_come_back_from_a_line(data: bytes) -> None:
    line = decoder.decode(encoder.encode(UpstreamData(at=1.5, attempt=2, **body_members(data))))
    assert isinstance(line, UpstreamData)
    assert (line.data, line.at, line.attempt) == (data, 1.5, 2)


def test_what_a_later_version_adds_is_left_alone() -> None:
    later = b'{"type":"weather","at":1,"sunny":true}\n'
    more = b'{"type":"client.data","at":2,"text":"hi","colour":"red"}\n'
    recording = read_recording(HEAD + REQUEST + later + more + b'{"type":"end","at":3}\n')
    assert recording.body == b"hi"
    assert recording.whole
    assert isinstance(recording.lines[2], ClientData)


def test_a_cut_recording_is_not_whole() -> None:
    cut = encoder.encode(RecordingEnd(at=1, cut="too large")) + b"\n"
    assert not read_recording(HEAD + REQUEST + cut).whole


@pytest.mark.parametrize(
    "data",
    [b"", b"\n\n", b"{}", b"not JSON\n" + REQUEST, HEAD, REQUEST + HEAD, HEAD + b"not JSON\n" + REQUEST],
)
def test_what_is_no_recording_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        read_recording(data)


def test_an_answer_to_nobody_is_refused() -> None:
    with pytest.raises(DecodeError, match="no such request"):
        read_recording(HEAD + REQUEST + b'{"type":"upstream.end","attempt":7}\n')


def test_the_head_says_what_the_exchange_was() -> None:
    head = decoder.decode(HEAD)
    assert isinstance(head, RecordingHead)
    assert (head.id, head.client, head.stream) == ("req_1", "anthropic", False)
