"""Every dialect, registered in one place. A new one is a folder beside these and a name in `DialectName`; an installed
package adds one through the entry-point group `toolglot.dialects`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Literal, TypeAlias, TypeVar, get_args

from toolglot.dialect import Dialect
from toolglot.dialects.installed import installed_manifests
from toolglot.errors import UnknownDialectError
from toolglot.manifest import Manifest, load
from toolglot.nearest import nearest
from toolglot.wire.sdk_objects import describe_type

DialectName: TypeAlias = Literal["openai_chat", "openai_responses", "anthropic", "gemini", "warp", "ollama"]
"""The names of the dialects that come with toolglot. Each is a package here with a `MANIFEST`."""
AnyDialect: TypeAlias = Dialect | DialectName | str
"""A dialect, or its name. Installed packages may bring further names, so any `str` is accepted."""

_BUILT_IN: tuple[str, ...] = get_args(DialectName)

DEFAULT = "openai_chat"
"""The dialect of most servers and files, which is the default if none is named."""
STORED = "openai_responses"
"""The API whose responses and conversations the gateway can store for its clients."""
RICHEST = "anthropic"
"""The dialect that the terminal chat uses: it has a place for reasoning, tool results and tool errors."""


class Dialects(Mapping[str, Dialect]):
    """The dialects by their names. Each is imported on first access, because most exchanges need only two."""

    def __init__(self) -> None:
        self.loaded: dict[str, Dialect] = {}
        """The loaded dialects."""

    @cached_property
    def manifests(self) -> Mapping[str, Manifest]:
        """Return the manifest of each dialect, without loading it. Built-in dialects take precedence over plugins of
        the same name.

        Raises:
            BadPluginError: a package declares a dialect but does not provide it.
        """
        installed = {manifest.name: manifest for manifest in installed_manifests()}
        return {**self._built_in, **installed, **self._built_in}

    @cached_property
    def _built_in(self) -> dict[str, Manifest]:
        return {name: load(f"{__name__}.{name}:MANIFEST") for name in _BUILT_IN}

    def manifest(self, name: str) -> Manifest | None:
        """Return the manifest of one dialect. Installed packages are searched only for unknown names."""
        return self._built_in.get(name) or self.manifests.get(name)

    def __getitem__(self, name: str) -> Dialect:
        dialect = self.loaded.get(name)
        if dialect is None:
            manifest = self.manifest(name)
            if manifest is None:
                raise KeyError(name)
            dialect = self.loaded[name] = load(manifest.record)
        return dialect

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.manifest(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.manifests)

    def __len__(self) -> int:
        return len(self.manifests)


DIALECTS = Dialects()

T = TypeVar("T")


class ByDialect(Mapping[str, T]):
    """A mapping from dialect names to a fact in their manifests, for those that have it. It is built on first use."""

    def __init__(self, fact: Callable[[Manifest], T]) -> None:
        self._fact = fact

    def __getitem__(self, name: str) -> T:
        manifest = DIALECTS.manifest(name)
        if manifest is None or not (found := self._fact(manifest)):
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name, manifest in DIALECTS.manifests.items() if self._fact(manifest))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def suggest(name: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the dialects that may have been meant by an unknown name: by prefix, or the nearest one."""
    if begun := tuple(each for each in names if name and each.startswith(f"{name}_")):
        return begun
    aliases = {alias: manifest.name for manifest in DIALECTS.manifests.values() for alias in manifest.aliases}
    near = nearest(name, (*names, *aliases))
    return () if near is None else (aliases.get(near, near),)


def find(dialect: AnyDialect) -> Dialect:
    """Return the dialect of this name, ready for use.

    Raises:
        UnknownDialectError: no dialect has this name.
        MissingExtraError: it needs a package that is not installed.
        TypeError: the argument is neither a name nor a dialect.
    """
    if isinstance(dialect, str):
        found = DIALECTS.loaded.get(dialect) or _load(dialect)
    elif isinstance(dialect, Dialect):
        found = dialect
    else:
        raise TypeError(f"expected a dialect or its name, not {describe_type(dialect)}")
    found.ready()
    return found


def _load(name: str) -> Dialect:
    plain = name.replace("-", "_")
    if plain not in DIALECTS:
        names = tuple(DIALECTS)
        raise UnknownDialectError(name, names, suggest(plain.lower(), names))
    return DIALECTS[plain]
