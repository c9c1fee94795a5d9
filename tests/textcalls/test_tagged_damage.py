"""Tagged calls that were cut, glued together or have a mark in a value: none of them gives a call that was not made."""

from __future__ import annotations

from typing import Any

import pytest

from tests.textcalls.reading import read

TOOLS: dict[str, Any] = {
    name: {"type": "object", "properties": {parameter: {"type": "string"}}, "required": [parameter]}
    for name, parameter in (("weather", "city"), ("write", "path"))
}
MADE = [("weather", {"city": "Rome"}), ("write", {"path": "a"})]
DSML = "｜DSML｜"
PAIRS = {
    "seed_oss": (
        "<seed:tool_call>\n<function=weather>\n<parameter=city>Rome</parameter>\n</function>\n</seed:tool_call>",
        "<seed:tool_call>\n<function=write>\n<parameter=path>a</parameter>\n</function>\n</seed:tool_call>",
    ),
    "deepseek_v32": (
        f'<{DSML}function_calls>\n<{DSML}invoke name="weather">\n<{DSML}parameter name="city" string="true">Rome'
        f"</{DSML}parameter>\n</{DSML}invoke>\n",
        f'<{DSML}invoke name="write">\n<{DSML}parameter name="path" string="true">a</{DSML}parameter>\n'
        f"</{DSML}invoke>\n</{DSML}function_calls>",
    ),
    "minicpm5": (
        '<function name="weather"><param name="city">Rome</param></function>',
        '<function name="write"><param name="path">a</param></function>',
    ),
    "qwen3_coder": (
        "<tool_call>\n<function=weather>\n<parameter=city>\nRome\n</parameter>\n</function>\n</tool_call>",
        "<tool_call>\n<function=write>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>",
    ),
    "glm45": (
        "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n</tool_call>\n",
        "<tool_call>write\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n</tool_call>",
    ),
}
MISSING = 10
"""Characters that are missing in one place: no more than a mark and some."""


def calls(name: str, text: str, *, cut: bool = False) -> list[tuple[str, Any]]:
    """The whole calls of a text; the same whether it comes at once or one character at a time."""
    found = read(name, TOOLS, text, cut=cut).calls
    assert read(name, TOOLS, list(text), cut=cut).calls == found
    return found


@pytest.mark.parametrize("name", PAIRS)
def test_two_calls_without_anything_between_them_are_both_read(name: str) -> None:
    assert calls(name, "".join(PAIRS[name])) == MADE


@pytest.mark.parametrize("name", PAIRS)
def test_calls_that_are_cut_anywhere_give_no_other_call(name: str) -> None:
    text = "".join(PAIRS[name])
    for end in range(len(text)):
        assert all(call in MADE for call in calls(name, text[:end], cut=True)), text[:end]


@pytest.mark.parametrize("name", PAIRS)
def test_two_calls_with_a_hole_where_they_meet_are_not_one(name: str) -> None:
    first, second = PAIRS[name]
    text = first + second
    value = first.index("Rome")
    for start in range(value, len(first) + 20):
        for end in range(start + 1, min(start + MISSING, len(text))):
            found = calls(name, text[:start] + text[end:])
            assert not any(tool == "weather" and "path" in str(given) for tool, given in found), (start, end, found)


MARKS = (
    "</function>",
    "<function=write>",
    f'<{DSML}invoke name="write">',
    '<function name="write">',
    "<tool_call>write",
)


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("name", PAIRS)
def test_a_mark_in_a_value_stays_in_it_or_breaks_the_call(name: str, mark: str) -> None:
    first, second = PAIRS[name]
    found = calls(name, first.replace("Rome", f"Ro{mark}me") + second)
    assert all(call in MADE or call == ("weather", {"city": f"Ro{mark}me"}) for call in found), found
