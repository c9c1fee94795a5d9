"""Formats that write calls as Python or as braces with unquoted keys."""

from __future__ import annotations

from toolglot.textcalls.formats.enveloped import BARE_LIST
from toolglot.textcalls.grammar import CallSyntax, Format, Header

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
