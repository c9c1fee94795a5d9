"""The conversation that every client has: what it wishes, and what its tools answer.

Turn 1: the model thinks, speaks and calls two tools at once. Turn 2: one of them has answered with a picture, the other
has failed, and the model calls a third. Turn 3: the model quotes the results. Tools and schemas are those of the other
loops.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

from tests.e2e.python_loops import TOOLS
from tests.e2e.python_ways import PROMPT
from tests.e2e.recordings import TIME, WEATHER

# A transparent pixel and some bytes after its end, so that its Base64 has both characters in which URLs have others.
PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
) + bytes([0x00, 0xFB, 0xEF, 0xBE, 0xFF, 0xFF, 0xFF])
PICTURE_TEXT = base64.b64encode(PICTURE).decode()
PICTURE_TYPE = "image/png"
PICTURE_URL = f"data:{PICTURE_TYPE};base64,{PICTURE_TEXT}"


@dataclass(frozen=True)
class Outcome:
    """What a tool answers."""

    text: str
    picture: bool = False
    failed: bool = False


OUTCOMES = {
    "get_weather": Outcome("17 °C, rain ☂", picture=True),
    "get_time": Outcome("the clock is broken", failed=True),
    "refresh": Outcome("refreshed"),
}
ARGUMENTS: dict[str, dict[str, Any]] = {"get_weather": WEATHER, "get_time": TIME, "refresh": {}}
"""What the model calls each tool with, in the order of the calls."""
IDS: dict[str, list[str | None]] = {
    "openai_chat": ["call_weather", "call_time", "call_refresh"],
    "openai_responses": ["call_weather", "call_time", "call_refresh"],
    "anthropic": ["toolu_weather", "toolu_time", "toolu_refresh"],
    "gemini": ["fc-weather", "fc-time", None],
}
"""The ids that the recordings give the calls. Gemini may give none."""

EFFORT_TOKENS = 2048


@dataclass(frozen=True)
class Wish:
    """What a client is asked to do: its model and the user's words."""

    model: str = "some-model"
    prompt: str = PROMPT

    def json(self) -> dict[str, Any]:
        """All that a client in another language needs to know."""
        outcomes = {name: outcome.__dict__ for name, outcome in OUTCOMES.items()}
        tools = [{"name": name, "description": text, "schema": schema} for name, text, schema in TOOLS]
        picture = {"type": PICTURE_TYPE, "data": PICTURE_TEXT}
        return {
            "model": self.model,
            "prompt": self.prompt,
            "outcomes": outcomes,
            "tools": tools,
            "picture": picture,
            "budget": EFFORT_TOKENS,
        }


def said(text: str) -> str:
    """The text of a result without what dialects that cannot mark an error put before it."""
    return text.removeprefix("Error: ")


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
