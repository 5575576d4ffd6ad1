# Every target works on a fresh clone: the first one that needs it builds .venv, once.
#
#   make study-rate PROFILE=quick WORKERS=2 REPLACE=1

PROFILE ?= standard
WORKERS ?= $(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
REPLACE ?=
PARTS ?=
QUICK ?=
PYTEST_ARGS ?=
PYTHON ?=

# A variable in small letters would be taken for none, and a standard run go on for minutes.
$(foreach name,profile workers replace parts quick,$(if $(filter command,$(firstword $(origin $(name)))),\
    $(error $(name)=$($(name)): make variables are written in capitals, as in PROFILE=quick)))

VENV := .venv
PY := $(VENV)/bin/python
MADE := $(VENV)/.made
CORE := $(VENV)/.core
DEV := $(VENV)/.dev
PEERS := $(VENV)/.peers
PIP := $(PY) -m pip --disable-pip-version-check install --quiet -c constraints.txt
PEER_PACKAGES = $(shell awk '/^[^ ]/ { peers = /^peers =/ } /^ / && peers { print $$1 }' setup.cfg)
STUDIES := $(sort $(filter-out _%,$(basename $(notdir $(wildcard studies/*.py)))))
RUN_FLAGS := --profile $(PROFILE) --workers $(WORKERS) $(if $(filter-out 0,$(REPLACE)),--replace)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help studies figures ledger docs bench test lint verify clean FORCE

help: ## list the targets
	@echo 'usage: make TARGET [PROFILE=standard] [WORKERS=$(WORKERS)] [REPLACE=1]'
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / { sub("%", "NAME", $$1); printf "  %-12s %s\n", $$1, $$2 }' Makefile
	@echo 'studies: $(or $(STUDIES),none yet)'

study-%: $(CORE) FORCE ## run a study: tables, verdicts, figures
	$(PY) -m nwsim run $* $(RUN_FLAGS)

studies: $(addprefix study-,$(STUDIES)) ## run every study

figures: $(CORE) ## redraw the figures of every study from its tables
	$(PY) -m nwsim figures --profile $(PROFILE)

ledger: $(CORE) ## gather the claims of every study into results/ledger.csv
	$(PY) -m nwsim ledger

docs: $(CORE) ## fill the tables of verdicts in docs/ from results/
	$(PY) -m nwsim docs

bench: $(PEERS) ## time nwsim and other packages on the same work (PARTS='W1 W3' QUICK=1)
	$(PY) -m nwsim bench $(PARTS) $(if $(filter-out 0,$(QUICK)),--quick)

test: $(DEV) ## run the tests (PYTEST_ARGS='--run-slow' adds the slow ones)
	$(PY) -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

lint: $(DEV) ## check style, format and types
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy

verify: $(CORE) ## compute studies again: same bytes, and a tenth of the tracked cells
	$(PY) -m nwsim verify --workers $(WORKERS)

clean: ## remove the environment, caches and build/; results/ stays
	rm -rf $(VENV) build nwsim.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find nwsim studies tests -name __pycache__ -type d -prune -exec rm -rf {} +

# A usable interpreter is one of the right version that can also make a venv with pip in it.
$(MADE):
	@for python in $(PYTHON) python3.11 python3.12 python3.13 python3; do \
	    $$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	        >/dev/null 2>&1 || continue; \
	    if ! $$python -c 'import ensurepip, venv' >/dev/null 2>&1; then \
	        without="$$without $$python"; continue; fi; \
	    echo "building $(VENV) with $$python (once)"; \
	    $$python -m venv $(VENV) && touch $@; exit $$?; \
	done; \
	if [ -n "$$without" ]; then \
	    echo "nwsim:$$without cannot make an environment, its venv or ensurepip module is missing:" \
	        "install it (Debian, Ubuntu: apt install python3-venv)" >&2; \
	else \
	    echo "nwsim: no python3.11, python3.12 or python3.13 on the PATH:" \
	        "install one, or give it as make PYTHON=/path/to/python" >&2; \
	fi; exit 1

# Editable, so that the code of this checkout is what runs; setuptools comes from the same pins.
$(CORE): $(MADE) setup.cfg pyproject.toml constraints.txt
	$(PIP) setuptools
	$(PIP) --no-build-isolation --config-settings editable_mode=compat -e .
	@touch $@

$(DEV): $(CORE)
	$(PIP) --no-build-isolation --config-settings editable_mode=compat -e '.[cluster,dev]'
	@touch $@

# Each by itself, so that one that does not build here costs no more than its own cases.
$(PEERS): $(CORE)
	@echo 'installing the packages to compare with (once; several GB where torch brings CUDA)'
	@for package in $(PEER_PACKAGES); do \
	    $(PIP) "$$package" || echo "nwsim: $$package cannot be installed, its cases are skipped"; \
	done
	@touch $@
