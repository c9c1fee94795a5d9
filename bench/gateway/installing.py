"""Peers from the registries or from git, each in a folder of its own, which is kept for the next run."""

from __future__ import annotations

import compileall
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from bench.gateway.peers.record import Fetched, Go, Here, Node, Peer, Program, Python, Revision

PATIENCE = 1200.0
ROOT = Path(__file__).parents[2]


class InstallError(Exception):
    """A peer cannot be installed here."""


class Installed(NamedTuple):
    home: Path
    version: str
    size: int | None
    """Bytes of all that it needs, without interpreter or compiler."""


def install(peer: Peer, cache: Path) -> Installed:
    """Installs a peer unless it is there, in this very form."""
    home = cache / peer.name
    match peer.install:
        case None:
            return Installed(home, "", None)
        case Here(distribution):
            return Installed(home, importlib.metadata.version(distribution), sum(_own_sizes(distribution, set())))
        case Program(name, command):
            if (path := shutil.which(name)) is None:
                raise InstallError(f"there is no `{name}` on this machine")
            told = subprocess.run(command, capture_output=True, text=True, check=False)
            found = re.search(r"\d+(\.\d+)+", told.stdout + told.stderr)
            return Installed(home, found[0] if found else "", Path(path).stat().st_size)
        case Revision(name):
            commit = _run(("git", "-C", str(ROOT), "rev-parse", "--verify", f"{name}^{{commit}}")).strip()
            home = cache / "revisions" / commit
            _install_once(Revision(commit), home)
            return Installed(home, commit[:12], _folder_size(home / "src"))
        case Python() | Node() | Go() as wanted:
            _install_once(wanted, home)
            return Installed(home, _version(wanted, home), _folder_size(_content(wanted, home)))


def _install_once(wanted: Fetched | Revision, home: Path) -> None:
    note = home / "installed"
    if note.exists() and note.read_text() == repr(wanted):
        return
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    match wanted:
        case Python(packages, _):
            _run((sys.executable, "-m", "venv", str(home)))
            _run((str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", *packages))
        case Node(package, version, others):
            manifest = {"private": True, "dependencies": {package: version}, "overrides": dict(others)}
            (home / "package.json").write_text(json.dumps(manifest))
            _run(("npm", "install", "--prefix", str(home), "--no-audit", "--no-fund", "--loglevel=error"))
        case Go(package, version):
            _run(("go", "install", f"{package}@{version}"), {"GOBIN": str(home / "bin"), "GOFLAGS": "-mod=mod"})
        case Revision(commit):
            _export(commit, home)
    note.write_text(repr(wanted))


def _export(commit: str, home: Path) -> None:
    archive = home / "source.tar"
    _run(("git", "-C", str(ROOT), "archive", f"--output={archive}", commit, "src", "pyproject.toml"))
    with tarfile.open(archive) as content:
        if hasattr(tarfile, "data_filter"):
            content.extractall(home, filter="data")
        else:  # before Python 3.11.4
            content.extractall(home)
    archive.unlink()
    compileall.compile_dir(home / "src", quiet=1)
    needed = tomllib.loads((home / "pyproject.toml").read_text())["project"]["dependencies"]
    if missing := [requirement for requirement in needed if not _is_here(requirement)]:
        _run((sys.executable, "-m", "pip", "install", "--quiet", "--target", str(home / "packages"), *missing))


def _is_here(requirement: str) -> bool:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    return found is not None and any(importlib.metadata.distributions(name=found[0]))


def _run(command: tuple[str, ...], environment: Mapping[str, str] | None = None) -> str:
    """What the command prints."""
    if shutil.which(command[0]) is None:
        raise InstallError(f"there is no `{command[0]}` on this machine")
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
            env={**os.environ, **(environment or {})},
        )
    except subprocess.TimeoutExpired:
        raise InstallError(f"`{' '.join(command)}` did not end in {PATIENCE:.0f} s") from None
    if done.returncode:
        told = (done.stderr or done.stdout).strip()
        raise InstallError(f"`{' '.join(command[:3])}` failed: {_without_addresses(told[-600:])}")
    return done.stdout


def _without_addresses(told: str) -> str:
    return " ".join(re.sub(r"https?://\S+", "(address)", told).split())


def _version(wanted: Fetched, home: Path) -> str:
    match wanted:
        case Python(_, distribution):
            found = importlib.metadata.distributions(name=distribution, path=[str(_content(wanted, home))])
            return next(iter(found)).version
        case Node(package, _):
            manifest = json.loads((home / "node_modules" / package / "package.json").read_text())
            return str(manifest["version"])
        case Go(_, version):
            return version


def _content(wanted: Fetched, home: Path) -> Path:
    match wanted:
        case Python():
            return next((home / "lib").glob("python*/site-packages"))
        case Node():
            return home / "node_modules"
        case Go():
            return home / "bin"


NOT_COUNTED = frozenset({"pip", "setuptools", "__pycache__"})
"""What a new virtual environment has before anything is installed, and what Python makes later. Hidden folders are not
counted either: tools keep things there."""


def _folder_size(folder: Path) -> int:
    total = 0
    for path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in NOT_COUNTED and not name.startswith(".")]
        total += sum(os.lstat(os.path.join(path, name)).st_size for name in names)
    return total


def _own_sizes(name: str, seen: set[str]) -> Iterator[int]:
    """Of a distribution in this environment and of whatever it needs, each once."""
    if (known := re.sub(r"[-_.]+", "-", name).lower()) in seen:
        return
    seen.add(known)
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return
    yield _distribution_size(distribution)
    for requirement in distribution.requires or ():
        if "extra ==" not in requirement and (found := re.match(r"[A-Za-z0-9._-]+", requirement)):
            yield from _own_sizes(found[0], seen)


def _distribution_size(distribution: importlib.metadata.Distribution) -> int:
    source = ROOT / "src" / distribution.name
    if source.is_dir():  # installed as a link to the working tree
        return _folder_size(source)
    files = [Path(str(file.locate())) for file in distribution.files or () if "__pycache__" not in file.parts]
    return sum(path.stat().st_size for path in files if path.is_file())
