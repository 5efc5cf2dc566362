# Everything runs in .venv, which `make setup` makes once and then leaves alone
# until requirements.txt or setup.py changes.  ARGS passes options on:
#
#   make reproduce ARGS='--help'
#   make test ARGS='-k rates'

# An environment keeps the Python it was made with; PYTHON= on the command line
# overrides that.  Candidates that do not start (a version manager's stand-in or
# a dangling link, for example) do not count.
PYTHON ?= $(shell for python in .venv/bin/python python3.11; do \
	$$python -S -c '' >/dev/null 2>&1 && echo $$python && exit; \
	done; echo python3)
ARGS ?=

VENV_PYTHON := .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help setup test slow-test lint bazel-test wheel-test reproduce paper bench docs \
  clean distclean

help:  ## List the targets.
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/  \1 \2/p' $(MAKEFILE_LIST) | \
	  while read -r name text; do printf '  %-10s %s\n' "$$name" "$$text"; done

setup:  ## Make .venv (Python 3.10 or 3.11; PYTHON= chooses which).
	@$(PYTHON) tools/setup_env.py

test: setup  ## Run the tests but for slow ones (ARGS= for pytest).
	@$(VENV_PYTHON) -m pytest -n 2 --dist worksteal -m 'not slow' $(ARGS)

slow-test: setup  ## Run those that take more than a few seconds each.
	@$(VENV_PYTHON) -m pytest -n 2 --dist worksteal -m slow $(ARGS)

lint: setup  ## Check style and types.
	@$(VENV_PYTHON) -m ruff check .
	@$(VENV_PYTHON) -m mypy f3ast_tff experiments

bazel-test: setup  ## Build all with Bazel, test //:fast, run two rounds.
	@$(VENV_PYTHON) tools/try_bazel.py

wheel-test: setup  ## Build the wheel and test it in an empty environment.
	@$(VENV_PYTHON) tools/try_wheel.py

reproduce: setup  ## Five methods on Synthetic(1,1): a table and a report.
	@$(VENV_PYTHON) -m experiments.reproduce $(ARGS)

paper: setup  ## All of Synthetic from scratch, and the report (ARGS= adds).
	@$(VENV_PYTHON) -m experiments.paper --from_scratch --only=synthetic $(ARGS)

bench: setup .venv-fedjax  ## Time rounds: ours, stock TFF, FedJAX (ARGS= adds).
	@$(VENV_PYTHON) -m benchmarks.round_time $(ARGS)

# FedJAX has an environment of its own, since its packages do not fit TFF's.
.venv-fedjax: benchmarks/fedjax_requirements.txt
	@rm -rf $@
	@$(PYTHON) -m venv $@ && $@/bin/python -m pip install -q -r $< || { \
	  rm -rf $@; echo 'FedJAX cannot be installed here and is left out.'; }
	@if [ -d $@ ]; then touch $@; fi

docs: .venv-docs  ## Build build/docs, a site of pages and API (no TensorFlow).
	@.venv-docs/bin/python -m sphinx -q -W --keep-going -j auto -c docs . \
	  build/docs || { rm -rf build/docs; exit 1; }  # Else warnings come once.
	@echo 'Open build/docs/index.html in a browser.'

.venv-docs: docs/requirements.txt
	@rm -rf $@
	@$(PYTHON) -m venv $@ && $@/bin/python -m pip install -q -r $< || { \
	  rm -rf $@; exit 1; }
	@touch $@

clean:  ## Remove caches and build products; keep .venv and runs.
	@rm -rf build dist docs/api *.egg-info .mypy_cache .pytest_cache \
	  .ruff_cache .hypothesis
	@find . \( -path './.venv*' -o -path ./runs -o -path ./.git \) -prune -o \
	  -type d -name __pycache__ -prune -exec rm -rf {} +

distclean: clean  ## Remove environments too; keep runs.
	@rm -rf .venv .venv-docs .venv-fedjax .setup.lock
