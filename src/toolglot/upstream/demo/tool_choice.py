"""Choose the offered tools that a wish means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from toolglot.ir import Tool
from toolglot.upstream.demo.hints import READING_VERBS, value_kind
from toolglot.upstream.demo.wish import Clause, words_of

MAX_CALLS = 8
MIN_SCORE = 3
"""Minimum score for a tool to be called."""
FEW_TOOLS = 5
"""Number of tools up to which one is called even if none fits the request."""

MUTATING_VERBS = frozenset(
    """write edit delete remove replace update create kill send move rename apply patch insert drop set schedule spawn
    cancel close post put push commit install upload deploy book buy pay order""".split()  # noqa: SIM905
)
"""Verbs of tools that are called only if the wish has the same verb."""

SHELLS = frozenset({"bash", "shell", "exec", "command", "terminal", "cmd", "run"})
SYNONYMS: tuple[tuple[frozenset[str], frozenset[str]], ...] = (
    (frozenset({"run", "execute", "echo", "ls", "pwd", "command", "terminal"}), SHELLS),
    (READING_VERBS, frozenset({"read", "cat", "open"})),
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
"""Words of a wish, and the corresponding words in a tool's name."""


class Pick(Struct, frozen=True):
    """A tool to call, and the clause that asks for it."""

    tool: Tool
    clause: Clause


def choose_tools(tools: Sequence[Tool], asked: Sequence[Clause]) -> list[Pick]:
    """Return the tools that the clauses mean, in order."""
    picks: list[Pick] = []
    for clause in asked:
        if clause.is_negated or len(picks) == MAX_CALLS:
            continue
        if clause.is_value and picks:
            picks.append(Pick(picks[-1].tool, clause))
            continue
        scores = [score_tool(tool, clause) for tool in tools]
        if scores and (best := max(scores)) >= MIN_SCORE:
            picks.append(Pick(tools[scores.index(best)], clause))
    return picks


def first_harmless(tools: Sequence[Tool]) -> Tool | None:
    return next((tool for tool in tools if not words_of(tool.name) & MUTATING_VERBS), None)


def score_tool(tool: Tool, clause: Clause) -> int:
    """Score how well this clause matches this tool."""
    words = clause.words
    name = words_of(tool.name)
    if name & MUTATING_VERBS and not name & MUTATING_VERBS & words:
        return 0
    if not words and not clause.is_value:
        return 0
    parameters = frozenset[str]().union(*(words_of(parameter) for parameter in _properties(tool)))
    described = words_of((tool.description or "")[:200])
    return (
        8 * len(name & words)
        + _synonym_score(name, clause)
        + min(2 * len(parameters & words), 4)
        + min(2 * len(described & words), 4)
        + _value_score(tool, clause)
        - min(len(name - words), 3)
    )


def _synonym_score(name: frozenset[str], clause: Clause) -> int:
    if any(asked & clause.words and meant & name for asked, meant in SYNONYMS):
        return 6
    # If no other tool reads files, a shell does.
    return 6 if clause.files and name & SHELLS and clause.words & READING_VERBS else 0


def _value_score(tool: Tool, clause: Clause) -> int:
    """Score whether the clause has a value of the kind that the tool requires. Files go to tools that take files."""
    values = {
        "path": clause.files,
        "url": clause.urls,
        "place": clause.names,
        "arithmetic": clause.arithmetic,
    }
    properties = _properties(tool)
    takes = {value_kind(parameter) for parameter in properties}
    if clause.files and not takes & {"path", "command", "prose"} and not words_of(tool.name) & SHELLS:
        return -12
    required = tool.parameters.get("required") if isinstance(tool.parameters, dict) else None
    wanted = required if isinstance(required, list) and required else list(properties)[:1]
    return 4 if any(values.get(value_kind(str(parameter)) or "") for parameter in wanted) else 0


def _properties(tool: Tool) -> dict[str, Any]:
    properties = tool.parameters.get("properties") if isinstance(tool.parameters, dict) else None
    return properties if isinstance(properties, dict) else {}
