"""Find truncated secrets in a text: `sk-abcdef…`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

MIN_PREFIX = 6
"""Characters of a truncated secret."""


class SecretPrefixes:
    """Looks at each character of a text once, however many secrets and marks there are. It goes backwards from a mark
    as long as every six characters occur in some secret, up to six with which one begins. That is slightly too much if
    several secrets have parts in common, and never too little."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._first: set[str] = set()
        self._parts: set[str] = set()
        for secret in secrets:
            ends = range(MIN_PREFIX, len(secret))
            self._parts.update(secret[end - MIN_PREFIX : end] for end in ends)
            if ends:
                self._first.add(secret[:MIN_PREFIX])

    def before(self, text: str, mark: str) -> Iterator[tuple[int, int]]:
        """Yield where they begin and end, before each mark."""
        end = text.find(mark)
        last, last_begins = -1, -1
        while end >= 0:
            place, begins = end - MIN_PREFIX, -1
            while place >= 0 and text[place : place + MIN_PREFIX] in self._parts:
                if text[place : place + MIN_PREFIX] in self._first:
                    begins = place
                if place == last:  # the rest was searched for the previous mark, which is inside a secret
                    begins = last_begins if last_begins >= 0 else begins
                    break
                place -= 1
            if begins >= 0:
                yield begins, end
            last, last_begins = end - MIN_PREFIX, begins
            end = text.find(mark, end + 1)
