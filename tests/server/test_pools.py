"""Several keys or servers of one upstream: which one is called, what happens if it fails, and what is reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from tests.lint.streams import SOUND
from tests.server.client_errors import error_told, good_end
from tests.server.gateway import CLIENTS, Running, at, gateway
from tests.upstream.bad_server import BadServer, Gate, Script, expect, pause, reply, reset, stream
from tests.waiting import until
from toolglot.config.schema import BreakerConfig, ModelConfig, PoolMemberConfig, Retries, ServerConfig
from toolglot.upstream.pool import Pool

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


SESSION = {"x-session-id": "s-1"}


def conversation(pool: Pool, running: Running, first: str) -> Mapping[str, str]:
    """The header of a conversation whose first choice is this member."""
    from toolglot.gateway.pool_targets import find_conversation
    from toolglot.ir import Request

    for number in range(1000):
        headers = {"x-session-id": f"s-{number}"}
        found = find_conversation(headers, Request(model="m"), "")
        if found is not None and pool.members[pool.rank(found)[0]].name == first:
            return headers
    raise AssertionError(first)


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
        answer = running.ask(client, stream=streams, headers=SESSION)
        assert answer.status == 200
        assert sorted(called(server)) == ["a", "b"]
        assert answer.headers["x-toolglot-member"] == called(server)[1]
        record = running.record()
        assert (record.upstream, record.member, record.fallbacks, record.attempts) == ("up", called(server)[1], 0, 2)
        lines = running.receipt(answer)["lines"]
        assert any(f"answered by up, member {called(server)[1]}" in str(line) for line in lines)
