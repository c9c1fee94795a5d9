"""Settings that exchanges between one client's dialect and one target share, and those that differ per exchange."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from toolglot.capabilities import Capabilities
from toolglot.dialect import Dialect, capabilities
from toolglot.errors import ApiError
from toolglot.passes import CacheMarks, Context, RequestPass, StateOwner, TextCallContext, textual
from toolglot.passes.answer_state import issuer_of
from toolglot.passes.pipeline import REQUEST_PASSES
from toolglot.receipt import Receipt

if TYPE_CHECKING:
    from toolglot.textcalls.settings import TextCalls


def _hide_nothing(error: ApiError) -> ApiError:
    return error


class _ModelSettings(NamedTuple):
    """Settings that also depend on the upstream's name of the model."""

    model: str
    can: Capabilities
    owner: StateOwner


class ExchangeSettings(Struct, eq=False, kw_only=True):
    """Immutable settings that many exchanges share. `ExchangeCore` documents each."""

    client: Dialect
    upstream: Dialect
    strict: bool = False
    model: str | None = None
    can: Capabilities | None = None
    passes: Sequence[RequestPass] = REQUEST_PASSES
    verbatim: bool = True
    hide: Callable[[ApiError], ApiError] = _hide_nothing
    clock: Callable[[], float | None] | None = None
    text_calls: TextCalls | None = None
    history_format: str | None = None
    issuer: str = ""
    takes_back: frozenset[str] = frozenset()
    cache_marks: CacheMarks = "auto"
    marks_cache: bool = False
    """True if the model caches by breakpoints, and the client's API has none."""
    may_forward: bool = False
    """True if bytes may go through unchanged: both sides speak one dialect whose bytes can be forwarded."""
    _last: _ModelSettings | None = None

    def __post_init__(self) -> None:
        self.may_forward = self.verbatim and self.client.name == self.upstream.name and self.upstream.upstream.forwards

    def new_context(self, receipt: Receipt, model: str, asked_model: str | None, *, prefix_repeats: bool) -> Context:
        """Create the context of an exchange. `model` is the upstream's name, `asked_model` the client's."""
        client, text, known = self.client, None, self._last
        if known is None or known.model != model:
            known = self._last = self._of_model(model)
        if self.text_calls is not None or self.history_format is not None:
            text = TextCallContext(calls=self.text_calls, history_format=self.history_format)
        return Context(
            source=client.name,
            target=self.upstream.name,
            can=known.can,
            receipt=receipt,
            source_can=client.can,
            readable=client.readable,
            slots=client.state,
            owner=known.owner,
            aliased=self.can is not None or (asked_model is not None and model != asked_model),
            text=text,
            cache_marks=self.cache_marks,
            prefix_repeats=prefix_repeats,
        )

    def _of_model(self, model: str) -> _ModelSettings:
        can = textual.capabilities_of(self.can or capabilities(self.upstream, model), self.text_calls)
        issuer = issuer_of(self.issuer, self.upstream.name, model)
        return _ModelSettings(model, can, StateOwner(issuer, bool(self.issuer), self.takes_back))


class CallerOptions(Struct, frozen=True, eq=False, kw_only=True):
    """Capabilities and knowledge of the caller of one exchange. `ExchangeCore` documents each."""

    keeps_state: bool = False
    can_cut: bool = False
    holds_head: bool = False
    prefix_repeats: bool = False
    serves: Callable[[str], bool] | None = None


class AnswerLabels(Struct, frozen=True, eq=False):
    """The times and the id of an answer whose upstream sends none."""

    created: int | None = None
    answer_id: str = ""
    clock: Callable[[], float | None] | None = None
    """Returns the time at which the answer ends."""
    is_renamed: bool = False
    """True if another model answered, and the answer gets the name of the requested one."""
