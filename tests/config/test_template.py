"""What `toolglot config init` writes: nothing until it is edited, and everything once it is."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, fields

from toolglot.config import documents
from toolglot.config.json_schema import docstrings
from toolglot.config.load import read_config
from toolglot.config.schema import Config, McpConfig, McpServerConfig
from toolglot.config.template import SECTIONS, template
from toolglot.upstream.transport import Timeouts

SET = re.compile(r"^#(?=\S)", re.MULTILINE)
ENVIRON = {"TOOLGLOT_KEY": "k", "OPENROUTER_API_KEY": "k"}


def plain(value: Any) -> Any:
    return asdict(value) if isinstance(value, Struct) else list(value) if isinstance(value, tuple) else value


def test_the_file_changes_nothing_until_it_is_edited() -> None:
    assert tomllib.loads(template()) == {}


def test_every_setting_is_in_it_and_all_of_them_together_are_right() -> None:
    text = SET.sub("", template())
    loaded = read_config(documents.parse_document(text.encode(), "toolglot.toml"), ENVIRON)
    assert (loaded.notes, loaded.doubts) == ((), ())
    config = loaded.config
    said = tomllib.loads(text)
    assert said.keys() == set(Config.__struct_fields__)
    for name, table, record in (
        ("server", said["server"], config.server),
        ("upstreams.local", said["upstreams"]["local"], config.upstreams["local"]),
        ("pool", said["upstreams"]["openrouter"]["pool"][0], config.upstreams["openrouter"].pool[0]),
        ("retries", said["upstreams"]["local"]["retries"], config.upstreams["local"].retries),
        ("breaker", said["upstreams"]["local"]["breaker"], config.upstreams["local"].breaker),
        ("timeouts", said["upstreams"]["local"]["timeouts"], config.upstreams["local"].timeouts),
        ("models", said["models"]["claude-*"], config.models["claude-*"]),
        ("limits", said["limits"], config.limits),
        ("store", said["store"], config.store),
        ("log", said["log"], config.log),
    ):
        elsewhere = {"pool"} if name == "upstreams.local" else set()
        assert list(table) == [field for field in record.__struct_fields__ if field not in elsewhere], name
    assert said["mcp"].keys() == set(McpConfig.__struct_fields__)
    of_servers = {field for server in said["mcp"]["servers"].values() for field in server}
    assert of_servers == set(McpServerConfig.__struct_fields__)


def test_what_is_no_example_is_the_default() -> None:
    shown = tomllib.loads("\n".join(SET.sub("", line) for line in template().splitlines() if "an example" not in line))
    without = {name: shown[name] for name in ("limits", "log", "mcp", "server", "store", "discover", "strict")}
    without["mcp"].pop("servers")
    loaded = read_config(documents.parse_document(b"", "a.toml"), {}).config
    for name, value in without.items():
        default = plain(getattr(loaded, name))
        if not isinstance(value, dict):
            assert value == default
            continue
        assert value == {field: plain(default[field]) for field in value}


def test_every_field_is_explained() -> None:
    for section in SECTIONS:
        told = dict(docstrings(section.record))
        for field in fields(section.record):
            assert field.name in told or section.record is Timeouts, f"{section.record.__name__}.{field.name}"
    assert max(map(len, template().splitlines())) <= 120
