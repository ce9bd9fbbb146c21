"""A network that has nothing but loopback, for this process and all that it starts.

    private_net.py COMMAND [ARGUMENT...]

What is served in it can't be reached from outside, and no port of the machine can be in the way.
Needs root. Plain ctypes, because neither iproute2 nor Python 3.12's os.unshare can be counted on.
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys

CLONE_NEWNET = 0x40000000  # linux/sched.h
SIOCSIFFLAGS = 0x8914  # linux/sockios.h
IFF_UP = 1  # linux/if.h


def enter():
    """Moves this thread, and what it starts from now on, into a network of its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        sys.exit(f"no network of its own: {os.strerror(ctypes.get_errno())}; run it as root")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        # struct ifreq: 16 bytes of name, then the flags in a union of 24 bytes.
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", IFF_UP))


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: private_net.py COMMAND [ARGUMENT...]")
    enter()
    try:
        os.execvp(sys.argv[1], sys.argv[1:])
    except OSError as error:
        sys.exit(f"private_net.py: {sys.argv[1]}: {error.strerror}")


if __name__ == "__main__":
    main()
