"""Event passes: sequence, settle, restore, unwrap."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Sequence
from typing import Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot import DIALECTS, Exchange, read_stream
from toolglot.capabilities import CallIdRules, Capabilities
from toolglot.events import Checker, Close, Delta, Event, Fault, Finish, Open, Start, fold, unfold
from toolglot.ir import (
    Message,
    Refusal,
    Request,
    Response,
    Stop,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    replace,
)
from toolglot.passes import Context, OriginalTool
from toolglot.passes.restore import Restorer
from toolglot.passes.sequence import Sequencer
from toolglot.passes.settle import Settler
from toolglot.passes.unwrap import InputUnwrapper
from toolglot.receipt import Receipt


class EventPass(Protocol):
    def feed(self, event: Event) -> Sequence[Event]: ...


def run(event_pass: EventPass, events: Iterable[Event]) -> list[Event]:
    return [out for event in events for out in event_pass.feed(event)]


def tool(index: int, name: str = "f", call_id: str = "") -> Open:
    return Open(index, ToolCall(id=call_id or f"id{index}", name=name))


@st.composite
def interleaved(draw: st.DrawFn) -> list[Event]:
    """Up to four blocks whose events are shuffled, but for their own order."""
    count = draw(st.integers(1, 4))
    events: list[Event] = [Start()]
    left: dict[int, list[Event]] = {}
    opened = 0
    while opened < count or left:
        if opened < count and (not left or draw(st.booleans())):
            pieces = draw(st.lists(st.text(min_size=1, max_size=3), max_size=4))
            events.append(tool(opened))
            left[opened] = [*(Delta(opened, piece) for piece in pieces), Close(index=opened)]
            opened += 1
            continue
        index = draw(st.sampled_from(sorted(left)))
        events.append(left[index].pop(0))
        if not left[index]:
            del left[index]
    return [*events, Finish(stop=Stop("tool_calls"))]


@given(interleaved())
def test_interleaved_blocks_leave_one_after_the_other_and_whole(events: list[Event]) -> None:
    sequenced = run(Sequencer(), events)
    checker = Checker(sequential=True)
    for event in sequenced:
        checker.add(event)
    checker.close()
    assert fold(sequenced) == fold(events)


@given(interleaved())
def test_sequencing_twice_changes_nothing_more(events: list[Event]) -> None:
    once = run(Sequencer(), events)
    assert run(Sequencer(), once) == once


def test_the_first_open_block_streams_without_delay() -> None:
    sequencer = Sequencer()
    run(sequencer, [Start(), tool(0), tool(1)])
    assert run(sequencer, [Delta(1, "later")]) == []
    assert run(sequencer, [Delta(0, "now")]) == [Delta(0, "now")]
    assert run(sequencer, [Close(index=0)]) == [Close(index=0), tool(1), Delta(1, "later")]
    assert run(sequencer, [Delta(1, "now too")]) == [Delta(1, "now too")]


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolglot.passes.sequence.MAX_WAITING_CHARACTERS", 10)
    events: list[Event] = [Start(), tool(0), tool(1), Delta(1, "x" * 11), Delta(0, "y"), Close(index=0)]
    out = run(Sequencer(), events)
    assert isinstance(out[-1], Fault)
    assert [type(event) for event in out] == [Start, Open, Fault]


def test_small_events_that_wait_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolglot.passes.sequence.MAX_WAITING_BLOCKS", 5)
    events: list[Event] = [Start(), *(tool(index) for index in range(10))]
    assert [type(event) for event in run(Sequencer(), events)] == [Start, Open, Fault]
    monkeypatch.undo()
    monkeypatch.setattr("toolglot.passes.sequence.MAX_WAITING_CHARACTERS", 1000)
    events = [Start(), tool(0), tool(1), *(Delta(1, "x") for _ in range(100))]
    assert [type(event) for event in run(Sequencer(), events)] == [Start, Open, Fault]


def test_a_thousand_blocks_that_wait_leave_in_order() -> None:
    many = range(1, 1000)
    waiting: list[Event] = [event for index in many for event in (tool(index), Delta(index, "{}"), Close(index=index))]
    out = run(Sequencer(), [Start(), tool(0), *waiting, Close(index=0), Finish(stop=Stop("tool_calls"))])
    assert [event.index for event in out if isinstance(event, Close)] == list(range(1000))


STOPS: list[tuple[StopReason, bool, StopReason]] = [
    ("end", True, "tool_calls"),
    ("other", True, "tool_calls"),
    ("tool_calls", False, "end"),
    ("tool_calls", True, "tool_calls"),
    ("end", False, "end"),
    ("length", True, "length"),
    ("filtered", True, "filtered"),
    ("refusal", True, "refusal"),
]


@pytest.mark.parametrize(("said", "with_call", "meant"), STOPS)
def test_the_stop_reason_agrees_with_what_was_seen(said: StopReason, with_call: bool, meant: StopReason) -> None:
    body: list[Event] = [tool(0), Delta(0, "{}"), Close(index=0)] if with_call else []
    out = run(Settler(Receipt()), [Start(), *body, Finish(stop=Stop(said, "raw"))])
    assert isinstance(out[-1], Finish)
    assert out[-1].stop == Stop(meant, "raw")


@pytest.mark.parametrize(("pieces", "complete"), [(["{", "}"], True), ([], True), (['{"x'], False), (["[1]"], False)])
def test_a_call_that_is_no_object_at_its_end_is_marked(pieces: list[str], complete: bool) -> None:
    events: list[Event] = [Start(), tool(0), *(Delta(0, piece) for piece in pieces), Close(index=0), tool(1)]
    out = run(Settler(Receipt(), client=CLIENT_OF["openai_chat"]), events)
    assert out[-2:] == [Close(index=0, complete=complete), tool(1)]


BROKEN: list[Event] = [Start(), tool(0), Delta(0, '{"x'), Close(index=0)]


@pytest.mark.parametrize("reason", ["end", "tool_calls", "other", "stop_sequence", "pause"])
def test_a_stream_with_a_broken_call_ends_in_an_error(reason: StopReason) -> None:
    """Its client has seen the pieces; a normal end would make it run the call."""
    receipt = Receipt()
    out = run(Settler(receipt), [*BROKEN, Finish(stop=Stop(reason))])
    assert isinstance(out[-1], Fault)
    assert (out[-1].error.code, out[-1].error.retryable) == ("malformed_tool_call", True)
    assert [line.where for line in receipt.losses] == ["content[0]"]


@pytest.mark.parametrize("reason", ["length", "context_full", "filtered", "refusal"])
def test_a_call_that_was_cut_ends_as_the_response_does(reason: StopReason) -> None:
    receipt = Receipt()
    out = run(Settler(receipt), [*BROKEN, Finish(stop=Stop(reason))])
    assert out[-2:] == [Close(index=0, complete=False), Finish(stop=Stop(reason))]
    assert not receipt


def test_a_whole_response_keeps_its_broken_call_for_its_encoder_to_show() -> None:
    receipt = Receipt()
    out = run(Settler(receipt, whole=True), [*BROKEN, Finish(stop=Stop("tool_calls"))])
    assert out[-2:] == [Close(index=0, complete=False), Finish(stop=Stop("end"))]
    assert receipt.losses


@pytest.mark.parametrize(("reason", "complete"), [("length", False), ("filtered", False), ("tool_calls", True)])
def test_a_call_that_was_cut_before_its_arguments_is_no_call_without_arguments(
    reason: StopReason, complete: bool
) -> None:
    out = run(Settler(Receipt()), [Start(), tool(0), Close(index=0), Finish(stop=Stop(reason))])
    assert out[-2:] == [Close(index=0, complete=complete), Finish(stop=Stop(reason))]


def test_a_whole_call_before_a_cut_stays_whole() -> None:
    events: list[Event] = [Start(), tool(0), Delta(0, "{}"), Close(index=0), Finish(stop=Stop("length"))]
    assert run(Settler(Receipt()), events) == events


def test_only_the_close_of_a_call_without_arguments_waits_and_not_for_long() -> None:
    settler = Settler(Receipt())
    assert run(settler, [Start(), tool(0), Close(index=0)]) == [Start(), tool(0)]
    assert run(settler, [tool(1)]) == [Close(index=0), tool(1)]
    assert run(settler, [Delta(1, "{}"), Close(index=1)]) == [Delta(1, "{}"), Close(index=1)]


CLIENT_OF: dict[str, Capabilities] = {name: dialect.can for name, dialect in DIALECTS.items()}
MALFORMED = Stop("malformed_call", "MALFORMED_FUNCTION_CALL", detail="Malformed function call: f(")


@pytest.mark.parametrize("client", [name for name in CLIENT_OF if name != "gemini"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_call_that_its_server_could_not_read_is_a_stop_and_no_error(client: str, whole: bool) -> None:
    """Text and usage stay; where there is no text, one says what happened."""
    receipt, usage = Receipt(), Usage(input_tokens=3, output_tokens=2)
    finish = Finish(stop=MALFORMED, usage=usage)
    settler = Settler(receipt, whole=whole, client=CLIENT_OF[client])
    answer = fold(run(settler, [Start(), finish]))
    told = f"The model tried a tool call that its server did not accept: {MALFORMED.raw}: {MALFORMED.detail}"
    assert answer.content == (Text(text=f"[{told}]"),)
    assert (answer.stop, answer.usage) == (MALFORMED, usage)
    assert [(line.where, line.what, line.why) for line in receipt.losses] == [("stop", "MALFORMED_FUNCTION_CALL", told)]
    said: list[Event] = [Start(), Open(0, Text(text="")), Delta(0, "Let me see."), Close(index=0)]
    again = fold(run(Settler(Receipt(), whole=whole, client=CLIENT_OF[client]), [*said, finish]))
    assert again.content == (Text(text="Let me see."),)


def test_the_dialect_that_has_a_word_for_an_unreadable_call_says_it() -> None:
    receipt, finish = Receipt(), Finish(stop=MALFORMED)
    assert run(Settler(receipt, client=CLIENT_OF["gemini"]), [Start(), finish]) == [Start(), finish]
    assert not receipt


def test_sound_calls_beside_an_unreadable_one_are_answered() -> None:
    receipt = Receipt()
    body: list[Event] = [Start(), tool(0), Delta(0, "{}"), Close(index=0)]
    out = run(Settler(receipt, client=CLIENT_OF["anthropic"]), [*body, Finish(stop=MALFORMED)])
    assert out[:-1] == body
    assert out[-1] == Finish(stop=replace(MALFORMED, reason="tool_calls"))
    assert [line.what for line in receipt.losses] == ["MALFORMED_FUNCTION_CALL"]


@pytest.mark.parametrize("arguments", ["not JSON", "[1]", '"text"', '{"a":'])
@pytest.mark.parametrize("client", CLIENT_OF)
def test_arguments_that_are_no_object_end_a_stream_as_the_clients_wire_allows(client: str, arguments: str) -> None:
    receipt = Receipt()
    body: list[Event] = [Start(), tool(0), Delta(0, arguments), Close(index=0)]
    out = run(Settler(receipt, client=CLIENT_OF[client]), [*body, Finish(stop=Stop("tool_calls", "tool_calls"))])
    # A client that has seen the end of the block would keep the call.
    assert out[-2] == (Delta(0, arguments) if client == "anthropic" else Close(index=0, complete=False))
    ends = {"openai_chat": "tool_calls", "openai_responses": "tool_calls", "gemini": "malformed_call"}
    if client == "anthropic":
        assert isinstance(out[-1], Fault)
    else:
        assert out[-1] == Finish(stop=Stop(ends.get(client, "end"), "tool_calls"))  # type: ignore[arg-type]
    assert [line.where for line in receipt.losses] == ["content[0]"]


@pytest.mark.parametrize("arguments", ["{}", ""])
@pytest.mark.parametrize("client", ["openai_chat", "openai_responses"])
def test_a_call_that_looks_sound_and_is_not_ends_in_an_error(client: str, arguments: str) -> None:
    """The upstream's two accounts of it differ, say: nothing in the text would keep a client from running it."""
    deltas = [Delta(0, arguments)] if arguments else []
    body: list[Event] = [Start(), tool(0), *deltas, Close(index=0, complete=False)]
    out = run(Settler(Receipt(), client=CLIENT_OF[client]), [*body, Finish(stop=Stop("tool_calls"))])
    assert isinstance(out[-1], Fault)


def test_a_reason_that_was_corrected_is_noted() -> None:
    receipt = Receipt()
    body: list[Event] = [Start(), tool(0), Delta(0, "{}"), Close(index=0)]
    run(Settler(receipt), [*body, Finish(stop=Stop("end", "end_turn"))])
    run(Settler(receipt), [Start(), Finish(stop=Stop("tool_calls", "tool_use"))])
    assert [(line.severity, line.where, line.what) for line in receipt] == [
        ("note", "stop", "end_turn"),
        ("note", "stop", "tool_use"),
    ]


@pytest.mark.parametrize("reason", ["refusal", "filtered"])
def test_an_explanation_that_is_all_there_is_becomes_a_refusal(reason: StopReason) -> None:
    finish = Finish(stop=Stop(reason, detail="Not this."))
    assert fold(run(Settler(Receipt()), [Start(), finish])).content == (Refusal(text="Not this."),)
    body: list[Event] = [Start(), Open(0, Text(text="")), Delta(0, "x"), Close(index=0)]
    assert fold(run(Settler(Receipt()), [*body, finish])).content == (Text(text="x"),)


def context(**tools: OriginalTool) -> Context:
    can = Capabilities()
    return Context(source="a", target="b", can=can, receipt=Receipt(), tools=tools, call_ids={"used"})


CLIENT = Capabilities(
    ids=CallIdRules(max_length=20),
)


def opened(out: list[Event]) -> ToolCall:
    (block,) = [event.block for event in out if isinstance(event, Open)]
    assert isinstance(block, ToolCall)
    return block


def test_a_renamed_tool_gets_its_own_name_back() -> None:
    restorer = Restorer(context(short=OriginalTool("the.long.name", "ns")), CLIENT)
    call = opened(run(restorer, [tool(0, "short")]))
    assert (call.name, call.namespace) == ("the.long.name", "ns")


def test_a_call_without_an_id_gets_the_same_new_one_every_time() -> None:
    events = [Open(0, ToolCall(id="", name="f"))]
    first = opened(run(Restorer(context(), CLIENT), events))
    assert first.id
    assert first == opened(run(Restorer(context(), CLIENT), events))


def test_calls_without_ids_get_other_ones_in_another_conversation() -> None:
    """The same id in two conversations makes logs, stores and traces take two calls for one."""

    def call_id(answer_id: str) -> str:
        events: list[Event] = [Start(id=answer_id), Open(0, ToolCall(id="", name="f"))]
        return opened(run(Restorer(context(), CLIENT), events)).id

    assert call_id("a") == call_id("a") != call_id("b")


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("upstream", ["gemini", "ollama"])
def test_ids_that_an_upstream_does_not_give_depend_on_the_conversation(upstream: str, streams: bool) -> None:
    def answer(text: str) -> bytes:
        exchange = Exchange("anthropic", upstream)
        body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": text}]}
        exchange.request({**body, "stream": streams})
        dialect = DIALECTS[upstream]
        response = Response(content=(ToolCall(id="", name="f", arguments="{}"),), stop=Stop("tool_calls"))
        if not streams:
            return exchange.response(dialect.encode_response(response, None, Receipt()))
        encoder, stream = dialect.stream_encoder(None, Receipt()), exchange.stream()
        return stream.feed(b"".join([encoder.feed(event) for event in unfold(response)])) + stream.close()

    assert re.findall(rb"call_\w+", answer("A")) == re.findall(rb"call_\w+", answer("A")) != []
    assert re.findall(rb"call_\w+", answer("A")) != re.findall(rb"call_\w+", answer("B"))


@pytest.mark.parametrize("call_id", ["used", "functions.Bash:0", "x" * 100])
def test_an_id_that_is_used_or_illegal_is_replaced(call_id: str) -> None:
    call = opened(run(Restorer(context(), CLIENT), [tool(0, "f", call_id)]))
    assert call.id != call_id
    assert len(call.id) <= 20


NUMBERED = [
    (["call_2"], ["call_2_7"], [True]),
    (["call_2_7"], ["call_2"], [True]),
    ([], ["call_2", "call_2_7"], [False, True]),
    ([], ["call_2_7", "call_2"], [False, True]),
    (["call_2"], ["call_3_7", "call_2_x7", "call_27", "call_2_"], [False] * 4),
    (["call_2_x7"], ["call_2"], [False]),
]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("client", ["anthropic", "openai_responses"])
@pytest.mark.parametrize("upstream", ["openai_chat", "gemini"])
@pytest.mark.parametrize(("before", "answered", "changed"), NUMBERED)
def test_a_client_that_takes_an_id_with_a_number_for_a_part_of_another_gets_a_new_one(
    client: str, upstream: str, before: list[str], answered: list[str], changed: list[bool], streams: bool
) -> None:
    calls = [ToolCall(id=each, name="f", arguments="{}") for each in before]
    results = [ToolResult(call_id=each, name="f", content=(Text(text="1"),)) for each in before]
    history = (
        Message(role="user", content=(Text(text="Go."),)),
        *(
            [Message(role="assistant", content=tuple(calls)), Message(role="user", content=tuple(results))]
            * bool(calls)
        ),
    )
    exchange = Exchange(client, upstream)
    request = Request(model="m", messages=history, stream=streams, max_output_tokens=9)
    exchange.request(DIALECTS[client].encode_request(request, Receipt()))
    content = tuple(ToolCall(id=each, name="f", arguments="{}") for each in answered)
    response, dialect = Response(id="r", content=content, stop=Stop("tool_calls")), DIALECTS[upstream]
    if streams:
        encoder, stream = dialect.stream_encoder(None, Receipt()), exchange.stream()
        written = stream.feed(b"".join([encoder.feed(event) for event in unfold(response)])) + stream.close()
        got = fold(read_stream([written], client))
    else:
        got = DIALECTS[client].decode_response(exchange.response(dialect.encode_response(response, None, Receipt())))
    ids = [block.id for block in got.content if isinstance(block, ToolCall)]
    expected = changed if client == "anthropic" else [False] * len(changed)
    assert [new != old for new, old in zip(ids, answered, strict=True)] == expected
    assert all(
        re.fullmatch(rf"{old}_[0-9a-f]*[a-f][0-9a-f]*|{old}", new) for new, old in zip(ids, answered, strict=True)
    )


def test_two_calls_of_one_answer_never_share_an_id() -> None:
    out = run(Restorer(context(), CLIENT), [tool(0, "f", "same"), Close(index=0), tool(1, "f", "same"), Close(index=1)])
    ids = [event.block.id for event in out if isinstance(event, Open) and isinstance(event.block, ToolCall)]
    assert len(set(ids)) == 2


def test_a_wrapped_custom_tool_is_unwrapped_as_it_streams() -> None:
    restorer = Restorer(context(patch=OriginalTool("patch", None, "custom")), CLIENT)
    assert opened(run(restorer, [tool(0, "patch")])).kind == "custom"
    assert run(restorer, [Delta(0, '{"inp')]) == []
    assert run(restorer, [Delta(0, 'ut": "line 1\\nli')]) == [Delta(0, "line 1\nli")]
    assert run(restorer, [Delta(0, 'ne 2"}')]) == [Delta(0, "ne 2")]
    assert run(restorer, [Close(index=0)]) == [Close(index=0)]


def test_a_custom_tool_that_is_called_with_something_else_ends_a_stream_in_an_error() -> None:
    events: list[Event] = [Start(), tool(0, "patch"), Delta(0, '{"text":"x"}'), Close(index=0)]
    finish = Finish(stop=Stop("tool_calls"))
    tools = {"patch": OriginalTool("patch", None, "custom")}
    assert isinstance(run(Restorer(context(**tools), CLIENT), [*events, finish])[-1], Fault)
    out = run(Restorer(context(**tools), CLIENT, whole=True), [*events, finish])
    assert out[-2:] == [Close(index=0, complete=False), finish]


@given(st.text(alphabet=" \n\t", max_size=30), st.text(alphabet=" \n", max_size=30), st.booleans())
def test_space_around_the_head_says_nothing_and_stays_when_it_is_handed_on(one: str, two: str, other: bool) -> None:
    name = "in put" if other else "input"
    wrapped = f'{one}{{{two}"{name}"{one}:{two}"a  b"{one}}}{two}'
    unwrapper = InputUnwrapper()
    text = "".join(unwrapper.feed(letter) for letter in wrapped) + unwrapper.close()
    assert text == (wrapped if other else "a  b")
    assert unwrapper.exact is not other


def test_endless_space_before_the_head_costs_no_second_look() -> None:
    unwrapper = InputUnwrapper()
    for _ in range(10_000):
        unwrapper.feed("{" if _ == 0 else " " * 100)
    assert len(unwrapper._held) < 200
    assert unwrapper.feed('"input":"x"}') == "x"


@given(st.text(), st.lists(st.integers(0, 500), max_size=8), st.booleans())
def test_any_text_is_unwrapped_exactly_however_it_is_cut(text: str, cuts: list[int], ascii_: bool) -> None:
    wrapped = json.dumps({"input": text}, ensure_ascii=ascii_)
    if any(0xD800 <= ord(letter) < 0xE000 for letter in text):
        return
    edges = [0, *sorted(min(cut, len(wrapped)) for cut in cuts), len(wrapped)]
    unwrapper = InputUnwrapper()
    out = [unwrapper.feed(wrapped[a:b]) for a, b in itertools.pairwise(edges)]
    assert "".join(out) + unwrapper.close() == text
    assert unwrapper.exact


@pytest.mark.parametrize(
    ("arguments", "text", "exact", "readable"),
    [
        ('{"other":1,"input":"x"}', "x", False, True),
        ('{"input":"x","more":1}', "x", False, True),
        ('{"text":"x"}', '{"text":"x"}', False, False),
        ("free text", "free text", False, False),
        ('{"input":"cut', "cut", False, False),
        ("", "", False, False),
    ],
)
def test_what_is_wrapped_otherwise_is_told(arguments: str, text: str, exact: bool, readable: bool) -> None:
    unwrapper = InputUnwrapper()
    assert unwrapper.feed(arguments) + unwrapper.close() == text
    assert (unwrapper.exact, unwrapper.readable) == (exact, readable)


def test_text_passes_untouched() -> None:
    events: list[Event] = [Start(), Open(0, Text(text="")), Delta(0, "x"), Close(index=0)]
    for event_pass in (Sequencer(), Settler(Receipt()), Restorer(context(), CLIENT)):
        assert run(event_pass, events) == events


@pytest.mark.parametrize("client", ["anthropic", "gemini"])
def test_a_custom_call_reaches_a_client_of_functions_as_the_function_that_stands_for_it(client: str) -> None:
    """Free text in place of JSON arguments would be a broken call, and none at all a valid-looking one."""
    for text in ('say "hi"\n', ""):
        events: list[Event] = [
            Start(id="r", model="m"),
            Open(0, ToolCall(id="c", name="exec", kind="custom")),
            *([Delta(0, text[:4]), Delta(0, text[4:])] if text else []),
            Close(index=0),
            Finish(stop=Stop("tool_calls")),
        ]
        exchange = Exchange(client, "openai_responses")
        source = DIALECTS["openai_responses"].stream_encoder(None, Receipt())
        translation = exchange.stream()
        written = translation.feed(b"".join(source.feed(event) for event in events)) + translation.close()
        response = fold(read_stream(written, client))
        (call,) = response.content
        assert isinstance(call, ToolCall)
        assert json.loads(call.arguments) == {"input": text}
        assert not exchange.receipt.losses
