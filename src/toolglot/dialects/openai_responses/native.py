"""The name under which a node keeps what only the Responses API understands."""

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
"""Members without which an answer is still the same answer. One of a wrong type is left out, and reported."""
