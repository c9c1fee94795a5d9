"""The grammar of events, the accumulator and its inverse."""

from __future__ import annotations

import pytest

from toolglot.errors import ApiError, StreamError
from toolglot.events import Checker, Close, Delta, Event, Fault, Finish, Fold, Open, Start, fold, unfold
from toolglot.ir import (
    Block,
    Citation,
    Json,
    Media,
    Opaque,
    Refusal,
    Response,
    Source,
    Stop,
    Text,
    Thinking,
    ToolCall,
    Usage,
)

TEXT = Open(0, Text(text=""))
END = Finish(stop=Stop("end"))
RESPONSE = Response(
    id="r",
    model="m",
    created=5,
    content=(
        Thinking(text="hm", native={"anthropic": {"signature": "s"}}),
        Text(text="see", citations=(Citation(url="https://x"),)),
        Refusal(text="no"),
        ToolCall(id="a", name="f", arguments='{"x":1}'),
        ToolCall(id="b", name="g", arguments='{"x', complete=False),
        Media(kind="image", source=Source("base64", "AAAA", "image/png")),
        Opaque("gemini", {"x": 1}),
        Text(text=""),
    ),
    stop=Stop("tool_calls", "tool_use"),
    usage=Usage(input_tokens=1),
    native={"openai_chat": {"system_fingerprint": "fp"}},
)


def test_folding_an_unfolded_response_gives_it_back() -> None:
    assert fold(unfold(RESPONSE)) == RESPONSE


def test_an_unfolded_response_is_grammatical_and_sequential() -> None:
    checker = Checker(sequential=True)
    for event in unfold(RESPONSE):
        checker.add(event)
    checker.close()


def test_what_the_end_of_a_block_tells_is_added_to_what_its_beginning_told() -> None:
    events: list[Event] = [
        Start(),
        Open(0, Thinking(native={"anthropic": {"a": 1}})),
        Delta(0, "x"),
        Close(index=0, native={"anthropic": {"signature": "s"}, "gemini": {"t": 2}}),
        Finish(stop=Stop("end")),
    ]
    (block,) = fold(events).content
    assert block == Thinking(text="x", native={"anthropic": {"a": 1, "signature": "s"}, "gemini": {"t": 2}})


@pytest.mark.parametrize(
    ("owner", "expected"),
    [("gemini", {"x": 1, "state": "done", "y": 2}), ("anthropic", {"x": 1, "state": "open"})],
)
def test_the_end_of_an_opaque_block_tells_members_of_it_in_its_own_dialect(owner: str, expected: Json) -> None:
    begun = Opaque("gemini", {"x": 1, "state": "open"})
    end = Close(index=0, native={owner: {"state": "done", "y": 2}})
    (block,) = fold([Start(), Open(0, begun), end, Finish(stop=Stop("end"))]).content
    assert block == Opaque("gemini", expected)
    assert begun.value == {"x": 1, "state": "open"}


def test_usage_of_the_start_counts_until_the_finish_tells_more() -> None:
    early, late = Usage(input_tokens=1), Usage(input_tokens=1, output_tokens=2)
    assert fold([Start(usage=early), Finish(stop=Stop("end"))]).usage == early
    assert fold([Start(usage=early), Finish(stop=Stop("end"), usage=late)]).usage == late


def test_a_stream_that_failed_does_not_fold() -> None:
    accumulator = Fold()
    for event in (Start(), Fault(ApiError(kind="server", message="broken"))):
        accumulator.add(event)
    with pytest.raises(StreamError, match="broken"):
        accumulator.response()


def test_a_stream_without_an_end_does_not_fold() -> None:
    with pytest.raises(StreamError, match="there is no Finish"):
        fold([Start()])


def test_both_failures_to_fold_name_the_rule() -> None:
    broken: list[list[Event]] = [[Start()], [Start(), Fault(ApiError(kind="server", message="m"))]]
    for events in broken:
        with pytest.raises(StreamError) as caught:
            fold(events)
        assert caught.value.rule == "the response is not complete"


ONE, TWO = Citation(url="https://1"), Citation(url="https://2")


@pytest.mark.parametrize(
    ("opened", "close", "whole"),
    [
        (
            Text(text="a", citations=(ONE,), native={"gemini": {"x": 1}}),
            Close(index=0, citations=(TWO,), native={"gemini": {"x": 2}}),
            Text(text="ab", citations=(ONE, TWO), native={"gemini": {"x": 2}}),
        ),
        (Thinking(text="a"), Close(index=0), Thinking(text="ab")),
        (Refusal(text="a"), Close(index=0, native={"gemini": {}}), Refusal(text="ab", native={"gemini": {}})),
        (
            ToolCall(id="", name="f", arguments="a", native={"gemini": {"x": 1}}),
            Close(index=0, native={"anthropic": {"y": 1}}),
            ToolCall(id="", name="f", arguments="ab", native={"gemini": {"x": 1}, "anthropic": {"y": 1}}),
        ),
        *(
            (
                ToolCall(id="", name="f", complete=first),
                Close(index=0, complete=second),
                ToolCall(id="", name="f", arguments="b", complete=first and second),
            )
            for first in (True, False)
            for second in (True, False)
        ),
    ],
)
def test_a_block_is_how_it_was_opened_and_what_came_and_how_it_was_closed(
    opened: Block, close: Close, whole: Block
) -> None:
    response = fold([Start(), Open(0, opened), Delta(0, "b"), close, END])
    assert response.content == (whole,)


def test_blocks_stand_in_the_order_in_which_they_opened() -> None:
    events: list[Event] = [
        Start(),
        TEXT,
        Open(1, Thinking()),
        Delta(1, "b"),
        Delta(0, "a"),
        Close(index=1),
        Close(index=0),
        END,
    ]
    assert fold(events).content == (Text(text="a"), Thinking(text="b"))
    checker = Checker()
    for event in events:
        checker.add(event)
    checker.close()


def test_what_the_start_and_the_end_tell_is_told_together() -> None:
    native = {"anthropic": {"a": 1, "b": 1}}
    more = {"anthropic": {"b": 2}, "gemini": {"c": 3}}
    response = fold([Start(id="i", model="m", created=7, native=native), Finish(stop=Stop("end"), native=more)])
    assert response.native == {"anthropic": {"a": 1, "b": 2}, "gemini": {"c": 3}}
    assert (response.id, response.model, response.created) == ("i", "m", 7)


def test_a_start_that_tells_nothing_names_nothing() -> None:
    assert fold([Start(), END]) == Response(id="", model="", stop=Stop("end"))


def test_an_unfolded_response_has_no_needless_events() -> None:
    events = list(unfold(Response(id="i", content=(Text(text=""), ToolCall(id="c", name="f"), Opaque("gemini", 1)))))
    assert events == [
        Start(id="i"),
        TEXT,
        Close(index=0),
        Open(1, ToolCall(id="c", name="f")),
        Close(index=1),
        Open(2, Opaque("gemini", 1)),
        Close(index=2),
        END,
    ]


FAULT = Fault(ApiError(kind="server", message="m"))

BREACHES: list[tuple[str, list[Event]]] = [
    ("Start comes first", [TEXT]),
    ("there is one Start", [Start(), Start()]),
    ("indices count up from 0", [Start(), Open(1, Text(text=""))]),
    ("one block is open at a time", [Start(), TEXT, Open(1, Text(text=""))]),
    ("a delta belongs to an open block", [Start(), Delta(0, "x")]),
    ("a delta belongs to an open block", [Start(), TEXT, Close(index=0), Delta(0, "x")]),
    ("this kind of block has no deltas", [Start(), Open(0, Opaque("gemini", 1)), Delta(0, "x")]),
    ("a delta is never empty", [Start(), TEXT, Delta(0, "")]),
    ("only an open block closes", [Start(), Close(index=0)]),
    ("every block closes before Finish", [Start(), TEXT, END]),
    ("nothing follows Finish or Fault", [Start(), END, Start()]),
    ("nothing follows Finish or Fault", [FAULT, FAULT]),
    ("a stream ends in Finish or Fault", [Start()]),
]


@pytest.mark.parametrize(("rule", "events"), BREACHES)
def test_a_breach_of_the_grammar_is_named(rule: str, events: list[Event]) -> None:
    checker = Checker(sequential=True)
    with pytest.raises(StreamError) as breach:
        for event in events:
            checker.add(event)
        checker.close()
    assert breach.value.rule == rule


def test_a_fault_may_come_at_any_time() -> None:
    for before in ([], [Start()], [Start(), TEXT]):
        checker = Checker()
        for event in [*before, FAULT]:
            checker.add(event)
        checker.close()
