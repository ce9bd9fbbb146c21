# What people run. `make help` lists it; scripts/setup installs what it needs.

CARGO := scripts/cargo
# How long make fuzz takes for each of its targets.
SECONDS ?= 60
# How large a log make bench reads. 1000 takes some minutes, and as much room in /tmp.
MEGABYTES ?= 200
# For booting other kernels (cross/boot-test.py).
QEMU := qemu-system-x86 qemu-system-arm qemu-system-misc cpio

# Says why before anything is started, so that nothing fails halfway.
define need_root
	@[ "$$(id -u)" = 0 ] || { echo "make $@: needs root: $(1); run: sudo make $@" >&2; exit 1; }
endef

.PHONY: help demo test test-kernels fuzz bench build dist deb check setup clean

help:
	@echo "make demo    record two IOCs while clients write to them, and replay what happened (root)"
	@echo "make test    everything that must hold: unit tests and whole-program tests with real IOCs (root)"
	@echo "make fuzz    readers, decoders and walkers against changed input, SECONDS=60 for each target"
	@echo "make bench   the numbers of docs/benchmarks.md, MEGABYTES=200 of log to read (root)"
	@echo "make build   release binaries: iocrec and iocreplay"
	@echo "make dist    static binaries of both for every target in targets/, into dist/"
	@echo "make deb     a Debian package of them: ARCH=amd64 (default), arm64 or armhf"
	@echo "make test-kernels  the binaries on Debian's kernels of all architectures, under QEMU (root)"
	@echo "make check   formatting, clippy and documentation"
	@echo "make setup   install what all of these need (root where Debian packages are missing)"
	@echo "make clean   remove what they made"

setup:
	@scripts/setup

build: setup
	@$(CARGO) build --release --workspace --locked

demo:
	$(call need_root,it loads BPF programs and captures packets)
	@scripts/setup
	@$(CARGO) build --release --workspace --locked
	@demo/run

test:
	$(call need_root,the tests load BPF programs and capture packets)
	@scripts/setup $(QEMU)
	@scripts/test

test-kernels:
	$(call need_root,it installs QEMU where it is missing)
	@scripts/setup $(QEMU)
	@cross/build all
	@cross/boot-test.py all

dist: setup
	@cross/build all

ARCH ?= amd64

# Asked first, so that a wrong name says so before anything is installed or built.
deb:
	@packaging/deb --target "$(ARCH)" >/dev/null
	@scripts/setup
	@cross/build "$$(packaging/deb --target "$(ARCH)")"
	@packaging/deb "$(ARCH)"

# Each target by itself, so that each has its time. Without the release profile's LTO, which takes minutes.
fuzz: export CARGO_PROFILE_RELEASE_LTO := off
fuzz: export CARGO_PROFILE_RELEASE_CODEGEN_UNITS := 16
# What overflows only wraps around otherwise.
fuzz: export CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS := true
fuzz: setup
	@for target in bytes_of_segments bodies_of_blocks; do \
		FUZZ_SECONDS=$(SECONDS) $(CARGO) test --release --locked -p iocrec-log --test fuzz $$target -- --nocapture || exit 1; \
	done
	@FUZZ_SECONDS=$(SECONDS) $(CARGO) test --release --locked -p iocreplay logs_that_nobody_would_write -- --nocapture
	@FUZZ_SECONDS=$(SECONDS) $(CARGO) test --release --locked -p iocrec --test ca packets_that_were_changed -- --nocapture
	@for target in images_that_were_changed files_that_were_changed requests_that_were_changed; do \
		FUZZ_SECONDS=$(SECONDS) $(CARGO) test --release --locked -p iocrec --lib $$target -- --nocapture || exit 1; \
	done

bench:
	$(call need_root,it loads BPF programs and installs bpftrace, perf and tcpdump)
	@scripts/setup bpftrace linux-perf tcpdump zstd
	@$(CARGO) build --release --workspace --locked
	@cross/build $$(uname -m)-unknown-linux-musl
	@IOCREC=$$(ls dist/iocrec-*-$$(uname -m)-unknown-linux-musl) benches/run
	@IOCREC=$$(ls dist/iocrec-*-$$(uname -m)-unknown-linux-musl) benches/attach
	@benches/size
	@$(CARGO) build --release --locked -p iocrec-log --example write_log
	@benches/reading
	@IOCREC=$$(ls dist/iocrec-*-$$(uname -m)-unknown-linux-musl) benches/wear
	@echo "Command: \`cargo run --release -p iocrec-log --example reading $(MEGABYTES)\`."
	@$(CARGO) run --release --locked -q -p iocrec-log --example reading $(MEGABYTES)

check: setup
	@scripts/check

clean:
	rm -rf target dist .venv demo-out
