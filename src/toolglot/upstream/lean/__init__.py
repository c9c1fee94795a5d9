"""HTTP/1.1 to upstreams on httptools, with as little in between as there can be."""

from toolglot.upstream.lean.destination import Destination, request_head
from toolglot.upstream.lean.outbox import outbox_of
from toolglot.upstream.lean.reply import LeanReply, take_over
from toolglot.upstream.lean.sending import Receiver, Sending
from toolglot.upstream.lean.transport import LeanTransport

__all__ = ["Destination", "LeanReply", "LeanTransport", "Receiver", "Sending", "outbox_of", "request_head", "take_over"]
