# Every target sets up what it needs in .venv, on a machine that has only Python (3.10 or newer) and make.
#
#   make demo      train a digit classifier written for TensorFlow, on gradtape
#   make test      the test suite, without the tests that take long
#   make test-slow the tests that take long: Keras' own, what wheels hold, long examples
#   make lint      style, format and types
#   make coverage  the test suite, and which lines it does not run
#   make bench     measure gradtape against its budgets
#   make docs      build the documentation as a site, in site/, and test its links, examples and search
#   make clean     remove all that these targets made

PYTHON ?= python3
VENV   := .venv
RUN    := $(VENV)/bin/python
PIP    := $(RUN) -m pip --disable-pip-version-check install --quiet

.PHONY: help demo test test-slow coverage lint bench docs clean
.DELETE_ON_ERROR:

# Functions run on NumPy in most tests, as in most programs. These run them by XLA as well, which compiles fast here
# instead of well: the tests look at results, and not at times.
BY_XLA = tests/function/test_compiled.py tests/function/test_autograph.py tests/graph/test_staged_control_flow.py \
  tests/test_runtime_checks.py
test test-slow: export JAX_DISABLE_MOST_OPTIMIZATIONS = 1

help:
	@sed -n '1,/^$$/s/^#\( \{0,1\}\)//p' Makefile

demo: $(VENV)/viz.stamp
	$(VENV)/bin/gradtape run examples/digits.py

test: $(VENV)/dev.stamp
	$(RUN) -m pytest --numprocesses auto --dist worksteal -m "not slow"
	GRADTAPE_JIT=xla $(RUN) -m pytest --numprocesses auto --dist worksteal -m "not slow" -k "not test_program" $(BY_XLA)

test-slow: $(VENV)/dev.stamp
	$(RUN) -m pytest --numprocesses auto --dist worksteal -m slow
	GRADTAPE_JIT=xla $(RUN) -m pytest --numprocesses auto --dist worksteal tests/function tests/graph

coverage: $(VENV)/dev.stamp
	$(RUN) -m pytest --numprocesses auto --dist worksteal --cov=gradtape --cov-report=term:skip-covered --cov-report=html

lint: $(VENV)/dev.stamp
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	MYPYPATH=src $(RUN) -m mypy tests/typing/programs

bench: $(VENV)/dev.stamp
	$(RUN) -m benchmarks

docs: $(VENV)/docs.stamp $(VENV)/dev.stamp
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict --quiet
	GRADTAPE_SITE=site $(RUN) -m pytest -q tests/test_built_site.py
	@echo "The site is in site/: open site/index.html"

clean:
	rm -rf $(VENV) build dist site htmlcov .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache digits_loss.png digits_loss.svg
	find src tests benchmarks examples docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# One environment, made once. Stamps say which extras it has; a change of pyproject.toml makes them stale.
# Installs are editable, so that a change of the sources is seen without another install.
$(VENV)/created.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	  || { echo "gradtape needs Python 3.10 or newer; name one: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP) --upgrade pip
	@touch $@

$(VENV)/%.stamp: pyproject.toml $(VENV)/created.stamp
	$(PIP) --editable ".[$*]"
	@touch $@
