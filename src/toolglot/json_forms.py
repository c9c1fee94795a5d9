"""Finds the JSON form of a wire format that is not JSON, for people and tools that cannot read protobuf."""

from __future__ import annotations

from collections.abc import Mapping

from toolglot.dialect import JsonForm
from toolglot.dialects import ByDialect, find
from toolglot.manifest import load

JSON_FORMS: Mapping[str, str] = ByDialect(lambda manifest: manifest.json_form)
"""The dialects whose wire is not JSON, each with the reference to its `JsonForm`."""


def find_json_form(dialect: str) -> JsonForm | None:
    """Return the JSON form of a dialect whose wire is not JSON; None for other dialects. Raises: MissingExtraError: a
    required package is not installed.
    """
    reference = JSON_FORMS.get(dialect)
    if reference is None:
        return None
    find(dialect)
    form: JsonForm = load(reference)
    return form
