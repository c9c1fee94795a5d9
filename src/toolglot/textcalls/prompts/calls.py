"""Calls and results as text."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from string import Template
from typing import Final

from toolglot.ir import ToolCall
from toolglot.textcalls.prompts.holding import misread
from toolglot.textcalls.prompts.records import Body, Calls, Ids, Prompt, Result, Results
from toolglot.textcalls.prompts.values import (
    Member,
    braces_value,
    elements,
    is_json,
    is_tag,
    json_text,
    keyword,
    members,
    strings_in,
    type_name,
)

_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SHORT: Final = 9
"""The length of Mistral's ids, which are letters and digits."""


_NAME: Final = re.compile(r"[\w.\-/]+")
"""A name that can stand in any tag."""


def written_calls(prompt: Prompt, turn: Sequence[ToolCall], first_index: int) -> tuple[str, list[str]]:
    """An answer's calls as the model would have written them, and what its format could not hold."""
    if not turn:
        return "", []
    calls = prompt.calls
    notes: list[str] = []
    parts = [_call(prompt, call, first_index + place, place + 1, notes) for place, call in enumerate(turn)]
    return f"{calls.before}{calls.between.join(parts)}{calls.after}", notes


def _call(prompt: Prompt, call: ToolCall, index: int, number: int, notes: list[str]) -> str:
    calls = prompt.calls
    if "$json_name" not in calls.call and not _NAME.fullmatch(call.name):
        notes.append(f"the name {call.name!r} may be misread there")
    call_id = _IDS[calls.ids](call.name, call.id, index)
    return Template(calls.call).substitute(
        name=_attribute(call.name) if calls.entities else call.name,
        json_name=json_text(call.name),
        arguments=_arguments(prompt, call, notes),
        id=call_id,
        json_id=json_text(call_id),
        index=index,
        number=number,
    )


def written_results(
    results: Results, ids: Ids, turn: Sequence[Result], safe: Callable[[str], str] = lambda text: text
) -> str:
    """The results of one turn, all that clients and tools give to them made `safe`. `$number` counts from the first of
    the turn's calls."""
    if not turn:
        return ""
    first = min(result.index for result in turn)
    parts = [_result(results, ids, result, result.index - first + 1, safe) for result in turn]
    return f"{results.before}{results.between.join(parts)}{results.after}"


def _result(results: Results, ids: Ids, result: Result, number: int, safe: Callable[[str], str]) -> str:
    name, call_id = safe(result.name), safe(_IDS[ids](result.name, result.id, result.index))
    own_error = result.is_error and bool(results.error)
    told = safe(result.text)
    text = f"Error: {told}" if result.is_error and not own_error else told
    return Template(results.error if own_error else results.result).substitute(
        name=name,
        json_name=json_text(name),
        id=call_id,
        json_id=json_text(call_id),
        index=result.index,
        number=number,
        text=text,
        json_text=json_text(text),
    )


def _short(name: str, call_id: str, index: int) -> str:
    """The id itself where it has the shape; else one that always comes out the same for the same call."""
    if len(call_id) == _SHORT and call_id.isascii() and call_id.isalnum():
        return call_id
    seed = call_id or f"{name}:{index}"
    number = int.from_bytes(hashlib.sha256(seed.encode(errors="surrogatepass")).digest())
    letters = []
    for _ in range(_SHORT):
        number, place = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[place])
    return "".join(letters)


_IDS: dict[Ids, Callable[[str, str, int], str]] = {
    "given": lambda name, call_id, index: call_id,
    "short": _short,
    "functions": lambda name, call_id, index: f"functions.{name}:{index}",
    "counted": lambda name, call_id, index: str(index),
}


def _arguments(prompt: Prompt, call: ToolCall, notes: list[str]) -> str:
    """The arguments in the format's own way. What is no JSON stays as it is: it is what the model wrote."""
    calls = prompt.calls
    arguments = call.arguments
    if not arguments.strip():
        return _BODIES[calls.body](calls, call, [])
    if calls.body == "json":
        if not is_json(arguments):
            notes.append(f"the arguments of {call.name} are not JSON and are written as they are")
        return arguments
    found = members(arguments)
    if found is None:
        notes.append(f"the arguments of {call.name} are not a JSON object and are written as they are")
        return arguments
    try:
        written = _BODIES[calls.body](calls, call, found)
    except RecursionError:
        notes.append(f"the arguments of {call.name} are nested too deeply and are written as JSON")
        return arguments
    notes.extend(
        f"{key} of {call.name} {why}" for key, raw, value in found for why in _misread(prompt, call, (key, raw, value))
    )
    return written


def _misread(prompt: Prompt, call: ToolCall, member: Member) -> Iterator[str]:
    """What a reader of the text would take for something else."""
    calls = prompt.calls
    key, _, value = member
    if calls.body == "tagged":
        yield from misread(prompt.name, call.name, key, value, _parameter(calls, call, member))
    elif calls.body == "elements" and not is_tag(key):
        yield "has a name that cannot be written there"
    elif calls.unquotable and any(calls.unquotable in text for text in strings_in([key, value])):
        yield f"contains {calls.unquotable}, which is markup there"


def _json_body(calls: Calls, call: ToolCall, found: list[Member]) -> str:
    return call.arguments if found else "{}"


def _tagged_body(calls: Calls, call: ToolCall, found: list[Member]) -> str:
    return "".join(_parameter(calls, call, member) for member in found)


def _parameter(calls: Calls, call: ToolCall, member: Member) -> str:
    key, raw, value = member
    kind = type_name(value)
    template = calls.block if key in calls.block_keys else calls.parameter
    return Template(template).substitute(
        name=call.name,
        key=_attribute(key) if calls.entities else key,
        value=_string(calls, value, raw) if kind == "string" else raw,
        type=kind,
        string="true" if kind == "string" else "false",
    )


def _string(calls: Calls, value: str, raw: str) -> str:
    if calls.strings == "json":
        return raw
    if calls.strings == "cdata" and any(mark in value for mark in "<&"):
        return f"<![CDATA[{value}]]>"
    return value


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")


def _elements_body(calls: Calls, call: ToolCall, found: list[Member]) -> str:
    prefix = calls.prefix
    return "".join(f"{prefix}<{key}>{elements(value, prefix)}{prefix}</{key}>" for key, _, value in found)


def _python_body(calls: Calls, call: ToolCall, found: list[Member]) -> str:
    return ", ".join(keyword(key, value) for key, _, value in found)


def _braces_body(calls: Calls, call: ToolCall, found: list[Member]) -> str:
    return braces_value({key: value for key, _, value in found}, calls.quote)


_BODIES: dict[Body, Callable[[Calls, ToolCall, list[Member]], str]] = {
    "json": _json_body,
    "tagged": _tagged_body,
    "elements": _elements_body,
    "python": _python_body,
    "braces": _braces_body,
}
