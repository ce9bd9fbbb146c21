//! Which Rust and which std cross/toolchain chooses, with made-up toolchains, so that it fetches and builds nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::rig::run;

const TARGET: &str = "armv7-unknown-linux-musleabihf";

fn write(place: &Path, text: &str) {
    fs::create_dir_all(place.parent().expect("a directory")).expect("a directory");
    fs::write(place, text).expect("a file");
    fs::set_permissions(place, fs::Permissions::from_mode(0o755)).expect("a program");
}

/// A tree with the parts of the repository that the script uses and everything that it would fetch; and two Rusts: an old
/// one on PATH and a new one in the home directory.
struct Tree {
    top: tempfile::TempDir,
}

impl Tree {
    fn new() -> Tree {
        let tree = Tree { top: tempfile::tempdir().expect("a directory") };
        let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
        for script in ["cross/toolchain", "cross/requirements.txt", "scripts/cargo"] {
            write(&tree.path(script), &fs::read_to_string(repository.join(script)).expect("a script"));
        }
        let pinned = fs::read_to_string(repository.join("cross/requirements.txt")).expect("requirements");
        write(&tree.path("target/cross/zig/requirements.txt"), &pinned);
        write(&tree.path("target/cross/rust/bin/rustc"), "#!/bin/sh\necho 'rustc of the sources'\n");
        write(&tree.path("old/cargo"), "#!/bin/sh\necho 'cargo 1.63.0'\n");
        write(&tree.path("old/rustc"), "#!/bin/sh\necho /nowhere\n");
        write(&tree.path("home/.cargo/bin/cargo"), "#!/bin/sh\necho 'cargo 1.95.0'\n");
        let libraries = format!(
            "#!/bin/sh\n[ \"$*\" = '--print target-libdir --target {TARGET}' ] && echo '{}'\n",
            tree.libraries().display()
        );
        write(&tree.path("home/.cargo/bin/rustc"), &libraries);
        tree
    }

    fn path(&self, name: &str) -> PathBuf {
        self.top.path().join(name)
    }

    fn libraries(&self) -> PathBuf {
        self.path("home/lib").join(TARGET)
    }

    /// What cross/build would get: std, how cargo builds it, the compiler, and the cargo on PATH.
    fn seen(&self) -> Vec<String> {
        let script = format!(
            "settings=$(cross/toolchain {TARGET}) || exit 1; eval \"$settings\"; \
             printf '%s\\n' \"$std\" \"${{build_std-}}\" \"${{RUSTC-}}\" \"$(command -v cargo)\""
        );
        let mut command = Command::new("bash");
        command.args(["-c", &script]).current_dir(self.top.path()).env("HOME", self.path("home"));
        command.env("PATH", format!("{}:/usr/bin:/bin", self.path("old").display()));
        command.env_remove("RUSTC").env_remove("RUSTC_BOOTSTRAP");
        let output = run(&mut command);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stderr.is_empty(), "nothing is fetched: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_string).collect()
    }
}

#[test]
fn the_std_of_a_toolchain_is_taken_where_it_is_one() {
    let tree = Tree::new();
    let cargo = tree.path("home/.cargo/bin/cargo").display().to_string();
    let sources = tree.path("target/cross/rust/bin/rustc").display().to_string();
    let without = tree.seen();
    assert_eq!(without[0], "built by rustc of the sources");
    assert!(without[1].contains("build-std"), "{without:?}");
    assert_eq!(without[2..], [sources, cargo.clone()]);
    // what a linker's component, or a std that was removed, leaves
    fs::create_dir_all(tree.libraries().join("self-contained")).expect("a directory");
    assert_eq!(tree.seen(), without);
    write(&tree.libraries().join("libstd-0123456789abcdef.rlib"), "");
    let with = tree.seen();
    assert_eq!(
        with,
        [format!("the one of {}", tree.libraries().display()), String::new(), String::new(), cargo]
    );
}
