# `make` or `make help` lists the targets.

# The newest Python that is installed, fits and can make environments (Debian has python3-venv for that).
FITS := import sys, ensurepip, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 15))
PYTHON ?= $(shell for python in python3.14 python3.13 python3.12 python3.11 python3 python; do \
  if $$python -c '$(FITS)' 2> /dev/null; then echo $$python; break; fi; done)
# Another folder is an environment of its own: make test PYTHON=python3.13 ENV=.venv-3.13
ENV := .venv
VENV := $(ENV)/bin
SAMPLE := samples/wiki.sample.tokens
INPUT := $(SAMPLE)
OUT := sample-output
# Each input has a folder of its own, so that a training that was stopped is resumed with its data.
DEMO := $(OUT)/train-demo$(if $(INPUT:samples/%=),/$(notdir $(firstword $(INPUT))))
ONLY :=
# Flags and tables: make bench BENCH='--fail-if-slower text shards'
BENCH :=
# The groups of packages in pyproject.toml.
GROUPS = test flink docs

# One more process than cores: many tests wait for processes of their own.
TEST_PROCESSES = $(shell $(VENV)/python -c 'import os; print(1 + os.cpu_count())')
PYTEST = $(VENV)/pytest --numprocesses $(TEST_PROCESSES) --dist worksteal

# Without bytecode each of the hundreds of processes that the tests start would compile all sources.
test test-all coverage: export PYTHONDONTWRITEBYTECODE =

# The web address of the repository that this is a clone of, without anybody's name or password; the site leads there.
REPOSITORY = $(shell git remote get-url origin 2> /dev/null | \
  sed -nE 's,^(ssh://)?git@([^:/]+)[:/],https://\2/,; s,^https://[^/@]*@,https://,; s,/*(\.git)?/*$$,,; /^https:/p')

# The library and the job from this checkout, at the versions that were tested.
INSTALL = $(VENV)/pip install --quiet --constraint constraints.txt --editable . --editable ./job

PROJECT = pyproject.toml job/pyproject.toml constraints.txt

# Two of Beam's programs exist in Go only; they are built at the version of the installed package.
GO_PACKAGES := github.com/apache/beam/sdks/v2
BEAM_VERSION = v$(shell $(VENV)/python -c 'from importlib.metadata import version; print(version("apache-beam"))')

.PHONY: help setup run train-demo lint test test-all test-long coverage bench test-flink test-kills test-stores test-simulated test-hosts test-install test-readers release-check prism docs wheels constraints clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' Makefile

setup: $(ENV)/test ## Set up .venv with everything for running, testing and linting

run: $(ENV)/kernels ## Build a BERT data set from the bundled sample text, verify it and show it
	$(VENV)/corpusmill train-tokenizer --input $(INPUT) --vocab-size 2000 --output $(OUT)/tokenizer.json --replace
	$(VENV)/corpusmill bert --input $(INPUT) --tokenizer $(OUT)/tokenizer.json --output $(OUT)/bert --replace --max-seq-length 128 --num-shards 2 --seed 1 > /dev/null
	$(VENV)/corpusmill verify $(OUT)/bert
	$(VENV)/corpusmill inspect $(OUT)/bert --examples 1 --html $(OUT)/report.html
	@printf '%s\n' '' 'Next:' \
	  '  open $(OUT)/report.html in a browser' \
	  '  make train-demo               # trains a small BERT with such a data set' \
	  '  . .venv/bin/activate          # then, with text of your own:' \
	  '  corpusmill inspect-corpus --input FILES --tokenizer $(OUT)/tokenizer.json'

train-demo: $(ENV)/demo ## Train a small BERT on the sample text and draw its losses; INPUT=wikitext-2 for real text
	$(VENV)/corpusmill train-tokenizer --input $(INPUT) --vocab-size 600 --output $(DEMO)/tokenizer.json --replace
	$(VENV)/corpusmill bert --input $(INPUT) --tokenizer $(DEMO)/tokenizer.json --output $(DEMO)/bert --replace --max-seq-length 64 --duplicates 20 --mask dynamic --sentence-rule split --language en --validation-share 0.1 --num-shards 2 --seed 1
	$(VENV)/python -m examples.train_bert $(DEMO)/bert --results $(DEMO) $(if $(wildcard $(DEMO)/checkpoint.pt),--resume)

lint: $(ENV)/test ## Check style, format, types and the layers of imports, and count code lines
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/mypy
	$(VENV)/lint-imports
	$(VENV)/python -m tests.tools.code_lines

test: $(ENV)/test ## Lint, then run what a change usually breaks; ONLY=tests/corpusmill/objectives runs all tests of that path, without lint
	$(if $(ONLY),,$(MAKE) --no-print-directory --jobs=2 lint $(ENV)/kernels)
	$(PYTEST) $(or $(ONLY),--door first)

test-all: $(ENV)/test ## Run the tests that `make test` leaves out: pages, examples, trainers, wheels, and what takes long
	$(PYTEST) --door second

test-long: test-kills test-stores test-simulated test-hosts ## Run what takes hours: kills at every moment, stores, simulated runs, hosts

coverage: $(ENV)/test ## Show which lines of the library the tests run; takes twice as long as the tests
	$(PYTEST) --cov --cov-report=term-missing:skip-covered

bench: $(ENV)/test ## Measure the tables of docs/explanation/figures.md beside their rivals, and compare; takes an hour
	$(VENV)/python -m benchmarks $(BENCH)

test-flink: $(ENV)/flink ## Run jobs on Flink, embedded and on a cluster that the tests start; needs Java
	$(VENV)/pytest tests/flink

test-kills: $(ENV)/test ## Kill each command that writes before each of its changes of files, then processes at random moments
	CORPUSMILL_ALL_MOMENTS=1 $(PYTEST) tests/kills
	$(VENV)/python -m benchmarks.faults.kills

test-stores: $(ENV)/test ## Outages of a minute, kills and two of everything at once on emulators of S3 and Google's storage
	$(PYTEST) tests/stores

test-simulated: $(ENV)/test ## Build with a hundred drawn corpora, options and thresholds
	CORPUSMILL_SEEDS=0:100 $(PYTEST) tests/pipeline/test_simulated_runs.py

test-hosts: $(ENV)/test $(ENV)/bin/beam-boot ## Run workers on simulated hosts; needs Linux, root, iproute2 and Go
	$(VENV)/pytest -m hosts tests/deploy

test-install: $(ENV)/test ## Install the wheels into empty environments with pip, pipx and uv, and build a data set with each
	$(VENV)/pytest -m install tests/deploy/test_installation.py

test-readers: $(ENV)/test ## Let the least and the newest versions of other programs read our Parquet; downloads them; npm and Java for some
	$(VENV)/pytest -m install tests/deploy/test_readers.py

release-check: $(ENV)/test ## Build wheels with each Python, run the README's five commands with each, and print what a tag lacks
	$(VENV)/python -m tests.tools.release_check

prism: $(ENV)/bin/prism ## Install Prism, Beam's runner in Go, into .venv; `make test` then tests it, too; needs Go

docs: $(ENV)/docs ## Build the documentation's site into site/; warnings are errors
	PYTHONPATH=$(CURDIR) NO_MKDOCS_2_WARNING=1 REPOSITORY='$(REPOSITORY)' \
	  EDITED='$(if $(REPOSITORY),edit/main/docs/)' $(VENV)/mkdocs build --strict
	@echo 'Serve it, as its search needs: $(VENV)/python -m http.server --directory site'

wheels: $(ENV)/job ## Build the two wheels into dist/, with kernels compiled for this Python and any processor since 2013
	rm -rf dist build/kernels
	$(VENV)/python -m deploy.compile_kernels build/kernels
	HATCH_BUILD_HOOK_ENABLE_CUSTOM=true $(VENV)/pip wheel --quiet --no-deps --wheel-dir dist . ./job
	@ls dist/*.whl

constraints: $(ENV)/test ## Renew constraints.txt: for each package the newest version that the others allow
	printf '.\n./job\n' | $(VENV)/uv pip compile - $(GROUPS:%=--group %) --upgrade --universal --python-version 3.11.5 \
	  --no-header --no-annotate --no-emit-package corpusmill --no-emit-package corpusmill-job --quiet > constraints.new
	{ sed -n '/^#/p' constraints.txt; cat constraints.new; } > constraints.tmp
	mv constraints.tmp constraints.txt; rm constraints.new

clean: ## Remove .venv, the rivals, dist, site and the output of `make run` and `make train-demo`
	rm -rf $(ENV) .venv-rivals dist site $(OUT)

$(ENV)/python:
	@test -n '$(PYTHON)' || { echo 'error: no Python from 3.11 to 3.14 with venv is found.' \
	  'Install one, or name it: make PYTHON=/path/to/python3.12' >&2; exit 1; }
	$(PYTHON) -m venv $(ENV)
	$(VENV)/pip install --quiet --upgrade pip
	touch $@

$(ENV)/job: $(ENV)/python $(PROJECT)
	@echo 'Installing packages into $(ENV): this takes some minutes ...'
	$(INSTALL)
	touch $@

# A clone has no compiled kernels: those of `make run`, and of a first build for BERT or GPT, are compiled by
# several processes at once. A wheel brings its own. After a change only the kernels that it concerns are compiled.
$(ENV)/kernels: $(ENV)/job $(shell find corpusmill -name '*.py')
	@echo 'Compiling kernels by all cores: half a minute on two of them ...'
	@folder=$$(mktemp -d); { \
	  $(VENV)/corpusmill train-tokenizer --input $(SAMPLE) --vocab-size 2000 --output $$folder/words.json & \
	  $(VENV)/corpusmill bert --input $(SAMPLE) --tokenizer tests/data/tokenizer.json --output $$folder/bert --max-seq-length 128 --num-shards 2 & \
	  $(VENV)/corpusmill train-tokenizer --input $(SAMPLE) --for gpt --vocab-size 2000 --output $$folder/pieces.json && \
	  $(VENV)/corpusmill gpt --input $(SAMPLE) --tokenizer $$folder/pieces.json --output $$folder/gpt; \
	  wait; } > /dev/null 2>&1; rm -rf $$folder
	@touch $@

$(ENV)/test: $(ENV)/python $(PROJECT)
	@echo 'Installing packages into $(ENV): this takes some minutes ...'
	$(INSTALL) --group test
	touch $@ $(ENV)/job

$(ENV)/demo: $(ENV)/python $(PROJECT)
	@echo 'Installing packages into $(ENV): this takes some minutes ...'
	$(INSTALL) --group demo
	touch $@ $(ENV)/job

$(ENV)/docs: $(ENV)/python $(PROJECT)
	@echo 'Installing packages into $(ENV): this takes some minutes ...'
	$(INSTALL) --group docs
	touch $@ $(ENV)/job

$(ENV)/flink: $(ENV)/test
	@echo 'Installing packages into $(ENV): this takes some minutes ...'
	$(INSTALL) --group test --group flink
	touch $@

$(ENV)/bin/prism: $(ENV)/job
	GOBIN=$(CURDIR)/$(VENV) go install $(GO_PACKAGES)/go/cmd/prism@$(BEAM_VERSION)
	touch $@

$(ENV)/bin/beam-boot: $(ENV)/job
	GOBIN=$(CURDIR)/$(VENV) go install $(GO_PACKAGES)/python/container@$(BEAM_VERSION)
	mv $(VENV)/container $@
	touch $@
