"""The configuration file: where it is, and what it says.

    toolglot.toml, toolglot.yaml or toolglot.yml, in this folder, else in `$XDG_CONFIG_HOME/toolglot/`

A file that is wrong anywhere is refused as a whole, with everything that is wrong about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from toolglot.config import documents
from toolglot.config.build import Builder
from toolglot.config.checks import check, check_serving
from toolglot.config.documents import Document
from toolglot.config.problems import ConfigError, Problem
from toolglot.config.schema import Config

NAMES = ("toolglot.toml", "toolglot.yaml", "toolglot.yml")
SCHEMA_KEY = "$schema"
"""A file may name its schema, for the editor's sake."""


class Loaded(Struct, frozen=True):
    config: Config
    """As written; `assemble` makes it whole."""
    path: Path | None = None
    """None when there is no file."""
    notes: tuple[str, ...] = ()
    """Lines for a person: what looks wrong and may yet be right."""
    doubts: tuple[Problem, ...] = ()
    """What is wrong unless the command line says otherwise: no reason to refuse the file."""


def find(environ: Mapping[str, str], folder: Path) -> Path | None:
    """The file that is used when none is named.

    Raises:
        ConfigError: one folder has several.
    """
    home = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or "~").expanduser() / ".config")
    for place in (folder, Path(home) / "toolglot"):
        there = [place / name for name in NAMES if (place / name).is_file()]
        if len(there) > 1:
            others = " and ".join(path.name for path in there[1:])
            raise ConfigError([Problem(file=str(there[0]), message=f"beside it is {others}: which one counts?")])
        if there:
            return there[0]
    return None


def load(path: Path | None, environ: Mapping[str, str], folder: Path | None = None) -> Loaded:
    """The configuration in this file; without a path, in the one that is found; without any, the usual one.

    Raises:
        ConfigError: the file cannot be used.
    """
    path = path or find(environ, folder or Path())
    if path is None:
        return Loaded(Config())
    return read(documents.read(path), environ, path)


def read(document: Document, environ: Mapping[str, str], path: Path | None = None) -> Loaded:
    """The configuration in this document, and what is to be said about it.

    Raises:
        ConfigError: it is wrong.
    """
    value = {name: inner for name, inner in document.value.items() if name != SCHEMA_KEY}
    builder = Builder(document, environ)
    config = builder.record(Config, value, ())
    notes = check(config, builder) if isinstance(config, Config) else []
    if builder.problems or not isinstance(config, Config):
        raise ConfigError(sorted(builder.problems, key=lambda problem: (problem.line or 0, problem.column or 0)))
    return Loaded(config, path, tuple(notes), tuple(check_serving(config, builder)))
