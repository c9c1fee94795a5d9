"""Write the exact versions that CI and releases install to `requirements/`, with the hashes of every file.

    python -m scripts.lock [--upgrade]

One resolution serves Python 3.11 and newer on every system. Needs uv and a package index. `run.txt` has what users
install, `build.txt` what builds the wheel, `dev.txt` everything for `make test`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from scripts.dependency_group import PYPROJECT, dependencies, requirements

FOLDER = PYPROJECT.parent / "requirements"


def inputs() -> dict[str, list[str]]:
    """The requirements behind each file."""
    run = list(dependencies())
    return {"run": run, "build": list(requirements("build")), "dev": [*run, *requirements("dev")]}


def compile_all(upgrade: bool) -> Iterator[Path]:
    for name, wanted in inputs().items():
        target = FOLDER / f"{name}.txt"
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / f"{name}.in"
            source.write_text("\n".join(wanted) + "\n")
            options = ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-header", "--no-annotate"]
            options += ["--upgrade"] if upgrade else []
            command = [
                sys.executable,
                "-m",
                "uv",
                "pip",
                "compile",
                str(source),
                "--output-file",
                str(target),
                *options,
            ]
            subprocess.run([*command, "--quiet"], check=True)
        yield target


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m scripts.lock", description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="take newer versions than those in the files")
    for written in compile_all(parser.parse_args().upgrade):
        print(written)
