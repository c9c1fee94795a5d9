"""Measures the translation of requests by the library alone. Run as a script, so that it measures whichever version of
the library is on the path.

Reads a JSON list of requests from standard input, and writes as many figures: microseconds of processor time, the best
of several runs, or null for a request that the library cannot translate.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TypedDict

from toolglot.translate import Exchange  # the name in every revision

RUNS, REPEATS = 7, 20


class Translation(TypedDict):
    client: str
    upstream: str
    model: str
    body: str


def cost(asked: Translation) -> float | None:
    content = asked["body"].encode()
    times: list[float] = []
    try:
        for _ in range(RUNS):
            start = time.process_time()
            for _ in range(REPEATS):
                Exchange(asked["client"], asked["upstream"], model=asked["model"]).request(
                    content, model=asked["model"]
                )
            times.append(time.process_time() - start)
    except Exception as problem:  # another version may refuse in a way of its own
        print(f"{asked['client']} -> {asked['upstream']}: {problem!r}", file=sys.stderr)
        return None
    return 1e6 * min(times) / REPEATS


if __name__ == "__main__":
    json.dump([cost(asked) for asked in json.load(sys.stdin)], sys.stdout)
