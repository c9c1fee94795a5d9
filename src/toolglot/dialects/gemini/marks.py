"""The members that identify documents of Gemini."""

from __future__ import annotations

from toolglot.marks import Marks

MARKS = Marks(
    request=frozenset(
        {
            "contents",
            "generationConfig",
            "generation_config",
            "systemInstruction",
            "system_instruction",
            "tools[].functionDeclarations",
            "tools[].function_declarations",
        }
    ),
    response=frozenset({"candidates", "promptFeedback", "usageMetadata"}),
    tools=frozenset(
        {
            "[].functionDeclarations",
            "[].function_declarations",
            "tools[].functionDeclarations",
            "tools[].function_declarations",
        }
    ),
    messages=frozenset({"[].parts", "contents"}),
    result=frozenset({"[].functionResponse", "[].parts", "contents", "functionResponse", "parts"}),
    error=frozenset({"error.status"}),
    stream=frozenset({"candidates", "usageMetadata"}),
    message=frozenset({"parts", "systemInstruction", "system_instruction"}),
    body=frozenset({"contents", "generationConfig", "generation_config", "systemInstruction", "system_instruction"}),
)
