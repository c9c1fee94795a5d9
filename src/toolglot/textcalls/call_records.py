"""DeepChat's records of past calls, which are inside the assistant's turn together with the response:

<function_call>{"function_call_record": {"name": …, "arguments": …, "response": …}}</function_call>
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

_OPENER = re.compile(r"<function_call>\s*(?=\{)")
_CLOSER = re.compile(r"\s*</function_call>")
_decoder = json.JSONDecoder(strict=False)


class CallRecord(Struct, frozen=True):
    """A call and its response."""

    name: str
    arguments: str
    response: str


def split_records(text: str) -> Iterator[str | CallRecord]:
    """Split the text into records and the text between them."""
    start = at = 0
    while (opener := _OPENER.search(text, at)) is not None:
        try:
            value, end = _decoder.raw_decode(text, opener.end())
        except json.JSONDecodeError as error:
            at = max(error.pos, opener.end())
            continue
        except RecursionError:
            at = opener.end()
            continue
        record = _parse_record(value)
        closer = _CLOSER.match(text, end)
        at = closer.end() if closer else end
        if record is not None:
            yield text[start : opener.start()]
            yield record
            start = at
    yield text[start:]


def _parse_record(value: dict[str, Any]) -> CallRecord | None:
    record = value.get("function_call_record")
    if not isinstance(record, dict) or not isinstance(record.get("name"), str):
        return None
    return CallRecord(record["name"], _text(record.get("arguments", {})), _text(record.get("response", "")))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
