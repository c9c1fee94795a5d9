"""Write the conversation to a file: a page for people, or lines that `toolglot export` reads again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from toolglot.chat.conversation import ChatConversation, FailedAnswer
from toolglot.dialects import RICHEST
from toolglot.export.html import render_html
from toolglot.export.jsonl import write_jsonl
from toolglot.export.markdown import render_markdown
from toolglot.ir import Message, Text, replace

DIALECT = RICHEST
"""The dialect in which a chat keeps its messages: it has a place for every vendor's reasoning state."""


def as_markdown(conversation: ChatConversation) -> str:
    return "".join(render_markdown(_titled_messages(conversation)))


def as_html(conversation: ChatConversation) -> str:
    return "".join(render_html(_titled_messages(conversation)))


def as_lines(conversation: ChatConversation) -> str:
    """Write one message per line, as a client of that dialect would send the history: without unsigned reasoning and
    without failed answers."""
    return b"".join(write_jsonl(conversation.messages, DIALECT, DIALECT, lambda loss: None)).decode()


WRITERS: dict[str, Callable[[ChatConversation], str]] = {".md": as_markdown, ".html": as_html, ".jsonl": as_lines}
"""By file extension."""


def _titled_messages(conversation: ChatConversation) -> Iterator[Message]:
    """Yield the messages under titles with the model's name, including failed answers."""
    if conversation.system:
        yield Message(role="system", content=(Text(text=conversation.system),))
    for entry in conversation.entries:
        if isinstance(entry, FailedAnswer):
            yield Message(role=f"error ({entry.model})", content=(Text(text=entry.why),))
        elif entry.model:
            yield replace(entry.message, role=f"{entry.message.role} ({entry.model})")
        else:
            yield entry.message


def writer_for(name: str) -> Callable[[ChatConversation], str] | None:
    """Return the writer for a file of this name."""
    return next((form for end, form in WRITERS.items() if name.lower().endswith(end)), None)
