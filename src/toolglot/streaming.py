"""Translate a stream from the upstream to the client: bytes in, bytes out.

`StreamTranslation` chooses one of three modes:

- Translate: decode to events, run the event passes, encode.
- Forward: both sides speak the same dialect and nothing has to change. Frames pass unchanged, and a decoder reads along
  to detect usage, errors, the end, and truncation.
- Document: the upstream sent one JSON document (an error or a response) instead of a stream. It is decoded at the end,
  and then streamed to the client.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from toolglot.errors import (
    ENDED_EARLY,
    NAMELESS,
    NO_STOP,
    TRUNCATED,
    ApiError,
    DecodeError,
    LossError,
    UpstreamError,
    malformed_call,
    note_early_end,
    unreadable,
)
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start, unfold
from toolglot.forwarding import Forwarder
from toolglot.ir import Stop, Text, ToolCall, Usage
from toolglot.missing_usage import characters_at_start, finish_with_usage
from toolglot.passes.carry import Carrier
from toolglot.passes.details import DetailsCarrier
from toolglot.passes.event_passes import goes_unchanged, is_collected, one_through, through
from toolglot.passes.foreign import Reporter
from toolglot.passes.label import Labeller
from toolglot.passes.settle import Settler, is_nameless
from toolglot.receipt import Receipt
from toolglot.text_frames import BLANKED, Around, TextFrames, around, is_alike, run_of, text_of
from toolglot.wire import json
from toolglot.wire.delta_template import DeltaTemplate
from toolglot.wire.sse import BYTE_ORDER_MARK, MAX_EVENT_BYTES

if TYPE_CHECKING:
    from toolglot.dialect import StreamEncoder
    from toolglot.textcalls.answer import TextAnswerPass
    from toolglot.textcalls.retry_prompt import RetryPrompt
    from toolglot.translate import Exchange


LONG = 1024
"""From this many bytes on, data likely contains many frames, not one."""
MOST_UNREAD = 2048
"""Most bytes of text that may be written before they are decoded."""
NOTHING = b"\n"
"""A byte that never occurs in a JSON string."""
RUNS = 2
"""Most searches per piece of data for a run of frames that can be written at once. Each search scans all remaining
data."""

UNMOVED = (Labeller, Reporter)
"""Passes that do not change deltas."""


class StreamTranslation:
    """Upstream bytes in, client bytes out; both may be split anywhere. `usage` is known once the stream has ended.

    `broken`: the upstream's connection failed, or its stream ended in the middle of an answer. `is_cut`: the caller
    must cut the client's connection to signal this: the client gets no error event, and its stream has no end.
    """

    # There may be thousands of concurrent streams, and a `__dict__` with this many attributes is large.
    __slots__ = (
        "_at_start",
        "_begun",
        "_beside",
        "_called",
        "_carrier",
        "_characters",
        "_cuts",
        "_decoder",
        "_delta_passes",
        "_document",
        "_encoder",
        "_exchange",
        "_forwarder",
        "_has_usage",
        "_head",
        "_held_back",
        "_holds_ends",
        "_is_collected",
        "_listener",
        "_number",
        "_passes",
        "_plain",
        "_plain_as",
        "_reader",
        "_short",
        "_template",
        "_text_as",
        "_texts",
        "_uncounted",
        "_unread",
        "_waits",
        "broken",
        "ended",
        "fault",
        "is_cut",
        "may_want_again",
        "stop",
        "usage",
    )

    def __init__(self, exchange: Exchange, encoder: StreamEncoder | None = None) -> None:
        self._exchange = exchange
        # Forwarded bytes lose nothing, whatever the decoder that reads along reports.
        self._beside = Receipt() if exchange.verbatim else None
        self._decoder = exchange.upstream.stream_decoder(exchange.receipt if self._beside is None else self._beside)
        self._encoder = encoder or exchange.client.stream_encoder(exchange.asked, exchange.receipt)
        self._reader = exchange.reader()
        self._passes = exchange.event_passes(self._reader)
        last = self._passes[-1]
        self._carrier = last if isinstance(last, (Carrier, DetailsCarrier)) else None
        self._uncounted = 0  # characters of the open text that bypassed the carrier
        self._delta_passes = [each for each in self._passes if not isinstance(each, UNMOVED)]
        self._forwarder = Forwarder(exchange) if exchange.verbatim else None
        self._listener = None if exchange.new_listener is None else exchange.new_listener()
        self._begun = False
        self._document: bytearray | None = None
        self._plain = -1  # the upstream's index of an open block whose deltas no pass changes, else -1
        self._plain_as = -1  # the client's index of the same block
        self._is_collected = False  # passes still need to see the deltas of that block
        self._text_as = -1, -1  # index of the open text as the reader and as the client know it
        self._called = False  # a forwarded stream contains a tool call
        shape = exchange.upstream.stream
        self._texts: TextFrames | None = None
        if shape.text_of_frame is not None and self._reader is None:
            self._texts = TextFrames(shape.framing, shape.text_of_frame, shape.changing_members)
        self._at_start = False  # the next byte begins a frame
        self._short: Around | None = None  # set while the next frame may be written without decoding it
        self._template = DeltaTemplate()  # the client's template for such a frame
        self._number = 0  # number of the client's next frame, if its frames are numbered
        self._holds_ends = any(isinstance(each, Settler) and each.holds_ends for each in self._passes)
        self._held_back = NOTHING  # bytes in a text that a pass may hold back
        self._unread = bytearray()
        self._characters = 0  # of the answer, to estimate usage if it is missing at the end
        self._has_usage = False  # the `Start` event had usage
        self._cuts = exchange.options.can_cut and exchange.client.stream.broken == "cut"
        self._waits = exchange.options.holds_head  # only the head of an answer has come so far
        self._head = b""
        self.may_want_again = self._reader is not None
        """`wants_again` may become true."""
        self.broken = self.is_cut = False
        self.usage: Usage | None = None
        self.stop: Stop | None = None
        self.fault: ApiError | None = None
        self.ended = False

    def feed(self, data: bytes) -> bytes:
        """Translate the next bytes of the upstream. Returns the client's bytes."""
        if self._short is not None:
            came, first, last, within, opens, middle, closes = self._short
            if data.startswith(first) and data.endswith(last):
                body = came.inside(data, len(first), len(data)) if within is None else data[within]
                is_short = len(body) < LONG and self._held_back not in body
                if is_short and (body.translate(BLANKED).isspace() or is_alike(body)):
                    self._unread += body
                    if middle is None:
                        written = b"".join((opens, body, closes)) if closes else b""
                    else:
                        written = b"%b%d%b%b%b" % (opens, self._number, middle, body, closes)
                        self._number += 1
                    return written if len(self._unread) < MOST_UNREAD else written + self._catch_up()
        if self._texts is not None and self._at_start and self._begun and not self.ended and self._forwarder is None:
            return self._read_frames(self._texts, data)  # not a document, and no reader of text calls
        if self.ended or self.wants_again is not None:
            return b""
        if not self._begun:
            self._begin(data)
        if self._document is not None:
            self._document += data
            return b"" if len(self._document) <= json.MAX_DOCUMENT_BYTES else self.fail(_too_large())
        if self._forwarder is None:
            return self._translate(self._decode(data)) if self._texts is None else self._read_frames(self._texts, data)
        written = self._forward(self._forwarder, self._forwarder.frames(data))
        if self._forwarder.overflows and not self.ended:
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
                bodies, start = run_of(self._short[0], data, start, end, self._held_back)
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
        """Translate a frame by the upstream's template, if its text has other escapes than the client's, or the client
        has no template yet. None if the frame must be decoded."""
        if texts.template is None or not self._at_start or self.ended:
            return None
        text = text_of(texts.template.body_of(frame, 0, len(frame)))
        body = json.encode(text)[1:-1]
        if not body or self._held_back in body:
            return None
        if self._short is not None:
            return self._write_run([body])
        self._unread += body
        if late := self._catch_up():
            return late
        written = self._encoder.feed(Delta(self._plain_as, text))
        self._take_template(texts)
        return written

    def _read_frame(self, texts: TextFrames, frame: bytes) -> bytes:
        late = self._catch_up()
        events = self._decode(frame)
        written = self._translate(events)
        was_at_start, self._at_start = self._at_start, True
        self._short = texts.template = None
        if was_at_start and self._plain >= 0 and not self.ended and events:
            self._learn(texts, frame, events[-1])
        return late + written if late else written

    def _learn(self, texts: TextFrames, frame: bytes, event: Event) -> None:
        """Learn the template of a frame that extended the open block: the next frame may look like it."""
        if type(event) is not Delta or event.index != self._plain:
            return
        if self._held_back is NOTHING or "}" not in event.text:
            texts.learn(frame, event.text)
            self._take_template(texts)

    def _take_template(self, texts: TextFrames) -> None:
        """Enable the fast path if both sides have a template."""
        template = self._encoder.text_around
        if texts.template is not None and template is not None:
            self._template, self._number = template, template.number
            self._short = around(texts.template, template)

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
            self._characters += len(event.text)
            if self._short is not None and self._template.on_written is not None:
                self._template.on_written(event.text, self._number)
            if self._forwarder is None and self._is_collected:
                passed = one_through(self._delta_passes, event)
            else:
                self._uncounted += len(event.text)
                passed = (event if self._forwarder is not None else Delta(self._plain_as, event.text),)
            if self._listener is not None:
                for out in passed:
                    self._listener(out)
        return b""

    def _end_late(self, events: Sequence[Event]) -> bytes:
        self._short = None
        if self._forwarder is None:
            return self._translate(events)
        return self._forward_frame(self._forwarder, b"", events)

    def close(self) -> bytes:
        """End the upstream's stream. Returns the client's remaining bytes."""
        late, self._short = self._catch_up(), None
        if self.ended or self.wants_again is not None:
            return late
        if self._document is not None:
            return self._translate(self._events_of_document(bytes(self._document).removeprefix(BYTE_ORDER_MARK)))
        if self._forwarder is None:
            return self._translate(self._last_events([]))
        rest, is_whole = self._forwarder.rest()
        # An incomplete frame is not forwarded. The decoder decides whether it matters.
        written = self._forward(self._forwarder, [rest]) if is_whole else b""
        incomplete = self._decode(rest) if not is_whole else []
        if not self.ended:
            written += self._forward_frame(self._forwarder, b"", self._last_events(incomplete))
        return self._hold_head(written)

    def _last_events(self, events: list[Event]) -> list[Event]:
        """Append the decoder's last events, and detect truncation."""
        events = [*events, *self._decoder.close()]
        self._note_odd_end(ENDED_EARLY)
        last = events[-1] if events else None
        self.broken = isinstance(last, Fault) and last.error.code == TRUNCATED
        return events

    def _note_odd_end(self, why: str) -> None:
        """Copy the decoder's note on an unusual end of a forwarded stream into the exchange's receipt."""
        if self._beside is not None:
            self._exchange.receipt.add(line for line in self._beside if line.why == why)

    @property
    def wants_again(self) -> RetryPrompt | None:
        """Set if the model wrote a call that cannot be run: it must be asked again before the client's stream
        continues."""
        return None if self._reader is None else self._reader.wants_again

    def again(self) -> bytes:
        """Create the request for the second answer. Feed its bytes next: they continue the first answer's stream."""
        if self._reader is None:
            raise ValueError("nothing has to be asked again")
        self._exchange.wants_again = self._reader.wants_again
        request = self._exchange.again()
        self._decoder = self._exchange.upstream.stream_decoder(self._exchange.receipt)
        self._begun, self._document = False, None
        self._plain, self._plain_as, self._text_as = -1, -1, (-1, -1)
        self._reader.begin_retry()
        return request

    def break_off(self, error: ApiError, *, broken: bool = True) -> bytes:
        """End the stream because no more bytes will come: with an error, unless the upstream already sent its stop
        reason. `broken`: the upstream failed (a reset, a timeout); otherwise the caller gave up."""
        if self.settled:
            written = self.close()
            if all(line.why != ENDED_EARLY for line in self._exchange.receipt):
                note_early_end(self._exchange.receipt, "sound end")
            return written
        self.broken = broken
        return self.fail(error)

    def fail(self, error: ApiError) -> bytes:
        """End the stream with an error that is not in the upstream's bytes."""
        late, self._short = self._catch_up(), None
        if self.ended:
            return late
        encoded = self._encode(Fault(error))
        return self._hold_head(encoded if self._forwarder is None else self._forwarder.numbered(encoded))

    @property
    def is_document(self) -> bool:
        """Whether the upstream sends one JSON document instead of a stream."""
        return self._document is not None

    @property
    def settled(self) -> bool:
        """Whether the upstream has sent its stop reason. Usage and an end marker may follow, or nothing."""
        return self._document is None and self._decoder.settled

    def keepalive(self) -> bytes:
        """Bytes that keep the connection alive; the client ignores them."""
        return self._encoder.keepalive()

    def _begin(self, data: bytes) -> None:
        head = data.removeprefix(BYTE_ORDER_MARK).lstrip()
        self._begun = bool(head)
        if head.startswith(b"[") and self._exchange.upstream.stream.framing.can_be_array:
            # The decoder reads the array, and the client gets events.
            self._forwarder = None
        elif head.startswith((b"{", b"[")) and not self._exchange.upstream.stream.framing.is_bare:
            self._document, self._at_start = bytearray(), False
            self._forwarder = None

    def _events_of_document(self, document: bytes) -> Iterable[Event]:
        """Decode a whole document that came instead of a stream."""
        try:
            return unfold(self._exchange.upstream.decode_response(document))
        except UpstreamError as error:
            return (Fault(error.error),)
        except DecodeError:
            # Gemini's frames may also be concatenated without any framing; its decoder handles that.
            return (*self._decoder.feed(document), *self._decoder.close())

    def _decode(self, data: bytes) -> list[Event]:
        try:
            return self._decoder.feed(data)
        except RecursionError:
            return [Fault(unreadable(DecodeError("$", json.TOO_DEEP)))]

    def _translate(self, events: Iterable[Event]) -> bytes:
        written: list[bytes] = []
        for event in events:
            if type(event) is Delta and event.index == self._plain and not self._is_collected:
                # Most of a stream is text, and passes change only the block index of text.
                moved = event if self._plain_as == event.index else Delta(self._plain_as, event.text, event.logprobs)
                self._uncounted += len(event.text)
                written.append(self._encode(moved))
                continue
            if self._reader is not None and type(event) is Delta:
                written += self._parse_text(self._reader, event)
                continue
            if isinstance(event, Fault):
                event = Fault(self._exchange.hide(event.error))
            self._count_text()
            passed = one_through(self._delta_passes if type(event) is Delta else self._passes, event)
            self._track_block(event, passed)
            written += [data for out in passed if (data := self._encode(out))]  # a single piece is not copied
        return self._hold_head(written[0] if len(written) == 1 else b"".join(written))

    def _hold_head(self, written: bytes) -> bytes:
        """Prepend the held-back head; return nothing while only the head has come."""
        if self._waits:
            self._head += written
            return b""
        if self._head:
            written, self._head = self._head + written, b""
        return written

    def _count_text(self) -> None:
        """Report text that bypassed the carrier to it: state may belong to one of several texts."""
        if self._carrier is not None and self._uncounted:
            self._carrier.add_length(self._uncounted)
        self._uncounted = 0

    def _parse_text(self, reader: TextAnswerPass, delta: Delta) -> list[bytes]:
        """Translate a delta whose text may contain calls, with a fast path for text that stays text."""
        found = reader.feed(delta)
        text, text_as = self._text_as
        if len(found) == 1 and text >= 0 and type(only := found[0]) is Delta and only.index == text:
            self._uncounted += len(only.text)
            return [self._encode(Delta(text_as, only.text))]
        self._count_text()
        passed = through(self._passes[2:], found)  # the passes after the labeller and the reader
        if passed and type(last := passed[-1]) is Delta and reader.text_index >= 0:
            self._text_as = reader.text_index, last.index
        else:
            self._text_as = -1, -1
        return [self._encode(out) for out in passed]

    def _track_block(self, event: Event, passed: Sequence[Event]) -> None:
        """Track whether the open block's deltas pass unchanged."""
        if type(event) is not Delta:
            last = passed[-1] if passed else None
            self._plain = self._plain_as = -1
            if type(event) is Open and type(last) is Open and goes_unchanged(event.block, last.block):
                self._plain, self._plain_as = event.index, last.index
                self._is_collected = is_collected(last.block)
                self._held_back = b"}" if self._holds_ends and type(last.block) is ToolCall else NOTHING

    def _encode(self, event: Event) -> bytes:
        if self.ended:
            return b""
        if self._listener is not None:
            self._listener(event)
        if self._waits and type(event) is not Start:
            self._waits = False
        if self.broken and self._cuts and _shows_break(event):
            self._cut(event)
            return b""
        if type(event) is Delta:
            self._characters += len(event.text)
            return self._encoder.feed(event)
        if type(event) is Open:
            self._characters += characters_at_start(event.block)
        elif type(event) is Start:
            self._has_usage = event.usage is not None
        needs_usage = type(event) is Finish and not self._has_usage
        encoded = self._encoder.feed(self._with_usage(event) if needs_usage else event)
        receipt = self._exchange.receipt
        if self._exchange.strict and receipt.losses and not isinstance(event, Fault):
            error = ApiError(kind="bad_request", code="would_lose", message=str(LossError(receipt)))
            event = Fault(self._exchange.hide(error))
            encoded = self._encoder.feed(event)
        self._notice(event)
        return encoded

    def _with_usage(self, finish: Event) -> Event:
        assert isinstance(finish, Finish)
        exchange = self._exchange
        return finish_with_usage(finish, self._characters, exchange.asked, exchange.client, exchange.receipt)

    def _forward(self, forwarder: Forwarder, frames: Iterable[bytes]) -> bytes:
        """Forward frames up to the one that ends the stream, normally or with an error."""
        written: list[bytes] = []
        note_forwarded = self._exchange.client.stream.note_forwarded
        for frame in frames:
            if self._texts is not None and self._is_more_text(self._texts, frame):
                written.append(forwarder.release(frame))
                continue
            written.append(self._catch_up())
            if self.fault is not None:
                break
            events = self._decode(frame)
            self._learn_forwarded(frame, events)
            if note_forwarded is not None:
                note_forwarded(self._encoder, frame)
            if not events or (len(events) == 1 and type(events[0]) is Delta):
                if events and self._listener is not None:
                    self._listener(events[0])
                written.append(forwarder.release(frame))
                continue
            written.append(self._forward_frame(forwarder, frame, events))
            if self.ended:
                break
        return self._hold_head(written[0] if len(written) == 1 else b"".join(written))

    def _is_more_text(self, texts: TextFrames, frame: bytes) -> bool:
        """Whether this frame only adds text. Its text is then decoded later, together with that of the next frames."""
        body = texts.template.body_of(frame, 0, len(frame)) if texts.template is not None else b""
        if not body or len(self._unread) > MOST_UNREAD or not text_of(body):
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
                self._plain = event.index if type(event) is Open and type(event.block) is Text else -1
            elif len(events) == 1 and event.index == self._plain:
                self._texts.learn(frame, event.text)

    def _forward_frame(self, forwarder: Forwarder, frame: bytes, events: Iterable[Event]) -> bytes:
        """Forward a frame, or replace it with toolglot's own error if the stream is truncated or invalid."""
        calls = False
        for event in events:
            if isinstance(event, Open) and is_nameless(event.block):
                event = Fault(malformed_call(NAMELESS))
            if self._waits and type(event) is not Start:
                self._waits = False
            self._notice(event)
            if self._listener is not None:
                self._listener(event)
            if isinstance(event, Start):
                # A frame that toolglot adds must have the id of the response and the client's name of the model.
                for labelled in self._passes[0].feed(event):
                    self._encoder.feed(labelled)
            elif isinstance(event, Open):
                calls = calls or isinstance(event.block, ToolCall)
                self._called = self._called or calls
            elif isinstance(event, Finish):
                self._note_odd_end(NO_STOP)
                return forwarder.release(forwarder.last(frame, event, self._encoder, self._called), ends=True)
            elif isinstance(event, Fault) and self.broken and self._cuts:
                self._cut(event)
                return b""
            elif isinstance(event, Fault) and forwarder.lacks(event.error, frame):
                return forwarder.numbered(self._encoder.feed(Fault(self._exchange.hide(event.error))))
        return forwarder.release(frame, calls=calls)

    def _cut(self, event: Event) -> None:
        self._notice(event)
        self.is_cut = self.ended

    def _notice(self, event: Event) -> None:
        if isinstance(event, Finish):
            self.usage, self.stop = event.usage, event.stop
            self.ended = True
        elif isinstance(event, Fault):
            self.fault = self._exchange.hide(event.error)
            self.ended = True


def _shows_break(event: Event) -> bool:
    """Whether the event is the error, or the end of a truncated call, which clients must not take for a complete
    one."""
    return isinstance(event, Fault) or (isinstance(event, Close) and not event.complete)


def _too_large() -> ApiError:
    message = f"The upstream's answer has more than {json.MAX_DOCUMENT_BYTES} bytes"
    return ApiError(kind="server", status=502, code="upstream_too_large", message=message)
