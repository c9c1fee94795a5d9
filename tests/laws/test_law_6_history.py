"""Law 6 where a history is cut: policies never tear a pair, never grow it, keep what is asked, keep to their limits and
have nothing to do twice. The next turn extends what was sent, but for the rare turns in which something was cut."""

from __future__ import annotations

from itertools import pairwise
from operator import le
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.exchanges import NAMES
from tests.forms import forwards, history_of, is_json
from tests.laws.test_law_6_prefix import turn_ends
from tests.passes.targets import TARGETS, to
from tests.strategies import requests
from toolglot.capabilities import Capabilities
from toolglot.dialects import DIALECTS
from toolglot.ir import Block, Media, Message, Request, Source, Text, ToolCall, ToolResult, replace
from toolglot.passes import Context, RequestPass, history
from toolglot.passes.blocks import has_results
from toolglot.passes.history_policy import HistoryPolicy, Layer, merge_layers, with_policy
from toolglot.passes.history_size import NOUNS, Scale, Size, plus
from toolglot.passes.history_units import separate_inserted
from toolglot.passes.pipeline import REQUEST_PASSES
from toolglot.passes.turns import BEGIN
from toolglot.receipt import Receipt
from toolglot.tokens.media import tokens_by_area
from toolglot.tools.inserted_text import ANALYZE_RESULTS
from toolglot.translate import ExchangeCore

INSTRUCTIONS = ("system", "developer")
REPAIRED = REQUEST_PASSES.index(history.repair) + 1

sizes = st.sampled_from([1, 20, 300])
images = st.just(Media(kind="image", source=Source("base64", "aGVsbG8=" * 20, "image/png")))


@st.composite
def parts(draw: st.DrawFn) -> tuple[Block, ...]:
    text = Text(text=draw(st.sampled_from("abc")) * draw(sizes))
    return (text, draw(images)) if draw(st.integers(0, 3)) == 0 else (text,)


REMINDER = Text(text="<system-reminder/>")


@st.composite
def answers(draw: st.DrawFn, called: tuple[ToolCall, ...]) -> list[Message]:
    """The results of a turn: each in a message of its own, or all in one; with words of others beside or behind them,
    as agents write them."""
    results = tuple(ToolResult(call_id=call.id, name="look", content=draw(parts())) for call in called)
    match draw(st.sampled_from(["apart", "together", "reminded", "told"])):
        case "together":
            return [Message(role="user", content=results)]
        case "reminded":
            return [Message(role="user", content=(*results, REMINDER))]
        case "told":
            return [Message(role="user", content=results), Message(role="user", content=draw(parts()))]
    return [Message(role="tool", content=(result,)) for result in results]


@st.composite
def sessions(draw: st.DrawFn) -> tuple[Message, ...]:
    """A long talk, as agents have it: a task, rounds of calls, an answer, the next task."""
    messages = [Message(role="user", content=(Text(text="Do it."),))]
    if draw(st.booleans()):
        messages.insert(0, Message(role="system", content=(Text(text="Be brief. " * draw(sizes)),)))
    for number in range(draw(st.integers(2, 10))):
        count = draw(st.integers(0, 3))
        called = tuple(ToolCall(id=f"c{number}_{each}", name="look", arguments="{}") for each in range(count))
        spoken: tuple[Block, ...] = (Text(text=f"{number}."),) if not count or draw(st.booleans()) else ()
        messages.append(Message(role="assistant", content=(*spoken, *called)))
        messages += draw(answers(called)) if called else [Message(role="user", content=draw(parts()))]
    return tuple(messages)


policies = st.builds(
    HistoryPolicy,
    max_messages=st.sampled_from([None, 3, 9]),
    max_tool_results=st.sampled_from([None, 1, 4]),
    max_tokens=st.sampled_from([None, 150, 900]),
    max_bytes=st.sampled_from([None, 900, 4000]),
    max_images=st.sampled_from([None, 1, 3]),
    result_bytes=st.sampled_from([None, 256]),
    keep_first=st.booleans(),
    cut_to=st.sampled_from([None, 0.5, 1.0]),
    repair=st.booleans(),
    continuation=st.sampled_from([None, True]),
)
conversations = st.builds(Request, model=st.just("gpt-5"), messages=sessions()) | requests()


def keeping(policy: HistoryPolicy) -> tuple[RequestPass, ...]:
    """The passes that keep to a policy, alone."""
    passes = with_policy(REQUEST_PASSES, merge_layers((Layer(policy),)))
    return tuple(each for each in passes if each not in REQUEST_PASSES)


def through(passes: tuple[RequestPass, ...], request: Request, context: Context) -> Request:
    for request_pass in passes:
        request = request_pass(request, context)
    return request


def size(request: Request) -> Size:
    scale = Scale(NOUNS, tokens_by_area)
    total = scale.fixed(request)
    for message in request.messages:
        total = plus(total, scale.bare(message))
        for block in message.content:
            total = plus(total, scale.block(block, message.role))
    return total


def pairs(request: Request) -> tuple[set[str], set[str]]:
    """The ids of calls, and of results."""
    blocks = [block for message in request.messages for block in message.content]
    calls = {block.id for block in blocks if isinstance(block, ToolCall)}
    return calls, {block.call_id for block in blocks if isinstance(block, ToolResult)}


def words(request: Request) -> list[Message]:
    """What the user has said, beside results."""
    written = [message for message in request.messages if message.role == "user" and message.content]
    return [message for message in written if not has_results(message)]


def spoken(request: Request) -> list[Message]:
    return [message for message in request.messages if message.role not in INSTRUCTIONS]


@pytest.mark.parametrize("can", TARGETS.values(), ids=TARGETS)
@examples(2)
@given(request=conversations, policy=policies, at_home=st.booleans())
def test_a_policy_tears_no_pair_grows_nothing_keeps_what_is_asked_and_keeps_to_its_limits(
    can: Capabilities, request: Request, policy: HistoryPolicy, at_home: bool
) -> None:
    context = to(can, source="target" if at_home else "elsewhere", target="target")
    whole = through(REQUEST_PASSES[:REPAIRED], request, context)
    whole = through(keeping(HistoryPolicy(result_bytes=policy.result_bytes, repair=policy.repair)), whole, context)
    passes = keeping(policy)
    cut = through(passes, whole, context)
    # Nothing to do twice.
    written = list(context.receipt)
    assert through(passes, cut, context) == cut
    assert list(context.receipt) == written
    # Who must begin does, if there is anybody.
    if can.messages.starts_with_user and words(whole) and spoken(whole)[0].role == "user":
        assert spoken(cut)[0].role != "assistant"
    # A word that begins, and one to go on with, are ours.
    ours = separate_inserted(cut.messages, BEGIN, ANALYZE_RESULTS)
    assert not ours.begin or at_home
    assert not ours.asking or policy.continuation
    cut = replace(cut, messages=ours.conversation)
    # No pair is torn.
    (calls, results), (calls_before, results_before) = pairs(cut), pairs(whole)
    assert calls & results_before == results & calls_before
    # Nothing grows.
    now, before = size(cut), size(whole)
    assert all(map(le, now, before))
    # What is asked stays, and so does system text.
    assert [m for m in cut.messages if m not in spoken(cut)] == [m for m in whole.messages if m not in spoken(whole)]
    assert cut.messages[-1:] == whole.messages[-1:]
    kept = [*words(whole)[-1:], *(words(whole)[:1] if policy.keep_first else ())]
    assert all(message in cut.messages for message in kept)
    # The limits hold, or the receipt says which do not.
    limits = merge_layers((Layer(policy),)).limits
    beyond = {f"{now[limit.measure]} {NOUNS[limit.name]}" for limit in limits if now[limit.measure] > limit.most}
    assert {note.what for note in context.receipt.notes if "never dropped" in note.why} == beyond


ROUTES = [(next(name for name in NAMES if name != upstream), upstream) for upstream in NAMES]
ROUTES += [(name, name) for name in NAMES if forwards(name)]


@pytest.mark.parametrize(("client", "upstream"), ROUTES)
@examples(1 / 4)
@given(messages=sessions(), policy=policies)
def test_the_next_turn_extends_what_was_sent_unless_something_was_cut(
    client: str, upstream: str, messages: tuple[Message, ...], policy: HistoryPolicy
) -> None:
    passes = with_policy(REQUEST_PASSES, merge_layers((Layer(policy),)))
    turns = []
    for end in turn_ends(messages):
        request = Request(model="gpt-5", messages=messages[:end], max_output_tokens=100)
        raw = DIALECTS[client].encode_request(request, Receipt())
        exchange = ExchangeCore(client, upstream, passes=passes)
        sent = history_of(upstream, exchange.request(raw, model="gpt-5"))
        cuts = {
            str(line) for line in exchange.receipt.losses if "at most" in line.why and "of a result" not in line.why
        }
        # A word to go on with is not said again; it stands in the last item.
        asked_to_go_on = any(line.what == "a request to continue" for line in exchange.receipt.notes)
        turns.append((sent, cuts, len(sent.items) - asked_to_go_on))
    for (before, cuts_before, count), (now, cuts_now, _) in pairwise(turns):
        if cuts_now == cuts_before and (policy.cut_to or 0) < 1:
            assert now.items[:count] == before.items[:count]
            assert now.rest == before.rest


@pytest.mark.parametrize("name", [name for name in NAMES if is_json(name)])
@given(messages=sessions(), policy=policies)
def test_what_was_cut_and_written_is_not_cut_again(
    name: str, messages: tuple[Message, ...], policy: HistoryPolicy
) -> None:
    """Nobody has to remember on the way what is ours and what was left of what: it is in the bytes."""
    passes = with_policy(REQUEST_PASSES, merge_layers((Layer(policy),)))
    request = Request(model="gpt-5", messages=messages, max_output_tokens=100)
    raw = DIALECTS[name].encode_request(request, Receipt())
    once = ExchangeCore(name, name, passes=passes).request(raw, model="gpt-5")
    assert ExchangeCore(name, name, passes=passes).request(once, model="gpt-5") == once


@pytest.mark.parametrize("share", [0.5, 0.75])
@pytest.mark.parametrize("limit", [{"max_messages": 40}, {"max_tokens": 2000}, {"max_bytes": 12000}], ids=str)
def test_cuts_are_rare(limit: dict[str, Any], share: float) -> None:
    """An agent at work, a hundred rounds long: between two cuts there are at least so many rounds as make up half of
    what a cut takes away."""
    (fit,) = keeping(HistoryPolicy(**limit, cut_to=share))
    task = Message(role="user", content=(Text(text="Do it."),))
    messages, heads = [task], []
    for number in range(100):
        call = ToolCall(id=f"c{number}", name="look", arguments='{"path": "a"}')
        result = ToolResult(call_id=call.id, content=(Text(text="some words of a result " * 6),))
        messages += [Message(role="assistant", content=(call,)), Message(role="tool", content=(result,))]
        cut = fit(Request(model="m", messages=tuple(messages)), to(TARGETS["anthropic"]))
        heads.append(cut.messages[1].content[0])
    changes = [number for number, (before, now) in enumerate(pairwise(heads)) if before != now]
    first = changes[0]
    taken = (1 - share) * first
    assert len(changes) <= (100 - first) / (taken / 2) + 1
    assert all(later - earlier >= taken / 2 for earlier, later in pairwise(changes))


@pytest.mark.parametrize("upstream", [name for name in NAMES if is_json(name)])
def test_the_bytes_on_the_wire_keep_to_their_limit(upstream: str) -> None:
    messages = [Message(role="user", content=(Text(text="Do it."),))]
    for number in range(60):
        call = ToolCall(id=f"c{number}", name="look", arguments='{"path": "a", "text": "b\\n"}')
        result = ToolResult(call_id=call.id, name="look", content=(Text(text='a "line"\n' * (number % 3 * 20 + 1)),))
        messages += [Message(role="assistant", content=(call,)), Message(role="tool", content=(result,))]
    client = next(name for name in NAMES if name != upstream)
    passes = with_policy(REQUEST_PASSES, merge_layers((Layer(HistoryPolicy(max_bytes=12000, cut_to=0.9)),)))
    raw = DIALECTS[client].encode_request(
        Request(model="gpt-5", messages=tuple(messages), max_output_tokens=100), Receipt()
    )
    sent = history_of(upstream, ExchangeCore(client, upstream, passes=passes).request(raw, model="gpt-5"))
    assert 7000 < sum(len(item) + 1 for item in sent.items) <= 12000
