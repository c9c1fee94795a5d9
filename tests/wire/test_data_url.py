from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.ir import Source
from toolglot.wire.data_url import read_file_data, read_url, write_url
from toolglot.wire.media_types import charset_of, detect_media_type, file_suffix, normalize_media_type

PIECES = st.sampled_from(
    [
        "data:",
        "DATA:",
        ",",
        ";",
        ";base64",
        '"',
        "\\",
        ";BASE64,",
        "; base64 ,",
        "%",
        "%41",
        "image/png",
        "charset=a",
        "QUJD",
        "é",
    ]
)
URLS = st.one_of(
    st.lists(PIECES, max_size=8).map("".join),
    st.lists(PIECES, max_size=6).map(lambda pieces: "data:" + "".join(pieces)),
    st.text(max_size=20).map(lambda text: f"data:{text}"),
    st.just("data:,\ud800"),
)


@given(URLS)
def test_every_url_is_written_as_it_was_read(url: str) -> None:
    for read in (read_url, read_file_data):
        source, spelled = read(url)
        if read is read_file_data and source.kind == "base64" and source.media_type is None and spelled is None:
            assert source.data == url
        else:
            assert write_url(source, "x/y", spelled) == url


@given(st.binary(max_size=30), st.sampled_from(["", "text/plain", "image/png;a=b", ";charset=utf-8"]))
def test_the_data_is_the_same_in_both_encodings(data: bytes, head: str) -> None:
    plain = base64.b64encode(data).decode()
    escaped = "".join(f"%{byte:02X}" for byte in data)
    assert read_url(f"data:{head};base64,{plain}")[0].data == plain
    assert read_url(f"data:{head},{escaped}")[0].data == plain


@pytest.mark.parametrize(
    ("head", "media_type"),
    [
        ('text/plain;name="a,b"', None),
        ('text/plain;name="a;base64,b"', None),
        ('text/plain;name="a\\",b";charset=utf-8', None),
        ('text/plain;a="";b="1,2";c=3', None),
        (';name="a,b"', 'text/plain;name="a,b"'),
    ],
)
def test_a_comma_in_a_quoted_string_is_not_the_one_before_the_data(head: str, media_type: str | None) -> None:
    for url in (f"data:{head};base64,QUJD", f"data:{head},ABC"):
        source, spelled = read_url(url)
        assert (source.data, source.media_type) == ("QUJD", media_type or head)
        assert write_url(source, "x/y", spelled) == url


@pytest.mark.parametrize("url", ['data:text/plain;name="a,QUJD', 'data:text/plain;name="a\\",QUJD'])
def test_a_quote_that_does_not_end_is_no_quoted_string(url: str) -> None:
    assert read_url(url)[0] == Source("base64", "UVVKRA==", url[5:-5])


@pytest.mark.parametrize("url", ["https://x.test/a,b", "data:image/png", f"data:{'a' * 2000},b", "", "datum:,a"])
def test_what_is_no_data_url_stays_a_url(url: str) -> None:
    assert read_url(url) == (Source("url", url), None)


@pytest.mark.parametrize(
    ("media_type", "normal", "charset"),
    [
        ("Text/Plain; Charset=UTF-8", "text/plain", "utf-8"),
        ('text/csv;header=present;charset="iso-8859-1"', "text/csv", "iso-8859-1"),
        ('text/plain;name="a;charset=x";charset=utf-8', "text/plain", "utf-8"),
        ('text/plain;name="a;charset=x', "text/plain", "x"),
        ("text/plain;flag;charset=utf-8", "text/plain", "utf-8"),
        ("image/jpg", "image/jpeg", None),
        ("application/x-pdf;charset=", "application/pdf", None),
        ("", "", None),
    ],
)
def test_a_media_type_has_a_registered_name_and_parameters(media_type: str, normal: str, charset: str | None) -> None:
    assert normalize_media_type(media_type) == normal
    assert charset_of(media_type) == charset


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff\xdb", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x01\x02\x03\x04WEBPVP8L", "image/webp"),
        (b"RIFF\x01\x02\x03\x04WAVEfmt ", None),
        (b"%PDF-1.4", "application/pdf"),
        (b"hello", None),
        (b"", None),
    ],
)
def test_the_first_bytes_show_the_type(data: bytes, media_type: str | None) -> None:
    assert detect_media_type(base64.b64encode(data).decode()) == media_type


def test_an_extension_has_letters_and_digits_only() -> None:
    for media_type in ("a", "a/", "/", "text/../x", "application/x-y.z", "image/svg+xml"):
        assert file_suffix(media_type).isalnum()
