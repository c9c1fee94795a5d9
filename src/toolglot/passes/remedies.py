"""Fixes for requests that an upstream rejected: each function maps a rejection to the request to send instead.

A fix that has nothing to do returns the request unchanged. Most fixes narrow the assumed capabilities of the target and
run the pass that adapts a request to them. Fixes for rejections of a single API are in `remedies.py` of its dialect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from toolglot.capabilities import change_capabilities, read_capability
from toolglot.errors import ApiError
from toolglot.ir import (
    Block,
    Json,
    Media,
    Message,
    Opaque,
    PromptCache,
    Request,
    Thinking,
    Tool,
    ToolChoice,
    replace,
)
from toolglot.passes import (
    Context,
    RequestPass,
    cache,
    choice,
    effort,
    formats,
    media,
    parameters,
    refused,
    schema,
    system,
    turns,
)
from toolglot.passes.blocks import INSTRUCTION_ROLES, Place, leading, rewrite_blocks
from toolglot.passes.native_fields import without_native_anywhere
from toolglot.receipt import Receipt
from toolglot.wire.efforts import BUDGETS, SCALE

BUDGET = BUDGETS["medium"]
LEAST_LIMIT = 16


class RefusedRequest(NamedTuple):
    request: Request
    dialect: str
    error: ApiError
    match: re.Match[str]
    context: Context
    remedies: Remedies
    """Remedies of the dialect."""

    def with_capabilities(self, **changes: Any) -> Context:
        """Return the context with the target's corrected capabilities."""
        return _with_capabilities(self.context, **changes)


Fix = Callable[[RefusedRequest], Request]


class Remedy(NamedTuple):
    """A fix for rejections whose text matches `pattern`."""

    pattern: re.Pattern[str]
    fix: Fix


def remedy(pattern: str, fix: Fix) -> Remedy:
    return Remedy(re.compile(pattern, re.IGNORECASE | re.DOTALL), fix)


class Remedies(Struct, frozen=True, kw_only=True):
    """Known rejections of one dialect's servers."""

    refusals: tuple[Remedy, ...] = ()
    """Remedies in order. The first one that matches and changes anything is used."""
    fields: Mapping[str, Callable[[RefusedRequest, str], Request]] = {}
    """Functions that remove a field that no pass handles."""
    named_fields: Mapping[str, Fix] = {}
    """Fixes for fields that a validator names, if there is a better fix than removal."""


NO_REMEDIES = Remedies()


def _with_capabilities(context: Context, **changes: Any) -> Context:
    return replace(context, can=change_capabilities(context.can, **changes))


# Reasoning in the history


def forget_reasoning(refusal: RefusedRequest) -> Request:
    """Remove reasoning from the history."""
    messages: list[Message] = []
    for number, message in enumerate(refusal.request.messages):
        content = tuple(block for block in message.content if not isinstance(block, Thinking))
        if len(content) < len(message.content):
            refusal.context.receipt.loss(str(Place(number)), "reasoning", "the upstream does not accept it")
        if content or not message.content:
            messages.append(replace(message, content=content))
    if not refusal.context.receipt:
        return refusal.request
    return replace(refusal.request, messages=tuple(messages))


# Amount of thinking


_REFUSED_VALUE = re.compile(r"['\"]input['\"]|input_value|\breceived\b|\bgot\b")
"""Text before the rejected value, in errors that repeat it."""


def nearest_effort(refusal: RefusedRequest) -> Request:
    """Use the nearest of the efforts that the error names."""
    wanted = refusal.request.reasoning
    if wanted is None or (refusal.error.param and "effort" not in refusal.error.param):
        return refusal.request
    remove_named_field = refusal.match.groupdict().get("refused")
    if remove_named_field is not None and remove_named_field != ("none" if wanted.mode == "off" else wanted.effort):
        return refusal.request  # the value of another field
    values = _REFUSED_VALUE.split(refusal.match["values"], maxsplit=1)[0]
    efforts = tuple(word for word in SCALE if re.search(rf"\b{word}\b", values))
    if wanted.effort in efforts and wanted.mode != "off":
        return refusal.request
    if not efforts or efforts == ("none",):
        return remove_fields("effort")(refusal)
    return effort.fit(refusal.request, refusal.with_capabilities(efforts=efforts, reasoning_off="none" in efforts))


def think_by_budget(refusal: RefusedRequest) -> Request:
    """Replace an effort, or adaptive thinking, with a token budget."""
    request = effort.fit(refusal.request, refusal.with_capabilities(efforts=(), reasoning_budget=True))
    wanted = request.reasoning
    if wanted is None or wanted.mode == "off" or wanted.budget_tokens is not None:
        return request
    refusal.context.receipt.note("reasoning", "thinking", f"the upstream requires a budget: {BUDGET} tokens")
    return replace(request, reasoning=replace(wanted, mode="on", budget_tokens=BUDGET))


def think_by_effort(refusal: RefusedRequest) -> Request:
    """Replace a budget with the nearest effort, and adaptive thinking."""
    wanted = refusal.request.reasoning
    if wanted is None or wanted.mode == "off":
        return refusal.request
    efforts = refusal.context.can.reasoning.efforts or ("low", "medium", "high")
    request = effort.fit(refusal.request, refusal.with_capabilities(efforts=efforts, reasoning_budget=False))
    return replace(request, reasoning=replace(request.reasoning or wanted, mode="auto", native={}))


def think_anyway(refusal: RefusedRequest) -> Request:
    return effort.fit(refusal.request, refusal.with_capabilities(reasoning_off=False))


# Tool choice


def choose_freely(refusal: RefusedRequest) -> Request:
    """Replace a forced call with an instruction in the prompt. If even a free choice was rejected, remove
    `tool_choice`."""
    wanted = refusal.request.tool_choice
    if wanted is not None and wanted.mode == "required":
        return choice.fit(refusal.request, refusal.with_capabilities(tool_choices=frozenset({"auto", "none"})))
    return remove_fields("tool_choice")(refusal)


# Output length


def write_less(refusal: RefusedRequest) -> Request:
    """Use the highest output limit that the error names."""
    numbers = {name: int(value) for name, value in refusal.match.groupdict().items() if value}
    most = numbers.get("most", numbers.get("limit", 0) - 1)
    return _limit_output(refusal, most)


def fit_window(refusal: RefusedRequest) -> Request:
    """Lower the output limit to the rest of the context window, if the input fits but the output limit does not."""
    overflow = refusal.error.overflow
    room = None if overflow is None else overflow.output_room
    # One token less: some servers reject a request that fills the window completely.
    return refusal.request if room is None else _limit_output(refusal, room - 1)


def _limit_output(refusal: RefusedRequest, most: int) -> Request:
    limit = refusal.request.max_output_tokens
    if most < LEAST_LIMIT or (limit is not None and limit <= most):
        return refusal.request
    refusal.context.receipt.loss("max_output_tokens", f"limit of {limit}", f"the upstream's highest is {most}")
    return replace(refusal.request, max_output_tokens=most)


# Sampling


def one_of_temperature_and_top_p(refusal: RefusedRequest) -> Request:
    return refused.fit(refusal.request, refusal.with_capabilities(refuses=frozenset({"temperature_with_top_p"})))


def lower_temperature(refusal: RefusedRequest) -> Request:
    return parameters.fit(refusal.request, refusal.with_capabilities(max_temperature=float(refusal.match["most"])))


# Roles


def other_roles(refusal: RefusedRequest) -> Request:
    """Turn developer messages into system messages; otherwise later system messages into tagged user text; otherwise
    move the system prompt into the first user message."""
    request, context = refusal.request, refusal.with_capabilities(developer_role=False)
    if any(message.role == "developer" for message in request.messages):
        refusal.context.receipt.note("messages", "developer messages", "the upstream expects them as system messages")
        return system.fit(request, context)
    first = leading(request.messages)
    if any(message.role in INSTRUCTION_ROLES for message in request.messages[first:]):
        return alternate_roles(refusal)
    if not first or first == len(request.messages) or request.messages[first].role != "user":
        return request
    instructions = tuple(block for message in request.messages[:first] for block in message.content)
    user = request.messages[first]
    refusal.context.receipt.loss("messages[0]", "the system prompt", "the upstream has none; it is sent as user text")
    user = replace(user, content=(*instructions, *user.content))
    return replace(request, messages=(user, *request.messages[first + 1 :]))


def alternate_roles(refusal: RefusedRequest) -> Request:
    """Make user and assistant alternate after a single system message. Templates with one of these rules usually have
    the other too."""
    context = refusal.with_capabilities(developer_role=False, system="first", roles_alternate=True)
    request = system.fit(refusal.request, context)
    merged = turns.merge_neighbours(request, context)
    if (count := len(request.messages) - len(merged.messages)) > 0:
        why = "the upstream requires one message for each turn; they are merged with those before them"
        refusal.context.receipt.note("messages", f"{count} messages", why)
    return bridge_results(refusal._replace(request=merged))


def bridge_results(refusal: RefusedRequest) -> Request:
    return refused.fit(refusal.request, refusal.with_capabilities(refuses=frozenset({"user_after_results"})))


def end_with_user(refusal: RefusedRequest) -> Request:
    return turns.group(refusal.request, refusal.with_capabilities(prefill=False))


# Schemas and media of a client of the upstream's own dialect, which no pass handles


def rewrite_schemas(rewrite: Callable[[Json, str, Receipt], Json]) -> Fix:
    """Make a fix that rewrites the schema of every tool."""

    def change(refusal: RefusedRequest) -> Request:
        tools: list[Tool | Opaque] = []
        for index, tool in enumerate(refusal.request.tools):
            if isinstance(tool, Tool):
                parameters_ = rewrite(tool.parameters, f"tools[{index}].parameters", refusal.context.receipt)
                tools.append(tool if parameters_ is tool.parameters else replace(tool, parameters=parameters_))
            else:
                tools.append(tool)
        return replace(refusal.request, tools=tuple(tools))

    return change


add_items = rewrite_schemas(schema.add_items)
modernize_schemas = rewrite_schemas(schema.modernize_schema)


def correct_media_types(refusal: RefusedRequest) -> Request:
    """Send media under the registered type that its data shows."""

    def rewrite(block: Block, place: Place) -> tuple[Block, ...]:
        return (media.normalize_type(block, place, refusal.context),) if isinstance(block, Media) else (block,)

    return rewrite_blocks(refusal.request, rewrite, Media)


# Errors of a validator


_LOCATION = re.compile(
    r"['\"]loc['\"]: ?[\[(](?P<loc>[^\])]{1,200})[\])]"  # a list of errors, as JSON or as Python writes it
    r"|^(?P<path>[\w.\[\]]{1,200})\n\s+(?=[A-Z])",  # the text of a ValidationError
    re.MULTILINE,
)
_CHOICES = re.compile(r"(?:input should be|permitted:|expected one of)(?P<values>.{2,200})", re.IGNORECASE | re.DOTALL)


def fix_fields(refusal: RefusedRequest) -> Request:
    """Fix all fields that pydantic names at once: its errors are a list, and a second rejection would be final."""
    text = refusal.match.string
    places = list(_LOCATION.finditer(text))
    ends = [place.start() for place in places[1:]] + [len(text)]
    request = refusal.request
    for place, end in zip(places, ends, strict=True):
        path = place["loc"] or place["path"]
        choices = _CHOICES.search(text, place.end(), end)
        request = _fix_field(refusal._replace(request=request), _field_names(path), choices)
    return request


def _fix_field(refusal: RefusedRequest, path: list[str], choices: re.Match[str] | None) -> Request:
    for name in reversed(path):
        fix = refusal.remedies.named_fields.get(name) or _FIXES.get(name)
        if fix is not None:
            return fix(refusal)
        if FIELDS.get(name) == "effort" and choices is not None:
            return nearest_effort(refusal._replace(match=choices))
        if name not in NEVER and (changed := remove_fields(name)(refusal)) != refusal.request:
            return changed
    return refusal.request


_ROLES = frozenset({"user", "assistant", "system", "developer", "tool", "function"})


def _field_names(path: str) -> list[str]:
    """Return the names in a path that are fields. Inside messages, pydantic also names the kind of message."""
    parts = _parts(path)
    return [part for part in parts if part not in _ROLES] if "messages" in parts else parts


def _parts(path: str) -> list[str]:
    """Return the names in a path, without indices."""
    return [part for part in re.split(r"[^A-Za-z0-9_$-]+", path) if part and not part.isdigit()]


# A field by its name


FIELDS: dict[str, str] = {
    **{name: name for name in parameters.PLAIN if name != "max_output_tokens"},
    **{name: name for name in ("tool_choice", "parallel_tool_calls", "response_format", "reasoning", "effort")},
    **{name: name for name in ("store", "logprobs", "top_logprobs", "service_tier", "verbosity", "metadata", "user")},
    **{name: name for name in ("strict", "summary", "stream_options", "output_config")},
    **{name: name for name in ("prompt_cache_key", "prompt_cache_retention", "prompt_cache_options")},
    "cache_control": "cache_control",
    "stop_sequences": "stop",
    "n": "candidates",
    "response_logprobs": "logprobs",
    "candidate_count": "candidates",
    "safety_identifier": "user",
    "user_id": "user",
    "labels": "metadata",
    "disable_parallel_tool_use": "parallel_tool_calls",
    "tool_config": "tool_choice",
    "function_calling_config": "tool_choice",
    "output_format": "response_format",
    "response_schema": "response_format",
    "response_json_schema": "response_format",
    "response_mime_type": "response_format",
    "reasoning_effort": "effort",
    "thinking": "reasoning",
    "thinking_config": "reasoning",
    "thinking_level": "effort",
}
"""Wire names in snake case -> field names of the IR. Other names are looked up in `native` fields."""

NEVER = frozenset({"model", "messages", "input", "contents", "content", "parts", "role", "tools", "stream", "body"})
"""Fields that every request needs."""


def remove_named_field(refusal: RefusedRequest) -> Request:
    """Remove the field that the error names. For a path, the last part whose removal changes the request."""
    for name in _names(refusal):
        if name in NEVER:
            continue
        request = remove_fields(name)(refusal)
        if request != refusal.request:
            return request
    return refusal.request


def _names(refusal: RefusedRequest) -> Iterable[str]:
    """Return the parts of the paths that the error names, the last part first; the paths in its text come before
    `param`."""
    found = [value for value in (refusal.match.groupdict().get("loc"), *refusal.match.groups()) if value]
    paths = [*found, refusal.error.param or ""]
    for path in paths:
        yield from reversed(_parts(path))


def remove_listed_fields(refusal: RefusedRequest) -> Request:
    """Remove all fields of a list, for example `['reasoning_effort', 'parallel_tool_calls']`."""
    return remove_fields(*(name for name in _parts(refusal.match["listed"]) if name not in NEVER))(refusal)


def remove_limit(refusal: RefusedRequest) -> Request:
    """Remove the output limit, for a server that has no such field."""
    return _unset(refusal, "max_output_tokens")


def remove_fields(*names: str) -> Callable[[RefusedRequest], Request]:
    """Create a fix that removes these fields, named as in any dialect."""

    def change(refusal: RefusedRequest) -> Request:
        request = refusal.request
        for name in names:
            request = _remove_field(refusal._replace(request=request), name)
        return request

    return change


def _remove_field(refusal: RefusedRequest, name: str) -> Request:
    request, context = refusal.request, refusal.context
    field = FIELDS.get(re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower())
    if field is not None:
        remove = refusal.remedies.fields.get(field) or _REMOVERS.get(field, _remove_by_pass)
        changed = remove(refusal, field)
        if changed != request:
            return changed
    changed = without_native_anywhere(request, refusal.dialect, name)
    if changed != request:
        context.receipt.loss(name, name, "the upstream does not know this field")
    return changed


def _remove_by_pass(refusal: RefusedRequest, field: str) -> Request:
    """Remove a field with the pass that adapts requests to targets without it."""
    fit = _PASSES.get(field)
    if fit is not None:
        can = refusal.context.can
        left = {name: read_capability(can, name) - {field} for name in ("fields", "fields_without_reasoning")}
        changed = fit(refusal.request, refusal.with_capabilities(**left))
        if changed != refusal.request:
            return changed
    return _unset(refusal, field)


def _unset(refusal: RefusedRequest, field: str) -> Request:
    """Remove a field that no pass handles."""
    if getattr(refusal.request, field, None) is None:
        return refusal.request
    refusal.context.receipt.loss(field, field, "the upstream does not know this field")
    return replace(refusal.request, **{field: None})


_PASSES: dict[str, RequestPass] = {
    **dict.fromkeys(parameters.PLAIN, parameters.fit),
    "reasoning": effort.fit,
    "parallel_tool_calls": choice.fit,
    "response_format": formats.fit,
}


def _without_effort(refusal: RefusedRequest, field: str) -> Request:
    wanted = refusal.request.reasoning
    if wanted is None or (wanted.effort is None and wanted.mode != "off"):
        return refusal.request
    refusal.context.receipt.loss("reasoning.effort", f"effort {wanted.effort or 'none'}", "the upstream takes none")
    rest = replace(wanted, effort=None, mode=None if wanted.effort is None else wanted.mode)
    has_settings = rest.mode in ("on", "auto") or rest.budget_tokens is not None or rest.show is not None
    return replace(refusal.request, reasoning=rest if has_settings else None)


def _without_summary(refusal: RefusedRequest, field: str) -> Request:
    wanted = refusal.request.reasoning
    if wanted is None or wanted.show is None:
        return refusal.request
    refusal.context.receipt.loss("reasoning.show", "visible reasoning", "the upstream does not show it")
    return replace(refusal.request, reasoning=replace(wanted, show=None))


def _without_choice(refusal: RefusedRequest, field: str) -> Request:
    wanted: ToolChoice | None = refusal.request.tool_choice
    if wanted is None:
        return refusal.request
    report = refusal.context.receipt.note if wanted.mode == "auto" else refusal.context.receipt.loss
    report("tool_choice", f"choice {wanted.mode}", "the upstream has no such parameter")
    return replace(refusal.request, tool_choice=None)


def _without_strict(refusal: RefusedRequest, field: str) -> Request:
    tools = tuple(
        replace(tool, strict=None) if isinstance(tool, Tool) and tool.strict is not None else tool
        for tool in refusal.request.tools
    )
    if tools == refusal.request.tools:
        return refusal.request
    refusal.context.receipt.loss("tools", "strict tools", "the upstream does not enforce a tool's schema")
    return replace(refusal.request, tools=tools)


def _without_cache_setting(refusal: RefusedRequest, field: str) -> Request:
    """Remove one setting of the prompt cache, for example `prompt_cache_key`."""
    settings, setting = refusal.request.prompt_cache, field.removeprefix("prompt_cache_")
    if settings is None or getattr(settings, setting) is None:
        return refusal.request
    refusal.context.receipt.note(field, field, "the upstream does not know this field; no answer depends on it")
    left = replace(settings, **{setting: None})
    return replace(refusal.request, prompt_cache=left if left != PromptCache() else None)


_REMOVERS: dict[str, Callable[[RefusedRequest, str], Request]] = {
    "prompt_cache_key": _without_cache_setting,
    "prompt_cache_retention": _without_cache_setting,
    "prompt_cache_options": _without_cache_setting,
    "cache_control": lambda refusal, _: cache.drop_marks(refusal.request, refusal.context),
    "effort": _without_effort,
    "summary": _without_summary,
    "tool_choice": _without_choice,
    "strict": _without_strict,
}

_FIXES: dict[str, Callable[[RefusedRequest], Request]] = {
    "reasoning_content": forget_reasoning,
    "tool_choice": choose_freely,
}
"""Fixes for fields that a validator names, if there is a better fix than removal."""
