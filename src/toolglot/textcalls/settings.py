"""Settings for tool calls as text, as one value for an exchange."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from toolglot.wire.sdk_objects import describe_type

BAD_TOOL_CALL: Final = "bad_tool_call"
"""Error code for a call that cannot be run: the model's mistake, not a server's. It causes no retry or fallback
unless the configuration says so."""

BadCalls = Literal["pass", "ask", "fail"]
"""How to handle a call that cannot be run (unknown tool, missing or wrong arguments, unreadable JSON):

- `pass`: it goes to the client unchanged, which answers it with an error like any bad call. An unreadable call cannot
  be answered: a stream ends with an error that describes the problem, a whole answer shows it as text;
- `ask`: the model gets a description of the error and is asked once more. The client sees only the part of the first
  attempt before its first call. A second bad attempt is passed;
- `fail`: the answer ends with an error.
"""


class TextCalls(Struct, frozen=True, kw_only=True):
    """Tool calls as text between toolglot and the model.

    `format` is a text format's name. `rescue`: the model has native tool calls and gets tools natively, but calls that
    it leaks into its text in this format are extracted. `starts_in_reasoning`: the model's template has opened the
    reasoning, so the answer begins inside it.
    """

    format: str
    bad_calls: BadCalls = "pass"
    rescue: bool = False
    starts_in_reasoning: bool = False


def to_text_calls(value: TextCalls | str | None) -> TextCalls | None:
    """Convert a library caller's argument to settings; the name of a format is enough.

    Raises:
        TypeError: it is neither settings nor a name.
        MisuseError: there is no format of that name.
    """
    if value is None:
        return None
    if not isinstance(value, TextCalls | str):
        raise TypeError(f"expected TextCalls or the name of a text format, not {describe_type(value)}")
    from toolglot.textcalls.formats import find_format  # most exchanges need no formats

    settings = TextCalls(format=value) if isinstance(value, str) else value
    find_format(settings.format)
    return settings
