"""Draw the recorded run as an animated SVG: `python -m tests.docs.picture.render`.

On the left is the terminal, on the right what goes over both wires. The picture has no script: everything is there from
the beginning, and CSS shows each part during its time. Without animation, it shows the last screen and the first round
of calls. Colors follow the reader's light or dark scheme.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import accumulate, pairwise

from msgspec import Struct

from tests.docs.markdown import ROOT

from .run import Run, WireTurn, load
from .terminal import BLOCKS, TextRun, styled_runs
from .wire_lines import Piece, wire_lines

SVG = ROOT / "docs" / "images" / "claude-code.svg"

# ── the layout, in units of the picture ──────────────────────────────────────────────────────────────────────────────
WIDTH, HEIGHT = 920, 544
TITLE = 30
PADDING = 12
GAP = 10
TERMINAL_WIDTH = 54 * 7.5 + 2 * PADDING
TERMINAL_FONT, TERMINAL_COLUMN, TERMINAL_ROW = 12.5, 7.5, 17
WIRE_LEFT = TERMINAL_WIDTH + GAP
WIRE_WIDTH = WIDTH - WIRE_LEFT
WIRE_FONT, WIRE_COLUMN, WIRE_ROW = 12, 7.2, 15.8
STRIP_HEIGHT = 48
WIRE_HEIGHT = (HEIGHT - STRIP_HEIGHT - 2 * GAP) / 2
STRIP_TOP = WIRE_HEIGHT + GAP
UPSTREAM_TOP = STRIP_TOP + STRIP_HEIGHT + GAP
RESULTS_GAP = 6
SUBSTITUTES = str.maketrans("⎿⏵", "└▸")
"""Characters that common fonts lack."""
FIRST_ROW = 1
"""The first line of the recorded screens is empty."""

SURFACES = ("panel", "title", "border", "strip")
DARK = {
    "panel": "#161b22",
    "title": "#21262d",
    "border": "#30363d",
    "text": "#e6edf3",
    "muted": "#8b949e",
    "key": "#79c0ff",
    "marked": "#ffa657",
    "call1": "#7ee787",
    "call2": "#d2a8ff",
    "call3": "#ff9bce",
    "call4": "#56d4dd",
    "error": "#ff7b72",
    "strip": "#1f6feb",
    "on-strip": "#ffffff",
}
LIGHT = {
    "panel": "#ffffff",
    "title": "#f6f8fa",
    "border": "#d0d7de",
    "text": "#1f2328",
    "muted": "#656d76",
    "key": "#0550ae",
    "marked": "#953800",
    "call1": "#116329",
    "call2": "#8250df",
    "call3": "#bf3989",
    "call4": "#1b7c83",
    "error": "#cf222e",
    "strip": "#0969da",
    "on-strip": "#ffffff",
}


def _colors(*rows: str) -> list[str]:
    return [f"#{color}" for row in rows for color in row.split()]


# The terminal's sixteen colors, for a dark and for a light background.
DARK_TERMINAL = _colors(
    "161b22 ff7b72 3fb950 d29922 58a6ff bc8cff 39c5cf b1bac4",
    "30363d e5825f 56d364 e3b341 79c0ff d2a8ff 56d4dd ffffff",
)
LIGHT_TERMINAL = _colors(
    "ffffff cf222e 116329 7d4e00 0969da 8250df 1b7c83 57606a",
    "eaeef2 c4613f 1a7f37 7d4e00 0550ae 8250df 1b7c83 1f2328",
)

# ── what is shown when ───────────────────────────────────────────────────────────────────────────────────────────────


class Scene(Struct, frozen=True):
    """`screen` is the number of a recorded screen. `late` is how long after the scene's start the second wire shows
    what the first one showed at once."""

    seconds: float
    screen: int
    late: float = 0.5


SCENES = [
    Scene(1.3, 0),  # the command
    Scene(0.7, 1),  # Claude Code is ready
    Scene(1.0, 2),  # the prompt
    Scene(1.8, 3),  # the first request
    Scene(2.4, 3, 0.7),  # calls, and so on
    Scene(3.6, 4, 0.8),
    Scene(1.9, 4),
    Scene(2.2, 5),
    Scene(1.7, 5),
    Scene(1.9, 6),
    Scene(5.0, 7),
]
STARTS = [0.0, *accumulate(scene.seconds for scene in SCENES)]
END = STARTS[-1]
FIRST_REQUEST, FIRST_CALLS, LAST = 3, 4, len(SCENES) - 1

Interval = tuple[float, float]


class Show:
    """Collects intervals of time, each with its CSS class."""

    def __init__(self) -> None:
        self._classes: dict[tuple[Interval, bool], str] = {}

    def group(self, interval: Interval, content: str, *, in_poster: bool) -> str:
        """What is visible during this interval; `in_poster` also if nothing is animated."""
        if not content:
            return ""
        name = self._classes.setdefault((interval, in_poster), f"t{len(self._classes)}")
        return f'<g class="{name}">{content}</g>\n'

    def css(self) -> str:
        return "\n".join(self._rules())

    def _rules(self) -> Iterator[str]:
        for ((start, end), in_poster), name in self._classes.items():
            frames = [f"{_percent(start)}{{opacity:1}}"]
            if start > 0:
                frames.insert(0, "0%{opacity:0}")
            if end < END:
                frames.append(f"{_percent(end)}{{opacity:0}}")
            yield f"@keyframes {name}{{{''.join(frames)}}}"
            yield f".{name}{{opacity:{int(in_poster)};animation:{name} {END:g}s step-end infinite}}"


def _percent(seconds: float) -> str:
    return f"{100 * seconds / END:.3f}".rstrip("0").rstrip(".") + "%"


# ── drawing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def render(run: Run) -> str:
    show = Show()
    body = "".join(
        [
            _panel(0, 0, TERMINAL_WIDTH, HEIGHT),
            _lights(),
            _label(TERMINAL_WIDTH / 2, 19.5, f"{run.agent} on {_model(run)}", "title-text middle"),
            *_terminal(run, show),
            _wire_panel(0, "Claude Code ⇄ toolglot", "Anthropic Messages"),
            _wire_panel(UPSTREAM_TOP, f"toolglot ⇄ {_model(run)}", "OpenAI Chat Completions"),
            *_wires(run, show),
            *_strip(run, show),
        ]
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="{escape(_alternative(run))}">\n'
        f"<style>\n{_style()}\n{show.css()}\n@media (prefers-reduced-motion:reduce){{g{{animation:none!important}}}}\n"
        f"</style>\n{body}</svg>\n"
    )


def _alternative(run: Run) -> str:
    return (
        f"A terminal with {run.agent}, started by toolglot launch, fixes a failing test on the model {_model(run)}. "
        "Beside it, its tool calls and results as Anthropic Messages and as OpenAI Chat Completions."
    )


def _model(run: Run) -> str:
    return "".join(run.screens[0]).split("--model ")[1].split()[0]


def _style() -> str:
    def variables(colors: dict[str, str], terminal: list[str]) -> str:
        named = [*colors.items(), *((f"c{number}", color) for number, color in enumerate(terminal))]
        return ";".join(f"--{name}:{color}" for name, color in named)

    fills = [
        *(name for name in DARK if name not in ("panel", "title", "border", "strip")),
        *map("c{}".format, range(16)),
    ]
    return "\n".join(
        [
            f":root{{{variables(LIGHT, LIGHT_TERMINAL)}}}",
            f"@media (prefers-color-scheme:dark){{:root{{{variables(DARK, DARK_TERMINAL)}}}}}",
            "text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
            "fill:var(--text);white-space:pre}",
            f".terminal text{{font-size:{TERMINAL_FONT}px}}",
            f".wire text{{font-size:{WIRE_FONT}px}}",
            *(f".{name}{{fill:var(--{name})}}" for name in fills),
            ".marked,.error,.call1,.call2,.call3,.call4,.bold{font-weight:600}",
            ".dim{opacity:.75}",
            ".panel{fill:var(--panel);stroke:var(--border)}",
            ".bar{fill:var(--title)}",
            ".line{stroke:var(--border)}",
            ".strip{fill:var(--strip)}",
            ".title-text{font-family:system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;font-size:13px;"
            "font-weight:600}",
            ".dialect{font-weight:400;fill:var(--muted)}",
            ".receipt{font-size:12px}",
            ".middle{text-anchor:middle}",
            ".end{text-anchor:end}",
        ]
    )


def _panel(left: float, top: float, width: float, height: float) -> str:
    """A window with a bar for its title."""
    x, y = left + 0.5, top + 0.5
    w, h = width - 1, height - 1
    bar = f"M{x:g} {y + TITLE:g}v-{TITLE - 8}a8 8 0 0 1 8-8h{w - 16:g}a8 8 0 0 1 8 8v{TITLE - 8}z"
    return (
        f'<rect class="panel" x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="8"/>\n'
        f'<path class="bar" d="{bar}"/>\n'
        f'<path class="line" d="M{x:g} {y + TITLE:g}h{w:g}"/>\n'
    )


def _lights() -> str:
    colors = ("#ff5f57", "#febc2e", "#28c840")
    return "".join(f'<circle cx="{18 + 18 * place}" cy="15.5" r="5.5" fill="{c}"/>' for place, c in enumerate(colors))


def _label(x: float, y: float, text: str, classes: str) -> str:
    return f'<text class="{classes}" x="{x:g}" y="{y:g}">{escape(text)}</text>\n'


def _wire_panel(top: float, title: str, dialect: str) -> str:
    return (
        _panel(WIRE_LEFT, top, WIRE_WIDTH, WIRE_HEIGHT)
        + _label(WIRE_LEFT + PADDING, top + 19.5, title, "title-text")
        + _label(WIDTH - PADDING, top + 19.5, dialect, "title-text dialect end")
    )


# ── the terminal ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _terminal(run: Run, show: Show) -> Iterator[str]:
    """Every line once for each time that it is shown without a change."""
    screens = [[_terminal_line(line) for line in styled_runs(screen)][FIRST_ROW:] for screen in run.screens]
    yield f'<g class="terminal" transform="translate({PADDING},{TITLE + 6})">\n'
    for row in range(len(screens[0])):
        start = 0
        for scene in range(1, len(SCENES) + 1):
            content = screens[SCENES[start].screen][row]
            if scene < len(SCENES) and screens[SCENES[scene].screen][row] == content:
                continue
            if content:
                moved = f'<g transform="translate(0,{row * TERMINAL_ROW:g})">{content}</g>'
                yield show.group((STARTS[start], STARTS[scene]), moved, in_poster=scene == len(SCENES))
            start = scene
    yield "</g>\n"


def _terminal_line(runs: list[TextRun]) -> str:
    text = "".join(run.text for run in runs).rstrip()
    if text and set(text) == {"─"}:
        return f'<path class="line" d="M0 {TERMINAL_ROW / 2:g}h{len(text) * TERMINAL_COLUMN:g}"/>'
    return "".join(_terminal_run(run) for run in runs)


def _terminal_run(run: TextRun) -> str:
    color, background = run.style.color, run.style.background
    drawn = ""
    x = run.column * TERMINAL_COLUMN
    if background or run.style.reverse:
        fill = "text" if run.style.reverse else f"c{background}"
        drawn += _box(x, 0, len(run.text) * TERMINAL_COLUMN, TERMINAL_ROW, fill)
    classes = [*([f"c{color}"] if color is not None else []), *(["bold"] if run.style.bold else [])]
    classes += ["dim"] if run.style.dim else []
    if any(character in BLOCKS for character in run.text):
        return drawn + _block_characters(run, f"c{color}")
    text = run.text.translate(SUBSTITUTES).rstrip()
    start = len(text) - len(text.lstrip())
    return drawn + _text(x + start * TERMINAL_COLUMN, 12.4, text[start:], " ".join(classes), TERMINAL_COLUMN)


def _block_characters(run: TextRun, fill: str) -> str:
    w, h = TERMINAL_COLUMN / 2, TERMINAL_ROW / 2
    quarters = {"a": (0.0, 0.0), "b": (w, 0.0), "c": (0.0, h), "d": (w, h)}
    path = ""
    for place, character in enumerate(run.text):
        for quarter in BLOCKS.get(character, ""):
            x, y = quarters[quarter]
            path += f"M{(run.column + place) * TERMINAL_COLUMN + x:g} {y:g}h{w:g}v{h:g}h-{w:g}z"
    return f'<path class="{fill}" shape-rendering="crispEdges" d="{path}"/>'


def _box(x: float, y: float, width: float, height: float, classes: str) -> str:
    return f'<rect class="{classes}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"/>'


def _text(x: float, y: float, text: str, classes: str, column: float) -> str:
    """Text on the grid of columns, whatever the width of the reader's font."""
    if not text:
        return ""
    style = f' class="{classes}"' if classes else ""
    return f'<text{style} x="{x:g}" y="{y:g}" textLength="{len(text) * column:g}">{escape(text, quote=False)}</text>'


# ── the wires ────────────────────────────────────────────────────────────────────────────────────────────────────────


class WireSide(Struct, frozen=True):
    """One of the two wires. Requests are seen on the client's wire first, answers on the upstream's."""

    top: float
    is_client: bool
    calls_in: str
    """The member of an answer that has the calls."""

    def sees_request(self, scene: int) -> float:
        return STARTS[scene] + (0.0 if self.is_client else SCENES[scene].late)

    def sees_answer(self, scene: int) -> float:
        return STARTS[scene] + (SCENES[scene].late if self.is_client else 0.0)


CLIENT = WireSide(0.0, True, "content")
UPSTREAM = WireSide(UPSTREAM_TOP, False, "tool_calls")


def _wires(run: Run, show: Show) -> Iterator[str]:
    for side in (CLIENT, UPSTREAM):
        turns = [turn.client if side.is_client else turn.upstream for turn in run.turns]
        yield f'<g class="wire" transform="translate({WIRE_LEFT + PADDING:g},{side.top + TITLE + 7:g})">\n'
        yield from _wire(side, turns, show)
        yield "</g>\n"


def _wire(side: WireSide, turns: list[WireTurn], show: Show) -> Iterator[str]:
    """In a round, calls come from the upstream to the client, and results go back."""
    asked = side.sees_request(FIRST_REQUEST)
    yield show.group((0.0, asked), _wire_rows([_muted("waiting for the first request")]), in_poster=False)
    first = turns[0]
    sent = _muted(f"▶ POST {first.path}: {first.messages} messages, {first.tools} tools")
    yield show.group((asked, side.sees_answer(FIRST_CALLS)), _wire_rows([sent]), in_poster=False)
    below = 0.0
    for number, (turn, following) in enumerate(pairwise(turns)):
        scene = FIRST_CALLS + 2 * number
        until = END if following is turns[-1] else side.sees_answer(scene + 2)
        calls = [[*_muted("◀ the model's answer: "), (side.calls_in, "marked")], *_objects(turn.calls)]
        results = [_muted(f"▶ the next request: POST {following.path}"), *_objects(following.results)]
        below = len(calls) * WIRE_ROW + RESULTS_GAP
        yield show.group((side.sees_answer(scene), until), _wire_rows(calls), in_poster=number == 0)
        yield show.group((side.sees_request(scene + 1), until), _wire_rows(results, below), in_poster=number == 0)
        below += len(results) * WIRE_ROW + RESULTS_GAP
    text: list[Piece] = [(f'"{turns[-1].text}"', "value")]
    last = _wire_rows([_muted("◀ the model's answer"), text], below)
    yield show.group((side.sees_answer(LAST), END), last, in_poster=False)


def _muted(text: str) -> list[Piece]:
    return [(text, "muted")]


def _objects(values: list[dict[str, object]]) -> list[list[Piece]]:
    return [line for value in values for line in wire_lines(value)]


def _wire_rows(lines: list[list[Piece]], top: float = 0.0) -> str:
    return "".join(_wire_line(top + row * WIRE_ROW + 12, line) for row, line in enumerate(lines))


def _wire_line(y: float, pieces: list[Piece]) -> str:
    drawn, column = "", 0
    for text, classes in pieces:
        at = column + len(text) - len(text.lstrip())
        drawn += _text(at * WIRE_COLUMN, y, text.strip(), "" if classes == "value" else classes, WIRE_COLUMN)
        column += len(text)
    return drawn


# ── the strip between them ───────────────────────────────────────────────────────────────────────────────────────────


def _strip(run: Run, show: Show) -> Iterator[str]:
    """What the receipt of each request says, and the first line in it that the one before did not have."""
    box = f'x="{WIRE_LEFT:g}" y="{STRIP_TOP:g}" width="{WIRE_WIDTH:g}" height="{STRIP_HEIGHT}" rx="8"'
    yield f'<rect class="strip" {box}/>\n'
    x, y = WIRE_LEFT + PADDING, STRIP_TOP + 20
    yield _label(x, y, "toolglot", "title-text on-strip")
    requests = [FIRST_REQUEST, *range(FIRST_CALLS + 1, LAST, 2)]
    promise = _label(x, y + 18, "translates both ways and lists what changed", "receipt on-strip")
    yield show.group((0.0, STARTS[FIRST_REQUEST]), promise, in_poster=False)
    known: list[dict[str, str]] = []
    for number, turn in enumerate(run.turns):
        fresh = [line for line in turn.receipt if line not in known]
        known += fresh
        losses = sum(line["severity"] == "loss" for line in turn.receipt)
        counts = f"{_count(losses, 'loss', 'losses')}, {_count(len(turn.receipt) - losses, 'note', 'notes')}"
        drawn = _label(WIDTH - PADDING, y, f"receipt of this request: {counts}", "receipt on-strip end")
        lines = [f"{line['severity']}: {line['what']}: {line['why']}" for line in fresh]
        drawn += _label(x, y + 18, (lines or ["the same as before"])[0], "receipt on-strip")
        end = STARTS[requests[number + 1]] if number + 1 < len(requests) else END
        yield show.group((STARTS[requests[number]], end), drawn, in_poster=number == 1)


def _count(count: int, singular: str, plural: str) -> str:
    return f"{count} {singular if count == 1 else plural}"


if __name__ == "__main__":
    SVG.write_text(render(load()))
