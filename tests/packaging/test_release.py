"""Versions, the changelog, locked packages, the bill of materials, and the files that GitHub reads."""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from msgspec import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from scripts import lock, release_notes, sbom
from scripts.dependency_group import read_pyproject, requirements
from scripts.release_notes import notes_of, read_sections

import toolglot
from tests.cli.run import run
from tests.docs.markdown import ROOT

VERSION: str = read_pyproject()["project"]["version"]
CHANGELOG = release_notes.CHANGELOG.read_text()
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def test_the_versions_agree() -> None:
    assert toolglot.__version__ == VERSION
    assert run("--version").stdout == f"toolglot, version {VERSION}\n"


def test_the_changelog_ends_at_the_version_of_the_package() -> None:
    first, *rest = read_sections(CHANGELOG)
    released = [section for section in (first, *rest) if section.version is not None]
    assert all(section.version is not None for section in rest), "only the first section may be unreleased"
    versions = [Version(section.version or "") for section in released]
    assert versions == sorted(set(versions), reverse=True)
    assert [section.date for section in released] == sorted((section.date for section in released), reverse=True)
    assert not versions or versions[0] <= Version(VERSION)
    # Without unreleased changes, the newest section is the version of the package.
    assert first.version is None or first.version == VERSION


@pytest.mark.parametrize(
    ("version", "changelog", "packaged", "expected"),
    [
        ("0.2.0", "# C\n\n## 0.2.0 - 2026-12-01\n\n- New.\n\n## 0.1.0 - 2026-11-01\n\n- Old.\n", "0.2.0", "- New."),
        ("0.2.0", "# C\n\n## Unreleased\n\n## 0.2.0 - 2026-12-01\n\n- New.\n", "0.2.0", "- New."),
    ],
)
def test_the_notes_of_a_release_are_its_section(version: str, changelog: str, packaged: str, expected: str) -> None:
    assert notes_of(version, changelog, packaged) == expected


@pytest.mark.parametrize(
    ("version", "changelog", "packaged", "expected"),
    [
        ("0.2.0", "# C\n\n## 0.2.0 - 2026-12-01\n", "0.1.0", "pyproject.toml has version 0.1.0, not 0.2.0"),
        ("0.2.0", "# C\n\n## Unreleased\n\n- New.\n\n## 0.2.0 - 2026-12-01\n", "0.2.0", "unreleased changes"),
        ("0.2.0", "# C\n\n## 0.1.0 - 2026-11-01\n", "0.2.0", "no section `## 0.2.0"),
        ("0.2.0", "# C\n\n## 0.2.0 (soon)\n", "0.2.0", "neither `## Unreleased` nor"),
    ],
)
def test_a_release_that_is_not_ready_is_refused(version: str, changelog: str, packaged: str, expected: str) -> None:
    with pytest.raises(ValueError, match=re.escape(expected)):
        notes_of(version, changelog, packaged)


@pytest.mark.parametrize("name", lock.inputs())
def test_the_locked_versions_satisfy_the_requirements(name: str) -> None:
    """`make lock` writes them anew."""
    locked = (lock.FOLDER / f"{name}.txt").read_text()
    pins = list(sbom.read_pins(locked))
    assert all(pin.hashes for pin in pins)
    for wanted in map(Requirement, lock.inputs()[name]):
        versions = [pin.version for pin in pins if canonicalize_name(pin.name) == canonicalize_name(wanted.name)]
        assert versions, f"{wanted}: not in requirements/{name}.txt; run `make lock`"
        assert all(wanted.specifier.contains(version, prereleases=True) for version in versions), wanted
    # No address of an index: it may be private.
    assert "://" not in locked


def test_the_extras_that_messages_name_exist() -> None:
    extras = set(read_pyproject()["project"]["optional-dependencies"])
    for file in (ROOT / "src").rglob("*.py"):
        for named in re.findall(r"pip install ['\"]?\.\[([\w,]+)\]", file.read_text()):
            assert set(named.split(",")) <= extras, f"{file.name}: {named}"


def test_the_bill_of_materials_has_every_locked_package_with_its_hashes() -> None:
    pins = list(sbom.read_pins(sbom.LOCKED.read_text()))
    bill = sbom.bill_of_materials(pins)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert uuid.UUID(bill["serialNumber"].removeprefix("urn:uuid:")).version == 5
    assert bill["metadata"]["component"]["version"] == VERSION
    names = {component["name"] for component in bill["components"]}
    assert {canonicalize_name(Requirement(line).name) for line in read_pyproject()["project"]["dependencies"]} <= names
    references = [component["bom-ref"] for component in bill["components"]]
    assert bill["dependencies"] == [{"ref": f"pkg:pypi/toolglot@{VERSION}", "dependsOn": references}]
    assert all(component["externalReferences"][0]["hashes"] for component in bill["components"])
    assert sbom.bill_of_materials(pins) == bill


def test_a_line_that_is_not_locked_is_refused() -> None:
    with pytest.raises(ValueError, match="not a locked package: click>=8"):
        list(sbom.read_pins("click>=8\n"))


def test_a_group_that_includes_another_has_the_requirements_of_both() -> None:
    assert set(requirements("docs")) < set(requirements("dev"))


def steps_of(workflow: Any) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_what_exists_with_few_rights(path: Path) -> None:
    workflow = yaml.decode(path.read_text())
    assert workflow["permissions"]["contents"] == "read"
    assert all(job["timeout-minutes"] <= 60 for job in workflow["jobs"].values())
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for step in steps_of(workflow):
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+)", step["uses"])
        for target in re.findall(r"^make (\S+)", step.get("run", ""), re.MULTILINE):
            assert target in targets
        for module in re.findall(r"python -m scripts\.(\w+)", step.get("run", "")):
            assert (ROOT / "scripts" / f"{module}.py").is_file()


def test_releases_are_published_without_a_stored_token() -> None:
    workflow = yaml.decode((ROOT / ".github/workflows/release.yml").read_text())
    assert workflow["jobs"]["publish"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in (ROOT / ".github/workflows/release.yml").read_text()


def test_ci_runs_the_script_that_people_run() -> None:
    workflow = yaml.decode((ROOT / ".github/workflows/ci.yml").read_text())
    assert ".ci/run" in [step.get("run") for step in steps_of(workflow)]


@pytest.mark.parametrize("name", ["bug.yml", "feature.yml"])
def test_an_issue_template_is_a_form(name: str) -> None:
    form = yaml.decode((ROOT / ".github/ISSUE_TEMPLATE" / name).read_text())
    assert form["name"]
    assert form["description"]
    assert any(field.get("validations", {}).get("required") for field in form["body"])
