# `make demo` and `make test` set up all they need on a machine that has Python 3.11 or newer and nothing else.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev
INSTALLED_E2E := $(VENV)/.installed-e2e

.PHONY: help demo test test-all test-e2e set-up-e2e lint format bench bench-quick bench-core bench-workers mutants clean

help:
	@echo "make demo     a worked translation in the terminal"
	@echo "make test     lint, types and tests"
	@echo "make test-all the same, and end to end: the official SDKs, coding agents, an inference engine (1.5 GB)"
	@echo "make lint     lint and types alone"
	@echo "make format   rewrite the code in the project's format"
	@echo "make bench    measure the gateway beside others (40 minutes); bench-quick: beside nginx alone (two minutes)"
	@echo "make bench-core  measure the core; bench-workers: one worker beside two (two minutes)"
	@echo "make mutants  break the code in 200 places and see whether the tests notice"
	@echo "make clean    remove what make has made"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "toolglot needs Python 3.11 or newer: make PYTHON=/path/to/python3"; exit 1; }
	@echo "setting up $(VENV): this takes half a minute, the first time only"
	@$(PYTHON) -m venv $(VENV)

$(INSTALLED): $(BIN)/python pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

# The dev group is read from pyproject.toml here, because only recent versions of pip know `--group`.
$(INSTALLED_DEV): $(INSTALLED)
	@$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["dev"], sep="\n")' \
		| $(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement /dev/stdin
	@touch $@

# setup.sh changes its directory and wants an absolute path.
$(INSTALLED_E2E): $(INSTALLED_DEV) tests/e2e/requirements.txt $(wildcard tests/e2e/*/package-lock.json)
	@tests/e2e/setup.sh $(CURDIR)/$(BIN)/python
	@touch $@

demo: $(INSTALLED)
	@$(BIN)/python -m toolglot.demo

# Side by side the two take about the same time if the second has these as well.
SHARED := tests/server tests/upstream tests/bench
SIDE_BY_SIDE = $(and $(filter test,$(MAKECMDGOALS)),$(filter test-e2e,$(MAKECMDGOALS)))

# Together with the tests end to end it leaves to those what would be skipped here.
test: lint
	$(BIN)/python -m pytest $(if $(filter test-all test-e2e,$(MAKECMDGOALS)),--ignore=tests/e2e) \
		$(if $(SIDE_BY_SIDE),$(SHARED:%=--ignore=%))

# Not before `test`: what is installed for one must not change under the other. With `make set-up-e2e` before it,
# `make -j 2 test test-e2e` runs both at once.
test-all: test
	@$(MAKE) --no-print-directory test-e2e

# What a machine without Node, the SDKs, the agents or the engine skips, nothing may skip here.
test-e2e: $(INSTALLED_E2E)
	TOOLGLOT_NO_SKIPS=1 $(BIN)/python -m pytest tests/e2e $(if $(SIDE_BY_SIDE),$(SHARED))

set-up-e2e: $(INSTALLED_E2E)

lint: $(INSTALLED_DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED_DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Needs a C compiler, taskset and nginx; peers come from the registries, with Node and Go where they are there.
bench: $(INSTALLED_DEV)
	$(BIN)/python -m bench

bench-quick: $(INSTALLED_DEV)
	$(BIN)/python -m bench --quick

bench-core: $(INSTALLED_DEV)
	$(BIN)/python -m bench.core
	$(BIN)/python -m bench.textcalls

bench-workers: $(INSTALLED_DEV)
	$(BIN)/python -m bench.workers

mutants: $(INSTALLED_DEV)
	$(BIN)/python -m tests.mutate

clean:
	rm -rf tests/e2e/*/node_modules bench/.cache
	rm -rf $(VENV) dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis
