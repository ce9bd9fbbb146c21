# The commands of the project; `make help` lists them. scripts/setup installs what they need.

CARGO := scripts/cargo
# How long make fuzz runs each of its targets.
SECONDS ?= 60
# The size of the log that make bench reads as a library; it asks questions of 67 MB and 1 GB, which takes some minutes and as
# much space in /tmp.
MEGABYTES ?= 200
# What make bench compares with and can't install: caPutLog's sources built as a library, cashark's ca.lua.
CAPUTLOG ?=
CASHARK ?=
# How long make soak records.
MINUTES ?= 60
# The architecture of make deb and make wheel.
ARCH ?= amd64
# For booting other kernels (cross/boot-test.py).
QEMU := qemu-system-x86 qemu-system-arm qemu-system-misc cpio
# The binary that make bench measures: the one that is shipped.
MUSL = $(shell uname -m)-unknown-linux-musl

# One of rustup's toolchains in place of the default: TOOLCHAIN=1.89
ifdef TOOLCHAIN
export RUSTUP_TOOLCHAIN := $(TOOLCHAIN)
endif

# Stops before anything has started, so that nothing fails halfway.
define need_root
	@[ "$$(id -u)" = 0 ] || { echo "make $@: needs root: $(1); run: sudo make $@" >&2; exit 1; }
endef

.PHONY: help setup build demo check lint docs pages deny test test-unprivileged test-root test-guests test-kernels test-i686 \
	miri not-run fuzz bench soak dist deb wheel clean

help:
	@echo "Start"
	@echo "  make setup    install what the other commands need (as root, where Debian packages are missing)"
	@echo "  make demo     record two IOCs while clients write to them, and replay what happened (root)"
	@echo "  make build    release binaries: iocrec and iocreplay"
	@echo
	@echo "Check"
	@echo "  make check    formatting, lints and documentation of Rust, shell and Python (also: make lint)"
	@echo "  make docs     regenerate manual pages and completions from the programs' options"
	@echo "  make deny     dependencies: licences, sources, duplicates, known vulnerabilities"
	@echo
	@echo "Test"
	@echo "  make test               all tests, make check, and the quick guests (root)"
	@echo "  make test-root          the tests alone, with real IOCs (root)"
	@echo "  make test-unprivileged  the tests that do not need root; TOOLCHAIN=1.89 chooses a toolchain of rustup's"
	@echo "  make test-guests        the binaries on a few of Debian's kernels, under QEMU"
	@echo "  make test-kernels       the same on all kernels and architectures (an hour)"
	@echo "  make test-i686          log and reader as 32-bit programs"
	@echo "  make miri               the log's unit tests under Miri (nightly toolchain)"
	@echo "  make not-run            which tests of the last run did not run, and why"
	@echo "  make fuzz               readers, decoders and walkers with mutated input, SECONDS=60 for each target"
	@echo "  make bench              the numbers of docs/benchmarks.md, with a log of MEGABYTES=200 (root)"
	@echo "  make soak               an hour (MINUTES=60) of everything at once: whether memory stays flat (root)"
	@echo
	@echo "Release"
	@echo "  make dist     static binaries for every target in targets/, into dist/"
	@echo "  make deb      two Debian packages: ARCH=amd64 (default), arm64 or armhf"
	@echo "  make wheel    iocreplay for Python, program and module: ARCH=amd64 (default) or arm64"
	@echo "  make clean    remove everything that these commands made"

setup:
	@scripts/setup

build:
	@scripts/setup --for build
	@$(CARGO) build --release --workspace --locked

demo:
	$(call need_root,it loads BPF programs and captures packets)
	@scripts/setup
	@$(CARGO) build --release --workspace --locked
	@demo/run

check lint:
	@scripts/setup --for check
	@scripts/check

docs pages:
	@scripts/setup --for build
	@$(CARGO) run --quiet --locked --package iocrec-pages

deny:
	@scripts/setup --for build
	@scripts/deny

test:
	$(call need_root,the tests load BPF programs and capture packets)
	@scripts/setup --begin --for test $(QEMU)
	@scripts/test --setup

test-unprivileged:
	@if [ -n "$(TOOLCHAIN)" ] && ! rustup run "$(TOOLCHAIN)" cargo --version >/dev/null 2>&1; then \
		scripts/not-run "make $@: needs rustup toolchain install $(TOOLCHAIN)"; \
	else \
		scripts/setup && scripts/test --unprivileged; \
	fi

test-root:
	$(call need_root,the tests load BPF programs and capture packets)
	@scripts/setup
	@scripts/test --stage cargo

test-guests:
	@scripts/setup --for build $(QEMU)
	@cross/boot-test.py quick

test-kernels:
	@scripts/setup --for build $(QEMU)
	@cross/build all
	@cross/boot-test.py all

test-i686:
	@scripts/setup --for build
	@cross/test i686-unknown-linux-musl

miri:
	@scripts/setup --for build
	@scripts/miri

not-run:
	@scripts/test --not-run

# Each target by itself, so that each gets its time. Without the release profile's LTO, which takes minutes.
fuzz: export CARGO_PROFILE_RELEASE_LTO := off
fuzz: export CARGO_PROFILE_RELEASE_CODEGEN_UNITS := 16
# The release profile's arithmetic would wrap silently.
fuzz: export CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS := true
fuzz:
	@scripts/setup --for build
	@for target in bytes_of_segments bodies_of_blocks; do \
		FUZZ_SECONDS=$(SECONDS) $(CARGO) test --release --locked -p iocrec-log --test fuzz $$target -- --nocapture || exit 1; \
	done
	@FUZZ_SECONDS=$(SECONDS) $(CARGO) test --release --locked -p iocreplay logs_that_nobody_would_write -- --nocapture
	@for target in packets_that_were_changed capture_files::any_bytes what_it_leaves_out_changes_no_put; do \
		FUZZ_SECONDS=$(SECONDS) $(CARGO) test --release --locked -p iocrec --test ca $$target -- --nocapture || exit 1; \
	done
	@for target in pvaccess_packets_that_were_changed however_it_is_cut what_it_leaves_out_changes_no_put; do \
		FUZZ_SECONDS=$(SECONDS) $(CARGO) test --release --locked -p iocrec --test pva $$target -- --nocapture || exit 1; \
	done
	@for target in images_that_were_changed no_content_panics files_that_were_changed lines_that_were_changed \
		groups_that_were_changed requests_that_were_changed random_datagrams a_flood_is_bounded; do \
		FUZZ_SECONDS=$(SECONDS) $(CARGO) test --release --locked -p iocrec --lib $$target -- --nocapture --test-threads=1 || exit 1; \
	done

bench:
	$(call need_root,it loads BPF programs and installs bpftrace, perf, LTTng, ltrace, tcpdump and tshark)
	@scripts/setup bpftrace linux-perf lttng-tools liblttng-ust-dev babeltrace2 ltrace tcpdump tshark zstd
	@$(CARGO) build --release --workspace --locked
	@cross/build $(MUSL)
	@IOCREC=$$(ls dist/iocrec-*-$(MUSL)) benches/run
	@IOCREC=$$(ls dist/iocrec-*-$(MUSL)) benches/beside
	@IOCREC=$$(ls dist/iocrec-*-$(MUSL)) benches/health
	@IOCREC=$$(ls dist/iocrec-*-$(MUSL)) benches/deaths
	@IOCREC=$$(ls dist/iocrec-*-$(MUSL)) benches/attach
	@IOCREC=$$(ls dist/iocrec-*-$(MUSL)) benches/walk.py
	@IOCREC=$$(ls dist/iocrec-*-$(MUSL)) benches/packets
	@IOCREC=$$(ls dist/iocrec-*-$(MUSL)) benches/searches
	@IOCREC=$$(ls dist/iocrec-*-$(MUSL)) benches/idle
	@benches/size
	@$(CARGO) build --release --locked -p iocrec-log --example write_log
	@benches/reading
	@IOCREPLAY=$$(ls dist/iocreplay-*-$(MUSL)) benches/asking --traces --floods --megabytes 67,1000
	@benches/peers
	@IOCREC=$$(ls dist/iocrec-*-$(MUSL)) benches/putlog $(if $(CAPUTLOG),--caputlog $(CAPUTLOG)) \
		$(if $(CASHARK),--cashark $(CASHARK))
	@IOCREC=$$(ls dist/iocrec-*-$(MUSL)) benches/wear
	@echo "Command: \`cargo run --release -p iocrec-log --example reading $(MEGABYTES)\`."
	@$(CARGO) run --release --locked -q -p iocrec-log --example reading $(MEGABYTES)

soak:
	$(call need_root,it loads BPF programs)
	@scripts/setup
	@$(CARGO) build --release --workspace --locked
	@cross/build $(MUSL)
	@IOCREC=$$(ls dist/iocrec-*-$(MUSL)) benches/soak $(MINUTES)

dist:
	@scripts/setup --for build
	@cross/build all

# The name is checked first, so that a wrong one fails before anything is installed or built.
deb:
	@packaging/deb --target "$(ARCH)" >/dev/null
	@scripts/setup --for build
	@cross/build "$$(packaging/deb --target "$(ARCH)")"
	@packaging/deb "$(ARCH)"

wheel:
	@packaging/wheel --target "$(ARCH)" >/dev/null
	@scripts/setup --for build
	@cross/build "$$(packaging/wheel --target "$(ARCH)")"
	@packaging/wheel "$(ARCH)"

clean:
	rm -rf target dist .venv .venv-check demo-out
