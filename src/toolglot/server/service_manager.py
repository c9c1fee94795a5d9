"""Tell the service manager (systemd) when the gateway is ready, reloads its configuration, or stops.

The protocol is one datagram for each state, sent to the socket that `NOTIFY_SOCKET` names. Without the variable,
nothing is sent.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

log = logging.getLogger("toolglot.server")

VARIABLE = "NOTIFY_SOCKET"

SEND_TIMEOUT = 1.0
"""Seconds to wait for a manager that does not read."""


class ServiceManager:
    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = environ.get(VARIABLE, "")
        self._status = "serving"

    def ready(self, status: str) -> None:
        """Report that requests are accepted. The status is for people: `systemctl status` shows it."""
        self._status = " ".join(status.split())
        self._send("READY=1", f"STATUS={self._status}")

    def stopping(self) -> None:
        """Report that no new requests are accepted; running requests continue."""
        self._send("STOPPING=1", "STATUS=finishing the running requests")

    @contextmanager
    def reloading(self) -> Iterator[None]:
        """Report that the configuration is reloaded inside the block. Afterward, the gateway serves with the new or the
        old configuration."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")
        try:
            yield
        finally:
            self.ready(self._status)

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        # A name that begins with `@` is in the abstract namespace, which is not in the file system.
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(SEND_TIMEOUT)
                sender.sendto("\n".join(lines).encode(), address)
        except (AttributeError, OSError, ValueError) as error:
            log.warning("the service manager could not be notified: %s", error)
