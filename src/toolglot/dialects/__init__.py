"""Every dialect, registered in one place. A new one is a folder beside these and a line here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from toolglot.dialect import Dialect
from toolglot.errors import UnknownDialectError

_NAMES = ("openai_chat", "openai_responses", "anthropic", "gemini", "warp")
"""Each is a module here, with the dialect in a constant of the same name."""


class Dialects(Mapping[str, Dialect]):
    """The dialects by their names. Each is imported when it is first asked for: most exchanges are between two."""

    def __init__(self) -> None:
        self._imported: dict[str, Dialect] = {}

    def __getitem__(self, name: str) -> Dialect:
        dialect = self._imported.get(name)
        if dialect is None:
            if name not in _NAMES:
                raise KeyError(name)
            dialect = self._imported[name] = getattr(import_module(f"{__name__}.{name}"), name.upper())
        return dialect

    def __contains__(self, name: object) -> bool:
        return name in _NAMES

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


DIALECTS = Dialects()


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
