//! IOCs with a main program of their own (own_ioc.c), built in the ways that sites build theirs.

use super::{environment, not_run, python, rig_file, run, Ioc, Needs, Rig};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How a program is linked to EPICS Base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// From shared libraries, without position-independent code, as IOCs are built by default: so the program
    /// has the live `pdbbase`.
    Shared,
    /// The same as a 32-bit program.
    Shared32,
    /// Linked statically with its functions exported, as by Base from 3.15 on (`-rdynamic`).
    Static,
    /// Linked statically with nothing exported, as by 3.14.
    Unexported,
}

/// gcc's options for a 32-bit program. The kernel's headers for 64 bits serve both; Debian's gcc-multilib, which would bring
/// those for 32 bits, conflicts with cross compilers.
const GCC_32_BIT: [&str; 3] = ["-m32", "-idirafter", "/usr/include/x86_64-linux-gnu"];

/// A program that was built.
pub struct Own {
    /// Its path.
    pub program: String,
    definitions: PathBuf,
}

impl Own {
    /// Builds it; `None` if that can't be done on this machine.
    pub fn build(rig: &Rig, build: Build) -> Option<Own> {
        Own::build_with(rig, build, &[])
    }

    /// The same with more options of gcc.
    pub fn build_with(rig: &Rig, build: Build, more: &[&str]) -> Option<Own> {
        let shared = matches!(build, Build::Shared | Build::Shared32);
        let base = match build {
            Build::Shared => libraries(),
            Build::Shared32 => libraries32()?,
            Build::Static | Build::Unexported => environment_of("7.0.10.99.0.2-static"),
        };
        let program = rig.path(&format!("{build:?}{}", more.concat()).to_lowercase());
        let mut command = compiler(&base, &program);
        command.args(more).arg(rig_file("own_ioc.c")).arg(rig_file("own_threads.c"));
        if shared {
            command
                .args(["-no-pie", "-fno-pic"])
                .args(GCC_32_BIT.iter().filter(|_| build == Build::Shared32));
            libraries_of(&mut command, &base, &["-ldbRecStd", "-ldbCore", "-lca", "-lCom"]);
            command.arg("-ldl");
        } else {
            command.args(["-DREGISTER=register_all"]);
            command.arg(base.join("register.c")).arg(base.join("libBase.a"));
            command.args(["-lstdc++", "-lpthread", "-lm", "-ldl", "-lrt"]);
            command.args((build == Build::Static).then_some("-rdynamic"));
        }
        succeed(&mut command);
        Some(Own { program, definitions: base.join("dbd") })
    }

    /// Removes all symbols except those that the dynamic linker needs.
    pub fn strip(&self) {
        succeed(Command::new("strip").arg(&self.program));
    }

    /// Removes all symbols except one.
    pub fn strip_but(&self, symbol: &str) {
        succeed(Command::new("strip").args(["--keep-symbol", symbol, &self.program]));
    }

    /// Makes symbols local.
    pub fn make_local(&self, symbols: &[&str]) {
        let options = symbols.iter().map(|symbol| format!("--localize-symbol={symbol}"));
        succeed(Command::new("objcopy").args(options).arg(&self.program));
    }

    /// The command that starts it on loopback with a database of tests/rig.
    pub fn command(&self, port: u16, database: &str, more: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(&self.definitions).arg(rig_file(database)).args(more);
        command.env("IOC", "own").env("EPICS_CAS_SERVER_PORT", port.to_string());
        for variable in ["EPICS_CAS_INTF_ADDR_LIST", "EPICS_CAS_BEACON_ADDR_LIST", "EPICS_CA_ADDR_LIST"] {
            command.env(variable, "127.0.0.1");
        }
        command.env("EPICS_CAS_AUTO_BEACON_ADDR_LIST", "NO").env("EPICS_CA_AUTO_ADDR_LIST", "NO");
        command
    }

    /// Starts it up to the first step of its start.
    pub fn start_slowly(&self, rig: &Rig, port: u16, database: &str) -> Ioc {
        rig.ioc_at("own", &mut self.command(port, database, &["slow"]), "step")
    }

    /// Starts it and waits until it serves.
    pub fn start(&self, rig: &Rig, port: u16, database: &str, more: &[&str]) -> Ioc {
        rig.ioc_by("own", &mut self.command(port, database, more))
    }
}

/// Compiles own_client.c as a 32-bit program; `None` if that can't be done on this machine.
pub fn client32(rig: &Rig) -> Option<Command> {
    let base = libraries32()?;
    let program = rig.path("own_client");
    let mut command = compiler(&base, &program);
    command.args(GCC_32_BIT).arg(rig_file("own_client.c"));
    libraries_of(&mut command, &base, &["-lca", "-lCom"]);
    succeed(&mut command);
    Some(Command::new(program))
}

/// Compiles a shared library for the IOCs of ioc.py (`--routines`); its path.
pub fn shared_library(rig: &Rig, source: &str) -> String {
    shared_library_for(rig, source, None)
}

/// The same for a version of EPICS Base of .venv/epics (`--epics`).
pub fn shared_library_for(rig: &Rig, source: &str, version: Option<&str>) -> String {
    let base = version.map_or_else(libraries, |version| environment_of(version).join("epicscorelibs"));
    let library = rig.path(source.trim_end_matches(".c")) + ".so";
    succeed(compiler(&base, &library).args(["-shared", "-fPIC"]).arg(rig_file(source)));
    library
}

fn compiler(base: &Path, program: &str) -> Command {
    let include = base.join("include");
    let mut command = Command::new("gcc");
    command.args(["-O2", "-Wno-deprecated-declarations", "-o", program]);
    for directory in [include.clone(), include.join("os/Linux"), include.join("compiler/gcc")] {
        command.arg("-I").arg(directory);
    }
    command
}

/// Links libraries that are found where they are now.
fn libraries_of(command: &mut Command, base: &Path, names: &[&str]) {
    let lib = base.join("lib");
    command.arg("-L").arg(&lib).arg(format!("-Wl,--no-as-needed,-rpath,{}", lib.display()));
    command.args(names).arg("-lpthread");
}

fn libraries32() -> Option<PathBuf> {
    if cfg!(not(target_arch = "x86_64")) {
        not_run("32-bit programs", Needs::Machine("x86_64"));
        return None;
    }
    Some(environment_of("7.0.7.99.1.2-i686").join("epicscorelibs"))
}

/// The directory of the interpreter's own epicscorelibs.
pub fn libraries() -> PathBuf {
    let interpreter = python("ioc.py").get_program().to_owned();
    let mut command = Command::new(interpreter);
    let output = run(command.args(["-c", "import epicscorelibs; print(epicscorelibs.__path__[0])"]));
    PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())
}

/// A directory of .venv/epics, which scripts/setup makes.
fn environment_of(name: &str) -> PathBuf {
    let path = environment().join("epics").join(name);
    assert!(path.exists(), "{} is missing; run scripts/setup", path.display());
    path
}

/// Runs a command that must succeed.
pub fn succeed(command: &mut Command) {
    let output = run(command);
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
