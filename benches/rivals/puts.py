"""What records puts beside us, and we: one class each, so that benches/putlog treats all alike.

`found` of each gives what it has of the puts, in their order: (PV, value as text or number, user); None for what it
does not know.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time

from loaded import disk_bytes, family
from processes import Recorder, program, shared_library, start, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
LOG_PORT = 7011
DOUBLE_BYTES = 8


class Nobody:
    name = "nobody"

    def __init__(self, _bench, _pid, _directory):
        pass

    @staticmethod
    def missing(_args):
        """Why it is not measured."""
        return None

    def pids(self):
        return []

    def stop(self):
        pass

    # The file, and the command that lists its puts.
    output = command = None

    def found(self):
        return []


class Iocrec(Nobody):
    """Everything: packets, and what the puts set off in the IOC."""

    name = "iocrec record"

    def __init__(self, _bench, pid, directory):
        self.output = os.path.join(directory, "log")
        self.recorder = self.start(pid)
        # The packet tier says nothing when it begins.
        time.sleep(2)
        self.command = [program("iocreplay"), "puts", self.output, "--format", "jsonl"]

    def start(self, pid):
        return Recorder(self.output, [pid])

    def pids(self):
        return family(self.recorder.pid)

    def stop(self):
        self.recorder.stop()

    def found(self):
        for line in listed(self.command):
            put = json.loads(line)
            yield put["pv"], put["requested"], put["user"]


class IocrecPackets(Iocrec):
    name = "iocrec record --tier packet"

    def start(self, pid):
        return Recorder(self.output, [], "--tier", "packet", "--pid", str(pid))


class CaPutLog(Nobody):
    """In the IOC, every put without filter (level 2); its lines go to a file by way of a socket, as to iocLogServer."""

    name = "caPutLog, level 2"
    # It keeps the last put for this long, in seconds; by default 5.
    burst = 0.5
    line = re.compile(rb"^\S+ \S+ (\S+) (\S+) (\S+) new=(\S+) old=")

    @staticmethod
    def missing(args):
        return None if args.caputlog else "name its library with --caputlog"

    def __init__(self, bench, _pid, directory):
        self.output = os.path.join(directory, "caputlog.txt")
        self.server = start([sys.executable, os.path.join(HERE, "lines.py"), str(LOG_PORT), self.output])
        wait_until("the server of lines", lambda: os.path.exists(self.output))
        bench.ioc.command(f"caPutLogInit 127.0.0.1:{LOG_PORT} 2 {self.burst}")
        self.command = ["cat", self.output]
        self.bench = bench

    def pids(self):
        return [self.server.pid]

    def stop(self):
        # It sends what it has when it is told so, or after a while.
        self.bench.ioc.command(f"caPutLogReconf 2 {self.burst}")
        time.sleep(1)
        self.server.send_signal(signal.SIGTERM)
        self.server.wait()

    def found(self):
        for line in listed(self.command):
            known = self.line.match(line)
            if known:
                _, user, pv, value = known.groups()
                yield pv.decode(), float(value), user.decode()


class Tcpdump(Nobody):
    """Whole packets; tshark lists those that begin with a WRITE_NOTIFY to the server, without a decoder."""

    name = "tcpdump; tshark"
    fields = ["tcp.payload"]
    options = ()

    def __init__(self, bench, _pid, directory):
        self.output = os.path.join(directory, "puts.pcap")
        command = ["tcpdump", "-q", "-i", "lo", "-s", "0", "-B", "65536", "-Z", "root", "-w", self.output]
        self.process = start(
            [*command, "tcp", "port", str(bench.PORT)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_until("tcpdump", lambda: os.path.exists(self.output))
        time.sleep(1)
        fields = [option for field in ["frame.time_epoch", "ip.src", *self.fields] for option in ("-e", field)]
        wanted = self.filter(bench.PORT)
        self.command = ["tshark", "-r", self.output, *self.lua(bench), "-Y", wanted, "-T", "fields", *fields]

    @staticmethod
    def lua(_bench):
        return []

    @staticmethod
    def filter(port):
        return f"tcp.dstport == {port} && tcp.payload[0:2] == 00:13"

    def pids(self):
        return [self.process.pid]

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()

    def found(self):
        for _ in listed(self.command):
            yield None, None, None


class Cashark(Tcpdump):
    """The same with a decoder for Channel Access, which has no table from a server's number of a channel to its PV."""

    name = "tcpdump; tshark with cashark"
    fields = ["ca.pv", "ca.sid", "ca.data.value"]

    @staticmethod
    def missing(args):
        return None if args.cashark else "name its ca.lua with --cashark"

    @staticmethod
    def lua(bench):
        return ["-X", f"lua_script:{bench.args.cashark}"]

    @staticmethod
    def filter(port):
        return f"tcp.dstport == {port} && ca.command == 19"

    def found(self):
        for line in listed(self.command):
            _, _, pv, _, value = line.rstrip(b"\n").split(b"\t")
            yield pv.decode() or None, float(value) if value else None, None


def listed(command):
    """The lines that a reader prints."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return done.stdout.splitlines()


def size(output):
    return disk_bytes(output) if os.path.isdir(output) else os.stat(output).st_size


def caputlog_routines(directory):
    """The library that brings caPutLog into the IOC."""
    return shared_library(os.path.join(HERE, "caputlog.c"), directory, "-ldl")
