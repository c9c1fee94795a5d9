"""The text format that a model was trained to write, by its name: rows of data and one function.

Names have the forms that servers report: `qwen2.5-coder:7b` (Ollama), `Qwen/Qwen2.5-7B-Instruct` (vLLM),
`Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf` (llama.cpp), `qwen/qwen3-coder:free` (OpenRouter). They are compared in lower
case, with `_` and blanks as `-`, and `3p1` (Fireworks) as `3.1`: first the part after the last `/`, then the whole
name.
"""

from __future__ import annotations

import re

from msgspec import Struct

DEFAULT_FORMAT = "hermes_json"
"""For a model without a row. JSON is what most models write best when a prompt asks for calls (BFCL's format
sensitivity: JSON before Python before XML). There it scores better still without a wrapper. But a wrapper is a sure
sign, while a JSON answer or a fenced example could be taken for a call, and a call that runs by mistake is worse than
one that is missed. Of the wrapped forms, `<tool_call>` is the one that most families have seen in training."""

MAX_NAME = 512
"""Maximum characters of a name that are compared."""


class Family(Struct, frozen=True):
    """Models whose name contains `pattern` write `format`. A pattern begins at a word boundary."""

    pattern: re.Pattern[str]
    format: str


def _family(pattern: str, text_format: str) -> Family:
    return Family(re.compile(rf"(?<![a-z])(?:{pattern})"), text_format)


# The order matters: a fine-tune is matched by its own name before that of its base model, and a version before all
# versions. The sources are the models' published chat templates and the parsers of vLLM, SGLang and llama.cpp.
FAMILIES: tuple[Family, ...] = (
    # Fine-tunes, whose names often contain that of their base model
    _family(r"hermes|nous-", "hermes_json"),
    _family(r"x-?lam", "xlam"),
    _family(r"functionary-(?:small|medium)-v3\.1|functionary-v3\.1", "functionary_v31"),
    _family(r"functionary", "functionary_v32"),
    _family(r"firefunction", "firefunction_v2"),
    _family(r"toolace|watt-tool", "pythonic"),
    _family(r"nemotron-?3", "qwen3_coder"),
    _family(r"nemotron", "nemotron_toolcall"),
    _family(r"openhands", "qwen3_coder"),
    # DeepSeek: its distillations of Llama and Qwen have a template of their own
    _family(r"deepseek-(?:chat-)?v?-?4|deepseek4", "deepseek_v4"),
    _family(r"deepseek-(?:chat-)?v?-?3\.2", "deepseek_v32"),
    _family(r"deepseek-(?:chat-)?v?-?3\.1", "deepseek_v31"),
    _family(r"deepseek", "deepseek_v3"),
    # Alibaba
    _family(r"qwen-?3(?:\.\d)?-?coder|qwen-?3\.[5-9]", "qwen3_coder"),
    _family(r"qwen|qwq|qvq", "hermes_json"),
    # Moonshot
    _family(r"kimi-?k?-?3", "kimi_k3"),
    _family(r"kimi|moonlight", "kimi_k2"),
    # Zhipu
    _family(r"glm-?(?:4\.[7-9]|[5-9])", "glm47"),
    _family(r"glm", "glm45"),
    # MiniMax: M1 writes an array in one pair of tags
    _family(r"minimax-?m?-?1", "tool_calls_json_array"),
    _family(r"minimax-?m?-?3", "minimax_m3"),
    _family(r"minimax", "minimax_m2"),
    # OpenAI
    _family(r"gpt-?oss", "harmony"),
    # Mistral: the name and `[ARGS]` since tokenizer version 11, an array before
    _family(r"ministral-?3|mistral-small-?(?:3\.2|4)|mistral-(?:medium|large)-?3", "mistral_args"),
    _family(r"devstral|magistral|voxtral", "mistral_args"),
    _family(r"mistral|mixtral|ministral|codestral|pixtral", "mistral"),
    # Meta
    _family(r"llama-?v?4", "pythonic"),
    _family(r"llama-?v?3\.2(?!-?vision|-?(?:11|90)b)", "pythonic"),
    _family(r"llama-?v?3", "llama3_json"),
    # IBM
    _family(r"granite-?4", "hermes_json"),
    _family(r"granite", "granite3"),
    # Google: Gemma 3 was not trained on a format of its own; its documentation asks for Python or JSON in the prompt
    _family(r"functiongemma", "functiongemma"),
    _family(r"gemma-?4", "gemma4"),
    _family(r"gemma", "markdown_json"),
    # Microsoft
    _family(r"phi-?4-?mini", "phi4_functools"),
    _family(r"phi-?4", "hermes_json"),
    # Cohere
    _family(r"command-?4", "cohere_command4"),
    _family(r"command-?a|command-?r7b", "cohere_command3"),
    _family(r"command-?r|c4ai", "cohere_command_r_plus"),
    # Others
    _family(r"seed-?oss", "seed_oss"),
    _family(r"lfm-?2", "lfm2"),
    _family(r"olmo-?3", "olmo3"),
    _family(r"internlm", "internlm2"),
    _family(r"jamba|hunyuan|apriel", "tool_calls_json_array"),
    _family(r"apertus", "apertus"),
    _family(r"minicpm-?5", "minicpm5"),
    _family(r"gigachat-?3", "gigachat3"),
    _family(r"step-?3\.5|mimo", "qwen3_coder"),
    _family(r"reka|trinity|smollm-?3|arcee", "hermes_json"),
)


def family_format(model: str) -> str:
    """Return the text format of this model's family; `DEFAULT_FORMAT` if the family is unknown."""
    whole = re.sub(r"(?<=\d)p(?=\d)", ".", re.sub(r"[_\s]", "-", model[:MAX_NAME].lower()))
    for name in (whole.rpartition("/")[2], whole):
        for family in FAMILIES:
            if family.pattern.search(name):
                return family.format
    return DEFAULT_FORMAT
