"""Vendors and local servers: rows of data. What is known of each is here and nowhere else.

The order counts: where two vendors own a pattern of model names, the earlier one is asked. A variable that is named
first is preferred.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from toolglot.dialects.warp.models import MODEL_IDS


class KeyVariable(Struct, frozen=True):
    """An environment variable that holds a credential."""

    name: str
    header: str | None = None
    """The header that carries it, when it is not the dialect's."""
    for_gateways: bool = False
    """People set it to get through a gateway; when the base URL leads to this one, the vendor would not know it."""


class Vendor(Struct, frozen=True, kw_only=True):
    """Whoever runs an upstream, and how it is reached."""

    name: str
    title: str
    dialect: str = "openai_chat"
    base_url: str | None
    """None when every customer has an own address, which `base_url_variables` then must tell."""
    base_path: str = ""
    """Added to an address from a variable that does not end in it."""
    keys: tuple[KeyVariable, ...] = ()
    base_url_variables: tuple[str, ...] = ()
    elsewhere: str | None = None
    """The dialect of the servers that people reach by its base-URL variable, when it is not its own."""
    header_variables: Mapping[str, str] = {}
    """Headers that a variable gives a value; sent to the vendor's own address only."""
    models: tuple[str, ...] = ()
    """Patterns of the names that its models have."""
    port: int | None = None
    """Where it listens on this machine, if it is a local server."""
    owned_by: str | None = None
    """What a local server's model list says in `owned_by`."""
    quirks: Mapping[str, Any] = {}
    """Capabilities in which it differs from its dialect."""
    verbatim: bool = True
    """Its answers have all that clients of its dialect need. What imitators leave out is put in by reading and writing
    them, instead of letting the bytes through."""
    keeps_state: bool = False
    """It remembers responses by their ids, as the Responses API promises."""

    only_configured: bool = False
    """A key in the environment is not enough: the user has to name it as an upstream."""
    listed: tuple[str, ...] = ()
    """The models of a vendor that has no list to ask for. It takes other names, too."""

    native_tools: bool | None = None
    """Its models take tools natively. None: not all of them do, or not however the server was started; a model is taken
    to do so until a probe or a refusal says otherwise."""
    without_tools: tuple[str, ...] = ()
    """Patterns of models that do not take tools natively all the same."""

    @property
    def is_local(self) -> bool:
        return self.port is not None


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
        elsewhere="openai_chat",  # compatible servers have Chat Completions; few have Responses
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
        # Whatever the model is called: the API wants ids of exactly nine letters and digits.
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
        only_configured=True,  # what other programs may do at this endpoint nobody has written down
        listed=MODEL_IDS,
        native_tools=True,
    ),
)

LOCAL_SERVERS = (
    Vendor(
        name="ollama",
        title="Ollama",
        base_url="http://127.0.0.1:11434/v1",
        base_url_variables=("OLLAMA_HOST",),
        port=11434,
        owned_by="library",
    ),
    Vendor(name="vllm", title="vLLM", base_url="http://127.0.0.1:8000/v1", port=8000, owned_by="vllm"),
    Vendor(
        name="lmstudio",
        title="LM Studio",
        base_url="http://127.0.0.1:1234/v1",
        port=1234,
        owned_by="organization_owner",
    ),
    Vendor(
        name="llamacpp",
        title="llama.cpp",
        base_url="http://127.0.0.1:8080/v1",
        port=8080,
        owned_by="llamacpp",
        verbatim=False,  # no `output_index` in streams of Responses; overlapping blocks in those of Messages
    ),
    Vendor(name="sglang", title="SGLang", base_url="http://127.0.0.1:30000/v1", port=30000, owned_by="sglang"),
)

DEMO = Vendor(name="demo", title="the demo", base_url="demo:", native_tools=True, without_tools=("demo-text*",))

VENDORS: dict[str, Vendor] = {vendor.name: vendor for vendor in (*_REMOTE, *LOCAL_SERVERS, DEMO)}

UNUSED = {
    "AWS_BEARER_TOKEN_BEDROCK": "Bedrock is not among the vendors",
}
"""Credentials that people expect to be used, and why they are not."""
