"""Imports another gateway's configuration: reads, converts, checks and writes it.

The result passes the checks of `toolglot config check`. A value that the schema rejects is omitted, and is reported
with its place in the source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path as FilePath
from typing import Literal

from msgspec import Struct

from toolglot.config import json_document
from toolglot.config.documents import GATEWAYS, Document, decode_text, parse_document
from toolglot.config.importers import claude_code_router, litellm
from toolglot.config.importers.draft import Draft, report_line, write_toml
from toolglot.config.importers.environment import stand_in_environment, variables_of
from toolglot.config.importers.source import ImportLog
from toolglot.config.load import read_config
from toolglot.config.problems import ConfigError, Problem

Gateway = Literal["litellm", "claude-code-router"]

_SQLITE = b"SQLite format 3\x00"
_MAX_CHECKS = 1000

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Maximum size of a source file. An export of claude-code-router 3 also contains its databases."""

_PORTS: Mapping[Gateway, int] = {"litellm": 4000, "claude-code-router": 3456}


class ImportedFile(Struct, frozen=True):
    """An imported configuration file, and the variables that it needs."""

    gateway: Gateway
    text: str
    reports: tuple[Problem, ...]
    variables: tuple[str, ...]
    """Environment variables that the file needs."""
    upstreams: int
    models: int


def import_config(file: FilePath, gateway: Gateway | None = None) -> ImportedFile:
    """Convert another gateway's file.

    Raises:
        ConfigError: it cannot be read, or it is no such file.
    """
    return convert_document(_read(file), gateway)


def convert_document(document: Document, gateway: Gateway | None = None) -> ImportedFile:
    """Convert a document of another gateway, with the files that it includes.

    Raises:
        ConfigError: it is no such document, or a file that it includes cannot be read.
    """
    gateway = gateway or _recognize(document)
    draft = Draft()
    if gateway == "litellm":
        log = ImportLog(litellm.NOT_TAKEN, litellm.convert_reference)
        documents = litellm.convert_litellm(document, _read, log, draft)
    else:
        log = ImportLog(claude_code_router.NOT_TAKEN, claude_code_router.convert_reference)
        documents = [document]
        claude_code_router.convert_claude_code_router(document, log, draft)
    for each in documents:
        log.report_rest(each)
    variables = _drop_invalid(draft, log)
    order = [each.file for each in documents]
    reports = sorted(
        log.reports, key=lambda problem: (order.index(problem.file), problem.line or 0, problem.column or 0)
    )
    return ImportedFile(
        gateway=gateway,
        text=write_toml(draft, _head(FilePath(document.file), gateway, draft, variables), _tail(reports)),
        reports=tuple(reports),
        variables=tuple(variables),
        upstreams=len(draft.names("upstreams")),
        models=len(draft.names("models")),
    )


def _head(file: FilePath, gateway: Gateway, draft: Draft, variables: Mapping[str, bool]) -> list[str]:
    lines = [f"Written by `toolglot config import {file.name}`. Comments name the lines of the source."]
    if variables:
        lines.append(f"Environment variables that this file needs: {', '.join(variables)}")
    server = draft.tables.get(("server",))
    if server is None or "port" not in server.fields:
        title = next(each.title for each in GATEWAYS if each.title.lower() == gateway)
        lines.append(f"{title} listens on port {_PORTS[gateway]}: `port = {_PORTS[gateway]}` in [server] keeps it.")
    return lines


def _tail(reports: list[Problem]) -> list[str]:
    return ["Not imported, or changed:", *(f"  {report_line(problem)}" for problem in reports)] if reports else []


def _drop_invalid(draft: Draft, log: ImportLog) -> dict[str, bool]:
    """Remove and report values that the schema rejects. Returns the variables that the remaining values refer to."""
    for _ in range(_MAX_CHECKS):
        variables = _variables(draft)
        problems = _problems(draft, variables)
        if not problems:
            return variables
        problem = problems[0]
        source = draft.remove(problem.field)
        if source is not None:
            source.report(problem.message)
        elif not problem.field or problem.field in ("", "discover"):
            break
    raise ConfigError(_problems(draft, _variables(draft)))


def _problems(draft: Draft, variables: Mapping[str, bool]) -> tuple[Problem, ...]:
    text = write_toml(draft, (), ())
    try:
        loaded = read_config(parse_document(text.encode(), "imported.toml"), stand_in_environment(variables))
    except ConfigError as error:
        return error.problems
    return loaded.doubts


def _variables(draft: Draft) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for table in draft.tables.values():
        for name, field in table.fields.items():
            for text in field.value if isinstance(field.value, list) else (field.value,):
                if isinstance(text, str):
                    for variable, in_address in variables_of(text, name).items():
                        found[variable] = found.get(variable, False) or in_address
    return found


def _recognize(document: Document) -> Gateway:
    names: dict[str, Gateway] = {"LiteLLM": "litellm", "claude-code-router": "claude-code-router"}
    if claude_code_router.is_export(document.value):
        return "claude-code-router"
    for gateway in GATEWAYS:
        if gateway.names & document.value.keys():
            return names[gateway.title]
    raise ConfigError(
        [Problem(file=document.file, message="neither LiteLLM's file nor claude-code-router's; --from says which")]
    )


def _read(file: FilePath) -> Document:
    """Read another gateway's file: YAML or JSON5."""
    name = str(file)
    try:
        with file.open("rb") as source:
            data = source.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError([Problem(file=name, message=(error.strerror or str(error)).lower())]) from None
    if data.startswith(_SQLITE):
        reason = (
            "this is claude-code-router 3's database: export the configuration with `ccr ui`, and import the export"
        )
        raise ConfigError([Problem(file=name, message=reason)])
    text = decode_text(data, name, MAX_FILE_BYTES)
    value, places = _parser(file, text)(text, name)
    if not isinstance(value, dict):
        raise ConfigError([Problem(file=name, line=1, message="expected a table of names and values")])
    return Document(name, value, places)


def _parser(
    file: FilePath, text: str
) -> Callable[[str, str], tuple[object, Mapping[tuple[str | int, ...], tuple[int, int]]]]:
    from toolglot.config import yaml_document  # not needed by a gateway whose configuration is TOML

    suffix = file.suffix.lower()
    is_json = suffix in (".json", ".json5", ".jsonc") or (
        suffix not in (".yaml", ".yml") and text.lstrip().startswith(("{", "//", "/*"))
    )
    return json_document.parse_json5 if is_json else yaml_document.parse
