# The ideas of this project, one target each. Every target sets up what it needs, from a fresh clone.
PYTHON ?= python3
# Another interpreter needs an environment of its own: make test PYTHON=python3.10 VENV=.cache/python3.10
VENV := .venv
PIP ?= $(shell command -v pip || command -v pip3 || echo $(PYTHON) -m pip)
BIN := $(VENV)/bin
# Many tests wait, for a systemd or a deadline: so there are more workers than cores.
WORKERS ?= $(shell echo $$(($$(nproc) * 2)))
# What begins as a script is one; the rest is a part of those, which are checked again as they are rendered.
SCRIPTS := .ci/run $(shell git grep -l '^\#!' -- '*.sh' 2>/dev/null)

.PHONY: help demo test check docs messages bench clean
help: ## what can be done here
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

demo: $(VENV)/ready ## see it work, in seconds
	@$(BIN)/python examples/demo.py

# Python decides before the first line of ours what file names and arguments are made of.
test: export LC_ALL = C.UTF-8
test: $(VENV)/ready ## every test
	$(BIN)/python -m pytest -n $(WORKERS) --dist load --maxschedchunk 4 $(ARGS)

check: $(VENV)/ready docs ## style, types, import arrows, shell, the site
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_architecture.py
	@if command -v shellcheck >/dev/null; then shellcheck $(SCRIPTS) && echo 'shellcheck: clean'; \
	elif [ -n "$$HOSTROUTING_FORBID_SKIPS" ]; then echo 'shellcheck is not installed' >&2; exit 1; \
	else echo 'shellcheck is not installed: the shell scripts were not checked'; fi

bench: $(VENV)/ready ## how fast it is, beside its peers; ARGS=--write for docs/benchmarks.md
	$(BIN)/python -m tests.benchmarks.run $(ARGS)

docs: $(VENV)/docs ## the site, in .cache/site; every link in it is checked
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo 'site: .cache/site/index.html'

messages: $(VENV)/ready ## write docs/messages.md and docs/commands.md from the code
	$(BIN)/python -m tests.support.write_pages

clean: ## remove everything that was made here
	rm -rf .venv .cache dist

# A virtual environment without ensurepip, so that a Debian without python3-venv will do; made once, and again
# only when pyproject.toml changes.
$(VENV)/ready: pyproject.toml
	@echo 'setting up $(VENV), once'
	@$(PYTHON) -m venv --without-pip $(VENV)
	@$(PIP) --python $(BIN)/python install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@

$(VENV)/docs: $(VENV)/ready
	@echo 'setting up the site generator, once'
	@$(PIP) --python $(BIN)/python install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@
