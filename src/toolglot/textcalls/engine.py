"""The one reader of tool calls in text: pieces of text in, events out.

Text is passed on at once, but for what may be the beginning of a mark. A mark that opens a call is tried: its header
must read as one, its body must begin as one. Where it turns out to be none, it was text, and reading goes on behind the
mark. Nothing that was passed on is ever taken back, and the way the text is cut into pieces changes nothing.

The states, each a method that reads as far as it can and tells whether there may be more to read now:

    _answering   the answer: text, and what marks in it open
    _fenced      inside a code block: marks are text
    _reasoning   between thinking marks: marks are text, unless the answer ends with calls and no end of the reasoning
    _passing     inside a message that is text or reasoning as a whole
    _calling     inside a call: its body reads
    _behind      behind a call: its closing marks, or the next call
    _dropping    behind a mark that ends the answer
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from toolglot.textcalls.aside import Aside
from toolglot.textcalls.attempts import Attempts
from toolglot.textcalls.bodies import BODIES
from toolglot.textcalls.body import Body, Opened
from toolglot.textcalls.events import CallEvent, Sink, merged
from toolglot.textcalls.fences import next_fence
from toolglot.textcalls.grammar import Call, Format
from toolglot.textcalls.line import Line
from toolglot.textcalls.marks import marks_of
from toolglot.textcalls.messages import read_message
from toolglot.textcalls.trying import Found, Outcome, Trial, behind_space
from toolglot.textcalls.vocabulary import Meaning, is_word, vocabulary_of

MAX_EXTRA: Final = 3
"""So many brackets too many are passed over behind a call."""
MAX_SPACE: Final = 1000
"""White space behind a call that is waited for until something follows."""


class Engine:
    """Reads one answer. `tools` maps the names of the declared tools to their schemas (None: any arguments).

    `ends_at` are marks behind which nothing of the answer is left once a call has begun: those of results, which the
    model can only have made up.
    """

    def __init__(
        self,
        text_format: Format,
        tools: Mapping[str, Any],
        *,
        starts_in_reasoning: bool = False,
        ends_at: tuple[str, ...] = (),
        calls: int = 0,
        offset: int = 0,
    ) -> None:
        self._format = text_format
        self._tools = tools
        self._ends_at = tuple(mark.strip() for mark in ends_at)
        self._vocabulary = vocabulary_of(text_format, tuple(tools), self._ends_at)
        self._trying = Trial(self._vocabulary, tools)
        self._sink = Sink()
        self._sink.calls = calls
        self._state = self._reasoning if starts_in_reasoning else self._beginning
        self._text = ""
        self._at = 0
        self._offset = offset  # of the text's first character in the whole answer
        self._last = False  # nothing follows
        self._cut = False
        self._line = Line()
        self._fence = ""
        self._after_thinking = False
        self._body: Body | None = None
        self._attempts = Attempts()
        self._calls_before = 0
        self._call: Call | None = None
        self._closers: tuple[str, ...] = ()  # what may close the last call, right behind it
        self._unclosed: set[str] = set()
        self._extra = 0
        self._passes_as = self._sink.text
        self._aside: Aside | None = None
        self._no_aside_before = 0
        self.strayed: int | None = None  # where something other than calls was met first

    def feed(self, text: str) -> Sequence[CallEvent]:
        """The events for more of the text."""
        if not text:
            return ()
        self._offset += self._at
        self._text = self._text[self._at :] + text if self._at < len(self._text) else text
        self._at = 0
        return self._run()

    def finish(self, *, cut: bool = False) -> Sequence[CallEvent]:
        """The events for the end of the text. `cut`: a limit ended it, so that nothing without an end is whole."""
        self._last = True
        self._cut = cut
        events = list(self._run())
        if self._aside is not None:
            self._end_aside(self._aside)
        elif self._state == self._reasoning:
            self._think(len(self._text))
        else:
            self._say(len(self._text))
        events += self._sink.events
        self._sink.events = []
        return merged(events)

    def _run(self) -> Sequence[CallEvent]:
        while self._state():
            pass
        events = self._sink.events
        self._sink.events = []
        return merged(events)

    # ── the answer ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _beginning(self) -> bool:
        """The first characters: where an answer consists of messages, the first header may have no opener."""
        messages = self._format.messages
        if messages is None or not messages.at_start:
            self._state = self._answering
            return True
        starts = marks_of(tuple(start for start in messages.at_start if start))
        if self._at == len(self._text) or (not self._last and starts.begins(self._text, self._at)):
            return False
        if starts.match(self._text, self._at) or "" in messages.at_start:
            return self._message("")
        self._state = self._answering
        return True

    def _answering(self) -> bool:
        text, at, marks = self._text, self._at, self._vocabulary.marks
        if self._after_thinking:
            self._at = at = behind_space(text, at)
            if at == len(text):
                return False
            self._after_thinking = False
        end, mark = marks.next(text, at, last=self._last)
        self._say(end)
        return self._meet(mark) if mark else False

    def _answer_afresh(self) -> bool:
        self._line.fresh()
        self._state = self._answering
        return True

    def _meet(self, mark: str) -> bool:
        """Go on at a mark."""
        meanings = self._vocabulary.meanings[mark]
        kinds = {meaning.kind for meaning in meanings}
        if self._line.in_code and mark != "```":
            return self._as_text(mark)
        if "call" in kinds or "section" in kinds:
            outcome = self._outcome(self._at, mark, line_start=self._line.blank)
            if isinstance(outcome, Found):
                return self._open(outcome)
            if outcome == "wait":
                return False
        if mark in self._ends_at and self._sink.calls and (self._line.blank or not is_word(mark)):
            return self._end_answer(mark)
        if "message" in kinds:
            return self._message(mark)
        if "fence" in kinds and self._line.blank:
            return self._open_fence()
        if "drop" in kinds or mark in self._unclosed:
            self._unclosed.discard(mark)
            self._at += len(mark)
            return True
        thinks = "think" in kinds and (self._line.blank or mark.startswith("<|"))
        if thinks or "unthink" in kinds:
            self.strayed = self._offset + self._at if self.strayed is None else self.strayed
            self._at += len(mark)
            self._state = self._reasoning if thinks else self._answering
            return True
        if any(map(self._is_sure, meanings)):
            self._sink.refused(mark)
        return self._as_text(mark)

    def _is_sure(self, meaning: Meaning) -> bool:
        """It would have opened a call here, or a section of them, and nothing else."""
        call = meaning.call
        if call is None:
            return meaning.kind == "section"
        return not call.weak and (self._line.blank or not (call.line_start or is_word(call.header.openers[0].strip())))

    def _end_answer(self, mark: str) -> bool:
        self._sink.over(mark)
        self._state = self._dropping
        return True

    def _dropping(self) -> bool:
        self._at = len(self._text)
        return False

    def _as_text(self, mark: str) -> bool:
        self._say(self._at + len(mark))
        return True

    def _say(self, end: int) -> None:
        """The text up to `end` is part of the answer; what that does to the line."""
        text = self._text[self._at : end]
        if not text:
            return
        self._sink.text(text)
        if not text.isspace():
            self._trying.said = True
            if self.strayed is None:
                self.strayed = self._offset + self._at + len(text) - len(text.lstrip())
        self._at = end
        self._line.add(text)

    # ── code blocks ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _open_fence(self) -> bool:
        _, self._fence = next_fence(self._text, self._at, last=self._last)
        if not self._fence:
            return False
        self._say(self._at + len(self._fence))
        self._state = self._fenced
        return True

    def _fenced(self) -> bool:
        start, fence = next_fence(self._text, self._at, last=self._last)
        self._say(start)
        if not fence:
            return False
        closes = self._line.blank and len(fence) >= len(self._fence)
        self._say(self._at + len(fence))
        if closes:
            self._line.in_code = False
            self._state = self._answering
        return True

    # ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _message(self, mark: str) -> bool:
        """A message's header, behind its mark, and what it makes of the body."""
        routed = read_message(self._format, self._tools, self._text, self._at + len(mark))
        if routed == "wait" and not self._last:
            return False
        self._state = self._answering
        if isinstance(routed, str):
            if mark:
                self._sink.refused(mark)
            return self._as_text(mark)
        if routed.to == "call":
            return self._open(Found(self._format.calls[0], routed.name, "", routed.end))
        self._at = routed.end
        self._line.fresh()
        if routed.to != "calls":
            self._trying.said = self._trying.said or routed.to == "text"
            self._passes_as = self._sink.text if routed.to == "text" else self._sink.reasoning
            self._state = self._passing
        return True

    def _passing(self) -> bool:
        end, mark = self._vocabulary.in_message.next(self._text, self._at, last=self._last)
        self._passes_as(self._text[self._at : end])
        self._at = end
        if not mark:
            return False
        if mark in self._vocabulary.section_closers:
            self._at += len(mark)
        return self._answer_afresh()

    # ── reasoning ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _reasoning(self) -> bool:
        if self._aside is not None:
            return self._read_aside(self._aside)
        text, marks = self._text, self._vocabulary.in_reasoning
        end, mark = marks.next(text, self._at, last=self._last)
        self._think(end)
        if not mark:
            return False
        if mark in self._vocabulary.thinking_ends:
            self._at += len(mark)
            self._after_thinking = True
            return self._answer_afresh()
        if self._offset + self._at >= self._no_aside_before:
            outcome = self._outcome(self._at, mark)
            if outcome == "wait":
                return False
            if isinstance(outcome, Found):
                start = self._offset + self._at
                reader = Engine(self._format, self._tools, calls=self._sink.calls, offset=start)
                self._aside = Aside(reader, start)
                return True
        self._think(self._at + len(mark))
        return True

    def _think(self, end: int) -> None:
        self._sink.reasoning(self._text[self._at : end])
        self._at = end

    def _read_aside(self, aside: Aside) -> bool:
        strayed = aside.feed(self._text[self._at :])
        self._at = len(self._text)
        if strayed is None:
            return False
        # Read it again as reasoning, and what it holds without trying it once more.
        # Its opener itself may turn out to be none.
        self._no_aside_before = max(strayed, aside.start + 1)
        self._text, self._at, self._offset = aside.text, 0, aside.start
        self._aside = None
        return True

    def _end_aside(self, aside: Aside) -> None:
        events = aside.finish(cut=self._cut)
        if events is None:
            self._sink.reasoning(aside.text)
        else:
            self._sink.events += events

    # ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _outcome(self, at: int, mark: str, *, line_start: bool = True) -> Outcome:
        refused = self._attempts.refused_at(self._offset + at)
        return self._trying.outcome(self._text, at, mark, line_start=line_start, last=self._last, refused=refused)

    def _open(self, found: Found) -> bool:
        call = found.call
        opened = Opened(call, self._sink, self._tools, found.name, found.id, self._vocabulary.followers)
        self._body = BODIES[call.body](opened)
        self._attempts.open(call, self._offset + self._at, self._text[self._at : found.at])
        self._calls_before = self._sink.calls
        self._call = call
        self._at = found.at
        self._state = self._calling
        return True

    def _calling(self) -> bool:
        body, text, at = self._body, self._text, self._at
        if body is None:
            raise RuntimeError("no call is open")
        self._at = body.finish(text, at, cut=self._cut) if self._last else body.read(text, at)
        self._attempts.read(text, at, self._at, begun=self._sink.calls > self._calls_before)
        if body.state == "open":
            return False
        self._body = None
        if body.state == "refused":
            return self._refuse()
        self._trying.said = True
        closers = self._call.closers if self._call else ()
        self._closers = (*closers, *self._vocabulary.section_closers)
        self._unclosed = set(self._closers)
        self._extra = 0 if closers else MAX_EXTRA
        self._state = self._behind
        return True

    def _refuse(self) -> bool:
        """It was no call of this kind: perhaps of another, else its mark is text and what follows is read again."""
        held, self._offset, gives_up = self._attempts.refuse()
        self._text = held + self._text[self._at :]
        self._at = 0
        self._state = self._answering
        if gives_up:
            if self._call and not self._call.weak:
                self._sink.refused(self._vocabulary.marks.match(held, 0))
            self._say(len(held))
        return True

    def _behind(self) -> bool:
        """Closing marks and further calls; the space between them is theirs."""
        text, vocabulary = self._text, self._vocabulary
        at = behind_space(text, self._at)
        if at - self._at >= MAX_SPACE:
            self._at += MAX_SPACE
            return self._answer_afresh()
        if not self._last and (at == len(text) or vocabulary.marks.begins(text, at)):
            return False
        if self._last and len(text) - at > 2 and marks_of(self._closers).begins(text, at):
            at = len(text)  # half a closing mark
        mark = vocabulary.marks.match(text, at)
        if mark and any(meaning.kind in ("call", "section") for meaning in vocabulary.meanings[mark]):
            outcome = self._outcome(at, mark)
            if isinstance(outcome, Found):
                self._at = at
                return self._open(outcome)
            if outcome == "wait":
                return False
        if mark in self._ends_at and self._sink.calls:
            self._at = at
            return self._end_answer(mark)
        if mark in self._closers:
            self._unclosed.discard(mark)
            self._at = at + len(mark)
            return True
        if at < len(text) and text[at] in "}]" and self._extra < MAX_EXTRA:
            self._extra += 1
            self._at = at + 1
            return True
        if at == len(text):
            self._at = at
        return self._answer_afresh()
