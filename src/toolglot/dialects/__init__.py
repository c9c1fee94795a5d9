"""Every dialect, registered in one place. A new one is a folder beside these and a line here."""

from __future__ import annotations

from toolglot.dialect import Dialect
from toolglot.dialects.anthropic import ANTHROPIC
from toolglot.dialects.gemini import GEMINI
from toolglot.dialects.openai_chat import OPENAI_CHAT
from toolglot.dialects.openai_responses import OPENAI_RESPONSES
from toolglot.errors import UnknownDialectError

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC, GEMINI)}


def find(dialect: Dialect | str) -> Dialect:
    """The dialect of this name.

    Raises:
        UnknownDialectError: there is none.
    """
    if isinstance(dialect, Dialect):
        return dialect
    name = dialect.replace("-", "_")
    if name not in DIALECTS:
        raise UnknownDialectError(dialect, tuple(DIALECTS))
    return DIALECTS[name]
