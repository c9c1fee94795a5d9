from __future__ import annotations

import pytest

from toolglot.ir import Cache, Message, Request, Text, Tool
from toolglot.passes import cache

from .targets import ANTHROPIC, CHAT, GEMINI, answered, asked, calls, lines, result, to, tool, user


def marked(seconds: int | None = None) -> Message:
    return Message(role="user", content=(Text(text="x", cache=Cache(seconds)),))


def marks(request: Request) -> list[Cache | None]:
    tools = [tool.cache for tool in request.tools if isinstance(tool, Tool)]
    return tools + [b.cache for m in request.messages for b in m.content if isinstance(b, Text)]


def test_breakpoints_go_with_one_line_where_the_target_has_none() -> None:
    context = to(GEMINI)
    request = cache.fit(asked(marked(), marked(300), tools=(tool(cache=Cache()),), cache=Cache()), context)
    assert (marks(request), request.cache) == ([None, None, None], None)
    assert lines(context) == ["note cache"]


def test_the_last_breakpoints_stay() -> None:
    context = to(ANTHROPIC)
    request = cache.fit(asked(*[marked()] * 5, tools=(tool(cache=Cache()),)), context)
    assert marks(request) == [None, None, Cache(), Cache(), Cache(), Cache()]
    assert lines(context) == ["note cache"]


@pytest.mark.parametrize(
    ("seconds", "expected"), [(None, None), (300, 1800), (3600, 43200), (1800, 1800), (90000, 43200)]
)
def test_a_lifetime_is_the_shortest_that_is_long_enough(seconds: int | None, expected: int | None) -> None:
    request = cache.fit(asked(marked(seconds)), to(CHAT))
    assert marks(request) == [Cache(expected)]


def test_breakpoints_on_tools_calls_and_results_go_where_only_parts_may_have_them() -> None:
    context = to(CHAT)
    request = cache.fit(asked(marked(), answered(result("a", cache=Cache())), tools=(tool(cache=Cache()),)), context)
    assert marks(request) == [None, Cache()]
    assert request.messages[1].content == (result("a"),)
    assert lines(context) == ["note tools[0].cache", "note messages[1].content[0].cache"]


def test_a_breakpoint_for_the_whole_request_stands_on_its_last_block_elsewhere() -> None:
    context = to(CHAT)
    request = cache.fit(asked(user(), answered(result("a")), cache=Cache()), context)
    assert request.cache is None
    assert marks(request) == [Cache()]
    assert lines(context) == ["note cache"]


def test_a_breakpoint_for_the_whole_request_goes_where_no_block_can_carry_it() -> None:
    context = to(CHAT)
    request = asked(calls("c"), cache=Cache())
    assert cache.fit(request, context) == asked(calls("c"))
    assert lines(context) == ["note cache"]


def test_legal_breakpoints_stay_as_they_are() -> None:
    request = asked(marked(300), marked(), tools=(tool(cache=Cache(3600)),), cache=Cache())
    context = to(ANTHROPIC)
    assert cache.fit(request, context) == request
    assert not context.receipt


@pytest.mark.parametrize(
    ("on_block", "on_request", "stays"),
    [(43200, 1800, 43200), (1800, 43200, 43200), (43200, None, 43200), (None, 43200, 43200), (1800, None, 1800)],
)
def test_a_breakpoint_for_the_whole_request_never_shortens_that_of_the_last_block(
    on_block: int | None, on_request: int | None, stays: int
) -> None:
    request = cache.fit(asked(marked(on_block), cache=Cache(on_request)), to(CHAT))
    assert marks(request) == [Cache(stays)]
