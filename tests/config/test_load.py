"""The file that is used, what it says, references to elsewhere, and that no secret is ever printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from toolglot.config.file_watch import FileWatch
from toolglot.config.load import NAMES, Loaded, load_config
from toolglot.config.problems import ConfigError
from toolglot.config.schema import Config, ModelConfig, UpstreamConfig

TOML = """
"$schema" = "toolglot.schema.json"
default_upstream = "local"
[server]
port = "${PORT:-5000}"
insecure = "${INSECURE}"
[upstreams.local]
dialect = "openai-chat"
base_url = "http://${HOST}:8000/v1"
key = "file:key.txt"
headers = { X-Team = "${TEAM}" }
timeouts.connect = 3
quirks = { efforts = ["low", "high"], image_types = ["image/png"] }
[models."claude-*"]
upstream = "local"
model = "price-$${x}"
"""
YAML = """
$schema: toolglot.schema.json
default_upstream: local
server: {port: "${PORT:-5000}", insecure: "${INSECURE}"}
log:
upstreams:
  local:
    dialect: openai-chat
    base_url: http://${HOST}:8000/v1
    key: file:key.txt
    headers: {X-Team: "${TEAM}"}
    timeouts: {connect: 3}
    quirks: {efforts: [low, high], image_types: [image/png]}
models:
  claude-*: {upstream: local, model: "price-$${x}"}
"""
ENVIRON = {"HOST": "127.0.0.1", "TEAM": "secret-team", "INSECURE": "true"}


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(("name", "text"), [("toolglot.toml", TOML), ("toolglot.yaml", YAML)])
def test_toml_and_yaml_say_the_same(tmp_path: Path, name: str, text: str) -> None:
    written(tmp_path, "key.txt", "secret-key\n")
    config = load_config(written(tmp_path, name, text), ENVIRON).config
    local = config.upstreams["local"]
    assert (config.server.port, config.server.insecure, config.default_upstream) == (5000, True, "local")
    assert (local.base_url, local.key, local.headers) == (
        "http://127.0.0.1:8000/v1",
        "secret-key",
        {"X-Team": "secret-team"},
    )
    assert local.timeouts.connect == 3
    assert local.quirks == {"efforts": ("low", "high"), "image_types": frozenset({"image/png"})}
    assert config.models == {"claude-*": ModelConfig(upstream="local", model="price-${x}")}


def test_a_printed_configuration_has_no_secret_in_it(tmp_path: Path) -> None:
    written(tmp_path, "key.txt", "secret-key")
    text = TOML.replace("port =", 'keys = ["secret-client"]\nport =')
    loaded = load_config(written(tmp_path, "toolglot.toml", text), ENVIRON)
    assert loaded.config.server.keys == ("secret-client",)
    assert "secret" not in repr(loaded).replace(str(tmp_path), "")
    assert "(hidden)" in repr(loaded.config.upstreams["local"])
    assert repr(UpstreamConfig()).startswith("UpstreamConfig(vendor=None, dialect=None, base_url=None, key=None,")


def test_without_a_file_everything_has_a_default(tmp_path: Path) -> None:
    assert load_config(None, {"HOME": str(tmp_path)}, tmp_path) == Loaded(Config())


@pytest.mark.parametrize("name", NAMES)
def test_a_file_in_the_folder_comes_before_the_users_own(tmp_path: Path, name: str) -> None:
    own = written(tmp_path / "home/.config/toolglot", name, "")
    environ = {"HOME": str(tmp_path / "home")}
    assert load_config(None, environ, tmp_path).path == own
    elsewhere = written(tmp_path / "xdg/toolglot", name, "")
    assert load_config(None, {**environ, "XDG_CONFIG_HOME": str(tmp_path / "xdg")}, tmp_path).path == elsewhere
    here = written(tmp_path, name, "")
    assert load_config(None, environ, tmp_path).path == here


def test_two_files_in_one_folder_are_refused(tmp_path: Path) -> None:
    written(tmp_path, "toolglot.toml", "")
    written(tmp_path, "toolglot.yml", "")
    with pytest.raises(ConfigError, match=r"toolglot.toml: there is also toolglot.yml: keep only one of them"):
        load_config(None, {"HOME": str(tmp_path)}, tmp_path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.toml: no such file or directory"):
        load_config(tmp_path / "missing.toml", {})


@pytest.mark.parametrize(
    ("content", "why"), [(b"", "empty"), (b" \n", "empty"), (b"\xff", "not UTF-8 text"), (b"x" * 70_000, "too large")]
)
def test_a_secret_must_be_in_its_file(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "key").write_bytes(content)
    path = written(tmp_path, "a.toml", "[upstreams.openai]\nkey = 'file:key'\n")
    with pytest.raises(ConfigError, match=f"a.toml:2:1: upstreams.openai.key: {re.escape(str(tmp_path))}/key: {why}"):
        load_config(path, {})


def test_a_default_stands_for_a_variable_that_is_empty_too(tmp_path: Path) -> None:
    path = written(tmp_path, "a.toml", "default_upstream = '${NAME:-demo}'")
    assert load_config(path, {"NAME": ""}).config.default_upstream == "demo"


def test_a_fallback_that_a_local_server_may_serve_is_a_note(tmp_path: Path) -> None:
    text = "[models.a]\nupstream = 'demo'\nfallbacks = ['qwen3', 'ollama/x', 'claude-*']\n"
    text = text.replace(", 'claude-*'", "")
    environ = {"OPENAI_API_KEY": "k", "GROQ_API_KEY": "k"}
    loaded = load_config(written(tmp_path, "a.toml", text), environ)
    told = f"{tmp_path}/a.toml:3:14: models.a.fallbacks[0]: no upstream serves `qwen3`, unless a local server does"
    assert loaded.notes == (told,)


def test_a_pattern_may_fall_back_on_what_it_matches_itself(tmp_path: Path) -> None:
    text = "[models.'claude-*']\nupstream = 'demo'\nfallbacks = ['claude-haiku', 'demo/claude-*']\n"
    assert load_config(written(tmp_path, "a.toml", text), {}).notes == ()


def test_a_setting_without_effect_is_told(tmp_path: Path) -> None:
    path = written(tmp_path, "a.toml", 'discover = false\ntransport = "aiohttp"\n')
    told = f"{path}:2:1: transport: this setting has no effect: there is only one HTTP client"
    assert load_config(path, {}).notes == (told,)


def test_a_watch_tells_each_change_of_content_once(tmp_path: Path) -> None:
    path = written(tmp_path, "a.toml", "strict = true")
    watch = FileWatch(path)
    assert not watch.changed()
    path.write_text("strict = false")
    assert watch.changed()
    assert not watch.changed()


def test_a_watch_is_not_moved_by_a_touch_or_by_a_moment_without_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "a.toml", "strict = true")
    watch = FileWatch(path)
    path.unlink()
    assert not watch.changed()
    written(tmp_path, "b.toml", "strict = true").rename(path)
    assert not watch.changed()
    written(tmp_path, "b.toml", "strict = null").rename(path)
    assert watch.changed()


def test_a_watch_sees_a_file_that_was_not_there_before(tmp_path: Path) -> None:
    watch = FileWatch(tmp_path / "a.toml")
    assert not watch.changed()
    written(tmp_path, "a.toml", "strict = true")
    assert watch.changed()


def test_a_watch_waits_for_the_content_of_a_file_that_an_editor_has_emptied(tmp_path: Path) -> None:
    path = written(tmp_path, "a.toml", "strict = true")
    watch = FileWatch(path)
    path.write_text("")
    assert not watch.changed()
    path.write_text("strict = false")
    assert watch.changed()


def test_what_only_warps_servers_understand_is_noted_elsewhere(tmp_path: Path) -> None:
    warp = '[upstreams.warp]\nwarp_history = "text"\n'
    text = f'[upstreams.openai]\nwarp_history = "native"\ndisable_warp_tools = false\n{warp}'
    path = written(tmp_path, "a.toml", text)
    assert load_config(path, {}).notes == (
        f"{path}:2:1: upstreams.openai.warp_history: no effect: this upstream's dialect is not `warp`",
        f"{path}:3:1: upstreams.openai.disable_warp_tools: no effect: this upstream's dialect is not `warp`",
    )


@pytest.mark.parametrize(
    ("label", "told"),
    [
        ("tg-a-key-of-mine", "mcp.servers.day.keys[0]: expected a key's label, not the key itself"),
        ("key-2", "mcp.servers.day.keys[0]: there is no key-2: `server.keys` has 1"),
        ("key-1", ""),
    ],
)
def test_an_mcp_server_is_for_keys_that_there_are(tmp_path: Path, label: str, told: str) -> None:
    file = tmp_path / "toolglot.toml"
    server = f"[mcp.servers.day]\ncommand = 's'\nkeys = ['{label}']\n"
    file.write_text(f"discover = false\n[server]\nkeys = ['a-long-enough-key']\n{server}")
    if not told:
        assert load_config(file, {}).config.mcp.servers["day"].keys == ("key-1",)
        return
    with pytest.raises(ConfigError) as caught:
        load_config(file, {})
    assert told in str(caught.value)
    assert "a-key-of-mine" not in str(caught.value)
