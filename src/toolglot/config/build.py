"""Plain values to the records of `schema.py`, all problems collected on the way.

`msgspec.convert` stops at the first mistake; a person who mends a file wants them all. So records, tables and lists
are walked here, and `convert` checks what is at their ends. References are replaced on the way: text that came from
one may also become a number or a truth, as in `port = "${PORT}"`.
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

from toolglot.config.documents import Document
from toolglot.config.problems import Path, Problem, did_you_mean, one_of
from toolglot.config.references import MissingReferenceError, expand, has_reference, secret
from toolglot.dialect import Capabilities

Record = TypeVar("Record", bound=Struct)


class _Wrong:
    """Stands for a value that could not be made; what is wrong with it is among the problems."""


WRONG = _Wrong()

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
"""What other programs call these fields."""

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


class Builder:
    """Makes records from one document. `problems` has what was wrong."""

    def __init__(self, document: Document, environ: Mapping[str, str], *, reads_files: bool = True) -> None:
        self.document = document
        self.environ = environ
        self.folder = FilePath(document.file).parent
        self.problems: list[Problem] = []
        self._reads_files = reads_files  # `file:PATH`; to other programs that is text like any other
        self._wrong: set[Path] = set()

    def is_right(self, path: Path) -> bool:
        """Nothing is wrong with this, or in it, as far as is known."""
        return all(wrong[: len(path)] != path for wrong in self._wrong)

    def tell(self, path: Path, message: str, suggestion: str | None = None) -> _Wrong:
        self._wrong.add(path)
        self.problems.append(self.document.problem(path, message, suggestion))
        return WRONG

    def record(self, kind: type[Record], value: Any, path: Path) -> Record | _Wrong:
        """A record of this kind; only what is known may be in the value."""
        if not isinstance(value, dict):
            return self.tell(path, f"expected {NOUNS['object']}, got {_noun(value)}")
        hints = get_type_hints(kind, include_extras=True)
        value = {name: inner for name, inner in value.items() if inner is not None}  # YAML: a name with nothing behind
        made: dict[str, Any] = {}
        for name, inner in value.items():
            if name not in hints:
                self.tell((*path, name), "there is no such field", _suggested(name, hints))
            else:
                made[name] = self.value(hints[name], inner, (*path, name))
        required = {field.name for field in fields(kind) if field.required}
        for name in sorted(required - value.keys()):
            self.tell(path, f"`{name}` is missing")
        made = _right(made)
        return kind(**made) if required <= made.keys() else WRONG

    def value(self, kind: Any, value: Any, path: Path) -> Any:
        """A value of this kind, or `WRONG`."""
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
            return self.tell(path, f"expected {NOUNS['object']}, got {_noun(value)}")
        return _right({name: self.value(kind, inner, (*path, name)) for name, inner in value.items()})

    def _list(self, kind: Any, value: Any, path: Path) -> Any:
        if not isinstance(value, list):
            return self.tell(path, f"expected {NOUNS['array']}, got {_noun(value)}")
        made = [self.value(kind, inner, (*path, number)) for number, inner in enumerate(value)]
        return WRONG if WRONG in made else tuple(made)

    def _quirks(self, value: Any, path: Path) -> Any:
        """Capabilities by name, in the types that the passes expect."""
        if not isinstance(value, dict):
            return self.tell(path, f"expected {NOUNS['object']}, got {_noun(value)}")
        hints = get_type_hints(Capabilities)
        made: dict[str, Any] = {}
        for name, inner in value.items():
            if name not in hints:
                made[name] = self.tell((*path, name), "there is no such capability", did_you_mean(name, hints))
            else:
                made[name] = self._end(hints[name], inner, (*path, name), False)
        return _right(made)

    def _end(self, kind: Any, value: Any, path: Path, is_secret: bool) -> Any:
        """A value that nothing of ours is in."""
        referred = isinstance(value, str) and has_reference(value)
        try:
            if referred:
                value = expand(value, self.environ)
            if is_secret and self._reads_files and isinstance(value, str):
                value = secret(value, self.folder)
            return msgspec.convert(value, kind, strict=not referred)
        except MissingReferenceError as problem:
            return self.tell(path, problem.message, problem.suggestion)
        except msgspec.ValidationError as error:
            choices = _choices(kind)
            if choices and isinstance(value, str):
                shown = "this" if referred else f"`{value[:40]}`"
                return self.tell(path, f"{shown} is not a choice", one_of(value, choices))
            return self.tell(path, _readable(str(error), value))


def _right(made: dict[str, Any]) -> dict[str, Any]:
    """What could be made: so that what is right can be checked further beside what is wrong."""
    return {name: value for name, value in made.items() if value is not WRONG}


def _suggested(name: str, hints: Mapping[str, Any]) -> str:
    simple = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).replace("-", "_").lower()
    other = OTHER_NAMES.get(simple, OTHER_NAMES.get(simple.replace("_", "")))
    return f"did you mean `{other}`?" if other in hints else one_of(simple, hints)


def _notes(kind: Any) -> dict[str, Any]:
    """The `extra` of the annotation, also inside `… | None`."""
    if get_origin(kind) is Annotated:
        return {key: value for meta in get_args(kind)[1:] if isinstance(meta, Meta) for key, value in _extra(meta)}
    if get_origin(kind) in (Union, UnionType):
        return {key: value for member in get_args(kind) for key, value in _notes(member).items()}
    return {}


def _extra(meta: Meta) -> list[tuple[str, Any]]:
    return list((meta.extra or {}).items())


def _plain(kind: Any) -> Any:
    """The kind without annotations and without None."""
    if get_origin(kind) is Annotated:
        return _plain(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        members = [member for member in get_args(kind) if member is not NoneType]
        return _plain(members[0]) if len(members) == 1 else kind
    return kind


def _record_in(kind: Any) -> type[Struct] | None:
    """The record that a table is, also where something else than a table may stand in its place."""
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
    """The words of `msgspec` with plain nouns; it never repeats a value but that of a choice."""
    if isinstance(value, str) and message.endswith("length >= 1"):
        return "this is empty; leave it out instead"
    message = message.partition(" - at ")[0]
    told = _QUOTED.sub(lambda match: " or ".join(NOUNS.get(part, part) for part in match[1].split(" | ")), message)
    return f"{told[:1].lower()}{told[1:]}"
