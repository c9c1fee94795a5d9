"""Names and ids stay apart also when their hashes begin alike, which no test can wait for: the hash is made worse."""

from __future__ import annotations

import pytest

from toolglot.ir import Tool, ToolCall
from toolglot.passes import ids, names

from .targets import CHAT, MISTRAL, asked, calls, to, user


def worse(*parts: object) -> str:
    """The same for everything, until a number is added."""
    salt = parts[-1] if isinstance(parts[-1], int) else 0
    return f"{salt:08x}" * 8


def test_names_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "digest", worse)
    tools = tuple(Tool(name=f"a{space}b") for space in (" ", ".", "/", ":"))
    renamed = names.shorten(asked(user(), tools=tools), to(CHAT)).tools
    found = [tool.name for tool in renamed if isinstance(tool, Tool)]
    assert found == ["a_b", "a_b_00000000", "a_b_00000001", "a_b_00000002"]


@pytest.mark.parametrize(("can", "first"), [(CHAT, "a_"), (MISTRAL, "0000000")])
def test_ids_stay_apart(monkeypatch: pytest.MonkeyPatch, can: object, first: str) -> None:
    monkeypatch.setattr(ids, "digest", worse)
    context = to(CHAT if can is CHAT else MISTRAL)
    request = ids.shorten(asked(user(), calls(*(f"a{space}" for space in (" ", ".", "/", ":")))), context)
    found = [block.id for block in request.messages[1].content if isinstance(block, ToolCall)]
    assert len(set(found)) == 4
    assert found[0].startswith(first)
    assert all(ids.is_legal_id(call_id, context.can.ids) for call_id in found)


def test_made_up_ids_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids, "digest", lambda *parts: worse(str(parts[2]), *parts[3:]))
    request = ids.derive(asked(user(), calls("", "", "", name="f")), to(CHAT))
    found = [block.id for block in request.messages[1].content if isinstance(block, ToolCall)]
    assert found == ["call_000000000000", "call_000000010000", "call_000000020000"]
