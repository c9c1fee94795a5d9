"""References to environment variables in an imported configuration. Credentials are never copied, only referenced."""

from __future__ import annotations

import re
from collections.abc import Mapping

from toolglot.config.importers.source import SourceNode
from toolglot.config.references import has_reference

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCES = re.compile(r"(?<!\$)\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_ONLY_REFERENCES = re.compile(r"(?:Bearer )?(?:(?<!\$)\$\{[A-Za-z_][A-Za-z0-9_]*\})+")

PLACEHOLDERS = frozenset(
    {"none", "null", "empty", "dummy", "fake", "anything", "not-needed", "no-key", "no-key-required"}
    | {"ollama", "vllm", "lm-studio", "llamacpp", "sk-xxx", "sk-no-key-required", "xxx", "-"}
)
"""Placeholder values for a key that the server does not require."""


def escape(text: str) -> str:
    """Escape `${` so that the text is literal."""
    return text.replace("${", "$${")


def referred_names(text: str) -> list[str]:
    return _REFERENCES.findall(text)


class CredentialNames:
    """Names of environment variables for credentials that the source has in plain text."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def refer(self, source: SourceNode, text: str, wanted: str) -> str:
        """Return the reference for a credential. Reports it unless the source already refers to an environment
        variable."""
        if _ONLY_REFERENCES.fullmatch(text) or text.lower() in PLACEHOLDERS:
            return text
        name = self._free_name(text, wanted)
        scheme = "Bearer " if text.startswith("Bearer ") else ""
        what = "the part after `Bearer`" if scheme else "it"
        source.note(f"credentials are not copied: set the environment variable {name} to {what}")
        return f"{scheme}${{{name}}}"

    def _free_name(self, text: str, wanted: str) -> str:
        stem = re.sub(r"[^A-Za-z0-9_]", "_", wanted).upper()
        stem = stem if NAME.fullmatch(stem) else f"KEY_{stem}"
        name, number = stem, 1
        while self._values.setdefault(name, text) != text:
            number += 1
            name = f"{stem}_{number}"
        return name


def stand_in_environment(values: Mapping[str, bool]) -> dict[str, str]:
    """Return placeholder values for unset variables, to check a file. `values` says which of them are in addresses."""
    return {name: "http://upstream.invalid" if in_address else "1" for name, in_address in values.items()}


def variables_of(text: str, field: str) -> dict[str, bool]:
    """Return the variables in a value, and whether an address begins with each."""
    if not has_reference(text):
        return {}
    return {name: field == "base_url" and text.startswith(f"${{{name}}}") for name in referred_names(text)}
