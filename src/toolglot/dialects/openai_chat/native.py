"""The key in `native` for members that only Chat Completions understands."""

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
"""Members that are not essential to an answer. A member of a wrong type is omitted and reported."""
