"""How the targets of one request are given its tools, with what is known of them and what is found out on the way."""

from __future__ import annotations

from msgspec import Struct, field

from toolglot.errors import ApiError
from toolglot.gateway.tool_support import ToolSupport
from toolglot.ir import Request
from toolglot.routing import AUTO, Target
from toolglot.store import Store
from toolglot.textcalls.settings import TextCalls
from toolglot.upstream.tool_mode import refuses_tools, text_calls_for, uses_tools
from toolglot.upstream.upstream import Upstream


class ToolModes(Struct, eq=False):
    """Without `verdicts` and a store nothing is remembered."""

    support: ToolSupport = field(default_factory=ToolSupport)
    store: Store | None = None

    async def find_text_calls(self, upstream: Upstream, target: Target, request: Request) -> TextCalls | None:
        """How calls are written as text between this target and us; None when everything is native."""
        if not self.needs_lookup(upstream, target, request):
            return self.known_text_calls(upstream, target, request)
        return text_calls_for(upstream, target, await self.support.look_up(upstream, target.model, self.store))

    def needs_lookup(self, upstream: Upstream, target: Target, request: Request) -> bool:
        """Whether the store has to be asked first."""
        if self.store is None or target.tools != AUTO or not uses_tools(request):
            return False
        return self.support.is_outdated(upstream, target.model)

    def known_text_calls(self, upstream: Upstream, target: Target, request: Request) -> TextCalls | None:
        """The same as `of`, without asking the store."""
        if target.tools != AUTO or not uses_tools(request):
            return text_calls_for(upstream, target)
        return text_calls_for(upstream, target, self.support.get_known(upstream, target.model))

    def text_calls_after(
        self, upstream: Upstream, target: Target, request: Request, error: ApiError
    ) -> TextCalls | None:
        """How the request can be sent once more as text, when the upstream has refused it because of its tools."""
        if target.tools != AUTO or not uses_tools(request) or not refuses_tools(error):
            return None
        return text_calls_for(upstream, target, "text")

    async def store_refusal(self, upstream: Upstream, target: Target) -> None:
        """The target takes text and no tools: the next request is sent as text at once."""
        await self.support.store_refusal(upstream, target.model, self.store)
