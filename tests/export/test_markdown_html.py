"""Markdown of models as HTML: what is rendered, what stays text, and that hostile text costs linear time."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.export.test_html import read
from tests.laws.measure import growth
from toolglot.export.markdown_html import MAX_MARKDOWN_CHARS, is_safe_address, render_markdown_html

LINK = '<a href="{0}" title="{0}" rel="noopener noreferrer nofollow">{1}</a>'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("One\ntwo  three\n\nfour", "<p>One\ntwo  three</p>\n<p>four</p>"),
        ("# A #\n###### F", "<h3>A</h3>\n<h6>F</h6>"),
        (
            "**b** *i* `c` ~~s~~ ***x***",
            "<p><strong>b</strong> <em>i</em> <code>c</code> <del>s</del> <strong><em>x</em></strong></p>",
        ),
        ("snake_case_name 2*3*4", "<p>snake_case_name 2<em>3</em>4</p>"),
        ("`<b>`", "<p><code>&lt;b&gt;</code></p>"),
        ("<b>&amp;</b>", "<p>&lt;b&gt;&amp;amp;&lt;/b&gt;</p>"),
        ("- a\n- b", "<ul>\n<li><p>a</p>\n</li>\n<li><p>b</p>\n</li>\n</ul>"),
        ("3. a\n4. b", '<ol start="3">\n<li><p>a</p>\n</li>\n<li><p>b</p>\n</li>\n</ol>'),
        ("- a\n  - b\n\n    c\nd", "<ul>\n<li><p>a</p>\n<ul>\n<li><p>b</p>\n<p>c\nd</p>\n</li>\n</ul>\n</li>\n</ul>"),
        ("- a\n\nb", "<ul>\n<li><p>a</p>\n</li>\n</ul>\n<p>b</p>"),
        (
            "1. a\n   ```\n   x\n     y\n   ```",
            '<ol start="1">\n<li><p>a</p>\n<pre class="code"><code>x\n  y</code></pre>\n</li>\n</ol>',
        ),
        ("> a\n> - b", "<blockquote><p>a</p>\n<ul>\n<li><p>b</p>\n</li>\n</ul>\n</blockquote>"),
        ("```py\n*x*\n````", '<pre class="code"><code>*x*</code></pre>'),
        ("~~~\n```\n<i>", '<pre class="code"><code>```\n&lt;i&gt;</code></pre>'),
        ("---", "<hr>"),
        (
            "| a | b |\n|---|:-:|\n| 1 | **2** |",
            '<div class="scroll"><table>\n<tr><th>a</th><th>b</th></tr>\n'
            "<tr><td>1</td><td><strong>2</strong></td></tr>\n</table></div>",
        ),
        ("| no table", "<p>| no table</p>"),
        ("[a](https://b.c/?d=1&e=2)", f"<p>{LINK.format('https://b.c/?d=1&amp;e=2', 'a')}</p>"),
        ("**[a](mailto:b@c)**", f"<p><strong>{LINK.format('mailto:b@c', 'a')}</strong></p>"),
        ("![a](https://b.c/d.png)", f"<p>!{LINK.format('https://b.c/d.png', 'a')}</p>"),
        ("\x1b[31m\u202e\x00", "<p>\\x1b[31m\\u202e\\x00</p>"),
        ("", ""),
    ],
)
def test_what_markdown_becomes(text: str, shown: str) -> None:
    assert render_markdown_html(text).rstrip("\n") == shown


@pytest.mark.parametrize(
    "address",
    [
        *("javascript:alert(1)", "JavaScript:alert", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "//a.b"),
        *(
            "java\tscript:x",
            "blob:x",
            "https:evil",
            "/path",
            "#x",
            'https://a"onclick="x',
            "https://a'b",
            "https://a\\b",
        ),
    ],
)
def test_links_with_other_addresses_are_text(address: str) -> None:
    assert not is_safe_address(address)
    shown = render_markdown_html(f"[click]({address}) [click](<{address}>)")
    assert "<a" not in shown
    assert "click" in shown


BITS = [
    "*",
    "_",
    "`",
    "~",
    "[",
    "](",
    ")",
    "<",
    ">",
    "#",
    "- ",
    "1. ",
    "|",
    "---",
    "```",
    "\n",
    "  ",
    "a",
    "\\",
    "javascript:",
    "https://a.b",
    '"',
]


@given(st.lists(st.sampled_from(BITS), max_size=60).map("".join))
def test_any_text_is_a_sound_part_of_a_page(text: str) -> None:
    read(render_markdown_html(text))


@pytest.mark.parametrize(
    "bit",
    [
        "*a ",
        "**a",
        "_a*b",
        "`a``b",
        "[a](",
        "[",
        "- a\n",
        "- a\n\n",
        "> ",
        ">\n",
        "|",
        "|-",
        "\n",
        " ",
        "- ",
        "#",
        "```\n",
        "1. a\n b\n",
        "a*",
    ],
)
def test_hostile_text_takes_linear_time(bit: str) -> None:
    """Twice the text may take three times as long on a busy machine, and not the fourfold or more of a square."""
    whole = bit * (MAX_MARKDOWN_CHARS // len(bit))
    half = whole[: len(whole) // 2]
    assert growth(lambda: render_markdown_html(half), lambda: render_markdown_html(whole), 3.2) < 3.2


def test_texts_that_are_too_long_are_shown_as_they_are() -> None:
    text = "*a* " * 1_300_000
    start = process_time()
    assert render_markdown_html(text).replace("<wbr>", "") == f"<pre>{text}</pre>\n"
    assert process_time() - start < 5
