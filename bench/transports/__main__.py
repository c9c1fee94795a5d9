"""`python -m bench.transports`: what a request costs on each way over the network, in the whole gateway.

The gateway is started once for each transport, on one core, and measured in turns, by the same upstream and the same
clients. All but the express lane take the general way, so that the transport is what differs. It takes three minutes.
With `--conformance` each transport has to pass the suite of `tests/upstream/conformance` instead, all of it alike.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.gateway.installing import InstallError
from bench.gateway.native import NoCompilerError
from bench.gateway.processes import need_taskset
from bench.gateway.results import Results
from bench.gateway.running import Effort
from bench.gateway.session import Session, Wishes
from bench.gateway.tables import as_text
from bench.transports import conformance
from bench.transports.candidates import CANDIDATES
from bench.transports.figures import CASES, STREAMS, table

HERE = Path(__file__).parent.parent
CACHE = HERE / ".cache"

THOROUGH = Effort(1.5, warm_up=0.4, longest=10.0)
QUICK = Effort(0.5, warm_up=0.2, longest=5.0)


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.transports", description=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("--conformance", action="store_true", help="run the conformance suite for each, and end")
    parser.add_argument("--quick", action="store_true", help="in one minute")
    parser.add_argument("--only", metavar="NAME,...", help=f"some of {', '.join(CANDIDATES)}")
    parser.add_argument("--repeat", type=int, help="how often each case is measured; the median counts")
    parser.add_argument("--output", type=Path, help="the file for the numbers")
    return parser.parse_args(arguments)


def names(chosen: argparse.Namespace) -> list[str]:
    wanted = [name.strip() for name in chosen.only.split(",")] if chosen.only else list(CANDIDATES)
    if unknown := [name for name in wanted if name not in CANDIDATES]:
        raise SystemExit(f"there is no transport {unknown[0]!r}: {', '.join(CANDIDATES)}")
    return wanted


def wishes(chosen: argparse.Namespace) -> Wishes:
    return Wishes(
        peers=[CANDIDATES[name] for name in names(chosen)],
        cases=CASES,
        repeat=chosen.repeat or (1 if chosen.quick else 3),
        effort=QUICK if chosen.quick else THOROUGH,
        plans=[STREAMS],
        starts=1,
    )


def output(chosen: argparse.Namespace) -> Path:
    """What is not the whole run does not overwrite its results."""
    if chosen.output:
        return Path(chosen.output)
    return (CACHE / "part" if chosen.quick or chosen.only else HERE) / "transports.json"


def measured(chosen: argparse.Namespace) -> Results:
    need_taskset()
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        session = Session(wishes(chosen), CACHE.absolute(), Path(folder), _tell, lambda results: None)
        # What watches the gateways must not take their core.
        os.sched_setaffinity(0, {*session.cores.upstream, *session.cores.load})
        return session.run()


def _tell(line: str) -> None:
    print(line, file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> None:
    chosen = options(arguments)
    try:
        if chosen.conformance:
            raise SystemExit(conformance.told(names(chosen), CACHE.absolute()))
        results = measured(chosen)
    except (NoCompilerError, InstallError) as problem:
        raise SystemExit(str(problem)) from None
    command = shlex.join(["python", "-m", "bench.transports", *(sys.argv[1:] if arguments is None else arguments)])
    results.settings = {"command": command, **results.settings}
    path = output(chosen)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
    faults = [
        f"{about.title}: {fault}" for about in results.gateways for fault in (*about.faults, about.trouble) if fault
    ]
    print(as_text(table(results)), *faults, f"written to {path}", sep="\n")


if __name__ == "__main__":
    main()
