"""HTTP/1.1 to upstreams on httptools, with as little in between as there can be."""

from toolglot.upstream.http_client.destination import Destination, PreparedCall, request_head
from toolglot.upstream.http_client.outbox import outbox_of
from toolglot.upstream.http_client.reply import HttpReply, take_over, whole_reply
from toolglot.upstream.http_client.sending import Receiver, Sending
from toolglot.upstream.http_client.transport import HttpTransport

__all__ = [
    "Destination",
    "HttpReply",
    "HttpTransport",
    "PreparedCall",
    "Receiver",
    "Sending",
    "outbox_of",
    "request_head",
    "take_over",
    "whole_reply",
]
