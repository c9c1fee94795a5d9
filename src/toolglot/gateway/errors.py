"""Exceptions that end the work on a request."""

from __future__ import annotations

from toolglot.errors import ApiError
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore


class FailedError(Exception):
    """No target could answer. `error` is for the client; `exchange` is the attempt that failed, if any."""

    def __init__(self, error: ApiError, exchange: ExchangeCore | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.receipt = exchange.receipt if exchange is not None else Receipt()
        self.start = exchange.start_of_failure() if exchange is not None else None
        """The id, time and model of an answer that is only this error, for clients that get one."""
