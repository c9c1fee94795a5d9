"""Lines that begin with a slash: the commands, and errors for unknown ones."""

from __future__ import annotations

from difflib import get_close_matches

from msgspec import Struct


class CommandForm(Struct, frozen=True):
    """A command: its argument and its effect."""

    argument: str
    help: str


COMMANDS: dict[str, CommandForm] = {
    "model": CommandForm("[NAME]", "continue with another model; without a name, list the models"),
    "tools": CommandForm("", "show the MCP servers, their tools, and which tools ask first"),
    "system": CommandForm("[TEXT]", "set the system text; `-` removes it; without a text, show it"),
    "receipt": CommandForm("", "show what the last exchange lost or changed in translation"),
    "export": CommandForm(
        "[FILE]", "write the conversation to a .md, .html or .jsonl file; default: chat-DATE-TIME.md"
    ),
    "clear": CommandForm("", "clear the conversation"),
    "help": CommandForm("", "show this list"),
    "quit": CommandForm("", "exit"),
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
        CommandError: it looks like a command but is not one.
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
        hint = f"did you mean /{near[0]}?" if near else "/help lists the commands; // starts a text with a slash"
        raise CommandError(f"there is no command /{first[:40]}: {hint}")
    if argument.strip() and not form.argument:
        raise CommandError(f"no argument is allowed after /{name}")
    return Command(name, argument.strip())


def help_lines() -> list[str]:
    shown = {name: f"/{name} {form.argument}".rstrip() for name, form in COMMANDS.items()}
    width = max(map(len, shown.values()))
    lines = [f"{shown[name]:<{width}}  {form.help}" for name, form in COMMANDS.items()]
    return [*lines, "", "A line that ends in \\ continues. Ctrl-C stops an answer; Ctrl-C twice or Ctrl-D exits."]


def completions(text: str, models: list[str]) -> list[str]:
    """Return the completions of a line."""
    if text.startswith("/model "):
        begun = text.removeprefix("/model ").lstrip()
        return [f"/model {name}" for name in models if name.startswith(begun)]
    if text.startswith("/") and " " not in text:
        return [f"/{name}" for name in COMMANDS if f"/{name}".startswith(text)]
    return []
