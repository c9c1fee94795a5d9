"""Programs that some tests run and that a machine may lack: those tests are skipped with a visible line.

With `TOOLGLOT_NO_SKIPS=1`, as `make test-all` sets it, a missing program is a failure.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from importlib.util import find_spec

import pytest

NO_SKIPS = os.environ.get("TOOLGLOT_NO_SKIPS") == "1"


def need(program: str) -> None:
    """Skip the test that calls this where there is no such program."""
    if shutil.which(program) is None:
        reason = f"there is no `{program}` on this machine"
        if NO_SKIPS:
            pytest.fail(reason)
        pytest.skip(reason)


def has_packages(names: Iterable[str]) -> bool:
    """Whether these packages are installed; what needs them is left out otherwise."""
    missing = sorted({name for name in names if find_spec(name) is None})
    if missing and NO_SKIPS:
        pytest.fail(f"not installed: {', '.join(missing)}")
    return not missing
