"""`toolglot replay`: rerun recorded exchanges with the current code and show the differences."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from toolglot.cli.parameters import UNREADABLE, count_noun, known_dialect
from toolglot.cli.progress import Progress
from toolglot.dialects import DIALECTS, find
from toolglot.errors import DecodeError, MissingExtraError
from toolglot.lint.report import visible
from toolglot.recordings.differences import Difference
from toolglot.recordings.format import PARTIAL_SUFFIX, SUFFIX
from toolglot.recordings.read import Recording, read_file, read_open
from toolglot.recordings.rerun.run import NothingToRerunError, NotRerunError, Rerun, rerun
from toolglot.wire import json

DIFFERENT = 1
"""Exit status: something differs, or it is unknown because the end is missing."""
RESULTS = ("same", "different", "incomplete", "refused", "unreadable")
FINE = frozenset({"same", "refused"})
_STDIN = Path("-")

MAX_SHOWN = 20
"""Maximum differences of one part to show; `--json` has them all."""


def _dialect(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    try:
        return find(known_dialect(value, tuple(DIALECTS))).name
    except MissingExtraError as error:
        raise click.UsageError(str(error), context) from None


@click.command(short_help="Rerun recorded exchanges with the current code and compare.")
@click.argument("files", metavar="FILE...", type=click.Path(path_type=Path, allow_dash=True), nargs=-1, required=True)
@click.option(
    "--client",
    metavar="DIALECT",
    callback=_dialect,
    help="Replay as a client of this dialect. Default: the recorded dialect.",
)
@click.option("--differences", is_flag=True, help="Show the differences for several files, too.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON per file and one for the total.")
@click.option("--show-body", is_flag=True, help="Also show the body that the client gets now.")
@click.pass_context
def replay(
    context: click.Context,
    files: tuple[Path, ...],
    client: str | None,
    differences: bool,
    as_json: bool,
    show_body: bool,
) -> None:
    """Rerun the recorded exchanges in FILEs with the current code and show the differences. A FILE can be a directory,
    or - for standard input.

    \b
    toolglot replay recordings/20261115T120000.000000Z-req_1.exchange.jsonl
    toolglot replay recordings --json

    No upstream is contacted: the recorded bytes are its answer. The command compares the upstream requests, the
    client's events and the receipt. With --client, it compares the content of the answer that a client of that dialect
    would get, and checks it against the dialect's rules; the upstream requests may differ.

    Exit status: 0 no differences, 1 differences, or a recording without its end, 2 a recording cannot be read or
    replayed. A request that the gateway rejected before it contacted an upstream has nothing to replay: it is reported
    and does not count as a failure.
    """
    found = [each for file in files for each in _find_files(context, file)]
    several = len(files) > 1 or files[0].is_dir()
    results: Counter[str] = Counter()
    with Progress("replaying", len(found)) as progress:
        for each in found:
            progress.step(each.name)
            with quietly():
                told = _replay_file(each, client, show_body)
            results[told["result"]] += 1
            is_brief = several and not differences
            with progress.hidden():
                for line in [json.encode_text(_as_json(told))] if as_json else _lines(told, brief=is_brief):
                    click.echo(line)
    if several:
        summary = {name: results[name] for name in RESULTS}
        click.echo(json.encode_text({"summary": summary}) if as_json else _summary(summary))
        if summary["different"] and not differences and not as_json:
            click.echo("use --differences, or replay a single file, to see the differences")
    context.exit(UNREADABLE if results["unreadable"] else 0 if results.keys() <= FINE else DIFFERENT)


def _find_files(context: click.Context, file: Path) -> list[Path]:
    """Return the file, or those in a folder, including unfinished ones."""
    if not file.is_dir():
        return [file]
    named = [each for each in file.rglob(f"*{SUFFIX}*") if each.name.endswith((SUFFIX, SUFFIX + PARTIAL_SUFFIX))]
    inside = [each for each in named if each.is_file()]
    for each in sorted({*named} - {*inside}):  # a pipe or a device could be read for ever
        click.echo(f"toolglot: {visible(str(each))}: skipped: not a file", err=True)
    if not inside:
        click.echo(f"toolglot: {visible(str(file))}: it contains no recording", err=True)
        context.exit(UNREADABLE)
    return sorted(inside)


@contextmanager
def quietly() -> Iterator[None]:
    """Silence the gateway's log: the failures of a recorded upstream are expected."""
    log = logging.getLogger("toolglot")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


def _summary(summary: dict[str, int]) -> str:
    files = count_noun(sum(summary.values()), "recording")
    cut = f", {summary['incomplete']} without an end" if summary["incomplete"] else ""
    refused = f", {summary['refused']} with nothing to replay" if summary["refused"] else ""
    compared = f"{summary['same']} the same, {summary['different']} different{cut}{refused}"
    return f"{files}: {compared}, {summary['unreadable']} not run"


def _replay_file(file: Path, client: str | None, show_body: bool) -> dict[str, Any]:
    """Return the report on one file. `rerun` is included if it could be run."""
    told: dict[str, Any] = {"file": str(file)}
    try:
        recording = read_open(sys.stdin.buffer) if file == _STDIN else read_file(file)
        made = asyncio.run(rerun(recording, client))
    except OSError as error:
        return {**told, "result": "unreadable", "why": error.strerror or str(error)}
    except NothingToRerunError as error:
        return {**told, "result": "refused", "why": str(error)}
    except (DecodeError, NotRerunError, MissingExtraError) as error:
        return {**told, "result": "unreadable", "why": str(error).removeprefix("$: ")}
    result = "different" if made.comparison.differs else "same" if recording.whole else "incomplete"
    told |= {"result": result, "client": made.outcome.client}
    told |= {} if recording.missing is None else {"missing": recording.missing}
    told |= {"recording": recording, "rerun": made}
    if show_body:
        told["body"] = made.outcome.body.decode("utf-8", "backslashreplace")
    return told


def _as_json(told: dict[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in told.items() if name not in ("recording", "rerun", "body")}
    if (made := told.get("rerun")) is not None:
        plain |= made.comparison.to_json()
    return plain | ({"body": told["body"]} if "body" in told else {})


def _lines(told: dict[str, Any], *, brief: bool) -> Iterator[str]:
    name = "<stdin>" if told["file"] == str(_STDIN) else visible(told["file"])
    made: Rerun | None = told.get("rerun")
    if told["result"] == "refused":
        yield f"{name}: {told['why']}"
        return
    if made is None:
        click.echo(f"toolglot: {name}: {visible(told['why'])}", err=True)
        return
    missing = f"; the recording has no end: {visible(told['missing'])}" if "missing" in told else ""
    if not made.comparison.differs:
        yield f"{name}: the recorded part is the same{missing}" if missing else f"{name}: the same"
    else:
        yield f"{name}: {_summarize_differences(made)}{missing}"
        if not brief:
            yield from _parts(told["recording"], made)
    if "body" in told:
        yield told["body"] if not sys.stdout.isatty() else _safe(told["body"])


def _safe(body: str) -> str:
    return "\n".join(map(visible, body.split("\n")))


def _summarize_differences(made: Rerun) -> str:
    """Summarize how much differs, and where the first difference is."""
    comparison = made.comparison
    numbers = {
        "the upstream requests": sum(map(len, comparison.requests)),
        "the answer": len(comparison.answer),
        "the receipt": len(comparison.receipt),
    }
    parts = [f"{count_noun(number, 'difference')} in {where}" for where, number in numbers.items() if number]
    if comparison.breaches:
        parts.append(count_noun(len(comparison.breaches), "breach", "breaches"))
    return ", ".join(parts)


def _parts(recording: Recording, made: Rerun) -> Iterator[str]:
    for number, differences in enumerate(made.comparison.requests):
        if differences:
            asked = recording.attempts[number].request if number < len(recording.attempts) else None
            of = "" if asked is None else f" ({visible(asked.upstream)}, {asked.dialect})"
            yield f"  request {number + 1}{of}"
            yield from _differences(differences)
    for title, differences in (("answer", made.comparison.answer), ("receipt", made.comparison.receipt)):
        if differences:
            yield f"  {title}"
            yield from _differences(differences)
    if made.comparison.breaches:
        yield f"  rules of {made.outcome.client}"
        yield from (f"    {breach}" for breach in made.comparison.breaches[:MAX_SHOWN])


def _differences(differences: list[Difference]) -> Iterator[str]:
    yield from (f"    {difference}" for difference in differences[:MAX_SHOWN])
    if len(differences) > MAX_SHOWN:
        yield f"    and {len(differences) - MAX_SHOWN} more"
