# Every target sets up what it needs: a clone and one command are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
REFERENCE := .venv-reference
SERVER := .venv-server
INSPECT := .venv-inspect
BENCH := .venv-bench
MUTATIONS := .venv-mutations
FLOORS := .venv-floors
TPU := .venv-tpu
RUN := runs/mini
LABELS := $(RUN)-labels
REAL := runs/real
MODEL ?= smollm2
SCORE = $(BIN)/batch-calibration score --workdir=$(RUN)
export JAX_PLATFORMS ?= cpu
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Where it is set, each program compiles a thousand modules anew, for one to three seconds.
unexport PYTHONDONTWRITEBYTECODE
# `make test` compiles thousands of small programs once each: without optimizations that takes half
# the time. What is optimized is tested by `make test-all`, and all of it by `make test QUICK=`.
# `make reference` compares results with other libraries', and compiles without optimizations, too.
QUICK ?= --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false

.PHONY: run paper real test check test-all docs tools reference tpu bench mutations wheel floors clean

# Two commands at once, as each leaves cores idle; only the second one prints. A shell has what is
# in the background ignore Ctrl-C.
both = $(1) >/dev/null & first=$$!; trap "kill $$first" INT; \
	$(2); ended=$$?; wait $$first && exit $$ended

# Studies that run at once have no context in common.
run: $(VENV)/.run
	$(call both,$(SCORE) --config=configs/vision.py:mini,$(SCORE) --config=configs/mini.py)
	$(SCORE) --config=configs/shots.py:mini
	$(BIN)/batch-calibration calibrate --workdir=$(RUN)
	$(BIN)/batch-calibration tables --quiet --workdir=$(RUN)
	$(call both,$(BIN)/batch-calibration figures --workdir=$(RUN),$(BIN)/batch-calibration \
		report --workdir=$(RUN))

# What the paper's other tables and figures need beside `make run`, and all of them; and whether the
# model reads its demonstrations.
paper: run
	$(call both,$(BIN)/batch-calibration score --config=configs/demo_labels.py --seeds=3 \
		--shots=1 --workdir=$(LABELS),$(SCORE) --config=configs/mini.py --model=mini_small)
	$(SCORE) --config=configs/zero_shot.py:mini
	$(SCORE) --config=configs/robustness.py:mini
	$(BIN)/batch-calibration calibrate --methods=all --workdir=$(RUN)
	$(BIN)/batch-calibration calibrate --config=configs/probe_size.py:mini --tasks=sst2,mnli \
		--shots=1 --methods=pc,bc,bc_running,bc_shrunk --workdir=$(RUN)
	$(BIN)/batch-calibration tables --quiet --workdir=$(RUN)
	$(BIN)/batch-calibration figures --formats=png,pdf --workdir=$(RUN)
	$(BIN)/python -m experiments.paper --models=mini_small,mini --workdir=$(RUN)
	$(BIN)/batch-calibration report --workdir=$(RUN)
	$(BIN)/batch-calibration calibrate --methods=icl,bc --workdir=$(LABELS)
	$(BIN)/python -m experiments.demonstration_labels --workdir=$(LABELS)

# A small real model on four kinds of real text, both from packages that pip fetches. MODEL=gemma3,
# FILE.gguf or a checkpoint folder for another one; the page shows all that were asked.
real: $(VENV)/.run
	$(BIN)/python -m experiments.real --workdir=$(REAL) --model=$(MODEL)

# What a change can break (goal: 6 minutes on two cores); tests marked slow are left to test-all.
test: check

check: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy -p batch_calibration -p experiments -p configs
	$(BIN)/python docs/draw_architecture.py --check
	$(MAKE) docs
	XLA_FLAGS="$(QUICK)" $(BIN)/python -m pytest -m "not slow" --numprocesses=2 --dist=worksteal

# The rest: training, shipped data, workers that are killed, browsers, every case of every option.
test-all: $(VENV)/.test
	$(BIN)/python -m pytest -m slow --numprocesses=2 --dist=loadfile

docs: $(VENV)/.test
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# What tests use beside Python, from Debian's packages: a browser for the report, LaTeX for tables.
tools:
	which chromium chromedriver pdflatex >/dev/null || (apt-get update -qq && \
		apt-get install -qq --no-install-recommends chromium chromium-driver texlive-latex-base \
		texlive-latex-recommended)

reference: $(REFERENCE)/.installed $(SERVER)/.installed $(INSPECT)/.installed $(TPU)/.installed
	XLA_FLAGS="$(QUICK)" $(REFERENCE)/bin/python -m pytest -W default --numprocesses=2 \
		--dist=worksteal tests/reference
	$(INSPECT)/bin/python -m pytest --noconftest -W default -W ignore::ResourceWarning \
		tests/reference/test_live_inspect.py
	$(TPU)/bin/python -m pytest -W default --numprocesses=2 tests/reference/test_live_tpu.py

# Compiles the programs of a study for TPUs, without one. FLAGS=--chips=v5e for a part.
tpu: $(TPU)/.installed
	$(TPU)/bin/python -m benchmarks.tpu $(FLAGS)

# What it costs to score, beside the limit and others. FLAGS=--full for the rest.
bench: $(BENCH)/.installed
	$(BENCH)/bin/python -m benchmarks.limit $(FLAGS)
	$(BENCH)/bin/python -m benchmarks.scoring $(FLAGS)
	$(BENCH)/bin/python -m benchmarks.start
ifneq (,$(findstring --full,$(FLAGS)))
	$(BENCH)/bin/python -m benchmarks.calibration
	$(BENCH)/bin/python -m benchmarks.vision
endif

# A few mutants of the core a run: FLAGS=--sample=60 --seed=1 for more, and others.
mutations: $(VENV)/.test $(MUTATIONS)/.installed
	$(MUTATIONS)/bin/python tests/mutations.py --python=$(CURDIR)/$(BIN)/python $(FLAGS)

# Builds the wheel and uses it in an environment that has nothing else.
wheel:
	$(PYTHON) tests/wheel.py

# Some tests with the lowest versions that pyproject.toml declares. FLAGS=tests/test_x.py for others.
floors:
	$(PYTHON) tests/floors.py $(FLAGS)

# Modules are compiled when they are first imported: most of them never are.
PIP = -m pip install --quiet --no-compile
INSTALL = $(BIN)/python $(PIP) --quiet --constraint constraints/package.txt

# A constraints file for each environment: one lock would have to hold two builds of torch and what
# peers pin against ours, which pip installs from no lock of groups yet.
$(VENV)/.run: pyproject.toml constraints/package.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) \
		--editable '.[experiments,gguf]'
	touch $@

$(VENV)/.test: pyproject.toml constraints/package.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) \
		--editable '.[docs,test]'
	touch $(VENV)/.run $@

# torch alone and first, at an exact version: a range would take a build with gigabytes of CUDA.
$(REFERENCE)/.installed: pyproject.toml constraints/package.txt constraints/reference.txt
	test -x $(REFERENCE)/bin/python || $(PYTHON) -m venv $(REFERENCE)
	$(REFERENCE)/bin/python $(PIP) "$$(grep '^torch==' constraints/reference.txt)"
	$(REFERENCE)/bin/python $(PIP) --constraint constraints/reference.txt \
		--editable '.[test]' transformers 'lm-eval[hf]' dspy skorch
	touch $@

# llama.cpp is compiled here, in minutes: without what reads images, for any CPU, quickly.
$(SERVER)/.installed: constraints/server.txt
	test -x $(SERVER)/bin/python || $(PYTHON) -m venv $(SERVER)
	CMAKE_ARGS="-DLLAVA_BUILD=OFF -DMTMD_BUILD=OFF -DGGML_NATIVE=OFF \
		-DCMAKE_C_FLAGS_RELEASE=-O1 -DCMAKE_CXX_FLAGS_RELEASE=-O1" \
		$(SERVER)/bin/python $(PIP) --constraint constraints/server.txt \
		'llama-cpp-python[server]' gguf safetensors
	touch $@

# Apart: Inspect allows no fsspec as new as that of the others.
$(INSPECT)/.installed: pyproject.toml constraints/inspect.txt
	test -x $(INSPECT)/bin/python || $(PYTHON) -m venv $(INSPECT)
	$(INSPECT)/bin/python $(PIP) --constraint constraints/inspect.txt \
		--editable . inspect_ai pyarrow pytest
	touch $@

# Apart: its compiler takes 300 MB, and nothing else needs it.
$(TPU)/.installed: pyproject.toml constraints/package.txt constraints/tpu.txt
	test -x $(TPU)/bin/python || $(PYTHON) -m venv $(TPU)
	$(TPU)/bin/python $(PIP) --constraint constraints/package.txt \
		--constraint constraints/tpu.txt --editable '.[test]' 'jax[tpu]'
	touch $@

# llama.cpp is compiled for this machine's CPU, optimized: a peer is measured at its best.
$(BENCH)/.installed: pyproject.toml constraints/bench.txt
	test -x $(BENCH)/bin/python || $(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python $(PIP) "$$(grep '^torch==' constraints/bench.txt)"
	$(BENCH)/bin/python $(PIP) --constraint constraints/bench.txt \
		--editable '.[experiments,sklearn]' 'lm-eval[hf]' gguf
	CMAKE_ARGS="-DLLAVA_BUILD=OFF -DMTMD_BUILD=OFF -DGGML_NATIVE=ON -DGGML_LLAMAFILE=ON" \
		$(BENCH)/bin/python $(PIP) --constraint constraints/bench.txt llama-cpp-python
	touch $@

$(MUTATIONS)/.installed: constraints/mutations.txt
	test -x $(MUTATIONS)/bin/python || $(PYTHON) -m venv $(MUTATIONS)
	$(MUTATIONS)/bin/python $(PIP) --constraint constraints/mutations.txt cosmic-ray
	touch $@

clean:
	rm -rf $(VENV) $(REFERENCE) $(SERVER) $(INSPECT) $(BENCH) $(MUTATIONS) $(FLOORS) $(TPU) runs site .pytest_cache .mypy_cache .ruff_cache .hypothesis
