"""Formats with one tag per parameter."""

from __future__ import annotations

from msgspec.structs import replace

from toolglot.textcalls.grammar import CallSyntax, Format, Header, MessageRoute, Messages, Parameter

ATTRIBUTE = r"""\s+name\s*=\s*(?:"(?P<{group}>[^"]*)"|'(?P<{group}_single>[^']*)'|(?P<{group}_bare>[^\s"'>]+))"""
KEY = r"(?P<key>[^\s<>\"'=]+)"
NAME = r"\s*(?P<name>[^\s<>\"'=]+)\s*"
QUOTED_KEY = r"\s*[\"']?" + KEY + r"[\"']?\s*"
QUOTED_NAME = r"\s*[\"']?(?P<name>[^\s<>\"'=]+)[\"']?\s*"


def _name_pattern(group: str, rest: str = "") -> str:
    return ATTRIBUTE.replace("{group}", group) + rest


def _invoke(prefix: str, closer_prefix: str | None = None, *, attributes: str = "") -> CallSyntax:
    """Return `<invoke name="N"><parameter name="P">V</parameter></invoke>`, every tag with a prefix."""
    end = closer_prefix if closer_prefix is not None else prefix
    return CallSyntax(
        header=Header((f"<{prefix}invoke",), (">",), _name_pattern("name", r"\s*"), allowed=r"[^<>\n]"),
        body="tagged",
        first="<",
        closers=(f"</{end}invoke>",),
        parameter=Parameter(
            header=Header(
                (f"<{prefix}parameter",), (">",), _name_pattern("key", attributes + r"\s*"), allowed=r"[^<>\n]"
            ),
            closers=(f"</{end}parameter>",),
        ),
    )


def _invokes(prefix: str, *, attributes: str = "") -> tuple[CallSyntax, ...]:
    """Return the ways to write an invoke: self-closing, with parameters, with the JSON of all arguments."""
    tagged = _invoke(prefix, attributes=attributes)
    return (
        _self_closing(tagged),
        tagged,
        CallSyntax(header=tagged.header, body="json", first="{", closers=tagged.closers),
    )


def _self_closing(call: CallSyntax) -> CallSyntax:
    """Return `<invoke name="N"/>`: the same header, which also ends the call."""
    return CallSyntax(header=replace(call.header, ends=("/>",)), body="empty", first="")


def _dsml() -> tuple[CallSyntax, ...]:
    return _invokes("｜DSML｜", attributes=r"""(?:\s+string\s*=\s*"(?P<type>true|false)")?""")


QWEN_CODER_CALL = CallSyntax(
    header=Header(("<function=",), (">",), QUOTED_NAME, allowed=r"[^<>\n]"),
    body="tagged",
    first="<",
    closers=("</function>",),
    parameter=Parameter(
        header=Header(("<parameter=",), (">",), QUOTED_KEY, allowed=r"[^<>\n]"),
        closers=("</parameter>",),
        spacing="lines",
        implied=True,
    ),
)
QWEN_CODER_SELF_CLOSING = _self_closing(QWEN_CODER_CALL)
SEED_CALL = CallSyntax(
    header=QWEN_CODER_CALL.header,
    body="tagged",
    first="<",
    closers=("</function>",),
    parameter=Parameter(
        header=Header(("<parameter=",), (">",), r"\s*" + KEY + r"\s*", allowed=r"[^<>\n]"), closers=("</parameter>",)
    ),
)
GLM_CALL = CallSyntax(
    header=Header(("<tool_call>",), ("<arg_key>", "</tool_call>"), NAME, allowed=r"[^<>{}\[\]]", keeps_end=True),
    body="tagged",
    first="<",
    closers=("</tool_call>",),
    parameter=Parameter(
        header=Header(("<arg_key>",), ("<arg_value>",), r"\s*(?P<key>[^<>]+?)\s*</arg_key>\s*", allowed=r"."),
        closers=("</arg_value>",),
        untyped="json",
    ),
)
# <tool_call>f(a=1)</tool_call>, as written by models that know the tag but not its content.
CALLED_IN_TAG = CallSyntax(
    header=Header(("<tool_call>",)), body="python", weak=True, first="", closers=("</tool_call>",)
)
CLINE_CALL = CallSyntax(
    header=Header(("<{name}>",)),
    body="tagged",
    first="<",
    weak=True,
    tool_tags=True,
    closers=("</{name}>",),
    parameter=Parameter(
        header=Header(("<",), (">",), r"(?P<key>[\w.:-]+)", allowed=r"[\w.:-]"),
        closers=("</{key}>", "</ {key}>", "</{key} >"),
        spacing="cline",
        declared_only=True,
    ),
)
CLINE_SELF_CLOSING = CallSyntax(
    header=Header(("<{name}/>", "<{name} />")), body="empty", first="", weak=True, tool_tags=True, line_start=True
)
MINICPM_CALL = CallSyntax(
    header=Header(("<function",), (">",), _name_pattern("name", r"\s*"), allowed=r"[^<>\n]"),
    body="tagged",
    first="<",
    closers=("</function>",),
    parameter=Parameter(
        header=Header(("<param",), (">",), _name_pattern("key", r"[^<>]*"), allowed=r"[^<>\n]"),
        closers=("</param>",),
        cdata=True,
    ),
)

TAGGED: tuple[Format, ...] = (
    Format(
        name="anthropic_xml",
        title="<function_calls><invoke> (Claude's own, MagicCode)",
        calls=(*_invokes(""), *_invokes("antml:")),
        sections=tuple((f"<{prefix}function_calls>", f"</{prefix}function_calls>") for prefix in ("", "antml:")),
        thinking=(("<thinking>", "</thinking>"), ("<think>", "</think>")),
        aliases=("invoke", "magiccode", "claude_xml"),
    ),
    Format(
        name="anthropic_legacy",
        title="<invoke><tool_name><parameters> (Claude 2)",
        calls=(
            CallSyntax(
                header=Header(
                    ("<invoke>",),
                    ("<parameters>", "</invoke>"),
                    r"\s*<tool_name>\s*(?P<name>[^<>\s]+)\s*</tool_name>\s*",
                    allowed=r".",
                ),
                body="tagged",
                first="<",
                closers=("</parameters>", "</invoke>"),
                parameter=Parameter(
                    header=Header(("<",), (">",), r"(?P<key>[\w.:-]+)", allowed=r"[\w.:-]"),
                    closers=("</{key}>",),
                    declared_only=True,
                ),
            ),
        ),
        sections=(("<function_calls>", "</function_calls>"),),
        thinking=(("<thinking>", "</thinking>"), ("<think>", "</think>")),
    ),
    Format(
        name="cline_xml",
        title="<tool><parameter> (Cline, Roo, Kilo)",
        calls=(CLINE_CALL, CLINE_SELF_CLOSING),
        sections=(("<tool_use>", "</tool_use>"),),
        thinking=(("<thinking>", "</thinking>"), ("<think>", "</think>")),
        aliases=("cline", "roo", "kilo"),
    ),
    Format(
        name="qwen3_coder",
        title="<function=name><parameter=key> (Qwen3-Coder, Nemotron 3, Step 3.5)",
        calls=(
            QWEN_CODER_SELF_CLOSING,
            QWEN_CODER_CALL,
            CallSyntax(header=Header(("<tool_call>",)), body="envelope", closers=("</tool_call>",)),
            CALLED_IN_TAG,
        ),
        sections=(("<tool_call>", "</tool_call>"),),
        aliases=("qwen_coder", "openhands", "qwen35"),
    ),
    Format(
        name="seed_oss",
        title="<seed:tool_call> (Seed-OSS)",
        calls=(QWEN_CODER_SELF_CLOSING, SEED_CALL),
        sections=(("<seed:tool_call>", "</seed:tool_call>"),),
        thinking=(("<seed:think>", "</seed:think>"), ("<think>", "</think>")),
        dropped=("<seed:eos>",),
        aliases=("seed",),
    ),
    Format(
        name="minimax_m2",
        title="<minimax:tool_call> (MiniMax M2)",
        calls=_invokes(""),
        sections=(("<minimax:tool_call>", "</minimax:tool_call>"),),
    ),
    Format(
        name="minimax_m3",
        title="]<]minimax[>[ (MiniMax M3)",
        calls=(
            CallSyntax(
                header=Header(("]<]minimax[>[<invoke",), (">",), _name_pattern("name", r"\s*"), allowed=r"[^<>\n]"),
                body="tagged",
                first="]",
                closers=("]<]minimax[>[</invoke>",),
                parameter=Parameter(
                    header=Header(("]<]minimax[>[<",), (">",), r"(?P<key>[^<>/\s]+)", allowed=r"[^<>/\n]"),
                    closers=("]<]minimax[>[</{key}>",),
                    nested="]<]minimax[>[",
                ),
            ),
        ),
        sections=(("]<]minimax[>[<tool_call>", "]<]minimax[>[</tool_call>"),),
        thinking=(("<mm:think>", "</mm:think>"), ("<think>", "</think>")),
    ),
    Format(
        name="glm45",
        title="<tool_call>name<arg_key> (GLM 4.5, 4.6)",
        calls=(GLM_CALL,),
        dropped=("<|observation|>", "<|user|>"),
        aliases=("glm46", "glm"),
    ),
    Format(
        name="glm47",
        title="<tool_call>name<arg_key> on one line (GLM 4.7, 5)",
        calls=(GLM_CALL,),
        dropped=("<|observation|>", "<|user|>"),
        aliases=("glm5", "poolside"),
    ),
    Format(
        name="deepseek_v32",
        title="<｜DSML｜function_calls> (DeepSeek V3.2)",
        calls=_dsml(),
        sections=(("<｜DSML｜function_calls>", "</｜DSML｜function_calls>"),),
        dropped=("<｜end▁of▁sentence｜>",),
    ),
    Format(
        name="deepseek_v4",
        title="<｜DSML｜tool_calls> (DeepSeek V4)",
        calls=_dsml(),
        sections=(
            ("<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>"),
            ("<｜DSML｜function_calls>", "</｜DSML｜function_calls>"),
        ),
        dropped=("<｜end▁of▁sentence｜>",),
    ),
    Format(
        name="kimi_k3",
        title="<|open|>call (Kimi K3)",
        calls=(
            CallSyntax(
                header=Header(
                    ("<|open|>call",), ("<|sep|>",), r"\s+tool=\"(?P<name>[^\"]*)\"(?:\s+\w+=\"[^\"]*\")*\s*"
                ),
                body="tagged",
                first="<",
                closers=("<|close|>call<|sep|>",),
                parameter=Parameter(
                    header=Header(
                        ("<|open|>argument",),
                        ("<|sep|>",),
                        r"\s+key=\"(?P<key>[^\"]*)\"(?:\s+type=\"(?P<type>\w*)\")?\s*",
                    ),
                    closers=("<|close|>argument<|sep|>",),
                ),
            ),
        ),
        sections=(("<|open|>tools<|sep|>", "<|close|>tools<|sep|>"),),
        thinking=(("<|open|>think<|sep|>", "<|close|>think<|sep|>"),),
        dropped=("<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>", "<|end_of_msg|>"),
    ),
    Format(
        name="minicpm5",
        title='<function name="N"><param name="P"> (MiniCPM 5)',
        calls=(_self_closing(MINICPM_CALL), MINICPM_CALL),
        sections=(("<functions>", "</functions>"), ("<tool_call>", "</tool_call>")),
        aliases=("minicpm", "concise_xml"),
    ),
    Format(
        name="muse_glimmer",
        title="<atem:function_calls> in messages (Muse)",
        calls=_invokes("atem:"),
        sections=(("<atem:function_calls>", "</atem:function_calls>"),),
        messages=Messages(
            openers=("<|start|>",),
            ends=("<|message|>",),
            closers=("<|eom|>", "<|eot|>"),
            routes=(
                MessageRoute(r"to=user\b", "text"),
                MessageRoute(r"to=self\b", "reasoning"),
                MessageRoute(r"", "calls"),
            ),
            at_start=(" to=", "to="),
        ),
        aliases=("muse",),
    ),
    Format(
        name="continue_codeblock",
        title="a `tool` code block with BEGIN_ARG (Continue)",
        calls=(
            CallSyntax(
                header=Header(
                    ("```tool\nTOOL_NAME:", "```tool\r\nTOOL_NAME:", "TOOL_NAME:"),
                    ("\n",),
                    r"[ \t]*(?P<name>\S+)[ \t\r]*",
                ),
                body="tagged",
                first="",
                line_start=True,
                closers=("```",),
                parameter=Parameter(
                    header=Header(("BEGIN_ARG:",), ("\n",), r"[ \t]*(?P<key>\S+)[ \t\r]*"),
                    closers=("\nEND_ARG", "\r\nEND_ARG"),
                    json_values=True,
                ),
            ),
        ),
        aliases=("continue",),
    ),
)
