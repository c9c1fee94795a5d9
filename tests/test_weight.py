"""Light is a feature: what an installation brings, and what a gateway takes while it has nothing to do."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT

MAX_PACKAGES = 10
MAX_INSTALLED = 40_000_000
MAX_IDLE = 50 * 1024 * 1024
MAX_CPU_SECONDS = 1.0


@pytest.fixture(scope="module")
def site_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `pip install` of this package puts everything, in an environment that has nothing else."""
    home = tmp_path_factory.mktemp("weight")
    venv.create(home, with_pip=True, symlinks=os.name != "nt")
    python = home / "bin" / "python"
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", str(ROOT)], check=True)
    subprocess.run([*pip, "uninstall", "--quiet", "--yes", "setuptools", "pip"], check=True, capture_output=True)
    (folder,) = home.glob("lib/python*/site-packages")
    return folder


def test_an_installation_has_few_packages(site_packages: Path) -> None:
    packages = sorted(PathDistribution(path).name for path in site_packages.glob("*.dist-info"))
    assert "toolglot" in packages
    assert len(packages) <= MAX_PACKAGES, packages


def test_an_installation_is_small(site_packages: Path) -> None:
    size = sum(path.lstat().st_size for path in site_packages.rglob("*") if path.is_file())
    assert size <= MAX_INSTALLED


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
