"""Law 7: an upstream that is cut anywhere gives the client a well-formed stream that ends in that dialect's error, or,
where the caller can cut the client's connection and the dialect's clients want that, whole events and no end.

A clean end is allowed only once everything has come: the same calls, the same text, the same reason to stop. Where
calls are text, the same holds, and a call of which not everything has come is never whole.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_files import cases_with
from tests.documents import DOCUMENTS
from tests.examples import PER_PAIR
from tests.exchanges import (
    NAMES,
    PAIRS,
    check,
    folded,
    meaning,
    read_events,
    relay,
    spoken,
    through,
    write_events,
)
from tests.textcalls.conversations import SEVERAL, ask, asking, exchange_of, stream_of, user
from toolglot.dialects import DIALECTS
from toolglot.errors import TRUNCATED, ApiError, truncated
from toolglot.events import Close, Delta, Event, Fault, Open
from toolglot.ir import ToolCall
from toolglot.textcalls.prompts.render import calls_text
from toolglot.translate import ExchangeCore

ERROR_MARKS = {
    "openai_chat": b'data: {"error":{',
    "openai_responses": b"event: response.failed\n",
    "anthropic": b"event: error\ndata: ",
    "gemini": b'{"error":{',  # behind the event of the same error
    "ollama": b'{"error":"',
}
"""How the error of each dialect begins on the wire."""


def is_whole(events: list[Event], expected: list[Event]) -> bool:
    ended, wanted = folded(events), folded(expected)
    return spoken(ended.content) == spoken(wanted.content) and ended.stop.reason == wanted.stop.reason


def client_side(client: str, upstream: str, stream: bytes) -> tuple[bytes, list[Event]]:
    written = relay(client, upstream, [stream])
    events = read_events(client, [written])
    check(events)
    return written, events


def is_honest(client: str, upstream: str, stream: bytes, end: int) -> None:
    expected = client_side(client, upstream, stream)[1]
    written, events = client_side(client, upstream, stream[:end])
    if isinstance(events[-1], Fault):
        ended_by = DIALECTS[client].stream.framing.end
        last = written.rstrip(b"\n").rpartition(ended_by)[2] + b"\n"
        mark = ERROR_MARKS.get(client)
        assert mark is None or last.startswith(mark), last
        assert written.endswith(ended_by)
    else:
        assert is_whole(events, expected), f"cut at {end}, and yet it ended well"


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
@pytest.mark.parametrize("name", ["text_and_two_calls", "thinking"])
def test_cutting_a_recorded_stream_anywhere_is_told(client: str, upstream: str, name: str) -> None:
    for case in cases_with("stream", upstream):
        if case.name != name:
            continue
        stream = case.read("stream")
        bounds = [
            index for index in range(len(stream)) if stream[: index + 1].endswith(DIALECTS[upstream].stream.framing.end)
        ]
        # Every place around the ends of frames, and a sample of the places inside them.
        places = {place for bound in bounds for place in range(bound - 3, bound + 3)} | set(range(0, len(stream), 7))
        for end in sorted(place for place in places if 0 <= place < len(stream)):
            is_honest(client, upstream, stream, end)


CUT_PAIRS = tuple((client, upstream) for client, upstream in PAIRS if DIALECTS[client].stream.broken == "cut")


def is_honestly_cut(client: str, upstream: str, stream: bytes, end: int) -> None:
    """Where the connection can be cut the client gets what it gets otherwise, but for the error; and no call that is
    not whole is closed."""
    told, events = client_side(client, upstream, stream[:end])
    translation = ExchangeCore(client, upstream, can_cut=True).stream()
    written = translation.feed(stream[:end]) + translation.close()
    broken = isinstance(events[-1], Fault) and events[-1].error.code == TRUNCATED
    assert (translation.broken, translation.is_cut) == (broken, broken)
    if not broken:
        assert written == told
        return
    assert translation.fault is not None
    assert told.startswith(written)
    assert written == b"" or written.endswith(b"\n\n")
    cut = [event for event in read_events(client, [written]) if not isinstance(event, Fault)]
    assert cut == [event for event in events if not isinstance(event, Fault)][: len(cut)]
    assert not any(isinstance(event, Close) and not event.complete for event in cut)


@pytest.mark.parametrize(("client", "upstream"), CUT_PAIRS)
@pytest.mark.parametrize("name", ["text_and_two_calls", "thinking"])
def test_cutting_a_recorded_stream_anywhere_cuts_the_clients_connection(client: str, upstream: str, name: str) -> None:
    for case in cases_with("stream", upstream):
        if case.name == name:
            stream = case.read("stream")
            for end in range(0, len(stream), 13):
                is_honestly_cut(client, upstream, stream, end)


@pytest.mark.parametrize(("client", "upstream"), CUT_PAIRS)
@PER_PAIR
@given(data=st.data())
def test_cutting_any_stream_anywhere_cuts_the_clients_connection(
    client: str, upstream: str, data: st.DataObject
) -> None:
    stream = data.draw(DOCUMENTS[upstream].streams).encode()
    is_honestly_cut(client, upstream, stream, data.draw(st.integers(0, len(stream) - 1)))


@pytest.mark.parametrize(("client", "upstream"), CUT_PAIRS)
def test_a_reset_cuts_the_clients_connection_and_an_error_event_of_the_upstream_does_not(
    client: str, upstream: str
) -> None:
    error = ApiError(kind="server", status=502, code="upstream_reset", message="reset")
    for case in cases_with("stream", upstream):
        stream = case.read("stream")
        end = stream.rfind(b"\n\n", 0, len(stream) // 2)
        half = stream[: end + 2] if end >= 0 else b""
        reset, given_up, failed = (ExchangeCore(client, upstream, can_cut=True).stream() for _ in range(3))
        for translation in (reset, given_up, failed):
            translation.feed(half)
        if reset.settled or reset.ended:
            continue
        assert reset.break_off(error) == b""
        assert reset.is_cut
        assert b"reset" in given_up.break_off(error, broken=False)
        assert not given_up.is_cut
        own = write_events(upstream, [Fault(truncated())])
        assert b"before the response was complete" in failed.feed(own) + failed.close()
        assert not failed.is_cut


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
@PER_PAIR
@given(data=st.data())
def test_cutting_any_stream_anywhere_is_told(client: str, upstream: str, data: st.DataObject) -> None:
    stream = data.draw(DOCUMENTS[upstream].streams).encode()
    is_honest(client, upstream, stream, data.draw(st.integers(0, len(stream) - 1)))


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_half_of_a_stream_never_ends_well(client: str, upstream: str) -> None:
    for case in cases_with("stream", upstream):
        stream = case.read("stream")
        assert isinstance(client_side(client, upstream, stream[: len(stream) // 2])[1][-1], Fault)


@pytest.mark.parametrize("client", NAMES)
@pytest.mark.parametrize("upstream", NAMES)
def test_an_upstream_that_says_nothing_is_an_error(client: str, upstream: str) -> None:
    for silence in (b"", b"\n\n", b": comment\n\n"):
        written, events = client_side(client, upstream, silence)
        assert isinstance(events[-1], Fault)
        assert client not in ERROR_MARKS or ERROR_MARKS[client] in written


# Calls as text

CALLS = (
    ToolCall(id="abc123DEF", name="get_weather", arguments='{"city":"Paris </parameter>","days":12}'),
    ToolCall(id="abc123DEG", name="get_time", arguments="{}"),
    ToolCall(id="abc123DEH", name="get_weather", arguments='{"city":"Łódź"}'),
)


def text_calls(client: str, upstream: str, format_name: str, stream: bytes) -> list[Event]:
    exchange = exchange_of(client, upstream, format_name)
    ask(exchange, asking(user("Hello")))
    events = read_events(client, [through(exchange, [stream])])
    check(events)
    return events


def whole_calls(events: list[Event]) -> list[tuple[str, object]]:
    """The calls that a client can run: those that were closed, not said to be cut, and have arguments that it can read.

    Anthropic's wire closes every block and has no word for a cut one; what stands in it is no JSON then.
    """
    called: dict[int, tuple[str, list[str]]] = {}
    whole: list[tuple[str, object]] = []
    for event in events:
        if isinstance(event, Open) and isinstance(event.block, ToolCall):
            called[event.index] = event.block.name, [event.block.arguments]
        elif isinstance(event, Delta) and event.index in called:
            called[event.index][1].append(event.text)
        elif isinstance(event, Close) and event.complete and event.index in called:
            name, pieces = called[event.index]
            whole.append((name, meaning("".join(pieces))))
    return [(name, arguments) for name, arguments in whole if isinstance(arguments, dict)]


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
@PER_PAIR
@given(data=st.data(), format_name=st.sampled_from(SEVERAL))
def test_cutting_calls_in_text_anywhere_makes_no_call_whole(
    client: str, upstream: str, data: st.DataObject, format_name: str
) -> None:
    wanted = [(call.name, meaning(call.arguments)) for call in CALLS]
    text = f"I look.\n{calls_text(format_name, CALLS)}"
    stream = stream_of(upstream, text, pieces=data.draw(st.integers(1, 20)))
    cut = text_calls(client, upstream, format_name, stream[: data.draw(st.integers(0, len(stream) - 1))])
    if isinstance(cut[-1], Fault):
        found = whole_calls(cut)
        assert found == wanted[: len(found)]
    else:
        assert whole_calls(cut) == wanted


@pytest.mark.parametrize("format_name", SEVERAL)
@pytest.mark.parametrize("client", NAMES)
@given(data=st.data())
def test_a_limit_anywhere_in_calls_in_text_makes_no_call_whole(
    client: str, format_name: str, data: st.DataObject
) -> None:
    wanted = [(call.name, meaning(call.arguments)) for call in CALLS]
    text = f"I look.\n{calls_text(format_name, CALLS)}"
    end = data.draw(st.integers(0, len(text)))
    events = text_calls(client, "openai_chat", format_name, stream_of("openai_chat", text[:end], "length"))
    found = whole_calls(events)
    assert found == wanted[: len(found)]
