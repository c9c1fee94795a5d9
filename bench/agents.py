"""`python -m bench.agents FOLDER [NAME …]`: what requests of real agents cost the core, pair by pair.

FOLDER holds captured requests (`bench/captures.py`). `NAME` takes those whose file name
begins so. Microseconds of processor time, the best of several runs: reading, passes, writing, and the whole.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench.captures import Captured, captured
from bench.core import IN_JSON, best
from toolglot.dialects import find
from toolglot.errors import ToolglotError
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

MODELS = {
    "openai_chat": "gpt-4o",
    "openai_responses": "gpt-5.5",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-3-pro",
    "ollama": "qwen3",
}
"""The model that each upstream is asked for."""
_REPEATS = 20
"""How often a request is translated in one run."""


def rows(request: Captured, runs: int) -> Iterator[str]:
    client = find(request.dialect)
    for target in IN_JSON:
        upstream, model = find(target), MODELS[target]

        def new_exchange(target: str = target, model: str = model) -> ExchangeCore:
            return ExchangeCore(request.dialect, target, model=model, verbatim=False)

        try:
            exchange = new_exchange()
            exchange.request(request.body, model=request.model)
        except ToolglotError as error:
            yield f"{request.name:32}{target:18}{error}\n"
            continue
        asked, sent = exchange.asked, exchange.sent
        assert asked is not None
        assert sent is not None
        cells = [
            _time(lambda: client.decode_request(request.body), runs),
            _time(lambda: new_exchange().rewrite(asked), runs),  # noqa: B023
            _time(lambda: upstream.encode_request(sent, Receipt()), runs),  # noqa: B023
            _time(lambda: new_exchange().request(request.body, model=request.model), runs),
        ]
        yield f"{request.name:32}{target:18}{len(request.body):10}" + "".join(cells) + "\n"


def _time(work: Callable[[], object], runs: int) -> str:
    def repeat() -> None:
        for _ in range(_REPEATS):
            work()

    return f"{best(repeat, runs) / _REPEATS * 1e6:10.0f}"


def main(arguments: Sequence[str], write: Callable[[str], object] = sys.stdout.write) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("names", nargs="*")
    options.add_argument("--runs", type=int, default=7)
    wanted = options.parse_args(arguments)
    head = ("bytes", "decode", "passes", "encode", "whole")
    write(f"{'request':32}{'upstream':18}" + "".join(f"{name:>10}" for name in head) + "\n")
    for request in captured(wanted.folder, wanted.names):
        for row in rows(request, wanted.runs):
            write(row)


if __name__ == "__main__":
    main(sys.argv[1:])
