"""Beginnings of secrets, where whoever wrote a text has cut them off: `sk-abcdef…`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

SHORTEST_PART = 6
"""Characters of a secret that was cut off."""


class Beginnings:
    """Looks at each character of a text once, however many secrets and marks there are.

    From a mark backwards as long as every six characters stand in some secret, up to six with which one begins. That is
    a little too much where several secrets have parts in common, and never too little.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._first: set[str] = set()
        self._parts: set[str] = set()
        for secret in secrets:
            ends = range(SHORTEST_PART, len(secret))
            self._parts.update(secret[end - SHORTEST_PART : end] for end in ends)
            if ends:
                self._first.add(secret[:SHORTEST_PART])

    def before(self, text: str, mark: str) -> Iterator[tuple[int, int]]:
        """Where they begin and end, before each mark."""
        end = text.find(mark)
        last, last_begins = -1, -1
        while end >= 0:
            place, begins = end - SHORTEST_PART, -1
            while place >= 0 and text[place : place + SHORTEST_PART] in self._parts:
                if text[place : place + SHORTEST_PART] in self._first:
                    begins = place
                if place == last:  # from here on it was looked at for the mark before, which stands in a secret
                    begins = last_begins if last_begins >= 0 else begins
                    break
                place -= 1
            if begins >= 0:
                yield begins, end
            last, last_begins = end - SHORTEST_PART, begins
            end = text.find(mark, end + 1)
