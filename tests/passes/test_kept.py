"""What a model wants back of its answers, put back where the client has lost it."""

from __future__ import annotations

from typing import Any

import pytest

from toolglot.capabilities import change_capabilities
from toolglot.dialect import capabilities
from toolglot.dialects import DIALECTS
from toolglot.ir import Block, Media, Message, Refusal, Source, Text, Thinking, ToolCall, native_of, replace
from toolglot.passes import Context, reasoning
from toolglot.passes.answer_state import PHASE, state_of_answer
from toolglot.passes.carry import open_envelopes
from toolglot.passes.kept_state import put_back, with_states
from toolglot.passes.pipeline import REQUEST_PASSES
from toolglot.passes.state_placement import runs

from .targets import ANTHROPIC, CHAT, GEMINI, RESPONSES, answered, asked, calls, lines, result, said, to, user

SIGNED = Thinking(text="Hm", native={"anthropic": {"signature": "s", "$shape": 1}})
BARE = Thinking(text="Hm", native={"anthropic": {"signature": "s"}})


def call(name: str, **native: Any) -> ToolCall:
    return ToolCall(id=name, name="look", native=native)


def spoke(*content: Block) -> Message:
    return Message(role="assistant", content=content)


def restored(context: Context, states: tuple[Block, ...], *messages: Message) -> tuple[Message, ...]:
    return put_back({0: states})(asked(user(), *messages), context).messages[1:]


def test_the_state_of_an_answer_is_what_the_owner_has_put_on_an_answer() -> None:
    text = Text(text="So", native={"openai_responses": {"$item": {"phase": "commentary", "id": "msg_1"}}})
    thought = Thinking(text="Hm", native={"openai_responses": {"encrypted_content": "x", "status": "completed"}})
    assert state_of_answer((thought, text, call("a", openai_responses={"id": "fc_1"})), "openai_responses") == (
        Thinking(text="Hm", native={"openai_responses": {"encrypted_content": "x"}}),
        Text(text="", native={"openai_responses": {PHASE: "commentary"}}),
        call("a"),
    )
    image = Media(kind="image", source=Source("base64", "aGk=", "image/png"))
    assert state_of_answer((image, call("a", gemini={"thoughtSignature": "t", "x": 1})), "gemini") == (
        call("a", gemini={"thoughtSignature": "t"}),
    )


@pytest.mark.parametrize("owner", ["anthropic", "warp", "nobody"])
def test_an_answer_without_state_has_nothing_to_give_back(owner: str) -> None:
    carried = Thinking(native={"openai_chat": {"slot": "an envelope"}})
    assert state_of_answer((Text(text="So"), call("a", anthropic={"cache": 1}), carried), owner) == ()


def test_reasoning_stands_before_the_calls_that_it_led_to() -> None:
    second = Thinking(native={"anthropic": {"data": "d"}})
    states = (BARE, Text(text=""), call("a"), second, call("b"))
    context = to(ANTHROPIC, source="openai_chat")
    (message,) = restored(context, states, spoke(Text(text="So"), call("a"), call("b")))
    assert message.content == (BARE, Text(text="So"), call("a"), second, call("b"))
    assert lines(context) == ["note messages[1]"]


def test_a_text_between_calls_comes_back_between_them() -> None:
    states = (BARE, call("a"), Text(text=""), call("b"))
    (message,) = restored(to(ANTHROPIC, source="openai_chat"), states, spoke(Text(text="So"), call("a"), call("b")))
    assert message.content == (BARE, call("a"), Text(text="So"), call("b"))


@pytest.mark.parametrize("words", [(Text(text="So"), Text(text="And")), (Text(text="So"), Refusal(text="No"))])
def test_reasoning_at_the_start_of_an_answer_stays_there(words: tuple[Block, ...]) -> None:
    """Claude wants it before everything else of the turn."""
    states = (BARE, call("a"), Text(text=""), call("b"))
    (message,) = restored(to(ANTHROPIC, source="openai_chat"), states, spoke(*words, call("a"), call("b")))
    assert message.content == (BARE, *words, call("a"), call("b"))


def test_an_answer_in_several_messages_gets_its_state_in_the_right_one() -> None:
    states = (BARE, Text(text=""), call("a"))
    told = restored(to(ANTHROPIC, source="openai_responses"), states, said("So"), spoke(call("a")))
    assert told == (spoke(BARE, Text(text="So")), spoke(call("a")))
    assert restored(to(ANTHROPIC, source="openai_responses"), states, spoke(call("a"))) == (spoke(BARE, call("a")),)


def test_what_has_lost_its_place_stands_at_the_end() -> None:
    assert restored(to(ANTHROPIC, source="x"), (Text(text=""), BARE), said("So")) == (spoke(Text(text="So"), BARE),)


def test_claude_gets_no_message_that_ends_with_reasoning() -> None:
    second = Thinking(native={"anthropic": {"data": "d"}})
    states = (BARE, call("a"), second, call("b"))
    context = to(ANTHROPIC, source="openai_chat")
    request = put_back({0: states})(asked(user(), spoke(call("a")), answered(result("a"))), context)
    assert reasoning.settle(request, context).messages[1] == spoke(BARE, call("a"))
    assert lines(context) == ["note messages[1]", "loss messages[1]"]
    context = to(ANTHROPIC, source="openai_chat")
    request = put_back({0: (BARE, call("a"))})(asked(user(), said(" "), spoke(Text(text=""))), context)
    assert [message.content for message in reasoning.settle(request, context).messages[1:]] == [
        (Text(text=" "),),
        (Text(text=""),),
    ]


SECOND = Thinking(native={"anthropic": {"data": "d"}})
BATCH = (BARE, Text(text=""), call("a"), SECOND, call("b"), call("c"))
WHOLE = spoke(BARE, Text(text="So"), call("a"), SECOND, call("b"), call("c"))


def test_calls_in_messages_of_their_own_become_one_answer_again() -> None:
    context = to(ANTHROPIC, source="openai_chat")
    blank = Message(role="assistant", content=(Text(text=""), call("b")), native={"openai_chat": {"name": "x"}})
    split = (
        spoke(Text(text="So"), call("a")),
        answered(result("a")),
        blank,
        answered(result("b")),
        spoke(call("c")),
        answered(result("c")),
        spoke(call("d")),
    )
    first, *others = restored(context, BATCH, *split)
    assert first == replace(WHOLE, native={"openai_chat": {"name": "x"}})
    assert others == [answered(result("a")), answered(result("b")), answered(result("c")), spoke(call("d"))]
    assert lines(context) == ["note messages[1]"]


@pytest.mark.parametrize(
    "next_answer",
    [spoke(Text(text="Also"), call("b")), spoke(call("b"), call("z")), user("And?"), said("So")],
    ids=["text", "another call", "user", "no call"],
)
def test_what_another_answer_may_have_said_stays_apart(next_answer: Message) -> None:
    messages = (spoke(Text(text="So"), call("a")), answered(result("a")), next_answer, spoke(call("b")))
    told = restored(to(ANTHROPIC, source="openai_chat"), BATCH, *messages)
    assert told[1:] == messages[1:]


def test_answers_keep_their_numbers_if_an_earlier_pass_has_joined_some() -> None:
    context = to(ANTHROPIC, source="openai_chat")
    context.joined_answers = frozenset({1})
    (_, *told) = put_back({2: (BARE, call("d"))})(
        asked(user(), WHOLE, answered(result("a")), spoke(call("d"))), context
    ).messages
    assert told == [WHOLE, answered(result("a")), spoke(BARE, call("d"))]


def test_calls_without_ids_are_known_by_their_place() -> None:
    states = (call("", gemini={"thoughtSignature": "t"}), call(""))
    (message,) = restored(to(GEMINI, source="openai_chat"), states, calls("", ""))
    assert [native_of(block, "gemini").get("thoughtSignature") for block in message.content] == ["t", None]


@pytest.mark.parametrize(
    ("ids", "sent"),
    [
        (("call_0", "call_0"), ("call_0", "call_0")),
        (("call_0", "call_0"), ("call_0", "call_1")),
        (("call_0", "call_1"), ("call_0", "call_0")),
        (("a", "a", "b"), ("b", "a", "a")),
    ],
)
def test_ids_that_several_calls_share_tell_nothing(ids: tuple[str, ...], sent: tuple[str, ...]) -> None:
    """The first of them is signed, so the first is that has not been told by its own id."""
    states = tuple(call(each, **({} if n else {"gemini": {"thoughtSignature": "s"}})) for n, each in enumerate(ids))
    (message,) = restored(to(GEMINI, source="openai_chat"), states, spoke(*map(call, sent)))
    signed = [bool(native_of(block, "gemini")) for block in message.content]
    assert signed == [n == sent.index(ids[0]) for n in range(len(sent))]


def test_the_state_of_a_call_that_is_gone_goes_to_no_other() -> None:
    states = (call("a", gemini={"thoughtSignature": "s"}), call("b"))
    (message,) = restored(to(GEMINI, source="openai_chat"), states, spoke(call("b")))
    assert message.content == (call("b"),)


def test_what_the_client_has_sent_itself_stays() -> None:
    own = Thinking(text="Hm", native={"anthropic": {"signature": "mine"}})
    message = spoke(own, call("a"))
    assert restored(to(ANTHROPIC, source="x"), (BARE, call("a")), message) == (message,)
    signed = spoke(call("a", gemini={"thoughtSignature": "mine"}))
    states = (call("a", gemini={"thoughtSignature": "t"}),)
    assert restored(to(GEMINI, source="x"), states, signed) == (signed,)
    words = spoke(Thinking(text="mine"), call("a"))
    assert restored(to(CHAT, source="openai_chat"), (Thinking(text="Hm"), call("a")), words) == (words,)


def test_words_are_state_enough_for_who_wants_nothing_else_back() -> None:
    """An envelope has brought them, and they are not put back once more, nor told as missing."""
    carried = spoke(Thinking(text="Hm", native={"openai_chat": {}}))
    context = to(CHAT, source="openai_responses")
    assert restored(context, (Thinking(text="Hm"), call("a")), carried, spoke(call("a"))) == (carried, spoke(call("a")))
    assert lines(context) == []


def test_words_that_a_client_has_kept_without_their_signature_are_not_told_twice() -> None:
    words = Thinking(text="Hm", native={"openai_chat": {"$field": "reasoning_content"}})
    (message,) = restored(to(ANTHROPIC, source="openai_chat"), (BARE, call("a")), spoke(words, call("a")))
    assert message.content == (BARE, call("a"))
    other = Thinking(text="Something else")
    (message,) = restored(to(ANTHROPIC, source="openai_chat"), (BARE, call("a")), spoke(other, call("a")))
    assert message.content == (other, BARE, call("a"))


def test_a_phase_comes_back_to_the_text_that_was_said_in_it() -> None:
    phased = Text(text="", native={"openai_responses": {PHASE: "commentary"}})
    (message,) = restored(to(RESPONSES, source="anthropic"), (phased, call("a")), spoke(Text(text="So"), call("a")))
    assert message.content[0] == Text(text="So", native={"openai_responses": {PHASE: "commentary"}})


def test_answers_are_counted_whatever_stands_between_them() -> None:
    system = Message(role="system", content=(Text(text="Now"),))
    carried = spoke(Thinking(native={"anthropic": {"signature": "s"}}))
    messages = [user(), carried, user(), said("a"), system, said("b"), user(), calls("c"), answered(result("c"))]
    assert [(run.numbers, run.end) for run in runs(messages)] == [([3, 5], 5), ([7], 7)]


def test_a_model_that_takes_no_reasoning_is_given_none_and_the_receipt_says_so() -> None:
    request = asked(user(), calls("a"))
    never = to(change_capabilities(CHAT, thinking="none"), source="openai_chat", target="openai_chat")
    assert put_back({0: (Thinking(text="Hm"), call("a"))})(request, never) is request
    assert lines(never) == ["loss messages[1]"]


@pytest.mark.parametrize("model", ["gpt-5", "openai/gpt-5", "o4-mini", "mistral-large"])
def test_what_a_server_sent_goes_back_to_it_whatever_its_model_is_called(model: str) -> None:
    """A proxy under the name of an OpenAI model; Google's server for Chat clients signs calls."""
    details = [{"type": "reasoning.encrypted", "data": "c3RhdGU="}]
    extra = {"google": {"thought_signature": "c2ln"}}
    states = (
        Thinking(native={"openai_chat": {"reasoning_details": details}}),
        call("a", openai_chat={"extra_content": extra}),
    )
    context = to(
        capabilities(DIALECTS["openai_chat"], model), source="openai_responses", target="openai_chat", aliased=True
    )
    request = put_back({0: states})(asked(user(), calls("a")), context)
    sent = reasoning.settle(request, context).messages[1].content
    assert [block.native["openai_chat"] for block in sent] == [{"reasoning_details": details}, {"extra_content": extra}]
    assert not context.receipt.losses


def test_nothing_to_put_back_changes_nothing() -> None:
    request = asked(user(), calls("a"))
    assert put_back({})(request, to(ANTHROPIC)) is request
    assert put_back({3: (BARE,)})(request, to(ANTHROPIC)) is request
    assert put_back({0: (call("a"),)})(request, to(ANTHROPIC)) is request


def test_the_pass_stands_behind_the_opening_of_envelopes() -> None:
    assert with_states(REQUEST_PASSES, {}) == REQUEST_PASSES
    passes = with_states(REQUEST_PASSES, {0: (BARE,)})
    assert len(passes) == len(REQUEST_PASSES) + 1
    assert passes[passes.index(open_envelopes) + 1] not in REQUEST_PASSES
