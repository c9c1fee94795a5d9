"""Texts about tools that the gateway itself inserts into a conversation."""

from __future__ import annotations

ANALYZE_RESULTS = "Please analyze the tool results above and provide your response."
"""Sent as the user if results would be the last message."""
