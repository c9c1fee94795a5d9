"""A dialect is its folder: no other module knows it by name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import toolglot
from toolglot.dialects import DIALECTS

ROOT = Path(toolglot.__file__).parent
NAMES = re.compile("|".join(f"{name}|{name.replace('_', '-')}" for name in DIALECTS), re.IGNORECASE)

ALLOWED = {
    "dialects/__init__.py": "the registration",
    # Data of a configuration, or about products that happen to have the same name.
    "cli/agents.py": "rows of agents: their variables and commands",
    "cli/running_gateway.py": "asks for the list in the form that agents expect",
    "upstream/served_window.py": "Ollama as a vendor: how its server reports the context window",
    "config/importers/claude_code_router.py": "the words of another gateway's configuration",
    "config/importers/environment.py": "placeholders for keys in other gateways' configurations",
    "config/importers/litellm.py": "the words of another gateway's configuration",
    "config/importers/litellm_rows.py": "the words of another gateway's configuration",
    "config/importers/upstreams.py": "ends of addresses in other gateways' configurations",
    "config/mcp_import.py": "folders of editors",
    "config/schema.py": "names of settings",
    "config/template.py": "variables and models in examples",
    "demo.py": "the walk through three clients",
    "chat/startup.py": "models of the demo",
    "doctor/probes.py": "advice for a vendor",
    "prices/table.py": "vendors whose name in the table differs",
    "recordings/redact.py": "names of headers",
    "server/tracing.py": "vendors by their names in OpenTelemetry",
    "textcalls/formats/tagged.py": "formats of text calls",
    "textcalls/prompts/tagged_formats.py": "formats of text calls",
    "textcalls/result_forms.py": "formats of text calls",
    "tool_server/arguments.py": "help for models",
    "tool_server/server.py": "help for models",
    "upstream/demo/transport.py": "the demo plays what models of vendors do",
    "upstream/vendors.py": "rows of vendors",
    "wire/context_overflow.py": "words of vendors' errors",
    "wire/known_errors.py": "words of vendors' errors",
    "wire/openai_error.py": "shared by the two dialects of one vendor",
    # Settings of a configuration that have a dialect's name in theirs, handed on to where they matter.
    "config/checks.py": "the settings `warp_history` and `disable_warp_tools`",
    "recordings/writing/recorder.py": "the setting `warp_history`",
    "recordings/format.py": "the settings `warp_history` and `disable_warp_tools`",
    "recordings/retranslate.py": "the settings `warp_history` and `disable_warp_tools`",
    "recordings/rerun/replay_setup.py": "the settings `warp_history` and `disable_warp_tools`",
    "server/startup.py": "the settings `warp_history` and `disable_warp_tools`",
    "gateway/features/recording.py": "the settings `warp_history` and `disable_warp_tools`",
    "upstream/exchange.py": "the settings `warp_history` and `disable_warp_tools`",
    "upstream/upstream.py": "the settings `warp_history` and `disable_warp_tools`",
    "gateway/features/conversation_replay.py": "the setting `warp_history`: what such a server wants back is kept",
    "cli/app.py": "the command `toolglot warp`",
    "cli/warp.py": "the command `toolglot warp`",
}
"""Modules that name a dialect, each with the reason."""


def named_in(path: Path) -> Iterator[str]:
    """The lines of code, not of comments and documentation, that hold the name of a dialect."""
    source = path.read_text()
    told: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            told.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    for number, line in enumerate(source.splitlines(), 1):
        code = "" if line.lstrip().startswith("#") else line.partition("  #")[0]
        if number not in told and NAMES.search(code):
            yield f"{number}: {line.strip()}"


FOLDERS = {("dialects", name) for name in DIALECTS}
MODULES = sorted(path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[:2] not in FOLDERS)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_outside_its_folder_names_a_dialect(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    found = list(named_in(path))
    if name in ALLOWED:
        assert found, f"{name} names none any more: take it off the list"
    else:
        assert found == []
