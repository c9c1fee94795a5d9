"""The wheel and the source distribution: what is in them, and that they run without this checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from scripts.dependency_group import read_pyproject

from tests.docs.markdown import ROOT

VERSION: str = read_pyproject()["project"]["version"]


def build(source: Path, folder: Path, *targets: str) -> Path:
    chosen = [option for target in targets for option in ("--target", target)]
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--directory", str(folder), *chosen],
        cwd=source,
        check=True,
        capture_output=True,
    )
    return folder


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    return dist / f"toolglot-{VERSION}-py3-none-any.whl"


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as files:
        return Parser().parsestr(files.read(f"toolglot-{VERSION}.dist-info/METADATA").decode())


def test_the_wheel_has_every_module_and_nothing_else(wheel: Path) -> None:
    source = ROOT / "src"
    modules = {
        path.relative_to(source).as_posix()
        for path in (source / "toolglot").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as files:
        packed = {name for name in files.namelist() if not name.startswith(f"toolglot-{VERSION}.dist-info/")}
        licenses = {name.rpartition("/")[2] for name in files.namelist() if "/licenses/" in name}
    assert packed == modules
    assert "toolglot/py.typed" in packed
    assert licenses == {"LICENSE", "NOTICE"}


def test_the_metadata_is_complete(metadata: Message) -> None:
    assert (metadata["Name"], metadata["Version"]) == ("toolglot", VERSION)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"
    named = {line.partition(", ")[0] for line in metadata.get_all("Project-URL", [])}
    assert named >= {"Documentation", "Source", "Issues", "Changelog"}
    classifiers = metadata.get_all("Classifier", [])
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)} <= set(classifiers)


def test_the_source_distribution_builds_the_same_wheel_and_has_the_tests(
    dist: Path, wheel: Path, tmp_path: Path
) -> None:
    # `tarfile` takes a filter only since 3.11.4, and warns without one since 3.12.
    subprocess.run(["tar", "-xzf", dist / f"toolglot-{VERSION}.tar.gz", "-C", tmp_path], check=True)
    unpacked = tmp_path / f"toolglot-{VERSION}"
    for name in ("Makefile", ".ci/run", "CHANGELOG.md", "SECURITY.md", "tests/conftest.py", "requirements/dev.txt"):
        assert (unpacked / name).is_file(), name
    again = build(unpacked, tmp_path / "again", "wheel") / wheel.name
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(again) as second:
        assert {info.filename: info.CRC for info in first.infolist()} == {
            info.filename: info.CRC for info in second.infolist()
        }


def test_the_installed_wheel_runs(wheel: Path, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--no-compile", "--target", str(tmp_path / "site"), str(wheel)], check=True)
    script = "import toolglot, sys; print(toolglot.__file__); from toolglot.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "--version"],
        env={"PYTHONPATH": str(tmp_path / "site")},
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == [
        str(tmp_path / "site" / "toolglot" / "__init__.py"),
        f"toolglot, version {VERSION}",
    ]
