"""What the tests need is there. Where it is not, the tests that need it are left out, and these say so."""

from __future__ import annotations

import pytest

from tests.needs import NO_SKIPS

from .needs import MISSING


@pytest.mark.parametrize("what", MISSING)
def test_what_the_tests_need_is_installed(what: str) -> None:
    if missing := MISSING[what]:
        reason = f"missing of {what}: {', '.join(missing)}. Run tests/e2e/setup.sh."
        if NO_SKIPS:
            pytest.fail(reason)
        pytest.skip(reason)
