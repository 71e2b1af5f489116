# Everything a developer types. `make` alone lists the targets.
# PYTHON=python3.12 chooses the Python that .venv is made with, ARGS="-k circuit" is handed to pytest,
# DATABASE_URL=postgresql://… takes another Postgres than the embedded one, PG_BIN=/usr/lib/postgresql/15/bin lets the
# tests run on that one's programs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH_READY := $(VENV)/.ready-bench
UV := $(BIN)/uv
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes
# Makes .venv match a lock. Where only pip is set up for a mirror of the packages, pip does it.
install = @$(UV) pip sync -q --python $(BIN)/python --require-hashes $(1) || $(PIP) -r $(1)
# One more than there are cores: tests wait for servers as often as they compute.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')
PARALLEL = -n $(WORKERS) --dist loadfile --no-loadscope-reorder
QUICK := tests/architecture tests/config tests/giftcards tests/reports tests/safe_http tests/schedules tests/telemetry tests/sql
ARGS ?=
WIRE ?=

.DEFAULT_GOAL := help
.PHONY: help venv venv-bench demo dev test test-quick vercel-check initial-migration migrate bench lint lock

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(READY)  ## .venv with all packages (the others see to it themselves)

venv-bench: $(BENCH_READY)  ## the same with the peers of the bench

demo: $(READY)  ## 120 orders become gift cards, with all that goes wrong in real life (WIRE=supabase: by supabase-py)
	$(if $(filter-out psycopg supabase,$(WIRE)),$(error WIRE is psycopg or supabase))
	@$(BIN)/python -m demo $(if $(filter supabase,$(WIRE)),--supabase "$(BIN)/python -m tests.support.postgrest")

dev: $(READY)  ## the web application and its minute clock, on http://127.0.0.1:8000 (PORT)
	@$(BIN)/python -m dev.serve

test: $(READY)  ## every test (but for the build: make vercel-check)
	@$(BIN)/python -m pytest $(PARALLEL) --ignore=tests/vercel $(ARGS)

test-quick: $(READY)  ## the heart of it: pure parts and SQL, what is not slow
	@$(BIN)/python -m pytest $(PARALLEL) -m "not slow" $(QUICK) $(ARGS)

vercel-check: $(READY)  ## build for Vercel, serve what came out, and what a cold start costs: 2 minutes (part of .ci/run)
	@$(BIN)/python -m pytest tests/vercel $(ARGS)

initial-migration:  ## write supabase/migrations/…_initial.sql from supabase/schemas (until the first release is tagged)
	@cat supabase/schemas/*.sql > supabase/migrations/20261128120000_initial.sql

migrate: $(READY)  ## apply the migrations that the database has not had (DATABASE_URL)
	@$(BIN)/python -m dev.migrate

bench: $(BENCH_READY)  ## what it costs, side by side with Procrastinate and PgQueuer: 20 minutes (ARGS=--quick: 2)
	@$(BIN)/python -m bench $(ARGS)

lint: $(READY)  ## style and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

lock: $(UV)  ## write requirements*.txt from requirements*.in (ARGS=--upgrade: newer versions)
	@for part in "" -dev -bench; do \
		$(UV) pip compile -q --universal --python-version 3.11 --fork-strategy fewest --generate-hashes --no-emit-index-url \
			--custom-compile-command "make lock" requirements$$part.in -o requirements$$part.txt $(ARGS) || exit 1; \
	done

# It installs the rest in seconds, where pip takes a minute.
$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed, and $(PYTHON) is not: try make PYTHON=python3.12 (or 3.11, 3.13)"; exit 1; }
	@echo "Installing packages into $(VENV) (once; a minute at most) …"
	@$(PYTHON) -m venv $(VENV) || { echo "Python's venv is missing: on Debian and Ubuntu, apt install python3-venv"; exit 1; }
	@sed -n '/^uv==/,/# via/p' requirements-dev.txt > $(VENV)/uv.txt
	@$(PIP) -r $(VENV)/uv.txt

$(READY): requirements-dev.txt | $(UV)
	$(call install,requirements-dev.txt)
	@touch $@

$(BENCH_READY): requirements-bench.txt $(READY)
	$(call install,requirements-bench.txt)
	@touch $@
