"""Reloading the configuration when its file changes, or on SIGHUP. An invalid configuration changes nothing."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from toolglot.config.file_watch import FileWatch
from toolglot.config.problems import ConfigError
from toolglot.config.schema import Config
from toolglot.errors import MissingExtraError
from toolglot.gateway.gateway import reload_team
from toolglot.server.security import UnsafeServerError
from toolglot.server.service import Service
from toolglot.server.service_manager import ServiceManager
from toolglot.server.startup import StartOptions, start_gateway
from toolglot.upstream.transport import Transport

log = logging.getLogger("toolglot.server")

WATCH_SECONDS = 1.0


class ConfigReloader:
    """Replaces the service's gateway after a reload. Running requests keep the gateway that they started with."""

    def __init__(
        self,
        service: Service,
        options: StartOptions,
        environ: Mapping[str, str],
        transport: Transport,
        address: tuple[str, int],
        file: Path | None,
        manager: ServiceManager,
    ) -> None:
        self._service = service
        self._options = options
        self._environ = environ
        self._transport = transport
        self._address = address
        self._begun = service.gateway.config
        self._file = file
        self._manager = manager
        self._watch = FileWatch(*self._files(self._begun))

    async def run(self) -> None:
        """Watch for changes until cancelled."""
        asked = asyncio.Event()
        ends = ends_with_terminal()
        try:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, asked.set)
        except (NotImplementedError, AttributeError, ValueError, RuntimeError):  # Windows, or not the main thread
            log.debug("there is no SIGHUP here: the configuration is reloaded only when its file changes")
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(asked.wait(), WATCH_SECONDS)
            if asked.is_set() and ends and not has_terminal():
                log.info("the terminal was closed")
                signal.raise_signal(signal.SIGTERM)
                return
            if asked.is_set() or self._watch.changed():
                asked.clear()
                with self._manager.reloading():
                    await self._load()

    def _files(self, config: Config) -> list[Path]:
        """Files that the configuration consists of."""
        return [*([self._file] if self._file is not None else []), *map(Path, config.mcp.files)]

    async def _load(self) -> None:
        service, port = self._service, self._address[1]
        try:
            begun = await start_gateway(
                self._options, self._environ, self._transport, own_port=port, before=service.gateway
            )
        except (ConfigError, UnsafeServerError) as error:
            log.error("the configuration is invalid; the last valid one stays in use:\n%s", error)
            return
        except Exception:
            # No error may end the watch: the next change may fix the configuration.
            log.exception("the configuration could not be loaded; the last valid one stays in use")
            return
        if service.host is not None:
            try:
                await service.host.update(begun.gateway.config.mcp.servers)
            except MissingExtraError as error:
                log.error("the configuration is invalid; the last valid one stays in use:\n%s", error)
                return
        service.gateway = begun.gateway
        self._watch.follow(self._files(begun.gateway.config))
        log.info("the configuration was reloaded")
        for what in _find_unapplied(self._begun, begun.gateway.config):
            log.warning("a change of %s requires a restart; until then the old value stays in use", what)


def ends_with_terminal() -> bool:
    """Return whether closing the terminal ends this process. It sends SIGHUP, too. Not if the process was started with
    `nohup`, which ignores SIGHUP: then SIGHUP only reloads the configuration. Call it before SIGHUP has a handler."""
    return has_terminal() and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN


def has_terminal() -> bool:
    """Return whether this process has a controlling terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _find_unapplied(begun: Config, now: Config) -> Iterator[str]:
    """Find changed settings that take effect only when the server starts."""
    settings = {
        f"host or port than {begun.server.host}:{begun.server.port}": (
            (begun.server.host, begun.server.port),
            (now.server.host, now.server.port),
        ),
        "server.workers": (begun.server.workers, now.server.workers),
        "store": (begun.store, now.store),
        "team": (reload_team(begun.team, now.team), now.team),
        "record": (begun.record, now.record),
        "log": (begun.log, now.log),
        "limits.connections": (begun.limits.connections, now.limits.connections),
        "limits.upstream_connections": (begun.limits.upstream_connections, now.limits.upstream_connections),
    }
    return (what for what, (before, after) in settings.items() if before != after)
