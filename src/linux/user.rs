//! The users that processes run as.

use std::fmt;

use crate::linux::process::{self, user_id};
use crate::linux::text::printable;

/// The users whose processes are wanted; all users if none is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Users(Vec<u32>);

/// `--user` names a user who is not in /etc/passwd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSuchUser(pub String);

impl fmt::Display for NoSuchUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--user {}: no such user in /etc/passwd (a user id will do: see id -u)", self.0)
    }
}

impl std::error::Error for NoSuchUser {}

impl Users {
    /// Parses a person's list of users: names in /etc/passwd, or numbers.
    ///
    /// # Errors
    /// /etc/passwd has no user of that name.
    pub fn named(words: &[String]) -> Result<Users, NoSuchUser> {
        let list = process::contents("/etc/passwd").unwrap_or_default();
        let number = |word: &String| match word.parse() {
            Ok(number) => Ok(number),
            Err(_) => number_of(&list, word).ok_or_else(|| NoSuchUser(word.clone())),
        };
        words.iter().map(number).collect::<Result<_, _>>().map(Users)
    }

    /// Whether no user is named.
    pub fn are_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a process belongs to one of these users, by its effective user. A process that has ended belongs to
    /// nobody.
    pub fn have(&self, pid: u32) -> bool {
        self.0.is_empty() || user_id(pid).is_some_and(|id| self.0.contains(&id))
    }
}

/// Name of a process's effective user, from this machine's list of users, else the user's number; empty if the process
/// has ended. Not from the list that the process sees: a user with a root directory of his own could call himself root
/// there, or make the list a file that never answers.
pub fn user(pid: u32) -> String {
    user_id(pid).map(name_of).unwrap_or_default()
}

/// The name of the user with this number, by this machine's list of users, else the number.
pub fn name_of(number: u32) -> String {
    let number = number.to_string();
    let list = process::contents("/etc/passwd").unwrap_or_default();
    name(&list, &number).unwrap_or(number)
}

/// The number of a user's name in a file like /etc/passwd.
fn number_of(list: &[u8], name: &str) -> Option<u32> {
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
            (number_of(list, "ioc"), number_of(list, "root"), number_of(list, "bad")),
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
            assert_eq!(of(&[wrong]), Err(NoSuchUser(wrong.into())));
        }
    }
}
