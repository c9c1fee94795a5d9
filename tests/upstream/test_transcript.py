"""A conversation is the same for whoever tells it in the same words, and for nobody else."""

from __future__ import annotations

import pytest

from tests.passes.targets import answered as results
from tests.passes.targets import result, said, user
from toolglot.ir import Block, Media, Message, Source, Text, Thinking, ToolCall
from toolglot.upstream.transcript import answered_prefixes, call_marks, prefix_with_answer


def call(arguments: str = '{"a":1,"b":[2,{"c":3}]}', call_id: str = "x", name: str = "look") -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments)


def assistant(*content: Block) -> Message:
    return Message(role="assistant", content=content)


def test_an_answer_that_comes_back_is_known() -> None:
    asked = [user("Hi")]
    known = prefix_with_answer(asked, (Text(text="Let me see."), call()))
    again = [*asked, assistant(Text(text="Let me see."), call()), results(result("x"))]
    assert answered_prefixes(again) == [known]
    assert known.covered == 2


@pytest.mark.parametrize(
    "back",
    [
        (assistant(call(), Text(text="Let me see.")),),
        (assistant(Text(text="Let me see.")), assistant(call())),
        (assistant(Text(text="Let me "), Text(text="see.\n"), call(call_id="call_1")),),
        (assistant(Thinking(text="Hm."), Text(text="Let me see."), call('{ "b": [2.0, {"c": 3}], "a": 1.0 }')),),
    ],
    ids=["another order", "two messages", "another id and other pieces", "other numbers and keys, and reasoning"],
)
def test_how_a_client_writes_it_makes_no_difference(back: tuple[Message, ...]) -> None:
    known = prefix_with_answer([user("Hi")], (Text(text="Let me see."), call()))
    (found,) = answered_prefixes([user("Hi"), *back, user("Well?")])
    assert found.hash == known.hash
    assert found.covered == 1 + len(back)


@pytest.mark.parametrize(
    "told",
    [
        [user("Ho"), assistant(Text(text="Let me see."), call())],
        [user("Hi"), assistant(Text(text="Let me be."), call())],
        [user("Hi"), assistant(Text(text="Let me see."), call('{"a":2}'))],
        [user("Hi"), assistant(Text(text="Let me see."), call(name="listen"))],
        [user("Hi"), assistant(Text(text="Let me see."), call("not JSON"))],
        [user("Hi"), assistant(Text(text="Let me see."))],
        [Message(role="system", content=(Text(text="Hi"),)), assistant(Text(text="Let me see."), call())],
        [
            Message(role="user", content=(Text(text="Hi"), Media(kind="image", source=Source("base64", "AA")))),
            assistant(Text(text="Let me see."), call()),
        ],
    ],
)
def test_what_is_said_makes_one(told: list[Message]) -> None:
    known = prefix_with_answer([user("Hi")], (Text(text="Let me see."), call()))
    assert known.hash not in [found.hash for found in answered_prefixes([*told, user("Well?")])]


def test_results_belong_to_their_calls() -> None:
    def conversation(*ids: str) -> list[Message]:
        batch = assistant(call(call_id="x"), call(call_id="y"))
        return [user("Hi"), batch, results(*(result(name, name) for name in ids)), said("So."), user("Well?")]

    one, other = answered_prefixes(conversation("x", "y")), answered_prefixes(conversation("y", "x"))
    assert one[1] == other[1]
    assert one[0] != other[0]


def test_the_longest_beginning_comes_first() -> None:
    talk = [message for number in range(4) for message in (user(f"{number}?"), said(f"{number}."))]
    assert [found.covered for found in answered_prefixes([*talk, user("And?")])] == [8, 6, 4, 2]
    assert [found.covered for found in answered_prefixes(talk)] == [6, 4, 2]
    assert answered_prefixes([]) == []


def test_any_text_has_a_hash() -> None:
    assert prefix_with_answer([user("\ud800")], (Text(text="\x00"), call('{"a":"\ud800"}'))).hash


def test_what_is_said_twice_is_told_apart_by_its_calls() -> None:
    def conversation(*ids: str) -> list[Message]:
        return [user("Hi"), *(assistant(Text(text="So."), call(call_id=name)) for name in ids), results(result("x"))]

    one, other = call_marks(conversation("a", "b", "a")), call_marks(conversation("a", "c"))
    assert (len(one), len(other), one[0] == other[0], one[1] == other[1]) == (2, 2, True, False)
    assert call_marks(conversation("")) == []


@pytest.mark.parametrize("name", ["a b", "\x00", "\ud800", "x" * 100_000])
def test_a_mark_of_any_id_is_short_and_one_word(name: str) -> None:
    (mark,) = call_marks([assistant(call(call_id=name))])
    assert len(mark) == 16
    assert mark.isalnum()


def test_system_text_may_change_from_turn_to_turn() -> None:
    def told(date: str) -> list[str]:
        messages = [
            Message(role="system", content=(Text(text=f"Today is {date}."),)),
            Message(role="user", content=(Text(text="Hi"),)),
            Message(role="assistant", content=(Text(text="Hello"),)),
            Message(role="developer", content=(Text(text=date),)),
            Message(role="user", content=(Text(text="Go on"),)),
        ]
        return [f"{each.covered} {each.hash}" for each in answered_prefixes(messages)]

    assert told("Monday") == told("Tuesday")
    assert told("Monday")[0].startswith("3 ")


def test_white_space_counts_in_what_people_and_tools_say_and_not_in_answers() -> None:
    def hash_of(question: str, answer: str) -> str:
        return prefix_with_answer([Message(role="user", content=(Text(text=question),))], (Text(text=answer),)).hash

    assert hash_of("if x:\n    y", "OK.") != hash_of("if x:\n  y", "OK.")
    assert hash_of("Hi", "One. \n\nTwo.") == hash_of("Hi", "One.Two. ")
