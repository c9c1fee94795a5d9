"""Native notes on content, tools and choices in the form of another API. Clients of several APIs mix them up, and so
does Cursor. The notes allow writing a document back unchanged. For an upstream, `passes/foreign_forms.py` removes them.
"""

from __future__ import annotations

CALL, RESULT, SOURCE = "$tool_use", "$tool_result", "$source"
"""Content parts of the Messages API."""
INPUT_SCHEMA = "$input_schema"
"""A tool of the Messages API."""
FLAT_TOOL = "$flat"
"""A tool of the Responses API."""
OTHER_CHOICE = "$other_choice"
"""A tool choice of either API."""

OTHER_FORMS = frozenset({CALL, RESULT, SOURCE, INPUT_SCHEMA, FLAT_TOOL, OTHER_CHOICE})
