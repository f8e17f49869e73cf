# Everything runs in .venv, which the first command makes. Needed beforehand: g++, make and python3, 3.10 or newer.

PYTHON ?= python3
BIN := .venv/bin
# Tools in .venv (SWIG, Ninja) come before those of the system.
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc)

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.NOTPARALLEL:
.DELETE_ON_ERROR:

SOURCES := CMakeLists.txt pyproject.toml README.md LICENSE $(shell find cmake core openmmapi platforms python serialization \
    -type f -not -name '*.pyc' -not -name '*~')

.PHONY: help
help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: .venv/installed .venv/requirements-examples  ## liquid TIP3P water, several integrators: a table and demo/rdf.png
	@$(BIN)/python examples/tip3p_water.py

# What is only thorough: most tests on OpenCL, and those of examples, handbook, types and other people's packages.
.PHONY: test test-thorough test-all
test: CTEST_CHOICE := --label-exclude thorough
test: PYTEST_CHOICE := not thorough
test-thorough: CTEST_CHOICE := --label-regex thorough
test-thorough: PYTEST_CHOICE := thorough
test-all: test test-thorough  ## these, and the thorough ones: OpenCL, examples, handbook, other packages
test:  ## C++ tests on each platform, Python tests
test test-thorough: .venv/installed .venv/requirements-test .venv/requirements-examples .venv/requirements-docs
	@status=0 opencl=OFF variables= skipped=
	echo "Looking for an OpenCL"
	if variables=$$($(BIN)/python tests/support/opencl.py .venv/opencl 2>.venv/opencl-missing); then
	    opencl=ON
	    export OPENMM_STIFF_OPENCL_ENVIRONMENT="$$variables"
	else
	    skipped="The tests on OpenCL were SKIPPED: $$(cat .venv/opencl-missing)"
	    if [ -n "$${OPENMM_STIFF_REQUIRE_OPENCL:-}" ]; then status=1; fi
	fi
	echo "Building the C++ tests"
	$(BIN)/cmake -S . -B build --log-level=WARNING -DOPENMM_STIFF_BUILD_TESTS=ON -DOPENMM_STIFF_OPENCL_TESTS=$$opencl \
	    -DOPENMM_STIFF_ALL_PRECISIONS=$(or $(ALL_PRECISIONS),OFF) \
	    "-DOPENMM_STIFF_OPENCL_ENVIRONMENT=$${variables//$$'\n'/;}" >/dev/null
	$(BIN)/cmake --build build
	$(BIN)/ctest --test-dir build --output-on-failure --timeout 3600 --parallel $(CMAKE_BUILD_PARALLEL_LEVEL) $(CTEST_CHOICE) \
	    || status=$$?
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(CMAKE_BUILD_PARALLEL_LEVEL) -m "$(PYTEST_CHOICE)" || status=$$?
	if [ -n "$$skipped" ]; then echo "$$skipped"; fi
	exit $$status

.PHONY: test-device
test-device: DEVICE := CUDA
test-device: PACKAGE := cuda13
test-device: .venv/installed .venv/requirements-test  ## on a GPU: also PACKAGE=cuda12, or DEVICE=OpenCL PACKAGE=
	@if [ -n "$(PACKAGE)" ]; then
	    version=$$($(BIN)/python -c "import openmm; print(openmm.__version__)")
	    $(BIN)/pip install --quiet "openmm[$(PACKAGE)]==$$version"
	fi
	$(BIN)/cmake -S . -B build --log-level=WARNING -DOPENMM_STIFF_BUILD_TESTS=ON \
	    -DOPENMM_STIFF_TEST_DEVICE=$(DEVICE) >/dev/null
	$(BIN)/cmake --build build
	plugins=$$($(BIN)/python -c "import openmm; print(openmm.version.openmm_library_path)")/plugins
	cp --remove-destination build/plugins/libOpenMMStiff$(DEVICE).so "$$plugins"
	status=0
	$(BIN)/ctest --test-dir build --output-on-failure --no-tests=error --label-regex device --parallel 4 || status=$$?
	OPENMM_STIFF_DEVICE=$(DEVICE) $(BIN)/python -m pytest -m "" tests/python/test_devices.py || status=$$?
	exit $$status

.PHONY: validate
validate: $(if $(SCHEDULER),.venv/requirements-cluster)
validate: .venv/installed .venv/requirements-test .venv/requirements-examples  ## long runs against known physics
	@# What is missing in validation/ is run: make validate PROCESSES=4, SCHEDULER=tcp://host:8786, EXAMS="energy spook"
	$(BIN)/python tests/validation $(EXAMS) $(if $(PROCESSES),--processes $(PROCESSES)) \
	    $(if $(SCHEDULER),--scheduler $(SCHEDULER))
	# Random sequences of what users do, fifty times as many as in make test.
	if [ -z "$(EXAMS)" ]; then
	    HYPOTHESIS_PROFILE=long $(BIN)/python -m pytest -s tests/python/test_state_machine.py
	fi

# The C++ tests of Reference and CPU, in builds of their own; SANITIZERS=thread for one of them. OpenMM itself is
# not built for a sanitizer, but what its threads wait for is seen. Leaks are left out: it keeps what plugins register,
# and loses memory of its own; tests/python/test_bad_days.py watches ours.
.PHONY: sanitize
sanitize: .venv/requirements-build  ## the C++ tests with the sanitizers for addresses and threads
	@status=0
	export ASAN_OPTIONS=detect_leaks=0
	export UBSAN_OPTIONS=print_stacktrace=1
	for sanitizer in $(or $(SANITIZERS),address thread); do
	    echo "Building for the sanitizer: $$sanitizer"
	    $(BIN)/cmake -S . -B build-sanitize-$$sanitizer -G Ninja --log-level=WARNING -DOPENMM_STIFF_BUILD_TESTS=ON \
	        -DOPENMM_STIFF_DEVICES= -DOPENMM_STIFF_SANITIZE=$$sanitizer >/dev/null
	    $(BIN)/cmake --build build-sanitize-$$sanitizer
	    $(BIN)/ctest --test-dir build-sanitize-$$sanitizer --output-on-failure --no-tests=error \
	        --parallel $(CMAKE_BUILD_PARALLEL_LEVEL) || status=$$?
	done
	exit $$status

.PHONY: docs
docs: .venv/installed .venv/requirements-docs  ## the handbook, in build-docs/html; a warning is an error
	@$(BIN)/python -m sphinx -q -W --keep-going -b html docs build-docs/html
	echo "The handbook is in build-docs/html/index.html"

.PHONY: links
links: .venv/installed .venv/requirements-docs  ## whether the pages that the handbook refers to are there
	@$(BIN)/python -m sphinx -q -W --keep-going -b linkcheck docs build-docs/links

.PHONY: install
install: .venv/installed  ## build the plugin and install it into .venv

.PHONY: wheels
wheels: .venv/requirements-build .venv/requirements-wheels  ## wheels in dist/, for devices too; tries each, for PYTHONS
	@$(BIN)/python packaging/build_wheels.py dist
	$(BIN)/python packaging/try_wheels.py dist $(PYTHONS)

.PHONY: clean
clean:  ## remove what these commands made, .venv included
	@rm -rf build build-docs build-sanitize-* build-wheels demo dist .venv .mypy_cache .pytest_cache .hypothesis
	find examples python tests -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	@echo "Creating .venv"
	$(PYTHON) -m venv .venv

# The requirements of the build, and those of each extra in pyproject.toml.
.venv/requirements-%: pyproject.toml python/requirements.py | .venv/bin/python
	@echo "Installing what is needed for: $*"
	$(BIN)/python python/requirements.py $(subst build,build run,$*) >$@
	$(BIN)/pip install --quiet --requirement $@

# The build tree stays, so that only what has changed is compiled; the C++ tests are added to it.
.venv/installed: $(SOURCES) .venv/requirements-build
	@echo "Building openmmstiff and installing it into .venv"
	$(BIN)/pip install --quiet --no-build-isolation --no-deps --config-settings=build-dir=build .
	touch $@
