"""`toolglot launch` with a program on the PATH that stands in for an agent: it tells how it was started, and asks."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.upstream.bad_server import BadServer, Gate, expect, pause, send
from tests.waiting import FAILSAFE
from toolglot.cli.launch import own_gateway
from toolglot.upstream.vendors import VENDORS

AGENT = f"""#!{sys.executable}
import json, os, signal, sys, urllib.request
report = {{"arguments": sys.argv[1:], "environment": dict(os.environ)}}
settings = None
if "--settings" in sys.argv:
    settings = sys.argv[sys.argv.index("--settings") + 1]
elif "GEMINI_CLI_HOME" in os.environ:
    settings = os.environ["GEMINI_CLI_HOME"] + "/.gemini/settings.json"
if settings:
    report["settings"] = json.load(open(settings))
    report["beside"] = {{name: open(os.path.dirname(settings) + "/" + name).read()
                        for name in os.listdir(os.path.dirname(settings)) if name.endswith(".md")}}
url = os.environ.get("ANTHROPIC_BASE_URL")
if url:
    model = os.environ.get("ANTHROPIC_MODEL", "demo")
    body = {{"model": model, "max_tokens": 100, "messages": [{{"role": "user", "content": "hello"}}]}}
    body |= {{"top_k": 5}} if "lossy" in sys.argv else {{}}
    request = urllib.request.Request(
        url + "/v1/messages",
        json.dumps(body).encode(),
        {{"authorization": "Bearer " + os.environ["ANTHROPIC_AUTH_TOKEN"], "anthropic-version": "2023-06-01"}},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({{}}))
    report["answer"] = json.load(opener.open(request))
def interrupted(number, frame):
    # The gateway must still be there.
    report["ready"] = opener.open(url + "/ready").status
    json.dump(report, open(os.environ["REPORT"], "w"))
    sys.exit(40 + number)
signal.signal(signal.SIGINT, interrupted)
signal.signal(signal.SIGTERM, interrupted)
if "wait" in sys.argv:
    print("waiting", flush=True)
    signal.pause()
if "die" in sys.argv:
    os.kill(os.getpid(), signal.SIGKILL)
json.dump(report, open(os.environ["REPORT"], "w"))
sys.exit(7)
"""


class Machine:
    """A home with files in it, and a PATH where every agent is the program above."""

    def __init__(self, folder: Path) -> None:
        self.output = ""
        self.home, self.bin, self.report = folder / "home", folder / "bin", folder / "report.json"
        self.home.mkdir()
        self.bin.mkdir()
        for name in ("claude", "codex", "gemini", "opencode", "qwen", "aider"):
            (self.bin / name).write_text(AGENT)
            (self.bin / name).chmod(0o755)
        for name, text in {
            ".claude/settings.json": "{}",
            ".codex/config.toml": "",
            ".gemini/GEMINI.md": "mine",
        }.items():
            (self.home / name).parent.mkdir()
            (self.home / name).write_text(text)
        (self.home / ".gemini/settings.json").write_text(
            '{"ui": {"theme": "a//b"}, // mine\n "security": {"auth": {"selectedType": "oauth-personal"}}}'
        )
        known = {
            name
            for vendor in VENDORS.values()
            for name in (*(key.name for key in vendor.keys), *vendor.base_url_variables)
        }
        kept = {name: value for name, value in os.environ.items() if name not in known}
        self.environment = {
            **kept,
            "HOME": str(self.home),
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            "REPORT": str(self.report),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "XDG_STATE_HOME": str(folder / "state"),
        }

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "toolglot", "launch", *arguments],
            env={**self.environment, **environment},
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def start_on(self, terminal: int, *arguments: str) -> subprocess.Popen[bytes]:
        """The command on a terminal."""
        return subprocess.Popen(
            [sys.executable, "-m", "toolglot", "launch", *arguments],
            env=self.environment,
            cwd=self.home,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )

    def launch(self, *arguments: str, **environment: str) -> tuple[int, str, str]:
        """The exit status, what was printed, and what was complained of."""
        with self.start(*arguments, **environment) as process:
            output, complaints = process.communicate(timeout=FAILSAFE)
            return process.returncode, output, complaints

    @property
    def told(self) -> dict[str, Any]:
        told = json.loads(self.report.read_text())
        assert isinstance(told, dict)
        return told

    def digest(self) -> str:
        files = sorted(path for path in self.home.rglob("*") if path.is_file())
        return hashlib.sha256(b"".join(str(path).encode() + path.read_bytes() for path in files)).hexdigest()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One that runs already, and wants a key."""
    folder = tmp_path_factory.mktemp("gateway")
    environment = {"GATEWAY_KEY": "sesame", "XDG_CONFIG_HOME": str(folder), "XDG_STATE_HOME": str(folder)}
    with own_gateway(["--no-discover", "--demo-pace", "none", "--key-env", "GATEWAY_KEY"], environment) as url:
        yield url


def options(url: str) -> tuple[str, ...]:
    return "--url", url, "--key-env", "GATEWAY_KEY"


def test_the_agent_is_started_against_the_gateway_and_its_status_is_passed_on(machine: Machine, gateway: str) -> None:
    before = machine.digest()
    arguments = (*options(gateway), "--model", "demo", "--", "-p", "say --model x")
    status, _, complaints = machine.launch("claude", *arguments, GATEWAY_KEY="sesame", ANTHROPIC_API_KEY="sk-own")
    assert (status, complaints) == (7, "")
    told = machine.told
    assert told["arguments"][-4:] == ["--model", "demo", "-p", "say --model x"]
    assert told["environment"]["ANTHROPIC_BASE_URL"] == gateway
    assert told["environment"]["ANTHROPIC_API_KEY"] == ""
    assert told["settings"]["env"]["ANTHROPIC_AUTH_TOKEN"] == "sesame"
    assert told["answer"]["role"] == "assistant"
    assert machine.digest() == before
    assert not Path(told["arguments"][1]).exists()


def test_an_own_gateway_complains_once_the_agent_has_ended(machine: Machine) -> None:
    before = machine.digest()
    status, _, complaints = machine.launch(
        "claude", "--no-check", "--model", "x", "--upstream", "openai_chat=http://127.0.0.1:9"
    )
    assert status == 1
    lines = complaints.splitlines()
    assert lines[0].startswith("toolglot: started a gateway at http://127.0.0.1:")
    assert "HTTP Error" in lines[-2]  # the agent's last word
    assert "POST /v1/messages  x -> openai_chat/x" in lines[-1]
    assert machine.digest() == before


def test_the_key_of_an_own_gateway_is_new_each_time(machine: Machine) -> None:
    config = machine.home.parent / "toolglot.toml"
    config.write_text("discover = false\n[store]\npath = ':memory:'\n")
    keys = set()
    for _ in range(2):
        assert machine.launch("claude", "--config", str(config), "--model", "demo")[0] == 7
        keys.add(machine.told["environment"]["ANTHROPIC_AUTH_TOKEN"])
    assert len(keys) == 2
    assert all(len(key) > 20 for key in keys)


def test_what_the_gateway_knows_of_a_model_is_told_to_the_agent(machine: Machine, tmp_path: Path) -> None:
    config = tmp_path / "toolglot.toml"
    config.write_text(
        "discover = false\n[store]\npath = ':memory:'\n"
        "[models.'a/small+one']\nupstream = 'demo'\nmodel = 'demo'\ncontext_window = 32768\n"
    )
    assert machine.launch("codex", "--config", str(config), "--model", "a/small+one")[0] == 7
    assert machine.told["arguments"][-3:] == ['model="a/small+one"', "-c", "model_context_window=32768"]


@pytest.mark.parametrize(("number", "to_group"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_the_agent_gets_the_signal_and_the_gateway_ends_after_it(
    machine: Machine, tmp_path: Path, number: signal.Signals, to_group: bool
) -> None:
    """Ctrl-C goes to the whole group in the foreground, as the terminal sends it; others to the launcher alone."""
    config = tmp_path / "toolglot.toml"
    config.write_text("discover = false\n[store]\npath = ':memory:'\n")
    with machine.start("claude", "--config", str(config), "--model", "demo", "--", "wait") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        if to_group:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        process.communicate(timeout=FAILSAFE)
    assert process.returncode == 40 + number
    assert machine.told["ready"] == 200
    with pytest.raises(ConnectionRefusedError):
        _connect(machine.told["environment"]["ANTHROPIC_BASE_URL"])


def _connect(url: str) -> None:
    import socket
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    socket.create_connection((parts.hostname or "", parts.port or 0), timeout=FAILSAFE).close()


def test_an_agent_that_is_killed_has_the_status_that_a_shell_tells(machine: Machine, gateway: str) -> None:
    assert machine.launch("claude", "--model", "demo", *options(gateway), "--", "die", GATEWAY_KEY="sesame")[0] == 137


def test_a_gateway_that_does_not_answer_is_refused_and_no_agent_started(machine: Machine) -> None:
    status, _, complaints = machine.launch("claude", "--url", "http://127.0.0.1:9/v1/")
    assert (status, complaints) == (
        1,
        "toolglot: no gateway is running at http://127.0.0.1:9; start one with `toolglot serve`\n",
    )
    assert not machine.report.exists()


@pytest.mark.parametrize(("key", "word"), [(None, "a"), ("wrong", "a different")])
def test_a_gateway_that_wants_a_key_says_so_before_the_agent_starts(
    machine: Machine, gateway: str, key: str | None, word: str
) -> None:
    arguments = ("--url", gateway) if key is None else options(gateway)
    status, _, complaints = machine.launch("codex", *arguments, GATEWAY_KEY=key or "")
    assert (status, complaints) == (1, f"toolglot: the gateway at {gateway} requires {word} key: --key-env NAME\n")
    assert not machine.report.exists()


def test_a_wrong_file_is_told_before_anything_is_started(machine: Machine, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("strikt = true\n")
    status, _, complaints = machine.launch("codex", "--config", str(wrong))
    assert status == 2
    assert complaints.startswith(f"toolglot: {wrong}:1:1: strikt: unknown field; did you mean `strict`?")


def test_a_file_that_is_wrong_here_is_told_by_the_gateway_that_needs_it(machine: Machine, gateway: str) -> None:
    (machine.home / "toolglot.toml").write_text("default_upstream = '${SET_ELSEWHERE}'\n")
    assert machine.launch("codex", "--model", "demo", *options(gateway), GATEWAY_KEY="sesame")[0] == 7
    # With an upstream of its own it looks for no gateway at the default address, where another test may have one.
    status, _, complaints = machine.launch("codex", "--upstream", "openai_chat=http://127.0.0.1:9")
    assert status == 1
    assert complaints.startswith("toolglot: the gateway did not start:\n")
    assert "the environment variable SET_ELSEWHERE is not set" in complaints


def test_without_a_check_no_upstream_is_asked_before_the_agent_starts(machine: Machine) -> None:
    with BadServer([expect(), pause(Gate())]) as silent:
        flags = ["--upstream", f"openai_chat={silent.url}", "--key-env", "GATEWAY_KEY", "--store", ":memory:"]
        with own_gateway(flags, {"GATEWAY_KEY": "sesame"}) as url:
            assert machine.launch("codex", "--no-check", *options(url), GATEWAY_KEY="sesame")[0] == 7
        assert silent.requests == []


def test_an_own_gateway_that_cannot_start_says_why(machine: Machine) -> None:
    status, _, complaints = machine.launch("codex", "--upstream", "openai_chta=http://127.0.0.1:9")
    assert status == 1
    assert complaints.startswith("toolglot: the gateway did not start:\n")
    assert "did you mean `openai_chat`?" in complaints


@pytest.mark.parametrize(
    ("content", "why"),
    [("echo a stub of npm's\n", "exec format error"), ("#!/no/such/interpreter\n", "no such file or directory")],
)
def test_an_agent_that_cannot_be_run_is_one_line_that_says_what_to_do(
    machine: Machine, gateway: str, content: str, why: str
) -> None:
    (machine.bin / "claude").write_text(content)
    status, _, complaints = machine.launch("claude", "--model", "demo", *options(gateway), GATEWAY_KEY="sesame")
    advice = "reinstall it: npm install -g @anthropic-ai/claude-code"
    assert (status, complaints) == (
        126,
        f"toolglot: {machine.bin / 'claude'} is installed but cannot be run: {why}; {advice}\n",
    )


@pytest.mark.parametrize("name", ["home/toolglot.toml", "home/.config/toolglot/toolglot.toml", "other.toml"])
def test_a_gateway_that_runs_where_the_configuration_has_it_is_used(machine: Machine, gateway: str, name: str) -> None:
    file = machine.home.parent / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"[server]\nport = {gateway.rpartition(':')[2]}\nkeys = ['sesame']\n")
    chosen = ("--config", str(file)) if name == "other.toml" else ()
    status, _, complaints = machine.launch("claude", *chosen, "--model", "demo")
    assert (status, complaints) == (7, "")
    assert machine.told["environment"]["ANTHROPIC_BASE_URL"] == gateway
    assert machine.told["environment"]["ANTHROPIC_AUTH_TOKEN"] == "sesame"


def test_what_is_shown_has_the_configured_address(machine: Machine) -> None:
    (machine.home / "toolglot.toml").write_text("[server]\nhost = '::'\nport = 5001\nkeys = ['k']\n")
    assert "export ANTHROPIC_BASE_URL=http://[::1]:5001\n" in machine.launch("claude", "--show", "--model", "demo")[
        1
    ].replace("'", "")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 404 X\r\ncontent-length: 0\r\n\r\n",
        b"220 mail\r\n",
    ],
)
def test_something_else_that_answers_is_not_called_nobody(machine: Machine, answer: bytes) -> None:
    with BadServer([expect(), send(answer)]) as other:
        status, _, complaints = machine.launch("claude", "--url", other.url)
    told = f"toolglot: the server at {other.url} is not toolglot; check the port\n"
    assert (status, complaints) == (1, told)
    assert not machine.report.exists()


def test_a_model_that_the_gateway_does_not_know_is_told_before_the_agent_starts(
    machine: Machine, tmp_path: Path
) -> None:
    config = tmp_path / "toolglot.toml"
    config.write_text(
        "discover = false\n[store]\npath = ':memory:'\n"
        + "".join(f"[upstreams.{name}]\ndialect = 'gemini'\nbase_url = 'http://127.0.0.1:9'\n" for name in "ab")
    )
    status, _, complaints = machine.launch("claude", "--config", str(config), "--model", "demmo")
    assert status == 1
    assert "toolglot: no upstream serves the model 'demmo'; the nearest: demo" in complaints
    assert not machine.report.exists()


def test_what_was_lost_is_told_when_an_own_gateway_ends(machine: Machine, tmp_path: Path) -> None:
    config = tmp_path / "toolglot.toml"
    config.write_text("discover = false\n[store]\npath = ':memory:'\n")
    status, _, complaints = machine.launch("claude", "--config", str(config), "--model", "demo", "--", "lossy")
    assert status == 7
    started, *lost = complaints.splitlines()
    assert "for this agent; error log: /" in started
    assert lost == [
        "toolglot: 1 of 1 request lost data in translation:",
        "  top_k 5 (the target has no such parameter)",
    ]


def test_an_agent_that_is_not_installed_is_named_with_the_way_to_get_it(machine: Machine) -> None:
    status, _, complaints = machine.launch("claude", "--url", "http://127.0.0.1:9", PATH="/nowhere")
    assert (status, complaints) == (
        127,
        "toolglot: `claude` is not on the PATH; install it: npm install -g @anthropic-ai/claude-code\n",
    )


def test_gemini_finds_the_users_folder_with_our_way_of_signing_in(machine: Machine, gateway: str) -> None:
    before = machine.digest()
    status, _, complaints = machine.launch(
        "gemini", "--model", "demo", *options(gateway), GATEWAY_KEY="sesame", GOOGLE_API_KEY="sk-own"
    )
    assert (status, complaints) == (7, "")
    told = machine.told
    assert told["settings"] == {"ui": {"theme": "a//b"}, "security": {"auth": {"selectedType": "gemini-api-key"}}}
    assert told["beside"] == {"GEMINI.md": "mine"}
    assert "GOOGLE_API_KEY" not in told["environment"]
    assert machine.digest() == before


def test_settings_that_cannot_be_read_are_not_thrown_away(machine: Machine, gateway: str) -> None:
    (machine.home / ".gemini/settings.json").write_text('{"ui": ')
    status, _, complaints = machine.launch("gemini", "--model", "demo", *options(gateway), GATEWAY_KEY="sesame")
    assert status == 1
    assert ".gemini/settings.json: these settings cannot be enforced" in complaints
    assert not machine.report.exists()


@pytest.mark.parametrize(
    ("proxies", "expected"),
    [
        ({}, {"NO_PROXY": None}),
        ({"HTTPS_PROXY": "http://proxy:1"}, {"NO_PROXY": "127.0.0.1"}),
        ({"http_proxy": "http://proxy:1", "NO_PROXY": "corp"}, {"NO_PROXY": "corp,127.0.0.1"}),
    ],
)
def test_no_proxy_stands_between_the_agent_and_the_gateway(
    machine: Machine, gateway: str, proxies: dict[str, str], expected: Mapping[str, str | None]
) -> None:
    for name in ("NO_PROXY", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        machine.environment.pop(name, None)
    assert machine.launch("codex", "--model", "demo", *options(gateway), GATEWAY_KEY="sesame", **proxies)[0] == 7
    environment = machine.told["environment"]
    assert {name: environment.get(name) for name in expected} == dict(expected)


def test_what_would_be_started_can_be_shown_without_a_key(machine: Machine) -> None:
    arguments = ("codex", "--show", "--model", "demo", "--key-env", "GATEWAY_KEY", "--", "exec", "two words")
    status, output, _ = machine.launch(*arguments, GATEWAY_KEY="sesame")
    assert status == 0
    assert output.splitlines()[0] == "export TOOLGLOT_KEY=KEY"
    assert output.splitlines()[-1].startswith("codex -c 'model_provider=\"toolglot\"' ")
    assert output.endswith("-c 'model=\"demo\"' exec 'two words'\n")
    assert "sesame" not in output
    assert not machine.report.exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("opencode", "--no-check"), "opencode needs a model: --model NAME"),
        (("claude", "--key-env", "NOT_THERE"), "--key-env: the environment variable NOT_THERE is not set"),
        (
            ("claude", "--url", "http://127.0.0.1:9", "--upstream", "gemini=http://127.0.0.1:9"),
            "--url selects a",
        ),
    ],
)
def test_wishes_that_make_no_sense_are_refused(machine: Machine, arguments: tuple[str, ...], complaint: str) -> None:
    status, _, complaints = machine.launch(*arguments)
    assert status == 2
    assert complaint in complaints
