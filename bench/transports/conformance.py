"""The conformance suite of the transports, run for each of them: every one is held to all of it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from bench.gateway.installing import install
from bench.gateway.tables import Table, as_text
from bench.transports.candidates import CANDIDATES, ROOT, search_path
from bench.transports.differences import DIFFERENCES

SUITE = "tests/upstream/conformance"
WAYS = {
    "lean": "bench.transports.ways:LEAN",
    "aiohttp": "bench.transports.ways:AIOHTTP",
    "pyreqwest": "bench.transports.pyreqwest_way:PYREQWEST",
}
"""As the suite finds them. The express lane is no transport of its own."""
RAN = (0, 1)
"""What pytest ends with when all tests were run, whatever became of them."""
UNKNOWN = "not known yet"
BROKEN = ("failure", "error", "skipped")


class Verdict(NamedTuple):
    """Of one transport: its cases, each by its name without that of the transport."""

    name: str
    passed: frozenset[str]
    failed: Mapping[str, str]
    """With what pytest says of each."""

    @property
    def unknown(self) -> list[str]:
        """Those that fail without a reason that is written down."""
        known = {case for cases in DIFFERENCES[self.name].values() for case in cases}
        return sorted(self.failed.keys() - known)

    def reasons(self) -> Iterator[tuple[str, int]]:
        """Why cases fail, and how many."""
        for reason, cases in (*DIFFERENCES[self.name].items(), (UNKNOWN, self.unknown)):
            if failing := self.failed.keys() & cases:
                yield reason, len(failing)


def verdict(name: str, report: bytes) -> Verdict:
    """What a report of pytest in the form of JUnit says."""
    passed: set[str] = set()
    failed: dict[str, str] = {}
    for case in ElementTree.fromstring(report).iter("testcase"):
        called = case.get("name", "").replace(f"[{name}-", "[").removesuffix(f"[{name}]")
        broken = next((found for kind in BROKEN if (found := case.find(kind)) is not None), None)
        if broken is None:
            passed.add(called)
        else:
            failed[called] = broken.get("message", "").partition("\n")[0]
    return Verdict(name, frozenset(passed), failed)


def run(name: str, cache: Path) -> Verdict:
    installed = install(CANDIDATES[name], cache)
    environment: Mapping[str, str] = {
        **os.environ,
        "PYTHONPATH": search_path(installed.home),
        "TOOLGLOT_TEST_WAY": WAYS[name],
    }
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", SUITE, "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        if done.returncode not in RAN:
            raise SystemExit(f"{name}: the suite could not be run: {(done.stderr or done.stdout).strip()[-600:]}")
        return verdict(name, report.read_bytes())


def tables(verdicts: Sequence[Verdict]) -> list[Table]:
    counts = [
        (each.name, str(len(each.passed) + len(each.failed)), str(len(each.passed)), str(len(each.failed)))
        for each in verdicts
    ]
    found = [Table("Conformance", ("", "cases", "passed", "failed"), counts)]
    for each in verdicts:
        rows = [(str(count), reason) for reason, count in each.reasons()]
        if rows:
            found.append(Table(f"What {each.name} does not pass", ("cases", "why"), rows, words=True))
    return found


def told(names: Sequence[str], cache: Path) -> int:
    """Prints what each passes; gives how many cases fail that are not known to."""
    verdicts = []
    for name in names:
        if name in WAYS:
            print(f"{name}: {SUITE}", file=sys.stderr)
            verdicts.append(run(name, cache))
    for table in tables(verdicts):
        print(as_text(table))
    unknown = [f"{each.name}: {case}: {each.failed[case]}" for each in verdicts for case in each.unknown]
    for line in unknown:
        print(line)
    return len(unknown)
