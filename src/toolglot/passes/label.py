"""Set the id, timestamps and model name of an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from toolglot.events import Event, Finish, Start
from toolglot.ir import Block, Response, replace


def _no_id(start: Start | Response, content: tuple[Block, ...]) -> str:
    return ""


class Labeller(Struct, eq=False):
    """Sets the caller's timestamps and id on an answer whose upstream has none: the core has no clock and no
    randomness. Also sets the client's name of the model if the upstream has another or none. `derive_id` makes an id if
    neither caller nor upstream has one; it includes the `content` of a non-streamed answer.
    """

    _created: int | None
    _alias: str | None = None
    _model: str = ""
    _id: str = ""
    _clock: Callable[[], float | None] | None = None
    _derive_id: Callable[[Start | Response, tuple[Block, ...]], str] = _no_id
    _content: tuple[Block, ...] = ()

    def feed(self, event: Event) -> Sequence[Event]:
        if isinstance(event, Finish) and self._clock is not None:
            return (replace(event, completed=self._completion_time(event.completed)),)
        if not isinstance(event, Start):
            return (event,)
        return (replace(event, created=self._created_at(event), model=self._model_of(event), id=self.id_of(event)),)

    def whole(self, response: Response, content: tuple[Block, ...], service_tier: str | None) -> Response:
        """Label a whole (non-streamed) answer, and set its content and service tier."""
        return Response(
            id=self.id_of(response),
            model=self._alias or response.model or self._model,
            content=content,
            stop=response.stop,
            usage=response.usage,
            created=self._created if response.created is None else response.created,
            completed=response.completed if self._clock is None else self._completion_time(response.completed),
            service_tier=service_tier,
            native=response.native,
        )

    def id_of(self, answer: Start | Response) -> str:
        return answer.id or self._id or self._derive_id(answer, self._content)

    def _model_of(self, answer: Start | Response) -> str:
        return self._alias or answer.model or self._model

    def _created_at(self, answer: Start | Response) -> int | None:
        return self._created if answer.created is None else answer.created

    def _completion_time(self, reported: int | None) -> int | None:
        now = None if self._clock is None else self._clock()
        return reported if now is None else int(now)
