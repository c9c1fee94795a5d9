"""The members of an upstream's pool as targets of one request: chosen one after the other until one answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from hashlib import blake2b
from math import ceil
from typing import TYPE_CHECKING

from msgspec import Struct

from toolglot.errors import ApiError
from toolglot.gateway.commands import Shutdown, Steps, Wait
from toolglot.gateway.features.issuer import hash_issuer
from toolglot.gateway.flow import Failure, FlowContext, StoppedError, Translation, UpstreamTarget
from toolglot.gateway.received import ReceivedRequest
from toolglot.gateway.upstream_errors import RESTING, describe_outcome
from toolglot.ir import Request, Text, Thinking, Tool, native_of, replace
from toolglot.passes.envelope import BOUND_TO_ACCOUNT, BOUND_TO_MODEL, TAKES_BACK
from toolglot.routing import Target
from toolglot.store import Store
from toolglot.upstream.breaker import Ticket
from toolglot.upstream.pool import PATIENCE_SECONDS, SCOPES, Member, Pool, PoolTicket, Turn, find_scope
from toolglot.upstream.retry import reset_delay
from toolglot.upstream.upstream import Upstream

if TYPE_CHECKING:
    from toolglot.config.schema import UpstreamConfig

SESSION_HEADERS = ("x-claude-code-session-id", "thread-id", "session-id", "x-session-id", "x-session-affinity")
"""Headers with which agents name a conversation: Claude Code, Codex, opencode."""
SUBAGENT_HEADER = "x-claude-code-agent-id"
"""Names a subagent, whose prompts differ from those of its session."""
_LESSER = frozenset(SCOPES) - {"rate_limit"}
_INSTRUCTIONS = ("system", "developer")


class PooledUpstream(Struct, frozen=True, eq=False):
    """The members of one upstream as runtime objects, and the state of their pool."""

    members: tuple[Upstream, ...]
    state: Pool
    origin: tuple[object, ...]
    """The settings that the state depends on. A reload that changes none of them keeps it."""

    def is_resting(self, now: float) -> bool:
        return all(self.state.is_cooling(number, now) for number in range(len(self.members)))


def make_pool(config: UpstreamConfig, members: tuple[Upstream, ...], before: PooledUpstream | None) -> PooledUpstream:
    described = tuple(
        Member(upstream.member, hash_issuer(upstream), member.weight, member.quota_group or "")
        for upstream, member in zip(members, config.pool, strict=True)
    )
    origin = (described, config.breaker)
    if before is not None and before.origin == origin:
        return PooledUpstream(members, before.state, origin)
    state = Pool(members[0].name, described, failures=config.breaker.failures, rest=config.breaker.rest)
    return PooledUpstream(members, state, origin)


class MemberGate(Struct, frozen=True, eq=False):
    """Reports the calls to one member to its pool and to the record of the request."""

    context: FlowContext
    pool: Pool
    number: int
    turn: Turn
    tried: list[int]
    is_closed: bool
    """True if no member of the pool may be called."""

    def enter(self, now: float) -> Ticket | None:
        return None if self.is_closed else self.pool.enter(self.number, self.turn.model, now)

    def may_retry(self, failure: Failure) -> bool:
        """A failed call is repeated at the same member only if no other member can be called."""
        if find_scope(failure) is not None:
            return False
        return not self.pool.has_other(self.turn, self.context.environment.now(), self.tried)

    def on_stream_start(self, ticket: Ticket) -> None:
        assert isinstance(ticket, PoolTicket)
        self.pool.on_stream_start(ticket)
        self._note_answer()

    def leave(self, ticket: Ticket) -> None:
        assert isinstance(ticket, PoolTicket)
        if self.pool.leave(ticket):
            self._count("unknown")

    def settle(self, ticket: Ticket, error: Failure | None, now: float) -> None:
        assert isinstance(ticket, PoolTicket)
        environment = self.context.environment
        named = None if error is None else reset_delay(error, environment.wall_clock())
        random = 0.0 if error is None else environment.random()
        if not self.pool.settle(ticket, error, now, named=named, random=random):
            return
        if error is None:
            self._note_answer()
        self._count("ok" if error is None else find_scope(error) or "failed")

    def _note_answer(self) -> None:
        if self.turn.conversation is not None:
            self.context.record.moved = self.pool.note_answer(self.turn.conversation, self.number)

    def _count(self, outcome: str) -> None:
        record = self.context.record
        record.member_calls = (*record.member_calls, (self.pool.name, self.pool.members[self.number].name, outcome))


def choose_targets(
    context: FlowContext,
    pool: PooledUpstream,
    target: Target,
    turn: Turn,
    make_target: Callable[[Upstream, Target], UpstreamTarget],
) -> Iterator[UpstreamTarget]:
    """Yield a target for each member, the best first. The next one is chosen when the previous one has failed. If none
    may be called at all, yields one that reports when the first will be available."""
    state, environment = pool.state, context.environment
    tried: list[int] = []
    retries = pool.members[0].retries
    patience = min(PATIENCE_SECONDS, retries.longest_wait) if retries.attempts > 1 else 0.0
    is_next = False
    while (
        choice := state.choose(turn, environment.now(), environment.random, tried, patience)
    ) is not None or not is_next:
        number, delay, is_closed = (0, 0.0, True) if choice is None else (choice.member, choice.delay, False)
        patience -= delay
        if number not in tried:
            tried.append(number)
        upstream = pool.members[number]
        made = make_target(upstream, target)
        yield replace(
            made,
            label=upstream.label,
            breaker=MemberGate(context, state, number, turn, tried, is_closed),
            prepare=partial(_prepare_later, delay, made.prepare) if delay > 0 else made.prepare,
            describe=partial(_describe_failure, context, pool, turn, upstream),
            describe_rest=partial(_describe_rest, pool, turn),
            is_next_member=is_next,
            lesser_kinds=_LESSER,
        )
        is_next = True


def _prepare_later(
    delay: float, prepare: Callable[[FlowContext], Steps[Translation]], context: FlowContext
) -> Steps[Translation]:
    """Wait until the rate limit of a conversation's member ends."""
    outcome = yield Wait(delay)
    if isinstance(outcome, Shutdown):
        raise StoppedError(outcome.error)
    return (yield from prepare(context))


def _describe_failure(
    context: FlowContext, pool: PooledUpstream, turn: Turn, upstream: Upstream, error: ApiError
) -> ApiError:
    """Return the client's error for a failed call. The client gets a rate limit only after all members have failed, so
    it names the time when the first member is available again, not that of this member."""
    described = describe_outcome(upstream, error)
    wait = pool.state.wait(context.environment.now(), turn) if described.kind == "rate_limit" else 0.0
    return replace(described, retry_after=wait, retry_after_date=None) if wait > 0 else described


def _describe_rest(pool: PooledUpstream, turn: Turn, now: float) -> ApiError:
    """Return the client's error if no member may be called."""
    state = pool.state
    wait = state.wait(now, turn)
    limited = state.has_rate_limit(now)
    why = "is rate limited or rests after failures" if limited else "has failed repeatedly"
    whose = ", of the account that made the reasoning in this conversation," if turn.is_bound else ""
    again = f"the first is available again in {ceil(wait)} seconds"
    message = f"Every member of the upstream {state.name!r}{whose} {why}; {again}"
    if limited:
        return ApiError(kind="rate_limit", status=429, code=RESTING, message=message, retry_after=wait)
    return ApiError(kind="server", status=503, code=RESTING, message=message, retry_after=wait)


# The conversation of a request


def find_turn(received: ReceivedRequest, owner: str, pool: PooledUpstream, target: Target, store: Store | None) -> Turn:
    conversation = find_conversation(received.headers, received.request, owner)
    client, upstream = received.client.name, pool.members[0].dialect.name
    if conversation is None or upstream not in TAKES_BACK:
        return Turn(conversation, target.model)
    sends_state = _sends_state(received)
    is_pinned = sends_state or _has_stored_state(received, owner, pool, target, store)
    return Turn(
        conversation, target.model, is_pinned, sends_state and client == upstream and upstream in BOUND_TO_ACCOUNT
    )


def find_conversation(headers: Mapping[str, str], request: Request, owner: str) -> bytes | None:
    """Return the id of a request's conversation; None if it has none.

    The id comes from an agent's header, a cache key, or the parts of the prompt that every turn repeats: system text,
    tools and the first message of the user.
    """
    for name in SESSION_HEADERS:
        if session := headers.get(name):
            return _hash(owner, "session", session, headers.get(SUBAGENT_HEADER, ""))
    if request.prompt_cache is not None and request.prompt_cache.key:
        return _hash(owner, "cache key", request.prompt_cache.key)
    system: list[str] = []
    for message in request.messages:
        texts = [block.text for block in message.content if isinstance(block, Text)]
        if message.role in _INSTRUCTIONS:
            system += texts
        elif not texts:
            return None
        else:
            tools = [tool.name for tool in request.tools if isinstance(tool, Tool)]
            return _hash(owner, "prompt", *system, "\0", *tools, "\0", *texts)
    return None


def _hash(*parts: str) -> bytes:
    """Hash the parts, with their lengths, to an id that is the same in every gateway."""
    made = blake2b(digest_size=16, person=b"toolglot-pool")
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        made.update(len(data).to_bytes(8, "big"))
        made.update(data)
    return made.digest()


def _sends_state(received: ReceivedRequest) -> bool:
    """Return whether the client sends reasoning state back."""
    name, slot = received.client.name, received.client.state.slot
    return any(
        isinstance(block, Thinking) or (slot is not None and slot in native_of(block, name))
        for message in received.request.messages
        if message.role == "assistant"
        for block in message.content
    )


def _has_stored_state(
    received: ReceivedRequest, owner: str, pool: PooledUpstream, target: Target, store: Store | None
) -> bool:
    """Return whether reasoning state of the conversation may be stored here."""
    if store is None or all(message.role != "assistant" for message in received.request.messages):
        return False
    model = target.model if pool.members[0].dialect.name in BOUND_TO_MODEL else ""
    return any(store.may_have_states(owner, hash_issuer(member, model)) for member in pool.members)
