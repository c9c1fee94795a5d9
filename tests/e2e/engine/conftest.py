"""The engine of the session, and what is done when it is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.e2e.gateway import configured_gateway
from tests.e2e.needs import MISSING_ENGINE, MISSING_PYTHON

from .engine import SERVED, running_engine
from .text_story import MODELS, STORY

# One visible skip in ../test_setup.py stands for all of these.
collect_ignore_glob = ["test_*.py"] if MISSING_ENGINE or MISSING_PYTHON else []


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of the engine, without `/v1`."""
    with running_engine(tmp_path_factory.mktemp("engine")) as base_url:
        yield base_url


@pytest.fixture(scope="session")
def gateways_to_engine(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The base URLs of gateways to the engine, by the dialect that they speak to it."""
    with ExitStack() as stack:
        yield {
            dialect: stack.enter_context(
                configured_gateway(
                    tmp_path_factory.mktemp(dialect),
                    f'vendor = "llamacpp"\nbase_url = "{engine}/v1"\ndialect = "{dialect}"',
                )
            )
            for dialect in SERVED
        }


@pytest.fixture(scope="session")
def gateways_to_text_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The base URLs of gateways to an engine that takes no tools, by the dialect that they speak to it."""
    with ExitStack() as stack:
        engine = stack.enter_context(running_engine(tmp_path_factory.mktemp("text-engine"), STORY.write, "--no-jinja"))
        yield {
            dialect: stack.enter_context(
                configured_gateway(
                    tmp_path_factory.mktemp(dialect),
                    f'vendor = "llamacpp"\nbase_url = "{engine}/v1"\ndialect = "{dialect}"\n{MODELS}',
                )
            )
            for dialect in SERVED
        }
