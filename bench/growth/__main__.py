"""`python -m bench.growth`: large requests and long streams through a real gateway, while others stream through it.

For each kind of work it prints the time, the gateway's processor time, how much more that is than for half of it, how
long the gateway's loop was held up, and the longest gap between chunks of the other streams, which have one every ten
milliseconds. It takes about half a minute.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.gateway.answers import CHUNK_END, write_answers
from bench.gateway.native import Tools
from bench.gateway.processes import Process, cores, free_port, wait_until_ready
from bench.gateway.usage import seconds_between, snapshot
from bench.growth.bodies import CASES, EVENTS, MEGABYTE, STREAMS, Case, large_call, long_answer
from bench.growth.others import END, Others, others, post
from bench.growth.serve import HELD_UP, HeldUp

CACHE = Path(__file__).parent.parent / ".cache"
PIECE = 64 * 1024
OTHERS = 16
QUIET = 1.0
"""Seconds in which nothing happens, or only the other streams."""
SETTLED = 0.1
"""Seconds after a request, since what is tidied up afterwards counts too."""

_CONFIG = """\
discover = false

[server]
port = {port}

[limits]
body = 67108864

[store]
path = "store.sqlite3"

[log]
level = "error"
"""
_UPSTREAM = """
[upstreams.{name}]
dialect = "openai_chat"
base_url = "http://127.0.0.1:{port}/v1"
models = ["{models}"]
"""


class Used(NamedTuple):
    """What one request took, in seconds."""

    time: float
    held_up: float
    gap: float


class Bench:
    """A gateway with its upstreams."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack, self.cores = folder, stack, cores()
        self._program = Tools(CACHE.absolute() / "native", self.cores).folder / "upstream"
        places = {"paced": ("paced-*", self._upstream("paced")), "large": ("large", self._upstream("large"))}
        for chunks in STREAMS:
            places[f"chunks_{chunks}"] = (f"chunks-{chunks}", self._upstream(f"chunks_{chunks}", long_answer(chunks)))
        for size in EVENTS:
            places[f"event_{size}"] = (f"event-{size}", self._upstream(f"event_{size}", large_call(size)))
        self.port = free_port()
        sections = [_UPSTREAM.format(name=name, models=models, port=port) for name, (models, port) in places.items()]
        (folder / "toolglot.toml").write_text(_CONFIG.format(port=self.port) + "".join(sections))
        self.held_up = HeldUp(folder / "held_up")
        command = [sys.executable, "-m", "bench.growth.serve", "serve", "--config", str(folder / "toolglot.toml")]
        root = str(Path(__file__).parent.parent.parent)
        environment = {HELD_UP: str(folder / "held_up"), "PYTHONPATH": root}
        self.gateway = Process(command, self.cores.gateway, folder / "gateway.log", environment)
        stack.callback(self.gateway.stop)
        wait_until_ready(self.gateway, self.port, "/ready", 200, 20.0)
        self.idle = 0.0

    def _upstream(self, name: str, stream: Iterable[str] = ()) -> int:
        """Runs one, with a stream of its own, and gives its port. Large bodies must not hold up its others."""
        answers, log = self._folder / name, self._folder / f"{name}.log"
        write_answers(answers)
        pieces = [chunk.encode() + CHUNK_END for chunk in stream]
        if pieces:
            (answers / "openai_chat.stream").write_bytes(b"".join(pieces))
        process = Process([str(self._program), "0", str(answers)], self.cores.upstream, log)
        self._stack.callback(process.stop)
        end = time.monotonic() + 20.0
        while not process.told().isdigit():
            if time.monotonic() > end:
                raise SystemExit(f"the upstream does not start: {process.told()}")
            time.sleep(0.005)
        return int(process.told())

    def ask(self, case: Case, size: int) -> None:
        path, body = case.asked(size)
        with closing(socket.create_connection(("127.0.0.1", self.port))) as connection:
            if case.pause:
                head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nTransfer-Encoding: chunked\r\n\r\n"
                connection.sendall(head.encode())
                for start in range(0, len(body), PIECE):
                    piece = body[start : start + PIECE]
                    connection.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
                    time.sleep(case.pause)
                connection.sendall(END[2:])
            else:
                connection.sendall(post(path, body, self.port))
            status = _status(connection)
        if status not in case.statuses:
            raise SystemExit(f"{case.name}: status {status}; {self.gateway.told()}")

    def processor(self, case: Case, size: int) -> float:
        """Processor seconds that a request takes, with nothing beside it."""
        spent = []
        for _ in range(case.repeat):
            before, began = snapshot(self.gateway.session), time.perf_counter()
            self.ask(case, size)
            time.sleep(SETTLED)
            idle = (time.perf_counter() - began) * self.idle
            spent.append(seconds_between(before, snapshot(self.gateway.session)) - idle)
        return median(spent)

    def beside(self, case: Case, streams: Others) -> Used:
        """One request, and the streams meanwhile."""
        began = time.perf_counter()
        self.ask(case, case.whole)
        took = time.perf_counter() - began
        time.sleep(SETTLED)
        return Used(took, self.held_up.taken(), streams.gaps()[-1])

    def measure_idle(self) -> None:
        """The clock in the loop takes its time as well."""
        before = snapshot(self.gateway.session)
        time.sleep(QUIET)
        self.idle = seconds_between(before, snapshot(self.gateway.session)) / QUIET


def _status(connection: socket.socket) -> int:
    """That of the answer, once it has been read."""
    head = b""
    while b"\r\n\r\n" not in head:
        if not (piece := connection.recv(PIECE)):
            return 0
        head += piece
    head, _, rest = head.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    left, end = int(lengths[0][15:]) - len(rest) if lengths else None, rest[-len(END) :]
    while (left if left is not None else end != END) and (piece := connection.recv(PIECE)):
        left, end = None if left is None else left - len(piece), (end + piece)[-len(END) :]
    return int(head[9:12])


def rows(bench: Bench, stack: ExitStack, cases: Sequence[Case]) -> Iterator[str]:
    bench.measure_idle()
    spent = {case.name: [bench.processor(case, size) for size in (case.half, case.whole)] for case in cases}
    streams = stack.enter_context(others(bench.port, OTHERS))
    time.sleep(1.0)  # connections, the express lane
    streams.gaps(), bench.held_up.taken()
    time.sleep(QUIET)
    yield f"{'':32}{'size':>9}{'time':>9}{'CPU':>9}{'of half':>9}{'held up':>9}{'gap':>9}"
    row = "{:32}{:>9}{:>9}{:>9}{:>9}{:>6.0f} ms{:>6.0f} ms"
    yield row.format("nothing else", "", "", "", "", bench.held_up.taken() * 1e3, streams.gaps()[-1] * 1e3)
    for case in cases:
        half, whole = spent[case.name]
        found = [bench.beside(case, streams) for _ in range(case.repeat)]
        yield row.format(
            case.name,
            f"{len(case.asked(case.whole).body) / MEGABYTE:.1f} MB",
            f"{median(one.time for one in found) * 1e3:.0f} ms",
            f"{whole * 1e3:.0f} ms",
            f"{whole / half * case.half * 2 / case.whole:.1f}x",
            max(one.held_up for one in found) * 1e3,
            max(one.gap for one in found) * 1e3,
        )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("--only", metavar="TEXT", default="", help="the cases with this in their names")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, ExitStack() as stack:
        bench = Bench(Path(folder), stack)
        os.sched_setaffinity(0, {*bench.cores.upstream, *bench.cores.load})
        for line in rows(bench, stack, [case for case in CASES if chosen.only in case.name]):
            print(line, flush=True)


if __name__ == "__main__":
    main()
