"""Do the work that all workers share once, before they start. Then the supervisor takes over."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import sys
from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from toolglot.config.problems import ConfigError, Problem
from toolglot.config.schema import Config
from toolglot.config.worker_checks import store_problem
from toolglot.server import logs
from toolglot.server import run as server
from toolglot.server.security import UnsafeServerError
from toolglot.server.service_manager import ServiceManager
from toolglot.server.startup import StartedGateway, StartOptions, load_options, start_gateway
from toolglot.server.workers.supervisor import WRONG_STATUS, WorkerSupervisor
from toolglot.server.workers.worker_slot import WorkerSlot
from toolglot.upstream.discovery import Discovery, probe_local
from toolglot.upstream.http_client import HttpTransport

log = logging.getLogger("toolglot.server")


class WorkerPlan(Struct, frozen=True):
    """Settings for new workers."""

    start: StartedGateway
    local: Discovery | None


def supervise(
    config: Config,
    options: StartOptions,
    environ: Mapping[str, str],
    log_format: str | None,
    quiet: bool,
    on_ready: Callable[[str, StartedGateway], None],
) -> None:
    """Serve with the workers of this configuration until a signal ends it."""
    workers = config.server.workers
    _refuse_unshareable(config, workers)
    WorkerParent(replace(options, shares=workers), environ, log_format, quiet).run(listen(config, workers), on_ready)


class WorkerParent:
    def __init__(self, options: StartOptions, environ: Mapping[str, str], log_format: str | None, quiet: bool) -> None:
        self._options = options
        self._environ = environ
        self._log_format = log_format
        self._quiet = quiet

    def run(self, listeners: list[socket.socket], on_ready: Callable[[str, StartedGateway], None]) -> None:
        url, self._port = server.listener_url(listeners[0]), listeners[0].getsockname()[1]
        plan = self._plan = asyncio.run(self._dry_run())
        config = plan.start.gateway.config
        logs.set_up(
            server.merge_log_config(config.log, self._log_format, self._quiet), lambda: plan.start.gateway.secrets
        )
        manager = ServiceManager(self._environ)

        def announce() -> None:
            on_ready(url, plan.start)
            manager.ready(f"{len(listeners)} workers at {url}")

        supervisor = WorkerSupervisor(
            listeners,
            self._run_worker,
            prepare=self._prepare,
            on_ready=announce,
            manager=manager,
            drain=config.limits.drain,
            patience=config.limits.worker_silence,
        )
        # Existing objects stay, and freezing them keeps the collector from writing to shared memory: after 8,400
        # requests a worker has 16 MB of its own, and would have 25.
        gc.collect()
        gc.freeze()
        supervisor.run()

    async def _dry_run(self) -> WorkerPlan:
        """Do the startup of a worker once, without discovery, so that problems are reported before there are workers,
        and all workers use the same local servers.
        """
        config, _, _ = load_options(self._options, self._environ)
        local = await probe_local(self._environ, own_port=self._port) if config.discover else None
        transport = HttpTransport(config.limits.upstream_connections, self._environ)
        try:
            started = await start_gateway(self._options, self._environ, transport, own_port=self._port, local=local)
        finally:
            await transport.close()
        server.find_loop_factory()  # loaded here, for the workers to share
        return WorkerPlan(started, local)

    def _prepare(self) -> bool:
        """Read everything again for new workers; False if it is invalid."""
        before = self._plan.start.gateway.config
        try:
            plan = asyncio.run(self._dry_run())
            _refuse_unshareable(plan.start.gateway.config, self._options.shares)
        except (ConfigError, UnsafeServerError) as error:
            log.error("the configuration is invalid; no worker is replaced:\n%s", error)
            return False
        except Exception:
            # No error may end the workers that serve.
            log.exception("the configuration could not be loaded; no worker is replaced")
            return False
        for field in ("host", "port", "workers"):
            if getattr(before.server, field) != getattr(plan.start.gateway.config.server, field):
                log.warning("a change of server.%s requires a restart; until then the old value stays in use", field)
        self._plan = plan
        return True

    def _run_worker(self, listener: socket.socket, line: socket.socket) -> int:
        """Runs in a separate process."""
        slot = WorkerSlot(listener, line, self._plan.local)
        try:
            server.run(self._options, self._environ, log_format=self._log_format, quiet=self._quiet, slot=slot)
        except (ConfigError, UnsafeServerError) as error:
            log.error("the configuration is invalid:\n%s", error)
            return WRONG_STATUS
        return 0


def listen(config: Config, workers: int) -> list[socket.socket]:
    """Open a socket for each worker, all at one address. Linux distributes connections among them; other kernels do
    not, and there all workers share one socket."""
    if sys.platform != "linux":
        return [server.open_listener(config)] * workers
    # If another process listens there with port sharing, we would join it: without this check, silently.
    server.bind_listener(config).close()
    first = server.open_listener(config, shared=True)
    same = replace(config, server=replace(config.server, port=first.getsockname()[1]))
    return [first, *(server.open_listener(same, shared=True) for _ in range(workers - 1))]


def _refuse_unshareable(config: Config, workers: int) -> None:
    if problem := store_problem(config, workers):
        raise ConfigError([Problem(file="--workers", message=problem)])
