"""Limit matches in JSON to the replaceable parts: the inside of strings, and the digits of numbers. A pattern may match
across commas and braces. The structure of a document is kept, so that the rest stays readable. The words of the APIs
are also kept, and so is the structure of a document inside a string (the arguments of a call, for example).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from toolglot.recordings.replacement import LITERALS, NUMBER_PATTERN, REDACTED, FoundSecret, number_of_nines
from toolglot.recordings.unescaped_views import MAX_LEVELS, TextView, unescape_string

_TOKEN = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)(?:"|\\?\Z)|[^"{}\[\],:\s]++', re.DOTALL)
"""A string, which the end of the text may cut off, or a word outside of strings."""
_STRING_REST = re.compile(r'([^"\\]*+(?:\\.[^"\\]*+)*+)(?:"|\\?\Z)', re.DOTALL)
"""The first token if a text begins inside a string."""
_DOCUMENT = re.compile(r"\ufeff?\s*((?:[{\[\"]|(?:-?[0-9][0-9.eE+-]*+|true|false|null)\s*\Z)?)")
_NAME_ENDS = re.compile(r'"\s*+:')
MAX_NAMES = 10_000
"""Maximum names of members that are tracked at once."""
_SSE_LINE = re.compile(r"data: ?(?=[{\[\"}\]])")
"""A line of server-sent events with JSON in it, or with a part of it."""


class BodyPosition(NamedTuple):
    """The position of a text in a body."""

    document: bool = False
    """True if the whole body is JSON."""
    line: bool = True
    """At the beginning of a line; otherwise `payload` and `inside` describe the line that continues."""
    payload: bool = False
    """True if the line is JSON."""
    inside: bool = False
    """True if it continues inside a string."""


def begins_document(text: str) -> bool | None:
    """Return whether a body that begins with this text is JSON. None if there is only white space so far."""
    begins = _DOCUMENT.match(text)
    assert begins is not None
    return None if begins.end() == len(text) and not begins[1] else bool(begins[1])


class MemberNames:
    """Member names, which stay distinct when they are redacted, because an object has each name once."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self.tools: frozenset[str] = frozenset()
        """The names of tools. They are kept in places that name a tool, because a call of another name is useless."""

    def is_tool_name(self, before: str, word: str) -> bool:
        """Return whether this string, after that one, is the name of a tool."""
        return word in self.tools and (before in TOOL_NAME_MEMBERS or before in self.tools)

    def replacement(self, name: str) -> str:
        if len(self._known) >= MAX_NAMES and name not in self._known:
            return REDACTED
        number = self._known.setdefault(name, len(self._known) + 1)
        return REDACTED if number == 1 else f"{REDACTED}#{number}"


def limit_to_values(text: str, found: list[FoundSecret], place: BodyPosition, names: MemberNames) -> list[FoundSecret]:
    """Return the parts of the matches that may be replaced."""
    if not found:
        return found
    if place.document:
        return list(_limit_in_json(TextView(text), (0, len(text)), place.inside, found, names))
    kept: list[FoundSecret] = []
    at = 0
    for start, end, is_json, inside in _affected_lines(text, found, place):
        at = _first_beyond(found, at, start)
        touched = _found_before(found, at, end)
        kept += (
            _limit_in_json(TextView(text), (start, end), inside, touched, names)
            if is_json
            else _clip_all(touched, start, end)
        )
    return kept


def _first_beyond(found: list[FoundSecret], at: int, place: int) -> int:
    """Return the index of the first match from `at` on that extends beyond this position."""
    while at < len(found) and found[at].end <= place:
        at += 1
    return at


def _found_before(found: list[FoundSecret], at: int, place: int) -> list[FoundSecret]:
    """Return the matches from `at` on that begin before this position."""
    end = at
    while end < len(found) and found[end].start < place:
        end += 1
    return found[at:end]


def position_after(text: str, place: BodyPosition) -> BodyPosition:
    """Return the position after a text that is cut inside a line."""
    begins = text.rfind("\n") + 1
    if begins or place.line:
        frame = None if place.document else _SSE_LINE.match(text, begins)
        place = place._replace(line=False, payload=place.document or frame is not None, inside=False)
        begins = begins if frame is None else frame.end()
    if not place.payload:
        return place
    last = None
    if place.inside:
        last = _STRING_REST.match(text, begins)
        begins = begins if last is None else last.end()
    for token in _TOKEN.finditer(text, begins):
        last = token
    inside = last is not None and last[1] is not None and last.end() == len(text) and not _is_closed(last)
    return place._replace(inside=inside)


def _is_closed(string: re.Match[str]) -> bool:
    return string.end() > string.end(1) and string[0][-1] == '"'


def _affected_lines(text: str, found: list[FoundSecret], place: BodyPosition) -> Iterator[tuple[int, int, bool, bool]]:
    """Yield the lines with matches: start, end, whether it is JSON, and whether it begins inside a string."""
    done = 0
    for each in found:
        while max(each.start, done) < each.end:
            start = text.rfind("\n", max(0, done - 1), max(each.start, done)) + 1
            end = text.find("\n", max(each.start, done))
            end = len(text) if end < 0 else end
            if start == 0 and not place.line:
                yield 0, end, place.payload, place.inside
            else:
                frame = _SSE_LINE.match(text, start)
                yield (start if frame is None else frame.end()), end, frame is not None, False
            done = end + 1


def _clip_all(found: list[FoundSecret], start: int, end: int) -> Iterator[FoundSecret]:
    for each in found:
        yield each if each.instead else _clip(each, max(start, each.start), min(end, each.end))


def _clip(found: FoundSecret, start: int, end: int) -> FoundSecret:
    return found if (start, end) == found[:2] else FoundSecret(start, end, start)


def _limit_in_json(
    view: TextView, bounds: tuple[int, int], inside: bool, found: list[FoundSecret], names: MemberNames, depth: int = 0
) -> Iterator[FoundSecret]:
    """Limit matches in a JSON document. `view` is the text itself, or a document inside it. `found` has positions in
    the text.
    """
    at = 0
    before = ""
    for start, end, is_string in json_tokens(view.text, bounds, inside):
        first, last = view.origin(start), view.origin(end)
        at = _first_beyond(found, at, first)
        if at == len(found):
            return
        word, name = view.text[start:end], before
        before = word
        touched = _found_before(found, at, last)
        counts = name in INDEX_MEMBERS and len(word) <= MAX_INDEX_DIGITS
        if not touched or (depth == 0 and (word in WORDS if is_string else counts)):
            continue
        is_name = is_string and _NAME_ENDS.match(view.text, end) is not None
        if depth == 0 and is_string and not is_name and names.is_tool_name(name, word):
            continue
        if is_string and (inner := _nested_document(view, start, end, depth)) is not None:
            yield from _limit_in_json(inner, (0, len(inner.text)), False, touched, names, depth + 1)
        elif is_name:
            yield FoundSecret(first, last, first, names.replacement(word))
        elif is_string or not (word in LITERALS or NUMBER_PATTERN.fullmatch(word)):
            yield from (_clip(each, max(first, each.start), min(last, each.end)) for each in touched)
        elif word not in LITERALS:
            yield from _limit_in_number(word, first, last, touched)


def _limit_in_number(word: str, first: int, last: int, touched: list[FoundSecret]) -> Iterator[FoundSecret]:
    hidden = number_of_nines(word)
    if len(word) != last - first:  # its digits are escaped
        yield FoundSecret(first, last, first, hidden, is_number=True)
        return
    for each in touched:
        start, end = max(first, each.start), min(last, each.end)
        yield FoundSecret(start, end, start, hidden[start - first : end - first], is_number=True)


def _nested_document(view: TextView, start: int, end: int, depth: int) -> TextView | None:
    """Return the document inside a string, if there is one."""
    if depth == MAX_LEVELS or view.text[start:end].lstrip()[:1] not in ("{", "["):
        return None
    inner = unescape_string(view, start, end)
    try:
        msgspec.json.decode(inner.text.encode("utf-8", "replace"), type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    return inner


def json_tokens(text: str, bounds: tuple[int, int], inside: bool = False) -> Iterator[tuple[int, int, bool]]:
    """Yield the tokens of a document: the inside of strings, and other words. Start, end, and whether it is a
    string."""
    begins, end = bounds
    if inside and (rest := _STRING_REST.match(text, begins, end)) is not None:
        yield *rest.span(1), True
        begins = rest.end()
    for token in _TOKEN.finditer(text, begins, end):
        is_string = token[1] is not None
        yield *token.span(1 if is_string else 0), is_string


_NAMES = """
    args arguments cache_control call_id candidates choices code completed_at content content_block content_index
    contents createTime created created_at data delta description detail effort encrypted_content error file_data
    file_id fileData fileUri filename finishReason finish_reason format function functionCall functionCallingConfig
    functionDeclarations functionResponse generationConfig id image_url index inlineData input input_audio input_schema
    instructions is_error item item_id items json_schema maxOutputTokens max_completion_tokens max_output_tokens
    max_tokens media_type message messages metadata mimeType mode model modelVersion name object output output_index
    parallel_tool_calls parameters parametersJsonSchema parts partial_json phase previous_response_id properties reason
    reasoning reasoning_content reasoning_details reasoning_effort required response responseId response_format result
    role schema sequence_number signature source status stop stop_reason stop_sequence stop_sequences stream
    stream_options strict summary summary_index system systemInstruction temperature text thinking thinkingConfig
    thought thoughtSignature toolConfig tool_call_id tool_calls tool_choice tool_use_id tools top_p type url usage
    usageMetadata user cache_creation_input_tokens cache_read_input_tokens cachedContentTokenCount cached_tokens
    candidatesTokenCount completion_tokens completion_tokens_details input_tokens input_tokens_details output_tokens
    output_tokens_details promptTokenCount prompt_tokens prompt_tokens_details reasoning_tokens thoughtsTokenCount
    totalTokenCount total_tokens
""".split()  # noqa: SIM905
"""Names of members of requests and answers."""
_VALUES = """
    adaptive any array assistant auto base64 boolean chat.completion chat.completion.chunk completed
    content_block_delta content_block_start content_block_stop custom custom_tool_call custom_tool_call_output developer
    disabled document enabled end_turn ephemeral function_call function_call_output image in_progress incomplete
    input_file input_image input_json_delta input_text integer json_object length list max_tokens message_delta
    message_start message_stop model none null number output_text pause_turn ping reasoning_text redacted_thinking
    refusal signature_delta string summary_text text_delta thinking_delta tool tool_result tool_use
    ANY AUTO MAX_TOKENS NONE OBJECT SAFETY STOP STRING VALIDATED
    response.completed response.content_part.added response.content_part.done response.created response.failed
    response.function_call_arguments.delta response.function_call_arguments.done response.in_progress
    response.incomplete response.output_item.added response.output_item.done response.output_text.delta
    response.output_text.done response.reasoning_summary_part.added response.reasoning_summary_part.done
    response.reasoning_summary_text.delta response.reasoning_summary_text.done response.reasoning_text.delta
    response.reasoning_text.done response.refusal.delta response.refusal.done
""".split()  # noqa: SIM905
"""Values that name a kind or type."""

WORDS = frozenset((*_NAMES, *_VALUES))
TOOL_NAME_MEMBERS = frozenset({"name", "allowedFunctionNames", "allowed_function_names"})
"""Members that name tools: one, or the first of several."""
INDEX_MEMBERS = frozenset({"index", "output_index", "content_index", "summary_index", "sequence_number"})
"""Members whose numbers connect the parts of an answer."""
MAX_INDEX_DIGITS = 5
"""Maximum digits of such a number: a longer one is not an index, regardless of its member's name."""
