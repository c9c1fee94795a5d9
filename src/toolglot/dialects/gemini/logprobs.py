"""`logprobsResult` and `avgLogprobs` of a candidate <-> log probabilities of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolglot.ir import TokenLogprob

RESULT = "logprobsResult"
AVERAGE = "avgLogprobs"


def read_logprobs(result: Any) -> tuple[TokenLogprob, ...] | None:
    """Read the tokens. None if there are none, or if the result is invalid."""
    chosen = result.get("chosenCandidates") if isinstance(result, dict) else None
    if not isinstance(chosen, list) or not chosen:
        return None
    tops = result.get("topCandidates") or []
    if not isinstance(tops, list) or len(tops) not in (0, len(chosen)):
        return None
    tokens: list[TokenLogprob] = []
    for index, entry in enumerate(chosen):
        token, top = _read_token(entry), _read_top(tops[index]) if tops else ()
        if token is None or top is None:
            return None
        tokens.append(TokenLogprob(token=token.token, logprob=token.logprob, id=token.id, top=top))
    return tuple(tokens)


def _read_top(entry: Any) -> tuple[TokenLogprob, ...] | None:
    candidates = entry.get("candidates", []) if isinstance(entry, dict) else None
    if not isinstance(candidates, list):
        return None
    read = [_read_token(candidate) for candidate in candidates]
    return None if None in read else tuple(token for token in read if token is not None)


def _read_token(entry: Any) -> TokenLogprob | None:
    if not isinstance(entry, dict):
        return None
    # Proto-JSON omits members that are empty or 0.
    token, logprob, number = entry.get("token", ""), entry.get("logProbability", 0), entry.get("tokenId")
    if not isinstance(token, str) or type(logprob) not in (int, float) or type(number) not in (int, type(None)):
        return None
    return TokenLogprob(token=token, logprob=logprob, id=number)


def write_logprobs(tokens: Sequence[TokenLogprob]) -> dict[str, Any]:
    result: dict[str, Any] = {"chosenCandidates": [_write_token(token) for token in tokens]}
    if any(token.top for token in tokens):
        result["topCandidates"] = [{"candidates": [_write_token(other) for other in token.top]} for token in tokens]
    return result


def _write_token(token: TokenLogprob) -> dict[str, Any]:
    named = {"tokenId": token.id} if token.id is not None else {}
    return {"token": token.token, **named, "logProbability": token.logprob}


def average_logprob(tokens: Sequence[TokenLogprob]) -> float:
    return sum(token.logprob for token in tokens) / len(tokens)
