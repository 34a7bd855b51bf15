# Everything a contributor runs. Needs Python 3.11 or newer and make; `.venv` is made and filled on first use.

PYTHON ?= python3
VENV := .venv
HOSTS := .venv-hosts
OLDEST := .venv-hosts-oldest
BIN := $(VENV)/bin
PACKAGE := $(VENV)/.package-ready
READY := $(VENV)/.ready
CORPUS ?=
BUDGETS ?= 8000,16000,64000
LAWS_OPERATIONS ?= 1000000
PEERS ?=
BEAM ?=

# Without compiled files each process that a test starts would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test net test-browser test-hosts test-hosts-oldest oldest package coverage lint lint-hosts format docs laws corpus evals bench peers house clean

help: ## show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

$(PACKAGE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(PYTHON) is older than 3.11; name a newer one: make PYTHON=python3.11"; exit 1; }
	@echo "Installing the package into $(VENV): one or two minutes, once."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --progress-bar off --disable-pip-version-check -e . -c constraints.txt
	@touch $@

$(READY): $(PACKAGE)
	@echo "Installing what tests and linters need into $(VENV): one to four minutes, once."
	$(BIN)/python -m pip install --progress-bar off --disable-pip-version-check -e '.[test]' -c constraints.txt
	@touch $@

demo: $(PACKAGE) ## watch a long session being summarized inside a small budget
	$(BIN)/summarizing-context demo
	@echo "Type . $(BIN)/activate once, then the commands above can be typed as they stand."

test: $(READY) ## every test
	$(BIN)/python -m pytest -n 4 --dist worksteal

net: $(READY) ## the promises to users by public names alone, in under three minutes (tests/README.md)
	$(BIN)/python -m pytest -q -n 4 --dist worksteal @tests/net.txt

test-browser: $(READY) ## the inspector's page in a real browser, chromium or google-chrome
	$(BIN)/python -m pip install --quiet --disable-pip-version-check playwright -c constraints.txt
	$(BIN)/python -m pytest -n 0 tests/inspector/test_browser.py

$(HOSTS)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(HOSTS)
	$(HOSTS)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test,hosts]' -c constraints.txt
	@touch $@

test-hosts: $(HOSTS)/.ready ## the adapters and their pages with the real packages of their hosts, in .venv-hosts
	$(HOSTS)/bin/python -m pytest -n 2 --dist worksteal tests/hosts tests/cli/test_main.py tests/docs/test_docs.py

$(OLDEST)/.ready: pyproject.toml tests/hosts/oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test,hosts]' -c tests/hosts/oldest.txt
	@touch $@

test-hosts-oldest: $(OLDEST)/.ready ## the adapters with the oldest versions of their hosts, in .venv-hosts-oldest
	$(OLDEST)/bin/python -m pytest -n 2 --dist worksteal tests/hosts tests/adapters

oldest: ## the demo with the oldest libraries that are allowed, in an environment of its own
	$(PYTHON) -m venv --clear build/oldest
	build/oldest/bin/python -m pip install --quiet --disable-pip-version-check . -c tests/oldest.txt
	cd build && oldest/bin/summarizing-context demo

package: ## wheel and sdist, each installed in an empty environment and tried (needs the package `build`)
	rm -rf dist
	$(PYTHON) -m build --outdir dist .
	set -e; for file in dist/*.whl dist/*.tar.gz; do \
		$(PYTHON) -m venv --clear build/installed; \
		build/installed/bin/python -m pip install --quiet --disable-pip-version-check "$$file" -c constraints.txt; \
		(cd build && installed/bin/summarizing-context demo); \
	done

coverage: $(READY) ## the same with coverage traced and shown (almost twice the time)
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov=summarizing_context --cov-report=term:skip-covered

lint: $(READY) ## style, types and imports, in a minute
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

lint-hosts: $(HOSTS)/.ready ## the types of the adapters against the real packages of their hosts (a minute, later seconds)
	$(HOSTS)/bin/python -m mypy --cache-dir=.mypy_cache/hosts summarizing_context/adapters

format: $(READY) ## mend what can be mended by machine
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/.docs-ready: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]' -c constraints.txt
	@touch $@

docs: $(VENV)/.docs-ready ## the documentation as a site in site/, links and anchors checked, without a network
	$(BIN)/python -m docs.tools.generate_docs --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet --clean

laws: $(READY) ## the laws against a million random operations a strategy, and all the law tests (LAWS_OPERATIONS=...)
	LAWS_OPERATIONS=$(LAWS_OPERATIONS) $(BIN)/python -m pytest -n 2 --dist worksteal tests/laws tests/evaluation/test_worse_prompts.py

corpus: $(READY) ## replay a folder of transcripts (CORPUS=<folder>, BUDGETS=...)
	@test -n "$(CORPUS)" || { echo "name a folder of transcripts: make corpus CORPUS=<folder>"; exit 2; }
	$(BIN)/summarizing-context replay "$(CORPUS)" --budget $(BUDGETS)

evals: $(READY) ## how good views are, from recorded answers about real sessions; pages in eval-report/
	$(BIN)/summarizing-context eval run real --fail-under right=0.94,laws=0 --out eval-report/real

bench: $(READY) ## what a user feels, beside the aims (two minutes); PEERS=langchain,... for other frameworks in the same run
	$(BIN)/python -m evals.performance.bench --peers "$(PEERS)"

peers: $(READY) ## ten other frameworks through the same session; with BEAM=<folder>, what their views still hold
	$(BIN)/python -m evals.performance.peers $(if $(BEAM),--beam "$(BEAM)",--parts "counts,times")

house: $(READY) ## lines of each room beside its budget, and how far a call travels
	$(BIN)/python -m evals.house

clean: ## remove what was made here, the environment too
	rm -rf $(VENV) $(HOSTS) $(OLDEST) build dist .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf evals/performance/.environments eval-report tune-report site evals/clients/.programs
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
