"""Compare policies that choose one of several keys for each request: a simulation, seeded and offline.

    python -m bench.balancing
    python -m bench.balancing --sessions 60 --seed 2

Sessions of agents ask models. Each turn repeats the conversation so far and adds to it. One session in ten runs
subagents, which work at the same time under the session's id. Five keys belong to four accounts. An account has a
prompt cache with a lifetime, and a limit of uncached input tokens and of requests per minute; above it, the account
answers 429 with `retry-after`. One account is down for two minutes. The first byte waits for uncached tokens, and
longer the busier the account is.

Every policy goes on to another key after an error, and waits for the earliest `retry-after` once all have failed.
`ours` is the gateway's own code (`toolglot.upstream.pool`). All policies get the same sessions.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random
from statistics import fmean, quantiles

from msgspec import Struct

from toolglot.errors import ApiError
from toolglot.upstream.pool import PATIENCE_SECONDS, Member, MemberChoice, Pool, PoolTicket, Turn

ACCOUNTS = ("a", "b", "c", "d", "d")
"""The account of each key: the last two share one."""
CACHE_SECONDS = 300.0
SHARED_TOKENS = 12_000
"""System text and tools, the same in all conversations."""
TOKENS_PER_MINUTE = 900_000.0
REQUESTS_PER_MINUTE = 400.0
DOWN = ("b", 400.0, 520.0)
"""An account that answers 500 between two times."""
ERROR_SECONDS = 0.15
STARTS_WITHIN = 600.0


class SimulatedTurn(Struct, frozen=True):
    """What a turn adds to its conversation, and the time before it."""

    pause: float
    added: int
    output: int


class Conversation(Struct, frozen=True):
    session: bytes
    number: int
    start: float
    turns: tuple[SimulatedTurn, ...]


def make_conversations(sessions: int, seed: int) -> list[Conversation]:
    random = Random(seed)
    made: list[Conversation] = []
    for number in range(sessions):
        start = random.uniform(0, STARTS_WITHIN)
        for _ in range(12 if random.random() < 0.1 else 1):
            turns = tuple(
                SimulatedTurn(
                    random.lognormvariate(1.2, 0.8), int(random.lognormvariate(7.2, 1.0)), random.randint(40, 700)
                )
                for _ in range(random.randint(8, 40))
            )
            made.append(Conversation(number.to_bytes(16, "big"), len(made), start, turns))
    return made


class Bucket(Struct):
    """A limit per minute that refills continuously."""

    size: float
    left: float
    at: float = 0.0

    def wait(self, amount: float, now: float) -> float:
        self.left = min(self.size, self.left + (now - self.at) * self.size / 60)
        self.at = now
        return max(min(amount, self.size) - self.left, 0.0) * 60 / self.size


class Account:
    def __init__(self, name: str) -> None:
        self.name = name
        self.tokens = Bucket(TOKENS_PER_MINUTE, TOKENS_PER_MINUTE)
        self.requests = Bucket(REQUESTS_PER_MINUTE, REQUESTS_PER_MINUTE)
        self.in_flight = 0
        self._cached: dict[int, tuple[int, float]] = {}
        self._shared_until = 0.0

    def ask(self, conversation: int, tokens: int, now: float) -> tuple[int, float] | float | None:
        """Return cached tokens and seconds to the first byte; or the seconds to wait (429); or None (500)."""
        if self.name == DOWN[0] and DOWN[1] <= now < DOWN[2]:
            return None
        cached, until = self._cached.get(conversation, (0, 0.0))
        hit = cached if until > now else 0
        if self._shared_until > now:
            hit = max(hit, min(SHARED_TOKENS, tokens))
        wait = max(self.tokens.wait(tokens - hit, now), self.requests.wait(1, now))
        if wait > 0:
            return wait
        self.tokens.left -= tokens - hit
        self.requests.left -= 1
        self._cached[conversation] = (tokens, now + CACHE_SECONDS)
        self._shared_until = now + CACHE_SECONDS
        return hit, (0.3 + (tokens - hit) / 12_000 + hit / 400_000) * (1 + self.in_flight / 8)


class Policy:
    """Chooses a key, and learns from results. `in_flight` counts the calls of each key."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.in_flight = [0] * len(ACCOUNTS)

    def choose(self, session: bytes, now: float, tried: Container[int], patience: float) -> MemberChoice | None:
        number = self.pick(session, self.left(tried))
        return None if number is None else MemberChoice(number)

    def pick(self, session: bytes, left: Sequence[int]) -> int | None:
        """Choose one of the keys that have not failed yet."""
        raise NotImplementedError

    def enter(self, number: int, now: float) -> object:
        self.in_flight[number] += 1
        return number

    def begin(self, ticket: object) -> None:
        """The answer has begun."""

    def end(self, ticket: object, error: ApiError | None, now: float) -> None:
        assert isinstance(ticket, int)
        self.in_flight[ticket] -= 1

    def wait(self, now: float) -> float | None:
        """Seconds until a key is available, if the policy knows."""
        return None

    def left(self, tried: Container[int]) -> list[int]:
        return [number for number in range(len(ACCOUNTS)) if number not in tried]


class RandomChoice(Policy):
    def pick(self, session: bytes, left: Sequence[int]) -> int | None:
        return self.random.choice(left) if left else None


class RoundRobin(Policy):
    last = -1

    def pick(self, session: bytes, left: Sequence[int]) -> int | None:
        if not left:
            return None
        self.last = min(left, key=lambda number: (number - self.last - 1) % len(ACCOUNTS))
        return self.last


class LeastInFlight(Policy):
    def pick(self, session: bytes, left: Sequence[int]) -> int | None:
        return min(left, key=lambda number: (self.in_flight[number], self.random.random()), default=None)


def new_pool() -> Pool:
    shared = {account for account in ACCOUNTS if ACCOUNTS.count(account) > 1}
    members = [
        Member(str(number), f"key {number}", group=account if account in shared else "")
        for number, account in enumerate(ACCOUNTS)
    ]
    return Pool("simulated", members)


class Rendezvous(Policy):
    """Rendezvous hashing alone: no load bound, no cool-down."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self._pool = new_pool()

    def pick(self, session: bytes, left: Sequence[int]) -> int | None:
        return next((number for number in self._pool.rank(session) if number in left), None)


class Ours(Policy):
    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self._pool = new_pool()
        self.in_flight = self._pool.in_flight

    def choose(self, session: bytes, now: float, tried: Container[int], patience: float) -> MemberChoice | None:
        return self._pool.choose(Turn(session), now, self.random.random, tried, patience)

    def enter(self, number: int, now: float) -> object:
        return self._pool.enter(number, "", now)

    def begin(self, ticket: object) -> None:
        assert isinstance(ticket, PoolTicket)
        self._pool.on_stream_start(ticket)

    def end(self, ticket: object, error: ApiError | None, now: float) -> None:
        assert isinstance(ticket, PoolTicket)
        named = None if error is None else error.retry_after
        self._pool.settle(ticket, error, now, named=named, random=self.random.random())

    def wait(self, now: float) -> float | None:
        return self._pool.wait(now) or None


POLICIES: Mapping[str, Callable[[Random], Policy]] = {
    "random": RandomChoice,
    "round robin": RoundRobin,
    "least in flight": LeastInFlight,
    "rendezvous": Rendezvous,
    "ours": Ours,
}


class Outcome(Struct, frozen=True):
    cache_hits: float
    """Share of input tokens that came from a cache."""
    moved: float
    """Share of turns answered by another account than the previous turn."""
    imbalance: float
    """Requests in flight of the busiest account, relative to the mean; average over all requests."""
    limited: int
    """Replies with status 429."""
    failed: int
    """Replies with status 500."""
    first_byte_p50: float
    first_byte_p99: float


class Simulation:
    def __init__(self, policy: Policy, conversations: Sequence[Conversation]) -> None:
        self._policy = policy
        self._accounts = {name: Account(name) for name in ACCOUNTS}
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._numbers = count()
        self._last: dict[int, str] = {}
        self._input = self._hits = self._turns = self._moved = self._limited = self._failed = 0
        self._first_bytes: list[float] = []
        self._imbalances: list[float] = []
        for conversation in conversations:
            self._at(conversation.start, partial(self._turn, conversation, 0, SHARED_TOKENS))

    def run(self) -> Outcome:
        while self._events:
            now, _, step = heappop(self._events)
            step(now)
        percentiles = quantiles(self._first_bytes, n=100)
        return Outcome(
            self._hits / self._input,
            self._moved / self._turns,
            fmean(self._imbalances),
            self._limited,
            self._failed,
            percentiles[49],
            percentiles[98],
        )

    def _at(self, time: float, step: Callable[[float], None]) -> None:
        heappush(self._events, (time, next(self._numbers), step))

    def _turn(self, conversation: Conversation, index: int, tokens: int, now: float) -> None:
        if index == len(conversation.turns):
            return
        tokens += conversation.turns[index].added
        self._try(conversation, index, tokens, now, (), (), PATIENCE_SECONDS, now)

    def _try(
        self,
        conversation: Conversation,
        index: int,
        tokens: int,
        asked: float,
        tried: tuple[int, ...],
        waits: tuple[float, ...],
        patience: float,
        now: float,
    ) -> None:
        """Ask the next key. `waits`: the times when the keys that were tried may be asked again."""
        policy, attempt = self._policy, partial(self._try, conversation, index, tokens, asked)
        choice = policy.choose(conversation.session, now, tried, patience)
        if choice is None:
            known = policy.wait(now)
            again = now + known if known is not None else max(min(waits, default=now), now) + ERROR_SECONDS
            self._at(again, partial(attempt, (), (), PATIENCE_SECONDS))
            return
        if choice.delay > 0:
            others = tuple(each for each in tried if each != choice.member)
            self._at(now + choice.delay, partial(attempt, others, waits, patience - choice.delay))
            return
        number = choice.member
        account = self._accounts[ACCOUNTS[number]]
        ticket = policy.enter(number, now)
        reply = account.ask(conversation.number, tokens, now)
        if isinstance(reply, tuple):
            self._answer(conversation, index, tokens, asked, account, ticket, reply, now)
            return
        if reply is None:
            self._failed += 1
            error, end = ApiError(kind="server", message=""), now + 1.0
        else:
            self._limited += 1
            error, end = ApiError(kind="rate_limit", message="", retry_after=reply), now + reply

        def go_on(then: float) -> None:
            policy.end(ticket, error, then)
            attempt((*tried, number), (*waits, end), patience, then)

        self._at(now + ERROR_SECONDS, go_on)

    def _answer(
        self,
        conversation: Conversation,
        index: int,
        tokens: int,
        asked: float,
        account: Account,
        ticket: object,
        reply: tuple[int, float],
        now: float,
    ) -> None:
        turn, (hits, first_byte) = conversation.turns[index], reply
        before = self._last.get(conversation.number)
        self._last[conversation.number] = account.name
        self._turns += 1
        self._moved += before not in (None, account.name)
        self._input += tokens
        self._hits += hits
        self._first_bytes.append(now + first_byte - asked)
        account.in_flight += 1
        busy = [each.in_flight for each in self._accounts.values()]
        if sum(busy) >= 2 * len(busy):  # below, the ratio says little
            self._imbalances.append(max(busy) / fmean(busy))
        self._at(now + first_byte, lambda then: self._policy.begin(ticket))

        def finish(then: float) -> None:
            account.in_flight -= 1
            self._policy.end(ticket, None, then)
            pause = 0.0 if index + 1 == len(conversation.turns) else conversation.turns[index + 1].pause
            self._at(then + pause, lambda later: self._turn(conversation, index + 1, tokens + turn.output, later))

        self._at(now + first_byte + turn.output / 80, finish)


def simulate(sessions: int, seed: int) -> dict[str, Outcome]:
    conversations = make_conversations(sessions, seed)
    return {name: Simulation(make(Random(seed)), conversations).run() for name, make in POLICIES.items()}


def format_table(outcomes: Mapping[str, Outcome]) -> str:
    head = f"{'policy':16}{'cache hits':>11}{'moved':>8}{'max/mean':>10}{'429s':>7}{'500s':>7}{'p50':>9}{'p99':>9}"
    rows = [
        f"{name:16}{each.cache_hits:>11.1%}{each.moved:>8.1%}{each.imbalance:>10.2f}{each.limited:>7}{each.failed:>7}"
        f"{each.first_byte_p50:>8.2f}s{each.first_byte_p99:>8.2f}s"
        for name, each in outcomes.items()
    ]
    return "\n".join([head, *rows])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.balancing")
    parser.add_argument("--sessions", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(format_table(simulate(options.sessions, options.seed)))


if __name__ == "__main__":
    main()
