"""What is told of a request for which there is no recording: which one is nearest, and where it differs."""

from __future__ import annotations

from toolglot.errors import ApiError, DecodeError
from toolglot.recordings.differences import Difference, of_values, shown
from toolglot.recordings.holes import fits_value, recorded
from toolglot.upstream.replay.index import Index, read_entry
from toolglot.upstream.replay.matching import Asked, document, operation, telling
from toolglot.upstream.transport import Call

CODE = "no_recording"
TOLD = 5
"""Differences that are told."""
VALUE = 80
"""Characters of each value."""
UNSEEN = "only in what was redacted, or in what changes from run to run"


def no_recording(index: Index, wanted: Asked, dialect: str, call: Call) -> ApiError:
    said = f"There is no recording of this request ({dialect}, {operation(call.url)}) in {index.place}."
    return ApiError(
        kind="bad_request", status=400, code=CODE, message=f"{said} {_nearest(index, wanted, dialect, call)}"
    )


def _nearest(index: Index, wanted: Asked, dialect: str, call: Call) -> str:
    entry = index.nearest(wanted, dialect)
    if entry is None:
        if not index.place.exists():
            return "There is no such folder."
        return _other_dialects(index)
    try:
        attempt = read_entry(entry).attempt
    except (OSError, DecodeError) as error:
        return f"The nearest is {entry.file.name}, which cannot be read: {error}"
    then = telling(dialect, document(dialect, recorded(attempt.request)))
    now = telling(dialect, document(dialect, call.body))
    differences = [each for each in of_values(then, now) if not fits_value(each.then, each.now)]
    if operation(attempt.request.url) != operation(call.url):
        paths = operation(attempt.request.url), operation(call.url)
        differences.insert(0, Difference("path", *paths))
    told = "; ".join(map(_told, differences[:TOLD])) or UNSEEN
    more = f"; and {len(differences) - TOLD} more" if len(differences) > TOLD else ""
    return f"The nearest is {entry.file.name}, call {entry.attempt}. It differs: {told}{more}"


def _other_dialects(index: Index) -> str:
    if not index.entries:
        return "There is no recorded call in it."
    calls = "is 1 recorded call" if index.entries == 1 else f"are {index.entries} recorded calls"
    return f"There {calls}, in {' and '.join(index.dialects())}, and none in this dialect."


def _told(difference: Difference) -> str:
    words = {
        "added": lambda: f"{difference.path} is not recorded, asked is {shown(difference.now, VALUE)}",
        "removed": lambda: f"{difference.path} is recorded as {shown(difference.then, VALUE)} and not asked",
        "changed": lambda: (
            f"{difference.path} is recorded as {shown(difference.then, VALUE)}, asked is {shown(difference.now, VALUE)}"
        ),
    }
    return words[difference.kind]()
