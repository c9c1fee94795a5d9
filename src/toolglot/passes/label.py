"""What an answer is called: its id, its times, its model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from toolglot.events import Event, Finish, Start
from toolglot.ir import replace


def _no_id(start: Start) -> str:
    return ""


class Labeller:
    """Puts the caller's times and id on an answer whose upstream does not tell them (the core itself has no clock and
    no randomness), and the client's name of the model where the upstream has another or none. `derive_id` makes an id
    where neither of them tells one.
    """

    __slots__ = ("_alias", "_clock", "_created", "_derive_id", "_id", "_model")

    def __init__(
        self,
        created: int | None,
        alias: str | None = None,
        model: str = "",
        answer_id: str = "",
        clock: Callable[[], float | None] | None = None,
        derive_id: Callable[[Start], str] = _no_id,
    ) -> None:
        self._created = created
        self._clock = clock
        self._alias = alias
        self._model = model
        self._id = answer_id
        self._derive_id = derive_id

    def feed(self, event: Event) -> Sequence[Event]:
        if isinstance(event, Finish) and self._clock is not None:
            now = self._clock()
            return (event if now is None else replace(event, completed=int(now)),)
        if not isinstance(event, Start):
            return (event,)
        created = self._created if event.created is None else event.created
        model = self._alias or event.model or self._model
        return (replace(event, created=created, model=model, id=event.id or self._id or self._derive_id(event)),)
