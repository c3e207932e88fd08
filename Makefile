# The front door. CMake does the work (CMakePresets.json); these targets are what a person types.
# JOBS limits the compilers; PREFIX and DESTDIR say where `make install` puts things.

JOBS    ?= $(shell nproc)
PREFIX  ?= /usr/local
DESTDIR ?=

# Of `make chaos`; without SEED another one each time, which is printed.
SEED    ?=
MINUTES ?= 2
WITH    ?=
RATE    ?= 20
FAULTS  ?=

.DEFAULT_GOAL := build
.NOTPARALLEL: # what is made runs in parallel by itself
.PHONY: build build-asan packages test test-parts test-clusters sim-soak mutants asan fuzz tsan chaos chaos-sanitizers demo bench gpu-check gpu-kit lint format install uninstall deb clean help

packages:
	@cmake/install-packages.sh

# $(call compile,preset,folder,target): configuring again is quick and notices what has changed.
define compile
	@cmake --preset $(1) -DCMAKE_INSTALL_PREFIX=$(PREFIX) --log-level=NOTICE
	@cmake --build $(2) --parallel $(JOBS) --target $(3)
endef

build: packages ## build everything into build/, programs into build/bin/
	$(call compile,release,build,all)

# Some wait for leases of etcd, so there are more at a time than processors.
TESTS_AT_ONCE := $(shell echo $$(($(JOBS) + 1)))

test: test-parts test-clusters ## run every test but the slow ones, which `make chaos` runs

test-parts: build
	ctest --test-dir build --output-on-failure -j$(TESTS_AT_ONCE) -LE slow -E '^integration_'

# Clusters live on real clocks: a machine that stands still for seconds may fail one. Twice is a defect, and once
# wants to be looked at as well.
test-clusters: build
	ctest --test-dir build --output-on-failure -LE slow -R '^integration_' --repeat until-pass:2

# Seeds differ from day to day; SEEDS=A..B sets them, SECONDS the processor time of each process.
SOAK    := $(shell date +%s)
SEEDS   ?= $(SOAK)00000..$(SOAK)99999
SECONDS ?= 600

sim-soak: build ## simulate clusters from seeds on all cores: SEEDS=A..B, SECONDS=600
	build/bin/firn-sim --jobs $(JOBS) --seeds $(SEEDS) --seconds $(SECONDS)

# FILES are told apart by spaces; a file of 300 lines has about 300 mutants.
FILES ?= $(wildcard elastic/*/*.c)

mutants: packages ## break FILES="elastic/leader/leader.c" one place at a time, and say what no unit test notices; SECONDS=600
	tests/mutants/mutants.py --seconds $(SECONDS) --jobs $(JOBS) $(FILES)

build-asan: packages
	$(call compile,asan,build/asan,firn_test_programs)

# A minute of random inputs for the decoders, shared among them.
asan: build-asan ## run unit, parity and fuzz tests and scenes under the address and undefined sanitizers
	ASAN_OPTIONS=abort_on_error=1 FIRN_FUZZ_SECONDS=8 ctest --test-dir build/asan --output-on-failure -j$(TESTS_AT_ONCE) -R '^(unit|parity|fuzz|scene)_'

fuzz: packages ## fuzz every decoder with libFuzzer, SECONDS=600 each; TARGETS="plan link": these alone; what it finds is in build/fuzz/found
	$(call compile,fuzz,build/fuzz,firn_fuzzers)
	tests/fuzz/fuzz.sh $(SECONDS) $(TARGETS)

tsan: packages ## run the unit tests of threaded code under the thread sanitizer
	$(call compile,tsan,build/tsan,firn_test_programs)
	ctest --test-dir build/tsan --output-on-failure -j$(TESTS_AT_ONCE) -R '^unit_(base|kernels|comm|checkpoint|worker|daemon)_'

# $(call clusters_under,sanitizer): a change of layout and kills, with the programs of that build.
define clusters_under
	$(call compile,$(1),build/$(1),firnd firn-worker firnctl)
	FIRN_BIN=$(CURDIR)/build/$(1)/bin FIRN_SLOWNESS=4 PYTHONDONTWRITEBYTECODE=1 python3 tests/integration/test_exact.py \
	    Exact.test_shrinks_and_forks Exact.test_kills_and_scales
endef

chaos-sanitizers: packages ## whole clusters under the address and undefined sanitizers, then under the thread sanitizer
	$(call clusters_under,asan)
	$(call clusters_under,tsan)

chaos: build chaos-sanitizers ## slow tests of faults, clusters under sanitizers, then random faults: SEED=, MINUTES=, RATE= (a minute), WITH="shadow disks members store", FAULTS="flip_file crowd"
	ctest --test-dir build --output-on-failure -L slow
	FIRN_BIN=$(CURDIR)/build/bin FIRN_SEED=$(SEED) FIRN_CHAOS_SECONDS=$$(($(MINUTES) * 60)) \
	    FIRN_CHAOS_RATE=$(RATE) FIRN_CHAOS_WITH="$(WITH)" FIRN_CHAOS_FAULTS="$(FAULTS)" PYTHONDONTWRITEBYTECODE=1 python3 tests/integration/test_chaos.py

demo: build ## train a small model, kill a worker, and compare with the undisturbed run
	examples/demo.sh

bench: build ## measure the budgets
	bench/run.sh

gpu-check: ## build for GPUs, test and measure on one; writes build/gpu-report.txt; PARTS="steps jobs": these alone
	PARTS="$(PARTS)" bench/gpu_check.sh

gpu-kit: ## pack what gpu-check runs for a GPU machine without firn's libraries; FIRN_GPU_ARCHITECTURES=90: for H100, H200
	PARTS="build kit" bench/gpu_check.sh

lint: build ## style, dependency rule and static analysis
	tests/lint/run.sh

format: packages ## rewrite all C files in the tree's format
	git ls-files -z '*.c' '*.h' | xargs -0 clang-format-14 -i

install: build ## install into $(DESTDIR)$(PREFIX)
	DESTDIR=$(DESTDIR) cmake --install build

uninstall: ## remove what the last install from here has put there; configuration and data stay
	@test -f build/install_manifest.txt || { echo "nothing was installed from here" >&2; exit 1; }
	@sed 's|^|$(DESTDIR)|' build/install_manifest.txt | xargs -d '\n' rm -fv

deb: packages ## build a Debian package in build/deb/
	@cmake --preset deb --log-level=NOTICE
	@cmake --build build/deb --parallel $(JOBS)
	@cd build/deb && cpack

clean: ## remove build/
	rm -rf build

help: ## say what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
