"""The actions of the chat commands. They run in the event loop's thread, which owns the session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from pathlib import Path

from toolglot.chat.commands import Command, help_lines
from toolglot.chat.conversation import ChatConversation, FailedAnswer
from toolglot.chat.render_events import StyledLine
from toolglot.chat.safe_text import one_line
from toolglot.chat.screen import Screen
from toolglot.chat.session import ChatSession
from toolglot.dialects import RICHEST
from toolglot.export.html import render_html
from toolglot.export.jsonl import write_jsonl
from toolglot.export.markdown import render_markdown
from toolglot.ir import Message, Text, replace
from toolglot.routing import UnknownModelError

MAX_MODELS = 60


class CommandActions:
    """`now` is used to name files that the user has not named."""

    def __init__(self, session: ChatSession, screen: Screen, now: Callable[[], datetime] = datetime.now) -> None:
        self._session = session
        self._screen = screen
        self._now = now
        self._written: set[Path] = set()
        self._actions: dict[str, Callable[[str], Awaitable[None]]] = {
            "model": self._model,
            "tools": self._tools,
            "system": self._system,
            "receipt": self._receipt,
            "export": self._export,
            "clear": self._clear,
            "help": self._help,
        }

    async def do(self, command: Command) -> None:
        await self._actions[command.name](command.argument)

    async def _model(self, name: str) -> None:
        if not name:
            await self._models()
            return
        try:
            place = self._session.switch(name)
        except UnknownModelError as error:
            self._wrong(str(error))
            return
        self._screen.print_lines(f"Now {one_line(name)} answers ({place}).")

    async def _models(self) -> None:
        session = self._session
        self._screen.print_lines(f"{one_line(session.model)} answers ({session.place()}). Available models:")
        names = await session.models()
        for name in names[:MAX_MODELS]:
            mark = "*" if name == session.model else " "
            self._screen.print_lines(f"{mark} {one_line(name)}  ({session.place(name).dialect})")
        if len(names) > MAX_MODELS:
            self._screen.print_lines(f"  … and {len(names) - MAX_MODELS} more")

    async def _tools(self, _: str) -> None:
        self._screen.print_lines(*await self._session.tools())

    async def _system(self, text: str) -> None:
        conversation = self._session.conversation
        if text:
            conversation.system = "" if text == "-" else text
        told = f"System text: {one_line(conversation.system)}" if conversation.system else "There is no system text."
        self._screen.print_lines(told)

    async def _receipt(self, _: str) -> None:
        self._screen.print_lines(*self._session.receipt())

    async def _clear(self, _: str) -> None:
        self._session.conversation.clear()
        self._screen.print_lines("Forgotten.")

    async def _help(self, _: str) -> None:
        self._screen.print_lines(*help_lines())

    async def _export(self, name: str) -> None:
        conversation = self._session.conversation
        if not conversation.entries:
            self._wrong("the conversation is empty")
            return
        path = Path(name or f"chat-{self._now():%Y%m%d-%H%M%S}.md").expanduser()
        form = writer_for(path.name)
        if form is None:
            self._wrong(f"{path.name}: a name that ends in {', '.join(WRITERS)} says what to write")
            return
        try:
            # Existing files are not overwritten, except for files that this chat has written.
            mode = "w" if path.resolve() in self._written else "x"
            with path.open(mode, encoding="utf-8", errors="replace") as file:
                file.write(form(conversation))
        except FileExistsError:
            self._wrong(f"{path}: the file already exists")
            return
        except OSError as error:
            self._wrong(f"{path}: {error.strerror or error}")
            return
        self._written.add(path.resolve())
        self._screen.print_lines(one_line(f"Written to {path}."))

    def _wrong(self, why: str) -> None:
        self._screen.print_lines(StyledLine(one_line(why, 500), ("error",)))


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
"""Functions that write a conversation, by file extension."""


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
