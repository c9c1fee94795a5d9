"""Numbers that a Struct cannot hold, and schemas that say nothing sensible about numbers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dialects.warp.conversations import WARP, asked, assistant, call, result, user, written
from toolglot.dialects.warp.descriptors import Struct
from toolglot.dialects.warp.integers import whole_numbers
from toolglot.dialects.warp.values import write_struct
from toolglot.errors import DecodeError
from toolglot.ir import Text, ToolCall
from toolglot.receipt import Receipt

HUGE = "9" * 400


def test_arguments_with_a_number_beyond_every_double_are_kept_as_text_and_told() -> None:
    arguments = f'{{"days":[{HUGE}]}}'
    receipt = Receipt()
    request = asked(user("Hi"), assistant(call("c", arguments)), result("c", Text(text="ok")))
    again = WARP.decode_request(written(request, receipt))
    (kept,) = [block for message in again.messages for block in message.content if isinstance(block, ToolCall)]
    assert kept.arguments == f'{{"_raw":"{{\\"days\\":[{HUGE}]}}"}}'
    assert [line.what for line in receipt.losses] == ["arguments"]


def test_a_number_beyond_every_double_is_an_error_that_says_where() -> None:
    with pytest.raises(DecodeError, match="here: a whole number is too large"):
        write_struct({"a": {"b": -int(HUGE)}}, Struct(), "here")


@pytest.mark.parametrize("said", [True, 7, 1.5, None, {"a": 1}, "object", [7, None], []])
def test_a_type_that_is_none_says_nothing(said: Any) -> None:
    assert str(whole_numbers({"a": 5.0}, {"properties": {"a": {"type": said}}})) == "{'a': 5}"
