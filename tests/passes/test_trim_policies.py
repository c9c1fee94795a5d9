"""The policies of a history one by one: what each leaves, what it says of it, and how they are said in layers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import asdict

from tests.passes.targets import ANTHROPIC, CHAT, GEMINI, answered, asked, calls, lines, result, said, texts, to, user
from toolglot.capabilities import Capabilities
from toolglot.ir import Block, Cache, Media, Message, Request, Source, Text, Thinking, Tool, ToolCall, ToolResult
from toolglot.passes import Context
from toolglot.passes.history_policy import HistoryPolicy, Layer, merge_layers, with_policy
from toolglot.passes.history_size import NO_IMAGE
from toolglot.passes.pipeline import REQUEST_PASSES
from toolglot.tokens import estimate
from toolglot.tools.inserted_text import ANALYZE_RESULTS

IMAGE = Media(kind="image", source=Source("base64", "aGVsbG8=" * 100, "image/png"))


def kept_to(request: Request, context: Context, **said: Any) -> Request:
    """The request after the passes that keep to this policy."""
    own = with_policy(REQUEST_PASSES, merge_layers((Layer(HistoryPolicy(**said)),)))
    for request_pass in own:
        if request_pass not in REQUEST_PASSES:
            request = request_pass(request, context)
    return request


def talk(count: int) -> list[Message]:
    return [message for n in range(count) for message in (user(f"{n}?"), said(f"{n}."))]


# Steps


def test_what_has_passed_a_limit_is_cut_to_a_share_of_it() -> None:
    context = to(CHAT)
    cut = kept_to(asked(*talk(4), user("now")), context, max_messages=8)
    assert [texts(message) for message in cut.messages] == [["1."], ["2?"], ["2."], ["3?"], ["3."], ["now"]]
    assert len(context.receipt.losses) == 3


@pytest.mark.parametrize(("share", "least"), [(0.5, 5), (0.75, 3), (0.9, 1)])
def test_between_two_cuts_lie_several_turns(share: float, least: int) -> None:
    starts: list[str] = []
    for count in range(1, 60):
        cut = kept_to(asked(*talk(count), user("now")), to(CHAT), max_messages=20, cut_to=share)
        assert len(cut.messages) <= 20
        starts.append(texts(cut.messages[0])[0])
    changes = [turn for turn in range(1, len(starts)) if starts[turn] != starts[turn - 1]]
    assert len(changes) > 2
    assert all(later - earlier >= least for earlier, later in pairwise(changes))


def test_a_run_of_tools_is_cut_behind_the_users_words() -> None:
    rounds = [message for n in range(30) for message in (calls(f"c{n}"), answered(result(f"c{n}")))]
    cut = kept_to(asked(user("Do it."), *rounds), to(ANTHROPIC), max_messages=20)
    assert texts(cut.messages[0]) == ["Do it."]
    assert 15 <= len(cut.messages) <= 20
    assert [m.role for m in cut.messages[1:3]] == ["assistant", "tool"]


def test_the_users_task_stays_when_others_put_words_beside_results() -> None:
    """Claude Code writes reminders into the messages with results: those are not what the user wants."""
    rounds: list[Message] = []
    for n in range(20):
        reminded: tuple[Block, ...] = (result(f"c{n}"), Text(text="<system-reminder/>"))
        rounds += [calls(f"c{n}"), Message(role="user", content=reminded)]
    cut = kept_to(asked(user("Do it."), *rounds), to(ANTHROPIC, source="anthropic"), max_messages=8)
    assert texts(cut.messages[0]) == ["Do it."]
    assert len(cut.messages) <= 8


def test_a_reminder_is_not_taken_for_the_task_once_its_results_have_gone() -> None:
    """Beside results it was none; what is cut once more has nothing else to go by."""
    reminded = Message(role="user", content=(result("a"), Text(text="<system-reminder/>")))
    request = asked(user("Do it."), calls("a"), reminded, calls("b"), answered(result("b")))
    home = to(ANTHROPIC, source="anthropic")
    cut = kept_to(request, home, max_tool_results=1, max_messages=2, cut_to=1)
    left = [["Do it."], ["[results no longer sent]", "<system-reminder/>"]]
    assert [texts(message) for message in cut.messages][:2] == left
    assert kept_to(cut, home, max_tool_results=1, max_messages=2, cut_to=1) == cut


def test_the_note_in_place_of_results_counts_towards_a_limit() -> None:
    reminded = Message(role="user", content=(result("a"), Text(text="<system-reminder/>")))
    request = asked(*talk(1), user("Do it."), calls("a"), reminded, calls("b"), answered(result("b")))
    home = to(ANTHROPIC, source="anthropic")
    cut = kept_to(request, home, max_tool_results=1, cut_to=1)
    enough = next(most for most in range(1, 5000) if kept_to(cut, home, max_bytes=most, cut_to=1) == cut)
    assert enough > 1
    assert kept_to(request, home, max_tool_results=1, max_bytes=enough, cut_to=1) == cut
    assert kept_to(request, home, max_tool_results=1, max_bytes=enough - 1, cut_to=1) != cut


def test_what_is_left_of_a_turn_and_of_the_words_beside_its_results_goes_apart() -> None:
    spoken = Message(role="assistant", content=(Text(text="Let me see."), ToolCall(id="a", name="look")))
    reminded = Message(role="user", content=(result("a"), Text(text="<system-reminder/>")))
    request = asked(user("Do it."), spoken, reminded, calls("b"), answered(result("b")))
    cut = kept_to(request, to(CHAT), max_tool_results=1, max_messages=4, cut_to=1)
    assert [message.role for message in cut.messages] == ["user", "user", "assistant", "tool"]


def test_the_first_message_stays_if_it_is_to() -> None:
    request = asked(*talk(10), user("now"))
    cut = kept_to(request, to(ANTHROPIC), max_messages=6, keep_first=True)
    assert texts(cut.messages[0]) == ["0?"]
    assert texts(cut.messages[-1]) == ["now"]
    assert texts(kept_to(request, to(ANTHROPIC), max_messages=6).messages[0]) != ["0?"]


@pytest.mark.parametrize("source", ["elsewhere", "anthropic"])
def test_what_is_left_begins_with_the_user_where_that_is_needed(source: str) -> None:
    for count in range(1, 20):
        cut = kept_to(asked(*talk(count), user("now")), to(ANTHROPIC, source=source), max_messages=7)
        assert cut.messages[0].role == "user"


def test_calls_of_one_turn_go_together_also_in_messages_of_their_own() -> None:
    """As the Responses API has them, with the reasoning in front, which may not stand alone."""
    thought = Message(role="assistant", content=(Thinking(text="Hm."),))
    turn = [thought, calls("a"), calls("b"), answered(result("a")), answered(result("b"))]
    later = [calls("c"), answered(result("c")), said("."), user("now")]
    request = asked(user("Do it."), *turn, *later)
    left = kept_to(request, to(CHAT), max_tool_results=2, cut_to=1)
    assert left.messages == (request.messages[0], *later)
    assert kept_to(request, to(CHAT), max_messages=8, cut_to=1).messages[-4:] == tuple(later)


@pytest.mark.parametrize("ids", [["", "", "", ""], ["call_0"] * 4], ids=["no ids", "one id for all"])
def test_ids_that_tell_nothing_apart_tie_nothing_together(ids: list[str]) -> None:
    """Gemini's own clients send no ids, and some servers count from zero in every answer."""
    rounds = [message for name in ids for message in (calls(name), answered(result(name)))]
    cut = kept_to(asked(user("Do it."), *rounds), to(GEMINI, source="gemini"), max_messages=5, cut_to=1)
    assert [message.role for message in cut.messages] == ["user", "assistant", "tool", "assistant", "tool"]


def test_turns_that_come_to_stand_together_are_one_where_roles_alternate() -> None:
    spoken = Message(role="assistant", content=(Text(text="Let me see."), ToolCall(id="a", name="look")))
    request = asked(user(), spoken, answered(result("a")), calls("b"), answered(result("b")))
    cut = kept_to(request, to(GEMINI, source="gemini"), max_tool_results=1)
    assert [message.role for message in cut.messages] == ["user", "assistant", "tool"]
    assert [type(block) for block in cut.messages[1].content] == [Text, ToolCall]


# Tokens and bytes


def test_tokens_are_those_of_the_whole_request() -> None:
    tools = (Tool(name="look", description="word " * 200),)
    messages = [message for n in range(20) for message in (user("many words " * 30), said("more words " * 30))]
    request = asked(*messages, user("now"), tools=tools)
    context = to(CHAT)
    cut = kept_to(request, context, max_tokens=1500)
    assert 1000 < estimate(cut) <= 1500
    assert "tokens" in context.receipt.losses[0].what
    assert context.receipt.losses[0].why == "this upstream is sent at most 1500 tokens, 75% of that after a cut"
    assert kept_to(request, to(CHAT), max_tokens=100_000) is request


def test_bytes_are_those_of_the_messages() -> None:
    request = asked(Message(role="system", content=(Text(text="s" * 9000),)), *talk(50), user("now"))
    cut = kept_to(request, to(CHAT), max_bytes=3000)
    assert cut.messages[0] == request.messages[0]
    assert 10 < len(cut.messages) < 60


def test_what_cannot_be_cut_further_is_told() -> None:
    context = to(CHAT)
    request = asked(user("long " * 1000), calls("a"), answered(result("a", "long " * 1000)))
    assert kept_to(request, context, max_tokens=500) == request
    (note,) = context.receipt.notes
    assert note.where == "messages"
    assert "never dropped" in note.why
    assert not context.receipt.losses


# Results


@pytest.mark.parametrize("text", ["x" * 1000, "äß€😀" * 200, "line\n" * 300], ids=["ascii", "wide", "lines"])
@pytest.mark.parametrize("limit", [256, 300, 511])
def test_a_long_result_keeps_its_beginning_and_its_end(text: str, limit: int) -> None:
    context = to(CHAT)
    request = asked(user(), calls("a"), answered(result("a", text, name="look")))
    cut = kept_to(request, context, result_bytes=limit)
    (block,) = cut.messages[-1].content
    assert isinstance(block, ToolResult)
    (left,) = block.content
    assert isinstance(left, Text)
    assert limit - 16 <= len(left.text.encode()) <= limit
    assert left.text.startswith(text[:20])
    assert left.text.endswith(text[-10:])
    (loss,) = context.receipt.losses
    missing, _, total, *_ = loss.what.split()
    assert f"[… {missing} of {total} bytes are left out here …]" in left.text
    assert int(total) == len(text.encode())
    assert kept_to(cut, to(CHAT), result_bytes=limit) is cut


def test_of_results_that_go_altogether_nothing_else_is_told() -> None:
    turns = [message for n in range(4) for message in (calls(f"c{n}"), answered(result(f"c{n}", f"{n}" * 2000)))]
    context = to(CHAT)
    cut = kept_to(asked(user("go"), *turns), context, result_bytes=600, max_tool_results=2, cut_to=1)
    assert sum(isinstance(block, ToolResult) for message in cut.messages for block in message.content) == 2
    told = [line for line in context.receipt.losses if "bytes of the result" in line.what]
    # Those are the places in this request: whoever runs all passes is told those of the client's.
    assert [line.where for line in told] == ["messages[2].content[0]", "messages[4].content[0]"]
    assert kept_to(asked(user("go"), *turns), to(CHAT), result_bytes=600).messages[-1] == cut.messages[-1]


def test_of_a_result_in_many_parts_images_stay_and_the_middle_goes() -> None:
    parts = (Text(text="a" * 400), Text(text="b" * 400), IMAGE, Text(text="c" * 400))
    request = asked(user(), calls("a"), answered(ToolResult(call_id="a", content=parts)))
    (block,) = kept_to(request, to(ANTHROPIC), result_bytes=600).messages[-1].content
    assert isinstance(block, ToolResult)
    first, image, last = block.content
    assert image is IMAGE
    assert isinstance(first, Text)
    assert isinstance(last, Text)
    assert set(last.text) == {"c"}
    assert first.text.startswith("a" * 300)
    assert len(first.text.encode()) + len(last.text) <= 600


# Images


def test_the_oldest_images_become_a_short_text() -> None:
    context = to(ANTHROPIC)
    shots = [Message(role="user", content=(Text(text="See:"), IMAGE)) for _ in range(3)]
    inside = answered(ToolResult(call_id="a", content=(IMAGE, Text(text="done"))))
    request = asked(shots[0], said("."), shots[1], calls("a"), inside, said("."), shots[2])
    cut = kept_to(request, context, max_images=2, cut_to=1)
    assert texts(cut.messages[0]) == ["See:", NO_IMAGE]
    assert texts(cut.messages[2]) == ["See:", NO_IMAGE]
    assert cut.messages[3:] == request.messages[3:]
    assert lines(context) == ["loss messages[0].content[1]", "loss messages[2].content[1]"]
    later = kept_to(asked(*request.messages, said("."), user()), to(ANTHROPIC), max_images=1)
    (block,) = later.messages[4].content
    assert isinstance(block, ToolResult)
    assert block.content == (Text(text=NO_IMAGE), Text(text="done"))


def test_images_that_are_shown_now_stay_and_so_does_a_breakpoint() -> None:
    marked = Media(kind="image", source=IMAGE.source, cache=Cache())
    now = Message(role="user", content=(IMAGE, IMAGE, IMAGE))
    cut = kept_to(asked(Message(role="user", content=(marked,)), said("."), now), to(ANTHROPIC), max_images=1)
    assert cut.messages[-1] is now
    assert cut.messages[0].content == (Text(text=NO_IMAGE, cache=Cache()),)


# A word to go on with


@pytest.mark.parametrize(("words", "expected"), [(True, ANALYZE_RESULTS), ("Weiter.", "Weiter.")])
def test_a_conversation_that_ends_in_results_is_asked_to_go_on(words: bool | str, expected: str) -> None:
    context = to(CHAT)
    request = asked(user(), calls("a"), answered(result("a")))
    cut = kept_to(request, context, continuation=words)
    assert cut.messages == (*request.messages, user(expected))
    assert lines(context) == ["note messages[3]"]
    assert kept_to(cut, to(CHAT), continuation=words) is cut


def test_nobody_has_to_be_asked_who_was_just_spoken_to() -> None:
    request = asked(user(), calls("a"), answered(result("a")), user("Well?"))
    assert kept_to(request, to(CHAT), continuation=True) is request


# Repair


def test_a_dialects_own_history_is_repaired_if_it_is_to_be() -> None:
    request = asked(user(), calls("a"), user("Never mind."), calls("a"), answered(result("a")))
    home = to(CHAT, source="openai_chat")
    assert kept_to(request, home, repair=False) is request
    mended = kept_to(request, home, repair=True)
    assert [message.role for message in mended.messages] == ["user", "assistant", "tool", "user", "assistant", "tool"]
    ids = [block.id for message in mended.messages for block in message.content if isinstance(block, ToolCall)]
    assert len(set(ids)) == 2


def test_what_goes_on_from_the_upstreams_own_state_is_not_repaired() -> None:
    request = asked(answered(result("a")))
    settled = merge_layers((Layer(HistoryPolicy(repair=True)),))
    passes = with_policy(REQUEST_PASSES, settled, leans=lambda request: True)
    home = to(CHAT, source="openai_chat")
    assert all(each(request, home) is request for each in passes if each not in REQUEST_PASSES)


# Layers


def test_what_is_special_counts_before_what_is_general() -> None:
    general, special = HistoryPolicy(max_messages=50, max_tokens=9, cut_to=0.5), HistoryPolicy(max_messages=0)
    settled = merge_layers((Layer(general), Layer(special)))
    assert [tuple(limit) for limit in settled.limits] == [("max_tokens", 9, 0.5)]
    assert settled.merged.max_messages == 0


@pytest.mark.parametrize(
    ("layers", "share"),
    [
        ((Layer(HistoryPolicy(max_messages=50), exact=True),), 1.0),
        ((Layer(HistoryPolicy(cut_to=0.5)), Layer(HistoryPolicy(max_messages=50), exact=True)), 1.0),
        ((Layer(HistoryPolicy(max_messages=50), exact=True), Layer(HistoryPolicy(cut_to=0.5))), 0.5),
        ((Layer(HistoryPolicy(max_messages=50), exact=True), Layer(HistoryPolicy(max_messages=60))), 0.75),
        ((Layer(HistoryPolicy(max_messages=50)),), 0.75),
    ],
)
def test_older_limits_are_cut_to_the_brim_unless_a_later_word_is_said(layers: tuple[Layer, ...], share: float) -> None:
    (limit,) = merge_layers(layers).limits
    assert limit.share == share


def test_nothing_said_is_nothing_done() -> None:
    assert set(asdict(HistoryPolicy()).values()) == {None}
    assert with_policy(REQUEST_PASSES, merge_layers((Layer(HistoryPolicy()),))) == REQUEST_PASSES


@pytest.mark.parametrize("can", [CHAT, ANTHROPIC])
def test_a_conversation_within_its_limits_is_the_same_object(can: Capabilities) -> None:
    policy = {"max_messages": 100, "max_tokens": 10_000, "max_bytes": 100_000, "max_images": 9, "result_bytes": 900}
    request = asked(*talk(5), calls("a"), answered(result("a")))
    assert kept_to(request, to(can), **policy) is request
