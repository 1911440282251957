# Everything here needs make and a Python of at least 3.11, nothing else: the tools come from
# requirements-dev.lock into .venv on first use.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

BIN := .venv/bin
# Where the product's own code is; the SDK is a distribution of its own.
CODE := ledger projections reconciler streams gateway sdk benchmarks tests
SEED ?=

.PHONY: help
help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z.][a-z.-]*:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

# --- environment -------------------------------------------------------------------------------

# A stamp is written last, so an install that was cut off is done again.
.PHONY: .venv
.venv: .venv/.project ## make or update the environment from the lock

.venv/.locked: requirements-dev.lock
	@python="$(PYTHON)"; \
	for candidate in $${python:-python3.11 python3.12 python3.13 python3.14 python3}; do \
	    if "$$candidate" -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' \
	        >/dev/null 2>&1; then found=$$candidate; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	    echo "No Python >= 3.11 with venv was found: install one (Debian: python3-venv)" \
	         "or name it, as in make PYTHON=/path/to/python3 .venv" >&2; exit 1; \
	fi; \
	echo "[1/3] .venv: creating with $$("$$found" --version)"; \
	"$$found" -m venv .venv
	@echo "[2/3] .venv: installing the locked packages (about 250 MB on the first run)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input \
	    --require-hashes --requirement requirements-dev.lock
	@touch $@

.venv/.project: .venv/.locked pyproject.toml sdk/pyproject.toml
	@echo "[3/3] .venv: adding the project and its SDK in place"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input --no-deps \
	    --no-build-isolation --editable . --editable sdk
	@touch $@
