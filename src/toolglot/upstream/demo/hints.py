"""Find the words of a wish that may fill a parameter, judged by the parameter's name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from msgspec import Struct

from toolglot.upstream.demo.wish import Clause, parse_clause, words_of

KINDS: tuple[tuple[str, frozenset[str]], ...] = (
    ("command", frozenset({"command", "cmd"})),
    ("url", frozenset({"url", "uri", "link", "href", "website"})),
    ("folder", frozenset({"dir", "directory", "folder", "cwd", "workdir", "workspace"})),
    ("path", frozenset({"path", "file", "filename", "filepath", "filenames"})),
    ("pattern", frozenset({"pattern", "glob", "regex"})),
    ("place", frozenset({"city", "location", "place", "town", "country", "region", "destination", "address"})),
    ("date", frozenset({"date", "day"})),
    ("arithmetic", frozenset({"expression", "equation", "formula", "calculation"})),
    (
        "prose",
        frozenset({"query", "q", "question", "search", "prompt", "text", "message", "content", "input", "topic"}),
    ),
    ("prose", frozenset({"description", "reason", "reasoning", "title", "summary", "objective", "instruction"})),
    ("prose", frozenset({"answer", "explanation", "note", "body", "task", "keyword", "subject"})),
)
"""Kinds of values, and the words in a parameter's name that ask for them; the first match counts."""

FALLBACKS = {
    "url": "https://example.com/",
    "path": "README.md",
    "pattern": "README",
    "place": "Paris",
    "date": "2025-01-01",
    "arithmetic": "2 + 2",
}
"""Values to use if the wish has none."""

BARE_COMMANDS = frozenset({"ls", "pwd", "date", "whoami", "uname"})
FILE_COMMANDS = frozenset({"cat", "head", "wc"})
HARMLESS_COMMANDS = BARE_COMMANDS | FILE_COMMANDS | {"echo"}
"""Commands that change nothing, exactly as written here. No other command is ever called, regardless of the request."""
_PLAIN_COMMAND = re.compile(r"[\w ./,:@=+'\"-]*")
"""Excludes everything that a shell would interpret."""
READING_VERBS = frozenset({"read", "open", "show", "cat", "view", "print"})
GREETING = "hello from the demo upstream"


def value_kind(name: str) -> str | None:
    """Return the kind of value that a parameter of this name expects."""
    words = words_of(name)
    raw = {name.lower(), *name.lower().split("_")}
    return next((kind for kind, known in KINDS if known & (words | raw)), None)


class Hints(Struct, frozen=True, kw_only=True):
    """Values for one call: from its own clause first, then from the rest of the wish."""

    clause: Clause
    wish: Clause
    folder: str | None = None

    @classmethod
    def of_text(cls, text: str) -> Hints:
        whole = parse_clause(text)
        return cls(clause=whole, wish=whole)

    def candidates(self, name: str) -> tuple[str, ...]:
        """Return the values that the wish has for this parameter, the best first."""
        match value_kind(name):
            case "command":
                return (shell_command(self.clause, self.folder),)
            case "folder":
                return (self.folder or ".",)
            case "path":
                return tuple(join_folder(self.folder, file) for file in self.clause.files or self.wish.files)
            case "url":
                return self.clause.urls or self.wish.urls
            case "place":
                return self.clause.names or self.clause.quoted or self.wish.names
            case "pattern":
                return self.clause.quoted or self.clause.files
            case "date":
                return self.clause.dates or self.wish.dates
            case "arithmetic":
                return tuple(filter(None, (self.clause.arithmetic, self.wish.arithmetic)))[:1]
            case "prose":
                return self.clause.quoted or tuple(filter(None, (self.clause.text,)))
        return self.clause.quoted or self.clause.names or self.wish.quoted or self.wish.names

    def fallback(self, name: str) -> str:
        """Return a value for a parameter that the wish does not mention."""
        kind = value_kind(name)
        if kind == "path":
            return join_folder(self.folder, FALLBACKS["path"])
        return FALLBACKS.get(kind or "", f"demo {name}".strip())

    def mentions(self, value: str) -> bool:
        """Return whether the wish contains this word."""
        return bool(value) and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", self.wish.text, re.IGNORECASE) is not None

    def number(self, place: int) -> float | None:
        """Return the number for the `place`th parameter that expects one."""
        numbers: Sequence[float] = self.clause.numbers or self.wish.numbers
        return numbers[place] if place < len(numbers) else None


def join_folder(folder: str | None, path: str) -> str:
    """Return the path as an absolute one if the folder is known."""
    if folder is None or path.startswith(("/", "~")):
        return path
    mark = "\\" if "\\" in folder else "/"
    return folder.rstrip(mark) + mark + path


def shell_command(asked: Clause, folder: str | None) -> str:
    """Return a harmless command that fits the clause, or an `echo` that repeats it."""
    for quoted in asked.quoted:
        name, _, rest = quoted.partition(" ")
        if name in BARE_COMMANDS and not rest:
            return quoted
        if rest and name in FILE_COMMANDS | {"echo", "ls"} and _PLAIN_COMMAND.fullmatch(rest) and _is_balanced(rest):
            return quoted
    for word in re.finditer(r"(?<![\w-])[a-z]+(?![\w-])", asked.text):
        if word[0] not in HARMLESS_COMMANDS or (word[0] in FILE_COMMANDS and not asked.files):
            continue
        rest = asked.text[word.end() :].strip(" .!?")
        if word[0] in FILE_COMMANDS:
            return f"{word[0]} {shlex.quote(join_folder(folder, asked.files[0]))}"
        if word[0] != "echo":
            return word[0]
        if rest and not rest.startswith("command") and _PLAIN_COMMAND.fullmatch(rest):
            return f"echo {rest if _is_balanced(rest) else shlex.quote(rest)}"
        return f"echo {shlex.quote(GREETING)}"
    if asked.files and asked.words & READING_VERBS:
        return f"cat {shlex.quote(join_folder(folder, asked.files[0]))}"
    return "ls" if asked.words & {"list", "file", "directory", "folder"} else f"echo {shlex.quote(GREETING)}"


def _is_balanced(words: str) -> bool:
    try:
        shlex.split(words)
    except ValueError:
        return False
    return True
