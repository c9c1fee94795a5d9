"""Record Claude Code at work on a model of another vendor's API: `python -m tests.docs.picture.record`.

Claude Code, `toolglot launch`, its gateway, the terminal and the tools are real. The model is a script that speaks
OpenAI's Chat Completions: it answers each turn once the screen before it has been captured, so no time is measured.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from queue import Queue
from typing import Any

import msgspec

from tests.e2e.agents.agents import NO_NETWORK, put_on_path
from tests.e2e.chat.tmux import Screen, a_screen
from tests.e2e.loopback import Asked, Loopback, Reply
from tests.e2e.scripted import Seen, upstream
from tests.e2e.wires import Call
from tests.e2e.wires import Turn as Answer
from tests.waiting import FAILSAFE
from toolglot.recordings.read import Recording, read_file
from toolglot.wire.sse import SseReader

from .run import Json, Run, Turn, WireTurn, save

SIZE = (54, 30)
MODEL = "qwen3-coder"
COMMAND = f"toolglot launch claude --model {MODEL}"
PROMPT = "test_tax.py fails. Fix it."
FILES = {
    "tax.py": "def with_tax(price):\n    return price * 0.19\n",
    "test_tax.py": """\
from tax import with_tax

assert with_tax(100) == 119, f"got {with_tax(100)}"
print("1 passed")
""",
}
SHOWN_HOME = "/home/me"
"""It replaces the temporary home folder of the run."""

ONCE_SHOWN = [PROMPT, "$ python3 test_tax.py", "Update(tax.py)", "$ python3 test_tax.py"]
"""By turn: what the screen shows by the time the model is asked."""
LAST_SHOWN = "Fixed: it returned only the tax. Test passes."

CONFIG = """\
discover = false
[upstreams.local]
base_url = "{base_url}/v1"
dialect = "openai_chat"
[models.{model}]
upstream = "local"
context_window = 131072
[record]
directory = "{recordings}"
"""
CLAUDE_SETTINGS = {
    "permissions": {
        "defaultMode": "acceptEdits",
        "allow": ["Bash(python3:*)", "Read", "Edit"],
        # Its checks run on Anthropic's servers.
        "disableAutoMode": "disable",
    }
}


def answers(work: Path) -> list[Answer]:
    """What the model says, turn by turn."""
    tax = str(work / "tax.py")
    edit = {"file_path": tax, "old_string": "price * 0.19", "new_string": "round(price * 1.19, 2)"}
    test = {"command": "python3 test_tax.py", "description": "Run the test"}
    return [
        Answer(
            "I'll read the code and run the test.",
            (Call("call_1", "Read", {"file_path": tax}), Call("call_2", "Bash", test)),
        ),
        Answer("", (Call("call_3", "Edit", edit),)),
        Answer("", (Call("call_4", "Bash", test),)),
        Answer(LAST_SHOWN),
    ]


class GatedModel:
    """A scripted model that waits in each turn until it is released."""

    def __init__(self, work: Path) -> None:
        self._answers = iter(answers(work))
        self._asked: Queue[int] = Queue()
        self._released: Queue[int] = Queue()
        self._turn = 0

    def answer(self, asked: Asked) -> Reply:
        reply = upstream("openai_chat", self._script)(asked)
        # Claude Code joins answers that have the same id.
        body = reply.body.replace(b"chatcmpl-1", b"chatcmpl-%d" % self._turn)
        return replace(reply, body=body + b"data: [DONE]\n\n")

    def _script(self, seen: Seen) -> Answer:
        if "Bash" not in seen.tools:
            return Answer("Fine.")  # a title, for example
        self._asked.put(self._turn)
        self._turn += 1
        self._released.get(timeout=FAILSAFE)
        return next(self._answers)

    def wait_for_request(self) -> None:
        self._asked.get(timeout=FAILSAFE)

    def release(self) -> None:
        self._released.put(0)


def record() -> Run:
    with tempfile.TemporaryDirectory(prefix="tg-") as name, _loopback() as loopback, a_screen() as screen:
        folder = Path(name).resolve()
        home, work = folder / "home", folder / "home" / "shop"
        model = GatedModel(work)
        with loopback.serving(model.answer) as exchange:
            _write_files(folder, work, exchange.base_url)
            screen.start(["bash", "--norc", "--noprofile"], work, _environment(folder, home), SIZE)
            screens = list(_screens(screen, model))
        recordings = [read_file(file) for file in sorted((folder / "recordings").iterdir())]
        run = Run(
            date=recordings[0].head.time[:10],
            agent=_agent_version(screens[1]),
            size=SIZE,
            screens=screens,
            turns=_turns([each for each in recordings if b'"Bash"' in each.request.data]),
        )
        data = msgspec.json.encode(run).replace(str(home).encode(), SHOWN_HOME.encode())
    return msgspec.json.decode(data, type=Run)


@contextmanager
def _loopback() -> Iterator[Loopback]:
    server = Loopback()
    try:
        yield server
    finally:
        server.close()


def _write_files(folder: Path, work: Path, base_url: str) -> None:
    home = work.parent
    work.mkdir(parents=True)
    for name, text in FILES.items():
        (work / name).write_text(text)
    put_on_path(folder / "bin")
    toolglot = folder / "bin" / "toolglot"
    toolglot.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m toolglot "$@"\n')
    toolglot.chmod(0o755)
    config = home / ".config" / "toolglot" / "toolglot.toml"
    config.parent.mkdir(parents=True)
    config.write_text(CONFIG.format(base_url=base_url, model=MODEL, recordings=folder / "recordings"))
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").write_text(json.dumps(CLAUDE_SETTINGS))
    # It has been started before, and trusts the folder. Colors are those of the terminal.
    project = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    state = {"hasCompletedOnboarding": True, "theme": "dark-ansi", "projects": {str(work): project}}
    (home / ".claude.json").write_text(json.dumps(state))


def _environment(folder: Path, home: Path) -> dict[str, str]:
    environment = {
        **NO_NETWORK,
        "HOME": str(home),
        "PATH": f"{folder / 'bin'}:/usr/bin:/bin",
        "TERM": "screen-256color",
        "LANG": "C.UTF-8",
        "PS1": "$ ",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    if path := os.environ.get("PYTHONPATH"):
        environment["PYTHONPATH"] = os.pathsep.join(str(Path(each).resolve()) for each in path.split(os.pathsep))
    return environment


def _screens(screen: Screen, model: GatedModel) -> Iterator[list[str]]:
    """Go through the run; a screen for each of its steps."""
    screen.wait_for("$")
    screen.type(COMMAND)
    screen.wait_for(COMMAND)
    yield screen.styled_lines()
    screen.press("Enter")
    screen.wait_for("shift+tab to cycle")
    yield screen.styled_lines()
    screen.type(PROMPT)
    screen.wait_for(PROMPT)
    yield screen.styled_lines()
    screen.press("Enter")
    for shown in ONCE_SHOWN:
        model.wait_for_request()
        screen.wait_for(shown)
        yield screen.styled_lines()
        model.release()
    screen.wait_for(LAST_SHOWN)
    screen.wait_for(" done ")  # it writes how long it took
    yield screen.styled_lines()
    screen.enter("/exit")
    screen.until(lambda seen: seen.endswith("$"), "a shell")


def _agent_version(lines: list[str]) -> str:
    text = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(lines))
    found = re.search(r"Claude Code v[\d.]+", text)
    assert found, text
    return found[0].replace(" v", " ")


# ── the wires ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _turns(recordings: list[Recording]) -> list[Turn]:
    return [
        Turn(
            client=_client_turn(recording),
            upstream=_upstream_turn(recording),
            receipt=recording.receipt,
        )
        for recording in recordings
    ]


def _client_turn(recording: Recording) -> WireTurn:
    """Anthropic's wire."""
    body = json.loads(recording.request.data)
    blocks = body["messages"][-1]["content"]
    found = [block for block in blocks if isinstance(block, dict) and block["type"] == "tool_result"]
    answer: dict[int, Json] = {}
    for frame in _frames(recording.body):
        if frame["type"] == "content_block_start":
            answer[frame["index"]] = {**frame["content_block"], "json": ""}
        elif frame["type"] == "content_block_delta":
            block = answer[frame["index"]]
            block["json"] += frame["delta"].get("partial_json", "")
            block["text"] = block.get("text", "") + frame["delta"].get("text", "")
    uses = [block for block in answer.values() if block["type"] == "tool_use"]
    return WireTurn(
        path=_path(recording.request.path),
        messages=len(body["messages"]),
        tools=len(body["tools"]),
        results=found,
        calls=[
            {"type": "tool_use", "id": use["id"], "name": use["name"], "input": json.loads(use["json"])} for use in uses
        ],
        text="".join(block["text"] for block in answer.values() if block["type"] == "text"),
    )


def _upstream_turn(recording: Recording) -> WireTurn:
    """The wire of Chat Completions."""
    (attempt,) = recording.attempts
    body = json.loads(attempt.request.data)
    messages = body["messages"]
    answered = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
    fresh = messages[answered[-1] :] if answered else []
    calls: dict[int, Json] = {}
    text = ""
    for frame in _frames(attempt.body):
        for choice in frame["choices"]:
            text += choice["delta"].get("content") or ""
            for piece in choice["delta"].get("tool_calls", ()):
                call = calls.setdefault(piece["index"], {**piece, "function": {"name": "", "arguments": ""}})
                for name, value in piece["function"].items():
                    call["function"][name] += value
    return WireTurn(
        path=_path(attempt.request.url),
        messages=len(messages),
        tools=len(body["tools"]),
        results=[message for message in fresh if message["role"] == "tool"],
        calls=[{name: value for name, value in call.items() if name != "index"} for call in calls.values()],
        text=text,
    )


def _path(url: str) -> str:
    """The path from `/v1` on, without a query."""
    return re.sub(r"^.*(?=/v1/)|\?.*$", "", url)


def _frames(body: bytes) -> Iterator[Any]:
    return (json.loads(data) for _, data in SseReader().feed(body) if data != b"[DONE]")


if __name__ == "__main__":
    save(record())
