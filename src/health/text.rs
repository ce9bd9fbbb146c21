//! The texts of /proc that the beat reads. Any bytes may come; what isn't as proc(5) says is `None`.

/// What the scheduler has counted for a thread since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Time that it has run, nanoseconds. The kernel adds to it at ticks and switches, so it may lag by 10 ms.
    pub run: u64,
    /// Time that it has waited for a CPU though it could run, nanoseconds. A wait is added when it ends.
    pub waiting: u64,
    /// How often it has got a CPU.
    pub times: u64,
}

/// Parses a schedstat: `run waiting times`. A kernel that does not count writes zeros, which no thread has that runs.
pub fn counts(text: &[u8]) -> Option<Counts> {
    let mut words = words(text);
    let counts = Counts { run: words.next()??, waiting: words.next()??, times: words.next()?? };
    (counts != Counts::default()).then_some(counts)
}

/// A process's stat, as far as the beat needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its state: `Z` if it has ended.
    pub state: u8,
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that needed the disk.
    pub major_faults: u64,
    /// Number of its threads.
    pub threads: u64,
    /// Pages in memory; 0 if it has no memory any more.
    pub resident: u64,
}

/// Parses a stat. The name in it may hold anything, brackets and ends of lines, too.
pub fn stat(text: &[u8]) -> Option<Stat> {
    let name_end = text.iter().rposition(|&byte| byte == b')')?;
    let rest = text.get(name_end + 1..)?;
    let state = *rest.iter().find(|byte| !byte.is_ascii_whitespace())?;
    // field 3 is the state, and comes first here
    let mut words = words(rest);
    let mut field = |skipped: usize| words.nth(skipped)?;
    Some(Stat {
        state,
        minor_faults: field(7)?,
        major_faults: field(1)?,
        threads: field(7)?,
        resident: field(3)?,
    })
}

/// The number of dropped datagrams of each UDP socket in a /proc/net/udp: inode and drops. Calls `each` for them.
pub fn drops(text: &[u8], each: &mut dyn FnMut(u64, u64)) {
    for line in text.split(|&byte| byte == b'\n').skip(1) {
        // sl local remote st tx:rx tr:when retrnsmt uid timeout inode ref pointer drops
        let mut words = words(line).skip(9);
        let inode = words.next().flatten();
        if let (Some(inode), Some(drops)) = (inode.filter(|&inode| inode != 0), words.nth(2).flatten()) {
            each(inode, drops);
        }
    }
}

/// How many TCP connections have been opened from either side, by a /proc/net/snmp.
pub fn opened(text: &[u8]) -> Option<u64> {
    let mut lines = text.split(|&byte| byte == b'\n').filter_map(|line| line.strip_prefix(b"Tcp:"));
    // RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens, and behind the line with these names their values
    let mut words = words(lines.nth(1)?).skip(4);
    Some(words.next()??.wrapping_add(words.next()??))
}

/// The numbers of a text; `None` for a word that is none.
fn words(text: &[u8]) -> impl Iterator<Item = Option<u64>> + '_ {
    let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    words.map(|word| std::str::from_utf8(word).ok()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_whatever_the_name() {
        let rest = "S 1 2 3 4 5 6 700 8 9 10 11 12 13 14 20 0 21 0 4242 99999 1234 18446744073709551615 1 1";
        for name in ["ioc", "a) S 1 (b", "x y\nz", "))", ""] {
            let found = stat(format!("42 ({name}) {rest}\n").as_bytes()).unwrap();
            let expected =
                Stat { state: b'S', minor_faults: 700, major_faults: 9, threads: 21, resident: 1234 };
            assert_eq!(found, expected);
        }
        assert_eq!(stat(format!("42 (\u{fc}) {rest}").as_bytes()).map(|stat| stat.threads), Some(21));
        for wrong in ["", ")", "1 (a)", "1 (a) S 1 2 3", "1 (a) S 1 2 3 4 5 6 x 8 9 10"] {
            assert_eq!(stat(wrong.as_bytes()), None);
        }
    }

    #[test]
    fn drops_of_sockets() {
        let table = b"   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n  \
            371: 00000000:13C8 00000000:0000 07 00000000:00000300 00:00000000 00000000     0        0 4711 2 000000006e1b2a3c 2744\n\
            372: x\n373: 00000000:13C9 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4712 2 0000000000000000 0        \n";
        let mut found = Vec::new();
        drops(table, &mut |inode, drops| found.push((inode, drops)));
        assert_eq!(found, [(4711, 2744), (4712, 0)]);
    }

    #[test]
    fn connections_that_were_opened() {
        let table = b"Ip: Forwarding DefaultTTL\nIp: 1 64\n\
            Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets\n\
            Tcp: 1 200 120000 -1 5731 428 17 3\nUdp: InDatagrams\nUdp: 9\n";
        assert_eq!(opened(table), Some(5731 + 428));
        let own = std::fs::read("/proc/thread-self/net/snmp").unwrap();
        assert!(opened(&own).is_some(), "{}", String::from_utf8_lossy(&own));
        for wrong in [&b""[..], b"Tcp: 1 2 3 4 5 6\n", b"Tcp:\nTcp: 1 2 3 4 5\n", b"Tcp:\nTcp: 1 2 3 4 5 x\n"]
        {
            assert_eq!(opened(wrong), None, "{wrong:?}");
        }
    }

    /// No bytes make them panic.
    #[test]
    fn any_bytes() {
        let mut seed = 1_u64;
        let alphabet = b"0123456789 ()\n\t-:xSZ\xff\0";
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..seed % 90)
                .map(|_| {
                    seed =
                        seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    alphabet[(seed >> 33) as usize % alphabet.len()]
                })
                .collect();
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(7);
            let _ = (counts(&bytes), stat(&bytes), opened(&bytes));
            drops(&bytes, &mut |_, _| {});
        }
    }

    #[test]
    fn a_schedstat() {
        assert_eq!(counts(b"12 34 5\n"), Some(Counts { run: 12, waiting: 34, times: 5 }));
        for wrong in
            [&b""[..], b"0 0 0\n", b"1 2", b"1 2 x", b"-1 2 3", b"1 \xff 3", b"99999999999999999999 0 1"]
        {
            assert_eq!(counts(wrong), None, "{wrong:?}");
        }
    }
}
