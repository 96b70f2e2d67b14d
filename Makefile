# The two commands that a newcomer needs are `make demo` and `make test`.
.PHONY: demo test website build build-tests wheel wheels archive node-kit packages-check matrix networks mutants bench lint install uninstall fuzz clean help

BUILD := build
PREFIX ?= /usr/local
# By the shell: make's abspath would divide names at blanks.
ABSOLUTE_PREFIX = $$(realpath --canonicalize-missing --no-symlinks -- "$(PREFIX)")
# Without this ld.so may not find libraries of /usr/local. A staged installation (DESTDIR) is another machine's.
UPDATE_LIBRARIES = @-[ -n "$$DESTDIR" ] || [ "$$(id -u)" != 0 ] || [ ! -x /sbin/ldconfig ] || /sbin/ldconfig
# More options for CMake: CMAKE_OPTIONS=-DONESPACE_OPENMPI_INCLUDE=/opt/openmpi/include
CMAKE_OPTIONS ?=
# `make test PRESET=dev`: warnings are errors.
PRESET ?= test
# The Python that scripts/setup made for the Python package, if it could have what that is built with.
PYTHON = $(shell .venv/python/bin/python -c 'import nanobind, sys; print(sys.executable)' 2>/dev/null)

# Where the system's CMake is too old, scripts/setup has another.
ifneq ($(wildcard .venv/cmake/bin/cmake),)
export PATH := $(CURDIR)/.venv/cmake/bin:$(PATH)
endif

help:
	@echo "make demo     set up, build, run a stock MPI program as processes and as tasks"
	@echo "make test     set up, build, pass the tests"
	@echo "make wheel    build the Python package's wheel in build/wheel"
	@echo "make archive  build an archive that runs on other distributions, in build/packages (as root);"
	@echo "              make wheels: wheels for others; make packages-check: build and try all packages"
	@echo "make node-kit build an archive that measures and checks a node, in build/packages (as root)"
	@echo "make matrix   other kernels in virtual machines, other systems in chroots (as root); hours"
	@echo "make networks two virtual machines with an RDMA network (as root); hours"
	@echo "make mutants  remove each wait and order of the synchronisation in turn: is it noticed?"
	@echo "make bench    run the benchmarks; tables, JSON and plots in bench/results"
	@echo "make lint     clang-format, clang-tidy, shellcheck, ruff, layers"
	@echo "make website  build the documentation as web pages, in build/website/html"
	@echo "make fuzz     feed the readers of files with damaged ones (needs clang)"
	@echo "make install  install under PREFIX ($(PREFIX)); make uninstall removes it"

demo:
	scripts/setup demo
	$(MAKE) --no-print-directory build
	scripts/demo

build:
	cmake --preset release $(CMAKE_OPTIONS) >/dev/null
	cmake --build $(BUILD)

build-tests:
	cmake --preset $(PRESET) -DONESPACE_PYTHON="$(PYTHON)" $(CMAKE_OPTIONS) >/dev/null
	cmake --build $(BUILD)

test:
	scripts/setup test
	$(MAKE) --no-print-directory build-tests
	scripts/run-tests

wheel:
	scripts/setup test
	scripts/wheel

archive:
	scripts/setup packages
	packaging/archive/make

node-kit:
	scripts/setup test
	scripts/setup packages
	packaging/node-kit/make

wheels:
	scripts/setup packages
	packaging/wheels/make

# Each kind of package, built and run in fresh chroots: an hour or two, once a night.
packages-check:
	scripts/setup test
	scripts/setup packages
	scripts/check-packages

# Other kernels and systems: some hours, once a night.
matrix:
	scripts/setup test
	scripts/setup machine
	scripts/setup packages
	$(MAKE) --no-print-directory build-tests
	scripts/matrix

# MPI jobs over an RDMA network, between two virtual machines: some hours, once a night.
networks:
	scripts/setup test
	scripts/setup networks
	scripts/fetch-nodes
	$(MAKE) --no-print-directory build-tests
	ONESPACE_LONG=1 /usr/bin/python3 -m pytest -q -rs tests/networks

mutants:
	scripts/setup test
	tests/mutants/run

bench: build
	bench/run-all

website:
	scripts/setup website
	scripts/website

lint:
	scripts/lint

fuzz:
	cmake --preset fuzz >/dev/null
	cmake --build --preset fuzz --target fuzzers
	ctest --preset fuzz -j "$$(nproc)"

install: build
	cmake --install $(BUILD) --prefix "$(ABSOLUTE_PREFIX)"
	$(UPDATE_LIBRARIES)
	@grep -q '^ONESPACE_PYTHON_DIR:[^=]*=.' $(BUILD)/CMakeCache.txt || \
	  echo "install: without the Python package, which pip installs (docs/install.md#pip), or \
	CMAKE_OPTIONS='-DONESPACE_PYTHON=PYTHON -DONESPACE_PYTHON_DIR=DIR'"

uninstall:
	cmake -DPREFIX="$(ABSOLUTE_PREFIX)" -P cmake/uninstall.cmake
	$(UPDATE_LIBRARIES)

clean:
	rm -rf build build-*
