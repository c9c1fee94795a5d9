"""The file that `toolglot config init` writes: every line a comment, so that it changes nothing until it is edited."""

TEMPLATE = """\
# toolglot.toml: the configuration of toolglot. Everything has a default; uncomment what you want to change.
# `toolglot config check` reads it and says what is wrong; `toolglot config schema` prints its JSON Schema.
# ${NAME} and ${NAME:-default} come from the environment; a key may also be in a file: "file:/run/secrets/openai".

# Where a model goes that nothing else claims.
# default_upstream = "local"

# Also use the keys in the environment and the local servers that answer.
# discover = true

# Refuse whatever would lose something in translation.
# strict = false

# [server]
# host = "127.0.0.1"
# port = 4141
# keys = ["${TOOLGLOT_KEY}"]          # what clients must show; needed beyond loopback

# An upstream that has a vendor's name needs no more than a key, and finds that in the environment too.
# [upstreams.openrouter]
# key = "${OPENROUTER_API_KEY}"

# Any other server: its dialect (openai_chat, openai_responses, anthropic, gemini) and its address.
# [upstreams.local]
# dialect = "openai_chat"
# base_url = "http://127.0.0.1:8000/v1"
# models = ["qwen3-coder"]            # requests for these go here
# timeouts = { connect = 10, first_byte = 600, idle = 300 }
# retries = { attempts = 3, first_wait = 0.5, longest_wait = 30 }

# What a name stands for: here everything that Claude Code asks for goes to a local model, then to OpenRouter.
# [models."claude-*"]
# upstream = "local"
# model = "qwen3-coder"
# fallbacks = ["openrouter/anthropic/claude-*"]
# context_window = 131072
# quirks = { max_tools = 128 }        # where the model differs from its dialect

# [limits]
# body = 33554432                     # bytes of a request
# keepalive = 15                      # seconds of silence before a stream's client hears something

# [log]
# format = "auto"                     # text on a terminal, else json
# level = "info"
"""
