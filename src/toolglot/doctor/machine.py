"""Check the machine: Python, the port, the store's location, the keys. Sends and writes nothing."""

from __future__ import annotations

import errno
import os
import platform
import shutil
import socket
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

from toolglot import __version__
from toolglot.cli.agents import AGENTS, Agent
from toolglot.config.schema import Config, ServerConfig, UpstreamConfig
from toolglot.doctor.finding import Finding, fail, ok, warn
from toolglot.server import tracing
from toolglot.server.security import UnsafeServerError, check_bind
from toolglot.store.sqlite import MEMORY, NO_STORE, default_path
from toolglot.upstream.vendors import VENDORS

SQLITE = b"SQLite format 3\0"
PLACEHOLDERS = ("your", "xxx", "changeme", "change-me", "replace", "placeholder", "...", "<", "todo")
"""Placeholders that examples use instead of a key."""


def check_python() -> list[Finding]:
    findings = [ok("python", f"toolglot {__version__} on Python {platform.python_version()}, {platform.system()}")]
    if sys.platform != "win32" and find_spec("uvloop") is None:
        findings.append(warn("python", "uvloop is not installed: serving is slower", "pip install uvloop"))
    return findings


def check_tracing(environ: Mapping[str, str]) -> list[Finding]:
    """Check the export of traces, if the environment enables it."""
    if tracing.find_exporter(environ) is None:
        return []
    if find_spec("opentelemetry") is None:
        advice = f"pip install '{tracing.EXTRA}'"
        return [warn("traces", "the environment enables traces, but OpenTelemetry is not installed", advice)]
    return [ok("traces", "requests are traced with OpenTelemetry")]


def check_port(server: ServerConfig, is_toolglot: Callable[[str], bool]) -> list[Finding]:
    """Check that the gateway may serve at this address and that the port is free."""
    subject = f"{server.host}:{server.port}"
    try:
        check_bind(server)
    except UnsafeServerError as error:
        return [fail("port", str(error), "add keys under `server.keys`, preferably as references: ${NAME}", subject)]
    wanted = f"clients must send one of {len(server.keys)} keys" if server.keys else "clients need no key"
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((server.host, server.port))
        except OSError as error:
            return [_port_in_use(server, error, subject, is_toolglot)]
    return [ok("port", f"free; {wanted}", subject)]


def _port_in_use(server: ServerConfig, error: OSError, subject: str, is_toolglot: Callable[[str], bool]) -> Finding:
    if error.errno == errno.EADDRINUSE:
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(server.host, server.host)
        if is_toolglot(f"http://[{host}]:{server.port}" if ":" in host else f"http://{host}:{server.port}"):
            return ok("port", "toolglot is already running there", subject)
        return fail("port", "another program uses this port", "stop it, or use another port: --port", subject)
    if error.errno == errno.EACCES:
        return fail("port", "this user may not use this port", "choose a port above 1023: --port", subject)
    return fail("port", f"cannot listen there: {error.strerror or error}", "is `server.host` right?", subject)


def check_store(config: Config, environ: Mapping[str, str]) -> list[Finding]:
    """Check that responses can be stored, without creating the file, which a gateway does when it starts."""
    path = config.store.path or str(default_path(environ, Path(environ.get("HOME") or "~").expanduser()))
    if path == MEMORY:
        return [ok("store", "in memory: stored responses are lost when the gateway exits", path)]
    if path == NO_STORE:
        return [ok("store", "none: clients must send back the state that their models need", path)]
    advice = "choose another file: `store.path`, or --store"
    file = Path(path)
    try:
        if file.is_file():
            with file.open("r+b") as opened:
                begins = opened.read(len(SQLITE))
            if begins not in (b"", SQLITE):
                return [fail("store", "this is not a toolglot store", advice, path)]
            return [ok("store", "exists and is writable", path)]
        folder = next(parent for parent in file.parents if parent.exists())
    except OSError as error:
        return [fail("store", f"cannot be used: {error.strerror}", advice, path)]
    if file.exists() or not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        return [
            fail(
                "store",
                f"cannot be created: check the type and permissions of {file if file.exists() else folder}",
                advice,
                path,
            )
        ]
    return [ok("store", "it will be created", path)]


def check_key(name: str, upstream: UpstreamConfig) -> Finding:
    """Check that there is a plausible key. It is never shown."""
    vendor = VENDORS.get(upstream.vendor or "")
    variables = " or ".join(variable.name for variable in vendor.keys) if vendor is not None else ""
    text = upstream.key
    if text is None and upstream.refresh_token is not None:
        return ok("key", "obtained with a refresh token", name)
    if text is None:
        if vendor is not None and variables and upstream.base_url == vendor.base_url:
            return fail("key", "no key found", f"set {variables}, or `upstreams.{name}.key`", name)
        return ok("key", "no key is needed or sent", name)
    if not text.strip():
        return fail("key", "it is empty", f"check that the variable in `upstreams.{name}.key` is set", name)
    if not text.isascii() or not text.isprintable() or " " in text.strip():
        return fail(
            "key",
            "it contains characters that are invalid in a key",
            "copy it again without quotes and line breaks",
            name,
        )
    if any(word in text.lower() for word in PLACEHOLDERS):
        return warn("key", "it looks like a placeholder", "replace it with the real key", name)
    return ok("key", "key found", name)


def largest_agent(path: str | None) -> Agent | None:
    """Return the installed agent with the largest first request."""
    found = [agent for agent in AGENTS.values() if agent.first_request and shutil.which(agent.command, path=path)]
    return max(found, key=lambda agent: agent.first_request or 0, default=None)
