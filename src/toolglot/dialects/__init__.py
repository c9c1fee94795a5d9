"""Every dialect, registered in one place. A new one is a folder beside these and a line here."""

from __future__ import annotations

from toolglot.dialect import Dialect
from toolglot.dialects.anthropic import ANTHROPIC
from toolglot.dialects.gemini import GEMINI
from toolglot.dialects.openai_chat import OPENAI_CHAT
from toolglot.dialects.openai_responses import OPENAI_RESPONSES
from toolglot.dialects.warp import WARP
from toolglot.errors import UnknownDialectError

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect for dialect in (OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC, GEMINI, WARP)
}


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
