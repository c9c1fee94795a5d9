"""The `response` object of a functionResponse <-> the text of a tool result.

The API treats two members of that object specially: `output` is the result, `error` marks a failed call. Any other
object is the whole result. Clients wrap results in many more ways; a note keeps the client's shape if it differs from
the default of `write_response`.
"""

from __future__ import annotations

from typing import Any, Literal

from toolglot.errors import DecodeError
from toolglot.wire import json

ResponseShape = Literal["output", "output_json", "error", "error_json", "object", "empty", "absent"]


def read_response(response: dict[str, Any] | None) -> tuple[str | None, bool | None, ResponseShape]:
    """Read the text of a result (None if absent), whether it is an error, and its shape."""
    if response is None:
        return None, None, "absent"
    if not response:
        return None, None, "empty"
    if len(response) == 1:
        for key in ("output", "error"):
            if key in response:
                value, failed = response[key], True if key == "error" else None
                if isinstance(value, str):
                    return value, failed, "output" if key == "output" else "error"
                return json.encode_text(value), failed, "output_json" if key == "output" else "error_json"
    return json.encode_text(response), None, "object"


def usual_shape(text: str | None, is_error: bool | None) -> ResponseShape:
    """Return the shape of a result without a note."""
    if is_error:
        return "error"
    return "object" if text is not None and _stands_alone(text) else "output"


def write_response(text: str | None, is_error: bool | None, noted: str | None) -> dict[str, Any] | None:
    """Write the `response` object. None if the note says that it was absent."""
    if noted is None and text and not is_error and not _stands_alone(text):
        return {"output": text}
    shape = noted if noted is not None and _still_fits(noted, text, is_error) else usual_shape(text, is_error)
    if shape == "absent":
        return None
    if shape == "empty":
        return {}
    if shape == "object":
        value: dict[str, Any] = _parse(text or "{}")
        return value
    key = "error" if shape.startswith("error") else "output"
    return {key: _parse(text or "null") if shape.endswith("_json") else text or ""}


def _still_fits(noted: str, text: str | None, is_error: bool | None) -> bool:
    """Return whether the result still fits the noted shape. A pass may have changed it."""
    if noted.startswith("error") != bool(is_error):
        return False
    if noted in ("absent", "empty"):
        return text is None
    if noted.endswith("_json"):
        return text is not None and _parse(text) is not _NOT_JSON
    if noted == "object":
        return text is not None and isinstance(_parse(text), dict)
    return True


def _stands_alone(text: str) -> bool:
    """Return whether this text is a JSON object that can be the whole response. An object has no layout, no spelling of
    numbers (`1.10`) and no repeated keys. A text of several lines may be a file that the model edits, so it stays text.
    So does a text that the object would not reproduce exactly."""
    if "\n" in text or not text.lstrip().startswith("{"):
        return False
    value = _parse(text)
    if not isinstance(value, dict) or not value or value.keys() & {"output", "error"} or _has_ref(value):
        return False
    return json.encode_text(value) == json.compact(text)


_NOT_JSON = object()


def _parse(text: str) -> Any:
    try:
        return json.decode_frame(text.encode("utf-8", "surrogatepass"))
    except DecodeError:
        return _NOT_JSON


def _has_ref(value: Any) -> bool:
    """Return whether `$ref` is a key at any level. The API treats it as a reference and refuses the request."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            if "$ref" in item:
                return True
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
    return False
