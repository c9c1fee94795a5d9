"""Conversations as a page of HTML: everything is escaped, and nothing on it acts."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from itertools import groupby

import pytest
from hypothesis import given

from tests.strategies import requests
from toolglot.export.html import MAX_TITLE_CHARS, render_html
from toolglot.export.markdown_html import is_safe_address
from toolglot.ir import Media, Message, Opaque, Request, Source, Text, Thinking, ToolCall, ToolResult

ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "section", "div", "p", "pre", "code"),
    *("details", "summary", "img", "a", "b", "span", "h3", "h4", "h5", "h6", "ul", "ol", "li", "hr", "blockquote"),
    *("strong", "em", "del", "wbr", "table", "tr", "th", "td"),
}
EXPLAINED = ALLOWED | {"main", "footer", "dl", "dt", "dd", "svg", "rect", "i", "br"}
"""Of the page of a recorded exchange."""
EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&</pre></section><style>*{}</style>"


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.said: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "hr", "br", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said.append(data)


def read(text: str) -> Page:
    page = Page()
    page.feed(text)
    page.close()
    assert page.open == []
    for tag, attributes in page.tags:
        assert tag in ALLOWED
        assert not any(name.startswith("on") or name == "style" for name in attributes)
        assert is_safe_address(attributes.get("href") or "https://example.com")
        assert tag != "img" or (attributes["src"] or "").startswith("data:image/")
    return page


def page_of(*messages: Message, title: str | None = None) -> Page:
    return read("".join(render_html(messages, title)))


def test_whatever_is_said_is_text() -> None:
    page = page_of(
        Message(role=EVIL, content=(Text(text=EVIL), Thinking(text=EVIL), Opaque("gemini", {"type": EVIL}))),
        Message(role="assistant", content=(ToolCall(id=EVIL, name=EVIL, arguments=EVIL),)),
        Message(role="tool", content=(ToolResult(call_id=EVIL, is_error=True, content=(Text(text=EVIL),)),)),
        Message(role="user", content=(Media(kind="image", name=EVIL, source=Source("url", f"javascript:{EVIL}")),)),
        title=EVIL,
    )
    assert "".join(page.said).count(EVIL) >= 9
    assert [tag for tag, _ in page.tags].count("style") == 1


def test_the_policy_lets_the_page_show_its_style_and_its_images_alone() -> None:
    page = page_of()
    policy = next(attributes["content"] for tag, attributes in page.tags if "http-equiv" in attributes)
    style = next(text for text in page.said if "color-scheme" in text)
    digest = b64encode(sha256(style.encode()).digest()).decode()
    assert policy is not None
    assert policy.startswith(f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'")


@pytest.mark.parametrize(
    ("source", "is_shown"),
    [
        (Source("base64", "aGVsbG8=", "image/png"), True),
        (Source("base64", "aGVsbG8=", "image/svg+xml"), False),
        (Source("base64", 'x" onerror="alert(1)', "image/png"), False),
        (Source("base64", "aGVsbG8=", 'image/png" onerror="alert(1)'), False),
        (Source("url", "https://example.com/a.png"), False),
        (Source("url", "data:image/png,x"), False),
    ],
)
def test_images_are_shown_where_the_conversation_holds_them(source: Source, is_shown: bool) -> None:
    page = page_of(Message(role="user", content=(Media(kind="image", source=source),)))
    assert any(tag == "img" for tag, _ in page.tags) is is_shown


def test_controls_are_made_visible() -> None:
    said = "".join(page_of(Message(role="user", content=(Text(text="\x1b[31mred\u202e\x00"),))).said)
    assert "\\x1b[31mred\\u202e\\x00" in said


@given(request=requests())
def test_any_conversation_is_a_sound_page(request: Request) -> None:
    page = page_of(*request.messages)
    turns = [role for role, _ in groupby(request.messages, key=lambda message: message.role)]
    assert [tag for tag, _ in page.tags].count("section") == len(turns)


def test_neighbouring_messages_of_one_role_are_one_section() -> None:
    calls = [Message(role="assistant", content=(ToolCall(id=name, name=name),)) for name in "abc"]
    page = page_of(*calls, Message(role="user"))
    assert [tag for tag, _ in page.tags].count("section") == 2
    assert "".join(page.said).count("Tool Use") == 3


@pytest.mark.parametrize(
    ("texts", "title"),
    [
        (["Do I need an umbrella?\nAnd a coat?"], "Do I need an umbrella?"),
        (["<system-reminder>be brief</system-reminder>", "# Fix the build"], "Fix the build"),
        (["word " * 40], f"{('word ' * 16).strip()}…"),
        (["x" * 200], f"{'x' * (MAX_TITLE_CHARS - 1)}…"),
        ([" \n"], "Conversation"),
        ([], "Conversation"),
    ],
)
def test_the_user_s_first_words_are_the_title(texts: list[str], title: str) -> None:
    said = tuple(Text(text=text) for text in texts)
    system = Message(role="system", content=(Text(text="You are brief."),))
    page = "".join(render_html([system, Message(role="user", content=said)], source="a.json"))
    assert f"<title>{title}</title>" in page
    assert f"<h1>{title}</h1>\n<p>a.json</p>" in page


def test_system_text_is_folded_and_the_rest_is_not() -> None:
    system, user = (
        Message(role="system", content=(Text(text="Be *brief*."),)),
        Message(role="user", content=(Text(text="Hi"),)),
    )
    page = "".join(render_html([system, user]))
    assert '<details class="card"><summary>Be *brief*. <span class="size">11 characters</span></summary>' in page
    assert "<p>Be <em>brief</em>.</p>" in page
    assert page.count("<details") == 1


@pytest.mark.parametrize(
    ("size", "is_folded"), [(10, False), (2_000, False), (2_001, True), (5_000_000, True)], ids=lambda value: str(value)
)
def test_long_results_are_folded(size: int, is_folded: bool) -> None:
    result = ToolResult(call_id="c", content=(Text(text="x" * size),))
    page = "".join(render_html([Message(role="tool", content=(result,))]))
    assert ("<details>" in page) is is_folded
    assert f"<pre>{'x' * size}</pre>" in page.replace("<wbr>", "")


def test_a_chat_s_role_with_the_model_s_name_looks_like_the_role() -> None:
    page = "".join(render_html([Message(role="assistant (demo)", content=(Text(text="Hi"),))]))
    assert '<section class="assistant">\n<h2>Assistant (demo)</h2>' in page
