"""Somebody who reads a connection of PVAccess over IPv6 along, and sends packets into it, with the right numbers.

    injected6.py PORT CA_PORT PV

The PVAccess server is at [::1]:PORT; the same IOC serves Channel Access at 127.0.0.1:CA_PORT, where PV, a 64-bit
integer, is read. Commands are those of injected.py. KINDS has what is odd about an injected packet: that of
injected.py, and what IPv6 adds. Needs root.
"""

import json
import socket
import struct
import sys
import threading

import injected
from injected import ACK, FIN, PSH, SYN, URG, checksum

# The client's flow label, which Linux else draws by lot. It ends in the number of a VLAN tag.
LABEL = 0x48100
# linux/in6.h
FLOWLABEL_MGR, FLOWINFO_SEND = 32, 33
GET, ANYBODYS, CREATE = 0, 255, 1

HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION = 0, 43, 44, 51, 60


def pva(command, payload):
    return struct.pack("<BBBBI", 0xCA, 2, 0, command, len(payload)) + payload


def text(content):
    return bytes([len(content)]) + content


class Watched(injected.Watched):
    """The same over IPv6."""

    def __init__(self, client):
        self.client = client
        self.next, self.acknowledged, self.stamps = 0, 0, None
        self.change = threading.Condition()
        self.packets = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x86DD))
        self.packets.bind(("lo", 0x86DD))
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        while True:
            packet, address = self.packets.recvfrom(1 << 17)
            if address[2] == injected.OUTGOING or packet[6] != socket.IPPROTO_TCP or packet[7] != 64:
                continue
            tcp = packet[40:]
            source, _, sequence, acknowledged, offset, flags = struct.unpack("!HHIIBB", tcp[:14])
            if source != self.client:
                continue
            length = struct.unpack("!H", packet[4:6])[0] - (offset >> 4) * 4
            stamps = tcp[20 : (offset >> 4) * 4].find(b"\1\1\x08\x0a")
            with self.change:
                self.next = (sequence + length + bool(flags & (SYN | FIN))) & 0xFFFFFFFF
                self.acknowledged = acknowledged
                if stamps >= 0:
                    self.stamps = struct.unpack("!II", tcp[24 + stamps : 32 + stamps])


class Injector(injected.Injector):
    def __init__(self, port, ca_port, pv):
        self.pv = pv
        self.circuit = socket.socket(socket.AF_INET6)
        self.circuit.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.circuit.bind(("::1", 0))
        self.watched = Watched(self.circuit.getsockname()[1])
        wanted = struct.pack("!I", LABEL) + struct.pack("=BBHHHI", GET, ANYBODYS, CREATE, 0, 0, 0)
        address = socket.inet_pton(socket.AF_INET6, "::1")
        self.circuit.setsockopt(socket.IPPROTO_IPV6, FLOWLABEL_MGR, address + wanted)
        self.circuit.setsockopt(socket.IPPROTO_IPV6, FLOWINFO_SEND, 1)
        self.circuit.connect(("::1", port, LABEL, 0))
        self.server = ("::1", port)
        self.prepare()
        self.other = socket.create_connection(("127.0.0.1", ca_port))
        self.other_sid = self.channel(self.other)
        self.sends = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.identification = 0

    def hears(self, command):
        while True:
            head = self.circuit.recv(8, socket.MSG_WAITALL)
            size = struct.unpack("<I", head[4:])[0]
            payload = self.circuit.recv(size, socket.MSG_WAITALL) if size and not head[2] & 1 else b""
            if head[3] == command and not head[2] & 1:
                return payload

    def prepare(self):
        self.hears(1)
        who = b"\xfd\x01\0\x80\0\x02" + text(b"user") + b"\x60" + text(b"host") + b"\x60" + text(b"real")
        self.circuit.sendall(pva(1, struct.pack("<IHH", 0x4400, 0x7FFF, 0) + text(b"ca") + who + text(b"realhost")))
        self.hears(9)
        self.circuit.sendall(pva(7, struct.pack("<HI", 1, 1) + text(self.pv.encode())))
        self.sid = struct.unpack("<I", self.hears(7)[4:8])[0]
        self.circuit.sendall(pva(11, struct.pack("<IIB", self.sid, 7, 8) + b"\x80\0\0"))
        self.hears(11)

    def of(self, value):
        return pva(11, struct.pack("<IIB", self.sid, 7, 0) + b"\x01\x02" + struct.pack("<q", value))

    def send(
        self,
        payload,
        at=0,
        cut=(0, None),
        fill=None,
        flags=PSH | ACK,
        ack=0,
        stamp=0,
        stamps=True,
        options=b"",
        bad=False,
        short=0,
        headers=(),
        pieces=(),
    ):
        """`headers`: between IPv6's and TCP's, with kinds. `pieces`: fragments, from and to, or with other bytes."""
        payload = (payload if fill is None else self.of(fill))[slice(*cut)]
        if stamps and self.watched.stamps:
            value, echo = self.watched.stamps
            options += struct.pack("!BBBBII", 1, 1, 8, 10, (value + stamp) & 0xFFFFFFFF, echo)
        options += bytes([1] * (-len(options) % 4))
        source, destination = self.circuit.getsockname(), self.server
        addresses = socket.inet_pton(socket.AF_INET6, "::1") * 2
        sequence = (self.watched.next + at) & 0xFFFFFFFF
        acknowledged = (self.watched.acknowledged + ack) & 0xFFFFFFFF if flags & ACK else 0
        offset = (5 + len(options) // 4) << 4
        urgent = 4 if flags & URG else 0
        tcp = struct.pack(
            "!HHIIBBHHH", source[1], destination[1], sequence, acknowledged, offset, flags, 512, 0, urgent
        )
        tcp += options + payload
        total = checksum(addresses + struct.pack("!IxxxB", len(tcp), socket.IPPROTO_TCP) + tcp)
        tcp = tcp[:16] + struct.pack("!H", total ^ (0x5555 if bad else 0)) + tcp[18:]
        kinds = [kind for kind, _ in headers] + [socket.IPPROTO_TCP]
        rest = b"".join(bytes([kind]) + body for kind, (_, body) in zip(kinds[1:], headers)) + tcp
        if not pieces:
            self.packet(kinds[0], rest, addresses, short)
            return
        self.identification += 1
        for first, last, *other in pieces:
            last = len(rest) if last is None else last
            more = last < len(rest)
            head = struct.pack("!BxHI", kinds[0], first | more, self.identification)
            piece = bytes(other[0] for _ in range(last - first)) if other else rest[first:last]
            self.packet(FRAGMENT, head + piece, addresses, 0)

    def packet(self, kind, rest, addresses, short):
        ip = struct.pack("!IHBB", 6 << 28 | LABEL, len(rest) + short, kind, 63) + addresses
        self.sends.sendto(bytes(12) + b"\x86\xdd" + ip + rest, ("lo", 0x86DD))


# Options that fill eight bytes; of a kind that nobody knows, to be passed over, or to make the receiver drop it all.
PADDED = b"\0\x01\x04" + bytes(4)
PASSED_OVER, REFUSED = b"\0\x1e\x04" + bytes(4), b"\0\x5e\x04" + bytes(4)
TWICE = b"\x01\x01\x0c" + bytes(12)
AT_ITS_END, UNDER_WAY = b"\0\x04\0" + bytes(4), b"\0\x04\x01" + bytes(4)
# a fragment that is all there is
WHOLE = struct.pack("!xHI", 0, 99)

KINDS = {name: kind for name, kind in injected.KINDS.items() if not name.startswith("ip-")}
# the value is at another place in a put of PVAccess: 19 bytes before it, 8 of it
for name, kind in {
    "replaced-later": [{"at": 19, "cut": (19, 23), "fill": 77777}, {"at": 19, "cut": (19, 27)}, {"cut": (0, 19)}],
    "covered-later": [{"at": 19, "cut": (19, 27), "fill": 77777}, {"cut": (0, 27)}],
    "overlapped-before": [
        {"at": 19, "cut": (19, 27), "fill": 77777},
        {"at": 8, "cut": (8, 27)},
        {"cut": (0, 8)},
    ],
    "within-later": [{"at": 8, "cut": (8, 27)}, {"at": 19, "cut": (19, 25), "fill": 77777}, {"cut": (0, 8)}],
    "repeated-inside": [{}, {"at": 19, "cut": (19, 27), "fill": 77777}],
    "hop-by-hop": [{"headers": [(HOP_BY_HOP, PADDED)]}],
    "destination": [{"headers": [(DESTINATION, PADDED)]}],
    "destination-of-16": [{"headers": [(DESTINATION, TWICE)]}],
    "both": [{"headers": [(HOP_BY_HOP, PADDED), (DESTINATION, PADDED)]}],
    "route-of-type-0": [{"headers": [(ROUTING, b"\0\0\0" + bytes(4))]}],
    "authenticated": [{"headers": [(AUTHENTICATION, b"\x04\0\0" + bytes(20))]}],
    "hop-by-hop-in-a-fragment": [{"headers": [(FRAGMENT, WHOLE), (HOP_BY_HOP, PADDED)]}],
    "nine-options": [{"headers": [(DESTINATION, b"\x02" + b"\x1e\0" * 9 + b"\x01\x02\0\0")]}],
    "eight-options": [{"headers": [(DESTINATION, b"\x02" + b"\x1e\0" * 8 + b"\x01\x04" + bytes(4))]}],
    "route-at-its-end": [{"headers": [(ROUTING, AT_ITS_END)]}],
    "route-under-way": [{"headers": [(ROUTING, UNDER_WAY)]}],
    "hop-by-hop-second": [{"headers": [(DESTINATION, PADDED), (HOP_BY_HOP, PADDED)]}],
    "hop-by-hop-twice": [{"headers": [(HOP_BY_HOP, PADDED), (HOP_BY_HOP, PADDED)]}],
    "option-passed-over": [{"headers": [(DESTINATION, PASSED_OVER)]}],
    "option-refused": [{"headers": [(DESTINATION, REFUSED)]}],
    "hop-option-passed-over": [{"headers": [(HOP_BY_HOP, PASSED_OVER)]}],
    "hop-option-refused": [{"headers": [(HOP_BY_HOP, REFUSED)]}],
    "option-too-long": [{"headers": [(DESTINATION, b"\0\x01\x14" + bytes(4))]}],
    "six-headers": [{"headers": [(DESTINATION, PADDED)] * 6}],
    "one-fragment": [{"pieces": [(0, None)]}],
    "fragments": [{"pieces": [(0, 40), (40, None)]}],
    "fragments-turned": [{"pieces": [(40, None), (0, 40)]}],
    "fragments-overlap": [{"pieces": [(0, 48), (40, 56, 1), (48, None)]}],
    "fragments-repeated": [{"pieces": [(0, 40), (0, 40), (40, None)]}],
    "fragments-behind-options": [{"headers": [(DESTINATION, PADDED)], "pieces": [(0, 48), (48, None)]}],
    "fragment-too-small": [{"pieces": [(0, 8), (8, None)]}],
}.items():
    KINDS[name] = kind


def main():
    injected.KINDS.clear()
    injected.KINDS.update(KINDS)
    injector = Injector(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
    port = injector.circuit.getsockname()[1]
    print(json.dumps({"address": f"[::1]:{port}", "kinds": list(KINDS)}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        print(json.dumps(getattr(injector, command.pop("do"))(**command)), flush=True)


if __name__ == "__main__":
    main()
