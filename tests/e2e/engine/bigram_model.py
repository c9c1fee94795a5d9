"""A language model that needs no download: it knows only which token tends to follow which.

It is a llama of one layer whose blocks are zero, so that the state after the layer is the token's own embedding. The
embeddings are one-hot, so a column of the output matrix is the list of what may follow one token. That is enough for
llama.cpp: where tools are offered the model opens a call, the engine's grammar leaves it only tokens that fit the
tool's schema, and the table chooses among those.
"""

from __future__ import annotations

from array import array
from itertools import pairwise
from pathlib import Path

from .gguf import Tensor, Value, ones, write_gguf, zeros

WORD = "Oslo"
"""What the model writes where a schema wants any string."""
NUMBER = 42
"""What it writes where a schema wants any number."""
LAST_WORD = "Fine."
"""What it says once it has seen the result of a tool. It shares no letter with WORD: a letter has one successor."""

# Roles are announced as Qwen's models do it; the calls stand in the tags of the Hermes models. The generation prompt
# ends with two newlines, which open a call, where there are tools and no results yet; else with a space, which opens
# the last word.
CHAT_TEMPLATE = """\
{%- if tools %}
{{- '<|im_start|>system\\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content + '\\n' }}{% endif %}
{{- 'Functions that can be called, one in each line:\\n<tools>' }}
{%- for tool in tools %}{{- '\\n' + (tool | tojson) }}{% endfor %}
{{- '\\n</tools>\\nA call is written like this:\\n<tool_call>\\n{"name": NAME, "arguments": OBJECT}\\n</tool_call>' }}
{{- '<|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- elif message.role == 'assistant' %}
{{- '<|im_start|>assistant\\n' + (message.content or '') }}
{%- for call in message.tool_calls or [] %}
{%- if message.content or not loop.first %}{{- '\\n' }}{% endif %}
{{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- (call.function.arguments if call.function.arguments is string else call.function.arguments | tojson) }}
{{- '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- elif message.role == 'tool' %}
{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + '\\n</tool_response><|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant' + ('\\n\\n' if tools and messages[-1].role != 'tool' else ' ') }}
{%- endif %}
"""

START, END, CALL, CALL_END = "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"


def _byte_letters() -> list[str]:
    """How byte-level BPE writes each byte as a visible letter: printable ones as themselves, the rest from U+0100."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


LETTERS = _byte_letters()
NEWLINE, SPACE = LETTERS[ord("\n")], LETTERS[ord(" ")]
TWO_NEWLINES = NEWLINE + NEWLINE
VOCABULARY = [*LETTERS, TWO_NEWLINES, START, END, CALL, CALL_END]
NUMBERS = {token: number for number, token in enumerate(VOCABULARY)}
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4
KINDS = [NORMAL] * 257 + [CONTROL, CONTROL, USER_DEFINED, USER_DEFINED]

HEADS, HEAD_SIZE = 9, 30
WIDTH = HEADS * HEAD_SIZE
assert len(VOCABULARY) <= WIDTH
CONTEXT = 1 << 16

# ── which token follows which, the likeliest first ───────────────────────────────────────────────────────────────────

# Where the grammar leaves several ways, the model ends what is open rather than going on with it, or it never would.
ANYWHERE = ('"', "}", "]", ",", ":", "{", "[", "4", "t", END)
FOLLOWERS: dict[str, tuple[str, ...]] = {
    TWO_NEWLINES: (CALL,),
    CALL: (NEWLINE,),
    NEWLINE: (CALL_END, "{"),
    CALL_END: (END,),
    "[": ('"', "{", "[", "4"),
    **{first: (second,) for first, second in pairwise([SPACE, *LAST_WORD, END])},
    **{first: (second,) for first, second in pairwise(['"', *WORD, '"'])},
    **{first: (second,) for first, second in pairwise(str(NUMBER))},
}
LIKELY, POSSIBLE, UNLIKELY, STEP = 9.0, 6.0, -1.0, 0.5
"""The final norm makes each of these some sixteen times as large, so that even at temperature 1 the ranks hold."""
HAIR = 0.002


def _table() -> Tensor:
    """The output matrix: a row for each next token, a column for each last one."""
    table = {(last, following): -HAIR * number for last in VOCABULARY for following, number in NUMBERS.items()}
    for last in VOCABULARY:
        table |= {(last, following): UNLIKELY for following in (NEWLINE, SPACE, TWO_NEWLINES)}
        table |= {(last, following): POSSIBLE - rank * STEP for rank, following in enumerate(ANYWHERE)}
        table |= {(last, following): LIKELY - rank * STEP for rank, following in enumerate(FOLLOWERS.get(last, ()))}
    # A call is over, and another may follow: at temperature 0 none does, at temperature 1 almost as often as not.
    table["}", NEWLINE] = table["}", ","] + HAIR
    values = array("f", bytes(4 * len(VOCABULARY) * WIDTH))
    for (last, following), value in table.items():
        values[NUMBERS[following] * WIDTH + NUMBERS[last]] = value
    return Tensor((WIDTH, len(VOCABULARY)), values)


def _embeddings() -> Tensor:
    values = array("f", bytes(4 * len(VOCABULARY) * WIDTH))
    for number in range(len(VOCABULARY)):
        values[number * WIDTH + number] = 1.0
    return Tensor((WIDTH, len(VOCABULARY)), values)


METADATA: dict[str, Value] = {
    "general.architecture": "llama",
    "general.name": "bigrams",
    "llama.context_length": CONTEXT,
    "llama.embedding_length": WIDTH,
    "llama.block_count": 1,
    "llama.feed_forward_length": 32,
    "llama.rope.dimension_count": HEAD_SIZE,
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": 1,
    "llama.attention.layer_norm_rms_epsilon": 1e-6,
    "llama.vocab_size": len(VOCABULARY),
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "qwen2",
    "tokenizer.ggml.tokens": VOCABULARY,
    "tokenizer.ggml.token_type": KINDS,
    "tokenizer.ggml.merges": [f"{NEWLINE} {NEWLINE}"],
    "tokenizer.ggml.bos_token_id": NUMBERS[START],
    "tokenizer.ggml.eos_token_id": NUMBERS[END],
    "tokenizer.ggml.padding_token_id": NUMBERS[END],
    "tokenizer.ggml.add_bos_token": False,
    "tokenizer.chat_template": CHAT_TEMPLATE,
}


def write_model(path: Path) -> None:
    tensors = {
        "token_embd.weight": _embeddings(),
        "output_norm.weight": ones(WIDTH),
        "output.weight": _table(),
        "blk.0.attn_norm.weight": ones(WIDTH),
        "blk.0.attn_q.weight": zeros(WIDTH, WIDTH),
        "blk.0.attn_k.weight": zeros(WIDTH, HEAD_SIZE),
        "blk.0.attn_v.weight": zeros(WIDTH, HEAD_SIZE),
        "blk.0.attn_output.weight": zeros(WIDTH, WIDTH),
        "blk.0.ffn_norm.weight": ones(WIDTH),
        "blk.0.ffn_gate.weight": zeros(WIDTH, 32),
        "blk.0.ffn_up.weight": zeros(WIDTH, 32),
        "blk.0.ffn_down.weight": zeros(32, WIDTH),
    }
    write_gguf(path, METADATA, tensors)
