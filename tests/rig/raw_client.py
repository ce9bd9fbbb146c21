"""A Channel Access client that says what it is told to, byte by byte, and nothing else.

    raw_client.py PORT

Commands on stdin, one JSON object per line; each is answered with a line of JSON on stdout.

    {"do": "search", "name": PV, "seconds": N}     asks for a name ten times a second, over UDP
    {"do": "storm", "names": N, "seconds": S}      asks for so many names, each once, one in each datagram
    {"do": "open", "create": [PV, ...], "priority": N}
                                                   a circuit with these channels, once all are answered; "user": NAME
                                                   who says to be, "port": N from this port
    {"do": "off", "seconds": N}                    EVENTS_OFF, and EVENTS_ON after that time
    {"do": "stall", "pv": PV, "count": N}          a circuit with a small receive buffer that subscribes to so
                                                   many doubles, and then reads nothing; "also": a second PV
    {"do": "read", "seconds": N}                   reads what came and comes in that time
    {"do": "monitor", "pvs": [PV, ...], "counts": [N, ...]}
                                                   a circuit that subscribes to so many doubles of each, and reads
                                                   updates from then on
    {"do": "cancel", "pv": PV}                     ends a subscription, and waits for the answer
    {"do": "updates"}                              waits until nothing comes for a second; how many updates came of
                                                   each, and their bytes; and all bytes that came on the circuit
    {"do": "send", "fields": [COMMAND, DBR, COUNT, P1, P2, TEXT], "until": [COMMAND, ...]}
                                                   sends a message, and reads until one of these commands comes;
                                                   "bare": true, without a NUL behind the text
    {"do": "send_all", "messages": [[COMMAND, DBR, COUNT, P1, P2, TEXT], ...], "until": [COMMAND, ...]}
                                                   the same with several messages, which leave in one piece
    {"do": "get", "cid": CID, "count": N}          so many gets of a double of that channel, one after the other
    {"do": "tell", "port": N, "messages": [[...]]} sends these to that UDP port of this machine, one in each datagram
    {"do": "close", "reset": true|false}           closes the circuit by FIN, or breaks it off by RST
"""

import json
import os
import socket
import struct
import sys
import threading
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
        self.bytes = 0

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

    def open(self, create, priority, user="raw", port=0):
        self.circuit = socket.socket()
        self.circuit.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.circuit.bind(("127.0.0.1", port))
        self.circuit.connect(self.server)
        self.bytes = 0
        hello = message(0, priority, 13) + message(20, payload=user.encode() + b"\0")
        hello += message(21, payload=b"rawhost\0")
        asked = b"".join(message(18, p1=cid, p2=13, payload=name.encode() + b"\0") for cid, name in enumerate(create))
        self.circuit.sendall(hello + asked)
        answers = []
        self.sids = {}
        while len(answers) < len(create):
            (command, _, _, cid, sid), _ = self.until([18, 26])
            answers.append(command)
            if command == 18:
                self.sids[cid] = sid
        return {"answers": answers, "circuit": address_of(self.circuit), "sids": list(self.sids.values())}

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

    def receive(self):
        """The next message: header and payload, and its bytes on the wire."""
        head = self.circuit.recv(16, socket.MSG_WAITALL)
        if len(head) < 16:
            return None
        command, size, dbr, count, p1, p2 = struct.unpack(">HHHHII", head)
        length = 16
        if size == 0xFFFF:
            size, count = struct.unpack(">II", self.circuit.recv(8, socket.MSG_WAITALL))
            length = 24
        payload = self.circuit.recv(size, socket.MSG_WAITALL) if size else b""
        self.bytes += length + size
        return (command, dbr, count, p1, p2), payload, length + size

    def until(self, commands):
        """Reads until one of these commands comes; zeroes if the server closes the circuit."""
        while (found := self.receive()) is not None:
            if found[0][0] in commands:
                return found[:2]
        return (0,) * 5, b""

    def monitor(self, pvs, counts):
        self.open(pvs, 0)
        mask = struct.pack(">fffHH", 0, 0, 0, 1, 0)
        self.came = {pv: [0, 0] for pv in pvs}
        self.numbers = {100 + cid: pv for cid, pv in enumerate(pvs)}
        self.last = time.monotonic()
        self.ended = set()
        threading.Thread(target=self.watch, daemon=True).start()
        for number, count in enumerate(counts[: len(pvs)]):
            self.circuit.sendall(message(1, 6, count, self.sids[number], 100 + number, mask))
        return {"circuit": address_of(self.circuit)}

    def watch(self):
        while (found := self.receive()) is not None:
            (command, _, _, status, number), payload, length = found
            if command != 1:
                continue
            if not payload:
                self.ended.add(number)
            elif status == 1:
                came = self.came[self.numbers[number]]
                came[0] += 1
                came[1] += length
                self.last = time.monotonic()

    def cancel(self, pv):
        number, cid = next((number, number - 100) for number, name in self.numbers.items() if name == pv)
        self.circuit.sendall(message(2, 6, 1, self.sids[cid], number))
        while number not in self.ended:
            time.sleep(0.01)
        return {}

    def updates(self):
        while time.monotonic() - self.last < 1:
            time.sleep(0.05)
        return {"came": self.came, "bytes": self.bytes}

    def send(self, fields, until, bare=False):
        *numbers, text = fields
        self.circuit.sendall(message(*numbers, text.encode() + bytes(bool(text) and not bare)))
        return {"answer": self.until(until)[0] if until else None}

    def send_all(self, messages, until):
        self.circuit.sendall(b"".join(message(*head, text.encode() + bytes(bool(text))) for *head, text in messages))
        return {"answer": self.until(until)[0]}

    def get(self, cid, count):
        for number in range(count):
            self.circuit.sendall(message(15, 6, 1, self.sids[cid], number))
            self.until([15])
        return {}

    def tell(self, port, messages):
        for *numbers, text in messages:
            self.asks.sendto(message(*numbers, text.encode() + bytes(bool(text))), ("127.0.0.1", port))
            time.sleep(0.05)
        return {}

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
