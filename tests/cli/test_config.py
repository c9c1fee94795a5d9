"""`toolglot config`: check, schema, explain, init."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.run import run
from toolglot.config.json_schema import text
from toolglot.upstream.vendors import UNUSED_VARIABLES, VENDORS

RIGHT = """
default_upstream = "local"
discover = false
[upstreams.local]
dialect = "openai_chat"
base_url = "http://127.0.0.1:8000/v1"
key = "sk-secret"
[models."claude-*"]
upstream = "local"
model = "qwen3"
fallbacks = ["demo"]
context_window = 1000
quirks = { max_tools = 3 }
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own, and an environment without keys."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    for vendor in VENDORS.values():
        for name in (*(key.name for key in vendor.keys), *vendor.base_url_variables):
            monkeypatch.delenv(name, raising=False)
    for name in UNUSED_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_a_right_file_is_fine(folder: Path) -> None:
    (folder / "toolglot.toml").write_text(RIGHT)
    result = run("config", "check")
    assert (result.exit_code, result.stdout) == (0, "toolglot.toml: 1 upstream, 1 model name: valid\n")


def test_a_wrong_file_is_refused_with_every_problem(folder: Path) -> None:
    (folder / "x.yaml").write_text("strikt: true\nserver: {port: 0}\n")
    result = run("config", "check", "x.yaml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines() == [
        "toolglot: x.yaml:1:1: strikt: unknown field; did you mean `strict`?",
        "toolglot: x.yaml:2:10: server.port: expected a whole number >= 1",
    ]


def test_a_file_that_could_not_be_served_is_refused_too(folder: Path) -> None:
    (folder / "toolglot.toml").write_text("[upstreams.me]\ndialect = 'gemini'\nbase_url = 'http://127.0.0.1:4141'\n")
    result = run("config", "check")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "this points to the gateway itself" in result.stderr
    assert run("config", "explain", "me/x").exit_code == 0  # it still says what it means


def test_recordings_that_are_not_there_are_no_upstream(folder: Path) -> None:
    (folder / "toolglot.toml").write_text(
        "discover = false\n[upstreams.then]\ndialect = 'gemini'\nbase_url = 'replay:./nothere'\n"
    )
    result = run("config", "check")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "toolglot.toml:4:1: upstreams.then.base_url: the upstream then answers from recordings" in result.stderr
    assert "does not exist; a relative path starts at the directory where toolglot was started" in result.stderr
    (folder / "nothere").mkdir()
    result = run("config", "check")
    assert result.exit_code == 0
    assert "answers from recordings in nothere, which has none yet" in result.stdout


def test_a_file_that_is_not_there_is_told_alike_by_every_command() -> None:
    commands = (("config", "check"), ("config", "explain", "m", "--config"), ("serve", "--config"))
    for arguments in (*commands, ("launch", "claude", "--config")):
        result = run(*arguments, "nothing.toml")
        assert (result.exit_code, result.output) == (2, "toolglot: nothing.toml: no such file or directory\n")


def test_without_a_file_what_was_found_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("WARP_API_KEY", "wk-secret")
    assert run("config", "check").stdout.splitlines() == [
        "no configuration file: using the defaults: 1 upstream, 0 model names: valid",
        "  OPENAI_API_KEY: upstream openai (openai_responses at https://api.openai.com/v1)",
        "  WARP_API_KEY: not used: Warp is used only where the configuration has an upstream `warp`",
    ]


def test_the_schema_is_printed() -> None:
    assert run("config", "schema").stdout == text()


def test_a_model_is_explained_step_by_step(folder: Path) -> None:
    (folder / "x.toml").write_text(RIGHT)
    result = run("config", "explain", "claude-opus[1m]", "--config", "x.toml")
    assert result.stdout.splitlines() == [
        "x.toml",
        "  aliases: claude-opus[1m]: no",
        "  aliases: claude-opus: no",
        "  patterns of aliases: claude-opus: the alias claude-*",
        "goes to qwen3 of local (openai_chat at http://127.0.0.1:8000/v1); window 1000; quirks max_tools",
        "then to demo of demo (openai_chat at demo:)",
    ]


def test_settings_that_are_not_the_defaults_are_explained(folder: Path) -> None:
    (folder / "x.toml").write_text(
        'discover = false\n[upstreams.claude]\ndialect = "anthropic"\nbase_url = "demo:"\ncache_marks = "always"\n'
        "[upstreams.claude.timeouts]\nprogress = 60\n[upstreams.claude.retries]\nattempts = 1\n"
        '[models.m]\nupstream = "claude"\nbad_calls = "ask"\nrescue = true\n'
    )
    lines = run("config", "explain", "m", "--config", "x.toml").stdout.splitlines()
    assert lines[-3:] == [
        "goes to m of claude (anthropic at demo:); bad_calls ask; rescue; cache_marks always",
        "  timeouts: progress 60",
        "  retries: attempts 1",
    ]


HISTORIES = """
discover = false
[history]
result_bytes = 30000
max_messages = 90
max_images = 5
[upstreams.local]
dialect = "openai_chat"
base_url = "http://127.0.0.1:8000/v1"
max_history_messages = 60
[upstreams.local.history]
max_tokens = 24000
max_images = 0
[upstreams.warp]
dialect = "warp"
base_url = "http://127.0.0.1:8001"
[models."small.*"]
upstream = "local"
model = "qwen3-*"
fallbacks = ["other", "warp/auto"]
[models."small.*".history]
max_tokens = 6000
continuation = true
[models.other]
upstream = "local"
model = "gemma"
history = "cline_xml"
"""


def test_the_fallbacks_of_a_catch_all_are_the_upstreams_that_they_name(folder: Path) -> None:
    upstreams = "".join(
        f'[upstreams.{name}]\ndialect = "openai_chat"\nbase_url = "http://127.0.0.1:800{port}/v1"\n'
        for port, name in enumerate("ab")
    )
    (folder / "x.toml").write_text(f'{upstreams}[models."*"]\nupstream = "a"\nfallbacks = ["b/*"]\n')
    lines = run("config", "explain", "m", "--config", "x.toml").stdout.splitlines()
    targets = [line.split(" (")[0] for line in lines if line.startswith(("goes to", "then to"))]
    assert targets == ["goes to m of a", "then to m of b"]


def test_what_is_sent_of_a_history_is_told_with_the_place_that_says_so(folder: Path) -> None:
    (folder / "x.toml").write_text(HISTORIES)
    lines = run("config", "explain", "small.7b", "--config", "x.toml").stdout.splitlines()
    first, second, third = (number for number, line in enumerate(lines) if line.startswith(("goes to", "then to")))
    assert lines[first + 1 : second] == [
        "  history: max_messages 60 (cut exactly to the limit): upstreams.local.max_history_messages",
        '  history: max_tokens 6000: models."small.*".history',
        "  history: max_images (no limit): upstreams.local.history",
        "  history: result_bytes 30000: history",
        '  history: continuation on: models."small.*".history',
        "  history: cut_to 0.75: the default",
    ]
    assert "  history: calls 'cline_xml': models.other.history" in lines[second:third]
    assert lines[third + 1 :] == [
        "  history: max_messages 90: history",
        "  history: max_tool_results 10 (cut exactly to the limit): the default for warp",
        "  history: max_images 5: history",
        "  history: result_bytes 30000: history",
        "  history: cut_to 0.75: the default",
    ]
    own_name = run("config", "explain", "local/gemma", "--config", "x.toml").stdout
    assert "calls 'cline_xml': models.other.history" in own_name


def test_a_model_that_nothing_serves_is_explained_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    result = run("config", "explain", "cloude-x")
    assert result.exit_code == 2
    assert result.stdout.splitlines()[-2:] == [
        "  the only upstream: cloude-x: no",
        "  local servers: not contacted; `toolglot doctor` lists their models",
    ]
    assert result.stderr == "toolglot: no upstream serves the model 'cloude-x'; the nearest: claude-*, codex-*\n"


def test_a_file_is_begun_and_never_overwritten(folder: Path) -> None:
    assert run("config", "init").stdout == "toolglot.toml: written; check it with `toolglot config check`\n"
    assert run("config", "check").exit_code == 0
    (folder / "toolglot.toml").write_text("strict = true\n")
    result = run("config", "init")
    assert (result.exit_code, result.stderr) == (
        2,
        "toolglot: toolglot.toml: the file already exists and was not changed\n",
    )
    assert (folder / "toolglot.toml").read_text() == "strict = true\n"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a.yaml", "the name must end in .toml: the file is written as TOML"),
        ("no/folder.toml", "no such file or directory"),
    ],
)
def test_a_file_that_cannot_be_begun_is_refused(name: str, why: str) -> None:
    result = run("config", "init", name)
    assert (result.exit_code, result.stderr) == (2, f"toolglot: {name}: {why}\n")


def test_no_command_prints_a_key(folder: Path) -> None:
    (folder / "toolglot.toml").write_text(RIGHT)
    for arguments in (("check",), ("explain", "claude-x"), ("explain", "zzz")):
        assert "sk-secret" not in run("config", *arguments).output
