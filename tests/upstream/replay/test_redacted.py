"""Requests in which numbers were redacted: they are found again by what stands around these, and by nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.exchanges import JSON_NAMES
from tests.server.gateway import Answer, at, gateway
from toolglot.config.schema import RecordConfig
from toolglot.recordings.linear_regex import LinearPattern
from toolglot.recordings.redact import Redactor
from toolglot.recordings.redacted_spans import mark_numbers

COORDINATES = r"-?[0-9]+\.[0-9]+, ?-?[0-9]+\.[0-9]+"
TOOLS = [{"name": "geo", "input_schema": {"type": "object"}}]


def asked(
    where: str = "48.8566, 2.3522", at_place: tuple[float, float] = (48.8566, 2.3522), limit: int = 99, **more: Any
) -> dict[str, Any]:
    """A tool round trip whose arguments are numbers."""
    call = {"type": "tool_use", "id": "t1", "name": "geo", "input": {"at": list(at_place), **more}}
    return {
        "max_tokens": limit,
        "messages": [
            {"role": "user", "content": f"Where is {where}?"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "Paris"}]},
        ],
        "tools": TOOLS,
    }


def replayed(
    folder: Path, upstream: str, then: dict[str, Any], *now: dict[str, Any], pattern: str = COORDINATES, again: str = ""
) -> list[Answer]:
    """What is answered from the recording of one request to others. `again` is the pattern of whoever replays."""
    record = RecordConfig(directory=str(folder), redact=(pattern,))
    with gateway(at(upstream, "demo:"), record=record) as running:
        assert running.ask("anthropic", body=then).status == 200
    replaying = RecordConfig(redact=(again,)) if again else RecordConfig()
    with gateway(at(upstream, f"replay:{folder}"), record=replaying) as running:
        return [running.ask("anthropic", body=body) for body in now]


@pytest.mark.parametrize("upstream", JSON_NAMES)
def test_a_request_whose_numbers_were_redacted_is_found_again(tmp_path: Path, upstream: str) -> None:
    same, elsewhere, other, limited = replayed(
        tmp_path,
        upstream,
        asked(),
        asked(),
        asked("52.52, 13.405", (52.52, 13.405)),
        asked("the river", (48.8566, 2.3522)),
        asked(limit=50),
    )
    assert [answer.status for answer in (same, elsewhere, other)] == [200, 200, 400]
    assert same.headers["x-toolglot-recording"].endswith("match=redacted")
    assert limited.status == 400, "a number that is really 99 is no hole"


def test_a_real_number_of_nines_is_the_same_as_itself_and_as_no_other(tmp_path: Path) -> None:
    nines = asked(count=9999, text="9999 of 9999")
    same, other = replayed(tmp_path, "openai_chat", nines, nines, asked(count=1234, text="9999 of 1234"))
    assert (same.status, other.status) == (200, 400)
    assert b"count" in other.body or b"1234" in other.body


def test_whoever_replays_with_the_same_pattern_finds_the_request_itself(tmp_path: Path) -> None:
    (answer,) = replayed(tmp_path, "openai_chat", asked(), asked(), again=COORDINATES)
    assert answer.status == 200
    assert "x-toolglot-recording" not in answer.headers


@pytest.mark.parametrize("pattern", [r"\d+", r"[0-9]\.[0-9]", r"8566", r"-?\d+\.\d+", r"\d{4,}"])
@pytest.mark.parametrize("upstream", ["openai_chat", "anthropic"])
def test_whatever_part_of_numbers_a_pattern_matches_the_request_is_found(
    tmp_path: Path, pattern: str, upstream: str
) -> None:
    body = asked(number=-1.5e10, text="1,234.5678", many=[10, 2, 3.25])
    (answer,) = replayed(tmp_path, upstream, body, body, pattern=pattern)
    assert answer.status == 200, answer.body


def test_what_differs_is_told_without_what_was_redacted(tmp_path: Path) -> None:
    (answer,) = replayed(tmp_path, "anthropic", asked(), asked("1.5, 2.5", (1.5, 2.5), limit=7))
    told = answer.body.decode()
    assert "max_tokens is recorded as 99, requested as 7" in told
    assert "content" not in told


TIMES = [
    ("Today is 2026-11-15.", "Today is 2027-01-02."),
    ("at 2026-11-15T10:11:12.5Z, so", "at 2027-01-02T03:04:05Z, so"),
    ("at 2026-11-15 10:11:12 +0100 and 10:11:12", "at 2027-01-02 03:04:05 +0200 and 03:04:05"),
    ("on 11/15/2026, 9:11:12 AM", "on 1/2/2027, 11:04:05 PM"),
    ("Sun Nov 15 10:11:12 UTC 2026", "Sat Jan  2 03:04:05 UTC 2027"),
    ("t=1763200000 x", "t=1798858245 x"),
    ('{"now": 1763201472.25}', '{"now": 1798858245.5}'),
    ("run 12345678-1111-4111-8111-111111111111 x", "run 6f9619ff-8b86-d011-b42d-00c04fc964ff x"),
    ("run 1a2b3c4d-1111-4111-8111-aaaaaaaaaaaa x", "run 6f9619ff-8b86-d011-b42d-00c04fc964ff x"),
    ("Chunk ID: 12ab34567\nWall time: 0.05123 seconds", "Chunk ID: ff00\nWall time: 1.2 seconds"),
    ('{"metadata":{"duration_seconds":0.12345}}', '{"metadata":{"duration_seconds":2.5}}'),
]


@pytest.mark.parametrize("pattern", [r"[0-9]{4,}", r"[0-9]+", r"-?[0-9]+", r"[0-9]{4}-[0-9]{2}", r"[0-9a-f]{12}"])
def test_what_changes_from_run_to_run_is_found_though_a_part_of_it_was_redacted(tmp_path: Path, pattern: str) -> None:
    for number, (then, now) in enumerate(TIMES):
        asked_then, asked_now = asked(then), asked(now)
        folder = tmp_path / str(number)
        same, later = replayed(folder, "openai_chat", asked_then, asked_then, asked_now, pattern=pattern)
        assert (same.status, later.status) == (200, 200), (then, same.body, later.body)


def test_what_looks_like_a_time_only_where_it_was_redacted_is_found_as_well(tmp_path: Path) -> None:
    texts = ("call 5551234567", "order 5-12345-7", "at 1:2:34567", "2026/1/2/3", "build-1763201472")
    for number, text in enumerate(texts):
        found, other = replayed(
            tmp_path / str(number), "openai_chat", asked(text), asked(text), asked(f"{text}!"), pattern=r"[0-9]+"
        )
        assert (found.status, other.status) == (200, 400), text


def test_a_name_and_a_number_may_stand_side_by_side(tmp_path: Path) -> None:
    body = asked("John Smith 12345 now")
    (answer,) = replayed(tmp_path, "openai_chat", body, body, pattern=r"[A-Z][a-z]+ [A-Z][a-z]+|[0-9]{4,}")
    assert answer.status == 200, answer.body


def test_a_number_is_no_list_and_no_object(tmp_path: Path) -> None:
    then = asked(n=123456)
    values: tuple[Any, ...] = ({}, [], [1, 2], None, "x")
    others = [asked(n=value) for value in values]
    for upstream in ("openai_chat", "anthropic"):
        folder = tmp_path / upstream
        same, *different = replayed(folder, upstream, then, asked(n=7), *others, pattern=r"[0-9]{5,}")
        assert same.status == 200
        assert [answer.status for answer in different] == [400] * len(others)


def holed(text: str, pattern: str) -> str:
    redacted = Redactor(finders=[LinearPattern(pattern).find]).redact_body(text.encode())
    return mark_numbers(redacted.data.decode(), redacted.numbers)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (r"\d+", '{"a": 12, "b": "x 34"}', '{"a": "[redacted number]", "b": "x [redacted digits]"}'),
        (r"34", '{"é": 1234.5, "b": 99}', '{"é": "[redacted number]", "b": 99}'),
        (r"1.*", '{"a": [1, "b", 99]}', '{"a": ["[redacted number]", "[redacted]", "[redacted number]"]}'),
        (r"x", '{"a": 99}', '{"a": 99}'),
        (r"[0-9][0-9., -]+", '"at 48.85, -2.35."', '"at [redacted digits], [redacted digits]."'),
        (r"[0-9]{4}-[0-9]{2}", '"2026-11-15"', '"[redacted digits]-[redacted digits]-15"'),
    ],
)
def test_a_hole_stands_where_a_number_was_redacted(pattern: str, text: str, expected: str) -> None:
    assert holed(text, pattern) == expected


def test_places_are_right_in_a_body_of_many_pieces() -> None:
    text = '{"a": "' + "é 99 " * 60_000 + '", "b": 1234, "c": 99}'
    assert holed(text, "1234") == text.replace("1234", '"[redacted number]"')


@pytest.mark.parametrize("numbers", [[0, 2], [6, 2], [100, 4], [-5, 3], [5], [8, 1, 2, 3]])
def test_places_that_are_not_of_nines_are_no_holes(numbers: list[int]) -> None:
    assert mark_numbers('{"a": 12, "b": 3}', numbers) == '{"a": 12, "b": 3}'
