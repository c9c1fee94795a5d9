"""What of a call's arguments does not fit the tool's JSON Schema, in words that a model understands.

Only what is wrong for sure is a problem: keywords, references and types that are not known here are passed over.
"""

from __future__ import annotations

import json
from typing import Any

from toolglot.textcalls.schemas import (
    Located,
    alternatives,
    item_schema,
    known_keys,
    parts,
    resolved,
    type_name,
    types,
    value_schema,
)

MOST_PROBLEMS = 20
MOST_STEPS = 100_000
_DEEPEST = 60
_SHOWN = 60
_ARTICLES = {"integer": "an integer", "array": "an array", "object": "an object", "null": "null"}


def argument_problems(arguments: Any, schema: Any) -> list[str]:
    """The problems, at most 20, each with its path: `arguments.city is missing`."""
    check = _Check(_Guard())
    check.value(arguments, schema, "arguments", 0)
    return check.problems if check.guard.steps > 0 else []


class _Guard:
    """Ends checks whose schema leads back to itself: shared by the checks of all branches."""

    def __init__(self) -> None:
        self.steps = MOST_STEPS
        self.active: set[tuple[int, int]] = set()


class _Check:
    def __init__(self, guard: _Guard) -> None:
        self.problems: list[str] = []
        self.guard = guard

    def say(self, problem: str) -> None:
        if len(self.problems) < MOST_PROBLEMS and problem not in self.problems:
            self.problems.append(problem)

    def value(self, value: Any, schema: Any, path: str, depth: int) -> None:
        here = resolved(schema)
        node = here.node
        place = (id(value), id(node))
        self.guard.steps -= 1
        if self.guard.steps <= 0 or place in self.guard.active:
            return
        self.guard.active.add(place)
        self._located(value, here, path, depth)
        self.guard.active.discard(place)

    def _located(self, value: Any, here: Located, path: str, depth: int) -> None:
        node = here.node
        if node is False:
            self.say(f"{path} is not allowed")
        if not isinstance(node, dict) or depth > _DEEPEST or len(self.problems) >= MOST_PROBLEMS:
            return
        if not self._type(value, here, path) or not self._members(value, node, path):
            return
        for part in node.get("allOf") or () if isinstance(node.get("allOf"), list) else ():
            self.value(value, here.child(part), path, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            self._choice(value, here, keyword, path, depth)
        if isinstance(value, dict):
            self._object(value, here, path, depth)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if len(self.problems) >= MOST_PROBLEMS:
                    return
                element = _own_item(here, index)
                if element is not None:
                    self.value(item, element, f"{path}[{index}]", depth + 1)

    def _type(self, value: Any, here: Located, path: str) -> bool:
        if "type" not in here.node:
            return True
        allowed = types(here.child({key: here.node[key] for key in ("type", "nullable") if key in here.node}))
        if not allowed or fits_type(value, allowed):
            return True
        wanted = " or ".join(_ARTICLES.get(name, f"a {name}") for name in allowed)
        self.say(f"{path} should be {wanted}, is {_described(value)}")
        return False

    def _members(self, value: Any, node: dict[str, Any], path: str) -> bool:
        members = node.get("enum")
        if isinstance(members, list) and members and not any(_same(value, member) for member in members):
            self.say(f"{path} should be one of {_short(members)}, is {_described(value)}")
            return False
        if "const" in node and not _same(value, node["const"]):
            self.say(f"{path} should be {_short(node['const'])}, is {_described(value)}")
            return False
        return True

    def _choice(self, value: Any, here: Located, keyword: str, path: str, depth: int) -> None:
        branches = here.node.get(keyword)
        if not isinstance(branches, list) or not branches:
            return
        closest: list[str] | None = None
        for branch in branches:
            check = _Check(self.guard)
            check.value(value, here.child(branch), path, depth + 1)
            if not check.problems:
                return
            if closest is None or _reach(check.problems, path) > _reach(closest, path):
                closest = check.problems
        # Where all branches already fail at the value itself, none is the one that was meant.
        if closest and (len(branches) == 1 or _reach(closest, path)):
            for problem in closest:
                self.say(problem)
            return
        allowed = types(here)
        if allowed and not fits_type(value, allowed):
            wanted = " or ".join(_ARTICLES.get(name, f"a {name}") for name in allowed)
            self.say(f"{path} should be {wanted}, is {_described(value)}")
        else:
            self.say(f"{path} fits none of the forms that are allowed")

    def _object(self, value: dict[str, Any], here: Located, path: str, depth: int) -> None:
        node = here.node
        required = node.get("required")
        for name in required if isinstance(required, list) else ():
            if isinstance(name, str) and name not in value:
                self.say(f"{_member(path, name)} is missing")
        properties = node.get("properties") if isinstance(node.get("properties"), dict) else {}
        closed = node.get("additionalProperties") is False and not node.get("patternProperties")
        for name, member in value.items():
            if len(self.problems) >= MOST_PROBLEMS:
                return
            if name in properties:
                self.value(member, here.child(properties[name]), _member(path, name), depth + 1)
            elif closed and name not in (known_keys(here) or ()):
                self.say(f"{_member(path, name)} is not a known property")
            elif isinstance(node.get("additionalProperties"), dict) and not node.get("patternProperties"):
                self.value(member, here.child(node["additionalProperties"]), _member(path, name), depth + 1)


def unknown_properties(arguments: Any, schema: Any) -> list[str]:
    """The properties of which the schema says nothing, where it lists properties and does not welcome others.

    JSON Schema allows them, so they are no problem; but where text was repaired they tell that it went wrong.
    """
    found: list[str] = []
    waiting = [(arguments, schema, "arguments")]
    while waiting and len(found) < MOST_PROBLEMS:
        value, here, path = waiting.pop()
        if isinstance(value, list):
            waiting.extend((item, item_schema(here, index), f"{path}[{index}]") for index, item in enumerate(value))
        if not isinstance(value, dict) or known_keys(here) is None:
            continue
        for name, member in value.items():
            inner = value_schema(here, name)
            if inner is None and not _welcomes_others(here):
                found.append(f"{_member(path, name)} is not a known property")
            waiting.append((member, inner, _member(path, name)))
    return found


def _welcomes_others(schema: Any) -> bool:
    nodes = [part.node for branch in alternatives(schema) for part in parts(branch)]
    return any(isinstance(node, dict) and node.get("additionalProperties") is True for node in nodes)


def fits_type(value: Any, allowed: tuple[str, ...]) -> bool:
    """Whether the value is of one of the JSON types; 5.0 is an integer, as JSON Schema has it."""
    name = type_name(value)
    if name == "number" and "integer" in allowed and float(value).is_integer():
        return True
    return name in allowed or (name == "integer" and "number" in allowed)


def _own_item(here: Located, index: int) -> Any:
    shape = {key: here.node[key] for key in ("items", "prefixItems") if key in here.node}
    return item_schema(here.child(shape), index) if shape else None


def _same(value: Any, member: Any) -> bool:
    if isinstance(value, bool) or isinstance(member, bool):
        return value is member
    return bool(value == member)


def _reach(problems: list[str], path: str) -> int:
    """How far the value fits: a problem inside of it means that the branch was meant, one of the value itself not."""
    return min((0 if problem.startswith(f"{path} ") else 1) for problem in problems)


def _member(path: str, name: str) -> str:
    return f"{path}.{name}" if name.replace("-", "_").isidentifier() else f"{path}[{_short(name)}]"


def _described(value: Any) -> str:
    name = type_name(value)
    if name in ("null", "boolean"):
        return json.dumps(value)
    if name in ("object", "array"):
        return _ARTICLES[name]
    return f"the {'number' if name == 'integer' else name} {_short(value)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
