"""A softIoc from PyPI's epicscorelibs, on loopback only.

    ioc.py NAME PORT DATABASE [--macros M] [--find PORT,...]

Serves the records of DATABASE over Channel Access on TCP and UDP PORT; --find says on which other
ports its own CA links look for their targets. Prints "ready" on stdout once it serves, then carries
out each line of stdin as an iocsh command and prints "done" after it. Ends, with the EPICS exit
handlers, when stdin ends.
"""

import argparse
import ctypes
import os
import sys


def environment(name, port, find):
    """The environment that keeps an IOC on loopback; IOC is where it says its name."""
    local = "127.0.0.1"
    return {
        "IOC": name,
        "EPICS_CAS_SERVER_PORT": str(port),
        "EPICS_CAS_INTF_ADDR_LIST": local,
        "EPICS_CAS_BEACON_ADDR_LIST": local,
        "EPICS_CAS_AUTO_BEACON_ADDR_LIST": "NO",
        "EPICS_CA_SERVER_PORT": str(port),
        "EPICS_CA_ADDR_LIST": " ".join(f"{local}:{p}" for p in [port, *find]),
        "EPICS_CA_AUTO_ADDR_LIST": "NO",
        "EPICS_CA_MAX_ARRAY_BYTES": "10000000",
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("port", type=int)
    parser.add_argument("database")
    parser.add_argument("--macros", default="")
    parser.add_argument("--find", default=[], type=lambda text: [int(p) for p in text.split(",")])
    args = parser.parse_args()

    wanted = environment(args.name, args.port, args.find)
    if any(os.environ.get(key) != value for key, value in wanted.items()):
        # Started anew, so that the environment is the process's own from its first moment, as it is
        # for an IOC that a start-up service runs.
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **wanted})

    import epicscorelibs.ioc as softioc

    softioc.start_ioc(args.database, args.macros)
    # iocsh commands write through C's stdio.
    libc = ctypes.CDLL(None)
    print("ready", flush=True)
    for line in sys.stdin:
        softioc.ioc(line.rstrip("\n"))
        libc.fflush(None)
        print("done", flush=True)


if __name__ == "__main__":
    main()
