#!/bin/sh
# Install the official SDKs that the tests in this folder use. Running it again changes nothing.
#   tests/e2e/setup.sh [PYTHON]    PYTHON is the interpreter that will run the tests (default: python)
set -eu
cd "$(dirname "$0")"
python=${1:-python}

"$python" -m pip install --quiet --requirement requirements.txt

if ! command -v npm >/dev/null; then
    echo "There is no npm: the JavaScript SDKs are left out, and their tests are skipped." >&2
    exit 0
fi
cd js
# The package `node` brings the Node that the newest SDKs need, whatever the machine has.
if [ ! node_modules/.package-lock.json -nt package-lock.json ]; then
    npm ci --silent --no-audit --no-fund
fi
node_modules/.bin/node --version >/dev/null
