# make run    sets up .venv and builds a BERT data set from the bundled sample text
# make test   sets up .venv with the test tools, then checks lint, types, layers and runs all tests
# make coverage  which lines of the library the tests run; tracing them takes twice as long
# make train-demo  trains a small BERT on the bundled sample text and draws its losses; INPUT=wikitext-2 for real text
# make test-flink  the whole job on Flink, embedded and on a cluster that the tests start; needs Java
# make test-kills  kills a job at 20 random moments, and lets it go on each time
# make bench  the table of benchmarks/README.md
#
# Where Go is installed, and for engines other than the local one:
# make prism       puts Prism, Beam's runner in Go, into .venv, and make test runs its tests
# make test-hosts  workers on hosts of their own; needs Linux, root and iproute2

PYTHON ?= python3.11
VENV := .venv/bin
INPUT := samples/wiki.sample.tokens
OUT := sample-output
DEMO := $(OUT)/train-demo

# One more than there are cores: many tests wait for processes of their own.
TESTS_AT_ONCE = $(shell $(VENV)/python -c 'import os; print(1 + os.cpu_count())')

# Two programs of Beam's that it has in Go alone, of the version of its package.
GO_PACKAGES := github.com/apache/beam/sdks/v2
BEAM_VERSION = v$(shell $(VENV)/python -c 'from importlib.metadata import version; print(version("apache-beam"))')

.PHONY: run test train-demo coverage test-flink test-kills test-hosts prism bench clean

run: .venv/job
	$(VENV)/python -m pipeline train-tokenizer --input $(INPUT) --vocab-size 2000 --output $(OUT)/tokenizer.json
	$(VENV)/python -m pipeline bert --input $(INPUT) --tokenizer $(OUT)/tokenizer.json --output $(OUT)/bert --replace --max-seq-length 128 --num-shards 2 --seed 1
	$(VENV)/python -m pipeline verify $(OUT)/bert
	$(VENV)/python -m pipeline inspect $(OUT)/bert --examples 1 --html $(OUT)/report.html

test: .venv/test
	$(VENV)/ruff check .
	$(VENV)/mypy
	$(VENV)/lint-imports
	$(VENV)/pytest --numprocesses $(TESTS_AT_ONCE) --dist worksteal

train-demo: .venv/demo
	$(VENV)/python -m pipeline train-tokenizer --input $(INPUT) --vocab-size 600 --output $(DEMO)/tokenizer.json
	$(VENV)/python -m pipeline bert --input $(INPUT) --tokenizer $(DEMO)/tokenizer.json --output $(DEMO)/bert --replace --max-seq-length 64 --duplicates 20 --mask dynamic --sentence-rule split --language en --validation-share 0.1 --num-shards 2 --seed 1
	$(VENV)/python -m examples.train_bert $(DEMO)/bert --results $(DEMO)

coverage: .venv/test
	$(VENV)/pytest --numprocesses $(TESTS_AT_ONCE) --dist worksteal --cov --cov-report=term-missing:skip-covered

test-flink: .venv/flink
	$(VENV)/pytest tests/flink

test-kills: .venv/test
	$(VENV)/python -m benchmarks.faults.kills

test-hosts: .venv/test .venv/bin/beam-boot
	$(VENV)/pytest -m hosts tests/deploy

prism: .venv/bin/prism

bench: .venv/test
	$(VENV)/python -m benchmarks

.venv/python:
	$(PYTHON) -m venv .venv
	$(VENV)/pip install --quiet --upgrade pip
	touch $@

.venv/job: .venv/python pyproject.toml constraints.txt
	$(VENV)/pip install --quiet --constraint constraints.txt --editable '.[job]'
	touch $@

.venv/test: .venv/python pyproject.toml constraints.txt
	$(VENV)/pip install --quiet --constraint constraints.txt --editable '.[job,test]'
	touch $@ .venv/job

.venv/demo: .venv/python pyproject.toml constraints.txt
	$(VENV)/pip install --quiet --constraint constraints.txt --editable '.[job,demo]'
	touch $@ .venv/job

.venv/flink: .venv/test
	$(VENV)/pip install --quiet --constraint constraints.txt --editable '.[job,test,flink]'
	touch $@

.venv/bin/prism: .venv/job
	GOBIN=$(CURDIR)/$(VENV) go install $(GO_PACKAGES)/go/cmd/prism@$(BEAM_VERSION)
	touch $@

.venv/bin/beam-boot: .venv/job
	GOBIN=$(CURDIR)/$(VENV) go install $(GO_PACKAGES)/python/container@$(BEAM_VERSION)
	mv $(VENV)/container $@
	touch $@

clean:
	rm -rf .venv $(OUT)
