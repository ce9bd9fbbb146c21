//! Writes all manual pages and shell completions: `make pages`.

use iocrec_pages::{all, root, Page};
use std::error::Error;
use std::fs;

fn main() -> Result<(), Box<dyn Error>> {
    let root = root();
    for Page { path, text } in all(&root)? {
        let path = root.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, text)?;
    }
    Ok(())
}
