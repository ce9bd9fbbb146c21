//! Compiles bpf/ with clang for each kernel that the binary may meet, and leaves the objects in OUT_DIR, packed, with a
//! table of them (programs.rs), to be embedded by src/bpf.
//!
//! Runs again only when bpf/, this file or $CLANG changes.

use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CLANG");
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("cargo::error={message}");
            ExitCode::FAILURE
        }
    }
}

fn variable(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|e| format!("{name}: {e}"))
}

/// A kernel that a binary may meet, and the buffers through which its hits can be taken.
struct Kernel {
    /// As bpf/registers.h names it.
    registers: &'static str,
    /// What `uname -m` begins with there.
    machines: &'static [&'static str],
    tiers: &'static [&'static str],
}

const X86_64: Kernel = Kernel { registers: "x86", machines: &["x86_64"], tiers: &["ring", "perf"] };
const ARM64: Kernel = Kernel { registers: "arm64", machines: &["aarch64"], tiers: &["ring", "perf"] };
const RISCV64: Kernel = Kernel { registers: "riscv", machines: &["riscv64"], tiers: &["ring", "perf"] };
// In a 32-bit process libbpf's consumer of the ring buffer stalls after 4 GiB: its positions are compared as
// `unsigned long`. So 32-bit binaries have perf buffers only, whatever the kernel.
const I386: Kernel =
    Kernel { registers: "i386", machines: &["i386", "i486", "i586", "i686"], tiers: &["perf"] };
const ARM: Kernel = Kernel { registers: "arm", machines: &["arm"], tiers: &["perf"] };
const X86_64_FROM_32: Kernel = Kernel { tiers: &["perf"], ..X86_64 };
const ARM64_FROM_32: Kernel = Kernel { tiers: &["perf"], ..ARM64 };

fn build() -> Result<(), String> {
    let out = variable("OUT_DIR")?;
    // bpf_helpers.h of the very libbpf that is linked (set by libbpf-sys, its `links` metadata)
    let headers = variable("DEP_BPF_INCLUDE")?;
    // Which programs are right depends on the kernel that runs, not on the binary.
    let kernels: &[Kernel] = match variable("CARGO_CFG_TARGET_ARCH")?.as_str() {
        "x86_64" => &[X86_64],
        "x86" => &[I386, X86_64_FROM_32],
        "aarch64" => &[ARM64],
        "arm" => &[ARM, ARM64_FROM_32],
        "riscv64" => &[RISCV64],
        other => return Err(format!("there are no BPF programs for {other}: see bpf/registers.h")),
    };
    // Any machine's <asm/types.h> serves: BPF is a target of its own. Debian keeps them in a directory a machine.
    let host = variable("HOST")?;
    let multiarch = format!("/usr/include/{}-linux-gnu", host.split('-').next().unwrap_or_default());
    let table = |name: &str, kernels: &[Kernel]| {
        let mut rows = String::new();
        for kernel in kernels {
            for tier in kernel.tiers {
                let object = Path::new(&out).join(format!("{}-{tier}.bpf.o", kernel.registers));
                let defines = if *tier == "ring" { &["-DIOCREC_RING"][..] } else { &[] };
                compile(&object, &headers, &multiarch, kernel.registers, defines)?;
                strip(&object);
                let (packed, bytes) = pack(&object)?;
                let machines = kernel.machines;
                let tier = if *tier == "ring" { "Ring" } else { "Perf" };
                rows += &format!(
                    "Programs {{ machines: &{machines:?}, tier: Tier::{tier}, packed: include_bytes!({packed:?}), bytes: {bytes} }},"
                );
            }
        }
        let path = Path::new(&out).join(name);
        std::fs::write(&path, format!("&[{rows}]")).map_err(|error| format!("{}: {error}", path.display()))
    };
    table("programs.rs", kernels)?;
    // for the tests of tests/bpf/portability.rs
    table("programs_of_all.rs", &[X86_64, ARM64, RISCV64, I386, ARM])
}

fn compile(
    object: &Path,
    headers: &str,
    multiarch: &str,
    registers: &str,
    defines: &[&str],
) -> Result<(), String> {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    // v1: jumps newer than that need kernel 4.14 (JLT) or 5.1 (JMP32)
    let version = if defines.is_empty() { "-mcpu=v1" } else { "-mcpu=v2" };
    let status = Command::new(&clang)
        .args(["-target", "bpfel", "-g", "-O2", "-Wall", "-Werror", version])
        .args(defines)
        .arg(format!("-D__TARGET_ARCH_{registers}"))
        .args(["-I", headers, "-idirafter", multiarch, "-c", "bpf/ioc.bpf.c", "-o"])
        .arg(object)
        .status()
        .map_err(|e| {
            format!("cannot run {clang}: {e}; install it (apt-get install clang) or set CLANG to its path")
        })?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{clang} could not compile bpf/ioc.bpf.c; its messages stand above"))
    }
}

/// Packs an object (RFC 1951); the packed file, and the object's size.
fn pack(object: &Path) -> Result<(std::path::PathBuf, usize), String> {
    /// As small as it gets: it takes 30 ms.
    const LEVEL: u8 = 10;
    let failed = |path: &Path, error| format!("{}: {error}", path.display());
    let bytes = std::fs::read(object).map_err(|error| failed(object, error))?;
    let packed = object.with_extension("deflate");
    let done = std::fs::write(&packed, miniz_oxide::deflate::compress_to_vec(&bytes, LEVEL));
    done.map_err(|error| failed(&packed, error))?;
    Ok((packed, bytes.len()))
}

/// Drops the DWARF, most of the bytes; BTF stays. Without llvm-strip the objects are only larger.
fn strip(object: &Path) {
    let done = Command::new("llvm-strip").arg("-g").arg(object).status();
    if !matches!(done, Ok(status) if status.success()) {
        println!("cargo::warning=llvm-strip is missing (apt-get install llvm): the BPF objects keep their debug data");
    }
}
