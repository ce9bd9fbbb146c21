"""A softIoc with a record whose value is ahead of its alarm for most of the time.

    slow_ioc.py NAME PORT DATABASE [--epics VERSION]

Serves the records of DATABASE, and TORN:SLOW: a sub record, scanned ten times a second, that is in MAJOR alarm at 1 and
not at 0. Its routine writes one of the two in turn and then takes HOLD seconds, during which the record is locked but
not active (PACT 0). Prints "ready" once it serves; exits at the end of stdin.
"""

import argparse
import ctypes
import sys
import tempfile
import time

from ioc import Libraries, environment, expect_zero, restart_with

HOLD = 0.07
RECORD = """
record(sub, "TORN:SLOW") {
    field(SNAM, "slow")
    field(SCAN, ".1 second")
    field(HIGH, "1")
    field(HSV, "MAJOR")
}
"""
ROUTINE = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_void_p)


class Slow:
    """The routine. It finds VAL by a DBADDR, whose second member is the field's address."""

    def __init__(self, libraries):
        self.libraries = libraries
        self.value = None
        self.routine = ROUTINE(self.run)
        libraries.core.registryFunctionAdd(b"slow", self.routine)

    def run(self, _record):
        if self.value is None:
            address = (ctypes.c_void_p * 32)()
            expect_zero("TORN:SLOW", self.libraries.core.dbNameToAddr(b"TORN:SLOW", address))
            self.value = ctypes.c_double.from_address(address[1])
        self.value.value = 1.0 - self.value.value
        time.sleep(HOLD)
        return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("port", type=int)
    parser.add_argument("database")
    parser.add_argument("--epics", metavar="VERSION")
    args = parser.parse_args()

    restart_with(environment(args.name, args.port, []))
    libraries = Libraries(args.epics)
    slow = Slow(libraries)
    with tempfile.NamedTemporaryFile("w", suffix=".db") as file, open(args.database, encoding="ascii") as database:
        file.write(database.read() + RECORD)
        file.flush()
        libraries.start(file.name, "", None, None)
    print("ready", flush=True)
    sys.stdin.read()
    libraries.stop()
    del slow


if __name__ == "__main__":
    main()
