"""The name under which this dialect keeps what only it understands."""

NAME = "ollama"
