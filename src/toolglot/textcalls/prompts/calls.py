"""Write calls and results as text."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from string import Template
from typing import Final

from toolglot.ir import ToolCall
from toolglot.textcalls.prompts.escaping import find_misreads
from toolglot.textcalls.prompts.records import ArgumentsForm, Calls, IdForm, Prompt, Result, Results
from toolglot.textcalls.prompts.values import (
    Member,
    braces_value,
    is_json,
    is_valid_tag,
    json_text,
    keyword_argument,
    object_members,
    strings_in,
    type_name,
    xml_elements,
)

_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SHORT_ID: Final = 9
"""Length of Mistral's ids, which consist of letters and digits."""


_TAG_NAME: Final = re.compile(r"[\w.\-/]+")
"""A name that is valid in any tag."""


def write_calls(prompt: Prompt, turn: Sequence[ToolCall], first_index: int) -> tuple[str, list[str]]:
    """Write an answer's calls as the model would have written them. Also returns notes on content that the format
    cannot express.
    """
    if not turn:
        return "", []
    calls = prompt.calls
    notes: list[str] = []
    parts = [_write_call(prompt, call, first_index + place, place + 1, notes) for place, call in enumerate(turn)]
    return f"{calls.before}{calls.between.join(parts)}{calls.after}", notes


def _write_call(prompt: Prompt, call: ToolCall, index: int, number: int, notes: list[str]) -> str:
    calls = prompt.calls
    if "$json_name" not in calls.call and not _TAG_NAME.fullmatch(call.name):
        notes.append(f"the name {call.name!r} may be misread there")
    call_id = _IDS[calls.ids](call.name, call.id, index)
    return Template(calls.call).substitute(
        name=_attribute(call.name) if calls.entities else call.name,
        json_name=json_text(call.name),
        arguments=_write_arguments(prompt, call, notes),
        id=call_id,
        json_id=json_text(call_id),
        index=index,
        number=number,
    )


def write_results(
    results: Results, ids: IdForm, turn: Sequence[Result], safe: Callable[[str], str] = lambda text: text
) -> str:
    """Write the results of one turn; all text from clients and tools is made `safe`. `$number` counts from the first of
    the turn's calls."""
    if not turn:
        return ""
    first = min(result.index for result in turn)
    parts = [_write_result(results, ids, result, result.index - first + 1, safe) for result in turn]
    return f"{results.before}{results.between.join(parts)}{results.after}"


def _write_result(results: Results, ids: IdForm, result: Result, number: int, safe: Callable[[str], str]) -> str:
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


def _short_id(name: str, call_id: str, index: int) -> str:
    """Return the id itself if it has the right shape; otherwise one derived from the call, always the same."""
    if len(call_id) == _SHORT_ID and call_id.isascii() and call_id.isalnum():
        return call_id
    seed = call_id or f"{name}:{index}"
    number = int.from_bytes(hashlib.sha256(seed.encode(errors="surrogatepass")).digest())
    letters = []
    for _ in range(_SHORT_ID):
        number, place = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[place])
    return "".join(letters)


_IDS: dict[IdForm, Callable[[str, str, int], str]] = {
    "given": lambda name, call_id, index: call_id,
    "short": _short_id,
    "functions": lambda name, call_id, index: f"functions.{name}:{index}",
    "counted": lambda name, call_id, index: str(index),
}


def _write_arguments(prompt: Prompt, call: ToolCall, notes: list[str]) -> str:
    """Write the arguments in the format's own way. Invalid JSON stays as the model wrote it."""
    calls = prompt.calls
    arguments = call.arguments
    if not arguments.strip():
        return _BODIES[calls.body](calls, call, [])
    if calls.body == "json":
        if not is_json(arguments):
            notes.append(f"the arguments of {call.name} are not JSON and are written as they are")
        return arguments
    found = object_members(arguments)
    if found is None:
        notes.append(f"the arguments of {call.name} are not a JSON object and are written as they are")
        return arguments
    try:
        written = _BODIES[calls.body](calls, call, found)
    except RecursionError:
        notes.append(f"the arguments of {call.name} are nested too deeply and are written as JSON")
        return arguments
    notes.extend(
        f"{key} of {call.name} {why}"
        for key, raw, value in found
        for why in _find_misreads(prompt, call, (key, raw, value))
    )
    return written


def _find_misreads(prompt: Prompt, call: ToolCall, member: Member) -> Iterator[str]:
    """Yield the parts of the text that a reader would misread."""
    calls = prompt.calls
    key, _, value = member
    if calls.body == "tagged":
        yield from find_misreads(prompt.name, call.name, key, value, _write_parameter(calls, call, member))
    elif calls.body == "elements" and not is_valid_tag(key):
        yield "has a name that cannot be written there"
    elif calls.unquotable and any(calls.unquotable in text for text in strings_in([key, value])):
        yield f"contains {calls.unquotable}, which is markup there"


def _json_body(calls: Calls, call: ToolCall, found: list[Member]) -> str:
    return call.arguments if found else "{}"


def _tagged_body(calls: Calls, call: ToolCall, found: list[Member]) -> str:
    return "".join(_write_parameter(calls, call, member) for member in found)


def _write_parameter(calls: Calls, call: ToolCall, member: Member) -> str:
    key, raw, value = member
    kind = type_name(value)
    template = calls.block if key in calls.block_keys else calls.parameter
    return Template(template).substitute(
        name=call.name,
        key=_attribute(key) if calls.entities else key,
        value=_write_string(calls, value, raw) if kind == "string" else raw,
        type=kind,
        string="true" if kind == "string" else "false",
    )


def _write_string(calls: Calls, value: str, raw: str) -> str:
    if calls.strings == "json":
        return raw
    if calls.strings == "cdata" and any(mark in value for mark in "<&"):
        return f"<![CDATA[{value}]]>"
    return value


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")


def _elements_body(calls: Calls, call: ToolCall, found: list[Member]) -> str:
    prefix = calls.prefix
    return "".join(f"{prefix}<{key}>{xml_elements(value, prefix)}{prefix}</{key}>" for key, _, value in found)


def _python_body(calls: Calls, call: ToolCall, found: list[Member]) -> str:
    return ", ".join(keyword_argument(key, value) for key, _, value in found)


def _braces_body(calls: Calls, call: ToolCall, found: list[Member]) -> str:
    return braces_value({key: value for key, _, value in found}, calls.quote)


_BODIES: dict[ArgumentsForm, Callable[[Calls, ToolCall, list[Member]], str]] = {
    "json": _json_body,
    "tagged": _tagged_body,
    "elements": _elements_body,
    "python": _python_body,
    "braces": _braces_body,
}
