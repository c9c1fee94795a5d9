"""Gateways with MCP servers, each a process of its own, in front of scripted upstreams of every dialect."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.gateway.processes import free_port

from tests.agent.hosting import SERVERS
from tests.e2e.gateway import serving
from tests.e2e.js_ways import NODE
from tests.e2e.needs import MCP_SERVERS
from tests.waiting import FAILSAFE, until
from tests.warp_server.agent import TOKEN

from .upstreams import TEXT, TEXT_FORMAT, Upstream

EVERYDAY = SERVERS / "everyday.py"

Server = Mapping[str, Any]


def python_server(script: Path, *arguments: str, **fields: Any) -> Server:
    return {"command": sys.executable, "args": [str(script), *arguments], **fields}


def published_server(name: str, *arguments: str, **fields: Any) -> Server:
    return {"command": str(NODE), "args": [str(MCP_SERVERS / name / "dist" / "index.js"), *arguments], **fields}


@dataclass(frozen=True)
class Running:
    """A gateway, the upstreams behind it, and the file of its log."""

    base_url: str
    upstreams: Mapping[str, Upstream]
    log: Path

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"{self.base_url}{path}", timeout=FAILSAFE) as reply:
            return str(reply.read().decode())

    def post(self, path: str, body: Any, headers: Mapping[str, str]) -> tuple[int, str]:
        """The status and the text of an answer to any body at all."""
        data = json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.base_url}{path}", data, {"content-type": "application/json", **headers}
        )
        try:
            with urllib.request.urlopen(request, timeout=FAILSAFE) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def states(self) -> dict[str, Any]:
        """How its MCP servers are."""
        return {server["name"]: server for server in json.loads(self.get("/debug/mcp"))["servers"]}

    def receipt(self, text: str, **wanted: Any) -> dict[str, Any]:
        """The newest receipt that has this text in it, and these fields. It is there soon after the end."""

        def found() -> dict[str, Any] | None:
            receipts: list[dict[str, Any]] = json.loads(self.get("/debug/receipts"))["receipts"]
            fitting = (each for each in receipts if text in json.dumps(each) and wanted.items() <= each.items())
            return next(fitting, None)

        return until(found, f"a receipt with {text!r}")

    def logged(self, request_id: str, message: str) -> list[dict[str, Any]]:
        """The log entries of a request whose message matches. They are there soon after its end."""

        def found() -> list[dict[str, Any]]:
            # Only whole lines: the gateway may be writing the last one.
            lines = self.log.read_text().rpartition("\n")[0].splitlines()
            entries = (json.loads(line) for line in lines if request_id in line)
            return [entry for entry in entries if re.search(message, entry["message"])]

        return until(found, f"log entry with {message!r} of {request_id}")

    def until(self, server: str, **wanted: Any) -> dict[str, Any]:
        """Wait until the state of a server says this."""

        def found() -> dict[str, Any] | None:
            state: dict[str, Any] = self.states()[server]
            return state if wanted.items() <= state.items() else None

        return until(found, f"{server} as {wanted}")


def _table(name: str, fields: Mapping[str, Any]) -> str:
    """TOML of a table: all values that are here are written as in JSON, but for tables."""
    lines = [f"[{name}]"]
    for key, value in fields.items():
        if isinstance(value, Mapping):
            inside = ", ".join(f"{json.dumps(field)} = {json.dumps(text)}" for field, text in value.items())
            lines.append(f"{key} = {{ {inside} }}")
        else:
            lines.append(f"{key} = {json.dumps(value)}")
    return "\n".join(lines) + "\n"


def configuration(
    upstreams: Mapping[str, Upstream], servers: Mapping[str, Server], attached: list[str], warp_history: str
) -> str:
    """Each upstream is a model of its own name, with the attached servers, and one named `plain-…` without."""
    tables: list[str] = []
    for name, upstream in upstreams.items():
        special = {"warp": {"key": TOKEN, "warp_history": warp_history}}.get(name, {})
        dialect = "openai_chat" if name == TEXT else name
        retries = {"retries": {"attempts": 1}}
        tables.append(_table(f"upstreams.{name}", {"dialect": dialect, "base_url": upstream.url, **retries, **special}))
        tools = {"tools": TEXT_FORMAT} if name == TEXT else {}
        tables.append(_table(f"models.{name}", {"upstream": name, "mcp": attached, **tools}))
        tables.append(_table(f"models.plain-{name}", {"upstream": name, **tools}))
    tables += [_table(f"mcp.servers.{name}", fields) for name, fields in servers.items()]
    return "".join(tables)


@contextmanager
def gateway(
    folder: Path,
    upstreams: Mapping[str, Upstream],
    servers: Mapping[str, Server],
    *,
    attached: list[str] | None = None,
    stored: bool = True,
    more: str = "",
) -> Iterator[Running]:
    """Without a store: its file is a folder."""
    history = "replay" if stored else "native"
    text = more + configuration(upstreams, servers, attached or [], history)
    (folder / "toolglot.toml").write_text(text)
    store = ":memory:" if stored else str(folder)
    with serving(folder, "--config", str(folder / "toolglot.toml"), "--store", store) as base_url:
        yield Running(base_url, upstreams, folder / "gateway.log")


@contextmanager
def over_http(command: list[str], port: int, environment: Mapping[str, str] | None = None) -> Iterator[None]:
    """A server in a process of its own, until it takes connections."""
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until(lambda: _answers(port) or process.poll() is not None, f"answer of {command}")
            assert process.poll() is None, f"{command} did not start"
            yield
        finally:
            process.kill()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def everything_over_http() -> Iterator[str]:
    port = free_port()
    script = MCP_SERVERS / "server-everything" / "dist" / "index.js"
    with over_http([str(NODE), str(script), "streamableHttp"], port, {"PORT": str(port)}):
        yield f"http://127.0.0.1:{port}/mcp"
