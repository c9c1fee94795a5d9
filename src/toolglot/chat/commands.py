"""Lines that begin with a slash: what they are, and what is wrong with one that is none."""

from __future__ import annotations

from difflib import get_close_matches

from msgspec import Struct


class Form(Struct, frozen=True):
    """A command: what may stand behind it, and what it does."""

    argument: str
    help: str


COMMANDS: dict[str, Form] = {
    "model": Form("[NAME]", "talk to another model; what was said goes along. Alone: which ones there are"),
    "tools": Form("", "the MCP servers, their tools, and which of these ask first"),
    "system": Form("[TEXT]", "the system text from now on; `-` removes it. Alone: what it is"),
    "receipt": Form("", "what the last exchange lost or changed on its way"),
    "export": Form("[FILE]", "write the conversation to a file: .md or .json"),
    "clear": Form("", "forget what was said"),
    "help": Form("", "this list"),
    "quit": Form("", "leave"),
}
MEANT = {"exit": "quit", "q": "quit", "models": "model", "?": "help", "h": "help", "reset": "clear", "save": "export"}


class Command(Struct, frozen=True):
    name: str
    argument: str = ""


class CommandError(Exception):
    """The line is no command, and this is why."""


def read(line: str) -> Command | str:
    """The command in a line, or what it says to the model. `//` begins a text with a slash.

    Raises:
        CommandError: it begins like a command and is none.
    """
    if line.startswith("//"):
        return line[1:]
    if not line.startswith("/"):
        return line
    first = (line[1:].split(maxsplit=1) or [""])[0] if not line[1:2].isspace() else ""
    argument = line[1 + len(first) :]
    name = MEANT.get(first.lower(), first.lower())
    form = COMMANDS.get(name)
    if form is None:
        near = get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean /{near[0]}?" if near else "/help tells which there are; a text that begins so needs //"
        raise CommandError(f"there is no command /{first[:40]}: {hint}")
    if argument.strip() and not form.argument:
        raise CommandError(f"nothing can stand behind /{name}")
    return Command(name, argument.strip())


def help_lines() -> list[str]:
    """What can be said."""
    shown = {name: f"/{name} {form.argument}".rstrip() for name, form in COMMANDS.items()}
    width = max(map(len, shown.values()))
    lines = [f"{shown[name]:<{width}}  {form.help}" for name, form in COMMANDS.items()]
    return [*lines, "", "A line that ends in \\ goes on. Ctrl-C stops an answer, twice leaves; Ctrl-D leaves."]


def completions(text: str, models: list[str]) -> list[str]:
    """What a line that has begun like this may become."""
    if text.startswith("/model "):
        begun = text.removeprefix("/model ").lstrip()
        return [f"/model {name}" for name in models if name.startswith(begun)]
    if text.startswith("/") and " " not in text:
        return [f"/{name}" for name in COMMANDS if f"/{name}".startswith(text)]
    return []
