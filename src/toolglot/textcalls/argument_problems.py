"""Find violations of a tool's JSON Schema in a call's arguments, in words for the model.

Only certain violations are reported: unknown keywords, references and types are skipped.
"""

from __future__ import annotations

import json
from typing import Any

from toolglot.textcalls.schemas import (
    Located,
    all_of_parts,
    allowed_types,
    alternatives,
    item_schema,
    known_keys,
    resolve_ref,
    type_name,
    value_schema,
)

MAX_PROBLEMS = 20
MAX_STEPS = 100_000
_MAX_DEPTH = 60
_MAX_VALUE_CHARS = 60
_ARTICLES = {"integer": "an integer", "array": "an array", "object": "an object", "null": "null"}


def find_argument_problems(arguments: Any, schema: Any) -> list[str]:
    """Return the problems, at most 20, each with its path: `arguments.city is missing`."""
    check = _SchemaCheck(_StepLimit())
    check.value(arguments, schema, "arguments", 0)
    return check.problems if check.guard.steps > 0 else []


class _StepLimit:
    """Ends checks of schemas that lead back to themselves: shared by the checks of all branches."""

    def __init__(self) -> None:
        self.steps = MAX_STEPS
        self.active: set[tuple[int, int]] = set()


class _SchemaCheck:
    def __init__(self, guard: _StepLimit) -> None:
        self.problems: list[str] = []
        self.guard = guard

    def say(self, problem: str) -> None:
        if len(self.problems) < MAX_PROBLEMS and problem not in self.problems:
            self.problems.append(problem)

    def value(self, value: Any, schema: Any, path: str, depth: int) -> None:
        here = resolve_ref(schema)
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
        if not isinstance(node, dict) or depth > _MAX_DEPTH or len(self.problems) >= MAX_PROBLEMS:
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
                if len(self.problems) >= MAX_PROBLEMS:
                    return
                element = _own_item(here, index)
                if element is not None:
                    self.value(item, element, f"{path}[{index}]", depth + 1)

    def _type(self, value: Any, here: Located, path: str) -> bool:
        if "type" not in here.node:
            return True
        allowed = allowed_types(here.child({key: here.node[key] for key in ("type", "nullable") if key in here.node}))
        if not allowed or fits_type(value, allowed):
            return True
        wanted = " or ".join(_ARTICLES.get(name, f"a {name}") for name in allowed)
        self.say(f"{path} should be {wanted}, is {_describe(value)}")
        return False

    def _members(self, value: Any, node: dict[str, Any], path: str) -> bool:
        members = node.get("enum")
        if isinstance(members, list) and members and not any(_same(value, member) for member in members):
            self.say(f"{path} should be one of {_shorten(members)}, is {_describe(value)}")
            return False
        if "const" in node and not _same(value, node["const"]):
            self.say(f"{path} should be {_shorten(node['const'])}, is {_describe(value)}")
            return False
        return True

    def _choice(self, value: Any, here: Located, keyword: str, path: str, depth: int) -> None:
        branches = here.node.get(keyword)
        if not isinstance(branches, list) or not branches:
            return
        closest: list[str] | None = None
        for branch in branches:
            check = _SchemaCheck(self.guard)
            check.value(value, here.child(branch), path, depth + 1)
            if not check.problems:
                return
            if closest is None or _match_depth(check.problems, path) > _match_depth(closest, path):
                closest = check.problems
        # If all branches fail at the value itself, none of them is the intended one.
        if closest and (len(branches) == 1 or _match_depth(closest, path)):
            for problem in closest:
                self.say(problem)
            return
        allowed = allowed_types(here)
        if allowed and not fits_type(value, allowed):
            wanted = " or ".join(_ARTICLES.get(name, f"a {name}") for name in allowed)
            self.say(f"{path} should be {wanted}, is {_describe(value)}")
        else:
            self.say(f"{path} fits none of the allowed forms")

    def _object(self, value: dict[str, Any], here: Located, path: str, depth: int) -> None:
        node = here.node
        required = node.get("required")
        for name in required if isinstance(required, list) else ():
            if isinstance(name, str) and name not in value:
                self.say(f"{_member(path, name)} is missing")
        properties = node.get("properties") if isinstance(node.get("properties"), dict) else {}
        closed = node.get("additionalProperties") is False and not node.get("patternProperties")
        for name, member in value.items():
            if len(self.problems) >= MAX_PROBLEMS:
                return
            if name in properties:
                self.value(member, here.child(properties[name]), _member(path, name), depth + 1)
            elif closed and name not in (known_keys(here) or ()):
                self.say(f"{_member(path, name)} is not a known property")
            elif isinstance(node.get("additionalProperties"), dict) and not node.get("patternProperties"):
                self.value(member, here.child(node["additionalProperties"]), _member(path, name), depth + 1)


def unknown_properties(arguments: Any, schema: Any) -> list[str]:
    """Return the properties that the schema does not mention, if it lists properties and does not allow others
    explicitly. JSON Schema allows them, so they are not a problem, but in repaired text they indicate a wrong repair.
    """
    found: list[str] = []
    waiting = [(arguments, schema, "arguments")]
    while waiting and len(found) < MAX_PROBLEMS:
        value, here, path = waiting.pop()
        if isinstance(value, list):
            waiting.extend((item, item_schema(here, index), f"{path}[{index}]") for index, item in enumerate(value))
        if not isinstance(value, dict) or known_keys(here) is None:
            continue
        for name, member in value.items():
            inner = value_schema(here, name)
            if inner is None and not _allows_others(here):
                found.append(f"{_member(path, name)} is not a known property")
            waiting.append((member, inner, _member(path, name)))
    return found


def _allows_others(schema: Any) -> bool:
    nodes = [part.node for branch in alternatives(schema) for part in all_of_parts(branch)]
    return any(isinstance(node, dict) and node.get("additionalProperties") is True for node in nodes)


def fits_type(value: Any, allowed: tuple[str, ...]) -> bool:
    """Return whether the value has one of the JSON types; 5.0 is an integer, as in JSON Schema."""
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


def _match_depth(problems: list[str], path: str) -> int:
    """Return how deeply the value matches: a problem inside it means that the branch is the intended one; a problem of
    the value itself does not.
    """
    return min((0 if problem.startswith(f"{path} ") else 1) for problem in problems)


def _member(path: str, name: str) -> str:
    return f"{path}.{name}" if name.replace("-", "_").isidentifier() else f"{path}[{_shorten(name)}]"


def _describe(value: Any) -> str:
    name = type_name(value)
    if name in ("null", "boolean"):
        return json.dumps(value)
    if name in ("object", "array"):
        return _ARTICLES[name]
    return f"the {'number' if name == 'integer' else name} {_shorten(value)}"


def _shorten(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_VALUE_CHARS else f"{text[: _MAX_VALUE_CHARS - 1]}…"
