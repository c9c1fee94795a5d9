from __future__ import annotations

from toolglot.ir import Opaque, Text, Tool, ToolResult
from toolglot.passes import deferred

from .targets import ANTHROPIC, CHAT, RESPONSES, answered, asked, calls, lines, to, tool, user

REFERENCE = Opaque("anthropic", {"type": "tool_reference", "tool_name": "found"})
SEARCH = ToolResult(call_id="c", content=(REFERENCE,))


def test_a_deferred_tool_is_offered_once_something_refers_to_it() -> None:
    context = to(CHAT, source="anthropic")
    tools = (tool("search"), tool("found", deferred=True), tool("hidden", deferred=True), tool("used", deferred=True))
    history = (user(), calls("c", name="search"), answered(SEARCH), calls("d", name="used"))
    request = deferred.offer(asked(*history, tools=tools), context)
    assert [(t.name, t.deferred) for t in request.tools if isinstance(t, Tool)] == [
        ("search", False),
        ("found", False),
        ("used", False),
    ]
    assert lines(context) == ["note tools[2]"]


def test_a_reference_is_told_in_words_with_or_without_its_tool() -> None:
    for tools in ((tool("found", deferred=True),), ()):
        request = deferred.offer(asked(user(), calls("c"), answered(SEARCH), tools=tools), to(CHAT))
        (block,) = request.messages[2].content
        assert isinstance(block, ToolResult)
        assert block.content == (Text(text="The tool found can be called now."),)


def test_all_are_offered_when_their_search_ran_at_the_vendor() -> None:
    search = Opaque("anthropic", {"type": "tool_search_tool_regex_20251119", "name": "search"})
    request = deferred.offer(asked(user(), tools=(search, tool("found", deferred=True))), to(CHAT, source="anthropic"))
    assert request.tools == (search, tool("found"))


def test_references_of_one_dialect_mean_nothing_to_another_that_defers_tools() -> None:
    tools = (tool("found", deferred=True), tool("hidden", deferred=True))
    request = deferred.offer(
        asked(user(), calls("c"), answered(SEARCH), tools=tools), to(RESPONSES, source="anthropic")
    )
    assert request.tools == (tool("found"),)


def test_deferred_tools_stay_in_their_own_dialect() -> None:
    request = asked(user(), answered(SEARCH), tools=(tool("found", deferred=True),))
    assert deferred.offer(request, to(ANTHROPIC, source="anthropic")) is request
