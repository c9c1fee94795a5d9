"""The name under which a node keeps what only the Responses API understands."""

NAME = "openai_responses"
