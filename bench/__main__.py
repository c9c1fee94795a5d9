"""`python -m bench`: this gateway beside others, with nginx as the limit.

Everything that is needed is compiled or installed into `bench/.cache` the first time. `python -m bench.core` measures
the core alone.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.captures import captured
from bench.gateway.cases import FULL, QUICK, Case, agent_cases, matching
from bench.gateway.native import NoCompilerError
from bench.gateway.peers import PEERS
from bench.gateway.peers import QUICK as QUICK_PEERS
from bench.gateway.peers.toolglot import base
from bench.gateway.processes import need_taskset, obey_interruptions
from bench.gateway.report import tables, write_report
from bench.gateway.results import Results
from bench.gateway.running import Effort
from bench.gateway.session import Session, Wishes
from bench.gateway.standing import Plan
from bench.gateway.tables import as_text
from bench.gateway.targets import OURS
from toolglot.cli.progress import Progress

HERE = Path(__file__).parent
CACHE = HERE / ".cache"
PART = CACHE / "part"
"""For what is not the whole run, or not yet."""

THOUSAND = Plan(streams=1000, pace=100, ramp=2.0, seconds=4.0)
TEN_THOUSAND = Plan(streams=10_000, pace=2000, ramp=6.0, seconds=5.0)
MEMORY = "memory"
"""What `--cases` calls the start, the memory and the slow streams."""


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure this gateway beside others.")
    parser.add_argument("--quick", action="store_true", help="under five minutes: this gateway and nginx alone")
    parser.add_argument("--only", metavar="NAME,...", type=_names, help=f"gateways: {', '.join(PEERS)}")
    parser.add_argument(
        "--cases", metavar="TEXT,...", type=_names, help="cases with one of these in their names, and `memory`"
    )
    parser.add_argument("--base", metavar="REVISION", help="another version of this gateway beside it, from git")
    parser.add_argument(
        "--agents",
        metavar=("FOLDER", "NAME"),
        nargs="+",
        help="captured requests of real agents as well: those in the folder whose names begin so",
    )
    parser.add_argument("--repeat", type=int, help="how often each case is measured; the median counts")
    parser.add_argument("--seconds", type=float, help="how long each case is measured")
    parser.add_argument("--output", type=Path, help="the folder for RESULTS.md, results.json and results.svg")
    parser.add_argument("--list", action="store_true", help="print the names of the cases, and end")
    return parser.parse_args(arguments)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def agents(chosen: argparse.Namespace) -> tuple[Case, ...]:
    if not chosen.agents:
        return ()
    folder, *names = chosen.agents
    found = agent_cases(captured(Path(folder), names))
    if not found:
        raise SystemExit(f"there is no such captured request in {folder}")
    return found


def wishes(chosen: argparse.Namespace) -> Wishes:
    names = chosen.only or (QUICK_PEERS if chosen.quick else tuple(PEERS))
    if unknown := [name for name in names if name not in PEERS]:
        raise SystemExit(f"there is no gateway {unknown[0]!r}: {', '.join(PEERS)}")
    peers = [PEERS[name] for name in names]
    if chosen.base:
        ours = names.index(OURS) if OURS in names else 0
        peers.insert(ours, base(chosen.base))
    patterns = tuple(name for name in chosen.cases or () if name != MEMORY)
    # Cases that only the full run has can be asked for by name in the quick one as well.
    cases = matching((QUICK if chosen.quick and not patterns else FULL) + agents(chosen), patterns)
    with_memory = not chosen.cases or MEMORY in chosen.cases
    seconds = chosen.seconds or (0.6 if chosen.quick else 2.0)
    return Wishes(
        peers=peers,
        cases=() if chosen.cases and not patterns else cases,
        repeat=chosen.repeat or (2 if chosen.quick else 3),
        effort=Effort(seconds, warm_up=0.2 if chosen.quick else 0.7, longest=max(15.0, seconds)),
        plans=[THOUSAND] if chosen.quick else [THOUSAND, TEN_THOUSAND],
        starts=(2 if chosen.quick else 5) if with_memory else 0,
    )


def output(chosen: argparse.Namespace) -> Path:
    """What is not the whole run does not overwrite its results."""
    if chosen.output:
        return Path(chosen.output)
    if chosen.quick or chosen.only or chosen.cases:
        return PART
    return HERE


def main(arguments: Sequence[str] | None = None) -> None:
    chosen = options(arguments)
    if chosen.list:
        print(*(case.name for case in FULL + agents(chosen)), sep="\n")
        return
    need_taskset()
    obey_interruptions()
    command = shlex.join(["python", "-m", "bench", *(sys.argv[1:] if arguments is None else arguments)])

    def keep(results: Results, folder: Path = PART) -> None:
        results.settings = {"command": command, **results.settings}
        write_report(results, folder)

    progress = Progress("measuring")

    def tell(line: str) -> None:
        with progress.hidden():
            _tell(line)
        progress.step(line.strip())

    with progress, tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        session = Session(wishes(chosen), CACHE.absolute(), Path(folder), tell, keep)
        # What watches the gateways must not take their core.
        os.sched_setaffinity(0, {*session.cores.upstream, *session.cores.load})
        tell(f"what is known so far is written to {PART}")
        try:
            results = session.run()
        except NoCompilerError as problem:
            raise SystemExit(str(problem)) from None
        except KeyboardInterrupt:
            raise SystemExit("interrupted: everything that was started has been ended") from None
    keep(results, output(chosen))
    for table in tables(results):
        print(as_text(table))
    print(f"written to {output(chosen)}")


def _tell(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    main()
