"""The members of one envelope, and the call that they make."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from toolglot.textcalls.arguments import CallArguments
from toolglot.textcalls.body import OpenedCall
from toolglot.textcalls.events import RawText
from toolglot.textcalls.grammar import CallSyntax
from toolglot.textcalls.json_names import MAX_STRING
from toolglot.textcalls.schemas import known_keys

TOO_LONG: Final = "…"
CALL_TYPES: Final = ('"function"', '"tool"', '"tool_call"', '"tool_use"', '"function_call"')
"""Values of `type` that mark a call, regardless of the tool's declaration."""


class OtherValue:
    """The JSON text of another key's value. Beside arguments, only a short one is kept."""

    __slots__ = ("_parts", "_size")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0

    def add(self, text: str, *, kept: bool) -> None:
        self._size += len(text)
        if kept or self._size <= MAX_STRING:
            self._parts.append(text)
        else:
            self._parts = [TOO_LONG]

    @property
    def text(self) -> str:
        return "".join(self._parts).strip()


class EnvelopeMembers:
    """The name, the id and the arguments of a call; `others` are the JSON texts of all other values.

    `keyed` is the name of a tool that is the key of the arguments. `after` is the text that was read after them.
    """

    __slots__ = (
        "_opened",
        "after",
        "argument_key",
        "arguments",
        "before",
        "id",
        "id_key",
        "index",
        "keyed",
        "name",
        "others",
        "quoted",
        "size",
        "twice",
    )

    def __init__(self, opened: OpenedCall) -> None:
        self._opened = opened
        self.name = ""
        self.id = ""
        self.id_key = ""
        self.keyed = ""
        self.index = -1
        self.arguments: CallArguments | None = None
        self.argument_key = ""
        self.quoted: list[str] | None = None
        self.others: dict[str, str] = {}
        self.twice = False
        self.before: list[str] = []
        self.after = RawText()
        self.size = 0

    def note(self, text: str, at: int, end: int) -> None:
        """Keep the read text while the call may still have to be repaired or reported."""
        if self.index >= 0 and self.arguments is not None and self.arguments.done:
            self.after.add(text, at, end)
        else:
            self.before.append(text[at:end])
            self.size += end - at

    def add_other(self, key: str, value: str) -> None:
        """Add the value of another key. A repeated key counts like a key beside the arguments."""
        self.twice = self.twice or key in self.others
        self.others[key] = value

    @property
    def raw(self) -> str:
        """The part of the envelope that was read."""
        before = "".join(self.before)
        between = self.arguments.raw if self.arguments is not None and self.arguments.streamed else ""
        return f"{before}{between}{self.after.text}"

    def begin(self) -> None:
        """Begin the call once its name and its arguments have arrived."""
        if self.name and self.index < 0 and self.arguments is not None:
            self.start()
            self.arguments.begin(self.index, self._opened.tools.get(self.name))

    def start(self) -> int:
        self.index = self._opened.sink.start(self.name, self.id)
        return self.index

    def finish(self, last: str) -> bool:
        """End the envelope; `last` is its end, which is not recorded yet. Returns False if it turns out not to be a
        call."""
        sink, schema = self._opened.sink, self._opened.tools.get(self.name)
        quoted = str(json.loads("".join(self.quoted))).strip() if self.quoted else ""
        others = self._others()
        if quoted and not quoted.startswith("{") and _declares(schema, self.argument_key):
            others[self.argument_key], quoted = "".join(self.quoted or ()), ""
        given = self.arguments is not None or bool(quoted)
        if not given and self.id_key and _declares(schema, self.id_key):
            others[self.id_key], self.id = json.dumps(self.id, ensure_ascii=False), ""
        empty = quoted == "{}" or (self.arguments is not None and self.arguments.is_empty)
        beside = classify_keys(others, schema, self._opened.call, given=given, empty=empty)
        if self.twice and beside.flat:
            beside = ExtraKeys(problem="an argument is given twice")
        if beside.problem and self.index < 0 and self._opened.call.weak:
            return False
        arguments = self.arguments or CallArguments(self._opened)
        if self.index < 0:
            arguments.begin(self.start(), schema)
        raw = f"{self.raw}{last}".strip()
        if beside.problem:
            sink.cut(self.index, beside.problem, raw)
            return True
        if beside.note or self.keyed:
            sink.repaired(self.index, raw, beside.note or "the name as the key of the arguments")
        if self.arguments is not None:
            arguments.end()
        elif quoted:
            arguments.take(quoted)
        else:
            members = (f"{json.dumps(key, ensure_ascii=False)}: {others[key]}" for key in beside.flat)
            sink.arguments(self.index, f"{{{', '.join(members)}}}")
            sink.end(self.index)
        return True

    @property
    def loses_something(self) -> bool:
        """Whether a value beside the arguments may be part of them."""
        schema, call = self._opened.tools.get(self.name), self._opened.call
        empty = self.arguments is not None and self.arguments.is_empty
        return bool(classify_keys(self._others(), schema, call, given=True, empty=empty).problem)

    def _others(self) -> dict[str, str]:
        """Omit values that are empty or redundant."""
        names = [json.dumps(self.name, ensure_ascii=ascii_only) for ascii_only in (True, False)]
        idle = {"type": CALL_TYPES} | dict.fromkeys(self._opened.call.name_keys, names)
        return {key: value for key, value in self.others.items() if value != "null" and value not in idle.get(key, ())}


def _declares(schema: object, key: str) -> bool:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return isinstance(properties, dict) and key in properties


HARMLESS_KEYS: Final = frozenset(
    (
        *("type", "id", "index", "tool_call_id", "call_id", "role", "status", "result", "output", "error"),
        *("thought", "thoughts", "thinking", "reasoning", "reason", "description", "explanation", "comment", "note"),
    )
)
"""Keys that describe the call and mean nothing to the tool."""
WRAPPER_KEYS: Final = ("function", "function_call", "tool_call")
SCHEMA_KEYS: Final = frozenset(("type", "properties", "$schema"))
FLAT_REPAIR: Final = "flat arguments"
"""Name of the repair that takes the keys beside the name as the arguments."""


class ExtraKeys(Struct, frozen=True):
    """`flat` are keys that are arguments; `left_out` are keys that no tool with this schema can use."""

    flat: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    problem: str = ""

    @property
    def note(self) -> str:
        if self.flat:
            return FLAT_REPAIR
        return f"without the keys next to the arguments: {', '.join(self.left_out)}" if self.left_out else ""


def is_schema_key(key: str, schema: Any) -> bool:
    """Return whether this key begins the declaration of a tool's parameters, which is not a call."""
    return key in SCHEMA_KEYS and isinstance(schema, dict) and key not in (known_keys(schema) or ())


def may_wrap(key: str, call: CallSyntax) -> bool:
    """Return whether a call may be nested under this key. If nothing else marks it as a call, the key must do so."""
    return key in WRAPPER_KEYS if call.weak else key not in call.argument_keys


def classify_keys(keys: Iterable[str], schema: Any, call: CallSyntax, *, given: bool, empty: bool = False) -> ExtraKeys:
    """Classify keys with non-null values. `given`: there are arguments; `empty`: they have no keys."""
    declared = known_keys(schema) or frozenset()
    if given:
        others = [key for key in keys if key not in HARMLESS_KEYS]
        if any(key in call.argument_keys for key in others):
            return ExtraKeys(problem="the arguments are given twice")
        if any(key in call.name_keys for key in others) or (call.keyed and others):
            return ExtraKeys(problem="two tools are named")
        lost = [key for key in others if key in declared or empty or not declared]
        if lost:
            return ExtraKeys(problem=f"{', '.join(lost)} is next to the arguments")
        return ExtraKeys(left_out=tuple(others))
    flat = tuple(key for key in keys if key in declared)
    strange = [key for key in keys if key not in declared and key not in HARMLESS_KEYS]
    if any(key in call.argument_keys for key in strange):
        return ExtraKeys(problem="the arguments are not a JSON object")
    # Without arguments and without any mark, it may be an answer about the tool.
    if call.weak:
        strange = [key for key in keys if key not in declared and key not in ("type", *call.id_keys)]
    if strange:
        return ExtraKeys(problem=f"there are no arguments, only {', '.join(strange)}")
    return ExtraKeys(flat)
