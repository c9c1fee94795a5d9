"""Choose one of several interchangeable members (keys or servers) of an upstream. Pure: the caller has the clock and
the random numbers.

A conversation goes to the same member as long as that member is available, because its prompt cache is there. Weighted
rendezvous hashing finds the member from the conversation's id alone, so several gateways agree without shared state,
and a member that leaves moves only its own conversations. Members with one quota group share an account, hence limits
and mostly caches: the hash chooses the group first, then the member in it.

A member with clearly more requests in flight than the others gets no further ones (bounded load). A request without an
id goes to the less busy of two random members.

    rate limit (429)                cools the quota group until the upstream's own time, otherwise 5 s, 10 s, 20 s ...
    credential (401, 402)           cools the member
    model (403, 404)                cools the member for this model
    overloaded, down, unreachable   counts for the member's circuit breaker

A conversation waits a few seconds for its member rather than leave its cache behind: the others would have to read the
whole prompt again, which uses up their limits too. `bench/balancing.py` measures this.

A rate limit is over at the time that the upstream named. After any other cool-down, one request goes through as a
trial; its success ends the cool-down.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container, Sequence
from functools import lru_cache
from hashlib import blake2b
from math import log
from typing import Literal, TypeAlias

from msgspec import Struct

from toolglot.errors import ApiError, ErrorKind
from toolglot.upstream.breaker import Breaker, Ticket, is_health_failure
from toolglot.upstream.transport import TransportError

Scope = Literal["rate_limit", "credential", "model"]
"""The reason for a cool-down, and what cools down because of it."""

SCOPES: dict[ErrorKind, Scope] = {
    "rate_limit": "rate_limit",
    "authentication": "credential",
    "billing": "credential",
    "permission": "model",
    "not_found": "model",
}

FIRST_SECONDS: dict[Scope, float] = {"rate_limit": 5.0, "credential": 30.0, "model": 30.0}
"""Seconds of the first cool-down if the upstream names none. They double each time."""
LONGEST_SECONDS: dict[Scope, float] = {"rate_limit": 300.0, "credential": 3600.0, "model": 600.0}
"""The longest of these. A time that the upstream names may be longer."""
LONGEST_NAMED_SECONDS = 86_400.0
JITTER = 0.1
"""Part of a cool-down that is added at random: gateways that cooled down together do not return together."""
TRIAL_SECONDS = 30.0
"""Seconds after which a trial without a result no longer blocks others."""

PATIENCE_SECONDS = 10.0
"""A conversation waits this long in total for the end of its member's rate limit."""
WAIT_SPREAD = 1.0
"""Part of such a wait that is added at random, so that not all conversations return at once."""

LOAD_FACTOR = 1.5
LOAD_SLACK = 4.0
"""A member with more than `LOAD_FACTOR` times its share of the requests in flight, plus `LOAD_SLACK`, gets no more. A
lower bound (1.25 and 1) moves so many conversations that lost caches cost more than even load gains."""

MAX_RANKS = 4096
"""Conversations whose order of members is remembered."""
MAX_MOVED = 10_000
"""Conversations whose last answer came from another member than their first choice."""
MAX_COOLDOWNS = 1000
"""Clients choose model names."""

Failure: TypeAlias = ApiError | TransportError
_Key: TypeAlias = tuple[str, ...]


class Member(Struct, frozen=True):
    name: str
    """Name for logs and metrics."""
    identity: str
    """Depends on the server and the account only. Conversations stay when members are renamed or reordered."""
    weight: float = 1.0
    group: str = ""
    """Quota group; empty if the member shares its limits with no other."""


class Turn(Struct, frozen=True):
    """The next request of a conversation."""

    conversation: bytes | None
    """None if the request has no id."""
    model: str = ""
    is_pinned: bool = False
    """True if the conversation has reasoning state that only one member accepts. It goes there even if that member is
    busy."""
    is_bound: bool = False
    """True if the request contains such state, and another account would refuse it. It goes to no other account."""


NO_CONVERSATION = Turn(None)


class MemberChoice(Struct, frozen=True):
    member: int
    delay: float = 0.0
    """Seconds to wait for the end of the member's rate limit before choosing again, even if it has failed before."""


class PoolTicket(Ticket, frozen=True, eq=False, kw_only=True):
    """Permission for one call to a member."""

    member: int
    model: str
    breaker_ticket: Ticket
    trials: tuple[_Key, ...] = ()
    """Cool-downs that this call tries to end."""


class _Cooldown(Struct):
    until: float
    count: int = 1
    """Number of cool-downs in a row."""
    is_named: bool = False
    """True if the upstream named the end."""
    trial_since: float | None = None

    def wait(self, now: float) -> float:
        if self.is_named or self.trial_since is None:
            return self.until - now
        return max(self.until, self.trial_since + TRIAL_SECONDS) - now


class Pool:
    """The members of one upstream and their state. Times are seconds of one monotonic clock.

    Each `enter` is followed by exactly one effective `settle` or `leave` with its ticket; later ones have no effect.
    """

    def __init__(self, name: str, members: Sequence[Member], *, failures: int = 5, rest: float = 30.0) -> None:
        self.name = name
        self.members = tuple(members)
        self.breakers = tuple(Breaker(failures, rest) for _ in self.members)
        self.in_flight = [0] * len(self.members)
        self._groups = [f"group {member.group}" if member.group else f"member {member.identity}" for member in members]
        weights: dict[str, float] = {}
        for group, member in zip(self._groups, self.members, strict=True):
            weights[group] = weights.get(group, 0.0) + member.weight
        self._group_weights = weights
        self._cooldowns: dict[_Key, _Cooldown] = {}
        self._open: set[PoolTicket] = set()
        self._moved: OrderedDict[bytes, str] = OrderedDict()
        self._known_ranks = lru_cache(MAX_RANKS)(self._compute_rank)

    # MemberChoice

    def choose(
        self,
        turn: Turn,
        now: float,
        random: Callable[[], float],
        tried: Container[int] = (),
        patience: float = PATIENCE_SECONDS,
    ) -> MemberChoice | None:
        """Choose the member for a request; None if no member may be called.

        Args:
            random: returns a new random number from 0 to 1.
            tried: members that have failed already.
            patience: seconds that the request may wait for its member.

        A refused credential or an unknown model never makes the whole pool unavailable: if every member has one, they
        are tried, so that the client gets the upstream's own error.
        """
        ranked = () if turn.conversation is None else self.rank(turn.conversation)
        home = None if turn.conversation is None else self._find_home(turn, ranked)
        if home is not None and 0 < (delay := self._limit_wait(home, turn.model, now)) <= patience:
            return MemberChoice(home, min(delay * (1 + WAIT_SPREAD * random()), patience))
        usable = self._find_usable(turn)
        ready = [number for number in usable if number not in tried and self._is_ready(number, turn, now)]
        if not ready:
            refusing = self._choose_refusing(usable, turn.model, now, tried)
            return None if refusing is None else MemberChoice(refusing)
        if len(ready) == 1:
            return MemberChoice(ready[0])
        if home is None:
            return MemberChoice(self._choose_idler(ready, random))
        if (turn.is_pinned or turn.is_bound) and home in ready:
            return MemberChoice(home)
        busy = self._find_busy(ready)
        return MemberChoice(next(number for number in ranked if number in ready and number not in busy))

    def rank(self, conversation: bytes) -> tuple[int, ...]:
        """Return all members, the conversation's first choice first."""
        return self._known_ranks(conversation)

    def _compute_rank(self, conversation: bytes) -> tuple[int, ...]:
        groups = {group: _score(conversation, group, weight) for group, weight in self._group_weights.items()}
        scores = [
            (groups[group], group, _score(conversation, member.identity, member.weight))
            for group, member in zip(self._groups, self.members, strict=True)
        ]
        return tuple(sorted(range(len(self.members)), key=scores.__getitem__, reverse=True))

    def _find_usable(self, turn: Turn) -> Sequence[int]:
        """Return the members that accept a request: all, or those of one account."""
        if not turn.is_bound or turn.conversation is None:
            return range(len(self.members))
        group = self._groups[self._find_home(turn, self.rank(turn.conversation))]
        return [number for number, other in enumerate(self._groups) if other == group]

    def _find_home(self, turn: Turn, ranked: Sequence[int]) -> int:
        """Return the member that a conversation belongs to: that with its state, or else the first choice."""
        identity = self._moved.get(turn.conversation or b"") if turn.is_pinned or turn.is_bound else None
        if identity is None:
            return ranked[0]
        return next((number for number, member in enumerate(self.members) if member.identity == identity), ranked[0])

    def note_answer(self, conversation: bytes, number: int) -> bool:
        """Record which member answered a conversation. Returns whether it is another than the first choice."""
        self._moved.pop(conversation, None)
        if self.rank(conversation)[0] == number:
            return False
        self._moved[conversation] = self.members[number].identity
        if len(self._moved) > MAX_MOVED:
            self._moved.popitem(last=False)
        return True

    def _find_busy(self, ready: Sequence[int]) -> set[int]:
        """Return the members above the load bound. Never all of them: one has at most its share."""
        total = sum(self.in_flight[number] for number in ready)
        weight = sum(self.members[number].weight for number in ready)
        return {
            number
            for number in ready
            if self.in_flight[number] > LOAD_FACTOR * total * self.members[number].weight / weight + LOAD_SLACK
        }

    def _choose_idler(self, ready: Sequence[int], random: Callable[[], float]) -> int:
        """Return the less busy of two random members."""
        first = self._draw(ready, random())
        second = self._draw([number for number in ready if number != first], random())
        return min(first, second, key=lambda number: (self.in_flight[number] + 1) / self.members[number].weight)

    def _draw(self, numbers: Sequence[int], random: float) -> int:
        left = random * sum(self.members[number].weight for number in numbers)
        for number in numbers:
            left -= self.members[number].weight
            if left < 0:
                return number
        return numbers[-1]

    def _choose_refusing(self, usable: Sequence[int], model: str, now: float, tried: Container[int]) -> int | None:
        """If nothing but refusals of credentials and models blocks the pool, return the member to try again."""
        if any(self._busy_wait(number, now) > 0 for number in usable):
            return None
        left = [number for number in usable if number not in tried]
        return min(left, key=lambda number: self._refusal_wait(number, model, now), default=None)

    # Availability

    def wait(self, now: float, turn: Turn = NO_CONVERSATION) -> float:
        """Return the seconds until the first limited or resting member is available again; 0 if there is none."""
        waits = [self._busy_wait(number, now) for number in self._find_usable(turn)]
        return min((wait for wait in waits if wait > 0), default=0.0)

    def is_cooling(self, number: int, now: float) -> bool:
        """Whether a member is unavailable for every model."""
        keys = self._keys(number, "")[:2]
        cooldowns = (self._cooldowns.get(key) for key in keys)
        return self.breakers[number].wait(now) > 0 or any(each is not None and each.wait(now) > 0 for each in cooldowns)

    def has_rate_limit(self, now: float) -> bool:
        """Whether any member waits for the end of a rate limit."""
        return any(key[0] == "rate_limit" and cooldown.wait(now) > 0 for key, cooldown in self._cooldowns.items())

    def has_other(self, turn: Turn, now: float, tried: Container[int]) -> bool:
        """Whether another member is available."""
        return any(number not in tried and self._is_ready(number, turn, now) for number in self._find_usable(turn))

    def _keys(self, number: int, model: str) -> tuple[_Key, _Key, _Key]:
        """Return the cool-downs that may concern a call: of the group, the credential and the model."""
        identity = self.members[number].identity
        return ("rate_limit", self._groups[number]), ("credential", identity), ("model", identity, model)

    def _is_ready(self, number: int, turn: Turn, now: float) -> bool:
        return self._busy_wait(number, now) <= 0 and (
            not self._cooldowns or self._refusal_wait(number, turn.model, now) <= 0
        )

    def _busy_wait(self, number: int, now: float) -> float:
        """Return the seconds until neither the group's rate limit nor the breaker blocks this member."""
        cooldown = self._cooldowns.get(("rate_limit", self._groups[number])) if self._cooldowns else None
        wait = self.breakers[number].wait(now)
        return wait if cooldown is None else max(wait, cooldown.wait(now))

    def _limit_wait(self, number: int, model: str, now: float) -> float:
        """Return the seconds until a rate limit ends, if its end is named and nothing else blocks the member."""
        cooldown = self._cooldowns.get(("rate_limit", self._groups[number])) if self._cooldowns else None
        if cooldown is None or not cooldown.is_named:
            return 0.0
        if self.breakers[number].wait(now) > 0 or self._refusal_wait(number, model, now) > 0:
            return 0.0
        return cooldown.wait(now)

    def _refusal_wait(self, number: int, model: str, now: float) -> float:
        cooldowns = (self._cooldowns.get(key) for key in self._keys(number, model)[1:])
        return max((each.wait(now) for each in cooldowns if each is not None), default=0.0)

    # Calls

    def enter(self, number: int, model: str, now: float) -> PoolTicket | None:
        """Let a call through to a member, or return None if its group cools down or its breaker is open."""
        if self._busy_wait(number, now) > 0:
            return None
        breaker_ticket = self.breakers[number].enter(now)
        if breaker_ticket is None:
            return None
        trials: list[_Key] = []
        if self._cooldowns:
            for key in self._keys(number, model):
                if (cooldown := self._cooldowns.get(key)) is not None:
                    cooldown.trial_since = now
                    trials.append(key)
        ticket = PoolTicket(since=now, member=number, model=model, breaker_ticket=breaker_ticket, trials=tuple(trials))
        self._open.add(ticket)
        self.in_flight[number] += 1
        return ticket

    def on_stream_start(self, ticket: PoolTicket) -> None:
        """A stream has begun. The call is in flight until it ends, but its trials have succeeded."""
        self.breakers[ticket.member].on_stream_start(ticket.breaker_ticket)
        for key in ticket.trials:
            self._cooldowns.pop(key, None)

    def leave(self, ticket: PoolTicket) -> bool:
        """The result of the call is unknown. Returns False if the call has ended before."""
        if not self._close(ticket):
            return False
        self.breakers[ticket.member].leave(ticket.breaker_ticket)
        for key in ticket.trials:
            if (cooldown := self._cooldowns.get(key)) is not None:
                cooldown.trial_since = None
        return True

    def settle(
        self,
        ticket: PoolTicket,
        failure: Failure | None,
        now: float,
        *,
        named: float | None = None,
        random: float = 0.0,
    ) -> bool:
        """Report the result of a call. Returns False if the call has ended before.

        Args:
            named: seconds that the upstream asked to wait.
            random: a new random number from 0 to 1.
        """
        if not self._close(ticket):
            return False
        self.breakers[ticket.member].settle(ticket.breaker_ticket, failure, now)
        scope = find_scope(failure)
        for key in ticket.trials:
            cooldown = self._cooldowns.get(key)
            if cooldown is None or key[0] == scope:
                continue
            if failure is None or not is_health_failure(failure):
                del self._cooldowns[key]  # the upstream has checked this and no longer refuses it
            else:
                cooldown.trial_since = None
        if scope is not None:
            self._cool(scope, ticket, now, named, random)
        return True

    def _close(self, ticket: PoolTicket) -> bool:
        if ticket not in self._open:
            return False
        self._open.remove(ticket)
        self.in_flight[ticket.member] -= 1
        return True

    def _cool(self, scope: Scope, ticket: PoolTicket, now: float, named: float | None, random: float) -> None:
        """Begin or extend a cool-down. Of several ends, the latest counts: concurrent calls report different ones."""
        key = next(key for key in self._keys(ticket.member, ticket.model) if key[0] == scope)
        known = self._cooldowns.get(key)
        # Calls that began before this cool-down report the same limit once more.
        count = 1 if known is None else known.count + (key in ticket.trials)
        is_named = named is not None
        if named is None:
            seconds = min(FIRST_SECONDS[scope] * 2.0 ** min(count - 1, 30), LONGEST_SECONDS[scope])
        else:
            seconds = min(max(named, 0.0), LONGEST_NAMED_SECONDS)
        until = now + seconds * (1 + JITTER * random)
        if known is not None:
            is_named = is_named if until >= known.until else known.is_named
            until = max(until, known.until)
        elif len(self._cooldowns) >= MAX_COOLDOWNS:
            self._forget_models(now)
        self._cooldowns[key] = _Cooldown(until, count, is_named)

    def _forget_models(self, now: float) -> None:
        """Forget the cool-downs of models that are over, or else of all models."""
        models = [key for key in self._cooldowns if key[0] == "model"]
        over = [key for key in models if self._cooldowns[key].wait(now) <= 0]
        for key in over or models:
            del self._cooldowns[key]


def find_scope(failure: Failure | None) -> Scope | None:
    """Return what a failure cools down, if anything."""
    return SCOPES.get(failure.kind) if isinstance(failure, ApiError) else None


def _score(conversation: bytes, name: str, weight: float) -> float:
    """Score of weighted rendezvous hashing: the highest wins, with a probability in proportion to the weight."""
    number = int.from_bytes(blake2b(name.encode(), key=conversation[:64], digest_size=8).digest(), "big") >> 12
    return -weight / log((number + 0.5) / 2**52)  # 52 bits: with more, a quotient would round to 1
