"""Find and load the configuration file.

toolglot.toml, toolglot.yaml or toolglot.yml, in this folder, otherwise in `$XDG_CONFIG_HOME/toolglot/`

A file with any error is refused as a whole, with all its errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from toolglot.config import documents
from toolglot.config.build import RecordBuilder
from toolglot.config.checks import check, check_serving
from toolglot.config.documents import Document
from toolglot.config.mcp_checks import own_servers
from toolglot.config.mcp_import import OWN_ROOTS, McpImporter, resolve_paths
from toolglot.config.problems import ConfigError, Problem
from toolglot.config.problems import Path as Place
from toolglot.config.schema import Config

NAMES = ("toolglot.toml", "toolglot.yaml", "toolglot.yml")
SCHEMA_KEY = "$schema"
"""A file may name its schema, for editors."""


class Loaded(Struct, frozen=True):
    config: Config
    """The configuration as written; `assemble` completes it."""
    path: Path | None = None
    """None if there is no file."""
    notes: tuple[str, ...] = ()
    """Notices for the user: settings that look wrong but may be right."""
    doubts: tuple[Problem, ...] = ()
    """Problems that the command line may resolve, and that do not invalidate the file."""


def find_config(environ: Mapping[str, str], folder: Path) -> Path | None:
    """Find the file to use if none is named. Raises: ConfigError: one folder has several."""
    home = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or "~").expanduser() / ".config")
    for place in (folder, Path(home) / "toolglot"):
        there = [place / name for name in NAMES if (place / name).is_file()]
        if len(there) > 1:
            others = " and ".join(path.name for path in there[1:])
            raise ConfigError([Problem(file=str(there[0]), message=f"there is also {others}: keep only one of them")])
        if there:
            return there[0]
    return None


def load_config(
    path: Path | None, environ: Mapping[str, str], folder: Path | None = None, mcp_files: Sequence[Path] = ()
) -> Loaded:
    """Load the configuration from this file; without a path, from the file that `find_config` finds; without any, the
    defaults. The servers in `mcp_files` are added to `mcp`, as if the configuration named these files.

    Raises:
        ConfigError: the file cannot be used.
    """
    path = path or find_config(environ, folder or Path())
    if path is None:
        return (
            read_config(Document("--mcp-config", {}, {}), environ, None, mcp_files) if mcp_files else Loaded(Config())
        )
    return read_config(documents.read_config_document(path), environ, path, mcp_files)


def read_config(
    document: Document, environ: Mapping[str, str], path: Path | None = None, mcp_files: Sequence[Path] = ()
) -> Loaded:
    """Parse the configuration in a document, and collect notices about it.

    Raises:
        ConfigError: the configuration is invalid.
    """
    builder = RecordBuilder(document, environ)
    value = {name: inner for name, inner in document.value.items() if name not in (SCHEMA_KEY, *OWN_ROOTS)}
    config = builder.record(Config, value, ())
    notes: list[str] = []
    if isinstance(config, Config):
        config = _with_mcp(config, builder, mcp_files, notes)
        notes += check(config, builder)
    if builder.problems or not isinstance(config, Config):
        raise ConfigError(sorted(builder.problems, key=lambda problem: _order(problem, document.file)))
    return Loaded(config, path, tuple(notes), tuple(check_serving(config, builder)))


def _order(problem: Problem, own: str) -> tuple[bool, str, int, int]:
    """Sort key: by position, problems of other files last."""
    return problem.file != own, problem.file, problem.line or 0, problem.column or 0


def _with_mcp(config: Config, builder: RecordBuilder, files: Sequence[Path], notes: list[str]) -> Config:
    """Add the MCP servers of other files to the configuration. Its own servers take precedence."""
    document, folder = builder.document, builder.folder
    importer = McpImporter(builder.environ, own_servers(document.value))
    for root in OWN_ROOTS:
        if document.value.get(root) is not None:
            importer.entries(document, (root,), document.value[root], folder)
    for number, name in enumerate(config.mcp.files):
        _import(importer, folder / Path(name).expanduser(), builder, ("mcp", "files", number))
    for file in files:
        _import(importer, file, builder, ())
    found = importer.result()
    builder.problems += found.problems
    notes += found.notes
    servers = {name: resolve_paths(server, folder) for name, server in config.mcp.servers.items()}
    return replace(config, mcp=replace(config.mcp, servers={**found.servers, **servers}, files=found.files))


def _import(importer: McpImporter, file: Path, builder: RecordBuilder, named: Place) -> None:
    """Import the servers of a file. If it cannot be read at all, the problem is reported at the place that names it."""
    try:
        importer.file(file)
    except ConfigError as error:
        for problem in error.problems:
            if problem.line is None and named:
                builder.add_problem(named, f"{problem.file}: {problem.message}", problem.suggestion)
            else:
                builder.problems.append(problem)
