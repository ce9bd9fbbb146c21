//! Finds the script, module or program text in Python's command line.

/// The code that Python runs.
#[derive(Debug, PartialEq, Eq)]
enum Runs<'a> {
    Script(&'a str),
    Module(&'a str),
    /// Program text, as the index of the word in which it begins.
    Text(usize),
}

/// Whether the program is Python, by its name.
fn is_python(program: &str) -> bool {
    program.rsplit('/').next().is_some_and(|name| name.starts_with("python") || name.starts_with("pypy"))
}

/// Parses the options as Python does: letters may be combined, and `c`, `m`, `W` and `X` take the rest of the word, or
/// the next word (Python's manual, "Command line and environment").
fn runs(words: &[String]) -> Option<Runs<'_>> {
    let (program, words) = words.split_first()?;
    if !is_python(program) {
        return None;
    }
    let mut place = 0;
    while let Some(word) = words.get(place) {
        let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            return (word != "-").then_some(Runs::Script(word));
        };
        place += 1;
        if letters == "-" {
            return words.get(place).map(|word| Runs::Script(word));
        }
        if let Some(long) = letters.strip_prefix('-') {
            place += usize::from(long == "check-hash-based-pycs");
            continue;
        }
        let Some(at) = letters.find(['c', 'm', 'W', 'X']) else { continue };
        let attached = &letters[at + 1..];
        let of_next = attached.is_empty();
        let value = if of_next { words.get(place).map(String::as_str) } else { Some(attached) };
        match letters.as_bytes().get(at) {
            // counted from the program's name
            Some(b'c') => return value.map(|_| Runs::Text(place + usize::from(of_next))),
            Some(b'm') => return value.map(Runs::Module),
            _ => place += usize::from(of_next),
        }
    }
    None
}

/// Returns the index of the word of a command line that is program text, or ends in it.
pub fn code(words: &[String]) -> Option<usize> {
    match runs(words) {
        Some(Runs::Text(place)) => Some(place),
        _ => None,
    }
}

/// Returns the name of a process by its command line: the script or module that Python runs, else the program. Empty if
/// there is no command line.
pub fn name(words: &[String]) -> String {
    let last = |path: &str| path.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_string();
    match runs(words) {
        Some(Runs::Script(path)) => last(path),
        Some(Runs::Module(module)) => module.to_string(),
        _ => last(words.first().map_or("", String::as_str)),
    }
}

/// Returns the name of a server that is not EPICS Base: the script or module, else the program file.
pub fn name_of_server(words: &[String], exe: &str) -> String {
    if let Some(Runs::Script(_) | Runs::Module(_)) = runs(words) {
        return name(words);
    }
    let code = code(words);
    // another program may run a script
    let script = words.iter().enumerate().find(|(place, word)| word.ends_with(".py") && code != Some(*place));
    script.map_or(exe, |(_, word)| word).rsplit('/').next().unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> (String, Option<usize>) {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        (name(&words), code(&words))
    }

    #[test]
    fn a_server_that_is_not_base() {
        let of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            name_of_server(&words, "/usr/bin/python3.11")
        };
        assert_eq!(of(&["python3", "-c", "run('/a/b.py"]), "python3.11");
        assert_eq!(of(&["python3", "-m", "caproto.ioc_examples.simple"]), "caproto.ioc_examples.simple");
        assert_eq!(of(&["uv", "run", "/srv/server.py"]), "server.py");
    }

    #[test]
    fn what_python_runs() {
        for (words, called, text) in [
            (&["/opt/bin/vac", "st.cmd"][..], "vac", None),
            (&["python3", "/srv/ioc.py", "-c", "x"], "ioc.py", None),
            (&["/usr/bin/python3", "-u", "-m", "epicscorelibs.ioc"], "epicscorelibs.ioc", None),
            (&["python", "-umioc"], "ioc", None),
            (&["python3", "-c", "import x; x.run('/a/b.py')"], "python3", Some(2)),
            (&["python3.11", "-Bc", "x", "y.py"], "python3.11", Some(2)),
            (&["python3", "-cimport x"], "python3", Some(1)),
            (&["python3", "-W", "ignore", "-Xdev", "-X", "utf8", "ioc.py"], "ioc.py", None),
            (&["python3", "--check-hash-based-pycs", "never", "ioc.py"], "ioc.py", None),
            (&["python3", "--", "ioc.py"], "ioc.py", None),
            (&["pypy3", "-c"], "pypy3", None),
            (&["python3", "-"], "python3", None),
            (&["python3"], "python3", None),
            (&["python3", "/srv/vac/"], "vac", None),
            (&[], "", None),
        ] {
            assert_eq!(of(words), (called.to_string(), text), "{words:?}");
        }
    }
}
