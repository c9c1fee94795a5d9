from __future__ import annotations

import pytest

from toolglot.ir import Citation, Media, Message, Refusal, Source, Text, ToolResult
from toolglot.passes import content

from .targets import ANTHROPIC, CHAT, answered, asked, calls, lines, result, to, user


def test_a_refusal_is_text_where_the_target_has_none() -> None:
    request = asked(user(), Message(role="assistant", content=(Refusal(text="No."),)))
    context = to(ANTHROPIC)
    assert content.fit(request, context).messages[1].content == (Text(text="No."),)
    assert lines(context) == ["note messages[1].content[0]"]
    assert content.fit(request, to(CHAT)) is request


def test_citations_are_a_loss_where_the_target_takes_none() -> None:
    cited = Message(role="assistant", content=(Text(text="So", citations=(Citation(url="https://x.test"),)),))
    context = to(CHAT)
    assert content.fit(asked(user(), cited), context).messages[1].content == (Text(text="So"),)
    assert lines(context) == ["loss messages[1].content[0]"]


IMAGE = Media(kind="image", source=Source("url", "https://x.test/a.png"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((Text(text="boom"),), (Text(text="Error: boom"),)),
        ((Text(text="Error: boom"),), (Text(text="Error: boom"),)),
        ((Text(text="Errors are fun"),), (Text(text="Error: Errors are fun"),)),
        ((), (Text(text="Error:"),)),
        ((IMAGE,), (Text(text="Error:"), IMAGE)),
    ],
)
def test_an_error_says_so_in_its_text_where_the_target_has_no_flag(
    before: tuple[Text, ...], after: tuple[Text, ...]
) -> None:
    failed = ToolResult(call_id="a", content=before, is_error=True)
    request = asked(user(), calls("a"), answered(failed))
    context = to(CHAT)
    assert content.fit(request, context).messages[2].content == (ToolResult(call_id="a", content=after),)
    assert lines(context) == ["note messages[2].content[0]"]
    assert content.fit(request, to(ANTHROPIC)) is request


def test_a_result_that_is_no_error_needs_no_line() -> None:
    context = to(CHAT)
    request = asked(user(), calls("a"), answered(result("a", is_error=False)))
    assert content.fit(request, context) is request
    assert not context.receipt
