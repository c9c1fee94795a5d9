"""Refusals that a remedy resolved, by upstream and model: the next request is changed before it is sent.

Only remedies that lose nothing are remembered. A loss is accepted only after an upstream has refused that request.
In memory only: after a restart, the first request of a model costs two calls again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable

from toolglot.errors import ApiError
from toolglot.upstream.tool_mode import REFUSAL_TTL

MAX_MODELS = 1000
MAX_REFUSALS = 8
"""Maximum refusals of one model. Their messages differ, and may quote the request."""


class KnownRefusals:
    """Remedied refusals by the upstream's address and its name of the model. Times are seconds of one clock."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], dict[str, tuple[float, ApiError]]] = OrderedDict()

    def find(self, address: str, model: str, clock: Callable[[], float]) -> Iterable[ApiError]:
        known = self._known.get((address, model))
        if known is None:
            return ()
        now = clock()
        return [error for found, error in known.values() if now - found < REFUSAL_TTL]

    def remember(self, address: str, model: str, errors: Iterable[ApiError], now: float) -> None:
        known = self._known.setdefault((address, model), {})
        self._known.move_to_end((address, model))
        for error in errors:
            known.pop(error.message, None)
            known[error.message] = (now, error)
        while len(known) > MAX_REFUSALS:
            del known[next(iter(known))]
        while len(self._known) > MAX_MODELS:
            self._known.popitem(last=False)
