# Everything here needs make and a Python of at least 3.11, nothing else: the tools come from
# requirements-dev.lock into .venv on first use.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

BIN := .venv/bin
SEED ?=
AT ?=
SECONDS ?= 600
FUZZ_SECONDS ?= 60
WORKERS ?= 3

# Compiled modules are kept, also where the environment says otherwise: every worker of the tests and
# every process that they start would compile all of them again.
export PYTHONDONTWRITEBYTECODE :=

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
	@rm -f $@; \
	install="$(BIN)/python -u -m pip install --disable-pip-version-check --no-input \
	    --progress-bar off --require-hashes --requirement requirements-dev.lock"; \
	if [ ! -t 1 ]; then $$install --quiet && touch $@; else \
	    all=$$(grep -c == requirements-dev.lock); begun=0; \
	    { $$install && touch $@; } | while read -r word what rest; do case $$word in \
	        Collecting) begun=$$((begun + 1)); \
	            printf '\r\033[K      %s of %s: %s' "$$begun" "$$all" "$$what" ;; \
	        Installing) printf '\r\033[K      unpacking %s packages' "$$begun" ;; \
	    esac; done; printf '\r\033[K'; \
	fi; [ -e $@ ]

.venv/.project: .venv/.locked pyproject.toml sdk/pyproject.toml
	@echo "[3/3] .venv: adding the project and its SDK in place"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input --no-deps \
	    --no-build-isolation --editable . --editable sdk
	@touch $@

# --- what one runs -----------------------------------------------------------------------------------

.PHONY: demo
demo: .venv ## the 2:13 a.m. story on real Kafka and Postgres; exit code says whether it held
	@$(BIN)/actionledger demo

.PHONY: up
up: .venv ## start local Kafka, Postgres and every process, and keep their data
	@$(BIN)/actionledger up

.PHONY: test
test: .venv ## all tests, on the same local servers; WORKERS=N for another number than 3
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: sim
sim: .venv ## 200,000 simulated histories; make sim SEED=N repeats one and tells it step by step
	@$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED)) \
		$(if $(HISTORIES),--histories $(HISTORIES)) $(if $(FAULTS),--faults "$(FAULTS)") \
		$(if $(SABOTEUR),--saboteur $(SABOTEUR))

.PHONY: model
model: .venv ## 2,000 orders of what people may say and do, against a plain model; make model RUNS=N
	@$(BIN)/python -m tests.model $(if $(RUNS),--runs $(RUNS)) $(if $(STEPS),--steps $(STEPS))

.PHONY: crash
crash: .venv ## kill and freeze real processes at every named point; make crash AT=POINT for one
	@$(BIN)/python -m tests.crash $(if $(SEED),--seed $(SEED)) $(if $(AT),--at $(AT))

.PHONY: soak
soak: .venv ## ten minutes of traffic while everything is struck at random; SEED=N, SECONDS=N
	@$(BIN)/python -m tests.crash.soak $(if $(SEED),--seed $(SEED)) --seconds $(SECONDS) \
	    --report docs/evidence/soak-$$(date -u +%F).md

.PHONY: counts
counts: .venv ## 100,000 webhooks counted against what became of them, workers and broker killed; WEBHOOKS=N
	@$(BIN)/python -m tests.crash.counts $(if $(WEBHOOKS),--webhooks $(WEBHOOKS))

.PHONY: fuzz
fuzz: .venv ## feed every parser of what strangers write for FUZZ_SECONDS=60 each; SEED=N repeats
	@$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) $(if $(SEED),--seed $(SEED))

.PHONY: bench
bench: .venv ## measure the real processes, one table
	@$(BIN)/python -m benchmarks

.PHONY: pictures
pictures: .venv ## take the pictures of the pages in docs/images anew
	@$(BIN)/python -m tests.browser.pictures

# --- what CI runs ------------------------------------------------------------------------------------

.PHONY: check
check: .venv ## format, lint, types, import layers, house rules
	@echo "[1/5] format"
	@$(BIN)/ruff format --check --quiet . || { echo "run: make format" >&2; exit 1; }
	@echo "[2/5] lint"
	@$(BIN)/ruff check --quiet .
	@echo "[3/5] types"
	@$(BIN)/mypy --no-error-summary
	@echo "[4/5] import layers"
	@$(BIN)/lint-imports --no-logo >.venv/layers.log 2>&1 || { cat .venv/layers.log; exit 1; }
	@echo "[5/5] house rules"
	@$(BIN)/python -m pytest --quiet --no-header tests/test_tidy.py tests/test_packaging.py tests/test_compose.py

.PHONY: format
format: .venv ## put the code into its format
	@$(BIN)/ruff check --quiet --fix-only . && $(BIN)/ruff format --quiet .

.PHONY: lock
lock: ## resolve the lock files again from pyproject.toml (needs uv)
	@for out in requirements.lock requirements-dev.lock; do \
	    echo "$$out"; \
	    case $$out in *-dev.lock) extra="--extra dev" ;; *) extra= ;; esac; \
	    uv pip compile pyproject.toml $$extra --universal --python-version 3.11 --quiet \
	        --generate-hashes --no-annotate --no-header --no-emit-index-url --output-file $$out \
	        || exit 1; \
	done

.PHONY: clean
clean: ## remove the environment and what tools left; local server data stays
	@rm -rf .venv build dist sdk/dist .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	    .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
