"""Plain requests, read with what is known of the ones before: where the bytes around the messages have come before,
nothing but the messages is read."""

from __future__ import annotations

from toolglot.direct.plain import Direct, PlainRequest
from toolglot.wire.known_settings import KnownSettings


class Reader:
    """Reads the requests of one dialect's clients."""

    def __init__(self, direct: Direct | None) -> None:
        self._read = None if direct is None else direct.read_request
        self._read_messages = None if direct is None else direct.read_messages
        self.known = KnownSettings[PlainRequest]("messages")

    def read(self, data: bytes) -> PlainRequest | None:
        """The request, if it is plain."""
        if self._read is None or self._read_messages is None:
            return None
        if (found := self.known.find(data)) is not None:
            plain = self._read_messages(found[1], found[0])
            if plain is not None:
                return plain
        plain = self._read(data)
        if plain is not None:
            self._keep(data, plain)
        return plain

    def _keep(self, data: bytes, plain: PlainRequest) -> None:
        def without_messages() -> PlainRequest:
            settings = tuple([setting.copy() for setting in plain.settings])
            return PlainRequest(plain.model, plain.stream, settings, [], plain.system)

        self.known.keep(data, without_messages)
