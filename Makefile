# Each target sets up what it needs; nothing is installed again unless pyproject.toml changed.
PYTHON ?= python3
BIN := .venv/bin
SHARE ?= 1

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*## /\1\t/' | expand -t 8

demo: .venv/ready  ## watch puzzles, reviews, Python and numbers being learned (four minutes)
	$(BIN)/headway tour

test: .venv/ready  ## lint, types, import layers and all tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	@mkdir -p build  # mypy has a single process: it runs beside the tests, and is heard at the end
	$(BIN)/mypy > build/types.txt 2>&1 & types=$$!; $(BIN)/pytest -n auto --dist worksteal; tests=$$?; \
	  wait $$types; types=$$?; cat build/types.txt; exit $$((types + tests))

torture: .venv/ready  ## kills, damage, full disks, fuzzed inputs, ... (45 minutes); ROW=kills for one row, SHARE=0.1 for less
	HEADWAY_TORTURE=$(SHARE) HEADWAY_SEED=$(HEADWAY_SEED) $(BIN)/pytest -n 2 --dist worksteal $(if $(ROW),tests/torture/test_$(ROW).py,tests/torture tests/models)

docs: .venv/ready  ## build the documentation into build/site, without a network
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo 'open build/site/index.html, or serve it: $(BIN)/python -m http.server --directory build/site'

wheel: .venv/ready  ## build the wheel and try it in an empty environment
	rm -rf build/wheel build/empty build/lib build/bdist*
	$(BIN)/python -m build --wheel --outdir build/wheel
	$(PYTHON) -m venv build/empty
	build/empty/bin/python -m pip install --quiet --disable-pip-version-check build/wheel/*.whl
	cd build/empty && bin/python $(CURDIR)/tests/smoke.py

bench: .venv/ready  ## time training and inference against torch.nn and plain code
	$(BIN)/python benchmarks/steps.py
	$(BIN)/python benchmarks/texts.py

format: .venv/ready  ## put the code into its form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove the environment and caches, but no runs
	rm -rf .venv build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache

.venv/ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "headway needs Python 3.11 or newer; name one: make PYTHON=python3.12 ..." >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@# fastText is compiled here; the two tests that read its files are skipped where that fails.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check fasttext 2>/dev/null || echo 'fasttext could not be built'
	@touch $@

.PHONY: help demo test torture docs wheel bench format clean
