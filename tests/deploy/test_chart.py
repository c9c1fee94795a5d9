"""The Helm chart without Helm: its values, its templates and its schema fit each other.

Templates are checked as text: every value that they use exists, every value is used, and every block ends. The parts
between the actions are YAML of a known kind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.deploy.files import CHART, yaml_of
from toolglot import __version__
from toolglot.config.documents import parse_document
from toolglot.config.load import read_config
from toolglot.server.routes import ROUTES

VALUES = yaml_of(CHART / "values.yaml")
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
TEMPLATES = sorted((CHART / "templates").iterdir())
MANIFESTS = [path for path in TEMPLATES if path.suffix == ".yaml"]

_ACTION = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}", re.DOTALL)
_VALUE = re.compile(r"\.Values\.([A-Za-z.]+)")


def paths_of(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict) and value and path != "resources" and not path.endswith("annotations"):
        for name, inner in value.items():
            yield from paths_of(inner, f"{path}.{name}".lstrip("."))
    else:
        yield path


def used_paths() -> set[str]:
    return {path for file in TEMPLATES for path in _VALUE.findall(file.read_text())}


def test_every_value_that_a_template_uses_exists() -> None:
    for path in used_paths():
        value = VALUES
        for name in path.split("."):
            assert name in value, path
            value = value[name]


def test_every_value_is_used_by_a_template() -> None:
    assert set(paths_of(VALUES)) - used_paths() == set()


@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: file.name)
def test_every_block_of_a_template_ends_and_every_name_is_defined(file: Path) -> None:
    text = file.read_text()
    depth = 0
    for action in _ACTION.findall(text):
        word = action.split()[0]
        depth += word in ("if", "with", "range", "define")
        depth -= word == "end"
        assert depth >= 0
    assert depth == 0
    defined = set(re.findall(r'define "([^"]+)"', (CHART / "templates" / "_helpers.tpl").read_text()))
    assert set(re.findall(r'include "([^"]+)"', text)) <= defined
    assert text.count("{{") == len(_ACTION.findall(text))


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.name)
def test_a_template_without_its_actions_is_a_manifest(file: Path) -> None:
    lines = [
        _ACTION.sub("x", line) for line in file.read_text().splitlines() if not re.fullmatch(r"\s*\{\{.*\}\}\s*", line)
    ]
    manifest = yaml.safe_load("\n".join(lines))
    assert {"apiVersion", "kind", "metadata"} <= set(manifest)
    assert file.stem == manifest["kind"].lower()


def test_the_schema_has_every_value_and_no_other() -> None:
    def fits(value: Any, schema: Any, path: str) -> None:
        if schema.get("additionalProperties") is False:
            assert set(value) == set(schema["properties"]) - {"global"}, path
            for name, inner in value.items():
                fits(inner, schema["properties"][name], f"{path}.{name}")

    fits(VALUES, SCHEMA, "")


def test_the_pod_is_confined() -> None:
    text = (CHART / "templates" / "deployment.yaml").read_text()
    for line in (
        "runAsNonRoot: true",
        "runAsUser: 65532",
        "readOnlyRootFilesystem: true",
        "allowPrivilegeEscalation: false",
    ):
        assert line in text
    assert 'drop: ["ALL"]' in text
    assert "automountServiceAccountToken: false" in text


def test_probes_ask_paths_that_answer_without_a_key() -> None:
    text = (CHART / "templates" / "deployment.yaml").read_text()
    open_paths = {route.path for route in ROUTES if route.open and route.reserved}
    probed = set(re.findall(r"path: (/\w+z)$", text, re.MULTILINE))
    assert probed == {"/readyz", "/livez"}
    assert probed <= open_paths


def test_the_configuration_of_the_values_is_valid() -> None:
    loaded = read_config(parse_document(VALUES["config"].encode(), "toolglot.toml"), {"TOOLGLOT_KEY": "a-key"})
    assert loaded.config.server.keys == ("a-key",)


def test_the_chart_is_for_this_version() -> None:
    assert yaml_of(CHART / "Chart.yaml")["appVersion"] == __version__
