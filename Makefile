# make demo          answer two questions from the manual, or QUESTION="..." from DOCS=path, with cited sentences
# make quick         lint, types and the tests without processes, servers and databases: two minutes on two cores
# make test          lint, types and all tests but those of integrations and causal models
# make wheel         build the wheel and run `mergewise demo` with it in an empty environment
# make causal        test causal models and training with torch (TORCH=..., some 220 MB)
# make integrations  test LangChain, LlamaIndex, Haystack, a Ray cluster of two nodes and Postgres (some 500 MB)
# make clients       test the server with LangChain, LlamaIndex, litellm and llm as clients (some 460 MB)
# make docs          build the site of the manual in site/, offline; a broken link is an error
# make figures       draw the plots of the manual from benchmarks/results
# make coverage      run the tests with coverage; fail below FLOOR per cent
# make lock          update dev.lock, the versions that development and CI install, and the locks with hashes in deploy/
# make sbom          write sbom.json, a bill of materials (CycloneDX) of the server that deploy/server.lock installs
# make audit         look up the packages of all locks in a database of known vulnerabilities
# make bench         measure speed and memory
# make identical     contexts and answers of all strategies in AFTER (after.jsonl); BEFORE=FILE compares them with another version's
# make latency       time per question of several versions in turns: INDEX=DIR QUESTIONS=FILE TREES="../old ."
# make peers         auto-merging here, in LlamaIndex and in Haystack (in .venv-peers, some 300 MB)
# make chaos         kill writers, servers, an evaluation and a cluster; damage indexes; the long form of server tests
# make attack        hostile documents, requests and indexes in their long form, and all examples of properties: half an hour
# make fuzz          an hour of fuzzing guided by coverage (MINUTES=60); continues where it ended
# make mutants       220 small changes of the source: does a test notice? (80 minutes; resumes; SEED=2 draws others)

PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
CAUSAL := .venv-causal
CLIENTS := .venv-clients
INTEGRATIONS := .venv-integrations
WHEEL  ?= .venv-wheel
MINUTES ?= 60
# processes that run tests
PROCESSES ?= auto
# the tools of `make sbom` and `make audit`, in environments of their own
SBOM_TOOL  ?= cyclonedx-bom==7.5.0
AUDIT_TOOL ?= pip-audit==2.10.1
# per cent of lines and branches that the tests must reach: the fast ones (make quick) reach this alone
FLOOR  ?= 74
# the build for processors alone: the default build brings gigabytes of CUDA
TORCH  ?= torch==2.13.0+cpu

.DEFAULT_GOAL := help
.PHONY: help demo quick test tests lint wheel environments integrations integrations-environment frameworks postgres clients clients-environment causal causal-environment docs figures coverage lock sbom audit attack fuzz bench identical latency peers chaos mutants clean

# the versions that dev.lock holds; LOCKED= takes the newest
LOCKED ?= --constraint dev.lock

# uv installs in a sixth of pip's time and downloads each package once for all environments; pip's sources are its sources. Where it
# is missing or finds no package, pip installs
UV := $(BIN)/uv
install = $(UV) pip install --quiet --python $(1)/bin/python $(2) || $(BIN)/python -m pip --python $(1)/bin/python install --quiet $(2)
INTEGRATED := ".[dev,integrations]"
environment = test -x $(1)/bin/python || $(BIN)/python -m venv --without-pip $(1)
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
export UV_EXTRA_INDEX_URL ?= $(PIP_EXTRA_INDEX_URL)
export UV_INDEX_STRATEGY ?= unsafe-best-match
# uv leaves it to the first import to compile a module
export PYTHONDONTWRITEBYTECODE :=

$(UV):
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || python3 -m venv $(VENV)
	$(BIN)/python -m pip install --quiet uv || touch $@

$(VENV)/.installed: pyproject.toml dev.lock | $(UV)
	$(call install,$(VENV),$(LOCKED) --editable ".[dev]")
	touch $@

help:
	@sed -n "s/^# \(make .*\)/\1/p" Makefile

demo: $(VENV)/.installed
	$(BIN)/mergewise demo $(DOCS) $(if $(QUESTION),--question "$(QUESTION)")

# mypy uses one process, so the tests start at the same time
test: $(VENV)/.installed
	$(MAKE) --jobs=2 lint tests

tests: $(VENV)/.installed
	$(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist worksteal

quick: export MERGEWISE_QUICK := 1
quick: $(VENV)/.installed
	$(MAKE) --jobs=2 lint quick-tests

quick-tests:
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m "not process and not slow"

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

wheel: | $(UV)
	rm -rf $(WHEEL)
	$(call environment,$(WHEEL))
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir $(WHEEL)/dist .
	$(call install,$(WHEEL),$(WHEEL)/dist/mergewise-*.whl)
	mkdir $(WHEEL)/empty && cd $(WHEEL)/empty && env -u PYTHONPATH ../bin/mergewise demo

environments: causal-environment clients-environment integrations-environment

$(INTEGRATIONS)/.installed: pyproject.toml dev.lock | $(UV)
	$(call environment,$(INTEGRATIONS))
	$(call install,$(INTEGRATIONS),$(LOCKED) --editable $(INTEGRATED))
	touch $@

integrations-environment: $(INTEGRATIONS)/.installed

integrations: frameworks postgres

# its workers would have a low priority, and some tests measure time
frameworks: export RAY_worker_niceness := 0
frameworks: integrations-environment
	$(INTEGRATIONS)/bin/python -c "import haystack, langchain_tests, llama_index.core, ray"  # their tests would be skipped without a word
	$(INTEGRATIONS)/bin/python -m pytest -o asyncio_mode=auto -o asyncio_default_fixture_loop_scope=function tests/integrations

postgres: integrations-environment
	$(INTEGRATIONS)/bin/python -c "import psycopg"
	$(INTEGRATIONS)/bin/python -m pytest tests/server/test_state.py tests/server/test_replicas.py tests/server/test_replica_kills.py

# these clients need an older openai than the extra `openai`
$(CLIENTS)/.installed: pyproject.toml tests/integrations/clients.lock | $(UV)
	$(call environment,$(CLIENTS))
	$(call install,$(CLIENTS),--requirement tests/integrations/clients.lock --editable ".[serve]")
	touch $@

clients-environment: $(CLIENTS)/.installed

# litellm takes its prices from the package, not from the network
clients: export LITELLM_LOCAL_MODEL_COST_MAP := True
clients: clients-environment
	$(CLIENTS)/bin/python -c "import langchain_openai, litellm, llama_index.llms.openai_like, llm"  # their tests would be skipped without a word
	$(CLIENTS)/bin/python -m pytest tests/integrations/test_clients.py tests/integrations/test_llm.py

$(CAUSAL)/.installed: pyproject.toml dev.lock | $(UV)
	$(call environment,$(CAUSAL))
	$(call install,$(CAUSAL),$(LOCKED) $(TORCH) hypothesis pytest pytest-xdist --editable ".[train]")
	touch $@

causal-environment: $(CAUSAL)/.installed

causal: $(CAUSAL)/.installed
	$(CAUSAL)/bin/python -c "import onnx, torch, transformers"  # their tests would be skipped without a word
	OMP_NUM_THREADS=1 $(CAUSAL)/bin/python -m pytest --numprocesses $(PROCESSES) --dist worksteal tests/models/test_*causal*.py tests/designs/aed/training/test_causal_*.py

docs: $(VENV)/.installed
	$(BIN)/python -m scripts.reference
	$(BIN)/python -m scripts.diagrams
	$(BIN)/zensical build --clean --strict
	$(BIN)/python -m scripts.site_texts

figures: $(VENV)/.installed
	$(call install,$(VENV),$(LOCKED) --editable ".[plots]")
	$(BIN)/python -m scripts.figures

# tests/attack limits memory and file sizes, which breaks the data files of coverage
coverage: $(VENV)/.installed
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m pytest --numprocesses auto --dist worksteal --ignore tests/attack
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --format total --fail-under $(FLOOR)

# the extras of a server
SERVER := serve openai watch s3 otel
HASHED := $(UV) pip compile --generate-hashes --universal --python-version 3.11 --constraint dev.lock --no-emit-index-url --no-annotate \
  --no-header --quiet --output-file

lock: | $(UV)
	$(UV) pip compile pyproject.toml --extra dev --extra integrations --extra train --extra plots --universal --python-version 3.11 \
	  --constraint dev.in --no-emit-index-url --no-annotate --no-header --quiet --output-file dev.lock
	$(HASHED) deploy/server.lock pyproject.toml $(patsubst %,--extra %,$(SERVER))
	$(HASHED) deploy/cluster.lock pyproject.toml $(patsubst %,--extra %,$(SERVER) postgres ray)
	$(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['build-system']['requires'], sep='\n')" \
	  | $(HASHED) deploy/build.lock -

sbom: | $(UV)
	rm -rf .venv-sbom
	$(call environment,.venv-sbom)
	$(UV) pip install --quiet --python .venv-sbom/bin/python --require-hashes --requirement deploy/server.lock
	$(UV) pip install --quiet --python .venv-sbom/bin/python --no-deps .
	version=$$(.venv-sbom/bin/python -c "from importlib.metadata import version; print(version('mergewise'))") \
	  && sed "s/^dynamic = .*/version = \"$$version\"/" pyproject.toml >.venv-sbom/pyproject.toml
	$(UV) tool run --quiet --from $(SBOM_TOOL) cyclonedx-py environment .venv-sbom --pyproject .venv-sbom/pyproject.toml \
	  --output-reproducible --output-format JSON --output-file sbom.json

audit: | $(UV)
	$(BIN)/python -m scripts.audit dev.lock $(wildcard deploy/*.lock) -- $(UV) tool run --quiet --from $(AUDIT_TOOL) pip-audit

identical: $(VENV)/.installed
	$(BIN)/python -m benchmarks.identical record --cache .identical --out $(or $(AFTER),after.jsonl)
	$(if $(BEFORE),$(BIN)/python -m benchmarks.identical compare $(BEFORE) $(or $(AFTER),after.jsonl))

latency: $(VENV)/.installed
	$(BIN)/python -m benchmarks.latency --index $(INDEX) --questions $(QUESTIONS) $(if $(TREES),--trees $(TREES))

peers: | $(UV)
	$(call environment,.venv-peers)
	$(call install,.venv-peers,. --requirement benchmarks/peers_requirements.txt)
	.venv-peers/bin/python -m benchmarks.peers

bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks.scale --embedder none
	$(BIN)/python -m benchmarks.scale --embedder minilm
	$(BIN)/python -m benchmarks.sentences
	$(BIN)/python -m benchmarks.tokens
	$(BIN)/python -m benchmarks.alignment
	$(BIN)/python -m benchmarks.words
	$(BIN)/python -m benchmarks.startup

chaos: $(VENV)/.installed integrations-environment
	MERGEWISE_KILLS=100 $(BIN)/python -m pytest tests/test_kill.py tests/test_folders.py
	MERGEWISE_KILLS=250 MERGEWISE_ATTACK=1 $(BIN)/python -m pytest tests/test_storms.py tests/store/test_repair.py  # 500 kills
	MERGEWISE_KILLS=20 $(BIN)/python -m pytest tests/designs/mrag/test_markers_cost.py
	MERGEWISE_ATTACK=1 MERGEWISE_KILLS=20 $(BIN)/python -m pytest tests/cli/test_eval_runs.py
	MERGEWISE_ATTACK=1 $(BIN)/python -m pytest tests/store/test_object_storage.py tests/store/test_sharded_buckets.py tests/store/test_reshard.py
	MERGEWISE_ATTACK=1 MERGEWISE_KILLS=20 $(INTEGRATIONS)/bin/python -m pytest tests/integrations/test_ray.py tests/server/test_replica_kills.py
	MERGEWISE_DAMAGES=20 $(BIN)/python -m pytest tests/store/test_damage.py
	MERGEWISE_ATTACK=1 MERGEWISE_KILLS=20 $(BIN)/python -m pytest tests/store/test_conditions.py tests/server tests/test_mutants.py
	$(BIN)/python -m benchmarks.serve.kills --kills 200

attack: $(VENV)/.installed $(VENV)/.fuzzer
	MERGEWISE_ATTACK=1 timeout 1200 $(BIN)/python -m pytest --numprocesses 2 --dist worksteal tests/attack
	MERGEWISE_ATTACK=1 $(BIN)/python -m pytest --numprocesses 2 tests/store/test_flips.py  # 70 of each kind of file
	MERGEWISE_ATTACK=1 $(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m hypothesis --ignore tests/attack

fuzz: $(VENV)/.installed $(VENV)/.fuzzer
	$(BIN)/python -m tests.fuzzing --minutes $(MINUTES)

$(VENV)/.fuzzer: $(VENV)/.installed
	$(call install,$(VENV),"atheris>=3.0")
	touch $@

mutants: $(VENV)/.installed
	$(BIN)/python -m benchmarks.mutants --minutes 80 $(if $(SEED),--seed $(SEED))

clean:
	rm -rf $(VENV) $(CAUSAL) $(CLIENTS) $(INTEGRATIONS) $(WHEEL) .venv-sbom sbom.json .pytest_cache .mypy_cache .ruff_cache .hypothesis .mutants .fuzzing
