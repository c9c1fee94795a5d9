"""The tool loop: the model answers, its calls to served tools are run, and it gets the results, until it makes no more
such calls. The client sees all rounds as one answer.

Every call ends with a result: a tool that fails, is slow, not allowed or unknown gives the model an error to read.
Calls to the client's own tools go to the client. They end the answer after the served calls of the same round have run.

The loop is a generator without I/O (`ToolLoop.steps`). The gateway runs it inside its answer flow; `ToolLoop.run` runs
it for callers that await.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeGuard, TypeVar

from msgspec import Struct

from toolglot.agent.merge import HeldBlock, RoundMerger
from toolglot.agent.round_report import MoveState, RoundReport, order_round, words_first
from toolglot.agent.runner import CallOutcome, ServedToolCall, ToolRunner
from toolglot.agent.tool_results import failed_result
from toolglot.agent.toolbox import OfferedTool, Toolbox
from toolglot.config.schema import McpConfig
from toolglot.events import Event, Finish, unfold_content
from toolglot.ir import Block, Message, Request, Stop, ToolCall, ToolChoice, ToolResult, Usage, replace
from toolglot.tools.served import CallReporter, ServedCall

UNFINISHED_STOPS = frozenset({"length", "context_full", "refusal", "filtered", "malformed_call"})
"""Stop reasons after which calls do not run, because the model had not finished."""


class LoopModel(Protocol):
    def ask(self, request: Request) -> AsyncGenerator[Sequence[Event], None]:
        """Yield one answer as it arrives."""
        ...


class CallModel(Struct, frozen=True, eq=False):
    """Request an answer. The loop is resumed with its events as they arrive, and with None at its end."""

    request: Request


class RunTools(Struct, frozen=True, eq=False):
    """Run these calls. The loop is resumed with their progress and outcomes, and with None at their end."""

    calls: Sequence[ServedToolCall]
    deadline: float


class IssueApproval(Struct, frozen=True, eq=False):
    """Issue the approval request of a call, before the client sees it."""

    call: ServedCall
    question: Block


T = TypeVar("T")
LoopStep: TypeAlias = CallModel | RunTools | IssueApproval | Sequence[Event]
"""Events are for the client. A step may have none while the loop waits for more data."""
LoopSteps: TypeAlias = Generator[LoopStep, Any, T]

NOT_APPROVED = "The tool call was not run: its approval matches no open request. It may already have been used."


class LoopReporting(Struct, frozen=True, kw_only=True):
    """Reports served calls to the client; None for no reports. `approval` asks for approval in the answer, and
    `on_approval_request` is awaited before the client sees the request. `move_state` is set if the client sends reports
    back. Then the reports are in the model's order, with the reasoning state of their calls.
    """

    teller: Callable[[], CallReporter] | None = None
    approval: Callable[[ServedCall], Block] | None = None
    on_approval_request: Callable[[ServedCall, Block], Awaitable[None]] | None = None
    move_state: MoveState | None = None


class LoopProgress(Struct, frozen=True):
    """What an answer has done up to the end of a round: the messages that follow its request, and the content that its
    client has. If the answer fails later, a repeated request continues here, and no tool runs twice."""

    messages: tuple[Message, ...]
    shown: tuple[Block, ...]
    asks: bool


class ToolLoop:
    """One run of the loop, for one request.

    `outcomes` are the served calls. `rounds` has the messages that the model needs in the next turn, if the client can
    return only the content that it has seen; empty if no call was served.
    """

    def __init__(
        self, model: LoopModel, toolbox: Toolbox, limits: McpConfig, runner: ToolRunner, words: LoopReporting
    ) -> None:
        self._model = model
        self._toolbox = toolbox
        self._limits = limits
        self._runner = runner
        self._words = words
        self._merge = RoundMerger(self._is_served, holds=words.move_state is not None)
        self._clock = asyncio.get_running_loop().time
        self._deadline = self._clock() + limits.seconds
        self.outcomes: list[CallOutcome] = []
        self.rounds: list[Message] = []
        self.left_out: list[ToolCall] = []
        """Calls to served tools that did not run, because the model was cut off or had no round left."""
        self.asks = False
        """True if the client approves calls, so its own history contains the data that the model needs again."""
        self.progress: LoopProgress | None = None
        """Set after calls have run, until the last round has ended."""

    @property
    def seen(self) -> tuple[Block, ...]:
        """Content that the client received; complete once all of it has arrived."""
        return self._merge.seen()

    @property
    def usage(self) -> Usage | None:
        """Usage of all rounds so far."""
        return self._merge.usage

    async def run(
        self,
        request: Request,
        approved: Sequence[ServedCall] = (),
        first: Sequence[Block] = (),
        unapproved: Sequence[ServedCall] = (),
    ) -> AsyncGenerator[Sequence[Event], None]:
        """Yield the whole answer. The arguments are those of `steps`."""
        steps = self.steps(request, approved, first, unapproved)
        running: AsyncGenerator[Any, None] | None = None
        outcome: object = None
        try:
            while True:
                try:
                    step = steps.send(outcome)
                except StopIteration:
                    return
                outcome = None
                if isinstance(step, IssueApproval):
                    await self.issue_approval(step)
                    continue
                if isinstance(step, CallModel):
                    running = self._model.ask(step.request)
                elif isinstance(step, RunTools):
                    running = self._runner.run(step.calls, step.deadline)
                elif step:
                    yield step
                if running is not None and (outcome := await anext(running, None)) is None:
                    await running.aclose()
                    running = None
        finally:
            if running is not None:
                await running.aclose()

    async def issue_approval(self, step: IssueApproval) -> None:
        if self._words.on_approval_request is not None:
            await self._words.on_approval_request(step.call, step.question)

    def steps(
        self,
        request: Request,
        approved: Sequence[ServedCall] = (),
        first: Sequence[Block] = (),
        unapproved: Sequence[ServedCall] = (),
        earlier: LoopProgress | None = None,
    ) -> LoopSteps[None]:
        """Yield the steps of the whole answer. `approved` are calls without results at the end of the request, which
        run before the model call. `unapproved` are those with an invalid approval. `first` are the first blocks of the
        answer. `earlier` is the progress of a failed answer to the same request.
        """
        request = self._with_tools(request)
        asked = len(request.messages)
        self._merge.insert(tuple(unfold_content(first)), {})
        self.asks = bool(approved or unapproved)
        if earlier is not None:
            request = self._resume(request, earlier)
        if approved or unapproved:
            request = yield from self._run_approved(request, approved, unapproved)
        for number in range(1, self._limits.rounds + 1):
            is_last = number == self._limits.rounds or self._clock() > self._deadline + self._runner.waited
            self._merge.begin()
            if len(request.messages) > asked:
                self.progress = LoopProgress(request.messages[asked:], self._merge.shown, self.asks)
            events = yield CallModel(_without_choice(request) if is_last else request)
            while events is not None:
                events = yield self._merge.feed(events)
            finish = self._merge.finish
            if finish is None:
                return  # an error, which the client has seen
            content = self._merge.content()
            served, waiting, is_over = self._sort_calls(content, finish, is_last)
            self._remember_round(content, served, waiting)
            entries = yield from self._plan_report(content, served, waiting, is_over)
            yield from self._serve(served, entries)
            if is_over:
                self.progress = None
                yield self._merge.release()
                yield self._merge.end(self._finish(finish, content, waiting))
                return
            request = replace(_without_forced_choice(request), messages=(*request.messages, *self.rounds[-2:]))

    def _resume(self, request: Request, earlier: LoopProgress) -> Request:
        """Return the request with the progress of an earlier answer to it. This answer begins with the same content."""
        self._merge.insert(tuple(unfold_content(earlier.shown)), {})
        self.asks, self.rounds = earlier.asks, [*earlier.messages]
        return replace(_without_forced_choice(request), messages=(*request.messages, *earlier.messages))

    def _with_tools(self, request: Request) -> Request:
        choice = request.tool_choice
        if choice is not None and choice.mode == "auto" and choice.names:
            # The client's tool choice restricts its own tools, not the served ones.
            names = (*choice.names, *(each.name for each in self._toolbox.offered))
            choice = replace(choice, names=names)
        return replace(request, tools=(*request.tools, *self._toolbox.tools), tool_choice=choice)

    def _is_served(self, call: ToolCall) -> bool:
        return call.namespace is None and self._toolbox.find(call.name) is not None

    def _sort_calls(
        self, content: Sequence[Block], finish: Finish, is_last: bool
    ) -> tuple[list[ServedToolCall], list[ServedCall], bool]:
        """Return the calls to run now, those that need approval, and whether the answer ends here."""
        calls = [block for block in content if isinstance(block, ToolCall)]
        offered = [(call, self._toolbox.find(call.name)) for call in calls if self._is_served(call)]
        served = [ServedToolCall(call, each) for call, each in offered if each is not None]
        if is_last or finish.stop.reason in UNFINISHED_STOPS:
            self.left_out += [each.call for each in served]
            return [], [], True
        asks = self._words.approval is not None
        waiting = [each.as_served_call for each in served if asks and each.offered.policy == "ask"]
        now = [each for each in served if not (asks and each.offered.policy == "ask")]
        return now, waiting, not now or bool(waiting) or len(served) < len(calls)

    def _remember_round(
        self, content: Sequence[Block], served: Sequence[ServedToolCall], waiting: Sequence[ServedCall]
    ) -> None:
        """Remember the model's own output of this round. Calls that need approval are in the client's history."""
        left_out = {call.id for call in self.left_out} | {call.id for call in waiting}
        said = [block for block in content if not (isinstance(block, ToolCall) and block.id in left_out)]
        if said and (served or self.rounds):
            self.rounds.append(Message(role="assistant", content=tuple(said)))

    def _plan_report(
        self, content: Sequence[Block], served: Sequence[ServedToolCall], waiting: Sequence[ServedCall], is_over: bool
    ) -> LoopSteps[Sequence[ServedCall | Block | HeldBlock]]:
        """Return the remaining output of a round that has ended: reports of calls that run now, approval requests, and
        held blocks.
        """
        calls = {each.call.id: each.as_served_call for each in served} if self._words.teller is not None else {}
        reports = _mark_rounds(content, {**calls, **{call.id: call for call in waiting}}, is_over)
        run = [call for call in reports.values() if call.id in calls]
        questions = yield from self._approval_requests([call for call in reports.values() if call.id not in calls])
        if self._words.move_state is None:
            return [*run, *questions.values()]
        told = {**{call.id: call for call in run}, **questions}
        ordered = order_round(self._merge.held(), self._is_served, told, self._words.move_state)
        return ordered if is_over else words_first(ordered)

    def _serve(
        self,
        served: Sequence[ServedToolCall],
        entries: Sequence[ServedCall | Block | HeldBlock],
        *,
        has_begun: bool = True,
    ) -> LoopSteps[None]:
        """Run the calls and report the entries; afterwards the results of the calls are in `rounds`."""
        teller = None if self._words.teller is None or not served else self._words.teller()
        report = RoundReport(self._merge, teller, entries)
        seen = report.begin()
        if has_begun:
            yield seen
        if not served:
            return
        results: list[ToolResult] = []
        news = yield RunTools(served, self._deadline)
        while news is not None:
            if isinstance(news, CallOutcome):
                self.outcomes.append(news)
                results.append(news.result)
                seen = report.done(news.result)
            else:
                seen = report.progress(news.served.as_served_call, news.message)
            news = yield seen if has_begun else ()
        self.rounds.append(Message(role="tool", content=tuple(results)))

    def _approval_requests(self, waiting: Sequence[ServedCall]) -> LoopSteps[dict[str, Block]]:
        """Return the blocks that ask for approval of these calls, by the ids of the calls."""
        questions: dict[str, Block] = {}
        if self._words.approval is None:
            return questions
        for call in waiting:
            self.asks = True
            questions[call.id] = self._words.approval(call)
            yield IssueApproval(call, questions[call.id])
        return questions

    def _run_approved(
        self, request: Request, approved: Sequence[ServedCall], unapproved: Sequence[ServedCall]
    ) -> LoopSteps[Request]:
        """Return the request with the results of approved calls at its end. The answer begins with their report."""
        known = {block.id: block for message in request.messages for block in message.content if is_call(block)}
        calls = [(known[each.id], each) for each in approved if each.id in known]
        served = [
            ServedToolCall(call, _with_approval(offered), each.approval)
            for call, each in calls
            if (offered := self._toolbox.find(call.name)) is not None
        ]
        entries = [] if self._words.teller is None else [each.as_served_call for each in served]
        yield from self._serve(served, entries, has_begun=False)  # the merge keeps it until the answer has begun
        gone = [failed_result(call, "The tool no longer exists.") for call, _ in calls if not self._is_served(call)]
        gone += [failed_result(known[each.id], NOT_APPROVED) for each in unapproved if each.id in known]
        results, self.rounds = self.rounds, []
        messages = (*request.messages, *results, *([Message(role="tool", content=tuple(gone))] if gone else ()))
        return replace(request, messages=messages)

    def _finish(self, finish: Finish, content: Sequence[Block], waiting: Sequence[ServedCall]) -> Finish:
        """Return the stop reason for the client. Calls that it does not see do not count."""
        if finish.stop.reason != "tool_calls":
            return finish
        if any(is_call(block) and not self._is_served(block) for block in content):
            return finish
        return replace(finish, stop=Stop("end" if waiting or not self.left_out else "pause"))


def is_call(block: Block | None) -> TypeGuard[ToolCall]:
    return isinstance(block, ToolCall)


def _mark_rounds(content: Sequence[Block], calls: Mapping[str, ServedCall], is_over: bool) -> dict[str, ServedCall]:
    """Return the reported calls of a round in the model's order, each with its relation to the rest of the round."""
    told = [calls[block.id] for block in content if is_call(block) and block.id in calls]
    last = content[-1] if content else None
    follows = is_over and not (is_call(last) and last.id in calls)
    return {
        call.id: replace(call, joins=bool(number), followed=follows and not number) for number, call in enumerate(told)
    }


def _with_approval(offered: OfferedTool) -> OfferedTool:
    """An approval is valid only for the requested call."""
    return replace(offered, policy="auto") if offered.policy == "ask" else offered


def _without_choice(request: Request) -> Request:
    """Forbid further calls. The tools stay, because the history has calls to them."""
    return replace(request, tool_choice=ToolChoice(mode="none"))


def _without_forced_choice(request: Request) -> Request:
    """Remove a choice that forces a call once a call was made. Otherwise, the model would call forever."""
    forced = request.tool_choice is not None and request.tool_choice.mode == "required"
    return replace(request, tool_choice=None) if forced else request
