"""`python -m bench.prefixes [ROUNDS]`: how much of what an upstream is sent in a turn it was sent the turn before, by
the policy for the history. That much a provider's prompt cache can hold.

An agent calls a tool in every round and gets a result of about 1 KB; its requests go from OpenAI's Chat to Anthropic's
Messages. It is counted as the gateway counts it for `toolglot_prefix_reuse_ratio`.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from statistics import mean
from typing import Any, NamedTuple

from bench.gateway.requests import WORDS
from toolglot.dialects import find
from toolglot.gateway.prefix_reuse import PrefixHashes, PrefixReuse, hash_messages
from toolglot.passes.history_policy import HistoryPolicy, Layer, merge_layers, with_policy
from toolglot.passes.pipeline import REQUEST_PASSES
from toolglot.translate import ExchangeCore

CLIENT, UPSTREAM = "openai_chat", "anthropic"
ROUNDS = 300
RESULT_WORDS = 200

POLICIES: dict[str, HistoryPolicy] = {
    "none": HistoryPolicy(),
    "`max_tokens = 20000`": HistoryPolicy(max_tokens=20000),
    "`max_tokens = 20000`, `cut_to = 0.5`": HistoryPolicy(max_tokens=20000, cut_to=0.5),
    "`max_tokens = 20000`, `cut_to = 1`": HistoryPolicy(max_tokens=20000, cut_to=1),
    "`max_messages = 100`": HistoryPolicy(max_messages=100),
    "`max_messages = 100`, `cut_to = 1`": HistoryPolicy(max_messages=100, cut_to=1),
}


class Reuse(NamedTuple):
    cuts: int
    """Turns that do not begin with all of the turn before."""
    share: float
    """Of the bytes of the history, those that were sent before, on average."""


def turns(rounds: int) -> Iterator[bytes]:
    """An agent's requests, each with one call and one result more than the one before."""
    chance = random.Random(1)
    function = {"name": "read_file", "description": "Reads a file.", "parameters": {"type": "object", "properties": {}}}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are a coding agent."},
        {"role": "user", "content": "Find out why the build fails."},
    ]
    for number in range(rounds):
        call = {"name": "read_file", "arguments": json.dumps({"path": f"src/part_{number}.py"})}
        result = " ".join(chance.choices(WORDS, k=RESULT_WORDS))
        calls = [{"id": f"call_{number}", "type": "function", "function": call}]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": result})
        tools = [{"type": "function", "function": function}]
        yield json.dumps({"model": "model", "messages": messages, "tools": tools}).encode()


def reuse(policy: HistoryPolicy, requests: Iterator[bytes]) -> Reuse:
    passes = with_policy(REQUEST_PASSES, merge_layers((Layer(policy),)))
    prefixes = PrefixReuse()
    shares: list[float] = []
    cuts = 0
    before: PrefixHashes | None = None
    for request in requests:
        body = ExchangeCore(CLIENT, UPSTREAM, passes=passes).request(request, model="model")
        prefix = hash_messages(find(UPSTREAM), "model", body)
        if prefix is None:
            raise ValueError("the request has no history")
        if (share := prefixes.measure_reuse(0, prefix)) is not None:
            shares.append(share)
        cuts += before is not None and prefix.hashes[: len(before.hashes)] != before.hashes
        before = prefix
    return Reuse(cuts, mean(shares))


def main(arguments: list[str], write: Callable[[str], object] = sys.stdout.write) -> None:
    rounds = int(arguments[0]) if arguments else ROUNDS
    write("| policy | turns with a cut | of the history sent before, on average |\n|---|---|---|\n")
    for name, policy in POLICIES.items():
        found = reuse(policy, turns(rounds))
        write(f"| {name} | {found.cuts} | {found.share:.0%} |\n")


if __name__ == "__main__":
    main(sys.argv[1:])
