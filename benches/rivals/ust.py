"""LTTng-UST. It has no tracepoints in EPICS Base and cannot enter a process that runs: an IOC is started with a library
(interposer.c) whose functions stand before those of Base. LTTng's own way into functions (`lttng enable-event --kernel
--userspace-probe`) needs its kernel modules."""

import ctypes
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from loaded import HITS, disk_bytes, family, library
from processes import start, wait_until

from . import Watcher

HERE = os.path.dirname(os.path.abspath(__file__))
SOCKETS = "/run/lttng"
SESSION = "iocrec-bench"
# 8 MiB a CPU, as perf and bpftrace have.
BUFFERS = ["--subbuf-size", "1M", "--num-subbuf", "8"]


class Preloaded(Watcher):
    """The library alone, without anybody who records: what an IOC pays that is prepared for LTTng."""

    name = "LTTng-UST, preloaded and idle"
    tools = {"lttng": "lttng-tools", "babeltrace2": "babeltrace2", "gcc": "build-essential"}
    # The load's own call of dbPutField does not go through the table of linkage.
    hits = HITS - 1
    own_ioc = True

    @classmethod
    def missing(cls):
        headers = glob.glob("/usr/include/lttng/tracepoint.h") + glob.glob("/usr/include/*/lttng/tracepoint.h")
        return super().missing() + ([] if headers else ["liblttng-ust-dev"])

    @classmethod
    def environment(cls, directory):
        private_sockets()
        return {"LD_PRELOAD": interposer(directory), "BENCH_LIBRARY": library()}


class Ust(Preloaded):
    name = "LTTng-UST, interposer"

    def __init__(self, load, directory):
        self.output = os.path.join(directory, "lttng")
        shutil.rmtree(self.output, ignore_errors=True)
        self.daemon = daemon(directory)
        lttng("create", SESSION, "--output", self.output)
        lttng("enable-channel", "--userspace", "--session", SESSION, *BUFFERS, "hits")
        lttng("enable-event", "--userspace", "--session", SESSION, "--channel", "hits", "ioc:*")
        lttng("add-context", "--userspace", "--session", SESSION, "--channel", "hits", "--type", "vtid")
        lttng("start", SESSION)

    def pids(self):
        return family(self.daemon.pid)

    def stop(self):
        lttng("stop", SESSION)
        self.discarded = sum(map(int, re.findall(r"Discarded events: (\d+)", lttng("list", SESSION))))
        lttng("destroy", SESSION)
        self.daemon.send_signal(signal.SIGTERM)
        self.daemon.wait()

    def outcome(self, _result):
        return {"hits": events(self.output), "bytes": disk_bytes(self.output), "told": self.discarded}


def interposer(directory):
    """Compiles it, once."""
    path = os.path.join(directory, "libinterposer.so")
    if not os.path.exists(path):
        source = os.path.join(HERE, "interposer.c")
        command = ["gcc", "-O2", "-shared", "-fPIC", f"-I{HERE}", "-o", path, source, "-llttng-ust", "-ldl"]
        subprocess.run(command, check=True)
    return path


def private_sockets():
    """LTTng's daemon for root has its sockets in one place; here it is another one, so that it meets nobody else's."""
    # The benches have mounts of their own already (tracefs.py).
    os.makedirs(SOCKETS, exist_ok=True)
    if not os.path.ismount(SOCKETS) and ctypes.CDLL(None).mount(b"none", SOCKETS.encode(), b"tmpfs", 0, None) != 0:
        sys.exit(f"no tmpfs on {SOCKETS}")


def daemon(directory):
    os.environ["LTTNG_HOME"] = directory
    process = start(["lttng-sessiond", "--no-kernel"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    command = ["lttng", "--no-sessiond", "list"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": False}
    wait_until("LTTng's daemon answers", lambda: subprocess.run(command, **quiet).returncode == 0)
    # An IOC that was there before it hears of it within a moment.
    time.sleep(1)
    return process


def lttng(*arguments):
    done = subprocess.run(
        ["lttng", "--no-sessiond", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"lttng {' '.join(arguments)}: {done.stdout.strip()}")
    return done.stdout


def events(trace):
    """How many babeltrace2 finds in a trace."""
    # Each time it prints its counts, the sum so far.
    command = ["babeltrace2", trace, "--component", "sink.utils.counter", "--params", "step=+0"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return int(re.findall(r"(\d+) Event messages?", done.stdout)[-1])
