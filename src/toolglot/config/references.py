"""References to values elsewhere: `${NAME}`, `${NAME:-default}` and, for secrets, `file:PATH`.

`${env:NAME}`, as editors write it, is `${NAME}`; `$${` is a literal `${`. An unset name is an error, not an empty
value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from toolglot.config.problems import did_you_mean

MAX_SECRET_BYTES = 64 * 1024
_REFERENCE = re.compile(r"\$\$\{|\$\{(?:(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})?")
_FILE = "file:"


class MissingReferenceError(Exception):
    """An unresolved reference. Its message names the missing reference and never contains a value."""

    def __init__(self, message: str, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.suggestion = suggestion


def has_reference(text: str) -> bool:
    return "${" in text


def expand_references(text: str, environ: Mapping[str, str]) -> str:
    """Replace references to environment variables by their values.

    Raises:
        MissingReferenceError: a variable is not set, or the reference is not closed.
    """

    def replaced(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        name, default = match[1], match[2]
        if name is None:
            raise MissingReferenceError(
                "incomplete reference: `${` needs a name and `}`", "write `$${` for a plain `${`"
            )
        value = environ.get(name)
        if default is not None:
            return value or default
        if value is None:
            suggestion = did_you_mean(name, environ) or f"set it, or add a default: `${{{name}:-default}}`"
            raise MissingReferenceError(f"the environment variable {name} is not set", suggestion)
        return value

    return _REFERENCE.sub(replaced, text)


def read_secret(text: str, folder: Path) -> str:
    """Return a secret, read from a file if it names one (relative to the configuration's folder). Raises:
    MissingReferenceError: the file cannot be read or is empty.
    """
    if not text.startswith(_FILE):
        return text
    path = folder / Path(text.removeprefix(_FILE)).expanduser()
    try:
        with path.open("rb") as source:
            data = source.read(MAX_SECRET_BYTES + 1)
        found = data.decode().strip()
    except OSError as error:
        raise MissingReferenceError(f"{path}: {(error.strerror or 'it cannot be read').lower()}") from None
    except ValueError:
        raise MissingReferenceError(f"{path}: not UTF-8 text") from None
    if not found or len(data) > MAX_SECRET_BYTES:
        raise MissingReferenceError(f"{path}: {'too large' if found else 'empty'}")
    return found
