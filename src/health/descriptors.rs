//! The descriptors of a process, and the datagrams that the kernel dropped at its UDP sockets. Dearer than the rest, so
//! looked at less often. Where a list could not be made, the next look tells what was dropped since the last one that could.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use crate::health::text;
use crate::linux::{descriptors, process, sockets};

/// Descriptors whose targets are looked at: 1.5 microseconds each. A process with more has unknown drops.
const MAX_LOOKED_AT: usize = 1024;
/// Descriptors that are counted at most. They are counted one by one: the number that Linux tells from 6.2 on as the size
/// of the directory has descriptors that are not open yet, such as that of a thread that waits in `accept`.
const MAX_COUNTED: usize = 16 << 10;

/// The dropped datagrams of each UDP socket, by inode, in each network namespace; `None` if not all could be read.
#[derive(Debug, Default)]
pub struct Tables(HashMap<u64, Option<HashMap<u64, u64>>>);

impl Tables {
    /// Those of a process's namespace.
    fn of(&mut self, pid: u32, directory: &Path) -> Option<&HashMap<u64, u64>> {
        let namespace = process::namespace(pid).unwrap_or(u64::from(pid) << 32);
        let drops = self.0.entry(namespace).or_insert_with(|| {
            let _spends = sockets::Spends::begin()?;
            let mut drops = HashMap::new();
            for table in ["net/udp", "net/udp6"] {
                let text = match process::contents(directory.join(table)) {
                    // a kernel without IPv6 has no second table
                    Err(error) if table == "net/udp" || descriptors::is_want(&error) => return None,
                    text => text.unwrap_or_default(),
                };
                text::drops(&text, &mut |inode, count| {
                    drops.insert(inode, count);
                });
            }
            Some(drops)
        });
        drops.as_ref()
    }
}

/// What was last found.
#[derive(Debug, Default)]
pub struct Descriptors {
    count: Option<u32>,
    /// Dropped datagrams of each of its UDP sockets.
    drops: HashMap<u64, u64>,
}

impl Descriptors {
    /// The number of open descriptors; `None` if unknown.
    pub fn count(&self) -> Option<u32> {
        self.count
    }

    /// Looks. Returns how many datagrams were dropped since the last look at sockets that were open then, if any were.
    pub fn look(&mut self, pid: u32, tables: &mut Tables) -> Option<u64> {
        let directory = process::directory(pid);
        let counted = count(&directory);
        self.count = counted.filter(|&count| count <= MAX_COUNTED).map(|count| count as u32);
        if counted? > MAX_LOOKED_AT {
            self.drops.clear();
            return None;
        }
        let table = tables.of(pid, &directory)?;
        let own = sockets::known_held(&directory, MAX_LOOKED_AT).ok()?.into_iter();
        let now: HashMap<u64, u64> = own.filter_map(|inode| Some((inode, *table.get(&inode)?))).collect();
        let passed = now.iter().filter_map(|(inode, drops)| drops.checked_sub(*self.drops.get(inode)?));
        let passed: Vec<u64> = passed.collect();
        self.drops = now;
        (!passed.is_empty()).then(|| passed.into_iter().fold(0, u64::saturating_add))
    }
}

/// The number of descriptors in a process's directory in /proc, up to one more than are counted.
fn count(directory: &Path) -> Option<usize> {
    Some(fs::read_dir(directory.join("fd")).ok()?.take(MAX_COUNTED + 1).filter(Result::is_ok).count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::descriptors::without_any;
    use crate::not_run::{not_run, Needs};
    use std::net::UdpSocket;

    #[test]
    fn what_is_open_and_what_was_dropped() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "exec 5<&0; exec 6<&0; exec 7<&0; echo; read end"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line)
            .unwrap();
        let mut descriptors = Descriptors::default();
        descriptors.look(child.id(), &mut Tables::default());
        assert!(descriptors.count().is_some_and(|count| count >= 6), "{descriptors:?}");
        assert_eq!(
            descriptors.count().map(|count| count as usize),
            fs::read_dir(format!("/proc/{}/fd", child.id())).ok().map(Iterator::count)
        );
        drop(child.stdin.take());
        child.wait().unwrap();
        descriptors.look(child.id(), &mut Tables::default());
        assert_eq!(descriptors.count(), None, "it has ended");
        let (socket, sender) =
            (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let mut own = Descriptors::default();
        let pid = std::process::id();
        own.look(pid, &mut Tables::default());
        let to = socket.local_addr().unwrap();
        for _ in 0..3000 {
            sender.send_to(&[0; 1000], to).unwrap();
        }
        let mut buffer = [0; 2000];
        socket.set_nonblocking(true).unwrap();
        let dropped = own.look(pid, &mut Tables::default()).unwrap();
        let mut got = 0;
        while socket.recv(&mut buffer).is_ok() {
            got += 1;
        }
        // other tests of this process have sockets, too
        assert!(dropped >= 3000 - got && got > 0, "{dropped} dropped, {got} came");
        assert_eq!(Tables::default().of(u32::MAX, Path::new("/proc/none")), None);
    }

    /// What is dropped while the recorder can open no file is told once it can.
    #[test]
    fn drops_beside_a_list_that_could_not_be_made() {
        let (socket, sender) =
            (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let mut own = Descriptors::default();
        let pid = std::process::id();
        own.look(pid, &mut Tables::default());
        let to = socket.local_addr().unwrap();
        for _ in 0..3000 {
            sender.send_to(&[0; 1000], to).unwrap();
        }
        let Some(told) = without_any(|| own.look(pid, &mut Tables::default())) else {
            let name = "descriptors::drops_beside_a_list_that_could_not_be_made";
            return not_run(name, Needs::Kernel("close_range".into()));
        };
        assert_eq!((told, own.count()), (None, None));
        let dropped = own.look(pid, &mut Tables::default()).expect("both looks saw the socket");
        let (mut got, mut buffer) = (0, [0; 2000]);
        socket.set_nonblocking(true).unwrap();
        while socket.recv(&mut buffer).is_ok() {
            got += 1;
        }
        assert!(dropped >= 3000 - got, "{dropped} dropped, {got} came");
    }
}
