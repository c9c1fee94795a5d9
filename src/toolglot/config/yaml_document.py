"""Parse YAML to plain values with their positions, from the nodes that PyYAML composes.

Only plain values are allowed: no objects, no duplicate keys, and a limited number of values however often aliases
repeat them. Keys are text as written: `on:` and `4.5:` are names here, not a boolean and a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml  # type: ignore[import-untyped]

from toolglot.config.problems import ConfigError, Path, Problem, field_name

MAX_VALUES = 100_000
MAX_DEPTH = 64
_MERGE = "tag:yaml.org,2002:merge"
_COLLECTIONS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


def parse(text: str, file: str) -> tuple[Any, Mapping[Path, tuple[int, int]]]:
    """Return the only document of the text.

    Raises:
        ConfigError: it is not YAML, or more than plain values.
    """
    try:
        return _parse_text(text, file)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = error.problem or error.context or "it cannot be read"
        raise ConfigError([_problem(file, mark, f"not YAML: {said}")]) from None
    except yaml.YAMLError as error:  # a character that YAML does not allow
        said = str(getattr(error, "reason", "")) or "it cannot be read"
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        raise ConfigError([Problem(file=file, line=line, message=f"not YAML: {said}")]) from None
    except RecursionError:
        raise ConfigError([Problem(file=file, message="nested too deeply")]) from None


def _parse_text(text: str, file: str) -> tuple[Any, Mapping[Path, tuple[int, int]]]:
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        reader = _Reader(loader, file)
        return (None if node is None else reader.value(node, ())), reader.places
    finally:
        loader.dispose()


def _problem(file: str, mark: Any, message: str, path: Path = ()) -> Problem:
    line, column = (None, None) if mark is None else (mark.line + 1, mark.column + 1)
    return Problem(file=file, line=line, column=column, field=field_name(path), message=message)


class _Reader:
    def __init__(self, loader: Any, file: str) -> None:
        self.loader = loader
        self.file = file
        self.places: dict[Path, tuple[int, int]] = {}
        self.values = 0

    def value(self, node: Any, path: Path) -> Any:
        self.values += 1
        if self.values > MAX_VALUES or len(path) > MAX_DEPTH:
            raise ConfigError([_problem(self.file, node.start_mark, "aliases or nesting make this too large")])
        self._mark(path, node)
        if isinstance(node, yaml.CollectionNode) and node.tag not in _COLLECTIONS:
            raise ConfigError([_problem(self.file, node.start_mark, "only plain values are allowed here", path)])
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(element, (*path, number)) for number, element in enumerate(node.value)]
        try:
            return self.loader.construct_object(node)
        except ValueError:  # an invalid date, a number of thousands of digits
            raise ConfigError([_problem(self.file, node.start_mark, "not YAML: invalid value", path)]) from None

    def _mark(self, path: Path, node: Any) -> None:
        self.places.setdefault(path, (node.start_mark.line + 1, node.start_mark.column + 1))

    def _mapping(self, node: Any, path: Path) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise ConfigError([_problem(self.file, key.start_mark, "a name must be text", path)])
            if key.tag == _MERGE:
                merged = {**self._merge(value, path), **merged}
                continue
            inside = (*path, key.value)
            if key.value in own:
                raise ConfigError([_problem(self.file, key.start_mark, "duplicate field", inside)])
            self.places[inside] = (key.start_mark.line + 1, key.start_mark.column + 1)
            own[key.value] = self.value(value, inside)
        return {**merged, **own}

    def _merge(self, node: Any, path: Path) -> dict[str, Any]:
        """Return what `<<` merges: one mapping, or several; the first takes precedence."""
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, Any] = {}
        for source in sources:
            if not isinstance(source, yaml.MappingNode):
                raise ConfigError([_problem(self.file, source.start_mark, "`<<` needs a mapping", path)])
            merged = {**self.value(source, path), **merged}
        return merged
