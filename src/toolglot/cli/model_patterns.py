"""Convert patterns of model names to a readable form: `claude-*-4-6+` for a longer regular expression.

A plus after a number means that version and later ones; a star is anything, where a name may continue.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

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
    """Versions of two digits are later than those of one: the plus says so already."""
    return [name for name in names if _DIGIT * 2 not in name] or names


def _alternatives(tokens: list[str]) -> list[str]:
    """The alternatives at the head of the tokens, which are used up to the end of their group."""
    done: list[str] = []
    names = [""]
    while tokens and (token := tokens.pop(0)) != ")":
        if token == "|":
            done, names = done + names, [""]
        elif token == "(?!":
            names = _join_parts(names, [_exclude_tails(_alternatives(tokens))])
        elif token in ("(", "(?:"):
            names = _join_parts(names, _alternatives(tokens))
        else:
            names = _join_parts(names, [_text(token)])
    return done + names


def _join_parts(heads: Iterable[str], tails: Iterable[str]) -> list[str]:
    tails = list(dict.fromkeys(tails))
    return [head + tail for head in heads for tail in tails]


def _exclude_tails(tails: list[str]) -> str:
    """Mark the continuations that a name must not have. A lone digit only separates a version from a date."""
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
    """Let a name continue with anything. After a plus it does so already."""
    name = name.replace("+*", "+")
    return name if name.endswith(("+", "*")) else f"{name}*"
