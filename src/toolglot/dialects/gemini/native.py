"""The key in `native` for members that only Gemini understands."""

NAME = "gemini"
