//! Compiles each bpf/NAME.bpf.c with clang for each kernel that the binary may meet, and leaves the objects in OUT_DIR,
//! packed, with a table of them (objects.rs), for src/bpf/objects.rs to embed.
//!
//! For the tests (tests/bpf) it also compiles them for all kernels, including the types of the contract, and leaves a
//! table of these objects (objects_of_all.rs). Not with the feature `static`, which only cross/build asks for: there it would
//! be most of this work, for each target, and these tests don't compile.
//!
//! Runs again only when bpf/, this file or $CLANG changes.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Directory of the programs.
const SOURCES: &str = "bpf";
/// Suffix of their file names.
const SUFFIX: &str = ".bpf.c";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed={SOURCES}");
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

/// The kind of buffers for hits, which determines the kernels that the programs serve.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tier {
    /// A ring buffer: kernel 5.8 and later.
    Ring,
    /// A perf buffer for each CPU: kernel 4.4 and later.
    Perf,
}

impl Tier {
    fn name(self) -> &'static str {
        match self {
            Tier::Ring => "ring",
            Tier::Perf => "perf",
        }
    }

    /// Its name in the agent.
    fn variant(self) -> &'static str {
        match self {
            Tier::Ring => "Tier::Ring",
            Tier::Perf => "Tier::Perf",
        }
    }

    fn options(self) -> &'static [&'static str] {
        match self {
            Tier::Ring => &["-mcpu=v2", "-DIOCREC_RING"],
            // v1: newer jumps need kernel 4.14 (JLT) or 5.1 (JMP32)
            Tier::Perf => &["-mcpu=v1"],
        }
    }
}

/// The objects for the ring tier alone.
const RING_ONLY: &[&str] = &["files", "filter"];

/// The objects that need their section .BTF.ext: it has the relocations of CO-RE, and the types of functions that the
/// verifier looks at once instead of at each call (without them the filter is too large for it).
const NEED_TYPES: &[(&str, Tier)] = &[("death", Tier::Ring), ("filter", Tier::Ring)];

/// A kernel on which a binary may run, and the tiers available there.
struct Kernel {
    /// Its name in bpf/registers.h.
    registers: &'static str,
    /// Prefixes of `uname -m` there.
    machines: &'static [&'static str],
    tiers: &'static [Tier],
}

const BOTH: &[Tier] = &[Tier::Ring, Tier::Perf];
const X86_64: Kernel = Kernel { registers: "x86", machines: &["x86_64"], tiers: BOTH };
const ARM64: Kernel = Kernel { registers: "arm64", machines: &["aarch64"], tiers: BOTH };
const RISCV64: Kernel = Kernel { registers: "riscv", machines: &["riscv64"], tiers: BOTH };
// In a 32-bit process libbpf's consumer of the ring buffer stalls after 4 GiB: its positions are compared as
// `unsigned long`. So 32-bit binaries have perf buffers only, whatever the kernel.
const I386: Kernel =
    Kernel { registers: "i386", machines: &["i386", "i486", "i586", "i686"], tiers: &[Tier::Perf] };
const ARM: Kernel = Kernel { registers: "arm", machines: &["arm"], tiers: &[Tier::Perf] };
const X86_64_FROM_32: Kernel = Kernel { tiers: &[Tier::Perf], ..X86_64 };
const ARM64_FROM_32: Kernel = Kernel { tiers: &[Tier::Perf], ..ARM64 };

fn build() -> Result<(), String> {
    let out = PathBuf::from(variable("OUT_DIR")?);
    let compiler = Compiler::find()?;
    let names = names()?;
    // The right programs depend on the running kernel, not on the binary.
    let kernels: &[Kernel] = match variable("CARGO_CFG_TARGET_ARCH")?.as_str() {
        "x86_64" => &[X86_64],
        "x86" => &[I386, X86_64_FROM_32],
        "aarch64" => &[ARM64],
        "arm" => &[ARM, ARM64_FROM_32],
        "riscv64" => &[RISCV64],
        other => return Err(format!("there are no BPF programs for {other}: see bpf/registers.h")),
    };
    let tested: &[Kernel] = match std::env::var_os("CARGO_FEATURE_STATIC") {
        None => &[X86_64, ARM64, RISCV64, I386, ARM],
        Some(_) => &[],
    };
    let mut embedded = String::new();
    let mut of_all = String::new();
    for name in &names {
        for (kernel, tier) in each(name, kernels) {
            let object = out.join(format!("{name}-{}-{}.bpf.o", kernel.registers, tier.name()));
            compiler.compile_small(name, &object, kernel, tier)?;
            strip(&object);
            drop_labels(&object);
            if !NEED_TYPES.contains(&(name.as_str(), tier)) {
                drop_lines(&object);
            }
            let (packed, bytes) = pack(&object)?;
            embedded += &format!(
                "Embedded {{ name: {name:?}, machines: &{:?}, tier: {}, packed: include_bytes!({packed:?}), \
                 bytes: {bytes} }},",
                kernel.machines,
                tier.variant(),
            );
        }
        for (kernel, tier) in each(name, tested) {
            let object = out.join(format!("{name}-{}-{}.test.o", kernel.registers, tier.name()));
            compiler.compile(name, &object, kernel, tier, &["-DIOCREC_CONTRACT"])?;
            strip(&object);
            let (machine, ring) = (kernel.machines[0], tier == Tier::Ring);
            of_all += &format!(
                "Compiled {{ name: {name:?}, machine: {machine:?}, ring: {ring}, path: {:?} }},",
                object.display().to_string()
            );
        }
    }
    write(&out.join("objects.rs"), &format!("&[{embedded}]"))?;
    if tested.is_empty() {
        return Ok(());
    }
    write(&out.join("objects_of_all.rs"), &format!("&[{of_all}]"))
}

/// The kernels and tiers that an object is compiled for.
fn each<'a>(name: &'a str, kernels: &'a [Kernel]) -> impl Iterator<Item = (&'a Kernel, Tier)> {
    let all = kernels.iter().flat_map(|kernel| kernel.tiers.iter().map(move |&tier| (kernel, tier)));
    all.filter(move |(_, tier)| *tier == Tier::Ring || !RING_ONLY.contains(&name))
}

/// Names of all objects, in order.
fn names() -> Result<Vec<String>, String> {
    let failed = |error| format!("{SOURCES}: {error}");
    let mut names = Vec::new();
    for entry in fs::read_dir(SOURCES).map_err(failed)? {
        let file = entry.map_err(failed)?.file_name();
        names.extend(file.to_str().and_then(|file| file.strip_suffix(SUFFIX)).map(str::to_string));
    }
    names.sort_unstable();
    Ok(names)
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// clang and its header directories.
struct Compiler {
    clang: String,
    /// Directory of bpf_helpers.h, from the same libbpf that is linked.
    libbpf: String,
    /// Directory of <asm/types.h>: Debian has one for each machine. Any of them serves, since BPF is a separate target.
    multiarch: String,
}

impl Compiler {
    fn find() -> Result<Compiler, String> {
        let host = variable("HOST")?;
        let machine = host.split('-').next().unwrap_or_default();
        Ok(Compiler {
            clang: std::env::var("CLANG").unwrap_or_else(|_| "clang".into()),
            // set by libbpf-sys, its `links` metadata
            libbpf: variable("DEP_BPF_INCLUDE")?,
            multiarch: format!("/usr/include/{machine}-linux-gnu"),
        })
    }

    fn compile(
        &self,
        name: &str,
        object: &Path,
        kernel: &Kernel,
        tier: Tier,
        options: &[&str],
    ) -> Result<(), String> {
        let (mut clang, source) = self.clang(name, kernel, tier);
        let status = clang.args(options).args(["-Wall", "-Werror", "-c", &source, "-o"]).arg(object).status();
        self.done(&source, status.map(|status| status.success()))
    }

    /// Compiles an object for the agent. BTF holds each line of the source for the verifier's messages, half of the
    /// object's bytes; so the compiler gets the text without its lines' numbers, and finds none.
    fn compile_small(&self, name: &str, object: &Path, kernel: &Kernel, tier: Tier) -> Result<(), String> {
        let (mut clang, source) = self.clang(name, kernel, tier);
        let text = clang.args(["-E", "-P", &source]).output();
        self.done(
            &source,
            text.as_ref().map(|text| text.status.success()).map_err(|error| error.kind().into()),
        )?;
        let text = text.map(|text| text.stdout).unwrap_or_default();
        let (mut clang, _) = self.clang(name, kernel, tier);
        // other objects of the same source are compiled with all warnings
        clang.args(["-w", "-x", "c", "-c", "-", "-o"]).arg(object).stdin(Stdio::piped());
        let compiled = clang.spawn().and_then(|mut child| {
            child.stdin.take().map_or(Ok(()), |mut into| into.write_all(&text))?;
            child.wait().map(|status| status.success())
        });
        self.done(&source, compiled)
    }

    /// The command that compiles a program, and its source.
    fn clang(&self, name: &str, kernel: &Kernel, tier: Tier) -> (Command, String) {
        let mut clang = Command::new(&self.clang);
        clang.args(["-target", "bpfel", "-g", "-O2"]).args(tier.options());
        clang.arg(format!("-D__TARGET_ARCH_{}", kernel.registers));
        clang.args(["-I", &self.libbpf, "-idirafter", &self.multiarch]);
        // BTF names the file of each line: not by where it was built, so that objects are the same everywhere
        if let Ok(here) = std::env::current_dir() {
            clang.arg(format!("-ffile-prefix-map={}=.", here.display()));
        }
        (clang, format!("{SOURCES}/{name}{SUFFIX}"))
    }

    /// The outcome of a run of it.
    fn done(&self, source: &str, success: io::Result<bool>) -> Result<(), String> {
        let clang = &self.clang;
        match success {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("{clang} could not compile {source}; see its messages above")),
            Err(e) => Err(format!(
                "cannot run {clang}: {e}; install it (apt-get install clang) or set CLANG to its path"
            )),
        }
    }
}

/// Drops the names of places inside functions, to which nothing refers: an eighth of the packed bytes. Without
/// llvm-objcopy the objects are merely larger, which [`drop_lines`] tells.
fn drop_labels(object: &Path) {
    let _ = Command::new("llvm-objcopy").args(["--wildcard", "--strip-symbol=LBB*"]).arg(object).status();
}

/// Packs an object (RFC 1951); returns the packed file and the object's size.
fn pack(object: &Path) -> Result<(PathBuf, usize), String> {
    /// The best compression: it takes 30 ms.
    const LEVEL: u8 = 10;
    let failed = |path: &Path, error| format!("{}: {error}", path.display());
    let bytes = fs::read(object).map_err(|error| failed(object, error))?;
    let packed = object.with_extension("deflate");
    let done = fs::write(&packed, miniz_oxide::deflate::compress_to_vec(&bytes, LEVEL));
    done.map_err(|error| failed(&packed, error))?;
    Ok((packed, bytes.len()))
}

/// Drops the DWARF, which is most of the bytes; BTF stays. Without llvm-strip the objects are merely larger.
fn strip(object: &Path) {
    let done = Command::new("llvm-strip").arg("-g").arg(object).status();
    if !matches!(done, Ok(status) if status.success()) {
        println!("cargo::warning=llvm-strip is missing (apt-get install llvm): the BPF objects keep their debug data");
    }
}

/// Drops the numbers of lines and the names of functions, which only the verifier's messages would use.
fn drop_lines(object: &Path) {
    let sections = ["--remove-section=.BTF.ext", "--remove-section=.rel.BTF.ext"];
    let done = Command::new("llvm-objcopy").args(sections).arg(object).status();
    if !matches!(done, Ok(status) if status.success()) {
        println!(
            "cargo::warning=llvm-objcopy is missing (apt-get install llvm): the BPF objects keep their lines"
        );
    }
}
