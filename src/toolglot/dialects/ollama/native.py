"""The key in `native` for members that only Ollama understands."""

NAME = "ollama"
