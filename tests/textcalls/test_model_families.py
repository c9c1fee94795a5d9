"""Which text format a model's name means, whoever serves it."""

from __future__ import annotations

import time

import pytest

from toolglot.textcalls import FORMATS, find_format
from toolglot.textcalls.model_families import DEFAULT_FORMAT, FAMILIES, MAX_NAME, family_format

NAMES: dict[str, tuple[str, ...]] = {
    "hermes_json": (
        "qwen2.5-coder:7b",
        "Qwen/Qwen2.5-7B-Instruct",
        "Qwen2.5-7B-Instruct-Q4_K_M.gguf",
        "qwen3:30b-a3b",
        "Qwen/QwQ-32B",
        "NousResearch/Hermes-3-Llama-3.1-8B",
        "hermes3:8b",
        "ibm-granite/granite-4.0-h-small",
        "microsoft/phi-4",
    ),
    "qwen3_coder": (
        "qwen/qwen3-coder:free",
        "qwen3-coder:30b",
        "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8",
        "Qwen3.5-397B-A17B-FP8",
        "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B",
        "XiaomiMiMo/MiMo-V2-Flash",
    ),
    "llama3_json": (
        "llama3.1:8b",
        "meta-llama/Llama-3.3-70B-Instruct",
        "Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf",
        "accounts/fireworks/models/llama-v3p1-8b-instruct",
        "hf.co/bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M",
        "llama3.2-vision:11b",
    ),
    "pythonic": (
        "meta-llama/Llama-4-Scout-17B-16E-Instruct",
        "llama4:scout",
        "llama3.2:3b",
        "Llama-3.2-1B-Instruct",
        "Team-ACE/ToolACE-2-Llama-3.1-8B",
    ),
    "mistral": ("mistral:7b", "mistralai/Mistral-Nemo-Instruct-2407", "mixtral:8x7b", "mistral-small:24b"),
    "mistral_args": (
        "mistralai/Devstral-Small-2507",
        "devstral:24b",
        "mistral-small3.2:24b",
        "ministral-3:8b",
        "Magistral-Small-2509-Q4_K_M.gguf",
    ),
    "deepseek_v3": ("deepseek-ai/DeepSeek-V3", "deepseek-r1:7b", "DeepSeek-R1-Distill-Qwen-7B", "deepseek-v3:671b"),
    "deepseek_v31": ("deepseek-ai/DeepSeek-V3.1", "deepseek-v3.1:671b-cloud", "deepseek/deepseek-chat-v3.1:free"),
    "deepseek_v32": ("deepseek-ai/DeepSeek-V3.2-Exp", "deepseek/deepseek-v3.2"),
    "deepseek_v4": ("deepseek-ai/DeepSeek-V4", "deepseek/deepseek-v4-flash"),
    "kimi_k2": ("moonshotai/Kimi-K2-Instruct", "kimi-k2.5", "kimi-k2:1t-cloud"),
    "kimi_k3": ("moonshotai/Kimi-K3", "kimi-k3"),
    "glm45": ("zai-org/GLM-4.5-Air", "glm-4.6", "z-ai/glm-4.5-air:free"),
    "glm47": ("zai-org/GLM-4.7", "glm-4.7-flash", "glm-5"),
    "tool_calls_json_array": (
        "MiniMaxAI/MiniMax-M1-80k",
        "tencent/Hunyuan-A13B-Instruct",
        "ai21labs/AI21-Jamba-Mini-1.7",
    ),
    "minimax_m2": ("MiniMaxAI/MiniMax-M2", "minimax-m2.5:cloud"),
    "minimax_m3": ("MiniMaxAI/MiniMax-M3",),
    "harmony": ("openai/gpt-oss-20b", "gpt-oss:120b", "gpt-oss-20b-mxfp4.gguf"),
    "granite3": ("ibm-granite/granite-3.3-8b-instruct", "granite3.3:8b"),
    "markdown_json": ("google/gemma-3-27b-it", "gemma3:12b", "gemma2:9b"),
    "gemma4": ("google/gemma-4-31b-it", "gemma4:e4b"),
    "functiongemma": ("functiongemma:270m",),
    "phi4_functools": ("microsoft/Phi-4-mini-instruct", "phi4-mini:3.8b"),
    "cohere_command3": ("CohereLabs/c4ai-command-a-03-2025", "command-a", "command-r7b:7b"),
    "cohere_command_r_plus": ("CohereForAI/c4ai-command-r-plus", "command-r:35b"),
    "seed_oss": ("ByteDance-Seed/Seed-OSS-36B-Instruct",),
    "lfm2": ("LiquidAI/LFM2-8B-A1B", "lfm2.5:1.2b"),
    "olmo3": ("allenai/Olmo-3-7B-Instruct",),
    "nemotron_toolcall": ("nvidia/Llama-3.1-Nemotron-Nano-8B-v1", "nemotron-mini:4b"),
    "xlam": ("Salesforce/Llama-xLAM-2-8b-fc-r", "Salesforce/xLAM-7b-fc-r"),
    "internlm2": ("internlm/internlm2_5-7b-chat", "internlm3-8b-instruct"),
    "functionary_v31": ("meetkai/functionary-small-v3.1",),
    "functionary_v32": ("meetkai/functionary-medium-v3.2", "functionary-small-v3.2-GGUF"),
    "apertus": ("swiss-ai/Apertus-8B-Instruct-2509",),
}


@pytest.mark.parametrize(("name", "expected"), [(name, key) for key, names in NAMES.items() for name in names])
def test_a_model_is_known_by_its_name_as_any_server_gives_it(name: str, expected: str) -> None:
    assert family_format(name) == expected
    assert family_format(name.upper()) == expected


@pytest.mark.parametrize("name", ["", "m", "my-model", "/", "gpt-4o", "tiny", "yi-34b", "café ☕", "a/b/c:d"])
def test_any_other_model_gets_the_default(name: str) -> None:
    assert family_format(name) == DEFAULT_FORMAT


def test_every_family_writes_a_format_that_there_is() -> None:
    named = {DEFAULT_FORMAT, *(family.format for family in FAMILIES)}
    assert named <= set(FORMATS)
    assert all(find_format(name).name == name for name in named)


def test_every_family_is_reached_by_some_name() -> None:
    reached = {family_format(name) for names in NAMES.values() for name in names}
    assert {family.format for family in FAMILIES} - reached <= {
        "cohere_command4",
        "firefunction_v2",
        "gigachat3",
        "minicpm5",
    }


def test_a_name_of_any_length_is_looked_at_in_no_time() -> None:
    begun = time.process_time()
    for text in ("llama-" * 100_000, "-" * 1_000_000, "mistral-small-" * 50_000, "a/" * 500_000):
        family_format(text)
    assert time.process_time() - begun < 1.0
    assert family_format("x" * MAX_NAME + "/qwen3-coder") == DEFAULT_FORMAT
