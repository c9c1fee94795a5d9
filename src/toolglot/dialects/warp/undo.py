"""The undo log of open transactions. The server may nest them; the depth is limited."""

from __future__ import annotations

from collections.abc import Callable

from toolglot.errors import DecodeError

MAX_NESTED = 100
MAX_SAVED = 32 * 1024 * 1024
"""The limit for saved bytes over all open transactions."""
MAX_COPIED = 256 * 1024 * 1024
"""The limit for copied bytes in one stream. It bounds the cost of repeated rollbacks of small changes to large
messages."""


class UndoLog:
    """Records how to undo changes. Transactions are numbered from 1 in the order of their start, also nested ones."""

    __slots__ = ("_begun", "_copied", "_open", "_saved", "_undo")

    def __init__(self) -> None:
        self._begun = 0
        self._open: list[int] = []
        self._undo: list[tuple[int, int, Callable[[], None]]] = []
        self._saved = 0
        self._copied = 0

    @property
    def transaction(self) -> int:
        """The innermost open transaction. 0 if none is open."""
        return self._open[-1] if self._open else 0

    @property
    def depth(self) -> int:
        """The number of open transactions."""
        return len(self._open)

    def is_final(self, transaction: int | None) -> bool:
        """Return whether changes of this transaction can no longer be rolled back. With None: whether no transaction is
        open."""
        return not self._open or (transaction is not None and self._open[0] > transaction)

    def begin(self) -> None:
        """Begin a transaction.

        Raises:
            DecodeError: too many transactions are open.
        """
        if len(self._open) >= MAX_NESTED:
            raise DecodeError("begin_transaction", f"more than {MAX_NESTED} transactions are open")
        self._begun += 1
        self._open.append(self._begun)

    def record(self, undo: Callable[[], None], size: int = 0) -> None:
        """Record how to undo a change, if a transaction is open. `size`: the bytes that `undo` keeps in memory.

        Raises:
            DecodeError: a limit is exceeded.
        """
        if not self._open:
            return
        self.charge(size)
        self._saved += size
        if self._saved > MAX_SAVED:
            raise DecodeError("transaction", f"more than {MAX_SAVED} bytes would have to be kept for a rollback")
        self._undo.append((self._open[-1], size, undo))

    def charge(self, size: int) -> None:
        """Count copied bytes, or other work in bytes.

        Raises:
            DecodeError: the limit is exceeded.
        """
        self._copied += size
        if self._copied > MAX_COPIED:
            raise DecodeError("transaction", f"more than {MAX_COPIED} bytes would have to be copied")

    def commit(self) -> None:
        del self._open[-1:]
        if not self._open:
            self.end()

    def end(self) -> None:
        """Forget everything: no change can be undone after this."""
        self._open.clear()
        self._undo.clear()
        self._saved = 0

    def roll_back(self) -> None:
        """Undo all changes since the innermost transaction began, the latest first."""
        transaction = self.transaction
        while transaction and self._undo and self._undo[-1][0] >= transaction:
            _, size, undo = self._undo.pop()
            self._saved -= size
            undo()
        del self._open[-1:]
