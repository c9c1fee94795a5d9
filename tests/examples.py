"""How many examples Hypothesis tries, as a share of its profile's number: `quick` and `deep` scale every test."""

from __future__ import annotations

from hypothesis import settings

FEWEST = 5


def examples(share: float) -> settings:
    return settings(max_examples=max(round(settings().max_examples * share), FEWEST))


PER_PAIR = examples(1 / 3)
"""For each pair of dialects: a law that holds for each of them alone tries more."""
