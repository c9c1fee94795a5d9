"""The group of all commands. Each is imported on first use, so that no command loads the dependencies of another."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

import click

from toolglot.cli import OUTPUT_FAILURES
from toolglot.cli.groups import Group

COMMANDS = {
    "serve": "toolglot.cli.serve",
    "launch": "toolglot.cli.launch",
    "chat": "toolglot.cli.chat",
    "doctor": "toolglot.cli.doctor",
    "health": "toolglot.cli.health",
    "config": "toolglot.cli.config",
    "keys": "toolglot.cli.keys",
    "spend": "toolglot.cli.spend",
    "translate": "toolglot.cli.translate",
    "parse": "toolglot.cli.parse",
    "lint-stream": "toolglot.cli.lint_stream",
    "replay": "toolglot.cli.replay",
    "export": "toolglot.cli.export",
    "explain": "toolglot.cli.explain",
    "dialects": "toolglot.cli.dialects",
    "prices": "toolglot.cli.prices",
    "mcp": "toolglot.cli.mcp",
    "warp": "toolglot.cli.warp",
}
"""The module of each command; its function has the command's name."""


class Commands(Group):
    meant: ClassVar[Mapping[str, str]] = {
        "record": "serve --record",
        "start": "serve",
        "run": "launch",
        "lint": "lint-stream",
        "check": "config check",
        "init": "config init",
        "import": "config import",
        "models": "doctor",
        "status": "health",
        "ping": "health",
    }

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. No exception of this package becomes a traceback."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno in OUTPUT_FAILURES:  # `main` ends the output, too
                raise
            from toolglot.cli.failures import report_failure  # needed only for errors

            raise click.exceptions.Exit(report_failure(error)) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(COMMANDS[cmd_name]), cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="toolglot", prog_name="toolglot")
def app() -> None:
    """A universal translator for LLM tool calls."""
