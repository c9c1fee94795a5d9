"""`python -m bench.textcalls [--quick]`: what reading a tool call out of text costs, for every format and size.

One call that writes a file is rendered in the format and fed to the parser in pieces of 16 characters, about what a
token brings. The time is processor time a piece, the best of several runs. It must not grow with the size.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator

from toolglot.ir import Tool, ToolCall
from toolglot.textcalls import FORMATS, parser
from toolglot.textcalls.prompts.render import calls_text

PIECE = 16
FULL = (1_000, 8_000, 64_000, 1_000_000)
QUICK = (1_000, 2_000)
LINE = 'def greet(name):\n    return "Hello, <b>" + name + "</b>"  # a comment\n'
STRING = {"type": "string"}
TOOL = Tool(name="write_file", parameters={"type": "object", "properties": {"path": STRING, "content": STRING}})


def text_of(format_name: str, size: int) -> str:
    """A call with about `size` characters of arguments, as a model writes it."""
    content = (LINE * (size // len(LINE) + 1))[:size]
    arguments = json.dumps({"path": "greet.py", "content": content}, ensure_ascii=False)
    return calls_text(format_name, [ToolCall(id="call_1", name=TOOL.name, arguments=arguments)])


def microseconds(reader: str, text: str, runs: int) -> float:
    """Of processor time, for one piece."""
    pieces = [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
    times: list[float] = []
    for _run in range(runs):
        read = parser(reader, [TOOL])
        start = time.process_time()
        for piece in pieces:
            for _ in read.feed(piece):
                pass
        list(read.finish())
        times.append(time.process_time() - start)
    return min(times) / len(pieces) * 1e6


def rows(sizes: tuple[int, ...]) -> Iterator[tuple[str, list[float]]]:
    for name in FORMATS:
        texts = [text_of(name, size) for size in sizes]
        yield name, [microseconds(name, text, 3 if len(text) < 200_000 else 1) for text in texts]
    hermes = [text_of("hermes_json", size) for size in sizes]
    yield "auto (hermes_json)", [microseconds("auto", text, 3 if len(text) < 200_000 else 1) for text in hermes]
    prose = [(LINE * (size // len(LINE) + 1))[:size] for size in sizes]
    yield "plain text", [microseconds("hermes_json", text, 3 if len(text) < 200_000 else 1) for text in prose]


def main(arguments: list[str], write: Callable[[str], object] = sys.stdout.write) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="a few of them, to see that it works")
    sizes = QUICK if options.parse_args(arguments).quick else FULL
    write(f"A call read out of text, {PIECE} characters at a time: microseconds each, by the size of its arguments\n")
    write(f"{'format':<24}" + "".join(f"{f'{size:,}':>12}" for size in sizes) + "\n")
    for name, times in rows(sizes):
        write(f"{name:<24}" + "".join(f"{value:>12.2f}" for value in times) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
