"""Lint rules for Warp streams: the common rules only, without those for JSON, since events are protobuf in base64."""

from __future__ import annotations

from toolglot.lint.report import LintRules

LINT = LintRules(is_json=False)
