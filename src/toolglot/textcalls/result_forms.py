"""Read results that are text in a user's turn.

A format's own form is derived from the template that writes it; the table adds the forms of other clients. Consecutive
results are read from the beginning of a text. The text after them is the user's.
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

ERROR_PREFIX: Final = "Error: "
"""Prefix of an error in a format without a form for errors."""

_VALUES: Final = {
    "name": r"(?P<name>[^\s<>\[\]\"']{1,200})",
    "json_name": r'"(?P<name>[^"\\\n]{1,200})"',
    "id": r"(?P<id>[^\s<>\[\]\"']{1,200})",
    "json_id": r'"(?P<id>[^"\\\n]{1,200})"',
    "index": r"(?P<index>\d{1,9})",
    "number": r"\d{1,9}",
}
_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)


class ResultForm(Struct, frozen=True):
    """One way to write a result: the text before it, and the mark after it (without one, it extends to the next
    result). `quoted`: the text is a JSON string. `tail` is the text after it.
    """

    head: re.Pattern[str]
    mark: str = ""
    tail: re.Pattern[str] | None = None
    quoted: bool = False
    is_error: bool = False


class ResultSyntax(Struct, frozen=True):
    """The syntax of a format's results: the forms of one result, and the wrapper around all of them, which ends with
    `end`. `wrapped`: a form is only a JSON string, and any text may begin with one, so only the wrapper identifies a
    result.
    """

    forms: tuple[ResultForm, ...]
    before: re.Pattern[str]
    after: re.Pattern[str]
    end: str = ""
    wrapped: bool = False


class ReadResult(Struct, frozen=True):
    """A parsed result. `index` counts calls over the conversation, -1 if unknown; `start` is the start of the result in
    the text. `endless`: it extends to the end of the text because its form has no end mark, so it may include a user's
    words.
    """

    text: str
    name: str = ""
    id: str = ""
    index: int = -1
    is_error: bool = False
    start: int = 0
    endless: bool = False


def _make_form(head: str, mark: str = "", tail: str = "", *, is_error: bool = False) -> ResultForm:
    return ResultForm(re.compile(head), mark, re.compile(tail or re.escape(mark)) if mark else None, is_error=is_error)


def _legacy_forms(prefix: str = "") -> tuple[ResultForm, ...]:
    named = rf"<{prefix}result>\s*(?:<{prefix}tool_name>\s*+(?P<name>[^<>]{{0,200}}?)\s*+</{prefix}tool_name>\s*)?"
    end = rf"\s*(?:</{prefix}result>)?"
    return (
        _make_form(rf"{named}<{prefix}(?:stdout|output)>\n?", f"</{prefix}stdout>", rf"</{prefix}stdout>{end}"),
        _make_form(
            rf"{named}<{prefix}(?:error|stderr)>\n?", f"</{prefix}error>", rf"</{prefix}error>{end}", is_error=True
        ),
        _make_form(rf"<{prefix}error>\n?", f"</{prefix}error>", is_error=True),
        _make_form(rf"<{prefix}system>\n?", f"</{prefix}system>", is_error=True),
        _make_form(rf"<{prefix}result>\n?", f"</{prefix}result>"),
    )


_OTHER_FORMS: Final[dict[str, tuple[ResultForm, ...]]] = {
    "anthropic_xml": _legacy_forms(),
    "anthropic_legacy": _legacy_forms(),
    "muse_glimmer": _legacy_forms("atem:"),
    # Cline and its derivatives include the subject of the call: [read_file for 'src/app.py'] Result:
    "cline_xml": (_make_form(r"\[(?P<name>[\w.-]{1,200})(?: [^\n]{0,2000})?\] Result:[ \t]*\n?"),),
    "qwen3_coder": (_make_form(r"EXECUTION RESULT of \[(?P<name>[\w.-]{1,200})\]:\n?"),),
}
_ERROR_BEGINNINGS: Final = {"cline_xml": "[ERROR] "}


@lru_cache(maxsize=64)
def result_syntax(format_name: str) -> ResultSyntax:
    """Return the syntax of a format's results."""
    prompt = find_prompt(format_name)
    results = prompt.results
    own = [_form_of_template(results.error, is_error=True)] if results.error else []
    own.append(_form_of_template(results.result, is_error=False))
    return ResultSyntax(
        forms=(*_OTHER_FORMS.get(prompt.name, ()), *own),
        before=re.compile(rf"\s*{_loose_markup(results.before)}"),
        after=re.compile(rf"\s*{_loose_markup(results.after)}"),
        end=results.after.strip(),
        wrapped=results.result.startswith("$"),
    )


def _form_of_template(template: str, *, is_error: bool) -> ResultForm:
    """Return the result form of a template."""
    place = re.search(r"\$(json_)?text\b", template)
    assert place is not None
    head, tail = template[: place.start()], template[place.end() :]
    mark = re.split(r"\$\w+", tail.strip("\n"))[0]
    return ResultForm(
        head=re.compile(_template_pattern(head)),
        mark=mark,
        tail=re.compile(_template_pattern(tail.lstrip("\n"))) if tail else None,
        quoted=place[1] is not None,
        is_error=is_error,
    )


def _template_pattern(template: str) -> str:
    """Convert a template to a regular expression for its output; line breaks may be missing."""
    parts: list[str] = []
    seen: set[str] = set()
    at = 0
    for found in Template.pattern.finditer(template):
        parts.append(_loose_markup(template[at : found.start()]))
        name = found["named"] or found["braced"] or ""
        group = _VALUES[name]
        parts.append(group if name not in seen else r"[^\n]{1,200}?")
        seen.add(name)
        at = found.end()
    return "".join((*parts, _loose_markup(template[at:])))


def _loose_markup(markup: str) -> str:
    return re.escape(markup).replace("\\\n", r"\n?")


def read_results(format_name: str, text: str) -> tuple[list[ReadResult], str]:
    """Return the results at the beginning of a text, and the rest of it."""
    reading = result_syntax(format_name)
    begun = reading.before.match(text)
    if begun is None and reading.wrapped:
        return [], text
    at = begun.end() if begun else 0
    found: list[ReadResult] = []
    end = 0
    beginning = _ERROR_BEGINNINGS.get(format_name, ERROR_PREFIX)
    while (one := _next_result(reading, text, at)) is not None:
        form, head, value, at = one
        is_error = form.is_error or value.startswith(beginning)
        groups = head.groupdict()
        found.append(
            ReadResult(
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


def _next_result(reading: ResultSyntax, text: str, at: int) -> tuple[ResultForm, re.Match[str], str, int] | None:
    """Return the result that begins here, after white space: its form, its head, its text, and its end."""
    space = _SPACE.match(text, at)
    start = space.end() if space else at
    for form in reading.forms:
        head = form.head.match(text, start)
        if head is None:
            continue
        ended = _read_quoted(form, text, head.end()) if form.quoted else _read_raw(form, reading, text, head.end())
        if ended is not None:
            return form, head, *ended
    return None


def _read_quoted(form: ResultForm, text: str, at: int) -> tuple[str, int] | None:
    string = _STRING.match(text, at)
    tail = form.tail.match(text, string.end()) if string and form.tail else None
    if string is None or (form.tail is not None and tail is None):
        return None
    try:
        value = json.decode_frame(string[0].encode("utf-8", "surrogatepass"))
    except DecodeError:  # a line break or an escape that JSON does not have: a text that begins with a quote
        return None
    return str(value), tail.end() if tail else string.end()


def _read_raw(form: ResultForm, reading: ResultSyntax, text: str, at: int) -> tuple[str, int] | None:
    """Read text up to its end mark, or to the next head at the beginning of a line, or to the end of all results."""
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
