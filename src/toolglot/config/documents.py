"""Parse TOML or YAML to plain values with their positions; the file name determines the format."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path as FilePath
from typing import Any, TypeAlias

from msgspec import Struct

from toolglot.config import toml_positions
from toolglot.config.problems import ConfigError, Path, Problem, field_name

MAX_BYTES = 1024 * 1024

TextPosition: TypeAlias = tuple[int, int]
"""Line and column, both from one."""


class Document(Struct, frozen=True):
    """A file's values and their positions."""

    file: str
    value: Any
    places: Mapping[Path, TextPosition]

    def problem(self, path: Path, message: str, suggestion: str | None = None) -> Problem:
        """Return a problem at this field, or at the nearest enclosing one in the file."""
        place: tuple[int | None, int | None] = (None, None)
        for length in range(len(path), 0, -1):
            if path[:length] in self.places:
                place = self.places[path[:length]]
                break
        line, column = place
        return Problem(
            file=self.file, line=line, column=column, field=field_name(path), message=message, suggestion=suggestion
        )


def read_config_document(file: FilePath) -> Document:
    """Read the document in this file. Raises: ConfigError: it cannot be read, or it is neither TOML nor YAML."""
    try:
        with file.open("rb") as source:
            data = source.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError([Problem(file=str(file), message=(error.strerror or str(error)).lower())]) from None
    return parse_document(data, str(file))


def parse_document(data: bytes, file: str) -> Document:
    """Parse the document in these bytes. The file's name determines the format. Raises: ConfigError: the bytes are not
    in this format.
    """
    parser = PARSERS.get(FilePath(file).suffix.lower())
    if parser is None:
        message = recognize_text(data) or f"the file's name must end in {', '.join(PARSERS)}"
        raise ConfigError([Problem(file=file, message=message)])
    value, places = parser(decode_text(data, file), file)
    if value is None:  # an empty YAML file
        value = {}
    if not isinstance(value, dict):
        raise ConfigError([Problem(file=file, line=1, message="expected named fields, such as `upstreams`")])
    if (told := recognize_config(value)) is not None:
        raise ConfigError([Problem(file=file, message=told)])
    return Document(file, value, places)


def decode_text(data: bytes, file: str, limit: int = MAX_BYTES) -> str:
    """Decode the text of a file.

    Raises:
        ConfigError: it is too long, or not text.
    """
    if len(data) > limit:
        raise ConfigError([Problem(file=file, message=f"more than {limit} bytes: too large for a configuration")])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError([Problem(file=file, line=line, message="not UTF-8")]) from None


_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def _toml(text: str, file: str) -> tuple[Any, Mapping[Path, TextPosition]]:
    text = text.replace("\r\n", "\n")
    try:
        return tomllib.loads(text), toml_positions.find_positions(text)
    except RecursionError:
        raise ConfigError([Problem(file=file, message="nested too deeply")]) from None
    except ValueError as error:  # also what tomllib lets through: an integer of thousands of digits
        at = _AT.search(str(error))
        line, column = (int(at[1]), int(at[2])) if at and at[1] else _end(text) if at else (None, None)
        said = _AT.sub("", str(error)) if at else "a number is too long"
        message = f"not TOML: {said[:1].lower()}{said[1:]}"
        raise ConfigError([Problem(file=file, line=line, column=column, message=message)]) from None


def _yaml(text: str, file: str) -> tuple[Any, Mapping[Path, TextPosition]]:
    from toolglot.config import yaml_document  # two megabytes, which a gateway with another file does without

    return yaml_document.parse(text, file)


def _end(text: str) -> TextPosition:
    """Return the last position that has text."""
    lines = text.rstrip().split("\n")
    return len(lines), len(lines[-1]) + 1


PARSERS: dict[str, Callable[[str, str], tuple[Any, Mapping[Path, TextPosition]]]] = {
    ".toml": _toml,
    ".yaml": _yaml,
    ".yml": _yaml,
}

_ADVICE = "`toolglot config import FILE` converts it; see `Coming from …` in docs/configuration.md"


class OtherGateway(Struct, frozen=True):
    """Another gateway, and top-level names in its file that our schema does not have."""

    title: str
    names: frozenset[str]


GATEWAYS = (
    OtherGateway("LiteLLM", frozenset({"model_list", "litellm_settings", "general_settings", "router_settings"})),
    OtherGateway("claude-code-router", frozenset({"Providers", "Router"})),
)


def recognize_config(value: Mapping[str, Any]) -> str | None:
    """Return advice for a file with these fields, if it is another gateway's."""
    for gateway in GATEWAYS:
        if gateway.names & value.keys():
            return f"this is a configuration of {gateway.title}; {_ADVICE}"
    return None


def recognize_text(data: bytes) -> str | None:
    """Same, for a file in a format that is not supported here; it may be JSON with comments."""
    if b'"mcpServers"' in data:
        return "this file has MCP servers, not a configuration; use `--mcp-config FILE`, or `files` under `mcp`"
    for gateway in GATEWAYS:
        if any(f'"{name}"'.encode() in data for name in gateway.names):
            return f"this is a configuration of {gateway.title}; {_ADVICE}"
    return None
