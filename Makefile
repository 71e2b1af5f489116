# Everything a developer types. `make` alone lists the targets.
# PYTHON=python3.12 chooses the Python that .venv is made with, ARGS="-k circuit" is handed to pytest,
# DATABASE_URL=postgresql://… takes another Postgres than the embedded one, PG_BIN=/usr/lib/postgresql/15/bin lets the
# tests run on that one's programs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What is installed: what `make demo` needs, what tests need besides, and what `make bench` compares.
DEMO_READY := $(VENV)/.ready-demo
READY := $(VENV)/.ready
BENCH_READY := $(VENV)/.ready-bench
UV := $(BIN)/uv
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes
# Installs a lock; $(1) is `sync`, which removes what the lock does not name, or `install -r`. Where only pip is set up
# for a mirror of the packages, pip does it.
install = @$(UV) -q pip $(1) $(2) --python $(BIN)/python --require-hashes || $(PIP) -r $(2)
packages = $$(grep -c '^[^ \#]' $(1)) packages
# As many workers as the chosen files can occupy: tests/conftest.py.
WORKERS ?= auto
PARALLEL = -n $(WORKERS) --dist loadfile --no-loadscope-reorder
QUICK := tests/architecture tests/config tests/giftcards tests/reports tests/safe_http tests/schedules tests/telemetry tests/sql
# What takes a fifth of their time: properties, hostile rows, and scripts by psql.
LONG := $(addprefix --ignore=tests/sql/,scripts test_alerts_hostile.py test_books_property.py)
ARGS ?=
WIRE ?=

# Tests start many processes, which would compile every module each time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv venv-bench demo pictures dev test test-quick vercel-check simulate models crash upgrade soak initial-migration migrate secrets bench lint lock

help:  ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(READY)  ## make .venv with all packages for tests

venv-bench: $(BENCH_READY)  ## the same, with what make bench compares

demo: $(DEMO_READY)  ## turn orders into gift cards (ARGS=-v, WIRE=supabase)
	$(if $(filter-out psycopg supabase,$(WIRE)),$(error WIRE is psycopg or supabase))
	@$(BIN)/python -m demo $(if $(filter supabase,$(WIRE)),--supabase "$(BIN)/python -m tests.support.postgrest") $(ARGS)

pictures: $(DEMO_READY)  ## take README's pictures of the last demo (Chromium)
	@$(BIN)/python -m demo.pictures

dev: $(DEMO_READY)  ## serve http://127.0.0.1:8000 with a minute clock (PORT)
	@$(BIN)/python -m dev.serve

test: $(READY)  ## run every test but the build (make vercel-check)
	@$(BIN)/python -m pytest $(PARALLEL) --ignore=tests/vercel $(ARGS)

test-quick: $(READY)  ## run the fast tests: pure parts and SQL
	@$(BIN)/python -m pytest $(PARALLEL) -p no:schemathesis -m "not slow" $(QUICK) $(LONG) $(ARGS)

vercel-check: $(READY)  ## build for Vercel, serve it, time a cold start (2 min)
	@$(BIN)/python -m pytest tests/vercel $(ARGS)

simulate: $(READY)  ## simulate nights of faults (4 min; SEEDS=1000, FIRST=1)
	@$(BIN)/python -m proof.simulation --seeds $(or $(SEEDS),1000) --first $(or $(FIRST),1) $(ARGS)

models: $(READY)  ## check the models of leases, circuits, wakes (spin, gcc)
	@$(BIN)/python -m proof.models $(ARGS)

crash: $(READY)  ## kill real processes under orders (6 min; KILLS=1000)
	@$(BIN)/python -m proof.crash --kills $(or $(KILLS),1000) $(ARGS)

upgrade: $(READY)  ## upgrade under load and roll back (2 min; JOBS=5000)
	@$(BIN)/python -m proof.upgrade --jobs $(or $(JOBS),5000) $(ARGS)

soak: $(BENCH_READY)  ## run orders and faults for hours, and plot (HOURS=1)
	@$(BIN)/python -m proof.soak --hours $(or $(HOURS),1) $(ARGS)

initial-migration:  ## write the initial migration (until the first tag)
	@cat supabase/schemas/*.sql > supabase/migrations/20261128120000_initial.sql

migrate: $(DEMO_READY)  ## apply pending migrations (DATABASE_URL)
	@$(BIN)/python -m dev.migrate

secrets: $(DEMO_READY)  ## add missing secrets to .env.production, change none
	@$(BIN)/python -m dev.production

bench: $(BENCH_READY)  ## compare with other processors (20 min; ARGS=--quick: 3)
	@$(BIN)/python -m bench $(ARGS)

lint: $(READY)  ## check style, types and migrations
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/squawk supabase/migrations/*.sql

lock: $(UV)  ## write requirements*.txt (ARGS=--upgrade: newer)
	@for part in "" -demo -dev -bench; do \
		$(UV) pip compile -q --universal --python-version 3.11 --fork-strategy fewest --generate-hashes --no-emit-index-url \
			--custom-compile-command "make lock" requirements$$part.in -o requirements$$part.txt $(ARGS) || exit 1; \
	done

# It installs the rest in seconds, where pip takes a minute.
$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed, and $(PYTHON) is not: try make PYTHON=python3.12 (or 3.11, 3.13)"; exit 1; }
	@echo "Making $(VENV) and installing uv, which installs packages …"
	@$(PYTHON) -m venv $(VENV) || { echo "Python's venv is missing: on Debian and Ubuntu, apt install python3-venv"; exit 1; }
	@sed -n '/^uv==/,/# via/p' requirements-demo.txt > $(VENV)/uv.txt
	@$(PIP) -r $(VENV)/uv.txt

$(DEMO_READY): requirements-demo.txt | $(UV)
	@echo "Installing $(call packages,requirements-demo.txt), a Postgres server among them …"
	$(call install,install -r,requirements-demo.txt)
	@touch $@

$(READY): requirements-dev.txt | $(UV)
	@echo "Installing $(call packages,requirements-dev.txt) for tests …"
	$(call install,sync,requirements-dev.txt)
	@touch $@

$(BENCH_READY): requirements-bench.txt $(READY)
	@echo "Installing $(call packages,requirements-bench.txt) for benchmarks …"
	$(call install,sync,requirements-bench.txt)
	@touch $@
