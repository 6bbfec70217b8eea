# PYTHON creates the environment; after that only .venv is used.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-stamp
EXTRAS := spark,codecs,docs,dev
WORKERS ?= 2
PYTEST_ARGS ?=
CODE := storeio udfs jobs bench
LIBRARIES := click deltalake llvmlite numba numpy pandas py4j pyarrow pyspark rich

# Images of containers set it. Where nothing is kept of what Python compiles, each process of the thousands that the tests
# start compiles all that it imports: a second, for a command that takes a third of one.
unexport PYTHONDONTWRITEBYTECODE

# Linters, documentation and wheel take one core each, and do not need one another; downloads take none.
MAKEFLAGS += --jobs=2

.DEFAULT_GOAL := help
.PHONY: help setup java jars brokers demo test long-test broker-test lint docs kernels notebooks bench wheel clean

help:  ## show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: java jars  ## .venv with everything installed, Java checked, Delta jars at hand; done once, then offline
	@$(BIN)/python -m compileall -q $(CODE)

java:
	@command -v $(PYTHON) >/dev/null || { echo "python 3.10 or newer is needed: apt-get install python3 (found: none)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit("python 3.10 or newer is needed: set PYTHON=... (found: " + sys.version.split()[0] + ")" if sys.version_info < (3, 10) else 0)'
	@$(PYTHON) jobs/java.py

# Done again only when the dependencies change. Without PEP 517 the pip that comes with Python 3.10 has crcmod's own setup
# install it, which leaves no list of its files. Only what commands and jobs import is compiled here: to compile all takes
# a minute, most is never imported, and the rest is compiled when it is.
$(STAMP): pyproject.toml | java
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --use-pep517 --editable '.[$(EXTRAS)]'
	@$(BIN)/python -c 'import compileall as c, importlib.util as i, sys; \
		[c.compile_dir(i.find_spec(name).submodule_search_locations[0], quiet=2) for name in sys.argv[1:]]' $(LIBRARIES)
	@touch $@

jars: $(STAMP)
	@$(BIN)/python -m jobs.resolve_jars

demo: setup  ## the audit job over a damaged store: its report and its Delta tables
	@$(BIN)/python -m jobs.demo

brokers: java # what cannot be had is told, and the tests that need it are skipped
	@PYTHONPATH=.:tests $(PYTHON) -m broker.prepare

test: brokers setup lint docs kernels wheel  ## everything that CI runs
	$(BIN)/python -m pytest -n $(WORKERS) -m 'not spark and not long' $(PYTEST_ARGS)
	@# By file, so that a process keeps its session: xdist 3.8 does not keep groups together under pytest 9.2. Files in
	@# their order: by number of tests the notebook would come last, a minute in which one core is idle.
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m 'spark and not long' $(PYTEST_ARGS)

long-test: setup wheel  ## what make test leaves out, half an hour and more: other stores and seeds, a cluster whose parts are killed
	$(BIN)/python -m pytest -n $(WORKERS) -m 'long and not spark' $(PYTEST_ARGS)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m 'long and spark' $(PYTEST_ARGS)

broker-test: setup  ## what real brokers make of stores; needs mvn and a JDK, which make test does without
	STOREIO_BROKER=required $(BIN)/python -m pytest -n $(WORKERS) -m broker $(PYTEST_ARGS)

lint: $(STAMP)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# The types of the last numpy for Python 3.10 do not say that a number of it is an int.
	@if $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
		echo "$(BIN)/mypy $(CODE)"; $(BIN)/mypy $(CODE); \
	else echo "mypy is left out: it needs types of numpy that need Python 3.11" >&2; fi

docs: $(STAMP)  ## the documentation as a site, into build/docs; a warning is an error
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs

notebooks: setup  ## JupyterLab on the notebooks
	$(BIN)/python -m pip install --quiet --editable '.[$(EXTRAS),notebooks]'
	$(BIN)/jupyter lab notebooks

bench: setup  ## measure speed and memory on this machine, against real brokers, too; into bench/RESULTS.md
	$(BIN)/python -m bench.suite

# On a new machine the documentation, which imports everything, compiles for a minute. Whoever has done with the linters
# meets it from the other end; each kernel is compiled by one of them.
kernels: $(STAMP)  ## compile the kernels, once a machine, so that no first call has to
	@$(BIN)/python -c "import importlib, pkgutil, storeio.kernels as k; [importlib.import_module(f'{k.__name__}.{m.name}') \
		for m in reversed([*pkgutil.iter_modules(k.__path__)])]"

wheel: $(STAMP)  ## dist/*.whl, for spark-submit --py-files
	@# What an earlier build left would go along, modules that are gone included.
	@rm -rf build/lib build/bdist.*
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@rm -rf build/lib build/bdist.*
	@ls dist/*.whl

clean:  ## remove .venv and everything built
	rm -rf $(VENV) build dist demo-out *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
