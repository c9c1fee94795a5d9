"""A plain answer, on its direct way back to the client."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from toolglot.dialect import Dialect
from toolglot.direct.plain import PlainAnswer
from toolglot.direct.request import Translated
from toolglot.forwarding import renamed
from toolglot.missing_usage import is_complete
from toolglot.passes.foreign import describe_lost_member, describe_lost_tier, usage_lines
from toolglot.receipt import Loss


class Label(Struct, frozen=True):
    """What an answer is given where its upstream does not tell it, or tells the name of a model the client never heard:
    as `Exchange` does."""

    created: int
    answer_id: str


def answered(
    asked: Translated, client: Dialect, upstream: Dialect, data: bytes, label: Callable[[], Label]
) -> tuple[bytes, PlainAnswer] | None:
    """The client's answer, and what it says; None for one that has to go the general way."""
    write = client.direct.write_answer if client.direct is not None else None
    answer = upstream.direct.read_answer(data) if upstream.direct is not None else None
    if answer is None or write is None:
        return None
    aliased = asked.plain.model != asked.learnt.model
    if not asked.learnt.pieces:
        return renamed(data, client.answer.model_places, asked.plain.model) if aliased else data, answer
    if not answer.whole or not is_complete(answer.usage, client) or not _is_legal(answer, asked):
        return None
    answer.lines = tuple(_lines(answer, client, upstream))
    if answer.service_tier not in client.can.answer_tiers:
        answer.service_tier = None
    answer.model = asked.plain.model if aliased else answer.model or asked.plain.model
    if not answer.id or answer.created is None:
        given = label()
        answer.id = answer.id or given.answer_id
        answer.created = given.created if answer.created is None else answer.created
    return write(answer), answer


def _lines(answer: PlainAnswer, client: Dialect, upstream: Dialect) -> Iterator[Loss]:
    """What the receipt says of the answer, in the order of the general way."""
    tier = answer.service_tier
    if tier is not None and tier not in client.can.answer_tiers:
        yield describe_lost_tier(tier)
    for name in answer.members:
        yield describe_lost_member(upstream.name, name, name, upstream.can)
    if answer.usage is not None:
        yield from usage_lines(answer.usage, client)


def _is_legal(answer: PlainAnswer, asked: Translated) -> bool:
    """Does it stop for its calls if it has any, each a call of a known tool, with an id that the client takes?"""
    if not answer.calls:
        return bool(answer.text) and answer.stop != "tool_calls"
    if answer.stop != "tool_calls":
        return False
    learnt, taken = asked.learnt, asked.call_ids
    for call in answer.calls:
        if not call.id or call.id in taken or call.name not in learnt.tools or not learnt.client_ids.fullmatch(call.id):
            return False
    return len(answer.calls) == 1 or len({call.id for call in answer.calls}) == len(answer.calls)
