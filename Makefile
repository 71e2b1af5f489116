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

# Tests start many processes, which would compile every module each time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv venv-bench demo dev test test-quick vercel-check initial-migration migrate secrets bench lint lock

help:  ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(READY)  ## make .venv with all packages (the other targets do it, too)

venv-bench: $(BENCH_READY)  ## the same, with what make bench compares

demo: $(READY)  ## turn 120 orders into gift cards (or WIRE=supabase)
	$(if $(filter-out psycopg supabase,$(WIRE)),$(error WIRE is psycopg or supabase))
	@$(BIN)/python -m demo $(if $(filter supabase,$(WIRE)),--supabase "$(BIN)/python -m tests.support.postgrest")

dev: $(READY)  ## serve http://127.0.0.1:8000 with a minute clock (PORT)
	@$(BIN)/python -m dev.serve

test: $(READY)  ## run every test but the build (make vercel-check)
	@$(BIN)/python -m pytest $(PARALLEL) --ignore=tests/vercel $(ARGS)

test-quick: $(READY)  ## run the fast tests: pure parts and SQL
	@$(BIN)/python -m pytest $(PARALLEL) -m "not slow" $(QUICK) $(ARGS)

vercel-check: $(READY)  ## build for Vercel, serve the build, time a cold start (2 min)
	@$(BIN)/python -m pytest tests/vercel $(ARGS)

initial-migration:  ## write the initial migration (until the first tag)
	@cat supabase/schemas/*.sql > supabase/migrations/20261128120000_initial.sql

migrate: $(READY)  ## apply pending migrations (DATABASE_URL)
	@$(BIN)/python -m dev.migrate

secrets: $(READY)  ## add missing secrets to .env.production, change none
	@$(BIN)/python -m dev.production

bench: $(BENCH_READY)  ## compare with other job processors (20 min; ARGS=--quick: 2)
	@$(BIN)/python -m bench $(ARGS)

lint: $(READY)  ## check style and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

lock: $(UV)  ## write requirements*.txt (ARGS=--upgrade: newer versions)
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
