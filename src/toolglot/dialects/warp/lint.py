"""Streams of Warp: their events are protobuf in base64, so the common rules but one are all that is checked."""

from __future__ import annotations

from toolglot.lint.report import LintRules

LINT = LintRules(is_json=False)
