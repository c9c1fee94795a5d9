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
    _pausing     too many marks: text is passed on without a look at them for a while
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolglot.textcalls.aside import Aside, Asides
from toolglot.textcalls.attempts import Attempts
from toolglot.textcalls.bodies import BODIES
from toolglot.textcalls.body import Body, Opened
from toolglot.textcalls.closing import MAX_SPACE, Closing
from toolglot.textcalls.dropped import is_dropped
from toolglot.textcalls.events import CallEvent, Sink, merged
from toolglot.textcalls.fences import FENCES, Fence, next_fence
from toolglot.textcalls.grammar import Call, Format
from toolglot.textcalls.line import Line
from toolglot.textcalls.marks import marks_of
from toolglot.textcalls.messages import begins_with_message, read_message
from toolglot.textcalls.trying import Found, Outcome, Trial, behind_space
from toolglot.textcalls.vocabulary import is_word, vocabulary_of
from toolglot.textcalls.work_budget import STEPS_PER_CALL, WorkBudget


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
        work: WorkBudget | None = None,
    ) -> None:
        self._format = text_format
        self._tools = tools
        self._ends_at = tuple(mark.strip() for mark in ends_at)
        self._vocabulary = vocabulary_of(text_format, tuple(tools), self._ends_at)
        self._trying = Trial(self._vocabulary, tools)
        self._sink = Sink(calls, work)
        self._state = self._reasoning if starts_in_reasoning else self._beginning
        self._text = ""
        self._at = 0
        self._offset = offset  # of the text's first character in the whole answer
        self._last = False  # nothing follows
        self._cut = False
        self._line = Line()
        self._fence = Fence()
        self._after_thinking = False
        self._body: Body | None = None
        self._attempts = Attempts()
        self._calls_before = 0
        self._call: Call | None = None
        self._closing = Closing()
        self._passes_as = self._sink.text
        self._resumes = self._answering  # behind a pause, which lasts up to an offset
        self._pause_until = 0
        self._paused = False
        self._asides = Asides(self._vocabulary.thinking_ends)
        self._thinks_as = self._sink.reasoning
        self.strayed: int | None = None  # where something other than calls was met first

    def feed(self, text: str) -> Sequence[CallEvent]:
        """The events for more of the text."""
        if not text:
            return ()
        self._offset += self._at
        self._text = self._text[self._at :] + text if self._at < len(self._text) else text
        self._at = 0
        self._read()
        return merged(self._sink.take())

    def finish(self, *, cut: bool = False) -> Sequence[CallEvent]:
        """The events for the end of the text. `cut`: a limit ended it, so that nothing without an end is whole."""
        self._last, self._cut = True, cut
        self._read()
        if self._asides.open is not None:
            self._end_aside(self._asides.open)
        elif self._state == self._reasoning:
            self._think(len(self._text))
        else:
            self._say(len(self._text))
        return merged(self._sink.take())

    def _read(self) -> None:
        """Read as far as possible. Each step counts, and an answer may take only so many for its length."""
        work = self._sink.work
        while self._state():
            work.steps += 1
            is_open = self._body is not None or self._asides.open is not None
            if not is_open and (until := work.pause_at(self._offset + self._at)):
                self._pause(until)

    def _pause(self, until: int) -> None:
        if self._state == self._behind:
            self._answer_afresh()
        if self._state != self._dropping:
            self._resumes, self._state, self._pause_until = self._state, self._pausing, until

    def _pausing(self) -> bool:
        end = min(len(self._text), self._pause_until - self._offset)
        if end > self._at and not self._paused:
            self._paused = True
            self._sink.unread(self._format.name)
        if self._resumes == self._reasoning:
            self._think(end)
        elif self._resumes == self._passing:
            self._passes_as(self._text[self._at : end])
            self._at = end
        else:
            self._say(end)
        if self._offset + end < self._pause_until:
            return False
        self._state = self._resumes
        return True

    # ── the answer ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _beginning(self) -> bool:
        """The first characters: where an answer consists of messages, the first header may have no opener."""
        begins = begins_with_message(self._format.messages, self._text, self._at, last=self._last)
        if begins:
            return self._message("")
        if begins is not None:
            self._state = self._answering
        return begins is not None

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
        kinds = self._vocabulary.kinds[mark]
        if mark not in FENCES and self._line.in_code:
            if mark in self._vocabulary.sure[True]:
                self._line.met_mark()
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
        if "fence" in kinds and self._line.bare:
            return self._open_fence()
        if "drop" in kinds or self._closing.is_missed(mark):
            return self._drop(mark)
        if "think" in kinds or "unthink" in kinds:
            return self._meet_thinking(mark, opens="think" in kinds)
        if mark in self._vocabulary.sure[self._line.blank]:
            self._sink.refused(mark)
        return self._as_text(mark)

    def _drop(self, mark: str) -> bool:
        said = self._trying.said and not self._closing.is_missed(mark)
        dropped = is_dropped(self._format, mark, self._text, self._at, said=said, last=self._last)
        if dropped:
            self._closing.met(mark)
            self._at += len(mark)
            return True
        return False if dropped is None else self._as_text(mark)

    def _meet_thinking(self, mark: str, *, opens: bool) -> bool:
        """Within a line, the mark may be one that the answer speaks of: it and what follows stay text, in which calls
        count as little as in reasoning."""
        if is_word(mark) and self._trying.said:
            return self._as_text(mark)
        self.strayed = self._offset + self._at if self.strayed is None else self.strayed
        if opens:
            self._state = self._reasoning
            if not (self._line.blank or mark.startswith("<|")):
                self._thinks_as = self._sink.text
                return self._as_text(mark)
        self._at += len(mark)
        return True

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
        _, fence = next_fence(self._text, self._at, self._text[self._at], last=self._last)
        if not fence:
            return False
        self._fence = Fence(fence)
        self._say(self._at + len(fence))
        self._state = self._fenced
        return True

    def _fenced(self) -> bool:
        start, fence = next_fence(self._text, self._at, self._fence.mark[0], last=self._last)
        self._fence.passed(self._text[self._at : start])
        self._say(start)
        if not fence:
            return False
        closes = self._fence.closed_by(fence, line_start=self._line.bare)
        self._say(self._at + len(fence))
        if closes:
            self._line.leave_code()
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
        if self._asides.open is not None:
            return self._read_aside(self._asides.open)
        end, mark = self._vocabulary.in_reasoning.next(self._text, self._at, last=self._last)
        self._think(end)
        if not mark:
            return False
        if mark in self._vocabulary.thinking_ends:
            return self._end_thinking(mark)
        if self._asides.may_open(self._offset + self._at):
            outcome = self._outcome(self._at, mark)
            if outcome == "wait":
                return False
            if isinstance(outcome, Found):
                start = self._offset + self._at
                work = self._sink.work
                engine = Engine(self._format, self._tools, calls=self._sink.calls, offset=start, work=work)
                self._asides.begin(engine, start, work.steps)
                return True
        self._think(self._at + len(mark))
        return True

    def _end_thinking(self, mark: str) -> bool:
        if self._thinks_as == self._sink.text:
            self._think(self._at + len(mark))
            self._thinks_as = self._sink.reasoning
        else:
            self._at += len(mark)
            self._after_thinking = True
        return self._answer_afresh()

    def _think(self, end: int) -> None:
        self._thinks_as(self._text[self._at : end])
        self._at = end

    def _read_aside(self, aside: Aside) -> bool:
        self._at, strayed = aside.feed(self._text, self._at, last=self._last)
        if strayed is None:
            return False
        # Read it again as reasoning, and what it holds without trying it once more.
        self._sink.work.steps = self._asides.close(strayed)
        self._go_back(aside.start, aside.text)
        return True

    def _end_aside(self, aside: Aside) -> None:
        events = aside.finish(cut=self._cut)
        if events is None:
            self._thinks_as(aside.text)
        else:
            self._sink.events += events

    def _go_back(self, start: int, read: str) -> None:
        """Read again from the offset `start` on, where `read` begins, which ends where reading has come to."""
        if start >= self._offset:
            self._at = start - self._offset
        else:
            self._text, self._at, self._offset = read + self._text[self._at :], 0, start

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
        self._sink.work.steps += STEPS_PER_CALL
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
        self._sink.work.steps += STEPS_PER_CALL * max(0, self._sink.calls - self._calls_before - 1)
        self._trying.said = True
        self._closing.begin(self._call, self._vocabulary.section_closers)
        self._state = self._behind
        return True

    def _refuse(self) -> bool:
        """It was no call of this kind: perhaps of another, else its mark is text and what follows is read again."""
        held, start, gives_up = self._attempts.refuse()
        self._go_back(start, held)
        self._state = self._answering
        if gives_up:
            if self._call and not self._call.weak:
                self._sink.refused(self._vocabulary.marks.match(held, 0))
            self._say(self._at + len(held))
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
        if self._last and len(text) - at > 2 and marks_of(self._closing.marks).begins(text, at):
            at = len(text)  # half a closing mark
        mark = vocabulary.marks.match(text, at)
        if mark and vocabulary.calls.match(text, at) == mark:
            outcome = self._outcome(at, mark)
            if isinstance(outcome, Found):
                self._at = at
                return self._open(outcome)
            if outcome == "wait":
                return False
        if mark in self._ends_at and self._sink.calls:
            self._at = at
            return self._end_answer(mark)
        end = at + len(mark)
        if mark in FENCES and end == len(text) and not self._last:
            return False  # a word may follow: then it opens a code block
        if mark in self._closing.marks and not (mark in FENCES and text[end : end + 1].isalnum()):
            self._closing.met(mark)
            self._at = end
            return True
        if self._closing.takes_bracket(text[at : at + 1]):
            self._at = at + 1
            return True
        self._at = at if at == len(text) else self._at
        return self._answer_afresh()
