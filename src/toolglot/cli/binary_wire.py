"""Documents of a dialect whose wire is not JSON: requests have a JSON form, and whole answers are streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from toolglot.cli.diagnosis import BYTE_ORDER_MARK, json_or_none, other_dialect
from toolglot.cli.parameters import exit_unreadable, print_note
from toolglot.dialect import JsonForm
from toolglot.errors import DecodeError, MissingExtraError
from toolglot.json_forms import JSON_FORMS, find_json_form
from toolglot.wire import json

REQUEST = "request"
_STREAMED = "response"


def is_binary(dialect: str, kind: str) -> bool:
    return dialect in JSON_FORMS and kind == REQUEST


def is_not_json(dialect: str, kind: str) -> bool:
    return dialect in JSON_FORMS and kind in (REQUEST, _STREAMED)


def read_binary_request(data: bytes, path: Path, dialect: str) -> bytes:
    """The request in its wire form, from its bytes, base64 of them or its JSON form.

    The program ends where it is none of them.
    """
    form = _form(dialect)
    if not data:
        exit_unreadable(path, "the input is empty")
    value = json_or_none(data.removeprefix(BYTE_ORDER_MARK))
    rounded: list[str] = []
    try:
        if isinstance(value, dict):
            written = form.encode_request(json.decode(data.removeprefix(BYTE_ORDER_MARK)), rounded)
        else:
            written = form.unwrap_request(data)
    except DecodeError as error:
        exit_unreadable(path, _why(value, dialect, form, error))
    for place in rounded:
        print_note(path, f"{place}: an integer is rounded: numbers in a Struct are doubles")
    return written


def _why(value: Any, dialect: str, form: JsonForm, error: DecodeError) -> str:
    if isinstance(value, dict):
        other = None if form.own_members & value.keys() else other_dialect(value, REQUEST, dialect)
        return f"this looks like {other}, not {dialect} ({error})" if other else str(error)
    return f"neither {form.noun} nor its JSON form (from `{form.command}`): {error}"


def as_json_form(data: bytes, dialect: str) -> bytes:
    """A request as the JSON form of it."""
    return json.encode(_form(dialect).decode_request(data))


def _form(dialect: str) -> JsonForm:
    try:
        form = find_json_form(dialect)
    except MissingExtraError as error:
        raise click.UsageError(str(error)) from None
    assert form is not None
    return form
