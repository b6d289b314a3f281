# Every command of the project; `make` alone lists them. Each sets up what it needs.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

# Any Python from 3.11 on will do to make the virtualenv.
PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13 python3,$(if $(shell command -v $(p)),$(p))))
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SIZE ?= full
SEED ?=
FROM ?= 0
PROOF ?=
WAREHOUSE ?=
AGAIN ?=

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# images of containers set it: then each process of a run, hundreds, compiles all modules again
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  \033[36m%-14s\033[0m %s\n", $$1, $$2} /^##@/{printf "\n%s\n", substr($$0, 5)}' $(MAKEFILE_LIST)

##@ Start here
.PHONY: setup demo demo-sql demo-cdc demo-dbt
setup: $(STAMP) ## make .venv with everything that the other commands need

# pip compiles the modules of all packages on one core, after all else; compileall takes them all
$(STAMP): pyproject.toml
	@[ -n "$(PYTHON)" ] || { echo "Python 3.11 or later is needed and was not found; set PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is older than Python 3.11; set PYTHON=..." >&2; exit 1; }
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV), a few minutes the first time ..."
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[spark,demo,dev]'
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true  # as pip, past templates that are no Python
	@touch $@

demo: setup ## the main job: a year of real flights through Spark, in three acts, with a report page in out/flights; WAREHOUSE=s3://...
	$(BIN)/python examples/flights/demo.py $(WAREHOUSE)

SQL_DEMO := out/flights-sql
SQL_WAREHOUSE = $(or $(WAREHOUSE),$(SQL_DEMO)/warehouse)
demo-sql: setup ## the same year in SQL alone, by `tidelake sql`, or BY=spark.sql: examples/flights/flights.sql, every result checked
	@rm -rf $(SQL_DEMO)
	$(BIN)/python examples/flights/source.py $(SQL_DEMO)
ifeq ($(BY),spark.sql)
	$(BIN)/python examples/flights/plain_sql.py $(SQL_DEMO) $(SQL_WAREHOUSE)
else
	$(BIN)/python -m tidelake sql --warehouse $(SQL_WAREHOUSE) --master 'local[2]' --echo --timing \
	  --command 'CREATE TEMPORARY VIEW raw AS SELECT * FROM parquet.`$(SQL_DEMO)/flights.parquet`' \
	  --file examples/flights/flights.sql
endif
	@echo "Warehouse: $(SQL_WAREHOUSE)  (tidelake sql --warehouse $(SQL_WAREHOUSE) --database air)"

demo-cdc: setup ## a PostgreSQL that programs change all the time, kept equal in the lake by one command, over a kill; Spark reads it
	$(BIN)/python examples/cdc/demo.py

DBT_DEMO := out/dbt
demo-dbt: setup $(DBT_STAMP) ## a project of dbt over the flights of six days, built after three of them and again after the others: examples/dbt
	@rm -rf $(DBT_DEMO)
	@for days in '1 3' '4 6'; do \
	  $(BIN)/python examples/dbt/load.py $(DBT_DEMO)/warehouse $$days; \
	  (cd examples/dbt && $(abspath $(DBT))/bin/dbt --quiet deps && $(abspath $(DBT))/bin/python run.py $(abspath $(DBT_DEMO))/warehouse build); \
	done

##@ Tests
MINUTES := out/minutes.json
DUCKDB := .venv-duckdb
DUCKDB_STAMP := $(DUCKDB)/.installed
DBT := .venv-dbt
DBT_STAMP := $(DBT)/.installed
SPARK_CLASSES := $(VENV)/spark-classes.jsa
OLD_SPARKS := .sparks/4.0/.installed .sparks/4.1/.installed
.PHONY: quick test doctest golden spark interop record-java sparks stores interop-fuzz
quick: setup ## in two minutes: arch, ruff and the unit tests of what differs from main
	$(BIN)/python scripts/quick.py

# the half on Spark waits for a quarter of its time, and the other one hardly ever: together they fill
# two cores. Where less than 18 GB of memory is free, one comes after the other.
test: doctest $(DUCKDB_STAMP) $(DBT_STAMP) $(OLD_SPARKS) $(SPARK_CLASSES) ## all tests, with the small sizes of the reliability checks; ends with the minutes by folder
	@rm -f $(MINUTES); mkdir -p $(dir $(MINUTES))
	failed=0; export TIDELAKE_MINUTES=$(MINUTES); \
	on_spark() { $(BIN)/pytest --numprocesses 4 --dist loadfile --no-loadscope-reorder --durations 20 tests/interop tests/spark; }; \
	others() { $(BIN)/pytest --numprocesses $$1 --dist worksteal --timeout 300 --timeout-method thread --durations 12 --ignore tests/spark --ignore tests/interop; }; \
	if awk '/^MemAvailable/ { exit $$2 < 18e6 }' /proc/meminfo; then \
	  on_spark > out/on_spark.log 2>&1 & \
	  others 2 || failed=1; \
	  wait $$! || failed=1; \
	  cat out/on_spark.log; \
	else \
	  others 3 || failed=1; \
	  on_spark || failed=1; \
	fi; \
	exit $$failed

doctest: setup ## the examples in the docstrings
	$(BIN)/pytest --numprocesses 2 --dist worksteal --doctest-modules --quiet src

golden: setup ## the bytes on disk against the golden files
	$(BIN)/pytest tests/golden

spark: setup $(OLD_SPARKS) $(SPARK_CLASSES) ## only the tests that need a Spark session
	$(BIN)/pytest -m spark

interop: setup ## read our tables with Java Paimon and pypaimon, and theirs with ours; prints a table
	$(BIN)/python scripts/interop.py

record-java: setup ## run Java Paimon's Spark session again, and keep what it answers (tests/interop/recorded)
	TIDELAKE_RECORD=1 $(BIN)/pytest tests/interop/test_sql_beside_java.py tests/interop/test_streams_beside_java.py

iceberg: setup $(DUCKDB_STAMP) ## Iceberg metadata read by pyiceberg and by DuckDB, whose extension gets an environment of its own
	$(BIN)/pytest tests/unit/commit/iceberg

# its extension is not there for the newest DuckDB; a few seconds, by the pip of .venv
$(DUCKDB_STAMP): $(STAMP)
	$(PYTHON) -m venv --without-pip $(DUCKDB)
	$(BIN)/python -m pip --python $(DUCKDB)/bin/python install --quiet duckdb==1.5.5 duckdb-extension-avro==1.5.5 duckdb-extension-iceberg==1.5.5
	@touch $@

# dbt asks for other versions of some packages; the rest comes from .venv by a path file
$(DBT_STAMP): $(STAMP)
	$(PYTHON) -m venv --without-pip $(DBT)
	$(BIN)/python -m pip --python $(DBT)/bin/python install --quiet 'dbt-core>=1.11,<1.12' dbt-spark==1.11.0
	$(BIN)/python -c "import pathlib, sysconfig; paths = pathlib.Path('src').resolve(), sysconfig.get_path('purelib'); print(*paths, sep='\n')" > "$$($(DBT)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/shared.pth"
	@touch $@

# a Spark of 470 MB, the rest comes from .venv by a path file
.sparks/%/.installed: $(STAMP)
	PYTHONPATH=src:tests $(BIN)/python scripts/sparks.py --install $*
	@touch $@

# the JVMs of the tests map it: each takes 4 s of CPU less to its first statements
$(SPARK_CLASSES): $(STAMP)
	PYTHONPATH=src:tests $(BIN)/python tests/spark_classes.py

sparks: setup ## what every Spark must do, on 4.0 to 4.3, the older ones in environments of .sparks; the docs' table of versions is made of it
	PYTHONPATH=src:tests $(BIN)/python scripts/sparks.py

stores: setup ## the tests on real stores: MinIO (built by Go), Azurite (by npm) and HDFS (jars) are fetched into .stores the first time
	PYTHONPATH=tests $(BIN)/python -m servers.real_stores
	TIDELAKE_STORES=1 $(BIN)/pytest tests/stores

interop-fuzz: setup ## 500 random tables, written and read by us and by Java Paimon in turns (SEED=n to replay)
	$(BIN)/python scripts/interop_fuzz.py $(if $(SEED),--seed $(SEED))

##@ Reliability, full size (SIZE=small for the size of the tests, SEED=n to replay)
.PHONY: proof faults damage sim-full model-full concurrent-full race-full kill-full fork-full soak-full lookup-full soak-maintained kept-small soak-service soak-streams memory mutants ui-check sim-compaction
proof: setup ## all of them and the full sizes of the tests, in one table (PROOF="faults race" for some, AGAIN=--again)
	$(BIN)/python scripts/proof.py $(PROOF) $(AGAIN)

faults: setup ## every FileIO call of every operation fails in every mode
	$(BIN)/python scripts/reliability.py faults --size $(SIZE)

damage: setup ## every file of a table with a bit flipped, or cut short, at every place
	$(BIN)/python scripts/reliability.py damage --size $(SIZE)

sim-full: setup ## seeded runs against a model: 5,000 seeds x 50 steps (FROM=n to go on)
	$(BIN)/python scripts/reliability.py sim --size $(SIZE) --from $(FROM) $(if $(SEED),--seed $(SEED))

model-full: setup ## the state machine and the grid of engines, longer and with new draws
	env -u CI TIDELAKE_SIZE=full $(BIN)/pytest --numprocesses 2 --dist worksteal tests/model/test_state_machine.py tests/unit/table/write/test_engine_grid.py

lookup-full: setup ## 100,000 keys by get, service, batch read and Java Paimon, on every engine, kind of buckets and kind of keys
	$(BIN)/python scripts/proof.py lookup lookup-java $(AGAIN)

concurrent-full: setup ## seeded runs of processes that meet on one table at every call, 1,000 of them (FROM=n to go on)
	$(BIN)/python scripts/reliability.py concurrent --size $(SIZE) --from $(FROM) $(if $(SEED),--seed $(SEED))

race-full: setup ## four processes race for 20,000 commits
	$(BIN)/python scripts/reliability.py race --size $(SIZE)

kill-full: setup ## a writing process is killed 300 times
	$(BIN)/python scripts/reliability.py kill --size $(SIZE) $(if $(SEED),--seed $(SEED))

fork-full: setup ## a process forks 300 times, and 1,000 operations are interrupted
	$(BIN)/python scripts/reliability.py fork --size $(SIZE) $(if $(SEED),--seed $(SEED))
	$(BIN)/python scripts/reliability.py abort --size $(SIZE) $(if $(SEED),--seed $(SEED))

soak-full: setup ## six processes do everything to a few tables for 20 minutes, and a reader of the files watches
	$(BIN)/python scripts/reliability.py soak --size $(SIZE) $(if $(SEED),--seed $(SEED))

soak-maintained: setup ## four writers, two readers and two maintenance jobs for 30 minutes: no error, and no file too many at the end
	$(BIN)/python scripts/reliability.py soak-maintained --size $(SIZE) $(if $(SEED),--seed $(SEED))

kept-small: setup ## twenty tables that only `tidelake compact --watch` compacts, for an hour: few runs at every look
	$(BIN)/python scripts/reliability.py kept-small --size $(SIZE) $(if $(SEED),--seed $(SEED))

soak-service: setup ## 64 callers ask a query service for 10 minutes, and what its processes take must not grow
	PYTHONPATH=src:tests TIDELAKE_SIZE=$(SIZE) $(BIN)/python -m proving.service_soak

soak-streams: setup ## two streams run for 10 minutes, and what driver and JVM take must not grow
	PYTHONPATH=src:tests TIDELAKE_SIZE=$(SIZE) $(BIN)/python -m proving.stream_soak

memory: setup ## writing, reading, compacting, planning, merge engines and changelogs in 256 MiB with input 20 times as large
	$(BIN)/python scripts/memory.py --size $(SIZE)

mutants: setup ## planted bugs, each of which the checks above must catch
	$(BIN)/python scripts/reliability.py mutants --size $(SIZE)

ui-check: setup ## the pages in headless Chromium (CHROMIUM=... or on the PATH): axe-core, keys, looks again, a report (ARGS="--pictures")
	$(BIN)/python scripts/ui_check.py $(ARGS)

sim-compaction: setup ## compaction policies over made-up commits: levels, write and space amplification (ARGS="--help")
	$(BIN)/python scripts/sim_compaction.py $(ARGS)

##@ Speed
.PHONY: bench bench-small memory-small
bench: setup ## the benchmarks at full size, as paired ratios, into docs/internals/benchmarks-record.md
	$(BIN)/python bench/run.py --size full --write

bench-small: setup ## the kernel's, engines', indexes', lookup's, planning's and CDC's benchmarks at small size: asserts the answers
	$(BIN)/python bench/run.py kernel engines indexes lookup planning cdc-decode cdc-copy cdc-lag cdc-held --size small

memory-small: setup ## the memory contract with input as large as the memory
	$(BIN)/python scripts/memory.py --size small

##@ Quality; `check` is exactly what CI runs
.PHONY: check gates fmt fmt-check lint types arch java spelling changelog docs-gen docs-check docs serve-docs clean
GATES := types bench-small docs docs-check java fmt-check lint arch spelling changelog
check: gates test ## all of it

gates: setup ## what `check` runs beside the tests, and makes for them, two at a time
	@printf '%s\n' $(SPARK_CLASSES) $(DUCKDB_STAMP) $(DBT_STAMP) $(OLD_SPARKS) $(GATES) | xargs -P 2 -I{} $(MAKE) --no-print-directory {}

fmt: setup ## format the code and mend what ruff can mend
	$(BIN)/ruff check --fix --quiet .
	$(BIN)/ruff format .

fmt-check: setup ## is the code formatted
	$(BIN)/ruff format --check .

lint: setup ## ruff's rules
	$(BIN)/ruff check .

types: setup ## mypy, strict
	$(BIN)/mypy

arch: setup ## the layer contracts
	$(BIN)/lint-imports --no-cache

java: setup ## compile the Java classes against the Spark that is installed
	$(BIN)/python scripts/compile_java.py

spelling: setup ## codespell
	$(BIN)/codespell src tests docs bench scripts examples changes *.md pyproject.toml Makefile

changelog: setup ## can the changelog be put together from changes/
	@$(BIN)/towncrier build --draft --version next > /dev/null && echo "changelog: fine"

docs-gen: setup ## write the generated pages
	$(BIN)/python scripts/gen_docs.py

docs-check: setup ## are the generated pages up to date, and lines, sentences and cells short enough
	$(BIN)/python scripts/gen_docs.py --check
	$(BIN)/python scripts/prose.py

docs: setup ## build the documentation into site/, warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

serve-docs: setup ## read the documentation while writing it
	$(BIN)/mkdocs serve

clean: ## remove what can be made again, the virtualenvs too
	rm -rf $(VENV) $(VENV)-* .sparks .stores site build dist out .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
