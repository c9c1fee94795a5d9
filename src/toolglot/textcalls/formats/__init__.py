"""The table of formats. To add one, add a record here and cases for it in the tests."""

from __future__ import annotations

from msgspec.structs import replace

from toolglot.errors import MisuseError
from toolglot.nearest import nearest
from toolglot.textcalls.formats.enveloped import BARE_LIST, BARE_OBJECT, ENVELOPED, FENCED
from toolglot.textcalls.formats.named import LITERAL, NAMED, PYTHON_LIST
from toolglot.textcalls.formats.tagged import TAGGED
from toolglot.textcalls.grammar import Format
from toolglot.textcalls.marks import looks_like_tag

ALL = (*ENVELOPED, *NAMED, *TAGGED, *LITERAL)
FORMATS: dict[str, Format] = {text_format.name: text_format for text_format in ALL}
"""Every format by its name."""
ALIASES: dict[str, str] = {alias: text_format.name for text_format in ALL for alias in text_format.aliases}
WHOLE_ANSWER = tuple(replace(call, whole=True) for call in (BARE_OBJECT, BARE_LIST, FENCED, PYTHON_LIST))
"""Formats without the marks that the prompt asks for: they count only at the beginning of the answer."""
AUTO = "auto"
"""The name of the parser that reads every format."""


def _union(formats: tuple[Format, ...]) -> Format:
    """Combine formats; the first that matches a mark wins."""
    return Format(
        name=AUTO,
        title="whatever the model writes",
        calls=tuple(dict.fromkeys(call for text_format in formats for call in text_format.calls)),
        sections=tuple(dict.fromkeys(section for text_format in formats for section in text_format.sections)),
        # Ordinary text, or a tag of any markup, has a meaning only to the models that were trained on it.
        thinking=tuple(
            dict.fromkeys(pair for text_format in formats for pair in text_format.thinking if not pair[0][:1].isalnum())
        ),
        dropped=tuple(
            dict.fromkeys(mark for text_format in formats for mark in text_format.dropped if not looks_like_tag(mark))
        ),
        messages=FORMATS["harmony"].messages,
    )


# Harmony's messages are read with its first call, so it comes first. Functionary 3.2 and olmo3 have openers that are
# ordinary text, or another format's section.
READ_BY_AUTO = (
    FORMATS["harmony"],
    *(
        text_format
        for text_format in ALL
        if text_format.name not in ("harmony", "functionary_v32", "muse_glimmer", "olmo3")
    ),
)
AUTO_FORMAT = _union(READ_BY_AUTO)


def find_format(name: str) -> Format:
    """Return the format of this name or alias; `auto` reads all formats.

    Raises:
        MisuseError: there is no such format.
    """
    if name == AUTO:
        return AUTO_FORMAT
    found = FORMATS.get(ALIASES.get(name, name))
    if found is None:
        near = nearest(name, [*FORMATS, *ALIASES])
        hint = f"; did you mean {near!r}?" if near else f"; there are {', '.join([AUTO, *FORMATS])}"
        raise MisuseError(f"there is no text format {name!r}{hint}")
    return found
