"""How a model's tool calls are written, as one value that an exchange is given."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

BAD_TOOL_CALL: Final = "bad_tool_call"
"""The code of an error that says what is wrong with a call: the model's mistake, and no server's. Nobody asks again or
elsewhere because of it, unless the configuration says so."""

BadCalls = Literal["pass", "ask", "fail"]
"""What becomes of a call that cannot be run (unknown tool, missing or wrong arguments, unreadable JSON):

- `pass`: it goes to the client as it is, which answers it with an error as it would answer any bad call. One that
  cannot be read is no call that anybody could answer: a stream ends in an error that quotes what is wrong, a whole
  answer shows it as text;
- `ask`: the model is told what is wrong and asked once more; of the first try the client sees only what came before its
  first call. A second try is passed;
- `fail`: the answer ends in an error.
"""


class TextCalls(Struct, frozen=True, kw_only=True):
    """Tool calls as text between toolglot and the model.

    `format` is a text format's name. `rescue`: the model has native tool calls and tools are sent to it natively, but
    calls that it leaks into its text in this format are picked out of it. `starts_in_reasoning`: the model's template
    has opened the reasoning, so that the answer begins inside it.
    """

    format: str
    bad_calls: BadCalls = "pass"
    rescue: bool = False
    starts_in_reasoning: bool = False
