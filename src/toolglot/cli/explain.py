"""`toolglot explain`: show both sides of a recorded exchange and their translation, in chronological order."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from shutil import get_terminal_size

import click
from msgspec.structs import replace

from toolglot.cli.diagnosis import BYTE_ORDER_MARK, is_stream, not_this_stream
from toolglot.cli.output import check_output, open_output
from toolglot.cli.parameters import CHUNK_BYTES, exit_unreadable, known_dialect, read_chunks
from toolglot.cli.replay import quietly
from toolglot.dialects import DIALECTS
from toolglot.errors import DecodeError, MissingExtraError, ToolglotError
from toolglot.json_forms import JSON_FORMS
from toolglot.recordings.comparison import Comparison
from toolglot.recordings.format import (
    RecordedClientRequest,
    RecordingHead,
    UpstreamData,
    UpstreamEnd,
    UpstreamRequest,
    UpstreamResponse,
    body_members,
)
from toolglot.recordings.read import Attempt, Recording, read_recording
from toolglot.recordings.rerun.run import NotRerunError, rerun
from toolglot.recordings.timeline import Timeline, TimelineRow, make_timeline
from toolglot.recordings.timeline_html import render_html
from toolglot.recordings.timeline_text import TextStyle, render_lines

_FIRST = re.compile(rb"\s*\{[^{}\n]{0,4096}\"type\":\s?\"exchange\"")
"""The beginning of a recording."""
_RANGE = re.compile(r"(\d*)(\.\.)?(\d*)")


def _dialect(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    return None if value is None else known_dialect(value, tuple(DIALECTS))


def _frames(context: click.Context, option: click.Parameter, value: str | None) -> range | None:
    if value is None:
        return None
    found = _RANGE.fullmatch(value)
    if found is None or not (found[1] or found[3]):
        raise click.BadParameter(f"{value!r} is not a range of frames: use N, N..M, N.. or ..M")
    first = int(found[1] or 1)
    last = int(found[3]) if found[3] else sys.maxsize if found[2] else first
    if last < first:
        raise click.BadParameter(f"{value!r} is an empty range: the last frame comes before the first")
    return range(first, min(last + 1, sys.maxsize))


@click.command(short_help="Show both sides of a recorded exchange.")
@click.option("--frames", metavar="N..M", callback=_frames, help="Show only these rows.")
@click.option("--full", is_flag=True, help="Show frames and requests in full instead of truncating them to the column.")
@click.option(
    "--html",
    metavar="OUT",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="Write an HTML page to this file.",
)
@click.option(
    "--from", "source", metavar="DIALECT", callback=_dialect, help="Read FILE as a plain stream in this dialect."
)
@click.option(
    "--to",
    "target",
    metavar="DIALECT",
    callback=_dialect,
    help="With --from: dialect of the client that receives the stream.",
)
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True), default="-", required=False)
@click.pass_context
def explain(
    context: click.Context,
    file: Path,
    frames: range | None,
    full: bool,
    html: Path | None,
    source: str | None,
    target: str | None,
) -> None:
    """Show both sides of the recorded exchange in FILE, or standard input: what the upstream sent, the internal events
    and what the client received, in chronological order. Each receipt line is shown where it was produced.

    \b
    toolglot explain 20260102T030405.exchange.jsonl
    toolglot explain answer.sse --from openai_chat --to anthropic

    Exit status: 0 success, 2 invalid file or option.
    """
    if (source is None) != (target is None):
        raise click.UsageError("a plain stream needs both --from and --to; a recording needs neither", context)
    if html is not None and (full or frames is not None):
        raise click.UsageError("--full and --frames do not apply to --html: the page contains everything", context)
    if file.is_dir():
        exit_unreadable(file, "this is a directory: explain takes a single file")
    if html is not None and str(html) != "-":
        check_output(html, (file,))
    data = _data_of(file, as_recording=source is None)
    try:
        timeline = _of_recording(file, data) if source is None else _of_stream(file, data, source, target or source)
    except MissingExtraError as error:
        raise click.UsageError(str(error)) from None
    except ToolglotError as error:
        exit_unreadable(file, str(error))
    if html is not None:
        _write_page(timeline, html)
        return
    rows = sum(isinstance(entry, TimelineRow) for entry in timeline.entries)
    if frames is not None and frames.start > rows:
        exit_unreadable(file, f"frame {frames.start} does not exist: there are {rows} frames")
    style = TextStyle(get_terminal_size().columns, full=full, colour=_has_colours(), frames=frames)
    for line in render_lines(timeline, style):
        click.echo(line)


def _data_of(file: Path, *, as_recording: bool) -> bytes:
    """Return the file's bytes; only the beginning if it is not a recording."""
    arriving = read_chunks(file)
    first = next(arriving, b"")
    enough = len(first) == CHUNK_BYTES and as_recording
    return first if enough and not _FIRST.match(first) else b"".join((first, *arriving))


def _has_colours() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _of_recording(file: Path, data: bytes) -> Timeline:
    head = data.removeprefix(BYTE_ORDER_MARK)
    if not head.strip():
        exit_unreadable(file, "it is empty")
    if is_stream(head):
        exit_unreadable(
            file, "this is a plain stream, not a recorded exchange: give its dialect (--from) and the client's (--to)"
        )
    try:
        recording = read_recording(head)
    except DecodeError as error:
        begins = _FIRST.match(head) is not None
        exit_unreadable(
            file, str(error) if begins else "this is not a recorded exchange; a plain stream needs --from and --to"
        )
    return make_timeline(recording, replayed=_replay_recording(recording))


def _replay_recording(recording: Recording) -> Comparison | str:
    """Return the result of `toolglot replay`, so that both commands agree."""
    try:
        with quietly():
            return asyncio.run(rerun(recording)).comparison
    except (DecodeError, NotRerunError) as error:
        return str(error)


def _of_stream(file: Path, data: bytes, source: str, target: str) -> Timeline:
    head = data.removeprefix(BYTE_ORDER_MARK)
    if why := not_this_stream(head, source) if source not in JSON_FORMS else None:
        exit_unreadable(file, why)
    asked = UpstreamRequest(upstream=file.name, dialect=source, stream=True)
    answer, end = UpstreamResponse(), UpstreamEnd()
    piece = replace(UpstreamData(), **body_members(head))
    attempt = Attempt(request=asked, response=answer, pieces=[piece], end=end)
    recording = Recording(
        head=RecordingHead(id=file.name, client=target, stream=True),
        request=RecordedClientRequest(),
        attempts=[attempt],
        lines=[asked, answer, piece, end],
    )
    return make_timeline(recording, recorded=False)


def _write_page(timeline: Timeline, html: Path) -> None:
    page = (piece.encode("utf-8", "backslashreplace") for piece in render_html(timeline))
    if str(html) == "-":
        for piece in page:
            sys.stdout.buffer.write(piece)
        return
    try:
        with open_output(html, 0o600) as out:  # as private as the recording
            out.writelines(page)
    except OSError as error:
        exit_unreadable(html, error.strerror or str(error))
