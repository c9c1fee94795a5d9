"""Documents of a dialect come back as they were, whatever one of their values is replaced by, or if it is missing.

A few do not, because what a sloppy sender wrote is written as it should have been. They stand in `written/mended/`;
`python -m tests.dialects.test_lossless` writes these files anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.case_files import cases_with
from tests.exchanges import NAMES
from tests.forms import form
from tests.laws.mutations import ODD_VALUES, at, paths
from toolglot.dialects import DIALECTS
from toolglot.errors import DecodeError, UpstreamError
from toolglot.receipt import Receipt

WRITTEN = Path(__file__).parent / "written" / "mended"
KINDS = ("request", "response")


def spoilt(document: Any) -> Iterator[tuple[str, Any]]:
    """The document with one value after the other replaced or taken out: the same object, so use it at once."""
    for path in paths(document)[1:]:
        holder, last = at(document, path[:-1]), path[-1]
        place = "".join("[]" if isinstance(step, int) else f".{step}" for step in path)
        whole = holder[last]
        for odd in ODD_VALUES:
            holder[last] = odd
            yield f"${place} = {json.dumps(odd)}", document
        holder[last] = whole
        if isinstance(holder, dict):
            members = dict(holder)
            del holder[last]
            yield f"${place} is missing", document
            holder.clear()
            holder.update(members)


def again(dialect: str, kind: str, raw: bytes) -> bytes:
    it = DIALECTS[dialect]
    if kind == "request":
        return it.encode_request(it.decode_request(raw), Receipt())
    return it.encode_response(it.decode_response(raw), None, Receipt())


def mended(dialect: str, kind: str) -> list[str]:
    """What does not come back as it was."""
    found: set[str] = set()
    wire = form(dialect, kind)
    for case in cases_with(kind, dialect):
        document = case.value(kind)
        for change, changed in spoilt(document):
            try:
                raw = wire.write(changed)
                written = again(dialect, kind, raw)
            except (DecodeError, UpstreamError):
                continue
            if wire.said(written) != wire.said(raw):
                found.add(change)
    return sorted(found)


@pytest.mark.parametrize("dialect", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_document_comes_back_as_it_was_unless_it_is_mended(dialect: str, kind: str) -> None:
    known = (WRITTEN / f"{dialect}.{kind}.txt").read_text().splitlines()
    assert mended(dialect, kind) == known


if __name__ == "__main__":
    WRITTEN.mkdir(exist_ok=True)
    for each in NAMES:
        for which in KINDS:
            (WRITTEN / f"{each}.{which}.txt").write_text("".join(f"{line}\n" for line in mended(each, which)))
