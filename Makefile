# The two commands of the README are `make demo` and `make test`; each makes what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test docs check build-vectors bench mutate clean

demo: $(VENV)/.installed
	@PATH="$(abspath $(BIN)):$$PATH" sh conformance/demo.sh

test: $(VENV)/.installed-dev docs
	$(BIN)/ruff check spec reference conformance
	$(BIN)/mypy
	$(BIN)/python -m ckptspec.conformance.build --check
	CKPTSPEC_SITE="$(abspath site)" $(BIN)/pytest -q -n auto

# Builds the site of the documentation into site/; `python -m http.server -d site` shows it, search included.
docs: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --strict --quiet

# Rewrites the golden files from the case definitions.
build-vectors: $(VENV)/.installed-dev
	$(BIN)/python -m ckptspec.conformance.build

bench: $(VENV)/.installed-bench
	$(BIN)/python -m ckptspec.conformance.bench

# Changes each check of the project and looks whether a case or test fails: docs/mutation.md is made of the results.
mutate: $(VENV)/.installed-dev
	$(BIN)/python -m ckptspec.conformance.mutation --search --write

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-bench: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[bench]'
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) build dist demo site .mypy_cache .ruff_cache .pytest_cache .hypothesis
