"""Every dialect, registered in one place. A new one is a folder beside these and a name in `_BUILT_IN`; an installed
package adds one through the entry-point group `toolglot.dialects`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TypeVar

from toolglot.dialect import Dialect
from toolglot.errors import UnknownDialectError
from toolglot.manifest import Manifest, load

_BUILT_IN = ("openai_chat", "openai_responses", "anthropic", "gemini", "warp", "ollama")
"""Each is a package here with a `MANIFEST`."""

DEFAULT = "openai_chat"
"""What most servers and files speak: assumed where nothing says otherwise."""
STORED = "openai_responses"
"""The API whose responses and conversations the gateway can store for its clients."""
RICHEST = "anthropic"
"""What the terminal chat speaks to the gateway: reasoning, results and errors of tools all have a place in it."""


class Dialects(Mapping[str, Dialect]):
    """The dialects by their names. Each is imported when it is first asked for: most exchanges are between two."""

    def __init__(self) -> None:
        self._loaded: dict[str, Dialect] = {}

    @cached_property
    def manifests(self) -> Mapping[str, Manifest]:
        """What is known of each dialect without loading it."""
        built_in = [load(f"{__name__}.{name}:MANIFEST") for name in _BUILT_IN]
        return {manifest.name: manifest for manifest in built_in}

    def __getitem__(self, name: str) -> Dialect:
        dialect = self._loaded.get(name)
        if dialect is None:
            dialect = self._loaded[name] = load(self.manifests[name].record)
        return dialect

    def __contains__(self, name: object) -> bool:
        return name in self.manifests

    def __iter__(self) -> Iterator[str]:
        return iter(self.manifests)

    def __len__(self) -> int:
        return len(self.manifests)


DIALECTS = Dialects()

T = TypeVar("T")


class ByDialect(Mapping[str, T]):
    """A fact of each manifest, by the dialect's name, where there is one. Nothing is looked up before it is needed."""

    def __init__(self, fact: Callable[[Manifest], T]) -> None:
        self._fact = fact

    def __getitem__(self, name: str) -> T:
        if not (found := self._fact(DIALECTS.manifests[name])):
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name, manifest in DIALECTS.manifests.items() if self._fact(manifest))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def find(dialect: Dialect | str) -> Dialect:
    """The dialect of this name, ready for use.

    Raises:
        UnknownDialectError: there is none.
        MissingExtraError: it needs a package that is not installed.
    """
    if not isinstance(dialect, Dialect):
        name = dialect.replace("-", "_")
        if name not in DIALECTS:
            raise UnknownDialectError(dialect, tuple(DIALECTS))
        dialect = DIALECTS[name]
    dialect.ready()
    return dialect
