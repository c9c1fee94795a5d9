"""Formats whose calls are JSON objects with the name and the arguments."""

from __future__ import annotations

from toolglot.textcalls.formats.tagged import CALLED_IN_TAG, GLM_CALL, QWEN_CODER_CALL, QWEN_CODER_SELF_CLOSING
from toolglot.textcalls.grammar import CallSyntax, Format, Header

HERMES_CALL = CallSyntax(header=Header(("<tool_call>",)), body="envelope", closers=("</tool_call>",))
BARE_OBJECT = CallSyntax(
    header=Header(("{",), keeps_opener=True), body="envelope", weak=True, line_start=True, first="{", closers=()
)
BARE_LIST = CallSyntax(header=Header(("[",), keeps_opener=True), body="envelope", weak=True, line_start=True, first="[")
FENCED = CallSyntax(
    header=Header(("```",), ("\n",), r"(?:json|JSON|tool_call|tool_code|tool)?[ \t\r]*"),
    body="envelope",
    weak=True,
    line_start=True,
    first="{[",
    closers=("```",),
)
MISTRAL_CALL = CallSyntax(header=Header(("[TOOL_CALLS]",)), body="envelope")
COHERE_CALL = CallSyntax(header=Header(("<|START_ACTION|>",)), body="envelope", closers=("<|END_ACTION|>",))
COHERE_DROPPED = (
    "<|START_RESPONSE|>",
    "<|END_RESPONSE|>",
    "<|START_TEXT|>",
    "<|END_TEXT|>",
    "<|CHATBOT_TOKEN|>",
    "<|END_OF_TURN_TOKEN|>",
    "<|START_OF_TURN_TOKEN|>",
)
COHERE_THINKING = (("<|START_THINKING|>", "<|END_THINKING|>"),)
TOOL_CALLS_CALL = CallSyntax(header=Header(("<tool_calls>",)), body="envelope", closers=("</tool_calls>",))

ENVELOPED: tuple[Format, ...] = (
    Format(
        name="deepchat",
        title="<function_call> JSON (DeepChat)",
        calls=(
            CallSyntax(
                header=Header(("<function_call>",)),
                body="envelope",
                closers=("</function_call>",),
                # A record of a finished call, which models echo.
                refused_keys=("function_call_record",),
            ),
        ),
        aliases=("function_call",),
    ),
    Format(
        name="hermes_json",
        title="<tool_call> JSON (Hermes, Qwen 2.5 and 3, QwQ, Granite 4)",
        calls=(HERMES_CALL, QWEN_CODER_SELF_CLOSING, QWEN_CODER_CALL, CALLED_IN_TAG, GLM_CALL),
        sections=(("<tool_call>", "</tool_call>"),),
        aliases=("hermes", "qwen", "qwen25", "qwen3", "granite4"),
    ),
    Format(
        name="longcat",
        title="<longcat_tool_call> JSON (LongCat)",
        calls=(
            CallSyntax(header=Header(("<longcat_tool_call>",)), body="envelope", closers=("</longcat_tool_call>",)),
        ),
        thinking=(("<think>", "</think>"), ("<longcat_think>", "</longcat_think>")),
    ),
    Format(name="markdown_json", title="JSON in a code block", calls=(FENCED,), aliases=("fenced_json",)),
    Format(
        name="llama3_json",
        title="a bare JSON object (Llama 3)",
        calls=(
            BARE_OBJECT,
            CallSyntax(header=Header(("<|python_tag|>",)), body="envelope", first="{["),
        ),
        dropped=("<|eom_id|>", "<|eot_id|>"),
        aliases=("llama3", "llama31", "bare_json"),
    ),
    Format(
        name="generic_json",
        title="a bare JSON object or list",
        calls=(BARE_OBJECT, BARE_LIST, FENCED),
        aliases=("json",),
    ),
    Format(
        name="xlam",
        title="a bare JSON list (xLAM)",
        calls=(BARE_LIST, BARE_OBJECT, FENCED, MISTRAL_CALL, HERMES_CALL),
    ),
    Format(
        name="mistral",
        title="[TOOL_CALLS] with a JSON list (Mistral v3, Nemo)",
        calls=(MISTRAL_CALL,),
        thinking=(("[THINK]", "[/THINK]"), ("<think>", "</think>")),
        dropped=("</s>",),
        aliases=("mistral_v3", "mistral_nemo"),
    ),
    Format(
        name="granite3",
        title="<|tool_call|> with a JSON list (Granite 3)",
        calls=(
            CallSyntax(header=Header(("<|tool_call|>", "<tool_call>")), body="envelope", closers=("</tool_call>",)),
        ),
        dropped=("<|end_of_text|>", "<response>", "</response>"),
        aliases=("granite",),
    ),
    Format(
        name="granite_20b_fc",
        title="<function_call> without an end (Granite 20B)",
        calls=(CallSyntax(header=Header(("<function_call>",)), body="envelope"),),
    ),
    Format(
        name="phi4_functools",
        title="functools with a JSON list (Phi-4)",
        calls=(CallSyntax(header=Header(("functools",)), body="envelope", first="["),),
        aliases=("phi4", "functools"),
    ),
    Format(
        name="firefunction_v2",
        title="functools with a JSON list (FireFunction)",
        calls=(CallSyntax(header=Header((" functools", "functools")), body="envelope", first="["),),
        aliases=("firefunction",),
    ),
    Format(
        name="internlm2",
        title="<|plugin|> JSON (InternLM 2)",
        calls=(
            CallSyntax(
                header=Header(("<|action_start|><|plugin|>", "<|action_start|> <|plugin|>")),
                body="envelope",
                closers=("<|action_end|>",),
            ),
        ),
        aliases=("internlm",),
    ),
    Format(
        name="tool_calls_json_array",
        title="<tool_calls> with a JSON list (Apriel, Hunyuan, Jamba, MiniMax M1)",
        calls=(TOOL_CALLS_CALL,),
        thinking=(("<think>", "</think>"), ("Here are my reasoning steps:\n", "[BEGIN FINAL RESPONSE]")),
        dropped=("[END FINAL RESPONSE]", "<|end|>"),
        aliases=("hunyuan", "hunyuan_a13b", "jamba", "apriel", "minimax_m1"),
    ),
    Format(
        name="nemotron_toolcall",
        title="<TOOLCALL> with a JSON list (Nemotron)",
        calls=(CallSyntax(header=Header(("<TOOLCALL>",)), body="envelope", closers=("</TOOLCALL>",)),),
        aliases=("nemotron",),
    ),
    Format(
        name="gigachat3",
        title="function call<|role_sep|> JSON (GigaChat 3)",
        calls=(CallSyntax(header=Header(("function call<|role_sep|>", "<|function_call|>")), body="envelope"),),
        dropped=("<|message_sep|>",),
        aliases=("gigachat",),
    ),
    Format(
        name="cohere_command3",
        title="<|START_ACTION|> (Command R7B, Command A)",
        calls=(COHERE_CALL,),
        thinking=COHERE_THINKING,
        dropped=COHERE_DROPPED,
        aliases=("cohere", "command_r7b", "cohere_r7b"),
    ),
    Format(
        name="cohere_command4",
        title="<|START_ACTION|> (Command A reasoning)",
        calls=(COHERE_CALL,),
        thinking=COHERE_THINKING,
        dropped=COHERE_DROPPED,
    ),
    Format(
        name="cohere_command_r_plus",
        title="Action: with JSON in a code block (Command R+)",
        calls=(
            CallSyntax(
                header=Header(("Action:",), ("```json", "```"), r"\s*", allowed=r"\s"),
                body="envelope",
                closers=("```",),
                first="{[",
                line_start=True,
            ),
        ),
        dropped=COHERE_DROPPED,
        aliases=("command_r_plus",),
    ),
    Format(
        name="apertus",
        title="<|tools_prefix|> with {name: arguments} (Apertus)",
        calls=(
            CallSyntax(
                header=Header(("<|tools_prefix|>",)), body="envelope", closers=("<|tools_suffix|>",), keyed=True
            ),
        ),
        thinking=(("<|inner_prefix|>", "<|inner_suffix|>"), ("<think>", "</think>")),
    ),
    Format(
        name="ernie45",
        title="<tool_call> JSON (ERNIE 4.5)",
        calls=(HERMES_CALL,),
        dropped=("<response>", "</response>"),
    ),
    Format(
        name="inkling",
        title="<|content_invoke_tool_json|> (Inkling)",
        calls=(
            CallSyntax(header=Header(("<|content_invoke_tool_json|>",)), body="envelope", closers=("<|end_message|>",)),
        ),
    ),
)
