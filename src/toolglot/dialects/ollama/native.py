"""The key in `native` for members that only Ollama understands."""

NAME = "ollama"

# fmt: off
SIDE_MEMBERS = frozenset(
    {
        "model", "created_at", "id", "index", "prompt_eval_count", "eval_count", "logprobs", "role", "remote_model",
        "remote_host", "tool_name",
    }
)
# fmt: on
"""Members that are not essential to an answer. A member of a wrong type is omitted and reported."""
