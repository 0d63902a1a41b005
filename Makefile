# Two commands for newcomers: `make matrix` and `make test`. The rest is for those who work on torchsmith.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
.DEFAULT_GOAL := help
# Without bytecode each process that a test starts would compile what it imports again.
unexport PYTHONDONTWRITEBYTECODE
# Plugins are named: of those that it finds by itself, pytest would rewrite the packages, all of Hypothesis.
PYTEST := PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 $(BIN)/python -m pytest -p xdist.plugin -p _hypothesis_pytestplugin \
	-n auto --dist loadfile --no-loadscope-reorder

.PHONY: help matrix test test-all test-lowest check lint pages site golden facts flips verify-real mutations faults load bench clean

help:
	@echo "make matrix   create .venv, install torchsmith, write the default workspace into ./workspace"
	@echo "make test     install what the tests need and run them; a few minutes"
	@echo "make test-all the same with the long tests (random, mutations, farms), as CI does"
	@echo "make test-lowest  the tests that depend on libraries, with the lowest versions that pyproject.toml allows"
	@echo "make check    lint, types, and whether generated pages are fresh"
	@echo "make facts    prove the catalog against ptxas, gcc, archspec and LLVM"
	@echo "make flips    a thousand wrong facts put into the catalog, and which check catches each"
	@echo "make verify-real  real wheels (3 GB) against cuobjdump"
	@echo "make golden   write the agreed recipes of tests/recipe/golden again"
	@echo "make pages    write the generated pages again"
	@echo "make mutations  how many mistakes the audit catches and names, and which it misses"
	@echo "make faults N=300  kill and starve every writing verb; exit 1 at the first torn file"
	@echo "make load     1,000 derivations on 16 loopback builders that are killed at random"
	@echo "make bench    print the table of ratios"
	@echo "make site     build the documentation into ./site, warnings as errors"

$(VENV)/.installed: pyproject.toml tools/venv.sh
	sh tools/venv.sh $(PYTHON) $(VENV)
	touch $@

$(VENV)/.test-installed: pyproject.toml tools/venv.sh
	sh tools/venv.sh $(PYTHON) $(VENV) '[test]'
	touch $(VENV)/.installed $@

$(VENV)/.dev-installed: pyproject.toml tools/venv.sh
	sh tools/venv.sh $(PYTHON) $(VENV) '[dev]'
	touch $(VENV)/.installed $(VENV)/.test-installed $@

matrix: $(VENV)/.installed
	test -e workspace/torchsmith.toml || $(BIN)/torchsmith init workspace --profile seed
	$(BIN)/torchsmith apply --workspace workspace --yes
	$(BIN)/torchsmith list --workspace workspace

test: $(VENV)/.test-installed
	sh tools/system-parts.sh
	$(PYTEST) -m 'not long'

# Where versions matter: structs, decoding, parsing of Nix and TOML, the solver, GPU and CPU code.
LOWEST_TESTS := tests/core tests/matrix tests/catalog/test_builtin.py tests/recipe/test_template.py tests/recipe/read \
	tests/workspace/test_settings.py tests/host/test_cover.py tests/host/test_detect.py tests/artifact/test_verdict.py \
	tests/artifact/test_bundle.py tests/record tests/webpage/test_document.py

$(VENV)-lowest/.installed: pyproject.toml $(VENV)/.dev-installed
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(VENV)-lowest
	$(BIN)/uv pip install --quiet --python $(VENV)-lowest/bin/python --resolution lowest-direct --editable '.[test]'
	touch $@

test-lowest: $(VENV)-lowest/.installed
	sh tools/system-parts.sh
	$(subst $(BIN),$(VENV)-lowest/bin,$(PYTEST)) -m 'not long' $(LOWEST_TESTS)

test-all: $(VENV)/.dev-installed
	sh tools/system-parts.sh
	$(PYTEST)

lint: $(VENV)/.dev-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

pages: $(VENV)/.test-installed
	$(BIN)/python -m tools.pages

$(VENV)/.docs-installed: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

site: $(VENV)/.docs-installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "written: site/index.html"

check: lint
	$(BIN)/python -m tools.pages --check

golden: $(VENV)/.test-installed
	TORCHSMITH_GOLDEN=write $(BIN)/python -m pytest tests/recipe/test_golden.py

facts: $(VENV)/.test-installed
	$(BIN)/python -m tools.proof

flips: $(VENV)/.test-installed
	$(BIN)/python -m tools.flips

verify-real: $(VENV)/.test-installed
	$(BIN)/python -m tools.verify_real

mutations: $(VENV)/.test-installed
	$(BIN)/python -m tools.mutations

faults: $(VENV)/.test-installed
	$(BIN)/python -m tools.faults $(or $(N),300)

load: $(VENV)/.test-installed
	$(BIN)/python -m tools.load $(or $(N),1000) $(or $(BUILDERS),16)

bench: $(VENV)/.test-installed
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) $(VENV)-lowest workspace dist site
