"""Every case in `cases/` becomes exactly what its goldens say, in every other dialect."""

from __future__ import annotations

import pytest

from tests.case_files import CASES, Case, cases_with, goldens
from toolglot.dialects import DIALECTS

NAMES = [f"{case.dialect}/{case.name}" for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_case_becomes_what_its_goldens_say(case: Case) -> None:
    wanted = {golden.path: golden.content for golden in goldens(case)}
    assert {path.name for path in case.folder.glob("*.to-*")} == {path.name for path in wanted}
    for path, content in wanted.items():
        assert content == path.read_bytes(), f"{path.name}: `python -m tests.regenerate_cases` rewrites it"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_has_a_full_case_and_a_round_trip(dialect: str) -> None:
    assert {"full", "tool_round_trip"} <= {case.name for case in cases_with("request", dialect)}
    assert {"full", "text_and_two_calls"} <= {case.name for case in cases_with("stream", dialect)}
    assert {"full", "text_and_two_calls"} <= {case.name for case in cases_with("response", dialect)}
