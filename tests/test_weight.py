"""Light is a feature: what an installation brings, and what a gateway takes while it has nothing to do."""

from __future__ import annotations

import compileall
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from scripts.dependency_group import dependencies

from tests.docs.markdown import ROOT

MAX_PACKAGES = 10
MAX_INSTALLED = 40_000_000
MAX_IDLE = 50 * 1024 * 1024
MAX_CPU_SECONDS = 1.0


def dependencies_of(requirements: Iterable[str]) -> Iterator[str]:
    """The packages that these requirements bring here, without extras, and what those bring."""
    for requirement in map(Requirement, requirements):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name)
            yield from dependencies_of(metadata.requires(requirement.name) or ())


PACKAGES = sorted(set(dependencies_of(dependencies())))


@pytest.fixture(scope="module")
def site_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that has what `pip install` of this package would put there, and nothing else.

    The files come from the environment of the tests, since tests must work without a network.
    """
    home = tmp_path_factory.mktemp("weight")
    venv.create(home, symlinks=os.name != "nt")
    (folder,) = home.glob("lib/python*/site-packages")
    for package in PACKAGES:
        for file in metadata.files(package) or ():
            if ".." not in file.parts:  # scripts are beside the packages
                target = folder / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(Path(str(file.locate())), target)
    shutil.copytree(ROOT / "src/toolglot", folder / "toolglot", ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(folder / "toolglot", quiet=1)
    return folder


def test_an_installation_has_few_packages() -> None:
    assert "msgspec" in PACKAGES
    assert len(["toolglot", *PACKAGES]) <= MAX_PACKAGES, PACKAGES


def test_an_installation_is_small(site_packages: Path) -> None:
    assert size_of(site_packages) <= MAX_INSTALLED


def test_the_readme_says_how_much_it_is(site_packages: Path) -> None:
    """The size depends on the platform, and a little on the version of Python."""
    found = re.search(r"\*\*(\d+) packages, (\d+) MB\*\*", (ROOT / "README.md").read_text())
    assert found
    assert int(found[1]) == len(["toolglot", *PACKAGES])
    assert int(found[2]) * 1_000_000 == pytest.approx(size_of(site_packages), rel=0.15)


def size_of(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


class Idle:
    """A gateway that has just become ready."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._folder = Path(f"/proc/{process.pid}")

    @property
    def memory(self) -> int:
        resident = int((self._folder / "statm").read_text().split()[1])
        return resident * os.sysconf("SC_PAGE_SIZE")

    @property
    def cpu_seconds(self) -> float:
        user, system = (self._folder / "stat").read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def idle(site_packages: Path, tmp_path: Path) -> Iterator[Idle]:
    python = site_packages.parents[2] / "bin" / "python"
    address = tmp_path / "address"
    os.mkfifo(address)
    command = [str(python), "-m", "toolglot", "serve", "--port", "0", "--address-file", str(address)]
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    with subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        try:
            assert address.read_text().startswith("http://127.0.0.1:")  # it is written once the gateway is ready
            yield Idle(process)
        finally:
            process.terminate()


@pytest.mark.skipif(sys.platform != "linux", reason="the numbers come from /proc")
def test_a_gateway_is_ready_soon_and_takes_little_memory(idle: Idle) -> None:
    assert idle.cpu_seconds <= MAX_CPU_SECONDS
    assert idle.memory <= MAX_IDLE
