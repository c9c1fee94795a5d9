"""The name under which a node keeps what only Chat Completions understands."""

NAME = "openai_chat"
