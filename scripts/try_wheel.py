"""Build the wheel and the source distribution in `dist/`, install each on every Python found, and use them.

    python -m scripts.try_wheel [PYTHON ...]

Without arguments, it takes python3.11 to python3.14 from the PATH and from pyenv. Each gets a fresh environment, whose
packages come from the index.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from scripts.dependency_group import PYPROJECT

ROOT = PYPROJECT.parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
REQUEST = {"model": "demo", "max_tokens": 99, "messages": [{"role": "user", "content": "Hi"}]}


def find_pythons() -> Iterator[str]:
    """The interpreters of the supported versions that work, one each."""
    for version in VERSIONS:
        candidates = [
            *(str(path) for path in sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))),
            *filter(None, [shutil.which(f"python{version}")]),
        ]
        works = [each for each in candidates if _output([each, "-c", "import ensurepip, venv"]) is not None]
        if works:
            yield works[0]
        else:
            print(f"Python {version}: not on this machine", flush=True)


def _output(command: Sequence[str]) -> str | None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def build(folder: Path) -> list[Path]:
    """The wheel and the source distribution, built by the backend itself."""
    subprocess.run([sys.executable, "-m", "hatchling", "build", "--directory", str(folder)], cwd=ROOT, check=True)
    return sorted(folder.glob("toolglot-*"))


def try_package(python: str, package: Path, folder: Path) -> str:
    """Install a package and use its command, library and gateway. Returns what was used."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    bin_folder = folder / "bin"
    subprocess.run([bin_folder / "python", "-m", "pip", "install", "--quiet", str(package)], check=True)
    toolglot = bin_folder / "toolglot"
    version = subprocess.run([toolglot, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    script = "from toolglot import translate_request as t; t({'model': 'm', 'messages': []}, 'openai_chat', 'gemini')"
    subprocess.run([bin_folder / "python", "-c", script], check=True)
    _ask_gateway(toolglot, folder)
    interpreter = subprocess.run([bin_folder / "python", "--version"], check=True, capture_output=True, text=True)
    return f"{version} on {interpreter.stdout.strip()} from {package.name}"


def _ask_gateway(toolglot: Path, folder: Path) -> None:
    options = ["--port", "0", "--no-discover", "--demo-pace", "none", "--store", "none"]
    with subprocess.Popen([toolglot, "serve", *options], stderr=subprocess.PIPE, text=True, cwd=folder) as gateway:
        try:
            assert gateway.stderr is not None
            ready = next(line for line in gateway.stderr if " is ready at " in line)
            url = f"{ready.split()[-1]}/v1/messages"
            request = urllib.request.Request(url, json.dumps(REQUEST).encode(), {"content-type": "application/json"})
            with urllib.request.urlopen(request, timeout=20) as answer:
                assert json.load(answer)["content"][0]["type"] == "text"
        finally:
            gateway.terminate()


def main() -> int:
    packages = build(ROOT / "dist")
    with tempfile.TemporaryDirectory() as name:
        for number, python in enumerate(sys.argv[1:] or find_pythons()):
            for package in packages:
                print(try_package(python, package, Path(name) / f"{number}-{package.suffix}"), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
