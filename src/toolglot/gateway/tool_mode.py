"""How each target of a request gets its tools: natively or as text, by the configuration and by earlier refusals."""

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
    """Chooses the tool mode for each target of one request. Defaults remember nothing beyond the request."""

    support: ToolSupport = field(default_factory=ToolSupport)
    store: Store | None = None

    async def find_text_calls(self, upstream: Upstream, target: Target, request: Request) -> TextCalls | None:
        """Return the settings for tool calls as text at this target; None if it takes tools natively. May read the
        store."""
        if not self.needs_lookup(upstream, target, request):
            return self.known_text_calls(upstream, target, request)
        return text_calls_for(upstream, target, await self.support.look_up(upstream, target.model, self.store))

    def needs_lookup(self, upstream: Upstream, target: Target, request: Request) -> bool:
        """Return whether `find_text_calls` has to read the store."""
        if self.store is None or target.tools != AUTO or not uses_tools(request):
            return False
        return self.support.is_outdated(upstream, target.model)

    def known_text_calls(self, upstream: Upstream, target: Target, request: Request) -> TextCalls | None:
        """Return the same as `find_text_calls`, without reading the store."""
        if target.tools != AUTO or not uses_tools(request):
            return text_calls_for(upstream, target)
        return text_calls_for(upstream, target, self.support.get_known(upstream, target.model))

    def text_calls_after(
        self, upstream: Upstream, target: Target, request: Request, error: ApiError
    ) -> TextCalls | None:
        """Return the settings to resend a request as text, if the upstream refused its tools; None if it did not."""
        if target.tools != AUTO or not uses_tools(request) or not refuses_tools(error):
            return None
        return text_calls_for(upstream, target, "text")

    async def store_refusal(self, upstream: Upstream, target: Target) -> None:
        """Remember that the target refuses tools: the next request is sent as text at once."""
        await self.support.store_refusal(upstream, target.model, self.store)
