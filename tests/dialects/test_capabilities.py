"""What each dialect and each model can be told, compared with what is written down in `written/*.json`.

These are facts about other people's APIs, and most of them change bytes on the wire only in a corner. So they are kept
twice, and a change is made on purpose in both places. `python -m tests.dialects.test_capabilities` writes the files
anew, for the models that are named in them; read the difference before you commit it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from toolglot.capabilities import PLACES, Capabilities, read_capability
from toolglot.dialect import Dialect, capabilities
from toolglot.dialects import DIALECTS
from toolglot.dialects.anthropic import anthropic_capabilities
from toolglot.ir import Request

WRITTEN = Path(__file__).parent / "written"
RECORD = {
    "title": attrgetter("title"),
    "state_slot": attrgetter("state.slot"),
    "model_in_path": attrgetter("request.model_in_path"),
    "history_key": attrgetter("request.history_key"),
    "system_key": attrgetter("request.system_key"),
    "key_header": attrgetter("headers.key"),
    "headers": attrgetter("headers.sent"),
}
RECORD_SETS = {
    "request_headers": attrgetter("headers.request_headers"),
    "response_headers": attrgetter("headers.answer_prefixes"),
}

VERSIONS = ("2023-01-01", "2023-06-01", "2026-10-20", "2026-10-21", "2030-01-01")


def plain(value: Any) -> Any:
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return list(value)
    return {key: plain(item) for key, item in value.items()} if isinstance(value, dict) else value


def difference(can: Capabilities, base: Capabilities) -> dict[str, Any]:
    """What a model differs in; of sets only what it has more and less."""
    changed: dict[str, Any] = {}
    for name in PLACES:
        new, old = read_capability(can, name), read_capability(base, name)
        if new == old:
            continue
        if isinstance(new, frozenset) and isinstance(old, frozenset):
            changed[name] = [f"-{entry}" for entry in sorted(old - new)] + [f"+{entry}" for entry in sorted(new - old)]
        else:
            changed[name] = plain(new)
    return changed


def facts(dialect: Dialect, models: Iterable[str]) -> dict[str, Any]:
    record = {name: plain(find(dialect)) for name, find in RECORD.items()}
    record |= {name: sorted(find(dialect)) for name, find in RECORD_SETS.items()}
    found: dict[str, Any] = {
        "record": record,
        "can": {name: plain(read_capability(dialect.can, name)) for name in PLACES},
        "models": {model: difference(capabilities(dialect, model), dialect.can) for model in models},
    }
    if dialect.name == "anthropic":
        found["versions"] = {
            version: difference(anthropic_capabilities(version, "some-model"), dialect.can) for version in VERSIONS
        }
    return found


def read(dialect: Dialect) -> dict[str, Any]:
    path = WRITTEN / f"{dialect.name}.json"
    written: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"models": {}}
    return written


def write(dialect: Dialect) -> None:
    """One line for each fact."""
    parts = []
    for part, entries in facts(dialect, read(dialect)["models"]).items():
        lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(value)}" for name, value in entries.items())
        parts.append(f"  {json.dumps(part)}: {{\n{lines}\n  }}")
    (WRITTEN / f"{dialect.name}.json").write_text("{\n" + ",\n".join(parts) + "\n}\n")


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda dialect: dialect.name)
def test_what_a_dialect_and_its_models_can_be_told_is_what_is_written_down(dialect: Dialect) -> None:
    written = read(dialect)
    found = json.loads(json.dumps(facts(dialect, written["models"])))
    for part in written:
        assert found[part] == written[part]
    assert found.keys() == written.keys()


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda dialect: dialect.name)
def test_every_rule_about_models_is_met_by_a_model_that_is_written_down(dialect: Dialect) -> None:
    models = read(dialect)["models"]
    assert [
        rule.pattern for rule in dialect.models if not any(re.search(rule.pattern, model, re.I) for model in models)
    ] == []


@pytest.mark.parametrize(
    ("dialect", "model", "stream", "path"),
    [
        ("openai_chat", "m", False, "/v1/chat/completions"),
        ("openai_responses", "m", True, "/v1/responses"),
        ("anthropic", "m", True, "/v1/messages"),
        ("gemini", "m", False, "/v1beta/models/m:generateContent"),
        ("gemini", "m", True, "/v1beta/models/m:streamGenerateContent?alt=sse"),
        ("gemini", "tunedModels/a b", False, "/v1beta/tunedModels/a%20b:generateContent"),
        ("gemini", "m-1.5_x~y@z", False, "/v1beta/models/m-1.5_x~y@z:generateContent"),
    ],
)
def test_a_request_is_posted_to_the_path_of_its_dialect(dialect: str, model: str, stream: bool, path: str) -> None:
    assert DIALECTS[dialect].path(Request(model=model, stream=stream)) == path


if __name__ == "__main__":
    for each in DIALECTS.values():
        write(each)
