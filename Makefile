# The two commands of the README are `make demo` and `make test`; each makes what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test docs build-vectors bench dist smoke smoke-all smoke-oldest clean

# What `make test` tries of the packages: `smoke` on this Python, `smoke-all` on all that the machine has.
SMOKE ?= smoke

demo: $(VENV)/.installed
	@PATH="$(abspath $(BIN)):$$PATH" sh conformance/demo.sh

test: $(VENV)/.installed-dev docs
	$(BIN)/ruff check spec reference conformance docs .ci
	$(BIN)/mypy
	$(BIN)/python -m ckptspec.conformance.build --check
	CKPTSPEC_SITE="$(abspath site)" $(BIN)/pytest -q -n auto
	$(MAKE) --no-print-directory $(SMOKE)

# Builds the site of the documentation into site/; `python -m http.server -d site` shows it, search included.
docs: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --strict --quiet

# Rewrites the golden files from the case definitions.
build-vectors: $(VENV)/.installed-dev
	$(BIN)/python -m ckptspec.conformance.build

bench: $(VENV)/.installed-bench
	$(BIN)/python -m ckptspec.conformance.bench

# Builds the source distribution, and the wheel from it, into dist/; the same files give the same bytes.
dist: $(VENV)/.installed-dev
	$(BIN)/python .ci/packages.py build dist

# Builds twice and compares, looks at what is in the packages, and runs the smoke suite where the wheel alone is installed.
smoke: $(VENV)/.installed-dev
	$(BIN)/python .ci/packages.py smoke

smoke-all: $(VENV)/.installed-dev
	$(BIN)/python .ci/packages.py smoke --all

smoke-oldest: $(VENV)/.installed-dev
	$(BIN)/python .ci/packages.py smoke --oldest

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
