"""`toolglot doctor`: what it finds on a machine, at an upstream and in a model, and what it advises."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from bench.gateway.processes import free_port
from click.testing import Result

from tests.agent.hosting import SERVERS
from tests.cli.run import run
from tests.cli.scripted_upstream import Asked, Said, said, scripted
from tests.exchanges import JSON_NAMES
from tests.store.turns import using
from tests.waiting import until
from toolglot.cli.agents import AGENTS
from toolglot.cli.launch import own_gateway
from toolglot.doctor.installed_agents import check_version
from toolglot.upstream.vendors import LOCAL_SERVERS, UNUSED_VARIABLES, VENDORS

KEY = "sk-very-secret"
MODELS = {"object": "list", "data": [{"id": "qwen3", "object": "model"}, {"id": "tiny", "object": "model"}]}


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of one's own, a free port, and an environment without keys, agents and local servers."""
    (tmp_path / "bin").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name in (
        "XDG_CONFIG_HOME",
        "XDG_STATE_HOME",
        *UNUSED_VARIABLES,
        "OTEL_TRACES_EXPORTER",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
    ):
        monkeypatch.delenv(name, raising=False)
    for vendor in VENDORS.values():
        for name in (*(key.name for key in vendor.keys), *vendor.base_url_variables):
            monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def port() -> int:
    return free_port()


def doctor(*arguments: str) -> tuple[int, list[dict[str, Any]]]:
    result = run("doctor", "--json", *arguments)
    told = json.loads(result.stdout)
    assert told["ok"] == (result.exit_code == 0) == all(each["status"] != "fail" for each in told["findings"])
    assert KEY not in result.output
    return result.exit_code, told["findings"]


def found(findings: list[dict[str, Any]], check: str, subject: str | None = None) -> tuple[str, str, str | None]:
    """Status, words and advice of the one finding of this check."""
    [one] = [each for each in findings if each["check"] == check and subject in (None, each["subject"])]
    return one["status"], one["what"], one["advice"]


# ── the machine ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fresh_machine_is_fine_and_changed_in_nothing(machine: Path, port: int) -> None:
    before = sorted(machine.rglob("*"))
    result: Result = run("doctor", "--offline", "--port", str(port))
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert lines[0].startswith("ok    python    toolglot ")
    assert lines[-1].startswith("0 errors, ")
    assert f"ok    port      127.0.0.1:{port}: free; clients need no key" in lines
    assert f"ok    store     {machine}/.local/state/toolglot/toolglot.sqlite3: it will be created" in lines
    assert sorted(machine.rglob("*")) == before


def test_the_last_line_is_a_command_that_works_here(machine: Path, port: int, tmp_path: Path) -> None:
    with scripted(lambda asked: said({"data": [{"id": "small"}, {"id": "large"}]})) as upstream:
        options = ("--upstream", f"openai_chat={upstream.url}/v1")
        result: Result = run("doctor", "--port", str(port), *options)
    assert result.stdout.splitlines()[-1] == f"next: toolglot chat {' '.join(options)} --model small"


@pytest.mark.parametrize(
    ("large", "expected"),
    [
        (65536, "next: toolglot launch claude --model large"),
        (
            8192,
            "next: give small a larger context window (see above)",
        ),
    ],
    ids=["another model fits", "none fits"],
)
def test_a_context_window_that_is_too_small_for_an_agent_is_a_warning(
    machine: Path, port: int, monkeypatch: pytest.MonkeyPatch, large: int, expected: str
) -> None:
    agent = machine / "claude"
    agent.write_text("#!/bin/sh\n")
    agent.chmod(0o755)
    monkeypatch.setenv("PATH", str(machine))
    documents = {
        "/v1/models": {"data": [{"id": "small", "owned_by": "library"}, {"id": "large", "owned_by": "library"}]},
        "/api/version": {"version": "0.13.0"},
        "/api/tags": {"models": [{"name": "small"}, {"name": "large"}]},
        "/api/ps": {"models": [{"name": "small", "context_length": 4096}, {"name": "large", "context_length": large}]},
    }
    with scripted(lambda asked: said(documents.get(asked.path, {}))) as upstream:
        monkeypatch.setenv("OLLAMA_HOST", upstream.url)
        result: Result = run("doctor", "--port", str(port))
    lines = result.stdout.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("warn  window"))
    assert "ollama: small has a context window of 4,096 tokens; Claude Code needs about 20,000" in lines[place]
    advice = [number for number, line in enumerate(lines) if "OLLAMA_CONTEXT_LENGTH=32768" in line]
    assert advice == [place + 1]
    assert lines[-1] == expected


def test_a_dead_address_in_the_environment_is_a_warning_with_a_fix(
    machine: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")
    _, findings = doctor("--port", str(port))
    expected = ("warn", "OLLAMA_HOST: not used: no server answers at http://127.0.0.1:9", "start it: `ollama serve`")
    assert expected in [(each["status"], each["what"], each["advice"]) for each in findings]


def test_a_port_that_another_program_has_is_told(port: int) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        other.settimeout(0.1)
        status, findings = doctor("--offline", "--port", str(port))
    assert status == 1
    what = "another program uses this port"
    assert found(findings, "port") == ("fail", what, "stop it, or use another port: --port")


def test_a_port_where_toolglot_runs_is_fine(machine: Path) -> None:
    with own_gateway(["--no-discover", "--store", ":memory:"]) as url:
        _, findings = doctor("--offline", "--port", url.rpartition(":")[2])
    assert found(findings, "port")[:2] == ("ok", "toolglot is already running there")


def test_every_problem_of_a_wrong_file_is_told_with_its_place(machine: Path) -> None:
    (machine / "toolglot.toml").write_text("strikt = true\n[server]\nport = 0\n")
    status, findings = doctor("--offline")
    assert status == 1
    assert [each["what"] for each in findings if each["check"] == "config"] == [
        "toolglot.toml:1:1: strikt: unknown field; did you mean `strict`?",
        "toolglot.toml:3:1: server.port: expected a whole number >= 1",
    ]


def test_serving_to_the_network_without_a_key_is_told(machine: Path) -> None:
    (machine / "toolglot.toml").write_text('discover = false\n[server]\nhost = "0.0.0.0"\n')
    status, findings = doctor()
    assert (status, found(findings, "port")[0]) == (1, "fail")
    assert "without keys" in found(findings, "port")[1]


@pytest.mark.parametrize(
    ("path", "content", "expected"),
    [
        (":memory:", None, ("ok", "in memory: stored responses are lost when the gateway exits")),
        ("none", None, ("ok", "none: clients must send back the state that their models need")),
        ("there.sqlite3", b"SQLite format 3\0...", ("ok", "exists and is writable")),
        ("notes.txt", b"dear diary, today", ("fail", "this is not a toolglot store")),
        ("notes.txt/store.sqlite3", None, ("fail", "cannot be created: check the type and permissions of notes.txt")),
        ("bin", None, ("fail", "cannot be created: check the type and permissions of bin")),
    ],
)
def test_the_place_for_the_store_is_looked_at(
    machine: Path, path: str, content: bytes | None, expected: tuple[str, str]
) -> None:
    (machine / path.partition("/")[0]).write_bytes(content or b"x") if path not in (":memory:", "none", "bin") else None
    (machine / "toolglot.toml").write_text(f'discover = false\n[store]\npath = "{path}"\n')
    assert found(doctor("--offline")[1], "store")[:2] == expected


def install_agent(machine: Path, script: str) -> str:
    program = machine / "bin" / "codex"
    program.write_text(script)
    program.chmod(0o755)
    return str(program)


def test_agents_on_the_path_are_listed(machine: Path) -> None:
    program = install_agent(machine, '#!/bin/sh\n[ "$*" = --version ] && echo 1.0\n')
    findings = doctor("--offline")[1]
    assert found(findings, "agent", program) == ("ok", "Codex: `toolglot launch codex`", None)


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("#!/bin/sh\nexit 3\n", "Codex does not start: exit status 3"),
        (
            "#!/bin/sh\nprintf 'file:///x.mjs:1\\n  await\\n\\nSyntaxError: bad\\n\\nNode.js v14\\n' >&2\nexit 1\n",
            "Codex does not start: SyntaxError: bad",
        ),
        ("#!/bin/sh\necho 'Codex requires Node.js 20'\nexit 1\n", "Codex does not start: Codex requires Node.js 20"),
        ("#!/nowhere/node\n", "Codex cannot be started: No such file or directory"),
        ("not a program", "Codex cannot be started: Exec format error"),
    ],
)
def test_an_agent_that_does_not_start_is_a_warning(machine: Path, script: str, problem: str) -> None:
    program = install_agent(machine, script)
    status, what, advice = found(doctor("--offline")[1], "agent", program)
    assert (status, what) == ("warn", problem)
    assert "npm install -g @openai/codex" in str(advice)
    assert "toolglot launch codex" not in run("doctor", "--offline").stdout


def test_an_agent_that_hangs_is_ended_with_its_children(machine: Path) -> None:
    program = install_agent(machine, "#!/bin/sh\n/bin/sleep 1000 &\necho $! > child\nwait\n")
    check = asyncio.run(check_version(AGENTS["codex"], program, {}, timeout=2))
    assert check.problem == "does not start: `codex --version` gave no answer within 2 s"
    child = int((machine / "child").read_text())
    until(lambda: not is_running(child), "end of the child")


def is_running(process: int) -> bool:
    """A process that has ended and is not waited for counts as ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


def test_traces_that_cannot_be_made_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    status, _, advice = found(doctor("--offline")[1], "traces")
    installed = find_spec("opentelemetry") is not None
    assert (status, advice) == (("ok", None) if installed else ("warn", "pip install '.[otel]'"))


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (KEY, ("ok", "key found")),
        ("sk-your-key-here", ("warn", "it looks like a placeholder")),
        ("sk-häßlich", ("fail", "it contains characters that are invalid in a key")),
        ("sk-a\nsk-b", ("fail", "it contains characters that are invalid in a key")),
    ],
)
def test_a_key_is_judged_and_not_shown(monkeypatch: pytest.MonkeyPatch, key: str, expected: tuple[str, str]) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", key)
    findings = doctor("--offline")[1]
    assert found(findings, "key", "deepseek")[:2] == expected
    assert key not in str(findings)


def test_a_vendor_without_a_key_is_told_with_its_variable(machine: Path) -> None:
    (machine / "toolglot.toml").write_text("discover = false\n[upstreams.groq]\n")
    status, findings = doctor("--offline")
    assert (status, found(findings, "key", "groq")) == (
        1,
        ("fail", "no key found", "set GROQ_API_KEY, or `upstreams.groq.key`"),
    )


def test_keys_that_are_found_and_not_used_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "b")
    told = {each["what"]: each["status"] for each in doctor("--offline")[1] if each["check"] == "found"}
    assert told["OPENAI_API_KEY: upstream openai (openai_responses at https://api.openai.com/v1)"] == "ok"
    name, why = next(iter(UNUSED_VARIABLES.items()))
    assert told[f"{name}: not used: {why}"] == "warn"


# ── the upstreams ────────────────────────────────────────────────────────────────────────────────────────────────────

TO = ("--upstream-key-env", "THE_KEY", "--upstream")


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("THE_KEY", KEY)
    return KEY


ANSWERS: dict[str, tuple[Said, str, str, str]] = {
    "a list": (said(MODELS), "ok", "openai_chat at {url}/v1: 2 models", ""),
    "401": (
        said({"error": {"message": f"Incorrect API key provided: {KEY}"}}, 401),
        "fail",
        "openai_chat at {url}/v1 rejects the key: status 401",
        "set a valid one",
    ),
    "404": (
        said({"error": {"message": "no route"}}, 404),
        "warn",
        "openai_chat at {url}/v1 has no list of models: status 404",
        "if requests fail too, correct `base_url`; --probe tries one",
    ),
    "a website": (
        Said(200, b"<!doctype html><title>Welcome</title>", "text/html"),
        "fail",
        "openai_chat at {url}/v1 answers with a web page",
        "the address is a website, not an API; most API addresses end in /v1",
    ),
    "another API": (
        Said(200, b"ok", "text/plain"),
        "warn",
        "openai_chat at {url}/v1 answers, but not with a list of models",
        "check that it speaks OpenAI Chat Completions; `toolglot dialects` lists the others",
    ),
    "a redirect": (
        Said(301, b"", "text/html", "https://example.com"),
        "fail",
        "openai_chat at {url}/v1 redirects: status 301",
        "use the address it redirects to",
    ),
    "a limit": (
        said({"error": {"message": "slow down"}}, 429),
        "warn",
        "openai_chat at {url}/v1 has reached a rate limit: status 429",
        "wait, or raise the limit",
    ),
    "a failure": (
        said({"error": {"message": f"cannot use {KEY}"}}, 500),
        "fail",
        "openai_chat at {url}/v1 fails: status 500: cannot use (hidden)",
        "check its log or status page",
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_upstream_is_asked_for_its_models_and_judged_by_its_answer(key: str, name: str) -> None:
    answer, status, what, advice = ANSWERS[name]
    with scripted(lambda asked: answer) as upstream:
        code, findings = doctor(*TO, f"openai_chat={upstream.url}/v1")
    expected = (status, what.format(url=upstream.url), advice or None)
    assert found(findings, "upstream", "openai_chat") == expected
    assert code == (status == "fail")
    [asked] = upstream.asked
    assert (asked.method, asked.path.partition("?")[0]) == ("GET", "/v1/models")
    assert asked.headers["authorization"] == f"Bearer {key}"


def test_an_upstream_that_is_not_there_is_told(port: int) -> None:
    code, findings = doctor("--upstream", f"openai_chat=http://127.0.0.1:{port}/v1")
    assert (code, found(findings, "upstream", "openai_chat")) == (
        1,
        (
            "fail",
            f"127.0.0.1:{port} cannot be reached: Connection refused",
            "start the server, or correct `base_url`",
        ),
    )


def test_what_does_not_speak_tls_is_told() -> None:
    with scripted(lambda asked: said(MODELS)) as upstream:
        url = upstream.url.replace("http:", "https:")
        code, findings = doctor("--upstream", f"openai_chat={url}/v1")
    assert (code, found(findings, "upstream", "openai_chat")[0]) == (1, "fail")
    assert "no secure connection" in found(findings, "upstream", "openai_chat")[1]


def test_offline_nobody_is_asked() -> None:
    with scripted(lambda asked: said(MODELS)) as upstream:
        code, findings = doctor("--offline", "--upstream", f"openai_chat={upstream.url}/v1")
    assert (code, upstream.asked) == (0, [])
    assert found(findings, "upstream")[0] == "warn"


def test_a_model_that_the_upstream_does_not_list_is_told_with_the_nearest(machine: Path) -> None:
    with scripted(lambda asked: said(MODELS)) as upstream:
        (machine / "toolglot.toml").write_text(
            f'discover = false\n[upstreams.local]\ndialect = "openai_chat"\nbase_url = "{upstream.url}/v1"\n'
            '[models."claude-*"]\nupstream = "local"\nmodel = "qwen33"\n'
            '[models.small]\nupstream = "local"\nmodel = "tiny"\n'
        )
        code, findings = doctor()
    assert code == 0
    assert found(findings, "model") == ("warn", "qwen33: the upstream does not list it", "did you mean `qwen3`?")


# ── the probes ───────────────────────────────────────────────────────────────────────────────────────────────────────


def message(content: str | None, calls: tuple[str, ...] = ()) -> Said:
    tool_calls = [
        {"id": f"call_{number}", "type": "function", "function": {"name": "get_weather", "arguments": arguments}}
        for number, arguments in enumerate(calls)
    ]
    answer: dict[str, Any] = {"role": "assistant", "content": content, **({"tool_calls": tool_calls} if calls else {})}
    choice = {"index": 0, "message": answer, "finish_reason": "tool_calls" if calls else "stop"}
    return said({"id": "c", "object": "chat.completion", "created": 1, "model": "tiny", "choices": [choice]})


STREAM = (
    b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"tiny","choices":[{"index":0,'
    b'"delta":{"role":"assistant","content":"one"},"finish_reason":null}]}\n\n'
    b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"tiny","choices":[{"index":0,'
    b'"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)
PARIS, ROME = '{"city":"Paris"}', '{"city":"Rome"}'


def able(asked: Asked) -> Said:
    """A model that can do everything."""
    if asked.method == "GET":
        return said({"object": "list", "data": [{"id": "tiny", "object": "model"}]})
    document = asked.document
    if document.get("stream"):
        return Said(200, STREAM, "text/event-stream")
    if any(each["role"] == "tool" for each in document["messages"]):
        return message("It is sunny.")
    if document.get("tools"):
        return message(None, (PARIS, ROME) if b"Rome" in asked.body else (PARIS,))
    return message("Red." if b"image_url" in asked.body else "ready")


def differing(when: Callable[[Asked], bool], instead: Said) -> Callable[[Asked], Said]:
    return lambda asked: instead if asked.method == "POST" and when(asked) else able(asked)


def has_tools(asked: Asked) -> bool:
    return "tools" in asked.document


def as_text(asked: Asked) -> Said:
    """A model that knows tools from its prompt alone, and can do everything with them."""
    if asked.method == "GET" or b"# Tools" not in asked.body:
        return able(asked)
    if b"sunny" in asked.body:
        return message("It is sunny.")
    wanted = (PARIS, ROME) if b"Rome" in asked.body else (PARIS,)
    calls = (f'<tool_call>\n{{"name": "get_weather", "arguments": {each}}}\n</tool_call>' for each in wanted)
    return message("\n".join(calls))


FINE = {
    "answers": ("ok", "yes"),
    "streams": ("ok", "yes"),
    "tools": ("ok", "it calls them and uses the result"),
    "parallel": ("ok", "2 calls in one turn"),
    "images": ("ok", "it sees them"),
}
NO_TOOLS = said({"error": {"message": "tools are not supported by this model"}}, 400)
ONE_BY_ONE = {"parallel": ("warn", "one call per turn: agents need more turns")}
NO_TEXT = {"text": ("warn", "text calls (hermes_json): it did not call the offered tool")}
BY_TEXT = {
    "text": ("ok", "text calls (hermes_json) work: it writes them and uses the result"),
}

MODEL_CASES: dict[str, tuple[Callable[[Asked], Said], dict[str, tuple[str, str]]]] = {
    "one that can do everything": (able, {}),
    "one that does not stream": (
        differing(lambda asked: asked.document.get("stream", False), message("one")),
        {"streams": ("fail", "no: it sends a complete answer instead of a stream")},
    ),
    "one whose stream breaks off": (
        differing(lambda asked: asked.document.get("stream", False), Said(200, STREAM[:150], "text/event-stream")),
        {"streams": ("fail", "no: The upstream ended the stream before the response was complete")},
    ),
    "one that refuses tools": (
        differing(has_tools, NO_TOOLS),
        {
            "tools": ("fail", "no: status 400: tools are not supported by this model"),
            **NO_TEXT,
            **ONE_BY_ONE,
        },
    ),
    "one that refuses tools and writes calls as text when it is asked to": (
        lambda asked: NO_TOOLS if asked.method == "POST" and has_tools(asked) else as_text(asked),
        {
            "tools": (
                "warn",
                "no native tools (no: status 400: tools are not supported by this model): "
                "`auto` will use text calls (hermes_json)",
            ),
            **BY_TEXT,
        },
    ),
    "one that does not call": (
        differing(has_tools, message("I cannot know.")),
        {"tools": ("warn", "it did not call the offered tool"), **NO_TEXT, **ONE_BY_ONE},
    ),
    "one that writes calls as text": (
        differing(has_tools, message('<tool_call>{"name": "get_weather"}</tool_call>')),
        {"tools": ("warn", "it writes its calls into the text"), **NO_TEXT, **ONE_BY_ONE},
    ),
    "one with broken arguments": (
        differing(has_tools, message(None, ('{"city": ',))),
        {"tools": ("warn", "its call is invalid: its arguments are not JSON"), **NO_TEXT, **ONE_BY_ONE},
    ),
    "one with invented arguments": (
        differing(has_tools, message(None, ('{"town": "Paris"}',))),
        {"tools": ("warn", "its call is invalid: its arguments do not fit the schema"), **NO_TEXT, **ONE_BY_ONE},
    ),
    "one that refuses results": (
        differing(lambda asked: b'"tool_call_id"' in asked.body, said({"error": {"message": "bad role"}}, 400)),
        {"tools": ("fail", "no: status 400: bad role"), **NO_TEXT},
    ),
    "one that is blind": (
        differing(lambda asked: b"image_url" in asked.body, message("Blue?")),
        {"images": ("warn", "it accepts them but does not describe them")},
    ),
    "one that refuses images": (
        differing(lambda asked: b"image_url" in asked.body, said({"error": {"message": "no vision"}}, 400)),
        {"images": ("warn", "no: status 400: no vision")},
    ),
}


@pytest.mark.parametrize("case", MODEL_CASES)
def test_a_model_is_judged_by_what_it_does(case: str) -> None:
    answer, different = MODEL_CASES[case]
    with scripted(answer) as upstream:
        findings = doctor_with_probe("--upstream", f"openai_chat={upstream.url}/v1")
    told = {each["check"]: (each["status"], each["what"]) for each in findings if each["subject"] == "openai_chat/tiny"}
    assert told == {**FINE, **different}
    assert all(asked.document["model"] == "tiny" for asked in upstream.asked if asked.method == "POST")


def remembered(machine: Path, url: str) -> str | None:
    store = machine / ".local" / "state" / "toolglot" / "toolglot.sqlite3"
    if not store.exists():
        return None
    verdict = using(store, lambda opened: opened.verdict(f"{url}/v1", "tiny"))
    return None if verdict is None else verdict.tools


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("one that can do everything", "native"),
        ("one that refuses tools", "text"),
        ("one that refuses tools and writes calls as text when it is asked to", "text"),
        ("one that does not call", None),
        ("one with broken arguments", None),
    ],
)
def test_how_a_model_is_given_tools_is_remembered(machine: Path, case: str, expected: str | None) -> None:
    with scripted(MODEL_CASES[case][0]) as upstream:
        findings = doctor_with_probe("--upstream", f"openai_chat={upstream.url}/v1")
    assert remembered(machine, upstream.url) == expected
    told = [each["what"] for each in findings if each["check"] == "store"]
    assert ("the tool modes of these models are saved for a month" in told) == (expected is not None)


def test_a_store_that_cannot_be_written_keeps_nobody_from_probing(machine: Path) -> None:
    (machine / "notes.txt").write_text("not a folder")
    with scripted(able) as upstream:
        (machine / "toolglot.toml").write_text('[store]\npath = "notes.txt/store.sqlite3"\n')
        findings = doctor_with_probe("--upstream", f"openai_chat={upstream.url}/v1")
    [told] = [each for each in findings if each["check"] == "store" and "saved" in each["what"]]
    assert told["status"] == "warn"
    assert found(findings, "tools", "openai_chat/tiny")[0] == "ok"


def test_a_model_that_is_configured_for_text_is_probed_with_it_alone(machine: Path) -> None:
    with scripted(as_text) as upstream:
        (machine / "toolglot.toml").write_text(
            f"""
            discover = false
            upstreams.up = {{ dialect = "openai_chat", base_url = "{upstream.url}/v1" }}
            models.small = {{ upstream = "up", model = "tiny", tools = "hermes_json" }}
            """
        )
        findings = doctor_with_probe()
    told = {each["check"]: (each["status"], each["what"]) for each in findings if each["subject"] == "up/tiny"}
    assert told == {**FINE, "tools": ("ok", "it calls them as text (hermes_json) and uses the result")}
    assert not any(has_tools(asked) for asked in upstream.asked if asked.method == "POST")
    assert remembered(machine, upstream.url) is None


ROUTE = "route the requested model names to another model"
IN_SECTION = "in the model's section"
WITHOUT_NATIVE = "one that refuses tools and writes calls as text when it is asked to"
JINJA = "start llama-server with --jinja, and with a chat template that knows tools"
ADVICE_CASES: dict[str, tuple[str, str, dict[str, str | None]]] = {
    "with auto, text calls that work need nothing": (
        WITHOUT_NATIVE,
        "",
        {"tools": f"no action needed: clients get native calls; for the server's own, {JINJA}", "text": None},
    ),
    "with auto, text calls that fail need another format": (
        "one that refuses tools",
        "",
        {
            "tools": JINJA,
            "text": f'try another format, such as `tools = "markdown_json"` {IN_SECTION}; if none works, {ROUTE}',
        },
    ),
    "with native, text was not tried": (
        WITHOUT_NATIVE,
        'tools = "native"',
        {"tools": f'{JINJA}; or `tools = "auto"` {IN_SECTION}, to try text calls; or {ROUTE}'},
    ),
    "with native, calls in the text can be rescued": (
        "one that writes calls as text",
        'tools = "native"',
        {
            "tools": f'{JINJA}; or `tools = "auto"` {IN_SECTION}, to try text calls; or {ROUTE}; '
            "or `rescue = true` in its section, to extract such calls from the text"
        },
    ),
    "with a format, the server's flags are no matter": (
        "one that refuses tools",
        'tools = "markdown_json"',
        {"tools": f'try another format, such as `tools = "hermes_json"` {IN_SECTION}; if none works, {ROUTE}'},
    ),
}


@pytest.mark.parametrize("case", ADVICE_CASES)
def test_the_advice_about_tools_goes_with_how_the_model_is_given_them(machine: Path, case: str) -> None:
    behaviour, tools, expected = ADVICE_CASES[case]
    with scripted(MODEL_CASES[behaviour][0]) as upstream:
        (machine / "toolglot.toml").write_text(
            f"""
            discover = false
            [upstreams.up]
            vendor = "llamacpp"
            base_url = "{upstream.url}/v1"
            [models.small]
            upstream = "up"
            model = "tiny"
            {tools}
            """
        )
        findings = doctor_with_probe()
    told = {each["check"]: each for each in findings if each["subject"] == "up/tiny"}
    assert {check: told[check].get("advice") for check in ("tools", "text") if check in told} == expected


def test_a_store_in_memory_is_told_when_a_model_needs_text(machine: Path) -> None:
    with scripted(MODEL_CASES[WITHOUT_NATIVE][0]) as upstream:
        (machine / "toolglot.toml").write_text('[store]\npath = ":memory:"\n')
        findings = doctor_with_probe("--upstream", f"openai_chat={upstream.url}/v1")
    [told] = [each for each in findings if each["check"] == "store" and "saved" in each["what"]]
    assert told["status"] == "warn"
    assert "`tools = …`" in told["advice"]


def test_a_model_is_asked_as_the_gateway_would_ask_it(machine: Path) -> None:
    with scripted(able) as upstream:
        (machine / "toolglot.toml").write_text(
            f"""
            discover = false
            upstreams.up = {{ dialect = "openai_chat", base_url = "{upstream.url}/v1" }}
            models.small = {{ upstream = "up", model = "tiny", quirks = {{ fields = [] }} }}
            """
        )
        doctor_with_probe()
    posted = [asked.document for asked in upstream.asked if asked.method == "POST"]
    assert posted
    assert not any({"max_tokens", "max_completion_tokens"} & document.keys() for document in posted)


def doctor_with_probe(*arguments: str) -> list[dict[str, Any]]:
    result = run("doctor", "--json", "--probe", *arguments)
    assert "a few hundred tokens" in result.stderr
    findings = json.loads(result.stdout)["findings"]
    assert isinstance(findings, list)
    return findings


def test_a_model_that_does_not_answer_is_asked_nothing_more(key: str) -> None:
    error = said({"error": {"message": f"no such model for {KEY}"}}, 404)
    with scripted(differing(lambda asked: True, error)) as upstream:
        findings = doctor_with_probe(*TO, f"openai_chat={upstream.url}/v1")
    [told] = [each for each in findings if each["subject"] == "openai_chat/tiny"]
    assert (told["check"], told["status"]) == ("answers", "fail")
    assert told["what"] == "no: status 404: no such model for (hidden)"
    assert [asked.method for asked in upstream.asked] == ["GET", "POST"]


@pytest.mark.parametrize("dialect", JSON_NAMES)
def test_the_demo_is_probed_in_every_dialect_over_the_network(gateway: str, dialect: str) -> None:
    findings = doctor_with_probe("--upstream", f"{dialect}={gateway}", "--model", f"{dialect}/demo")
    told = {each["check"]: each["status"] for each in findings if each["subject"] == f"{dialect}/demo"}
    assert told == {"answers": "ok", "streams": "ok", "tools": "ok", "parallel": "ok", "images": "warn"}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = str(tmp_path_factory.mktemp("gateway"))
    options = ["--no-discover", "--demo-pace", "none", "--store", ":memory:"]
    with own_gateway(options, {"XDG_CONFIG_HOME": folder}) as url:
        yield url


def test_a_model_that_nothing_serves_is_told(machine: Path) -> None:
    (machine / "toolglot.toml").write_text(
        "discover = false\n"
        + "".join(
            f'[upstreams.{name}]\ndialect = "openai_chat"\nbase_url = "http://127.0.0.1:9/v1"\n' for name in ("a", "b")
        )
    )
    findings = doctor_with_probe("--model", "nowhere")
    assert found(findings, "model", "nowhere")[0] == "fail"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--probe", "--offline"), "--probe contacts upstreams: it cannot be combined with --offline"),
        (("--model", "x"), "--model requires --probe"),
    ],
)
def test_wishes_that_contradict_each_other_are_refused(arguments: tuple[str, ...], complaint: str) -> None:
    result = run("doctor", *arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_the_advice_for_tools_is_the_servers_own() -> None:
    from toolglot.doctor.probes import TOOL_ADVICE

    assert set(TOOL_ADVICE) <= {vendor.name for vendor in LOCAL_SERVERS}


def test_mcp_servers_are_started_and_what_the_gateway_would_run_is_told(tmp_path: Path) -> None:
    everyday, wayward = (str(SERVERS / name) for name in ("everyday.py", "wayward.py"))
    (tmp_path / "toolglot.toml").write_text(
        f"""
        discover = false
        [mcp.servers.day]
        command = "{sys.executable}"
        args = ["{everyday}"]
        [mcp.servers.open]
        command = "{sys.executable}"
        args = ["{everyday}"]
        policy = "auto"
        tools = {{ fail = "never" }}
        [mcp.servers.gone]
        command = "{sys.executable}"
        args = ["{wayward}", "exit"]
        env = {{ SECRET = "{KEY}" }}
        """
    )
    status, findings = doctor()
    assert status == 1
    ended, what, advice = found(findings, "mcp", "day")
    assert ended == "warn"
    assert "1 run automatically, " in what
    assert "need approval" in what
    assert advice is not None
    assert '`policy = "auto"` under `mcp.servers.day`' in advice
    ended, what, _ = found(findings, "mcp", "open")
    assert ended == "ok"
    assert what.endswith(", 1 never")
    assert found(findings, "mcp", "gone")[0] == "fail"


def test_offline_no_mcp_server_is_started(tmp_path: Path) -> None:
    (tmp_path / "toolglot.toml").write_text('[mcp.servers.day]\ncommand = "/nowhere"\n')
    _, findings = doctor("--offline")
    assert found(findings, "mcp") == ("warn", "MCP servers were not started or contacted: --offline", None)
