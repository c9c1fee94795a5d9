"""Counters of each key: rates, concurrent requests and remaining budgets.

A request reserves its maximum usage before an upstream is called (`reserve`), and settles its actual usage when it ends
(`settle`). Until then, the hold counts as used, so concurrent requests cannot spend the same remainder of a budget. A
request that needs more than the remainder holds all of it; when nothing is left, requests are refused. So a budget can
be exceeded only by the requests in flight.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct, field

from toolglot.team.keys import KeyLimits
from toolglot.team.limits import MINUTE, day_of, end_of, month_of, next_arrival

BUSY_SECONDS = 1.0
"""`retry-after` in seconds for a key with too many concurrent requests."""


class Demand(Struct, frozen=True):
    """Maximum usage of a request."""

    key: str
    limits: KeyLimits
    tokens: int
    nano_usd: int
    """0 for a free model, which stays available when the budget is spent."""


class Exceeded(Struct, frozen=True):
    """A limit that a request would exceed."""

    limit: str
    """The name of the limit in `KeyLimits`."""
    amount: int
    retry_after: float
    renews: float | None = None
    """End of the budget's window (Unix seconds); None for rates."""


class Hold(Struct, eq=False):
    """Reservation of a request."""

    demand: Demand
    windows: tuple[str, str]
    """The day and the month."""
    minute_tokens: int
    tokens: tuple[int, int]
    nano_usd: tuple[int, int]
    is_settled: bool = False


class Spent(NamedTuple):
    tokens: int
    nano_usd: int


class _Window(Struct, gc=False):
    tokens: int = 0
    nano_usd: int = 0
    held_tokens: int = 0
    held_nano_usd: int = 0
    unsaved_tokens: int = 0
    """Settled tokens that are not in the database yet."""
    unsaved_nano_usd: int = 0


class KeyCounts(Struct):
    """Counts of one key."""

    requests: float = 0.0
    """Theoretical arrival time of the next request."""
    tokens: float = 0.0
    in_flight: int = 0
    windows: dict[str, _Window] = field(default_factory=dict)

    def window(self, name: str) -> _Window:
        found = self.windows.get(name)
        if found is None:
            found = self.windows[name] = _Window()
            # Earlier windows have ended, but running requests may still hold amounts in them.
            for other in [each for each in self.windows if len(each) == len(name) and each < name]:
                if not (self.windows[other].held_tokens or self.windows[other].held_nano_usd):
                    del self.windows[other]
        return found

    def settle(self, hold: Hold, used: Spent) -> None:
        self.in_flight -= 1
        if (rate := hold.demand.limits.tokens_per_minute) is not None:
            self.tokens += (used.tokens - hold.minute_tokens) * MINUTE / rate
        for index, name in enumerate(hold.windows):
            window = self.window(name)
            window.held_tokens -= hold.tokens[index]
            window.held_nano_usd -= hold.nano_usd[index]
            window.tokens += used.tokens
            window.nano_usd += used.nano_usd
            window.unsaved_tokens += used.tokens
            window.unsaved_nano_usd += used.nano_usd


_BUDGETS = (("tokens_per_day", "nano_usd_per_day"), ("tokens_per_month", "nano_usd_per_month"))


class LocalCounters:
    """The counters of one process, in memory. Times are Unix seconds."""

    def __init__(self) -> None:
        self._keys: dict[str, KeyCounts] = {}
        self._active: set[str] = set()

    def knows(self, key: str) -> bool:
        """Whether the key's earlier spend has been loaded."""
        return key in self._keys

    def load(self, key: str, spent: Mapping[str, Spent], unsaved: Mapping[str, Spent] = {}) -> None:
        """Set the amounts that a key spent in each window before this process loaded it: those in the database, and
        those that are not saved yet."""
        if key in self._keys:
            return
        counts = self._keys[key] = KeyCounts()
        for name, amounts in spent.items():
            window = counts.window(name)
            more = window.unsaved_tokens, window.unsaved_nano_usd = unsaved.get(name, Spent(0, 0))
            window.tokens, window.nano_usd = amounts.tokens + more[0], amounts.nano_usd + more[1]

    def rebase(self, key: str, spent: Mapping[str, Spent]) -> None:
        """Set a key's spend to the sum in the database, which covers all gateways, plus the unsaved amounts."""
        counts = self._keys.get(key)
        for name, amounts in spent.items():
            if counts is not None and (window := counts.windows.get(name)) is not None:
                window.tokens = amounts.tokens + window.unsaved_tokens
                window.nano_usd = amounts.nano_usd + window.unsaved_nano_usd

    def saved(self, key: str, window: str, tokens: int, nano_usd: int) -> None:
        """Record that this part of the settled amounts is now in the database."""
        if (counts := self._keys.get(key)) is not None and (found := counts.windows.get(window)) is not None:
            found.unsaved_tokens -= tokens
            found.unsaved_nano_usd -= nano_usd

    def close(self) -> None:
        """Nothing to release."""

    def forget_idle(self) -> None:
        """Forget the keys without requests. Their spend is loaded again."""
        self._keys = {key: counts for key, counts in self._keys.items() if counts.in_flight}

    def take_active(self) -> list[str]:
        """Return the keys that had requests since the last call."""
        active, self._active = list(self._active), set()
        return active

    def reserve(self, demand: Demand, now: float) -> Hold | Exceeded:
        """Check all limits, then reserve from all of them."""
        counts = self._keys.get(demand.key)
        if counts is None:
            counts = self._keys[demand.key] = KeyCounts()
        self._active.add(demand.key)
        limits = demand.limits
        if limits.concurrent_requests is not None and counts.in_flight >= limits.concurrent_requests:
            return Exceeded("concurrent_requests", limits.concurrent_requests, BUSY_SECONDS)
        requests = tokens = 0.0
        if limits.requests_per_minute is not None:
            checked = _check_rate(counts.requests, now, 1, "requests_per_minute", limits.requests_per_minute)
            if isinstance(checked, Exceeded):
                return checked
            requests = checked
        minute_tokens = 0
        if limits.tokens_per_minute is not None:
            minute_tokens = min(demand.tokens, limits.tokens_per_minute)  # otherwise it would never fit
            checked = _check_rate(counts.tokens, now, minute_tokens, "tokens_per_minute", limits.tokens_per_minute)
            if isinstance(checked, Exceeded):
                return checked
            tokens = checked
        names = (day_of(now), month_of(now))
        windows = counts.window(names[0]), counts.window(names[1])
        held: list[tuple[int, int]] = []
        for name, window, (of_tokens, of_money) in zip(names, windows, _BUDGETS, strict=True):
            in_tokens = _fit(window.tokens + window.held_tokens, demand.tokens, getattr(limits, of_tokens))
            if in_tokens is None:
                return exceeded_budget(of_tokens, limits, name, now)
            in_money = _fit(window.nano_usd + window.held_nano_usd, demand.nano_usd, getattr(limits, of_money))
            if in_money is None:
                return exceeded_budget(of_money, limits, name, now)
            held.append((in_tokens, in_money))
        counts.in_flight += 1
        if limits.requests_per_minute is not None:
            counts.requests = requests
        if limits.tokens_per_minute is not None:
            counts.tokens = tokens
        for window, (in_tokens, in_money) in zip(windows, held, strict=True):
            window.held_tokens += in_tokens
            window.held_nano_usd += in_money
        (day_tokens, day_money), (month_tokens, month_money) = held
        return Hold(demand, names, minute_tokens, (day_tokens, month_tokens), (day_money, month_money))

    def check(self, hold: Hold, used: Spent, *, costs_money: bool, now: float) -> Exceeded | None:
        """Check the limits before another call of the same request. `used` is its usage so far."""
        counts = self._keys[hold.demand.key]
        limits = hold.demand.limits
        for index, (name, (of_tokens, of_money)) in enumerate(zip(hold.windows, _BUDGETS, strict=True)):
            window = counts.window(name)
            tokens = window.tokens + window.held_tokens - hold.tokens[index] + used.tokens
            if (most := getattr(limits, of_tokens)) is not None and tokens >= most:
                return exceeded_budget(of_tokens, limits, name, now)
            money = window.nano_usd + window.held_nano_usd - hold.nano_usd[index] + used.nano_usd
            if costs_money and (most := getattr(limits, of_money)) is not None and money >= most:
                return exceeded_budget(of_money, limits, name, now)
        return None

    def settle(self, hold: Hold, used: Spent) -> None:
        """Replace a hold with the actual usage, in the windows of the reservation. A second call does nothing."""
        if not hold.is_settled:
            hold.is_settled = True
            self._keys[hold.demand.key].settle(hold, used)

    def spent(self, key: str, window: str) -> Spent:
        """Return the spent and held amounts in a window."""
        counts = self._keys.get(key)
        found = None if counts is None else counts.windows.get(window)
        if found is None:
            return Spent(0, 0)
        return Spent(found.tokens + found.held_tokens, found.nano_usd + found.held_nano_usd)


def _check_rate(arrival: float, now: float, amount: int, name: str, per_minute: int) -> float | Exceeded:
    if per_minute == 0:
        return Exceeded(name, 0, MINUTE)
    after = next_arrival(arrival, now, amount, per_minute)
    over = after - now - MINUTE
    return after if over <= 1e-6 else Exceeded(name, per_minute, over)


def _fit(used: int, wanted: int, budget: int | None) -> int | None:
    """Return the part of `wanted` that fits the budget; None if nothing is left. Without a budget, it is 0."""
    if budget is None:
        return 0
    if wanted == 0:
        return 0
    left = budget - used
    return None if left <= 0 else min(wanted, left)


def exceeded_budget(name: str, limits: KeyLimits, window: str, now: float) -> Exceeded:
    """Describe a budget that is spent."""
    renews = end_of(window)
    return Exceeded(name, getattr(limits, name), max(renews - now, 1.0), renews)
