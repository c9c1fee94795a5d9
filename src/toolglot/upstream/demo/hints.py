"""Which words of a wish a parameter may want, judged by its name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from msgspec import Struct

from toolglot.upstream.demo.wording import Clause, clause, words_of

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
"""Kinds of values, and the words in a parameter's name that ask for them; the first that fits counts."""

FALLBACKS = {
    "url": "https://example.com/",
    "path": "README.md",
    "pattern": "README",
    "place": "Paris",
    "date": "2025-01-01",
    "arithmetic": "2 + 2",
}
"""What stands in for a value that the wish does not have."""

BARE = frozenset({"ls", "pwd", "date", "whoami", "uname"})
NEED_FILE = frozenset({"cat", "head", "wc"})
HARMLESS = BARE | NEED_FILE | {"echo"}
"""Commands that change nothing, as they are written here. No other is ever asked for, whatever the wish says."""
_PLAIN_COMMAND = re.compile(r"[\w ./,:@=+'\"-]*")
"""Nothing that a shell would read as more than words."""
READING = frozenset({"read", "open", "show", "cat", "view", "print"})
GREETING = "hello from the demo upstream"


def kind_of(name: str) -> str | None:
    """The kind of value that a parameter of this name wants."""
    words = words_of(name)
    raw = {name.lower(), *name.lower().split("_")}
    return next((kind for kind, known in KINDS if known & (words | raw)), None)


class Hints(Struct, frozen=True, kw_only=True):
    """The values for one call: from its own clause first, then from the rest of the wish."""

    clause: Clause
    wish: Clause
    folder: str | None = None

    @classmethod
    def of_text(cls, text: str) -> Hints:
        whole = clause(text)
        return cls(clause=whole, wish=whole)

    def found(self, name: str) -> tuple[str, ...]:
        """The values that the wish has for this parameter, the best first."""
        match kind_of(name):
            case "command":
                return (shell_command(self.clause, self.folder),)
            case "folder":
                return (self.folder or ".",)
            case "path":
                return tuple(below(self.folder, file) for file in self.clause.files or self.wish.files)
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
        """A value for a parameter about which the wish says nothing."""
        kind = kind_of(name)
        if kind == "path":
            return below(self.folder, FALLBACKS["path"])
        return FALLBACKS.get(kind or "", f"demo {name}".strip())

    def mentions(self, value: str) -> bool:
        """The wish has this word."""
        return bool(value) and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", self.wish.text, re.IGNORECASE) is not None

    def number(self, place: int) -> float | None:
        """The number for the parameter that is the `place`th to want one."""
        numbers: Sequence[float] = self.clause.numbers or self.wish.numbers
        return numbers[place] if place < len(numbers) else None


def below(folder: str | None, path: str) -> str:
    """A path as it is seen from the root, where the folder is known."""
    if folder is None or path.startswith(("/", "~")):
        return path
    mark = "\\" if "\\" in folder else "/"
    return folder.rstrip(mark) + mark + path


def shell_command(asked: Clause, folder: str | None) -> str:
    """A harmless command that does what the clause asks for, or says that it was asked."""
    for quoted in asked.quoted:
        name, _, rest = quoted.partition(" ")
        if name in BARE and not rest:
            return quoted
        if rest and name in NEED_FILE | {"echo", "ls"} and _PLAIN_COMMAND.fullmatch(rest) and _is_balanced(rest):
            return quoted
    for word in re.finditer(r"(?<![\w-])[a-z]+(?![\w-])", asked.text):
        if word[0] not in HARMLESS or (word[0] in NEED_FILE and not asked.files):
            continue
        rest = asked.text[word.end() :].strip(" .!?")
        if word[0] in NEED_FILE:
            return f"{word[0]} {shlex.quote(below(folder, asked.files[0]))}"
        if word[0] != "echo":
            return word[0]
        if rest and not rest.startswith("command") and _PLAIN_COMMAND.fullmatch(rest):
            return f"echo {rest if _is_balanced(rest) else shlex.quote(rest)}"
        return f"echo {shlex.quote(GREETING)}"
    if asked.files and asked.words & READING:
        return f"cat {shlex.quote(below(folder, asked.files[0]))}"
    return "ls" if asked.words & {"list", "file", "directory", "folder"} else f"echo {shlex.quote(GREETING)}"


def _is_balanced(words: str) -> bool:
    try:
        shlex.split(words)
    except ValueError:
        return False
    return True
