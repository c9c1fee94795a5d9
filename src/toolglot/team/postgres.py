"""The team's database in PostgreSQL, for gateways on several machines. Extra `postgres` (asyncpg).

All tables are in a schema of their own. A write takes a lock until its transaction ends, so writes come one after the
other, as in SQLite: no operation sees half of another one, and versions of keys become visible in order. Connections
are held, since a pool of asyncpg resets a connection after each use, which doubles the time of a short call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Any, TypeAlias, TypeVar

import asyncpg
from asyncpg.exceptions import AdminShutdownError, CrashShutdownError, IdleInTransactionSessionTimeoutError

from toolglot.store import StoreError, StoreFailure
from toolglot.team.sql import NewerSchemaError, Operation, migrate

T = TypeVar("T")
Held: TypeAlias = "asyncpg.Connection[Any]"

SCHEMA = "toolglot"
CONNECTIONS = 4
"""Connections of one process. Calls beyond that wait for one."""
TIMEOUT = 2.0
"""Seconds after which a statement, a lock or a connection is given up."""
PAUSE = 0.3
"""Seconds after a failure in which calls fail at once: requests must not queue for a server that does not answer. The
gateway polls less often, so it notices the return within a second."""
_WRITE_LOCK = 0x7467746D
"""Number of the advisory lock of all writes."""


class PostgresDatabase:
    """A database that gateways on several machines share."""

    def __init__(self, url: str, timeout: float = TIMEOUT) -> None:
        self._url = url
        self._timeout = timeout
        self._free: list[Held] = []
        self._places = asyncio.Semaphore(CONNECTIONS)
        self._paused_until = 0.0
        self._running: set[asyncio.Task[Any]] = set()
        self._is_closed = False

    @classmethod
    async def open(cls, url: str, timeout: float = TIMEOUT) -> PostgresDatabase:
        """Connect, and bring the tables to this version. Raises `StoreError`."""
        database = cls(url, timeout)
        try:
            await database.run(_create_schema)
            await database.run(migrate)
        except NewerSchemaError as error:
            await database.close()
            raise StoreError("newer", str(error)) from None
        except BaseException:
            await database.close()
            raise
        return database

    async def run(self, begin: Callable[[], Operation[T]], *, writes: bool = True) -> T:
        if self._is_closed:
            raise StoreError("closed", "the database is closed")
        # The waiting task may be cancelled (its client left); the work is done anyway.
        return await asyncio.shield(self._start(self._run(begin, writes)))

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, even if no task waits for it any more

    async def _run(self, begin: Callable[[], Operation[T]], writes: bool) -> T:
        async with self._places:
            if monotonic() < self._paused_until:
                raise StoreError("failed", "the database did not answer a moment ago")
            try:
                async with self._transaction(writes) as connection:
                    return await _perform(connection, begin())
            except (StoreError, NewerSchemaError):
                raise
            except Exception as error:
                if isinstance(error, _AWAY):
                    self._paused_until = monotonic() + PAUSE
                raise as_store_error(error) from None

    @asynccontextmanager
    async def _transaction(self, writes: bool) -> AsyncIterator[Held]:
        connection = await self._begin(writes)
        try:
            yield connection
            await connection.execute("COMMIT")
            self._free.append(connection)
        except BaseException:
            # Whatever state it is in, the server ends the transaction with the connection.
            connection.terminate()
            raise

    async def _begin(self, writes: bool) -> Held:
        """Begin a transaction on a free connection, or on a new one."""
        start = f"BEGIN; SELECT pg_advisory_xact_lock({_WRITE_LOCK})" if writes else _READ
        while self._free:
            connection = self._free.pop()
            try:
                await connection.execute(start)
                return connection
            except Exception as error:
                connection.terminate()
                if not isinstance(error, _LOST):
                    raise
                # The server was restarted since: the other connections are lost, too. Nothing was done yet.
        connection = await self._connect()
        try:
            await connection.execute(start)
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def _connect(self) -> Held:
        milliseconds = str(round(self._timeout * 1000))
        return await asyncpg.connect(
            self._url,
            timeout=self._timeout,
            command_timeout=self._timeout,
            server_settings={
                "application_name": "toolglot",
                "search_path": SCHEMA,
                "lock_timeout": milliseconds,
                # A gateway that is stopped in a transaction must not hold up the others.
                "idle_in_transaction_session_timeout": milliseconds,
            },
        )

    async def close(self) -> None:
        self._is_closed = True
        if self._running:
            await asyncio.wait(list(self._running))
        for connection in self._free:
            with suppress(Exception):
                await connection.close(timeout=self._timeout)
        self._free.clear()


_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


async def _perform(connection: Held, operation: Operation[T]) -> T:
    """Run the statements of an operation."""
    try:
        text, parameters = next(operation)
        while True:
            rows: Sequence[Any] = await connection.fetch(text, *map(_to_postgres, parameters))
            text, parameters = operation.send([tuple(row) for row in rows])
    except StopIteration as end:
        result: T = end.value
        return result


def _to_postgres(value: Any) -> Any:
    """PostgreSQL has no texts with a NUL. A client may have named a model so."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value


def _create_schema() -> Operation[None]:
    # Without the right to create schemas, an existing one is used.
    if not (yield "SELECT 1 FROM pg_namespace WHERE nspname = $1", (SCHEMA,)):
        yield f"CREATE SCHEMA {SCHEMA}", ()


_LOST = (
    ConnectionError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    AdminShutdownError,
    CrashShutdownError,
    IdleInTransactionSessionTimeoutError,
)
"""Errors of a connection that the server has closed, as opposed to a server that refuses or does not answer."""
_AWAY = (*_LOST, OSError, TimeoutError, asyncpg.CannotConnectNowError)

_FAILURES: tuple[tuple[str, StoreFailure, str], ...] = (
    ("23505", "duplicate", "something with this id is stored already"),
    ("53100", "full", "the disk of PostgreSQL is full"),
    ("55P03", "locked", "another gateway holds the lock of the database"),
    ("28", "failed", "PostgreSQL refuses the user or the password"),
    ("3D000", "failed", "PostgreSQL has no database of this name"),
    ("42501", "failed", f"the user may not use or create the schema {SCHEMA}"),
    ("53300", "failed", "PostgreSQL has no free connection"),
    ("57P", "failed", "PostgreSQL is starting or stopping"),
)
"""Beginnings of SQLSTATE codes."""


def as_store_error(error: Exception) -> StoreError:
    """Convert an exception to a store failure with our own message: PostgreSQL's may quote data, and the URL is
    secret."""
    code = error.sqlstate if isinstance(error, asyncpg.PostgresError) else None
    for start, failure, message in _FAILURES:
        if code is not None and code.startswith(start):
            return StoreError(failure, message)
    if isinstance(error, TimeoutError):
        return StoreError("failed", "PostgreSQL does not answer")
    if isinstance(error, OSError):
        return StoreError("failed", f"PostgreSQL cannot be reached ({error.strerror or type(error).__name__})")
    return StoreError("failed", f"PostgreSQL failed with {type(error).__name__}")
