"""Prompt-cache facts of Claude models, by name. They apply to every API that serves the models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TEN = r"[1-9]\d(?!\d)"

CACHE_MODELS: tuple[tuple[str, Mapping[str, Any], str], ...] = (
    (r"claude", {"cache_by_marks": True}, "Claude caches what is marked; its imitators cache automatically"),
    (r"claude-(?:3[-.](?:5-)?)?haiku", {"cache_minimum": 2048}, "Haiku caches from 2048 tokens on"),
    (
        rf"claude-(?:haiku-(?:4[-.]5(?!\d)|[5-9](?!\d)|{_TEN})|opus-4[-.][567](?!\d))",
        {"cache_minimum": 4096},
        "prompts for Haiku 4.5 and Opus 4.5 to 4.7 are cached from 4096 tokens on",
    ),
    (
        rf"claude-(?:opus|fable|mythos)-(?:[5-9](?!\d)|{_TEN})",
        {"cache_minimum": 512},
        "prompts for Opus 5, Fable 5 and Mythos 5 are cached from 512 tokens on",
    ),
)
