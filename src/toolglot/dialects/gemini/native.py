"""The key in `native` for members that only Gemini understands."""

NAME = "gemini"

SIGNED_APART = "$signed_apart"
"""A note on a text: its signature was on an empty part after it."""

# fmt: off
SIDE_MEMBERS = frozenset(
    {
        "responseId", "modelVersion", "createTime", "usageMetadata", "id", "index", "finishMessage", "safetyRatings",
        "citationMetadata", "groundingMetadata", "urlContextMetadata", "logprobsResult", "avgLogprobs", "tokenCount",
        "promptFeedback", "role", "thoughtSignature", "partMetadata",
    }
)
# fmt: on
"""Members that are not essential to an answer. A member of a wrong type is omitted and reported."""
