"""`parser`, the stable way in: which formats it takes, and which events it gives."""

from __future__ import annotations

import pytest

from toolglot.textcalls import FORMATS, ArgumentsPart, CallCut, CallStart, Format, TextPart, parser
from toolglot.textcalls.grammar import CallSyntax, Header

TOOLS = [{"name": "now"}]
STABLE = {"text", "reasoning", "start", "args", "end", "cut"}
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


def test_a_call_that_is_cut_has_an_event_of_its_own_and_no_end() -> None:
    reader = parser("hermes_json", TOOLS)
    events = [*reader.feed(HERMES_TEXTS["a cut"]), *reader.finish()]
    assert [type(event) for event in events] == [CallStart, ArgumentsPart, CallCut]
    cut = events[-1]
    assert isinstance(cut, CallCut)
    assert (cut.call, cut.raw) == (0, '{"zone": "U')
    assert cut.why


def test_a_token_limit_leaves_a_call_without_its_mark_incomplete() -> None:
    text = '<function_calls>\n<invoke name="now">\n<parameter name="zone">UTC</parameter>\n'
    whole, limited = parser("anthropic_xml", TOOLS), parser("anthropic_xml", TOOLS)
    assert [event.kind for event in [*whole.feed(text), *whole.finish()]][-1] == "end"
    assert [event.kind for event in [*limited.feed(text), *limited.finish(cut=True)]][-1] == "cut"


def test_events_are_records_with_names() -> None:
    reader = parser("hermes_json", TOOLS)
    names = []
    for event in reader.feed('Wait. <tool_call>{"name": "now", "arguments": {}}</tool_call>'):
        match event:
            case CallStart(call=call, name=name):
                names.append((call, name))
            case TextPart(text=text):
                names.append((-1, text))
    assert names == [(-1, "Wait. "), (0, "now")]


def test_a_name_that_nobody_knows_is_told() -> None:
    with pytest.raises(ValueError, match="there is no text format 'percent'"):
        parser("percent", TOOLS)
