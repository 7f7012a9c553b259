# Every target sets up what it needs, from a fresh clone. `make help` lists them.
PYTHON ?= python3
# Another interpreter needs a separate environment: make test PYTHON=python3.10 VENV=.cache/python3.10
VENV := .venv
PIP ?= $(shell command -v pip || command -v pip3 || echo $(PYTHON) -m pip)
BIN := $(VENV)/bin
# Many tests wait for systemd, so there are two workers for each core. Each collects all tests, which costs 2.5 s of a
# processor: with three, that is more than what they wait less.
WORKERS ?= $(shell $(PYTHON) -c "import os; print(min(2 * os.cpu_count(), 12))")
SCRIPTS := .ci/run $(shell git ls-files '*.sh' 2>/dev/null)

.PHONY: help demo test check docs roots releases kernels bench soak pyz dist deb clean
help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

demo: $(VENV)/ready ## show the failure, the repair and the proof; the first time, it downloads about 200 MB of test tools
	@$(BIN)/python examples/demo.py

# Python chooses the encoding of file names and arguments when it starts, before our code runs. With compiled files, each
# of the hundreds of programs that the tests start begins at once. With chunks of one test, no worker has a stock of them:
# in a stock, a long test can be left for the end, when the other workers have nothing to do.
PYTEST = env LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --dist load --maxschedchunk 1
test: $(VENV)/ready ## run the tests, in about a minute; what needs a missing program or root is skipped
	$(PYTEST) $(ARGS)

check: $(VENV)/ready docs ## check style, types, imports, shell scripts and the site
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/ruff check --preview --select PLR1702 . # nested blocks, which ruff counts only as a preview
	$(BIN)/mypy
	$(BIN)/mypy .github/release/sbom.py hatch_build.py
	$(BIN)/lint-imports --no-logo --cache-dir .cache/import-linter
	@if command -v shellcheck >/dev/null; then shellcheck $(SCRIPTS) && echo 'shellcheck: clean'; \
	elif [ -n "$$HOSTROUTING_FORBID_SKIPS" ]; then echo 'shellcheck is not installed' >&2; exit 1; \
	else echo 'shellcheck is not installed: the shell scripts were not checked'; fi

docs: $(VENV)/docs ## build the site in .cache/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

RELEASES := jammy noble bookworm trixie
roots: ## install Ubuntu 22.04 and 24.04, Debian 12 and 13 in .cache/roots; requires debootstrap
	@tests/support/roots.sh .cache/roots $(RELEASES)

EMPTY :=
# Relative, because the path of this folder may have a space.
ROOTS = $(subst $(EMPTY) $(EMPTY),:,$(RELEASES:%=.cache/roots/%))
releases: $(VENV)/ready ## run the tests that boot a systemd in Ubuntu 22.04 and 24.04, Debian 12 and 13; requires root
	@test "$$(id -u)" = 0 || { echo 'make releases boots a systemd: run it as root' >&2; exit 1; }
	@$(MAKE) --no-print-directory roots || { echo 'make releases needs a root of each release: see above' >&2; exit 1; }
	HOSTROUTING_FORBID_SKIPS=1 HOSTROUTING_TREES=$(ROOTS) $(PYTEST) -q -m releases tests/system $(ARGS)

KERNELS := 5.15 6.8
# What asks Linux.
OF_LINUX = $(addprefix tests/hostrouting/,azure_vnet check cli/test_on_linux.py fib kernel probe routes tasks testing)
kernels: ## run the tests that ask Linux on older kernels, in about six minutes each; requires root, qemu-system-x86 and cpio
	@$(MAKE) --no-print-directory roots RELEASES='bookworm jammy'
	@for kernel in $(KERNELS); do tests/support/kernels.sh .cache/kernels $$kernel -q -m linux $(OF_LINUX) || exit 1; done

bench: $(VENV)/ready ## measure the speed next to other programs; ARGS=--quick takes half a minute, and ARGS=ROW one row
	$(BIN)/python -m tests.benchmarks.bench $(ARGS)

MINUTES := 60
SEED :=
soak: $(VENV)/ready ## shake a node in a box for MINUTES=60, perhaps with SEED=1; requires root
	$(BIN)/python -m tests.system.soak $(MINUTES) $(SEED:%=--seed=%)

DIST := dist
define MAKE_PYZ
import sys
from hostrouting.boot.program import pack, sources_of_program
from hostrouting.host.host import Host
sys.stdout.buffer.write(pack(Host.local().interpreter.compile(sys.executable, sources_of_program())))
endef
export MAKE_PYZ
pyz: $(VENV)/ready ## build dist/hostrouting.pyz, one file for a node that has Python and nothing else
	@mkdir -p "$(DIST)"
	@"$(BIN)/python" -c "$$MAKE_PYZ" >"$(DIST)/hostrouting.pyz"
	@chmod 755 "$(DIST)/hostrouting.pyz"
	@ls -sh "$(DIST)/hostrouting.pyz"

# The same commit and Python give the same bytes, in any folder and at any time: another Python compiles hostrouting.pyz
# otherwise. The .deb and the bill of materials are about this hostrouting.pyz.
RELEASE := .cache/release
dist: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
dist: export TZ := UTC
dist: $(RELEASE)/ready ## build all files of a release in dist, the same bytes each time; requires dpkg-deb
	@mkdir -p "$(DIST)" && rm -f "$(DIST)"/hostrouting* "$(DIST)/SHA256SUMS"
	@"$(RELEASE)/bin/python" -m hatchling build --directory "$(DIST)"
	@"$(RELEASE)/bin/python" -c "$$MAKE_PYZ" >"$(DIST)/hostrouting.pyz"
	@chmod 755 "$(DIST)/hostrouting.pyz"
	@PYTHONPATH=. "$(RELEASE)/bin/python" .github/release/sbom.py "$(DIST)/hostrouting.pyz" >"$(DIST)/hostrouting.cdx.json"
	@.github/release/deb.sh "$(DIST)"
	@cd "$(DIST)" && LC_ALL=C sha256sum hostrouting* >SHA256SUMS && cat SHA256SUMS

deb: dist ## build dist/hostrouting_VERSION_all.deb, for an image or a node of Debian or Ubuntu
	@if command -v lintian >/dev/null; then lintian --fail-on error,warning "$(DIST)"/hostrouting_*_all.deb; \
	else echo 'lintian is not installed: the package was not checked'; fi

clean: ## remove everything that was built here
	rm -rf --one-file-system .venv .cache dist

# The virtual environment is created without ensurepip, so that Debian's package python3-venv is not needed. It is created
# once, and again only when pyproject.toml changes.
$(VENV)/ready: pyproject.toml
	@echo 'setting up $(VENV), once'
	@$(PYTHON) -m venv --without-pip $(VENV)
	@$(PIP) --python $(BIN)/python install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@

$(RELEASE)/ready: .github/release/setuptools.txt .github/release/requirements.txt
	@echo 'setting up $(RELEASE), once'
	@$(PYTHON) -m venv --without-pip $(RELEASE)
	@for file in $^; do $(PIP) --python $(RELEASE)/bin/python install --quiet --disable-pip-version-check \
		--require-hashes --no-build-isolation --requirement $$file || exit 1; done
	@touch $@

$(VENV)/docs: $(VENV)/ready
	@echo 'setting up the site generator, once'
	@$(PIP) --python $(BIN)/python install --quiet --disable-pip-version-check mkdocs==1.6.1 mkdocs-material==9.8.1
	@touch $@
