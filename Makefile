# Every target needs only Python 3.11 or newer: the first one makes .venv, the next ones find it ready.

PYTHON ?= python3
VENV ?= .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready
SPARK_READY := $(VENV)/.spark-ready
# Extra arguments: make test PYTEST_ARGS="-k golden", make bench BENCH_ARGS=--quick
PYTEST_ARGS ?=
# Many tests wait for a JVM: one worker more than there are cores keeps the cores busy.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')
DEMO_ARGS ?=
BENCH_ARGS ?=
DAMAGE_ARGS ?=
FUZZ_ARGS ?=
KILLS_ARGS ?=
S3_ARGS ?=
LAKE_ARGS ?=
CRASHES_ARGS ?=
LIVING_ARGS ?=
DOCS_ARGS ?=
LOWEST_VENV ?= build/lowest
LOWEST_EXTRAS := test avro s3
LOWEST_LAYERS := format kernels codecs payloads storage segment log tables tasks
LOWEST_TESTS := $(addprefix tests/,$(LOWEST_LAYERS) property tidy golden/test_golden.py)
LOWEST_ARGS ?=
SPARK_VERSIONS_ARGS ?=
comma := ,
SOURCES := src tests benchmarks tools

.PHONY: help venv demo test lowest spark-versions lint format bench bench-spark damage kills s3 lake living crashes fuzz docs picture packages site clean
.DEFAULT_GOAL := help

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

venv: $(READY)  ## the virtual environment .venv, with kafkalog editable in it

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "kafkalog needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null \
		|| { echo "this Python cannot make virtual environments; on Debian: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test,lint,docs]'
	@touch $@

# Spark and a Java for it are large, so only the demo and the tests ask for them.
$(SPARK_READY): $(READY)
	$(RUN) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test,lint,docs,spark,jre]'
	@touch $@

demo: $(SPARK_READY)  ## what kafkalog does, shown on a disk that it makes
	$(RUN) -m kafkalog demo $(DEMO_ARGS)

test: $(SPARK_READY)  ## the whole suite
	$(RUN) -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

# The interpreter is the lowest as well, where there is one: make lowest PYTHON=python3.11
$(LOWEST_VENV)/.ready: pyproject.toml tools/lowest.py
	$(PYTHON) -m venv --clear $(LOWEST_VENV)
	$(LOWEST_VENV)/bin/python -m tools.lowest $(LOWEST_EXTRAS) > $(LOWEST_VENV)/lowest.txt
	$(LOWEST_VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint $(LOWEST_VENV)/lowest.txt --editable '.[$(subst $() ,$(comma),$(LOWEST_EXTRAS))]'
	@touch $@

lowest: $(LOWEST_VENV)/.ready  ## the core of the suite with the lowest versions that pyproject.toml allows
	$(LOWEST_VENV)/bin/python -m pytest -n auto --dist worksteal $(LOWEST_TESTS) $(LOWEST_ARGS)

spark-versions: $(READY)  ## the Spark tests on each PySpark from 4.0 to 4.3 (SPARK_VERSIONS_ARGS="4.0.5 4.1.4")
	$(RUN) -m tools.spark_versions $(SPARK_VERSIONS_ARGS)

lint: $(READY)  ## ruff, its formatter and strict mypy
	$(RUN) -m ruff check $(SOURCES)
	$(RUN) -m ruff format --check --quiet $(SOURCES)
	$(RUN) -m mypy

format: $(READY)  ## what ruff can put right by itself
	$(RUN) -m ruff check --fix $(SOURCES)
	$(RUN) -m ruff format $(SOURCES)

bench: $(READY)  ## the benchmarks against peers; writes docs/benchmarks.md
	$(RUN) -m benchmarks.run $(BENCH_ARGS)

bench-spark: $(SPARK_READY)  ## Spark benchmarks against Spark's own Kafka source; writes docs/benchmarks-spark.md
	$(RUN) -m benchmarks.spark $(BENCH_ARGS)

damage: $(READY)  ## the whole damage campaign, reading and verify: every bit, every cut
	$(RUN) -m tests.campaigns.damage.run $(DAMAGE_ARGS)
	$(RUN) -m tests.campaigns.hostile_bytes
	$(RUN) -m tests.campaigns.damaged_dumps
	$(RUN) -m tests.campaigns.cluster_damage --cut-step 5 --flip-step 29 --content-step 7

kills: $(SPARK_READY)  ## 200 ingests killed at random moments, and what the next run makes of it
	$(RUN) -m tests.campaigns.ingest_kills $(KILLS_ARGS)

s3: $(READY)  ## 200 ingests to an object store killed, 100 pairs of them set upon each other
	$(RUN) -m tests.campaigns.object_store $(S3_ARGS)

lake: $(SPARK_READY)  ## 200 ingests into Iceberg and Delta tables killed, 100 pairs of them, answers of a catalog lost
	$(RUN) -m tests.campaigns.lake_kills $(LAKE_ARGS)
	$(RUN) -m tests.campaigns.lake_losses
	$(RUN) -m tests.campaigns.lake_objects
	$(RUN) -m tests.campaigns.lake_sessions

living: $(SPARK_READY)  ## ingests, streams and verifies beside a broker at work (LIVING_ARGS="--ingests 200 --seconds 120")
	$(RUN) -m tests.campaigns.living_broker.run $(LIVING_ARGS)

crashes: $(READY)  ## what writes under every power cut, sync left out, error, kill and on a full disk (CRASHES_ARGS="append compact")
	$(RUN) -m tests.campaigns.crashes.power_cuts $(CRASHES_ARGS)
	$(RUN) -m tests.campaigns.crashes.interruptions $(CRASHES_ARGS)
	$(RUN) -m tests.campaigns.crashes.full_disk $(CRASHES_ARGS)

fuzz: $(READY)  ## the fuzzers
	$(RUN) -m tests.fuzz.run $(FUZZ_ARGS)

docs: $(READY)  ## the generated pages under docs/, and what the commands of the recipes and the README print
	$(RUN) -m tools.docs $(DOCS_ARGS)
	$(RUN) -m tools.recipes
	$(RUN) -m tests.parity.page
	$(RUN) -m tools.testing

picture: $(SPARK_READY)  ## the recorded session of the demo in README.md
	$(RUN) -m tools.picture

packages: $(READY)  ## wheel and sdist, installed with pip and pipx in clean environments of every Python here
	$(RUN) -m tools.packages

site: $(READY)  ## the docs as a site, in build/site; every link checked
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --quiet

clean:  ## everything that was made here, .venv too
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
