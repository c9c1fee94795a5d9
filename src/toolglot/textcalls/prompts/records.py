"""The records that describe how to write a format: the tools, the calls and the results as text.

Templates are those of `string.Template`: `$name` and the like are replaced by values, everything else is markup. Values
are filled in once and not expanded again, so that nothing in them can act as a template.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

ArgumentsForm = Literal[
    "json",  # the JSON text of the arguments
    "tagged",  # one tag per parameter: strings raw, everything else as JSON
    "elements",  # the same, but objects and arrays are nested elements
    "python",  # keyword arguments with Python literals
    "braces",  # {key:value} with bare keys and special marks around strings
]
IdForm = Literal[
    "given",  # the id that the client knows
    "short",  # nine letters and digits, derived from it
    "functions",  # functions.NAME:INDEX, with an index over the whole conversation
    "counted",  # the index itself
]
StringForm = Literal[
    "raw",  # a string is written unchanged between the tags
    "json",  # a string is JSON like everything else
    "cdata",  # a string that could be taken for markup is wrapped in CDATA
]
ListingStyle = Literal[
    "openai_lines",
    "flat_lines",
    "openai_array",
    "flat_array",
    "xml_attributes",
    "xml_elements",
    "wrapped_json",
    "legacy_xml",
    "headings",
    "cline",
    "typescript",
    "sentences",
    "codeblocks",
    "braces",
]


class ToolListing(Struct, frozen=True, kw_only=True):
    """The form of the tool list: a style of `tool_lists.py` between two marks."""

    style: ListingStyle
    before: str = ""
    after: str = ""


class Calls(Struct, frozen=True, kw_only=True):
    """The form of an answer's calls.

    `call` may use `$name`, `$json_name` (quoted), `$arguments`, `$id`, `$json_id`, `$index` (over the conversation) and
    `$number` (in this answer, from 1); `parameter` may use `$key`, `$value`, `$type` and `$string` (true, false).
    `block` is the template for the parameters in `block_keys`. `entities`: `&`, `"`, `<` and `>` in names and keys are
    XML entities. `quote` is the mark around strings of a `braces` body; `item` names the elements of arrays.
    `unquotable` is text that no string between braces or in elements may contain.
    """

    call: str
    before: str = ""
    between: str = "\n"
    after: str = ""
    body: ArgumentsForm = "json"
    ids: IdForm = "given"
    parameter: str = ""
    block: str = ""
    block_keys: tuple[str, ...] = ()
    strings: StringForm = "raw"
    entities: bool = False
    quote: str = ""
    prefix: str = ""
    unquotable: str = ""


class Results(Struct, frozen=True, kw_only=True):
    """The form of results: `$name`, `$json_name`, `$id`, `$json_id`, `$index`, `$number`, `$text`, `$json_text`.
    Without an `error` template an error is a result whose text begins with `Error: `. `marks` are the pieces of the
    markup that a text must not forge."""

    result: str
    error: str = ""
    before: str = ""
    between: str = "\n"
    after: str = ""
    marks: tuple[str, ...] = ()


class Prompt(Struct, frozen=True, kw_only=True):
    """The prompt forms of a format. `several`: an answer may have more than one call. `stops` are texts that end the
    useful part of an answer. `tokens` are the special tokens of the models that use the format. `any_case`: the marks
    are read case-insensitively.
    """

    name: str
    tools: ToolListing
    calls: Calls
    results: Results
    hint: str = ""
    several: bool = True
    stops: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    any_case: bool = False


class Result(Struct, frozen=True, kw_only=True):
    """The result of one call. `index` counts the calls over the whole conversation, from 0."""

    name: str
    text: str
    id: str = ""
    is_error: bool = False
    index: int = 0
