"""A softIoc from PyPI's epicscorelibs, on loopback only.

    ioc.py NAME PORT DATABASE [--macros M] [--find PORT,...] [--epics VERSION] [--pva qsrv|pvxs]
           [--access FILE] [--address A] [--six] [--reach A,...] [--routines LIBRARY] [--web]

Serves the records of DATABASE over Channel Access on TCP and UDP PORT. Prints "ready" on stdout once it serves, then
carries out each line of stdin as an iocsh command and prints "done" after it. Exits at the end of stdin, after the
EPICS exit handlers.

--find     other ports where its CA and PVA links look for their targets
--epics    another version of epicscorelibs than that of the virtual environment: a directory of its epics/, where
           scripts/setup puts them
--pva      serves PVAccess as well, on PORT+1000 (UDP: PORT+2000)
--access   an access security file
--address  the address to serve on, instead of 127.0.0.1
--six      serves PVAccess over IPv6 as well, on ::1 (pvxs)
--reach    further addresses where its CA links look
--routines a library with subroutines for its records (routines.c)
--web      listens on PORT+3000 as well, as a web server does
"""

import argparse
import ctypes
import glob
import importlib.util
import os
import socket
import sys

RECORD_LIBRARIES = ["Com", "ca", "dbCore", "dbRecStd"]
# What serves PVAccess: libraries of which package, database definitions.
PVA = {
    "qsrv": ("epicscorelibs", ["pvAccessIOC", "qsrv"], ["PVAServerRegister.dbd", "qsrv.dbd"]),
    "pvxs": ("pvxslibs", ["pvxsIoc"], ["pvxsIoc.dbd"]),
}


class Libraries:
    """An IOC of the shared libraries of an epicscorelibs, of whatever version.

    Loaded by our own hand: what the packages' Python code does differs between versions, and those of
    old versions are for old Pythons.
    """

    def __init__(self, version):
        if version:
            self.packages = os.path.join(sys.prefix, "epics", version)
        else:
            origin = importlib.util.find_spec("epicscorelibs").origin
            self.packages = os.path.dirname(os.path.dirname(origin))
        libraries = {name: self.load("epicscorelibs", name) for name in RECORD_LIBRARIES}
        self.com, self.core = libraries["Com"], libraries["dbCore"]
        self.standard = libraries["dbRecStd"]

    def load(self, package, name):
        # The full name, as other libraries ask for it: the wheel has each file twice.
        (path,) = glob.glob(os.path.join(self.packages, package, "lib", f"lib{name}.so.*"))
        return ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)

    def load_records(self, database, macros, pva):
        definitions = [("epicscorelibs", "base.dbd")]
        if pva:
            package, names, files = PVA[pva]
            for name in names:
                self.load(package, name)
            definitions += [(package, file) for file in files]
        self.core.iocshRegisterCommon()
        for package, file in definitions:
            path = os.path.join(self.packages, package, "dbd")
            expect_zero(f"load {file}", self.core.dbLoadDatabase(file.encode(), path.encode(), None))
        pdbbase = ctypes.c_void_p.in_dll(self.core, "pdbbase")
        try:
            register = self.core.registerAllRecordDeviceDrivers
        except AttributeError:  # before 7.0.4
            register = self.core.dynamic_registerRecordDeviceDriver
        expect_zero("register record types", register(pdbbase))
        expect_zero(f"load {database}", self.core.dbLoadRecords(database.encode(), macros.encode()))

    def start(self, database, macros, pva, access, routines=None):
        self.load_records(database, macros, pva)
        if routines:
            ctypes.CDLL(routines).register_routines()
        if access:
            expect_zero(f"load {access}", self.core.asSetFilename(access.encode()))
        expect_zero("start", self.core.iocInit())

    def shell(self, command):
        self.com.iocshCmd(command.encode())

    def stop(self):
        self.com.epicsExitCallAtExits()


def expect_zero(what, status):
    if status:
        sys.exit(f"ioc.py: {what}: status {status}")


def environment(name, port, find, local="127.0.0.1", reach=()):
    """The environment that keeps an IOC on one address; IOC is where it says its name."""
    return {
        "IOC": name,
        "EPICS_CAS_SERVER_PORT": str(port),
        "EPICS_CAS_INTF_ADDR_LIST": local,
        "EPICS_CAS_BEACON_ADDR_LIST": local,
        "EPICS_CAS_AUTO_BEACON_ADDR_LIST": "NO",
        "EPICS_CA_SERVER_PORT": str(port),
        "EPICS_CA_ADDR_LIST": " ".join(f"{a}:{p}" for a in [local, *reach] for p in [port, *find]),
        "EPICS_CA_AUTO_ADDR_LIST": "NO",
        "EPICS_CA_MAX_ARRAY_BYTES": "10000000",
        "EPICS_PVAS_INTF_ADDR_LIST": local,
        "EPICS_PVAS_BEACON_ADDR_LIST": local,
        "EPICS_PVAS_AUTO_BEACON_ADDR_LIST": "NO",
        "EPICS_PVAS_SERVER_PORT": str(port + 1000),
        "EPICS_PVAS_BROADCAST_PORT": str(port + 2000),
        "EPICS_PVA_ADDR_LIST": " ".join(f"{a}:{p + 2000}" for a in [local, *reach] for p in [port, *find]),
        "EPICS_PVA_AUTO_ADDR_LIST": "NO",
        "EPICS_PVA_BROADCAST_PORT": str(port + 2000),
        "PVXS_QSRV_ENABLE": "YES",
    }


def restart_with(wanted):
    """Starts this program anew, so that the environment is the process's own from its first moment,
    as it is for an IOC that a start-up service runs."""
    if any(os.environ.get(key) != value for key, value in wanted.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **wanted})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("port", type=int)
    parser.add_argument("database")
    parser.add_argument("--macros", default="")
    parser.add_argument("--find", default=[], type=lambda text: [int(p) for p in text.split(",")])
    parser.add_argument("--epics", metavar="VERSION")
    parser.add_argument("--pva", choices=PVA)
    parser.add_argument("--access", metavar="FILE")
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--six", action="store_true")
    parser.add_argument("--reach", default=[], type=lambda text: text.split(","))
    parser.add_argument("--routines", metavar="LIBRARY")
    parser.add_argument("--web", action="store_true")
    args = parser.parse_args()

    wanted = environment(args.name, args.port, args.find, args.address, args.reach)
    if args.six:
        wanted["EPICS_PVAS_INTF_ADDR_LIST"] += " ::1"
    restart_with(wanted)
    # held, not used: nobody asks there
    _web = socket.create_server((args.address, args.port + 3000)) if args.web else None
    libraries = Libraries(args.epics)
    libraries.start(args.database, args.macros, args.pva, args.access, args.routines)
    # iocsh commands write through C's stdio.
    libc = ctypes.CDLL(None)
    print("ready", flush=True)
    for line in sys.stdin:
        libraries.shell(line.rstrip("\n"))
        libc.fflush(None)
        print("done", flush=True)
    libraries.stop()


if __name__ == "__main__":
    main()
