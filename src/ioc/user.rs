//! Whom a process runs as.

use super::memory::printable;
use super::process;

/// The users whose processes are wanted: those of all, if none is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Users(Vec<u32>);

impl Users {
    /// From what a person wrote: names of /etc/passwd, or numbers.
    ///
    /// # Errors
    /// There is no such user; what to write instead.
    pub fn named(words: &[String]) -> Result<Users, String> {
        let list = process::contents("/etc/passwd").unwrap_or_default();
        let number = |word: &String| {
            match word.parse() {
            Ok(number) => Ok(number),
            Err(_) => number(&list, word).ok_or_else(|| {
                format!("--user {word}: there is no such user in /etc/passwd (id -u tells the number, which will do)")
            }),
        }
        };
        words.iter().map(number).collect::<Result<_, _>>().map(Users)
    }

    /// Is a process one of theirs? It is its effective user's. One that is gone is nobody's.
    pub fn have(&self, pid: u32) -> bool {
        self.0.is_empty()
            || effective(pid)
                .and_then(|number| number.parse().ok())
                .is_some_and(|number| self.0.contains(&number))
    }
}

/// The number of the user that a process runs as, as the kernel shows it to us.
fn effective(pid: u32) -> Option<String> {
    let status = process::text(format!("/proc/{pid}/status")).ok()?;
    // "Uid: real effective saved filesystem" (proc(5))
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().nth(1).map(str::to_string)
}

/// Name of the user that a process runs as (its effective one), by the user list that the process itself
/// sees, else the user's number; empty if the process is gone.
pub fn user(pid: u32) -> String {
    let Some(number) = effective(pid) else { return String::new() };
    let list = process::contents(format!("/proc/{pid}/root/etc/passwd")).unwrap_or_default();
    name(&list, &number).unwrap_or(number)
}

/// The number of a user's name in such a file.
fn number(list: &[u8], name: &str) -> Option<u32> {
    list.split(|&byte| byte == b'\n').find_map(|line| {
        let mut words = line.split(|&byte| byte == b':');
        (words.next()? == name.as_bytes()).then_some(())?;
        std::str::from_utf8(words.nth(1)?).ok()?.parse().ok()
    })
}

/// The name of a user's number in a file like /etc/passwd (passwd(5)).
fn name(list: &[u8], number: &str) -> Option<String> {
    list.split(|&byte| byte == b'\n').find_map(|line| {
        let mut words = line.split(|&byte| byte == b':');
        let name = words.next()?;
        (words.nth(1)? == number.as_bytes() && !name.is_empty()).then(|| printable(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_where_there_is_one() {
        let list = b"root:x:0:0::/root:/bin/sh\n\n:x:7\nioc:x:1007:1007::/:/bin/false\nbad\n";
        assert_eq!(name(list, "1007").as_deref(), Some("ioc"));
        assert_eq!(name(list, "7"), None);
        assert_eq!(
            (number(list, "ioc"), number(list, "root"), number(list, "bad")),
            (Some(1007), Some(0), None)
        );
        assert!(!user(std::process::id()).is_empty());
        assert_eq!(user(u32::MAX), "");
    }

    #[test]
    fn some_users_processes() {
        let own = nix::unistd::geteuid().as_raw();
        let of = |words: &[&str]| Users::named(&words.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert!(of(&[]).unwrap().have(std::process::id()), "all of them");
        assert!(of(&[]).unwrap().have(u32::MAX));
        assert!(of(&["4000000000", &own.to_string()]).unwrap().have(std::process::id()));
        assert!(!of(&["4000000000"]).unwrap().have(std::process::id()));
        assert!(!of(&["root"]).unwrap().have(u32::MAX), "nobody's");
        assert_eq!(of(&["root"]), of(&["0"]));
        for wrong in ["", "no such user", "-1", "4294967296"] {
            assert!(of(&[wrong]).unwrap_err().contains("no such user"), "{wrong}");
        }
    }
}
