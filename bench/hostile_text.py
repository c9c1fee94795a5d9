"""`python -m bench.hostile_text [--quick]`: what reading text that is made to cost much takes, for a character.

A grammar makes the texts: every mark of every format, alone and with what may follow it, again and again; and values
inside of calls, of one kind each. The time is processor time; the worst texts are listed. Beyond the limit the command
fails.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator

from msgspec import Struct

from toolglot.ir import Tool, ToolCall
from toolglot.textcalls import AUTO, FORMATS, find_format, parser
from toolglot.textcalls.grammar import Format
from toolglot.textcalls.prompts.render import calls_text

SIZE = 1_000_000
QUICK = 20_000
LIMIT = 0.3
"""Microseconds a character, for texts of full size."""
LISTED = 20
TOOLS = (
    Tool(name="write_file", parameters={"type": "object", "properties": {"content": {"type": "string"}}}),
    Tool(name="set_items", parameters={"type": "object", "properties": {"items": {"type": "array"}}}),
)
BEHIND = ("", "\n", "x", "{", '{"', "[", '{"name":', '{"name": "write_file", "arguments": {', "write_file")
PLAIN = ("{", "[", "{\n", "[\n", "\n{", "\n[", "{}", "[]", '{"', '"', "'", "\\", "`", "```", "\n```\n", "<", "x\n")
VALUES = (
    *("1,", "[],", "{},", "[[]],", '"",', '{"a":1},', '[{"a":[1]}],', '{"a":', "[", "true,", '"\\n",', '"x\n",', "1 ,"),
    *("[[[[[[1]]]]]],", '{"a":{"b":{"c":{"d":1}}}},', "[[[", "\\x41", "\\u00e9", "\\0", "\\N{LF}", '""'),
    *('"a"b",', "'a',", "{a:1},", "1 1 ", "//x\n", "#x\n", '"a" "b",', "(1),", "[}", "x\n", "\n", '\\"', "</", "a,"),
)
MARKER = "@@"


class Case(Struct, frozen=True):
    """A text: `unit` again and again behind `head`, then `tail`."""

    format: str
    unit: str
    head: str = ""
    tail: str = ""

    def text(self, size: int) -> str:
        return self.head + (self.unit * (size // len(self.unit) + 1))[:size] + self.tail


def marks_of(text_format: Format) -> list[str]:
    """Every mark that means something in the format."""
    calls = text_format.calls
    marks = [mark for call in calls for mark in (*call.header.openers, *call.header.ends, *call.closers)]
    marks += [mark for pair in (*text_format.sections, *text_format.thinking) for mark in pair]
    if text_format.messages:
        marks += [*text_format.messages.openers, *text_format.messages.ends, *text_format.messages.closers]
    marks += text_format.dropped
    return sorted({mark.replace("{name}", "write_file") for mark in marks if mark})


def cases(name: str) -> Iterator[Case]:
    """The texts for one format."""
    for unit in PLAIN:
        yield Case(name, unit)
    for mark in marks_of(find_format(name)):
        yield Case(name, f"\n{mark}")
        yield from (Case(name, mark + behind) for behind in BEHIND)
    if name == AUTO:
        return
    for tool, key, value in (("write_file", "content", f'"{MARKER}"'), ("set_items", "items", f'["{MARKER}"]')):
        call = calls_text(name, [ToolCall(id="call_1", name=tool, arguments=f'{{"{key}": {value}}}')])
        head, found, tail = call.partition(MARKER)
        if found:
            yield Case(name, call.replace(MARKER, ""))
            yield from (Case(name, unit, head.rstrip('"') if tool == "set_items" else head, tail) for unit in VALUES)


def read(case: Case, size: int) -> float:
    """Microseconds of processor time a character."""
    text = case.text(size)
    reader = parser(case.format, TOOLS)
    start = time.process_time()
    for _ in (*reader.feed(text), *reader.finish()):
        pass
    return (time.process_time() - start) / len(text) * 1e6


def main(arguments: list[str], write: Callable[[str], object] = sys.stdout.write) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("formats", nargs="*", default=[*FORMATS, AUTO], help="the formats to read (all)")
    options.add_argument("--quick", action="store_true", help="short texts, without a limit, to see that it works")
    chosen = options.parse_args(arguments)
    size = QUICK if chosen.quick else SIZE
    times = [(read(case, size), case) for name in chosen.formats for case in cases(name)]
    times.sort(key=lambda timed: -timed[0])
    write(f"{len(times):,} texts of {size:,} characters; the worst, in microseconds a character:\n")
    for taken, case in times[:LISTED]:
        inside = f" in {case.head!r}" if case.head else ""
        write(f"{taken:>8.3f}  {case.format:<24}{case.unit!r}{inside}\n")
    return int(not chosen.quick and times[0][0] > LIMIT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
