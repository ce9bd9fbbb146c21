//! Processes whose code is carried out in translation: by valgrind, DynamoRIO or Pin.
//!
//! Such a program is in the process itself. It reads the code of the IOC and carries out a translation, also of the breakpoint
//! that a probe has put there. The kernel knows of no probe at the translation's address, so it sends SIGTRAP: an IOC under
//! valgrind 3.19 was killed at the first hit.
//!
//! valgrind's tools are static programs that load the IOC themselves. No other static program has one that it does not hold,
//! but for a dynamic linker that was started by name. DynamoRIO and Pin are added to a process that was begun as any other, and
//! known by the names of their files (by their documentation; not tried).

use crate::linux::elf::Elf;

/// Beginnings of the names of dynamic linkers: glibc's, musl's (whose C library is its linker).
const LINKERS: [&str; 5] = ["ld-", "ld.so", "ld64.so", "libc.so", "libc.musl-"];
/// The same of translators that are added to a process.
const ADDED: [&str; 3] = ["libdynamorio.so", "pinbin", "libpinvm"];

/// Whether a process is one: by the file that it runs, if that was read, whether that has EPICS Base in it, and by the paths of
/// all files that it has mapped.
pub fn is_translated<'a>(
    program: Option<(&Elf, &str)>,
    has_base: bool,
    mut mapped: impl Iterator<Item = &'a str>,
) -> bool {
    let begins = |path: &str, names: &[&str]| {
        let name = path.rsplit('/').next().unwrap_or_default();
        names.iter().any(|begin| name.starts_with(begin))
    };
    let loads_by_itself =
        |(elf, path): (&Elf, &str)| !elf.has_interpreter && !has_base && !begins(path, &LINKERS);
    program.is_some_and(loads_by_itself) || mapped.any(|path| begins(path, &ADDED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::elf::image::small;
    use crate::linux::opened::Opened;

    #[test]
    fn by_the_program_and_by_files() {
        let read = |path: &std::path::Path| Elf::read(&Opened::named(path).unwrap(), &[]).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), small(true)).unwrap();
        let is_static = read(file.path());
        let dynamic = read(std::path::Path::new("/bin/sh"));
        assert!(dynamic.has_interpreter && !is_static.has_interpreter);
        let plain = ["/usr/lib/libdbCore.so", "/lib/ld-linux-x86-64.so.2"];
        let is = |elf, path, has_base, mapped: &[&str]| {
            is_translated(Some((elf, path)), has_base, mapped.iter().copied())
        };
        assert!(is(&is_static, "/usr/libexec/valgrind/memcheck-amd64-linux", false, &plain));
        assert!(!is(&is_static, "/opt/ioc/softIoc", true, &plain), "static");
        assert!(
            !is(&is_static, "/lib64/ld-linux-x86-64.so.2", false, &plain),
            "the linker was started by name"
        );
        assert!(!is(&dynamic, "/opt/ioc/softIoc", false, &plain));
        assert!(is(&dynamic, "/opt/ioc/softIoc", false, &["/opt/dr/lib64/release/libdynamorio.so"]));
        assert!(!is_translated(None, false, plain.into_iter()), "unknown");
    }
}
