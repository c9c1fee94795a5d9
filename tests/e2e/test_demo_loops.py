"""Whole tool loops of the Vercel AI SDK on the demo upstream, in every dialect that the demo speaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from .answers import Answer, Way
from .gateway import serving
from .python_loops import RESULTS
from .ways import AI_LOOPS
from .wires import WIRES


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """The base URL of a gateway whose demo speaks a dialect."""
    with ExitStack() as stack:

        @cache
        def started(dialect: str) -> str:
            return stack.enter_context(
                serving(tmp_path_factory.mktemp(dialect), "--demo-dialect", dialect, "--demo-pace", "none")
            )

        yield started


@pytest.mark.parametrize("dialect", WIRES)
@pytest.mark.parametrize("loop", [pytest.param(loop, id=loop.name) for loop in AI_LOOPS])
def test_the_demo_calls_two_tools_and_tells_what_they_said(demo: Callable[[str], str], loop: Way, dialect: str) -> None:
    answer = loop.ask(demo(dialect))
    assert isinstance(answer, Answer), answer
    assert {call.name for call in answer.calls} == {"get_weather", "get_time"}
    for call in answer.calls:
        assert RESULTS[call.name][0] in answer.text
