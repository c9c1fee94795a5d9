"""How a model's tool calls are written, as one value that an exchange is given."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

BadCalls = Literal["pass", "ask", "fail"]
"""What becomes of a call that cannot be run (unknown tool, missing or wrong arguments, unreadable JSON):

- `pass`: it goes to the client as it is, which answers it with an error as it would answer any bad call;
- `ask`: the model is told what is wrong and asked once more; the client sees only the second try;
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
