"""Translate a stream from the upstream to the client: bytes in, bytes out.

`StreamTranslation` chooses one of three modes:

- Translate: decode to events, run the event passes (`passes/event_chain.py`), encode (`client_stream.py`).
- Forward: both sides speak the same dialect and nothing has to change. Frames pass unchanged, and a decoder reads along
  to detect usage, errors, the end, and truncation.
- Document: the upstream sent one JSON document (an error or a response) instead of a stream. It is decoded at the end,
  and then streamed to the client.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from toolglot.client_stream import ClientStream
from toolglot.errors import (
    ENDED_EARLY,
    NAMELESS,
    NO_STOP,
    TRUNCATED,
    ApiError,
    DecodeError,
    MisuseError,
    UpstreamError,
    malformed_call,
    note_early_end,
    truncated,
    unreadable,
)
from toolglot.events import Delta, Event, Fault, Finish, Open, Start, unfold
from toolglot.forwarding import Forwarder
from toolglot.ir import Stop, ToolCall, Usage
from toolglot.passes.event_chain import NOTHING, EventChain
from toolglot.passes.settle import is_nameless
from toolglot.receipt import Receipt
from toolglot.text_frames import BLANKED, TemplatePair, TextFrames, decode_body, is_canonical, pair_templates, read_run
from toolglot.wire import json
from toolglot.wire.chunks import Chunk, to_frame
from toolglot.wire.delta_template import DeltaTemplate
from toolglot.wire.sse import BYTE_ORDER_MARK, MAX_EVENT_BYTES

if TYPE_CHECKING:
    from toolglot.dialect import StreamEncoder
    from toolglot.textcalls.retry_prompt import RetryPrompt
    from toolglot.translate import ExchangeCore


LONG = 1024
"""Number of bytes from which data probably contains many frames."""
MOST_UNREAD = 2048
"""Maximum number of bytes of text that may be written before they are decoded."""
RUNS = 2
"""Most searches per piece of data for a run of frames that can be written at once. Each search scans all remaining
data."""


class StreamTranslation:
    """Upstream bytes in, client bytes out; both may be split anywhere."""

    # There may be thousands of concurrent streams, and a `__dict__` is large.
    __slots__ = (
        "_at_start",
        "_begun",
        "_beside",
        "_called",
        "_chain",
        "_client",
        "_decoder",
        "_document",
        "_exchange",
        "_forwarder",
        "_number",
        "_short",
        "_template",
        "_texts",
        "_unread",
    )

    def __init__(self, exchange: ExchangeCore, encoder: StreamEncoder | None = None) -> None:
        self._exchange = exchange
        # Forwarded bytes lose nothing, regardless of what the accompanying decoder reports.
        self._beside = Receipt() if exchange.verbatim else None
        self._decoder = exchange.upstream.stream_decoder(exchange.receipt if self._beside is None else self._beside)
        self._client = ClientStream(
            exchange, encoder or exchange.client.stream_encoder(exchange.asked, exchange.receipt)
        )
        self._chain = EventChain(exchange)
        self._forwarder = Forwarder(exchange) if exchange.verbatim else None
        self._begun = False
        self._document: bytearray | None = None
        self._called = False  # a forwarded stream contains a tool call
        shape = exchange.upstream.stream
        self._texts: TextFrames | None = None
        if shape.text_of_frame is not None and self._chain.reader is None:
            self._texts = TextFrames(shape.framing, shape.text_of_frame, shape.changing_members)
        self._at_start = False  # the next byte begins a frame
        self._short: TemplatePair | None = None  # set while the next frame may be written without decoding it
        self._template = DeltaTemplate()  # the client's template for such a frame
        self._number = 0  # number of the client's next frame, if its frames are numbered
        self._unread = bytearray()  # text that was written before it was decoded

    @property
    def ended(self) -> bool:
        """Whether nothing follows."""
        return self._client.ended

    @property
    def usage(self) -> Usage | None:
        """Token counts; set once the stream has ended, if they are known."""
        return self._client.usage

    @property
    def usage_at_start(self) -> Usage | None:
        """Token counts that the upstream has sent before the answer; those of the output are not final."""
        return self._client.usage_at_start

    @property
    def characters(self) -> int:
        """Characters of the answer so far."""
        return self._client.characters + len(self._unread)

    @property
    def service_tier(self) -> str | None:
        """The service tier that the upstream reports, even if the client's API has none."""
        return self._chain.service_tier or self._client.service_tier

    @property
    def stop(self) -> Stop | None:
        """Why the answer ended; set once the stream has ended without an error."""
        return self._client.stop

    @property
    def fault(self) -> ApiError | None:
        """The error that ended the stream, if there was one."""
        return self._client.fault

    @property
    def broken(self) -> bool:
        """Whether the upstream's connection failed, or its stream ended in the middle of an answer."""
        return self._client.broken

    @property
    def is_cut(self) -> bool:
        """Whether the caller must cut the client's connection to show that the stream is broken."""
        return self._client.is_cut

    @property
    def may_retry(self) -> bool:
        """Whether `pending_retry` may become true."""
        return self._chain.reader is not None

    def feed(self, data: Chunk) -> bytes:
        """Translate the next bytes of the upstream. Returns the client's bytes."""
        if type(data) is not bytes:
            data = to_frame(data, self._exchange.upstream.stream.framing)
        if self._short is not None:
            came, first, last, within, opens, middle, closes = self._short
            if data.startswith(first) and data.endswith(last):
                body = came.text_of_matching(data, len(first), len(data)) if within is None else data[within]
                is_short = len(body) < LONG and self._chain.held_back not in body
                if is_short and (body.translate(BLANKED).isspace() or is_canonical(body)):
                    self._unread += body
                    if middle is None:
                        written = b"".join((opens, body, closes)) if closes else b""
                    else:
                        written = b"%b%d%b%b%b" % (opens, self._number, middle, body, closes)
                        self._number += 1
                    return written if len(self._unread) < MOST_UNREAD else written + self._catch_up()
        if (
            self._texts is not None
            and self._at_start
            and self._begun
            and not self._client.ended
            and self._forwarder is None
        ):
            return self._read_frames(self._texts, data)  # not a document, and no reader of text calls
        if self._client.ended or self.pending_retry is not None:
            return b""
        if not self._begun:
            self._begin(data)
        if self._document is not None:
            self._document += data
            return b"" if len(self._document) <= json.MAX_DOCUMENT_BYTES else self.fail(_too_large())
        if self._forwarder is None:
            return self._translate(self._decode(data)) if self._texts is None else self._read_frames(self._texts, data)
        written = self._forward(self._forwarder, self._forwarder.frames(data))
        if self._forwarder.overflows and not self._client.ended:
            written += self.fail(unreadable(DecodeError("$", f"one event has more than {MAX_EVENT_BYTES} bytes")))
        return written

    def _read_frames(self, texts: TextFrames, data: bytes) -> bytes:
        """Translate frame by frame, with a fast path for frames that only extend an open block."""
        if b"\r" in data or len(data) > MAX_EVENT_BYTES // 2:  # the decoder rejects events that are too large
            late = self._catch_up()
            self._texts = self._short = None
            return late + self._translate(self._decode(data))
        written: list[bytes] = []
        runs, start, end = RUNS, 0, texts.end
        while (stop := data.find(end, start)) >= 0:
            if runs and self._short is not None and data.startswith(self._short[1], start):
                runs -= 1
                bodies, start = read_run(self._short[0], data, start, end, self._chain.held_back)
                if bodies:
                    written.append(self._write_run(bodies))
                    continue
            stop += len(end)
            frame, start = data[start:stop], stop
            short = self._write_known(texts, frame)
            written.append(self._read_frame(texts, frame) if short is None else short)
        if start < len(data):
            written.append(self._catch_up())
            self._at_start, self._short = False, None
            written.append(self._translate(self._decode(data[start:])))
        return written[0] if len(written) == 1 else b"".join(written)

    def _write_run(self, bodies: list[bytes]) -> bytes:
        """Write the client's frames for texts that need not be decoded first."""
        written = self._template.write(bodies, self._number)
        self._number += len(bodies)
        self._unread += b"".join(bodies)
        return written if len(self._unread) < MOST_UNREAD else written + self._catch_up()

    def _write_known(self, texts: TextFrames, frame: bytes) -> bytes | None:
        """Translate a frame by the upstream's template, if its text is escaped differently than the client's, or the
        client has no template yet. None if the frame must be decoded."""
        if texts.template is None or not self._at_start or self._client.ended:
            return None
        text = decode_body(texts.template.body_of(frame, 0, len(frame)))
        body = json.encode_frame(text)[1:-1]
        if not body or self._chain.held_back in body:
            return None
        if self._short is not None:
            return self._write_run([body])
        self._unread += body
        if late := self._catch_up():
            return late
        written = self._client.encoder.feed(Delta(self._chain.plain_as, text))
        self._take_template(texts)
        return written

    def _read_frame(self, texts: TextFrames, frame: bytes) -> bytes:
        late = self._catch_up()
        events = self._decode(frame)
        written = self._translate(events)
        was_at_start, self._at_start = self._at_start, True
        self._short = texts.template = None
        if was_at_start and self._chain.plain >= 0 and not self._client.ended and events:
            self._learn(texts, frame, events[-1])
        return late + written if late else written

    def _learn(self, texts: TextFrames, frame: bytes, event: Event) -> None:
        """Learn the template of a frame that extended the open block: the next frame may look like it."""
        if type(event) is not Delta or event.index != self._chain.plain:
            return
        if self._chain.held_back is NOTHING or "}" not in event.text:
            texts.learn(frame, event.text)
            self._take_template(texts)

    def _take_template(self, texts: TextFrames) -> None:
        """Enable the fast path if both sides have a template."""
        template = self._client.encoder.delta_template
        if texts.template is not None and template is not None:
            self._template, self._number = template, template.number
            self._short = pair_templates(texts.template, template)

    def _catch_up(self) -> bytes:
        """Decode the text that was written without decoding, as one frame, for everything that tracks text: the
        decoder, passes, the encoder, and the listener. Returns bytes to write: an error if the answer became too
        long."""
        if not self._unread or self._texts is None or self._texts.template is None:
            return b""
        events = self._decode(self._texts.template.frame(bytes(self._unread)))
        self._unread.clear()
        self._texts.note_recognised()
        for number, event in enumerate(events):
            if type(event) is not Delta:
                return self._end_late(events[number:])
            if self._short is not None and self._template.on_written is not None:
                self._template.on_written(event.text, self._number)
            self._client.add_written(event, (event,) if self._forwarder is not None else self._chain.add_written(event))
        return b""

    def _end_late(self, events: Sequence[Event]) -> bytes:
        self._short = None
        if self._forwarder is None:
            return self._translate(events)
        return self._forward_frame(self._forwarder, b"", events)

    def close(self) -> bytes:
        """End the upstream's stream. Returns the client's remaining bytes."""
        late, self._short = self._catch_up(), None
        if self._client.ended or self.pending_retry is not None:
            return late
        if self._document is not None:
            return self._translate(self._events_of_document(bytes(self._document).removeprefix(BYTE_ORDER_MARK)))
        if self._forwarder is None:
            return self._translate(self._last_events([]))
        rest, is_whole = self._forwarder.rest()
        # An incomplete frame is not forwarded. The decoder determines whether it matters.
        written = self._forward(self._forwarder, [rest]) if is_whole else b""
        incomplete = self._decode(rest) if not is_whole else []
        if not self._client.ended:
            written += self._forward_frame(self._forwarder, b"", self._last_events(incomplete))
        return self._client.hold_head(written)

    def _last_events(self, events: list[Event]) -> list[Event]:
        """Append the decoder's last events, and detect truncation."""
        events = [*events, *self._decoder.close()]
        self._note_odd_end(ENDED_EARLY)
        last = events[-1] if events else None
        self._client.broken = isinstance(last, Fault) and last.error.code == TRUNCATED
        return events

    def _note_odd_end(self, why: str) -> None:
        """Copy the decoder's note on an unusual end of a forwarded stream into the exchange's receipt."""
        if self._beside is not None:
            self._exchange.receipt.add(line for line in self._beside if line.why == why)

    @property
    def pending_retry(self) -> RetryPrompt | None:
        """Set if the model wrote a call that cannot be run: it must be asked again before the client's stream
        continues."""
        return None if self._chain.reader is None else self._chain.reader.pending_retry

    def encode_retry(self) -> bytes:
        """Create the request for the second answer. Feed its bytes next: they continue the first answer's stream."""
        if self._chain.reader is None:
            raise MisuseError("no retry is needed")
        self._exchange.pending_retry = self._chain.reader.pending_retry
        request = self._exchange.encode_retry()
        self._decoder = self._exchange.upstream.stream_decoder(self._exchange.receipt)
        self._begun, self._document = False, None
        self._chain.reset()
        self._chain.reader.begin_retry()
        return request

    @property
    def wants_again(self) -> RetryPrompt | None:
        """The earlier name of `pending_retry`."""
        return self.pending_retry

    def again(self) -> bytes:
        """The earlier name of `encode_retry`."""
        return self.encode_retry()

    def break_off(self, error: ApiError, *, broken: bool = True) -> bytes:
        """End the stream because no more bytes will come: with an error, unless the upstream already sent its stop
        reason. `broken`: the upstream failed (a reset, a timeout); otherwise the caller gave up."""
        if self.settled:
            written = self.close()
            if all(line.why != ENDED_EARLY for line in self._exchange.receipt):
                note_early_end(self._exchange.receipt, "sound end")
            return written
        self._client.broken = broken
        return self.fail(error)

    def fail(self, error: ApiError) -> bytes:
        """End the stream with an error that is not in the upstream's bytes."""
        late, self._short = self._catch_up(), None
        if self._client.ended:
            return late
        encoded = self._client.encode(Fault(error))
        return self._client.hold_head(encoded if self._forwarder is None else self._forwarder.numbered(encoded))

    @property
    def is_document(self) -> bool:
        """Whether the upstream sends one JSON document instead of a stream."""
        return self._document is not None

    @property
    def settled(self) -> bool:
        """Whether the upstream has sent its stop reason. Usage and an end marker may follow, or nothing."""
        return self._document is None and self._decoder.settled

    def keepalive(self) -> bytes:
        """Return the bytes that keep the connection alive; the client ignores them."""
        return self._client.encoder.keepalive()

    def _begin(self, data: bytes) -> None:
        head = data.removeprefix(BYTE_ORDER_MARK).lstrip()
        self._begun = bool(head)
        if head.startswith(b"[") and self._exchange.upstream.stream.framing.can_be_array:
            # The decoder reads the array, and the client gets events.
            self._forwarder = None
        elif head.startswith((b"{", b"[", b"null")) and not self._exchange.upstream.stream.framing.is_bare:
            self._document, self._at_start = bytearray(), False
            self._forwarder = None

    def _events_of_document(self, document: bytes) -> Iterable[Event]:
        """Decode a whole document that came instead of a stream."""
        try:
            return unfold(self._exchange.decode_document(document))
        except UpstreamError as error:
            return (Fault(error.error),)
        except DecodeError as error:
            # Gemini's frames may also be concatenated without any framing; its decoder handles that.
            events = [*self._decoder.feed(document), *self._decoder.close()]
            last = events[-1] if events else None
            if isinstance(last, Fault) and last.error.code == TRUNCATED:
                events[-1] = Fault(truncated(str(error)))
            return events

    def _decode(self, data: bytes) -> list[Event]:
        try:
            return self._decoder.feed(data)
        except RecursionError:
            return [Fault(unreadable(DecodeError("$", json.TOO_DEEP)))]

    def _translate(self, events: Iterable[Event]) -> bytes:
        feed, encode = self._chain.feed, self._client.encode
        written = [data for event in events for out in feed(event) if (data := encode(out))]
        return self._client.hold_head(written[0] if len(written) == 1 else b"".join(written))  # one is not copied

    def _forward(self, forwarder: Forwarder, frames: Iterable[bytes]) -> bytes:
        """Forward frames up to the one that ends the stream, normally or with an error."""
        written: list[bytes] = []
        note_forwarded = self._exchange.client.stream.note_forwarded
        for frame in frames:
            if self._texts is not None and self._is_more_text(self._texts, frame):
                written.append(forwarder.release(frame))
                continue
            written.append(self._catch_up())
            if self._client.fault is not None:
                break
            events = self._decode(frame)
            self._learn_forwarded(frame, events)
            if note_forwarded is not None:
                note_forwarded(self._client.encoder, frame)
            if not events or (len(events) == 1 and type(events[0]) is Delta):
                self._client.add_forwarded(events)
                written.append(forwarder.release(frame))
                continue
            written.append(self._forward_frame(forwarder, frame, events))
            if self._client.ended:
                break
        return self._client.hold_head(written[0] if len(written) == 1 else b"".join(written))

    def _is_more_text(self, texts: TextFrames, frame: bytes) -> bool:
        """Return whether this frame only adds text. Its text is then decoded later, together with that of the next
        frames."""
        body = texts.template.body_of(frame, 0, len(frame)) if texts.template is not None else b""
        if not body or len(self._unread) > MOST_UNREAD or not decode_body(body):
            return False
        self._unread += body
        return True

    def _learn_forwarded(self, frame: bytes, events: Sequence[Event]) -> None:
        """Track the open text of a forwarded stream, and learn the template of its frames."""
        if self._texts is None:
            return
        for event in events:
            if type(event) is not Delta:
                self._texts.template = None
                self._chain.track_forwarded(event)
            elif len(events) == 1 and event.index == self._chain.plain:
                self._texts.learn(frame, event.text)

    def _forward_frame(self, forwarder: Forwarder, frame: bytes, events: Iterable[Event]) -> bytes:
        """Forward a frame, or replace it with toolglot's own error if the stream is truncated or invalid."""
        calls = False
        for event in events:
            if isinstance(event, Open) and is_nameless(event.block):
                event = Fault(malformed_call(NAMELESS))
            self._client.notice(event)
            self._client.add_forwarded((event,))
            if isinstance(event, Start):
                # A frame that toolglot adds must have the id of the response and the client's name of the model.
                for labelled in self._chain.label(event):
                    self._client.encoder.feed(labelled)
            elif isinstance(event, Open):
                calls = calls or isinstance(event.block, ToolCall)
                self._called = self._called or calls
            elif isinstance(event, Finish):
                self._note_odd_end(NO_STOP)
                return forwarder.release(forwarder.last(frame, event, self._client.encoder, self._called), ends=True)
            elif isinstance(event, Fault) and self._client.cuts_at(event):
                return b""
            elif isinstance(event, Fault) and forwarder.lacks(event.error, frame):
                return forwarder.numbered(self._client.encoder.feed(Fault(self._exchange.hide(event.error))))
        return forwarder.release(frame, calls=calls)


def _too_large() -> ApiError:
    message = f"The upstream's answer has more than {json.MAX_DOCUMENT_BYTES} bytes"
    return ApiError(kind="server", status=502, code="upstream_too_large", message=message)
