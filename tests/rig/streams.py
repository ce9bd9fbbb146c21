"""A Channel Access client on circuits of odd TCP, and what an IOC made of it.

    streams.py PORT PV WAVE

Puts longs (DBR_LONG) to PV, and arrays of characters to WAVE. Commands on stdin, one JSON object per line; each is
answered with a line of JSON: `address` of the circuit, and `value` that the IOC has then.

    {"do": "fast_open", "values": [N, ...]}        opens a circuit with its first messages within the SYN (RFC 7413)
    {"do": "wrap", "ahead": N, "values": [...]}    a circuit whose client's sequence numbers begin N before 2^32
    {"do": "wrap_server", "within": N}             a circuit whose server's sequence numbers begin less than N before
                                                   2^32, which takes some thousand tries; `ahead` is by how much
    {"do": "put", "values": [N, ...]}              puts on the circuit at hand, each with an answer, one after the other
    {"do": "fill", "first": N, "count": N}         puts without answer, as fast as may be; `sent` are those that went
                                                   before 3 s had passed without progress
    {"do": "rest"}                                 sends what is left of them, and waits for the IOC
    {"do": "read", "count": N}                     reads the array so often: a multiple of 500

Needs root.
"""

import json
import select
import socket
import struct
import sys
import time

TCP_REPAIR, TCP_REPAIR_QUEUE, TCP_QUEUE_SEQ = 19, 20, 21  # linux/tcp.h
NO_QUEUE, RECEIVES, SENDS = 0, 1, 2
ON, OFF_WITHOUT_PROBE = 1, -1
FAST_OPEN = 0x20000000  # MSG_FASTOPEN
TOGETHER = 500  # requests that are sent at once


def message(command, dbr=0, count=0, p1=0, p2=0, payload=b""):
    payload += bytes(-len(payload) % 8)
    return struct.pack(">HHHHII", command, len(payload), dbr, count, p1, p2) + payload


def repair(circuit, queue, sequence=None):
    """The next sequence number of a queue, or sets it."""
    circuit.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, ON)
    circuit.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR_QUEUE, queue)
    if sequence is None:
        raw = circuit.getsockopt(socket.IPPROTO_TCP, TCP_QUEUE_SEQ, 4)
        sequence = struct.unpack("I", raw)[0]
    else:
        circuit.setsockopt(socket.IPPROTO_TCP, TCP_QUEUE_SEQ, struct.pack("I", sequence))
    circuit.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR_QUEUE, NO_QUEUE)
    circuit.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, OFF_WITHOUT_PROBE)
    return sequence


class Client:
    def __init__(self, port, pv, wave):
        self.server, self.pv, self.wave = ("127.0.0.1", port), pv, wave
        self.circuit, self.ioid = None, 0

    def hello(self):
        names = message(0, 0, 13) + message(20, payload=b"odd\0") + message(21, payload=b"oddhost\0")
        for cid, name in enumerate([self.pv, self.wave]):
            names += message(18, p1=cid, p2=13, payload=name.encode() + b"\0")
        return names

    def begin(self, circuit, says_hello=True):
        self.circuit = circuit
        circuit.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if says_hello:
            circuit.sendall(self.hello())
        self.sid, self.wave_sid = self.answer(18)[1], self.answer(18)[1]

    def answer(self, command):
        while True:
            found, size, _, count, p1, p2 = struct.unpack(">HHHHII", self.circuit.recv(16, socket.MSG_WAITALL))
            if size == 0xFFFF:
                size, count = struct.unpack(">II", self.circuit.recv(8, socket.MSG_WAITALL))
            payload = self.circuit.recv(size, socket.MSG_WAITALL) if size else b""
            if found == command:
                return p1, p2, payload

    def told(self, **more):
        host, port = self.circuit.getsockname()
        self.circuit.sendall(message(15, 5, 1, self.sid, 1))
        value = struct.unpack(">i", self.answer(15)[2][:4])[0]
        return {"address": f"{host}:{port}", "value": value, **more}

    def put(self, values):
        for value in values:
            self.ioid += 1
            self.circuit.sendall(message(19, 5, 1, self.sid, self.ioid, struct.pack(">i", value)))
            self.answer(19)
        return self.told()

    def fast_open(self, values):
        circuit = socket.socket()
        circuit.sendto(self.hello(), FAST_OPEN, self.server)
        self.begin(circuit, says_hello=False)
        # TCPI_OPT_SYN_DATA: the server took what was in the SYN
        info = circuit.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)
        self.put(values)
        return self.told(in_syn=bool(info[5] & 32))

    def wrap(self, ahead, values):
        circuit = socket.socket()
        # so that the IOC's window closes soon
        circuit.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)
        repair(circuit, SENDS, (1 << 32) - ahead)
        circuit.connect(self.server)
        before = repair(circuit, SENDS)
        self.begin(circuit)
        self.put(values)
        return self.told(before=before, after=repair(circuit, SENDS))

    def wrap_server(self, within):
        for tries in range(1, 40000):
            circuit = socket.create_connection(self.server)
            ahead = (1 << 32) - repair(circuit, RECEIVES)
            if ahead < within:
                self.begin(circuit)
                return self.told(ahead=ahead, tries=tries)
            circuit.close()
            # without a pause this is a flood of openings, which other tests are about
            time.sleep(0.1 if tries % 100 == 0 else 0)
        raise RuntimeError("no such number in 40,000 tries")

    def fill(self, first, count):
        puts = b"".join(message(4, 5, 1, self.sid, 0, struct.pack(">i", first + n)) for n in range(count))
        self.circuit.setblocking(False)
        sent = 0
        while sent < len(puts):
            if not select.select([], [self.circuit], [], 3)[1]:
                break
            sent += self.circuit.send(puts[sent : sent + (1 << 20)])
        self.circuit.setblocking(True)
        self.left = puts[sent:]
        return {"sent": sent // 24, "left": len(self.left)}

    def rest(self):
        self.circuit.sendall(self.left)
        return self.told()

    def read(self, count):
        size = 0
        # one by one they would be a flood of packets, which is not what this is about
        for _ in range(count // TOGETHER):
            self.circuit.sendall(message(15, 4, 0, self.wave_sid, 2) * TOGETHER)
            size += sum(len(self.answer(15)[2]) for _ in range(TOGETHER))
        return self.told(size=size, next=repair(self.circuit, RECEIVES))


def main():
    client = Client(int(sys.argv[1]), sys.argv[2], sys.argv[3])
    print("ready", flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        print(json.dumps(getattr(client, command.pop("do"))(**command)), flush=True)


if __name__ == "__main__":
    main()
