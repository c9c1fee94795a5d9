"""The model that `toolglot launch` starts an agent with, against local servers that answer as Ollama, vLLM, llama.cpp
and LM Studio do."""

from __future__ import annotations

import os
import pty
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.scripted_upstream import Asked, Said, said, scripted
from tests.cli.test_launch import Machine
from tests.waiting import FAILSAFE
from toolglot.doctor.models import is_listed

MISSING = Said(404, b"404 page not found", "text/plain")


def model_list(*names: str, owner: str, **members: object) -> dict[str, Any]:
    entries = [{"id": name, "object": "model", "created": 1, "owned_by": owner, **members} for name in names]
    return {"object": "list", "data": entries}


def server(**documents: object) -> Callable[[Asked], Said]:
    """A server with these documents, by path without slashes."""
    found: Mapping[str, object] = {f"/{path.replace('__', '/')}": document for path, document in documents.items()}
    return lambda asked: said(found[asked.path]) if asked.path in found else MISSING


def ollama(
    *names: str, loaded: int | None = None, num_ctx: int | None = None, loads: int | None = None
) -> Callable[[Asked], Said]:
    """`loaded`: the window of models in memory. `loads`: the window of models that are loaded on request."""
    running = [{"name": name, "model": name, "context_length": loaded} for name in names if loaded]
    parameters = 'stop    "<|im_end|>"' + (f"\nnum_ctx    {num_ctx}" if num_ctx else "")
    answer = server(
        v1__models=model_list(*names, owner="library"),
        api__tags={"models": [{"name": name, "model": name} for name in names]},
        api__version={"version": "0.13.0"},
        api__ps={"models": running},
        api__show={"parameters": parameters, "model_info": {"qwen3.context_length": 40960}},
    )

    def answer_or_load(asked: Asked) -> Said:
        if asked.path != "/api/generate" or loads is None:
            return answer(asked)
        model = asked.document["model"]
        running.append({"name": model, "model": model, "context_length": loads})
        return said({"model": model, "response": "", "done": True, "done_reason": "load"})

    return answer_or_load


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def launch(
    machine: Machine,
    answer: Callable[[Asked], Said],
    *arguments: str,
    vendor: str = "ollama",
    agent: str = "claude",
    settings: str = "",
) -> tuple[int, str]:
    """Launch an agent with a configuration that has this server as its only upstream. `vendor` may have a path."""
    name, slash, version = vendor.partition("/")
    with scripted(answer) as upstream:
        config = machine.home / "toolglot.toml"
        config.write_text(
            "discover = false\n[store]\npath = 'none'\n"
            f"[upstreams.local]\nvendor = '{name}'\nbase_url = '{upstream.url}{slash}{version}'\n{settings}"
        )
        status, machine.output, complaints = machine.launch(agent, "--config", str(config), *arguments)
        return status, complaints


def started_with(machine: Machine) -> tuple[str | None, str | None]:
    """The model and the window that the agent got."""
    environment = machine.told["environment"]
    return environment.get("ANTHROPIC_MODEL"), environment.get("CLAUDE_CODE_MAX_CONTEXT_TOKENS")


ENOUGH = 65_536


@pytest.mark.parametrize(
    ("answer", "vendor", "arguments", "expected"),
    [
        (ollama("qwen3:8b", loaded=ENOUGH), "ollama", (), ("qwen3:8b", str(ENOUGH))),
        (ollama("qwen3:8b", loaded=ENOUGH), "ollama/v1", (), ("qwen3:8b", str(ENOUGH))),
        (ollama("qwen3:8b", num_ctx=ENOUGH), "ollama", (), ("qwen3:8b", str(ENOUGH))),
        (ollama("qwen3:8b", loads=ENOUGH), "ollama", (), ("qwen3:8b", str(ENOUGH))),
        (ollama("qwen3:8b", loads=ENOUGH), "ollama/v1", (), ("qwen3:8b", str(ENOUGH))),
        (ollama("qwen3:8b", loaded=4096, num_ctx=ENOUGH), "ollama", (), ("qwen3:8b", str(ENOUGH))),
        (ollama("qwen3:latest", loaded=ENOUGH), "ollama", ("--model", "qwen3"), ("qwen3", str(ENOUGH))),
        (server(v1__models=model_list("m", owner="vllm", max_model_len=ENOUGH)), "vllm", (), ("m", str(ENOUGH))),
        (
            server(
                v1__models=model_list("m", owner="llamacpp", meta={"n_ctx_train": 4096}),
                props={"default_generation_settings": {"n_ctx": ENOUGH}},
            ),
            "llamacpp",
            (),
            ("m", str(ENOUGH)),
        ),
        (
            server(
                v1__models=model_list("m", owner="organization_owner"),
                api__v0__models={"data": [{"id": "m", "loaded_context_length": ENOUGH}]},
            ),
            "lmstudio",
            (),
            ("m", str(ENOUGH)),
        ),
        (
            server(v1__models=model_list("m-20260101", "n", owner="x")),
            "vllm",
            ("--model", "m-latest"),
            ("m-latest", None),
        ),
    ],
    ids=[
        "loaded",
        "openai-endpoint",
        "num_ctx",
        "not-loaded",
        "not-loaded-openai-endpoint",
        "loaded-by-others",
        "tag",
        "vllm",
        "llamacpp",
        "lmstudio",
        "snapshot",
    ],
)
def test_the_agent_starts_with_the_model_and_the_window_that_the_server_serves(
    machine: Machine,
    answer: Callable[[Asked], Said],
    vendor: str,
    arguments: Sequence[str],
    expected: tuple[str | None, str | None],
) -> None:
    # The agent's own request fails: these servers answer nothing else. It has started by then, or not at all.
    _, complaints = launch(machine, answer, *arguments, vendor=vendor, agent="codex")
    window = [word for word in machine.told["arguments"] if word.startswith("model_context_window=")]
    model = [word for word in machine.told["arguments"] if word.startswith("model=")]
    assert (model, window) == (
        [f'model="{expected[0]}"'],
        [f"model_context_window={expected[1]}"] if expected[1] else [],
    ), complaints


@pytest.mark.parametrize(
    ("answer", "vendor", "arguments", "expected"),
    [
        (
            ollama("qwen3:8b", "llama3.2:3b"),
            "ollama",
            (),
            ["toolglot: choose one of 2 models with --model", "  qwen3:8b, llama3.2:3b"],
        ),
        (
            ollama("qwen3:8b", loaded=ENOUGH),
            "ollama",
            ("--model", "qwen3:9b"),
            ["toolglot: local has no model `qwen3:9b`", "  did you mean `qwen3:8b`?"],
        ),
        (
            ollama("qwen3:8b", "llama3.2:3b", loaded=ENOUGH),
            "ollama",
            ("--model", "mistral"),
            ["toolglot: local has no model `mistral`", "  it has qwen3:8b, llama3.2:3b"],
        ),
        (
            ollama("qwen3:8b", loaded=4096),
            "ollama",
            ("--model", "qwen3:8b"),
            [
                "toolglot: local serves qwen3:8b with a context window of 4,096 tokens; Claude Code needs about 20,000 "
                "tokens for its first request",
                "  start it with OLLAMA_CONTEXT_LENGTH=32768, or set `num_ctx` in the model's Modelfile, "
                "or `context_window` of the model in toolglot's configuration",
            ],
        ),
        (
            ollama("qwen3:8b", loaded=4096, num_ctx=4096),
            "ollama",
            ("--model", "qwen3:8b"),
            [
                "toolglot: local serves qwen3:8b with a context window of 4,096 tokens; Claude Code needs about 20,000 "
                "tokens for its first request",
                "  its Modelfile sets this window: change `PARAMETER num_ctx` there to 32768, "
                "or `context_window` of the model in toolglot's configuration",
            ],
        ),
        (
            server(v1__models=model_list("m", owner="vllm", max_model_len=8192)),
            "vllm",
            (),
            [
                "toolglot: using m, the only model",
                "toolglot: local serves m with a context window of 8,192 tokens; Claude Code needs about 20,000 tokens "
                "for its first request",
                "  start it with --max-model-len 32768",
            ],
        ),
        (
            lambda asked: said({"error": {"message": "Invalid API key"}}, 401),
            "vllm",
            ("--model", "m"),
            None,
        ),
        (ollama(), "ollama", (), ["toolglot: no models found"]),
    ],
    ids=["several", "misspelled", "unknown", "ollama-window", "modelfile-window", "vllm-window", "key", "none"],
)
def test_no_agent_starts_with_a_model_that_cannot_work(
    machine: Machine,
    answer: Callable[[Asked], Said],
    vendor: str,
    arguments: Sequence[str],
    expected: Sequence[str] | None,
) -> None:
    status, complaints = launch(machine, answer, *arguments, vendor=vendor)
    assert status == 1
    assert not machine.report.exists()
    if expected is None:
        assert "requires a key: status 401" in complaints
    else:
        assert complaints.splitlines()[: len(expected)] == list(expected)


def test_a_configured_window_counts_where_requests_set_it(machine: Machine) -> None:
    settings = f"[models.'qwen3:8b']\nupstream = 'local'\ncontext_window = {ENOUGH}\n"
    launch(machine, ollama("qwen3:8b", loaded=4096), "--model", "qwen3:8b", agent="codex", settings=settings)
    assert f"model_context_window={ENOUGH}" in machine.told["arguments"]


def test_a_window_that_the_server_does_not_tell_can_be_configured(machine: Machine) -> None:
    _, complaints = launch(machine, ollama("qwen3:8b"))
    lines = complaints.splitlines()
    place = next(
        number for number, line in enumerate(lines) if line.startswith("toolglot: warning: local does not say")
    )
    assert lines[place + 1 : place + 3] == [
        "  if it is smaller, start it with OLLAMA_CONTEXT_LENGTH=32768, or set `num_ctx` in the model's Modelfile",
        '  if it is known, set `context_window` under `[models."qwen3:8b"]` in the configuration',
    ]


@pytest.mark.parametrize(
    ("agent", "arguments", "command"),
    [
        ("claude", (), "claude --settings FOLDER/settings.json --model qwen3:8b"),
        ("opencode", ("--", "run"), "opencode run"),
        ("claude", ("--no-check",), "claude --settings FOLDER/settings.json"),
    ],
)
def test_what_is_shown_has_the_model_that_would_be_used(
    machine: Machine, agent: str, arguments: Sequence[str], command: str
) -> None:
    status, complaints = launch(machine, ollama("qwen3:8b"), "--show", *arguments, agent=agent)
    assert status == 0, complaints
    assert machine.output.splitlines()[-1] == command
    assert ("qwen3:8b" in machine.output) == ("--no-check" not in arguments)
    assert complaints == ("" if "--no-check" in arguments else "toolglot: using qwen3:8b, the only model\n")
    assert not machine.report.exists()


def test_without_a_terminal_nothing_is_shown_until_one_of_several_models_is_chosen(machine: Machine) -> None:
    status, complaints = launch(machine, ollama("qwen3:8b", "llama3.2:3b"), "--show")
    assert (status, machine.output) == (1, "")
    assert complaints.splitlines()[:2] == [
        "toolglot: choose one of 2 models with --model",
        "  qwen3:8b, llama3.2:3b",
    ]


def test_a_server_that_refuses_connections_is_reported_at_once(machine: Machine) -> None:
    status, _, complaints = machine.launch("claude", "--model", "m", "--upstream", "openai_chat=http://127.0.0.1:9/v1")
    assert status == 1
    assert complaints.splitlines()[:2] == [
        "toolglot: 127.0.0.1:9 cannot be reached: Connection refused",
        "  start the server, or correct `base_url`",
    ]
    assert not machine.report.exists()


@pytest.mark.parametrize(
    ("model", "listed", "expected"),
    [
        ("deepseek/deepseek-r1:nitro", "deepseek/deepseek-r1", True),
        ("claude-sonnet-4-0", "claude-sonnet-4-20250514", True),
        ("m-latest", "m-2026-01-01", True),
        ("qwen3", "qwen3:latest", True),
        ("qwen3:9b", "qwen3:8b", False),
        ("qwen3", "qwen3-coder:30b", False),
        ("gpt-4", "gpt-4o", False),
    ],
)
def test_a_model_is_listed_under_its_name_or_one_that_servers_accept_in_its_place(
    model: str, listed: str, expected: bool
) -> None:
    assert is_listed(model, [listed]) is expected


@pytest.mark.parametrize("is_running", [False, True])
def test_no_agent_starts_on_the_demo_or_on_another_model_in_place_of_the_one_that_was_named(
    machine: Machine, is_running: bool
) -> None:
    with scripted(ollama("qwen3:8b", loaded=ENOUGH)) as upstream:
        address = upstream.url.removeprefix("http://") if is_running else "127.0.0.1:9"
        status, _, complaints = machine.launch("claude", "--model", "qwen3:7b", OLLAMA_HOST=address)
    assert status == 1
    assert not machine.report.exists()
    expected = "ollama has no model `qwen3:7b`" if is_running else "no upstream has the model `qwen3:7b`"
    assert complaints.splitlines()[0] == f"toolglot: {expected}"


def test_a_dead_address_in_the_environment_is_named(machine: Machine) -> None:
    status, _, complaints = machine.launch("claude", OLLAMA_HOST="127.0.0.1:9")
    assert status == 1
    assert complaints.splitlines()[:2] == [
        "toolglot: no models found",
        "  OLLAMA_HOST: not used: no server answers at http://127.0.0.1:9; start it: `ollama serve`",
    ]


def test_models_that_the_agent_requests_by_itself_need_no_choice(machine: Machine) -> None:
    answer = server(v1__models=model_list("claude-sonnet-4-5", "claude-opus-4-5", owner="x"))
    launch(machine, answer, vendor="vllm", agent="claude")
    assert started_with(machine) == (None, None)


def test_the_user_chooses_a_model_on_a_terminal(machine: Machine) -> None:
    with scripted(ollama("qwen3:8b", "llama3.2:3b", loaded=ENOUGH)) as upstream:
        ours, theirs = pty.openpty()
        arguments = ("codex", "--upstream", f"openai_chat={upstream.url}/v1")
        process = machine.start_on(theirs, *arguments)
        os.close(theirs)
        os.write(ours, b"7\n2\n")
        shown = _read_all(ours)
        assert process.wait(FAILSAFE) == 7, shown
    assert "1  qwen3:8b" in shown
    assert "enter a number or the name of a model" in shown
    assert 'model="llama3.2:3b"' in machine.told["arguments"]


def _read_all(terminal: int) -> str:
    data = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        data += piece
    os.close(terminal)
    return data.decode()
