//! Network namespaces: one for each test, and commands in those of others.

use super::own_program;
use std::process::Command;

/// Moves this thread, and the children that it starts, into a network with only loopback.
pub(super) fn enter_private_network() {
    // SAFETY: unshare takes no pointers; it concerns this thread alone.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: ifreq is plain data, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    // SAFETY: the descriptor is checked and closed here, the request outlives the call.
    let up = unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        let up = libc::ioctl(socket, libc::SIOCSIFFLAGS as _, &request);
        libc::close(socket);
        up
    };
    assert_eq!(up, 0, "loopback: {}", std::io::Error::last_os_error());
}

/// The same command in the network namespace of a process.
pub fn beside(pid: u32, command: Command) -> Command {
    let mut inside = Command::new("nsenter");
    inside.arg(format!("--net=/proc/{pid}/ns/net")).arg(command.get_program()).args(command.get_args());
    inside
}

/// Joins this thread's network namespace with that of a process by a cable (veth), with an address of a /24 at each end.
pub fn join_networks(pid: u32, here: &str, there: &str) {
    join_networks_by("cable", pid, here, there);
}

/// The same by a cable of this name.
pub fn join_networks_by(cable: &str, pid: u32, here: &str, there: &str) {
    let pid = pid.to_string();
    let ip = |arguments: &[&str]| own_program::succeed(Command::new("ip").args(arguments));
    ip(&["link", "add", cable, "type", "veth", "peer", "name", cable, "netns", &pid]);
    ip(&["address", "add", &format!("{here}/24"), "dev", cable]);
    ip(&["link", "set", cable, "up"]);
    let inside = |arguments: &[&str]| {
        let mut command = Command::new("ip");
        command.args(arguments);
        own_program::succeed(&mut beside(pid.parse().expect("a number"), command));
    };
    inside(&["address", "add", &format!("{there}/24"), "dev", cable]);
    inside(&["link", "set", cable, "up"]);
}

/// Joins this thread's network namespace with those of processes by a switch, a bridge in the namespace of one more. In each
/// the interface is called `cable`; the hosts are 10.99.0.1 and fd99::1 here, then 2 and so on.
pub fn join_by_switch(switch: u32, others: &[u32]) {
    let ip = |pid: Option<u32>, line: &str| {
        let mut command = Command::new("ip");
        command.args(line.split(' '));
        own_program::succeed(&mut match pid {
            Some(pid) => beside(pid, command),
            None => command,
        });
    };
    ip(Some(switch), "link add switch type bridge");
    ip(Some(switch), "link set switch up");
    let hosts = std::iter::once(None).chain(others.iter().copied().map(Some));
    for (number, host) in (1..).zip(hosts) {
        ip(host, &format!("link add cable type veth peer name port{number} netns {switch}"));
        ip(Some(switch), &format!("link set port{number} master switch up"));
        ip(host, &format!("address add 10.99.0.{number}/24 dev cable"));
        ip(host, &format!("address add fd99::{number}/64 dev cable nodad"));
        ip(host, "link set cable up");
    }
}
