"""Running the gateway: the listening socket, uvicorn, signals, and reloads of the configuration."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn
from msgspec.structs import replace

from toolglot.agent.host import McpHost
from toolglot.config.problems import ConfigError, Problem
from toolglot.config.schema import Config, Limits, LogConfig, StoreConfig
from toolglot.errors import MissingExtraError
from toolglot.gateway.admission import CallbackAdmission
from toolglot.gateway.features.recording import ExchangeRecorder, start_recording
from toolglot.gateway.gateway import Gateway
from toolglot.gateway.sweep import DriverSweep
from toolglot.server import logs, tracing
from toolglot.server.app import App
from toolglot.server.error_replies import DRAINING
from toolglot.server.http_protocol import make_protocol
from toolglot.server.metrics import Metrics
from toolglot.server.reload import ConfigReloader
from toolglot.server.request_head import ConnectionLimits
from toolglot.server.request_log import RequestLog
from toolglot.server.routes import ROUTES
from toolglot.server.security import check_bind
from toolglot.server.service import RecentReceipts, Service
from toolglot.server.service_manager import ServiceManager
from toolglot.server.startup import StartedGateway, StartOptions, load_options, start_gateway
from toolglot.store import Store, StoreError
from toolglot.store.sqlite import NO_STORE, SqliteStore, default_path
from toolglot.upstream.http_client import HttpTransport

if TYPE_CHECKING:
    from toolglot.server.workers.worker_slot import WorkerSlot

log = logging.getLogger("toolglot.server")

KEEP_ALIVE = 75
"""Seconds that an idle connection is kept: longer than common client pools keep theirs."""


SWITCH_INTERVAL = 0.001
"""Seconds after which a thread that processes a large body yields to the event loop. Python's default of 5 ms would
delay each chunk of every stream meanwhile."""


LISTENER_COPIES = 8
"""Descriptors of the listening socket. libuv accepts one connection from each per turn of the loop, and a turn takes
milliseconds under load: with one descriptor, a thousand simultaneous clients would wait for a thousand turns."""


OTHER_FILES = 256
"""Open files other than client and upstream connections: the store, logs, MCP servers, probes."""


class PortInUseError(Exception):
    """Another process listens on this port."""


def open_listener(config: Config, *, shared: bool = False) -> socket.socket:
    """Open the socket to serve on. Call it first, so that a port in use is reported at once."""
    listener = bind_listener(config, shared=shared)
    listener.listen(2048)
    return listener


def bind_listener(config: Config, *, shared: bool = False) -> socket.socket:
    """Bind a socket to the address to serve on. Other processes may bind it, too, if it is `shared`."""
    check_bind(config.server, needs_key=config.team.enabled)
    host, port = config.server.host, config.server.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise PortInUseError(
            f"cannot listen on {host}:{port}: {error.strerror}; is toolglot running already? --port chooses another"
        ) from None
    return listener


def listener_url(listener: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _connection_limits(limits: Limits) -> ConnectionLimits:
    connections = affordable_connections(limits, _file_limit())
    if connections < limits.connections:
        log.warning(
            "limits.connections is %d, but the limit of open files allows fewer: %d connections are accepted",
            limits.connections,
            connections,
        )
    health = frozenset(route.path for route in ROUTES if route.reserved)
    return ConnectionLimits(connections=connections, write_timeout=limits.write_idle, health=health)


class GatewayServer(uvicorn.Server):
    """uvicorn's server with callbacks when it listens and when it stops, and an orderly shutdown of the service."""

    def __init__(
        self,
        service: Service,
        on_ready: Callable[[], None],
        slot: WorkerSlot | None = None,
        on_stopping: Callable[[], None] = lambda: None,
    ) -> None:
        limits = service.gateway.config.limits
        self._service = service
        self._on_ready = on_ready
        self._on_stopping = on_stopping
        self._slot = slot
        super().__init__(
            uvicorn.Config(
                App(service),
                http=make_protocol(_connection_limits(limits), CallbackAdmission(service), service.throttle),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,  # any client can forge them
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE,
                backlog=2048,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stopping()
        limits = self._service.gateway.config.limits
        drain = limits.drain if self._slot is None else await self._slot.leave(self, limits)
        self._service.is_accepting = False
        self.config.timeout_graceful_shutdown = drain  # type: ignore[assignment] # it may be half a second
        await super().shutdown(sockets)
        self._service.sweep.stop(DRAINING)


def run(
    options: StartOptions,
    environ: Mapping[str, str],
    *,
    log_format: str | None = None,
    quiet: bool = False,
    on_ready: Callable[[str, StartedGateway], None] = lambda url, start: None,
    slot: WorkerSlot | None = None,
) -> None:
    """Serve until a signal ends it. `slot` makes this process one of several workers. Raises `ConfigError`,
    `UnsafeServerError` or `PortInUseError` before it starts."""
    with asyncio.Runner(loop_factory=find_loop_factory()) as runner:
        runner.run(_run(options, environ, log_format, quiet, on_ready, slot))


def find_loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's factory if it is installed: everywhere except on Windows."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _run(
    options: StartOptions,
    environ: Mapping[str, str],
    log_format: str | None,
    quiet: bool,
    on_ready: Callable[[str, StartedGateway], None],
    slot: WorkerSlot | None,
) -> None:
    config, _, _ = load_options(options, environ)
    async with AsyncExitStack() as resources:
        listener = open_listener(config) if slot is None else slot.listener
        resources.callback(listener.close)
        _raise_file_limit(config.limits)
        transport = HttpTransport(config.limits.upstream_connections, environ)
        resources.push_async_callback(transport.close)
        local = None if slot is None else slot.local
        started = await start_gateway(options, environ, transport, own_port=listener.getsockname()[1], local=local)
        service, request_log = _make_service(started.gateway, log_format, quiet)
        resources.callback(request_log.flush)
        resources.callback(service.throttle.report)
        if slot is not None:
            await slot.open(service)
            resources.push_async_callback(slot.close)
        _open_store(service, started.gateway.config.store, environ)
        if service.store is not None:
            resources.push_async_callback(_close_store, service.store)
        await _open_team(service, started, environ, transport, resources)
        service.recorder = _start_recording(started, service, options)
        if service.recorder is not None:
            resources.push_async_callback(asyncio.to_thread, service.recorder.recorder.close)
        service.host = await _start_mcp_host(started, resources)
        traces = tracing.set_up(environ, lambda name: service.gateway.config.upstreams.get(name))
        if traces is not None:
            service.observers = (*service.observers, traces.observe)
            resources.push_async_callback(asyncio.to_thread, traces.close)
        # Of several workers, only their parent notifies the service manager.
        manager = ServiceManager(environ if slot is None else {})
        address = listener.getsockname()[:2]
        reload = ConfigReloader(service, options, environ, transport, address, started.file, manager)
        reloads = asyncio.create_task(reload.run())
        resources.push_async_callback(_cancel_task, reloads)
        await asyncio.sleep(0)  # SIGHUP must have a handler before the address is announced: without one it kills

        def announce() -> None:
            on_ready(listener_url(listener), started)
            manager.ready(f"serving at {listener_url(listener)}")

        server = GatewayServer(service, announce, slot, manager.stopping)
        if slot is None or await slot.ready(server):
            _ignore_repeated_signals()
            _shorten_loop_pauses()
            listener.setblocking(False)  # a blocking copy would block all copies, also those of other workers
            await server.serve([listener, *(listener.dup() for _ in range(LISTENER_COPIES - 1))])


def _start_recording(started: StartedGateway, service: Service, options: StartOptions) -> ExchangeRecorder | None:
    config = started.gateway.config.record
    try:
        return start_recording(config, service.metrics, options.shares)
    except OSError as error:
        origin = "--record" if options.record is not None else str(started.file)
        message = f"recordings cannot be written to {config.directory}: {error.strerror or error}"
        raise ConfigError([Problem(file=origin, message=message)]) from None


async def _start_mcp_host(started: StartedGateway, resources: AsyncExitStack) -> McpHost:
    """Start the MCP servers. They start in the background."""
    host = McpHost(started.gateway.config.mcp.servers)
    resources.push_async_callback(host.close)
    try:
        await host.start()
    except MissingExtraError as error:
        raise ConfigError([Problem(file=str(started.file or "--mcp-config"), message=str(error))]) from None
    return host


def _ignore_repeated_signals() -> None:
    """Ignore further signals: uvicorn drains on a signal and then raises it again, which would prevent the cleanup."""
    with suppress(ValueError):  # not the main thread: then uvicorn handles no signals either
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda _number, _frame: None)


def _shorten_loop_pauses() -> None:
    """Shorten pauses of the event loop: garbage collection, and waits for a thread with a large body."""
    gc.collect()
    gc.freeze()  # these objects live forever and need no further collection
    sys.setswitchinterval(SWITCH_INTERVAL)


async def _cancel_task(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


def _open_store(service: Service, config: StoreConfig, environ: Mapping[str, str]) -> None:
    """Open the store. A gateway without one still answers, so a failure is only logged."""
    path = config.path or str(default_path(environ, Path.home()))
    if path == NO_STORE:
        return
    try:
        service.store = SqliteStore(path, max_bytes=config.max_bytes, max_age=config.max_age)
    except StoreError as error:
        log.warning("responses are not stored: %s", error)
        service.store_failure = str(error)


async def _open_team(
    service: Service,
    started: StartedGateway,
    environ: Mapping[str, str],
    transport: HttpTransport,
    resources: AsyncExitStack,
) -> None:
    """Open the team's database, if there is a team, and follow its changes."""
    config = started.gateway.config
    if not config.team.enabled:
        return
    from toolglot.team.service import open_team  # most gateways have none

    try:
        team = service.team = await open_team(config.team, environ, transport, config.server.workers)
    except StoreError as error:
        message = f"the team database cannot be used: {error}"
        raise ConfigError([Problem(file=str(started.file), field="team.database", message=message)]) from None
    if team.shared is not None:
        team.shared.count_local = partial(service.metrics.local_limits.add, ())
    resources.push_async_callback(team.close)
    watching = asyncio.create_task(team.run())
    resources.push_async_callback(_cancel_task, watching)


async def _close_store(store: Store) -> None:
    """Close the store. A failure is only logged: acknowledged data is already stored."""
    try:
        await store.close()
    except StoreError as error:
        log.warning("the store could not be closed: %s", error)


def merge_log_config(config: LogConfig, log_format: str | None, quiet: bool) -> LogConfig:
    """Merge the file's log settings with the flags."""
    return replace(config, format=log_format or config.format, level="error" if quiet else config.level)


def _make_service(gateway: Gateway, log_format: str | None, quiet: bool) -> tuple[Service, RequestLog]:
    config = merge_log_config(gateway.config.log, log_format, quiet)
    metrics = Metrics()
    throttle = logs.make_throttle(config)
    service = Service(gateway=gateway, receipts=RecentReceipts(), metrics=metrics, throttle=throttle)
    service.sweep = DriverSweep(lambda: service.gateway.config.limits.keepalive)
    # Read on each use, because a reload may change the secrets.
    logs.set_up(config, lambda: service.gateway.secrets)
    request_log = RequestLog(config, lambda: service.gateway.secrets, throttle=throttle)
    service.observers = (metrics.observe, request_log)
    return service, request_log


def _raise_file_limit(limits: Limits) -> None:
    """Raise the limit of open files to what these connections need, as far as the system allows."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = limits.connections + limits.upstream_connections + OTHER_FILES
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


def _file_limit() -> float:
    """Return the number of files that this process may open."""
    with suppress(ImportError, OSError):
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return inf if soft == resource.RLIM_INFINITY else soft
    return inf


def affordable_connections(limits: Limits, files: float) -> int:
    """Return the number of client connections that the file limit allows. Without a free file descriptor, the server
    accepts no connection, not even from a probe. So at least half of the descriptors are for clients, and some stay
    free."""
    rest = files - OTHER_FILES
    left = rest - min(limits.upstream_connections, rest // 2)
    return limits.connections if left >= limits.connections else max(int(left), 1)
