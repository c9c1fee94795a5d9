"""The commands, in one group."""

from __future__ import annotations

import click

from toolglot.cli.dialects import dialects
from toolglot.cli.lint_stream import lint_stream
from toolglot.cli.translate import translate


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="toolglot", prog_name="toolglot")
def app() -> None:
    """A universal translator for LLM tool calls."""


app.add_command(translate)
app.add_command(lint_stream)
app.add_command(dialects)
