"""What is told of one request when it is over: the log line, the metrics and the trace are made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from toolglot.ir import Usage
from toolglot.receipt import Loss


class RequestRecord(Struct, kw_only=True, gc=False):
    """Filled in as the request goes on. Nothing in it is a secret or a part of the conversation.

    Some records are copies: no collection in one is changed, but another put in its place.
    """

    id: str
    method: str
    path: str
    started: float
    """Monotonic seconds, as are the other times."""
    admitted: bool = True
    """The caller was let in, to something that is not open to everybody."""
    route: str = ""
    key: str | None = None
    """Which key was shown: a label, never the key."""
    owner: str = ""
    """Whose the state of this request is: derived from the key, and empty where there are none."""
    client: str | None = None
    """The client's dialect."""
    user_agent: str | None = None
    traceparent: str | None = None
    """The client's place in a trace, as its header tells it (W3C Trace Context)."""
    model: str | None = None
    """As the client named it."""
    upstream: str | None = None
    upstream_dialect: str | None = None
    upstream_model: str | None = None
    stream: bool = False
    is_simple: bool = False
    """It was answered from the sockets' callbacks, by one call that went well: such requests are counted together."""
    status: int = 0
    error: str | None = None
    """The kind of error that the client was told, also inside a stream."""
    message: str | None = None
    """What the client was told about it."""
    calls: Mapping[str, int] = {}
    """How often each upstream was called."""
    rounds: int = 1
    """How often the model was asked for this answer: once more after each round of calls that were run here."""
    fallbacks: int = 0
    mended: int = 0
    asked_again: int = 0
    """How often the model was asked once more because it wrote a call that cannot be run."""
    served: Mapping[str, int] = {}
    """How many calls to each MCP server's tools were run here."""
    served_failed: Mapping[str, int] = {}
    """How many of them have failed."""
    usage: Usage | None = None
    stop: str | None = None
    losses: int = 0
    notes: int = 0
    receipt: tuple[float, tuple[Loss, ...], int] | None = None
    """What is kept of its receipt: when it was kept, the first lines, and how many there are."""
    prefix_reuse: Sequence[tuple[str, float]] = ()
    """For each upstream that was asked: how much of the history it had been sent in the turn before, from 0 to 1."""
    bytes_in: int = 0
    bytes_out: int = 0
    first_byte: float | None = None
    ended: float | None = None
    cut: bool = False
    """The client's connection was cut, because the upstream broke off in the middle of the answer."""
    cancelled: bool = False
    """The client went away before the answer was whole."""

    @property
    def attempts(self) -> int:
        return sum(self.calls.values())

    @property
    def has_one_call(self) -> bool:
        """One upstream was called, once, with the request as it was translated first."""
        return not (self.fallbacks or self.mended or self.asked_again) and self.calls is _one_call(self.upstream or "")

    def count_call(self, upstream: str) -> None:
        # Most are called once: those share one mapping.
        self.calls = {**self.calls, upstream: self.calls.get(upstream, 0) + 1} if self.calls else _one_call(upstream)

    def count_served(self, server: str, *, failed: bool) -> None:
        self.served = {**self.served, server: self.served.get(server, 0) + 1}
        if failed:
            self.served_failed = {**self.served_failed, server: self.served_failed.get(server, 0) + 1}

    @property
    def seconds(self) -> float:
        return (self.ended or self.started) - self.started


@lru_cache(256)
def _one_call(upstream: str) -> Mapping[str, int]:
    return {upstream: 1}
