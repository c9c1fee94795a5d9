"""Formats whose calls are JSON between special marks."""

from __future__ import annotations

from toolglot.textcalls.prompts.records import Calls, Prompt, Results, ToolListing

CHATML = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
LLAMA = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>", "<|python_tag|>")
MISTRAL = (
    "[INST]",
    "[/INST]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "</s>",
)
GRANITE = ("<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>")
COHERE = ("<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>")
PHI = ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "<|tool|>", "<|/tool|>")

_ENVELOPE = '{"name": $json_name, "arguments": $arguments}'
_TOOL_TAGS = ("<tools>", "</tools>")


def _tagged_result(tag: str, attribute: str = "") -> Results:
    """Return a result between two tags, each on its own line."""
    return Results(
        result=f"<{tag}{attribute}>\n$text\n</{tag}>",
        marks=(f"<{tag}>", f"<{tag} ", f"</{tag}>"),
    )


def _array(before: str, after: str = "", item: str = _ENVELOPE, between: str = ", ") -> Calls:
    """Return all calls of an answer in one array."""
    return Calls(before=f"{before}[", call=item, between=between, after=f"]{after}")


PLAIN_RESULT = Results(
    result='<tool_result name="$name">\n$text\n</tool_result>',
    error='<tool_error name="$name">\n$text\n</tool_error>',
    marks=("<tool_result ", "</tool_result>", "<tool_error ", "</tool_error>"),
)
"""For formats without special marks for results."""

_PROMPTS = (
    Prompt(
        name="deepchat",
        tools=ToolListing(style="xml_attributes", before="<tool_list>\n", after="\n</tool_list>"),
        calls=Calls(call=f'<function_call>\n{{"function_call": {_ENVELOPE}}}\n</function_call>'),
        results=_tagged_result("function_response", ' name="$name"'),
        stops=("\n<function_response",),
    ),
    Prompt(
        name="hermes_json",
        tools=ToolListing(style="openai_lines", before="<tools>\n", after="\n</tools>"),
        calls=Calls(call=f"<tool_call>\n{_ENVELOPE}\n</tool_call>"),
        results=_tagged_result("tool_response"),
        stops=("\n<tool_response>",),
        tokens=(*_TOOL_TAGS, *CHATML),
    ),
    Prompt(
        name="longcat",
        tools=ToolListing(style="openai_lines", before="<longcat_tools>\n", after="\n</longcat_tools>"),
        calls=Calls(call=f"<longcat_tool_call>\n{_ENVELOPE}\n</longcat_tool_call>"),
        results=_tagged_result("longcat_tool_response"),
        stops=("\n<longcat_tool_response>",),
        tokens=("<longcat_tools>", "</longcat_tools>"),
    ),
    Prompt(
        name="ernie45",
        tools=ToolListing(style="openai_lines", before="<tool_list>\n", after="\n</tool_list>"),
        calls=Calls(call=f"<tool_call>\n{_ENVELOPE}\n</tool_call>"),
        results=_tagged_result("tool_output"),
        stops=("\n<tool_output>",),
        tokens=("<tool_list>", "</tool_list>", *CHATML),
    ),
    Prompt(
        name="inkling",
        tools=ToolListing(style="flat_lines"),
        calls=Calls(call='<|content_invoke_tool_json|>{"name": $json_name, "args": $arguments}<|end_message|>'),
        results=PLAIN_RESULT,
        tokens=("<|end_message|>",),
    ),
    Prompt(
        name="markdown_json",
        tools=ToolListing(style="flat_lines", before="```\n", after="\n```"),
        calls=Calls(call=f"```json\n{_ENVELOPE}\n```"),
        results=PLAIN_RESULT,
        hint="Use such a block for nothing but a call.",
    ),
    Prompt(
        name="llama3_json",
        tools=ToolListing(style="openai_lines"),
        calls=Calls(call='{"name": $json_name, "parameters": $arguments}', between="; "),
        results=PLAIN_RESULT,
        hint="Write nothing before or after the object.",
        several=False,
        tokens=LLAMA,
    ),
    Prompt(
        name="generic_json",
        tools=ToolListing(style="flat_lines"),
        calls=Calls(call=_ENVELOPE),
        results=PLAIN_RESULT,
        hint="Write nothing before or after the object.",
    ),
    Prompt(
        name="mistral",
        tools=ToolListing(style="openai_array", before="[AVAILABLE_TOOLS]", after="[/AVAILABLE_TOOLS]"),
        calls=Calls(
            before="[TOOL_CALLS][",
            call='{"name": $json_name, "arguments": $arguments, "id": $json_id}',
            between=", ",
            after="]",
            ids="short",
        ),
        results=Results(
            result='[TOOL_RESULTS]{"content": $json_text, "call_id": $json_id}[/TOOL_RESULTS]',
            between="",
            marks=("[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
        ),
        hint="The id is nine letters and digits that you make up.",
        tokens=MISTRAL,
    ),
    Prompt(
        name="mistral_args",
        tools=ToolListing(style="openai_array", before="[AVAILABLE_TOOLS]", after="[/AVAILABLE_TOOLS]"),
        calls=Calls(call="[TOOL_CALLS]$name[CALL_ID]$id[ARGS]$arguments", between="", ids="short"),
        results=Results(
            result="[TOOL_RESULTS]$id[TOOL_CONTENT]$text[/TOOL_RESULTS]",
            between="",
            marks=("[TOOL_RESULTS]", "[TOOL_CONTENT]", "[/TOOL_RESULTS]"),
        ),
        hint="The id is nine letters and digits that you make up.",
        tokens=(*MISTRAL, "[CALL_ID]", "[ARGS]"),
    ),
    Prompt(
        name="granite3",
        tools=ToolListing(style="flat_array"),
        calls=_array("<|tool_call|>"),
        results=PLAIN_RESULT,
        tokens=GRANITE,
    ),
    Prompt(
        name="granite_20b_fc",
        tools=ToolListing(style="flat_array"),
        calls=Calls(call=f"<function_call> {_ENVELOPE}", between=" "),
        results=_tagged_result("function_response"),
        tokens=GRANITE,
    ),
    Prompt(
        name="xlam",
        tools=ToolListing(style="flat_array"),
        calls=_array(""),
        results=PLAIN_RESULT,
        hint="Write nothing before or after the array.",
    ),
    Prompt(
        name="phi4_functools",
        tools=ToolListing(style="flat_array", before="<|tool|>", after="<|/tool|>"),
        calls=_array("functools"),
        results=PLAIN_RESULT,
        tokens=PHI,
    ),
    Prompt(
        name="firefunction_v2",
        tools=ToolListing(style="flat_array"),
        calls=_array(" functools"),
        results=PLAIN_RESULT,
        tokens=LLAMA,
    ),
    Prompt(
        name="internlm2",
        tools=ToolListing(style="flat_array"),
        calls=Calls(
            call='<|action_start|><|plugin|>\n{"name": $json_name, "parameters": $arguments}<|action_end|>',
        ),
        results=PLAIN_RESULT,
        tokens=(*CHATML, "<|plugin|>", "<|interpreter|>", "<|action_start|>", "<|action_end|>"),
    ),
    Prompt(
        name="tool_calls_json_array",
        tools=ToolListing(style="flat_array", before="<available_tools>", after="</available_tools>"),
        calls=_array("<tool_calls>", "</tool_calls>"),
        results=_tagged_result("tool_response"),
        stops=("\n<tool_response>",),
    ),
    Prompt(
        name="nemotron_toolcall",
        tools=ToolListing(style="flat_array", before="<AVAILABLE_TOOLS>", after="</AVAILABLE_TOOLS>"),
        calls=_array("<TOOLCALL>", "</TOOLCALL>"),
        results=Results(
            result="$json_text",
            before="<TOOL_RESPONSE>[",
            between=", ",
            after="]</TOOL_RESPONSE>",
            marks=("<TOOL_RESPONSE>", "</TOOL_RESPONSE>"),
        ),
        stops=("\n<TOOL_RESPONSE>",),
        tokens=("<AVAILABLE_TOOLS>", "</AVAILABLE_TOOLS>", "<SPECIAL_10>", "<SPECIAL_11>", "<SPECIAL_12>"),
    ),
    Prompt(
        name="gigachat3",
        tools=ToolListing(style="flat_array"),
        calls=Calls(call=f"<|message_sep|>\n\nfunction call<|role_sep|>\n{_ENVELOPE}", between=""),
        results=Results(
            result="function result<|role_sep|>\n$text<|message_sep|>",
            marks=("function result<|role_sep|>", "<|role_sep|>", "<|message_sep|>"),
        ),
        tokens=("<|role_sep|>", "<|message_sep|>", "<|function_call|>"),
    ),
    Prompt(
        name="functionary_v31",
        tools=ToolListing(style="sentences"),
        calls=Calls(call="<function=$name>$arguments</function>"),
        results=PLAIN_RESULT,
        tokens=LLAMA,
    ),
    Prompt(
        name="functionary_v32",
        tools=ToolListing(style="typescript"),
        calls=Calls(call=">>>$name\n$arguments", between="\n"),
        results=PLAIN_RESULT,
        tokens=LLAMA,
    ),
    Prompt(
        name="cherry_tool_use",
        tools=ToolListing(style="xml_elements", before="<tools>\n", after="\n</tools>"),
        calls=Calls(
            call="<tool_use>\n  <name>$name</name>\n  <arguments>$arguments</arguments>\n</tool_use>",
            between="\n\n",
        ),
        results=Results(
            result="<tool_use_result>\n  <name>$name</name>\n  <result>$json_text</result>\n</tool_use_result>",
            error="<tool_use_result>\n  <name>$name</name>\n  <error>$json_text</error>\n</tool_use_result>",
            marks=("<tool_use_result>", "</tool_use_result>"),
        ),
        stops=("\n<tool_use_result>",),
        tokens=_TOOL_TAGS,
    ),
    Prompt(
        name="apertus",
        tools=ToolListing(style="typescript"),
        calls=Calls(
            before="<|tools_prefix|>[",
            call="{$json_name: $arguments}",
            between=", ",
            after="]<|tools_suffix|>",
        ),
        results=Results(result="$json_text", before="[", between=", ", after="]"),
        tokens=("<|assistant_start|>", "<|assistant_end|>", "<|user_start|>", "<|user_end|>", "<|inner_prefix|>"),
    ),
)

_COHERE_CALLS = Calls(
    before="<|START_ACTION|>[\n    ",
    call='{"tool_call_id": $json_id, "tool_name": $json_name, "parameters": $arguments}',
    between=",\n    ",
    after="\n]<|END_ACTION|>",
    ids="counted",
)
_COHERE_RESULTS = Results(
    before="<|START_TOOL_RESULT|>[\n    ",
    result='{"tool_call_id": $json_id, "results": {"0": $json_text}, "is_error": null}',
    error='{"tool_call_id": $json_id, "results": {"0": $json_text}, "is_error": true}',
    between=",\n    ",
    after="\n]<|END_TOOL_RESULT|>",
    marks=("<|START_TOOL_RESULT|>", "<|END_TOOL_RESULT|>"),
)

_COHERE = (
    *(
        Prompt(
            name=name,
            tools=ToolListing(style="flat_array", before="```json\n", after="\n```"),
            calls=_COHERE_CALLS,
            results=_COHERE_RESULTS,
            hint="Number your calls on from the last one, beginning with 0.",
            tokens=COHERE,
        )
        for name in ("cohere_command3", "cohere_command4")
    ),
    Prompt(
        name="cohere_command_r_plus",
        tools=ToolListing(style="flat_array", before="```json\n", after="\n```"),
        calls=_array("Action:\n```json\n", "\n```", '{"tool_name": $json_name, "parameters": $arguments}'),
        results=Results(
            before="<results>\n",
            result="Document: $index\n$text",
            between="\n\n",
            after="\n</results>",
            marks=("<results>", "</results>", "Document: "),
        ),
        stops=("\n<results>",),
        tokens=COHERE,
    ),
)

JSON_PROMPTS: dict[str, Prompt] = {prompt.name: prompt for prompt in (*_PROMPTS, *_COHERE)}
