"""The name under which a node keeps what only Chat Completions understands."""

NAME = "openai_chat"

# fmt: off
SIDE_MEMBERS = frozenset(
    {
        "id", "model", "object", "created", "usage", "service_tier", "system_fingerprint", "obfuscation", "x_groq",
        "provider", "logprobs", "annotations", "reasoning", "reasoning_content", "custom", "index", "role", "type",
        "audio", "native_finish_reason",
    }
)
# fmt: on
"""Members without which an answer is still the same answer. One of a wrong type is left out, and reported."""
