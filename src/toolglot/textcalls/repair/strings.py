"""Strings of broken JSON: what their escapes mean."""

from __future__ import annotations

import json
import re

from toolglot.textcalls.repair.errors import RepairError

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_SIMPLE = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
# No JSON has these escapes and no other notation needs the backslash before the character: an apostrophe as
# JavaScript and Python escape it, an underscore as Markdown does. All other unknown escapes (`\d`, `\.`, `\$`) are
# backslashes that should have been doubled.
_DROPPED = {"'": "'", "_": "_", "`": "`"}
_KNOWN = r"""(?:[^\\]++|\\(?:["\\/bfnrt'_`]|u[0-9a-fA-F]{4}|\Z%s))*+"""
_KNOWN_ESCAPES = re.compile(_KNOWN % "")
_PYTHON_ESCAPES = re.compile(_KNOWN % "|x|U")
_PAIR = re.compile(r"\\[\\\"/']")
_PATH = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]:\\(?!\\)[^\s\"'<>|*?;,]*")
_LINE_BREAK = re.compile(r"\\n(?![a-z])|\\[\"/u]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def has_undoubled_backslash(text: str, *, python: bool = False) -> bool:
    """Whether some backslash of the text can only be one that should have been doubled."""
    match = (_PYTHON_ESCAPES if python else _KNOWN_ESCAPES).match(text)
    return match is not None and match.end() < len(text)


def decoded(raw: str, *, python: bool = False, undoubled: bool = False) -> tuple[str, str]:
    r"""The string that `raw` stands for, and what had to be repaired in its escapes.

    `python`: the text is a Python literal, so that `\x41` is an escape. `undoubled`: the document has backslashes that
    should have been doubled, so that `C:\new` is a path and no line break.
    """
    if "\\" not in raw:
        return raw, ""
    if not (python or undoubled):
        try:
            return str(json.loads(f'"{raw}"', strict=False)), ""
        except ValueError:
            pass
    paths = _paths(raw) if undoubled else []
    repaired: dict[str, None] = {}
    spans = iter(paths)
    span = next(spans, None)

    def meant(match: re.Match[str]) -> str:
        nonlocal span
        while span is not None and match.start() >= span[1]:
            span = next(spans, None)
        whole = match.group()
        character = match.group(4)
        if span is not None and span[0] <= match.start() and not _PAIR.fullmatch(whole):
            repaired["backslashes doubled"] = None
            return whole
        if match.group(1):
            return chr(int(match.group(1), 16))
        if character is None:
            return _python_escape(match, python)
        if character in "bf" and undoubled:
            repaired["backslashes doubled"] = None
            return whole
        if character in _SIMPLE:
            return _SIMPLE[character]
        if character in _DROPPED:
            repaired["unknown escapes"] = None
            return _DROPPED[character]
        repaired["backslashes doubled"] = None
        return whole

    text = _ESCAPE.sub(meant, raw)
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    if "backslashes doubled" in repaired and raw.count('\\"') % 2:
        raise RepairError("a backslash may stand for a quote that is missing")
    return text, ", ".join(repaired)


def _paths(raw: str) -> list[tuple[int, int]]:
    """Where the string holds Windows paths whose backslashes should have been doubled."""
    spans = []
    for match in _PATH.finditer(raw):
        path = match.group()
        if len(path) == len(raw) or (match.start() == 0 and has_undoubled_backslash(raw) and "\\\\" not in raw):
            return [(0, len(raw))]
        if has_undoubled_backslash(path):
            spans.append(match.span())
        elif not _LINE_BREAK.match(raw, match.start() + 2):
            raise RepairError(f"'{path[:40]}' may be a path or hold line breaks")
    return spans


def _python_escape(match: re.Match[str], python: bool) -> str:
    digits = match.group(2) or match.group(3)
    if not python or int(digits, 16) > 0x10FFFF:
        raise RepairError(f"'{match.group()}' may be a character or a backslash that should have been doubled")
    return chr(int(digits, 16))
