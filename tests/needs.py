"""Programs that some tests run and that a machine may lack: those tests are skipped with a visible line.

With `TOOLGLOT_NO_SKIPS=1`, as `make test-all` sets it, a missing program is a failure.
"""

from __future__ import annotations

import os
import shutil

import pytest

NO_SKIPS = os.environ.get("TOOLGLOT_NO_SKIPS") == "1"


def need(program: str) -> None:
    """Skip the test that calls this where there is no such program."""
    if shutil.which(program) is None:
        reason = f"there is no `{program}` on this machine"
        if NO_SKIPS:
            pytest.fail(reason)
        pytest.skip(reason)
