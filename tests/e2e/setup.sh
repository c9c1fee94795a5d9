#!/bin/sh
# Install what the tests in this folder use: the SDKs, the coding agents, MCP servers, the inference engine. About 1.5 GB in all.
# Running it again changes nothing.
#   tests/e2e/setup.sh [PYTHON]    PYTHON is the interpreter that will run the tests (default: python)
set -eu
cd "$(dirname "$0")"
python=${1:-python}

"$python" -m pip install --quiet --requirement requirements.txt

if ! command -v npm >/dev/null; then
    echo "There is no npm: the JavaScript SDKs, the agents and the MCP servers are left out, and their tests are skipped." >&2
    exit 0
fi

# What the lock file of a folder names, unless it is there already.
install() (
    cd "$1"
    shift
    if [ ! node_modules/.package-lock.json -nt package-lock.json ]; then
        npm ci --silent --no-audit --no-fund "$@"
    fi
)
# The package `node` brings the Node that the newest SDKs and agents need, whatever the machine has.
install js
js/node_modules/.bin/node --version >/dev/null
# The install scripts of agents and servers build or fetch what is not needed here.
install agents --ignore-scripts
install mcp --ignore-scripts
