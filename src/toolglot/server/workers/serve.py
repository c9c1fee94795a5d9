"""`toolglot serve`, in this process or in several. A single worker needs no parent and has none."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from toolglot.config.problems import ConfigError, Problem
from toolglot.server import run as server
from toolglot.server.startup import StartedGateway, StartOptions, load_options


def run(
    options: StartOptions,
    environ: Mapping[str, str],
    *,
    log_format: str | None = None,
    quiet: bool = False,
    on_ready: Callable[[str, StartedGateway], None] = lambda url, start: None,
) -> None:
    """Serve until a signal ends it. Raises `ConfigError`, `UnsafeServerError` or `PortInUseError` before it begins, and
    `GaveUpError` if workers cannot be kept alive."""
    config, _, _ = load_options(options, environ)
    if config.server.workers == 1:
        server.run(options, environ, log_format=log_format, quiet=quiet, on_ready=on_ready)
        return
    if not hasattr(os, "fork"):
        message = "several workers need a system that can fork, and this one cannot"
        raise ConfigError([Problem(file="--workers", message=message)])
    from toolglot.server.workers.parent import supervise  # uses signals that only POSIX has

    supervise(config, options, environ, log_format, quiet, on_ready)
