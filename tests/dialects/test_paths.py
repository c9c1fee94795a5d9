"""Whatever is wrong in a document or a frame, the error names its place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.case_files import cases_with
from tests.exchanges import NAMES, check, read_events
from tests.laws.mutations import ODD_VALUES, Path, at, paths
from toolglot.dialects import DIALECTS
from toolglot.errors import DecodeError, UpstreamError
from toolglot.events import Fault

every_dialect = pytest.mark.parametrize("dialect", NAMES)


def written(path: Path) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


def names_the_place(told: str, path: Path, known: set[str], after: Any) -> bool:
    """The broken value itself, what it holds or lacks, or what holds it; a real place in any case."""
    place = written(path)
    if told == place:
        return True
    related = told.startswith(place) or place.startswith(told)
    real = known | set(map(written, paths(after)))
    is_missing = told.startswith(place) and told.rpartition(".")[0] in real
    return related and (told in real or is_missing)


def broken(document: Any) -> Iterator[tuple[Path, Any]]:
    """The document with one value after the other replaced: the same object, so use it at once."""
    for path in paths(document)[1:]:
        holder = at(document, path[:-1])
        whole = holder[path[-1]]
        for odd in ODD_VALUES:
            holder[path[-1]] = odd
            yield path, document
        holder[path[-1]] = whole


@every_dialect
@pytest.mark.parametrize("kind", ["request", "response"])
def test_an_error_names_the_place_of_what_is_wrong_in_a_document(dialect: str, kind: str) -> None:
    decode = DIALECTS[dialect].decode_request if kind == "request" else DIALECTS[dialect].decode_response
    astray: set[tuple[str, str]] = set()
    for case in cases_with(kind, dialect):
        document = case.value(kind)
        known = set(map(written, paths(document)))
        for path, spoilt in broken(document):
            try:
                decode(json.dumps(spoilt).encode())
            except DecodeError as error:
                if not names_the_place(error.where, path, known, spoilt):
                    astray.add((written(path), str(error)))
            except UpstreamError:
                pass
    assert not astray


TOLD = re.compile(r"unreadable: (\$\S*): ")
ELSEWHERE = {"$.type", "$.choices[0].index", "$.content_block.type"}
"""A frame or a block that is taken for another is missed later, at another place."""


@every_dialect
def test_a_fault_names_the_place_of_what_is_wrong_in_a_frame(dialect: str) -> None:
    astray: set[tuple[str, str]] = set()
    for case in cases_with("stream", dialect):
        lines = case.read("stream").decode().split("\n")
        for number, line in enumerate(lines):
            if not line.startswith("data: {"):
                continue
            frame = json.loads(line.removeprefix("data: "))
            known = set(map(written, paths(frame)))
            for path, spoilt in broken(frame):
                if written(path) in ELSEWHERE:
                    continue
                stream = "\n".join([*lines[:number], f"data: {json.dumps(spoilt)}", *lines[number + 1 :]])
                events = read_events(dialect, [stream.encode()])
                check(events)
                last = events[-1]
                told = TOLD.search(last.error.message) if isinstance(last, Fault) else None
                if told and not names_the_place(told[1], path, known, spoilt):
                    astray.add((written(path), told[0]))
    assert not astray
