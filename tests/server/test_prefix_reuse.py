"""How much of a history an upstream is sent again: measured on what is sent, told in the log and in the metrics."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from bench.socketless import Socketless, without_sockets

from tests.server.gateway import at, gateway
from tests.server.test_logs import record
from toolglot.dialects import DIALECTS
from toolglot.gateway.prefix_reuse import (
    MAX_PER_SECOND,
    MAX_TURNS,
    SAMPLED_ONE_IN,
    PrefixHashes,
    PrefixReuse,
    hash_messages,
)
from toolglot.passes.history_policy import HistoryPolicy
from toolglot.server.logs import format_fields
from toolglot.server.metrics import Metrics
from toolglot.upstream.offload import LARGE

Messages = list[dict[str, Any]]


def body(messages: Messages, **fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": messages, **fields}).encode()


def hashed(messages: Messages, dialect: str = "anthropic", **fields: Any) -> PrefixHashes:
    prefix = hash_messages(DIALECTS[dialect], "m", body(messages, **fields))
    assert prefix is not None
    return prefix


def turns(count: int, words: str = "word") -> Messages:
    roles = ("user", "assistant")
    return [{"role": roles[number % 2], "content": f"{words} {number}"} for number in range(count)]


def test_a_turn_that_extends_the_one_before_uses_all_of_it_again() -> None:
    known = PrefixReuse()
    assert known.measure_reuse(1, hashed(turns(3))) is None
    share = known.measure_reuse(1, hashed(turns(5)))
    assert share == pytest.approx(3 / 5, abs=0.02)
    assert known.measure_reuse(1, hashed(turns(5))) == 1.0


@pytest.mark.parametrize(
    ("messages", "fields"),
    [
        (turns(5)[2:], {}),
        (turns(5), {"system": "It is noon."}),
        (turns(5), {"tools": [{"name": "f"}]}),
        (turns(5, "other"), {}),
    ],
    ids=["cut", "another system text", "other tools", "other words"],
)
def test_what_begins_otherwise_is_nothing_that_was_sent_before(messages: Messages, fields: dict[str, Any]) -> None:
    known = PrefixReuse()
    known.measure_reuse(1, hashed(turns(3)))
    assert known.measure_reuse(1, hashed(messages, **fields)) == 0.0


def test_a_change_in_the_middle_ends_what_is_the_same() -> None:
    known, changed = PrefixReuse(), turns(9)
    changed[5] = {"role": "assistant", "content": "changed"}
    known.measure_reuse(1, hashed(turns(7)))
    share = known.measure_reuse(1, hashed(changed))
    assert share == pytest.approx(5 / 9, abs=0.02)


def test_a_breakpoint_that_moves_changes_nothing() -> None:
    known, marked = PrefixReuse(), [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
    before = [{"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]}]
    known.measure_reuse(1, hashed(before))
    assert known.measure_reuse(1, hashed(marked)) == 1.0


def test_of_conversations_that_begin_alike_the_nearest_counts() -> None:
    known, one, other = PrefixReuse(), turns(7, "one"), turns(7, "other")
    for messages in (one[:3], other[:3], one[:5]):
        known.measure_reuse(1, hashed(messages))
    assert known.measure_reuse(1, hashed(other[:5])) == pytest.approx(3 / 5, abs=0.02)


def test_what_is_kept_in_mind_is_bounded() -> None:
    known = PrefixReuse(conversations=3, hashes=40)
    for number in range(50):
        for count in (3, 5, 7, 9, 11, 13):
            known.measure_reuse(number % 7, hashed(turns(count)))
            kept = list(known._turns.values())
            assert len(kept) <= 3
            assert all(len(each) <= MAX_TURNS for each in kept)
            assert len(kept) == 1 or sum(len(turn.hashes) for each in kept for turn in each) <= 40


def test_what_is_no_list_of_messages_is_not_measured() -> None:
    for raw in (b"\x00\x01protobuf", b"{}", b'{"messages": "Hi"}', b'{"messages": []}'):
        assert hash_messages(DIALECTS["openai_chat"], "m", raw) is None


def test_the_log_and_the_metrics_tell_it() -> None:
    entry = record(prefix_reuse=[("local", 0.25), ("local", 0.96789)])
    assert format_fields(entry)["prefix_reuse"] == 0.9679
    assert "prefix_reuse" not in format_fields(record())
    metrics = Metrics()
    metrics.observe(entry)
    lines = metrics.text(0, {}).decode().splitlines()
    assert 'toolglot_prefix_reuse_ratio_bucket{upstream="local",le="0.25"} 1' in lines
    assert 'toolglot_prefix_reuse_ratio_bucket{upstream="local",le="0.99"} 2' in lines
    assert 'toolglot_prefix_reuse_ratio_count{upstream="local"} 2' in lines


@pytest.mark.parametrize("client", ["openai_chat", "anthropic"])
@pytest.mark.parametrize("words", ["word", "w" * (LARGE // 3)], ids=["small", "large"])
def test_turns_through_the_gateway_are_measured(client: str, words: str) -> None:
    extra = {"max_tokens": 10} if client == "anthropic" else {}
    with gateway(at("openai_chat", "demo:")) as running:
        shares = []
        for count in (3, 5, 7):
            assert running.ask(client, body={"messages": turns(count, words), **extra}).status == 200
            shares.append([share for _, share in running.record().prefix_reuse])
        assert shares[0] == []
        assert [share for (share,) in shares[1:]] == pytest.approx([3 / 5, 5 / 7], abs=0.05)


def test_a_history_that_is_cut_in_steps_is_sent_again_in_most_turns() -> None:
    """And one that is cut to the brim hardly ever."""
    reused = {}
    for name, policy in (("steps", HistoryPolicy(max_messages=20)), ("brim", HistoryPolicy(max_messages=20, cut_to=1))):
        with gateway(at("openai_chat", "demo:", history=policy)) as running:
            shares = []
            for count in range(21, 61, 2):
                running.ask("openai_chat", body={"messages": turns(count)})
                shares += [share for _, share in running.record().prefix_reuse]
            reused[name] = sum(share > 0.8 for share in shares) / len(shares)
    assert reused["brim"] == 0
    assert reused["steps"] >= 0.6


def test_one_conversation_that_is_all_there_is_is_not_looked_at_with_every_request() -> None:
    chosen = next(words for words in map(str, itertools.count()) if hash(words) % SAMPLED_ONE_IN == 0)

    async def work(stage: Socketless) -> int:
        known, entry = PrefixReuse(), record(started=1.0)
        prefix = hash_messages(DIALECTS["openai_chat"], "m", body(turns(1)))
        assert prefix is not None
        for _ in range(MAX_PER_SECOND + 100):
            if known.should_sample(entry, [chosen]):
                known.record_reuse(entry, "up", (1, prefix))
        return len(entry.prefix_reuse)

    assert without_sockets(work) == MAX_PER_SECOND - 1  # in its first turn there is nothing to compare it with


def test_a_text_that_gets_a_breakpoint_is_the_text_that_it_was() -> None:
    """With one it stands in a list, and the turn after next it is a string again."""
    marked = [{"type": "text", "text": 'a "b"\n', "cache_control": {"type": "ephemeral"}}]
    messages = [{"role": "user", "content": content} for content in ('a "b"\n', marked)]
    raw = [json.dumps({"model": "m", "messages": [message]}, separators=(",", ":")).encode() for message in messages]
    prefixes = [hash_messages(DIALECTS["anthropic"], "m", each) for each in raw]
    assert prefixes[0] == prefixes[1]
