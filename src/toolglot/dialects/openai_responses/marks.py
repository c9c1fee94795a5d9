"""The members by which documents of the Responses API are recognized."""

from __future__ import annotations

from toolglot.marks import Marks

MARKS = Marks(
    request=frozenset({"input", "instructions", "previous_response_id", "tools[].parameters"}),
    response=frozenset({"object=response", "output"}),
    tools=frozenset({"[].parameters", "tools[].parameters"}),
    messages=frozenset({"[].call_id", "[].content[].type=input_text", "[].type=message", "input"}),
    result=frozenset({"[].type=function_call_output", "input[].call_id", "type=function_call_output"}),
    error=frozenset({"error.param"}),
    stream=frozenset({"response.object=response", "sequence_number"}),
    message=frozenset(
        {
            "call_id",
            "content[].type=input_file",
            "content[].type=input_image",
            "content[].type=input_text",
            "content[].type=output_text",
            "encrypted_content",
            "instructions",
            "type=custom_tool_call",
            "type=function_call",
            "type=function_call_output",
            "type=item_reference",
            "type=message",
            "type=reasoning",
        }
    ),
    body=frozenset(
        {"include", "input", "instructions", "max_output_tokens", "previous_response_id", "store", "tools[].parameters"}
    ),
)
