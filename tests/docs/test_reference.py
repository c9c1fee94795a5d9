"""Reference pages say what the code says, and troubleshooting quotes messages that exist."""

from __future__ import annotations

import ast
import re

import pytest
from scripts.reference import GENERATED

from tests.docs.markdown import ROOT
from toolglot.cli.app import COMMANDS
from toolglot.server.routes import ROUTES

DOCS = ROOT / "docs"


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    """`python -m scripts.reference` writes it anew."""
    assert (DOCS / name).read_text() == GENERATED[name]()


def test_the_references_are_complete() -> None:
    commands = (DOCS / "reference/cli.md").read_text()
    assert all(f"\n## toolglot {name}" in commands for name in COMMANDS)
    paths = (DOCS / "reference/http.md").read_text()
    assert all(f"| {route.method} | `{route.path}` |" in paths for route in ROUTES)


def test_the_python_reference_shows_types_as_types_and_lists_inherited_properties() -> None:
    page = (DOCS / "reference/python.md").read_text()
    assert "_empty" not in page
    assert "The earlier name of" not in page
    assert all(f"\n{name} = " in page for name in ("AnyDialect", "Chunk", "Document", "Fragment"))
    for name in ("Exchange", "TranslatedStream"):
        section = page.partition(f"\n### {name}\n")[2].partition("\n### ")[0]
        assert all(f"\n| `{member}` |" in section for member in ("receipt", "usage", "stop", "fault"))


def test_every_table_of_metrics_has_only_metrics_that_exist() -> None:
    metrics = set(re.findall(r"^\| `(\w+)`", (DOCS / "reference/metrics.md").read_text(), re.MULTILINE))
    for page in DOCS.rglob("*.md"):
        for name in re.findall(r"`(toolglot_\w+?(?:_total|_ratio|_up|_in_flight|_resting))`", page.read_text()):
            assert name in metrics, f"{page.name}: {name}"


def source_texts() -> str:
    """All literal text in the source: strings, and the fixed parts of f-strings."""
    return "\n".join(
        node.value
        for file in sorted((ROOT / "src").rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def test_the_messages_of_the_troubleshooting_page_are_those_of_the_program() -> None:
    page = (DOCS / "troubleshooting.md").read_text().partition("## In the agent")[0]
    quoted = [line for line in page.splitlines() if re.fullmatch(r"`[^`]+`(, `[^`]+`)*", line)]
    assert len(quoted) > 12
    texts = source_texts()
    for message in re.findall(r"`([^`]+)`", "\n".join(quoted)):
        for part in filter(str.strip, message.split("…")):
            assert part.strip(" ;,:") in texts, f"{message}: {part!r}"
