"""What can go wrong around a gateway, case by case, and the tests that show what happens then.

Tests name their case by its number (`test_30_…`, or the id `4: no host`). Cases that concern the core alone have their
tests there. `tests/server/test_fault_cases.py` holds this table to the tests that exist.
"""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """`tests` are files, or files with the beginning of a test's name."""

    fault: str
    expected: str
    tests: tuple[str, ...]


_PROTOCOL, _BODY, _SECURITY = "test_http_protocol.py", "test_request_body.py", "test_security.py"
_HEADS = "test_limits.py::test_a_head"

CASES: dict[int, Case] = {
    1: Case(
        "a head or a body that comes slowly",
        "408 and the end of that connection alone",
        (_PROTOCOL, _BODY, "test_body_budget.py"),
    ),
    2: Case("a head of too many bytes or fields", "431 before anything is routed", (_PROTOCOL, _HEADS)),
    3: Case("a request that two servers read in two ways", "400, one answer, the end", (_PROTOCOL, _HEADS)),
    4: Case("a host or a path that is none", "400; access is decided on the matched route", (_PROTOCOL, _HEADS)),
    5: Case("a body over the limit", "413 in the caller's dialect, not held whole", (_BODY, "test_limits.py::test_5")),
    6: Case(
        "a compressed body", "415 for unknown ways, a limit while it is unpacked", (_BODY, "test_limits.py::test_6")
    ),
    7: Case("JSON that is none, or is a trap", "400 with the place, at little cost", ("test_limits.py::test_7",)),
    8: Case("very many messages or tools", "400 over the limit", ("test_limits.py::test_8",)),
    11: Case(
        "more connections or requests than there is room for",
        "503 with Retry-After; health answers",
        (_PROTOCOL, "test_limits.py::test_11"),
    ),
    13: Case("a web page asks", "no permission, 403", (_SECURITY, "test_limits.py::test_13")),
    14: Case("another host's name (DNS rebinding)", "421", (_SECURITY, _HEADS)),
    17: Case(
        "beyond loopback without a key",
        "refused at the start and at a reload",
        (_SECURITY, "test_reload.py::test_44_a_bad_change"),
    ),
    18: Case(
        "a wrong key, however it is shown", "401 that does not repeat it", (_SECURITY, "test_secrets.py::test_18")
    ),
    19: Case("a path that nobody opened", "a key is needed for all but health", (_SECURITY, "test_limits.py::test_19")),
    20: Case("a key that is taken away", "401 with the next request", ("test_reload.py::test_20",)),
    21: Case("headers aimed at the other side", "only named ones cross", ("test_limits.py::test_21",)),
    22: Case("an upstream's address in a request", "never called", ("test_limits.py::test_22",)),
    23: Case("the address of an image", "passed on or refused, never called", ("test_limits.py::test_23",)),
    24: Case("an upstream redirects", "not followed, told, not tried again", ("test_faults.py::test_24",)),
    25: Case("a model's name that is more than a name", "escaped in its place, or 400", ("test_limits.py::test_25",)),
    26: Case("TLS that fails", "an error, nothing sent", ("test_faults.py::test_26",)),
    27: Case(
        "no connection, no answer",
        "another try or upstream before the first byte, else 502 or 504",
        ("test_faults.py::test_27", "test_fallbacks.py::test_27"),
    ),
    28: Case(
        "an upstream that is busy, refuses, fails again and again",
        "waits are kept or passed on; breaker; one mending",
        ("test_fallbacks.py::test_28",),
    ),
    29: Case("a 200 that is no answer", "502 in the client's dialect", ("test_faults.py::test_29",)),
    30: Case(
        "a stream that dies",
        "the dialect's error, nothing made up",
        ("test_broken_streams.py::test_30",),
    ),
    31: Case("an end that is missing, or followed by more", "one end", ("test_broken_streams.py::test_31",)),
    32: Case("a silent upstream", "keep-alives while it is alive, then an error", ("test_keepalive.py::test_32",)),
    33: Case("bytes that are cut anywhere", "the same answer", ("test_broken_streams.py::test_33",)),
    34: Case(
        "a line, an answer or a stream without end",
        "an error at the limit, memory flat",
        ("test_broken_streams.py::test_34", "test_backpressure.py::test_34"),
    ),
    35: Case(
        "a client that reads slowly, or no more",
        "the upstream waits; then it is cut",
        ("test_backpressure.py::test_35",),
    ),
    36: Case(
        "a client that goes away", "the upstream is closed at once, in every phase", ("test_cancellation.py::test_36",)
    ),
    37: Case(
        "a compressed answer that explodes",
        "an error at the limit",
        ("test_broken_streams.py::test_37", "test_backpressure.py::test_37"),
    ),
    40: Case(
        "arguments that are no JSON, or huge",
        "as they are, or an error; never silently empty",
        ("test_broken_streams.py::test_40",),
    ),
    44: Case(
        "a shutdown, a wrong configuration, keys everywhere",
        "drained, then errors; the last good one; no key seen again",
        ("test_shutdown.py::test_44", "test_reload.py::test_44", "test_secrets.py::test_44"),
    ),
}
