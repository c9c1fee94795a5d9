"""The table of faults and the tests that it names belong together."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.server.fault_cases import CASES

FOLDER = Path(__file__).parent
FILES = sorted({name.partition("::")[0] for case in CASES.values() for name in case.tests})


@pytest.mark.parametrize("number", CASES)
def test_every_case_has_the_tests_that_the_table_names(number: int) -> None:
    for name in CASES[number].tests:
        file, _, test = name.partition("::")
        text = (FOLDER / file).read_text()
        assert f"def {test or 'test_'}" in text, name


@pytest.mark.parametrize("file", FILES)
def test_every_test_with_a_number_is_in_the_table(file: str) -> None:
    for test in re.findall(r"^def (test_\d+\w+)", (FOLDER / file).read_text(), re.MULTILINE):
        number = int(test.split("_")[1])
        assert any(
            test.startswith(name.partition("::")[2]) and name.startswith(file) for name in CASES[number].tests
        ), test
