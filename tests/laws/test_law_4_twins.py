"""Law 4: a stream adds up to what the same response says when it is not streamed."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.case_files import Case, cases_with
from tests.exchanges import NAMES, check, folded, read_events, spoken, write_events
from tests.strategies import event_streams, legal_names, names, responses
from toolglot.dialects import DIALECTS
from toolglot.events import Event, fold, unfold
from toolglot.ir import Response, Thinking, Usage, replace
from toolglot.passes.sequence import Sequencer
from toolglot.receipt import Receipt

# These cases hold a stream that fails, or one that tells another story than the response beside it.
NOT_TWINS = {"errors_and_stops", "full"}
TWINS = [case for case in cases_with("stream") if case.name not in NOT_TWINS]


def numbers(usage: Usage | None) -> Usage | None:
    return replace(usage, native={}) if usage is not None else None


def are_twins(streamed: Response, whole: Response) -> None:
    assert spoken(streamed.content) == spoken(whole.content)
    assert streamed.stop.reason == whole.stop.reason
    assert numbers(streamed.usage) == numbers(whole.usage)
    assert (streamed.id, streamed.model) == (whole.id, whole.model)


@pytest.mark.parametrize("case", TWINS, ids=lambda case: f"{case.dialect}/{case.name}")
def test_a_recorded_stream_adds_up_to_the_response_beside_it(case: Case) -> None:
    streamed = folded(read_events(case.dialect, [case.read("stream")]))
    whole = DIALECTS[case.dialect].decode_response(case.read("response"))
    if case.name == "cut_by_length":  # a wire that has arguments as objects cannot hold half of them
        streamed, whole = replace(streamed, content=streamed.content[:1]), replace(whole, content=whole.content[:1])
    are_twins(streamed, whole)


@pytest.mark.parametrize("dialect", NAMES)
@given(response=responses(legal_names))
def test_the_two_encodings_of_a_response_say_the_same(dialect: str, response: Response) -> None:
    whole = DIALECTS[dialect].decode_response(DIALECTS[dialect].encode_response(response, None, Receipt()))
    events = read_events(dialect, [write_events(dialect, unfold(response))])
    check(events)
    are_twins(folded(events), whole)


@pytest.mark.parametrize("dialect", NAMES)
@given(response=responses(legal_names))
def test_a_stream_says_what_the_response_said(dialect: str, response: Response) -> None:
    receipt = Receipt()
    encoder = DIALECTS[dialect].stream_encoder(None, receipt)
    streamed = folded(read_events(dialect, [encoder.feed(event) for event in unfold(response)]))
    wanted, got = spoken(response.content), spoken(streamed.content)
    thoughts = [f"content[{n}]" for n, block in enumerate(response.content) if isinstance(block, Thinking)]
    if (
        DIALECTS[dialect].can.reasoning.in_history == "none" and not got["thinking"]
    ):  # the receipt must name what has no place
        assert set(thoughts) <= {line.where for line in receipt.losses}
        wanted["thinking"] = ""
    if dialect == "gemini":  # it has calls without ids; the restoring pass gives them one
        wanted["calls"] = [
            (got_call[0], *call[1:]) for got_call, call in zip(got["calls"], wanted["calls"], strict=True)
        ]
    assert got == wanted


@given(response=responses(names))
def test_folding_undoes_unfolding(response: Response) -> None:
    assert fold(unfold(response)) == response


@given(events=event_streams())
def test_sequencing_keeps_what_interleaved_blocks_say(events: list[Event]) -> None:
    check(events)
    sequencer = Sequencer()
    sequenced = [out for event in events for out in sequencer.feed(event)]
    check(sequenced, sequential=True)
    assert fold(sequenced) == fold(events)
