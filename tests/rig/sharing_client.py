"""A Channel Access client whose circuit several processes share.

    sharing_client.py PORT PV

Connects to 127.0.0.1:PORT and says "ready". Then each line of stdin is a command, after which
it says "done":

    put VALUE     a WRITE_NOTIFY to PV, until it is answered
    fork          a child that holds the circuit, too, until its parent ends; says its process id
"""

import ctypes
import os
import signal
import socket
import struct
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h
VERSION, CREATE, WRITE_NOTIFY, CLIENT_NAME, HOST_NAME = 0, 18, 19, 20, 21
DOUBLE = 6
CID = 7


def message(command, dbr=0, count=0, p1=0, p2=0, payload=b""):
    payload += bytes(-len(payload) % 8)
    return struct.pack(">HHHHII", command, len(payload), dbr, count, p1, p2) + payload


class Circuit:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))

    def read(self, length):
        data = b""
        while len(data) < length:
            more = self.socket.recv(length - len(data))
            if not more:
                sys.exit("the server has closed the circuit")
            data += more
        return data

    def wait(self, wanted):
        """The second parameter of the next such message."""
        while True:
            command, size, _, _, _, second = struct.unpack(">HHHHII", self.read(16))
            self.read(size)
            if command == wanted:
                return second

    def open(self, pv):
        self.socket.sendall(
            message(VERSION, 0, 13)
            + message(CLIENT_NAME, payload=b"sharer\0")
            + message(HOST_NAME, payload=b"console\0")
            + message(CREATE, 0, 0, CID, 13, pv.encode() + b"\0")
        )
        return self.wait(CREATE)


def main():
    circuit = Circuit(int(sys.argv[1]))
    sid = None
    print("ready", flush=True)
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "fork":
            child = os.fork()
            if child == 0:
                ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
                signal.pause()
            print(child, flush=True)
        elif word == "put":
            sid = circuit.open(sys.argv[2]) if sid is None else sid
            value = struct.pack(">d", float(rest[0]))
            circuit.socket.sendall(message(WRITE_NOTIFY, DOUBLE, 1, sid, 1, value))
            circuit.wait(WRITE_NOTIFY)
        print("done", flush=True)


if __name__ == "__main__":
    main()
