"""Calls and results that stand as text in a conversation's past, as native ones."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import PER_PAIR
from tests.exchanges import JSON_NAMES as NAMES
from tests.exchanges import JSON_PAIRS as PAIRS
from tests.exchanges import calls_of, meaning
from tests.textcalls.conversations import TOOLS, ask, asking, assistant, call, result, user
from toolglot.errors import ToolglotError
from toolglot.ir import (
    Block,
    Citation,
    Media,
    Message,
    Opaque,
    Request,
    Source,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    replace,
)
from toolglot.receipt import Receipt
from toolglot.textcalls import ALIASES, FORMATS
from toolglot.textcalls.formats import READ_BY_AUTO
from toolglot.textcalls.history import native_history
from toolglot.textcalls.prompts.records import Result
from toolglot.textcalls.prompts.render import PROMPTS, calls_text, results_text
from toolglot.textcalls.render_turns import TurnRenderer
from toolglot.textcalls.settings import TextCalls
from toolglot.translate import ExchangeCore

PARIS = call("a1b2c3d4e", "get_weather", '{"city":"Paris","days":2}')
NOW = call("a1b2c3d4f", "get_time")
NOON = result(NOW.id, "get_time", "noon")
PNG = Media(kind="image", source=Source("base64", "aGk=", "image/png"))


def read(format_name: str, *messages: Message) -> list[Message]:
    return list(native_history(asking(*messages), format_name).messages)


def blocks_of(messages: list[Message]) -> list[Block]:
    return [block for message in messages for block in message.content]


def results_of(messages: list[Message]) -> list[ToolResult]:
    return [block for block in blocks_of(messages) if isinstance(block, ToolResult)]


def text_of(found: ToolResult) -> str:
    return "".join(block.text for block in found.content if isinstance(block, Text))


def outcome(messages: list[Message]) -> list[tuple[str, str, bool]]:
    """Each call's tool with its result, which must be paired with it."""
    calls, results = calls_of(blocks_of(messages)), results_of(messages)
    assert [call.id for call in calls] == [one.call_id for one in results]
    assert len({call.id for call in calls}) == len(calls)
    return [(call.name, text_of(one), one.is_error is True) for call, one in zip(calls, results, strict=True)]


@pytest.mark.parametrize("format_name", PROMPTS)
def test_a_turn_that_was_told_as_text_is_read_back(format_name: str) -> None:
    turn = assistant(Text(text="I look."), PARIS, NOW)
    answers = (result(PARIS.id, "get_weather", "sun\nand wind"), result(NOW.id, "get_time", "broken", is_error=True))
    native = (user("Hello"), turn, Message(role="user", content=answers), assistant(Text(text="Done.")))
    told = TurnRenderer(format_name, Receipt(), TOOLS).render(native)
    back = read(format_name, *told)
    assert outcome(back) == [("get_weather", "sun\nand wind", False), ("get_time", "broken", True)]
    assert [meaning(one.arguments) for one in calls_of(blocks_of(back))] == [{"city": "Paris", "days": 2}, {}]
    assert [message.role for message in back] == ["user", "assistant", "user", "assistant"]
    spoken = [block.text.strip() for block in blocks_of(back) if isinstance(block, Text)]
    assert spoken == ["Hello", "I look.", "Done."]


WRITTEN_ELSEWHERE = {
    "function_results with outputs": (
        "anthropic_xml",
        '<function_calls>\n<invoke name="get_time">\n</invoke>\n</function_calls>',
        "<function_results>\n<result>\n<tool_name>get_time</tool_name>\n<stdout>\nnoon\n</stdout>\n</result>\n"
        "</function_results>",
        ("get_time", "noon", False),
    ),
    "function_results that are an error": (
        "anthropic_xml",
        '<function_calls>\n<invoke name="get_time">\n</invoke>\n</function_calls>',
        "<function_results><error>no clock</error></function_results>",
        ("get_time", "no clock", True),
    ),
    "a message of the system for a call": (
        "anthropic_xml",
        '<function_calls>\n<invoke name="get_time">\n</invoke>\n</function_calls>',
        "<function_results><system>Tool ran without output</system></function_results>",
        ("get_time", "Tool ran without output", True),
    ),
    "what a call was about": (
        "cline_xml",
        "<get_weather>\n<city>Paris</city>\n</get_weather>",
        "[get_weather for 'Paris'] Result:\nsun",
        ("get_weather", "sun", False),
    ),
    "an error of cline": (
        "cline_xml",
        "<get_weather>\n<city>Paris</city>\n</get_weather>",
        "[get_weather for 'Paris'] Result:\n[ERROR] no such city",
        ("get_weather", "no such city", True),
    ),
    "a response without line breaks": (
        "hermes_json",
        '<tool_call>{"name": "get_time", "arguments": {}}</tool_call>',
        "<tool_response>noon</tool_response>",
        ("get_time", "noon", False),
    ),
    "a result of OpenHands": (
        "qwen3_coder",
        "<function=get_time>\n</function>",
        "EXECUTION RESULT of [get_time]:\nnoon",
        ("get_time", "noon", False),
    ),
}


@pytest.mark.parametrize(
    ("format_name", "turn", "answer", "expected"), WRITTEN_ELSEWHERE.values(), ids=WRITTEN_ELSEWHERE
)
def test_results_are_read_as_other_clients_write_them(
    format_name: str, turn: str, answer: str, expected: tuple[str, str, bool]
) -> None:
    messages = read(format_name, user("Hello"), assistant(Text(text=turn)), user(answer), assistant(Text(text="So.")))
    assert outcome(messages) == [expected]


def test_a_result_whose_text_is_in_the_next_block_is_read_with_its_image_and_nothing_behind_it() -> None:
    answer = Message(
        role="user",
        content=(
            Text(text="[get_weather for 'Paris'] Result:"),
            Text(text="a picture"),
            PNG,
            Text(text="<environment_details>noon</environment_details>"),
        ),
    )
    turn = assistant(Text(text="<get_weather>\n<city>Paris</city>\n</get_weather>"))
    messages = read("cline_xml", user("Hello"), turn, answer, assistant(Text(text="So.")))
    (found,) = results_of(messages)
    assert found.content == (Text(text="a picture"), PNG)
    assert messages[3].content == (Text(text="<environment_details>noon</environment_details>"),)


def test_what_the_user_says_behind_the_results_stays_the_user_s() -> None:
    answer = user("<tool_response>\nnoon\n</tool_response>\n\nAnd now?\n<tool_response>\nfake\n</tool_response>")
    turn = assistant(Text(text=calls_text("hermes_json", (NOW,))))
    messages = read("hermes_json", user("Hello"), turn, answer)
    assert outcome(messages) == [("get_time", "noon", False)]
    assert messages[-1] == user("And now?\n<tool_response>\nfake\n</tool_response>")


def test_a_tool_that_only_a_result_names_is_known_although_nobody_declares_it() -> None:
    request = Request(
        model="m",
        messages=(
            Message(role="user", content=(Text(text="Read it."),)),
            Message(role="assistant", content=(Text(text="Sure.\n<read_file>\n<path>a</path>\n</read_file>"),)),
            Message(role="user", content=(Text(text="[read_file for 'a'] Result:\nhello"),)),
        ),
    )
    assistant, results = native_history(request, "cline_xml").messages[1:]
    call = assistant.content[-1]
    assert isinstance(call, ToolCall)
    assert (call.name, call.arguments) == ("read_file", '{"path": "a"}')
    assert results.content == (
        ToolResult(call_id=call.id, name="read_file", content=(Text(text="hello"),), is_error=None),
    )


def test_a_result_without_a_call_stays_the_user_s_text() -> None:
    answer = user("<tool_response>\nnoon\n</tool_response>\n<tool_response>\nmore\n</tool_response>")
    turn = assistant(Text(text=calls_text("hermes_json", (NOW,))))
    messages = read("hermes_json", user("Hello"), turn, answer)
    assert outcome(messages) == [("get_time", "noon", False)]
    assert messages[-1] == user("<tool_response>\nmore\n</tool_response>")


def test_a_user_s_text_is_never_read_where_no_call_stands_before_it() -> None:
    fake = user("<tool_response>\nnoon\n</tool_response>")
    history = (fake, assistant(Text(text="What is that?")), fake)
    assert read("hermes_json", *history) == list(history)


def test_a_turn_whose_calls_have_no_results_stays_text_and_is_told() -> None:
    history = asking(user("Hello"), assistant(Text(text=calls_text("hermes_json", (NOW,)))), user("Stop!"))
    receipt = Receipt()
    assert native_history(history, "hermes_json", receipt) == history
    assert [line.where for line in receipt.notes] == ["messages[1]"]


def test_a_call_that_is_not_whole_stays_text() -> None:
    cut = assistant(Text(text='<tool_call>\n{"name": "get_weather", "arguments": {"city": "Par'))
    history = (user("Hello"), cut, user("<tool_response>\nnoon\n</tool_response>"))
    assert read("hermes_json", *history) == list(history)


def test_one_missing_result_of_several_is_told_to_be_interrupted() -> None:
    turn = assistant(Text(text=calls_text("anthropic_xml", (PARIS, NOW))))
    answer = user(
        "<function_results>\n<result>\n<tool_name>get_time</tool_name>\n<stdout>noon</stdout>\n</result>\n"
        "</function_results>"
    )
    first, second = outcome(read("anthropic_xml", user("Hello"), turn, answer))
    assert first[0] == "get_weather"
    assert first[2]
    assert second == ("get_time", "noon", False)


def test_results_in_messages_of_their_own_are_read() -> None:
    turn = assistant(Text(text=calls_text("hermes_json", (PARIS, NOW))))
    answers = [user(f"<tool_response>\n{text}\n</tool_response>") for text in ("sun", "noon")]
    messages = read("hermes_json", user("Hello"), turn, *answers, user("Well?"))
    assert outcome(messages) == [("get_weather", "sun", False), ("get_time", "noon", False)]
    assert messages[-1] == user("Well?")


def test_native_results_behind_calls_in_text_are_paired_with_them() -> None:
    turn = assistant(Text(text=calls_text("hermes_json", (PARIS, NOW))))
    answers = Message(role="tool", content=(result("", "get_weather", "sun"), result("", "get_time", "noon")))
    assert outcome(read("hermes_json", user("Hello"), turn, answers)) == [
        ("get_weather", "sun", False),
        ("get_time", "noon", False),
    ]


def record(name: str, response: object) -> str:
    inner = {"name": name, "arguments": {"city": "Paris"}, "response": response}
    return f"<function_call>{json.dumps({'function_call_record': inner})}</function_call>"


def test_a_record_of_a_call_becomes_the_call_and_its_result() -> None:
    spoken = f"I look. {record('get_weather', 'sun </function_call>')}\n{record('get_time', {'at': 12})}It is sunny."
    messages = read("deepchat", user("Hello"), assistant(Text(text=spoken)), user("Thanks"))
    assert outcome(messages) == [("get_weather", "sun </function_call>", False), ("get_time", '{"at": 12}', False)]
    assert [message.role for message in messages] == ["user", "assistant", "user", "assistant", "user"]
    assert messages[3] == assistant(Text(text="It is sunny."))


def test_a_record_at_the_end_of_a_turn_leaves_its_result_at_the_end() -> None:
    messages = read("deepchat", user("Hello"), assistant(Text(text=record("get_time", "noon"))))
    assert outcome(messages) == [("get_time", "noon", False)]
    assert [message.role for message in messages] == ["user", "assistant", "user"]


def test_what_stands_beside_the_text_of_a_turn_stays_in_its_place() -> None:
    text = f"<think>hm</think>{calls_text('hermes_json', (NOW,))}"
    cited = Text(text=text, citations=(Citation(url="https://example.com"),))
    turn = Message(role="assistant", content=(Thinking(text="first"), cited))
    receipt = Receipt()
    answer = user("<tool_response>\nnoon\n</tool_response>")
    read_back = native_history(asking(user("Hello"), turn, answer), "hermes_json", receipt)
    assert [type(block) for block in read_back.messages[1].content] == [Thinking, Thinking, ToolCall]
    assert [line.what for line in receipt.losses] == ["citations"]


def test_what_is_no_result_ends_the_results() -> None:
    turn = assistant(Text(text=calls_text("hermes_json", (NOW,))))
    answer = user("<tool_response>\nnoon\n</tool_response>")
    opaque = Message(role="user", content=(*answer.content, Opaque("anthropic", {"type": "novel"}), Text(text="x")))
    messages = read("hermes_json", user("Hello"), turn, opaque)
    assert outcome(messages) == [("get_time", "noon", False)]
    assert messages[-1].content == opaque.content[1:]
    stranger = Message(role="user", content=(*answer.content, result("", "get_weather", "sun")))
    assert read("hermes_json", user("Hello"), turn, stranger)[-1].content == stranger.content[1:]


@pytest.mark.parametrize("text", ["<tool_response>\nnoon", "<tool_response>", "noon</tool_response>"])
def test_half_a_result_is_none(text: str) -> None:
    history = (user("Hello"), assistant(Text(text=calls_text("hermes_json", (NOW,)))), user(text))
    assert read("hermes_json", *history) == list(history)


QUOTED = [
    '"he said\nhi" ok',
    '"a\\x" and more',
    '"all of it"',
    '["half a list", ',
    '["a\\x"]',
    '<TOOL_RESPONSE>["a\nb"]</TOOL_RESPONSE>',
    '[TOOL_RESULTS]{"content": "a\\x", "call_id": "abcDEF123"}[/TOOL_RESULTS]',
    '{"tool_call_id": "0", "results": {"0": "\\q"}, "is_error": null}',
]


@pytest.mark.parametrize("text", QUOTED)
@pytest.mark.parametrize("format_name", PROMPTS)
def test_a_text_in_quotes_that_is_no_result_stays_the_user_s(format_name: str, text: str) -> None:
    history = (user("Hello"), assistant(Text(text=calls_text(format_name, (NOW,)))), user(text))
    assert read(format_name, *history)[-1].content == (Text(text=text),)


@pytest.mark.parametrize(
    "text",
    ["<function_call>{", "<function_call>" * 50 + "{", '<function_call>{"function_call_record": 1}</function_call>'],
)
def test_what_is_no_record_stays_text(text: str) -> None:
    history = (user("Hello"), assistant(Text(text=text)), user("Well?"))
    assert read("deepchat", *history) == list(history)


def test_reading_a_history_twice_changes_nothing_more() -> None:
    turn = assistant(Text(text=calls_text("hermes_json", (PARIS, NOW))))
    answer = user("<tool_response>\nsun\n</tool_response>\n<tool_response>\nnoon\n</tool_response>")
    once = native_history(asking(user("Hello"), turn, answer), "hermes_json")
    assert native_history(once, "hermes_json") == once


@given(turns=st.integers(1, 6), data=st.data())
def test_ids_depend_on_nothing_that_comes_later(turns: int, data: st.DataObject) -> None:
    messages: list[Message] = [user("Hello")]
    for _ in range(turns):
        calls = data.draw(st.lists(st.sampled_from([PARIS, NOW]), min_size=1, max_size=3))
        messages.append(assistant(Text(text=calls_text("hermes_json", calls))))
        messages.append(user("\n".join("<tool_response>\nx\n</tool_response>" for _ in calls)))
    whole = read("hermes_json", *messages)
    part = read("hermes_json", *messages[: 1 + 2 * data.draw(st.integers(1, turns))])
    assert whole[: len(part)] == part
    outcome(whole)


JSON_FORMATS = (
    "hermes_json",
    "deepchat",
    "mistral_args",
    "kimi_k2",
    "deepseek_v3",
    "cherry_tool_use",
    "cohere_command4",
)
plain = st.text('abcXYZ019 .,"\\/{}:\n\té日🌍', min_size=1, max_size=30).map(str.strip).filter(bool)


@pytest.mark.parametrize("format_name", JSON_FORMATS)
@given(data=st.data())
def test_any_turn_that_was_told_as_text_is_read_back(format_name: str, data: st.DataObject) -> None:
    values = st.fixed_dictionaries({"city": plain}, optional={"days": st.integers(-(2**40), 2**40)})
    drawn = data.draw(st.lists(values, min_size=1, max_size=4))
    calls = [call(f"call{at:05}", "get_weather", json.dumps(value)) for at, value in enumerate(drawn)]
    texts = data.draw(st.lists(plain, min_size=len(calls), max_size=len(calls)))
    failed = data.draw(st.lists(st.booleans(), min_size=len(calls), max_size=len(calls)))
    answers = tuple(
        result(one.id, one.name, text, is_error=bad) for one, text, bad in zip(calls, texts, failed, strict=True)
    )
    native = (user("Hello"), assistant(*calls), Message(role="user", content=answers), user("Well?"))
    back = read(format_name, *TurnRenderer(format_name, Receipt(), TOOLS).render(native))
    assert [meaning(one.arguments) for one in calls_of(blocks_of(back))] == drawn
    expected = [("get_weather", text, bad) for text, bad in zip(texts, failed, strict=True)]
    if format_name != "kimi_k2":  # nothing marks the end of its results
        assert outcome(back) == expected
        assert back[-1].content[-1] == Text(text="Well?")


# In any format


def told(format_name: str, *messages: Message) -> tuple[Message, ...]:
    return TurnRenderer(format_name, Receipt(), TOOLS).render(messages)


@pytest.mark.parametrize("format_name", [text_format.name for text_format in READ_BY_AUTO])
def test_results_are_read_in_the_format_that_their_calls_turn_out_to_be_in(format_name: str) -> None:
    answers = Message(role="user", content=(result(PARIS.id, "get_weather", "sun"), result(NOW.id, "get_time", "noon")))
    history = told(format_name, user("Hello"), assistant(Text(text="I look."), PARIS, NOW), answers)
    assert outcome(read("auto", *history)) == [("get_weather", "sun", False), ("get_time", "noon", False)]
    assert read("auto", *history) == read(format_name, *history)


def test_a_conversation_in_two_formats_is_read_as_one() -> None:
    messages: list[Message] = []
    for format_name in ("hermes_json", "cline_xml", "hermes_json"):
        messages += told(format_name, user("Hello"), assistant(NOW), Message(role="tool", content=(NOON,)))
    assert outcome(read("auto", *messages)) == [("get_time", "noon", False)] * 3


def test_a_tool_that_only_a_result_names_is_known_in_any_format() -> None:
    turn = assistant(Text(text="Sure.\n<read_file>\n<path>a</path>\n</read_file>"))
    history = (user("Read it."), turn, user("[read_file for 'a'] Result:\nhello"))
    assert outcome(read("auto", *history)) == [("read_file", "hello", False)]


def test_reasoning_between_the_marks_of_another_format_hides_no_result() -> None:
    turn = assistant(Text(text=f"<thinking>hm</thinking>\n{calls_text('hermes_json', (NOW,))}"))
    history = (user("Hello"), turn, user("<tool_response>\nnoon\n</tool_response>"))
    assert outcome(read("auto", *history)) == [("get_time", "noon", False)]


def test_native_results_behind_calls_in_any_format_are_paired_with_them() -> None:
    turn = assistant(Text(text=calls_text("hermes_json", (NOW,))))
    answer = Message(role="tool", content=(result("", "get_time", "noon"),))
    assert outcome(read("auto", user("Hello"), turn, answer)) == [("get_time", "noon", False)]


@pytest.mark.parametrize("text", ["Stop!", "<tool_result>noon</tool_result>", "Observation: noon"])
def test_what_is_no_result_in_the_format_of_the_calls_stays_text(text: str) -> None:
    history = (user("Hello"), assistant(Text(text=calls_text("hermes_json", (NOW,)))), user(text))
    assert read("auto", *history) == list(history)


HISTORY_FORMATS = ("auto", *FORMATS, *ALIASES)


@st.composite
def said_in_any_format(draw: st.DrawFn) -> str:
    """Whole calls and results of any format, halves of them, and words."""
    written = [calls_text(name, (PARIS, NOW)) for name in ("hermes_json", "cline_xml")]
    name = draw(st.sampled_from(list(FORMATS)))
    texts = [calls_text(name, (PARIS,)), results_text(name, [Result(name="get_weather", text="sun", id=PARIS.id)])]
    pieces = draw(
        st.lists(st.sampled_from([*written, *texts, *texts, record("get_time", 1), "Hm. ", "\n"]), max_size=4)
    )
    text = "".join(pieces) + draw(st.text(max_size=3))
    return text[: draw(st.integers(0, len(text)))] if draw(st.booleans()) else text


@st.composite
def any_history(draw: st.DrawFn) -> tuple[Message, ...]:
    texts = said_in_any_format().map(lambda text: Text(text=text))
    results = st.sampled_from([NOON, result(PARIS.id, "get_weather", "sun")])
    contents: dict[str, st.SearchStrategy[list[Any]]] = {
        "assistant": st.lists(st.one_of(texts, texts, st.sampled_from([PARIS, NOW])), max_size=3),
        "user": st.lists(texts, max_size=3),
        "tool": st.lists(st.one_of(texts, results), max_size=2),
        "system": st.lists(texts, max_size=1),
    }
    turns: st.SearchStrategy[tuple[str, ...]] = st.sampled_from(
        [("assistant", "user"), ("assistant", "tool", "user"), ("user",), ("system", "user")]
    )
    roles = [role for turn in draw(st.lists(turns, min_size=1, max_size=4)) for role in turn]
    return tuple(Message(role=role, content=tuple(draw(contents[role]))) for role in roles)


@pytest.mark.parametrize("format_name", ["auto", *FORMATS])
@PER_PAIR
@given(history=any_history(), pair=st.sampled_from(PAIRS), text_format=st.sampled_from([None, None, *FORMATS]))
def test_no_history_makes_a_request_fail_but_with_an_error_of_ours(
    format_name: str, history: tuple[Message, ...], pair: tuple[str, str], text_format: str | None
) -> None:
    text_calls = TextCalls(format=text_format) if text_format else None
    exchange = ExchangeCore(*pair, history_format=format_name, text_calls=text_calls)
    with suppress(ToolglotError):
        ask(exchange, asking(*history))


@pytest.mark.parametrize("format_name", HISTORY_FORMATS)
def test_a_history_in_any_format_is_read_by_the_reader_of_every_other(format_name: str) -> None:
    for other in FORMATS:
        answer = user(results_text(other, [Result(name="get_time", text="noon", id=NOW.id)]))
        turn = assistant(Text(text=calls_text(other, (NOW,))))
        read(format_name, user("Hello"), turn, answer, turn, Message(role="tool", content=answer.content))


# In an exchange


@pytest.mark.parametrize("role", ["user", "tool"])
def test_an_exchange_reads_a_history_in_any_format(role: Literal["user", "tool"]) -> None:
    said = {"role": "assistant", "content": calls_text("hermes_json", (NOW,))}
    answer: dict[str, object] = {"role": role, "content": "<tool_response>\nnoon\n</tool_response>"}
    if role == "tool":
        answer["tool_call_id"] = "x"
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}, said, answer], "max_tokens": 9}
    sent = json.loads(
        ExchangeCore("openai_chat", "anthropic", history_format="auto").request(json.dumps(body).encode())
    )
    call, answered = (message["content"] for message in sent["messages"][1:3])
    assert call[0]["name"] == "get_time"
    assert answered[0]["tool_use_id"] == call[0]["id"]


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_a_native_upstream_gets_native_calls_for_a_history_in_text(client: str, upstream: str) -> None:
    turn = assistant(Text(text=f"I look.\n{calls_text('anthropic_xml', (PARIS, NOW))}"))
    answer = user(
        "<function_results>\n<result>\n<tool_name>get_weather</tool_name>\n<stdout>sun</stdout>\n</result>\n"
        "<result>\n<tool_name>get_time</tool_name>\n<error>no clock</error>\n</result>\n</function_results>"
    )
    exchange = ExchangeCore(client, upstream, history_format="anthropic_xml")
    ask(exchange, asking(user("Hello"), turn, answer))
    assert exchange.sent is not None
    calls = [block for message in exchange.sent.messages for block in message.content if isinstance(block, ToolCall)]
    assert [call.name for call in calls] == ["get_weather", "get_time"]
    assert not exchange.verbatim
    found = results_of(list(exchange.sent.messages))
    assert [one.call_id for one in found] == [call.id for call in calls]
    assert text_of(found[0]) == "sun"
    assert "no clock" in text_of(found[1])


@pytest.mark.parametrize("dialect", NAMES)
def test_a_history_without_calls_in_text_is_forwarded(dialect: str) -> None:
    exchange = ExchangeCore(dialect, dialect, history_format="anthropic_xml")
    request = asking(user("Hello"), assistant(Text(text="Hi")), user("Well?"))
    written = exchange.client.encode_request(request, Receipt())
    assert exchange.request(written, model=request.model, stream=True) == written


def test_a_history_in_one_format_is_told_in_another() -> None:
    turn = assistant(Text(text=calls_text("anthropic_xml", (NOW,))))
    answer = user("<function_results>\n<result>\n<stdout>noon</stdout>\n</result>\n</function_results>")
    exchange = ExchangeCore(
        "openai_chat", "openai_chat", history_format="anthropic_xml", text_calls=TextCalls(format="hermes_json")
    )
    request: Request = replace(asking(user("Hello"), turn, answer))
    told = json.loads(ask(exchange, request))["messages"]
    assert told[2]["content"] == calls_text("hermes_json", (NOW,))
    assert told[3]["content"] == "<tool_response>\nnoon\n</tool_response>"


@pytest.mark.parametrize(("text", "noted"), [("12:00", False), ("12:00\n\nThank you. And now?", True)])
def test_words_that_may_be_the_user_s_own_are_told(text: str, noted: bool) -> None:
    receipt = Receipt()
    called = calls_text("react", (ToolCall(id="1", name="get_time", arguments="{}"),))
    messages = (user("Hi"), assistant(Text(text=called)), user(f"Observation: {text}"))
    native = native_history(asking(*messages), "react", receipt)
    assert any(isinstance(block, ToolResult) for message in native.messages for block in message.content)
    assert [note.what for note in receipt.notes] == (["the last result"] if noted else [])
