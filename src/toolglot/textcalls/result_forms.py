"""Results that stand as text in a user's turn, read back.

A format's own form is derived from the template by which it is written; the table adds the forms that other clients of
the format write. Results are read from the beginning of a text and only as long as one follows the other: whatever
stands behind them is the user's.
"""

from __future__ import annotations

import re
from functools import lru_cache
from string import Template
from typing import Final

from msgspec import Struct

from toolglot.errors import DecodeError
from toolglot.textcalls.prompts.render import find_prompt
from toolglot.wire import json

ERROR: Final = "Error: "
"""How an error begins in a format that has no form for one."""

_VALUES: Final = {
    "name": r"(?P<name>[^\s<>\[\]\"']{1,200})",
    "json_name": r'"(?P<name>[^"\\\n]{1,200})"',
    "id": r"(?P<id>[^\s<>\[\]\"']{1,200})",
    "json_id": r'"(?P<id>[^"\\\n]{1,200})"',
    "index": r"(?P<index>\d{1,9})",
    "number": r"\d{1,9}",
}
_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)


class Form(Struct, frozen=True):
    """One way to write a result: what comes before its text, and the mark behind it (none: it goes up to the next).

    `quoted`: the text is a JSON string. `tail` is what stands behind the text as a whole.
    """

    head: re.Pattern[str]
    mark: str = ""
    tail: re.Pattern[str] | None = None
    quoted: bool = False
    is_error: bool = False


class Reading(Struct, frozen=True):
    """How a format's results are read: the forms of one, and the wrapping around all of them, which ends with `end`.

    `wrapped`: a form is nothing but a JSON string, which anybody may begin a text with, so that only the wrapping
    tells that it is a result.
    """

    forms: tuple[Form, ...]
    before: re.Pattern[str]
    after: re.Pattern[str]
    end: str = ""
    wrapped: bool = False


class Read(Struct, frozen=True):
    """A result as it was read. `index` counts calls over the conversation, -1 where nothing tells it; `start` is the
    place in the text where the result begins. `endless`: it goes up to the end of the text because its form has no mark
    for its own end, so that a user's words may stand in it.
    """

    text: str
    name: str = ""
    id: str = ""
    index: int = -1
    is_error: bool = False
    start: int = 0
    endless: bool = False


def _form(head: str, mark: str = "", tail: str = "", *, is_error: bool = False) -> Form:
    return Form(re.compile(head), mark, re.compile(tail or re.escape(mark)) if mark else None, is_error=is_error)


def _legacy(prefix: str = "") -> tuple[Form, ...]:
    named = rf"<{prefix}result>\s*(?:<{prefix}tool_name>\s*+(?P<name>[^<>]{{0,200}}?)\s*+</{prefix}tool_name>\s*)?"
    end = rf"\s*(?:</{prefix}result>)?"
    return (
        _form(rf"{named}<{prefix}(?:stdout|output)>\n?", f"</{prefix}stdout>", rf"</{prefix}stdout>{end}"),
        _form(rf"{named}<{prefix}(?:error|stderr)>\n?", f"</{prefix}error>", rf"</{prefix}error>{end}", is_error=True),
        _form(rf"<{prefix}error>\n?", f"</{prefix}error>", is_error=True),
        _form(rf"<{prefix}system>\n?", f"</{prefix}system>", is_error=True),
        _form(rf"<{prefix}result>\n?", f"</{prefix}result>"),
    )


_OTHERS: Final[dict[str, tuple[Form, ...]]] = {
    "anthropic_xml": _legacy(),
    "anthropic_legacy": _legacy(),
    "muse_glimmer": _legacy("atem:"),
    # Cline and its kin say what the call was about: [read_file for 'src/app.py'] Result:
    "cline_xml": (_form(r"\[(?P<name>[\w.-]{1,200})(?: [^\n]{0,2000})?\] Result:[ \t]*\n?"),),
    "qwen3_coder": (_form(r"EXECUTION RESULT of \[(?P<name>[\w.-]{1,200})\]:\n?"),),
}
_ERROR_BEGINNINGS: Final = {"cline_xml": "[ERROR] "}


@lru_cache(maxsize=64)
def reading_of(format_name: str) -> Reading:
    """How the results of a format are read."""
    prompt = find_prompt(format_name)
    results = prompt.results
    own = [_derived(results.error, is_error=True)] if results.error else []
    own.append(_derived(results.result, is_error=False))
    return Reading(
        forms=(*_OTHERS.get(prompt.name, ()), *own),
        before=re.compile(rf"\s*{_loose(results.before)}"),
        after=re.compile(rf"\s*{_loose(results.after)}"),
        end=results.after.strip(),
        wrapped=results.result.startswith("$"),
    )


def _derived(template: str, *, is_error: bool) -> Form:
    """The form that a template writes."""
    place = re.search(r"\$(json_)?text\b", template)
    assert place is not None
    head, tail = template[: place.start()], template[place.end() :]
    mark = re.split(r"\$\w+", tail.strip("\n"))[0]
    return Form(
        head=re.compile(_pattern(head)),
        mark=mark,
        tail=re.compile(_pattern(tail.lstrip("\n"))) if tail else None,
        quoted=place[1] is not None,
        is_error=is_error,
    )


def _pattern(template: str) -> str:
    """A template as a regular expression for what it writes; line breaks may be missing."""
    parts: list[str] = []
    seen: set[str] = set()
    at = 0
    for found in Template.pattern.finditer(template):
        parts.append(_loose(template[at : found.start()]))
        name = found["named"] or found["braced"] or ""
        group = _VALUES[name]
        parts.append(group if name not in seen else r"[^\n]{1,200}?")
        seen.add(name)
        at = found.end()
    return "".join((*parts, _loose(template[at:])))


def _loose(markup: str) -> str:
    return re.escape(markup).replace("\\\n", r"\n?")


def read_results(format_name: str, text: str) -> tuple[list[Read], str]:
    """The results with which a text begins, and the rest of it."""
    reading = reading_of(format_name)
    begun = reading.before.match(text)
    if begun is None and reading.wrapped:
        return [], text
    at = begun.end() if begun else 0
    found: list[Read] = []
    end = 0
    beginning = _ERROR_BEGINNINGS.get(format_name, ERROR)
    while (one := _next(reading, text, at)) is not None:
        form, head, value, at = one
        is_error = form.is_error or value.startswith(beginning)
        groups = head.groupdict()
        found.append(
            Read(
                text=value.removeprefix(beginning) if is_error else value,
                name=groups.get("name") or "",
                id=groups.get("id") or "",
                index=int(groups["index"]) if groups.get("index") else -1,
                is_error=is_error,
                start=head.start(),
                endless=not form.mark and not form.quoted and at == len(text),
            )
        )
        end = at
    if not found:
        return [], text
    closed = reading.after.match(text, end)
    if closed is None and reading.wrapped:
        return [], text
    return found, text[closed.end() if closed else end :]


_SPACE = re.compile(r"\s*,?\s*")


def _next(reading: Reading, text: str, at: int) -> tuple[Form, re.Match[str], str, int] | None:
    """The result that begins here, behind white space: its form, its head, its text, and where it ends."""
    space = _SPACE.match(text, at)
    start = space.end() if space else at
    for form in reading.forms:
        head = form.head.match(text, start)
        if head is None:
            continue
        ended = _quoted(form, text, head.end()) if form.quoted else _raw(form, reading, text, head.end())
        if ended is not None:
            return form, head, *ended
    return None


def _quoted(form: Form, text: str, at: int) -> tuple[str, int] | None:
    string = _STRING.match(text, at)
    tail = form.tail.match(text, string.end()) if string and form.tail else None
    if string is None or (form.tail is not None and tail is None):
        return None
    try:
        value = json.decode_frame(string[0].encode("utf-8", "surrogatepass"))
    except DecodeError:  # a line break or an escape that JSON has not: it is a text that begins with a quote
        return None
    return str(value), tail.end() if tail else string.end()


def _raw(form: Form, reading: Reading, text: str, at: int) -> tuple[str, int] | None:
    """Text up to the mark behind it, or else to the next head at the beginning of a line or the end of all results."""
    if form.mark:
        place = text.find(form.mark, at)
        if place < 0 or form.tail is None:
            return None
        tail = form.tail.match(text, place)
        return (text[at:place].removesuffix("\n"), tail.end()) if tail else None
    end = text.find(reading.end, at) if reading.end else -1
    end = len(text) if end < 0 else end
    line = text.find("\n", at, end)
    while line >= 0:
        if any(other.head.match(text, line + 1) for other in reading.forms):
            return text[at:line].rstrip("\n"), line
        line = text.find("\n", line + 1, end)
    return text[at:end].removesuffix("\n") if end < len(text) else text[at:], end
