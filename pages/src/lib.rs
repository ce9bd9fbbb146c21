//! Manual pages and shell completions, made from argh's data on the programs' options (`ArgsInfo`), so that they always
//! agree with `--help`.
//!
//! `make pages` writes [`all`] of them; a test compares them with the files in the repository. Neither program links
//! this crate.

pub mod bash;
pub mod fish;
pub mod man;
pub mod program;
pub mod zsh;

use program::Program;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A generated file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its path, relative to the repository's root.
    pub path: PathBuf,
    /// Its content.
    pub text: String,
}

/// The reason why pages can't be made.
#[derive(Debug)]
pub enum Error {
    /// A template can't be read.
    Template(PathBuf, io::Error),
    /// A template is invalid.
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

/// Makes all pages of both programs. `root`: the repository, which holds the templates of the manual pages.
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

/// The repository of this crate.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
