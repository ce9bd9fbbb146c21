use super::*;
use crate::ioc::image::Image;
use iocrec_testing::chance::{fuzz, Random};

const PVXS_TABLE: u64 = 0x7f00_1111_2220;
const PV_ACCESS_TABLE: u64 = 0x7f00_1111_3330;
const PEER: End = (0xffff_7f00_0001, 40_000);
const OWN: End = (0xffff_7f00_0001, 5075);
const DESCRIPTOR: u32 = 13;
const INODE: u64 = 4711;

/// A server with one connection.
struct Server {
    image: Image,
    object: usize,
    library: Library,
}

/// Adds the text of a string of the layout with `each` bytes to the string at `at`.
fn string(image: &mut Image, at: usize, each: usize, text: &str) {
    image.put(at + if each == 32 { 8 } else { 0 }, &(text.len() as u64).to_ne_bytes());
    if each == 8 {
        let head = image.room(24 + text.len() + 1);
        image.put(head, &(text.len() as u64).to_ne_bytes());
        image.put(head + 8, &(text.len() as u64 + 3).to_ne_bytes());
        image.put(head + 24, text.as_bytes());
        image.point(at, head + 24);
    } else if text.len() < 16 {
        image.put(at + 16, text.as_bytes());
        image.point(at, at + 16);
    } else {
        image.put(at + 16, &(text.len() as u64).to_ne_bytes());
        image.point_to_string(at, text);
    }
}

/// Laid out as by pvxs 1.5.3 and pvAccessCPP of Base 7.0.10; with strings of 32 bytes what is behind them moves.
fn server(library: Library, each: usize, names: &[&str]) -> Server {
    let mut image = Image::new(Width::Bits64);
    // nothing of ours is at the first addresses
    image.room(64);
    let object = image.room(1200);
    let (table, address, map) = match library {
        Library::Pvxs => (PVXS_TABLE, object + 8, object + 216 + each),
        Library::PvAccess => (PV_ACCESS_TABLE, object + 452, object + 784 + 2 * each),
    };
    image.put_pointer(object, table);
    image.put(address, &(libc::AF_INET as u16).to_ne_bytes());
    image.put(address + 2, &PEER.1.to_be_bytes());
    image.put(address + 4, &[127, 0, 0, 1]);
    image.put(object + 448, &DESCRIPTOR.to_ne_bytes());
    // who the client is
    let client = image.room(8 + 6 * each);
    image.point(map - if library == Library::Pvxs { 32 } else { 152 }, client);
    let (begin, last) = if library == Library::Pvxs { (0, 3) } else { (8, 4) };
    for (number, text) in [(0, "127.0.0.1:40000"), (2, "ca"), (last, "operator")] {
        string(&mut image, client + begin + number * each, each, text);
    }
    if last == 4 {
        string(&mut image, client + begin + 3 * each, each, "");
    }
    // a tree that leans to the right
    image.put(map + 32, &(names.len() as u64).to_ne_bytes());
    image.point(map + 16, map);
    image.point(map + 24, map);
    let mut parent = map;
    for (number, name) in names.iter().enumerate() {
        let (sid, cid) = (0x100 + number as u32, 0x200 + number as u32);
        let node = image.room(56);
        image.point(if parent == map { map + 8 } else { parent + 24 }, node);
        image.point(node + 8, parent);
        image.put(node + 32, &sid.to_ne_bytes());
        let channel = image.room(200);
        image.point(node + 40, channel);
        if library == Library::Pvxs {
            image.point(channel, object);
            image.put(channel + 16, &sid.to_ne_bytes());
            image.put(channel + 20, &cid.to_ne_bytes());
            string(&mut image, channel + 24, each, name);
        } else {
            let requester = image.room(256);
            image.point(channel + 16, requester);
            image.put(channel + 32, &cid.to_ne_bytes());
            image.put(channel + 36, &sid.to_ne_bytes());
            image.point(requester + 104, channel);
            image.point(requester + 120, object);
            string(&mut image, requester + 136, each, name);
            image.put(requester + 136 + each, &cid.to_ne_bytes());
        }
        parent = node;
    }
    Server { image, object, library }
}

impl Server {
    fn read(&self, connections: &[AnyConnection]) -> Vec<OpenCircuit> {
        let tables = vec![(PVXS_TABLE, Library::Pvxs), (PV_ACCESS_TABLE, Library::PvAccess)];
        let objects = [self.image.address(self.object)];
        let inode = |descriptor| (descriptor == DESCRIPTOR).then_some(INODE);
        read(&self.image.memory(), &objects, &tables, connections, &inode)
    }
}

fn connected() -> AnyConnection {
    AnyConnection { local: OWN, remote: PEER, inode: INODE }
}

const NAMES: [&str; 3] = ["T:SP", "T:A:NAME:LONGER:THAN:SIXTEEN.DESC", "T:B"];

fn all() -> impl Iterator<Item = (Library, usize)> {
    [Library::Pvxs, Library::PvAccess]
        .into_iter()
        .flat_map(|library| cpp::STRINGS.map(|each| (library, each)))
}

#[test]
fn names_and_identity_of_both_libraries() {
    for (library, each) in all() {
        let found = server(library, each, &NAMES).read(&[connected()]);
        let [circuit] = found.as_slice() else { panic!("{library:?} {each}: {found:?}") };
        assert_eq!((circuit.client, circuit.server), (PEER, OWN));
        assert_eq!(
            (&*circuit.identity.method, &*circuit.identity.user),
            ("ca", "operator"),
            "{library:?} {each}"
        );
        let channels: Vec<_> = circuit.channels.iter().map(|c| (c.sid, c.cid, &*c.pv)).collect();
        let expected = [(0x100, 0x200, NAMES[0]), (0x101, 0x201, NAMES[1]), (0x102, 0x202, NAMES[2])];
        assert_eq!(channels, expected, "{library:?} {each}");
    }
}

#[test]
fn what_does_not_agree_has_no_name() {
    for (library, each) in all() {
        let of_another = AnyConnection { remote: (PEER.0, 40_001), ..connected() };
        assert_eq!(server(library, each, &NAMES).read(&[of_another]), []);
        // which of the two it is, is unknown
        assert_eq!(server(library, each, &NAMES).read(&[connected(), connected()]), []);
        let one = server(library, each, &NAMES[..1]);
        let (sid, back) = match library {
            Library::Pvxs => (16, 0),
            Library::PvAccess => (36, 16),
        };
        let memory = one.image.memory();
        let map = match library {
            Library::Pvxs => one.object + 216 + each,
            Library::PvAccess => one.object + 784 + 2 * each,
        };
        let node = memory.pointer(one.image.address(map + 8)).expect("a node");
        let channel = memory.pointer(node + 40).expect("a channel") - one.image.address(0);
        for (at, what) in [(sid, "another number"), (back, "another connection")] {
            let mut wrong = server(library, each, &NAMES[..1]);
            wrong.image.put(channel as usize + at, &0x77u32.to_ne_bytes());
            assert_eq!(wrong.read(&[connected()]), [], "{library:?} {each}: {what}");
        }
    }
    // the socket of another connection
    let object = server(Library::PvAccess, 8, &NAMES);
    assert_eq!(object.read(&[AnyConnection { inode: 1, ..connected() }]), []);
}

/// Whatever the bytes are, reading ends, and names a connection that exists and no more channels than there may be.
#[test]
fn images_that_were_changed() {
    let mut found = 0;
    fuzz(300, |random: &mut Random| {
        let (library, each) = all().nth(random.below(4)).expect("one of four");
        let mut server = server(library, each, &NAMES);
        assert_eq!(server.library, library);
        server.image.change(random, 30);
        for circuit in server.read(&[connected()]) {
            assert_eq!((circuit.client, circuit.server), (PEER, OWN));
            assert!(circuit.channels.len() <= 3000);
            found += 1;
        }
    });
    assert!(std::env::var("FUZZ_SEED").is_ok() || found > 10, "{found}");
}
