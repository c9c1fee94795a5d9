"""What the engine without tools says in the loops of the official SDKs, and how the gateway is told of it."""

from __future__ import annotations

from tests.e2e.answers import Call
from tests.e2e.recordings import TIME, WEATHER

from .reading_model import ReadingModel, hermes_call

SAID = "Let me check both: Zürich ☂ first."
LAST_WORD = "It rains ☂; the clock stands still."
ROUNDS: tuple[list[Call], ...] = (
    [Call(None, "get_weather", WEATHER), Call(None, "get_time", TIME)],
    [Call(None, "refresh", {})],
    [],
)
STORY = ReadingModel(
    answers=[
        "\n".join([SAID, *(hermes_call(call.name, call.arguments) for call in ROUNDS[0])]),
        *(hermes_call(call.name, call.arguments) for call in ROUNDS[1]),
        LAST_WORD,
    ],
    words=["rain", "refreshed"],
)
"""Both words stand in what the tools answer and nowhere else in a prompt."""
TOLD, LEARNED = "told", "learned"
MODELS = f"""\
[models.{TOLD}]
upstream = "it"
model = "reader"
tools = "hermes_json"
[models.{LEARNED}]
upstream = "it"
model = "reader"
tools = "auto"
"""
"""One model under two names: with the one the gateway is told that calls are text, with the other it finds out."""
