"""Make tool names valid for the target's wire, consistently in definitions, choice, calls and results. Valid names
stay. Others are cleaned and flattened (`namespace__name`), and get a hash if they are still too long or not unique.
Declared tools come first, valid ones before the others. Names that occur only in the history come after them, so that a
longer history does not change earlier names. `context.tools` maps the upstream's name of every tool to the client's
tool. It has no entry for a tool that keeps its namespace upstream, because its name alone is ambiguous.
"""

from __future__ import annotations

import re
from functools import lru_cache
from operator import attrgetter, is_
from typing import TypeAlias

from msgspec import Struct

from toolglot import features
from toolglot.capabilities import Capabilities
from toolglot.ir import Block, Opaque, Request, Tool, ToolCall, ToolChoice, ToolResult, replace
from toolglot.passes import Context, OriginalTool
from toolglot.passes.blocks import Place, rewrite_blocks
from toolglot.passes.digest import digest
from toolglot.passes.tool_history import ToolHistory, tool_history
from toolglot.plan import runs_on
from toolglot.receipt import Receipt, ReceiptLine
from toolglot.tools.declared import DECLARED

Key: TypeAlias = tuple[str | None, str]
"""A namespace and a name, as the client writes them."""


@runs_on(lambda context: features.TOOLS | features.CALLS | features.CHOICE, in_place=True)
def shorten(request: Request, context: Context) -> Request:
    """Make every tool name valid for the target and unique, and fill `context.tools` for the answer."""
    own = context.source == context.target
    tools, can, what = request.tools, context.can, "own names" if own else "names"
    declared = DECLARED.derive(tools, what, can, _declare, tools, can, own=own)
    if declared.lines:
        context.receipt.add(declared.lines)
    # Requests share the declared originals. `_CalledNames` adds to a copy.
    context.tools = {**declared.originals, **context.tools} if context.tools else declared.originals
    is_known, choice, tools = declared.knows(tool_history(request, context)), request.tool_choice, declared.tools
    if not is_known or (choice is not None and choice.names):
        context.tools = dict(context.tools)
        naming = _CalledNames(declared, context)
        if not is_known:
            request = rewrite_blocks(request, _HistoryNames(naming).rename, ToolCall, ToolResult)
        choice = _rename_choice(choice, naming)
    if tools is not request.tools:
        DECLARED.rewrite(request.tools, "own named" if own else "named", context.can, lambda _: tools, context.receipt)
    if tools is request.tools and choice is request.tool_choice:
        return request
    return replace(request, tools=tools, tool_choice=choice)


_name_of_result = attrgetter("name")


class _DeclaredNames(Struct, frozen=True):
    """The upstream name of each declared tool."""

    upstream: dict[Key, Key]
    namespaces_of: dict[str, list[str | None]]
    originals: dict[str, OriginalTool]
    """The client's tool names, by the upstream's names."""
    tools: tuple[Tool | Opaque, ...]
    lines: tuple[ReceiptLine, ...]
    unchanged: frozenset[str]
    """The names without a namespace that stay unchanged."""

    def knows(self, history: ToolHistory) -> bool:
        """Return whether every tool that the history calls is declared under its upstream name."""
        if not history.is_flat:
            return False
        unchanged, upstream = self.unchanged, self.upstream
        for call in history.calls:
            if call.namespace is not None:
                if upstream.get(key := (call.namespace, call.name)) != key:
                    return False
            elif call.name not in unchanged:
                return False
        named = set(map(_name_of_result, history.results))
        named.discard(None)
        return named <= unchanged


def _declare(tools: tuple[Tool | Opaque, ...], can: Capabilities, *, own: bool) -> _DeclaredNames:
    declared: dict[Key, Tool] = {}
    places: dict[Key, int] = {}
    namespaces_of: dict[str, list[str | None]] = {}
    for index, tool in enumerate(tools):
        if isinstance(tool, Tool) and (key := (tool.namespace, tool.name)) not in declared:
            declared[key] = tool
            places[key] = index
            namespaces_of.setdefault(tool.name, []).append(tool.namespace)
    receipt = Receipt()
    names = _NameAssigner(can, receipt, {}, {}, set())
    legal = [key for key in declared if names.keep(key) == key and names.is_legal(key[1])]
    for key in (*legal, *declared):
        if key not in names.upstream:
            names.assign(key, OriginalTool(key[1], key[0], declared[key].kind), f"tools[{places[key]}]")
    renamed = _rename_tools(tools, names.upstream, receipt, own=own)
    unchanged = frozenset([key[1] for key, new in names.upstream.items() if key[0] is None and new == key])
    return _DeclaredNames(names.upstream, namespaces_of, names.originals, renamed, tuple(receipt), unchanged)


class _NameAssigner:
    """Assigns unique names one after the other."""

    def __init__(
        self,
        can: Capabilities,
        receipt: Receipt,
        upstream: dict[Key, Key],
        originals: dict[str, OriginalTool],
        taken: set[Key],
    ) -> None:
        self.upstream = upstream
        self.originals = originals
        self.taken = taken
        self._rules = can.names
        self._has_namespaces = can.tools.namespaces
        self._receipt = receipt

    def assign(self, key: Key, original: OriginalTool, where: str) -> Key:
        kept = self.keep(key)
        new = kept if self.is_legal(kept[1]) and kept not in self.taken else self._replacement(kept, key)
        self.upstream[key] = new
        self.taken.add(new)
        if new[0] is None:
            self.originals.setdefault(new[1], original)
        if new != key:
            self._receipt.note(where, f"tool name {_describe_key(key)}", f"renamed to {_describe_key(new)}")
        return new

    def keep(self, key: Key) -> Key:
        """Return the key unchanged, without its namespace if the target has none."""
        namespace, name = key
        if namespace is None or self._has_namespaces:
            return key
        prefix = f"{namespace}__"
        return None, name if name.startswith(prefix) else prefix + name

    def is_legal(self, name: str) -> bool:
        rules = self._rules
        return len(name) <= rules.max_length and _is_legal(name, rules.start, rules.pattern)

    def _replacement(self, kept: Key, key: Key) -> Key:
        namespace, name = kept
        clean = "".join(letter if re.fullmatch(self._rules.pattern, letter) else "_" for letter in name) or "tool"
        if not re.match(self._rules.start, clean):
            clean = f"_{clean}"
        new: Key = (namespace, clean)
        salt = 0
        while not self.is_legal(new[1]) or new in self.taken:
            mark = digest(key[0] or "", key[1], *([salt] if salt else []))[:8]
            new = (namespace, f"{clean[: self._rules.max_length - 9]}_{mark}")
            salt += 1
            if salt > 16:  # a rule that nothing satisfies; the upstream will report it
                break
        return new


class _CalledNames:
    """The names of all called tools, declared or not."""

    def __init__(self, declared: _DeclaredNames, context: Context) -> None:
        self._namespaces_of = declared.namespaces_of
        self._context = context
        taken = set(declared.upstream.values())
        self._names = _NameAssigner(context.can, context.receipt, dict(declared.upstream), context.tools, taken)

    def of_call(self, call: ToolCall, place: Place) -> Key:
        original = OriginalTool(call.name, call.namespace, call.kind)
        return self._of((call.namespace, call.name), original, str(place))

    def of_name(self, name: str, where: str) -> Key:
        return self._of((None, name), OriginalTool(name), where)

    def _of(self, key: Key, original: OriginalTool, where: str) -> Key:
        if key in self._names.upstream:
            return self._names.upstream[key]
        namespace, name = key
        if namespace is None:
            # A client may omit the namespace, or may have learned the flattened name.
            if len(homes := self._namespaces_of.get(name, [])) == 1:
                return self._names.upstream[homes[0], name]
            if key in self._names.taken and (known := self._context.tools.get(name)) and known.namespace is not None:
                return key
        return self._names.assign(key, original, where)


@lru_cache(maxsize=1024)  # agents declare the same tools with every request
def _is_legal(name: str, start: str, pattern: str) -> bool:
    return re.match(start, name) is not None and re.fullmatch(pattern, name) is not None


def _describe_key(key: Key) -> str:
    return key[1] if key[0] is None else f"{key[0]}.{key[1]}"


def _rename_tools(
    tools: tuple[Tool | Opaque, ...], upstream: dict[Key, Key], receipt: Receipt, *, own: bool
) -> tuple[Tool | Opaque, ...]:
    seen: set[Key] = set()
    renamed: list[Tool | Opaque] = []
    for index, tool in enumerate(tools):
        if isinstance(tool, Opaque):
            renamed.append(tool)
            continue
        key = (tool.namespace, tool.name)
        if key in seen and not own:
            # Anthropic and Gemini refuse a request that declares a name twice.
            receipt.loss(f"tools[{index}]", f"second tool {tool.name}", "a name can be declared once")
            continue
        seen.add(key)
        namespace, name = upstream[key]
        renamed.append(tool if (namespace, name) == key else replace(tool, name=name, namespace=namespace))
    return tools if len(renamed) == len(tools) and all(map(is_, renamed, tools)) else tuple(renamed)


def _rename_choice(choice: ToolChoice | None, naming: _CalledNames) -> ToolChoice | None:
    if choice is None or not choice.names:
        return choice
    names = tuple(naming.of_name(name, "tool_choice")[1] for name in choice.names)
    return choice if names == choice.names else replace(choice, names=names)


class _HistoryNames:
    """Calls under their upstream names, and results under the names of their calls."""

    def __init__(self, naming: _CalledNames) -> None:
        self._naming = naming
        self._called: dict[str, tuple[str, str]] = {}

    def rename(self, block: Block, place: Place) -> tuple[Block, ...]:
        match block:
            case ToolCall():
                namespace, name = self._naming.of_call(block, place)
                self._called[block.id] = (block.name, name)
                if (namespace, name) != (block.namespace, block.name):
                    return (replace(block, name=name, namespace=namespace),)
            case ToolResult(name=str(old)):
                before, after = self._called.get(block.call_id, (None, ""))
                new = after if before == old else self._naming.of_name(old, str(place))[1]
                if new != old:
                    return (replace(block, name=new),)
        return (block,)
