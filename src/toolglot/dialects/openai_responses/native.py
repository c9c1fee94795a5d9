"""The key in `native` for members that only the Responses API understands."""

NAME = "openai_responses"

# fmt: off
SIDE_MEMBERS = frozenset(
    {
        "id", "model", "object", "created_at", "completed_at", "usage", "service_tier", "metadata", "annotations",
        "logprobs", "phase", "encrypted_content", "sequence_number", "item_id", "obfuscation", "role", "namespace",
        "tools", "tool_choice", "reasoning", "previous_response_id",
    }
)
# fmt: on
"""Members that are not essential to an answer. A member of a wrong type is omitted and reported."""
