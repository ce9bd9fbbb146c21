use super::*;
use crate::net::captures::Wanted;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::fchown;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use nix::unistd::geteuid;

/// A connection on loopback: both ends.
struct Pair {
    client: TcpStream,
    server: TcpStream,
}

fn pair() -> Pair {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    Pair { client, server: listener.accept().unwrap().0 }
}

fn address(of: SocketAddr) -> Address {
    match of {
        SocketAddr::V4(of) => Address::new(*of.ip(), of.port()),
        SocketAddr::V6(_) => unreachable!(),
    }
}

fn asked(circuit: CircuitId, pair: &Pair) -> Asked {
    let namespace = process::namespace(std::process::id()).unwrap_or_default();
    let client = address(pair.client.local_addr().unwrap());
    Asked { circuit, namespace, client, server: address(pair.server.local_addr().unwrap()) }
}

/// This process's network namespace, in which these processes are recorded.
fn places(recorded: &[u32]) -> Places {
    let pid = std::process::id();
    let namespace = process::namespace(pid).unwrap_or_default();
    let wanted = BTreeMap::from([(namespace, Wanted { pid, ..Wanted::default() })]);
    let recorded = recorded.iter().map(|pid| (1, *pid, true)).collect();
    Places { wanted, recorded, ..Places::default() }
}

/// A child that holds this socket, too.
fn sharing(stream: &TcpStream) -> Child {
    let descriptor = stream.as_raw_fd();
    let mut command = Command::new("sleep");
    command.arg("600").arg0("evil\n\u{1b}[31mname");
    // SAFETY: between fork and exec only a system call on a number.
    unsafe {
        command.pre_exec(move || match libc::fcntl(descriptor, libc::F_SETFD, 0) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    command.spawn().unwrap()
}

#[test]
fn all_that_hold_a_socket_are_named() {
    let own = std::process::id();
    let (alone, shared) = (pair(), pair());
    let mut child = sharing(&shared.client);
    let asked = [asked(1, &alone), asked(2, &shared)];
    let look = Look::at(&places(&[own]), &asked, true);
    let [first, second] = look.found.as_slice() else { panic!("two circuits") };
    let pids = |found: &Found| found.holders.iter().map(|holder| holder.pid).collect::<Vec<_>>();
    assert_eq!((first.circuit, pids(first), first.more), (1, vec![own], 0));
    assert_eq!((second.circuit, pids(second)), (2, vec![own, child.id()]), "the one that made it first");
    let [us, it] = second.holders.as_slice() else { unreachable!() };
    assert_eq!((us.start, it.start), (process::start(own).unwrap(), process::start(child.id()).unwrap()));
    assert_eq!(
        it.command.first().map(String::as_str),
        Some("evil\n\u{1b}[31mname"),
        "escaped where it is shown"
    );
    assert_eq!(it.user, us.user);
    let (names, _) = first.threads.as_ref().unwrap();
    assert!(names.iter().all(|name| !name.is_empty()) && !names.is_empty());
    let look = Look::at(&places(&[]), &asked, false);
    assert!(look.found.iter().all(|found| found.threads.is_none()), "it is no recorded one");
    assert!(look.found.iter().flat_map(|found| &found.holders).all(|holder| holder.command.is_empty()));
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Whoever holds a socket may have become another user since, as a program does that runs as root for whoever starts it.
#[test]
fn the_user_is_the_one_who_has_made_the_socket() {
    let (others, own) = (pair(), pair());
    let us = geteuid().as_raw();
    // root can give it to another user; else nothing changes
    let user = fchown(&others.client, Some(61_234), None).map_or(us, |()| 61_234);
    let look = Look::at(&places(&[]), &[asked(1, &others), asked(2, &own)], true);
    let users: Vec<_> =
        look.found.iter().flat_map(|found| &found.holders).map(|holder| &*holder.user).collect();
    assert_eq!(users, [user::name_of(user), user::name_of(us)]);
}

#[test]
fn a_client_that_is_gone_or_elsewhere() {
    let gone = pair();
    let here = asked(1, &gone);
    drop(gone.client);
    let elsewhere = Asked { circuit: 2, client: Address::new([198, 51, 100, 7].into(), 40_000), ..here };
    let other_loopback = Asked { circuit: 3, namespace: u64::MAX, ..here };
    let look = Look::at(&places(&[]), &[here, elsewhere, other_loopback], true);
    let [found] = look.found.as_slice() else { panic!("{}", look.found.len()) };
    assert_eq!((found.circuit, found.holders.len()), (1, 0), "its address is ours, and nobody holds it");
}

#[test]
fn a_pid_that_was_used_again_is_another_process() {
    let own = std::process::id();
    let start = process::start(own).unwrap();
    assert_eq!(describe(own, start, true).unwrap().pid, own);
    assert_eq!(describe(own, start + 1, true), None);
    assert_eq!(describe(u32::MAX, start, true), None, "it has ended");
}

/// Where not all connections could be read, as of a recorder that may open no more files.
#[test]
fn a_client_whose_socket_was_not_read_is_not_gone() {
    let at = |port| Address::new(Ipv4Addr::LOCALHOST, port);
    let asked = Asked { circuit: 1, namespace: 1, client: at(40_000), server: at(5064) };
    let table = |lacks_some| Sockets {
        local: vec![sockets::LocalAddress { ip: u32::from(Ipv4Addr::LOCALHOST), bits: 8 }],
        lacks_some,
        ..Sockets::default()
    };
    assert_eq!(socket(&BTreeMap::from([(1, table(false))]), &asked), Socket::Gone);
    assert_eq!(socket(&BTreeMap::from([(1, table(true))]), &asked), Socket::Elsewhere);
}

#[test]
fn only_what_is_not_there_has_ended() {
    assert!(has_ended(u32::MAX));
    assert!(!has_ended(std::process::id()));
}

#[test]
fn long_command_lines_are_cut() {
    let words =
        |lengths: &[usize]| lengths.iter().map(|length| "\u{e4}".repeat(length / 2)).collect::<Vec<_>>();
    assert_eq!(cut(words(&[10, 20])), (words(&[10, 20]), false));
    let (kept, is_cut) = cut(words(&[300, 300, 4]));
    assert!(is_cut && kept.len() == 2, "{kept:?}");
    assert_eq!(kept.iter().map(String::len).sum::<usize>() / 2 * 2, 510);
    let (kept, is_cut) = cut(vec![String::new(); 100_000]);
    assert_eq!((kept.len(), is_cut), (MAX_COMMAND, true));
    assert_eq!(shortened("a\u{e4}".into(), 2), ("a".into(), true));
}

/// A container's client has the address of its own namespace; two containers may have the same.
#[test]
fn a_socket_counts_where_its_address_is() {
    let at = |ip: [u8; 4], port| Address::new(Ipv4Addr::from(ip), port);
    let (client, server) = (at([172, 17, 0, 2], 40_000), at([172, 17, 0, 1], 5064));
    let held = |inode| HeldSocket { inode, user: 0 };
    let table = |ip: [u8; 4], inode: Option<u64>| Sockets {
        connections: inode.map(|inode| ((client, server), held(inode))).into_iter().collect(),
        local: vec![sockets::LocalAddress { ip: u32::from(Ipv4Addr::from(ip)), bits: 32 }],
        ..Sockets::default()
    };
    let asked = Asked { circuit: 1, namespace: 1, client, server };
    let of = |tables: Vec<(Namespace, Sockets)>| socket(&tables.into_iter().collect(), &asked);
    let host = || (1, table([172, 17, 0, 1], None));
    assert_eq!(of(vec![host()]), Socket::Elsewhere);
    assert_eq!(of(vec![host(), (2, table([172, 17, 0, 2], Some(7)))]), Socket::Is(held(7)));
    assert_eq!(of(vec![host(), (2, table([172, 17, 0, 3], Some(7)))]), Socket::Elsewhere);
    let twins = vec![host(), (2, table([172, 17, 0, 2], Some(7))), (3, table([172, 17, 0, 2], Some(8)))];
    assert_eq!(of(twins), Socket::Elsewhere, "one of two");
    let own = vec![(1, table([172, 17, 0, 2], Some(9))), (2, table([172, 17, 0, 2], Some(7)))];
    assert_eq!(of(own), Socket::Is(held(9)));
    // a user's own network, in which he has any address
    let apart = |user: u32, table: Sockets| Sockets { user: Some(user), ..table };
    let with = |user: u32| (2, apart(user, table([172, 17, 0, 2], Some(7))));
    let there = || (1, apart(1000, table([172, 17, 0, 1], None)));
    assert_eq!(of(vec![host(), with(1000)]), Socket::Elsewhere);
    assert_eq!(of(vec![there(), (2, table([172, 17, 0, 2], Some(7)))]), Socket::Elsewhere);
    assert_eq!(of(vec![there(), with(1001)]), Socket::Elsewhere);
    assert_eq!(of(vec![there(), with(1000)]), Socket::Is(held(7)), "as of rootless containers");
    // his process has just ended: it is not seen that the network was his
    let client = || (2, table([172, 17, 0, 2], Some(7)));
    assert_eq!(of(vec![(1, Sockets::default()), client()]), Socket::Elsewhere);
    assert_eq!(of(vec![client()]), Socket::Elsewhere);
}
