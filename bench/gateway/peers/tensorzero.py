"""TensorZero's gateway, as its Python package embeds it: the same Rust code as the server, on a port of its choice."""

from __future__ import annotations

from bench.gateway.answers import Dialect
from bench.gateway.cases import CHAT_TO_ANTHROPIC, CHAT_TO_CHAT, Route
from bench.gateway.peers.record import KEY, Launch, Peer, Place, Python
from bench.gateway.requests import model_names

_START = """\
import pathlib, threading, urllib.parse
import tensorzero

gateway = tensorzero._start_http_gateway(
    config_file="tensorzero.toml", clickhouse_url=None, postgres_url=None, valkey_url=None, async_setup=False
)
pathlib.Path("port").write_text(str(urllib.parse.urlsplit(gateway.base_url).port))
threading.Event().wait()
"""

_MODEL = """\
[models."{name}"]
routing = ["bench"]

[models."{name}".providers.bench]
type = "{kind}"
model_name = "{name}"
api_base = "{url}"
api_key_location = "env::BENCH_KEY"
"""


def _tensorzero(place: Place) -> Launch:
    config = ["gateway.observability.enabled = false\n"]
    kinds: dict[Dialect, str] = {"openai_chat": "openai", "anthropic": "anthropic"}
    for upstream, kind in kinds.items():
        url = f"{place.upstream_url}/v1/"
        config += [_MODEL.format(name=name, kind=kind, url=url) for name in model_names(upstream)]
    return Launch(
        (str(place.home / "bin" / "python"), "start.py"),
        {"BENCH_KEY": KEY, "RUST_LOG": "error"},
        {"start.py": _START, "tensorzero.toml": "\n".join(config)},
    )


def _model(route: Route, model: str) -> str:
    return f"tensorzero::model_name::{model}"


TENSORZERO = Peer(
    name="tensorzero",
    title="TensorZero, embedded",
    routes=(CHAT_TO_CHAT, CHAT_TO_ANTHROPIC),
    launch=_tensorzero,
    install=Python(("tensorzero==2026.6.0",), "tensorzero"),
    ready="/openai/v1/chat/completions",
    health="/openai/v1/chat/completions",
    ready_status=405,
    model=_model,
    paths={"openai_chat": "/openai/v1/chat/completions"},
    chooses_port=True,
    settings="observability off",
)
