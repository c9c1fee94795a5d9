"""Which of the offered tools a wish means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from toolglot.ir import Tool
from toolglot.upstream.demo.hints import READING, kind_of
from toolglot.upstream.demo.wording import Clause, words_of

MAX_CALLS = 8
ENOUGH = 3
"""The score from which on a tool counts as meant."""
FEW_TOOLS = 5
"""With at most so many tools the user wants to see one called, even when none seems to be meant."""

CHANGING = frozenset(
    """write edit delete remove replace update create kill send move rename apply patch insert drop set schedule spawn
    cancel close post put push commit install upload deploy book buy pay order""".split()  # noqa: SIM905
)
"""Verbs of tools that are called only when the wish has the same verb."""

SHELLS = frozenset({"bash", "shell", "exec", "command", "terminal", "cmd", "run"})
MEANINGS: tuple[tuple[frozenset[str], frozenset[str]], ...] = (
    (frozenset({"run", "execute", "echo", "ls", "pwd", "command", "terminal"}), SHELLS),
    (READING, frozenset({"read", "cat", "open"})),
    (frozenset({"list", "directory", "folder"}), frozenset({"list", "ls", "glob"})),
    (frozenset({"search", "find", "look", "google", "web"}), frozenset({"search", "find", "lookup", "grep", "query"})),
    (frozenset({"save", "create", "write"}), frozenset({"write", "save", "create"})),
    (
        frozenset({"calculate", "compute", "plus", "minus", "sum", "multiply", "divide"}),
        frozenset({"calculator", "calculate", "add", "math", "sum", "eval"}),
    ),
    (
        frozenset({"weather", "rain", "umbrella", "forecast", "temperature", "sunny", "warm", "cold"}),
        frozenset({"weather", "forecast", "temperature"}),
    ),
    (frozenset({"time", "clock", "hour", "late", "early"}), frozenset({"time", "clock", "timezone"})),
)
"""Words of a wish, and the words in a tool's name that they mean."""


class Pick(Struct, frozen=True):
    """A tool to call, and the clause that asks for it."""

    tool: Tool
    clause: Clause


def choose(tools: Sequence[Tool], asked: Sequence[Clause]) -> list[Pick]:
    """The tools that the clauses mean, in their order."""
    picks: list[Pick] = []
    for clause in asked:
        if clause.is_negated or len(picks) == MAX_CALLS:
            continue
        if clause.is_value and picks:
            picks.append(Pick(picks[-1].tool, clause))
            continue
        scores = [score(tool, clause) for tool in tools]
        if scores and (best := max(scores)) >= ENOUGH:
            picks.append(Pick(tools[scores.index(best)], clause))
    return picks


def first_harmless(tools: Sequence[Tool]) -> Tool | None:
    return next((tool for tool in tools if not words_of(tool.name) & CHANGING), None)


def score(tool: Tool, clause: Clause) -> int:
    """How much this clause seems to mean this tool."""
    words = clause.words
    name = words_of(tool.name)
    if name & CHANGING and not name & CHANGING & words:
        return 0
    if not words and not clause.is_value:
        return 0
    parameters = frozenset[str]().union(*(words_of(parameter) for parameter in _properties(tool)))
    described = words_of((tool.description or "")[:200])
    return (
        8 * len(name & words)
        + _meaning(name, clause)
        + min(2 * len(parameters & words), 4)
        + min(2 * len(described & words), 4)
        + _value(tool, clause)
        - min(len(name - words), 3)
    )


def _meaning(name: frozenset[str], clause: Clause) -> int:
    if any(asked & clause.words and meant & name for asked, meant in MEANINGS):
        return 6
    # Where nothing else reads files, a shell does.
    return 6 if clause.files and name & SHELLS and clause.words & READING else 0


def _value(tool: Tool, clause: Clause) -> int:
    """Does the clause have a value of the kind that the tool must be given? Files go to tools that take files."""
    values = {
        "path": clause.files,
        "url": clause.urls,
        "place": clause.names,
        "arithmetic": clause.arithmetic,
    }
    properties = _properties(tool)
    takes = {kind_of(parameter) for parameter in properties}
    if clause.files and not takes & {"path", "command", "prose"} and not words_of(tool.name) & SHELLS:
        return -12
    required = tool.parameters.get("required") if isinstance(tool.parameters, dict) else None
    wanted = required if isinstance(required, list) and required else list(properties)[:1]
    return 4 if any(values.get(kind_of(str(parameter)) or "") for parameter in wanted) else 0


def _properties(tool: Tool) -> dict[str, Any]:
    properties = tool.parameters.get("properties") if isinstance(tool.parameters, dict) else None
    return properties if isinstance(properties, dict) else {}
