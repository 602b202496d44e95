# `make` or `make help` lists the targets.

PYTHON ?= python3.11
VENV := .venv/bin
INPUT := samples/wiki.sample.tokens
OUT := sample-output
# Each input has a folder of its own, so that a training that was stopped is resumed with its data.
DEMO := $(OUT)/train-demo$(if $(INPUT:samples/%=),/$(notdir $(firstword $(INPUT))))
ONLY :=

# One more process than cores: many tests wait for processes of their own.
TEST_PROCESSES = $(shell $(VENV)/python -c 'import os; print(1 + os.cpu_count())')
PYTEST = $(VENV)/pytest --numprocesses $(TEST_PROCESSES) --dist worksteal

# Without bytecode each of the hundreds of processes that the tests start would compile all sources.
test coverage: export PYTHONDONTWRITEBYTECODE =

# Setuptools warns of every editable installation.
INSTALL = PYTHONWARNINGS='ignore:Editable installation' $(VENV)/pip install --quiet --constraint constraints.txt --editable

# Two of Beam's programs exist in Go only; they are built at the version of the installed package.
GO_PACKAGES := github.com/apache/beam/sdks/v2
BEAM_VERSION = v$(shell $(VENV)/python -c 'from importlib.metadata import version; print(version("apache-beam"))')

.PHONY: help setup run train-demo lint test coverage bench test-flink test-kills test-hosts prism clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' Makefile

setup: .venv/test ## Set up .venv with everything for running, testing and linting

run: .venv/job ## Build a BERT data set from the bundled sample text, verify it and show it
	$(VENV)/python -m pipeline train-tokenizer --input $(INPUT) --vocab-size 2000 --output $(OUT)/tokenizer.json --replace
	$(VENV)/python -m pipeline bert --input $(INPUT) --tokenizer $(OUT)/tokenizer.json --output $(OUT)/bert --replace --max-seq-length 128 --num-shards 2 --seed 1 > /dev/null
	$(VENV)/python -m pipeline verify $(OUT)/bert
	$(VENV)/python -m pipeline inspect $(OUT)/bert --examples 1 --html $(OUT)/report.html
	@printf '%s\n' '' 'Next:' \
	  '  open $(OUT)/report.html in a browser' \
	  '  make train-demo               # trains a small BERT with such a data set' \
	  '  . .venv/bin/activate          # then, with text of your own:' \
	  '  python -m pipeline inspect-corpus --input FILES --tokenizer $(OUT)/tokenizer.json'

train-demo: .venv/demo ## Train a small BERT on the sample text and draw its losses; INPUT=wikitext-2 for real text
	$(VENV)/python -m pipeline train-tokenizer --input $(INPUT) --vocab-size 600 --output $(DEMO)/tokenizer.json --replace
	$(VENV)/python -m pipeline bert --input $(INPUT) --tokenizer $(DEMO)/tokenizer.json --output $(DEMO)/bert --replace --max-seq-length 64 --duplicates 20 --mask dynamic --sentence-rule split --language en --validation-share 0.1 --num-shards 2 --seed 1
	$(VENV)/python -m examples.train_bert $(DEMO)/bert --results $(DEMO) $(if $(wildcard $(DEMO)/checkpoint.pt),--resume)

lint: .venv/test ## Check style, format, types and the layers of imports
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/mypy
	$(VENV)/lint-imports

test: .venv/test $(if $(ONLY),,lint) ## Lint, then run all tests; ONLY=tests/corpusmill/objectives runs that path's tests, without lint
	$(PYTEST) $(ONLY)

coverage: .venv/test ## Show which lines of the library the tests run; takes twice as long as the tests
	$(PYTEST) --cov --cov-report=term-missing:skip-covered

bench: .venv/test ## Print the table of benchmarks/README.md; takes about 25 minutes
	$(VENV)/python -m benchmarks

test-flink: .venv/flink ## Run jobs on Flink, embedded and on a cluster that the tests start; needs Java
	$(VENV)/pytest tests/flink

test-kills: .venv/test ## Kill a job at 20 random moments and resume it each time
	$(VENV)/python -m benchmarks.faults.kills

test-hosts: .venv/test .venv/bin/beam-boot ## Run workers on simulated hosts; needs Linux, root, iproute2 and Go
	$(VENV)/pytest -m hosts tests/deploy

prism: .venv/bin/prism ## Install Prism, Beam's runner in Go, into .venv; `make test` then tests it, too; needs Go

clean: ## Remove .venv and the output of `make run` and `make train-demo`
	rm -rf .venv $(OUT)

.venv/python:
	$(PYTHON) -m venv .venv
	$(VENV)/pip install --quiet --upgrade pip
	touch $@

.venv/job: .venv/python pyproject.toml constraints.txt
	@echo 'Installing packages into .venv: this takes some minutes ...'
	$(INSTALL) '.[job]'
	touch $@

.venv/test: .venv/python pyproject.toml constraints.txt
	@echo 'Installing packages into .venv: this takes some minutes ...'
	$(INSTALL) '.[job,test]'
	touch $@ .venv/job

.venv/demo: .venv/python pyproject.toml constraints.txt
	@echo 'Installing packages into .venv: this takes some minutes ...'
	$(INSTALL) '.[job,demo]'
	touch $@ .venv/job

.venv/flink: .venv/test
	@echo 'Installing packages into .venv: this takes some minutes ...'
	$(INSTALL) '.[job,test,flink]'
	touch $@

.venv/bin/prism: .venv/job
	GOBIN=$(CURDIR)/$(VENV) go install $(GO_PACKAGES)/go/cmd/prism@$(BEAM_VERSION)
	touch $@

.venv/bin/beam-boot: .venv/job
	GOBIN=$(CURDIR)/$(VENV) go install $(GO_PACKAGES)/python/container@$(BEAM_VERSION)
	mv $(VENV)/container $@
	touch $@
