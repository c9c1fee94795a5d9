"""Formats of sections and messages with JSON in them, of Python calls, of bare braces, and of lines."""

from __future__ import annotations

from toolglot.textcalls.prompts.json_formats import CHATML, LLAMA, PLAIN_RESULT
from toolglot.textcalls.prompts.records import Calls, Prompt, Results, ToolListing

_DEEPSEEK = ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>")
_DEEPSEEK_TOOLS = (
    *(
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁call▁end｜>",
        "<｜tool▁sep｜>",
    ),
    *("<｜tool▁outputs▁begin｜>", "<｜tool▁outputs▁end｜>"),
)
_DEEPSEEK_RESULTS = Results(
    result="<｜tool▁output▁begin｜>$text<｜tool▁output▁end｜>",
    between="",
    marks=("<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"),
)
_PYTHON = "Arguments are given by name, as Python literals."
_PYTHON_CALL = "$name($arguments)"


def _gemma(quote: str, opener: str, closer: str) -> Calls:
    return Calls(call=f"{opener}call:$name$arguments{closer}", between="", body="braces", quote=quote, unquotable=quote)


_PROMPTS = (
    Prompt(
        name="deepseek_v3",
        tools=ToolListing(style="headings"),
        calls=Calls(
            before="<｜tool▁calls▁begin｜>",
            call="<｜tool▁call▁begin｜>function<｜tool▁sep｜>$name\n```json\n$arguments\n```<｜tool▁call▁end｜>",
            after="<｜tool▁calls▁end｜>",
        ),
        results=_DEEPSEEK_RESULTS,
        tokens=(*_DEEPSEEK, *_DEEPSEEK_TOOLS),
    ),
    Prompt(
        name="deepseek_v31",
        tools=ToolListing(style="headings"),
        calls=Calls(
            before="<｜tool▁calls▁begin｜>",
            call="<｜tool▁call▁begin｜>$name<｜tool▁sep｜>$arguments<｜tool▁call▁end｜>",
            between="",
            after="<｜tool▁calls▁end｜>",
        ),
        results=_DEEPSEEK_RESULTS,
        tokens=(*_DEEPSEEK, *_DEEPSEEK_TOOLS),
    ),
    Prompt(
        name="kimi_k2",
        tools=ToolListing(style="openai_array"),
        calls=Calls(
            before="<|tool_calls_section_begin|>",
            call="<|tool_call_begin|>$id<|tool_call_argument_begin|>$arguments<|tool_call_end|>",
            between="",
            after="<|tool_calls_section_end|>",
            ids="functions",
        ),
        results=Results(result="## Return of $id\n$text", between="\n\n", marks=("## Return of ",)),
        hint="The number behind the name counts all calls of the conversation, beginning with 0.",
        tokens=(
            *("<|im_system|>", "<|im_user|>", "<|im_assistant|>", "<|im_middle|>", "<|im_end|>"),
            *("<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"),
        ),
    ),
    Prompt(
        name="harmony",
        tools=ToolListing(style="typescript"),
        calls=Calls(
            call="<|channel|>commentary to=functions.$name <|constrain|>json<|message|>$arguments<|call|>",
            between="<|start|>assistant",
        ),
        results=Results(
            result="<|start|>functions.$name to=assistant<|channel|>commentary<|message|>$text<|end|>", between=""
        ),
        several=False,
        tokens=("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>"),
    ),
    Prompt(
        name="pythonic",
        tools=ToolListing(style="flat_array"),
        calls=Calls(before="[", call=_PYTHON_CALL, between=", ", after="]", body="python"),
        results=PLAIN_RESULT,
        hint=f"{_PYTHON} Write nothing before or after the list.",
        tokens=LLAMA,
    ),
    Prompt(
        name="olmo3",
        tools=ToolListing(style="flat_array", before="<functions>", after="</functions>"),
        calls=Calls(before="<function_calls>", call=_PYTHON_CALL, after="</function_calls>", body="python"),
        results=PLAIN_RESULT,
        hint=_PYTHON,
        tokens=("<functions>", "</functions>", *CHATML),
    ),
    Prompt(
        name="lfm2",
        tools=ToolListing(style="flat_array", before="<|tool_list_start|>", after="<|tool_list_end|>"),
        calls=Calls(
            before="<|tool_call_start|>[", call=_PYTHON_CALL, between=", ", after="]<|tool_call_end|>", body="python"
        ),
        results=Results(
            result="<|tool_response_start|>$text<|tool_response_end|>",
            marks=("<|tool_response_start|>", "<|tool_response_end|>"),
        ),
        hint=_PYTHON,
        tokens=("<|tool_list_start|>", "<|tool_list_end|>", "<|startoftext|>", *CHATML),
    ),
    Prompt(
        name="react",
        tools=ToolListing(style="sentences"),
        calls=Calls(call="Action: $name\nAction Input: $arguments"),
        results=Results(result="Observation: $text", marks=("Observation:",)),
        hint="You may write a line that begins with Thought: before it.",
        several=False,
        stops=("\nObservation:",),
        tokens=("Action:", "Action Input:"),
    ),
    Prompt(
        name="qwen_flower",
        tools=ToolListing(style="headings"),
        calls=Calls(call="✿FUNCTION✿: $name\n✿ARGS✿: $arguments"),
        results=Results(result="✿RESULT✿: $text", after="\n✿RETURN✿: ", marks=("✿RESULT✿", "✿RETURN✿")),
        stops=("\n✿RESULT✿", "\n✿RETURN✿"),
        tokens=("✿FUNCTION✿", "✿ARGS✿", *CHATML),
    ),
)

_GEMMA_HINT = "Keys are bare, and a text stands between the marks shown, without escapes."

_BRACES = (
    Prompt(
        name="gemma4",
        tools=ToolListing(style="braces", before="<|tool>", after="<tool|>"),
        calls=_gemma('<|"|>', "<|tool_call>", "<tool_call|>"),
        results=Results(
            result='<|tool_response>response:$name{value:<|"|>$text<|"|>}<tool_response|>',
            between="",
            marks=("<|tool_response>", "<tool_response|>"),
        ),
        hint=_GEMMA_HINT,
        tokens=(
            *('<|"|>', "<|tool_call>", "<tool_call|>", "<|tool>", "<tool|>"),
            *("<|turn>", "<turn|>", "<|channel>", "<channel|>"),
        ),
    ),
    Prompt(
        name="functiongemma",
        tools=ToolListing(style="braces", before="<start_function_declaration>", after="<end_function_declaration>"),
        calls=_gemma("<escape>", "<start_function_call>", "<end_function_call>"),
        results=Results(
            result="<start_function_response>response:$name{value:<escape>$text<escape>}<end_function_response>",
            between="",
            marks=("<start_function_response>", "<end_function_response>"),
        ),
        hint=_GEMMA_HINT,
        tokens=(
            *("<escape>", "<start_function_call>", "<end_function_call>", "<start_function_declaration>"),
            *("<end_function_declaration>", "<start_of_turn>", "<end_of_turn>"),
        ),
    ),
)

OTHER_PROMPTS: dict[str, Prompt] = {prompt.name: prompt for prompt in (*_PROMPTS, *_BRACES)}
