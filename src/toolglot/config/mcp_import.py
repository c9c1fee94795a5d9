"""Import MCP servers from elsewhere: `mcpServers`, in other files or in the configuration.

A server under `mcp.servers` of the configuration takes precedence over an imported one of the same name, and an earlier
file over a later one. Everything that is not imported unchanged is reported.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path as FilePath
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolglot.config import json_document
from toolglot.config.build import NOUNS, RecordBuilder
from toolglot.config.documents import MAX_BYTES, Document, decode_text
from toolglot.config.mcp_checks import NAME, check_server, nearest_valid_name
from toolglot.config.mcp_entries import McpEntry, convert_entry
from toolglot.config.problems import ConfigError, Path, Problem
from toolglot.config.schema import McpServerConfig
from toolglot.lint.report import visible

OWN_ROOTS = ("mcpServers", "mcp_servers")
"""Top-level names of our own file, apart from `mcp`."""
ROOTS: tuple[tuple[str, ...], ...] = (("mcpServers",), ("servers",), ("mcp", "servers"), ("mcp_servers",))
"""Paths of the servers in other programs' files: VS Code's has `servers`, its settings `mcp.servers`."""

MAX_TOLD = 20
"""Maximum members of one server to report."""


class ImportedServers(Struct):
    """Everything that was found."""

    servers: dict[str, McpServerConfig] = {}
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


class McpImporter:
    """Collects servers; `own` are the names that the configuration itself has."""

    def __init__(self, environ: Mapping[str, str], own: Iterable[str] = ()) -> None:
        self._environ = environ
        self._from: dict[str, str] = dict.fromkeys(own, "the configuration")
        self._found = ImportedServers(servers={})

    def result(self) -> ImportedServers:
        return self._found

    def file(self, path: FilePath) -> None:
        """Import the servers of another program's file.

        Raises:
            ConfigError: it cannot be read.
        """
        path = FilePath(os.path.abspath(path.expanduser()))
        if str(path) in self._found.files:
            return
        self._found.files += (str(path),)
        document = _read(path)
        for root in ROOTS:
            entries = _at(document.value, root)
            if entries is not None:
                self.entries(document, root, entries, path.parent)
                return
        told = "it has neither `mcpServers` nor VS Code's `servers`"
        raise ConfigError([Problem(file=str(path), line=1, message=told)])

    def entries(self, document: Document, root: Path, entries: Any, folder: FilePath) -> None:
        """Import the servers at this position of a document; their paths are relative to the folder."""
        if not isinstance(entries, dict):
            self._wrong(document.problem(root, f"expected {NOUNS['object']}"))
            return
        for name, written in entries.items():
            path = (*root, name)
            if not isinstance(written, dict):
                self._wrong(document.problem(path, f"expected {NOUNS['object']}"))
                continue
            self._entry(document, path, convert_entry(written), folder)

    def _entry(self, document: Document, path: Path, entry: McpEntry, folder: FilePath) -> None:
        if entry.is_off:
            self._note(document, path, "skipped: it is disabled")
            return
        name = str(path[-1])
        other = self._from.get(name if NAME.fullmatch(name) else nearest_valid_name(name), document.file)
        if other != document.file:
            self._note(document, path, f"not used: {other} has a server with this name")
            return
        if entry.unused:
            unused = ", ".join(f"`{member[:40]}`" for member in entry.unused[:MAX_TOLD])
            self._note(document, path, f"ignored: {unused}")
        for member, told in entry.notes:
            self._note(document, (*path, member), told)
        server = self._built(document, path, entry, folder)
        if server is not None:
            self._found.servers[self._free_name(document, path, name)] = server

    def _free_name(self, document: Document, path: Path, name: str) -> str:
        """Return a valid name that no other server has."""
        made = name if NAME.fullmatch(name) else nearest_valid_name(name)
        stem, number = made, 1
        while made in self._from:
            number += 1
            made = f"{stem[: 31 - len(str(number))]}_{number}"
        if made != name:
            self._note(document, path, f"renamed to `{made}`")
        self._from[made] = document.file
        return made

    def _built(self, document: Document, path: Path, entry: McpEntry, folder: FilePath) -> McpServerConfig | None:
        aliases = {
            (*path, own, *behind[len(path) + 1 :]): place
            for own, source in entry.sources.items()
            if own != source
            for behind, place in document.places.items()
            if behind[: len(path) + 1] == (*path, source)
        }
        own = Document(document.file, document.value, {**document.places, **aliases})
        builder = RecordBuilder(own, {**self._environ, **_editor_variables(folder, self._environ)}, reads_files=False)
        for member, told, suggestion in entry.wrong:
            builder.add_problem((*path, member), told, suggestion)
        server = builder.record(McpServerConfig, entry.value, path)
        if isinstance(server, McpServerConfig):
            check_server(server, path, builder)
        for problem in builder.problems:
            self._wrong(problem)
        return resolve_paths(server, workspace(folder)) if isinstance(server, McpServerConfig) else None

    def _note(self, document: Document, path: Path, told: str) -> None:
        self._found.notes += (visible(str(document.problem(path, told))),)

    def _wrong(self, problem: Problem) -> None:
        self._found.problems += (problem,)


def resolve_paths(server: McpServerConfig, folder: FilePath) -> McpServerConfig:
    """Return the server with absolute paths."""
    command = server.command
    if command is not None and command.startswith("~"):
        command = str(FilePath(command).expanduser())
    cwd = None if server.cwd is None else os.path.abspath(folder / FilePath(server.cwd).expanduser())
    return replace(server, command=command, cwd=cwd)


def workspace(folder: FilePath) -> FilePath:
    """Return the project's folder. Editors keep the file in a subfolder, for example `.vscode`."""
    return folder.parent if folder.name in (".vscode", ".cursor", ".gemini", ".roo", ".claude") else folder


def _editor_variables(folder: FilePath, environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables that editors define themselves."""
    project = FilePath(os.path.abspath(workspace(folder)))
    return {
        "workspaceFolder": str(project),
        "workspaceFolderBasename": project.name,
        "userHome": environ.get("HOME") or str(FilePath.home()),
        "pathSeparator": os.sep,
    }


def _at(value: Any, root: tuple[str, ...]) -> Any:
    for name in root:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _read(path: FilePath) -> Document:
    try:
        with path.open("rb") as source:
            data = source.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError([Problem(file=str(path), message=(error.strerror or str(error)).lower())]) from None
    value, places = json_document.parse(decode_text(data, str(path)), str(path))
    if not isinstance(value, dict):
        raise ConfigError([Problem(file=str(path), line=1, message="expected an object with `mcpServers`")])
    return Document(str(path), value, places)
