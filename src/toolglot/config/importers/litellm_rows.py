"""Tables of LiteLLM's names and their equivalents."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from toolglot.config.importers.source import NotTaken


class Provider(Struct, frozen=True):
    """A prefix of LiteLLM's model names."""

    vendor: str | None
    dialect: str | None = None
    key_variable: str | None = None
    """The variable from which LiteLLM reads the key, if toolglot's differs."""
    address: str | None = None
    """LiteLLM's default address."""
    address_end: str = ""
    """The path that LiteLLM appends to the address in the file."""
    is_any_server: bool = False
    """True if the prefix, with an address, means any server with this dialect."""


PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider("openai", is_any_server=True),
    "custom_openai": Provider("openai", is_any_server=True),
    "openai_like": Provider("openai", is_any_server=True),
    "litellm_proxy": Provider("openai", None, "LITELLM_PROXY_API_KEY", "${LITELLM_PROXY_API_BASE}", is_any_server=True),
    "anthropic": Provider("anthropic", is_any_server=True),
    "gemini": Provider("gemini"),
    "azure": Provider("azure", None, "AZURE_API_KEY", "${AZURE_API_BASE}", "/openai/v1"),
    "deepseek": Provider("deepseek"),
    "mistral": Provider("mistral"),
    "xai": Provider("xai"),
    "moonshot": Provider("moonshot"),
    "zai": Provider("zai"),
    "dashscope": Provider("dashscope"),
    "minimax": Provider("minimax"),
    "cohere": Provider("cohere"),
    "cohere_chat": Provider("cohere"),
    "openrouter": Provider("openrouter"),
    "groq": Provider("groq"),
    "cerebras": Provider("cerebras"),
    "fireworks_ai": Provider("fireworks"),
    "together_ai": Provider("together", None, "TOGETHERAI_API_KEY"),
    "nvidia_nim": Provider("nvidia", None, "NVIDIA_NIM_API_KEY"),
    "vercel_ai_gateway": Provider("vercel", None, "VERCEL_AI_GATEWAY_API_KEY"),
    "huggingface": Provider("huggingface"),
    "ollama": Provider("ollama"),
    "ollama_chat": Provider("ollama"),
    "vllm": Provider("vllm"),
    "hosted_vllm": Provider("vllm"),
    "lm_studio": Provider("lmstudio"),
}

NO_VENDOR = (
    "toolglot knows no vendor for this; if its server has one of the six APIs, add an upstream with its `dialect`"
)

MODES = ("chat", "responses")
"""Values of `model_info.mode` that toolglot serves."""

LEVELS: Mapping[tuple[str, str], tuple[str, str]] = {
    ("timeout", "request_timeout"): ("timeouts", "first_byte"),
    ("stream_timeout", "stream_timeout"): ("timeouts", "idle"),
    ("allowed_fails", "allowed_fails"): ("breaker", "failures"),
    ("cooldown_time", "cooldown_time"): ("breaker", "rest"),
}
"""Numbers in `router_settings` and `litellm_params`, their names in `litellm_settings`, and the fields of an upstream.
"""

RETRY_NAMES = ("max_retries", "num_retries")
"""LiteLLM's numbers of retries. toolglot's number also counts the first call."""

PRICES: Mapping[str, str] = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cache_read",
    "cache_creation_input_token_cost": "cache_write",
    "cache_creation_input_token_cost_above_1hr": "cache_write_long",
}
"""LiteLLM's prices per token, and toolglot's prices per million tokens."""

_KEYS = "create keys with limits with `toolglot keys create`, and enable `[team]` in the configuration"
_BUDGETS = "budgets belong to keys: `toolglot keys create NAME --usd-per-month`"
_RATES = "limits belong to keys: `toolglot keys create NAME --requests-per-minute, --tokens-per-minute`"
_PRICES = "`[prices]` has no such price; the built-in table has service tiers: `toolglot prices MODEL`"
_DATABASE = "its data are not imported; toolglot stores keys and spend in `team.database`, responses in `store.path`"
_REDIS = "its data are not imported; toolglot counts limits in Redis if `team.limits` names it"
_BALANCE = "the first target answers, the others are its fallbacks; to balance load, make them a `pool` of one upstream"
_CALLBACKS = "toolglot runs no callbacks: it has logs, `GET /metrics` and OpenTelemetry traces"
_CODE = "toolglot runs no code of other gateways"
_CLIENT = "clients send their own parameters; toolglot sets no defaults"
_PARAMETERS = (
    *("temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "seed", "stop", "n", "reasoning_effort"),
    *("thinking", "frequency_penalty", "presence_penalty", "response_format", "extra_body"),
)

NOT_TAKEN = (
    # Features that toolglot may get: remove the row with the mapping that imports the setting.
    *(
        NotTaken(f"*.{name}", _BUDGETS)
        for name in ("max_budget", "budget_duration", "provider_budget_config", "*budget*")
    ),
    *(
        NotTaken(f"*.{name}", _RATES)
        for name in ("rpm", "tpm", "max_parallel_requests", "default_max_parallel_requests")
    ),
    *(NotTaken(f"*.{name}", _BALANCE) for name in ("weight", "routing_strategy*", "routing_groups", "*affinity*")),
    NotTaken("*_cost*", _PRICES),
    NotTaken("*.cost_*", _PRICES),
    NotTaken("general_settings.database_*", _DATABASE),
    NotTaken("general_settings.store_*", _DATABASE),
    NotTaken("general_settings.*redis*", _REDIS),
    NotTaken("router_settings.redis_*", _REDIS),
    NotTaken("router_settings.cache_*", _REDIS),
    NotTaken("general_settings.*key*", _KEYS),
    NotTaken("litellm_settings.*key_generate*", _KEYS),
    NotTaken("general_settings.*team*", _KEYS),
    NotTaken("litellm_settings.*team*", _KEYS),
    # Settings without an equivalent.
    NotTaken("litellm_settings.*callback*", _CALLBACKS),
    NotTaken("litellm_settings.cache*", "toolglot caches no answers; the prompt caches of the vendors work"),
    NotTaken("*guardrail*", "toolglot has no guardrails"),
    NotTaken("prompts*", "toolglot stores no prompts"),
    NotTaken("general_settings.custom_*", _CODE),
    NotTaken("*callback*", _CALLBACKS),
    NotTaken(
        "*.context_window_fallbacks",
        "there is no rule of this kind: clients get the error and compact the conversation",
    ),
    NotTaken("*.content_policy_fallbacks", "there is no rule of this kind: `fallbacks` are for upstreams that fail"),
    NotTaken("*.enable_pre_call_checks", "there is no rule of this kind: the upstream checks the length of a request"),
    NotTaken("*.retry_after", "toolglot waits as long as the upstream says, at most `retries.longest_wait`"),
    NotTaken("*.retry_policy", "toolglot retries what the vendors' own clients retry"),
    NotTaken("*.model_group_retry_policy", "toolglot retries what the vendors' own clients retry"),
    NotTaken("*.api_version", "Azure addresses of the form `/openai/v1` have no version"),
    NotTaken("environment_variables.*", "set it in the environment that toolglot runs in"),
    NotTaken("mcp_servers", "put the servers under `mcp.servers`: docs/configuration.md, MCP servers"),
    NotTaken("mcp_servers.*", "put the servers under `mcp.servers`: docs/configuration.md, MCP servers"),
    NotTaken("*.pass_through_endpoints", "toolglot has no pass-through: it serves the APIs that it translates"),
    NotTaken("*.alert*", "toolglot sends no alerts: deploy/prometheus has rules for Prometheus"),
    NotTaken("*.*health_check*", "toolglot calls no models to check them; `GET /readyz` asks the gateway itself"),
    *(NotTaken(f"*.litellm_params.{name}", _CLIENT) for name in _PARAMETERS),
    NotTaken(
        "*.litellm_params.drop_params",
        "set `strict` for the model to refuse instead; the receipt lists what is dropped",
    ),
    NotTaken("*.model_info.supports_*", "toolglot finds out what a model supports; `quirks` of the model override it"),
    NotTaken("*.model_info.*", "toolglot has no setting for this; it describes the model for LiteLLM's own pages"),
)
"""Settings that are not imported, most specific first."""
