"""Show an answer: the loop's events on the screen, and the calls between them."""

from __future__ import annotations

from collections.abc import Sequence

from toolglot.chat import render_events
from toolglot.chat.render import MarkdownRenderer
from toolglot.chat.safe_text import SafeStream
from toolglot.chat.screen import Screen
from toolglot.errors import ApiError
from toolglot.events import Close, Delta, Event, Fault, Finish, Open
from toolglot.ir import Media, Refusal, Stop, Text, Thinking, ToolResult
from toolglot.tools.served import ReportPiece, ServedCall


class AnswerView:
    """Shows one answer. `rest` is the text of the unfinished round."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.error: ApiError | None = None
        self.stop: Stop | None = None
        self._renderers: dict[int, MarkdownRenderer] = {}
        self._thoughts: dict[int, SafeStream] = {}
        self._pieces: list[str] = []

    @property
    def rest(self) -> str:
        return "".join(self._pieces)

    def show(self, events: Sequence[Event]) -> None:
        for event in events:
            self._show(event)

    def _show(self, event: Event) -> None:
        match event:
            case Open(index=index, block=Text() | Refusal()):
                self._renderers[index] = self.screen.renderer()
            case Open(index=index, block=Thinking()):
                self._thoughts[index] = SafeStream()
            case Open(block=Media(kind=kind, source=source)):
                self.screen.print_lines(f"[{kind}: {source.media_type or source.kind}]")
            case Delta(index=index, text=text) if index in self._renderers:
                self._pieces.append(text)
                self.screen.answer(self._renderers[index].feed(text))
            case Delta(index=index, text=text) if index in self._thoughts:
                self.screen.thought(self._thoughts[index].feed(text))
            case Close(index=index) if index in self._renderers:
                self.screen.answer(self._renderers.pop(index).close())
            case Close(index=index) if index in self._thoughts:
                self.screen.thought(self._thoughts.pop(index).close() + "\n")
            case Finish(stop=stop):
                self.stop = stop
                self.end_round()
            case Fault(error=error):
                self.error = error

    def end_round(self) -> None:
        """End the model's round, which is now part of the conversation."""
        self._pieces.clear()

    def break_off(self) -> None:
        """End an incomplete answer: show the text that was held back, and end the line."""
        for renderer in self._renderers.values():
            self.screen.answer(renderer.close())
        for thought in self._thoughts.values():
            self.screen.thought(thought.close() + "\n")
        self._renderers.clear()
        self._thoughts.clear()


class ScreenReporter:
    """Shows the calls of one round while they run. They are not part of the answer."""

    def __init__(self, view: AnswerView) -> None:
        self._view = view
        self._waiting: list[ServedCall] = []

    def begin(self, calls: Sequence[ServedCall]) -> list[ReportPiece]:
        self._view.end_round()
        self._waiting = list(calls)
        self._view.screen.print_lines(*map(render_events.call_line, calls))
        return []

    def progress(self, call: ServedCall, message: str) -> list[ReportPiece]:
        self._view.screen.print_lines(render_events.progress_line(call, message))
        return []

    def done(self, result: ToolResult) -> list[ReportPiece]:
        self._view.screen.print_lines(render_events.result_line(self._waiting.pop(0), result))
        return []
