"""Rounds of served calls, an answer that tells of them, and what a history has of them again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests.strategies import arguments, awkward_ids, legal_ids, texts, words
from toolglot.dialect import Dialect
from toolglot.events import Checker, Close, Delta, Event, Finish, Open, Start, fold
from toolglot.ir import Message, Request, Stop, Text, ToolCall, ToolResult, replace
from toolglot.receipt import Receipt
from toolglot.tools.served import ReportPiece, ServedCall, ServedForms


class Round(NamedTuple):
    """Some words, then calls made in one breath, and the result of each."""

    text: str
    calls: tuple[ServedCall, ...]
    results: tuple[ToolResult, ...]


labels = st.sampled_from(["files", "Weather Service", "日本", "a__b"])
tool_names = st.sampled_from(["read", "get.weather", "delete_everything", "とる"])
outcomes = st.builds(
    ToolResult,
    call_id=st.just(""),
    content=st.lists(st.builds(Text, text=words), max_size=3).map(tuple),
    is_error=st.sampled_from([True, False, None]),
)


@st.composite
def rounds(draw: st.DrawFn) -> list[Round]:
    """Ids are unique inside a round and, as with some providers, may come again in the next."""
    drawn = []
    for _ in range(draw(st.integers(1, 3))):
        # An empty id never comes so far.
        ids = draw(st.lists(legal_ids | awkward_ids.filter(bool), min_size=1, max_size=3, unique=True))
        calls = tuple(
            ServedCall(id=call_id, server=draw(labels), name=draw(tool_names), arguments=draw(arguments()))
            for call_id in ids
        )
        results = tuple(replace(draw(outcomes), call_id=call.id) for call in calls)
        drawn.append(Round(draw(st.just("") | texts), calls, results))
    return drawn


def known_as(server: str, name: str) -> str:
    return f"{server}//{name}"


def told(forms: ServedForms, calls: Sequence[ServedCall], results: Sequence[ToolResult]) -> list[ReportPiece]:
    """All that a teller says of a round."""
    teller = forms.new_reporter()
    pieces = teller.begin(calls)
    for call in calls:
        pieces += teller.progress(call, "half of it is done")
    for result in results:
        pieces += teller.done(result)
    return pieces


def answer(forms: ServedForms, happened: Sequence[Round], last: str = "Done.") -> list[Event]:
    """The events of an answer in which these rounds happened."""
    events: list[Event] = [Start(id="resp_1", model="m", created=1)]
    index = 0

    def say(text: str) -> None:
        nonlocal index
        if text:
            events.extend((Open(index, Text(text="")), Delta(index, text), Close(index=index)))
            index += 1

    for each in happened:
        say(each.text)
        pieces = told(forms, each.calls, each.results)
        events += [replace(piece, index=piece.index + index) for piece in pieces]
        index += 1 + max(piece.index for piece in pieces)
    say(last)
    events.append(Finish(stop=Stop("end")))
    checker = Checker(sequential=True)
    for event in events:
        checker.add(event)
    checker.close()
    return events


def written(dialect: Dialect, events: Sequence[Event]) -> Any:
    """The answer in one piece, as a client parses it."""
    return json.loads(dialect.encode_response(fold(events), None, Receipt()))


def stream_frames(dialect: Dialect, events: Sequence[Event]) -> list[dict[str, Any]]:
    """The answer as a stream of frames."""
    encoder = dialect.stream_encoder(None, Receipt())
    data = b"".join(encoder.feed(event) for event in events).decode()
    # SSE's lines end in line feeds alone here; texts may hold other line ends, which `splitlines` would cut at.
    return [json.loads(line.removeprefix("data: ")) for line in data.split("\n") if line.startswith("data: ")]


class Turn(NamedTuple):
    """What the model is told of a round: its words, its calls, and their results in the order of the calls."""

    text: str
    calls: list[tuple[str, Any]]
    results: list[tuple[str, bool]]


def turns(messages: Sequence[Message]) -> list[Turn]:
    """Rounds as a model sees them: calls and results paired by their ids, each call once."""
    found: list[Turn] = []
    seen: set[str] = set()
    text, waiting = "", list[ToolCall]()
    results: dict[str, ToolResult] = {}

    def end() -> None:
        nonlocal text, waiting, results
        if waiting:
            assert list(results) == [call.id for call in waiting], "results stand in the order of their calls"
            calls = [(call.name, json.loads(call.arguments or "{}")) for call in waiting]
            found.append(Turn(text, calls, [_outcome(results[call.id]) for call in waiting]))
            text, waiting, results = "", [], {}

    for message in messages:
        for block in message.content:
            if isinstance(block, ToolResult):
                assert message.role in ("user", "tool")
                assert block.name == next(call.name for call in waiting if call.id == block.call_id)
                results[block.call_id] = block
            elif message.role == "assistant":
                if results:
                    end()
                assert isinstance(block, Text | ToolCall)
                if isinstance(block, ToolCall):
                    assert block.id not in seen
                    seen.add(block.id)
                    waiting.append(block)
                else:
                    text += block.text
    end()
    return found


def _outcome(result: ToolResult) -> tuple[str, bool]:
    return "\n".join(block.text for block in result.content if isinstance(block, Text)), bool(result.is_error)


def expected_turns(happened: Sequence[Round]) -> list[Turn]:
    return [
        Turn(
            each.text,
            [(known_as(call.server, call.name), json.loads(call.arguments or "{}")) for call in each.calls],
            [_outcome(result) for result in each.results],
        )
        for each in happened
    ]


def model_request(dialect: Dialect, body: dict[str, Any]) -> Request:
    """The request that the history of this body is to a model."""
    assert dialect.served is not None
    asked = dialect.decode_request(json.dumps(body).encode())
    before = repr(asked)
    restored = dialect.served.restore_history(asked, known_as)
    assert repr(asked) == before, "what was read stays as it is"
    return restored.request
