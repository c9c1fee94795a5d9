"""What the commands do to a session, and what they show."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from io import StringIO
from pathlib import Path

import pytest

from tests.chat.scripted import a_stage
from toolglot.chat.actions import CommandActions
from toolglot.chat.commands import COMMANDS, Command
from toolglot.chat.screen import Screen
from toolglot.chat.session import ChatSession


class Hands:
    """Does commands and returns what is seen."""

    def __init__(self, session: ChatSession) -> None:
        self.session = session
        self._seen = StringIO()
        self._actions = CommandActions(session, Screen(self._seen, self._seen), lambda: datetime(2026, 1, 2, 3, 4, 5))

    async def do(self, name: str, argument: str = "") -> str:
        self._seen.truncate(0)
        self._seen.seek(0)
        await self._actions.do(Command(name, argument))
        return self._seen.getvalue()


def test_every_command_but_quit_does_something() -> None:
    async def act() -> None:
        hands = Hands((await a_stage()).session)
        for name in COMMANDS.keys() - {"quit"}:
            assert await hands.do(name)

    asyncio.run(act())


def test_the_model_is_told_and_switched() -> None:
    async def act() -> None:
        hands = Hands((await a_stage()).session)
        listed = await hands.do("model")
        assert listed.startswith("demo answers (openai_chat, demo/demo). Available models:\n* demo  (openai_chat)\n")
        assert "  demo-gemini  (gemini)\n" in listed
        assert await hands.do("model", "demo-gemini") == "Now demo-gemini answers (gemini, demo-gemini/demo-gemini).\n"
        assert "the nearest: demo" in await hands.do("model", "demo-gemni")
        assert hands.session.model == "demo-gemini"

    asyncio.run(act())


def test_the_system_text_is_set_told_and_removed() -> None:
    async def act() -> None:
        hands = Hands((await a_stage()).session)
        assert await hands.do("system") == "There is no system text.\n"
        assert await hands.do("system", "Be brief.") == "System text: Be brief.\n"
        assert hands.session.conversation.messages[0].role == "system"
        assert await hands.do("system", "-") == "There is no system text.\n"

    asyncio.run(act())


def test_a_conversation_is_written_to_files_and_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def act() -> None:
        stage = await a_stage()
        hands = Hands(stage.session)
        assert await hands.do("export") == "the conversation is empty\n"
        assert await stage.session.answer("What is the weather in Oslo?")
        assert await hands.do("export") == "Written to chat-20260102-030405.md.\n"
        assert "[Tool Use: home__weather]" in Path("chat-20260102-030405.md").read_text()
        assert await hands.do("export") == "Written to chat-20260102-030405.md.\n"
        assert await hands.do("export", "a.jsonl") == "Written to a.jsonl.\n"
        assert [json.loads(line)["role"] for line in Path("a.jsonl").read_text().splitlines()] == [
            "user",
            "assistant",
        ] * 2
        assert "ends in .md" in await hands.do("export", "a.txt")
        assert "No such file" in await hands.do("export", "nowhere/a.md")
        Path("mine.md").write_text("mine")
        assert await hands.do("export", "mine.md") == "mine.md: the file already exists\n"
        assert Path("mine.md").read_text() == "mine"
        await hands.do("clear")
        assert stage.session.conversation.messages == ()

    asyncio.run(act())
