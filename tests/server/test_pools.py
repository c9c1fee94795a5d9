"""Several keys or servers of one upstream: which one is called, what happens if it fails, and what is reported.

The issues are those of other gateways: LL is LiteLLM.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.lint.streams import SOUND
from tests.server.client_errors import break_told, error_told, good_end, mid_call
from tests.server.gateway import CLIENTS, Running, at, gateway
from tests.server.test_reasoning_state import CALLS, DONE, HI, ask, go_on, vendor_server
from tests.server.warp_loop import kept
from tests.upstream.bad_server import BadServer, Gate, Script, expect, pause, reply, reset, stream
from tests.upstream.judges import Claude, Gemini, Vendor
from tests.waiting import until
from toolglot.config.schema import BreakerConfig, ModelConfig, PoolMemberConfig, Retries
from toolglot.errors import ApiError
from toolglot.gateway.pool_targets import SESSION_HEADERS, find_conversation
from toolglot.ir import Request
from toolglot.store.sqlite import SqliteStore
from toolglot.upstream.pool import LOAD_FACTOR, LOAD_SLACK, Pool, PoolTicket

EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS)
BOTH = pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
GOOD: Script = [expect(), stream(SOUND["openai_chat"])]
_ANSWER = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello"}}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
}
WHOLE: Script = [expect(), reply(_ANSWER)]


def member(name: str, **fields: Any) -> PoolMemberConfig:
    return PoolMemberConfig(**{"name": name, "key": f"secret-key-{name}", **fields})


def fail(status: int, message: str = "no", **headers: str) -> Script:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    kind = {429: "rate_limit_error", 401: "authentication_error"}.get(status, "server_error")
    return [expect(), reply({"error": {"message": message, "type": kind, "param": None, "code": None}}, status, named)]


def called(server: BadServer) -> list[str]:
    """The members that were called, by their keys."""
    keys = [dict(request.headers)["authorization"] for request in server.requests]
    return [key.removeprefix("Bearer secret-key-") for key in keys]


def state(running: Running) -> Pool:
    return running.service.gateway.pools["up"].state


def session(running: Running, first: str) -> dict[str, str]:
    """The header of a conversation whose first choice is this member."""
    pool = state(running)
    for number in range(1000):
        headers = {"x-session-id": f"s-{number}"}
        found = find_conversation(headers, Request(model="m"), "")
        if found is not None and pool.members[pool.rank(found)[0]].name == first:
            return headers
    raise AssertionError(first)


# Failures


@EVERY_CLIENT
@BOTH
@pytest.mark.parametrize("status", [401, 402, 403, 404, 429, 500, 503, 529])
def test_a_member_that_fails_before_the_first_byte_is_followed_by_the_next(
    client: str, streams: bool, status: int
) -> None:
    good = GOOD if streams else WHOLE
    with (
        BadServer(fail(status), good) as server,
        gateway(at("openai_chat", server.url, pool=(member("a"), member("b")))) as running,
    ):
        answer = running.ask(client, stream=streams, headers={"x-session-id": "s-1"})
        assert answer.status == 200
        assert sorted(called(server)) == ["a", "b"]
        assert answer.headers["x-toolglot-member"] == called(server)[1]
        record = running.record()
        assert (record.upstream, record.member, record.fallbacks, record.attempts) == ("up", called(server)[1], 0, 2)
        lines = running.receipt(answer)["lines"]
        assert any(f"answered by up, member {called(server)[1]}" in str(line) for line in lines)


@pytest.mark.parametrize("failure", [reset()], ids=["reset"])
def test_a_member_that_breaks_off_before_the_first_byte_is_followed_by_the_next(failure: Any) -> None:
    with (
        BadServer([expect(), failure], GOOD) as server,
        gateway(at("openai_chat", server.url, pool=(member("a"), member("b")))) as running,
    ):
        good_end("anthropic", running.ask("anthropic", stream=True, headers=session(running, "b")))
        assert called(server) == ["b", "a"]


def test_a_member_that_is_not_running_is_followed_by_the_next() -> None:
    with (
        BadServer(GOOD) as server,
        gateway(
            at("openai_chat", server.url, pool=(member("a", base_url="http://127.0.0.1:9"), member("b")))
        ) as running,
    ):
        good_end("openai_chat", running.ask("openai_chat", stream=True, headers=session(running, "a")))
        assert called(server) == ["b"]


@EVERY_CLIENT
@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_request_that_is_wrong_everywhere_is_sent_to_one_member(client: str, status: int) -> None:
    with (
        BadServer(fail(status), WHOLE) as server,
        gateway(at("openai_chat", server.url, pool=(member("a"), member("b")))) as running,
    ):
        assert error_told(client, running.ask(client)).message.endswith("no")
        assert server.connections == 1


def test_nothing_is_repeated_once_a_byte_has_reached_the_client() -> None:
    seen = Gate()
    script = [expect(), stream(mid_call("openai_chat"), complete=False), pause(seen), reset()]
    with (
        BadServer(script, GOOD) as server,
        gateway(at("openai_chat", server.url, pool=(member("a"), member("b")))) as running,
    ):
        talk = running.begin("anthropic", stream=True)
        talk.until(b"Hello")
        seen.open()
        break_told("anthropic", talk.rest())
        assert server.connections == 1
        assert sum(state(running).in_flight) == 0


def test_retries_are_for_the_last_member_only() -> None:
    retries = Retries(attempts=3, first_wait=0)
    with (
        BadServer(*[fail(500)] * 3, WHOLE) as server,
        gateway(at("openai_chat", server.url, retries=retries, pool=(member("a"), member("b")))) as running,
    ):
        assert running.ask("openai_chat", headers=session(running, "a")).status == 200
        assert called(server) == ["a", "b", "b", "b"]


def test_fallbacks_follow_after_all_members() -> None:
    pool = (member("a"), member("b"))
    with (
        BadServer(fail(500)) as server,
        BadServer(WHOLE) as other,
        gateway(
            {"up": at("openai_chat", server.url, pool=pool), "other": at("openai_chat", other.url)},
            models={"m": ModelConfig(upstream="up", fallbacks=("other/m",))},
        ) as running,
    ):
        answer = running.ask("openai_chat")
        assert (answer.status, sorted(called(server)), other.connections) == (200, ["a", "b"], 1)
        assert "x-toolglot-member" not in answer.headers
        record = running.record()
        assert (record.upstream, record.member, record.fallbacks) == ("other", None, 1)


# Cool-downs


@EVERY_CLIENT
@BOTH
def test_ll_27823_a_client_learns_when_the_first_member_is_available_again(client: str, streams: bool) -> None:
    """LL#27823: no Retry-After when all deployments are out."""
    scripts = [fail(429, "slow down", retry_after="90"), fail(429, "slow down", retry_after="40")]
    with (
        BadServer(*scripts) as server,
        gateway(at("openai_chat", server.url, pool=(member("a"), member("b")))) as running,
    ):
        for connections in (2, 2):
            answer = running.ask(client, stream=streams)
            assert answer.status == 429
            assert 40 <= int(answer.headers["retry-after"]) <= 44  # a tenth more at random
            assert server.connections == connections


def test_ll_34399_keys_that_share_a_quota_wait_together() -> None:
    """LL#34399: Retry-After ignored where two deployments share a quota."""
    pool = (member("a", quota_group="org"), member("b", quota_group="org"), member("c"))
    with (
        BadServer(fail(429, retry_after="60"), WHOLE) as server,
        gateway(at("openai_chat", server.url, pool=pool)) as running,
    ):
        headers = session(running, "a")
        for _ in range(3):
            assert running.ask("openai_chat", headers=headers).headers["x-toolglot-member"] == "c"
        assert called(server) == ["a", "c", "c", "c"]


def test_ll_40130_of_two_waits_the_later_end_stays() -> None:
    """LL#40130: the shorter end stays."""
    late, seen = Gate(), Gate()
    pool = (member("a", quota_group="org"), member("b", quota_group="org"))
    slow: Script = [expect(seen=seen), pause(late), fail(429, retry_after="5")[1]]
    with (
        BadServer(slow, fail(429, retry_after="77")) as server,
        gateway(at("openai_chat", server.url, pool=pool)) as running,
    ):
        first = running.begin("openai_chat")
        seen.wait_blocking()
        assert running.ask("openai_chat").status == 429
        late.open()
        for answer in (first.rest(), running.ask("openai_chat")):
            assert answer.status == 429
            assert int(answer.headers["retry-after"]) >= 77
        assert server.connections == 2


@pytest.mark.parametrize(
    ("headers", "least"),
    [
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "2m10s"}, 130),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "50", "retry-after": "3"}, 50),
        ({"x-ratelimit-remaining-tokens": "9", "x-ratelimit-reset-tokens": "2m10s", "retry-after": "3"}, 3),
        ({}, 5),
    ],
)
def test_a_group_waits_until_its_exhausted_limits_reset(headers: Mapping[str, str], least: int) -> None:
    with (
        BadServer(fail(429, **headers)) as server,
        gateway(at("openai_chat", server.url, pool=(member("a"),))) as running,
    ):
        assert running.ask("openai_chat").status == 429
        assert least <= int(running.ask("openai_chat").headers["retry-after"]) <= least * 1.1 + 1
        assert server.connections == 1


def test_gproxy_a_conversation_moves_back_after_a_passing_failure() -> None:
    """gproxy: a session moves only after a durable failure."""
    with (
        BadServer(fail(500), WHOLE) as server,
        gateway(at("openai_chat", server.url, pool=(member("a"), member("b")))) as running,
    ):
        headers = session(running, "a")
        assert [running.ask("openai_chat", headers=headers).headers["x-toolglot-member"] for _ in range(3)] == [
            "b",
            "a",
            "a",
        ]
        assert [running.record().moved for _ in range(3)] == [True, False, False]


def test_a_refused_key_is_left_out_and_other_members_are_not() -> None:
    with (
        BadServer(fail(401), WHOLE) as server,
        gateway(at("openai_chat", server.url, pool=(member("a"), member("b")))) as running,
    ):
        headers = session(running, "a")
        for _ in range(2):
            assert running.ask("openai_chat", headers=headers).status == 200
        assert called(server) == ["a", "b", "b"]


def test_a_missing_model_is_left_out_at_this_member_for_this_model_only() -> None:
    with (
        BadServer(fail(404), WHOLE) as server,
        gateway(at("openai_chat", server.url, pool=(member("a"), member("b")))) as running,
    ):
        headers = session(running, "a")
        for model in ("one", "one", "two"):
            assert running.ask("openai_chat", model=model, headers=headers).status == 200
        assert called(server) == ["a", "b", "b", "a"]


@EVERY_CLIENT
def test_a_refusal_by_every_member_reaches_the_client_each_time(client: str) -> None:
    """No wrong model or key of one client makes the pool unavailable to others."""
    with (
        BadServer(fail(404, "no such model")) as server,
        gateway(at("openai_chat", server.url, pool=(member("a"), member("b")))) as running,
    ):
        for _ in range(2):
            assert error_told(client, running.ask(client)).message == "no such model"
        assert server.connections == 4


def test_a_limited_member_outranks_a_refused_key() -> None:
    """The limit will end: a client that gets 401 would give up."""
    with (
        BadServer(fail(429, retry_after="30"), fail(401)) as server,
        gateway(at("openai_chat", server.url, pool=(member("a"), member("b")))) as running,
    ):
        for _ in range(2):
            answer = running.ask("openai_chat")
            assert answer.status == 429
            assert int(answer.headers["retry-after"]) >= 30
        assert server.connections == 2


def test_a_member_that_keeps_failing_rests() -> None:
    breaker = BreakerConfig(failures=2, rest=60.0)
    with (
        BadServer(fail(500), WHOLE, fail(500), WHOLE) as server,
        gateway(at("openai_chat", server.url, breaker=breaker, pool=(member("a"), member("b")))) as running,
    ):
        headers = session(running, "a")
        for _ in range(3):
            assert running.ask("openai_chat", headers=headers).status == 200
        assert called(server) == ["a", "b", "a", "b", "b"]
        metrics = running.call("GET", "/metrics").body.decode()
        assert 'toolglot_pool_cooling{upstream="up",member="a"} 1' in metrics
        assert 'toolglot_upstream_resting{upstream="up"} 0' in metrics


def test_a_pool_whose_members_all_rest_says_for_how_long() -> None:
    breaker = BreakerConfig(failures=1, rest=60.0)
    with (
        BadServer(fail(500)) as server,
        gateway(at("openai_chat", server.url, breaker=breaker, pool=(member("a"), member("b")))) as running,
    ):
        assert running.ask("openai_chat").status == 500
        answer = running.ask("openai_chat")
        assert (answer.status, server.connections) == (503, 2)
        assert 55 <= int(answer.headers["retry-after"]) <= 60


@BOTH
def test_a_conversation_waits_for_its_member_if_its_limit_ends_soon(streams: bool) -> None:
    """Elsewhere the whole prompt would have to be read again."""
    good = GOOD if streams else WHOLE
    retries = Retries(attempts=2, first_wait=0)
    with (
        BadServer(fail(429, retry_after="0.1"), fail(429, retry_after="0.1"), good) as server,
        gateway(at("openai_chat", server.url, retries=retries, pool=(member("a"), member("b")))) as running,
    ):
        answer = running.ask("openai_chat", stream=streams, headers=session(running, "a"))
        assert answer.status == 200
        assert called(server) == ["a", "a", "a"]
        record = running.record()
        assert (record.fallbacks, record.moved, record.member) == (0, False, "a")


# The choice


@pytest.mark.parametrize("name", SESSION_HEADERS)
def test_a_conversation_stays_at_its_member(name: str) -> None:
    pool = tuple(member(name) for name in "abcd")
    with BadServer(WHOLE) as server, gateway(at("openai_chat", server.url, pool=pool)) as running:
        for number in range(8):
            for _ in range(3):
                running.ask("openai_chat", headers={name: f"session {number}"})
        keys = called(server)
        assert all(len({*keys[first : first + 3]}) == 1 for first in range(0, len(keys), 3))
        assert len({*keys}) > 1


def test_turns_without_an_id_stay_together_by_their_beginning() -> None:
    pool = tuple(member(name) for name in "abcd")
    with BadServer(WHOLE) as server, gateway(at("openai_chat", server.url, pool=pool)) as running:
        for number in range(8):
            first = [{"role": "system", "content": "S"}, {"role": "user", "content": f"question {number}"}]
            for later in ([], [{"role": "assistant", "content": "Hi"}, {"role": "user", "content": "more"}]):
                running.ask("openai_chat", body={"messages": first + later})
        keys = called(server)
        assert keys[::2] == keys[1::2]
        assert len({*keys}) > 1


@pytest.mark.parametrize("dialect", CLIENTS)
def test_every_api_can_have_a_pool(dialect: str, tmp_path: Path) -> None:
    later = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    body = {"messages": [*later, {"role": "user", "content": "more"}]}
    with (
        kept(tmp_path / "store") as store,
        gateway(at(dialect, "demo:", pool=(member("a"), member("b"))), store=store) as running,
    ):
        for _ in range(2):
            answer = running.ask("openai_chat", model="up/demo", body=body)
            assert (answer.status, answer.headers["x-toolglot-member"] in "ab") == (200, True)


def test_a_cache_key_keeps_requests_together() -> None:
    pool = tuple(member(name) for name in "abcd")
    with BadServer(WHOLE) as server, gateway(at("openai_chat", server.url, pool=pool)) as running:
        for number in range(6):
            body = {"messages": [{"role": "user", "content": f"question {number}"}], "prompt_cache_key": "k"}
            running.ask("openai_chat", body=body)
        assert len({*called(server)}) == 1


def test_a_continued_response_stays_at_its_member(tmp_path: Path) -> None:
    pool = tuple(member(name) for name in "abcd")
    with (
        BadServer(WHOLE) as server,
        gateway(at("openai_chat", server.url, pool=pool), store=SqliteStore(tmp_path / "store")) as running,
    ):
        for number in range(6):
            first = running.ask("openai_responses", body={"input": f"question {number}"}).json()
            body = {"input": "more", "previous_response_id": first["id"]}
            assert running.ask("openai_responses", body=body).status == 200
        keys = called(server)
        assert keys[::2] == keys[1::2]
        assert len({*keys}) > 1


def test_a_busy_member_gets_no_more_requests_of_its_conversations() -> None:
    hold = Gate()
    script = [expect(), stream(mid_call("openai_chat"), complete=False), pause(hold), reset()]
    with (
        BadServer(script) as server,
        gateway(at("openai_chat", server.url, pool=(member("a"), member("b")))) as running,
    ):
        headers = session(running, "a")
        talks = []
        for _ in range(20):
            talks.append(running.begin("anthropic", stream=True, headers=headers))
            talks[-1].until(b"Hello")
        counted = Counter(called(server))
        assert counted["a"] <= LOAD_FACTOR * 20 / 2 + LOAD_SLACK
        assert counted["b"] > 0
        assert state(running).in_flight == [counted["a"], counted["b"]]
        for talk in talks:
            talk.leave()
        until(lambda: sum(state(running).in_flight) == 0, "the calls are over")
        hold.open()


def test_a_client_that_leaves_frees_its_member() -> None:
    hold, seen = Gate(), Gate()
    with (
        BadServer([expect(seen=seen), pause(hold)]) as server,
        gateway(at("openai_chat", server.url, pool=(member("a"), member("b")))) as running,
    ):
        talk = running.begin("openai_chat")
        seen.wait_blocking()
        assert sum(state(running).in_flight) == 1
        talk.leave()
        until(lambda: sum(state(running).in_flight) == 0, "the call is over")
        assert server.connections == 1
        hold.open()


@pytest.mark.parametrize("name", ["x-claude-code-session-id"])
def test_subagents_of_a_session_are_conversations_of_their_own(name: str) -> None:
    pool = tuple(member(name) for name in "abcd")
    with BadServer(WHOLE) as server, gateway(at("openai_chat", server.url, pool=pool)) as running:
        for number in range(8):
            for _ in range(2):
                running.ask("openai_chat", headers={name: "session", "x-claude-code-agent-id": f"agent {number}"})
        keys = called(server)
        assert keys[::2] == keys[1::2]
        assert len({*keys}) > 1


# Reasoning state


_THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "made by one account"}
_TOLD = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]}
_BOUND = {"input": [{"role": "user", "content": "Hi"}, _THOUGHT, _TOLD, {"role": "user", "content": "more"}]}
_RESPONSE: Script = [
    expect(),
    reply(
        {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "status": "completed",
            "model": "m",
            "output": [
                {
                    "type": "message",
                    "id": "msg_1",
                    "status": "completed",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": "Hello", "annotations": []}],
                }
            ],
            "usage": {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4},
        }
    ),
]


def test_ccr_1691_encrypted_reasoning_goes_to_no_other_account() -> None:
    """CCR#1691 and LiteLLM's incident of 2026-02-24: another account refuses it, and the conversation is stuck."""
    pool = (member("a", quota_group="org"), member("b", quota_group="org"), member("c"))
    with (
        BadServer(fail(500), _RESPONSE, fail(429, retry_after="60"), _RESPONSE) as server,
        gateway(at("openai_responses", server.url, pool=pool)) as running,
    ):
        headers = session(running, "a")
        assert running.ask("openai_responses", headers=headers, body=_BOUND).headers["x-toolglot-member"] == "b"
        for _ in range(2):
            answer = running.ask("openai_responses", headers=headers, body=_BOUND)
            assert (answer.status, int(answer.headers["retry-after"]) >= 60) == (429, True)
        assert running.ask("openai_responses", headers=headers, body={"input": "Hi"}).status == 200
        assert called(server) == ["a", "b", "b", "c"]


def test_encrypted_reasoning_stays_at_the_account_that_took_over() -> None:
    with (
        BadServer(fail(500), _RESPONSE) as server,
        gateway(at("openai_responses", server.url, pool=(member("a"), member("b")))) as running,
    ):
        headers = session(running, "a")
        assert running.ask("openai_responses", headers=headers, body={"input": "Hi"}).status == 200
        assert running.ask("openai_responses", headers=headers, body=_BOUND).status == 200
        assert called(server) == ["a", "b", "b"]


@pytest.mark.parametrize("vendor", [Claude, Gemini])
def test_stored_reasoning_returns_to_a_busy_member_and_to_no_other(vendor: type[Vendor]) -> None:
    first, second = vendor("a"), vendor("b")
    with (
        kept() as store,
        vendor_server(first, [CALLS, DONE, DONE]) as one,
        vendor_server(second, [CALLS, DONE, DONE]) as other,
        gateway(
            at(
                first.dialect,
                one.url,
                models=(first.model,),
                pool=(member("a", base_url=one.url), member("b", base_url=other.url)),
            ),
            store=store,
        ) as running,
    ):
        message = ask(running, HI, first.model)
        servers = [(first, one), (second, other)]
        home = next(number for number, (_, server) in enumerate(servers) if server.requests)
        model, server = servers[home]
        pool = state(running)
        pool.in_flight[home] += 100
        ask(running, go_on(message), first.model)
        assert 0 in model.returned(server.requests[-1].json())
        pool.settle(enter_member(pool, home, first.model), ApiError(kind="authentication", message=""), _FAR)
        ask(running, go_on(message), first.model)
        stranger, strange = servers[1 - home]
        assert len(strange.requests) == 1
        assert stranger.refused == []
        signatures = re.findall(rb'[sS]ignature": ?"([^"]+)"', server.requests[-1].body)
        assert signatures
        assert [each for each in signatures if each in strange.requests[-1].body] == []


def enter_member(pool: Pool, number: int, model: str) -> PoolTicket:
    ticket = pool.enter(number, model, 0.0)
    assert ticket is not None
    return ticket


_FAR = 1e12
"""A time of the monotonic clock that does not come."""


# Reports


def test_no_key_of_any_member_reaches_a_client_or_a_metric() -> None:
    leak = "wrong key secret-key-a, not secret-key-b"
    with (
        BadServer(fail(401, leak)) as server,
        gateway(at("openai_chat", server.url, pool=(member("a"), member("b")))) as running,
    ):
        answer = running.ask("openai_chat")
        assert answer.status == 401
        assert "up, member" in answer.json()["error"]["message"]
        shown = [answer.body.decode(), repr(answer.headers), running.call("GET", "/metrics").body.decode()]
        shown += [repr(running.record()), repr(running.service.gateway.config)]
        assert all("secret-key" not in text for text in shown)
        assert server.connections == 2


def test_metrics_count_calls_by_member_and_outcome() -> None:
    with (
        BadServer(fail(429, retry_after="60"), WHOLE) as server,
        gateway(at("openai_chat", server.url, pool=(member("a"), member("b")))) as running,
    ):
        headers = session(running, "a")
        for _ in range(2):
            running.ask("openai_chat", headers=headers)
            running.record()
        metrics = running.call("GET", "/metrics").body.decode().splitlines()
        assert [line for line in metrics if line.startswith("toolglot_pool_")] == [
            'toolglot_pool_in_flight{upstream="up",member="a"} 0',
            'toolglot_pool_in_flight{upstream="up",member="b"} 0',
            'toolglot_pool_cooling{upstream="up",member="a"} 1',
            'toolglot_pool_cooling{upstream="up",member="b"} 0',
            'toolglot_pool_calls_total{upstream="up",member="a",outcome="rate_limit"} 1',
            'toolglot_pool_calls_total{upstream="up",member="b",outcome="ok"} 2',
            'toolglot_pool_moved_total{upstream="up"} 2',
        ]
        assert server.connections == 3


def test_an_upstream_without_a_pool_has_no_trace_of_one() -> None:
    with BadServer(WHOLE) as server, gateway(at("openai_chat", server.url, key="k" * 20)) as running:
        answer = running.ask("openai_chat")
        assert "x-toolglot-member" not in answer.headers
        assert running.service.gateway.pools == {}
        assert "toolglot_pool_in_flight" not in running.call("GET", "/metrics").body.decode()
