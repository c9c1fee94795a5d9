"""`toolglot export`: write a conversation as a file for people, or for another program."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shutil import get_terminal_size
from tempfile import SpooledTemporaryFile
from typing import IO, NamedTuple

import click

from toolglot.cli.output import check_output, is_replaced, open_output
from toolglot.cli.parameters import (
    CHUNK_BYTES,
    SuggestingChoice,
    count_noun,
    exit_unreadable,
    known_dialect,
    print_note,
    read_chunks,
)
from toolglot.cli.progress import Progress
from toolglot.columns import cut
from toolglot.dialects import DIALECTS
from toolglot.errors import DecodeError, MissingExtraError, ToolglotError
from toolglot.export.html import can_show_image, render_html
from toolglot.export.jsonl import write_jsonl
from toolglot.export.loss_report import watch_losses
from toolglot.export.markdown import render_markdown
from toolglot.export.readers import ConversationSummary, SourceConversation, read_conversation, read_recordings
from toolglot.ir import Media
from toolglot.lint.report import visible
from toolglot.receipt import ReceiptLine
from toolglot.recordings.format import PARTIAL_SUFFIX, SUFFIX, RecordingHead, decoder
from toolglot.recordings.read import MAX_HEAD_BYTES, Recording, read_file

LOST = 3
"""Exit status: strict, and something would be lost."""
MAX_RECEIPT_LINES = 200
"""Receipt lines to print one by one; more are counted."""
MAX_LISTED = 40
"""Other conversations to list; more are counted."""
MAX_HELD_BYTES = 8 * 1024 * 1024
"""Maximum bytes of output to hold in memory until it is known whether they are written."""
ENDINGS = {".md": "markdown", ".markdown": "markdown", ".html": "html", ".htm": "html", ".jsonl": "jsonl"}
_STDIN = Path("-")


class ExportJob(NamedTuple):
    files: tuple[Path, ...]
    format: str
    source: str | None
    target: str | None
    title: str | None = None
    wanted: str | None = None
    """Which conversation: its number, or a recording of it."""


class ReceiptPrinter:
    """Prints the receipt on standard error, while it is written."""

    def __init__(self) -> None:
        self.losses = self.count = 0

    def tell(self, line: ReceiptLine) -> None:
        self.count += 1
        self.losses += line.severity == "loss"
        if self.count <= MAX_RECEIPT_LINES:
            click.echo(visible(str(line)), err=True)

    def close(self) -> None:
        if self.count > MAX_RECEIPT_LINES:
            click.echo(f"… and {count_noun(self.count - MAX_RECEIPT_LINES, 'more line')} of the receipt", err=True)


def _dialect(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    return None if value is None else known_dialect(value, tuple(DIALECTS))


@click.command(short_help="Write a conversation as Markdown, HTML or JSON lines.")
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--format",
    "form",
    type=SuggestingChoice(("markdown", "html", "jsonl"), {"md": "markdown", "json": "jsonl", "htm": "html"}),
    help="Output format. Default: by the extension of OUT, otherwise markdown.",
)
@click.option(
    "--dialect",
    "target",
    metavar="DIALECT",
    callback=_dialect,
    help="Dialect of the JSON lines. Default: the input's dialect.",
)
@click.option(
    "--from", "source", metavar="DIALECT", callback=_dialect, help="Dialect of the input, if it cannot be detected."
)
@click.option(
    "-o", "--output", metavar="OUT", type=click.Path(path_type=Path, dir_okay=False), help="Write to this file."
)
@click.option("--title", help="Title of the HTML page. Default: the first words of the user.")
@click.option(
    "--conversation",
    "wanted",
    metavar="FILE|N",
    help="Given several recordings: the conversation that ends with this file, or the one with this number.",
)
@click.option("--strict", is_flag=True, help="Exit with status 3 if anything would be lost.")
@click.pass_context
def export(
    context: click.Context,
    files: tuple[Path, ...],
    form: str | None,
    target: str | None,
    source: str | None,
    output: Path | None,
    title: str | None,
    wanted: str | None,
    strict: bool,
) -> None:
    """Write the conversation in FILE, or standard input, as a document for people or as JSON lines for programs.

    \b
    toolglot export request.json -o conversation.html
    toolglot export conversation.jsonl --format jsonl --dialect gemini

    FILE is a request body, an array of messages, JSON lines of messages or a recorded exchange. Given several
    recordings, or a directory of them, the command writes the longest conversation and lists the others.

    The receipt lists what could not be written and goes to standard error. Exit status: 0 success, 2 invalid file or
    option, 3 data would be lost and --strict is set.
    """
    form = form or _form_of(output)
    if target is not None and form != "jsonl":
        raise click.UsageError(
            f"--dialect cannot be combined with --format {form}: only JSON lines have a dialect", context
        )
    if title is not None and form != "html":
        raise click.UsageError(f"--title cannot be combined with --format {form}", context)
    files = files or (_STDIN,)
    job = ExportJob(files, form, source, target, title, wanted)
    lost = _write(job, output, strict)
    if strict and lost:
        print_note(files[0], f"refused (--strict): {count_noun(lost, 'loss', 'losses')}")
        context.exit(LOST)


def _form_of(output: Path | None) -> str:
    if output is None:
        return "markdown"
    if (form := ENDINGS.get(output.suffix.lower())) is None:
        raise click.UsageError(
            f"{visible(output.name)} has no known extension ({', '.join(ENDINGS)}): rename it or use --format"
        )
    return form


def _source_name(files: Sequence[Path]) -> str:
    return "" if files[0] == _STDIN else files[0].name.removesuffix(PARTIAL_SUFFIX).removesuffix(SUFFIX)


def _write(job: ExportJob, output: Path | None, strict: bool) -> int:
    """Write the conversation to its output; returns the number of losses. In strict mode, losses leave nothing
    written."""
    ledger = ReceiptPrinter()
    if output is None:
        _to_stream(job, sys.stdout.buffer, strict, ledger)
    else:
        check_output(output, _sources(job))
        try:
            with open_output(output, 0o600 | _mode(job)) as file:
                if is_replaced(output):
                    _fill(job, file, ledger)
                else:
                    _to_stream(job, file, strict, ledger)
                if strict and ledger.losses:
                    raise _LossesError
        except _LossesError:
            pass
        except OSError as error:
            exit_unreadable(output, error.strerror or str(error))
    ledger.close()
    return ledger.losses


class _LossesError(Exception):
    """The output has losses and must not be written."""


def _to_stream(job: ExportJob, out: IO[bytes], strict: bool, ledger: ReceiptPrinter) -> None:
    """Write to a target that keeps partial output (a pipe, for example)."""
    if not strict:
        _fill(job, out, ledger)
        return
    with SpooledTemporaryFile(max_size=MAX_HELD_BYTES) as held:
        _fill(job, held, ledger)
        held.seek(0)
        while not ledger.losses and (chunk := held.read(CHUNK_BYTES)):
            out.write(chunk)


def _mode(job: ExportJob) -> int:
    """Return the mode of the output: as for any new file, but readable only for those who may read its sources."""
    mode = 0o666 & ~_umask()
    for file in _sources(job):
        if file.is_file():  # the mode of a pipe tells nothing
            mode &= file.stat().st_mode
    return mode


def _umask() -> int:
    """Return the process's umask. The system reports it only when it is set."""
    os.umask(mask := os.umask(0o077))
    return mask


def _fill(job: ExportJob, file: IO[bytes], ledger: ReceiptPrinter) -> None:
    try:
        conversation = _read(job)
        for line in conversation.lines:
            ledger.tell(line)
        for piece in _render(job, conversation, ledger):
            file.write(piece)
        file.flush()
    except MissingExtraError as error:
        raise click.UsageError(str(error)) from None
    except ToolglotError as error:
        exit_unreadable(
            job.files[0], str(error).removeprefix("$: ")
        )  # the document as a whole, which the file's name says


def _render(job: ExportJob, conversation: SourceConversation, ledger: ReceiptPrinter) -> Iterator[bytes]:
    dialect = conversation.dialect
    if job.format == "jsonl":
        return write_jsonl(conversation.messages, dialect, job.target or dialect, ledger.tell)
    if job.format == "html":
        messages = watch_losses(conversation.messages, dialect, ledger.tell, left_out=_not_in_html)
        page = render_html(messages, job.title, source=_source_name(job.files))
    else:
        page = render_markdown(watch_losses(conversation.messages, dialect, ledger.tell, left_out=_not_in_markdown))
    return (piece.encode("utf-8", "backslashreplace") for piece in page)


def _not_in_markdown(media: Media) -> str | None:
    return (
        "Markdown mentions it without embedding it; --format html shows images"
        if media.source.kind == "base64"
        else None
    )


def _not_in_html(media: Media) -> str | None:
    is_held = media.source.kind != "base64" or can_show_image(media)
    return None if is_held else "the page mentions it without embedding it; it can embed PNG, JPEG, GIF and WebP"


def _read(job: ExportJob) -> SourceConversation:
    if len(job.files) == 1 and not job.files[0].is_dir():
        if job.wanted is not None:
            raise click.UsageError("--conversation applies only to several files or a directory")
        return read_conversation(read_chunks(job.files[0]), job.source)
    if job.source is not None:
        raise click.UsageError("--from does not apply here: a recorded exchange states its dialect")
    found = {_display_name(file, given): file for given in job.files for file in _recordings_in(given)}
    if not found:
        exit_unreadable(job.files[0], f"it contains no recorded exchange (*{SUFFIX})")
    wanted = job.wanted if job.wanted is None else _recording_of(job.wanted, found)
    damaged: set[Path] = set()

    def read(name: str | None) -> SourceConversation:
        with Progress("reading", len(found)) as progress:
            return read_recordings(_each(found, job.files, damaged, progress), name)

    conversation = read(wanted)
    if job.wanted is not None and wanted is None:
        name = _pick_by_number(int(job.wanted), conversation)
        conversation = conversation if name == conversation.name else read(name)
    _print_chosen(job, conversation)
    return conversation


def _sources(job: ExportJob) -> Iterator[Path]:
    return (file for given in job.files for file in _recordings_in(given))


def _display_name(file: Path, given: Path) -> str:
    return str(file.relative_to(given)) if file != given else str(file)


def _recording_of(wanted: str, found: Mapping[str, Path]) -> str | None:
    """Return the requested recording; None if its conversation is given by a number."""
    if wanted in found:
        return wanted
    if wanted.isascii() and wanted.isdigit():
        return None
    path = Path(wanted)
    meant = [name for name, file in found.items() if file == path or (len(path.parts) == 1 and file.name == wanted)]
    if len(meant) != 1:
        why = (
            "several of the recordings have this name" if meant else "it is neither one of the recordings nor a number"
        )
        raise click.BadParameter(f"{visible(wanted)}: {why}", param_hint="--conversation")
    return meant[0]


def _pick_by_number(number: int, conversation: SourceConversation) -> str:
    if not 1 <= number <= len(conversation.all):
        told = count_noun(len(conversation.all), "conversation")
        raise click.BadParameter(
            f"{number} does not exist: there {_conversation_title(conversation)} {told}", param_hint="--conversation"
        )
    return conversation.all[number - 1]


def _conversation_title(conversation: SourceConversation) -> str:
    return "is" if len(conversation.all) == 1 else "are"


def _print_chosen(job: ExportJob, conversation: SourceConversation) -> None:
    """Print which of several conversations is written, and how to get the others."""
    if len(conversation.all) < 2 and conversation.name in conversation.all:
        return
    told = count_noun(len(conversation.all), "conversation")
    what = f"{told} found; writing the one that ends with {conversation.name}. Use --conversation N for another:"
    print_note(job.files[0], what)
    others = [(number, name) for number, name in enumerate(conversation.all, 1) if name != conversation.name]
    for number, name in others[:MAX_LISTED]:
        lead = f"  {number}  "
        click.echo(f"{lead}{visible(name)}", err=True)
        about = cut(_about(conversation.about[name]), get_terminal_size().columns - len(lead))
        click.echo(f"{' ' * len(lead)}{about}", err=True)
    if len(others) > MAX_LISTED:
        click.echo(f"  … and {count_noun(len(others) - MAX_LISTED, 'other')}", err=True)


def _about(about: ConversationSummary) -> str:
    size = count_noun(about.messages, "message")
    return visible(f"{', '.join(filter(None, (about.model, size)))}: {about.begins}")


def _recordings_in(given: Path) -> list[Path]:
    if not given.is_dir():
        return [given]
    endings = (SUFFIX, SUFFIX + PARTIAL_SUFFIX)
    return sorted(file for file in given.rglob(f"*{SUFFIX}*") if file.name.endswith(endings) and file.is_file())


def _each(
    files: Mapping[str, Path], given: Sequence[Path], damaged: set[Path], progress: Progress
) -> Iterator[tuple[str, Recording]]:
    """Yield the recordings in chronological order, one at a time in memory. Damaged ones in a folder are skipped and
    reported once, because a killed process or a full disk may leave some.
    """
    for name, file in sorted(files.items(), key=lambda named: _time_of(named[1])):
        progress.step(name)
        try:
            yield name, read_file(file)
        except OSError as error:
            exit_unreadable(file, error.strerror or str(error))
        except DecodeError as error:
            if file in given:
                exit_unreadable(file, f"several files must all be recorded exchanges; this one is not: {error}")
            if file not in damaged:
                damaged.add(file)
                with progress.hidden():
                    print_note(file, f"skipped: not a recorded exchange: {error}")


def _time_of(file: Path) -> str:
    try:
        with file.open("rb") as lines:
            head = decoder.decode(lines.readline(MAX_HEAD_BYTES))
    except OSError as error:
        exit_unreadable(file, error.strerror or str(error))
    except (ValueError, DecodeError):  # reported when the file is read
        return ""
    return head.time if isinstance(head, RecordingHead) else ""
