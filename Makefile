# The two commands of the README are `make demo` and `make test`; each makes what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-compiled docs check build-vectors bench fuzz clean

demo: $(VENV)/.installed
	@PATH="$(abspath $(BIN)):$$PATH" sh conformance/demo.sh

test: $(VENV)/.installed-dev docs
	$(BIN)/ruff check spec reference conformance
	$(BIN)/mypy
	$(BIN)/python -m ckptspec.conformance.build --check
	CKPTSPEC_SITE="$(abspath site)" $(BIN)/pytest -q -n auto
	$(BIN)/python -m ckptspec.conformance.fuzz run --seconds 60 --jobs 2 --if-available

# The compiled loops, with numba in a folder of its own: all other tests run without it.
test-compiled: $(VENV)/.installed-dev
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade --no-deps --target $(VENV)/fast numba llvmlite
	PYTHONPATH="$(abspath $(VENV)/fast)" $(BIN)/python -c "import numba"
	PYTHONPATH="$(abspath $(VENV)/fast)" $(BIN)/pytest -q -k "Numba or numba or compiled" \
		reference/ckptspec/conformance/tests/test_checksum.py reference/ckptspec/conformance/tests/test_elements.py

# Builds the site of the documentation into site/; `python -m http.server -d site` shows it, search included.
docs: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --strict --quiet

# Rewrites the golden files from the case definitions.
build-vectors: $(VENV)/.installed-dev
	$(BIN)/python -m ckptspec.conformance.build

bench: $(VENV)/.installed-bench
	$(BIN)/python -m ckptspec.conformance.bench

# Looks for inputs that break the reader, for so many seconds in all: docs/fuzzing.md.
FUZZ_TIME ?= 600
fuzz: $(VENV)/.installed-dev
	$(BIN)/python -m ckptspec.conformance.fuzz run --seconds $(FUZZ_TIME)

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
	rm -rf $(VENV) build dist demo site .mypy_cache .ruff_cache .pytest_cache .hypothesis .fuzz
