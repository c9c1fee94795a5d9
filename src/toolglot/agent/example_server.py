"""A small example MCP server on standard input and output: `python -m toolglot.agent.example_server`. Its tools are
harmless, and each shows a different case: some only read, one changes data (and so needs approval), one is slow and
reports progress, one always fails. It needs no network and no key.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

MAX_NOTES = 100
MAX_NOTE = 1_000
MAX_DICE = 100
MAX_STEPS = 60

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)

CITIES: dict[str, tuple[str, str]] = {
    "berlin": ("Europe/Berlin", "14 °C, cloudy, a light wind from the west"),
    "cairo": ("Africa/Cairo", "31 °C, clear, dry air"),
    "lima": ("America/Lima", "18 °C, fog in the morning, overcast later"),
    "london": ("Europe/London", "12 °C, rain, clearing in the evening"),
    "new york": ("America/New_York", "19 °C, sunny with some clouds"),
    "oslo": ("Europe/Oslo", "6 °C, sleet, a fresh wind"),
    "paris": ("Europe/Paris", "17 °C, sunny with some clouds"),
    "sydney": ("Australia/Sydney", "22 °C, clear, a breeze from the sea"),
    "tokyo": ("Asia/Tokyo", "20 °C, showers"),
}
"""The time zone and the invented, constant weather of each city."""

server = MCPServer(
    "toolglot-example",
    instructions="Tools to try out. The weather is made up, notes are forgotten at the end.",
    log_level="ERROR",
)
_notes: list[str] = []


def _known(city: str) -> tuple[str, str]:
    found = CITIES.get(" ".join(city.lower().split()))
    if found is None:
        raise ToolError(f"No city {city[:100]!r} here. There are: {', '.join(name.title() for name in CITIES)}.")
    return found


@server.tool(annotations=READS, structured_output=False)
def weather(city: Annotated[str, Field(description="Such as Paris")]) -> str:
    """The weather in a city."""
    return f"{city}: {_known(city)[1]}"


@server.tool(annotations=READS, structured_output=False)
def local_time(city: Annotated[str, Field(description="Such as Tokyo")]) -> str:
    """The local time in a city, now."""
    zone = _known(city)[0]
    try:
        now = datetime.now(ZoneInfo(zone))
    except ZoneInfoNotFoundError:
        return f"{datetime.now(UTC):%A %H:%M} UTC ({zone} is not known on this machine)"
    return f"{now:%A %H:%M} in {city} ({zone})"


@server.tool(annotations=READS, structured_output=True)
def roll_dice(
    count: Annotated[int, Field(ge=1, le=MAX_DICE, description="How many dice")],
    sides: Annotated[int, Field(ge=2, le=1000, description="How many sides each has")] = 6,
) -> list[int]:
    """Roll dice."""
    return [random.randint(1, sides) for _ in range(count)]


@server.tool(annotations=ADDS, structured_output=False)
def add_note(text: Annotated[str, Field(max_length=MAX_NOTE, description="What to remember")]) -> str:
    """Add a note to the list of notes."""
    if len(_notes) >= MAX_NOTES:
        raise ToolError(f"There are {MAX_NOTES} notes, and no room for more.")
    _notes.append(text)
    return f"Note {len(_notes)} is kept."


@server.tool(annotations=READS, structured_output=False)
def list_notes() -> str:
    """List the notes that were added."""
    return "\n".join(f"{number}. {note}" for number, note in enumerate(_notes, 1)) or "There are no notes."


@server.tool(annotations=READS, structured_output=False)
async def count_down(
    context: Context,
    steps: Annotated[int, Field(ge=1, le=MAX_STEPS, description="How many steps")],
    seconds: Annotated[float, Field(ge=0, le=10, description="How long each takes")] = 1.0,
) -> str:
    """Count down slowly and report progress."""
    for step in range(steps):
        await context.report_progress(step, steps, f"{steps - step} to go")
        await anyio.sleep(seconds)
    return f"Counted down from {steps}."


@server.tool(annotations=READS, structured_output=False)
def weigh_parcel() -> str:
    """Weigh a parcel. The scale is broken: this always fails."""
    raise ToolError("The scale does not answer: is it plugged in?")


if __name__ == "__main__":
    server.run()
