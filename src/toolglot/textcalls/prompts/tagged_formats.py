"""Formats whose calls have one tag per parameter."""

from __future__ import annotations

from toolglot.textcalls.prompts.json_formats import CHATML
from toolglot.textcalls.prompts.records import Calls, Prompt, Results, ToolListing

_GLM_TOKENS = ("<|system|>", "<|user|>", "<|assistant|>", "<|observation|>", "<|endoftext|>", "<sop>", "[gMASK]")
_DEEPSEEK_TOKENS = (
    "<｜begin▁of▁sentence｜>",
    "<｜end▁of▁sentence｜>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<｜DSML｜",
    "</｜DSML｜",
)

_TOOL_RESPONSE = Results(
    result="<tool_response>\n$text\n</tool_response>", marks=("<tool_response>", "</tool_response>")
)
_FUNCTION_RESULTS = Results(
    before="<function_results>\n",
    result="<result>\n<tool_name>$name</tool_name>\n<stdout>$text</stdout>\n</result>",
    error="<result>\n<tool_name>$name</tool_name>\n<error>$text</error>\n</result>",
    after="\n</function_results>",
    marks=(
        *("<function_results>", "</function_results>", "<result>", "</result>"),
        *("<stdout>", "</stdout>", "<error>", "</error>"),
    ),
)
_TYPED = "Write texts as they are, without quotes or escapes, and all other values as JSON."


def _invoke(prefix: str, section: str, attributes: str = "") -> Calls:
    """Calls as `invoke` elements with `parameter` elements, all in one section."""
    return Calls(
        before=f"<{prefix}{section}>\n",
        call=f'<{prefix}invoke name="$name">\n$arguments</{prefix}invoke>',
        after=f"\n</{prefix}{section}>",
        body="tagged",
        parameter=f'<{prefix}parameter name="$key"{attributes}>$value</{prefix}parameter>\n',
    )


_PROMPTS = (
    Prompt(
        name="anthropic_xml",
        tools=ToolListing(style="wrapped_json", before="<functions>\n", after="\n</functions>"),
        calls=_invoke("", "function_calls"),
        results=_FUNCTION_RESULTS,
        hint=_TYPED,
        tokens=("<functions>", "</functions>"),
    ),
    Prompt(
        name="anthropic_legacy",
        tools=ToolListing(style="legacy_xml", before="<tools>\n", after="\n</tools>"),
        calls=Calls(
            before="<function_calls>\n",
            call="<invoke>\n<tool_name>$name</tool_name>\n<parameters>\n$arguments</parameters>\n</invoke>",
            after="\n</function_calls>",
            body="tagged",
            parameter="<$key>$value</$key>\n",
        ),
        results=_FUNCTION_RESULTS,
        hint=_TYPED,
        tokens=("<tools>", "</tools>"),
    ),
    Prompt(
        name="cline_xml",
        tools=ToolListing(style="cline"),
        calls=Calls(
            call="<$name>\n$arguments</$name>",
            body="tagged",
            parameter="<$key>$value</$key>\n",
            block="<$key>\n$value\n</$key>\n",
            block_keys=("content",),
        ),
        results=Results(
            result="[$name] Result:\n$text",
            error="[$name] Result:\n[ERROR] $text",
            between="\n\n",
            marks=("] Result:", "[ERROR] "),
        ),
        hint=_TYPED,
    ),
    Prompt(
        name="qwen3_coder",
        tools=ToolListing(style="openai_lines", before="<tools>\n", after="\n</tools>"),
        calls=Calls(
            call="<tool_call>\n<function=$name>\n$arguments</function>\n</tool_call>",
            body="tagged",
            parameter="<parameter=$key>\n$value\n</parameter>\n",
        ),
        results=_TOOL_RESPONSE,
        hint=_TYPED,
        tokens=("<tools>", "</tools>", *CHATML),
    ),
    Prompt(
        name="seed_oss",
        tools=ToolListing(style="openai_lines", before="<tools>\n", after="\n</tools>"),
        calls=Calls(
            call="<seed:tool_call>\n<function=$name>\n$arguments</function>\n</seed:tool_call>",
            body="tagged",
            parameter="<parameter=$key>$value</parameter>\n",
        ),
        results=_TOOL_RESPONSE,
        hint=_TYPED,
        tokens=("<seed:bos>", "<seed:eos>"),
    ),
    Prompt(
        name="minimax_m2",
        tools=ToolListing(style="wrapped_json", before="<tools>\n", after="\n</tools>"),
        calls=_invoke("", "minimax:tool_call"),
        results=Results(result="<response>$text</response>", marks=("<response>", "</response>")),
        hint=_TYPED,
        tokens=("]~!b[", "]~b]", "[e~["),
    ),
    Prompt(
        name="minimax_m3",
        tools=ToolListing(style="wrapped_json", before="<tools>\n", after="\n</tools>"),
        calls=Calls(
            before="]<]minimax[>[<tool_call>\n",
            call=']<]minimax[>[<invoke name="$name">$arguments]<]minimax[>[</invoke>\n',
            between="",
            after="]<]minimax[>[</tool_call>",
            body="elements",
            prefix="]<]minimax[>[",
            unquotable="]<]minimax[>[",
        ),
        results=Results(result="<response>$text</response>", marks=("<response>", "</response>")),
        hint="Write texts and numbers as they are. Objects and arrays are elements in elements; "
        "every element of an array is called item.",
        tokens=("]<]minimax[>[", "]~!b[", "]~b]", "[e~["),
    ),
    Prompt(
        name="glm45",
        tools=ToolListing(style="openai_lines", before="<tools>\n", after="\n</tools>"),
        calls=Calls(
            call="<tool_call>$name\n$arguments</tool_call>",
            body="tagged",
            parameter="<arg_key>$key</arg_key>\n<arg_value>$value</arg_value>\n",
        ),
        results=_TOOL_RESPONSE,
        hint=_TYPED,
        tokens=_GLM_TOKENS,
    ),
    Prompt(
        name="glm47",
        tools=ToolListing(style="openai_lines", before="<tools>\n", after="\n</tools>"),
        calls=Calls(
            call="<tool_call>$name$arguments</tool_call>",
            between="",
            body="tagged",
            parameter="<arg_key>$key</arg_key><arg_value>$value</arg_value>",
        ),
        results=Results(
            result="<tool_response>$text</tool_response>", between="", marks=("<tool_response>", "</tool_response>")
        ),
        hint=_TYPED,
        tokens=_GLM_TOKENS,
    ),
    Prompt(
        name="deepseek_v32",
        tools=ToolListing(style="flat_lines", before="<functions>\n", after="\n</functions>"),
        calls=_invoke("｜DSML｜", "function_calls", ' string="$string"'),
        results=Results(
            before="<function_results>\n",
            result="<result>$text</result>",
            after="\n</function_results>",
            marks=("<function_results>", "</function_results>", "<result>", "</result>"),
        ),
        hint='string="true" stands for a text, written as it is; string="false" for any other value, as JSON.',
        tokens=(*_DEEPSEEK_TOKENS, "<functions>", "</functions>"),
    ),
    Prompt(
        name="deepseek_v4",
        tools=ToolListing(style="flat_lines"),
        calls=_invoke("｜DSML｜", "tool_calls", ' string="$string"'),
        results=Results(result="<tool_result>$text</tool_result>", marks=("<tool_result>", "</tool_result>")),
        hint='string="true" stands for a text, written as it is; string="false" for any other value, as JSON.',
        tokens=_DEEPSEEK_TOKENS,
    ),
    Prompt(
        name="kimi_k3",
        tools=ToolListing(style="openai_array"),
        calls=Calls(
            before="<|open|>tools<|sep|>",
            call='<|open|>call tool="$name" index="$number"<|sep|>$arguments<|close|>call<|sep|>',
            between="",
            after="<|close|>tools<|sep|>",
            body="tagged",
            parameter='<|open|>argument key="$key" type="$type"<|sep|>$value<|close|>argument<|sep|>',
            entities=True,
        ),
        results=Results(
            result='<|open|>message role="tool" tool="$name" index="$number"<|sep|>$text<|close|>message<|sep|>',
            between="",
        ),
        hint="The type is string, number, boolean, array, object or null; strings are written as they are.",
        tokens=("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"),
    ),
    Prompt(
        name="minicpm5",
        tools=ToolListing(style="openai_lines", before="<tools>\n", after="\n</tools>"),
        calls=Calls(
            call='<function name="$name">$arguments</function>',
            body="tagged",
            parameter='<param name="$key">$value</param>',
            strings="cdata",
        ),
        results=_TOOL_RESPONSE,
        hint="A text that contains < or & stands in <![CDATA[ ]]>.",
        tokens=CHATML,
    ),
    Prompt(
        name="muse_glimmer",
        tools=ToolListing(style="flat_lines", before="<functions>\n", after="\n</functions>"),
        calls=_invoke("atem:", "function_calls"),
        results=Results(
            before="<atem:function_results>\n",
            result="<atem:result>\n<atem:tool_name>$name</atem:tool_name>\n<atem:stdout>$text</atem:stdout>\n"
            "</atem:result>",
            error="<atem:result>\n<atem:tool_name>$name</atem:tool_name>\n<atem:error>$text</atem:error>\n"
            "</atem:result>",
            after="\n</atem:function_results>",
            marks=("<atem:", "</atem:"),
        ),
        hint=_TYPED,
        tokens=("<|start|>", "<|message|>", "<|eom|>"),
    ),
    Prompt(
        name="continue_codeblock",
        tools=ToolListing(style="codeblocks"),
        calls=Calls(
            call="```tool\nTOOL_NAME: $name\n$arguments```",
            body="tagged",
            parameter="BEGIN_ARG: $key\n$value\nEND_ARG\n",
            strings="json",
        ),
        results=Results(
            result="Tool output for $name tool call:\n\n$text",
            between="\n\n",
            marks=("Tool output for ",),
        ),
        hint="Every value is JSON, texts in quotes.",
        tokens=("```tool", "TOOL_NAME:", "BEGIN_ARG:", "END_ARG"),
        any_case=True,
    ),
)

TAGGED_PROMPTS: dict[str, Prompt] = {prompt.name: prompt for prompt in _PROMPTS}
