"""What translating a request costs the library alone, in a version that its environment names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from bench.gateway.cases import Case
from bench.gateway.processes import pinned
from bench.gateway.requests import body, model_name

SCRIPT = Path(__file__).parent.parent / "library_cost.py"


class LibraryError(Exception):
    """The library cannot be measured in this environment."""


def library_costs(cases: Sequence[Case], environment: Mapping[str, str], cores: Collection[int]) -> dict[Case, float]:
    """Microseconds of CPU for the request of each case; those that the library cannot translate are left out."""
    asked = {(case.route, case.asked, case.style.streamed): _translation(case) for case in cases}
    # -P: modules beside the script must not hide others.
    command = pinned(cores, [sys.executable, "-P", str(SCRIPT)])
    found = subprocess.run(
        command,
        input=json.dumps(list(asked.values())),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    if found.returncode:
        raise LibraryError(found.stderr.strip()[-300:])
    costs = dict(zip(asked, json.loads(found.stdout), strict=True))
    by_case = {case: costs[case.route, case.asked, case.style.streamed] for case in cases}
    return {case: cost for case, cost in by_case.items() if cost is not None}


def _translation(case: Case) -> dict[str, str]:
    client, upstream = case.route
    model = model_name(upstream)
    content = body(client, case.asked, model=model, streamed=case.style.streamed)
    return {"client": client, "upstream": upstream, "model": model, "body": content.decode()}
