"""`toolglot dialects`: what each dialect supports, from the same data that the passes use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from shutil import get_terminal_size
from textwrap import wrap
from typing import TypeAlias

import click
import msgspec

from toolglot.capabilities import PLACES, Capabilities, change_capabilities, read_capability
from toolglot.cli.table import render_table
from toolglot.dialect import Dialect
from toolglot.dialects import DIALECTS


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _list(values: frozenset[str]) -> str:
    return ", ".join(sorted(values)) or "none"


def _names(can: Capabilities) -> str:
    return f"up to {can.names.max_length} of {_characters(can.names.pattern)}"


def _ids(can: Capabilities) -> str:
    return f"up to {can.ids.max_length} of {_characters(can.ids.pattern)}" if can.ids.required else "optional"


def _characters(pattern: str) -> str:
    """Describe `[A-Za-z0-9_-]+` in words that fit into any column."""
    return pattern.removeprefix("[").removesuffix("]+").replace("A-Za-z0-9", "letters, digits, ")


def _parameter(name: str) -> Callable[[Capabilities], str]:
    return lambda can: _yes(name in can.parameters.fields)


def _caching(can: Capabilities) -> str:
    lifetimes = ", ".join(_lifetime(seconds) for seconds in can.cache.lifetimes)
    return f"{can.cache.breakpoints} ({lifetimes})" if can.cache.breakpoints else "no"


def _lifetime(seconds: int) -> str:
    return f"{seconds // 3600} h" if seconds % 3600 == 0 else f"{seconds // 60} min"


Row: TypeAlias = tuple[str, Callable[[Capabilities], str]]

CONCEPTS: tuple[Row, ...] = (
    ("tool names", _names),
    ("call ids", _ids),
    ("arguments", lambda can: f"JSON {can.calls.arguments}"),
    ("tool choice", lambda can: _list(can.tools.choices)),
    ("custom tools", lambda can: _yes(can.tools.custom)),
    ("namespaces", lambda can: _yes(can.tools.namespaces)),
    ("strict tools", lambda can: _yes(can.tools.strict)),
    ("deferred tools", lambda can: _yes(can.tools.deferred)),
    ("error results", lambda can: _yes(can.calls.result_errors)),
    ("media from the user", lambda can: _list(can.media.in_user)),
    ("media in results", lambda can: _list(can.media.in_result)),
    ("system text", lambda can: can.messages.system),
    (
        "reasoning in history",
        lambda can: {"owned": "its own, signed", "text": "as text"}.get(can.reasoning.in_history, "no"),
    ),
    ("reasoning efforts", lambda can: ", ".join(can.reasoning.efforts) or "none"),
    ("reasoning budget", lambda can: _yes(can.reasoning.budget)),
    ("citations", lambda can: _yes(can.messages.citations)),
    ("response formats", lambda can: _list(can.parameters.response_formats)),
    ("cache breakpoints", _caching),
)
"""Rows of the table: a concept, and its support in a dialect."""

_FIELDS = frozenset[str]().union(*(dialect.can.parameters.fields for dialect in DIALECTS.values()))

PARAMETERS: tuple[Row, ...] = tuple((name, _parameter(name)) for name in sorted(_FIELDS))
"""Rows of the table: the optional fields of a request, by toolglot's own names, and whether a dialect has them."""


NARROW = 10
"""Width of a table column on 80 columns; longer names break after the underscore."""


@click.command(short_help="List the capabilities of each dialect.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the table as Markdown.")
def dialects(as_json: bool, as_markdown: bool) -> None:
    """List the capabilities of each dialect."""
    if as_markdown:
        click.echo("\n".join(_markdown()))
        return
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(_describe_all(), order="sorted"), indent=2))
        return
    _show()


def _show() -> None:
    """Print the table for a terminal; it fits into 80 columns."""
    width = get_terminal_size().columns
    head = ("", *(name if len(name) < NARROW else name.replace("_", "_ ") for name in DIALECTS))
    indented = [(f"  {label}", *told) for label, *told in _rows(PARAMETERS)]
    lines = ["Capabilities of each dialect", ""]
    lines += render_table(head, _rows(CONCEPTS), width)
    lines += ["", *render_table(("parameters", *head[1:]), indented, width, ruled=False), ""]
    lines += ["Some models differ from their dialect; --json lists everything."]
    lines += ["`*` matches anything; `+` means this version and later ones."]
    for name, dialect in DIALECTS.items():
        lines += [f"{name}:"] if dialect.models else []
        for rule in dialect.models:
            told = f"{', '.join(readable_patterns(rule.pattern))}: {rule.why}"
            lines += wrap(told, width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    click.echo("\n".join(lines))


def _rows(rows: tuple[Row, ...]) -> list[tuple[str, ...]]:
    return [(label, *(_describe_support(dialect, told) for dialect in DIALECTS.values())) for label, told in rows]


def _describe_support(dialect: Dialect, told: Callable[[Capabilities], str]) -> str:
    """Describe a dialect's support for a concept, marking what only some of its models have."""
    if (here := told(dialect.can)) != "no":
        return here
    of_models = (told(change_capabilities(dialect.can, **rule.changes)) for rule in dialect.models)
    return next((f"{there}, some models" for there in of_models if there != here), here)


def _markdown() -> list[str]:
    rows = [("", *DIALECTS), ("---", *("---" for _ in DIALECTS)), *_rows((*CONCEPTS, *PARAMETERS))]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]


def _describe_all() -> dict[str, object]:
    return {name: _describe(dialect) for name, dialect in DIALECTS.items()}


def _describe(dialect: Dialect) -> dict[str, object]:
    return {
        "title": dialect.title,
        "can": msgspec.to_builtins({name: read_capability(dialect.can, name) for name in PLACES}, order="sorted"),
        "models": [
            {"pattern": rule.pattern, "changes": dict(rule.changes), "why": rule.why} for rule in dialect.models
        ],
    }


_TOKEN = re.compile(r"\(\?[!:]|\(|\)|\||\[[^]]+\][+*]?|\\.|.")
_FROM = re.compile(r"\[(\d)(?:-|\d*)9\]")
_DIGIT = "#"
_NOT = re.compile("!(.*)!")
_NOTHING = ("^", "$", r"\b", r"\S", "/", "?")


def readable_patterns(pattern: str) -> list[str]:
    """Return the names that a pattern matches, in readable form."""
    names = _without_later(_alternatives(_TOKEN.findall(pattern)))
    shown = list(dict.fromkeys(_tidy(name) for name in names))
    return [name for name in shown if not any(name != other and name.startswith(f"{other}-") for other in shown)]


def _without_later(names: list[str]) -> list[str]:
    """Drop versions of two digits: they are later than those of one digit, so the plus already covers them."""
    return [name for name in names if _DIGIT * 2 not in name] or names


def _alternatives(tokens: list[str]) -> list[str]:
    """Return the alternatives at the start of the tokens. Consumes the tokens to the end of their group."""
    done: list[str] = []
    names = [""]
    while tokens and (token := tokens.pop(0)) != ")":
        if token == "|":
            done, names = done + names, [""]
        elif token == "(?!":
            names = _joined(names, [_refused(_alternatives(tokens))])
        elif token in ("(", "(?:"):
            names = _joined(names, _alternatives(tokens))
        else:
            names = _joined(names, [_text(token)])
    return done + names


def _joined(heads: Iterable[str], tails: Iterable[str]) -> list[str]:
    tails = list(dict.fromkeys(tails))
    return [head + tail for head in heads for tail in tails]


def _refused(tails: list[str]) -> str:
    """Describe the forbidden continuation of a name. A digit there only distinguishes a version from a date."""
    return "" if tails == [_DIGIT] else f"!{'|'.join(_without_later(tails))}!"


def _text(token: str) -> str:
    if token in _NOTHING:
        return ""
    if token in (r"\d", "[1-9]"):
        return _DIGIT
    if token == "[-.]":
        return "-"
    if token.startswith("["):
        return "*" if token.endswith(("+", "*")) else _FROM.sub(r"\1+", token)
    return token.removeprefix("\\")


def _tidy(name: str) -> str:
    name = name.replace(_DIGIT, "1+")
    refused = _NOT.search(name)
    told = _open(_NOT.sub("", name))
    if refused is None:
        return told
    head = name[: refused.start()]
    return f"{told} (not {', '.join(_open(head + tail) for tail in refused[1].split('|'))})"


def _open(name: str) -> str:
    """Add `*` to a name that may continue. After a plus it is not needed."""
    name = name.replace("+*", "+")
    return name if name.endswith(("+", "*")) else f"{name}*"
