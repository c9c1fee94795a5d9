"""Parse a wish by rules: its clauses, their words, and the values in them."""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

_QUOTED = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"|“([^”\n]+)”|(?<!\w)'([^'\n]+)'(?!\w)")
_URL = re.compile(r"https?://[^\s<>\"'`]+[^\s<>\"'`.,;:!?)]")
_FILE = re.compile(r"(?<![\w/:.-])(?:~?/[\w.@/-]*[\w/]|(?:[\w@-][\w.@-]*/)*[\w@-][\w@.-]*\.[A-Za-z][A-Za-z0-9]{0,7})\b")
_NUMBER = re.compile(r"(?<![\w./:-])-?\d+(?:\.\d+)?(?![\w/:-])")
_ARITHMETIC = re.compile(r"-?\d[\d.]*(?:\s*[-+*/\u00d7\u00f7^%]\s*-?\d[\d.]*)+")
_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
_WORD = re.compile(r"[^\W\d_][\w'-]*", re.UNICODE)
_CUT = re.compile(
    r"`[^`\n]*`|\"[^\"\n]*\"|“[^”\n]*”|https?://\S+"  # nothing is split inside of these
    r"|(?P<cut>[.!?;:](?=\s|$)|\n+|,?\s+(?:and|(?P<then>then)|also|as well as)\s+(?!\d)|,(?=\s))",
    re.IGNORECASE,
)
_THEN = re.compile(r"^[\s,]*(?:and\s+)?then\b", re.IGNORECASE)
_ENCLOSED = re.compile(r",\s+[^\W\d_][\w.]*\s*(?:[.!?]|$)")
"""`, CA?`: a second name that ends a sentence belongs to the first one, like a state or country."""
_NEGATED = re.compile(r"\b(?:no|not|never|without|don'?t|doesn'?t)\b", re.IGNORECASE)
_AFTER = re.compile(r"\b(?:in|at|for|near|from|named|called)\s+([^\W\d_][\w'-]*)", re.IGNORECASE)

_SUBJECT = re.compile(r"\W*$|\s+(?:is|was|has|had|lives|likes|works|wants)\b")
_APOSTROPHE = "\u2019"

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")

PLAIN_WORDS = frozenset(
    """a an the this that these those it its is are was be been do does did can could would will should shall may might
    i me my we us our you your he she they them there here what which who whom whose when where why how and or but not
    no yes so then also too as well if in at on of for from to into with without by about near per than again
    please kindly just now today tomorrow right both each all any some other another one two several
    use using tool tools call function functions get give tell let make want need like help try
    report summarize summarise summary answer say thank thanks hello hi hey ok okay first second next finally
    """.split()  # noqa: SIM905 - prose reads best as prose
)
"""Words that do not indicate a tool."""


class Clause(Struct, frozen=True, kw_only=True):
    """A part of the wish that asks for one thing. `is_value`: it only names another value for the previous clause."""

    text: str
    words: frozenset[str] = frozenset()
    quoted: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    numbers: tuple[float, ...] = ()
    arithmetic: str | None = None
    names: tuple[str, ...] = ()
    is_value: bool = False
    is_negated: bool = False
    step: int = 0
    """Number of times that the wish has said "then" before this clause."""


def stem(word: str) -> str:
    """Strip the plural and -ing from a word: crude, but the same on both sides of a comparison."""
    word = word.lower().removesuffix("'s")
    for suffix, end in (("ies", "y"), ("ing", ""), ("ss", "ss"), ("s", "")):
        if word.endswith(suffix) and len(word) - len(suffix) >= 2:
            return word.removesuffix(suffix) + end
    return word


def words_of(text: str) -> frozenset[str]:
    """Return the significant words of a text or an identifier: `getLocalTime`, `local_time` and "Local times" are
    equal."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", text)
    return frozenset(stem(word) for word in _WORD.findall(parted) if word.lower() not in PLAIN_WORDS)


def split_clauses(wish: str) -> tuple[Clause, ...]:
    """Split the wish at sentence ends, commas and conjunctions."""
    wish = wish.replace(_APOSTROPHE, "'")
    parts: list[tuple[str, bool]] = []
    start, begins = 0, True
    for match in _CUT.finditer(wish):
        cut = match["cut"]
        if cut is None or (cut == "," and _is_enclosed(wish, match.start())):
            continue
        parts.append((wish[start : match.start()], begins))
        # The clause keeps its "then", which means that it waits for the earlier clauses.
        start = match.start("then") if match["then"] else match.end()
        begins = cut[0] in ".!?;:\n"
    parts.append((wish[start:], begins))
    step, found = 0, []
    for part, begins in parts:
        text = _THEN.sub("", part)
        step += text != part
        if text.strip(" ,"):
            found.append(replace(parse_clause(text.strip(" ,"), begins=begins and text == part), step=step))
    return tuple(found)


def _is_enclosed(wish: str, comma: int) -> bool:
    rest = _ENCLOSED.match(wish, comma)
    before = _WORD.findall(wish[max(comma - 40, 0) : comma])
    return bool(rest and before and before[-1][0].isupper() and wish[comma + 1 :].lstrip()[0].isupper())


def parse_clause(text: str, *, begins: bool = True) -> Clause:
    """Parse one clause. `begins`: it starts a sentence, where the first word is always capitalized."""
    text = text.replace(_APOSTROPHE, "'")
    quoted = tuple(next(filter(None, match.groups())) for match in _QUOTED.finditer(text))
    plain = _QUOTED.sub(" ", text)
    urls = tuple(_URL.findall(plain))
    files = tuple(_FILE.findall(_URL.sub(" ", plain))) + tuple(part for part in quoted if _FILE.fullmatch(part))
    prose = _FILE.sub(" ", _URL.sub(" ", plain))
    arithmetic = _ARITHMETIC.search(prose)
    names = _find_names(prose, begins)
    words = words_of(text)
    if any(file.lower().endswith(IMAGE_SUFFIXES) for file in files):
        words |= {"image"}
    has_value = bool(quoted or files or urls or names)
    named = {word for name in names for word in _WORD.findall(name)}
    others = [word for word in _WORD.findall(prose) if word not in named and word.lower() not in PLAIN_WORDS]
    return Clause(
        text=text,
        words=words,
        quoted=quoted,
        files=files,
        urls=urls,
        dates=tuple(_DATE.findall(prose)),
        numbers=tuple(float(number) for number in _NUMBER.findall(_DATE.sub(" ", prose))),
        arithmetic=arithmetic[0] if arithmetic else None,
        names=names or _names_after_preposition(prose),
        is_value=has_value and not others,
        is_negated=_NEGATED.search(prose) is not None,
    )


def _find_names(prose: str, begins: bool) -> tuple[str, ...]:
    """Find runs of capitalized words, ignoring the capital letter at the start of a sentence."""
    runs: list[list[re.Match[str]]] = []
    for word in _WORD.finditer(prose):
        if not word[0][0].isupper() or word[0].partition("'")[0] == "I":
            continue
        if runs and prose[runs[-1][-1].end() : word.start()] in (" ", ", ", ". "):
            runs[-1].append(word)
        else:
            runs.append([word])
    first = _WORD.search(prose)
    if begins and first and runs and runs[0][0].start() == first.start() and not _is_subject(prose, first):
        runs = [run for run in (runs[0][1:], *runs[1:]) if run]
    return tuple(prose[run[0].start() : run[-1].end()].removesuffix("'s") for run in runs)


def _is_subject(prose: str, first: re.Match[str]) -> bool:
    """Return whether the first word of a sentence is a name: it is alone, or is the subject of the sentence."""
    return first[0].lower() not in PLAIN_WORDS and _SUBJECT.match(prose, first.end()) is not None


def _names_after_preposition(prose: str) -> tuple[str, ...]:
    """Find names after prepositions, which may lack capital letters: "weather in paris"."""
    return tuple(word for word in _AFTER.findall(prose) if word.lower() not in PLAIN_WORDS)
