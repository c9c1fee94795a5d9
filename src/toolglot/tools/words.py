"""Words about tools that nobody has said, for whoever puts them into a conversation."""

from __future__ import annotations

ANALYSE = "Please analyze the tool results above and provide your response."
"""Said by the user where results are the last that was said."""
