"""Text deltas to calls: order, ids, ends, what is bad and what is done about it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import PER_PAIR
from tests.exchanges import JSON_NAMES as NAMES
from tests.exchanges import JSON_PAIRS as PAIRS
from tests.exchanges import calls_of, check, folded, meaning, read_events, write_events
from tests.strategies import event_streams
from tests.textcalls.conversations import (
    SEVERAL,
    TOOLS,
    USAGE,
    answered,
    ask,
    asking,
    document_of,
    events_of,
    exchange_of,
    heard,
    stream_of,
    user,
)
from toolglot.dialects import DIALECTS
from toolglot.errors import UpstreamError
from toolglot.events import Checker, Close, Delta, Event, Fault, Finish, Open, Start
from toolglot.ir import (
    Block,
    Citation,
    Message,
    Response,
    Stop,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
    native_of,
    replace,
)
from toolglot.passes import Context, TextCallContext
from toolglot.passes.event_chain import EventChain
from toolglot.passes.event_passes import through
from toolglot.receipt import Receipt
from toolglot.streaming import StreamTranslation
from toolglot.textcalls import find_format
from toolglot.textcalls.answer import RAW_NOTE, TextAnswerPass
from toolglot.textcalls.prompts.render import PROMPTS, calls_text
from toolglot.textcalls.settings import BadCalls, TextCalls
from toolglot.translate import ExchangeCore

PARIS = ToolCall(id="abc123DEF", name="get_weather", arguments='{"city":"Paris"}')
NOW = ToolCall(id="abc123DEG", name="get_time", arguments="{}")


def context(format_name: str = "hermes_json", *, bad_calls: BadCalls = "pass", rescue: bool = False) -> Context:
    return Context(
        source="anthropic",
        target="openai_chat",
        can=DIALECTS["openai_chat"].can,
        receipt=Receipt(),
        text=TextCallContext(
            calls=TextCalls(format=format_name, bad_calls=bad_calls, rescue=rescue),
            tools={tool.name: tool.parameters for tool in TOOLS},
            added_stops=("\n<tool_response>",),
        ),
    )


def passed(events: Iterable[Event], shared: Context | None = None, *, whole: bool = False) -> list[Event]:
    answer = TextAnswerPass(shared if shared is not None else context(), whole=whole)
    out = [one for event in events for one in answer.feed(event)]
    check(out, sequential=True)
    return out


def shapes(events: Iterable[Event]) -> list[str]:
    return [type(block).__name__ for block in folded(events).content]


# Order and indices


def test_text_and_calls_keep_their_order_and_indices_count_up() -> None:
    text = f"First.\n{calls_text('hermes_json', (PARIS,))}\nThen.\n{calls_text('hermes_json', (NOW,))}\n"
    out = passed(events_of(text))
    assert shapes(out) == ["Text", "ToolCall", "Text", "ToolCall"]
    assert [event.index for event in out if isinstance(event, Open)] == [0, 1, 2, 3]


def test_white_space_around_calls_is_no_block() -> None:
    text = f"\n\n{calls_text('hermes_json', (PARIS, NOW))}\n\n"
    assert shapes(passed(events_of(text))) == ["ToolCall", "ToolCall"]


@pytest.mark.parametrize("text", ["\n", " \n x", "Hello\n", "  ", "x < y", "a <tool_ca", "<tool_call>"])
def test_an_answer_without_calls_is_the_same_text(text: str) -> None:
    assert folded(passed(events_of(text))).content == (Text(text=text),)


def test_text_leaves_at_once() -> None:
    answer = TextAnswerPass(context())
    answer.feed(Start())
    answer.feed(Open(0, Text(text="")))
    assert answer.feed(Delta(0, "Hel")) == [Open(0, Text(text="")), Delta(0, "Hel")]
    assert answer.feed(Delta(0, "lo ")) == (Delta(0, "lo "),)
    assert list(answer.feed(Delta(0, "<tool"))) == []
    assert answer.feed(Delta(0, "s>")) == (Delta(0, "<tools>"),)


def test_reasoning_in_the_text_is_reasoning_and_calls_in_it_are_none() -> None:
    text = f"<think>\nI could {calls_text('hermes_json', (NOW,))}\n</think>\n\nNo need."
    content = folded(passed(events_of(text))).content
    assert [type(block) for block in content] == [Thinking, Text]
    assert content[1] == Text(text="No need.")


def test_what_the_upstream_gives_natively_passes_in_its_place() -> None:
    native: list[Event] = [
        Start(),
        Open(0, Thinking()),
        Delta(0, "hm"),
        Close(index=0),
        Open(1, Text(text="")),
        Delta(1, f"So: {calls_text('hermes_json', (PARIS,))} <"),
        Close(index=1),
        Open(2, ToolCall(id="n", name="get_time")),
        Delta(2, "{}"),
        Close(index=2),
        Finish(stop=Stop("tool_calls")),
    ]
    content = folded(passed(native)).content
    assert [type(block) for block in content] == [Thinking, Text, ToolCall, Text, ToolCall]
    assert content[3] == Text(text=" <")
    assert content[4] == replace(NOW, id="n")


def test_interleaved_blocks_are_put_in_order_first() -> None:
    native: list[Event] = [
        Start(),
        Open(0, Text(text="")),
        Open(1, ToolCall(id="n", name="get_time")),
        Delta(1, "{}"),
        Delta(0, "a "),
        Close(index=1),
        Delta(0, "b"),
        Close(index=0),
        Finish(stop=Stop("end")),
    ]
    assert folded(passed(native)).content == (Text(text="a b"), replace(NOW, id="n"))


def test_citations_and_fields_of_a_text_stay_with_it() -> None:
    cited = (Citation(url="https://example.com"),)
    native: list[Event] = [
        Start(),
        Open(0, Text(text="", native={"gemini": {"x": 1}})),
        Delta(0, "a"),
        Close(index=0, citations=cited, native={"gemini": {"y": 2}}),
        Open(1, Text(text="")),
        Delta(1, calls_text("hermes_json", (NOW,))),
        Close(index=1, native={"gemini": {"z": 3}}),
        Finish(stop=Stop("end")),
    ]
    first, called, last = folded(passed(native)).content
    assert first == Text(text="a", citations=cited, native={"gemini": {"x": 1, "y": 2}})
    assert isinstance(called, ToolCall)
    assert last == Text(text="", native={"gemini": {"z": 3}})


@pytest.mark.parametrize("dialect", NAMES)
def test_no_two_blocks_of_an_answer_have_the_fields_of_one(dialect: str) -> None:
    exchange = exchange_of(dialect, dialect, "hermes_json")
    ask(exchange, asking(user("Hello")))
    text = f"First.\n{calls_text('hermes_json', (PARIS,))}\nThen."
    content = answered(exchange, [stream_of(dialect, text)]).content
    natives = [block.native for block in content if isinstance(block, Text) and block.native.get(dialect, {}).get("id")]
    assert len(natives) == len({json.dumps(native) for native in natives})


@pytest.mark.parametrize("format_name", SEVERAL)
@given(data=st.data())
def test_any_cutting_of_the_text_gives_the_same_blocks(format_name: str, data: st.DataObject) -> None:
    text = f"Well.\n{calls_text(format_name, (PARIS, NOW))}"
    text = text[: data.draw(st.integers(0, len(text)))]
    reason: StopReason = data.draw(st.sampled_from(["end", "length"]))
    is_whole = data.draw(st.booleans())
    whole = passed(events_of(text, reason, pieces=max(len(text), 1)), context(format_name), whole=is_whole)
    cut = passed(events_of(text, reason, pieces=data.draw(st.integers(1, 9))), context(format_name), whole=is_whole)
    if isinstance(whole[-1], Fault):
        assert not is_whole
        assert cut[-1] == whole[-1]
    else:
        assert folded(cut) == folded(whole)


@given(events=event_streams(), data=st.data())
def test_any_stream_of_events_stays_grammatical(events: list[Event], data: st.DataObject) -> None:
    bad_calls: BadCalls = data.draw(st.sampled_from(["pass", "fail", "ask"]))
    marks = ["<tool_call>", '{"name": "get_time", "arguments": {}}', "</tool_call>", "<think>", "</think>", "\n", "x"]
    shared = context(bad_calls=bad_calls, rescue=data.draw(st.booleans()))
    answer = TextAnswerPass(shared)
    checker = Checker(sequential=True)
    for event in events:
        if isinstance(event, Delta):
            event = Delta(event.index, data.draw(st.sampled_from([*marks, event.text])))
        for out in answer.feed(event):
            checker.add(out)
    if answer.pending_retry is None:
        checker.close()


# Ends


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        (Stop("end", "stop"), Stop("end", "stop")),
        (Stop("stop_sequence", "stop_sequence", "\n<tool_response>"), Stop("end")),
        (Stop("stop_sequence", "stop_sequence"), Stop("end")),
        (Stop("stop_sequence", "stop_sequence", "END"), Stop("stop_sequence", "stop_sequence", "END")),
        (Stop("length"), Stop("length")),
    ],
)
def test_a_stop_sequence_of_ours_is_nobody_s_business(stop: Stop, expected: Stop) -> None:
    events = [*events_of("Hello")[:-1], Finish(stop=stop)]
    assert folded(passed(events)).stop == expected


@pytest.mark.parametrize("client", NAMES)
def test_a_call_that_a_stop_sequence_ended_is_a_call(client: str) -> None:
    exchange = exchange_of(client, "anthropic", "hermes_json")
    ask(exchange, asking(user("Hello")))
    sequence = (exchange.sent.stop if exchange.sent else ())[-1]
    events = [*events_of(calls_text("hermes_json", (PARIS,)))[:-1], Finish(stop=Stop("stop_sequence", None, sequence))]
    response = answered(exchange, [write_events("anthropic", events)])
    assert response.stop.reason == "tool_calls"
    assert response.stop.sequence is None


@pytest.mark.parametrize("format_name", SEVERAL)
def test_a_call_that_the_limit_cut_is_never_whole(format_name: str) -> None:
    text = calls_text(format_name, (replace(PARIS, arguments='{"city":"Paris","days":123}'),))
    for end in range(len(text)):
        calls = calls_of(folded(passed(events_of(text[:end], "length"), context(format_name))).content)
        assert all(not call.complete or meaning(call.arguments) == {"city": "Paris", "days": 123} for call in calls)


def test_a_cut_call_is_told() -> None:
    shared = context()
    passed(events_of('<tool_call>\n{"name": "get_weather", "arguments": {"city": "Par', "length"), shared)
    assert [line.what for line in shared.receipt.losses] == ["call of get_weather"]


@pytest.mark.parametrize("client", NAMES)
def test_a_broken_call_that_nothing_cut_is_an_error(client: str) -> None:
    exchange = exchange_of(client, "openai_chat", "hermes_json")
    ask(exchange, asking(user("Hello")))
    broken = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Par'
    assert isinstance(heard(exchange, [stream_of("openai_chat", broken)])[-1], Fault)


def test_a_fault_makes_nothing_whole() -> None:
    text = calls_text("hermes_json", (PARIS,))
    exchange = exchange_of("anthropic", "openai_chat", "hermes_json")
    ask(exchange, asking(user("Hello")))
    stream = stream_of("openai_chat", text)
    events = heard(exchange, [stream[: len(stream) // 2]])
    assert isinstance(events[-1], Fault)
    assert not any(isinstance(event, Close) and event.complete for event in events)


# Ids


@pytest.mark.parametrize("format_name", SEVERAL)
def test_an_id_is_ours_whatever_the_model_wrote(format_name: str) -> None:
    out = passed(events_of(calls_text(format_name, (PARIS, NOW))), context(format_name))
    ids = [call.id for call in calls_of(folded(out).content)]
    assert len(set(ids)) == 2
    assert all(re.fullmatch("call_[0-9a-f]{24}", call_id) for call_id in ids)


def ids_of(answer_id: str, *messages: Message) -> list[str]:
    shared = context()
    assert shared.text is not None
    shared.text.client_messages = messages
    events = [Start(id=answer_id), *events_of(calls_text("hermes_json", (PARIS, PARIS)))[1:]]
    return [call.id for call in calls_of(folded(passed(events, shared)).content)]


def test_ids_differ_between_answers_and_between_conversations() -> None:
    told = [
        *ids_of("a", user("Hello")),
        *ids_of("b", user("Hello")),
        *ids_of("", user("Hello")),
        *ids_of("", user("Bye")),
        *ids_of("", user("Hello"), user("Bye")),
        *ids_of("", Message(role="user", content=(ToolResult(call_id="1", content=(Text(text="x"),)),))),
    ]
    assert len(told) == len(set(told))
    assert ids_of("a", user("Hello")) == told[:2]


@pytest.mark.parametrize("client", NAMES)
def test_ids_are_made_of_what_stands_before_and_not_of_chance(client: str) -> None:
    def ids() -> list[str]:
        exchange = exchange_of(client, "openai_chat", "hermes_json")
        ask(exchange, asking(user("Hello")))
        response = answered(exchange, [stream_of("openai_chat", calls_text("hermes_json", (PARIS, PARIS)))])
        return [call.id for call in calls_of(response.content)]

    assert ids() == ids()
    assert len(set(ids())) == 2


# Repair


def test_a_repair_is_told_and_the_raw_text_kept() -> None:
    shared = context()
    text = "<tool_call>\n{'name': 'get_weather', 'arguments': {'city': 'Paris',}}\n</tool_call>"
    (call,) = calls_of(folded(passed(events_of(text), shared)).content)
    assert meaning(call.arguments) == {"city": "Paris"}
    (note,) = shared.receipt.notes
    assert note.what == "arguments of get_weather"
    assert "'city'" in str(native_of(call, "toolglot")[RAW_NOTE])


# What is wrong with a call


UNKNOWN = '<tool_call>\n{"name": "get_wind", "arguments": {}}\n</tool_call>'
MISSING = '<tool_call>\n{"name": "get_weather", "arguments": {"days": 2}}\n</tool_call>'
WRONG = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": "two"}}\n</tool_call>'
BAD = {"unknown": (UNKNOWN, "get_wind"), "missing": (MISSING, "city"), "wrong": (WRONG, "days")}


@pytest.mark.parametrize(("text", "told"), BAD.values(), ids=BAD)
def test_a_bad_call_passes_with_a_note(text: str, told: str) -> None:
    shared = context()
    (call,) = calls_of(folded(passed(events_of(text), shared)).content)
    assert call.complete
    (note,) = shared.receipt.notes
    assert told in note.why
    assert not shared.receipt.losses


@pytest.mark.parametrize(("text", "told"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("client", NAMES)
def test_a_bad_call_can_be_an_error(client: str, text: str, told: str) -> None:
    exchange = exchange_of(client, "openai_chat", "hermes_json", bad_calls="fail")
    ask(exchange, asking(user("Hello")))
    events = heard(exchange, [stream_of("openai_chat", f"Look: {text} and more")])
    assert isinstance(events[-1], Fault)
    assert told in events[-1].error.message
    whole = exchange_of(client, "openai_chat", "hermes_json", bad_calls="fail")
    ask(whole, asking(user("Hello"), stream=False))
    with pytest.raises(UpstreamError, match=told):
        whole.response(document_of("openai_chat", text))


# Asking again


def asking_again(client: str, upstream: str, format_name: str = "hermes_json", *, stream: bool = True) -> ExchangeCore:
    exchange = exchange_of(client, upstream, format_name, bad_calls="ask")
    ask(exchange, asking(user("Hello"), stream=stream))
    return exchange


def fed(translation: StreamTranslation, stream: bytes, size: int = 50) -> bytes:
    chunks = [stream[start : start + size] for start in range(0, len(stream), size)]
    return b"".join([translation.feed(chunk) for chunk in chunks]) + translation.close()


def problems(asked: ExchangeCore | StreamTranslation) -> tuple[str, ...]:
    """What the model is to be told, where it is to be asked again."""
    return asked.pending_retry.problems if asked.pending_retry is not None else ()


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_the_second_answer_goes_on_in_the_same_stream(client: str, upstream: str) -> None:
    exchange = asking_again(client, upstream)
    translation = exchange.stream()
    first = fed(translation, stream_of(upstream, f"I look.\n{calls_text('hermes_json', (NOW,))}\n{MISSING}"))
    assert len(problems(translation)) == 1
    request = json.dumps(json.loads(translation.encode_retry()), ensure_ascii=False)
    assert "city is missing" in request
    assert not problems(translation)
    second = fed(translation, stream_of(upstream, calls_text("hermes_json", (NOW, PARIS))))
    events = read_events(client, [first + second])
    check(events)
    response = folded(events)
    assert [(call.name, meaning(call.arguments)) for call in calls_of(response.content)] == [
        ("get_time", {}),
        ("get_weather", {"city": "Paris"}),
    ]
    assert "".join(block.text for block in response.content if isinstance(block, Text)).strip() == "I look."
    assert response.stop.reason == "tool_calls"
    assert response.usage is not None
    assert response.usage.output_tokens == 2 * (USAGE.output_tokens or 0)
    assert not exchange.receipt.losses


def test_the_earlier_names_of_a_retry_still_work() -> None:
    answers = [asking_again("anthropic", "openai_chat", stream=False) for _ in range(2)]
    for exchange in answers:
        exchange.response(document_of("openai_chat", f"I look.\n{UNKNOWN}"))
    new, old = answers
    assert old.wants_again == new.pending_retry is not None
    assert old.again() == new.encode_retry()
    assert old.stream().wants_again is None
    with pytest.raises(ValueError, match="no retry is needed"):
        ExchangeCore("anthropic", "openai_chat").stream().again()


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_a_whole_answer_is_asked_for_again_too(client: str, upstream: str) -> None:
    exchange = asking_again(client, upstream, stream=False)
    assert exchange.response(document_of(upstream, f"I look.\n{UNKNOWN}")) == b""
    assert len(problems(exchange)) == 1
    told = json.dumps(json.loads(exchange.encode_retry()), ensure_ascii=False)
    assert "get_wind" in told
    assert not problems(exchange)
    response = DIALECTS[client].decode_response(
        exchange.response(document_of(upstream, calls_text("hermes_json", (PARIS,))))
    )
    assert [call.name for call in calls_of(response.content)] == ["get_weather"]
    assert response.usage is not None
    assert response.usage.output_tokens == 2 * (USAGE.output_tokens or 0)


def test_the_model_is_asked_again_once() -> None:
    exchange = asking_again("anthropic", "openai_chat")
    translation = exchange.stream()
    fed(translation, stream_of("openai_chat", UNKNOWN))
    translation.encode_retry()
    written = fed(translation, stream_of("openai_chat", MISSING))
    assert translation.pending_retry is None
    assert translation.ended
    assert b'"tool_use"' in written


def test_good_calls_wait_for_the_end_and_then_come() -> None:
    exchange = asking_again("anthropic", "openai_chat")
    translation = exchange.stream()
    stream = stream_of("openai_chat", f"I look.\n{calls_text('hermes_json', (PARIS, NOW))}")
    end = stream.index(b'"finish_reason":"')
    before = translation.feed(stream[:end])
    assert b"text_delta" in before
    assert b'"tool_use"' not in before
    after = translation.feed(stream[end:]) + translation.close()
    response = folded(read_events("anthropic", [before + after]))
    assert len(calls_of(response.content)) == 2
    assert translation.pending_retry is None


def test_an_answer_that_the_limit_cut_is_not_asked_for_again() -> None:
    exchange = asking_again("anthropic", "openai_chat")
    translation = exchange.stream()
    fed(translation, stream_of("openai_chat", f"{MISSING}\n<tool_call>", "length"))
    assert translation.pending_retry is None
    assert translation.ended


def test_what_the_model_is_told_is_its_own_turn_and_an_error_for_each_call() -> None:
    exchange = asking_again("anthropic", "openai_chat", "anthropic_xml")
    translation = exchange.stream()
    wrong = calls_text("anthropic_xml", (NOW, replace(PARIS, arguments='{"days":1}')))
    fed(translation, stream_of("openai_chat", wrong))
    *_, turn, answer = json.loads(translation.encode_retry())["messages"]
    assert turn == {"role": "assistant", "content": wrong}
    assert answer["role"] == "user"
    assert answer["content"].count("<error>") == 2
    assert "This call was not run" in answer["content"]


def test_a_second_try_counts_calls_on_where_the_format_counts_them() -> None:
    past = (
        Message(role="assistant", content=(NOW,)),
        Message(role="user", content=(ToolResult(call_id=NOW.id, name=NOW.name, content=(Text(text="noon"),)),)),
    )
    exchange = exchange_of("anthropic", "openai_chat", "kimi_k2", bad_calls="ask")
    ask(exchange, asking(user("Hello"), *past))
    translation = exchange.stream()
    wrong = calls_text("kimi_k2", (replace(PARIS, arguments="{}"),), 1)
    fed(translation, stream_of("openai_chat", wrong))
    assert "functions.get_weather:1" in json.loads(translation.encode_retry())["messages"][-1]["content"]


def test_a_second_try_goes_on_behind_the_beginning_that_was_given() -> None:
    exchange = exchange_of("openai_chat", "openai_chat", "hermes_json", bad_calls="ask")
    ask(exchange, asking(user("Hello"), Message(role="assistant", content=(Text(text="Well, "),))))
    translation = exchange.stream()
    fed(translation, stream_of("openai_chat", f"I look. {UNKNOWN}"))
    *_, turn, _ = json.loads(translation.encode_retry())["messages"]
    assert turn == {"role": "assistant", "content": f"Well, I look. {UNKNOWN}"}


def test_a_failed_answer_stays_failed() -> None:
    cut = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Par'
    out = passed(events_of(cut), context(bad_calls="fail"))
    assert isinstance(out[-1], Fault)
    assert "get_weather" in out[-1].error.message
    limited = folded(passed(events_of(cut, "length"), context(bad_calls="fail")))
    assert [call.complete for call in calls_of(limited.content)] == [False]
    assert limited.stop.reason == "length"


def test_there_is_nothing_to_ask_again_where_nothing_was_wrong() -> None:
    exchange = asking_again("anthropic", "openai_chat")
    with pytest.raises(ValueError, match="retry"):
        exchange.encode_retry()
    with pytest.raises(ValueError, match="retry"):
        ExchangeCore("anthropic", "openai_chat").stream().encode_retry()


def test_usage_of_two_answers_adds_up() -> None:
    shared = context(bad_calls="ask")
    answer = TextAnswerPass(shared)
    for event in events_of(UNKNOWN):
        answer.feed(event)
    answer.begin_retry()
    out = [one for event in events_of("No.") for one in answer.feed(event)]
    assert isinstance(out[-1], Finish)
    assert out[-1].usage == Usage(input_tokens=60, output_tokens=24)


# Where nothing may be called


def test_where_no_tool_may_be_called_calls_are_text_and_reasoning_is_told_apart() -> None:
    exchange = exchange_of("openai_chat", "openai_chat", "hermes_json")
    ask(exchange, replace(asking(user("Hello")), tool_choice=ToolChoice(mode="none")))
    text = calls_text("hermes_json", (PARIS,))
    response = answered(exchange, [stream_of("openai_chat", f"<think>hm</think>{text}")])
    assert [type(block) for block in response.content] == [Thinking, Text]
    assert response.content[1] == Text(text=text)
    assert response.stop.reason == "end"


# Rescue


def rescuing(client: str, upstream: str) -> ExchangeCore:
    exchange = ExchangeCore(client, upstream, text_calls=TextCalls(format="hermes_json", rescue=True))
    ask(exchange, asking(user("Hello")))
    return exchange


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_a_leaked_call_is_picked_out_of_the_text(client: str, upstream: str) -> None:
    exchange = rescuing(client, upstream)
    assert exchange.sent is not None
    assert len(exchange.sent.tools) == 2
    response = answered(exchange, [stream_of(upstream, f"I look.\n{calls_text('hermes_json', (PARIS,))}")])
    assert [(call.name, meaning(call.arguments)) for call in calls_of(response.content)] == [
        ("get_weather", {"city": "Paris"})
    ]
    assert response.stop.reason == "tool_calls"
    assert any(line.why == "it was in the text" for line in exchange.receipt.notes)


def test_a_leaked_call_of_an_undeclared_tool_is_text() -> None:
    response = answered(rescuing("anthropic", "openai_chat"), [stream_of("openai_chat", UNKNOWN)])
    assert response.content == (Text(text=UNKNOWN),)


def test_native_calls_pass_beside_a_leaked_one() -> None:
    exchange = rescuing("anthropic", "openai_chat")
    native: tuple[Block, ...] = (Text(text=calls_text("hermes_json", (PARIS,))), NOW)
    whole = Response(id="r", model="m", content=native, stop=Stop("tool_calls"))
    written = exchange.response(DIALECTS["openai_chat"].encode_response(whole, None, Receipt()))
    calls = calls_of(DIALECTS["anthropic"].decode_response(written).content)
    assert [call.name for call in calls] == ["get_weather", "get_time"]


BROKEN_LEAKS = {
    "cut": '<tool_call>{"name": "get_weather", "arguments": {"city": "Par',
    "no JSON": '<tool_call>{"name": "get_weather", "arguments": {"city": Paris rains</tool_call> and more',
    "a second one": '<tool_call>{"name": "get_weather", "arguments": {"city": x y</tool_call><tool_call>{"na',
}


@pytest.mark.parametrize("leak", BROKEN_LEAKS.values(), ids=BROKEN_LEAKS)
@pytest.mark.parametrize("bad_calls", ["pass", "ask", "fail"])
@pytest.mark.parametrize("reason", ["tool_calls", "length"])
@pytest.mark.parametrize("pieces", [1, 7, 1000])
def test_a_broken_leak_beside_a_native_call_stays_the_text_that_it_was(
    leak: str, bad_calls: BadCalls, reason: StopReason, pieces: int
) -> None:
    settings = TextCalls(format="hermes_json", rescue=True, bad_calls=bad_calls)
    exchange = ExchangeCore("anthropic", "openai_chat", text_calls=settings)
    ask(exchange, asking(user("Hello")))
    *said, finish = events_of(f"I look.\n{leak}", reason, pieces)
    native: list[Event] = [Open(1, replace(NOW, arguments="")), Delta(1, "{}"), Close(index=1), finish]
    response = answered(exchange, [write_events("openai_chat", [*said, *native])])
    assert [call.name for call in calls_of(response.content)] == ["get_time"]
    assert "".join(block.text for block in response.content if isinstance(block, Text)) == f"I look.\n{leak}"
    assert [line.why for line in exchange.receipt.notes if "stays text" in line.why]


def test_of_a_list_of_leaked_calls_only_the_broken_one_is_text() -> None:
    exchange = ExchangeCore("anthropic", "openai_chat", text_calls=TextCalls(format="mistral", rescue=True))
    ask(exchange, asking(user("Hello")))
    leak = '[TOOL_CALLS][{"name": "get_time", "arguments": {}}, {"name": "get_weather", "arguments": {"city": "Par'
    called, text = answered(exchange, [stream_of("openai_chat", leak)]).content
    assert isinstance(called, ToolCall)
    assert isinstance(text, Text)
    assert called.name == "get_time"
    assert text.text.endswith('{"city": "Par')


def test_a_whole_answer_keeps_a_broken_leak_as_text_too() -> None:
    exchange = rescuing("anthropic", "openai_chat")
    leak = BROKEN_LEAKS["cut"]
    written = exchange.response(document_of("openai_chat", leak))
    assert DIALECTS["anthropic"].decode_response(written).content == (Text(text=leak),)


@pytest.mark.parametrize("format_name", PROMPTS)
@given(data=st.data())
def test_a_leak_is_a_call_or_its_own_text_wherever_it_ends(format_name: str, data: st.DataObject) -> None:
    exchange = ExchangeCore("openai_chat", "openai_chat", text_calls=TextCalls(format=format_name, rescue=True))
    ask(exchange, asking(user("Hello")))
    leak = calls_text(format_name, (PARIS,))
    text = f"Well:\n{leak[: data.draw(st.integers(0, len(leak)))]}"
    response = answered(exchange, [stream_of("openai_chat", text, pieces=data.draw(st.integers(1, 9)))])
    calls = calls_of(response.content)
    said = "".join(block.text for block in response.content if isinstance(block, Text))
    if calls:
        assert [(call.name, meaning(call.arguments)) for call in calls] == [("get_weather", {"city": "Paris"})]
    else:
        for mark in find_format(format_name).dropped:
            said, text = said.replace(mark, ""), text.replace(mark, "")
        assert said.strip() == text.strip()


# The short way of a delta


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
@PER_PAIR
@given(data=st.data())
def test_the_short_way_of_a_delta_gives_the_same_bytes(client: str, upstream: str, data: st.DataObject) -> None:
    format_name = data.draw(st.sampled_from(SEVERAL))
    said = data.draw(st.lists(st.sampled_from(["Well. ", "a < b ", "<think>x</think>", "\n"]), max_size=4))
    text = "".join(said) + calls_text(format_name, (PARIS, NOW)) + "".join(said)
    stream = stream_of(upstream, text, pieces=data.draw(st.integers(1, 8)))

    def translated() -> bytes:
        exchange = exchange_of(client, upstream, format_name)
        ask(exchange, asking(user("Hello")))
        translation = StreamTranslation(exchange)
        return translation.feed(stream) + translation.close()

    def through_every_pass(chain: EventChain, reader: TextAnswerPass, delta: Delta) -> Sequence[Event]:
        return through(chain._passes, (delta,))

    with patch.object(EventChain, "_track_block"), patch.object(EventChain, "_parse_text", through_every_pass):
        expected = translated()
    assert translated() == expected
