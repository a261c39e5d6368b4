# The two commands of the README are `make demo` and `make test`; each makes what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-compiled docs build-vectors bench fuzz mutate dist smoke smoke-all smoke-oldest clean

# What `make test` tries of the packages: `smoke` on this Python, `smoke-all` on all that the machine has.
SMOKE ?= smoke

demo: $(VENV)/.installed
	@PATH="$(abspath $(BIN)):$$PATH" sh conformance/demo.sh

test: $(VENV)/.installed-dev docs
	$(BIN)/ruff check spec reference conformance docs .ci
	$(BIN)/mypy
	$(BIN)/python -m ckptspec.conformance.build --check
	CKPTSPEC_SITE="$(abspath site)" $(BIN)/pytest -q -n auto
	$(BIN)/python -m ckptspec.conformance.fuzz run --seconds 40 --jobs 2 --seed 1 --if-available
	$(MAKE) --no-print-directory $(SMOKE)

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
	rm -rf $(VENV) build dist demo site .mypy_cache .ruff_cache .pytest_cache .hypothesis .fuzz
