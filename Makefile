# One command each; the first one makes .venv, later ones start at once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: help setup demo test check bench docs clean

help:
	@echo "make setup   install into .venv"
	@echo "make demo    see models compose, fail and be repaired: recombine-demo/report.html"
	@echo "make test    check, then all tests"
	@echo "make check   style, types and import contracts"
	@echo "make bench   speed of the renderer, as ratios to named peers"
	@echo "make docs    paste the numbers of results/ into README.md and docs/"
	@echo "make clean   remove what the tools left behind (not .venv)"

setup: $(INSTALLED)

# The constraints keep pip from ever fetching a second torch.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "recombine needs Python 3.11 or newer: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@echo "setup: making $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@echo "setup: installing recombine and its tools (a few minutes the first time)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@
	@echo "setup: done"

demo: setup
	@$(BIN)/recombine demo

check: setup
	@echo "check: ruff"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@echo "check: mypy"
	@$(BIN)/mypy
	@echo "check: import contracts"
	@$(BIN)/lint-imports

# One thread per worker: two torch processes with default threads on two cores are 17 times slower.
test: check
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

bench: setup
	@$(BIN)/recombine bench render

docs: setup
	@$(BIN)/recombine report

clean:
	@rm -rf build dist recombine-demo .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
	@echo "clean: done ($(VENV) is kept)"
