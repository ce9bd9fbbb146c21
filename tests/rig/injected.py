"""Somebody who reads a circuit along, and sends segments into it that have the right sequence numbers.

    injected.py PORT PV

A client of its own puts longs (DBR_LONG) to PV over a circuit, and the same program injects. Commands on stdin, one
JSON object per line; each is answered with a line of JSON that has the PV's value in the IOC at that time (`took`).

    {"do": "put", "value": N}                      the client puts; with "asks": false nobody asks for the value
    {"do": "ask"}                                  asks for it
    {"do": "inject", "kind": KIND, "value": N}     a put in the place of the client's next one
    {"do": "part", "value": N, "bytes": N}         the client sends so many bytes of a put
    {"do": "close", "reset": true|false}           the client closes the circuit, or breaks it off (SO_LINGER 0)

KINDS has what is odd about an injected segment. Needs root.
"""

import json
import socket
import struct
import sys
import threading
import time

FIN, SYN, RST, PSH, ACK, URG = 1, 2, 4, 8, 16, 32
OUTGOING = 4  # linux/if_packet.h: PACKET_OUTGOING
HEADER = 16
WRITE, WRITE_NOTIFY = 4, 19


def message(command, dbr=0, count=0, p1=0, p2=0, payload=b""):
    payload += bytes(-len(payload) % 8)
    return struct.pack(">HHHHII", command, len(payload), dbr, count, p1, p2) + payload


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


class Watched:
    """What the ends of a circuit have sent: sequence numbers and time stamps, as a packet socket sees them."""

    def __init__(self, client):
        self.client = client
        self.next, self.acknowledged, self.stamps = 0, 0, None
        self.change = threading.Condition()
        self.packets = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
        self.packets.bind(("lo", 0x0800))
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        while True:
            packet, address = self.packets.recvfrom(1 << 17)
            if address[2] == OUTGOING or packet[9] != socket.IPPROTO_TCP:
                continue
            tcp = packet[(packet[0] & 15) * 4 :]
            source, _, sequence, acknowledged, offset, flags = struct.unpack("!HHIIBB", tcp[:14])
            # what is injected has another hop limit
            if source != self.client or packet[8] != 64:
                continue
            length = struct.unpack("!H", packet[2:4])[0] - (packet[0] & 15) * 4 - (offset >> 4) * 4
            stamps = tcp[20 : (offset >> 4) * 4].find(b"\1\1\x08\x0a")
            with self.change:
                self.next = (sequence + length + bool(flags & (SYN | FIN))) & 0xFFFFFFFF
                self.acknowledged = acknowledged
                if stamps >= 0:
                    self.stamps = struct.unpack("!II", tcp[24 + stamps : 32 + stamps])
                self.change.notify_all()


class Injector:
    command = WRITE

    def __init__(self, port, pv):
        self.pv = pv
        self.server = ("127.0.0.1", port)
        self.circuit = socket.socket()
        self.circuit.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.circuit.bind(("127.0.0.1", 0))
        self.watched = Watched(self.circuit.getsockname()[1])
        self.circuit.connect(self.server)
        self.sid = self.channel(self.circuit)
        self.other = socket.create_connection(self.server)
        self.other_sid = self.channel(self.other)
        self.sends = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)

    def channel(self, circuit):
        hello = message(0, 0, 13) + message(20, payload=b"real\0") + message(21, payload=b"realhost\0")
        circuit.sendall(hello + message(18, p1=1, p2=13, payload=self.pv.encode() + b"\0"))
        return self.answer(circuit, 18)[1]

    def answer(self, circuit, command):
        while True:
            head = circuit.recv(HEADER, socket.MSG_WAITALL)
            found, size, _, _, _, p2 = struct.unpack(">HHHHII", head)
            payload = circuit.recv(size, socket.MSG_WAITALL) if size else b""
            if found == command:
                return payload, p2

    def took(self):
        """The value that the IOC has."""
        self.other.sendall(message(15, 5, 1, self.other_sid, 1))
        return struct.unpack(">i", self.answer(self.other, 15)[0][:4])[0]

    def of(self, value):
        return message(self.command, 5, 1, self.sid, 1, struct.pack(">i", value))

    def put(self, value, asks=True):
        self.circuit.sendall(self.of(value))
        return self.settle(asks)

    def part(self, value, bytes):
        self.circuit.sendall(self.of(value)[:bytes])
        return self.settle()

    def ask(self):
        return self.settle()

    def settle(self, asks=True):
        time.sleep(0.1)
        return {"took": self.took() if asks else 0}

    def inject(self, kind, value):
        if kind.endswith("answered"):
            self.command = WRITE_NOTIFY
        payload = self.of(value)
        for change in KINDS[kind]:
            self.send(payload, **change)
        return self.settle()

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
        bad_ip=False,
        short=0,
        ip_options=b"",
    ):
        """`at`: distance from the next sequence number; `cut`: the payload's part; `fill`: a value instead."""
        payload = (payload if fill is None else self.of(fill))[slice(*cut)]
        if stamps and self.watched.stamps:
            value, echo = self.watched.stamps
            options += struct.pack("!BBBBII", 1, 1, 8, 10, (value + stamp) & 0xFFFFFFFF, echo)
        options += bytes([1] * (-len(options) % 4))
        source, destination = self.circuit.getsockname(), self.server
        addresses = socket.inet_aton(source[0]) + socket.inet_aton(destination[0])
        sequence = (self.watched.next + at) & 0xFFFFFFFF
        acknowledged = (self.watched.acknowledged + ack) & 0xFFFFFFFF if flags & ACK else 0
        offset = (5 + len(options) // 4) << 4
        urgent = 4 if flags & URG else 0
        tcp = struct.pack(
            "!HHIIBBHHH", source[1], destination[1], sequence, acknowledged, offset, flags, 512, 0, urgent
        )
        tcp += options + payload
        total = checksum(addresses + struct.pack("!HH", socket.IPPROTO_TCP, len(tcp)) + tcp)
        tcp = tcp[:16] + struct.pack("!H", total ^ (0x5555 if bad else 0)) + tcp[18:]
        words = 5 + len(ip_options) // 4
        length = words * 4 + len(tcp) + short
        ip = struct.pack("!BBHHHBBH", 0x40 | words, 0, length, 1, 0x4000, 63, socket.IPPROTO_TCP, 0)
        total = checksum(ip + addresses + ip_options) ^ (0x5555 if bad_ip else 0)
        ip = ip[:10] + struct.pack("!H", total) + addresses + ip_options
        self.sends.sendto(bytes(12) + b"\x08\0" + ip + tcp, ("lo", 0x0800))

    def close(self, reset, asks=True):
        if reset:
            self.circuit.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.circuit.close()
        return self.settle(asks)


# Each a list of segments: what is odd about each.
KINDS = {
    "plain": [{}],
    "checksum": [{"bad": True}],
    "ip-checksum": [{"bad_ip": True}],
    "ip-nothing": [{"ip_options": b"\1\1\1\0"}],
    "ip-router-alert": [{"ip_options": b"\x94\4\0\0"}],
    "ip-record-route": [{"ip_options": b"\7\7\4" + bytes(5)}],
    "ip-record-route-cut": [{"ip_options": b"\7\xff\4\0"}],
    "ip-source-route": [{"ip_options": b"\x83\3\4\0"}],
    "ip-unknown": [{"ip_options": b"\x9e\4\0\0"}],
    "ip-security": [{"ip_options": b"\x86\4\0\0"}],
    "no-ack": [{"flags": PSH}],
    "future-ack": [{"ack": 1 << 24}],
    # the client's own puts from then on, too
    "future-ack-answered": [{"ack": 1 << 24}],
    "old-ack": [{"ack": -(1 << 28)}],
    "old-stamp": [{"stamp": -5000}],
    "no-stamp": [{"stamps": False}],
    "syn": [{"flags": SYN | ACK}],
    "urgent": [{"flags": PSH | ACK | URG}],
    "longer-than-it-is": [{"short": 400}],
    "md5": [{"options": bytes([19, 18]) + bytes(16)}],
    # out of order, and the first 8 bytes last: the value is in the second half
    "replaced-later": [
        {"at": 16, "cut": (16, 20), "fill": 77777},
        {"at": 16, "cut": (16, 24)},
        {"cut": (0, 16)},
    ],
    "covered-later": [{"at": 16, "cut": (16, 24), "fill": 77777}, {"cut": (0, 24)}],
    "overlapped-before": [
        {"at": 16, "cut": (16, 24), "fill": 77777},
        {"at": 8, "cut": (8, 24)},
        {"cut": (0, 8)},
    ],
    "within-later": [{"at": 8, "cut": (8, 24)}, {"at": 16, "cut": (16, 20), "fill": 77777}, {"cut": (0, 8)}],
    "repeated-other": [{}, {"fill": 77777}],
    "repeated-inside": [{}, {"at": 16, "cut": (16, 24), "fill": 77777}],
}


def take_from_outside():
    """Lets this network's loopback take packets that come as if from outside."""
    for word in "route_localnet", "accept_local":
        with open(f"/proc/sys/net/ipv4/conf/lo/{word}", "w") as setting:
            setting.write("1")


def main():
    take_from_outside()
    injector = Injector(int(sys.argv[1]), sys.argv[2])
    host, port = injector.circuit.getsockname()
    print(json.dumps({"address": f"{host}:{port}", "kinds": list(KINDS)}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        print(json.dumps(getattr(injector, command.pop("do"))(**command)), flush=True)


if __name__ == "__main__":
    main()
