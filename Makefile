# Everything happens in .venv; nothing outside this folder is touched.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
PIP := $(VENV)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt
SOURCES := pyproject.toml setup.py constraints.txt $(wildcard src/bitspike/ops/*/*.c src/bitspike/ops/*/*.h src/bitspike/deploy/runtime/*.[ch])
OLD_SNNTORCH := $(CURDIR)/$(VENV)/snntorch-0.4.11

# One process a core.
PYTEST := BITSPIKE_SNNTORCH_0411=$(OLD_SNNTORCH) $(VENV)/bin/python -m pytest -n auto --maxprocesses 8 --dist worksteal

.PHONY: demo test test-slow test-all lint docs bench clean

demo: $(VENV)/.demo ## the temporal coding task of the paper: figure, animation, page and numbers in runs/coding
	$(VENV)/bin/bitspike reproduce coding --out runs/coding

test: $(VENV)/.test ## the tests, without those that need a GPU and those marked slow: about 6 minutes on 2 cores
	$(PYTEST) -m "not gpu and not slow"

test-slow: $(VENV)/.test ## the tests marked slow
	$(PYTEST) -m "slow and not gpu"

test-all: test test-slow ## every test that needs no GPU

lint: $(VENV)/.dev ## format, lint, types, direction of imports
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

docs: $(VENV)/.docs ## the documentation, into site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet

bench: $(VENV)/.test ## lif on this CPU against snnTorch's loop
	$(VENV)/bin/python benchmarks/lif_cpu.py

clean:
	rm -rf $(VENV) build site src/*.egg-info src/bitspike/ops/native/_native*.so

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(VENV)/bin/pip $(SOURCES)
	$(PIP) --editable '.[report]'
	touch $@

# Peers come after torch. SpikingJelly declares torchvision, which its neurons do not need: without dependencies.
# snnTorch 0.4.11, which the paper used, lives in a folder of its own beside 1.0.
$(VENV)/.test: $(VENV)/.demo
	$(PIP) --editable '.[test]'
	$(PIP) --no-deps spikingjelly==2.0.0
	test -d $(OLD_SNNTORCH) || $(PIP) --no-deps --target $(OLD_SNNTORCH) snntorch==0.4.11
	touch $@

$(VENV)/.dev: $(VENV)/.test
	$(PIP) --editable '.[dev]'
	touch $@

$(VENV)/.docs: $(VENV)/.demo
	$(PIP) --editable '.[docs]'
	touch $@
