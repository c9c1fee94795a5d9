"""Settings for the property tests: the same examples in every run, and no deadline on a busy machine. `--rows` takes a
sample of large tables, for runs that a contributor waits for."""

from __future__ import annotations

import gc
import signal
from collections import defaultdict
from collections.abc import Generator
from hashlib import sha256

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
settings.register_profile("quick", parent=settings.get_profile("ci"), max_examples=10)
settings.register_profile("deep", parent=settings.get_profile("ci"), derandomize=False, max_examples=300)
settings.load_profile("ci")

# A shell starts its background jobs with Ctrl-C ignored, and every process that a test starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rows", type=int, help="of each test with many rows run only so many, the same in every run")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Tens of thousands of tests stay until the end: the garbage collector would look at them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    rows: int | None = config.getoption("rows")
    if rows is None:
        return
    tables: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        tables[item.nodeid.partition("[")[0]].append(item)
    # By a hash of the name: a stride would meet the same value of one parameter again and again.
    chosen = {
        item
        for table in tables.values()
        for item in sorted(table, key=lambda item: sha256(item.nodeid.encode()).digest())[:rows]
    }
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]
