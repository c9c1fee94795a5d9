"""A model that knows no tools but reads its prompt: it calls two tools, then a third, then answers, all as text.

Like the model of `bigram_model.py` it is a llama of one layer with one-hot embeddings, whose output matrix tells which
token follows which. Its one attention head finds a word: where the prompt has one of the words that end a step, it
outweighs everything else, a later step's word an earlier one's, and what the head then adds to the state decides which
text the answer begins with. Everywhere but at the beginning the last token alone decides.

Its chat template is that of ChatML, which llama.cpp knows by heart, so that it can be served without Jinja, and with
that without tools.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from .bigram_model import CONTEXT, CONTROL, END, LETTERS, NEWLINE, NORMAL, START, USER_DEFINED
from .gguf import Tensor, Value, ones, write_gguf, zeros

CHAT_TEMPLATE = """\
{% for message in messages %}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}
"""
WIDTH, HEAD_SIZE, FEED_FORWARD = 512, 32, 32
SLOWEST = HEAD_SIZE - 2
"""Where in a head the rotation by a token's position is slowest: with so large a base it does not turn at all."""
ROTATION_BASE = 1e12
PIECE = 3
"""The least bytes of a token that only answers have."""
FOLLOWS, NEVER, OPENS, CHOSEN = 9.0, -9.0, 4.0, 4.0


def hermes_call(name: str, arguments: object) -> str:
    """A call as the Hermes models write it."""
    written = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{written}\n</tool_call>"


class ReadingModel:
    """`answers` holds the text of each step; `words` the word of its results that each but the last step waits for."""

    def __init__(self, answers: Sequence[str], words: Sequence[str]) -> None:
        assert len(answers) == len(words) + 1
        self._words = list(words)
        self._tokens = [*LETTERS, START, END, *words]
        self._chains = [self._chain(text) for text in answers]
        self._numbers = {token: number for number, token in enumerate(self._tokens)}
        self._states = range(len(self._tokens), len(self._tokens) + len(words))
        assert self._states.stop <= WIDTH

    def write(self, path: Path) -> None:
        write_gguf(path, self._metadata(), self._tensors())

    def _chain(self, text: str) -> list[str]:
        """The text in tokens of its own, so that each has one successor."""
        written = "".join(LETTERS[byte] for byte in text.encode())
        chain: list[str] = []
        start = 0
        for end in range(1, len(written) + 1):
            token = written[start:end]
            if end - start >= PIECE and token not in self._tokens and token not in chain:
                chain.append(token)
                start = end
        if start < len(written):
            chain[-1] += written[start:]  # the rest is too short for a token of its own
        self._tokens += chain
        assert len(set(self._tokens)) == len(self._tokens)
        return chain

    def _metadata(self) -> dict[str, Value]:
        kinds = {START: CONTROL, END: CONTROL, **dict.fromkeys(self._words, USER_DEFINED)}
        return {
            "general.architecture": "llama",
            "general.name": "reader",
            "llama.context_length": CONTEXT,
            "llama.embedding_length": WIDTH,
            "llama.block_count": 1,
            "llama.feed_forward_length": FEED_FORWARD,
            "llama.rope.dimension_count": HEAD_SIZE,
            "llama.rope.freq_base": ROTATION_BASE,
            "llama.attention.head_count": 1,
            "llama.attention.head_count_kv": 1,
            "llama.attention.key_length": HEAD_SIZE,
            "llama.attention.value_length": HEAD_SIZE,
            "llama.attention.layer_norm_rms_epsilon": 1e-6,
            "llama.vocab_size": len(self._tokens),
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "qwen2",
            "tokenizer.ggml.tokens": self._tokens,
            "tokenizer.ggml.token_type": [kinds.get(token, NORMAL) for token in self._tokens],
            # None of these is ever met, and so a prompt is read byte by byte.
            "tokenizer.ggml.merges": [f"{NEWLINE} {LETTERS[0]}"],
            "tokenizer.ggml.bos_token_id": self._numbers[START],
            "tokenizer.ggml.eos_token_id": self._numbers[END],
            "tokenizer.ggml.padding_token_id": self._numbers[END],
            "tokenizer.ggml.add_bos_token": False,
            "tokenizer.chat_template": CHAT_TEMPLATE,
        }

    def _tensors(self) -> dict[str, Tensor]:
        numbers = range(len(self._tokens))
        words = [self._numbers[word] for word in self._words]
        return {
            "token_embd.weight": _matrix(WIDTH, len(numbers), {(number, number): 1.0 for number in numbers}),
            "output_norm.weight": ones(WIDTH),
            "output.weight": self._table(),
            "blk.0.attn_norm.weight": ones(WIDTH),
            # Every token asks the same, the words alone have an answer, the later ones a louder one.
            "blk.0.attn_q.weight": _matrix(WIDTH, HEAD_SIZE, {(number, SLOWEST): 1.0 for number in numbers}),
            "blk.0.attn_k.weight": _matrix(
                WIDTH, HEAD_SIZE, {(word, SLOWEST): rank + 1.0 for rank, word in enumerate(words)}
            ),
            "blk.0.attn_v.weight": _matrix(
                WIDTH, HEAD_SIZE, {(word, rank): WIDTH**-0.5 for rank, word in enumerate(words)}
            ),
            "blk.0.attn_output.weight": _matrix(HEAD_SIZE, WIDTH, dict.fromkeys(enumerate(self._states), 1.0)),
            "blk.0.ffn_norm.weight": ones(WIDTH),
            "blk.0.ffn_gate.weight": zeros(WIDTH, FEED_FORWARD),
            "blk.0.ffn_up.weight": zeros(WIDTH, FEED_FORWARD),
            "blk.0.ffn_down.weight": zeros(FEED_FORWARD, WIDTH),
        }

    def _table(self) -> Tensor:
        """The output matrix: a row for each next token; a column for each last one, and for each state."""
        values = dict.fromkeys(((last, end) for last in range(WIDTH) for end in range(len(self._tokens))), NEVER)
        values |= {(state, end): 0.0 for state in self._states for end in range(len(self._tokens))}
        for chain in self._chains:
            values |= {(self._numbers[a], self._numbers[b]): FOLLOWS for a, b in pairwise([*chain, END])}
        # A step is chosen where an answer begins: the first as long as no state speaks for another.
        starts = [self._numbers[chain[0]] for chain in self._chains]
        values |= {(self._numbers[NEWLINE], start): OPENS - rank for rank, start in enumerate(starts)}
        values |= dict.fromkeys(zip(self._states, starts[1:], strict=True), CHOSEN)
        return _matrix(WIDTH, len(self._tokens), values)


def _matrix(width: int, height: int, values: Mapping[tuple[int, int], float]) -> Tensor:
    """Rows of this width. A value stands in the column of what comes in and the row of what goes out."""
    cells = array("f", bytes(4 * width * height))
    for (column, row), value in values.items():
        cells[row * width + column] = value
    return Tensor((width, height), cells)
