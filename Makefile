# Build, test and try Shingle. `make help` lists the targets.

CARGO ?= cargo

help:            ## list the targets
	@sed -n 's/^\([a-z-]*\): .*##/\1\t/p' Makefile | expand -t 16

build: tools     ## build the daemon and its tools: target/release/shingle
	$(CARGO) build --release --locked -p shingle --no-default-features

lab: tools       ## the same program with bench, reproduce, sim, trace replay, profile fit and disks test
	$(CARGO) build --release --locked -p shingle

check:           ## format, lints and the fast tests: half a minute when warm
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) test --workspace --lib --locked --quiet

quick:           ## the tests of what has changed, and of what depends on it: at most two minutes when warm
	@scripts/quick

test:            ## install what the tests need and run all of them; CI runs this. Stages and times: scripts/test -h
	@command -v python3 > /dev/null || scripts/install-tools.sh build
	@scripts/test

# Guests take packages of Debian's from the machine's own mirror, and Python's come from their registry. Without one that part is left
# out: it says why and ends with 3.
IF_GUESTS = sh -c '"$$@" || [ $$? = 3 ]' --

# The program that is tested; without one it is built first: for guests as a user builds it, for packages the static one.
PROGRAM =
# Files of guest/tests without `.sh`, or parts of names of tests.
AREA =

test-guest: $(if $(PROGRAM),tools,lab) ## all tests beside the Linux kernels of guest/README.md, in QEMU, or those of AREA="stl nbd"
	$(if $(AREA),,$(if $(PROGRAM),SHINGLE=$(PROGRAM)) $(IF_GUESTS) guest/selftest/run)
	$(if $(PROGRAM),SHINGLE=$(PROGRAM)) $(IF_GUESTS) guest/test $(AREA)

test-package: tools ## a package is installed in a new Debian root, used, and removed without a trace
	SHINGLE_PROGRAM=$(PROGRAM) scripts/release deb
	$(IF_GUESTS) packaging/test target/packages/shingle_*_amd64.deb

test-python: tools ## the wheel in a new virtual environment: types, tests, and the suites that are examples
	SHINGLE_PROGRAM=$(PROGRAM) $(IF_GUESTS) scripts/release wheel
	$(IF_GUESTS) clients/python/test target/packages/shingle_zoned-*.whl

release: tools   ## all that is published, in target/packages: scripts/release -h
	$(CARGO) test --locked -p shingle-sys --features fast-crypto --test sys crypto
	scripts/release

test-web: tools  ## the web page in a headless Chromium, if there is one: PROGRAM or target/debug/shingle
	@clients/web/test/test_page.py $(or $(PROGRAM),$${CARGO_TARGET_DIR:-target}/debug/shingle) || [ $$? = 3 ]

demo: build      ## the main job: ext4 on an SMR disk through NBD, random writes, SIGKILL, restart, compare
	scripts/demo.sh

bench: tools     ## ns per layer, the NBD server beside others, thousands of mapped devices: with profile dist
	$(CARGO) bench -p shingle-core --bench per_layer
	$(CARGO) bench -p shingle-core --bench policies
	$(CARGO) bench -p shingle-host --bench nbd
	$(CARGO) bench -p shingle-host --bench control
	$(CARGO) bench -p shingle-host --bench metrics
	$(CARGO) bench -p shingle-host --bench round
	$(CARGO) bench -p shingle-host --bench abuse

# The program that publishes figures.
DIST = $${CARGO_TARGET_DIR:-target}/dist/shingle

reproduce: tools ## the published tables: target/reproduce-zwp.html, -qd1, -noclone, -dmzoned, -latency and -stl
	$(CARGO) build --profile dist --locked -p shingle --features fast-crypto
	$(DIST) reproduce zwp --html target/reproduce-zwp.html
	$(DIST) reproduce qd1 --html target/reproduce-qd1.html
	$(DIST) reproduce noclone --html target/reproduce-noclone.html
	$(DIST) reproduce dmzoned --html target/reproduce-dmzoned.html
	$(DIST) reproduce latency --html target/reproduce-latency.html
	$(DIST) reproduce stl --html target/reproduce-stl.html

fuzz: tools      ## every fuzz target for a minute
	fuzz/run.sh all 60

# Seeds that nobody has run. FIRST=N takes those from N on, to see a soak again.
ifndef FIRST
FIRST := $(shell od -An -N5 -tu8 /dev/urandom | tr -d ' ')
endif
MINUTES = 60

soak: lab        ## fresh seeds of every profile for MINUTES=60, then every mutation by fresh seeds; failures: target/soak-failures.txt
	$${CARGO_TARGET_DIR:-target}/release/shingle sim --for $(MINUTES)m --seeds $(FIRST).. --failures target/soak-failures.txt
	SHINGLE_SEARCH=$(FIRST) $(CARGO) test --release --locked -p shingle-sim --test recorded

tools:
	@scripts/install-tools.sh

.PHONY: help build lab check quick test test-guest test-package test-python test-web release demo bench reproduce fuzz soak tools
