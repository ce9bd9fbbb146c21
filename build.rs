//! Compiles bpf/ with clang and leaves the objects in OUT_DIR, to be embedded by src/kernel.
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

fn build() -> Result<(), String> {
    let out = variable("OUT_DIR")?;
    // bpf_helpers.h of the very libbpf that is linked (set by libbpf-sys, its `links` metadata)
    let headers = variable("DEP_BPF_INCLUDE")?;
    let machine = variable("CARGO_CFG_TARGET_ARCH")?;
    let registers = match machine.as_str() {
        "x86_64" => "x86",
        "aarch64" => "arm64",
        other => return Err(format!("no BPF programs for {other} yet; x86_64 and aarch64 are supported")),
    };
    // <linux/types.h> pulls in <asm/types.h>, which Debian keeps in a directory a target
    let multiarch = format!("/usr/include/{machine}-linux-gnu");
    for (name, defines) in [("ring", &["-DIOCREC_RING"][..]), ("perf", &[])] {
        let object = Path::new(&out).join(format!("{name}.bpf.o"));
        compile(&object, &headers, &multiarch, registers, defines)?;
        strip(&object);
    }
    Ok(())
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

/// Drops the DWARF, most of the bytes; BTF stays. Without llvm-strip the objects are only larger.
fn strip(object: &Path) {
    let done = Command::new("llvm-strip").arg("-g").arg(object).status();
    if !matches!(done, Ok(status) if status.success()) {
        println!("cargo::warning=llvm-strip is missing (apt-get install llvm): the BPF objects keep their debug data");
    }
}
