"""The SDKs are there. Where they are not, the tests that need them are left out, and these say so."""

from __future__ import annotations

import pytest

from .needs import MISSING_JS, MISSING_PYTHON, NO_SKIPS


@pytest.mark.parametrize(
    ("language", "missing"), [("Python", MISSING_PYTHON), ("JavaScript", MISSING_JS)], ids=["python", "javascript"]
)
def test_the_official_sdks_are_installed(language: str, missing: list[str]) -> None:
    if missing:
        reason = f"{language} SDKs are missing: {', '.join(missing)}. Run tests/e2e/setup.sh."
        if NO_SKIPS:
            pytest.fail(reason)
        pytest.skip(reason)
