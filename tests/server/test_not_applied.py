"""What a reload cannot change is said, each time the file and the running server disagree."""

from __future__ import annotations

from toolglot.config.schema import Config, Limits, LogConfig, ServerConfig, StoreConfig
from toolglot.server.reload import _find_unapplied

BEGUN = Config(server=ServerConfig(port=4201))


def test_only_what_takes_a_restart_is_told() -> None:
    assert list(_find_unapplied(BEGUN, Config(server=ServerConfig(port=4201, keys=("k",)), strict=True))) == []
    told = Config(
        server=ServerConfig(port=4202),
        store=StoreConfig(path=":memory:"),
        log=LogConfig(level="debug"),
        limits=Limits(connections=5, upstream_connections=6),
    )
    assert list(_find_unapplied(BEGUN, told)) == [
        "host or port than 127.0.0.1:4201",
        "store",
        "log",
        "limits.connections",
        "limits.upstream_connections",
    ]


def test_going_back_to_what_is_running_is_no_news() -> None:
    assert list(_find_unapplied(BEGUN, BEGUN)) == []
