"""Every command and every example of the README and the documentation is run."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.cli.run import in_background, on_terminal
from tests.docs.markdown import PAGES, ROOT, blocks
from tests.docs.model_servers import model_servers
from tests.needs import has_packages, need
from toolglot.config.load import load_config
from toolglot.dialects import DIALECTS
from toolglot.ir import Request

KNOWN_LANGUAGES = {"bash", "python", "json", "text", "toml", ""}
SET_UP_COMMANDS = (
    *("pip install", "pipx install", "pipx run", "uvx ", "uv tool install", "git clone", "cd ", ".ci/run", "make "),
    *("npm install -g ", "ollama pull ", "OLLAMA_CONTEXT_LENGTH=", "vllm serve ", "llama-server "),
    *(
        "docker build ",
        "docker run ",
        "docker compose ",
        "helm install ",
        "systemctl enable ",
        "install -",
        "python3 -m venv ",
    ),
    "/opt/toolglot/bin/pip install ",
)

_SDKS = re.compile(r"^>>> from (openai|anthropic|google)\b", re.MULTILINE)
"""Imports of the vendors' SDKs, which are installed for the end-to-end tests alone."""

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@pages
def test_the_python_of_a_page_runs_and_says_what_it_shows(page: Path) -> None:
    names: dict[str, Any] = {"__name__": page.stem}
    for block in blocks(page):
        if block.language != "python" or not has_packages(_SDKS.findall(block.text)):
            continue
        if ">>>" not in block.text:
            exec(compile("\n" * block.line + block.text, str(page), "exec"), names)
            continue
        test = doctest.DocTestParser().get_doctest(block.text, names, page.name, str(page), block.line)
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
        told: list[str] = []
        runner.run(test, out=told.append, clear_globs=False)
        assert not runner.failures, "".join(told)
        names.update(test.globs)


@pages
def test_the_commands_of_a_page_run_and_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    with ExitStack() as servers:
        models = servers.enter_context(model_servers(page))
        for block in blocks(page):
            if block.language != "bash" or block.is_set_up:
                continue
            if block.is_server:
                servers.enter_context(in_background(models.actual(block.commands[0]), tmp_path, models.environment))
                continue
            if "curl " in block.text:
                need("curl")
            shown = on_terminal(models.actual(block.script), tmp_path, models.environment)
            where = f"{page.name}:{block.line}"
            assert shown.status == 0, f"{where}: {shown.output}"
            if block.expected or not block.is_launch:
                assert models.shown(shown.output) == (block.expected[1] if block.expected else ""), where


def test_no_page_is_in_the_way_of_another_in_the_same_folder() -> None:
    """Who tries one after the other gets what each of them shows: no file that every later command would read, and no
    recordings of another page."""
    folders: dict[str, Path] = {}
    for page in PAGES:
        for block in blocks(page):
            assert not re.search(r"> *toolglot\.(toml|ya?ml)", block.text), f"{page.name}:{block.line}"
            for folder in re.findall(r"--record (\S+)", block.text if block.language == "bash" else ""):
                assert folders.setdefault(folder, page) == page, f"{page.name}:{block.line}: {folder}"


def test_the_library_page_is_a_doctest_as_it_stands() -> None:
    done = run([sys.executable, "-m", "doctest", "docs/library.md"], ROOT)
    assert (done.returncode, done.stdout) == (0, "")


@pages
def test_the_set_up_commands_of_a_page_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for block in blocks(page):
        for command in block.commands if block.is_set_up else ():
            assert command.startswith(SET_UP_COMMANDS), f"{page.name}:{block.line}: {command}"
            if command.startswith("make "):
                assert command.split()[1] in targets, f"{page.name}:{block.line}: {command}"
            for file in re.findall(r"(?:^|[ /])((?:deploy|requirements)/[\w./-]+)", command):
                assert (ROOT / file).exists(), f"{page.name}:{block.line}: {file}"
            if command.startswith(".ci/run"):
                assert os.access(ROOT / ".ci/run", os.X_OK)


@pages
def test_a_page_has_only_blocks_that_are_checked_and_links_that_lead_somewhere(page: Path) -> None:
    for block in blocks(page):
        assert block.language in KNOWN_LANGUAGES, f"{page.name}:{block.line}: {block.language}"
    for link in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text()):
        assert (page.parent / link).exists(), f"{page.name}: {link}"


@pages
def test_a_configuration_on_a_page_is_accepted(page: Path, tmp_path: Path) -> None:
    for block in blocks(page):
        if block.language == "toml":
            file = tmp_path / "toolglot.toml"
            file.write_text(block.text)
            load_config(file, {})


def test_the_table_of_dialects_is_the_one_that_the_command_prints() -> None:
    done = run([sys.executable, "-m", "toolglot", "dialects", "--markdown"], ROOT)
    assert done.stdout in (ROOT / "docs/dialects.md").read_text()


def test_the_table_of_names_knows_which_dialect_has_which_parameter() -> None:
    lines = (ROOT / "docs/receipts.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    assert len(rows) > 10
    for name, *cells in rows:
        field = name.strip("`").partition("[")[0]
        assert field in Request.__struct_fields__
        for dialect, cell in zip(DIALECTS.values(), cells, strict=True):
            assert cell.startswith("`") or field not in dialect.can.parameters.fields, (name, dialect.name)


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "100", "NO_COLOR": "1"}
    environment.pop("MAKEFLAGS", None)
    environment.pop("MAKELEVEL", None)
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_files_and_functions_of_a_streamed_request_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page.partition("## A streamed request from socket to socket")[2].partition("\n## ")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ") and "`" in line]
    assert len(rows) > 10
    for _, files, functions in rows:
        sources = [(ROOT / "src" / "toolglot" / name).read_text() for name in re.findall(r"`([^`]+)`", files)]
        for name in re.findall(r"`([^`]+)`", functions):
            *owner, function = name.split(".")
            assert all(f"def {function}(" in source for source in sources), name
            assert all(f"class {each}" in source for each in owner for source in sources), name
