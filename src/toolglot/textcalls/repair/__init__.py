"""Repair broken JSON: return the intended value or an error, never a guess.

The steps: strict JSON; JSON inside a JSON string; a tolerant reader that ignores fences or prose around the object. A
repair with only one possible reading is accepted. Repairs that allow another reading are accepted only if the value
matches the schema, if there is one.
"""

from __future__ import annotations

import json
import re
from typing import Any

from toolglot.textcalls.argument_problems import find_argument_problems, unknown_properties
from toolglot.textcalls.events import WorkBudget
from toolglot.textcalls.repair.errors import RepairError
from toolglot.textcalls.repair.reader import AMBIGUOUS_REPAIRS, TolerantReader

__all__ = ["RepairError", "repair_arguments", "repair_document", "repair_document_with_report", "repair_with_report"]

_BLANK = "\ufeff\u200b \t\r\n\f\v\u00a0"
_END_TAGS = re.compile(r"\s*(?:</[\w:.|\uff5c\u2581-]{1,80}>|<[|\uff5c/][^<>\s]{1,80}>)\Z")
_ESCAPED = re.compile(r'[{\[]\s*\\"')
_PLACEHOLDER = re.compile(r"\{\{?\s*\w+\s*\}?\}")
_AFTER_KEY = re.compile(r"[\"'\u201d]\s*:\s*\Z")
_FENCE_LINE = re.compile(r"`{3,}+[\w+-]*+[ \t]*+\r?\n")
_FENCE_OPEN = re.compile(r"\s*`{3,}[\w+-]*\s*\Z|\s*~{3,}[\w+-]*\s*\Z")
_EXTRA = re.compile(r"(?:\s*[}\]]|(?!)){1,8}+(?!\s*[}\]])")
_QUIET_TAIL = re.compile(r"[\s;)`~]*+\Z|\s*(?:</?[\w:.|\uff5c\u2581-]{1,80}>|<[|\uff5c/][^<>\s]{1,80}>)")
_ANY_STRUCTURE = re.compile(r"[{}]|[\"'\u201d]\s*:")
_MAX_ENCODINGS = 3


def repair_arguments(text: str, schema: Any = None) -> Any:
    """Return the arguments object that `text` represents. `schema` is the tool's JSON Schema. Raises `RepairError` if
    the text is ambiguous.
    """
    return repair_with_report(text, schema)[0]


def repair_with_report(text: str, schema: Any = None, work: WorkBudget | None = None) -> tuple[Any, str]:
    """Return the arguments and a short description of the repair; empty for valid JSON. `work`: the remaining budget
    of the answer that contains the text."""
    value, damages = _repair(text, "{", schema, work)
    if not isinstance(value, dict):
        raise RepairError("the arguments are not a JSON object")
    if schema is not None and not AMBIGUOUS_REPAIRS.isdisjoint(damages):
        problems = find_argument_problems(value, schema) or unknown_properties(value, schema)
        if problems:
            raise RepairError(f"repaired ({', '.join(damages)}), but then {problems[0]}")
    return value, ", ".join(damages)


def repair_document(text: str, work: WorkBudget | None = None) -> Any:
    """Return the object or array that `text` represents. Raises `RepairError` if the text is ambiguous."""
    return repair_document_with_report(text, work)[0]


def repair_document_with_report(text: str, work: WorkBudget | None = None) -> tuple[Any, str]:
    """Return the object or array and a short description of the repair; empty for valid JSON."""
    value, damages = _repair(text, "{[", None, work)
    if not isinstance(value, (dict, list)):
        raise RepairError("the text is not a JSON object or array")
    return value, ", ".join(damages)


def _repair(text: str, openers: str, schema: Any, work: WorkBudget | None) -> tuple[Any, dict[str, None]]:
    damages: dict[str, None] = {}
    for _ in range(_MAX_ENCODINGS):
        found, value = _parse_strict(text)
        if not found:
            break
        if not isinstance(value, str):
            return value, damages
        damages["encoded twice"] = None
        text = value
    return _parse_tolerant(text, openers, schema, damages, work)


def _no_constant(name: str) -> Any:
    raise RepairError(f"JSON has no {name}")


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise RepairError(f"the number {digits[:20]} is too large")
    return number


def _parse_strict(text: str) -> tuple[bool, Any]:
    try:
        return True, json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except RepairError:
        raise
    except (ValueError, RecursionError):
        # ValueError is also raised for integers with more digits than Python converts; deep nesting is left to the
        # reader.
        return False, None


def _parse_tolerant(
    text: str, openers: str, schema: Any, damages: dict[str, None], work: WorkBudget | None
) -> tuple[Any, dict[str, None]]:
    body = text.strip(_BLANK)
    fence = _FENCE_LINE.match(body)
    if fence and body.endswith("```"):
        body = body[fence.end() :].rstrip("`").strip(_BLANK)
        damages["a code fence"] = None
    stripped = _without_end_tags(body)
    if stripped != body:
        damages["a stray end tag"] = None
    start = _start(stripped, openers)
    prefix = stripped[:start]
    if _ESCAPED.match(stripped, start):
        stripped, start = _unescape(stripped, start), 0
        damages["encoded twice"] = None
    reader = TolerantReader(stripped, schema, work)
    value, end = reader.read(start)
    damages.update(reader.damages)
    _check_around(prefix, stripped[end:], damages)
    # The text here failed as strict JSON only because of invisible characters around it.
    return value, damages or {"invisible characters": None}


def _without_end_tags(text: str) -> str:
    """Remove end tags after the value, which belong to the markup around the call. A tag at the end of an open string
    is removed, too; such a string is then refused, or ends in the brackets that close the value."""
    for _ in range(8):
        at = max(text.rfind("</"), text.rfind("<|"), text.rfind("<\uff5c"))
        match = _END_TAGS.match(text, len(text[:at].rstrip())) if at > 0 and len(text) - at < 100 else None
        if match is None:
            break
        text = text[: match.start()]
    return text


def _start(text: str, openers: str) -> int:
    for match in re.finditer(r"[{\[]", text):
        at = match.start()
        if text[at] not in openers or (at and _PLACEHOLDER.match(text, at)):
            if at == 0:
                break
            continue
        return at
    raise RepairError("there is no JSON object in the text" if text else "the text is empty")


def _unescape(text: str, start: int) -> str:
    end = max(text.rfind("}"), text.rfind("]")) + 1
    if text[:start].strip('"') or text[end:].strip('"'):
        raise RepairError("quotes are escaped, but the text is not a JSON string")
    try:
        value = json.loads(f'"{text[start:end]}"', strict=False)
    except ValueError as problem:
        raise RepairError("some quotes are escaped, others are not") from problem
    return str(value)


def _check_around(prefix: str, suffix: str, damages: dict[str, None]) -> None:
    """Check that only a fence, prose, tags or stray brackets surround the value, never a part of it."""
    if prefix.strip() == suffix.strip() == '"':
        damages["encoded twice"] = None
        return
    fenced = not prefix.strip() or _FENCE_OPEN.match(prefix) is not None
    if not fenced and (
        _AFTER_KEY.search(prefix) or prefix.strip()[0] in "\"'\u201c," or "}" in _PLACEHOLDER.sub("", prefix)
    ):
        raise RepairError("a part of the value may be before its opening bracket")
    extra = _EXTRA.match(suffix)
    if extra:
        if not fenced:
            raise RepairError("brackets are closed that were opened outside of the value")
        damages["stray brackets"] = None
        suffix = suffix[extra.end() :]
    if prefix.strip() or suffix.strip(_BLANK + "`~"):
        damages["a code fence" if fenced and not suffix.strip(_BLANK + "`~") else "text around"] = None
    if _QUIET_TAIL.match(suffix) and not _ANY_STRUCTURE.search(suffix):
        return
    if not suffix[:1].isspace() or _ANY_STRUCTURE.search(suffix) or suffix.strip()[0] in ",:\"'\u201c]":
        raise RepairError("a part of the value may follow its closing bracket")
