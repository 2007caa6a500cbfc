# Needs python3 (3.11 or newer, with venv) and make; everything else goes into .venv.

PYTHON ?= python3
PYTEST_ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install test quick check rows wheel-check demo pictures bench proof lock clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMP) ## Create .venv with the pinned dependencies and this package

$(STAMP): pyproject.toml requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Duework needs Python 3.11 or newer; choose one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "$(PYTHON) cannot create virtual environments: ensurepip is missing." >&2; \
		  echo "On Debian and Ubuntu, install the package python3-venv and run make again." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --require-hashes -r requirements/dev.txt
	$(PIP) install --no-build-isolation --no-deps -e .
	@touch $@

# A process for each core, with a PostgreSQL server of its own; `PYTEST_ARGS="-n 0 ..."` is one process.
SPREAD = -n auto --maxprocesses 8 --dist loadgroup --no-loadscope-reorder

test: install ## Run every test, on SQLite and PostgreSQL (PYTEST_ARGS=... is passed on)
	$(BIN)/python -m pytest $(SPREAD) $(PYTEST_ARGS)

quick: install ## Run the fast tests: no PostgreSQL, no processes, nothing marked slow
	$(BIN)/python -m pytest -m "not slow" -k "not postgres" --ignore=tests/processes $(PYTEST_ARGS)

check: install ## Check formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

rows: install ## Count the rows of the systems' specification: built, refuted, open
	$(BIN)/python -m systems.rows

# Those that are not on this machine are left out; they may be paths.
PYTHONS ?= python3.11 python3.12 python3.13 python3.14

wheel-check: install ## Build the wheel, install it for each of PYTHONS and run hello.py from it
	$(BIN)/python -m tests.support.wheel $(PYTHONS)

# `make demo DEMO_ARGS=--check` plays it headless and judges the score.
DEMO_ARGS ?=

demo: install ## Start five systems on local stand-ins with their pages, and disturb them
	$(BIN)/python -m systems.demo $(DEMO_ARGS)

pictures: install ## Play the demo for two minutes and take pictures of the pages, into docs/pictures
	$(BIN)/python -m tests.support.pictures docs/pictures

# Other libraries go into environments of their own under build/bench. PEERS=0 leaves them out.
PEERS ?= 1
BENCH_ARGS ?=

bench: install ## Measure it beside the raw databases and, unless PEERS=0, beside other libraries
	$(BIN)/python -m bench.run $(if $(filter 0,$(PEERS)),--no-peers,--peers) $(BENCH_ARGS)

PROOF_ARGS ?=

proof: install ## Show what the engine survives, exhaustively, and write PROOF.md (takes an hour or more)
	$(BIN)/python -m proof.run $(PROOF_ARGS)

# Keeps the pins that still fit; `make lock LOCK_ARGS=--upgrade` moves all of them.
LOCK_ARGS ?=
LOCK = build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header $(LOCK_ARGS) pyproject.toml

lock: ## Pin the dependencies of pyproject.toml again, with hashes, in requirements/
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip --disable-pip-version-check --quiet install 'uv>=0.13,<0.14'
	@mkdir -p requirements
	$(LOCK) --output-file requirements/runtime.txt
	$(LOCK) --all-extras --group dev --constraint requirements/runtime.txt --output-file requirements/dev.txt

clean: ## Remove .venv, caches and build output
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests bench proof systems -name __pycache__ -type d -prune -exec rm -rf {} +
