"""Convert plain values to the records of `schema.py`, collecting all problems.

`msgspec.convert` stops at the first error, but users need to see all of them. So records, tables and lists are walked
here, and `convert` checks their leaves. References are expanded on the way: text from a reference may also become a
number or a boolean, as in `port = "${PORT}"`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path as FilePath
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import fields

from toolglot.capabilities import PLACES, find_capability_type
from toolglot.config.documents import Document
from toolglot.config.problems import Path, Problem, did_you_mean, one_of
from toolglot.config.references import MissingReferenceError, expand_references, has_reference, read_secret

Record = TypeVar("Record", bound=Struct)


class _Invalid:
    """Placeholder for an invalid value, whose problem has been recorded."""


INVALID = _Invalid()

OTHER_NAMES = {
    "api_base": "base_url",
    "api_key": "key",
    "apikey": "key",
    "auth_token": "key",
    "endpoint": "base_url",
    "url": "base_url",
    "baseurl": "base_url",
    "provider": "vendor",
    "type": "vendor",
    "protocol": "dialect",
    "wire_api": "dialect",
    "providers": "upstreams",
    "aliases": "models",
    "fallback": "fallbacks",
    "timeout": "timeouts",
    "listen": "host",
    "bind": "host",
    "address": "host",
    "default": "default_upstream",
    "max_tokens": "max_output_tokens",
    "context_length": "context_window",
    "logging": "log",
    "gateway": "server",
    "api_keys": "keys",
    "mcp_server": "mcp",
    "environment": "env",
    "arguments": "args",
    "working_directory": "cwd",
    "workdir": "cwd",
    "http_url": "url",
    "server_url": "url",
    "auto_approve": "tools",
    "always_allow": "tools",
}
"""Names of these fields in other programs."""

NOUNS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
    "object": "a table of names and values",
    "array": "a list",
    "date": "a date",
    "datetime": "a date",
    "time": "a time",
    "timedelta": "a time",
}
_QUOTED = re.compile(r"`([^`]+)`")


class RecordBuilder:
    """Builds records from one document. `problems` collects the errors."""

    def __init__(self, document: Document, environ: Mapping[str, str], *, reads_files: bool = True) -> None:
        self.document = document
        self.environ = environ
        self.folder = FilePath(document.file).parent
        self.problems: list[Problem] = []
        self._reads_files = reads_files  # `file:PATH`; to other programs that is text like any other
        self._wrong: set[Path] = set()

    def is_right(self, path: Path) -> bool:
        """Return whether no problem is known for this path or inside it."""
        return all(wrong[: len(path)] != path for wrong in self._wrong)

    def add_problem(self, path: Path, message: str, suggestion: str | None = None) -> _Invalid:
        self._wrong.add(path)
        self.problems.append(self.document.problem(path, message, suggestion))
        return INVALID

    def record(self, kind: type[Record], value: Any, path: Path) -> Record | _Invalid:
        """Build a record; the value may only have known fields."""
        if not isinstance(value, dict):
            return self.add_problem(path, f"expected {NOUNS['object']}, got {_noun(value)}")
        hints = get_type_hints(kind, include_extras=True)
        value = {name: inner for name, inner in value.items() if inner is not None}  # YAML: a name with nothing behind
        made: dict[str, Any] = {}
        for name, inner in value.items():
            if name not in hints:
                self.add_problem((*path, name), "unknown field", _suggest_name(name, hints))
            else:
                made[name] = self.value(hints[name], inner, (*path, name))
        required = {field.name for field in fields(kind) if field.required}
        for name in sorted(required - value.keys()):
            self.add_problem(path, f"`{name}` is missing")
        made = _valid_fields(made)
        return kind(**made) if required <= made.keys() else INVALID

    def value(self, kind: Any, value: Any, path: Path) -> Any:
        """Return a value of this kind, or `INVALID`."""
        notes = _notes(kind)
        if notes.get("quirks"):
            return self._quirks(value, path)
        plain = _plain(kind)
        record = _record_in(plain)
        if record is not None and (record is plain or isinstance(value, dict)):
            return self.record(record, value, path)
        if get_origin(plain) is dict:
            return self._table(get_args(plain)[1], value, path)
        if get_origin(plain) is tuple:
            return self._list(get_args(plain)[0], value, path)
        return self._end(kind, value, path, bool(notes.get("secret")))

    def _table(self, kind: Any, value: Any, path: Path) -> Any:
        if not isinstance(value, dict):
            return self.add_problem(path, f"expected {NOUNS['object']}, got {_noun(value)}")
        return _valid_fields({name: self.value(kind, inner, (*path, name)) for name, inner in value.items()})

    def _list(self, kind: Any, value: Any, path: Path) -> Any:
        if not isinstance(value, list):
            return self.add_problem(path, f"expected {NOUNS['array']}, got {_noun(value)}")
        made = [self.value(kind, inner, (*path, number)) for number, inner in enumerate(value)]
        return INVALID if INVALID in made else tuple(made)

    def _quirks(self, value: Any, path: Path) -> Any:
        """Convert capabilities by name to the types that the passes expect."""
        if not isinstance(value, dict):
            return self.add_problem(path, f"expected {NOUNS['object']}, got {_noun(value)}")
        made: dict[str, Any] = {}
        for name, inner in value.items():
            if name not in PLACES:
                made[name] = self.add_problem((*path, name), "unknown capability", did_you_mean(name, PLACES))
            else:
                made[name] = self._end(find_capability_type(name), inner, (*path, name), False)
                if problem := _capability_problem(name, made[name]):
                    made[name] = self.add_problem((*path, name), problem)
        return _valid_fields(made)

    def _end(self, kind: Any, value: Any, path: Path, is_secret: bool) -> Any:
        """Convert a leaf value, which contains no records."""
        referred = isinstance(value, str) and has_reference(value)
        try:
            if referred:
                value = expand_references(value, self.environ)
            if is_secret and self._reads_files and isinstance(value, str):
                value = read_secret(value, self.folder)
            return msgspec.convert(value, kind, strict=not referred)
        except MissingReferenceError as problem:
            return self.add_problem(path, problem.message, problem.suggestion)
        except msgspec.ValidationError as error:
            choices = _choices(kind)
            if choices and isinstance(value, str):
                shown = "this" if referred else f"`{value[:40]}`"
                return self.add_problem(path, f"{shown} is not a valid choice", one_of(value, choices))
            return self.add_problem(path, _readable(str(error), value))


def _capability_problem(name: str, value: Any) -> str | None:
    """Return the problem with the value of a capability, apart from its type."""
    if isinstance(value, str) and name.endswith(("_pattern", "_start")):
        try:
            re.compile(value)
        except re.error as error:
            return f"not a regular expression: {error}"
    if isinstance(value, int) and value < 0:
        return "must not be negative"
    return None


def _valid_fields(made: dict[str, Any]) -> dict[str, Any]:
    """Return the valid fields, so that they can be checked further beside invalid ones."""
    return {name: value for name, value in made.items() if value is not INVALID}


def _suggest_name(name: str, hints: Mapping[str, Any]) -> str:
    simple = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).replace("-", "_").lower()
    other = OTHER_NAMES.get(simple, OTHER_NAMES.get(simple.replace("_", "")))
    return f"did you mean `{other}`?" if other in hints else one_of(simple, hints)


def _notes(kind: Any) -> dict[str, Any]:
    """Return the `extra` of the annotation, also inside `… | None`."""
    if get_origin(kind) is Annotated:
        return {key: value for meta in get_args(kind)[1:] if isinstance(meta, Meta) for key, value in _extra(meta)}
    if get_origin(kind) in (Union, UnionType):
        return {key: value for member in get_args(kind) for key, value in _notes(member).items()}
    return {}


def _extra(meta: Meta) -> list[tuple[str, Any]]:
    return list((meta.extra or {}).items())


def _plain(kind: Any) -> Any:
    """Return the kind without annotations and None."""
    if get_origin(kind) is Annotated:
        return _plain(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        members = [member for member in get_args(kind) if member is not NoneType]
        return _plain(members[0]) if len(members) == 1 else kind
    return kind


def _record_in(kind: Any) -> type[Struct] | None:
    """Return the record type of a table, even if the field also accepts other types."""
    members = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return next((member for member in members if isinstance(member, type) and issubclass(member, Struct)), None)


def _choices(kind: Any) -> tuple[str, ...]:
    plain = _plain(kind)
    return get_args(plain) if get_origin(plain) is Literal else ()


def _noun(value: Any) -> str:
    names = {dict: "object", list: "array", NoneType: "null"}
    name = names.get(type(value), type(value).__name__)
    return NOUNS.get(name, name)


def _readable(message: str, value: Any) -> str:
    """Rewrite a message of `msgspec` with plain nouns. It repeats no value except that of a choice."""
    if isinstance(value, str) and message.endswith("length >= 1"):
        return "must not be empty; omit the field instead"
    message = message.partition(" - at ")[0]
    told = _QUOTED.sub(lambda match: " or ".join(NOUNS.get(part, part) for part in match[1].split(" | ")), message)
    return f"{told[:1].lower()}{told[1:]}"
