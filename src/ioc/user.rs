//! Whom a process runs as.

use super::memory::printable;
use super::process;

/// Name of the user that a process runs as (its effective one), by the user list that the process itself
/// sees, else the user's number; empty if the process is gone.
pub fn user(pid: u32) -> String {
    let status = process::text(format!("/proc/{pid}/status")).unwrap_or_default();
    // "Uid: real effective saved filesystem" (proc(5))
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let Some(number) = line.and_then(|line| line.split_ascii_whitespace().nth(1)) else {
        return String::new();
    };
    let list = process::contents(format!("/proc/{pid}/root/etc/passwd")).unwrap_or_default();
    name(&list, number).unwrap_or_else(|| number.to_string())
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
        assert!(!user(std::process::id()).is_empty());
        assert_eq!(user(u32::MAX), "");
    }
}
