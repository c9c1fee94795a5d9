# `make demo` and `make test` set up all they need on a machine that has Python 3.11 or newer and nothing else.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev
INSTALLED_E2E := $(VENV)/.installed-e2e

# Some images set it. The tests start many processes, and each would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo docs docs-serve package lock announce test test-all test-core test-e2e set-up-e2e lint format bench bench-quick bench-core bench-workers mutants picture clean

help:
	@echo "make demo     a worked translation in the terminal"
	@echo "make docs     build the documentation site in build/docs/site and check its links; docs-serve shows it"
	@echo "make test     lint, types and tests, with a sample of the rows of large tables (five minutes)"
	@echo "make test-all all rows, and end to end: the official SDKs, coding agents, an inference engine (1.5 GB)"
	@echo "make lint     lint and types alone"
	@echo "make format   rewrite the code in the project's format"
	@echo "make bench    measure the gateway beside others (an hour); bench-quick: beside nginx alone (five minutes)"
	@echo "make bench-core  measure the core; bench-workers: one worker beside two (two minutes)"
	@echo "make mutants  break the code in 200 places and see whether the tests notice"
	@echo "make picture  record Claude Code in a terminal again, and draw the README's picture"
	@echo "make package  build the wheel and the source distribution in dist/, and use them on every Python found"
	@echo "make lock     write the exact versions for CI and releases to requirements/"
	@echo "make clean    remove what make has made"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "toolglot needs Python 3.11 or newer: make PYTHON=/path/to/python3"; exit 1; }
	@echo "setting up $(VENV): this takes half a minute, the first time only"
	@$(PYTHON) -m venv $(VENV)

# With LOCKED=1, as CI and releases do: the exact versions in requirements/, with their hashes.
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
ifdef LOCKED
$(INSTALLED): $(BIN)/python pyproject.toml requirements/dev.txt
	@$(PIP) install --require-hashes --requirement requirements/dev.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(INSTALLED_DEV): $(INSTALLED)
	@touch $@
else
$(INSTALLED): $(BIN)/python pyproject.toml
	@$(PIP) install --editable .
	@touch $@

$(INSTALLED_DEV): $(INSTALLED)
	@$(BIN)/python -m scripts.dependency_group dev | $(PIP) install --requirement /dev/stdin
	@touch $@
endif

# setup.sh changes its directory and wants an absolute path.
$(INSTALLED_E2E): $(INSTALLED_DEV) tests/e2e/requirements.txt $(wildcard tests/e2e/*/package-lock.json)
	@tests/e2e/setup.sh $(CURDIR)/$(BIN)/python
	@touch $@

demo: $(INSTALLED)
	@$(BIN)/python -m toolglot.demo

package: $(INSTALLED_DEV)
	rm -rf dist
	$(BIN)/python -m scripts.try_wheel $(PYTHONS)
	$(BIN)/python -m scripts.sbom --output dist/sbom.cdx.json

lock: $(INSTALLED_DEV)
	@$(BIN)/python -m scripts.dependency_group lock | $(PIP) install --requirement /dev/stdin
	$(BIN)/python -m scripts.lock $(OPTIONS)

docs: $(INSTALLED_DEV)
	@$(BIN)/python -m scripts.docs_site build

PORT ?= 8000

docs-serve: $(INSTALLED_DEV)
	@$(BIN)/python -m scripts.docs_site serve --port $(PORT)

# Of each test some rows of its table and some of Hypothesis' examples, on all cores.
test: announce lint
	$(BIN)/python -m pytest --quiet --numprocesses auto --rows $(ROWS) --hypothesis-profile quick --ignore=tests/e2e

announce:
	@echo "make test takes about five minutes on two cores, and needs no network once everything is installed"

ROWS ?= 2

# Everything, once all is installed: two jobs that take about as long as each other, and what lint finds beside them.
# What a machine without Node, the SDKs, the agents or the engine skips, nothing may skip here.
test-all: set-up-e2e
	@$(MAKE) --no-print-directory --jobs 3 test-core lint test-e2e

# What uses the same ports, and what waits for processes more than it computes.
WITH_E2E := tests/server tests/deploy tests/docs tests/cli

test-core: $(INSTALLED_E2E)
	TOOLGLOT_NO_SKIPS=1 $(BIN)/python -m pytest --ignore=tests/e2e $(WITH_E2E:%=--ignore=%)

test-e2e: $(INSTALLED_E2E)
	TOOLGLOT_NO_SKIPS=1 $(BIN)/python -m pytest tests/e2e $(WITH_E2E)

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
	$(BIN)/python -m bench $(OPTIONS)

bench-quick: $(INSTALLED_DEV)
	$(BIN)/python -m bench --quick $(OPTIONS)

bench-core: $(INSTALLED_DEV)
	$(BIN)/python -m bench.core
	$(BIN)/python -m bench.textcalls

bench-workers: $(INSTALLED_DEV)
	$(BIN)/python -m bench.workers

mutants: $(INSTALLED_DEV)
	$(BIN)/python -m tests.mutate

# Needs tmux.
picture: $(INSTALLED_E2E)
	$(BIN)/python -m tests.docs.picture.record
	$(BIN)/python -m tests.docs.picture.render

clean:
	rm -rf tests/e2e/*/node_modules bench/.cache
	rm -rf $(VENV) dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis
