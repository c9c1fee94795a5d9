"""The picture in the README can be recorded again."""

from __future__ import annotations

from tests.docs.picture.record import LAST_SHOWN, record
from tests.docs.picture.render import render
from tests.docs.picture.run import load
from tests.needs import need


def test_claude_code_completes_the_run_of_the_picture_in_a_terminal() -> None:
    need("tmux")
    run, kept = record(), load()
    assert run.turns == kept.turns
    assert run.agent == kept.agent
    assert len(run.screens) == len(kept.screens)
    assert any(LAST_SHOWN in line for line in run.screens[-1])
    assert LAST_SHOWN in render(run)
