"""The actions of the chat commands. They run in the event loop's thread, which owns the session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path

from toolglot.chat.commands import Command, help_lines
from toolglot.chat.export import WRITERS, writer_for
from toolglot.chat.render_events import StyledLine
from toolglot.chat.safe_text import one_line
from toolglot.chat.screen import Screen
from toolglot.chat.session import ChatSession
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
        self._screen.print_lines(f"{one_line(session.model)} answers ({session.place()}). There are:")
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
            # An existing file is not overwritten by accident; one of this chat's own is written again.
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
