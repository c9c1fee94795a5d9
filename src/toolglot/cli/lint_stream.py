"""`toolglot lint-stream`: is this recording of a stream what every client can read?"""

from __future__ import annotations

from pathlib import Path

import click

from toolglot.cli.parameters import chunks, dialect_option, input_file
from toolglot.lint import RULES, lint


@click.command("lint-stream")
@dialect_option("--dialect", "dialect", "The dialect of the stream.")
@click.option("--rules", is_flag=True, help="List the rules of the dialect and read nothing.")
@input_file
@click.pass_context
def lint_stream(context: click.Context, file: Path, dialect: str, rules: bool) -> None:
    """Check the recorded stream in FILE, or standard input, against its protocol.

    Every breach is a line: the number of the event, the rule, what it says, and an excerpt. Exit status: 0 sound,
    1 breaches.
    """
    if rules:
        for rule, sentence in RULES[dialect].items():
            click.echo(f"{rule}: {sentence}")
        return
    breaches = lint(dialect, chunks(file))
    for breach in breaches:
        click.echo(str(breach))
    if breaches:
        context.exit(1)
