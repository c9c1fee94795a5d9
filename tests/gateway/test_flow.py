"""Every rule of the answer flow as a row: what happens, and what the flow says to it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.gateway.stage import BEGUN, LATE, REFUSED, RESET, Stage, status, transcript, whole
from toolglot.errors import ApiError
from toolglot.gateway.commands import ELAPSED, END, Await, Done, Raised, Shutdown, Silent
from toolglot.gateway.flow import StoppedError, answer
from toolglot.gateway.flow import await_result as await_step
from toolglot.upstream.offload import LARGE

SILENT, BRIEFLY = Silent(15.0, 15.0), Silent(5.0, 5.0)
STOP = Shutdown(ApiError(kind="overloaded", status=503, message="draining"))

WHOLE: dict[str, tuple[str, list[Any], str]] = {
    # name: targets, outcomes, transcript
    "an answer": ("a", [whole(b"hi")], "send a ask | = whole HI"),
    "an answer, and silence before it": ("a", [SILENT, SILENT, whole(b"hi")], "send a ask | - | - | = whole HI"),
    "an error": ("a", [status(401, b"who?")], "send a ask | = error 401 authentication"),
    "retried after a reset": ("a", [RESET, ELAPSED, whole(b"hi")], "send a ask | wait 1 | send a ask | = whole HI"),
    "retried with longer waits, then given up": (
        "a",
        [REFUSED, ELAPSED, REFUSED, ELAPSED, REFUSED],
        "send a ask | wait 1 | send a ask | wait 2 | send a ask | = error 502 server",
    ),
    "a timeout is not repeated": ("a", [LATE], "send a ask | = error 504 timeout"),
    "a timeout goes elsewhere": ("ab", [LATE, whole(b"hi")], "send a ask | send b ask | = whole HI"),
    "a bad request goes nowhere else": ("ab", [status(400, b"bad")], "send a ask | = error 400 bad_request"),
    "a wrong key goes elsewhere": ("ab", [status(401), whole(b"hi")], "send a ask | send b ask | = whole HI"),
    "all fail: the last to answer is told": (
        "ab",
        [LATE, status(401)],
        "send a ask | send b ask | = error 401 authentication",
    ),
    "a remedy": ("a", [status(400, b"too much"), whole(b"hi")], "send a ask | send a less | = whole HI"),
    "one remedy": (
        "a",
        [status(400, b"too much"), status(400, b"too much")],
        "send a ask | send a less | = error 400 bad_request",
    ),
    "retried with the remedy": (
        "a",
        [status(400, b"too much"), RESET, ELAPSED, whole(b"hi")],
        "send a ask | send a less | wait 2 | send a less | = whole HI",
    ),
    "stopped while an upstream is at work": ("a", [STOP], "send a ask | = error 503 overloaded"),
    "stopped while a retry waits": ("a", [RESET, STOP], "send a ask | wait 1 | = error 503 overloaded"),
    "asked again after a wrong call": (
        "a",
        [whole(b"no?"), whole(b"yes")],
        "send a ask | send a again | = whole YES",
    ),
    "asked again, and retried": (
        "a",
        [whole(b"no?"), RESET, ELAPSED, whole(b"yes")],
        "send a ask | send a again | wait 1 | send a again | = whole YES",
    ),
}

STREAMED: dict[str, tuple[str, list[Any], str]] = {
    "to its end": ("a", [BEGUN, b"a", b"b", b"c."], "send a ask | - | begin | A | B | = C."),
    "all at once: head and end leave together": ("a", [BEGUN, b"abc."], "send a ask | - | = ABC."),
    "nothing to write at first": ("a", [BEGUN, b"_", b"a", b"."], "send a ask | - | - | begin | A | = ."),
    "settled, then closed": ("a", [BEGUN, b"a;", END], "send a ask | - | begin | A; | = <END>"),
    "settled, then silent": ("a", [BEGUN, b"a;", BRIEFLY], "send a ask | - | begin | A; | = <END>"),
    "settled long after the client heard something": (
        "a",
        [BEGUN, b"a;", Silent(10.0, 0.1), b"."],
        "send a ask | - | begin | A; | - | = .",
    ),
    "silent for a short time": (
        "a",
        [BRIEFLY, BEGUN, BRIEFLY, b"a", BRIEFLY, b"."],
        "send a ask | - | - | - | begin | A | - | = .",
    ),
    "settled, then broken": ("a", [BEGUN, b"a;", RESET], "send a ask | - | begin | A; | = <END>"),
    "cut by a close": ("a", [BEGUN, b"a", END], "send a ask | - | begin | A | = <server>"),
    "cut by a reset: nothing is repeated after the first byte": (
        "ab",
        [BEGUN, b"a", RESET],
        "send a ask | - | begin | A | = <server>",
    ),
    "broken before the first byte: repeated": (
        "a",
        [BEGUN, b"_", RESET, ELAPSED, BEGUN, b"a", b"."],
        "send a ask | - | - | wait 1 | send a ask | - | begin | A | = .",
    ),
    "silent in the middle": ("a", [BEGUN, b"a", SILENT, b"b."], "send a ask | - | begin | A | :beat | = B."),
    "silent before the head": (
        "a",
        [SILENT, SILENT, BEGUN, b"a."],
        "send a ask | begin early | :beat | :beat | - | = A.",
    ),
    "silent before the first byte": ("a", [BEGUN, SILENT, b"a."], "send a ask | - | begin early | :beat | = A."),
    "a keep-alive is no byte of an answer": (
        "ab",
        [SILENT, RESET, ELAPSED, BEGUN, b"a."],
        "send a ask | begin early | :beat | wait 1 | send a ask | - | = A.",
    ),
    "after a keep-alive an error is told in the stream": (
        "a",
        [SILENT, status(401)],
        "send a ask | begin early | :beat | = <authentication>",
    ),
    "after a keep-alive an upstream that breaks off is told in the stream": (
        "a",
        [SILENT, RESET, ELAPSED, RESET, ELAPSED, RESET],
        "send a ask | begin early | :beat | wait 1 | send a ask | wait 2 | send a ask | = <server>",
    ),
    "an error first in the stream is one of the request": (
        "ab",
        [BEGUN, b"!", ELAPSED, BEGUN, b"a", b"."],
        "send a ask | - | wait 1 | send a ask | - | begin | A | = .",
    ),
    "an error later in the stream ends it": ("ab", [BEGUN, b"a", b"!"], "send a ask | - | begin | A | = <overloaded>"),
    "stopped in the middle": ("a", [BEGUN, b"a", STOP], "send a ask | - | begin | A | = <overloaded>"),
    "stopped after a keep-alive": ("a", [SILENT, STOP], "send a ask | begin early | :beat | = <overloaded>"),
    "a defect of ours in the middle is told in the stream": (
        "a",
        [BEGUN, b"a", b"#"],
        "send a ask | - | begin | A | = <server>",
    ),
    "goes on after a wrong call": (
        "a",
        [BEGUN, b"one", b"no?", BEGUN, b"yes", b"."],
        "send a ask | - | begin | ONE | write NO? | send a again | - | YES | = .",
    ),
    "goes on, and the second answer fails": (
        "a",
        [BEGUN, b"no?", REFUSED, ELAPSED, status(401)],
        "send a ask | - | begin | write NO? | send a again | wait 1 | send a again | = <authentication>",
    ),
    "goes on, and is stopped between the two": (
        "a",
        [BEGUN, b"no?", STOP],
        "send a ask | - | begin | write NO? | send a again | = <overloaded>",
    ),
}

ROWS = [(False, *row) for row in WHOLE.values()] + [(True, *row) for row in STREAMED.values()]
rows = pytest.mark.parametrize(("stream", "targets", "outcomes", "said"), ROWS, ids=[*WHOLE, *STREAMED])


@rows
def test_a_flow_says_what_its_row_says(stream: bool, targets: str, outcomes: list[Any], said: str) -> None:
    stage = Stage(targets, stream=stream)
    assert transcript(answer(stage.context, stage.targets), outcomes) == said
    assert stage.open == 0


@rows
def test_a_client_may_go_at_any_point(stream: bool, targets: str, outcomes: list[Any], said: str) -> None:
    for count in range(len(outcomes)):
        stage = Stage(targets, stream=stream)
        flow = answer(stage.context, stage.targets)
        assert said.startswith(transcript(flow, outcomes[:count]))
        flow.close()
        assert stage.open == 0, f"after {count} outcomes"


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ([SILENT, LATE], "send a ask | begin early | :beat | =  cut"),
        ([BEGUN, SILENT, LATE], "send a ask | - | begin early | :beat | =  cut"),
        ([SILENT, RESET], "send a ask | begin early | :beat | =  cut"),
        ([SILENT, REFUSED], "send a ask | begin early | :beat | =  cut"),
        ([SILENT, status(500)], "send a ask | begin early | :beat | = <server>"),
        ([SILENT, STOP], "send a ask | begin early | :beat | = <overloaded>"),
        ([BEGUN, SILENT, b"!"], "send a ask | - | begin early | :beat | = <overloaded>"),
        ([LATE], "send a ask | = error 504 timeout"),
    ],
)
def test_a_client_that_wants_cuts_gets_one_after_keep_alives_too(outcomes: list[Any], said: str) -> None:
    """An HTTP error, an error event and the end of the server are told; only what the upstream left unsaid is cut."""
    stage = Stage("a", stream=True, attempts=1)
    stage.context.cuts = True
    assert transcript(answer(stage.context, stage.targets), outcomes) == said
    assert (stage.record.error is not None) == (said.count("begin") > 0)


def test_a_breaker_opens_probes_and_closes() -> None:
    stage = Stage("ab", attempts=1)

    def ask(*outcomes: Any) -> str:
        return transcript(answer(stage.context, stage.targets), outcomes)

    for _ in range(3):
        assert ask(LATE, whole(b"hi")) == "send a ask | send b ask | = whole HI"
    assert ask(whole(b"hi")) == "send b ask | = whole HI"
    stage.now = 31.0
    assert ask(LATE, whole(b"hi")) == "send a ask | send b ask | = whole HI"
    assert ask(whole(b"hi")) == "send b ask | = whole HI"
    stage.now = 62.0
    assert ask(whole(b"hi")) == "send a ask | = whole HI"
    assert ask(whole(b"hi")) == "send a ask | = whole HI"


def test_a_probe_whose_client_goes_leaves_the_next_one_to_another() -> None:
    stage = Stage("a", attempts=1)

    def ask(*outcomes: Any) -> str:
        return transcript(answer(stage.context, stage.targets), outcomes)

    for _ in range(3):
        ask(LATE)
    assert ask() == "= error 503 server"
    stage.now = 31.0
    probe = answer(stage.context, stage.targets)
    assert transcript(probe, []) == "send a ask"
    assert ask() == "= error 503 server"
    probe.close()
    assert ask(whole(b"hi")) == "send a ask | = whole HI"


def test_that_an_upstream_rests_says_less_than_what_another_one_answered() -> None:
    stage = Stage("ab", attempts=1)
    for _ in range(3):
        transcript(answer(stage.context, stage.targets), [LATE, LATE])
    stage.breakers["a"] = Stage().breakers["a"]
    stage.targets = [replace(stage.targets[0], breaker=stage.breakers["a"]), stage.targets[1]]
    assert transcript(answer(stage.context, stage.targets), [LATE]) == "send a ask | = error 504 timeout"


def test_each_failed_target_is_reported_once_and_the_answer_knows_the_failure_before_it() -> None:
    stage = Stage("abc")
    outcomes = [RESET, ELAPSED, LATE, status(401), whole(b"hi")]
    transcript(answer(stage.context, stage.targets), outcomes)
    assert stage.failed == [("a", "timeout"), ("b", "authentication")]
    assert stage.translations["c"].accepted_after == ["authentication"]
    assert (stage.record.calls, stage.record.fallbacks) == ({"a": 2, "b": 1, "c": 1}, 2)
    assert stage.context.translation is stage.translations["c"]


def test_the_error_that_the_client_gets_is_not_reported_a_second_time() -> None:
    alone = Stage("a", attempts=1)
    assert transcript(answer(alone.context, alone.targets), [LATE]) == "send a ask | = error 504 timeout"
    assert alone.failed == []
    both = Stage("ab", attempts=1)
    told = transcript(answer(both.context, both.targets), [LATE, status(401)])
    assert told == "send a ask | send b ask | = error 401 authentication"
    assert both.failed == [("a", "timeout")]


def test_an_answer_that_nobody_gets_is_discarded() -> None:
    stage = Stage(stream=True)
    transcript(answer(stage.context, stage.targets), [BEGUN, b"_", RESET, ELAPSED, BEGUN, b"a", b"."])
    assert stage.translations["a"].discarded == 1


def test_a_request_is_released_once_its_stream_has_begun() -> None:
    stage = Stage(stream=True)
    transcript(answer(stage.context, stage.targets), [BEGUN, b"a", b"b"])
    assert stage.translations["a"].body == b""


def test_a_request_whose_tools_are_refused_is_sent_with_tools_as_text_once() -> None:
    stage, refused = Stage(), [status(400, b"no tools"), Done(None)]
    flow = answer(stage.context, stage.targets)
    assert transcript(flow, [*refused, whole(b"hi")]) == "send a ask | await | send a text | = whole HI"
    flow = answer(stage.context, stage.targets)
    assert transcript(flow, [*refused, refused[0]]) == "send a ask | await | send a text | = error 400 bad_request"


def test_an_answer_that_is_not_decoded_at_once_is_decoded_later() -> None:
    stage = Stage()
    said = transcript(answer(stage.context, stage.targets), [whole(b"later"), Done(None)])
    assert said == "send a ask | await | = whole LATER"


def test_a_large_request_is_written_once_more_in_a_thread() -> None:
    stage = Stage(body=b"x" * (LARGE + 1))
    flow = answer(stage.context, stage.targets)
    said = transcript(flow, [whole(b"no?"), Done(b"again"), whole(b"yes")])
    size = LARGE + 1
    assert said == f"send a {'x' * size} | offload {size} | send a again | = whole YES"


def test_the_end_of_a_large_event_is_translated_in_a_thread() -> None:
    stage, part = Stage(stream=True), b"_" * LARGE
    flow = answer(stage.context, stage.targets)
    said = transcript(flow, [BEGUN, b"a", part, b"__", b"\n", SILENT, Done(b"B"), b"."])
    assert said == f"send a ask | - | begin | A | - | - | offload {LARGE + 3} | :beat | B | = ."


def test_keep_alives_are_written_while_a_coroutine_runs_and_what_it_raises_is_raised() -> None:
    stage = Stage(stream=True)

    async def coroutine() -> None: ...

    flow = await_step(stage.context, coroutine)
    assert transcript(flow, [SILENT, SILENT]) == "await | begin early | :beat | :beat"
    with pytest.raises(ValueError, match="no"):
        flow.send(Raised(ValueError("no")))


def test_a_coroutine_that_is_stopped_ends_the_flow() -> None:
    stage = Stage()

    async def coroutine() -> None: ...

    flow = await_step(stage.context, coroutine)
    assert isinstance(flow.send(None), Await)
    with pytest.raises(StoppedError, match="draining"):
        flow.send(STOP)
