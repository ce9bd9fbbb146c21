"""Captures the packets of the loopback interface into a pcap file, as tcpdump -i lo -w FILE does.

    capture.py FILE      - is standard output, where each packet is written at once

Prints "ready" when it captures (not with -), and ends at SIGTERM.
"""

import signal
import socket
import struct
import sys
import time

ETH_P_ALL = 3  # linux/if_ether.h
SO_RCVBUFFORCE = 33  # asm-generic/socket.h
ETHERNET = 1  # https://www.tcpdump.org/linktypes.html


def main():
    path = sys.argv[1]
    out = sys.stdout.buffer if path == "-" else open(path, "wb")
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    packets.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
    packets.bind(("lo", ETH_P_ALL))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    # times in nanoseconds
    out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, ETHERNET))
    out.flush()
    if path != "-":
        print("ready", flush=True)
    try:
        while True:
            packet, (_, _, kind, *_) = packets.recvfrom(1 << 18)
            if kind == socket.PACKET_OUTGOING:
                continue  # each comes twice
            seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
            out.write(struct.pack("<IIII", seconds, nanoseconds, len(packet), len(packet)) + packet)
            if path == "-":
                out.flush()
    except BrokenPipeError:
        pass
    finally:
        try:
            out.close()
        except BrokenPipeError:
            pass


if __name__ == "__main__":
    main()
