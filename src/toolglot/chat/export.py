"""The conversation as a file: a page for people, or lines that `toolglot export` reads again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from toolglot.chat.conversation import Conversation, Failure
from toolglot.dialects import RICHEST
from toolglot.export.html import render_html
from toolglot.export.jsonl import write_jsonl
from toolglot.export.markdown import render_markdown
from toolglot.ir import Message, Text, replace

DIALECT = RICHEST
"""In whose words a chat keeps its messages: it has a place for the reasoning state of every vendor."""


def as_markdown(conversation: Conversation) -> str:
    return "".join(render_markdown(_titled(conversation)))


def as_html(conversation: Conversation) -> str:
    return "".join(render_html(_titled(conversation)))


def as_lines(conversation: Conversation) -> str:
    """A message a line, as a client of that dialect would send the history: reasoning that nobody has signed is not
    in it, nor are answers that did not come."""
    return b"".join(write_jsonl(conversation.messages, DIALECT, DIALECT, lambda loss: None)).decode()


FORMS: dict[str, Callable[[Conversation], str]] = {".md": as_markdown, ".html": as_html, ".jsonl": as_lines}
"""By the end of a file's name."""


def _titled(conversation: Conversation) -> Iterator[Message]:
    """The messages under titles that say which model spoke, with the answers that did not come in their places."""
    if conversation.system:
        yield Message(role="system", content=(Text(text=conversation.system),))
    for entry in conversation.entries:
        if isinstance(entry, Failure):
            yield Message(role=f"error ({entry.model})", content=(Text(text=entry.why),))
        elif entry.model:
            yield replace(entry.message, role=f"{entry.message.role} ({entry.model})")
        else:
            yield entry.message


def form_of(name: str) -> Callable[[Conversation], str] | None:
    """How a conversation is written into a file of this name."""
    return next((form for end, form in FORMS.items() if name.lower().endswith(end)), None)
