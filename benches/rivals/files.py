"""What recorders leave in files, for the benchmarks of bytes and of reading.

All record one IOC at the same time, from when they are made until `stop`. `output` is the file, or a directory, and
`count` how many hits or puts are in it.
"""

import os
import shutil
import signal
import subprocess
import sys
import time

from loaded import library
from processes import Ioc, start, wait_until

from .probes import bpftrace_script, end_bpftrace, offset, uprobe_events
from .ust import Ust, events

PORT = 5064
# The payload's first two bytes are the command: CA_PROTO_WRITE, CA_PROTO_WRITE_NOTIFY.
WRITES = f"tcp.dstport == {PORT} && (tcp.payload[0:2] == 00:04 || tcp.payload[0:2] == 00:13)"
# Debian's names of what it needs.
TOOLS = {
    "perf": "linux-perf",
    "bpftrace": "bpftrace",
    "tcpdump": "tcpdump",
    "tshark": "tshark",
    "zstd": "zstd",
    "babeltrace2": "babeltrace2",
}


class Perf:
    """perf record, with entry probes that fetch what iocrec's hits carry, as far as it can."""

    name = "perf record"
    probes = {
        "dbProcess": "name=+0(%di):string sp=%sp",
        "recGblFwdLink": "name=+0(%di):string sp=%sp value=+688(%di):u64 sevr=+412(%di):u16 stat=+410(%di):u16",
    }

    def __init__(self, pid, directory):
        self.output = os.path.join(directory, "perf.data")
        # By address: by name, perf probe also takes the stub in the linkage table, and counts each call twice.
        uprobe_events(
            f"p:iocrec_size/{function} {library()}:{offset(function)} {fetch}"
            for function, fetch in self.probes.items()
        )
        command = ["perf", "record", "-q", "-e", "iocrec_size:*", "-p", str(pid), "-m", "4096", "-o", self.output]
        self.process = start(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(2)
        if self.process.poll() is not None:
            self.failed = self.process.stderr.read().strip().splitlines()[-1:]
            print(f"perf record did not work: {self.failed}", file=sys.stderr)

    def count(self):
        """Hits that it recorded."""
        script = subprocess.run(["perf", "script", "-F", "time", "-i", self.output], capture_output=True, check=False)
        return script.stdout.count(b"\n")

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait()
        uprobe_events(f"-:iocrec_size/{function}" for function in self.probes)


class PerfCtf:
    """What `perf data convert` makes of that when it has ended. Stands after Perf wherever both stand."""

    name = "perf record, as CTF"

    def __init__(self, _pid, directory):
        self.source, self.output = os.path.join(directory, "perf.data"), os.path.join(directory, "perf-ctf")
        shutil.rmtree(self.output, ignore_errors=True)

    def stop(self):
        command = ["perf", "data", "convert", "--to-ctf", self.output, "-i", self.source]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0 or not os.path.exists(self.output):
            # Not every perf is built with it.
            print(f"perf data convert did not work: {done.stdout.strip().splitlines()[-1:]}", file=sys.stderr)

    def count(self):
        """Hits that it recorded."""
        return events(self.output) if os.path.exists(self.output) else 0


class Lttng:
    """LTTng-UST, in an IOC that is `prepared` for it."""

    name = "LTTng-UST, CTF"

    def __init__(self, _pid, directory):
        self.ust = Ust(None, directory)
        self.output = self.ust.output

    def stop(self):
        self.ust.stop()

    def count(self):
        """Hits that it recorded; those of dbPut too, of which there is one in a chain."""
        return events(self.output)


class Bpftrace:
    """bpftrace, printing what benches/run prints."""

    name = "bpftrace, text"

    def __init__(self, pid, directory):
        self.output = os.path.join(directory, "bpftrace.txt")
        script = bpftrace_script(pid)
        environment = {**os.environ, "BPFTRACE_PERF_RB_PAGES": "2048", "BPFTRACE_STRLEN": "61"}
        command = ["bpftrace", "-B", "line", "-p", str(pid), "-o", self.output, "-e", script]
        self.process = start(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        wait_until("bpftrace attaches", lambda: os.path.exists(self.output) and os.stat(self.output).st_size > 0)

    def count(self):
        """Hits that it recorded."""
        with open(self.output, "rb") as file:
            return sum(line[:2] in (b"P ", b"F ") for line in file)

    def stop(self):
        end_bpftrace(self.process)


class Tcpdump:
    """tcpdump of the server's port: whole packets, since a put's value is at the end."""

    name = "tcpdump, pcap"

    def __init__(self, _pid, directory):
        self.output = os.path.join(directory, "put.pcap")
        command = ["tcpdump", "-q", "-i", "lo", "-s", "0", "-B", "65536", "-Z", "root", "-w", self.output]
        command += ["tcp", "port", str(PORT)]
        self.process = start(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1)

    def count(self):
        """Puts that it recorded; every put of this load is a packet."""
        done = subprocess.run(["tshark", "-r", self.output, "-Y", WRITES], capture_output=True, check=True)
        return done.stdout.count(b"\n")

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()


class Dumpcap(Tcpdump):
    """The same in Wireshark's own format."""

    name = "dumpcap, pcapng"

    def __init__(self, _pid, directory):
        self.output = os.path.join(directory, "put.pcapng")
        command = ["dumpcap", "-q", "-i", "lo", "-B", "64", "-w", self.output, "-f", f"tcp port {PORT}"]
        self.process = start(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1)


def prepared(directory):
    """The environment of an IOC that LTTng can record, if it is there."""
    return {} if Ust.missing() else Ust.environment(directory)


def tracers():
    return [Perf, PerfCtf, *([] if Ust.missing() else [Lttng]), Bpftrace]


def prepared_ioc(name, database, directory):
    """An IOC that LTTng can record, if it is there."""
    before = dict(os.environ)
    os.environ.update(prepared(directory))
    ioc = Ioc(name, PORT, database)
    for key in os.environ.keys() - before.keys():
        del os.environ[key]
    return ioc


def packed(path):
    """Bytes that `zstd -19` makes of a file, or of a directory in one piece."""
    if not os.path.exists(path):
        return None
    if not os.path.isdir(path):
        return len(subprocess.run(["zstd", "-19", "-q", "-c", path], stdout=subprocess.PIPE, check=True).stdout)
    tar = subprocess.run(["tar", "-C", path, "-cf", "-", "."], stdout=subprocess.PIPE, check=True).stdout
    return len(subprocess.run(["zstd", "-19", "-q", "-c"], input=tar, stdout=subprocess.PIPE, check=True).stdout)


def file_bytes(path):
    """Bytes of a file, or of all files of a directory."""
    if not os.path.isdir(path):
        return os.stat(path).st_size
    return sum(os.stat(os.path.join(at, name)).st_size for at, _, names in os.walk(path) for name in names)
