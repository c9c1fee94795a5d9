"""Formats whose header names the tool and whose body is the JSON of the arguments."""

from __future__ import annotations

from toolglot.textcalls.formats.enveloped import BARE_LIST
from toolglot.textcalls.grammar import CallSyntax, Format, Header, MessageRoute, Messages

NAME = r"(?P<name>[^\s\[\]{}<>\"]+)"
DEEPSEEK_SECTION = (("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),)
DEEPSEEK_END = "<｜tool▁call▁end｜>"
DEEPSEEK_V3_CALL = CallSyntax(
    header=Header(
        ("<｜tool▁call▁begin｜>",),
        ("```json", "```"),
        r"\w*<｜tool▁sep｜>\s*" + NAME + r"\s*",
        allowed=r"[^{]",
    ),
    body="json",
    first="{",
    closers=("```", DEEPSEEK_END),
)
DEEPSEEK_V31_CALL = CallSyntax(
    header=Header(("<｜tool▁call▁begin｜>",), ("<｜tool▁sep｜>",), r"\s*" + NAME + r"\s*", allowed=r"."),
    body="json",
    first="{<",
    closers=(DEEPSEEK_END,),
)
FUNCTIONARY_CALL = CallSyntax(
    header=Header(("<function=",), (">",), NAME, allowed=r"[^<>\n]"),
    body="json",
    first="{",
    closers=("</function>",),
)
MISTRAL_ARGS_CALL = CallSyntax(
    header=Header(
        ("[TOOL_CALLS]",),
        ("[ARGS]",),
        r"\s*" + NAME + r"\s*(?:\[CALL_ID\]\s*(?P<id>[\w-]+)\s*)?",
        allowed=r"[^\n{]",
    ),
    body="json",
    first="{",
)

NAMED: tuple[Format, ...] = (
    Format(
        name="mistral_args",
        title="[TOOL_CALLS]name[ARGS] (Mistral v11, Ministral 3, Devstral)",
        calls=(
            MISTRAL_ARGS_CALL,
            # Some servers drop the marks between name and arguments, and older models write a list.
            CallSyntax(header=Header(("[TOOL_CALLS]",)), body="envelope"),
            CallSyntax(
                header=Header(("[TOOL_CALLS]",), ("{",), r"\s*" + NAME + r"\s*", allowed=r"[^\n\[]", keeps_end=True),
                body="json",
                first="{",
            ),
        ),
        thinking=(("[THINK]", "[/THINK]"), ("<think>", "</think>")),
        dropped=("</s>",),
        aliases=("mistral_v11", "devstral", "ministral", "magistral"),
    ),
    Format(
        name="deepseek_v3",
        title="<｜tool▁calls▁begin｜> with a code block (DeepSeek V3, R1)",
        calls=(DEEPSEEK_V3_CALL, DEEPSEEK_V31_CALL),
        sections=DEEPSEEK_SECTION,
        dropped=("<｜end▁of▁sentence｜>",),
        aliases=("deepseek_r1", "deepseek"),
    ),
    Format(
        name="deepseek_v31",
        title="<｜tool▁calls▁begin｜>name<｜tool▁sep｜> (DeepSeek V3.1)",
        calls=(DEEPSEEK_V3_CALL, DEEPSEEK_V31_CALL),
        sections=DEEPSEEK_SECTION,
        dropped=("<｜end▁of▁sentence｜>",),
    ),
    Format(
        name="kimi_k2",
        title="<|tool_call_begin|>functions.name:0 (Kimi K2)",
        calls=(
            CallSyntax(
                header=Header(
                    ("<|tool_call_begin|>",),
                    ("<|tool_call_argument_begin|>",),
                    r"\s*(?P<id>(?:functions\.)?(?P<name>[^\s:<>]+?)(?::\d+)?)\s*",
                ),
                body="json",
                first="{<",
                closers=("<|tool_call_end|>",),
            ),
        ),
        sections=(("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),),
        dropped=("<|im_end|>",),
        aliases=("kimi", "kimi_k25"),
    ),
    Format(
        name="functionary_v31",
        title="<function=name>JSON</function> (Functionary 3.1, Llama)",
        calls=(FUNCTIONARY_CALL,),
        dropped=("<|eom_id|>", "<|eot_id|>"),
        aliases=("llama_custom", "functionary"),
    ),
    Format(
        name="functionary_v32",
        title=">>>name (Functionary 3.2)",
        calls=(
            CallSyntax(
                header=Header((">>>",), ("\n",), NAME + r"\r?"), body="json", first="{", weak=True, line_start=True
            ),
        ),
        messages=Messages(
            openers=(">>>",),
            ends=("\n",),
            closers=(),
            routes=(MessageRoute(r"^all\r?$", "calls"), MessageRoute(r"^(?P<name>[\w.-]+)\r?$", "call")),
            at_start=("",),
        ),
    ),
    Format(
        name="cherry_tool_use",
        title="<tool_use><name> (Cherry Studio)",
        calls=(
            CallSyntax(
                header=Header(
                    ("<tool_use>",),
                    ("<arguments>",),
                    r"\s*<name>\s*(?P<name>[^<>\s]+)\s*</name>\s*",
                    allowed=r".",
                ),
                body="json",
                first="",
                closers=("</arguments>", "</tool_use>"),
            ),
        ),
        aliases=("cherry",),
    ),
    Format(
        name="react",
        title="Action: and Action Input: (ReAct)",
        calls=(
            CallSyntax(
                header=Header(
                    ("Action:",),
                    ("\nAction Input:", "\nAction input:", "\r\nAction Input:"),
                    r"[ \t]*[`\"]?(?P<name>[^\n`\"]+?)[`\"]?[ \t]*",
                ),
                body="json",
                first="",
                weak=True,
                line_start=True,
                bare_string=True,
                stops=("\nObservation:", "\nThought:", "\nAction:"),
            ),
        ),
    ),
    Format(
        name="qwen_flower",
        title="✿FUNCTION✿: and ✿ARGS✿: (Qwen-Agent)",
        calls=(
            CallSyntax(
                header=Header(("✿FUNCTION✿:",), ("\n✿ARGS✿:",), r"[ \t]*(?P<name>[^\n]+?)[ \t]*"),
                body="json",
                first="",
                closers=("✿RESULT✿", "✿RETURN✿"),
            ),
        ),
        dropped=("✿RETURN✿:", "✿RETURN✿"),
    ),
    Format(
        name="harmony",
        title="channels and recipients (gpt-oss)",
        calls=(
            CallSyntax(
                header=Header(("<|channel|>",), ("<|message|>",)),
                body="json",
                first="",
                closers=("<|call|>", "<|end|>"),
            ),
        ),
        thinking=(),
        messages=Messages(
            openers=("<|start|>", "<|channel|>"),
            ends=("<|message|>",),
            closers=("<|end|>", "<|call|>", "<|return|>"),
            routes=(
                MessageRoute(r"to=functions\.(?P<name>[^\s<]+)", "call"),
                MessageRoute(r"to=(?!assistant)\S", "reasoning"),
                MessageRoute(r"analysis", "reasoning"),
                MessageRoute(r"", "text"),
            ),
            at_start=(" to=", "to="),
        ),
        aliases=("gpt_oss", "openai_harmony"),
    ),
)

PYTHON_LIST = CallSyntax(header=Header(("[",), keeps_opener=True), body="python", weak=True, line_start=True, first="[")
GEMMA_NAME = r"\s*call:\s*(?P<name>[^\s{}]+)\s*"

LITERAL: tuple[Format, ...] = (
    Format(
        name="pythonic",
        title="[f(a=1)] (Llama 3.2 and 4, ToolACE)",
        calls=(
            PYTHON_LIST,
            CallSyntax(header=Header(("<|python_start|>", "<|python_tag|>")), body="python", first="["),
        ),
        dropped=("<|python_end|>", "<|eom|>", "<|eot|>"),
        aliases=("llama4", "toolace", "python"),
    ),
    Format(
        name="olmo3",
        title="<function_calls> with a Python call a line (OLMo 3)",
        calls=(
            CallSyntax(header=Header(("<function_calls>",)), body="python", first="", closers=("</function_calls>",)),
        ),
        aliases=("olmo",),
    ),
    Format(
        name="lfm2",
        title="<|tool_call_start|>[f(a=1)] (LFM2)",
        calls=(
            CallSyntax(
                header=Header(("<|tool_call_start|>",)), body="python", first="[", closers=("<|tool_call_end|>",)
            ),
            CallSyntax(header=Header(("<|tool_call_start|>",)), body="envelope", closers=("<|tool_call_end|>",)),
            PYTHON_LIST,
            BARE_LIST,
        ),
        dropped=("<|im_end|>",),
    ),
    Format(
        name="gemma4",
        title="<|tool_call>call:name{…} (Gemma 4)",
        calls=(
            CallSyntax(
                header=Header(("<|tool_call>",), ("{",), GEMMA_NAME, keeps_end=True),
                body="braces",
                first="{",
                closers=("<tool_call|>",),
                quotes=('<|"|>',),
            ),
        ),
        thinking=(("<|channel>thought\n", "<channel|>"), ("<|channel>thought", "<channel|>")),
        dropped=("<turn|>", "<|tool_response>"),
        aliases=("gemma",),
    ),
    Format(
        name="functiongemma",
        title="<start_function_call>call:name{…} (FunctionGemma)",
        calls=(
            CallSyntax(
                header=Header(("<start_function_call>",), ("{",), GEMMA_NAME, keeps_end=True),
                body="braces",
                first="{",
                closers=("<end_function_call>",),
                quotes=("<escape>",),
            ),
        ),
    ),
)
