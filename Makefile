# Everything runs in .venv, which the first command makes.
# The installed copy of roxy judges; the tests exercise src/. So a mutation of roxy's own
# source never reaches the roxy that is verifying it.

VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find src -name '*.py' -o -name '*.json')
PYTHONS := python3 python3.14 python3.13 python3.12 python3.11 python

BENCHES := machine gate_small gate_unchanged gate_cold gate_subset gate_checks gate_edited \
  verify_own verify_apart verify_crowded memory growth

.PHONY: test verify bench format docs clean

test: $(VENV)/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -n auto --dist worksteal

verify: $(VENV)/installed
	$(BIN)/roxy verify --all

# The table of docs/performance.md on standard output; nothing else goes there.
bench:
	@$(MAKE) --silent $(VENV)/bench $(VENV)/installed >&2
	@for bench in $(BENCHES); do $(BIN)/python bench/$$bench.py || exit 1; done

format: $(VENV)/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/ready
	$(BIN)/python docs/screenshots.py

clean:
	rm -rf $(VENV) build dist

$(VENV)/ready: pyproject.toml
	@for python in $(PYTHONS); do \
	  if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    exec $$python -m venv --clear $(VENV); \
	  fi; \
	done; echo 'roxy needs Python 3.11 or newer on PATH' >&2; exit 1
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --group dev .
	@touch $(VENV)/ready $(VENV)/installed

$(VENV)/installed: $(VENV)/ready $(SOURCES)
	$(BIN)/python -m pip install --quiet --no-deps --force-reinstall .
	@touch $(VENV)/installed

$(VENV)/bench: $(VENV)/ready
	$(BIN)/python -m pip install --quiet --group bench
	@touch $(VENV)/bench
