"""Checks of configured prices: they must suffice to compute a cost."""

from __future__ import annotations

from time import time

from toolglot.config.build import RecordBuilder
from toolglot.config.schema import Config


def check_prices(config: Config, builder: RecordBuilder) -> None:
    """Check that a model outside the table has `input` and `output`. Both are 0 for a free model."""
    for name, price in config.prices.items():
        if (price.input is not None and price.output is not None) or not builder.is_right(("prices", name)):
            continue
        if not _is_known(config, name):
            message = "the table of prices has no such model, so `input` and `output` are needed"
            builder.add_problem(("prices", name), message, "`toolglot prices` lists the models")


def _is_known(config: Config, name: str) -> bool:
    """Whether the table, or the entry of the model for every upstream, has a price that this entry changes."""
    from toolglot.prices import load_prices  # only for entries that change a price

    model = name.partition("/")[2]
    whole = config.prices.get(model)
    if whole is not None and whole.input is not None and whole.output is not None:
        return True
    table, now = load_prices(), time()
    return bool(table.find_all(name, at=now) or (model and table.find_all(model, at=now)))
