"""What only the upstream's dialect understands of an answer, told with its place."""

from __future__ import annotations

from typing import Any

import pytest

from toolglot.dialects import DIALECTS
from toolglot.events import Close, Delta, Event, Finish, Open, Start
from toolglot.ir import Citation, Stop, Text, Thinking, ToolCall, Usage
from toolglot.passes.foreign import Reporter
from toolglot.receipt import Receipt


def own(**fields: Any) -> dict[str, dict[str, Any]]:
    return {"anthropic": fields}


def told(*events: Event, client: str = "openai_chat", upstream: str = "anthropic") -> list[str]:
    receipt = Receipt()
    reporter = Reporter(DIALECTS[client], DIALECTS[upstream], receipt)
    for event in events:
        assert reporter.feed(event) == (event,)
    return [f"{line.severity} {line.where}" for line in receipt]


END = Stop("end")
CASES: list[tuple[list[Event], list[str]]] = [
    ([Start(native=own(novel=1))], ["loss novel"]),
    ([Finish(stop=END, native=own(novel=1))], ["loss novel"]),
    ([Open(2, Text(text="", native=own(novel=1)))], ["loss content[2].novel"]),
    ([Open(2, ToolCall(id="", name="f", native=own(novel=1)))], ["loss content[2].novel"]),
    ([Open(2, Thinking(native=own(novel=1))), Close(index=2, native=own(novel=1))], ["loss content[2].novel"]),
    ([Open(2, Text(text="")), Close(index=2, native=own(novel=1))], ["loss content[2].novel"]),
    (
        [Open(2, Text(text="")), Close(index=2, citations=(Citation(), Citation(native=own(novel=1))))],
        ["loss content[2].citations[1].novel"],
    ),
    ([Delta(0, "x")], []),
    ([Start(native=own(novel=1, anthropic_version=1, **{"$note": 1}))], ["loss novel"]),
    ([Start(native=own(eager_input_streaming=True))], ["note eager_input_streaming"]),
    ([Start(native=own(signature="x", thoughtSignature="x", encrypted_content="x"))], []),
    ([Start(native=own(novel=0))], ["loss novel"]),
    ([Start(native={"openai_chat": {"novel": 1}})], []),
    ([Start(usage=Usage(native=own(novel=1)))], []),
    ([Start(usage=Usage(native=own(novel=1))), Finish(stop=END)], ["note usage.novel"]),
    ([Finish(stop=END, usage=Usage(native=own(novel=1)))], ["note usage.novel"]),
    ([Finish(stop=END, usage=Usage(native=own(novel={"a": 1})))], ["note usage.novel"]),
    ([Finish(stop=END, usage=Usage(native=own(**{"$usage": {"novel": 1}})))], []),
    ([Finish(stop=END, usage=Usage(native=own(**{"$missing": ["a"], "$usage": 5})))], []),
    ([Finish(stop=END, usage=Usage(native=own(some_tokens=1)))], ["note usage.some_tokens"]),
    ([Finish(stop=END, usage=Usage(native={"openai_chat": {"novel": 1}}))], []),
    ([Finish(stop=Stop("other", "novel"))], ["loss stop"]),
    ([Finish(stop=Stop("other"))], []),
    ([Finish(stop=Stop("end", "novel"))], []),
    ([Finish(stop=Stop("stop_sequence", "stop_sequence", "x"))], ["note stop.sequence"]),
]


NOTHING: list[Any] = [None, False, "", [], {}]
ZEROS: list[Any] = [0, None, "", {}, {"a": 0, "b": None}]
CASES += [([Start(native=own(novel=nothing))], []) for nothing in NOTHING]
CASES += [([Finish(stop=END, usage=Usage(native=own(novel=zero)))], []) for zero in ZEROS]


@pytest.mark.parametrize(("events", "lines"), CASES, ids=str)
def test_what_a_client_of_another_dialect_does_not_get_is_told(events: list[Event], lines: list[str]) -> None:
    assert told(*events) == lines


def test_a_client_of_the_same_dialect_gets_everything() -> None:
    for events, _ in CASES:
        assert [line for line in told(*events, client="anthropic") if "openai_chat" not in str(events)] == []


def test_only_messages_tells_which_stop_sequence_was_written() -> None:
    event = Finish(stop=Stop("stop_sequence", None, "x"))
    silent = [name for name in DIALECTS if told(event, client=name, upstream="openai_chat")]
    assert silent == [name for name in DIALECTS if name not in ("anthropic", "openai_chat")]


def test_containers_are_told_by_what_is_in_them() -> None:
    native = {"gemini": {"candidate": {"novel": 1, "content": {"deep": 1}, "index": 0}, "content": 5}}
    lines = told(Finish(stop=END, native=native), upstream="gemini")
    assert lines == ["loss candidates[0].novel", "loss candidates[0].content.deep", "loss content"]
