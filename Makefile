# make demo          index the manual (or DOCS=path) and answer a question (QUESTION="...") with cited sentences
# make test          lint, types and all tests but those of integrations and causal models; CI runs this and the next three
# make quick         lint, types and every test that starts no process or server and opens no database: a minute on two cores
# make wheel         the wheel, installed into an empty environment, where `mergewise demo` runs from an empty folder
# make integrations  the retrievers for LangChain, LlamaIndex and Haystack, and a Ray cluster of two nodes, tested with these packages (some 500 MB)
# make causal        causal models and training, tested with torch on tiny models (TORCH=..., some 220 MB)
# make docs          the site of the manual in `site`: no network, and a broken link is an error
# make figures       the plots of the manual, from benchmarks/results
# make coverage      the tests with coverage; fails below FLOOR=90 per cent
# make lock          dev.lock, the versions that development and CI install (needs uv)
# make attack        what docs/trust.md says was tried, in its long form: twenty minutes at most
# make fuzz          an hour of fuzzing guided by coverage (MINUTES=60), of which make attack has a short form; it goes on where it ended
# make bench         speed and memory of the index, of sentences, tokens and alignment
# make chaos         kills of writers, servers, an evaluation, a cluster and at each request to a bucket; damage; the server's tests in their long form
# make mutants       220 small changes of the sources: does a test notice? (up to 80 minutes; stopped, it goes on; SEED=2 draws others)

PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
CAUSAL := .venv-causal
WHEEL  ?= .venv-wheel
MINUTES ?= 60
# per cent of lines and branches that the tests must reach
FLOOR  ?= 90
# the build for processors alone, from PyTorch's own index or a local one: that of PyPI brings gigabytes of CUDA along
TORCH  ?= torch==2.13.0+cpu

.PHONY: demo quick test tests lint wheel integrations integrations-environment causal causal-environment docs figures coverage lock attack fuzz bench chaos mutants clean

# the versions that dev.lock holds; LOCKED= takes the newest
LOCKED ?= --constraint dev.lock

$(VENV)/.installed: pyproject.toml dev.lock
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || python3 -m venv $(VENV)
	$(BIN)/python -m pip install --quiet $(LOCKED) --editable ".[dev]"
	touch $@

demo: $(VENV)/.installed
	$(BIN)/mergewise demo $(DOCS) $(if $(QUESTION),--question "$(QUESTION)")

# types are looked at by one process: the tests begin beside it
test: $(VENV)/.installed
	$(MAKE) --jobs=2 lint tests

tests: $(VENV)/.installed
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

quick: export MERGEWISE_QUICK := 1
quick: export PYTHONDONTWRITEBYTECODE :=
quick: $(VENV)/.installed
	$(MAKE) --jobs=2 lint quick-tests

quick-tests:
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m "not process and not slow"

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

wheel:
	rm -rf $(WHEEL) && ($(PYTHON) -m venv $(WHEEL) || python3 -m venv $(WHEEL))
	$(WHEEL)/bin/python -m pip wheel --quiet --no-deps --wheel-dir $(WHEEL)/dist .
	$(WHEEL)/bin/python -m pip install --quiet $(WHEEL)/dist/mergewise-*.whl
	mkdir $(WHEEL)/empty && cd $(WHEEL)/empty && env -u PYTHONPATH ../bin/mergewise demo

$(VENV)/.integrations: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet $(LOCKED) --editable ".[dev,integrations]"
	touch $@

integrations-environment: $(VENV)/.integrations

integrations: integrations-environment
	$(BIN)/python -c "import haystack, langchain_tests, llama_index.core, ray"  # their tests would be skipped without a word
	$(BIN)/python -m pytest -o asyncio_mode=auto -o asyncio_default_fixture_loop_scope=function tests/integrations

$(CAUSAL)/.installed: pyproject.toml dev.lock
	test -x $(CAUSAL)/bin/python || $(PYTHON) -m venv $(CAUSAL) || python3 -m venv $(CAUSAL)
	$(CAUSAL)/bin/python -m pip install --quiet $(LOCKED) --no-compile $(TORCH) hypothesis pytest pytest-xdist --editable ".[train]"
	touch $@

causal-environment: $(CAUSAL)/.installed

causal: $(CAUSAL)/.installed
	$(CAUSAL)/bin/python -c "import onnx, torch, transformers"  # their tests would be skipped without a word
	OMP_NUM_THREADS=1 $(CAUSAL)/bin/python -m pytest --numprocesses auto --dist worksteal tests/models/test_*causal*.py tests/designs/aed/training/test_causal_*.py

docs: $(VENV)/.installed
	$(BIN)/python -m scripts.reference
	$(BIN)/python -m scripts.diagrams
	$(BIN)/zensical build --clean --strict

figures: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet $(LOCKED) --editable ".[plots]"
	$(BIN)/python -m scripts.figures

coverage: $(VENV)/.installed
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal --cov --cov-report= --cov-fail-under=$(FLOOR)
	$(BIN)/python -m coverage report --format total

lock:
	uv pip compile pyproject.toml --extra dev --extra integrations --extra train --extra plots --universal --python-version 3.11 \
	  --constraint dev.in --no-emit-index-url --no-annotate --no-header --quiet --output-file dev.lock

bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks.scale --embedder none
	$(BIN)/python -m benchmarks.scale --embedder minilm
	$(BIN)/python -m benchmarks.sentences
	$(BIN)/python -m benchmarks.tokens
	$(BIN)/python -m benchmarks.alignment
	$(BIN)/python -m benchmarks.words
	$(BIN)/python -m benchmarks.startup

chaos: $(VENV)/.installed
	MERGEWISE_KILLS=100 $(BIN)/python -m pytest tests/test_kill.py tests/test_folders.py
	MERGEWISE_KILLS=20 $(BIN)/python -m pytest tests/designs/mrag/test_markers_cost.py
	MERGEWISE_ATTACK=1 MERGEWISE_KILLS=20 $(BIN)/python -m pytest tests/cli/test_eval_runs.py
	MERGEWISE_ATTACK=1 $(BIN)/python -m pytest tests/store/test_object_storage.py
	$(BIN)/python -m pip install --quiet $(LOCKED) --editable ".[dev,ray]"
	MERGEWISE_ATTACK=1 $(BIN)/python -m pytest tests/integrations/test_ray.py
	MERGEWISE_DAMAGES=20 $(BIN)/python -m pytest tests/store/test_damage.py
	MERGEWISE_ATTACK=1 MERGEWISE_KILLS=20 $(BIN)/python -m pytest tests/store/test_conditions.py tests/server tests/test_mutants.py
	$(BIN)/python -m benchmarks.serve.kills --kills 200

attack: $(VENV)/.installed $(VENV)/.fuzzer
	MERGEWISE_ATTACK=1 timeout 1200 $(BIN)/python -m pytest --numprocesses 2 --dist worksteal tests/attack

fuzz: $(VENV)/.installed $(VENV)/.fuzzer
	$(BIN)/python -m tests.fuzzing --minutes $(MINUTES)

$(VENV)/.fuzzer: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet "atheris>=3.0"
	touch $@

mutants: $(VENV)/.installed
	$(BIN)/python -m benchmarks.mutants --minutes 80 $(if $(SEED),--seed $(SEED))

clean:
	rm -rf $(VENV) $(CAUSAL) $(WHEEL) .pytest_cache .mypy_cache .ruff_cache .hypothesis .mutants .fuzzing
