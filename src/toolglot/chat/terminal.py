"""The chat in a terminal: reads lines, has them answered, and asks before tools are run."""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path

from msgspec import Struct

from toolglot.agent.host import McpHost
from toolglot.chat import telling
from toolglot.chat.actions import Actions
from toolglot.chat.backstage import Backstage, LeaveError, StoppedError
from toolglot.chat.commands import Command, CommandError, completions, read
from toolglot.chat.keyboard import Keyboard
from toolglot.chat.safe import one_line
from toolglot.chat.screen import Screen
from toolglot.chat.session import Ask, Consent, Session
from toolglot.chat.starting import Begun, Options, begin
from toolglot.chat.telling import Line
from toolglot.server.starting import configured
from toolglot.store.sqlite import default_path
from toolglot.tools.served import ServedCall
from toolglot.upstream.http_client import HttpTransport

FAILED = 1
INTERRUPTED = 130
CONSENTS: dict[str, Consent] = {
    "y": "yes",
    "yes": "yes",
    "n": "no",
    "no": "no",
    "": "no",
    "a": "always",
    "always": "always",
}
SHOW = frozenset({"s", "show"})


class Wanted(Struct, frozen=True, kw_only=True):
    """How a chat is begun."""

    options: Options
    effort: str | None = None
    system: str = ""


class Chat:
    """A session and all that it needs, for as long as the context lasts. Its methods are for the loop."""

    def __init__(self, wanted: Wanted, environ: Mapping[str, str], screen: Screen, ask: Ask | None) -> None:
        self._wanted = wanted
        self._environ = environ
        self._screen = screen
        self._ask = ask
        self._open = AsyncExitStack()

    async def open(self) -> tuple[Session, Begun]:
        """Raises `ConfigError`."""
        config, _, _ = configured(self._wanted.options.wishes, self._environ)
        transport = HttpTransport(config.limits.upstream_connections, self._environ)
        self._open.push_async_callback(transport.close)
        begun = await begin(self._wanted.options, self._environ, transport)
        host = McpHost(begun.servers)
        self._open.push_async_callback(host.close)
        await host.start()
        session = Session(
            begun.gateway,
            host,
            begun.servers,
            self._screen,
            begun.model,
            ask=self._ask,
            effort=self._wanted.effort,
            system=self._wanted.system,
        )
        return session, begun

    async def close(self) -> None:
        await self._open.aclose()


def print_answer(wanted: Wanted, prompt: str, environ: Mapping[str, str]) -> int:
    """One answer for a script: the text alone on standard output. Returns the exit status. Raises `ConfigError`."""
    _quiet_logs()
    screen = Screen(sys.stdout, sys.stderr, thoughts=False)
    with Backstage() as backstage:
        chat = Chat(wanted, environ, screen, None)
        try:
            session, begun = backstage.run(chat.open())
            screen.tell(*begun.missing)
            came = backstage.run(session.answer(prompt))
            screen.tell(*session.losses)
            return 0 if came and _has_arrived(screen) else FAILED
        except StoppedError:
            return INTERRUPTED
        except LeaveError as leave:
            return leave.status
        finally:
            backstage.finish(chat.close())


def talk(wanted: Wanted, environ: Mapping[str, str]) -> int:
    """Talk until the user leaves. Returns the exit status. Raises `ConfigError`."""
    _quiet_logs()
    is_terminal = sys.stdout.isatty()
    colour = is_terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    screen = Screen(sys.stdout, sys.stdout, width=_columns if is_terminal else lambda: None, colour=colour)
    with Backstage() as backstage:
        dialogue = Dialogue(backstage, screen, environ)
        chat = Chat(wanted, environ, screen, dialogue.consent)
        try:
            return dialogue.go(chat)
        finally:
            dialogue.keyboard.close()
            backstage.finish(chat.close())


class Dialogue:
    """The main thread's side of a chat."""

    def __init__(self, backstage: Backstage, screen: Screen, environ: Mapping[str, str]) -> None:
        history = default_path(environ, Path.home()).with_name("chat_history")
        self.keyboard = Keyboard(history, lambda text: completions(text, self._names))
        self._backstage = backstage
        self._screen = screen
        self._names: list[str] = []

    def go(self, chat: Chat) -> int:
        try:
            session, begun = self._backstage.run(chat.open())
            self._names = begun.gateway.router.names()
            self.keyboard.open()
            self._greet(session, begun)
            return self._lines(session, Actions(session, self._screen))
        except StoppedError:
            return INTERRUPTED
        except LeaveError as leave:
            return leave.status

    def _greet(self, session: Session, begun: Begun) -> None:
        for line in begun.told:
            self._screen.tell(Line(one_line(line), ("faint",)))
        tools = f" Tools of {', '.join(begun.servers)}." if begun.servers else ""
        self._screen.tell(
            f"{one_line(session.model)} answers ({session.place()}).{tools} /help tells what can be said."
        )

    def _lines(self, session: Session, actions: Actions) -> int:
        """One line after the other. Ctrl-C twice in a row leaves."""
        interrupts = 0
        while self._screen.failure is None:
            try:
                line = self._backstage.typed(lambda: self.keyboard.read(f"{one_line(session.model, 40)}> "))
            except EOFError:
                self._screen.tell("")
                return 0
            except KeyboardInterrupt:
                interrupts += 1
                self._screen.tell("" if interrupts > 1 else "\nCtrl-C once more leaves.")
                if interrupts > 1:
                    return 0
                continue
            if not line.strip():
                continue
            interrupts = 0
            try:
                if not self._said(line, session, actions):
                    return 0
            except StoppedError:
                interrupts = 1
                self._screen.tell(Line("Stopped. Ctrl-C once more leaves.", ("ask",)))
        return FAILED

    def _said(self, line: str, session: Session, actions: Actions) -> bool:
        """Do what a line says; False to leave."""
        try:
            said = read(line)
        except CommandError as error:
            self._screen.tell(Line(one_line(str(error)), ("error",)))
            return True
        if isinstance(said, Command) and said.name == "quit":
            return False
        self.keyboard.silent()
        try:
            if isinstance(said, Command):
                self._backstage.run(actions.do(said))
            else:
                self._backstage.run(session.answer(said))
        finally:
            self.keyboard.loud()
        return True

    async def consent(self, call: ServedCall) -> Consent:
        """The user's word on a call."""
        return await self._backstage.ask(lambda: self._asked(call))

    def _asked(self, call: ServedCall) -> Consent:
        unseen = telling.rest(call)
        self._screen.tell(telling.wanted(call))
        self._screen.hold()
        self.keyboard.loud()
        consent: Consent | None = None
        try:
            while consent is None:
                if self._screen.failure is not None:
                    return "no"  # nobody can have seen the question
                typed = self._backstage.typed(partial(self.keyboard.ask, telling.question(call, unseen)))
                typed = typed.strip().lower()
                if unseen is not None and typed in SHOW:
                    self._screen.tell_at_once(unseen)
                    unseen = None
                elif unseen is None or CONSENTS.get(typed) == "no":
                    consent = CONSENTS.get(typed)
            return consent
        except EOFError:
            return "no"
        finally:
            self.keyboard.silent()
            self._screen.release("\n" if consent is None else "")


def _has_arrived(screen: Screen) -> bool:
    """Could all of the answer be written? A reader that wants no more of it, as `head` does, has what it wants."""
    failure = screen.failure
    if failure is None or isinstance(failure, BrokenPipeError):
        return True
    screen.tell(Line(f"Error: the answer could not be written: {failure.strerror or failure}", ("error",)))
    return False


def _columns() -> int:
    return shutil.get_terminal_size().columns


def _quiet_logs() -> None:
    """What goes wrong is told where it happens; a log would be written into the middle of answers."""
    logging.getLogger().addHandler(logging.NullHandler())
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr] # a stream that has an encoding
