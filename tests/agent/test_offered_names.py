"""The names that tools are offered under."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.agent.toolbox import offered_names

LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")

word = st.one_of(
    st.text(alphabet="ab_-.", max_size=6),
    st.text(max_size=80),
    st.text(alphabet="abcdefgh_", min_size=50, max_size=80),
)
pairs = st.lists(st.tuples(word, word), max_size=12)


@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [
        ("files", "read_file", "files__read_file"),
        ("my-server", "_private", "my-server___private"),
        ("a_b", "c__d", "a_b__c__d"),
        ("s", "t" * 61, "s__" + "t" * 61),
    ],
)
def test_a_legal_name_that_is_plain_stays_as_it_is(server: str, tool: str, name: str) -> None:
    assert offered_names([(server, tool)]) == {(server, tool): name}


@pytest.mark.parametrize(
    ("server", "tool", "begins"),
    [
        ("files", "read.file", "files__read_file_"),
        ("my server", "ä", "my_server____"),
        ("a__b", "c", "a__b__c_"),
        ("a_", "c", "a___c_"),
        ("7zip", "list", "_7zip__list_"),
        ("s", "t" * 62, "s__ttt"),
        ("", "", "___"),
    ],
)
def test_any_other_gets_a_hash(server: str, tool: str, begins: str) -> None:
    name = offered_names([(server, tool)])[server, tool]
    assert name.startswith(begins)
    assert re.search(r"_[0-9a-f]{8}\Z", name)


@given(pairs)
def test_names_are_legal_everywhere_and_no_two_are_the_same(listed: list[tuple[str, str]]) -> None:
    names = offered_names(listed)
    assert set(names) == set(listed)
    assert len(set(names.values())) == len(set(listed))
    assert all(LEGAL.fullmatch(name) for name in names.values())


@given(pairs)
def test_the_order_does_not_matter(listed: list[tuple[str, str]]) -> None:
    assert offered_names(sorted(listed)) == offered_names(listed)
    assert offered_names(listed[::-1]) == offered_names(listed)


@given(pairs, pairs)
def test_other_tools_change_no_name(listed: list[tuple[str, str]], others: list[tuple[str, str]]) -> None:
    alone = offered_names(listed)
    together = offered_names([*others, *listed])
    assert {pair: together[pair] for pair in listed} == alone


def test_a_tool_that_is_named_like_the_hash_of_another_does_not_shadow_it() -> None:
    wanted = ("files", "read.file")
    taken = offered_names([wanted])[wanted]
    thief = ("files", taken.removeprefix("files__"))
    names = offered_names([wanted, thief])
    assert names == offered_names([thief, wanted])
    assert names[thief] == taken
    assert names[wanted] != taken
    assert LEGAL.fullmatch(names[wanted])
