"""The commands, in one group. Each is imported when it is asked for, so that none pays for what another needs."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module

import click

COMMANDS = {
    "serve": "toolglot.cli.serve",
    "launch": "toolglot.cli.launch",
    "chat": "toolglot.cli.chat",
    "doctor": "toolglot.cli.doctor",
    "config": "toolglot.cli.config",
    "translate": "toolglot.cli.translate",
    "parse": "toolglot.cli.parse",
    "lint-stream": "toolglot.cli.lint_stream",
    "replay": "toolglot.cli.replay",
    "export": "toolglot.cli.export",
    "explain": "toolglot.cli.explain",
    "dialects": "toolglot.cli.dialects",
    "mcp": "toolglot.cli.mcp",
    "warp": "toolglot.cli.warp",
}
"""Where each command lives; the function has the command's name."""


class Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(COMMANDS[cmd_name]), cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Click suggests options that are near, and commands not."""
        near = get_close_matches(args[0], COMMANDS, n=1)
        if args[0] not in COMMANDS and not args[0].startswith("-") and near:
            ctx.fail(f"there is no command {args[0]!r}; did you mean `{near[0]}`?")
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="toolglot", prog_name="toolglot")
def app() -> None:
    """A universal translator for LLM tool calls."""
