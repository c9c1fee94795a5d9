"""The loop: the model answers, the calls it makes to served tools are run, it is given the results, until it has no
more such calls. To its reader all of that is one answer.

A call ends in a result whatever happens: a tool that fails, is slow, is not allowed or does not exist gives the model
an error to read. Calls to the client's own tools are left to the client: they end the answer, once the served calls
beside them have been run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Protocol, TypeGuard

from msgspec import Struct

from toolglot.agent.merge import Merge
from toolglot.agent.results import failed
from toolglot.agent.runner import Outcome, Runner, Served
from toolglot.agent.toolbox import Offered, Toolbox
from toolglot.config.schema import McpConfig
from toolglot.events import Close, Event, Finish, Open
from toolglot.ir import Block, Message, Request, Stop, ToolCall, ToolChoice, ToolResult, Usage, replace
from toolglot.tools.served import Piece, ServedCall, Teller

NOT_RUN = frozenset({"length", "context_full", "refusal", "filtered", "malformed_call"})
"""Why an answer may stop so that its calls are not run: the model had not finished."""


class Model(Protocol):
    def ask(self, request: Request) -> AsyncGenerator[Sequence[Event], None]:
        """One answer, as it comes."""
        ...


NOT_APPROVED = "The tool call was not run: its approval answers no open request. It may have been used already."


class Words(Struct, frozen=True, kw_only=True):
    """How the reader is told of served calls; None where it is not. `approval` asks it for its yes in the answer, and
    `on_approval_request` is awaited before it sees the question."""

    teller: Callable[[], Teller] | None = None
    approval: Callable[[ServedCall], Block] | None = None
    on_approval_request: Callable[[ServedCall, Block], Awaitable[None]] | None = None


class Loop:
    """One run of the loop, for one request.

    `outcomes` are the calls that were served. `rounds` is what the model has to be told again in the next turn where
    the reader can only say what it has seen: empty if nothing was served.
    """

    def __init__(self, model: Model, toolbox: Toolbox, limits: McpConfig, runner: Runner, words: Words) -> None:
        self._model = model
        self._toolbox = toolbox
        self._limits = limits
        self._runner = runner
        self._words = words
        self._merge = Merge(self._is_served)
        self._clock = asyncio.get_running_loop().time
        self._deadline = self._clock() + limits.seconds
        self.outcomes: list[Outcome] = []
        self.rounds: list[Message] = []
        self.left_out: list[ToolCall] = []
        """Calls to served tools that were not run, because the model was cut off or had no round left."""
        self.asks = False
        """The reader has a say in the calls: its own history has what the model must be told again."""

    @property
    def seen(self) -> tuple[Block, ...]:
        """What the reader got, once all of it has come."""
        return self._merge.seen()

    @property
    def usage(self) -> Usage | None:
        """Of all rounds so far."""
        return self._merge.usage

    async def run(
        self,
        request: Request,
        approved: Sequence[ServedCall] = (),
        first: Sequence[Block] = (),
        unapproved: Sequence[ServedCall] = (),
    ) -> AsyncGenerator[Sequence[Event], None]:
        """The whole answer. `approved` are calls without results at the end of the request, which are run before the
        model is asked; `unapproved` are those whose approval is not valid; `first` are blocks that the answer begins
        with."""
        request = self._with_tools(request)
        self._merge.insert(whole(first), 0)
        self.asks = bool(approved or unapproved)
        if approved or unapproved:
            request = await self._approved(request, approved, unapproved)
        for number in range(1, self._limits.rounds + 1):
            is_last = number == self._limits.rounds or self._clock() > self._deadline + self._runner.waited
            self._merge.begin()
            async with aclosing(self._model.ask(_without_choice(request) if is_last else request)) as answer:
                async for events in answer:
                    if seen := self._merge.feed(events):
                        yield seen
            finish = self._merge.finish
            if finish is None:
                return  # a fault, which the reader has seen
            content = self._merge.content()
            served, waiting, is_over = self._sorted(content, finish, is_last)
            self._keep(content, served, waiting)
            async with aclosing(self._serve(served)) as told:
                async for news in told:
                    yield news
            if self._words.approval is not None and waiting:
                self.asks = True
                yield self._merge.insert(whole(await self._questions(waiting, bool(served))), self._merge.next)
            if is_over:
                yield self._merge.end(self._finish(finish, content, waiting))
                return
            request = replace(_relaxed(request), messages=(*request.messages, *self.rounds[-2:]))

    def _with_tools(self, request: Request) -> Request:
        choice = request.tool_choice
        if choice is not None and choice.mode == "auto" and choice.names:
            # The client narrows down its own tools; those that are served are none of them.
            names = (*choice.names, *(each.name for each in self._toolbox.offered))
            choice = replace(choice, names=names)
        return replace(request, tools=(*request.tools, *self._toolbox.tools), tool_choice=choice)

    def _is_served(self, call: ToolCall) -> bool:
        return call.namespace is None and self._toolbox.find(call.name) is not None

    def _sorted(
        self, content: Sequence[Block], finish: Finish, is_last: bool
    ) -> tuple[list[Served], list[ServedCall], bool]:
        """The calls to run now, those that wait for the reader's yes, and whether the answer ends here."""
        calls = [block for block in content if isinstance(block, ToolCall)]
        offered = [(call, self._toolbox.find(call.name)) for call in calls if self._is_served(call)]
        served = [Served(call, each) for call, each in offered if each is not None]
        if is_last or finish.stop.reason in NOT_RUN:
            self.left_out += [each.call for each in served]
            return [], [], True
        asks = self._words.approval is not None
        waiting = [each.told for each in served if asks and each.offered.policy == "ask"]
        now = [each for each in served if not (asks and each.offered.policy == "ask")]
        return now, waiting, not now or bool(waiting) or len(served) < len(calls)

    def _keep(self, content: Sequence[Block], served: Sequence[Served], waiting: Sequence[ServedCall]) -> None:
        """The model's own words of this round. What waits for a yes stands in the reader's history."""
        left_out = {call.id for call in self.left_out} | {call.id for call in waiting}
        said = [block for block in content if not (isinstance(block, ToolCall) and block.id in left_out)]
        if said and (served or self.rounds):
            self.rounds.append(Message(role="assistant", content=tuple(said)))

    async def _serve(self, served: Sequence[Served]) -> AsyncGenerator[Sequence[Event], None]:
        """Run the calls and tell of them; their results are behind the rounds then."""
        if not served:
            return
        teller = None if self._words.teller is None else self._words.teller()
        place = self._merge.next
        if teller is not None and (told := teller.begin([each.told for each in served])):
            yield self._merge.insert(told, place)
        results: list[ToolResult] = []
        async with aclosing(self._runner.run(served, self._deadline)) as heard:
            async for news in heard:
                told = []
                if isinstance(news, Outcome):
                    self.outcomes.append(news)
                    results.append(news.result)
                    told = [] if teller is None else teller.done(news.result)
                elif teller is not None:
                    told = teller.progress(news.served.told, news.message)
                if told:
                    yield self._merge.insert(told, place)
        self.rounds.append(Message(role="tool", content=tuple(results)))

    async def _questions(self, waiting: Sequence[ServedCall], joins: bool) -> list[Block]:
        """The blocks that ask for the reader's yes to these calls; `joins`: calls of the same round have been run."""
        assert self._words.approval is not None
        questions: list[Block] = []
        for number, call in enumerate(waiting):
            asked = replace(call, joins=bool(joins or number))
            questions.append(self._words.approval(asked))
            if self._words.on_approval_request is not None:
                await self._words.on_approval_request(asked, questions[-1])
        return questions

    async def _approved(
        self, request: Request, approved: Sequence[ServedCall], unapproved: Sequence[ServedCall]
    ) -> Request:
        """The request with the results of calls that its history ends with. What is told of them opens the answer."""
        known = {block.id: block for message in request.messages for block in message.content if is_call(block)}
        calls = [(known[each.id], each) for each in approved if each.id in known]
        served = [
            Served(call, _allowed(offered), each.approval)
            for call, each in calls
            if (offered := self._toolbox.find(call.name)) is not None
        ]
        async with aclosing(self._serve(served)) as told:
            async for _ in told:
                pass  # kept by the merge until the answer has begun
        gone = [failed(call, "The tool is not there any more.") for call, _ in calls if not self._is_served(call)]
        gone += [failed(known[each.id], NOT_APPROVED) for each in unapproved if each.id in known]
        results, self.rounds = self.rounds, []
        messages = (*request.messages, *results, *([Message(role="tool", content=tuple(gone))] if gone else ()))
        return replace(request, messages=messages)

    def _finish(self, finish: Finish, content: Sequence[Block], waiting: Sequence[ServedCall]) -> Finish:
        """Why the whole answer stops, as the reader can understand it: calls that it does not see are no reason."""
        if finish.stop.reason != "tool_calls":
            return finish
        if any(is_call(block) and not self._is_served(block) for block in content):
            return finish
        return replace(finish, stop=Stop("end" if waiting or not self.left_out else "pause"))


def is_call(block: Block) -> TypeGuard[ToolCall]:
    return isinstance(block, ToolCall)


def whole(blocks: Iterable[Block]) -> list[Piece]:
    """Blocks that have no deltas, as pieces."""
    return [piece for number, block in enumerate(blocks) for piece in (Open(number, block), Close(index=number))]


def _allowed(offered: Offered) -> Offered:
    """A yes is the answer to a question: it allows what somebody was to be asked about, and nothing else."""
    return replace(offered, policy="auto") if offered.policy == "ask" else offered


def _without_choice(request: Request) -> Request:
    """The model may not call anything any more. The tools stay: the history has calls to them."""
    return replace(request, tool_choice=ToolChoice(mode="none"))


def _relaxed(request: Request) -> Request:
    """A choice that forces a call has had its way; once more, and the model would call for ever."""
    forced = request.tool_choice is not None and request.tool_choice.mode == "required"
    return replace(request, tool_choice=None) if forced else request
