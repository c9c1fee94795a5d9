"""Lines, environments and what is kept of a server's words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.agent.process import process_environment
from toolglot.agent.safe_text import (
    ErrorTail,
    config_credentials,
    config_secrets,
    printable,
    remove_credentials,
    safe_line,
)
from toolglot.agent.stdio_transport import BoundedLines, LineTooLongError
from toolglot.config.schema import McpServerConfig

SECRET = "hush-4711-hush"


@given(st.lists(st.binary(max_size=12)), st.lists(st.integers(0, 40)))
def test_lines_do_not_depend_on_how_their_bytes_come(pieces: list[bytes], cuts: list[int]) -> None:
    whole = b"\n".join(pieces)
    lines, found, at = BoundedLines(1_000), [], 0
    for cut in cuts:
        found += lines.feed(whole[at : at + cut])
        at += cut
    found += lines.feed(whole[at:])
    assert found == whole.split(b"\n")[:-1]


@pytest.mark.parametrize("chunk", [1, 7, 200])
def test_a_line_beyond_the_limit_is_refused_before_it_ends(chunk: int) -> None:
    lines = BoundedLines(100)
    assert lines.feed(b"x" * 100 + b"\n") == [b"x" * 100]
    with pytest.raises(LineTooLongError, match="more than 100 bytes"):
        for _ in range(200):
            lines.feed(b"x" * chunk)


def test_a_server_gets_what_programs_need_and_what_it_was_given() -> None:
    around = {"PATH": "/bin", "HOME": "/root", "OPENAI_API_KEY": SECRET, "HTTPS_PROXY": SECRET, "TERM": "() { :; }"}
    assert process_environment({"HOME": "/own", "A": "b"}, around) == {"PATH": "/bin", "HOME": "/own", "A": "b"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07name", "name"),
        ("\x1b]8;;http://a\x1b\\link", "link"),
        ("a\r\nb\tc\x00\x9b31m", "a  b c  31m"),
        ("\u202eevil\u2066", " evil "),
        ("Grüße 🙂", "Grüße 🙂"),
        ("\x1b", " "),
    ],
)
def test_what_is_printed_moves_no_cursor(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_whatever_is_said_can_be_printed(text: str) -> None:
    assert printable(text).isprintable()
    assert len(safe_line(text, (), 20)) <= 20


def test_secrets_are_hidden_before_a_text_is_cut() -> None:
    text = "x" * 95 + SECRET
    assert safe_line(text, (SECRET,), 100) == "x" * 95 + "[red…"


def test_the_secrets_of_a_server_are_its_variables_headers_and_what_its_address_holds() -> None:
    config = McpServerConfig(
        url="https://user:pass@example.com/mcp?key=in-query",
        headers={"authorization": "Bearer in-header"},
        env={"A": "in-env\n"},
    )
    hidden = {"in-env", "in-env\n", "Bearer in-header", "Bearer", "in-header", "user", "pass", "in-query"}
    assert set(config_secrets(config)) == hidden


def test_the_credentials_of_a_server_are_what_is_named_like_one() -> None:
    env = {"GITHUB_TOKEN": "long-enough", "PASSWORD": "short", "ROOT": "/some/folder"}
    config = McpServerConfig(headers={"x-api-key": "key-of-header", "accept": "text/plain"}, env=env)
    assert set(config_credentials(config)) == {"long-enough", "key-of-header"}


def test_credentials_are_taken_out_of_every_text_of_a_result() -> None:
    result = {"content": [{"text": f"a{SECRET}b", "n": 1}], SECRET: None, "ok": [True, 1.5]}
    assert remove_credentials(result, (SECRET,)) == {
        "content": [{"text": "a[redacted]b", "n": 1}],
        "[redacted]": None,
        "ok": [True, 1.5],
    }


@given(st.lists(st.binary(max_size=5_000), max_size=20))
def test_the_end_of_what_was_said_is_kept_and_no_more(chunks: list[bytes]) -> None:
    tail = ErrorTail()
    for chunk in chunks:
        tail.add(chunk)
    text = tail.text(())
    assert len(text) <= 2_000
    assert all(line.isprintable() for line in text.split("\n"))


def test_a_secret_that_is_cut_in_the_middle_is_not_shown() -> None:
    tail = ErrorTail()
    tail.add((f"{SECRET}\n" * 10_000).encode())
    tail.add(b"the end")
    assert tail.text((SECRET,)).endswith("[redacted]\nthe end")
    assert "hush" not in tail.text((SECRET,))
