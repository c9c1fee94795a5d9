"""The error for a request without a recording: names the nearest recording and the differences."""

from __future__ import annotations

from functools import partial

from toolglot.errors import ApiError, DecodeError
from toolglot.recordings.differences import Difference, compare_values, format_value
from toolglot.recordings.redacted_spans import matches_value, recorded_body
from toolglot.upstream.replay.index import RecordingIndex, read_entry
from toolglot.upstream.replay.matching import RequestFingerprint, operation, request_document, without_volatile
from toolglot.upstream.transport import UpstreamCall

CODE = "no_recording"
MAX_DIFFERENCES = 5
"""Maximum number of differences to list."""
MAX_VALUE_CHARS = 80
"""Maximum characters of each value."""
UNSEEN = "only in what was redacted, or in what changes from run to run"


def no_recording_error(index: RecordingIndex, wanted: RequestFingerprint, dialect: str, call: UpstreamCall) -> ApiError:
    said = f"There is no recording of this request ({dialect}, {operation(call.url)}) in {index.place}."
    return ApiError(
        kind="bad_request", status=400, code=CODE, message=f"{said} {_describe_nearest(index, wanted, dialect, call)}"
    )


def _describe_nearest(index: RecordingIndex, wanted: RequestFingerprint, dialect: str, call: UpstreamCall) -> str:
    entry = index.nearest(wanted, dialect)
    if entry is None:
        if not index.place.exists():
            return "There is no such folder."
        return _describe_other_dialects(index)
    try:
        attempt = read_entry(entry).attempt
    except (OSError, DecodeError) as error:
        return f"The nearest is {entry.file.name}, which cannot be read: {error}"
    then = without_volatile(dialect, request_document(dialect, recorded_body(attempt.request)))
    now = without_volatile(dialect, request_document(dialect, call.body))
    differences = [each for each in compare_values(then, now) if not matches_value(each.then, each.now)]
    if operation(attempt.request.url) != operation(call.url):
        paths = operation(attempt.request.url), operation(call.url)
        differences.insert(0, Difference("path", *paths))
    told = "; ".join(map(_describe_difference, differences[:MAX_DIFFERENCES])) or UNSEEN
    more = f"; and {len(differences) - MAX_DIFFERENCES} more" if len(differences) > MAX_DIFFERENCES else ""
    return f"The nearest is {entry.file.name}, call {entry.attempt}. It differs: {told}{more}"


def _describe_other_dialects(index: RecordingIndex) -> str:
    if not index.entries:
        return "There is no recorded call in it."
    calls = "is 1 recorded call" if index.entries == 1 else f"are {index.entries} recorded calls"
    return f"There {calls}, in {' and '.join(index.dialects())}, and none in this dialect."


def _describe_difference(difference: Difference) -> str:
    # Lazy, because only the values of differences are shown.
    then, now = (
        partial(format_value, difference.then, MAX_VALUE_CHARS),
        partial(format_value, difference.now, MAX_VALUE_CHARS),
    )
    words = {
        "added": lambda: f"{difference.path} is not recorded, but requested as {now()}",
        "removed": lambda: f"{difference.path} is recorded as {then()} but not requested",
        "changed": lambda: f"{difference.path} is recorded as {then()}, requested as {now()}",
    }
    return words[difference.kind]()
