"""Which cases of the conformance suite a transport does not pass, by the reason, most important first.

Of aiohttp and pyreqwest alike these are the ones that cannot be mended around the library. The suite itself, as CI runs
it, lets aiohttp differ in the cases that are told here, each in the way that the test says.
"""

from __future__ import annotations

from collections.abc import Mapping

ENDS, ENDLESS = "test_an_answer_ends_where_it_says", "test_what_never_ends_is_given_up"
CANCELLED, TUNNEL = "test_a_call_that_is_cancelled_is_gone", "test_a_proxy_that_does_not_let_through"
REUSED, HALF = (
    "test_a_request_on_a_connection_that_is_closed_meanwhile",
    "test_what_was_answered_by_half_is_not_asked_again",
)
WORDS_OF_PROXY = "test_words_of_the_proxy_after_its_head_are_not_those_of_the_upstream"


def _rows(test: str, *rows: str) -> tuple[str, ...]:
    return tuple(f"{test}[{row}]" for row in rows)


AIOHTTP: Mapping[str, tuple[str, ...]] = {
    "takes lines that are none, with which a header can be smuggled in": _rows(
        ENDS,
        "a size with a space after it",
        "bare line feeds",
        "a header after a bare line feed",
        "a control character in a header",
        "a header in two lines",
        "a length in two lines",
        "a space before a colon",
        "a space before the first header",
    ),
    "hands on what is coded in ways that nobody asked for": _rows(
        ENDS,
        "a coding that is not chunks",
        "a coding of old",
        "a coding that nobody knows",
        "a coding after chunks",
        "a coding inside chunks",
        "chunks in chunks",
    ),
    "asks again what may be asked twice, whatever has come of the answer": (
        *_rows(HALF, r"HTTP/1.1 200 OK\r\n", r"HTTP/1.1 100 Continue\r\n\r\n"),
        "test_a_new_connection_that_breaks_is_not_tried_again",
    ),
    "gives a place to a call that was cancelled in the queue, and to no other": (
        "test_a_call_that_is_cancelled_in_the_queue_takes_no_place",
    ),
    "fails with the next call when words came on an idle connection": (
        "test_words_on_an_idle_connection_are_not_taken_for_the_next_answer",
    ),
    "has no limit but the clock for parts of an answer that never end": _rows(
        ENDLESS, "empty lines", "an extension of a chunk", "the size of a chunk", "a trailer"
    ),
    "takes an odd status for one like any other": _rows(
        ENDS, "a status below all", "another protocol", "another protocol without a name"
    ),
    "refuses an answer for bytes after its end": _rows(
        ENDS, "204 with a body", "words too many", "words after the last"
    ),
    "refuses a long reason phrase": _rows(ENDS, "a long reason phrase"),
    "tells a proxy that breaks off as a break of the upstream": (
        *_rows(
            TUNNEL,
            "it says nothing and goes-",
            "it goes in the middle of its head-",
            "it speaks no HTTP-",
            "its head never ends-",
        ),
        WORDS_OF_PROXY,
    ),
}

PYREQWEST: Mapping[str, tuple[str, ...]] = {
    "goes on with a call that was cancelled or timed out before its head came: the model writes for nobody": (
        *_rows(
            CANCELLED,
            "nothing was answered",
            "the request is being written",
            "half a head came",
            "an interim head came",
        ),
        "test_cancelling_a_call_that_waits_for_its_head_cuts_the_socket",
        "test_cancelling_a_call_that_is_being_written_cuts_the_socket",
        "test_an_upstream_that_does_not_read_a_large_request_is_a_timeout_and_its_socket_is_cut",
    ),
    # With a certificate that may not, it passes all of these.
    "refuses a server's certificate that may sign others, as `openssl req -x509` makes them": (
        "test_a_certificate_that_is_trusted_is_spoken_to",
        "test_secure_connections_are_used_again",
        "test_a_secure_answer_without_a_length_ends_with_the_connection",
        "test_many_megabytes_go_both_ways_in_tls",
        "test_a_closed_transport_leaves_no_connection[True]",
        "test_a_tunnel_carries_calls_that_the_proxy_cannot_read",
        "test_a_proxy_may_be_spoken_to_in_tls_itself",
    ),
    "has no limit but the clock for parts of an answer that never end": (
        *_rows(ENDLESS, "interim heads", "the size of a chunk"),
        *_rows(ENDS, "one more", "interim heads without end"),
    ),
    "takes lines that are none, with which a header can be smuggled in": _rows(
        ENDS,
        "a trailer that gives a length",
        "a size with a space after it",
        "bare line feeds",
        "a header after a bare line feed",
    ),
    "keeps a connection open that has changed to another protocol": _rows(
        ENDS, "another protocol", "another protocol without a name"
    ),
    "does not tell with what status a proxy refused, or that it said too much": (
        "test_a_secure_request_goes_through_a_tunnel",
        WORDS_OF_PROXY,
    ),
    "takes at most 100 headers": _rows(ENDS, "as many headers as may be"),
    "refuses chunks of HTTP/1.0": _rows(ENDS, "HTTP/1.0 in chunks"),
    "closes a connection for an empty line after the answer": _rows(ENDS, "an empty line too many"),
    "sees in its own thread that an idle connection was closed, and takes a new one, which is better": _rows(
        REUSED, "POST-False-closed", "POST-False-reset"
    ),
}

DIFFERENCES: Mapping[str, Mapping[str, tuple[str, ...]]] = {"lean": {}, "aiohttp": AIOHTTP, "pyreqwest": PYREQWEST}
"""By the transport."""
