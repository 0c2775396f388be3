# Two commands do everything: `make demo` and `make test`. Both create the environment in .venv when it isn't there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint bench lock clean

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Lamina needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Creating the environment in $(VENV) (once; about a minute) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

demo: export LAMINA_HOME := .demo
demo: $(STAMP)
	$(BIN)/lamina curate docs/demo/corpus --context demo
	$(BIN)/lamina query demo "What do I do when the generator overheats?" -k 3

# More processes than processors: many tests wait for a lease, a broker or a deadline.
test: export PYTEST_XDIST_AUTO_NUM_WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 2)')
test: $(STAMP)
	@$(BIN)/python -m pytest -n auto --dist worksteal

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# A first run and a run with nothing to do, over the project's own documents or over CORPUS=folder.
bench: CORPUS ?= docs
bench: $(STAMP)
	@rm -rf .bench
	$(BIN)/python benchmarks/ingest_lamina.py $(CORPUS) .bench
	$(BIN)/python benchmarks/ingest_lamina.py $(CORPUS) .bench

# Needs uv. No index address is written: the lock holds names, versions and hashes.
lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --no-emit-index-url --no-strip-extras \
		--extra dev --extra build pyproject.toml --output-file requirements.lock

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
