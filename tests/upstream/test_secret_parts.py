"""Upstreams quote a key that they reject, whole or in part."""

from __future__ import annotations

import pytest

from toolglot.recordings.redact import replace_secret_parts

KEY = "sk-proj-0123456789abcdefghijklmnopqrs"


@pytest.mark.parametrize("start", range(len(KEY)))
@pytest.mark.parametrize("size", [7, 15, 16, 17, 30, len(KEY)])
def test_long_parts_of_a_key_are_hidden_wherever_they_begin(start: int, size: int) -> None:
    part = KEY[start : start + size]
    text = f"Incorrect API key: {part}... ({part})"
    hidden = replace_secret_parts(text, (KEY,), "[hidden]")
    if len(part) >= 16:
        assert hidden == "Incorrect API key: [hidden]... ([hidden])"
    else:
        assert hidden == text


def test_other_text_stays() -> None:
    assert replace_secret_parts("the quick brown fox 0123456789 sk-proj-", (KEY,), "-").endswith("0123456789 sk-proj-")
    assert replace_secret_parts("", (KEY,), "-") == ""
