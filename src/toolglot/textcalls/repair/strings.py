"""Decode the strings of broken JSON."""

from __future__ import annotations

import json
import re

from toolglot.textcalls.repair.errors import RepairError

_KEPT = r"""\\(?:[^"\\/bfnrtuxU'_`]|u(?![0-9a-fA-F]{4})|x(?![0-9a-fA-F]{2})|U(?![0-9a-fA-F]{8}))[^\\]*+"""
# Backslashes that are kept, any number in a row, or an escape.
_ESCAPE = re.compile(
    rf"((?:{_KEPT}|(?!))++)|\\(?:u([0-9a-fA-F]{{4}})|x([0-9a-fA-F]{{2}})|U([0-9a-fA-F]{{8}})|(.))", re.DOTALL
)
_SIMPLE = {r"\"": '"', "\\\\": "\\", r"\/": "/", r"\b": "\b", r"\f": "\f", r"\n": "\n", r"\r": "\r", r"\t": "\t"}
_SELDOM_MEANT = {r"\b", r"\f"}
_OFTEN_MEANT = {escape: character for escape, character in _SIMPLE.items() if escape not in _SELDOM_MEANT}
# JSON has no such escapes, and the character needs no backslash in other notations: an apostrophe as JavaScript
# and Python escape it, an underscore as Markdown does. All other unknown escapes (`\d`, `\.`, `\$`) are backslashes
# that should have been doubled.
_DROPPED = {r"\'": "'", r"\_": "_", r"\`": "`"}
_ESCAPES_TEMPLATE = r"""(?:[^\\]++|\\(?:["\\/bfnrt'_`]|u[0-9a-fA-F]{4}|\Z%s)|(?!))*+"""
_KNOWN_ESCAPES = re.compile(_ESCAPES_TEMPLATE % "")
_PYTHON_ESCAPES = re.compile(_ESCAPES_TEMPLATE % "|x|U")
_PAIR = re.compile(r"\\[\\\"/']")
_PATH = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]:\\(?!\\)[^\s\"'<>|*?;,]*")
_LINE_BREAK = re.compile(r"\\n(?![a-z])|\\[\"/u]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def has_undoubled_backslash(text: str, *, python: bool = False) -> bool:
    """Return whether some backslash of the text can only be one that should have been doubled."""
    match = (_PYTHON_ESCAPES if python else _KNOWN_ESCAPES).match(text)
    return match is not None and match.end() < len(text)


def decode_string(raw: str, *, python: bool = False, undoubled: bool = False) -> tuple[str, str]:
    r"""Return the string that `raw` represents, and the repairs of its escapes.

    `python`: the text is a Python literal, so that `\x41` is an escape. `undoubled`: the document has undoubled
    backslashes, so that `C: ew` is a path without a line break.
    """
    if "\\" not in raw:
        return raw, ""
    if not (python or undoubled):
        try:
            return str(json.loads(f'"{raw}"', strict=False)), ""
        except ValueError:
            pass
    paths = _find_paths(raw) if undoubled else []
    repaired: dict[str, None] = {}
    simple = _OFTEN_MEANT if undoubled else _SIMPLE
    spans = iter(paths)
    span = next(spans, None)

    def meant(match: re.Match[str]) -> str:
        nonlocal span
        whole = match[0]
        if span is None and whole in simple:
            return simple[whole]
        while span is not None and match.start() >= span[1]:
            span = next(spans, None)
        is_in_path = span is not None and span[0] <= match.start() and not _PAIR.fullmatch(whole)
        if match[1] or is_in_path or (undoubled and whole in _SELDOM_MEANT):
            repaired["backslashes doubled"] = None
            return whole
        if match[2]:
            return chr(int(match[2], 16))
        if match[5] is None:
            return _python_escape(match, python)
        if whole in _SIMPLE:
            return _SIMPLE[whole]
        repaired["unknown escapes"] = None
        return _DROPPED[whole]

    text = _ESCAPE.sub(meant, raw)
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    if "backslashes doubled" in repaired and raw.count('\\"') % 2:
        raise RepairError("a backslash may take the place of a missing quote")
    return text, ", ".join(repaired)


def _find_paths(raw: str) -> list[tuple[int, int]]:
    """Return the positions of Windows paths whose backslashes should have been doubled."""
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
    digits = match[3] or match[4]
    if not python or int(digits, 16) > 0x10FFFF:
        raise RepairError(f"'{match[0]}' may be a character or a backslash that should have been doubled")
    return chr(int(digits, 16))
