"""HTTP/1.1 client for upstreams, a thin layer over httptools."""

from toolglot.upstream.http_client.destination import Destination, PreparedCall, request_head
from toolglot.upstream.http_client.in_flight import AnswerReceiver, InFlightRequest
from toolglot.upstream.http_client.reply import HttpReply, adopt_reply, complete_reply
from toolglot.upstream.http_client.transport import HttpTransport
from toolglot.upstream.http_client.write_batch import write_batch_for

__all__ = [
    "AnswerReceiver",
    "Destination",
    "HttpReply",
    "HttpTransport",
    "InFlightRequest",
    "PreparedCall",
    "adopt_reply",
    "complete_reply",
    "request_head",
    "write_batch_for",
]
