//! Finds the Channel Access servers that run on this machine, and their TCP ports.
//!
//! Makes one pass over /proc, or over some IOCs. A process that listens on TCP is a server if the caller knows that it
//! is an IOC, if it holds the UDP socket on which servers receive searches (port 5064, or the one in its own
//! environment), or if it holds TCP and UDP sockets on one port, as caproto's and other portable servers do. Port 5065,
//! on which clients' repeaters listen, proves nothing. Channel Access uses no privileged ports. In other network
//! namespaces, whose packets are mostly not seen here, only IOCs count.
//!
//! Nothing here blocks; processes that vanish or may not be read are passed over.

use std::fs;
use std::io;
use std::path::Path;

use crate::linux::ports::{Port, Ports};
use crate::linux::proc::PROC;
use crate::linux::process::contents;

/// The default port on which servers listen for searches (EPICS_CA_SERVER_PORT).
const SEARCH_PORT: u16 = 5064;
/// Ports below this are reserved for the system.
const FIRST_PORT: u16 = 1024;
/// Environment variables that name another port: the server's own takes precedence.
const PORT_VARIABLES: [&[u8]; 2] = [b"EPICS_CAS_SERVER_PORT=", b"EPICS_CA_SERVER_PORT="];

/// The ports of servers where nothing else is known: the default, and those that this process's environment names.
pub fn usual_ports() -> Vec<u16> {
    let named = port_variables().filter(|(name, _)| name.ends_with("_SERVER_PORT"));
    named.filter_map(|(_, value)| value.trim().parse().ok()).chain([SEARCH_PORT]).collect()
}

/// The variables of this process's environment that name ports of Channel Access.
pub fn port_variables() -> impl Iterator<Item = (&'static str, String)> {
    const NAMES: [&str; 5] = [
        "EPICS_CAS_SERVER_PORT",
        "EPICS_CA_SERVER_PORT",
        "EPICS_CA_REPEATER_PORT",
        "EPICS_CAS_BEACON_PORT",
        "EPICS_CA_ADDR_LIST",
    ];
    NAMES.iter().filter_map(|name| Some((*name, std::env::var(name).ok()?)))
}

/// PVAccess's ports unless the environment names others (EPICS_PVA_*).
const PVA_PORT: u16 = 5075;
const PVA_SEARCH_PORT: u16 = 5076;
const PVA_PORT_VARIABLES: [&[u8]; 2] = [b"EPICS_PVAS_SERVER_PORT=", b"EPICS_PVA_SERVER_PORT="];
const PVA_SEARCH_VARIABLES: [&[u8]; 2] = [b"EPICS_PVAS_BROADCAST_PORT=", b"EPICS_PVA_BROADCAST_PORT="];

/// A process that serves Channel Access or PVAccess.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its process id.
    pub pid: u32,
    /// TCP ports that it listens on, sorted; some may serve another protocol. Of a process that is no IOC, those that
    /// serve Channel Access.
    pub ports: Vec<u16>,
    /// The port on which a process that is no IOC serves PVAccess.
    pub pva_port: Option<u16>,
    /// The UDP port on which it is searched for then.
    pub pva_search: Option<u16>,
    /// Whether that is not certain: it is configured for another port, and what speaks for this one is an answer to a search,
    /// which anybody can send, or that it has no other.
    pub is_guess: bool,
    /// UDP ports that it is bound to.
    pub udp: Vec<u16>,
}

/// Finds the servers, in order of their process ids. `is_ioc` returns whether a process is known to be an IOC; `answered`:
/// TCP ports that servers of PVAccess have named in answers to searches, and those that the user names; `only`: unless it is
/// empty, no other process that is not an IOC is looked at. Fails only if /proc itself can't be read.
pub fn find(is_ioc: &dyn Fn(u32) -> bool, answered: &[u16], only: &[u32]) -> io::Result<Vec<Server>> {
    find_in(Path::new(PROC), is_ioc, answered, only)
}

/// The servers among these IOCs, without reading any other process.
pub fn of(iocs: &[u32]) -> Vec<Server> {
    let Ok(ports) = Ports::read(Path::new(PROC)) else { return Vec::new() };
    iocs.iter().filter_map(|&pid| server(&ports, pid, true, &[], false)).collect()
}

fn find_in(
    proc: &Path,
    is_ioc: &dyn Fn(u32) -> bool,
    answered: &[u16],
    only: &[u32],
) -> io::Result<Vec<Server>> {
    let ports = Ports::read(proc)?;
    let is_wanted = |pid: &u32| only.is_empty() || only.contains(pid) || is_ioc(*pid);
    let mut servers = Vec::new();
    for entry in fs::read_dir(proc)?.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()).filter(is_wanted);
        servers.extend(pid.and_then(|pid| server(&ports, pid, is_ioc(pid), answered, !only.is_empty())));
    }
    servers.sort_by_key(|server| server.pid);
    Ok(servers)
}

/// A process as a server, if it is one. `is_named`: the user wants it.
fn server(ports: &Ports, pid: u32, is_ioc: bool, answered: &[u16], is_named: bool) -> Option<Server> {
    let process = ports.directory(pid);
    // A process that is not an IOC is judged by its sockets first: that is cheap, since most have none.
    let mut held = ports.held(&process);
    let listens = |held: &[Port]| held.iter().any(|port| matches!(port, Port::Tcp(_)));
    if !is_ioc && !listens(&held) {
        return None;
    }
    if !ports.is_here(&process) {
        if !is_ioc {
            return None;
        }
        held = Ports::held_elsewhere(&process);
    }
    if !listens(&held) {
        return None;
    }
    let pva = if is_ioc { None } else { serving_pva(&process, &held, answered, is_named) };
    let pva_port = pva.map(|(port, ..)| port);
    let served = if is_ioc { listening(&held) } else { serving(&process, &held, pva_port) };
    let udp = |port: &Port| match port {
        Port::Udp(port) => Some(*port),
        Port::Tcp(_) => None,
    };
    let serves = !served.is_empty() || pva_port.is_some();
    let udp = held.iter().filter_map(udp).collect();
    let (pva_search, is_guess) = (pva.map(|(_, search, _)| search), pva.is_some_and(|pva| pva.2));
    serves.then_some(Server { pid, ports: served, pva_port, pva_search, is_guess, udp })
}

/// TCP ports that a process listens on.
fn listening(held: &[Port]) -> Vec<u16> {
    let tcp = |port: &Port| match port {
        Port::Tcp(port) if *port >= FIRST_PORT => Some(*port),
        _ => None,
    };
    let mut ports: Vec<u16> = held.iter().filter_map(tcp).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// TCP ports on which a process, of which nothing else is known, serves Channel Access.
fn serving(process: &Path, held: &[Port], pva_port: Option<u16>) -> Vec<u16> {
    let mut ports = listening(held);
    ports.retain(|port| Some(*port) != pva_port);
    let udp = |port: u16| held.contains(&Port::Udp(port));
    let bound = held.iter().any(|port| matches!(port, Port::Udp(_)));
    if !ports.is_empty() && bound && (udp(SEARCH_PORT) || variable(process, &PORT_VARIABLES).is_some_and(udp))
    {
        return ports;
    }
    ports.into_iter().filter(|port| udp(*port)).collect()
}

/// The TCP port on which such a process serves PVAccess, and the UDP port on which it is searched for, if it listens on both
/// where it is configured to. Clients also hold the socket for searches, so another port proves nothing, unless a server has
/// answered with it: one that finds its port taken serves on whatever is free. Anybody can answer with any port, so none
/// that may serve Channel Access counts. Of a process that the user wants, the only other port counts as well, and one that was
/// answered with, or that the user names, wherever it is searched for. The third: whether that is a guess.
fn serving_pva(process: &Path, held: &[Port], answered: &[u16], is_named: bool) -> Option<(u16, u16, bool)> {
    if !held.iter().any(|port| matches!(port, Port::Udp(_))) {
        return None;
    }
    let search = variable(process, &PVA_SEARCH_VARIABLES).unwrap_or(PVA_SEARCH_PORT);
    let serve = variable(process, &PVA_PORT_VARIABLES).unwrap_or(PVA_PORT);
    let is_held = |port: &u16| held.contains(&Port::Tcp(*port));
    let configured = Some(serve).filter(is_held);
    let port = configured.or_else(|| {
        let (ca, mut others) = (serving(process, held, None), listening(held));
        others.retain(|port| !ca.contains(port));
        let only = match others[..] {
            [only] if is_named => Some(only),
            _ => None,
        };
        answered.iter().copied().find(|port| others.contains(port)).or(only)
    })?;
    let is_searched = is_named && answered.contains(&port) || held.contains(&Port::Udp(search));
    is_searched.then_some((port, search, configured.is_none()))
}

/// A port in the environment of a process, under the first of these names that is there.
fn variable(process: &Path, names: &[&[u8]]) -> Option<u16> {
    let environment = contents(process.join("environ")).ok()?;
    names.iter().find_map(|name| {
        let value = environment.split(|b| *b == 0).find_map(|variable| variable.strip_prefix(*name))?;
        std::str::from_utf8(value).ok()?.trim().parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    fn own_ports(is_ioc: bool) -> Vec<u16> {
        let me = std::process::id();
        let servers = find(&|pid| is_ioc && pid == me, &[], &[]).expect("proc");
        servers.into_iter().find(|s| s.pid == me).map(|s| s.ports).unwrap_or_default()
    }

    #[test]
    fn this_process() {
        let plain = TcpListener::bind("127.0.0.1:0").expect("listen");
        let plain = (plain.local_addr().expect("address").port(), plain);
        // The same port on TCP and UDP, like caproto; another test may take it in between.
        let both = (0..100).find_map(|_| {
            let tcp = TcpListener::bind("127.0.0.1:0").ok()?;
            let port = tcp.local_addr().ok()?.port();
            Some((port, tcp, UdpSocket::bind(("127.0.0.1", port)).ok()?))
        });
        let both = both.expect("a port that is free on both");
        assert!(own_ports(true).contains(&plain.0));
        assert!(own_ports(true).contains(&both.0));
        assert!(own_ports(false).contains(&both.0));
        assert!(!own_ports(false).contains(&plain.0));
    }

    fn line(port: u16, state: &str, inode: u64) -> String {
        format!("   0: 0100007F:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0        0 {inode} 1 0000000000000000 100 0 0 10 0\n")
    }

    /// A /proc of our own: each process with its sockets' inodes, its namespace and environment.
    fn proc(name: &str, processes: &[(u32, &[u64], &str, &[u8])]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("iocrec-servers-{}-{name}", std::process::id()));
        drop(fs::remove_dir_all(&root));
        let write = |path: PathBuf, text: &[u8]| {
            fs::create_dir_all(path.parent().expect("parent")).expect("directory");
            fs::write(path, text).expect("write");
        };
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
        let tcp = [
            line(5064, "0A", 1),
            line(40001, "0A", 2),
            line(40001, "01", 3),
            line(22, "0A", 4),
            line(8080, "0A", 5),
        ];
        let udp = [
            line(5064, "07", 11),
            line(40001, "07", 12),
            line(6064, "07", 13),
            line(5065, "07", 14),
            line(5076, "07", 15),
        ];
        write(root.join("self/net/tcp"), format!("{head}{}junk\n", tcp.concat()).as_bytes());
        write(root.join("self/net/udp"), format!("{head}{}", udp.concat()).as_bytes());
        let ours = [(0, &[][..], "net:[1]", &b""[..])];
        for (pid, inodes, namespace, environment) in ours.iter().chain(processes) {
            let dir = if *pid == 0 { root.join("self") } else { root.join(pid.to_string()) };
            fs::create_dir_all(dir.join("ns")).expect("directory");
            symlink(namespace, dir.join("ns/net")).expect("link");
            write(dir.join("environ"), environment);
            fs::create_dir_all(dir.join("fd")).expect("directory");
            symlink("/dev/null", dir.join("fd/0")).expect("link");
            for (n, inode) in inodes.iter().enumerate() {
                symlink(format!("socket:[{inode}]"), dir.join(format!("fd/{}", n + 3))).expect("link");
            }
        }
        fs::create_dir_all(root.join("999")).expect("one that has just gone");
        root
    }

    #[test]
    fn by_their_sockets() {
        let root = proc(
            "sockets",
            &[
                (10, &[1, 11], "net:[1]", b""),
                (11, &[2, 3, 11, 4], "net:[1]", b""),
                (12, &[2, 12], "net:[1]", b""),
                (13, &[5, 13], "net:[1]", b"HOME=/\0EPICS_CA_SERVER_PORT=5064\0EPICS_CAS_SERVER_PORT=6064\0"),
                (14, &[5, 13], "net:[1]", b"EPICS_CAS_SERVER_PORT=junk\0"),
                (15, &[5, 14], "net:[1]", b""),
                (16, &[1, 11], "net:[2]", b""),
                (17, &[11], "net:[1]", b""),
                (18, &[3], "net:[1]", b""),
                (19, &[5], "net:[1]", b""),
                (20, &[4, 11], "net:[1]", b""),
                (21, &[21], "net:[2]", b""),
            ],
        );
        // an IOC in a namespace of its own, which has sockets of its own
        fs::create_dir_all(root.join("21/net")).expect("directory");
        fs::write(root.join("21/net/tcp"), format!("head\n{}", line(6000, "0A", 21))).expect("write");
        let found = find_in(&root, &|pid| pid == 19 || pid == 21, &[], &[]).expect("found");
        assert_eq!(found[0].udp, [5064]);
        let found: Vec<_> = found.into_iter().map(|s| (s.pid, s.ports)).collect();
        let expected = [
            (10, vec![5064]),
            (11, vec![40001]),
            (12, vec![40001]),
            (13, vec![8080]),
            (19, vec![8080]),
            (21, vec![6000]),
        ];
        assert_eq!(found, expected);
        let few = find_in(&root, &|pid| pid == 19, &[], &[12, 18]).expect("found");
        assert_eq!(few.iter().map(|s| s.pid).collect::<Vec<_>>(), [12, 19]);
        fs::remove_dir_all(root).expect("removed");
        assert!(find_in(Path::new("/nowhere"), &|_| false, &[], &[]).is_err());
    }

    /// Without it the second server of PVAccess on a host would be refused until somebody has searched for it.
    #[test]
    fn by_their_only_port_if_the_user_names_them() {
        let processes: [(u32, &[u64], &str, &[u8]); 4] = [
            (10, &[2, 15], "net:[1]", b""),
            (11, &[2, 14], "net:[1]", b""),
            (12, &[2, 5, 15], "net:[1]", b""),
            (13, &[1, 2, 11, 15], "net:[1]", b""),
        ];
        let root = proc("only", &processes);
        let found = find_in(&root, &|_| false, &[], &[10, 11, 12, 13]).expect("found");
        assert_eq!(found.iter().map(|s| s.is_guess).collect::<Vec<_>>(), [true, false]);
        let found: Vec<_> = found.into_iter().map(|s| (s.pid, s.ports, s.pva_port)).collect();
        // nobody searches for 11, 12 has two ports, and all of 13's may be of Channel Access
        assert_eq!(found, [(10, vec![], Some(40001)), (13, vec![5064, 40001], None)]);
        fs::remove_dir_all(root).expect("removed");
    }

    /// A gateway has its ports in a file: where it is searched for, its environment does not tell.
    #[test]
    fn by_a_port_that_the_user_names_with_them() {
        let processes: [(u32, &[u64], &str, &[u8]); 3] = [
            (10, &[2, 5, 14], "net:[1]", b""),
            (11, &[5, 14], "net:[1]", b""),
            (12, &[2, 5, 14], "net:[1]", b""),
        ];
        let root = proc("named", &processes);
        let found = find_in(&root, &|_| false, &[40001], &[10, 11]).expect("found");
        let found: Vec<_> = found.into_iter().map(|s| (s.pid, s.ports, s.pva_port)).collect();
        assert_eq!(found, [(10, vec![], Some(40001))], "11 does not listen there, nobody asks for 12");
        fs::remove_dir_all(root).expect("removed");
    }

    /// Two listen on the port that an answer names: one of them is searched for as well.
    #[test]
    fn by_the_port_that_was_answered() {
        let root = proc("answered", &[(10, &[2, 15], "net:[1]", b""), (11, &[2, 14], "net:[1]", b"")]);
        let found = |answered: &[u16]| find_in(&root, &|_| false, answered, &[]).expect("found");
        assert!(found(&[]).is_empty(), "it may be a client");
        assert!(found(&[5075]).is_empty(), "another server's");
        let found: Vec<_> =
            found(&[5075, 40001]).into_iter().map(|s| (s.pid, s.pva_port, s.is_guess)).collect();
        assert_eq!(found, [(10, Some(40001), true)], "anybody may have answered");
        fs::remove_dir_all(root).expect("removed");
    }
}
