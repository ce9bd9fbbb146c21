//! Manual pages and shell completions, made from what argh knows of the programs' options (`ArgsInfo`), so that they
//! can't say anything else than `--help`.
//!
//! `make pages` writes [`all`] of them; a test compares them with what is in the repository. Nothing here is linked into
//! either program.

pub mod bash;
pub mod fish;
pub mod man;
pub mod program;
pub mod zsh;

use program::Program;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A file that is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Where it stands, from the repository's root.
    pub path: PathBuf,
    /// What is in it.
    pub text: String,
}

/// Why pages can't be made.
#[derive(Debug)]
pub enum Error {
    /// A template can't be read.
    Template(PathBuf, io::Error),
    /// A template asks for something that there is not.
    Page(PathBuf, man::Error),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Template(path, error) => write!(f, "{}: {error}", path.display()),
            Error::Page(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for Error {}

/// All pages of both programs. `root`: the repository, where the templates of the manual pages are.
///
/// # Errors
/// If a template can't be read or used.
pub fn all(root: &Path) -> Result<Vec<Page>, Error> {
    let mut pages = Vec::new();
    for program in [Program::iocrec(), Program::iocreplay()] {
        let name = program.name;
        let template = root.join(format!("docs/man/{name}.1.in"));
        let text = fs::read_to_string(&template).map_err(|error| Error::Template(template.clone(), error))?;
        let text = man::page(&program, &text).map_err(|error| Error::Page(template, error))?;
        pages.push(Page { path: format!("docs/man/{name}.1").into(), text });
        let completions = Path::new("packaging/completions");
        pages.push(Page { path: completions.join(format!("{name}.bash")), text: bash::completion(&program) });
        pages.push(Page { path: completions.join(format!("_{name}")), text: zsh::completion(&program) });
        pages.push(Page { path: completions.join(format!("{name}.fish")), text: fish::completion(&program) });
    }
    Ok(pages)
}

/// The repository that this crate is in.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
