"""The files of `deploy`, read as their programs read them."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import yaml  # type: ignore[import-untyped]

from tests.docs.markdown import ROOT

DEPLOY = ROOT / "deploy"
DOCKERFILE = DEPLOY / "Dockerfile"
COMPOSE = DEPLOY / "compose.yaml"
NGINX = DEPLOY / "nginx" / "nginx.conf"
UNIT = DEPLOY / "systemd" / "toolglot.service"
CHART = DEPLOY / "helm" / "toolglot"
CONFIG = DEPLOY / "toolglot.toml"


class Instruction(NamedTuple):
    stage: int
    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """Arguments: of the exec form, or separated by spaces."""
        return json.loads(self.text) if self.text.startswith("[") else shlex.split(self.text)


def instructions(text: str) -> list[Instruction]:
    """Instructions with continued lines joined. Stage 0 is before the first FROM."""
    joined = re.sub(r"\\\n\s*", "", "\n".join(line for line in text.splitlines() if not line.startswith("#")))
    found: list[Instruction] = []
    stage = 0
    for line in filter(None, map(str.strip, joined.splitlines())):
        name, _, rest = line.partition(" ")
        stage += name == "FROM"
        found.append(Instruction(stage, name, rest))
    return found


def yaml_of(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def sections(text: str) -> dict[str, list[tuple[str, str]]]:
    """The sections of a systemd unit; a name may repeat."""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in text.splitlines():
        if line.startswith("["):
            current = found.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            current.append((name, value))
    return found
