"""Every dialect, registered in one place. A new one is a folder beside these and a line here."""

from __future__ import annotations

from toolglot.dialect import Dialect
from toolglot.dialects.anthropic import ANTHROPIC
from toolglot.dialects.gemini import GEMINI
from toolglot.dialects.openai_chat import OPENAI_CHAT
from toolglot.dialects.openai_responses import OPENAI_RESPONSES

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC, GEMINI)}


def find(dialect: Dialect | str) -> Dialect:
    """The dialect of this name.

    Raises:
        KeyError: there is none.
    """
    if isinstance(dialect, Dialect):
        return dialect
    if dialect not in DIALECTS:
        raise KeyError(f"there is no dialect {dialect!r}; there are {', '.join(DIALECTS)}")
    return DIALECTS[dialect]
