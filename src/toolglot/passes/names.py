"""Tool names that the target's wire can hold, the same in definitions, choice, calls and results.

Legal names stay. Others are cleaned, flattened (`namespace__name`) and, where that is not enough to keep them apart or
short, given a hash. The declared tools come first, legal ones before the rest; names that only the history knows come
after, so that a longer history changes nothing before it.

`context.tools` remembers every tool as the client knows it, under the name that the upstream will use. A tool that
keeps its namespace upstream is not in there: its name alone does not tell which one is meant.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeAlias

from toolglot import features
from toolglot.ir import Block, Opaque, Request, Tool, ToolCall, ToolChoice, ToolResult, replace
from toolglot.passes import Context, OriginalTool
from toolglot.passes.blocks import Place, rewrite_blocks
from toolglot.passes.census import Census, census
from toolglot.passes.digest import digest
from toolglot.plan import runs_on

Key: TypeAlias = tuple[str | None, str]
"""A namespace and a name, as the client says them."""


@runs_on(lambda context: features.TOOLS | features.CALLS | features.CHOICE, in_place=True)
def shorten(request: Request, context: Context) -> Request:
    """Every tool name legal for the target and unique, and `context.tools` filled for the way back."""
    naming = _Naming(request, context)
    tools = request.tools if naming.keeps_all(request.tools) else _rename_tools(request, naming, context)
    if not naming.knows(census(request, context)):
        history = _History(naming)
        request = rewrite_blocks(request, history.rename, ToolCall, ToolResult)
    choice = _rename_choice(request.tool_choice, naming)
    if tools == request.tools and choice == request.tool_choice:
        return request
    return replace(request, tools=tools, tool_choice=choice)


class _Naming:
    """Which name each tool has upstream."""

    def __init__(self, request: Request, context: Context) -> None:
        self.upstream: dict[Key, Key] = {}
        self._renames = False
        self._context = context
        self._can = context.can
        self._taken: set[Key] = set()
        self._namespaces_of: dict[str, list[str | None]] = {}
        declared: dict[Key, Tool] = {}
        places: dict[Key, int] = {}
        for index, tool in enumerate(request.tools):
            if isinstance(tool, Tool) and (key := (tool.namespace, tool.name)) not in declared:
                declared[key] = tool
                places[key] = index
        for namespace, name in declared:
            self._namespaces_of.setdefault(name, []).append(namespace)
        legal = [key for key in declared if self._kept(key) == key and self._legal(key[1])]
        for key in (*legal, *declared):
            if key not in self.upstream:
                self._assign(key, OriginalTool(key[1], key[0], declared[key].kind), f"tools[{places[key]}]")

    def keeps_all(self, tools: tuple[Tool | Opaque, ...]) -> bool:
        """Is each of these tools declared once, under the name that it has upstream?"""
        return not self._renames and len(self.upstream) == len(tools)

    def knows(self, there: Census) -> bool:
        """Is everything that the history calls declared, under the name that it has upstream?"""
        if self._renames or not there.is_flat:
            return False
        called = {(call.namespace, call.name) for call in there.calls}
        answered = {(None, result.name) for result in there.results if result.name is not None}
        return called <= self.upstream.keys() and answered <= self.upstream.keys()

    def of_call(self, call: ToolCall, place: Place) -> Key:
        original = OriginalTool(call.name, call.namespace, call.kind)
        return self._of((call.namespace, call.name), original, str(place))

    def of_name(self, name: str, where: str) -> Key:
        return self._of((None, name), OriginalTool(name), where)

    def _of(self, key: Key, original: OriginalTool, where: str) -> Key:
        if key in self.upstream:
            return self.upstream[key]
        namespace, name = key
        if namespace is None:
            # A client may leave out the namespace, or may have learnt the flattened name.
            if len(homes := self._namespaces_of.get(name, [])) == 1:
                return self.upstream[homes[0], name]
            if key in self._taken and (known := self._context.tools.get(name)) and known.namespace is not None:
                return key
        return self._assign(key, original, where)

    def _assign(self, key: Key, original: OriginalTool, where: str) -> Key:
        kept = self._kept(key)
        new = kept if self._legal(kept[1]) and kept not in self._taken else self._replacement(kept, key)
        self.upstream[key] = new
        self._taken.add(new)
        if new[0] is None:
            self._context.tools.setdefault(new[1], original)
        if new != key:
            self._renames = True
            self._context.receipt.note(where, f"tool name {_shown(key)}", f"renamed to {_shown(new)}")
        return new

    def _kept(self, key: Key) -> Key:
        """The key without its namespace where the target has none, and nothing else done to it."""
        namespace, name = key
        if namespace is None or self._can.namespaces:
            return key
        prefix = f"{namespace}__"
        return None, name if name.startswith(prefix) else prefix + name

    def _legal(self, name: str) -> bool:
        can = self._can
        return len(name) <= can.name_length and _is_legal(name, can.name_start, can.name_pattern)

    def _replacement(self, kept: Key, key: Key) -> Key:
        namespace, name = kept
        clean = "".join(letter if re.fullmatch(self._can.name_pattern, letter) else "_" for letter in name) or "tool"
        if not re.match(self._can.name_start, clean):
            clean = f"_{clean}"
        new: Key = (namespace, clean)
        salt = 0
        while not self._legal(new[1]) or new in self._taken:
            mark = digest(key[0] or "", key[1], *([salt] if salt else []))[:8]
            new = (namespace, f"{clean[: self._can.name_length - 9]}_{mark}")
            salt += 1
            if salt > 16:  # a rule that nothing satisfies; the upstream will say so
                break
        return new


@lru_cache(maxsize=1024)  # agents declare the same tools with every request
def _is_legal(name: str, start: str, pattern: str) -> bool:
    return re.match(start, name) is not None and re.fullmatch(pattern, name) is not None


def _shown(key: Key) -> str:
    return key[1] if key[0] is None else f"{key[0]}.{key[1]}"


def _rename_tools(request: Request, naming: _Naming, context: Context) -> tuple[Tool | Opaque, ...]:
    seen: set[Key] = set()
    renamed: list[Tool | Opaque] = []
    for index, tool in enumerate(request.tools):
        if isinstance(tool, Opaque):
            renamed.append(tool)
            continue
        key = (tool.namespace, tool.name)
        if key in seen and context.source != context.target:
            # Anthropic and Gemini refuse a request that declares a name twice.
            context.receipt.loss(f"tools[{index}]", f"second tool {tool.name}", "a name can be declared once")
            continue
        seen.add(key)
        namespace, name = naming.upstream[key]
        renamed.append(tool if (namespace, name) == key else replace(tool, name=name, namespace=namespace))
    return tuple(renamed)


def _rename_choice(choice: ToolChoice | None, naming: _Naming) -> ToolChoice | None:
    if choice is None or not choice.names:
        return choice
    names = tuple(naming.of_name(name, "tool_choice")[1] for name in choice.names)
    return choice if names == choice.names else replace(choice, names=names)


class _History:
    """Calls under their upstream names, and results under the names of their calls."""

    def __init__(self, naming: _Naming) -> None:
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
