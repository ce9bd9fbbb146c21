//! Real packets: a small TCP exchange on the loopback interface.

use crate::not_run::{not_run, Needs};
use crate::wire::{message, named, put, serve, version, words};
use iocrec::ca::{Decoder, Limits, SERVICE};
use iocrec::linux::version::running;
use iocrec::net::capture::{Capture, CaptureError, Filtering, BLOCKS};
use iocrec::net::filter::MAX_PORTS;
use iocrec::net::service::Ports;
use iocrec::net::udp::places::ALL;
use iocrec::net::udp::Selected;
use iocrec_log::event::{Address, Event, Fact};
use nix::errno::Errno;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Opens a capture, or says loudly that it can't.
fn open(interface: &str, ports: &[u16]) -> Option<Capture> {
    match Capture::open(&[interface.to_owned()], &Ports::of(&SERVICE, ports)) {
        Ok(capture) => Some(capture),
        Err(CaptureError::NotAllowed) => {
            not_run("ca::capture", Needs::Root);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Collects facts until there are as many, or for two seconds.
fn collect(capture: &mut Capture, decoder: &mut Decoder, out: &mut Vec<Event>, facts: usize) -> Vec<usize> {
    let begin = Instant::now();
    let mut lengths = Vec::new();
    while out.len() < facts && begin.elapsed() < Duration::from_secs(2) {
        // SAFETY: the capture keeps its descriptors open.
        let fds = capture.fds().map(|fd| unsafe { BorrowedFd::borrow_raw(fd) });
        let mut fds = fds.map(|fd| nix::poll::PollFd::new(fd, nix::poll::PollFlags::POLLIN));
        nix::poll::poll(&mut fds, 50u16).expect("poll");
        capture.drain(&mut |packet| {
            lengths.push(packet.bytes.len());
            decoder.packet(0, packet.wall as u64, packet.bytes, packet.length, out);
        });
    }
    lengths
}

#[test]
fn a_real_exchange_is_seen_once_and_whole() {
    let Some(capture) = open("lo", &[]) else { return };
    see_it_once_and_whole(capture, &[]);
}

/// An exchange with a server, while these ports are watched, too.
fn see_it_once_and_whole(mut capture: Capture, others: &[u16]) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let server = listener.local_addr().expect("address");
    capture.set_ports(&Ports::of(&SERVICE, &[others, &[server.port()]].concat())).expect("set");
    let mut decoder = Decoder::new(Limits::default());
    serve(&mut decoder, &[server.port()]);
    let mut client = TcpStream::connect(server).expect("connect");
    let (mut served, _) = listener.accept().expect("accept");
    client.set_nodelay(true).expect("nodelay");
    let opening =
        [version(), named(20, 0, 0, "op"), named(18, 1, 13, "A"), put(false, 7, 1, &[1.0])].concat();
    client.write_all(&opening).expect("write");
    served.read_exact(&mut vec![0; opening.len()]).expect("read");
    let updates = message(1, 20, 1, 1, 3, &[0; 24]).repeat(5);
    served.write_all(&updates).expect("write");
    client.read_exact(&mut vec![0; updates.len()]).expect("read");
    // More than any interface's MTU in one go.
    let large = put(true, 7, 2, &vec![2.0; 7000]);
    client.write_all(&large).expect("write");
    served.read_exact(&mut vec![0; large.len()]).expect("read");
    served.write_all(&message(19, 6, 7000, 1, 2, b"")).expect("write");
    drop(served);
    drop(client);
    let mut out = Vec::new();
    let lengths = collect(&mut capture, &mut decoder, &mut out, 8);
    let facts: Vec<_> = out.iter().map(|e| words(&e.fact)).collect();
    let starts = [
        "circuit 1 Opened user=op host= minor=13",
        "channel 1 on 1 Opened cid=1 sid=- pv=A",
        "channel 2 on 1 MidStream cid=- sid=7",
        "put on 1 channel 2 dbr=6 count=1 ioid=1 length=8",
        "put with answer on 1 channel 2 dbr=6 count=7000 ioid=2 length=56000",
        "answer on 1 ioid=2 notify=true status=1",
    ];
    assert!(facts.iter().zip(starts).all(|(f, s)| f.starts_with(s)), "{facts:#?}");
    assert!(facts.len() >= starts.len(), "{facts:#?}");
    // The kernel shows loopback packets twice; bare acknowledgements are left out; updates come as
    // headers (20 of IP, 32 of TCP with its time stamps).
    assert_eq!(lengths.iter().filter(|l| **l == 52 + opening.len()).count(), 1, "{lengths:?}");
    assert!(!lengths.contains(&(52 + updates.len())), "{lengths:?}");
    // Of a long put as much as is kept.
    assert!(lengths.contains(&(52 + 16 + 4096)), "{lengths:?}");
    assert!(lengths.iter().all(|l| *l < 30_000), "{lengths:?}");
    assert_eq!(capture.losses(), [0, 0]);
    let wall =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("clock").as_nanos() as u64;
    assert!(out.iter().all(|e| wall - e.time < 10_000_000_000), "the kernel's clock");
    let ends = |f: &Fact| matches!(f, Fact::Circuit(c) if c.server == Address::new(Ipv4Addr::LOCALHOST, server.port()));
    assert!(ends(&out[0].fact));
}

#[test]
fn ports_can_be_changed_and_quiet_packets_come_soon() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let server = listener.local_addr().expect("address");
    let Some(mut capture) = open("any", &[]) else { return };
    let mut decoder = Decoder::new(Limits::default());
    serve(&mut decoder, &[server.port()]);
    let mut client = TcpStream::connect(server).expect("connect");
    client.write_all(&version()).expect("write");
    let mut out = Vec::new();
    assert_eq!(collect(&mut capture, &mut decoder, &mut out, 1), [0usize; 0]);
    capture.set_ports(&Ports::of(&SERVICE, &[1, server.port(), 2])).expect("set");
    let sent = Instant::now();
    client.write_all(&put(false, 1, 1, &[1.0])).expect("write");
    assert_eq!(collect(&mut capture, &mut decoder, &mut out, 1).len(), 1);
    assert!(out.iter().any(|e| matches!(e.fact, Fact::CaPut(_))));
    // 50 ms by design; far more only if the machine is very busy.
    assert!(sent.elapsed() < Duration::from_secs(1));
}

/// What a client sends waits for answers only where there are some.
#[test]
fn a_packet_does_not_wait_for_an_empty_ring() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let server = listener.local_addr().expect("address");
    let Some(mut capture) = open("lo", &[server.port()]) else { return };
    let mut decoder = Decoder::new(Limits::default());
    serve(&mut decoder, &[server.port()]);
    let mut client = TcpStream::connect(server).expect("connect");
    client.set_nodelay(true).expect("nodelay");
    collect(&mut capture, &mut decoder, &mut Vec::new(), 1);
    for number in 0..5 {
        std::thread::sleep(Duration::from_millis(150));
        capture.drain(&mut |_| ());
        client.write_all(&put(false, 1, number, &[1.0])).expect("write");
        // SAFETY: the capture keeps its descriptors open.
        let fds = capture.fds().map(|fd| unsafe { BorrowedFd::borrow_raw(fd) });
        let mut fds = fds.map(|fd| nix::poll::PollFd::new(fd, nix::poll::PollFlags::POLLIN));
        assert!(nix::poll::poll(&mut fds, 5000u16).expect("poll") > 0, "nothing comes");
        // the kernel may still have been writing to the other one
        std::thread::sleep(Duration::from_millis(6));
        let mut taken = 0;
        capture.drain(&mut |_| taken += 1);
        assert!(taken == 1 && !capture.holds(), "{taken}");
    }
}

/// Whether the kernel hands over packets within five seconds.
fn wakes(capture: &Capture) -> bool {
    // SAFETY: the capture keeps its descriptors open.
    let fds = capture.fds().map(|fd| unsafe { BorrowedFd::borrow_raw(fd) });
    let mut fds = fds.map(|fd| nix::poll::PollFd::new(fd, nix::poll::PollFlags::POLLIN));
    nix::poll::poll(&mut fds, 5000u16).expect("poll") > 0
}

/// What a client sends may wait for what its server has sent before. When the kernel hands that over it wakes whoever polls,
/// so that nobody needs to ask in between.
#[test]
fn who_waits_for_a_ring_is_woken() {
    const PUTS: u32 = 20;
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let server = listener.local_addr().expect("address");
    let Some(mut capture) = open("lo", &[server.port()]) else { return };
    let mut client = TcpStream::connect(server).expect("connect");
    client.set_nodelay(true).expect("nodelay");
    let (mut served, _) = listener.accept().expect("accept");
    served.set_nodelay(true).expect("nodelay");
    let mut reader = client.try_clone().expect("a copy");
    std::thread::spawn(move || while reader.read(&mut [0; 1 << 16]).is_ok_and(|read| read > 0) {});
    let answer = message(18, 6, 1, 1, 7, b"");
    // a full block is handed over at once, and its ring's next periods begin there: not with those of the other ring
    served.write_all(&answer.repeat(6000)).expect("write");
    let mut waits = 0;
    for number in 0..PUTS {
        client.write_all(&put(false, 7, number, &[1.0])).expect("write");
        served.write_all(&answer).expect("write");
        assert!(wakes(&capture), "{number}: nothing comes");
        capture.drain(&mut |_| ());
        while capture.holds() && capture.is_awaited() {
            waits += 1;
            assert!(wakes(&capture), "{number}: what it waits for does not come");
            capture.drain(&mut |_| ());
        }
        std::thread::sleep(Duration::from_millis(7));
    }
    println!("{waits} waits for {PUTS} puts");
    assert_eq!(capture.losses(), [0, 0]);
}

/// Where the kernel tells who connects, and nobody watches, packets are handed over some five times a second. None is lost.
#[test]
fn packets_wait_where_nobody_watches() {
    const NAME: &str = "ca::capture::packets_wait_where_nobody_watches";
    const PUTS: u32 = 200;
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let server = listener.local_addr().expect("address");
    let ports = Ports::of(&SERVICE, &[server.port()]);
    let patience = Duration::from_millis(250);
    let opened = Capture::with(&["lo".into()], &ports, Filtering::Stateful, BLOCKS, patience);
    let mut capture = match opened {
        Ok(capture) => capture,
        Err(CaptureError::NotAllowed) => return not_run(NAME, Needs::Root),
        Err(error) => panic!("{error}"),
    };
    capture.settle();
    if capture.handed_over() < Duration::from_millis(400) {
        return not_run(
            NAME,
            Needs::Kernel("one that describes itself (BTF), and its first PID namespace".into()),
        );
    }
    let mut client = TcpStream::connect(server).expect("connect");
    client.set_nodelay(true).expect("nodelay");
    let putting = std::thread::spawn(move || {
        for number in 0..PUTS {
            client.write_all(&put(false, 7, number, &[f64::from(number)])).expect("write");
            std::thread::sleep(Duration::from_millis(10));
        }
        client
    });
    let (mut puts, mut rounds, begin) = (Vec::new(), 0u128, Instant::now());
    while puts.len() < PUTS as usize && wakes(&capture) {
        rounds += 1;
        // the second time those that came last: the kernel might still have been writing to the other ring
        for _ in 0..2 {
            capture.drain(&mut |packet| {
                if let Some([0, 4, 0, 8, .., a, b, c, d, e, f, g, h]) = packet.bytes.last_chunk::<24>() {
                    puts.push(f64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]));
                    puts.dedup();
                }
            });
            std::thread::sleep(Duration::from_millis(6));
        }
    }
    let took = begin.elapsed();
    drop(putting.join().expect("it puts"));
    assert!(puts.iter().copied().eq((0..PUTS).map(f64::from)), "{} of {PUTS}, or not in order", puts.len());
    assert!(rounds <= 3 + took.as_millis() / 150, "{rounds} rounds in {took:?}");
}

#[test]
fn what_a_user_can_get_wrong() {
    match Capture::open(&["no-such0".into()], &Ports::of(&SERVICE, &[5064])) {
        Err(error @ CaptureError::NoSuchInterface { .. }) => {
            let line = error.to_string();
            assert!(line.starts_with("no network interface \"no-such0\": there are lo"), "{line}");
        }
        other => panic!("{other:?}"),
    }
    let many: Vec<u16> = (1..1000).collect();
    match Capture::open(&["lo".into()], &Ports::of(&SERVICE, &many)) {
        Err(error @ CaptureError::TooManyPorts(999)) => {
            assert_eq!(
                error.to_string(),
                "999 ports are more than can be watched (256): name fewer with --port"
            );
        }
        Err(CaptureError::NotAllowed) => not_run("ca::capture", Needs::Root),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        CaptureError::NotAllowed.to_string(),
        "not allowed to capture packets: run as root or with CAP_NET_RAW"
    );
    // As many as can be, on a real socket: the kernel takes the filter.
    if let Some(mut capture) = open("lo", &many[..256]) {
        capture.set_ports(&Ports::of(&SERVICE, &many[..3])).expect("fewer");
        assert!(capture.set_ports(&Ports::of(&SERVICE, &many)).is_err());
    }
}

/// A machine that is too slow for what a server sends loses none of what clients send.
#[test]
fn a_slow_machine_loses_answers_but_no_puts() {
    const PUTS: u32 = 400;
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let server = listener.local_addr().expect("address");
    let Some(mut capture) = open("lo", &[server.port()]) else { return };
    let mut client = TcpStream::connect(server).expect("connect");
    client.set_nodelay(true).expect("nodelay");
    let (mut served, _) = listener.accept().expect("accept");
    served.set_nodelay(true).expect("nodelay");
    let ends = Arc::new(AtomicBool::new(false));
    let mut reader = client.try_clone().expect("a copy");
    std::thread::spawn(move || while reader.read(&mut [0; 1 << 16]).is_ok_and(|read| read > 0) {});
    let sending = std::thread::spawn({
        let ends = ends.clone();
        // answers to creates pass the filter
        let answers = message(18, 6, 1, 1, 7, b"").repeat(60);
        move || {
            while !ends.load(Ordering::Relaxed) && served.write_all(&answers).is_ok() {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    });
    let putting = std::thread::spawn(move || {
        for number in 0..PUTS {
            client.write_all(&put(false, 7, number, &[f64::from(number)])).expect("write");
            std::thread::sleep(Duration::from_millis(10));
        }
        client
    });
    let (mut puts, mut last) = (Vec::new(), Instant::now());
    while puts.len() < PUTS as usize && last.elapsed() < Duration::from_secs(3) {
        capture.drain(&mut |packet| {
            match packet.bytes.last_chunk::<24>() {
                Some([0, 4, 0, 8, .., a, b, c, d, e, f, g, h]) => {
                    puts.push(f64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]));
                    // TCP sends some twice
                    puts.dedup();
                    last = Instant::now();
                }
                // a ringful takes more than a second
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
        });
    }
    ends.store(true, Ordering::Relaxed);
    drop(putting.join().expect("it puts"));
    sending.join().expect("it sends");
    let [requests, answers] = capture.losses();
    assert!(answers > 0, "nothing is tested");
    assert_eq!(requests, 0, "{answers} from the server were lost");
    assert!(puts.iter().copied().eq((0..PUTS).map(f64::from)), "{} of {PUTS}, or not in order", puts.len());
}

/// Tries to make a socket of somebody else one of a group for so many sockets, or for as many as it is for.
fn intrude(id: u32, members: u32) -> Result<OwnedFd, Errno> {
    const CBPF: u32 = 6;
    // SAFETY: no pointers are passed.
    let fd = Errno::result(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM, 0) })?;
    // SAFETY: the descriptor was just made and nobody else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: all zeroes are a valid address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: the address lives until the call returns, and its size is passed.
    let bound = unsafe { libc::bind(fd, (&raw const address).cast(), size_of_val(&address) as u32) };
    Errno::result(bound)?;
    let arguments = [CBPF << 16 | id, members];
    // SAFETY: the arguments live until the call returns, and their size is passed.
    let joined = unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_PACKET,
            PACKET_FANOUT,
            arguments.as_ptr().cast(),
            size_of_val(&arguments) as u32,
        )
    };
    Errno::result(joined).map(|_| socket)
}

const PACKET_FANOUT: i32 = 18;

/// The number of a capture's group.
fn group_of(capture: &Capture) -> Option<u32> {
    let (mut word, mut length) = (0u32, 4u32);
    let [fd, _] = capture.fds();
    // SAFETY: the kernel writes at most `length` bytes to `word`.
    let read = unsafe {
        libc::getsockopt(fd, libc::SOL_PACKET, PACKET_FANOUT, (&raw mut word).cast(), &raw mut length)
    };
    assert_eq!(read, 0);
    (word != 0).then_some(word & 0xffff)
}

/// A client of its own puts once and is answered: what a capture makes of that, and datagrams' socket of a question.
fn see_an_exchange(capture: &mut Capture) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let server = listener.local_addr().expect("address");
    capture.set_ports(&Ports::of(&SERVICE, &[server.port()])).expect("set");
    let mut datagrams = capture.take_datagrams();
    let asked = Selected { asked: vec![server.port()], ..Selected::default() };
    if let Some(socket) = &mut datagrams {
        socket.select(&asked, ALL).expect("select");
    }
    let mut decoder = Decoder::new(Limits::default());
    serve(&mut decoder, &[server.port()]);
    let mut client = TcpStream::connect(server).expect("connect");
    let (mut served, _) = listener.accept().expect("accept");
    let put = put(true, 7, 2, &[2.0]);
    client.write_all(&[version(), put].concat()).expect("write");
    served.read_exact(&mut [0; 40]).expect("read");
    served.write_all(&message(19, 6, 1, 1, 2, b"")).expect("write");
    UdpSocket::bind("127.0.0.1:0").expect("bind").send_to(b"question", server).expect("send");
    let mut out = Vec::new();
    collect(capture, &mut decoder, &mut out, 4);
    let facts: Vec<_> = out.iter().map(|e| words(&e.fact)).collect();
    for start in ["put with answer on 1", "answer on 1 ioid=2 notify=true status=1"] {
        assert_eq!(facts.iter().filter(|fact| fact.starts_with(start)).count(), 1, "{start}: {facts:#?}");
    }
    let seen = datagrams.map(|mut socket| socket.drain(10, &mut |_| ()));
    assert!(seen.is_none_or(|count| count == 1), "{seen:?}");
}

/// The sockets of a capture share the packets among them, and nobody else gets any of them.
#[test]
fn nobody_else_joins_its_group() {
    let Some(mut capture) = open("any", &[]) else { return };
    if !running().is_from(5, 12) {
        assert_eq!(group_of(&capture), None);
        return not_run("ca::capture::nobody_else_joins_its_group", Needs::Kernel("Linux 5.12".into()));
    }
    let most: Vec<u16> = (1..).take(MAX_PORTS).collect();
    capture.set_ports(&Ports::of(&SERVICE, &most)).expect("the kernel takes the longest program");
    drop(capture);
    let apart = std::thread::spawn(|| {
        // a network namespace of this thread alone
        // SAFETY: no pointers; the call affects this thread alone.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
        let up = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("ip");
        assert!(up.success());
        let mut capture = open("any", &[]).expect("it was allowed");
        let id = group_of(&capture).expect("a group");
        for members in [0, 3] {
            assert_eq!(intrude(id, members).err(), Some(Errno::ENOSPC), "{members}");
        }
        assert_eq!(intrude(id, 256).err(), Some(Errno::EINVAL));
        see_an_exchange(&mut capture);
    });
    apart.join().expect("it ends");
}

/// Sets how much option memory sockets of this thread's own network namespace may have, where that can be set.
fn set_option_memory(bytes: u32) -> bool {
    std::fs::write("/proc/sys/net/core/optmem_max", bytes.to_string()).is_ok()
}

/// The programs of the filter work with the option memory that a socket has before Linux 6.8; and whoever has even less
/// learns that they don't.
#[test]
fn little_option_memory_suffices() {
    const NAME: &str = "ca::capture::little_option_memory_suffices";
    let apart = std::thread::spawn(|| {
        // a network namespace of this thread alone
        // SAFETY: no pointers; the call affects this thread alone.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            return not_run(NAME, Needs::Root);
        }
        if !set_option_memory(20480) {
            return not_run(NAME, Needs::Kernel("Linux 6.8".into()));
        }
        let up = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("ip");
        assert!(up.success());
        let stateful = || {
            let opened = Capture::with(&[], &Ports::default(), Filtering::Stateful, 4, Duration::ZERO);
            opened.expect("a capture")
        };
        let mut capture = stateful();
        capture.settle();
        assert_eq!(capture.refused(), None);
        assert!(capture.take_told().is_some(), "it is not stateful");
        see_an_exchange(&mut capture);
        // both sides' filters of classic BPF, in the place of those for as many ports; ephemeral ports are others
        let most: Vec<u16> = (1..).take(MAX_PORTS - 1).collect();
        let mut capture = open("any", &most).expect("it was allowed");
        capture.set_ports(&Ports::of(&SERVICE, &most)).expect("set");
        see_it_once_and_whole(capture, &most);
        // 32-bit machines have less
        assert!(set_option_memory(10240));
        let mut capture = open("any", &most).expect("it was allowed");
        capture.set_ports(&Ports::of(&SERVICE, &most)).expect("set");
        see_an_exchange(&mut capture);
        assert!(set_option_memory(20480));
        let mut capture = stateful();
        assert!(set_option_memory(64));
        capture.settle();
        assert!(capture.refused().is_some_and(|why| why.to_string().contains("SO_ATTACH_BPF")), "not told");
        assert!(set_option_memory(20480));
        see_an_exchange(&mut capture);
    });
    apart.join().expect("it ends");
}
