"""The tools as pure functions from arguments to results, and their table.

A result has two forms: structured content for programs, and text for models. The text is cut if it is too long to read;
the structured content is limited as well, and says if something is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from toolglot.cli.diagnosis import not_this_stream
from toolglot.dialects import DIALECTS, find
from toolglot.errors import DecodeError, MissingExtraError
from toolglot.ir import Request
from toolglot.lint import lint
from toolglot.lint.report import split
from toolglot.routing import Pattern, bare
from toolglot.tokens import estimate
from toolglot.tool_server import arguments as forms
from toolglot.tool_server.arguments import CallError, CountTokens, LintStream, NoArguments, Translate
from toolglot.tool_server.translate_tool import bytes_of, known_dialect, shorten, translate
from toolglot.tools.mcp import NAME as MCP
from toolglot.upstream.vendors import VENDORS
from toolglot.wire import json

MAX_TEXT = 100_000
"""Maximum characters of a text for a model."""
MAX_BREACHES = 200


class ToolOutput(Struct, frozen=True):
    """The result of a call: as a record, and as texts."""

    result: Struct
    texts: tuple[str, ...]

    @property
    def structured(self) -> dict[str, Any]:
        value = msgspec.to_builtins(self.result)
        assert isinstance(value, dict)
        return value


class ServerToolSpec(Struct, frozen=True, kw_only=True):
    """A tool: `run` reads the arguments itself and raises `CallError` for invalid ones."""

    name: str
    title: str
    description: str
    takes: type[Struct]
    gives: type[Struct]
    run: Callable[[Mapping[str, Any]], ToolOutput]


def cut_text(text: str, rest: str = "structuredContent has all of it") -> str:
    """Return the text, or its beginning with a note that there is more."""
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[:MAX_TEXT]}\n… cut off here: {MAX_TEXT} of {len(text)} characters are shown; {rest}."


def run_translate(arguments: Mapping[str, Any]) -> ToolOutput:
    result = translate(forms.read_arguments(arguments, Translate))
    document = result.document if isinstance(result.document, str) else json.encode_text(result.document)
    lines = [f"{line.severity}: {line.where}: {line.what}: {line.why}" for line in result.receipt]
    receipt = "\n".join(["Receipt:", *lines]) if lines else "Receipt: everything was carried over."
    posted = (f"Post it to {result.path} below the base URL.",) if result.path else ()
    missing = (f"Cut off: {result.cut_off}.",) if result.cut_off else ()
    return ToolOutput(result, (cut_text(document), cut_text(receipt), *posted, *missing))


def run_lint(arguments: Mapping[str, Any]) -> ToolOutput:
    call = forms.read_arguments(arguments, LintStream)
    dialect = known_dialect(call.dialect, "dialect")
    recording = bytes_of(call.recording, "recording")
    if why := not_this_stream(recording.removeprefix(b"\xef\xbb\xbf"), dialect):
        raise CallError(f"recording: {why}")
    try:
        breaches = lint(dialect, [recording])
    except MissingExtraError as error:
        raise CallError(str(error)) from None
    shown = [
        forms.BrokenRule(each.event, each.rule, shorten(each.message), each.excerpt) for each in breaches[:MAX_BREACHES]
    ]
    more = f"{len(breaches)} breaches; the first {MAX_BREACHES} are here"
    result = forms.LintResult(
        not breaches,
        len(split(recording, DIALECTS[dialect].stream.framing)),
        shown,
        more if len(breaches) > MAX_BREACHES else "",
    )
    lines = [shorten(str(breach)) for breach in breaches[:MAX_BREACHES]]
    text = "\n".join(lines) if lines else f"no violations in {result.events} events"
    missing = (f"Cut off: {result.cut_off}.",) if result.cut_off else ()
    return ToolOutput(result, (cut_text(text), *missing))


def run_count_tokens(arguments: Mapping[str, Any]) -> ToolOutput:
    call = forms.read_arguments(arguments, CountTokens)
    name = known_dialect(call.dialect, "dialect")
    data = bytes_of(call.document)
    try:
        request = _request(data, name)
    except DecodeError as error:
        raise CallError(f"document: {shorten(str(error))}") from None
    except MissingExtraError as error:
        raise CallError(str(error)) from None
    owner = _owner(call.model or request.model) or name
    tokens = estimate(request, image_tokens=DIALECTS[owner].request.image_tokens)
    text = f"about {tokens} input tokens (an estimate; the model's own count may differ by some percent)"
    return ToolOutput(forms.TokenCount(tokens, owner), (text,))


def _request(data: bytes, name: str) -> Request:
    """Decode a request; or the body of a request to count, which requires less."""
    dialect = find(name)
    try:
        return dialect.decode_request(data)
    except RecursionError:
        raise DecodeError("$", json.TOO_DEEP) from None
    except DecodeError:
        if dialect.counting is None:
            raise
        try:
            return dialect.counting.decode_request(data)
        except DecodeError:
            pass
        raise


def _owner(model: str) -> str | None:
    """Return the dialect of the vendor that owns this model name."""
    name = bare(model)
    for vendor in VENDORS.values():
        if any(Pattern(pattern).match(name) is not None for pattern in vendor.models):
            return vendor.dialect
    return None


def run_list_dialects(arguments: Mapping[str, Any]) -> ToolOutput:
    forms.read_arguments(arguments, NoArguments)
    from toolglot.textcalls import FORMATS
    from toolglot.textcalls.prompts.render import PROMPTS

    result = forms.DialectList(
        [forms.NamedItem(name, dialect.title) for name, dialect in DIALECTS.items()],
        [forms.NamedItem(MCP, "Model Context Protocol: tool definitions")],
        [forms.NamedItem(each.name, each.title) for each in FORMATS.values() if each.name in PROMPTS],
    )
    lines = [f"{known.name}: {known.title}" for known in (*result.dialects, *result.tools_only)]
    formats = [f"{known.name}: {known.title}" for known in result.text_formats]
    return ToolOutput(result, ("\n".join(["Dialects:", *lines, "", "Text formats:", *formats]),))


TOOLS: dict[str, ServerToolSpec] = {
    tool.name: tool
    for tool in (
        ServerToolSpec(
            name="translate",
            title="Translate between LLM APIs",
            description="Translates a request, a response, a recorded stream, tool definitions or messages from one "
            "LLM API's format (dialect) to another's. Returns the document and a receipt of losses and changes. "
            "Sends no data anywhere.",
            takes=Translate,
            gives=forms.TranslateResult,
            run=run_translate,
        ),
        ServerToolSpec(
            name="lint_stream",
            title="Check a recorded stream",
            description="Checks a recorded streamed answer of an LLM API against the rules of its protocol. Returns "
            "each breach with the number of the event, the rule and an excerpt; none if the stream is valid.",
            takes=LintStream,
            gives=forms.LintResult,
            run=run_lint,
        ),
        ServerToolSpec(
            name="count_tokens",
            title="Estimate input tokens",
            description="Estimates how many input tokens a request to an LLM API has: system text, messages, tools, "
            "calls, results, images and documents. Works offline.",
            takes=CountTokens,
            gives=forms.TokenCount,
            run=run_count_tokens,
        ),
        ServerToolSpec(
            name="list_dialects",
            title="List dialects and text formats",
            description="Lists the dialects and the text formats that the other tools know, by the names they take.",
            takes=NoArguments,
            gives=forms.DialectList,
            run=run_list_dialects,
        ),
    )
}
"""The tools that only read their arguments."""


def work_size(arguments: Mapping[str, Any] | None) -> int:
    """Return the approximate amount of work: characters of the longest text, or the size of other values."""
    given = list((arguments or {}).values())
    return max((len(each) if isinstance(each, str) else _weight(each) for each in given), default=0)


def _weight(value: Any) -> int:
    """Return the size of a document. One that came as JSON is encoded for this, which is fast and bounded by the size
    of the message.
    """
    if not isinstance(value, (dict, list)):
        return 0
    try:
        return len(json.encode(value))
    except (OverflowError, ValueError):
        return 0
