"""What undoes the changes of transactions that are open. The server may nest them; nobody needs many."""

from __future__ import annotations

from collections.abc import Callable

from toolglot.errors import DecodeError

MAX_NESTED = 100
MAX_SAVED = 32 * 1024 * 1024
"""Bytes of what was there before, over all open transactions."""
MAX_COPIED = 256 * 1024 * 1024
"""Bytes that are copied in one stream: small changes to large things, taken back again and again, cost no more."""


class UndoLog:
    """Transactions are numbered from 1; later ones have higher numbers, also those inside others."""

    __slots__ = ("_begun", "_copied", "_open", "_saved", "_undo")

    def __init__(self) -> None:
        self._begun = 0
        self._open: list[int] = []
        self._undo: list[tuple[int, int, Callable[[], None]]] = []
        self._saved = 0
        self._copied = 0

    @property
    def transaction(self) -> int:
        """The transaction that is open, 0 when none is."""
        return self._open[-1] if self._open else 0

    @property
    def depth(self) -> int:
        """How many are open."""
        return len(self._open)

    def is_final(self, transaction: int | None) -> bool:
        """Can nothing that this transaction brought be taken back any more? Without one: is none open at all?"""
        return not self._open or (transaction is not None and self._open[0] > transaction)

    def begin(self) -> None:
        """Opens a transaction.

        Raises:
            DecodeError: too many are open.
        """
        if len(self._open) >= MAX_NESTED:
            raise DecodeError("begin_transaction", f"more than {MAX_NESTED} transactions are open")
        self._begun += 1
        self._open.append(self._begun)

    def record(self, undo: Callable[[], None], size: int = 0) -> None:
        """Remembers how to undo a change, if a transaction is open. `size`: the bytes that this keeps alive.

        Raises:
            DecodeError: that is too much.
        """
        if not self._open:
            return
        self.charge(size)
        self._saved += size
        if self._saved > MAX_SAVED:
            raise DecodeError("transaction", f"more than {MAX_SAVED} bytes would have to be kept for a rollback")
        self._undo.append((self._open[-1], size, undo))

    def charge(self, size: int) -> None:
        """Counts the bytes of a copy that a change to something else costs.

        Raises:
            DecodeError: that is too much.
        """
        self._copied += size
        if self._copied > MAX_COPIED:
            raise DecodeError("transaction", f"more than {MAX_COPIED} bytes would have to be copied")

    def commit(self) -> None:
        del self._open[-1:]
        if not self._open:
            self.end()

    def end(self) -> None:
        """Nothing can be undone any more."""
        self._open.clear()
        self._undo.clear()
        self._saved = 0

    def roll_back(self) -> None:
        """Undoes what has changed since the last transaction began, the latest change first."""
        transaction = self.transaction
        while transaction and self._undo and self._undo[-1][0] >= transaction:
            _, size, undo = self._undo.pop()
            self._saved -= size
            undo()
        del self._open[-1:]
