"""The name under which a node keeps what only Gemini understands."""

NAME = "gemini"
