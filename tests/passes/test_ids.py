from __future__ import annotations

import re

import pytest

from toolglot.dialect import capabilities
from toolglot.dialects import DIALECTS
from toolglot.ir import Message, Request, ToolCall, ToolResult
from toolglot.passes import ids

from .targets import ANTHROPIC, CHAT, GEMINI, MISTRAL, answered, asked, calls, lines, result, said, to, user


def call_ids(request: Request) -> list[str]:
    return [b.id for m in request.messages for b in m.content if isinstance(b, ToolCall)]


def result_ids(request: Request) -> list[str]:
    return [b.call_id for m in request.messages for b in m.content if isinstance(b, ToolResult)]


def test_calls_without_ids_get_ids_and_their_results_follow_by_name_and_order() -> None:
    batch = Message(
        role="assistant",
        content=(ToolCall(id="", name="a"), ToolCall(id="", name="b"), ToolCall(id="", name="a", arguments="{}")),
    )
    answers = answered(result("", "1", name="a"), result("", "2", name="a"), result("", "3", name="b"), role="user")
    context = to(ANTHROPIC, source="gemini")
    request = ids.derive(asked(user(), batch, answers), context)
    first, second, third = call_ids(request)
    assert len({first, second, third}) == 3
    assert result_ids(request) == [first, third, second]
    assert all(re.fullmatch(r"call_[0-9a-f]{12}", call_id) for call_id in (first, second, third))
    assert lines(context) == ["note messages[1]"]


def test_the_same_position_and_name_give_the_same_id_in_every_process() -> None:
    request = ids.derive(asked(user(), calls("")), to(CHAT))
    assert call_ids(request) == ["call_89a39a0902ca"]


def test_a_result_without_id_and_name_answers_the_next_call_and_learns_its_name() -> None:
    request = ids.derive(asked(user(), calls(""), answered(result(""))), to(GEMINI))
    (block,) = request.messages[2].content
    assert isinstance(block, ToolResult)
    assert (block.call_id, block.name) == (call_ids(request)[0], "look")


def test_a_result_learns_the_name_and_the_kind_of_its_call() -> None:
    batch = Message(role="assistant", content=(ToolCall(id="c", name="patch", kind="custom", arguments="x"),))
    request = ids.derive(asked(user(), batch, answered(result("c"))), to(GEMINI))
    (block,) = request.messages[2].content
    assert isinstance(block, ToolResult)
    assert (block.name, block.kind) == ("patch", "custom")


def test_a_result_under_a_wrong_name_gets_the_name_of_its_call() -> None:
    request = ids.derive(asked(user(), calls("c"), answered(result("c", name="other"))), to(GEMINI))
    assert request.messages[2].content == (result("c", name="look"),)


def test_an_id_that_each_response_uses_again_is_made_unique_with_its_result() -> None:
    turn = (calls("call_0"), answered(result("call_0")))
    context = to(CHAT)
    request = ids.derive(asked(user(), *turn, *turn, *turn), context)
    assert call_ids(request) == result_ids(request)
    assert len(set(call_ids(request))) == 3
    assert call_ids(request)[0] == "call_0"
    assert len(context.receipt.notes) == 2
    assert not context.receipt.losses
    assert context.call_ids == set(call_ids(request))


def test_one_id_twice_in_one_batch_is_answered_in_order() -> None:
    request = ids.derive(asked(user(), calls("x", "x"), answered(result("x", "1"), result("x", "2"))), to(CHAT))
    assert call_ids(request) == result_ids(request)
    assert len(set(call_ids(request))) == 2


def test_a_result_that_nobody_asked_for_keeps_its_id() -> None:
    request = ids.derive(asked(user(), answered(result("nobody"))), to(CHAT))
    assert result_ids(request) == ["nobody"]


def test_a_dialect_that_needs_no_ids_keeps_its_own_history_without_them() -> None:
    request = asked(user(), calls(""), answered(result("", name="look"), role="user"))
    context = to(GEMINI, source="gemini")
    assert ids.derive(request, context) is request
    assert not context.receipt


def test_legal_ids_stay_and_others_keep_a_readable_rest() -> None:
    context = to(ANTHROPIC)
    request = asked(user(), calls("functions.Bash:0", "fine"), answered(result("fine"), result("functions.Bash:0")))
    shortened = ids.shorten(request, context)
    assert call_ids(shortened) == ["functions_Bash_0_a97d1507", "fine"]
    assert result_ids(shortened) == ["fine", "functions_Bash_0_a97d1507"]
    assert lines(context) == ["note messages[1].content[0]"]
    assert context.call_ids == {"functions.Bash:0", "functions_Bash_0_a97d1507", "fine"}


def test_long_ids_are_cut_to_the_limit_and_stay_apart() -> None:
    stem = "call_" + "x" * 60
    request = ids.shorten(asked(user(), calls(f"{stem}1", f"{stem}2")), to(CHAT))
    first, second = call_ids(request)
    assert first != second
    assert len(first) == len(second) == 40


def test_an_id_that_carries_state_stays_whole_where_the_wire_knows_its_mark() -> None:
    long = "call_0123456789ab__thought__" + "AbC/+9" * 30 + "=="
    sent = asked(user(), calls(long), answered(result(long)))
    assert ids.shorten(sent, to(DIALECTS["openai_chat"].can)) == sent
    assert [len(call_id) for call_id in call_ids(ids.shorten(sent, to(ANTHROPIC)))] == [64]


SIGNED = "__thought__" + "AbC/+9" * 30 + "=="


@pytest.mark.parametrize(
    ("target", "model"),
    [
        ("openai_chat", "gpt-5.2"),
        ("openai_chat", "openai/o3"),
        ("openai_chat", "claude-sonnet-4-5"),
        ("openai_chat", "deepseek-chat"),
        ("openai_responses", "gpt-5.2"),
        ("anthropic", "claude-sonnet-4-5"),
    ],
)
def test_another_model_gets_ids_without_the_state_in_them(target: str, model: str) -> None:
    """litellm #16895: LiteLLM puts Gemini's signature in the id of the call."""
    can = capabilities(DIALECTS[target], model)
    history = [
        user(),
        calls(f"call_a{SIGNED}", f"call_a{SIGNED}="),
        answered(result(f"call_a{SIGNED}"), result(f"call_a{SIGNED}=")),
    ]

    def sent(*more: Message) -> Request:
        context = to(can, source="openai_chat", target=target, source_can=DIALECTS["openai_chat"].can)
        return ids.shorten(asked(*history, *more), context)

    first, second = call_ids(sent())
    assert first == "call_a"
    assert re.fullmatch(r"call_a_[0-9a-f]{8}", second)
    assert result_ids(sent()) == [first, second]
    longer = sent(calls("call_a"), answered(result("call_a")))  # an id of the new model's own
    assert longer.messages[: len(history)] == sent().messages
    assert len(set(call_ids(longer))) == 3
    assert call_ids(longer) == result_ids(longer)


@pytest.mark.parametrize("model", ["gemini-3-pro", "openrouter/google/gemini-2.5-flash", "smart"])
def test_gemini_and_models_of_unknown_vendors_get_ids_with_their_state(model: str) -> None:
    can = capabilities(DIALECTS["openai_chat"], model)
    sent = asked(user(), calls(f"call_a{SIGNED}"), answered(result(f"call_a{SIGNED}")))
    context = to(can, source="openai_chat", target="openai_chat", source_can=DIALECTS["openai_chat"].can)
    assert ids.shorten(sent, context) == sent
    assert lines(context) == []


def test_ids_of_nine_letters_and_digits_come_out_of_the_same_rule() -> None:
    request = asked(user(), calls("call_abcdef", "aB3dE6gH9"), answered(result("call_abcdef"), result("aB3dE6gH9")))
    shortened = ids.shorten(request, to(MISTRAL))
    assert re.fullmatch(r"[A-Za-z0-9]{9}", call_ids(shortened)[0])
    assert call_ids(shortened)[1] == "aB3dE6gH9"
    assert call_ids(shortened) == result_ids(shortened)


def test_a_legal_id_that_equals_a_replacement_gives_way() -> None:
    taken = ids.replacement_id("bad id", ANTHROPIC.ids, set())
    request = ids.shorten(asked(user(), calls("bad id"), answered(result("bad id")), calls(taken)), to(ANTHROPIC))
    assert len(set(call_ids(request))) == 2


def test_more_turns_change_no_id_before_them() -> None:
    history = [user(), calls("", ""), answered(result("", name="look"), result("", name="look")), said("ok")]
    shorter = ids.derive(asked(*history), to(CHAT))
    longer = ids.derive(asked(*history, user(), calls("", ""), answered(result(""))), to(CHAT))
    assert longer.messages[:4] == shorter.messages


@pytest.mark.parametrize("source", ["elsewhere", "openai_chat"])
def test_every_id_of_the_history_counts_as_used(source: str) -> None:
    context = to(CHAT, source=source)
    ids.derive(asked(user(), calls("a", "b"), answered(result("b"), result("c"), result(""))), context)
    assert context.call_ids >= {"a", "b", "c"}
    assert "" not in context.call_ids


def test_of_calls_that_share_an_id_the_name_tells_which_a_result_answers() -> None:
    batch = Message(role="assistant", content=(ToolCall(id="x", name="f"), ToolCall(id="x", name="g")))
    answers = answered(result("x", "of g", name="g"), result("x", "of f", name="f"))
    request = ids.derive(asked(user(), batch, answers), to(CHAT))
    of_f, of_g = call_ids(request)
    assert of_f != of_g
    assert result_ids(request) == [of_g, of_f]


def test_a_result_without_id_does_not_take_the_call_that_a_later_one_names() -> None:
    batch = Message(role="assistant", content=(ToolCall(id="i1", name="f"), ToolCall(id="i2", name="f")))
    for name in ("f", None):
        answers = answered(result("", "any", name=name), result("i1", "first"))
        request = ids.derive(asked(user(), batch, answers), to(CHAT))
        assert result_ids(request) == ["i2", "i1"]


def test_a_result_without_id_stays_alone_where_every_call_is_named() -> None:
    request = ids.derive(asked(user(), calls("i1"), answered(result("", "any"), result("i1"))), to(CHAT))
    assert result_ids(request) == ["", "i1"]


def test_a_new_id_never_ends_in_an_underscore_and_digits() -> None:
    """Claude Code takes such an id for the one before the underscore."""
    new = [ids.replacement_id(f"call_{number}", ANTHROPIC.ids, {f"call_{number}"}) for number in range(500)]
    assert [one for one in new if re.search(r"_[0-9]+$", one)] == []
    assert all(one.startswith(f"call_{number}_") for number, one in enumerate(new))
