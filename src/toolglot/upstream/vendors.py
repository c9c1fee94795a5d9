"""Vendors and local servers, as rows of data. Everything known about a vendor is in this module.

The order matters: if two vendors match a model name, the earlier one is used. Among a vendor's variables, the first is
preferred.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from toolglot.dialects.warp.models import MODEL_IDS

VERSION = re.compile(r"/v\d+[a-z0-9]*$")
"""A version at the end of an address."""


class KeyVariable(Struct, frozen=True):
    """An environment variable that holds a credential."""

    name: str
    header: str | None = None
    """The header that carries it, if not the dialect's."""
    for_gateways: bool = False
    """Set by users to reach a gateway. If the base URL points to this gateway, the vendor would not know the key."""


class Vendor(Struct, frozen=True, kw_only=True):
    """An operator of upstreams, and how to reach it."""

    name: str
    title: str
    dialect: str = "openai_chat"
    base_url: str | None
    """None if every customer has a separate address, which `base_url_variables` must then provide."""
    base_path: str = ""
    """Appended to an address from a variable, unless it ends with this path already."""
    keys: tuple[KeyVariable, ...] = ()
    base_url_variables: tuple[str, ...] = ()
    elsewhere: str | None = None
    """The dialect of servers that users reach through its base URL variable, if not its own."""
    header_variables: Mapping[str, str] = {}
    """Headers whose value comes from a variable; sent to the vendor's own address only."""
    models: tuple[str, ...] = ()
    """Patterns of its model names."""
    port: int | None = None
    """Local port, if it is a local server."""
    owned_by: str | None = None
    """Value of `owned_by` in a local server's model list."""
    quirks: Mapping[str, Any] = {}
    """Capabilities that differ from its dialect."""
    versioned: str | None = None
    """The dialect of its addresses that end in a version (`/v1`), if its own dialect has no version in its paths."""
    versioned_quirks: Mapping[str, Any] = {}
    """Capabilities at those addresses that differ from that dialect."""
    own_path: str | None = None
    """A path that answers only at its own servers, not at compatible ones: then a discovered server speaks its
    dialect."""
    verbatim: bool = True
    """True if its answers contain everything that clients of its dialect need. Answers of other servers are decoded and
    encoded again, which adds what they omit, instead of forwarding the bytes."""
    keeps_state: bool = False
    """True if it stores responses by id, as the Responses API promises."""

    only_configured: bool = False
    """True if a key in the environment is not enough: the user must configure it as an upstream."""
    listed: tuple[str, ...] = ()
    """Models of a vendor without a model list endpoint. It also accepts other names."""

    native_tools: bool | None = None
    """Whether its models take tools natively. None: not all do, or it depends on the server's flags; a model is assumed
    to until a probe or a refusal shows otherwise."""
    without_tools: tuple[str, ...] = ()
    """Patterns of models that do not take tools natively, despite `native_tools`."""

    start: str | None = None
    """The command that starts a local server, if it is always the same."""
    window_setting: str | None = None
    """Instructions to serve a model with a larger context window; `{tokens}` is replaced by the number of tokens."""

    @property
    def is_local(self) -> bool:
        return self.port is not None

    def dialect_at(self, base_url: str | None) -> str:
        """Return the vendor's dialect at an address of its own."""
        is_versioned = self.versioned is not None and VERSION.search((base_url or "").rstrip("/")) is not None
        return self.versioned if is_versioned and self.versioned is not None else self.dialect

    def quirks_of(self, dialect: str) -> Mapping[str, Any]:
        """Return the capabilities in which the vendor's servers differ from this dialect."""
        return self.quirks if dialect == self.dialect else self.versioned_quirks if dialect == self.versioned else {}


def _keys(*names: str) -> tuple[KeyVariable, ...]:
    return tuple(KeyVariable(name) for name in names)


_REMOTE = (
    Vendor(
        name="anthropic",
        title="Anthropic",
        dialect="anthropic",
        base_url="https://api.anthropic.com",
        keys=(
            KeyVariable("ANTHROPIC_API_KEY"),
            KeyVariable("ANTHROPIC_AUTH_TOKEN", header="authorization", for_gateways=True),
        ),
        base_url_variables=("ANTHROPIC_BASE_URL",),
        models=("claude-*",),
        native_tools=True,
    ),
    Vendor(
        name="openai",
        title="OpenAI",
        dialect="openai_responses",
        base_url="https://api.openai.com/v1",
        keys=_keys("OPENAI_API_KEY"),
        base_url_variables=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
        elsewhere="openai_chat",  # compatible servers implement Chat Completions; few implement Responses
        header_variables={"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"},
        models=("gpt-*", "chatgpt-*", "codex-*", "o1*", "o3*", "o4*", "computer-use-*"),
        keeps_state=True,
        native_tools=True,
    ),
    Vendor(
        name="gemini",
        title="Google Gemini",
        dialect="gemini",
        base_url="https://generativelanguage.googleapis.com",
        keys=_keys("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        base_url_variables=("GOOGLE_GEMINI_BASE_URL", "GEMINI_BASE_URL"),
        models=("gemini-*", "gemma-*", "learnlm-*"),
        native_tools=True,
        without_tools=("gemma-3*",),  # "Function calling is not enabled for models/gemma-3-27b-it"
    ),
    Vendor(
        name="azure",
        title="Azure OpenAI",
        dialect="openai_responses",
        base_url=None,
        base_path="/openai/v1",
        keys=(KeyVariable("AZURE_OPENAI_API_KEY", header="api-key"),),
        base_url_variables=("AZURE_OPENAI_ENDPOINT",),
        models=("gpt-*", "o1*", "o3*", "o4*"),
        native_tools=True,
    ),
    Vendor(
        name="deepseek",
        title="DeepSeek",
        base_url="https://api.deepseek.com/v1",
        keys=_keys("DEEPSEEK_API_KEY"),
        models=("deepseek-*",),
        native_tools=True,
    ),
    Vendor(
        name="mistral",
        title="Mistral",
        base_url="https://api.mistral.ai/v1",
        keys=_keys("MISTRAL_API_KEY"),
        models=(
            "mistral-*",
            "ministral-*",
            "magistral-*",
            "codestral-*",
            "devstral-*",
            "pixtral-*",
            "voxtral-*",
            "open-mistral-*",
            "open-mixtral-*",
        ),
        # For every model: the API requires ids of exactly nine letters and digits.
        quirks={"id_pattern": "[A-Za-z0-9]{9}", "id_length": 9},
        native_tools=True,
    ),
    Vendor(
        name="xai",
        title="xAI",
        base_url="https://api.x.ai/v1",
        keys=_keys("XAI_API_KEY"),
        models=("grok-*",),
        native_tools=True,
    ),
    Vendor(
        name="moonshot",
        title="Moonshot",
        base_url="https://api.moonshot.ai/v1",
        keys=_keys("MOONSHOT_API_KEY"),
        base_url_variables=("MOONSHOT_BASE_URL",),
        models=("kimi-*", "moonshot-*"),
        native_tools=True,
    ),
    Vendor(
        name="zai",
        title="Z.ai",
        base_url="https://api.z.ai/api/paas/v4",
        keys=_keys("ZAI_API_KEY", "ZHIPUAI_API_KEY"),
        models=("glm-*",),
        native_tools=True,
    ),
    Vendor(
        name="dashscope",
        title="Alibaba Model Studio",
        base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        keys=_keys("DASHSCOPE_API_KEY"),
        base_url_variables=("DASHSCOPE_BASE_URL",),
        models=("qwen*", "qwq-*", "qvq-*"),
        native_tools=True,
    ),
    Vendor(
        name="minimax",
        title="MiniMax",
        base_url="https://api.minimax.io/v1",
        keys=_keys("MINIMAX_API_KEY"),
        models=("MiniMax-*",),
        native_tools=True,
    ),
    Vendor(
        name="cohere",
        title="Cohere",
        base_url="https://api.cohere.ai/compatibility/v1",
        keys=_keys("COHERE_API_KEY", "CO_API_KEY"),
        models=("command-*", "c4ai-*"),
        native_tools=True,
    ),
    Vendor(
        name="openrouter",
        title="OpenRouter",
        base_url="https://openrouter.ai/api/v1",
        keys=_keys("OPENROUTER_API_KEY"),
        models=("*/*",),
    ),
    Vendor(
        name="groq",
        title="Groq",
        base_url="https://api.groq.com/openai/v1",
        keys=_keys("GROQ_API_KEY"),
        models=("llama-3*-versatile", "llama-3*-instant"),
    ),
    Vendor(
        name="cerebras",
        title="Cerebras",
        base_url="https://api.cerebras.ai/v1",
        keys=_keys("CEREBRAS_API_KEY"),
    ),
    Vendor(
        name="fireworks",
        title="Fireworks",
        base_url="https://api.fireworks.ai/inference/v1",
        keys=_keys("FIREWORKS_API_KEY"),
        models=("accounts/*",),
    ),
    Vendor(
        name="together",
        title="Together",
        base_url="https://api.together.xyz/v1",
        keys=_keys("TOGETHER_API_KEY"),
        models=("*/*",),
    ),
    Vendor(
        name="nvidia",
        title="NVIDIA",
        base_url="https://integrate.api.nvidia.com/v1",
        keys=_keys("NVIDIA_API_KEY"),
        models=("*/*",),
    ),
    Vendor(
        name="vercel",
        title="Vercel AI Gateway",
        base_url="https://ai-gateway.vercel.sh/v1",
        keys=_keys("AI_GATEWAY_API_KEY"),
        models=("*/*",),
    ),
    Vendor(
        name="huggingface",
        title="Hugging Face",
        base_url="https://router.huggingface.co/v1",
        keys=_keys("HF_TOKEN"),
        models=("*/*",),
    ),
    Vendor(
        name="warp",
        title="Warp",
        dialect="warp",
        base_url="https://app.warp.dev",
        keys=_keys("WARP_API_KEY"),
        only_configured=True,  # it is not documented what other programs may do at this endpoint
        listed=MODEL_IDS,
        native_tools=True,
    ),
)

_OLLAMA_FIELDS = frozenset(
    {
        "max_output_tokens",
        "temperature",
        "top_p",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "stop",
        "logprobs",
        "top_logprobs",
        "response_format",
        "reasoning",
    }
)
"""Fields of `Request` that Ollama's OpenAI endpoint reads."""

LOCAL_SERVERS = (
    Vendor(
        name="ollama",
        title="Ollama",
        dialect="ollama",
        base_url="http://127.0.0.1:11434",
        base_url_variables=("OLLAMA_HOST",),
        port=11434,
        owned_by="library",
        versioned="openai_chat",
        own_path="/api/version",
        start="ollama serve",
        # Its OpenAI endpoint ignores unknown members without an error (ollama/ollama, docs/openai.md).
        versioned_quirks={"tool_choices": frozenset({"auto"}), "allowed_modes": frozenset(), "fields": _OLLAMA_FIELDS},
        window_setting="start it with OLLAMA_CONTEXT_LENGTH={tokens}, or set `num_ctx` in the model's Modelfile",
    ),
    Vendor(
        name="vllm",
        title="vLLM",
        base_url="http://127.0.0.1:8000/v1",
        port=8000,
        owned_by="vllm",
        window_setting="start it with --max-model-len {tokens}",
    ),
    Vendor(
        name="lmstudio",
        title="LM Studio",
        base_url="http://127.0.0.1:1234/v1",
        port=1234,
        owned_by="organization_owner",
        window_setting="load the model with a context length of {tokens}",
    ),
    Vendor(
        name="llamacpp",
        title="llama.cpp",
        base_url="http://127.0.0.1:8080/v1",
        port=8080,
        owned_by="llamacpp",
        window_setting="start llama-server with --ctx-size {tokens}",
        verbatim=False,  # its Responses streams lack `output_index`; blocks overlap in its Messages streams
    ),
    Vendor(
        name="sglang",
        title="SGLang",
        base_url="http://127.0.0.1:30000/v1",
        port=30000,
        owned_by="sglang",
        window_setting="start it with --context-length {tokens}",
    ),
)

DEMO_VENDOR = Vendor(name="demo", title="the demo", base_url="demo:", native_tools=True, without_tools=("demo-text*",))

VENDORS: dict[str, Vendor] = {vendor.name: vendor for vendor in (*_REMOTE, *LOCAL_SERVERS, DEMO_VENDOR)}

UNUSED_VARIABLES = {
    "AWS_BEARER_TOKEN_BEDROCK": "Bedrock is not among the vendors",
}
"""Credentials that users expect to be used, and the reasons why they are not."""

WINDOW_SETTINGS = frozenset(vendor.name for vendor in LOCAL_SERVERS if vendor.window_setting is not None)
"""Vendors whose servers are started with a context window."""
