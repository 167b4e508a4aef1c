# Everything sets itself up: `make demo` and `make test` need only Python 3.11.
# GPU users: make demo TORCH="torch==X --index-url https://download.pytorch.org/whl/cuY"

TORCH ?= torch==2.13.0
JOBS ?= 2
# the one with which the tests were run; `setup.py` refuses others
IS_TRIED := import sys; sys.exit(sys.version_info[:2] != (3, 11))
PYTHON ?= $(shell for p in python3.11 python3; do \
  $$p -c '$(IS_TRIED)' 2>/dev/null && echo $$p && break; done)

VENV := $(CURDIR)/.venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet
# the set-up is done once for these files, this choice of torch and this folder
LOCK := requirements/py3.11.txt
READY := .venv/ready-$(shell { cat setup.py Makefile requirements/*.txt; echo '$(TORCH) $(CURDIR)'; } \
  | cksum | cut -d' ' -f1)

.PHONY: demo real reference test slow check lint types mini-zoo families bench torture install
.PHONY: lock clean

demo: $(READY)
	$(VENV)/bin/parlai evaluate_systems --config demo --run-dir runs/demo

# a real language model and a real judge: fetches 484 MB once, then some minutes
real: $(READY)
	$(VENV)/bin/parlai evaluate_systems --config real_demo --run-dir runs/real

# the published run beside which others stand (docs/publish.md)
reference: $(READY)
	$(VENV)/bin/parlai evaluate_systems --config real_demo --run-dir runs/reference
	$(VENV)/bin/parlai publish_run --run-dir runs/reference --out runs/reference.zip

test: $(READY)
	OMP_NUM_THREADS=1 $(PY) -m pytest -n $(JOBS) --dist worksteal

slow: $(READY)
	OMP_NUM_THREADS=1 $(PY) -m pytest -n $(JOBS) --dist worksteal -m slow

check: lint types test

lint: $(READY)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(VENV)/bin/lint-imports --no-logo --no-cache
	$(PY) -m vulture
	$(PY) -m tests.house.measures

types: $(READY)
	$(PY) -m mypy --cache-dir build/mypy

mini-zoo: $(READY)
	$(PY) -m benchmarks.mini_training.train --out parlai_ext/mini/zoo

# a small model of every family of systems, all as targets and all as partners
families: $(READY)
	@mkdir -p runs
	$(PY) -m pytest -s -m slow --basetemp runs/families tests/systems/test_family_run.py

# `make bench` lists the benchmarks, `make bench NAME=startup` runs one
bench: $(READY)
	$(PY) -m benchmarks$(if $(NAME),.$(NAME) $(ARGS))

# kills, damaged files, full disks, hostile input: tried and held, in one table
torture: $(READY)
	OMP_NUM_THREADS=1 $(PY) -m torture $(ARGS)

install: $(READY)

# writes $(LOCK) anew: the newest versions that `setup.py` allows, with their hashes
lock:
	@$(PYTHON) -m venv --clear build/lock
	@build/lock/bin/python requirements/lock.py $(TORCH)

# everything in the versions and with the hashes of the lock file, but for torch, which
# TORCH chooses: the same version has other bytes for a CPU and for each GPU. `parlai`
# without its pins, which are too old for the rest and which it does not need
$(READY):
	@$(or $(PYTHON),false) -c '$(IS_TRIED)' 2>/dev/null || { echo 'error: Python 3.11 is' \
	  "needed (newer ones were not tried), not $$($(or $(PYTHON),python3) --version 2>&1);" \
	  'name it with: make PYTHON=/path/to/python3.11' >&2; exit 1; }
	@grep -qs '$(VENV)' $(VENV)/bin/pip && $(PY) -c 'import sys' \
	  || $(PYTHON) -m venv --clear $(VENV)
	@rm -f .venv/ready-*
	@echo 'installing what parlai_ext needs, as $(LOCK) has it (once, some minutes)'
	@$(PIP) install --no-deps --require-hashes -r $(LOCK) -r requirements/parlai.txt
	@echo 'installing $(TORCH)'
	@$(PIP) install --no-warn-conflicts $(TORCH)
	@echo 'installing parlai_ext'
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

clean:
	rm -rf build .mypy_cache .pytest_cache .ruff_cache
