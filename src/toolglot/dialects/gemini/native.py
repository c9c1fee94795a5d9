"""The key in `native` for members that only Gemini understands."""

NAME = "gemini"

SIGNED_APART = "$signed_apart"
"""A note on a text: its signature came on an empty part behind it."""
