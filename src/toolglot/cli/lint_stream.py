"""`toolglot lint-stream`: check that every client can read a recorded stream."""

from __future__ import annotations

from pathlib import Path

import click

from toolglot.cli.diagnosis import BYTE_ORDER_MARK, not_this_stream
from toolglot.cli.parameters import count_noun, dialect_option, exit_unreadable, input_file, read_chunks
from toolglot.dialects import DIALECTS
from toolglot.lint import lint, rules_of
from toolglot.lint.report import split


@click.command("lint-stream", short_help="Check a recorded stream against its protocol.")
@dialect_option("--dialect", "dialect", "Dialect of the stream")
@click.option("--rules", is_flag=True, help="List the rules of the dialect and exit.")
@input_file
@click.pass_context
def lint_stream(context: click.Context, file: Path, dialect: str, rules: bool) -> None:
    """Check the recorded stream in FILE, or standard input, against its protocol.

    Each violation is one line: the event number, the rule, its text and an excerpt. Exit status: 0 no violations,
    1 violations, 2 the input cannot be read or is not a stream of this dialect.
    """
    if rules:
        for rule, sentence in rules_of(dialect).items():
            click.echo(f"{rule}: {sentence}")
        return
    recording = b"".join(read_chunks(file))
    head = recording.removeprefix(BYTE_ORDER_MARK)
    if head.strip() and (why := not_this_stream(head, dialect)):
        exit_unreadable(file, why)
    breaches = lint(dialect, [recording])
    for breach in breaches:
        click.echo(str(breach))
    if breaches:
        context.exit(1)
    events = split(recording, DIALECTS[dialect].stream.framing)
    click.echo(f"no violations in {count_noun(len(events), 'event')}", err=True)
