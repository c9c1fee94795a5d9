"""`parser`, the stable way in: which formats it takes, and which events it gives."""

from __future__ import annotations

import pytest

from toolglot.textcalls import FORMATS, Format, parser
from toolglot.textcalls.grammar import CallSyntax, Header

TOOLS = [{"name": "now"}]
STABLE = {"text", "reasoning", "start", "args", "end"}
PERCENT = Format(
    name="percent",
    title="%%call name, JSON, %%end",
    calls=(CallSyntax(header=Header(("%%call ",), ("\n",), r"(?P<name>\S+)"), body="json", closers=("%%end",)),),
)

HERMES_TEXTS = {
    "an id": '<tool_call>{"id": "call_1", "name": "now", "arguments": {}}</tool_call>',
    "a repair": '<tool_call>{"name": "now", "arguments": {"zone": "UTC",}}</tool_call>',
    "a cut": '<tool_call>{"name": "now", "arguments": {"zone": "U',
    "a mark that opens no call": "The mark <tool_call> opens a call.",
}


def test_a_format_of_ones_own_is_read_like_those_of_the_package() -> None:
    reader = parser(PERCENT, TOOLS)
    events = [*reader.feed('One moment.\n%%call now\n{"zone": "UTC"}\n%%end'), *reader.finish()]
    assert events == [
        ("text", "One moment.\n"),
        ("start", 0, "now"),
        ("args", 0, '{"zone": "UTC"}'),
        ("end", 0),
    ]


@pytest.mark.parametrize("text", HERMES_TEXTS.values(), ids=HERMES_TEXTS)
def test_a_record_of_the_package_does_as_well_as_its_name(text: str) -> None:
    by_name, by_record = parser("hermes_json", TOOLS), parser(FORMATS["hermes_json"], TOOLS)
    assert [*by_name.feed(text), *by_name.finish()] == [*by_record.feed(text), *by_record.finish()]


@pytest.mark.parametrize("text", HERMES_TEXTS.values(), ids=HERMES_TEXTS)
def test_no_other_events_than_the_stable_ones_come_out(text: str) -> None:
    reader = parser("hermes_json", TOOLS)
    assert {event[0] for event in [*reader.feed(text), *reader.finish()]} <= STABLE


def test_a_name_that_nobody_knows_is_told() -> None:
    with pytest.raises(ValueError, match="there is no text format 'percent'"):
        parser("percent", TOOLS)
