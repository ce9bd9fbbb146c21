"""A Channel Access client that says what it is told to, byte by byte, and nothing else.

    raw_client.py PORT

Commands on stdin, one JSON object per line; each is answered with a line of JSON on stdout.

    {"do": "search", "name": PV, "seconds": N}     asks for a name ten times a second, over UDP
    {"do": "storm", "names": N, "seconds": S}      asks for so many names, each once, one in each datagram
    {"do": "open", "create": [PV, ...], "priority": N}
                                                   a circuit with these channels, once all are answered
    {"do": "off", "seconds": N}                    EVENTS_OFF, and EVENTS_ON after that time
    {"do": "stall", "pv": PV, "count": N}          a circuit with a small receive buffer that subscribes to so
                                                   many doubles, and then reads nothing; "also": a second PV
    {"do": "read", "seconds": N}                   reads what came and comes in that time
    {"do": "close", "reset": true|false}           closes the circuit by FIN, or breaks it off by RST
"""

import json
import os
import socket
import struct
import sys
import time


def message(command, dbr=0, count=0, p1=0, p2=0, payload=b""):
    payload += bytes(-len(payload) % 8)
    return struct.pack(">HHHHII", command, len(payload), dbr, count, p1, p2) + payload


def search(cid, name):
    return message(6, 5, 13, cid, cid, name.encode() + b"\0")


def address_of(socket_):
    """Address and port of a socket."""
    host, port = socket_.getsockname()
    return f"{host}:{port}"


class Client:
    def __init__(self, port):
        self.server = ("127.0.0.1", port)
        self.asks = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.asks.bind(("127.0.0.1", 0))
        self.circuit = None

    def search(self, name, seconds):
        end = time.monotonic() + seconds
        count = 0
        while time.monotonic() < end:
            self.asks.sendto(message(0, 0, 13) + search(7, name), self.server)
            count += 1
            time.sleep(0.1)
        return {"count": count}

    def storm(self, names, seconds):
        begin = time.monotonic()
        for number in range(names):
            self.asks.sendto(search(number, f"STORM:{number}"), self.server)
            ahead = begin + seconds * number / names - time.monotonic()
            if ahead > 0.002:
                time.sleep(ahead)
        return {"took": time.monotonic() - begin}

    def open(self, create, priority):
        self.circuit = socket.create_connection(self.server)
        hello = message(0, priority, 13) + message(20, payload=b"raw\0") + message(21, payload=b"rawhost\0")
        asked = b"".join(message(18, p1=cid, p2=13, payload=name.encode() + b"\0") for cid, name in enumerate(create))
        self.circuit.sendall(hello + asked)
        answers = []
        while len(answers) < len(create):
            head = self.circuit.recv(16, socket.MSG_WAITALL)
            command, size = struct.unpack(">HH", head[:4])
            self.circuit.recv(size, socket.MSG_WAITALL)
            if command in (18, 26):
                answers.append(command)
        return {"answers": answers}

    def off(self, seconds):
        self.circuit.sendall(message(8))
        time.sleep(seconds)
        self.circuit.sendall(message(9))
        return {}

    def stall(self, pv, count, also=None):
        self.circuit = socket.socket()
        self.circuit.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.circuit.connect(self.server)
        self.circuit.sendall(message(0, 0, 13) + message(20, payload=b"raw\0") + message(21, payload=b"rawhost\0"))
        wanted = [(pv, count)] + ([(also, 1)] if also else [])
        sids = []
        for cid, (name, _) in enumerate(wanted):
            self.circuit.sendall(message(18, p1=cid, p2=13, payload=name.encode() + b"\0"))
            while len(sids) <= cid:
                head = self.circuit.recv(16, socket.MSG_WAITALL)
                command, size, _, _, _, p2 = struct.unpack(">HHHHII", head)
                self.circuit.recv(size, socket.MSG_WAITALL)
                if command == 18:
                    sids.append(p2)
        # values of changes (mask 1) of the whole array
        mask = struct.pack(">fffHH", 0, 0, 0, 1, 0)
        for number, (_, elements) in enumerate(wanted):
            self.circuit.sendall(message(1, 6, elements, sids[number], 1 + number, mask))
        host, port = self.circuit.getsockname()
        return {"circuit": f"{host}:{port}"}

    def read(self, seconds):
        end = time.monotonic() + seconds
        self.circuit.settimeout(0.1)
        count = 0
        while time.monotonic() < end:
            try:
                count += len(self.circuit.recv(1 << 20))
            except TimeoutError:
                pass
        return {"count": count}

    def close(self, reset):
        if reset:
            self.circuit.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.circuit.close()
        return {}


def main():
    client = Client(int(sys.argv[1]))
    print(json.dumps({"address": address_of(client.asks), "pid": os.getpid()}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        answer = getattr(client, command.pop("do"))(**command)
        print(json.dumps({**answer, "address": address_of(client.asks)}), flush=True)


if __name__ == "__main__":
    main()
