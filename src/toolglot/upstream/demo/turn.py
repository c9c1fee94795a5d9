"""Read the conversation: the user's last wish, and the calls and results since."""

from __future__ import annotations

import re

from msgspec import Struct

from toolglot.ir import Block, Media, Message, Request, Text, ToolCall, ToolResult

MAX_WISH = 4000
"""Maximum characters of a wish that are read."""

_TAG = re.compile(r"<([A-Za-z]+(?:[-_][A-Za-z]+)+|INSTRUCTIONS)(?:\s[^<>]*)?>")
"""Agents wrap context in tags of several words: `<system-reminder>`, `<environment_context>`, `<session_context>`."""
_WRAPPERS = frozenset({"user_query", "user_input", "user_message", "user_prompt", "user_request", "user_task"})
_WRAPPER_MARK = re.compile(r"</?(?:task|user_[a-z]+)>")
_INSTRUCTION_FILE = re.compile(r"#+ [\w.-]+\.md\b.*")
"""Codex introduces the instructions of a project with a line like this, outside of their tag."""
_FOLDER = re.compile(
    r"(?:<cwd>|working directory(?: is)?|working in the directory|workspace directories)[\s:*`'\"-]*"
    r"((?:/|[A-Za-z]:\\)[^\s`'\"<>]*)",
    re.IGNORECASE,
)


class DemoTurn(Struct, frozen=True, kw_only=True):
    """A user request, with the calls and results since."""

    wish: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    media: tuple[Media, ...] = ()
    rounds: int = 0
    """Number of times that results have arrived."""
    folder: str | None = None
    """The working directory of the user's agent, if the agent names it."""


def read_turn(request: Request) -> DemoTurn:
    """Read the current turn of the conversation."""
    wish = ""
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    media: list[Media] = []
    rounds, waiting = 0, True
    behind_results = False
    for message in request.messages:
        if message.role == "assistant":
            called = [block for block in message.content if isinstance(block, ToolCall)]
            calls += called
            waiting = waiting or bool(called)
            behind_results = behind_results and bool(called)
            continue
        has_results = any(isinstance(block, ToolResult) for block in message.content)
        # Text right after results belongs to them: clients put images, reminders and "go on" there. If it counted as a
        # new wish, a client that always adds text would loop forever.
        said = "" if behind_results or has_results else _last_text(message)
        if said:
            wish, calls, results, media = said, [], [], []
            rounds, waiting = 0, True
        results += [block for block in message.content if isinstance(block, ToolResult)]
        media += [block for block in message.content if isinstance(block, Media)]
        rounds += waiting and has_results
        waiting = waiting and not has_results
        behind_results = behind_results or has_results
    return DemoTurn(
        wish=wish[:MAX_WISH],
        calls=tuple(calls),
        results=tuple(results),
        media=tuple(media),
        rounds=rounds,
        folder=_working_folder(request),
    )


def texts(content: tuple[Block, ...]) -> list[str]:
    return [block.text for block in content if isinstance(block, Text)]


def without_context(text: str) -> str:
    """Remove the tagged context that agents put into a text."""
    kept: list[str] = []
    unclosed: set[str] = set()
    position = 0
    for tag in _TAG.finditer(text):
        name = tag[1]
        if tag.start() < position or name in unclosed or name in _WRAPPERS:
            continue
        end = text.find(f"</{name}>", tag.end())
        if end < 0:
            unclosed.add(name)  # not searched again, so that the work stays linear
            continue
        kept.append(text[position : tag.start()])
        position = end + len(name) + 3
    rest = _WRAPPER_MARK.sub("", "".join((*kept, text[position:]))).strip()
    return _INSTRUCTION_FILE.sub("", rest, count=1).strip() if position and rest.startswith("#") else rest


def _last_text(message: Message) -> str:
    """Return the last text of a user's message that is not context."""
    if message.role != "user":
        return ""
    return next((said for text in reversed(texts(message.content)) if (said := without_context(text))), "")


def _working_folder(request: Request) -> str | None:
    for message in request.messages:
        if message.role == "assistant":
            continue
        for text in texts(message.content):
            if found := _FOLDER.search(text):
                return found[1].rstrip("./\\,;") or found[1]
    return None
