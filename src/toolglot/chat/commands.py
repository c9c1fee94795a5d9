"""Lines that begin with a slash: the commands, and errors for unknown ones."""

from __future__ import annotations

from difflib import get_close_matches

from msgspec import Struct


class CommandForm(Struct, frozen=True):
    """A command: its argument, and what it does."""

    argument: str
    help: str


COMMANDS: dict[str, CommandForm] = {
    "model": CommandForm("[NAME]", "talk to another model; what was said goes along. Alone: which ones there are"),
    "tools": CommandForm("", "the MCP servers, their tools, and which of these ask first"),
    "system": CommandForm("[TEXT]", "the system text from now on; `-` removes it. Alone: what it is"),
    "receipt": CommandForm("", "what the last exchange lost or changed on its way"),
    "export": CommandForm("[FILE]", "write the conversation to a file: .md or .json"),
    "clear": CommandForm("", "forget what was said"),
    "help": CommandForm("", "this list"),
    "quit": CommandForm("", "leave"),
}
MEANT_COMMANDS = {
    "exit": "quit",
    "q": "quit",
    "models": "model",
    "?": "help",
    "h": "help",
    "reset": "clear",
    "save": "export",
}


class Command(Struct, frozen=True):
    name: str
    argument: str = ""


class CommandError(Exception):
    """Why the line is not a command."""


def parse_line(line: str) -> Command | str:
    """Parse a line: a command, or text for the model. `//` begins a text with a slash.

    Raises:
        CommandError: it looks like a command and is none.
    """
    if line.startswith("//"):
        return line[1:]
    if not line.startswith("/"):
        return line
    first = (line[1:].split(maxsplit=1) or [""])[0] if not line[1:2].isspace() else ""
    argument = line[1 + len(first) :]
    name = MEANT_COMMANDS.get(first.lower(), first.lower())
    form = COMMANDS.get(name)
    if form is None:
        near = get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean /{near[0]}?" if near else "/help tells which there are; a text that begins so needs //"
        raise CommandError(f"there is no command /{first[:40]}: {hint}")
    if argument.strip() and not form.argument:
        raise CommandError(f"nothing can stand behind /{name}")
    return Command(name, argument.strip())


def help_lines() -> list[str]:
    shown = {name: f"/{name} {form.argument}".rstrip() for name, form in COMMANDS.items()}
    width = max(map(len, shown.values()))
    lines = [f"{shown[name]:<{width}}  {form.help}" for name, form in COMMANDS.items()]
    return [*lines, "", "A line that ends in \\ goes on. Ctrl-C stops an answer, twice leaves; Ctrl-D leaves."]


def completions(text: str, models: list[str]) -> list[str]:
    """Return the completions of a line."""
    if text.startswith("/model "):
        begun = text.removeprefix("/model ").lstrip()
        return [f"/model {name}" for name in models if name.startswith(begun)]
    if text.startswith("/") and " " not in text:
        return [f"/{name}" for name in COMMANDS if f"/{name}".startswith(text)]
    return []
