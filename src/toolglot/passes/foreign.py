"""Report fields that only another dialect understands, and remove blocks and tools that the target cannot read.

An encoder reads only its own `native` fields, so foreign fields need no removal, only a report. The report runs early,
while paths are still those of the client's request. Not reported: keys that start with `$` (notes on the original
shape, without meaning), the source's `cosmetic` keys (no other dialect needs them), and the text and state of
reasoning, which `reasoning.settle` reports.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

from msgspec import Struct

from toolglot import features
from toolglot.capabilities import ReceiptRules
from toolglot.dialect import Dialect
from toolglot.events import Close, Delta, Event, Finish, Open, Start
from toolglot.ir import (
    COUNTS,
    Block,
    Citation,
    Json,
    Opaque,
    Refusal,
    Request,
    Response,
    Stop,
    Text,
    Thinking,
    Tool,
    ToolCall,
    Usage,
    replace,
)
from toolglot.ir import Native as NativeFields
from toolglot.passes import Context
from toolglot.passes.blocks import Place, blocks, rewrite_blocks
from toolglot.passes.reasoning import ON_CALLS, STATE
from toolglot.plan import runs_on
from toolglot.receipt import (
    UNREAD,
    Loss,
    Note,
    Receipt,
    ReceiptLine,
    Severity,
    describe_block,
    receipt_line,
    unread_lines,
)
from toolglot.tools.declared import DECLARED, Tools
from toolglot.wire.usage import ORIGINAL, is_empty_count


@runs_on(lambda context: features.OTHERS if context.source == context.target else features.FOREIGN)
def report(request: Request, context: Context) -> Request:
    """Report every native field that the target's encoder does not read. The request is not changed."""
    rules, receipt = context.source_can.receipt, context.receipt
    for name, native in _native_of_settings(request):
        _report_node(name, native, STATE, context, receipt)
    tools = request.tools
    if tools:
        receipt.add(DECLARED.derive(tools, f"foreign {context.target}", rules, lambda: _lines_on_tools(tools, context)))
    if context.features & (features.FOREIGN_HISTORY | features.OTHERS):
        for where, native, state in _native_of_history(request):
            _report_node(where, native, state, context, receipt)
    for owner, fields in request.native.items():
        if owner != context.target:
            for key in _flags_turned_off(fields, rules):
                receipt.note(key, f"{key} false", _no_equivalent(context.target))
    return request


def _report_node(
    where: str | Place, native: NativeFields, state: frozenset[str] | None, context: Context, receipt: Receipt
) -> None:
    """Report the native fields of one node. `state` are keys that are reported elsewhere; None for reasoning."""
    rules = context.source_can.receipt
    for owner, fields in native.items():
        # Fields of other owners on reasoning are state that the client carried for them; `carry` reports it.
        if owner == context.target or (state is None and owner != context.source):
            continue
        if UNREAD in fields:
            receipt.add(unread_lines(fields, str(where)))
        reported_elsewhere = rules.reasoning_members if state is None else state
        for path, key in find_lost_fields(fields, rules, reported_elsewhere, of_request=True):
            _report_key(receipt, f"{where}.{path}" if where else path, key, context.target, rules.noted)


def _lines_on_tools(tools: Tools, context: Context) -> tuple[ReceiptLine, ...]:
    receipt = Receipt()
    for index, tool in enumerate(tools):
        if tool.native:
            _report_node(f"tools[{index}]", tool.native, STATE, context, receipt)
    return tuple(receipt)


def _flags_turned_off(fields: Mapping[str, Json], rules: ReceiptRules) -> Iterator[str]:
    """Yield the flags of a request that are false. Some are true by default, for example OpenRouter's
    `include_reasoning`."""
    for key, value in fields.items():
        known = key.startswith("$") or key in rules.cosmetic or False in rules.assumed.get(key, ())
        if value is False and not known:
            yield key


def _report_key(receipt: Receipt, where: str, key: str, target: str, noted: Mapping[str, str]) -> None:
    if key in noted:
        receipt.note(where, key, noted[key])
    else:
        receipt.loss(where, key, _no_equivalent(target))


def find_lost_fields(
    fields: Mapping[str, Json], rules: ReceiptRules, state: frozenset[str] = STATE, *, of_request: bool = False
) -> Iterator[tuple[str, str]]:
    """Native fields whose loss matters, as (path, key). A container is represented by its members. Keys in `state` are
    reported elsewhere.

    The loss of nulls, empty values, false flags, notes on shape, cosmetic keys and assumed values does not matter. In
    requests (`of_request`), an empty object may enable something (Chat's `web_search_options`). A peer may nest
    containers as deep as JSON allows, so this does not recurse.
    """
    silent: Container[str] = rules.cosmetic if of_request else _silent_keys(rules)
    paths = rules.request_paths if of_request else rules.answer_paths
    containers, assumed = rules.containers, rules.assumed
    path, items = "", iter(fields.items())
    around: list[tuple[str, Iterator[tuple[str, Json]]]] = []
    while True:
        for key, value in items:
            if value is None or value is False or key in silent:
                continue
            if key in containers:
                if type(value) is dict and _says_nothing(value, silent):
                    continue
            elif key[:1] == "$":
                continue
            if value == "" or value == [] or key in state or (key in assumed and value in assumed[key]):
                continue
            if value == {} and not of_request:
                continue
            if key in containers and isinstance(value, dict):
                name = paths.get(key, key.removeprefix("$"))
                around.append((path, items))
                path, items = f"{path}{name}." if name else path, iter(value.items())
                break
            yield f"{path}{paths.get(key, key)}", key
        else:
            if not around:
                return
            path, items = around.pop()


def _says_nothing(fields: Mapping[str, Json], silent: Container[str]) -> bool:
    """Whether all members of a container are empty or never reported: usually, they are."""
    for key, value in fields.items():
        if key not in silent and value is not None and value is not False and value != "" and value != []:
            return False
    return True


E = TypeVar("E", Start, Finish)

_silent_keys_of: dict[int, tuple[ReceiptRules, frozenset[str]]] = {}


def _silent_keys(rules: ReceiptRules) -> frozenset[str]:
    """Return the native keys of an answer that are never reported, computed once per dialect."""
    found = _silent_keys_of.get(id(rules))
    if found is None or found[0] is not rules:
        found = _silent_keys_of[id(rules)] = (rules, frozenset(rules.cosmetic) - rules.informational)
    return found[1]


class Reporter(Struct, eq=False):
    """Reports fields of a response that the client's dialect does not have. An event pass that changes only the service
    tier.

    The pass that carries reasoning state reports it.
    """

    _client: Dialect
    _upstream: Dialect
    _receipt: Receipt
    _refused: bool = False
    """True if the answer contains a refusal, which explains itself."""
    _usage: Usage | None = None
    """The usage in the `Start` event."""
    _kinds: dict[int, type[Block]] = {}
    """Block kinds by index: state keys depend on the kind."""
    service_tier: str | None = None
    """The service tier that the upstream reports."""

    def feed(self, event: Event) -> Sequence[Event]:
        match event:
            case Delta():
                pass
            case Open(index=index, block=block):
                self._kinds[index] = type(block)
                self._refused = self._refused or isinstance(block, Refusal)
                self._report_block(index, block.native)
            case Close(index=index, native=native):
                self._report_block(index, native)
                self._report_citations(index, event.citations)
            case Start(native=native):
                self._report("", native)
                self._usage = event.usage
                return (self._with_known_tier(event),)
            case Finish(native=native):
                self._report("", native)
                self._report_end(event.usage or self._usage, event.stop)
                return (self._with_known_tier(event),)
            case _:
                pass
        return (event,)

    def whole(self, response: Response) -> str | None:
        """Report on a non-streamed answer. Returns the service tier to send to the client."""
        tier = None if response.service_tier is None else self._known_tier(response.service_tier)
        for index, block in enumerate(response.content):
            if type(block) is Refusal:
                self._refused = True
            if block.native:
                self._kinds[index] = type(block)
                self._report_block(index, block.native)
            if type(block) is Text and block.citations:
                self._report_citations(index, block.citations)
        if response.native:
            self._report("", response.native)
        self._report_end(response.usage, response.stop)
        return tier

    def _with_known_tier(self, event: E) -> E:
        """Remove a service tier that the client's API does not have."""
        if event.service_tier is not None:
            self.service_tier = event.service_tier
        tier = self._known_tier(event.service_tier)
        return event if tier == event.service_tier else replace(event, service_tier=tier)

    def _known_tier(self, tier: str | None) -> str | None:
        if tier is None or tier in self._client.can.answers.tiers or self._client.name == self._upstream.name:
            return tier
        self._receipt.add((describe_lost_tier(tier),))
        return None

    def _report_block(self, index: int, native: NativeFields) -> None:
        if not native:
            return
        state = _STATE_ON.get(self._kinds.get(index, Text), STATE)
        self._report(
            f"content[{index}].", native, self._upstream.can.receipt.reasoning_members if state is None else state
        )

    def _report_citations(self, index: int, citations: Sequence[Citation]) -> None:
        for number, citation in enumerate(citations):
            self._report(f"content[{index}].citations[{number}].", citation.native)

    def _report(self, where: str, native: NativeFields, state: frozenset[str] = STATE) -> None:
        rules = self._upstream.can.receipt
        for owner, fields in native.items():
            if owner != self._client.name:
                if UNREAD in fields:
                    self._receipt.add(unread_lines(fields, where.rstrip(".")))
                for path, key in find_lost_fields(fields, rules, state):
                    self._receipt.add((describe_lost_member(self._client.name, f"{where}{path}", key, rules),))

    def _report_end(self, usage: Usage | None, stop: Stop) -> None:
        if self._client.name == self._upstream.name:
            return
        if usage is not None and not _is_plain_usage(usage, self._client):
            self._receipt.add(usage_lines(usage, self._client))
        can, raw = self._client.can.answers, stop.raw
        if stop.reason == "other" and raw:
            self._receipt.loss("stop", raw, "the client's API has no such reason to stop")
        if (nearest := can.rough_stops.get(stop.reason)) is not None and raw != nearest:
            self._receipt.note("stop", raw or stop.reason, f"the client gets {nearest}, the nearest equivalent")
        if stop.detail is not None and stop.reason not in can.stop_details and not self._refused:
            self._receipt.note("stop.detail", "an explanation", "the client's API has no place for it")
        is_sequence = stop.sequence is not None or stop.reason == "stop_sequence"
        if is_sequence and not self._client.answer.names_stop_sequence:
            self._receipt.note(
                "stop.sequence", "the stop sequence", "the client's API reports only that one was written"
            )


def describe_lost_member(client: str, where: str, key: str, rules: ReceiptRules) -> ReceiptLine:
    """Return the receipt line for a member of an answer that the client's dialect has no equivalent for."""
    if key == rules.further_answers:
        return Loss(where, "further answers", "the client's API carries one answer, and gets the first")
    severity: Severity = "note" if key in rules.informational or key in rules.noted else "loss"
    return receipt_line(severity, where, key, rules.noted.get(key, _no_equivalent(client)))


def describe_lost_tier(tier: str) -> ReceiptLine:
    return Note("service_tier", f"service tier {tier}", "the client's API has no such tier")


def _is_plain_usage(usage: Usage, client: Dialect) -> bool:
    """Check quickly that no usage data is lost: no foreign members, and only the counts that every API has."""
    if usage.is_split_estimated or usage.reasoning_tokens or usage.cached_tokens or usage.cache_write_tokens:
        return False
    for fields in usage.native.values():
        if len(fields) > 1 or ORIGINAL not in fields:
            return False
    return not usage.cache_write_long_tokens and client.answer.counts >= _EVERYWHERE


_EVERYWHERE = frozenset({"input_tokens", "output_tokens"})


def usage_lines(usage: Usage, client: Dialect) -> Iterator[ReceiptLine]:
    """Yield the receipt lines for usage data that the client does not get: members that only the upstream understands,
    and counts that the client's API has no member for. No answer depends on them."""
    for name in _uncounted(client.answer.counts):
        if count := getattr(usage, name):
            yield Note(f"usage.{name}", f"{count} tokens", _UNCOUNTED[name])
    if usage.is_split_estimated:
        yield Note("usage.output_tokens", "an estimate", "the upstream reported only the total")
    for owner, fields in usage.native.items():
        if owner == client.name:
            continue
        for key, value in fields.items():
            if not key.startswith("$") and not is_empty_count(value):
                what = f"{key} {value}" if type(value) is int else key
                why = f"{_no_equivalent(client.name)}; the usual counts are carried over"
                yield Note(f"usage.{key}", what, why)


@lru_cache(maxsize=16)
def _uncounted(counts: frozenset[str]) -> tuple[str, ...]:
    return tuple([name for name in COUNTS if name not in counts])


_UNCOUNTED = {
    "cached_tokens": "the client's API does not distinguish them; they are part of the input",
    "cache_write_tokens": "the client's API does not distinguish them; they are part of the input",
    "cache_write_long_tokens": "the client's API does not distinguish the lifetimes of cache writes",
    "reasoning_tokens": "the client's API does not distinguish them; they are part of the output",
}
"""Receipt reasons for counts that a client's API does not have."""


_STATE_ON: dict[type[Block], frozenset[str] | None] = {ToolCall: ON_CALLS, Thinking: None}
"""State keys of block kinds for which `STATE` does not apply; None for the `reasoning_members` of the dialect."""


def _native_of_settings(request: Request) -> Iterator[tuple[str, NativeFields]]:
    """Yield the paths of a request's settings, with their native fields."""
    if request.native:
        yield "", request.native
    for name in ("response_format", "reasoning", "tool_choice"):
        node = getattr(request, name)
        # `choice.fit` reports a choice that only its own dialect understands.
        if node is not None and node.native and getattr(node, "mode", None) != "opaque":
            yield name, node.native


def _native_of_history(request: Request) -> Iterator[tuple[str | Place, NativeFields, frozenset[str] | None]]:
    """Yield the paths of messages, then of blocks, with their native fields and the state keys among them."""
    for number, message in enumerate(request.messages):
        if message.native:
            yield Place(number), message.native, STATE
    for block, place in blocks(request):
        if block.native:
            yield place, block.native, _STATE_ON.get(type(block), STATE)
        if isinstance(block, Text):
            for index, citation in enumerate(block.citations):
                if citation.native:
                    yield f"{place}.citations[{index}]", citation.native, STATE


@runs_on(lambda context: features.OPAQUE | features.OPAQUE_TOOLS, adds=features.BLANK, keeps_messages=True)
def remove(request: Request, context: Context) -> Request:
    """Remove blocks and tools that are opaque to the target. The receipt names the type of each."""

    def keep(block: Block, place: Place) -> tuple[Block, ...]:
        if not isinstance(block, Opaque) or block.dialect == context.target:
            return (block,)
        kind = describe_block(block)
        # The content of a cosmetic item is carried another way: its tools are also in the list of tools.
        report_line = context.receipt.note if kind in context.source_can.receipt.cosmetic else context.receipt.loss
        report_line(str(place), kind, _foreign_reason(block.dialect))
        for index, tool in _unnamed_tools(block) if kind in context.source_can.receipt.cosmetic else ():
            context.receipt.loss(f"{place}.tools[{index}]", describe_block(tool), _foreign_reason(block.dialect))
        return ()

    if context.features & features.OPAQUE:
        request = rewrite_blocks(request, keep, Opaque)
    tools, target = request.tools, context.target
    if not tools or not context.features & features.OPAQUE_TOOLS:
        return request
    what = f"understood by {target}"
    understood = DECLARED.rewrite(tools, what, None, lambda lines: _drop_foreign(tools, target, lines), context.receipt)
    return request if understood is tools else replace(request, tools=understood)


def _drop_foreign(tools: Tools, target: str, receipt: Receipt) -> Tools:
    """Drop the tools that only another dialect understands."""
    understood: list[Tool | Opaque] = []
    for index, tool in enumerate(tools):
        if isinstance(tool, Opaque) and tool.dialect != target:
            receipt.loss(f"tools[{index}]", describe_block(tool), _foreign_reason(tool.dialect))
        else:
            understood.append(tool)
    return tools if len(understood) == len(tools) else tuple(understood)


def _unnamed_tools(item: Opaque) -> Iterator[tuple[int, Opaque]]:
    """Yield the tools inside an item that have no name. They are not functions, so the list of tools does not contain
    them."""
    tools = item.value.get("tools") if isinstance(item.value, dict) else None
    for index, tool in enumerate(tools if isinstance(tools, list) else ()):
        if isinstance(tool, dict) and not isinstance(tool.get("name"), str):
            yield index, Opaque(item.dialect, tool)


def _no_equivalent(target: str) -> str:
    """Return the reason for a member that is not carried over. It does not name the source: servers accept members that
    their API does not define, and a decoder keeps all of them. Text formats have no target name.
    """
    return f"{target or 'plain text'} has no known equivalent"


def _foreign_reason(owner: str) -> str:
    return f"it has no known meaning outside {owner}"
