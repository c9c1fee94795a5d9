"""The parser for tool calls in text: it converts pieces of text to events. Text is passed on at once, except a possible
beginning of a mark. A mark that opens a call is tried: its header must parse, and its body must begin like a body. If
it is not a call, it is text, and reading continues after the mark. Emitted text is never withdrawn, and the result does
not depend on how the text is split.

The states are methods that read as far as they can and return whether there may be more to read now:

    _read_answer        the answer: text, and what marks in it open
    _read_fenced        inside a code block: marks are text
    _read_reasoning     between thinking marks: marks are text, unless the answer ends with calls inside the reasoning
    _read_message_body  inside a message that is text or reasoning as a whole
    _read_call          inside a call: its body reads
    _read_after_call    after a call: its closing marks, or the next call
    _drop_rest          after a mark that ends the answer
    _read_paused        too many marks: text is passed on unread for a while
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolglot.textcalls.bodies import BODIES
from toolglot.textcalls.body import CallBody, OpenedCall
from toolglot.textcalls.call_probe import CallAttempts, CallProbe, FoundCall, ProbeOutcome, skip_space
from toolglot.textcalls.events import STEPS_PER_CALL, CallEvent, EventSink, WorkBudget, merge_events
from toolglot.textcalls.grammar import CallSyntax, Format
from toolglot.textcalls.headers import begins_with_message, read_message
from toolglot.textcalls.line_state import FENCES, CodeFence, LineState, next_fence, opens_block
from toolglot.textcalls.marks import MAX_SPACE_AFTER_CALL, ClosingMarks, is_dropped, mark_set
from toolglot.textcalls.speculative import Speculation, SpeculativeReader
from toolglot.textcalls.vocabulary import is_word, vocabulary_of


class Engine:
    """Reads one answer.

    `tools` maps the names of the declared tools to their schemas (None: any arguments). `ends_at` are marks that end
    the answer once a call has begun: those of results, which the model can only have invented.
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
        self._trying = CallProbe(self._vocabulary, tools)
        self._sink = EventSink(calls, work)
        self._state = self._read_reasoning if starts_in_reasoning else self._read_beginning
        self._text = ""
        self._at = 0
        self._offset = offset  # of the text's first character in the whole answer
        self._last = False  # nothing follows
        self._cut = False
        self._line = LineState()
        self._fence = CodeFence()
        self._after_thinking = False
        self._body: CallBody | None = None
        self._attempts = CallAttempts()
        self._calls_before = 0
        self._call: CallSyntax | None = None
        self._closing = ClosingMarks()
        self._passes_as = self._sink.text
        self._resumes = self._read_answer  # state after a pause, which lasts up to an offset
        self._pause_until = 0
        self._paused = False
        self._asides = Speculation(self._vocabulary.thinking_ends)
        self._thinks_as = self._sink.reasoning
        self.strayed: int | None = None  # offset of the first thing other than calls

    def feed(self, text: str) -> Sequence[CallEvent]:
        """Return the events for more text."""
        if not text:
            return ()
        self._offset += self._at
        self._text = self._text[self._at :] + text if self._at < len(self._text) else text
        self._at = 0
        self._read()
        return merge_events(self._sink.take())

    def finish(self, *, cut: bool = False) -> Sequence[CallEvent]:
        """Return the events for the end of the text. `cut`: a limit ended it, so anything without an end is
        incomplete."""
        self._last, self._cut = True, cut
        self._read()
        if self._asides.open is not None:
            self._end_speculative(self._asides.open)
        elif self._state == self._read_reasoning:
            self._emit_reasoning(len(self._text))
        else:
            self._emit_text(len(self._text))
        return merge_events(self._sink.take())

    def _read(self) -> None:
        """Read as far as possible. Each step counts, and the number of steps is limited by the answer's length."""
        work = self._sink.work
        while self._state():
            work.steps += 1
            is_open = self._body is not None or self._asides.open is not None
            if not is_open and (until := work.pause_at(self._offset + self._at)):
                self._pause(until)

    def _pause(self, until: int) -> None:
        if self._state == self._read_after_call:
            self._restart_answer()
        if self._state != self._drop_rest:
            self._resumes, self._state, self._pause_until = self._state, self._read_paused, until

    def _read_paused(self) -> bool:
        end = min(len(self._text), self._pause_until - self._offset)
        if end > self._at and not self._paused:
            self._paused = True
            self._sink.unread(self._format.name)
        if self._resumes == self._read_reasoning:
            self._emit_reasoning(end)
        elif self._resumes == self._read_message_body:
            self._passes_as(self._text[self._at : end])
            self._at = end
        else:
            self._emit_text(end)
        if self._offset + end < self._pause_until:
            return False
        self._state = self._resumes
        return True

    # ── the answer ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _read_beginning(self) -> bool:
        """Read the first characters. If an answer consists of messages, the first header may have no opener."""
        begins = begins_with_message(self._format.messages, self._text, self._at, last=self._last)
        if begins:
            return self._message("")
        if begins is not None:
            self._state = self._read_answer
        return begins is not None

    def _read_answer(self) -> bool:
        text, at, marks = self._text, self._at, self._vocabulary.marks
        if self._after_thinking:
            self._at = at = skip_space(text, at)
            if at == len(text):
                return False
            self._after_thinking = False
        end, mark = marks.next(text, at, last=self._last)
        self._emit_text(end)
        return self._handle_mark(mark) if mark else False

    def _restart_answer(self) -> bool:
        self._line.start_line()
        self._state = self._read_answer
        return True

    def _handle_mark(self, mark: str) -> bool:
        """Continue at a mark."""
        kinds = self._vocabulary.kinds[mark]
        if mark not in FENCES and self._line.in_code:
            if mark in self._vocabulary.sure[True]:
                self._line.on_mark()
            return self._as_text(mark)
        if "call" in kinds or "section" in kinds:
            outcome = self._probe_mark(self._at, mark, line_start=self._line.blank)
            if isinstance(outcome, FoundCall):
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
            return self._handle_thinking_mark(mark, opens="think" in kinds)
        if mark in self._vocabulary.sure[self._line.blank]:
            self._sink.refused(mark)
        return self._as_text(mark)

    def _drop(self, mark: str) -> bool:
        said = self._trying.said and not self._closing.is_missed(mark)
        dropped = is_dropped(self._format, mark, self._text, self._at, said=said, last=self._last)
        if dropped:
            self._closing.on_mark(mark)
            self._at += len(mark)
            return True
        return False if dropped is None else self._as_text(mark)

    def _handle_thinking_mark(self, mark: str, *, opens: bool) -> bool:
        """Handle a thinking mark. Within a line, the answer may only mention the mark: it and the text after it stay
        text, in which calls do not count, as in reasoning.
        """
        if is_word(mark) and self._trying.said:
            return self._as_text(mark)
        self.strayed = self._offset + self._at if self.strayed is None else self.strayed
        if opens:
            self._state = self._read_reasoning
            if not (self._line.blank or mark.startswith("<|")):
                self._thinks_as = self._sink.text
                return self._as_text(mark)
        self._at += len(mark)
        return True

    def _end_answer(self, mark: str) -> bool:
        self._sink.over(mark)
        self._state = self._drop_rest
        return True

    def _drop_rest(self) -> bool:
        self._at = len(self._text)
        return False

    def _as_text(self, mark: str) -> bool:
        self._emit_text(self._at + len(mark))
        return True

    def _emit_text(self, end: int) -> None:
        """Emit the text up to `end` as part of the answer, and update the line state."""
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
        self._fence = CodeFence(fence)
        self._emit_text(self._at + len(fence))
        self._state = self._read_fenced
        return True

    def _read_fenced(self) -> bool:
        start, fence = next_fence(self._text, self._at, self._fence.mark[0], last=self._last)
        self._fence.passed(self._text[self._at : start])
        self._emit_text(start)
        opens = opens_block(self._text, start + len(fence), last=self._last) if fence else None
        if opens is None:
            return False
        closes = self._fence.read(fence, opens=opens, line_start=self._line.bare)
        self._emit_text(self._at + len(fence))
        if closes:
            self._line.leave_code()
            self._state = self._read_answer
        return True

    # ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _message(self, mark: str) -> bool:
        """Read a message's header after its mark, and choose how to read its body."""
        routed = read_message(self._format, self._tools, self._text, self._at + len(mark))
        if routed == "wait" and not self._last:
            return False
        self._state = self._read_answer
        if isinstance(routed, str):
            if mark:
                self._sink.refused(mark)
            return self._as_text(mark)
        if routed.to == "call":
            return self._open(FoundCall(self._format.calls[0], routed.name, "", routed.end))
        self._at = routed.end
        self._line.start_line()
        if routed.to != "calls":
            self._trying.said = self._trying.said or routed.to == "text"
            self._passes_as = self._sink.text if routed.to == "text" else self._sink.reasoning
            self._state = self._read_message_body
        return True

    def _read_message_body(self) -> bool:
        end, mark = self._vocabulary.in_message.next(self._text, self._at, last=self._last)
        self._passes_as(self._text[self._at : end])
        self._at = end
        if not mark:
            return False
        if mark in self._vocabulary.section_closers:
            self._at += len(mark)
        return self._restart_answer()

    # ── reasoning ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _read_reasoning(self) -> bool:
        if self._asides.open is not None:
            return self._read_speculative(self._asides.open)
        end, mark = self._vocabulary.in_reasoning.next(self._text, self._at, last=self._last)
        self._emit_reasoning(end)
        if not mark:
            return False
        if mark in self._vocabulary.thinking_ends:
            return self._end_thinking(mark)
        if self._asides.may_open(self._offset + self._at):
            outcome = self._probe_mark(self._at, mark)
            if outcome == "wait":
                return False
            if isinstance(outcome, FoundCall):
                start = self._offset + self._at
                work = self._sink.work
                engine = Engine(self._format, self._tools, calls=self._sink.calls, offset=start, work=work)
                self._asides.begin(engine, start, work.steps)
                return True
        self._emit_reasoning(self._at + len(mark))
        return True

    def _end_thinking(self, mark: str) -> bool:
        if self._thinks_as == self._sink.text:
            self._emit_reasoning(self._at + len(mark))
            self._thinks_as = self._sink.reasoning
        else:
            self._at += len(mark)
            self._after_thinking = True
        return self._restart_answer()

    def _emit_reasoning(self, end: int) -> None:
        self._thinks_as(self._text[self._at : end])
        self._at = end

    def _read_speculative(self, aside: SpeculativeReader) -> bool:
        self._at, strayed = aside.feed(self._text, self._at, last=self._last)
        if strayed is None:
            return False
        # Read it again as reasoning, without trying its contents as calls again.
        self._sink.work.steps = self._asides.close(strayed)
        self._reread(aside.start, aside.text)
        return True

    def _end_speculative(self, aside: SpeculativeReader) -> None:
        events = aside.finish(cut=self._cut)
        if events is None:
            self._thinks_as(aside.text)
        else:
            self._sink.events += events

    def _reread(self, start: int, read: str) -> None:
        """Read again from the offset `start`, where the text `read` begins. It ends at the current position."""
        if start >= self._offset:
            self._at = start - self._offset
        else:
            self._text, self._at, self._offset = read + self._text[self._at :], 0, start

    # ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _probe_mark(self, at: int, mark: str, *, line_start: bool = True) -> ProbeOutcome:
        refused = self._attempts.refused_at(self._offset + at)
        return self._trying.probe(self._text, at, mark, line_start=line_start, last=self._last, refused=refused)

    def _open(self, found: FoundCall) -> bool:
        call = found.call
        opened = OpenedCall(call, self._sink, self._tools, found.name, found.id, self._vocabulary.followers)
        self._body = BODIES[call.body](opened)
        self._attempts.open(call, self._offset + self._at, self._text[self._at : found.at])
        self._calls_before = self._sink.calls
        self._call = call
        self._sink.work.steps += STEPS_PER_CALL
        self._at = found.at
        self._state = self._read_call
        return True

    def _read_call(self) -> bool:
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
        self._state = self._read_after_call
        return True

    def _refuse(self) -> bool:
        """Refuse a call of this kind. It may be a call of another kind; otherwise, its mark is text and the text after
        it is read again.
        """
        held, start, gives_up = self._attempts.refuse()
        self._reread(start, held)
        self._state = self._read_answer
        if gives_up:
            if self._call and not self._call.weak:
                self._sink.refused(self._vocabulary.marks.match(held, 0))
            self._emit_text(self._at + len(held))
        return True

    def _read_after_call(self) -> bool:
        """Read closing marks and further calls; white space between them is dropped."""
        text, vocabulary = self._text, self._vocabulary
        at = skip_space(text, self._at)
        if at - self._at >= MAX_SPACE_AFTER_CALL:
            self._at += MAX_SPACE_AFTER_CALL
            return self._restart_answer()
        if not self._last and (at == len(text) or vocabulary.marks.begins(text, at)):
            return False
        if self._last and len(text) - at > 2 and mark_set(self._closing.marks).begins(text, at):
            at = len(text)  # a partial closing mark
        mark = vocabulary.marks.match(text, at)
        if mark and vocabulary.calls.match(text, at) == mark:
            outcome = self._probe_mark(at, mark)
            if isinstance(outcome, FoundCall):
                self._at = at
                return self._open(outcome)
            if outcome == "wait":
                return False
        if mark in self._ends_at and self._sink.calls:
            self._at = at
            return self._end_answer(mark)
        end = at + len(mark)
        if mark in FENCES and end == len(text) and not self._last:
            return False  # a word may follow, which would open a code block
        if mark in self._closing.marks and not (mark in FENCES and text[end : end + 1].isalnum()):
            self._closing.on_mark(mark)
            self._at = end
            return True
        if self._closing.takes_bracket(text[at : at + 1]):
            self._at = at + 1
            return True
        self._at = at if at == len(text) else self._at
        return self._restart_answer()
