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
"""Members without which an answer is still the same answer. One of a wrong type is left out, and reported."""
