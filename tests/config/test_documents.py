"""Where things stand in a file: TOML and YAML."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.config import documents, json_document, toml_positions
from toolglot.config.problems import ConfigError, Path, Problem, field_name

TOML = '''# a comment with [brackets] and = signs
title = "x"  # after
"quoted.key" . inner = 'a # no comment'
multi = """
[not.a.table]
a = 1
"""
raw = \'\'\'
b = 2 \'\'\'

list = [ 1, # one
  "two", [3, { four = 4 }],
]
inline = { a.b = 1, "c" = [ { d = 1979-05-27T07:32:00Z } ] }

[table.sub]
x = -inf
[table]
y = "\\"quoted\\" # ]"
[[array.of]]
n = 1
[[array.of]]
n = 2
[array.of.inner]
m = 3
[[array.of.deep]]
k = [[]]
'''

PLACES: dict[Path, tuple[int, int]] = {
    ("title",): (2, 1),
    ("quoted.key",): (3, 1),
    ("quoted.key", "inner"): (3, 16),
    ("multi",): (4, 1),
    ("list", 0): (11, 10),
    ("list", 1): (12, 3),
    ("list", 2, 0): (12, 11),
    ("list", 2, 1, "four"): (12, 16),
    ("inline", "a", "b"): (14, 14),
    ("inline", "c", 0, "d"): (14, 31),
    ("table", "sub", "x"): (17, 1),
    ("table", "y"): (19, 1),
    ("array", "of", 0, "n"): (21, 1),
    ("array", "of", 1, "n"): (23, 1),
    ("array", "of", 1, "inner", "m"): (25, 1),
    ("array", "of", 1, "deep", 0, "k", 0): (27, 6),
}


def paths(value: Any, path: Path = ()) -> set[Path]:
    """Every way that leads to something in plain values."""
    members: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        members = list(value.items())
    elif isinstance(value, list):
        members = list(enumerate(value))
    return {(*path, key) for key, _ in members}.union(*(paths(inner, (*path, key)) for key, inner in members))


def test_every_key_of_a_toml_document_is_found_where_it_stands() -> None:
    found = toml_positions.find_positions(TOML)
    assert {path: found[path] for path in PLACES} == PLACES
    assert paths(tomllib.loads(TOML)) == found.keys()


names = st.text("abc_-.\"' é", min_size=1, max_size=5)
scalars = st.booleans() | st.integers(-9, 9) | st.text("a#[]{}=,'\"\\\n", max_size=6)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3))


def toml(value: Any) -> str:
    """Any value on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(key)} = {toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(toml(inner) for inner in value) + "]"
    return quoted(value) if isinstance(value, str) else str(value).lower()


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


@given(st.dictionaries(names, st.dictionaries(names, values, max_size=3), max_size=3))
def test_every_key_of_any_toml_document_is_found(tables: dict[str, dict[str, Any]]) -> None:
    lines = []
    for name, table in tables.items():
        lines.append(f"[{quoted(name)}] # [x]")
        lines += [f"{quoted(key)} = {toml(value)}" for key, value in table.items()]
    text = "\n".join(lines)
    found = toml_positions.find_positions(text)
    assert paths(tomllib.loads(text)) == found.keys()
    for path, (line, column) in found.items():
        if isinstance(path[-1], str):
            assert text.split("\n")[line - 1][column - 1 :].startswith(quoted(path[-1]))


def test_a_yaml_document_has_plain_values_and_the_place_of_each() -> None:
    text = "base: &base\n  a: 1\n  on: [x, 4.5]\nother:\n  <<: *base\n  a: 2\n"
    document = documents.parse_document(text.encode(), "a.yaml")
    assert document.value == {"base": {"a": 1, "on": ["x", 4.5]}, "other": {"a": 2, "on": ["x", 4.5]}}
    assert document.places["base", "on", 1] == (3, 11)
    assert document.places["other", "a"] == (6, 3)


def test_of_several_merged_mappings_the_first_counts_most() -> None:
    text = "a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc: {<<: [*a, *b], z: 3}\n"
    assert documents.parse_document(text.encode(), "a.yaml").value["c"] == {"x": 1, "y": 2, "z": 3}


def test_only_mappings_can_be_merged() -> None:
    with pytest.raises(ConfigError, match=r"a\.yaml:1:9: c: `<<` needs a mapping"):
        documents.parse_document(b"c: {<<: 3}\n", "a.yaml")


@pytest.mark.parametrize("name", ["a.toml", "a.yaml"])
def test_an_empty_file_is_an_empty_document(name: str) -> None:
    assert documents.parse_document(b"", name).value == {}


@pytest.mark.parametrize("data", [b"\xef\xbb\xbfstrict = true\r\n", b"strict = true"])
def test_a_byte_order_mark_and_windows_line_ends_are_no_matter(data: bytes) -> None:
    assert documents.parse_document(data, "a.toml").value == {"strict": True}


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for name in ("a.toml", "a.yaml"):
        try:
            documents.parse_document(data, name)
        except ConfigError as error:
            assert error.problems


def test_a_problem_stands_at_the_nearest_thing_around_it() -> None:
    document = documents.parse_document(b"[server]\nport = 1\n", "a.toml")
    assert document.problem(("server", "keys", 3), "m") == Problem(
        file="a.toml", line=1, column=2, field="server.keys[3]", message="m"
    )
    assert str(document.problem(("log",), "m", "s")) == "a.toml: log: m; s"


def test_a_field_is_named_the_way_it_could_be_written() -> None:
    assert field_name(("models", "claude-*", "fallbacks", 0)) == 'models."claude-*".fallbacks[0]'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{a: 1, $b_2: 'it''s'}".replace("''", "\\'"), {"a": 1, "$b_2": "it's"}),
        ("[+1, -.5, 5., 0xFF, -0x10, 1e3,]", [1, -0.5, 5.0, 255, -16, 1000.0]),
        ("/* a */ // b\n ['x\\\ny', \"\\x41\\u00e9\\ud83d\\ude00\\n\\q\"]", ["xy", "Aé😀\nq"]),
        ("{'a': null, \"b\": true, c: false}", {"a": None, "b": True, "c": False}),
    ],
)
def test_json5_has_more_forms_of_names_texts_and_numbers(text: str, value: object) -> None:
    assert json_document.parse_json5(text, "a.json5")[0] == value


@pytest.mark.parametrize("text", ["{a b: 1}", "'a", "[1 2]", "{a: }", "'\\ud83d'", "{a: 1, a: 2}", "", "{} {}", "NaN"])
def test_what_is_no_json5_is_an_error_with_its_place(text: str) -> None:
    with pytest.raises(ConfigError) as error:
        json_document.parse_json5(text, "a.json5")
    assert error.value.problems[0].line == 1


def test_positions_in_json5_are_those_of_names() -> None:
    assert json_document.parse_json5("{\n  a: ['b',\n  {c: 1}]}", "x")[1] == {
        (): (1, 1),
        ("a",): (2, 3),
        ("a", 0): (2, 7),
        ("a", 1): (3, 3),
        ("a", 1, "c"): (3, 4),
    }
