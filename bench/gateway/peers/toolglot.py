"""This gateway, from the working tree or at a revision."""

from __future__ import annotations

import compileall
import sys
from pathlib import Path

import toolglot
from bench.gateway.cases import PAIRS
from bench.gateway.peers.record import KEY, Here, Launch, Peer, Place, Revision

_CONFIG = """\
discover = false

[server]
port = {port}
workers = {workers}

[upstreams.chat]
dialect = "openai_chat"
base_url = "{upstream}/v1"
key = "{key}"
models = ["gpt-4o*"]

[upstreams.responses]
dialect = "openai_responses"
base_url = "{upstream}/v1"
key = "{key}"
models = ["gpt-4.1*"]

[upstreams.messages]
dialect = "anthropic"
base_url = "{upstream}"
key = "{key}"
models = ["claude-*"]

[upstreams.gemini]
dialect = "gemini"
base_url = "{upstream}"
key = "{key}"
models = ["gemini-*"]

[limits]
connections = 20000
concurrent_requests = 20000
upstream_connections = 20000

[store]
path = "store.sqlite3"

[log]
level = "error"
"""


def _path_of_revision(home: Path) -> dict[str, str]:
    return {"PYTHONPATH": f"{home / 'src'}:{home / 'packages'}"}


def _launch_revision(place: Place) -> Launch:
    return launch(place)._replace(environment=_path_of_revision(place.home))


def launch(place: Place, workers: int = 1) -> Launch:
    # As an installation is, and the peers are: else whatever was edited is compiled in the process that is measured.
    compileall.compile_dir(Path(toolglot.__file__).parent, quiet=1)
    config = _CONFIG.format(port=place.port, workers=workers, upstream=place.upstream_url, key=KEY)
    command = (sys.executable, "-m", "toolglot", "serve", "--config", "toolglot.toml")
    return Launch(command, files={"toolglot.toml": config})


TOOLGLOT = Peer(
    name="toolglot",
    title="toolglot",
    routes=PAIRS,
    launch=launch,
    install=Here("toolglot"),
    ready="/ready",
    health="/health",
    library=lambda home: {},
    settings="one process, log of errors alone, limits raised for the many streams",
)


def base(revision: str) -> Peer:
    """Another version, which this one is compared with."""
    title = f"base ({revision})"
    return TOOLGLOT._replace(
        name="base",
        title=title,
        launch=_launch_revision,
        install=Revision(revision),
        library=_path_of_revision,
    )
