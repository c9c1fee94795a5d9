"""The terminal chat: reads lines, shows answers, and asks before tools run."""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path

from msgspec import Struct

from toolglot.agent.host import McpHost
from toolglot.chat import render_events
from toolglot.chat.actions import CommandActions
from toolglot.chat.background import BackgroundLoop, LeaveError, UserStoppedError
from toolglot.chat.commands import Command, CommandError, completions, parse_line
from toolglot.chat.keyboard import Keyboard
from toolglot.chat.model_choice import NOT_OFFERED, QUESTION, offer_lines, parse_choice
from toolglot.chat.render_events import StyledLine
from toolglot.chat.safe_text import one_line
from toolglot.chat.screen import Screen
from toolglot.chat.session import Ask, ChatSession, Consent
from toolglot.chat.startup import ChatOptions, ChatSetup, ChooseModel, prepare_chat
from toolglot.server.startup import load_options
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


class ChatRequest(Struct, frozen=True, kw_only=True):
    """Settings for starting a chat."""

    options: ChatOptions
    effort: str | None = None
    system: str = ""


class ChatRuntime:
    """A session and its resources, for the lifetime of the context. Its methods run in the loop."""

    def __init__(
        self,
        wanted: ChatRequest,
        environ: Mapping[str, str],
        screen: Screen,
        ask: Ask | None,
        choose: ChooseModel | None = None,
    ) -> None:
        self._wanted = wanted
        self._environ = environ
        self._screen = screen
        self._ask = ask
        self._choose = choose
        self._open = AsyncExitStack()

    async def open(self) -> tuple[ChatSession, ChatSetup]:
        """Raises `ConfigError`."""
        config, _, _ = load_options(self._wanted.options.start_options, self._environ)
        transport = HttpTransport(config.limits.upstream_connections, self._environ)
        self._open.push_async_callback(transport.close)
        begun = await prepare_chat(self._wanted.options, self._environ, transport, self._choose)
        host = McpHost(begun.servers)
        self._open.push_async_callback(host.close)
        await host.start()
        session = ChatSession(
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


def print_answer(wanted: ChatRequest, prompt: str, environ: Mapping[str, str]) -> int:
    """Print one answer for a script: only the text on standard output. Returns the exit status. Raises
    `ConfigError`."""
    _quiet_logs()
    screen = Screen(sys.stdout, sys.stderr, thoughts=False)
    with BackgroundLoop() as backstage:
        chat = ChatRuntime(wanted, environ, screen, None)
        try:
            session, begun = backstage.run(chat.open())
            screen.print_lines(*begun.missing)
            came = backstage.run(session.answer(prompt))
            screen.print_lines(*session.losses)
            return 0 if came and _was_written(screen) else FAILED
        except UserStoppedError:
            return INTERRUPTED
        except LeaveError as leave:
            return leave.status
        finally:
            backstage.finish(chat.close())


def run_dialogue(wanted: ChatRequest, environ: Mapping[str, str]) -> int:
    """Run the dialogue until the user leaves. Returns the exit status. Raises `ConfigError`."""
    _quiet_logs()
    is_terminal = sys.stdout.isatty()
    colour = is_terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    screen = Screen(sys.stdout, sys.stdout, width=_columns if is_terminal else lambda: None, colour=colour)
    with BackgroundLoop() as backstage:
        dialogue = Dialogue(backstage, screen, environ)
        chat = ChatRuntime(wanted, environ, screen, dialogue.consent, dialogue.choose_model)
        try:
            return dialogue.run(chat)
        finally:
            dialogue.keyboard.close()
            backstage.finish(chat.close())


class Dialogue:
    """The main thread's side of a chat."""

    def __init__(self, backstage: BackgroundLoop, screen: Screen, environ: Mapping[str, str]) -> None:
        history = default_path(environ, Path.home()).with_name("chat_history")
        self.keyboard = Keyboard(history, lambda text: completions(text, self._names))
        self._backstage = backstage
        self._screen = screen
        self._names: list[str] = []

    def run(self, chat: ChatRuntime) -> int:
        try:
            session, begun = self._backstage.run(chat.open())
            self._names = begun.gateway.router.names()
            self.keyboard.open()
            self._greet(session, begun)
            return self._lines(session, CommandActions(session, self._screen))
        except UserStoppedError:
            return INTERRUPTED
        except LeaveError as leave:
            return leave.status

    def _greet(self, session: ChatSession, begun: ChatSetup) -> None:
        for line in begun.told:
            self._screen.print_lines(StyledLine(one_line(line), ("faint",)))
        tools = f" Tools of {', '.join(begun.servers)}." if begun.servers else ""
        self._screen.print_lines(
            f"{one_line(session.model)} answers ({session.place()}).{tools} /help lists the commands."
        )

    def _lines(self, session: ChatSession, actions: CommandActions) -> int:
        """Handle one line after the other. Ctrl-C twice in a row leaves."""
        interrupts = 0
        while self._screen.failure is None:
            try:
                line = self._backstage.read_keyboard(lambda: self.keyboard.read(f"{one_line(session.model, 40)}> "))
            except EOFError:
                self._screen.print_lines("")
                return 0
            except KeyboardInterrupt:
                interrupts += 1
                self._screen.print_lines("" if interrupts > 1 else "\nPress Ctrl-C again to exit.")
                if interrupts > 1:
                    return 0
                continue
            if not line.strip():
                continue
            interrupts = 0
            try:
                if not self._handle_line(line, session, actions):
                    return 0
            except UserStoppedError:
                interrupts = 1
                self._screen.print_lines(StyledLine("Stopped. Press Ctrl-C again to exit.", ("ask",)))
        return FAILED

    def _handle_line(self, line: str, session: ChatSession, actions: CommandActions) -> bool:
        """Handle a line; False to leave."""
        try:
            said = parse_line(line)
        except CommandError as error:
            self._screen.print_lines(StyledLine(one_line(str(error)), ("error",)))
            return True
        if isinstance(said, Command) and said.name == "quit":
            return False
        self.keyboard.hide_input()
        try:
            if isinstance(said, Command):
                self._backstage.run(actions.do(said))
            else:
                self._backstage.run(session.answer(said))
        finally:
            self.keyboard.show_input()
        return True

    async def choose_model(self, names: Sequence[str]) -> str:
        """Ask the user for one of several models."""
        return await self._backstage.ask(lambda: self._ask_for_model(names))

    def _ask_for_model(self, names: Sequence[str]) -> str:
        self._screen.print_lines(*offer_lines(names))
        while True:
            try:
                typed = self._backstage.read_keyboard(partial(self.keyboard.ask, QUESTION))
            except EOFError:
                raise KeyboardInterrupt from None
            if (name := parse_choice(typed, names)) is not None:
                return name
            self._screen.print_lines(StyledLine(NOT_OFFERED, ("error",)))

    async def consent(self, call: ServedCall) -> Consent:
        """Ask the user to approve a call."""
        return await self._backstage.ask(lambda: self._ask_consent(call))

    def _ask_consent(self, call: ServedCall) -> Consent:
        unseen = render_events.hidden_arguments_line(call)
        self._screen.print_lines(render_events.approval_line(call))
        self._screen.hold()
        self.keyboard.show_input()
        consent: Consent | None = None
        try:
            while consent is None:
                if self._screen.failure is not None:
                    return "no"  # the question cannot have been seen
                typed = self._backstage.read_keyboard(
                    partial(self.keyboard.ask, render_events.approval_question(call, unseen))
                )
                typed = typed.strip().lower()
                if unseen is not None and typed in SHOW:
                    self._screen.print_at_once(unseen)
                    unseen = None
                elif unseen is None or CONSENTS.get(typed) == "no":
                    consent = CONSENTS.get(typed)
            return consent
        except EOFError:
            return "no"
        finally:
            self.keyboard.hide_input()
            self._screen.release("\n" if consent is None else "")


def _was_written(screen: Screen) -> bool:
    """Return whether the answer was written completely. A reader that stops early, like `head`, does not count as a
    failure."""
    failure = screen.failure
    if failure is None or isinstance(failure, BrokenPipeError):
        return True
    screen.print_lines(StyledLine(f"Error: the answer could not be written: {failure.strerror or failure}", ("error",)))
    return False


def _columns() -> int:
    return shutil.get_terminal_size().columns


def _quiet_logs() -> None:
    """Silence the log, which would be written into the middle of answers. Errors are shown where they occur."""
    logging.getLogger().addHandler(logging.NullHandler())
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr] # a stream that has an encoding
