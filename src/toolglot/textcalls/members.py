"""What one envelope holds, and the call that it makes."""

from __future__ import annotations

import json
from typing import Final

from toolglot.textcalls.arguments import Arguments
from toolglot.textcalls.beside import Beside, sort_out
from toolglot.textcalls.body import Opened
from toolglot.textcalls.json_names import MAX_STRING
from toolglot.textcalls.raw import Raw

TOO_LONG: Final = "…"
CALL_TYPES: Final = ('"function"', '"tool"', '"tool_call"', '"tool_use"', '"function_call"')
"""Values of `type` that say that this is a call, whatever the tool declares."""


class Other:
    """The JSON text of a value of some other key. Beside arguments, only a short one tells anything."""

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


class Members:
    """The name, the id and the arguments of a call; `others` are the JSON texts of all other values.

    `keyed` is the name of a tool that stands as the key of the arguments. `after` is what was read behind them.
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

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self.name = ""
        self.id = ""
        self.id_key = ""
        self.keyed = ""
        self.index = -1
        self.arguments: Arguments | None = None
        self.argument_key = ""
        self.quoted: list[str] | None = None
        self.others: dict[str, str] = {}
        self.twice = False
        self.before: list[str] = []
        self.after = Raw()
        self.size = 0

    def note(self, text: str, at: int, end: int) -> None:
        """Keep what was read as long as the whole may still have to be repaired, or told."""
        if self.index >= 0 and self.arguments is not None and self.arguments.done:
            self.after.add(text, at, end)
        else:
            self.before.append(text[at:end])
            self.size += end - at

    def add_other(self, key: str, value: str) -> None:
        """A value of some other key. One that stands there twice is as bad as one beside the arguments."""
        self.twice = self.twice or key in self.others
        self.others[key] = value

    @property
    def raw(self) -> str:
        """The envelope as far as it was read."""
        before = "".join(self.before)
        between = self.arguments.raw if self.arguments is not None and self.arguments.streamed else ""
        return f"{before}{between}{self.after.text}"

    def begin(self) -> None:
        """Begin the call once its name and its arguments have been met."""
        if self.name and self.index < 0 and self.arguments is not None:
            self.start()
            self.arguments.begin(self.index, self._opened.tools.get(self.name))

    def start(self) -> int:
        self.index = self._opened.sink.start(self.name, self.id)
        return self.index

    def settle(self, last: str) -> bool:
        """The envelope is over; `last` is what was read of it and not noted. False: it is no call after all."""
        sink, schema = self._opened.sink, self._opened.tools.get(self.name)
        quoted = str(json.loads("".join(self.quoted))).strip() if self.quoted else ""
        others = self._others()
        if quoted and not quoted.startswith("{") and _declares(schema, self.argument_key):
            others[self.argument_key], quoted = "".join(self.quoted or ()), ""
        given = self.arguments is not None or bool(quoted)
        if not given and self.id_key and _declares(schema, self.id_key):
            others[self.id_key], self.id = json.dumps(self.id, ensure_ascii=False), ""
        empty = quoted == "{}" or (self.arguments is not None and self.arguments.is_empty)
        beside = sort_out(others, schema, self._opened.call, given=given, empty=empty)
        if self.twice and beside.flat:
            beside = Beside(problem="an argument is given twice")
        if beside.problem and self.index < 0 and self._opened.call.weak:
            return False
        arguments = self.arguments or Arguments(self._opened)
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
        """Something stands beside the arguments that may be a part of them."""
        schema, call = self._opened.tools.get(self.name), self._opened.call
        empty = self.arguments is not None and self.arguments.is_empty
        return bool(sort_out(self._others(), schema, call, given=True, empty=empty).problem)

    def _others(self) -> dict[str, str]:
        """Without what says nothing, or nothing new."""
        names = [json.dumps(self.name, ensure_ascii=ascii_only) for ascii_only in (True, False)]
        idle = {"type": CALL_TYPES} | dict.fromkeys(self._opened.call.name_keys, names)
        return {key: value for key, value in self.others.items() if value != "null" and value not in idle.get(key, ())}


def _declares(schema: object, key: str) -> bool:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return isinstance(properties, dict) and key in properties
